//! What fails in exit stubs, and what is refused of frames. Each is one sentence with the place,
//! what was needed, what was there, and how to mend it; a variant's fields are what its sentence
//! names.

use crate::addr::{CodeAddr, CodeRange, DwarfReg, RecordId};
use crate::arch::Arch;
use crate::error::{ErrorKind, ProviderError};
use crate::stackmap::Location;
use crate::{memory, site};

/// The result of everything about exits and frames that can fail.
pub type Result<T> = core::result::Result<T, Error>;

/// Why an exit stub could not be made, or a frame not be read, written or left.
///
/// An engine knows its exit stubs by a trait only, [`Exits`](crate::engine::Exits). What it hands
/// on of these errors is [`patchpoint::Error::Provider`](crate::Error::Provider), of the same
/// sentence and kind. From that this one is made again:
///
/// ```
/// use patchpoint::addr::CodeAddr;
/// use patchpoint::deopt::Error;
///
/// # let (exit_stub, to) = (CodeAddr::new(0x1000), CodeAddr::new(0x7fff_0000_0000));
/// # let changed: patchpoint::Result<()> = Err(Error::ExitStubOutOfReach { exit_stub, to }.into());
/// // let changed = engine.invalidate(&function);
/// let refused = changed.map_err(Error::from);
/// assert!(matches!(refused, Err(Error::ExitStubOutOfReach { .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "each variant's sentence names its fields, with their units"
)]
pub enum Error {
    /// What a thread in a mirror is said to have saved cannot be.
    #[error("a thread that left compiled code handed over {why}: its stack was written by somebody else")]
    SavedFrame { why: &'static str },
    /// A frame in a mirror has an address that is not on its stack.
    #[error(
        "patchpoint {id} at {addr}: {at:#x} is not on the stack {stack} of the thread: in a mirror only values on the stack can be reached"
    )]
    FrameOutside { id: RecordId, addr: CodeAddr, at: u64, stack: CodeRange },
    /// A value of a frame that waits for a callee cannot be had.
    #[error(
        "{location} of {function} at {pc} cannot be read or written while it waits for a callee: only registers \
         that callees preserve are known, and only saved ones can be written"
    )]
    CallerValue { function: String, pc: CodeAddr, location: Location },
    /// Code was compiled under an assumption that does not hold any more.
    #[error(
        "{function} depends on assumption {assumption}, which has broken: do not enter it, compile it without, or renew the assumption"
    )]
    AssumptionBroken { function: String, assumption: String },
    /// An exit stub was asked for code of another architecture than the host's.
    #[error(
        "no exit stub for {arch} on this host: exit stubs exist where code of the host's own architecture runs"
    )]
    ExitStubArch { arch: Arch },
    /// An exit stub's jump back, for which no register is free, does not reach.
    #[error(
        "the exit stub at {exit_stub} does not reach {to}, where it resumes: place stubs nearer to the code"
    )]
    ExitStubOutOfReach { exit_stub: CodeAddr, to: CodeAddr },
    /// A register was not captured, or is narrower than the value asked for.
    #[error(
        "site {id} at {addr}: {size} bytes from bit {bit_offset} of {reg} asked for, {have} bytes were captured; ask for a part that this machine has"
    )]
    FrameRegister { id: RecordId, addr: CodeAddr, reg: DwarfReg, bit_offset: i32, size: u16, have: u16 },
    /// The frame has no such value.
    #[error("site {id} at {addr}: no {what} {index}, there are {have}")]
    FrameIndex { id: RecordId, addr: CodeAddr, what: &'static str, index: usize, have: usize },
    /// A value of the frame is no number of 8 bytes.
    #[error(
        "site {id} at {addr}: {what} {index} has {size} bytes, more than the 8 of a number: ask for the value itself"
    )]
    FrameWide { id: RecordId, addr: CodeAddr, what: &'static str, index: usize, size: u16 },
    /// The location is not one of the site's record.
    #[error(
        "site {id} at {addr}: {location} is not a location of its record; take it from the record of this site"
    )]
    FrameLocation { id: RecordId, addr: CodeAddr, location: Location },
    /// A value is wider than 64 bytes, or has another size than its location, or the location is a
    /// constant.
    #[error(
        "site {id} at {addr}: a value of {found} bytes does not fit {location}; at most {limit} bytes can be moved there"
    )]
    FrameValue { id: RecordId, addr: CodeAddr, location: Location, found: u16, limit: u16 },
    /// The frame cannot be left with this stack pointer.
    #[error(
        "site {id} at {addr}: the frame can be left with a stack pointer of {lowest:#x} or above, a multiple of 8, not {found:#x}; enter code that makes its own room below"
    )]
    FrameStackPointer { id: RecordId, addr: CodeAddr, lowest: u64, found: u64 },
    /// The frame cannot be left to another address while a shadow stack is active.
    #[error(
        "site {id} at {addr}: this thread has a shadow stack, which forbids leaving the frame to another address; resume, or disable it (GLIBC_TUNABLES=glibc.cpu.x86_shstk=off)"
    )]
    FrameShadowStack { id: RecordId, addr: CodeAddr },
    /// A frame cannot be put in the place of a compiled one.
    #[error("site {id} at {addr}: a frame of {size} bytes cannot be pushed: {reason}")]
    NewFrame { id: RecordId, addr: CodeAddr, size: u64, reason: &'static str },
    /// A value does not lie in its new frame.
    #[error(
        "site {id} at {addr}: {len} bytes at offset {offset} do not lie in a new frame of {size} bytes, nor in what it may write of its caller's: push a larger one"
    )]
    NewFramePlace { id: RecordId, addr: CodeAddr, offset: u32, len: usize, size: u32 },
    /// A frame cannot be left of which only the live registers were saved.
    #[error(
        "site {id} at {addr}: only the live registers of this frame were saved, so it can only be resumed; let an exit stub save all (`on_miss`, or `whole_frames` of inline caches)"
    )]
    FrameNotWhole { id: RecordId, addr: CodeAddr },
    /// The unwind information cannot be read.
    #[error(
        "unwind information at {addr}: {reason}; give the relocated .eh_frame and the address it was relocated to"
    )]
    UnwindFormat { addr: CodeAddr, reason: String },
    /// There is no unwind information for an address.
    #[error(
        "no unwind information covers {pc}: compile the function with the attribute uwtable and keep .eh_frame"
    )]
    UnwindMissing { pc: CodeAddr },
    /// The unwind information uses a rule that is not understood.
    #[error(
        "unwind information for {pc}: {reason}; only offsets from a register and saved registers can be undone"
    )]
    UnwindRule { pc: CodeAddr, reason: String },
    /// An exit stub cannot be assembled.
    #[error(transparent)]
    Assemble(#[from] patchpoint_asm::Error),
    /// The memory refuses, or is a mirror's.
    #[error(transparent)]
    Memory(#[from] memory::Error),
    /// The engine refuses, or a module of it does.
    #[error(transparent)]
    Engine(Box<crate::Error>),
}

impl Error {
    /// Which of the few kinds of errors this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Assemble(why) => why.kind().into(),
            Self::Memory(why) => why.kind(),
            Self::Engine(why) => why.kind(),
            Self::SavedFrame { .. } | Self::UnwindFormat { .. } => ErrorKind::Malformed,
            Self::CallerValue { .. }
            | Self::ExitStubArch { .. }
            | Self::FrameShadowStack { .. }
            | Self::UnwindRule { .. } => ErrorKind::Unsupported,
            Self::FrameRegister { .. } | Self::FrameIndex { .. } | Self::UnwindMissing { .. } => {
                ErrorKind::NotFound
            }
            Self::FrameOutside { .. }
            | Self::ExitStubOutOfReach { .. }
            | Self::FrameWide { .. }
            | Self::FrameLocation { .. }
            | Self::FrameValue { .. }
            | Self::FrameStackPointer { .. }
            | Self::NewFrame { .. }
            | Self::NewFramePlace { .. }
            | Self::FrameNotWhole { .. } => ErrorKind::Refused,
            Self::AssumptionBroken { .. } => ErrorKind::Changed,
        }
    }
}

/// What the engine hands on of these errors is what it was; the rest is the engine's.
impl From<crate::Error> for Error {
    fn from(error: crate::Error) -> Self {
        match error {
            crate::Error::Assemble(why) => Self::Assemble(why),
            crate::Error::Memory(why) => Self::Memory(why),
            crate::Error::Provider(why) => {
                let own = why.get::<Self>().cloned();
                own.unwrap_or_else(|| Self::Engine(Box::new(why.into())))
            }
            engines => Self::Engine(Box::new(engines)),
        }
    }
}

impl From<site::Error> for Error {
    fn from(error: site::Error) -> Self {
        crate::Error::from(error).into()
    }
}

/// What is the engine's, memory's or the assembler's stays that; what is deopt's own is handed on
/// as a provider's.
impl From<Error> for crate::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Assemble(why) => why.into(),
            Error::Memory(why) => why.into(),
            Error::Engine(error) => *error,
            own => Self::Provider(ProviderError::of_kind(own.kind(), own)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site;

    /// Through the engine and back, an error stays what it is: its kind and its sentence too.
    #[test]
    fn what_the_engine_hands_on_is_what_it_was() {
        let own = Error::UnwindMissing {
            pc: CodeAddr::new(0x1000),
        };
        let handed = crate::Error::from(own.clone());
        assert!(matches!(&handed, crate::Error::Provider(why) if why.get() == Some(&own)));
        assert_eq!(handed.to_string(), own.to_string());
        assert_eq!(handed.kind(), ErrorKind::NotFound);
        assert_eq!(Error::from(handed), own);
        let forked = memory::Error::EngineForked;
        let through = crate::Error::from(Error::from(forked.clone()));
        assert_eq!(through, crate::Error::Memory(forked.clone()));
        assert_eq!(Error::from(through), Error::Memory(forked));
        let gone = Error::from(crate::Error::EngineGone);
        assert_eq!(gone.kind(), ErrorKind::Gone);
        assert_eq!(crate::Error::from(gone), crate::Error::EngineGone);
        let sites = site::Error::NoSuchFunction { name: "f".into() };
        let through = crate::Error::from(Error::from(sites.clone()));
        assert_eq!(through, crate::Error::Site(sites));
        let others = ProviderError::new(std::io::Error::other("it is cut"));
        let through = Error::from(crate::Error::Provider(others.clone()));
        assert_eq!(through.kind(), ErrorKind::Provider);
        assert_eq!(crate::Error::from(through), crate::Error::Provider(others));
    }

    /// What reads and writes frames returns these by value.
    #[test]
    fn the_error_of_a_frame_is_small() {
        assert!(size_of::<Error>() <= 72, "{}", size_of::<Error>());
    }
}
