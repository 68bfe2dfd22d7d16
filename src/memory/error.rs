//! What memory refuses, and what fails there. Each is one sentence with the place, what was needed,
//! what was there, and how to mend it; a variant's fields are what its sentence names.

use crate::addr::{CodeAddr, CodeRange};
use crate::error::{Errno, ErrorKind, ProviderError};

/// The result of everything about memory that can fail.
pub type Result<T> = core::result::Result<T, Error>;

/// Why memory was refused, or not read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "each variant's sentence names its fields, with their units"
)]
pub enum Error {
    /// A strategy cannot write the memory that it was asked to write.
    #[error("{strategy} cannot write {range}: {why}; {mend}")]
    StrategyUnavailable { strategy: &'static str, range: CodeRange, why: &'static str, mend: &'static str },
    /// The operating system refused a call.
    #[error("{call} of {len} bytes at {at} refused: {errno}; {mend}")]
    SystemCall { call: &'static str, at: CodeAddr, len: u64, errno: Errno, mend: &'static str },
    /// Bytes outside the registered memory were asked for.
    #[error(
        "{len} bytes at {at} are not within the registered memory {memory}; register the memory that holds them"
    )]
    OutsideMemory { at: CodeAddr, len: u64, memory: CodeRange },
    /// A write came outside the pages that `begin` opened.
    #[error("{len} bytes at {at} are not in a page that was opened; give begin every page that is written")]
    PageNotOpen { at: CodeAddr, len: u64 },
    /// Pages could not be given their protection back; those named can be written and not be
    /// executed.
    #[error("pages {runs:?} could not be made executable again: {errno}; no thread may execute them")]
    ProtectionLost { runs: Vec<CodeRange>, errno: Errno },
    /// A word is to be exchanged by one store, and the strategy or the address cannot.
    #[error("{strategy} cannot exchange the word at {at} by one store: {why}; {mend}")]
    NoAtomicStore { strategy: &'static str, at: CodeAddr, why: &'static str, mend: &'static str },
    /// A word was not what it was expected to be, and has been left alone.
    #[error("the word at {at} is {found:02x?}, expected {expected:02x?}; someone else wrote it")]
    WordChanged { at: CodeAddr, expected: [u8; 8], found: [u8; 8] },
    /// No free address space where it was asked for.
    #[error("no {len} bytes of address space are free in {within}; load less, or allow another place")]
    NoAddressSpace { len: u64, within: CodeRange },
    /// A segment's length or alignment cannot be placed.
    #[error("segment {index} of {len} bytes aligned to {align} cannot be placed: {why}")]
    SegmentRefused { index: usize, len: u64, align: u64, why: &'static str },
    /// The process is a fork's child: the memory belongs to the parent.
    #[error("{memory} belongs to the parent of this process; build a new engine after fork")]
    Forked { memory: CodeRange },
    /// The process is a fork's child: the engine, or the arena, is the parent's.
    #[error(
        "the engine belongs to the parent of this process; build a new one after fork, and load the code again"
    )]
    EngineForked,
    /// Something that is for code of this process only.
    #[error("{what} cannot be had for code that is executed in a mirror: {mend}")]
    NotMirrored { what: &'static str, mend: &'static str },
    /// A proof is about other bytes.
    #[error("{range} is not among the ranges that have had their grace period: ask for it too")]
    NoGracePeriod { range: CodeRange },
    /// An image cannot be linked into the memory.
    #[error(transparent)]
    Link(Box<patchpoint_link::Error>),
    /// Somebody else's [`CodeMemory`](super::CodeMemory) or [`Mirror`](super::Mirror) has failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl Error {
    /// Which of the few kinds of errors this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Link(why) => why.kind().into(),
            Self::Provider(why) => why.kind(),
            Self::StrategyUnavailable { .. } | Self::NoAtomicStore { .. } | Self::NotMirrored { .. } => {
                ErrorKind::Unsupported
            }
            Self::OutsideMemory { .. }
            | Self::PageNotOpen { .. }
            | Self::SegmentRefused { .. }
            | Self::NoGracePeriod { .. } => ErrorKind::Refused,
            Self::WordChanged { .. } => ErrorKind::Changed,
            Self::Forked { .. } | Self::EngineForked { .. } => ErrorKind::Gone,
            Self::SystemCall { .. } | Self::NoAddressSpace { .. } => ErrorKind::System,
            Self::ProtectionLost { .. } => ErrorKind::Broken,
        }
    }
}

impl From<patchpoint_link::Error> for Error {
    fn from(error: patchpoint_link::Error) -> Self {
        Self::Link(Box::new(error))
    }
}
