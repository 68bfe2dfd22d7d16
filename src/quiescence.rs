//! What the threads of a process are known not to do: the proofs that functions ask for.
//!
//! Memory is written, and stubs are freed, only by whoever shows such a proof, so that a missing
//! stop or wait does not compile. How threads are stopped and asked is above this, in `publish`.

#![allow(unsafe_code)]

use std::boxed::Box;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::addr::CodeRange;

/// The proof that no other thread executes the engine's code now, nor will before the proof is
/// gone.
///
/// Only a [`World`](crate::publish::World) makes one, and lends it to the work that it runs. It
/// cannot leave its thread:
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
    /// Promises it. For implementors of [`World`](crate::publish::World).
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
/// And nothing branches there any more: what jumped there was changed, and that change published,
/// before the grace period began.
pub struct GracePeriod {
    /// What was found out; `None` for what is promised, which is about everything.
    found: Option<QuiescentRanges>,
}

/// Ranges that have had their grace period.
#[derive(Debug)]
struct QuiescentRanges {
    ranges: Box<[CodeRange]>,
    /// When the threads began to be asked.
    began: Moment,
}

/// A moment in the life of stubs. Moments of one process are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(NonZeroU64);

/// Counts the moments at which threads began to be asked: those are few, and stubs are retired by
/// every other patch.
static BEGUN: AtomicU64 = AtomicU64::new(0);

impl Moment {
    /// One before all that [begin](Self::begin) later. What the caller has stored before must be seen by
    /// all threads, as it is when it has been published: this is no barrier.
    #[inline]
    pub(crate) fn now() -> Self {
        Self(NonZeroU64::MIN.saturating_add(BEGUN.load(Ordering::SeqCst)))
    }

    /// One later than all that are over.
    pub(crate) fn begin() -> Self {
        let before = BEGUN.fetch_add(1, Ordering::SeqCst);
        Self(NonZeroU64::MIN.saturating_add(before).saturating_add(1))
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
    pub(crate) fn found(ranges: &[CodeRange], began: Moment) -> Self {
        let ranges = ranges.into();
        Self {
            found: Some(QuiescentRanges { ranges, began }),
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

    /// Whether it was promised, and so may be about sites too, which something may execute.
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

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::addr::CodeAddr;

    #[test]
    fn what_was_found_is_about_bytes_that_were_asked_for_and_retired_before() {
        let range = |start| CodeRange::new(CodeAddr::new(start), 32).unwrap();
        let [before, began, after] = [Moment::now(), Moment::begin(), Moment::now()];
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
}
