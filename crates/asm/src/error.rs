//! The assembler's refusals. Each is one sentence with the place, what was needed, what was there,
//! and how to mend it; a variant's fields are what its sentence names. An operation is named by its
//! index in the sequence, counted from 0.

use alloc::boxed::Box;
use alloc::string::String;

use llvm_stackmaps::addr::{CodeAddr, DwarfReg, Len};
use patchpoint_isa::SiteName;

/// The result of everything here that can fail.
pub type Result<T> = core::result::Result<T, Error>;

/// Why a sequence cannot be assembled for its site, or its text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "each variant's sentence names its fields, with their units"
)]
pub enum Error {
    /// The code does not fit in place.
    #[error(
        "{site}: the sequence needs {needed} bytes in place and has {available} of the {reserved} reserved: \
         raise numBytes{}",
        if *.stub_would_fit { ", or allow a stub" } else { "" }
    )]
    SequenceTooLong { site: Box<SiteName>, needed: Len, available: Len, reserved: Len, stub_would_fit: bool },
    /// A site is no whole number of instructions.
    #[error(
        "{site}: {what} {value:#x} is no multiple of {unit} bytes, as instructions of this architecture are: \
         reserve whole instructions, and check the function's address"
    )]
    NotWholeInstructions { site: Box<SiteName>, what: &'static str, value: u64, unit: u32 },
    /// No register is free.
    #[error(
        "{site}: operation {op} needs a free register for {purpose} and the site has none left there: use \
         fewer spilled operands, a nearer target, or the C convention"
    )]
    NoScratch { site: Box<SiteName>, op: u32, purpose: &'static str },
    /// A branch or a memory operand cannot reach its target.
    #[error(
        "{site}: operation {op} at {from} does not reach {target} and no register is free to go further: \
         place the target nearer"
    )]
    TargetOutOfReach { site: Box<SiteName>, op: u32, from: CodeAddr, target: CodeAddr },
    /// An operand that the site does not have.
    #[error("{site}: operation {op} names {operand} {index}, the site has {count}: check the call shape")]
    NoSuchOperand { site: Box<SiteName>, op: u32, operand: &'static str, index: u32, count: u32 },
    /// An operand that the operation cannot take.
    #[error("{site}: operation {op} cannot take {why}")]
    OperandUnusable { site: Box<SiteName>, op: u32, why: &'static str },
    /// A location has fewer defined bytes than the operation reads, or two widths disagree.
    #[error(
        "{site}: operation {op} reads {needed} bytes of an operand that has {have}: name the width, as in \
         u32::of(operand)"
    )]
    OperandWidth { site: Box<SiteName>, op: u32, needed: u16, have: u16 },
    /// An immediate that does not fit the width of its operation.
    #[error(
        "{site}: operation {op} is {width} bytes wide, the immediate {value:#x} does not fit: name a wider field, or a part of the value"
    )]
    ImmediateTooWide { site: Box<SiteName>, op: u32, value: u64, width: u16 },
    /// A register would be written that the site must preserve.
    #[error(
        "{site}: operation {op} would overwrite {name}, which is in use there: write the result or a register that is \
         free at the site, call only what preserves all registers"
    )]
    OverwritesLive { site: Box<SiteName>, op: u32, reg: DwarfReg, name: String },
    /// A value is read, or needed where control goes, that the sequence has overwritten.
    #[error(
        "{site}: operation {op} needs what was in {name}, which an operation before it has overwritten: guard and \
         read first"
    )]
    ReadsLost { site: Box<SiteName>, op: u32, reg: DwarfReg, name: String },
    /// A sequence for a shadow can reach its end.
    #[error(
        "{site}: the sequence reaches the end of the shadow, behind which the overwritten code goes on: end \
         it with a jump to an exit stub or to an address"
    )]
    ShadowFallsThrough { site: Box<SiteName> },
    /// A return anywhere but at the entry of a function.
    #[error(
        "{site}: operation {op} returns, which only an entry site allows: at other sites the frame is set up"
    )]
    ReturnNotAllowed { site: Box<SiteName>, op: u32 },
    /// A call where its return address would overwrite the red zone, or misalign the stack.
    #[error(
        "{site}: operation {op} calls, which only a patchpoint allows, and a told site with a free stack and free flags: jump \
         to an exit stub instead"
    )]
    CallNotAllowed { site: Box<SiteName>, op: u32 },
    /// The stub is too far from its site for the jump in place.
    #[error(
        "{site}: its stub at {stub} is out of reach of a jump: place stubs nearer to the code (2 GiB on x86_64, \
         128 MiB on aarch64, 32 MiB on powerpc64, 4 GiB on s390x, 1 MiB on riscv64)"
    )]
    StubOutOfReach { site: Box<SiteName>, stub: CodeAddr },
    /// A branch to a label that nothing binds.
    #[error("{site}: operation {op} branches to label {label}, which is not bound")]
    LabelUnbound { site: Box<SiteName>, op: u32, label: u32 },
    /// A label that is bound twice.
    #[error("{site}: operation {op} binds label {label}, which is already bound")]
    LabelBoundTwice { site: Box<SiteName>, op: u32, label: u32 },
    /// The site has no exit stub of that role.
    #[error(
        "{site}: operation {op} branches to the {role} exit stub, and the site has none: set a handler for it"
    )]
    NoExitStub { site: Box<SiteName>, op: u32, role: &'static str },
    /// Text is no sequence.
    #[error("line {line}, column {column} of the sequence: found {found}, expected {expected}")]
    SequenceText { line: usize, column: usize, found: String, expected: &'static str },
    /// Original instructions cannot be executed at another address.
    #[error("the instructions at {addr} cannot run at {at}: {reason}; resume at an address instead")]
    Relocation { addr: CodeAddr, at: CodeAddr, reason: String },
}

/// What kind of error it is, for callers that treat some alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Text is no sequence, or a sequence names a label in no way that it can.
    Malformed,
    /// The site has no such operand, or nothing to leave it by.
    NotFound,
    /// The site does not allow it, or has not the room, the registers or the reach.
    Refused,
}

impl Error {
    /// Which of the few kinds of errors this is.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::SequenceText { .. } | Self::LabelUnbound { .. } | Self::LabelBoundTwice { .. } => {
                ErrorKind::Malformed
            }
            Self::NoSuchOperand { .. } | Self::NoExitStub { .. } => ErrorKind::NotFound,
            Self::SequenceTooLong { .. }
            | Self::NotWholeInstructions { .. }
            | Self::NoScratch { .. }
            | Self::TargetOutOfReach { .. }
            | Self::OperandUnusable { .. }
            | Self::OperandWidth { .. }
            | Self::ImmediateTooWide { .. }
            | Self::OverwritesLive { .. }
            | Self::ReadsLost { .. }
            | Self::ShadowFallsThrough { .. }
            | Self::ReturnNotAllowed { .. }
            | Self::CallNotAllowed { .. }
            | Self::StubOutOfReach { .. }
            | Self::Relocation { .. } => ErrorKind::Refused,
        }
    }

    /// The site that it is about, if it is about one.
    #[must_use]
    pub const fn site(&self) -> Option<&SiteName> {
        match self {
            Self::SequenceTooLong { site, .. }
            | Self::NotWholeInstructions { site, .. }
            | Self::NoScratch { site, .. }
            | Self::TargetOutOfReach { site, .. }
            | Self::NoSuchOperand { site, .. }
            | Self::OperandUnusable { site, .. }
            | Self::OperandWidth { site, .. }
            | Self::ImmediateTooWide { site, .. }
            | Self::OverwritesLive { site, .. }
            | Self::ReadsLost { site, .. }
            | Self::ShadowFallsThrough { site, .. }
            | Self::ReturnNotAllowed { site, .. }
            | Self::CallNotAllowed { site, .. }
            | Self::StubOutOfReach { site, .. }
            | Self::LabelUnbound { site, .. }
            | Self::LabelBoundTwice { site, .. }
            | Self::NoExitStub { site, .. } => Some(site),
            Self::SequenceText { .. } | Self::Relocation { .. } => None,
        }
    }
}
