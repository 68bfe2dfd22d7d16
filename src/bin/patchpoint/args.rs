use std::str::FromStr;

use clap::{Parser, Subcommand, ValueEnum};

/// Shows what LLVM left in compiled code to be patched.
#[derive(Parser)]
#[command(name = "patchpoint", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Inspect(Inspect),
}

/// Prints the functions, records, locations, live-outs and sites of an object file's stack maps.
///
/// Reads ELF, Mach-O, COFF and PE, relocatable or linked, of any architecture for which LLVM writes stack maps,
/// in versions 1, 2 and 3.
#[derive(Parser, Clone)]
#[command(after_help = "\
Examples:
  patchpoint inspect get.o
      for a person
  patchpoint inspect get.o --reserved 7=40 --reserved 8=16
      with the number of bytes that the IR reserves for the records 7 and 8
  patchpoint inspect get.o --format json | jq '.maps[].functions[].name'
      for a program
  patchpoint inspect get.o --format llvm
      what llvm-readobj --stackmap prints, of all maps in the section

In the text, `rax` is a value in a register, `[rbp-16]` one in memory, `&[rsp+8]` the address of a stack slot
itself, and `#5` a constant.")]
pub(crate) struct Inspect {
    /// The object file
    pub(crate) file: String,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,

    /// The number of bytes that the IR reserves at the records with an ID; may be given again for other IDs.
    /// Stack maps do not hold it. Without it the length is inferred from the bytes where they leave no doubt
    #[arg(long, value_name = "ID=BYTES")]
    pub(crate) reserved: Vec<Reserved>,
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

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
