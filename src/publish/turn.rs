//! A lock that survives a fork: the child of a fork whose parent held it, in a thread that the
//! child has not, takes it over.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::memory::fork;

/// One of several things in a process that one thread does at a time.
pub(super) struct Turns {
    /// The [number](fork::this_process) of the process that is at it, or 0.
    owner: AtomicU32,
}

/// The right to do it.
pub(super) struct Turn {
    of: &'static Turns,
}

impl Turns {
    pub(super) const fn new() -> Self {
        Self {
            owner: AtomicU32::new(0),
        }
    }

    /// Waits for the turn, if there is a deadline until then.
    pub(super) fn wait(&'static self, deadline: Option<Instant>) -> Option<Turn> {
        let this = fork::this_process();
        loop {
            let owner = &self.owner;
            match owner.compare_exchange(0, this, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Turn { of: self }),
                // protection: two-stops-take-turns
                Err(found) if found == this => {}
                // The parent's, at the moment of the fork.
                // protection: fork-during-a-stop
                Err(found) => {
                    let _ = owner.compare_exchange(found, 0, Ordering::Relaxed, Ordering::Relaxed);
                }
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // protection: turn-is-released
        self.of.owner.store(0, Ordering::Release);
    }
}
