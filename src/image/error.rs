//! Why code of somebody else's is not taken over. Each is one sentence with the place, what was
//! needed, what was there, and how to mend it; a variant's fields are what its sentence names.

use alloc::boxed::Box;
use alloc::string::String;

use crate::addr::CodeAddr;
use crate::error::ErrorKind;
use crate::stackmap;

/// Why an [`Adoption`](super::Adoption) was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "each variant's sentence names its fields, with their units"
)]
pub enum AdoptionError {
    /// Another number of function addresses than the stack map has functions.
    #[error(
        "the stack map has {needed} functions, {found} addresses were given: give one for each, in its order"
    )]
    FunctionCount { needed: usize, found: usize },
    /// A function that cannot be.
    #[error("function {name} at {addr} cannot be adopted: {reason}")]
    Function { name: String, addr: CodeAddr, reason: &'static str },
    /// Unwind information cannot be read.
    #[error(
        "the unwind information at {addr} cannot be read: {why}; give its address and bytes as they are in memory"
    )]
    EhFrame { addr: CodeAddr, why: String },
    /// An object cannot be read, or not with its sections at these addresses.
    #[error(transparent)]
    Link(#[from] Box<patchpoint_link::Error>),
    /// What a compiler wrote about the code cannot be read.
    #[error(transparent)]
    Tables(#[from] stackmap::Error),
}

impl AdoptionError {
    /// Which of the few kinds of errors this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Tables(why) => why.kind().into(),
            Self::EhFrame { .. } => ErrorKind::Malformed,
            Self::Link(why) => why.kind().into(),
            Self::FunctionCount { .. } | Self::Function { .. } => ErrorKind::Refused,
        }
    }
}
