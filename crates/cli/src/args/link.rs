//! What the command `link` is told.

use clap::Parser;

use crate::number::number;

use super::{Output, Symbol};

/// Links objects, checks what came of them, and runs the program.
///
/// The objects refer to each other; what none of them defines is looked up in this process, which
/// has the C library. The program is for this machine's architecture. Constructors run before it,
/// destructors when the process ends. It executes the code in the files, with all that it may do:
/// link only what you would run. With --noexec nothing is executed or looked up, and the objects
/// may be for any architecture.
#[derive(Parser, Clone)]
#[command(after_help = "\
Examples:
  patchpoint link main.o list.o --args one two
      calls main with the arguments one and two; the exit status is what it returns
  patchpoint link main.o liblist.a
  patchpoint link sort.o --entry sort_self_test
  patchpoint link shapes.o --library libstdc++.so.6 --library libm.so.6
  patchpoint link reloc.o --noexec --base 0xfff00000 --define far=0x7fff00001234 --check reloc.s
      exits with status 1 if a check of reloc.s does not hold
  patchpoint link a.o b.o --noexec --format json | jq '.symbols[] | select(.name == \"main\").address'

A check is a line of a file, such as a comment of the assembly, with nothing but signs of a comment before its name:
  # jitlink-check: decode_operand(main, 0) = stub_addr(a.o, puts) - next_pc(main)
  # jitlink-check: *{8}(got_addr(a.o, puts)) = puts
A backslash at the end of a line joins it with the next one that has the name. The language is that of LLVM's llvm-jitlink -check:
  0x10 16 symbol ( )              + - & | << >>, from left to right, none before the others
  *{4}A                           4 bytes (1, 2, 4 or 8) at A, which reaches as far as it can: (*{4}A) + 1
  A[25:0]                         bits 25 to 0
  decode_operand(symbol+4, 1)     the operand of an instruction, an immediate; counted from 0 as LLVM's MCInst counts; not on PowerPC and SystemZ
  next_pc(symbol+4)               the address behind an instruction
  stub_addr(file, symbol)         where calls of a symbol go that is out of reach
  got_addr(file, symbol)          its entry in the global offset table
  section_addr(file, section)
A check that cannot be computed counts as one that does not hold. They are done before the program runs, and it runs only if all hold.

JSON: {files, architecture, segments: [{kind: code | read-only data | data, address, size}], symbols: [{name, address}], checks: [{file, \
line, text, outcome: holds | differs | wrong, left, right, column, message}], entry, status}; a check that is wrong has column and \
message in place of left and right; without a run there are no entry and status. What the program prints comes before it.")]
pub(crate) struct Link {
    /// Object files, and archives: of those, the members that define what is asked for; - is the
    /// standard input
    #[arg(required = true)]
    pub(crate) files: Vec<String>,

    /// A file with checks; may be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) check: Vec<String>,

    /// The name of checks, before the colon, in place of jitlink-check and rtdyld-check; may be
    /// given again
    #[arg(long, value_name = "NAME")]
    pub(crate) check_name: Vec<String>,

    /// Links at given addresses and executes nothing
    #[arg(long, conflicts_with_all = ["entry", "args"])]
    pub(crate) noexec: bool,

    /// The address of the code, a multiple of what its sections want; the other segments follow in
    /// pages of their own
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value = "0x10000000", requires = "noexec")]
    pub(crate) base: u64,

    /// The address of a symbol that no object defines, before anybody else is asked for it; may be
    /// given again
    #[arg(long, value_name = "NAME=ADDRESS")]
    pub(crate) define: Vec<Symbol>,

    /// How many bytes all segments together may have, at most 0x40000000
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "0x10000000")]
    pub(crate) limit: u64,

    /// A shared library to load, in which symbols are looked up, too; may be given again
    #[arg(long, value_name = "NAME", conflicts_with = "noexec")]
    pub(crate) library: Vec<String>,

    /// Rewrites code that loads an address from the global offset table to compute it, where it is
    /// in reach
    #[arg(long)]
    pub(crate) relax: bool,

    /// The function to call, as C calls main
    #[arg(long, value_name = "FUNCTION", default_value = "main")]
    pub(crate) entry: String,

    /// How to print
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) format: Output,

    /// The program's arguments: all that follows
    #[arg(long, value_name = "ARGUMENT", num_args = 0.., allow_hyphen_values = true)]
    pub(crate) args: Vec<String>,
}

fn bytes(text: &str) -> Result<u64, String> {
    number(text).ok_or_else(|| "expected a number of bytes, such as 0x10000000".to_owned())
}

fn address(text: &str) -> Result<u64, String> {
    number(text).ok_or_else(|| "expected an address, such as 0x10000000".to_owned())
}
