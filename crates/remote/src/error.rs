//! What is refused or fails between processes. Each is one sentence with the place, what was
//! needed, what was there, and how to mend it; a variant's fields are what its sentence names.

use patchpoint::addr::CodeRange;
use patchpoint::error::{Errno, ProviderError};
use patchpoint::{deopt, memory, publish, site};

/// The result of everything here that can fail.
pub type Result<T> = core::result::Result<T, Error>;

/// Why something was refused or failed.
///
/// What an engine asks of another process fails by an error of the engine's,
/// [`Provider`](patchpoint::Error::Provider). From that this one is made again:
///
/// ```
/// use patchpoint_remote::Error;
/// # let changed: patchpoint::Result<()> = Err(Error::ControllerGone.into());
/// // let changed = engine.patch(78, &sequence);
/// assert!(matches!(changed.map_err(Error::from), Err(Error::ControllerGone)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "each variant's sentence names its fields, with their units"
)]
pub enum Error {
    /// The engine refuses, or its memory does.
    #[error(transparent)]
    Engine(patchpoint::Error),
    // ---- the executor, as its controller sees it ----
    /// The process that executes the code has ended, or was abandoned.
    #[error("the executor is gone, as was found when {during}: start another one and load the code again")]
    ExecutorGone { during: &'static str },
    /// The process that executes the code does not answer. It is abandoned.
    #[error(
        "the executor did not answer within {waited_ms} ms when {during}: start another one, or give it more time"
    )]
    ExecutorSilent { during: &'static str, waited_ms: u64 },
    /// The process that executes the code answers what no executor does. It is abandoned.
    #[error(
        "the executor's answer when {during} is none: {why}: use the same version of the crate on both sides"
    )]
    ExecutorAnswer { during: &'static str, why: &'static str },
    /// The process that executes the code cannot do what was asked.
    #[error("the executor refused when {during}: {why}: {errno}")]
    ExecutorRefused { during: &'static str, why: &'static str, errno: Errno },
    /// A function there is called with more arguments than registers take.
    #[error(
        "a call into the executor has {given} arguments: give at most {most}, or an address of shared data"
    )]
    ExecutorArgs { given: usize, most: usize },
    /// A call into the executor is not over.
    #[error(
        "thread {thread} of the executor was in a call that had neither ended nor left by an exit stub after {waited_ms} ms: let calls be shorter, have more patience, or use live modules"
    )]
    CallNotOver { thread: i32, waited_ms: u64 },
    // ---- the controller, as its executor sees it ----
    /// The process that changes the code has ended.
    #[error("the controller is gone: what it loaded stays, and cannot be changed any more; end this process")]
    ControllerGone,
    /// The process that changes the code asks for what no controller does.
    #[error("the controller's request is none: {why}: use the same version of the crate on both sides")]
    ControllerRequest { why: &'static str },
    /// Who listens where an executor connects does not prove that it is the controller; it is not
    /// obeyed.
    #[error(
        "who listens there is not the controller: {why}: take path and token from the same listener, and run both sides as one user"
    )]
    ControllerUnproven { why: &'static str },
    // ---- processes that know nothing of this ----
    /// A foreign process refuses.
    #[error(
        "process {process} could not be used when {during}: {errno}; run as its user or with CAP_SYS_PTRACE, on x86-64, with no other tracer"
    )]
    ProcessRefused { process: u32, during: &'static str, errno: Errno },
    /// A foreign process has ended.
    #[error("process {process} has ended, or runs another program: open the one that runs now")]
    ProcessGone { process: u32 },
    /// A thread of a foreign process does not stop.
    #[error(
        "thread {thread} of process {process} did not stop within {waited_ms} ms: try again when it is not in the kernel for long, or have more patience"
    )]
    ThreadNotStopped { process: u32, thread: i32, waited_ms: u64 },
    /// Memory of a foreign process is none whose code can be changed.
    #[error("{range} of process {process} {why}: give private memory that is mapped read-execute")]
    ForeignRange { process: u32, range: CodeRange, why: &'static str },
    /// An engine is not one of a foreign process.
    #[error(
        "the engine is none of process {process}'s, whose threads it does not stop: take the one of Process::engine"
    )]
    ForeignEngine { process: u32 },
}

/// The few kinds that errors have, for callers that treat kinds alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The other process has ended or was abandoned: nothing more can be had of it.
    Gone,
    /// It does not go now; later, or with more patience, it may.
    Busy,
    /// What the other process says contradicts the protocol.
    Malformed,
    /// What was asked for cannot be done, or is not allowed.
    Refused,
    /// It is the engine's: [`Error::Engine`].
    Engine,
}

impl Error {
    /// Which of the few kinds of errors this is.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Engine(_) => ErrorKind::Engine,
            Self::ExecutorGone { .. }
            | Self::ExecutorSilent { .. }
            | Self::ControllerGone
            | Self::ProcessGone { .. } => ErrorKind::Gone,
            Self::CallNotOver { .. } | Self::ThreadNotStopped { .. } => ErrorKind::Busy,
            Self::ExecutorAnswer { .. } | Self::ControllerRequest { .. } => ErrorKind::Malformed,
            Self::ExecutorRefused { .. }
            | Self::ExecutorArgs { .. }
            | Self::ControllerUnproven { .. }
            | Self::ProcessRefused { .. }
            | Self::ForeignRange { .. }
            | Self::ForeignEngine { .. } => ErrorKind::Refused,
        }
    }
}

impl Error {
    /// Of an exit: what the thread is said to have saved was said by its executor.
    pub(crate) fn of_exit(self) -> Self {
        let Self::Engine(error) = self else { return self };
        match deopt::Error::from(error) {
            deopt::Error::SavedFrame { why } => Self::ExecutorAnswer {
                during: "a thread left compiled code",
                why,
            },
            other => other.into(),
        }
    }
}

/// What the engine hands on of this crate's is what it was; the rest is the engine's.
impl From<patchpoint::Error> for Error {
    fn from(error: patchpoint::Error) -> Self {
        let own = match &error {
            patchpoint::Error::Provider(why) => why.get::<Self>().cloned(),
            _ => None,
        };
        own.unwrap_or(Self::Engine(error))
    }
}

impl From<memory::Error> for Error {
    fn from(error: memory::Error) -> Self {
        patchpoint::Error::from(error).into()
    }
}

impl From<publish::Error> for Error {
    fn from(error: publish::Error) -> Self {
        patchpoint::Error::from(error).into()
    }
}

impl From<site::Error> for Error {
    fn from(error: site::Error) -> Self {
        patchpoint::Error::from(error).into()
    }
}

impl From<deopt::Error> for Error {
    fn from(error: deopt::Error) -> Self {
        patchpoint::Error::from(error).into()
    }
}

/// What is memory's own stays that.
impl From<Error> for memory::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Engine(patchpoint::Error::Memory(own)) => own,
            Error::Engine(patchpoint::Error::Provider(why)) => Self::Provider(why),
            other => Self::Provider(ProviderError::new(other)),
        }
    }
}

/// What is publishing's own, or memory's, stays that.
impl From<Error> for publish::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Engine(patchpoint::Error::Publish(own)) => own,
            Error::Engine(patchpoint::Error::Memory(own)) => Self::Memory(own),
            Error::Engine(patchpoint::Error::Provider(why)) => Self::Provider(why),
            other => Self::Provider(ProviderError::new(other)),
        }
    }
}

impl From<Error> for patchpoint::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Engine(error) => error,
            own => Self::Provider(ProviderError::new(own)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Through the engine and back, an error stays what it is.
    #[test]
    fn what_the_engine_hands_on_is_what_it_was() {
        let own = Error::ExecutorArgs { given: 7, most: 6 };
        let handed = patchpoint::Error::from(own.clone());
        assert_eq!(handed.to_string(), own.to_string());
        assert_eq!(Error::from(handed), own);
        assert_eq!(Error::from(memory::Error::from(own.clone())), own);
        assert_eq!(Error::from(publish::Error::from(own.clone())), own);
        let forked = memory::Error::EngineForked;
        assert_eq!(memory::Error::from(Error::from(forked.clone())), forked);
        let wrapped = publish::Error::Memory(forked.clone());
        assert_eq!(publish::Error::from(Error::from(wrapped.clone())), wrapped);
        let stops = publish::Error::WorldNotStopped { why: "it does not" };
        assert_eq!(publish::Error::from(Error::from(stops.clone())), stops);
        let engines = patchpoint::Error::Memory(forked);
        assert_eq!(Error::from(engines.clone()), Error::Engine(engines.clone()));
        assert_eq!(Error::from(engines.clone()).kind(), ErrorKind::Engine);
        assert_eq!(patchpoint::Error::from(Error::Engine(engines.clone())), engines);
        let sites = site::Error::NoSuchFunction { name: "f".into() };
        let engines = patchpoint::Error::Site(sites.clone());
        assert_eq!(Error::from(sites), Error::Engine(engines));
    }

    /// A frame that is none is the executor's lie; whatever else an exit fails by stays what it is.
    #[test]
    fn a_frame_that_is_none_was_the_executors_answer() {
        let why = "registers that are not on its stack";
        let during = "a thread left compiled code";
        let engines = patchpoint::Error::from(deopt::Error::SavedFrame { why });
        assert_eq!(
            Error::Engine(engines).of_exit(),
            Error::ExecutorAnswer { during, why }
        );
        let others = Error::ControllerGone;
        assert_eq!(others.clone().of_exit(), others);
        let forked = Error::from(memory::Error::EngineForked);
        assert_eq!(forked.clone().of_exit(), forked);
        let of_provider = Error::Engine(ProviderError::new(std::io::Error::other("it is cut")).into());
        assert_eq!(of_provider.clone().of_exit(), of_provider);
    }
}
