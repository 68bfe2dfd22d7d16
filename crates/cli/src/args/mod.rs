//! What the command line says. Each command with options of its own has a file.

use clap::{Parser, Subcommand, ValueEnum};

use crate::number::record_id;
use crate::told::ToldShape;

mod check;
mod inspect;
mod link;
mod plan;
mod run;

pub(crate) use check::Check;
pub(crate) use inspect::{Format, Inspect};
#[cfg(test)]
pub(crate) use inspect::{Reserved, VersionTwoArg};
pub(crate) use link::Link;
pub(crate) use plan::Plan;
pub(crate) use run::{Argument, Arguments, Run, Symbol};

/// Shows what LLVM left in compiled code to be patched, and patches it.
#[derive(Parser)]
#[command(
    name = "patchpoint",
    version,
    after_help = "\
Examples:
  patchpoint inspect get.o
  patchpoint sites get.o --ir get.ll
  patchpoint plan get.o --ir get.ll --id 78 --seq 'result = u64[arg(0)+24]'
  patchpoint check get.o --ir get.ll --format json
  patchpoint run get.o --ir get.ll --call get --args '[0,0x17,0,1234]' \\
      --only-after --patch '78=result = u64[arg(0)+24]'
  patchpoint link main.o list.o --args one two
  patchpoint inspect libgets.a --demangle
  llc -filetype=obj get.ll -o - | patchpoint sites - --ir get.ll

More in patchpoint COMMAND --help. Output is in colours on a terminal, unless NO_COLOR is set. What cannot be done is said in \
one line on the standard error stream, and with --format json printed as {file, error}, too. The exit status is 2 where a file or an \
argument cannot be read, and 1 where something was found or is refused."
)]
pub(crate) struct Args {
    /// Prints names as the source has them: of C++ and of Rust
    #[arg(long, global = true)]
    pub(crate) demangle: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Inspect(Inspect),
    Sites(Sites),
    Plan(Plan),
    Check(Check),
    Run(Run),
    Link(Link),
    Completions(Completions),
}

impl Command {
    /// Whether a program reads what is printed.
    pub(crate) fn is_json(&self) -> bool {
        let format = match self {
            Self::Inspect(inspect) => return inspect.format == Format::Json,
            Self::Sites(sites) => sites.code.known.format,
            Self::Plan(plan) => plan.code.known.format,
            Self::Check(check) => check.code.known.format,
            Self::Run(run) => run.known.format,
            Self::Link(link) => link.format,
            Self::Completions(_) => return false,
        };
        format == Output::Json
    }
}

/// Files with code, and what is known of their records.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct CodeArgs {
    /// Object files, programs, shared objects, archives, universal files of Mach-O; - is the standard
    /// input
    #[arg(required_unless_present = "pid", value_name = "FILE")]
    pub(crate) files: Vec<String>,

    /// A process that runs, in place of files: those that it executes and that have stack maps, at
    /// its addresses, with what its memory holds now. Nothing is written there
    #[arg(long, value_name = "PROCESS", conflicts_with = "files")]
    pub(crate) pid: Option<u32>,

    /// Says of each record the place in the source, where the file has debug information (DWARF)
    #[arg(long)]
    pub(crate) lines: bool,

    #[command(flatten)]
    pub(crate) known: KnownArgs,
}

/// What is known of records.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct KnownArgs {
    /// What the IR says of the records with an ID: kind, reserved bytes, result, arguments. Stack
    /// maps do not hold it. Words are separated by commas: 7=anyreg,32,result,args=1 or 8=c,40 or
    /// 9=shadow,16; 10=24 for the number of bytes alone; 11=none for records that are not to be
    /// patched; get:7=24 in the function get alone; * for all other IDs. May be given again
    #[arg(long, value_name = "ID=SHAPE")]
    pub(crate) shape: Vec<ToldShape>,

    /// A file with lines of ID=SHAPE, as for --shape; # begins a comment. Of a record that is not
    /// there a line may be, as LLVM merges calls, but not every one
    #[arg(long, value_name = "FILE")]
    pub(crate) shapes: Vec<String>,

    /// The LLVM IR, as text, that the object was compiled from: its calls of patchpoint, stackmap
    /// and gc.statepoint tell the shapes. A record is matched to the calls of its function and of
    /// what may be inlined into it, by ID, kind, operands and, in functions of one block, order;
    /// where calls of several shapes are left it is refused. May be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) ir: Vec<String>,

    /// How to print
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) format: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For a person
    #[default]
    Text,
    /// For a program
    Json,
}

/// Prints what the engine would register, and what is wrong with the rest.
///
/// Each record's site, with its slack, live values and return offsets, and whether it can be
/// patched live. Nothing is executed, so the file may be for any architecture. A relocatable ELF
/// object is linked as the engine does it; other files are taken as they are, as code that
/// another loader has placed: programs, shared objects, and what a process has mapped.
#[derive(Parser, Clone)]
#[command(after_help = "\
Examples:
  patchpoint sites get.o
      lengths that are not told are inferred from LLVM's call and nops, where they leave no doubt
  patchpoint sites get.o --ir get.ll
      with the shapes of the IR
  patchpoint sites get.o --shape 78=anyreg,32,result,args=1 --shape 90=shadow,24
  patchpoint sites get.o --format json | jq '.sites[] | select(.state == \"refused\") | .why'
  patchpoint sites main.o libgets.a --lines --demangle
      members of an archive that have no stack map are passed over
  patchpoint sites --pid $(pidof get)
      a site that holds other bytes than the file is shown as it is now

Slack is the number of reserved bytes that hold nothing but nops. A return offset is a place to which a call that is in the \
site returns: once the code has run, a patch keeps it. The patchable jump is the one instruction that is exchanged when a site is \
patched live. Of live-outs, the registers that a function keeps for its caller are named by newer LLVMs only: they count as \
live unless the runtime trusts the list.

JSON: {file, format, architecture, how: loaded | linked | unlinked | running, process, faults: [text], sites: [{id, function, offset, address, \
state: registered | refused | no_length | no_site | statepoint, why, kind: patchpoint | shadow | patchpoint or shadow, convention: anyreg | c, reserved, \
reserved_source: told | recorded | inferred, result, args, holds: nops | call | instructions, target, target_name, slack, return_offsets: [offset], \
patchable_jump: {offset, length}, no_patchable_jump, locations, live_outs, callee_saved: {named, of}, source: [{function, file, line, column}], \
now: [{address, bytes, text, is_nop, refers_to}]}]}; locations and live_outs are as in `inspect`; process and now are of a process that \
runs, and now of sites that hold other bytes than its file; source is there with --lines, and what was inlined comes first. Of several \
files, an archive or a process it is a list of these.")]
pub(crate) struct Sites {
    #[command(flatten)]
    pub(crate) code: CodeArgs,
}

/// Prints what a shell needs to complete this tool's arguments.
#[derive(Parser, Clone)]
#[command(after_help = "\
Examples:
  patchpoint completions bash > ~/.local/share/bash-completion/completions/patchpoint
  patchpoint completions fish > ~/.config/fish/completions/patchpoint.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

fn parse_id(text: &str) -> Result<u64, String> {
    record_id(text).ok_or_else(|| "expected a number".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_of_the_arguments_is_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
