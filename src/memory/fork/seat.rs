//! How a commit goes through the [gate](super::gate): by two plain stores, where others count.
//!
//! **Problem.** The two additions by which a writer enters and leaves the gate wait until all stores
//! before them are done, and the second comes right behind the serialization of a commit, where
//! nothing goes on beside it: a commit takes 72 ns with them, and 66 without (`benches speeds
//! single`, medians of 4 runs in turns). **Approach.** Who holds the lock of an engine is the only
//! one who writes by it, and has a word of its own to say that it is inside. It stores there, then
//! looks whether the gate is closed; a fork closes the gate, then looks at the words. One of the two
//! sees the other if neither looks before its store is seen. To force that is expensive, so it is
//! left to the fork, which is rare: `membarrier` makes it true of every thread. Where the system has
//! none, or refuses it, the writer does it by a fence.
//!
//! **Invariants.** Of two who write at once, each has its own seat: it is kept behind the lock that
//! they write under. The words lie in the page that a fork wipes, so a child has nobody inside.
//! Where there is no such page, or no word left, a writer counts as others do.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence, fence};

use super::OwnProcess;
use super::gate::Writing;
use crate::error::Errno;
use crate::memory::sys;

/// So many engines have a seat; more are counted.
const SEATS: usize = 32;

/// Which seats somebody has.
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// Whether forks make every writer's store seen, by a barrier. Found before the first fork that is
/// noticed.
static HAS_BARRIER: AtomicBool = AtomicBool::new(false);

/// Not zero while somebody is inside. Each on a cache line of its own, as cores write them that have
/// nothing to do with each other.
#[derive(Debug)]
#[repr(align(64))]
struct Mark(AtomicU32);

/// The marks of all seats.
#[derive(Debug)]
pub(super) struct Marks([Mark; SEATS]);

impl Marks {
    pub(super) const fn new() -> Self {
        Self([const { Mark(AtomicU32::new(0)) }; SEATS])
    }

    /// As the kernel does in a child.
    #[cfg(target_os = "linux")]
    pub(super) fn wipe(&self) {
        self.0.iter().for_each(|mark| mark.0.store(0, Ordering::Relaxed));
    }
}

/// Whether nobody is inside who has a seat.
pub(in crate::memory) fn are_empty() -> bool {
    let mut marks = super::mark().into_iter().flat_map(|own| &own.marks.0);
    marks.all(|mark| mark.0.load(Ordering::Acquire) == 0)
}

/// Finds out whether forks have the barrier.
pub(in crate::memory) fn find_barrier() {
    // protection: barrier-of-forks-is-probed
    HAS_BARRIER.store(sys::barrier().is_ok(), Ordering::Relaxed);
}

#[cfg(test)]
pub(in crate::memory) fn has_barrier() -> bool {
    HAS_BARRIER.load(Ordering::Relaxed)
}

/// For a fork that has closed the gate: from now on each writer that has not seen that is seen.
pub(super) fn make_visible() -> core::result::Result<(), Errno> {
    match HAS_BARRIER.load(Ordering::Relaxed) {
        true => sys::barrier(),
        // Each writer has a fence of its own.
        false => Ok(()),
    }
}

/// A place in the gate for one writer at a time, as a lock sees to: it is kept behind that.
#[derive(Debug)]
pub(crate) struct Seat {
    /// `None` where all were taken.
    own: Option<OwnMark>,
}

#[derive(Debug)]
struct OwnMark {
    number: u32,
    /// What has the gate and the marks of this process.
    process: &'static OwnProcess,
}

impl Default for Seat {
    /// One that nobody has.
    fn default() -> Self {
        Self { own: OwnMark::take() }
    }
}

impl OwnMark {
    fn take() -> Option<Self> {
        let process = super::mark()?;
        let free = |taken: u32| (taken != u32::MAX).then(|| taken | 1 << taken.trailing_ones());
        let before = TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free);
        let number = before.ok()?.trailing_ones();
        Some(Self { number, process })
    }

    #[inline]
    fn mark(&self) -> &'static AtomicU32 {
        let mark = self.process.marks.0.get(self.number as usize);
        &mark.expect("each seat has a mark").0
    }
}

impl Drop for OwnMark {
    fn drop(&mut self) {
        TAKEN.fetch_and(!(1 << self.number), Ordering::Relaxed);
    }
}

impl Seat {
    /// Whether it has a mark of its own.
    #[cfg(test)]
    pub(in crate::memory) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Goes in, unless a fork is under way.
    #[inline]
    pub(crate) fn try_enter(&self) -> Option<Writing> {
        let Some(own) = &self.own else {
            return Writing::try_enter();
        };
        let mark = own.mark();
        mark.store(1, Ordering::Relaxed);
        match HAS_BARRIER.load(Ordering::Relaxed) {
            // The barrier of a fork is between the two in its place.
            true => compiler_fence(Ordering::SeqCst),
            false => fence(Ordering::SeqCst),
        }
        Writing::try_enter_seated(&own.process.gate, mark)
    }

    /// Goes in, after a fork that is under way. Not while the world is stopped.
    #[inline]
    pub(crate) fn enter(&self) -> Writing {
        self.try_enter().unwrap_or_else(Writing::enter_later)
    }
}
