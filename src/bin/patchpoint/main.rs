//! The command-line tool `patchpoint`: shows what LLVM left in an object file to be patched.
//!
//! The way of the data: [`object_file`] reads the file, [`relocate`] fills in what a linker would, [`symbols`]
//! knows names and ends of functions, [`report`] puts together what is to be said, and [`text`] and [`json`]
//! say it. [`llvm`] prints the unrelocated section as `llvm-readobj` does.

mod args;
mod disassemble;
mod json;
mod llvm;
mod object_file;
mod problem;
mod relocate;
mod report;
mod site;
mod symbols;
#[cfg(test)]
mod tests;
mod text;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command, Format, Inspect};
use object_file::ObjectFile;
use problem::Problem;
use report::Report;

fn main() -> ExitCode {
    let Command::Inspect(inspect) = Args::parse().command;
    let written = run(&inspect).and_then(|output| print(&output));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // Where not even this can be written, the exit status is all that is left.
            let _ = writeln!(io::stderr(), "patchpoint: {}: {problem}", inspect.file);
            ExitCode::FAILURE
        }
    }
}

fn run(inspect: &Inspect) -> Result<String, Problem> {
    let data = fs::read(&inspect.file).map_err(Problem::Read)?;
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    render(inspect, &data, colour)
}

/// What is to be printed of a file with these bytes.
fn render(inspect: &Inspect, data: &[u8], colour: bool) -> Result<String, Problem> {
    let file = ObjectFile::parse(data)?;
    if inspect.format == Format::Llvm {
        return llvm::render(&inspect.file, &file);
    }
    let report = Report::of(&inspect.file, &file, &inspect.reserved)?;
    match inspect.format {
        Format::Json => json::render(&report),
        _ => Ok(text::render(&report, colour)),
    }
}

fn print(output: &str) -> Result<(), Problem> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(output.as_bytes()).and_then(|()| stdout.flush()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Problem::Write),
    }
}
