//! The few kinds that errors have.

/// The few kinds that errors have, for callers that treat kinds alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes, tables or records that were given contradict themselves or each other.
    Malformed,
    /// It is well-formed, and cannot be done: on this machine, in that memory, under this world.
    Unsupported,
    /// There is nothing with that name, number or address.
    NotFound,
    /// What was asked for does not go together, or breaks a rule.
    Refused,
    /// It does not go now; later, or with more patience, it may.
    Busy,
    /// Something has changed meanwhile: look again, and ask again.
    Changed,
    /// What it is about exists no more, or not in this process.
    Gone,
    /// The operating system refuses, or has no more.
    System,
    /// Code is left that must not be executed.
    Broken,
    /// A mistake of the library, found before anything was written.
    Internal,
    /// Somebody else's implementation of a trait of this crate has failed.
    Provider,
}

impl From<crate::stackmap::ErrorKind> for ErrorKind {
    fn from(kind: crate::stackmap::ErrorKind) -> Self {
        use crate::stackmap::ErrorKind as Kind;
        match kind {
            Kind::Malformed => Self::Malformed,
            Kind::Unsupported => Self::Unsupported,
            _ => Self::Refused,
        }
    }
}

#[cfg(feature = "std")]
impl From<patchpoint_asm::ErrorKind> for ErrorKind {
    fn from(kind: patchpoint_asm::ErrorKind) -> Self {
        use patchpoint_asm::ErrorKind as Kind;
        match kind {
            Kind::Malformed => Self::Malformed,
            Kind::NotFound => Self::NotFound,
            _ => Self::Refused,
        }
    }
}

#[cfg(feature = "std")]
impl From<patchpoint_verify::ErrorKind> for ErrorKind {
    fn from(kind: patchpoint_verify::ErrorKind) -> Self {
        use patchpoint_verify::ErrorKind as Kind;
        match kind {
            Kind::Malformed => Self::Malformed,
            Kind::Internal => Self::Internal,
            _ => Self::Refused,
        }
    }
}

#[cfg(feature = "std")]
impl From<patchpoint_link::ErrorKind> for ErrorKind {
    fn from(kind: patchpoint_link::ErrorKind) -> Self {
        use patchpoint_link::ErrorKind as Kind;
        match kind {
            Kind::Malformed => Self::Malformed,
            Kind::Unsupported => Self::Unsupported,
            Kind::NotFound => Self::NotFound,
            Kind::Busy => Self::Busy,
            _ => Self::Refused,
        }
    }
}
