//! What can be wrong with a check, other than that it does not hold.

use thiserror::Error;

/// Why a check has no value, and where in its text that shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::link) struct CheckError {
    /// The distance in bytes from the start of the text.
    pub(in crate::link) at: usize,
    pub(in crate::link) why: CheckErrorKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(in crate::link) enum CheckErrorKind {
    #[error("expected {expected}, found {found}")]
    Unexpected { expected: &'static str, found: String },
    #[error("the number has more than 64 bits")]
    NumberTooLarge,
    #[error("it is nested too deeply: leave parentheses out, as operators group from the left without them")]
    TooDeep,
    #[error("a load of {0} bytes: give 1, 2, 4 or 8")]
    LoadSize(u64),
    #[error("the bits {high} to {low}: give the higher first, 63 at most")]
    Slice { high: u64, low: u64 },
    #[error("{0}")]
    Unknown(#[from] Unknown),
    #[error("{size} bytes at {addr:#x} are not all in what was linked: check the address")]
    NotLinked { addr: u64, size: u64 },
    #[error("no instruction at {addr:#x}: {bytes}")]
    NoInstruction { addr: u64, bytes: String },
    #[error(
        "the operands of {text} ({bytes}) at {addr:#x} are not known: load its bytes and take the bits, as in (*{{4}}sym)[25:0]"
    )]
    NoOperands { addr: u64, text: String, bytes: String },
    #[error(
        "{text} ({bytes}) has {count} operands, counted from 0 as LLVM counts them: there is none with number {index}"
    )]
    NoOperand { index: u64, count: usize, text: String, bytes: String },
    #[error(
        "operand {index} of {text} ({bytes}) is a register: give the number of an immediate, {immediates}"
    )]
    NotImmediate { index: u64, immediates: String, text: String, bytes: String },
}

/// What the linked graph does not know.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(in crate::link) enum Unknown {
    #[error("no file `{0}` was linked: give the name of one, without its folder")]
    File(String),
    #[error("several files are named `{0}`: give the path, as on the command line")]
    Files(String),
    #[error("`{file}` has no section `{section}`")]
    Section { file: String, section: String },
    #[error("`{file}` has several sections `{section}`: name a symbol in the one that is meant")]
    Sections { file: String, section: String },
    #[error("section `{section}` of `{file}` has no address: it is only for the linker or a debugger")]
    NotPlaced { file: String, section: String },
    #[error("no symbol `{0}` has an address")]
    Symbol(String),
    #[error(
        "several files have a symbol `{0}` of their own, at different addresses: give it another name in one of them"
    )]
    Symbols(String),
    #[error("`{0}` has no {1}: no relocation asks for one")]
    Entry(String, &'static str),
    #[error("stubs have no kinds on this architecture: leave out `{0}`")]
    StubKind(String),
}
