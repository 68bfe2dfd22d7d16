//! What the command `check` is told.

use clap::Parser;

use super::CodeArgs;

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
  patchpoint check new/*.o --ir get.ll --baseline old/get.o --baseline old/set.o
      what the build changes; the exit status is 1 only for findings that are new
  patchpoint check --pid $(pidof get)

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
  patched          a note: in a running process, the site holds other bytes than the file
  unused           a note: a file of shapes has one for a record that is not there
  link-register    RISC-V: LLVM's call overwrites ra, which is live out
  no-patchable-jump
                   with --live: a patchpoint is too short, for its address, to be patched live
  live-outs        with --trust-live-outs: registers that the function keeps are left out
  refused          anything else for which the engine refuses the record
Without these two options, no-patchable-jump and live-outs are notes. Notes do not count.

JSON: {file, format, architecture, how, records, sites, findings: [{what, counts, id, function, offset, address, message}]}; \
what is about no record has no id, function, offset and address; with --lines there is `source`, as in `sites`. Of several files, an archive \
or a process it is a list of these.

JSON with --baseline: {files: [{file, baseline, records, sites, new: [SITE], gone: [SITE], changed: [{id, function, offset, address, was: {offset, address}, changes: \
[{what: state | kind | reserved | slack | holds | values | live_outs | return_offsets | patchable_jump, before, after}]}], moved, same, \
findings: {new: [FINDING], gone: [FINDING], same}}]}; SITE is {id, function, offset, address}, FINDING as above; a file that only one \
build has has null for the other. A site is known by its function, its ID and its number among those, in the order of addresses; moved \
are those that differ only in their offset.")]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) code: CodeArgs,

    /// The module is to be registered live
    #[arg(long)]
    pub(crate) live: bool,

    /// The module is to be registered with its live-outs trusted
    #[arg(long)]
    pub(crate) trust_live_outs: bool,

    /// An object, program or archive of the build before, with which the files are compared: files
    /// by their names without folders, members of archives by theirs, one file with one file. May
    /// be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Vec<String>,

    /// The IR of the build before, where it is not that of --ir; may be given again
    #[arg(long, value_name = "FILE", requires = "baseline")]
    pub(crate) baseline_ir: Vec<String>,
}
