//! What the runtime promises about its threads.

#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Vacated;
use crate::addr::CodeRange;
use crate::publish::{Error, Result};

/// The proof that no other thread executes the engine's code now, nor will before the proof is
/// gone.
///
/// Only a [`World`] makes one, and lends it to the work that it runs. It cannot leave its thread:
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<patchpoint::publish::Stopped>();
/// ```
pub struct Stopped {
    // protection: stopped-stays-on-its-thread
    not_send: PhantomData<*mut ()>,
}

impl Stopped {
    /// Promises it. For implementors of [`World`].
    ///
    /// # Safety
    ///
    /// As long as the value exists, no thread but this one has its program counter in code that the
    /// engine may patch, in any stub or exit stub of the engine's, or in a signal handler that goes
    /// there; and none will go there. Return addresses on stacks may point there: return offsets
    /// take care of these.
    #[must_use]
    pub const unsafe fn promise() -> Self {
        Self {
            not_send: PhantomData,
        }
    }
}

impl fmt::Debug for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stopped")
    }
}

/// The proof that a grace period has passed: no thread is in, or will return to, the bytes
/// concerned.
///
/// "In" means the program counter, of running threads and in saved contexts of signal handlers;
/// "return to" means every return address on every stack, including those of suspended coroutines.
/// And no way leads there any more: what jumped there was changed, and that change published,
/// before the grace period began.
pub struct GracePeriod {
    /// What was found out; `None` for what is promised, which is about everything.
    found: Option<Found>,
}

/// Ranges that have had their grace period.
#[derive(Debug)]
struct Found {
    ranges: Box<[CodeRange]>,
    /// When the threads began to be asked.
    began: Moment,
}

/// A moment in the life of stubs. Moments of one process are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// A moment later than all before.
    pub(crate) fn now() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::SeqCst))
    }
}

impl GracePeriod {
    /// Promises it.
    ///
    /// # Safety
    ///
    /// The description of the type is true for every stub or site that the value is used with, from
    /// now until the call returns that it is given to.
    #[must_use]
    pub const unsafe fn promise() -> Self {
        Self { found: None }
    }

    /// What was found out about these ranges by asking that began at that moment. It counts for
    /// stubs that had been retired by then.
    #[cfg(target_os = "linux")]
    pub(super) fn found(ranges: &[CodeRange], began: Moment) -> Self {
        let ranges = ranges.into();
        Self {
            found: Some(Found { ranges, began }),
        }
    }

    /// Whether the proof is about all bytes of a stub that was retired then.
    pub(crate) fn covers(&self, stub: CodeRange, retired: Option<Moment>) -> bool {
        self.found.as_ref().is_none_or(|found| {
            let mut ranges = found.ranges.iter();
            // protection: grace-period-proves-what-was-retired-before
            retired.is_some_and(|retired| retired < found.began)
                // protection: grace-period-proves-what-was-asked
                && ranges.any(|range| range.contains_bytes(stub.start(), stub.len()))
        })
    }

    /// Whether it was promised, and so may be about sites too, which something leads to.
    pub(crate) const fn is_promise(&self) -> bool {
        self.found.is_none()
    }
}

impl fmt::Debug for GracePeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.found {
            None => f.write_str("GracePeriod"),
            Some(found) => fmt::Debug::fmt(found, f),
        }
    }
}

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
    /// [`Error::WorldNotStopped`](crate::publish::Error::WorldNotStopped), or another of these errors
    /// that fits.
    fn while_stopped(&self, vacated: &[Vacated], work: &mut dyn FnMut(&Stopped)) -> Result<()>;

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
}

// SAFETY: the promise at construction is what `Stopped` says, without anything having to be done; the work is
// called once on this thread; nobody is stopped, so nobody resumes.
unsafe impl World for SingleThreaded {
    fn while_stopped(&self, _vacated: &[Vacated], work: &mut dyn FnMut(&Stopped)) -> Result<()> {
        let () = self.private;
        // SAFETY: the promise at construction.
        work(&unsafe { Stopped::promise() });
        Ok(())
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
    #[cfg(target_os = "linux")]
    use crate::addr::CodeAddr;

    #[test]
    fn a_world_that_is_never_stopped_runs_no_work() {
        let stopped = NeverStopped.while_stopped(&[], &mut |_| unreachable!("no thread was stopped"));
        assert!(matches!(stopped, Err(Error::WorldNotStopped { .. })));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_was_found_is_about_bytes_that_were_asked_for_and_retired_before() {
        let range = |start| CodeRange::new(CodeAddr::new(start), 32).unwrap();
        let [before, began, after] = [(); 3].map(|()| Moment::now());
        let found = GracePeriod::found(&[range(0x1000), range(0x2000)], began);
        for stub in [range(0x1000), range(0x2000)] {
            assert!(found.covers(stub, Some(before)));
            for retired in [Some(began), Some(after), None] {
                assert!(!found.covers(stub, retired), "{stub} {retired:?}");
            }
        }
        for stub in [range(0x0fe1), range(0x1001), range(0x3000)] {
            assert!(!found.covers(stub, Some(before)), "{stub}");
        }
        // SAFETY: nothing executes these addresses.
        let promised = unsafe { GracePeriod::promise() };
        assert!(promised.covers(range(0x3000), None) && promised.is_promise() && !found.is_promise());
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
