//! What the runtime promises about its threads.

#![allow(unsafe_code)]

use std::fmt;

use super::{Stopped, Vacated};
use crate::publish::{Error, Result};

/// What the other threads do between being stopped and executing code again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resumption {
    /// There are no other threads, so nothing has to be done for them.
    Alone,
    /// Each executes a serializing instruction (x86-64: `serialize`, `cpuid`, `iret`; AArch64:
    /// `isb`) before any of the engine's code. [`serialize`](super::serialize()) is one.
    Serializes,
    /// Nothing is promised: the engine publishes to them before they are let go.
    Unknown,
}

/// The runtime's threads, as far as patching concerns them.
///
/// The life of a stop: the engine has planned, assembled, verified and compared everything; it
/// calls [`while_stopped`](Self::while_stopped); the runtime brings every other thread to a place
/// outside the engine's code and keeps it there; the work runs once, on the calling thread, writing
/// and publishing; the runtime lets the threads go; the call returns.
///
/// # Safety
///
/// - `while_stopped` calls `work` exactly once, on the calling thread, or not at all, and then returns an
///   error. While `work` runs, what [`Stopped::promise`] says is true.
/// - It may be called from any thread that may patch, also from a handler that compiled code called; it must
///   not deadlock when two threads call it at once.
/// - What [`resumption`](Self::resumption) answers is true of every thread that was stopped.
/// - Where [`already_stopped`](Self::already_stopped) answers with a proof, what that says is true in every
///   call of the engine that patches, and [`stops_anywhere`](Self::stops_anywhere) is false.
/// - Where [`stops_anywhere`](Self::stops_anywhere) is true, `work` has not been called unless no thread, the
///   caller's included, has its program counter in what is vacated or returns to a return offset of it.
pub unsafe trait World: Send + Sync + fmt::Debug {
    /// Stops every other thread, does the work, lets them go.
    ///
    /// `vacated` are the bytes in which no thread may be, or return to, while they change. A world
    /// that stops threads at safepoints outside of the engine's code has nothing to look for. What
    /// is vacated of a site begins behind its first byte, as a thread that is there executes the
    /// new sequence from its start, and has gaps at the return offsets that the new bytes keep.
    ///
    /// # Errors
    ///
    /// The work has not been called then:
    /// [`Error::WorldNotStopped`], or another of these errors
    /// that fits.
    fn while_stopped(&self, vacated: &[Vacated], work: &mut dyn FnMut(&Stopped)) -> Result<()>;

    /// The proof that nobody has to be stopped, in a world that has no other threads: what
    /// [`while_stopped`](Self::while_stopped) would lend to its work. It is not called then.
    fn already_stopped(&self) -> Option<&Stopped> {
        None
    }

    /// What stopped threads do before they execute code again.
    fn resumption(&self) -> Resumption {
        Resumption::Unknown
    }

    /// Whether threads are stopped at arbitrary instructions, and looked for in the ranges. The
    /// engine then takes no lock and allocates nothing while they are, as a stopped thread may be
    /// in the allocator.
    fn stops_anywhere(&self) -> bool {
        false
    }
}

/// A world of one thread, by promise.
#[derive(Debug)]
pub struct SingleThreaded {
    private: (),
}

impl SingleThreaded {
    /// Promises that only one thread at a time executes code of the engine's or patches.
    ///
    /// # Safety
    ///
    /// As long as the value exists: while any thread is in a call of the engine that patches, no
    /// other thread executes code that the engine may patch, and neither does a signal handler. A
    /// thread that executes such code after another thread has patched it has synchronized with
    /// that thread in between, by means that serialize (being started after the patch does).
    #[must_use]
    pub const unsafe fn promise() -> Self {
        Self { private: () }
    }

    // SAFETY: whoever has a world of one thread has promised it at construction, and only who has one is lent it.
    const STOPPED: Stopped = unsafe { Stopped::promise() };
}

// SAFETY: the promise at construction is what `Stopped` says, without anything having to be done; the work is
// called once on this thread; nobody is stopped, so nobody resumes.
unsafe impl World for SingleThreaded {
    fn while_stopped(&self, _vacated: &[Vacated], work: &mut dyn FnMut(&Stopped)) -> Result<()> {
        let () = self.private;
        work(&Self::STOPPED);
        Ok(())
    }

    fn already_stopped(&self) -> Option<&Stopped> {
        Some(&Self::STOPPED)
    }

    fn resumption(&self) -> Resumption {
        Resumption::Alone
    }
}

/// A world that is never stopped: only live sites can be changed in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverStopped;

// SAFETY: the work is never called, and an error is returned.
unsafe impl World for NeverStopped {
    fn while_stopped(&self, _vacated: &[Vacated], _work: &mut dyn FnMut(&Stopped)) -> Result<()> {
        Err(Error::WorldNotStopped {
            why: "this world never is: register the module as live, or give the engine a world that can be stopped",
        })
    }

    /// Nobody is stopped, so nobody resumes.
    fn resumption(&self) -> Resumption {
        Resumption::Alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_that_is_never_stopped_runs_no_work() {
        let stopped = NeverStopped.while_stopped(&[], &mut |_| unreachable!("no thread was stopped"));
        assert!(matches!(stopped, Err(Error::WorldNotStopped { .. })));
    }

    #[test]
    fn the_promise_runs_the_work_once() {
        // SAFETY: no code is patched here.
        let world = unsafe { SingleThreaded::promise() };
        let mut calls = 0;
        world.while_stopped(&[], &mut |_| calls += 1).unwrap();
        assert_eq!(calls, 1);
        assert_eq!(world.resumption(), Resumption::Alone);
    }
}
