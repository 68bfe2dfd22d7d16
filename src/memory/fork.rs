//! Noticing that this process is a fork's child of the one that mapped the memory.
//!
//! Aliased code is shared with the child and an open `/proc/self/mem` keeps naming the parent's memory, so a
//! child that patched would change code under its parent's feet. A page that the kernel wipes in the child
//! holds the number of the process in the line of forks: one load tells. Where there is no such page,
//! `getpid` does.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::sys;

/// The number that the mark of this process holds; copied by fork, unlike the mark.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// The page that a fork wipes, if the kernel has such.
///
/// No lock is held while it is made: a child that was forked then would wait for ever. Of two threads that make
/// one at once, one leaves its page unused.
fn mark() -> Option<&'static AtomicU32> {
    static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
    // SAFETY: null, or a mark, which lives as long as the process.
    if let Some(mark) = unsafe { MARK.load(Ordering::Acquire).as_ref() } {
        return Some(mark);
    }
    let made = sys::fork_mark()?;
    let pointer = ptr::from_ref(made).cast_mut();
    match MARK.compare_exchange(ptr::null_mut(), pointer, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(made),
        // SAFETY: a mark, as above.
        Err(other) => unsafe { other.as_ref() },
    }
}

/// The process in which something was made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Birth {
    Marked { mark: &'static AtomicU32, generation: u32 },
    Pid(u32),
}

impl Birth {
    /// This process.
    pub(super) fn here() -> Self {
        match mark() {
            Some(mark) => {
                let next = GENERATION.load(Ordering::Relaxed).wrapping_add(1).max(2);
                let wiped = mark.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire);
                let generation = match wiped {
                    Ok(_) => {
                        GENERATION.store(next, Ordering::Relaxed);
                        next
                    }
                    Err(found) => found,
                };
                Self::Marked { mark, generation }
            }
            None => Self::Pid(std::process::id()),
        }
    }

    /// Whether this is still that process.
    #[inline]
    pub(super) fn is_here(self) -> bool {
        match self {
            Self::Marked { mark, generation } => mark.load(Ordering::Relaxed) == generation,
            Self::Pid(pid) => is_process(pid),
        }
    }
}

#[cold]
fn is_process(pid: u32) -> bool {
    std::process::id() == pid
}
