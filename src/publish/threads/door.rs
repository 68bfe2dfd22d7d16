//! The door behind which threads attach: closed while they are stopped.
//!
//! Problem: whoever stops threads looks through the list of those that are attached, while others
//! attach. A thread that the list does not show yet must not come to execute code. Approach: who
//! stops closes the door, then looks; who attaches enters the list, then looks at the door. One of
//! the two sees the other.
//!
//! Invariant: each writes, fences, and then reads. Without the fences a processor may do the read
//! first, on both sides: then neither sees the other (the store-buffer test; x86-64 and SystemZ
//! reorder so too, Power and RISC-V also where the read is an acquiring one).

use sync::{AtomicI32, Ordering, fence};

/// Where the synchronization comes from: the model checker's under test with it.
mod sync {
    #[cfg(all(test, loom))]
    pub(super) use loom::sync::atomic::{AtomicI32, Ordering, fence};
    #[cfg(not(all(test, loom)))]
    pub(super) use std::sync::atomic::{AtomicI32, Ordering, fence};
}

/// The process for which it is closed, or 0. A child of a fork finds it open.
pub(super) struct Door(AtomicI32);

impl Door {
    #[cfg(not(all(test, loom)))]
    pub(super) const fn new() -> Self {
        Self(AtomicI32::new(0))
    }

    #[cfg(all(test, loom))]
    pub(super) fn new() -> Self {
        Self(AtomicI32::new(0))
    }

    /// Closes it. Afterwards the list shows every thread that found it open.
    pub(super) fn close(&self, process: i32) {
        self.0.store(process, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Opens it. Who finds it open finds what was done while it was closed.
    pub(super) fn open(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Whether it is closed, for a thread that is in the list.
    pub(super) fn is_closed_for(&self, process: i32) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Acquire) == process
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Of one that stops and one that attaches, one sees the other, whatever their cores do first.
    fn explore(close: impl Fn(&Door) + Sync + Send + 'static) {
        loom::model(move || {
            let shared = Arc::new((Door::new(), AtomicI32::new(0)));
            let attaching = Arc::clone(&shared);
            let thread = thread::spawn(move || {
                let (door, listed) = &*attaching;
                // As the registry publishes a slot.
                listed.store(1, Ordering::Release);
                door.is_closed_for(7)
            });
            let (door, listed) = &*shared;
            close(door);
            let seen = listed.load(Ordering::Acquire) == 1;
            let waits = thread.join().unwrap();
            assert!(seen || waits, "neither sees the other");
        });
    }

    #[test]
    fn loom_who_attaches_is_seen_or_waits() {
        explore(|door| door.close(7));
    }

    /// The protection taken out: the door is closed, and the list read, without a fence in between.
    #[test]
    #[should_panic(expected = "neither sees the other")]
    fn loom_finds_a_door_without_a_fence() {
        explore(|door| door.0.store(7, Ordering::SeqCst));
    }
}
