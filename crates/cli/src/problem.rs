use std::io;

use patchpoint::arch::Arch;
use patchpoint::{Error, image, site, stackmap};

/// Why there is nothing to print. The name of the file comes before it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("cannot be read: {0}")]
    Read(io::Error),
    #[error("{0} cannot be read: {1}")]
    ReadOther(String, io::Error),
    #[error("{file}, line {line}: {expected}")]
    Shape { file: String, line: usize, expected: String },
    #[error("{place}: {why}")]
    Told { place: String, why: String },
    #[error("{file}, line {line}, is no LLVM IR: {why}")]
    Ir { file: String, line: u32, why: String },
    #[error("{0} is LLVM bitcode: give the IR as text, which `llvm-dis {0} -o -` prints")]
    Bitcode(String),
    #[error("is LLVM bitcode: compile it with `llc -filetype=obj`, and give the object")]
    BitcodeObject,
    #[error(
        "is no object file that this tool reads (ELF, Mach-O, COFF or PE): {0}: give what `llc -filetype=obj` or `clang -c` \
         wrote, all of it"
    )]
    Object(#[from] object::Error),
    #[error(
        "has no stack map: expected a section .llvm_stackmaps, or __llvm_stackmaps in Mach-O: LLVM writes one where the IR \
         calls llvm.experimental.patchpoint or llvm.experimental.stackmap; nor a table that is known by its name: name PC sections \
         with --pc-section"
    )]
    NoStackMap,
    #[error(
        "is for {0}, of which only `inspect` knows something: patchpoints are patched on x86-64, AArch64, PowerPC64, s390x and RISC-V 64"
    )]
    NoArch(&'static str),
    #[error("does not fit into the address space")]
    TooLarge,
    #[error("section {section} (at {at:#x} of the file): {error}")]
    StackMap { section: String, at: u64, error: Box<patchpoint::Error> },
    #[error("has no section {0}")]
    NoSection(String),
    #[error("{table}: {error}")]
    Table { table: String, error: Box<patchpoint::Error> },
    #[error("{0}")]
    Library(Box<patchpoint::Error>),
    #[error(
        "{0} has no call of a patchpoint, stackmap or statepoint that a record of this file is of: give the IR that it was compiled from"
    )]
    OtherIr(String),
    #[error("no record has ID {id}; {have}")]
    NoSuchId { id: u64, have: String },
    #[error("nothing of ID {id} can be patched: {why}")]
    NoSite { id: u64, why: String },
    #[error("the report cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the output cannot be written: {0}")]
    Write(io::Error),
    #[error("{0}")]
    Run(String),
    #[error("does not define {}: give --define NAME=ADDRESS{}", .0.join(", "), .1)]
    Undefined(Vec<String>, &'static str),
    #[error("{0} is told by --define, but an object or the linker defines it: leave the option out")]
    DefinedTwice(String),
    #[error("cannot be loaded: {0}: give the name of a shared library, such as libm.so.6")]
    SharedLibrary(String),
    #[error(
        "is for {0}, and this machine executes {host}: give --noexec to link without executing",
        host = .1.map_or("nothing that this tool knows".to_owned(), |host| host.to_string())
    )]
    Foreign(Arch, Option<Arch>),
    #[error("has no function `{entry}` that others may call: give --entry {have}")]
    NoEntry { entry: String, have: String },
    #[error("has no check: write one in a line such as # {0}: *{{8}}(got_addr(a.o, puts)) = puts")]
    NoChecks(String),
    #[error("the argument {0:?} has a zero byte, which ends a string of C")]
    ZeroByte(String),
    #[error("has debug information that cannot be read: {0}: leave --lines out")]
    Dwarf(gimli::Error),
    #[error("has debug information in {section} that cannot be decompressed: {why}: leave --lines out")]
    Compressed { section: String, why: &'static str },
    #[error("does not run, or is no process of this system's /proc: give the number of one that runs")]
    NoProcess,
    #[error("{0} cannot be read: {1}: the process must be one of yours that you may debug")]
    Process(String, io::Error),
    #[error(
        "executes no file that has a stack map: what a JIT compiled is in no file, and a program that is linked with a stack map has a \
         section .llvm_stackmaps"
    )]
    NoStackMapInProcess,
    #[error("was replaced since the process mapped it: start the process again")]
    Replaced,
    #[error("has segments that the process has not mapped where its headers say")]
    NotMappedWhole,
    /// With one file of several.
    #[error("{1}")]
    Of(String, Box<Problem>),
}

impl Problem {
    /// The exit status: 2 where what was given cannot be read, or the output cannot be written; 1
    /// where it was read and is refused.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Read(_)
            | Self::ReadOther(..)
            | Self::Shape { .. }
            | Self::Ir { .. }
            | Self::Bitcode(_)
            | Self::BitcodeObject
            | Self::Object(_)
            | Self::NoStackMap
            | Self::StackMap { .. }
            | Self::NoSection(_)
            | Self::Table { .. }
            | Self::SharedLibrary(_)
            | Self::Dwarf(_)
            | Self::Compressed { .. }
            | Self::NoProcess
            | Self::Process(..)
            | Self::NoStackMapInProcess
            | Self::Replaced
            | Self::NotMappedWhole
            | Self::Json(_)
            | Self::Write(_) => 2,
            Self::Library(error) => match **error {
                // It can be read; whose its records are is not known.
                Error::Tables(stackmap::Error::RecordsWithoutFunction { .. }) => 1,
                Error::Link(
                    image::Error::ObjectMalformed { .. } | image::Error::ObjectUnsupported { .. },
                )
                | Error::Tables(_) => 2,
                _ => 1,
            },
            Self::Of(_, problem) => problem.status(),
            Self::Told { .. }
            | Self::NoArch(_)
            | Self::TooLarge
            | Self::OtherIr(_)
            | Self::NoSuchId { .. }
            | Self::NoSite { .. }
            | Self::Run(_)
            | Self::Undefined(..)
            | Self::DefinedTwice(_)
            | Self::Foreign(..)
            | Self::NoEntry { .. }
            | Self::NoChecks(_)
            | Self::ZeroByte(_) => 1,
        }
    }

    /// It is one of this file.
    pub(crate) fn of(self, file: &str) -> Self {
        Self::Of(file.to_owned(), Box::new(self))
    }

    /// The file that it is one of, where it is not one of all that the command is about.
    pub(crate) fn file(&self) -> Option<&str> {
        match self {
            Self::Of(file, _) => Some(file),
            _ => None,
        }
    }
}

impl From<stackmap::Error> for Problem {
    fn from(error: stackmap::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<image::Error> for Problem {
    fn from(error: image::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<site::Error> for Problem {
    fn from(error: site::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<patchpoint::Error> for Problem {
    fn from(error: patchpoint::Error) -> Self {
        Self::Library(Box::new(error))
    }
}
