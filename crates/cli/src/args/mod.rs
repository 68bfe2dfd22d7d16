use std::borrow::Cow;
use std::str::FromStr;

use clap::{Parser, Subcommand, ValueEnum};
use patchpoint::sequence::Sequence;
use patchpoint::stackmap::VersionTwo;
use patchpoint::stackmap::flat::Dialect;

use crate::call;
use crate::number::{number, record_id};
use crate::tables::PcSpec;
use crate::told::ToldShape;

mod link;

pub(crate) use link::Link;

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

More in patchpoint COMMAND --help. Output is in colours on a terminal, unless NO_COLOR is set. What cannot be done is said in \
one line on the standard error stream, and with --format json printed as {file, error}, too. The exit status is 2 where a file or an \
argument cannot be read, and 1 where something was found or is refused."
)]
pub(crate) struct Args {
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
    /// The file that it is about, or the files, for what goes wrong.
    pub(crate) fn file(&self) -> Cow<'_, str> {
        Cow::Borrowed(match self {
            Self::Inspect(inspect) => &inspect.file,
            Self::Sites(sites) => &sites.code.file,
            Self::Plan(plan) => &plan.code.file,
            Self::Check(check) => &check.code.file,
            Self::Run(run) => &run.code.file,
            Self::Link(link) => return Cow::Owned(link.files.join(", ")),
            Self::Completions(_) => "completions",
        })
    }

    /// Whether a program reads what is printed.
    pub(crate) fn is_json(&self) -> bool {
        let format = match self {
            Self::Inspect(inspect) => return inspect.format == Format::Json,
            Self::Sites(sites) => sites.code.format,
            Self::Plan(plan) => plan.code.format,
            Self::Check(check) => check.code.format,
            Self::Run(run) => run.code.format,
            Self::Link(link) => link.format,
            Self::Completions(_) => return false,
        };
        format == Output::Json
    }
}

/// A file with code, and what is known of its records.
#[derive(clap::Args, Clone)]
pub(crate) struct CodeArgs {
    /// The object file
    pub(crate) file: String,

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For a person
    Text,
    /// For a program
    Json,
}

/// Prints what the engine would register, and what is wrong with the rest.
///
/// Each record's site, with its slack, live values and return offsets, and whether it can be
/// patched live. Nothing is executed, so the file may be for any architecture. A relocatable ELF
/// object is linked as the engine does it; other files are taken as they are, as code that
/// another loader has placed.
#[derive(Parser, Clone)]
#[command(after_help = "\
Examples:
  patchpoint sites get.o
      lengths that are not told are inferred from LLVM's call and nops, where they leave no doubt
  patchpoint sites get.o --ir get.ll
      with the shapes of the IR
  patchpoint sites get.o --shape 78=anyreg,32,result,args=1 --shape 90=shadow,24
  patchpoint sites get.o --format json | jq '.sites[] | select(.state == \"refused\") | .why'

Slack is the number of reserved bytes that hold nothing but nops. A return offset is a place to which a call that is in the \
site returns: once the code has run, a patch keeps it. The patchable jump is the one instruction that is exchanged when a site is \
patched live. Of live-outs, the registers that a function keeps for its caller are named by newer LLVMs only: they count as \
live unless the runtime trusts the list.

JSON: {file, format, architecture, how: loaded | linked | unlinked, faults: [text], sites: [{id, function, offset, address, \
state: registered | refused | no_length | no_site | statepoint, why, kind: patchpoint | shadow | patchpoint or shadow, convention: anyreg | c, reserved, \
reserved_source: told | recorded | inferred, result, args, holds: nops | call | instructions, target, target_name, slack, return_offsets: [offset], \
patchable_jump: {offset, length}, no_patchable_jump, locations, live_outs, callee_saved: {named, of}}]}; locations and live_outs are as in \
`inspect`.")]
pub(crate) struct Sites {
    #[command(flatten)]
    pub(crate) code: CodeArgs,
}

/// Shows what a patch would write, and writes nothing.
///
/// The bytes of the sites with an ID before and after, in disassembly, and the stub where there is
/// one. It is assembled and checked as the engine does it, for any architecture, and nothing is
/// executed. The exit status is 1 where it is refused.
#[derive(Parser, Clone)]
#[command(after_help = "\
Examples:
  patchpoint plan get.o --id 78 --shape 78=anyreg,32,result,args=1 \\
      --seq 'guard u32[arg(0)+8] == 0x17 else miss; result = u64[arg(0)+24]'
  patchpoint plan get.o --id 90 --shape 90=shadow,24 --seq 'goto deopt'
  patchpoint plan get.o --id 7 --seq 'result = 1; call 0x7f0012345000 preserves_all' --format json

A sequence is statements separated by ; or line ends:
  guard A == B else miss          if A <u B goto end              goto deopt
  result = A                      u64[arg(0)+24] = A              result += A
  u64[0x1000] += 1                atomic u64[0x1000] += 1         temp &= 0xff
  temp <<= 3                      temp >>u= 3                     temp >>s= 3
  call 0x1234 follows_c           call 0x1234 preserves_all       label(1):
  return    trap    raw 0f 1f 00    vouched 0f 05 writes reg(0) reg(2)    in_place_only
A value is arg(0), float_arg(0), live(0), location(0), result, float_result, temp, reg(5) by its DWARF number, a number, its \
low bytes as in u32(arg(0)), or memory as in u32[arg(0)+8]; types are u8 to u64 and i8 to i64. Comparisons are == != and \
unsigned <u <=u >u >=u or signed <s <=s >s >=s. Targets are miss, deopt, end, label(1) or an address.

The object is placed at 0x10000000. ExitStubs (miss, deopt), stubs and symbols that it does not define have made-up addresses.

JSON: {file, architecture, id, sequence, sites: [{function, offset, address, reserved, used, slack, before: LISTING, after: \
LISTING, stub: {address, listing: LISTING}, return_offsets: [offset], why}]}; LISTING is [{address, bytes, text, is_nop, refers_to}]; a \
site for which the sequence is refused has only `why`, and the exit status is 1.")]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) code: CodeArgs,

    /// The ID of the records
    #[arg(long, value_parser = parse_id, allow_hyphen_values = true)]
    pub(crate) id: u64,

    /// What is to be written, as text
    #[arg(long, value_name = "TEXT", value_parser = call::sequence, allow_hyphen_values = true)]
    pub(crate) seq: Sequence,

    /// The code may have run: calls may still return into the site
    #[arg(long)]
    pub(crate) ran: bool,

    /// The LLVM that compiled the code lists all live-outs
    #[arg(long)]
    pub(crate) trust_live_outs: bool,
}

/// Audits an object file, with an exit status for scripts.
///
/// Whether the engine would register it, and what to expect then. The exit status is 0 where
/// nothing was found, 1 where something was or the file is refused, 2 where a file cannot be read.
#[derive(Parser, Clone)]
#[command(after_help = "\
Examples:
  patchpoint check get.o --ir get.ll
  patchpoint check get.o --shapes get.shapes --live --format json
      as a step of continuous integration

Findings, by the word in brackets:
  short-shadow     a shadow reaches beyond its function or into the next record
  overlap          reserved bytes reach into another record or site, or beyond the function
  not-patchpoint   there is not just LLVM's call and nops: the length is wrong
  no-length        the reserved length is neither told nor to be inferred
  unmatched        the IR does not tell clearly which call a record is of, knows none, or calls it with a convention other than
                   anyregcc and C
  record-outside   the record lies beyond its function
  record-overflow  LLVM could not encode the record
  shape            the record has not the locations that its shape says
  function         a function of the stack map is not there, or there twice
  inferred         a note: what has only nops is taken for a patchpoint, and may be a shadow
  unused           a note: a file of shapes has one for a record that is not there
  link-register    RISC-V: LLVM's call overwrites ra, which is live out
  no-patchable-jump
                   with --live: a patchpoint is too short, for its address, to be patched live
  live-outs        with --trust-live-outs: registers that the function keeps are left out
  refused          anything else for which the engine refuses the record
Without these two options, no-patchable-jump and live-outs are notes. Notes do not count.

JSON: {file, format, architecture, how, records, sites, findings: [{what, counts, id, function, offset, address, message}]}; \
what is about no record has no id, function, offset and address.")]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) code: CodeArgs,

    /// The module is to be registered live
    #[arg(long)]
    pub(crate) live: bool,

    /// The module is to be registered with its live-outs trusted
    #[arg(long)]
    pub(crate) trust_live_outs: bool,
}

/// Calls a function of an object, patches sites, calls it again.
///
/// The object is for this machine's architecture. It executes the code in the file, with all that
/// it may do: run only what you would run as a program. Records whose shape is neither told nor to
/// be inferred are left alone. A miss returns 0 and a deoptimization resumes; both are printed.
#[derive(Parser, Clone)]
#[command(after_help = "\
Examples:
  patchpoint run get.o --call get --args '[0,0x17,0,1234]' --only-after \\
      --shape 78=anyreg,32,result,args=1 \\
      --patch '78=guard u32[arg(0)+8] == 0x17 else miss; result = u64[arg(0)+24]'
  patchpoint run add.o --call add --args 1,2 --ir add.ll --live --invalidate add
  patchpoint run sort.o --call sort --args 0x10 --libc --symbol my_hook=0x7f0012345000

An argument is a number, or [a,b,c], which passes the address of an array of 64-bit words; at most six. The result is read \
as a 64-bit number.

JSON: {file, function, calls: [{when: before | after, args, result, arrays, events: [{what: miss | deopt, id, function, \
offset, values}]}], changes: [{what, sites}], sites: [{id, function, offset, address, reserved, status, \
listing: [{address, bytes, text, is_nop, refers_to}]}]}; a call that is not made has `why` in place of its result. The sites \
are those of the functions that were called or changed.")]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) code: CodeArgs,

    /// The function
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) call: String,

    /// Its arguments, separated by commas
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pub(crate) args: Arguments,

    /// Writes a sequence into the sites with an ID, between the two calls; may be given again. See
    /// `plan --help`
    #[arg(long, value_name = "ID=SEQUENCE", allow_hyphen_values = true)]
    pub(crate) patch: Vec<Patch>,

    /// Invalidates a function between the two calls, after the patches; may be given again
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) invalidate: Vec<String>,

    /// Registers the module live
    #[arg(long)]
    pub(crate) live: bool,

    /// Looks symbols that the object does not define up in this process: the C library's
    #[arg(long)]
    pub(crate) libc: bool,

    /// The address of a symbol that the object does not define; may be given again
    #[arg(long, value_name = "NAME=ADDRESS")]
    pub(crate) symbol: Vec<Symbol>,

    /// Calls only after the patches: in a patchpoint without a call the result is undefined until
    /// then
    #[arg(long)]
    pub(crate) only_after: bool,

    /// Calls although a site that LLVM filled with a call has a target where nothing is known to be
    #[arg(long)]
    pub(crate) trust_calls: bool,
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

/// The arguments of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments(pub(crate) Vec<Argument>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    Number(u64),
    Words(Vec<u64>),
}

impl FromStr for Arguments {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            "expected at most six numbers or [arrays], separated by commas, such as 1,0x10,[1,2]".to_owned()
        };
        let mut arguments = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (argument, after) = match rest.strip_prefix('[') {
                Some(words) => {
                    let (words, after) = words.split_once(']').ok_or_else(expected)?;
                    let words = words
                        .split(',')
                        .filter(|word| !word.trim().is_empty())
                        .map(record_id);
                    let words = words.collect::<Option<Vec<u64>>>().ok_or_else(expected)?;
                    let after = after.trim_start();
                    (
                        Argument::Words(words),
                        after.strip_prefix(',').or(after.is_empty().then_some("")),
                    )
                }
                None => {
                    let (number, after) = rest.split_once(',').unwrap_or((rest, ""));
                    let number = record_id(number.trim()).ok_or_else(expected)?;
                    (Argument::Number(number), Some(after))
                }
            };
            arguments.push(argument);
            rest = after.ok_or_else(expected)?.trim_start();
        }
        match arguments.len() {
            0..=6 => Ok(Self(arguments)),
            _ => Err(expected()),
        }
    }
}

/// A sequence for the sites with an ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    pub(crate) id: u64,
    pub(crate) sequence: Sequence,
}

impl FromStr for Patch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected ID=SEQUENCE, such as 7=result = 1";
        let (id, sequence) = text.split_once('=').ok_or(expected)?;
        Ok(Self {
            id: record_id(id.trim()).ok_or(expected)?,
            sequence: call::sequence(sequence).map_err(|error| error.to_string())?,
        })
    }
}

/// The address of a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) addr: u64,
}

impl FromStr for Symbol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (name, addr) = text.split_once('=')?;
            let name = name.to_owned();
            Some(Self {
                name,
                addr: number(addr)?,
            })
        };
        read().ok_or_else(|| "expected NAME=ADDRESS, such as hook=0x7f0012345000".to_owned())
    }
}

fn parse_id(text: &str) -> Result<u64, String> {
    record_id(text).ok_or_else(|| "expected a number".to_owned())
}

/// Prints the functions, records, locations, live-outs and sites of an object file's stack maps.
///
/// Reads ELF, Mach-O, COFF and PE, relocatable or linked, of any architecture for which LLVM writes
/// stack maps, in versions 1, 2 and 3 and the flat layout that was proposed for version 2. Of ELF
/// files also plimmix GC maps, the tables sanmd_covered2 and sanmd_atomics2 of the sanitizers, and
/// PC sections whose shape is told.
#[derive(Parser, Clone)]
#[command(after_help = "\
Examples:
  patchpoint inspect get.o
      for a person
  patchpoint inspect get.o --reserved 7=40 --reserved 8=16
      with the number of bytes that the IR reserves for the records 7 and 8
  patchpoint inspect get.o --format json | jq '.maps[].functions[].name'
      for a program
  patchpoint inspect get.o --pc-section calls=instructions,u64,u32
      with the PC section `calls`, which has an instruction and two constants an entry
  patchpoint inspect get.o --format llvm
      what llvm-readobj --stackmap prints, of all maps in the section

JSON: {file, format, architecture, endian: little | big, maps: [{section, byte_offset, version, layout: nested | flat | flat_fork, \
constants, functions: [{name, section, offset, address, size, stack_size, frame: FRAME, records: [RECORD]}], \
records_of_unknown_functions: [RECORD]}], pc_sections: [{section, shape, entries: [{byte_offset, places: [PLACE], function_size, \
constants}]}], covered: [{section, functions: [{byte_offset, name, address, size, features, atomics, use_after_return, \
stack_arguments}]}], gc_maps: [{symbol, functions: [{name, address, stack_size, stack_arguments, safepoints: [PLACE], roots: [{offset, \
kind}]}], globals: [PLACE]}]}; PLACE is {name, address}, the address in linked files; FRAME, of flat maps, is {function_size, \
frame_pointer, variable_size, realigned, live_out_info, base, dwarf_base, registers: [{register, dwarf_register, spilled, offset, \
size}]}; RECORD is {id, \
offset, byte_offset, kind: patchpoint | shadow | statepoint | unknown, statepoint: {convention, flags, deopt_values, references, slots}, may_be_overflow, live_out_info, locations: [{kind: register | direct | \
indirect | constant | constant_index, text, size, register, dwarf_register, bit_offset, offset, value, index}], live_outs: \
[{register, dwarf_register, size}], site: {reserved, reserved_source: given | recorded | inferred | at_most | unknown, warning, \
instructions: [{offset, bytes, text, is_nop, is_whole, references}]}}.

In the text, `rax` is a value in a register, `[rbp-16]` one in memory, `&[rsp+8]` the address of a stack slot \
itself, and `#5` a constant.")]
pub(crate) struct Inspect {
    /// The object file
    pub(crate) file: String,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,

    /// The number of bytes that the IR reserves at the records with an ID; may be given again for
    /// other IDs. Stack maps do not hold it. Without it the length is inferred from the bytes where
    /// they leave no doubt
    #[arg(long, value_name = "ID=BYTES")]
    pub(crate) reserved: Vec<Reserved>,

    /// What a stack map of version 2 is
    #[arg(long, value_enum, default_value_t = VersionTwoArg::Detected)]
    pub(crate) version_two: VersionTwoArg,

    /// What each entry of a PC section consists of; may be given again. Words are separated by
    /// commas: instructions or functions; sharing=COUNT where instructions share a metadata node;
    /// compressed for the option C; wide for addresses of eight bytes, where relocations do not
    /// tell; u8, u16, u32, u64 for each constant
    #[arg(long, value_name = "SECTION=SHAPE")]
    pub(crate) pc_section: Vec<PcSpec>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VersionTwoArg {
    /// What all of it is right as
    Detected,
    /// LLVM 4's
    Llvm,
    /// The flat layout, as proposed
    Flat,
    /// The flat layout of the fork
    FlatFork,
}

impl From<VersionTwoArg> for VersionTwo {
    fn from(two: VersionTwoArg) -> Self {
        match two {
            VersionTwoArg::Detected => Self::Detected,
            VersionTwoArg::Llvm => Self::Llvm,
            VersionTwoArg::Flat => Self::Flat(Dialect::Proposal),
            VersionTwoArg::FlatFork => Self::Flat(Dialect::Fork),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For a person
    Text,
    /// For a program
    Json,
    /// As `llvm-readobj --stackmap`
    Llvm,
}

/// The number of reserved bytes of every record with an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub(crate) id: u64,
    pub(crate) bytes: u32,
}

impl FromStr for Reserved {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected ID=BYTES, such as 7=40".to_owned();
        let (id, bytes) = text.split_once('=').ok_or_else(expected)?;
        Ok(Self {
            id: number(id).ok_or_else(expected)?,
            bytes: number(bytes)
                .and_then(|bytes| u32::try_from(bytes).ok())
                .ok_or_else(expected)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_of_the_arguments_is_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn arguments_are_numbers_and_arrays() {
        use Argument::{Number, Words};
        let read = |text: &str| text.parse::<Arguments>().map(|arguments| arguments.0);
        assert_eq!(read(""), Ok(vec![]));
        assert_eq!(
            read("1, -1,0x10"),
            Ok(vec![Number(1), Number(u64::MAX), Number(16)])
        );
        assert_eq!(
            read("[1,-2] , 3,[]"),
            Ok(vec![Words(vec![1, -2_i64 as u64]), Number(3), Words(vec![])])
        );
        for wrong in ["x", "1,,2", "[1", "[1]2", "[x]", "1,2,3,4,5,6,7"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patches_and_symbols_are_split_at_their_first_sign() {
        let patch: Patch = "0x10=result = 1".parse().unwrap();
        assert_eq!(
            (patch.id, patch.sequence.to_string().as_str()),
            (16, "result = 1")
        );
        assert!("7=rsult = 1".parse::<Patch>().unwrap_err().contains("column 1"));
        assert!("result = 1".parse::<Patch>().unwrap_err().contains("ID=SEQUENCE"));
        let symbol: Symbol = "f=0x10".parse().unwrap();
        assert_eq!((symbol.name.as_str(), symbol.addr), ("f", 16));
        assert!("f".parse::<Symbol>().is_err());
    }
}
