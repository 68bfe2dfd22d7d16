//! What the command `inspect` is told.

use std::str::FromStr;

use clap::{Parser, ValueEnum};
use patchpoint::stackmap::VersionTwo;
use patchpoint::stackmap::flat::Dialect;

use crate::number::number;
use crate::tables::PcSpec;

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
  patchpoint inspect libgets.a main.o --lines --demangle
      with files and lines of the source; members of an archive that have no stack map are passed over
  patchpoint inspect --pid $(pidof get)
      of what a process executes, with the bytes that were patched since

JSON: {file, process, format, architecture, endian: little | big, maps: [{section, byte_offset, version, layout: nested | flat | flat_fork, \
constants, functions: [{name, section, offset, address, size, stack_size, frame: FRAME, records: [RECORD]}], \
records_of_unknown_functions: [RECORD]}], pc_sections: [{section, shape, entries: [{byte_offset, places: [PLACE], function_size, \
constants}]}], covered: [{section, functions: [{byte_offset, name, address, size, features, atomics, use_after_return, \
stack_arguments}]}], gc_maps: [{symbol, functions: [{name, address, stack_size, stack_arguments, safepoints: [PLACE], roots: [{offset, \
kind}]}], globals: [PLACE]}]}; PLACE is {name, address}, the address in linked files; FRAME, of flat maps, is {function_size, \
frame_pointer, variable_size, realigned, live_out_info, base, dwarf_base, registers: [{register, dwarf_register, spilled, offset, \
size}]}; RECORD is {id, \
offset, byte_offset, kind: patchpoint | shadow | statepoint | unknown, statepoint: {convention, flags, deopt_values, references, slots}, may_be_overflow, live_out_info, source: [{function, file, line, column}], locations: [{kind: register | direct | \
indirect | constant | constant_index, text, size, register, dwarf_register, bit_offset, offset, value, index}], live_outs: \
[{register, dwarf_register, size}], site: {reserved, reserved_source: given | recorded | inferred | at_most | unknown, warning, \
instructions: [{offset, bytes, text, is_nop, is_whole, references}], now: the same}}; \
source is there with --lines, and what was inlined comes first; process and now are there with --pid, \
now where other bytes are than in the file. Of several files, an archive or a process it is a list of these.

In the text, `rax` is a value in a register, `[rbp-16]` one in memory, `&[rsp+8]` the address of a stack slot \
itself, and `#5` a constant.")]
pub(crate) struct Inspect {
    /// Object files, programs, shared objects, archives, universal files of Mach-O; - is the standard
    /// input
    #[arg(required_unless_present = "pid", value_name = "FILE")]
    pub(crate) files: Vec<String>,

    /// A process that runs, in place of files: those that it executes and that have stack maps, at
    /// its addresses, with what its memory holds where that is not what the file has. Nothing is
    /// written there
    #[arg(long, value_name = "PROCESS", conflicts_with = "files")]
    pub(crate) pid: Option<u32>,

    /// Says of each record the place in the source, where the file has debug information (DWARF)
    #[arg(long)]
    pub(crate) lines: bool,

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
