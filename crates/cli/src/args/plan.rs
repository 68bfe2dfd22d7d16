//! What the command `plan` is told.

use clap::Parser;
use patchpoint::sequence::Sequence;

use crate::call;

use super::{CodeArgs, parse_id};

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
  patchpoint plan get.o --ir get.ll --id 78 --seq 'result = u64[arg(0)+24]' --html > get.html
      a page of the functions that have such sites: bytes, instructions, branches, live values, and what would be written

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
site for which the sequence is refused has only `why`, and the exit status is 1. With --lines a site has `source`, as in `sites`. Of several \
files, an archive or a process it is a list of these: of those that have such records.")]
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

    /// Prints a page of HTML that shows the functions whole, with their sites: one file, with no
    /// scripts, for light and dark screens
    #[arg(long, conflicts_with = "format")]
    pub(crate) html: bool,
}
