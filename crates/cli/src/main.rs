//! The command-line tool `patchpoint`: shows what LLVM left in an object file to be patched, and
//! patches it.
//!
//! The way of the data for `inspect`, which reads any file: [`object_file`] reads it, [`relocate`]
//! fills in what a linker would, [`symbols`] knows names and ends of functions, [`tables`] reads
//! what is no stack map, [`report`] puts together what is to be said, and [`text`] and [`json`] say
//! it; [`llvm`] prints the unrelocated section as `llvm-readobj` does.
//!
//! The other commands see code as the engine does: [`shapes`] knows what stack maps do not hold, of
//! which [`ir`] tells most and the user the rest ([`told`]), [`image`] places the code, [`survey`]
//! lets the library audit it; then [`sites`], [`check`] and [`plan`] say what came of it, for any
//! architecture, and [`run`] executes it on this one. [`link`] is about several files, and about
//! all code in them.
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        reason = "a default in place of what cannot be missing hides a broken invariant"
    )
)]

mod args;
mod call;
mod check;
mod disassemble;
mod image;
mod ir;
mod json;
mod link;
mod llvm;
mod names;
mod number;
mod object_file;
mod paint;
mod plan;
mod problem;
mod progress;
mod relocate;
mod report;
mod run;
mod shapes;
mod site;
mod sites;
mod survey;
mod symbols;
mod tables;
mod tables_text;
#[cfg(test)]
mod tests;
mod text;
mod told;
mod words;

use std::borrow::Cow;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Args, Command, Format, Inspect};
use object_file::ObjectFile;
use paint::Paint;
use problem::Problem;
use report::Report;
use tables::Tables;

/// How a command ended that could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Fine,
    /// `check` found something, `plan` was refused, or a check of `link` does not hold.
    Found,
    /// The program that was run ended with this status.
    Ended(u8),
}

fn main() -> ExitCode {
    let command = Args::parse().command;
    let paint = Paint::for_stdout();
    let done = run_command(&command, paint).and_then(|(output, outcome)| print(&output).map(|()| outcome));
    match done {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Found) => ExitCode::FAILURE,
        Ok(Outcome::Ended(status)) => ExitCode::from(status),
        Err(problem) => {
            let file = problem.file().map_or_else(|| command.file(), Cow::Borrowed);
            // Where not even this can be written, the exit status is all that is left.
            let _ = writeln!(io::stderr(), "patchpoint: {file}: {problem}");
            if command.is_json() {
                let value = serde_json::json!({ "file": file, "error": problem.to_string() });
                let _ = json::print(&value).and_then(|text| print(&text));
            }
            ExitCode::from(problem.status())
        }
    }
}

/// What is to be printed.
fn run_command(command: &Command, paint: Paint) -> Result<(String, Outcome), Problem> {
    if let Command::Completions(completions) = command {
        let mut out = Vec::new();
        clap_complete::generate(completions.shell, &mut Args::command(), "patchpoint", &mut out);
        return Ok((String::from_utf8_lossy(&out).into_owned(), Outcome::Fine));
    }
    if let Command::Link(link) = command {
        return link::render(link, paint);
    }
    let data = fs::read(&*command.file()).map_err(Problem::Read)?;
    if ir::is_bitcode(&data) {
        return Err(Problem::BitcodeObject);
    }
    let found = |(output, found)| (output, if found { Outcome::Found } else { Outcome::Fine });
    let fine = |output| (output, Outcome::Fine);
    match command {
        Command::Inspect(inspect) => render(inspect, &data, paint).map(fine),
        Command::Sites(sites) => sites::render(sites, &data, paint).map(fine),
        Command::Plan(plan) => plan::render(plan, &data, paint).map(found),
        Command::Check(check) => check::render(check, &data, paint).map(found),
        Command::Run(run) => run::render(run, &data, paint).map(fine),
        Command::Link(_) | Command::Completions(_) => Ok(fine(String::new())),
    }
}

/// What is to be printed of a file with these bytes.
fn render(inspect: &Inspect, data: &[u8], paint: Paint) -> Result<String, Problem> {
    let file = ObjectFile::parse(data)?;
    if inspect.format == Format::Llvm {
        return llvm::render(&inspect.file, &file);
    }
    let tables = Tables::of(data, &file, &inspect.pc_section)?;
    let report = Report::of(inspect, &file, tables)?;
    match inspect.format {
        Format::Json => json::render(&report),
        _ => Ok(text::render(&report, paint)),
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
