//! What keeps forks and writers of code apart: no child is made between two bytes of a transaction.
//!
//! **Problem.** A fork copies the process as it is at that moment, and of its threads only the one
//! that forks. What another thread had half written stays so in the child. **Approach.** Who
//! changes bytes that threads may execute enters the gate for just that long; a fork closes it,
//! waits until nobody is inside, and opens it when the child is made. Entering and leaving are one
//! addition each; for commits, which have a [`Seat`], they are one store each.
//!
//! **Invariants.** Nobody waits for ever. A writer that finds the gate closed while it keeps the
//! world stopped must not wait there: the thread that forks may be one of those that are stopped.
//! It lets them go, waits, and stops them again. Who has waited for [`PATIENCE`] goes on without
//! the other: a fork then gives its child no code, a writer then breaks the fork's copy, with the
//! same effect. So a lock that is taken in a handler of `pthread_atfork` by the one side and held
//! while patching by the other costs that time, and no deadlock. In the child of a fork that ran no
//! such handler (`clone` called directly) the gate is open, as the kernel wipes it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use super::seat;

/// How long one side waits for the other.
const PATIENCE: Duration = Duration::from_secs(1);

/// In the gate: a fork is under way. The rest counts who is inside.
const FORKING: u32 = 1 << 31;

/// Whether a writer went in while a fork was under way.
static BROKEN: AtomicBool = AtomicBool::new(false);

fn gate() -> &'static AtomicU32 {
    &super::own().gate
}

/// The time that one side has for the other.
pub(crate) struct Patience(Instant);

impl Patience {
    pub(crate) fn new() -> Self {
        Self(Instant::now() + PATIENCE)
    }

    /// Lets others run. False when the time is over.
    pub(crate) fn wait(&self) -> bool {
        std::thread::yield_now();
        Instant::now() < self.0
    }
}

/// Waits for a fork that is under way. False if it takes too long.
#[cold]
pub(crate) fn wait() -> bool {
    let patience = Patience::new();
    while gate().load(Ordering::Relaxed) & FORKING != 0 {
        if !patience.wait() {
            return false;
        }
    }
    true
}

/// For a fork that found the gate empty: copies are made from now on, which may stand in for code that
/// is remapped.
pub(super) fn begin_copies() {
    super::own().copying.store(true, Ordering::SeqCst);
    // What is read for a copy is read after this.
    fence(Ordering::SeqCst);
}

/// No copy stands in any more, nor will one before the next fork.
pub(super) fn end_copies() {
    super::own().copying.store(false, Ordering::Release);
}

/// For who has changed code that may be remapped: returns when what was written is what is executed
/// here. Who is inside does not wait.
///
/// A copy that is made after this found that none was being made holds what was written.
pub(in crate::memory) fn show_written() {
    fence(Ordering::SeqCst);
    // protection: what-is-written-beside-a-fork-is-executed
    if super::own().copying.load(Ordering::SeqCst) {
        show_written_later();
    }
}

#[cold]
fn show_written_later() {
    let patience = Patience::new();
    while super::own().copying.load(Ordering::SeqCst) {
        if !patience.wait() {
            drop(Writing::enter_anyway());
            return;
        }
    }
}

/// The right to change bytes of code that may be executed. No fork makes its copy as long as it
/// exists.
pub(crate) struct Writing(Place);

/// Where it is noted that somebody is inside.
pub(super) enum Place {
    /// In the gate, with others.
    Counted(&'static AtomicU32),
    /// In the mark of a [`Seat`].
    Seated(&'static AtomicU32),
}

impl Writing {
    /// Goes in, unless a fork is under way.
    #[inline]
    pub(crate) fn try_enter() -> Option<Self> {
        let gate = gate();
        // Acquire: what a fork's copy reads has been read before this writes.
        // protection: fork-is-waited-for-by-a-transaction
        match gate.fetch_add(1, Ordering::Acquire) & FORKING {
            0 => Some(Self(Place::Counted(gate))),
            _ => Self::leave_at_once(Place::Counted(gate)),
        }
    }

    /// The same for who has noted in the mark of a seat that it is inside, which a fork that closes
    /// the gate sees unless this sees the closed gate.
    #[inline]
    pub(super) fn try_enter_seated(gate: &AtomicU32, mark: &'static AtomicU32) -> Option<Self> {
        // Acquire: as in `try_enter`.
        // protection: fork-is-waited-for-by-a-commit
        match gate.load(Ordering::Acquire) & FORKING {
            0 => Some(Self(Place::Seated(mark))),
            _ => Self::leave_at_once(Place::Seated(mark)),
        }
    }

    /// Nothing was written: the fork sees somebody for a moment, and looks again.
    #[cold]
    fn leave_at_once(place: Place) -> Option<Self> {
        // protection: who-is-refused-leaves
        drop(Self(place));
        None
    }

    /// Goes in, after a fork that is under way. Not while the world is stopped.
    #[inline]
    pub(crate) fn enter() -> Self {
        Self::try_enter().unwrap_or_else(Self::enter_later)
    }

    #[cold]
    pub(super) fn enter_later() -> Self {
        let patience = Patience::new();
        while patience.wait() {
            if let Some(writing) = Self::try_enter() {
                return writing;
            }
        }
        Self::enter_anyway()
    }

    /// Goes in whatever is under way: the fork's child gets no code.
    #[cold]
    pub(crate) fn enter_anyway() -> Self {
        // protection: fork-that-was-not-waited-for-has-no-copy
        BROKEN.store(true, Ordering::SeqCst);
        let gate = gate();
        gate.fetch_add(1, Ordering::Acquire);
        // What is written must be what is executed, here and now.
        // protection: an-impatient-writer-writes-what-is-executed
        super::views::stand_back();
        end_copies();
        Self(Place::Counted(gate))
    }
}

impl Drop for Writing {
    #[inline]
    fn drop(&mut self) {
        match self.0 {
            // In a child that was forked by whoever went in, it is 0 already.
            Place::Seated(mark) => mark.store(0, Ordering::Release),
            Place::Counted(gate) => {
                if gate.fetch_sub(1, Ordering::Release) & !FORKING == 0 {
                    // protection: a-child-knows-no-writer
                    was_not_inside(gate);
                }
            }
        }
    }
}

/// In a child that was forked by whoever went in, the gate knows nobody: nothing is taken from the
/// count.
#[cold]
fn was_not_inside(gate: &AtomicU32) {
    gate.fetch_add(1, Ordering::Relaxed);
}

/// Lets nobody in any more.
pub(crate) fn close() {
    BROKEN.store(false, Ordering::SeqCst);
    gate().fetch_or(FORKING, Ordering::SeqCst);
    // protection: fork-sees-who-has-a-seat
    if seat::make_visible().is_err() {
        // Somebody may be inside whom it does not see: as if it had not been waited for.
        BROKEN.store(true, Ordering::SeqCst);
    }
}

/// Whether the gate is closed and nobody inside.
pub(in crate::memory) fn is_empty() -> bool {
    // protection: fork-waits-for-a-commit
    gate().load(Ordering::Acquire) == FORKING && seat::are_empty()
}

/// Whether somebody went in nevertheless since it was closed.
pub(crate) fn was_broken() -> bool {
    BROKEN.load(Ordering::SeqCst)
}

/// Does something while a writer has noted that it is inside, and has not found out yet that the gate
/// is closed.
#[cfg(all(test, target_os = "linux", not(emulated)))]
pub(crate) fn while_one_is_refused<R>(does: impl FnOnce() -> R) -> R {
    let refused = Writing(Place::Counted(gate()));
    gate().fetch_add(1, Ordering::Acquire);
    let done = does();
    drop(refused);
    done
}

/// Lets others in again.
pub(super) fn open() {
    gate().fetch_and(!FORKING, Ordering::Release);
}
