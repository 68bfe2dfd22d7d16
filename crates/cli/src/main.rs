//! The command-line tool `patchpoint`: shows what LLVM left in an object file to be patched, and
//! patches it.
//!
//! The way of the data for `inspect`, which reads any file: [`object_file`] reads it, [`relocate`]
//! fills in what a linker would, [`symbols`] knows names and ends of functions, [`tables`] reads
//! what is no stack map, [`report`] puts together what is to be said, and [`text`] and [`json`] say
//! it; [`llvm`] prints the unrelocated section as `llvm-readobj` does.
//!
//! [`files`] says what all commands read: files, members of archives, and what a [`process`] has
//! mapped. [`lines`] knows places in the source, [`demangle`] names in it.
//!
//! The other commands see code as the engine does: [`shapes`] knows what stack maps do not hold, of
//! which [`ir`] tells most and the user the rest ([`told`]), [`image`] places the code, [`survey`]
//! lets the library audit it; then [`sites`], [`check`] and [`plan`] say what came of it, for any
//! architecture, [`page`] as a page of HTML, [`baseline`] in comparison with another build, and [`run`] executes it on this one. [`link`] is about several files, and about
//! all code in them.
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        reason = "a default in place of what cannot be missing hides a broken invariant"
    )
)]

mod args;
mod baseline;
mod call;
mod check;
mod decompress;
mod demangle;
mod disassemble;
mod document;
mod files;
mod image;
mod ir;
mod json;
mod lines;
mod link;
mod llvm;
mod names;
mod number;
mod object_file;
mod page;
mod paint;
mod plan;
mod planned;
mod problem;
mod process;
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

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Args, CodeArgs, Command, Format, Inspect};
use files::{Gathered, Input, Printed};
use object_file::ObjectFile;
use paint::Paint;
use problem::Problem;
use report::Report;
use shapes::Shapes;

/// How a command ended that could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Fine,
    /// `check` found something, `plan` was refused, or a check of `link` does not hold.
    Found,
    /// The program that was run ended with this status.
    Ended(u8),
}

impl Outcome {
    /// The exit status.
    fn status(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Found => 1,
            Self::Ended(status) => status,
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let paint = Paint::for_stdout();
    let mut done = run_command(&args.command, paint, args.demangle);
    if let Err(problem) = print(&done.output) {
        done.problems.push(("the standard output".to_owned(), problem));
    }
    for (file, problem) in &done.problems {
        let line = format!("patchpoint: {file}: {problem}");
        let line = if args.demangle {
            demangle::text(&line)
        } else {
            line
        };
        // Where not even this can be written, the exit status is all that is left.
        let _ = writeln!(io::stderr(), "{line}");
        done.status = done.status.max(problem.status());
    }
    ExitCode::from(done.status)
}

/// What a command came to.
struct Done {
    output: String,
    problems: Vec<(String, Problem)>,
    /// The exit status, apart from the problems'.
    status: u8,
}

fn run_command(command: &Command, paint: Paint, demangle: bool) -> Done {
    match command {
        Command::Inspect(inspect) => {
            let one = |input: &Input<'_>| Ok((render(inspect, input, paint)?, Outcome::Fine));
            printed(files::each(&inspect.files, inspect.pid, one), command, demangle)
        }
        Command::Sites(sites) => with_shapes(command, &sites.code, demangle, |input, shapes| {
            Ok((sites::render(sites, input, shapes, paint)?, Outcome::Fine))
        }),
        Command::Plan(plan) => with_shapes(command, &plan.code, demangle, |input, shapes| {
            Ok(found(plan::render(plan, input, shapes, (paint, demangle))?))
        }),
        Command::Check(check) if !check.baseline.is_empty() => {
            printed(baseline::compare(check, paint), command, demangle)
        }
        Command::Check(check) => with_shapes(command, &check.code, demangle, |input, shapes| {
            Ok(found(check::render(check, input, shapes, paint)?))
        }),
        Command::Run(run) => {
            let one = |input: &Input<'_>| Ok((run::render(run, input, paint)?, Outcome::Fine));
            let file = [run.file.clone()];
            printed(files::each(&file, None, one), command, demangle)
        }
        Command::Link(link) => match link::render(link, paint) {
            Ok((output, outcome)) => Done {
                output: if demangle { demangle::text(&output) } else { output },
                problems: Vec::new(),
                status: outcome.status(),
            },
            Err(problem) => {
                let file = problem
                    .file()
                    .map_or_else(|| link.files.join(", "), str::to_owned);
                printed(Gathered::wrong(file, problem), command, demangle)
            }
        },
        Command::Completions(completions) => {
            let mut out = Vec::new();
            clap_complete::generate(completions.shell, &mut Args::command(), "patchpoint", &mut out);
            Done {
                output: String::from_utf8_lossy(&out).into_owned(),
                problems: Vec::new(),
                status: Outcome::Fine.status(),
            }
        }
    }
}

fn found<T>((printed, found): (T, bool)) -> (T, Outcome) {
    (printed, if found { Outcome::Found } else { Outcome::Fine })
}

/// Does the same with all files of a command that knows shapes.
fn with_shapes(
    command: &Command,
    code: &CodeArgs,
    demangle: bool,
    mut one: impl FnMut(&Input<'_>, &Shapes) -> Result<(Printed, Outcome), Problem>,
) -> Done {
    let files = code.files.join(", ");
    let shapes = match Shapes::read(&code.known) {
        Ok(shapes) => shapes,
        Err(problem) => return printed(Gathered::wrong(files, problem), command, demangle),
    };
    let mut gathered = files::each(&code.files, code.pid, |input| one(input, &shapes));
    // Of one file alone it has been said.
    if !gathered.is_alone {
        gathered
            .problems
            .extend(shapes.check_used().err().map(|problem| (files, problem)));
    }
    printed(gathered, command, demangle)
}

fn printed(mut gathered: Gathered<(Printed, Outcome)>, command: &Command, demangle: bool) -> Done {
    let status = gathered.items.iter().map(|(_, outcome)| outcome.status()).max();
    if demangle {
        gathered
            .items
            .iter_mut()
            .for_each(|(printed, _)| printed.demangle());
    }
    let printed = gathered.print(command.is_json());
    let mut problems = gathered.problems;
    let output = printed.unwrap_or_else(|problem| {
        problems.push(("the report".to_owned(), problem));
        String::new()
    });
    Done {
        output,
        problems,
        status: status.unwrap_or(Outcome::Fine.status()),
    }
}

/// What is to be printed of a file with these bytes.
fn render(inspect: &Inspect, input: &Input<'_>, paint: Paint) -> Result<Printed, Problem> {
    let file = ObjectFile::parse(input.data)?;
    if inspect.format == Format::Llvm {
        return Ok(Printed::AsIs(llvm::render(input.name, &file)?));
    }
    let report = Report::of(inspect, (input.name, input.data), &file, input.mapped)?;
    Ok(match inspect.format {
        Format::Json => Printed::Json(json::render(&report)),
        _ => Printed::Text(text::render(&report, paint)),
    })
}

fn print(output: &str) -> Result<(), Problem> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(output.as_bytes()).and_then(|()| stdout.flush()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Problem::Write),
    }
}
