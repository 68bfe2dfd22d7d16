//! What fails when code is published, or threads are stopped. Each is one sentence with the place,
//! what was needed, what was there, and how to mend it; a variant's fields are what its sentence
//! names.

use crate::addr::{CodeAddr, CodeRange};
use crate::error::{Errno, ErrorKind, ProviderError};
use crate::memory;

/// The result of everything about publishing that can fail.
pub type Result<T> = core::result::Result<T, Error>;

/// Why code could not be published, or threads not be stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "each variant's sentence names its fields, with their units"
)]
pub enum Error {
    /// Other cores cannot be made to serialize.
    #[error("other threads cannot be made to serialize: {call} answered {errno}; {mend}")]
    NoBarrier { call: &'static str, errno: Errno, mend: &'static str },
    /// The world could not be stopped.
    #[error("the threads could not be stopped: {why}")]
    WorldNotStopped { why: &'static str },
    /// The system does not tell what a thread needs to attach, or to be asked.
    #[error("{call} failed: {errno}: a thread that cannot be found cannot be stopped by signal")]
    ThreadUnknown { call: &'static str, errno: Errno },
    /// No real-time signal can be used.
    #[error("signal {signal} cannot be used: give a real-time signal that nothing else handles")]
    SignalTaken { signal: i32 },
    /// The signal cannot be sent.
    #[error("thread {thread} could not be sent signal {signal}: {errno}")]
    ThreadNotAsked { thread: i32, signal: i32, errno: Errno },
    /// A thread does not answer.
    #[error(
        "thread {thread} did not answer signal {signal} within {waited_ms} ms: let it not block the signal, or have more patience"
    )]
    ThreadSilent { thread: i32, signal: i32, waited_ms: u64 },
    /// A thread is on a stack that is not known.
    #[error(
        "thread {thread} is on a stack that it was not attached with (stack pointer {sp}): its return addresses cannot be seen, wait until it is back"
    )]
    ThreadOnOtherStack { thread: i32, sp: CodeAddr },
    /// A thread is where nothing may be while it is changed.
    #[error(
        "thread {thread} {} {at}, within {range}: wait until it has left",
        if *.returns { "may return to" } else { "executes" }
    )]
    ThreadInside { thread: i32, at: CodeAddr, range: CodeRange, returns: bool },
    /// The memory that a trap is written to has refused.
    #[error(transparent)]
    Memory(#[from] memory::Error),
    /// Somebody else's [`World`](super::World) or [`Publication`](super::Publication) has failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl Error {
    /// Which of the few kinds of errors this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Memory(why) => why.kind(),
            Self::Provider(why) => why.kind(),
            Self::NoBarrier { .. } => ErrorKind::Unsupported,
            Self::SignalTaken { .. } => ErrorKind::Refused,
            Self::WorldNotStopped { .. }
            | Self::ThreadSilent { .. }
            | Self::ThreadOnOtherStack { .. }
            | Self::ThreadInside { .. } => ErrorKind::Busy,
            Self::ThreadUnknown { .. } | Self::ThreadNotAsked { .. } => ErrorKind::System,
        }
    }
}
