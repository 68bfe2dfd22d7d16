//! Counters that code counts in.
//!
//! **Problem.** A sequence adds to a word at a fixed address, and this process reads it. Where the
//! code is executed in a mirror, the heap of this process is not there. **Approach.** A counter is
//! a word of the heap, or one of data that is mapped in both places, of which a page has room for
//! many.
//!
//! **Invariant.** The word stays where it is as long as a counter that names it lives: whoever
//! hands the address to code keeps the counter as long as the code may run. **Cost.** As an atomic
//! of one's own; a system call or two per page of shared ones. A shared page is freed with the
//! last of its counters.

#![allow(unsafe_code)]

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Arena, PlacedSegments, Reach, SegmentKind, SegmentNeed};
use crate::addr::CodeAddr;
use crate::memory::Result;

const PAGE: u64 = 4096;
const WORD: u64 = size_of::<AtomicU64>() as u64;

/// A word that code adds to. Clones name the same.
#[derive(Clone)]
pub(crate) struct Counter(Word);

#[derive(Clone)]
enum Word {
    Own(Arc<AtomicU64>),
    Shared { at: CodeAddr, _keep: Arc<PlacedSegments> },
}

impl Counter {
    /// One in this process's memory, which begins at 0.
    pub(crate) fn own() -> Self {
        Self(Word::Own(Arc::default()))
    }

    /// Where code finds it.
    pub(crate) fn addr(&self) -> CodeAddr {
        match &self.0 {
            Word::Own(word) => CodeAddr::new(word.as_ptr() as u64),
            Word::Shared { at, .. } => *at,
        }
    }

    /// What was counted. Of a shared one, whatever was written in the mirror.
    pub(crate) fn get(&self) -> u64 {
        match &self.0 {
            Word::Own(word) => word.load(Ordering::Relaxed),
            Word::Shared { at, _keep } => {
                // SAFETY: an aligned word of the page, which this value keeps mapped; only atomics of this module and
                // code read and write it.
                unsafe { AtomicU64::from_ptr(at.get() as *mut u64) }.load(Ordering::Relaxed)
            }
        }
    }

    /// Whether it is in memory that a mirror has too.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.0, Word::Shared { .. })
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        self.addr() == other.addr()
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.get(), self.addr())
    }
}

/// Makes counters that are seen in a mirror, too.
#[derive(Default)]
pub(crate) struct SharedCounters(Mutex<Option<Page>>);

struct Page {
    placed: Arc<PlacedSegments>,
    used: u64,
}

impl SharedCounters {
    /// One that nobody has had before, in data of the arena; it begins at 0.
    ///
    /// # Errors
    /// As [`Arena::place`].
    pub(crate) fn make(&self, arena: &Arena) -> Result<Counter> {
        let mut current = self.0.lock();
        let page = match &mut *current {
            Some(page) if page.used + WORD <= PAGE => page,
            other => other.insert(Page::new(arena)?),
        };
        let segment = page.placed.segments().first();
        let segment = segment.expect("a page is the segment that was asked for");
        let at = CodeAddr::new(segment.range.start().get() + page.used);
        page.used += WORD;
        let _keep = Arc::clone(&page.placed);
        Ok(Counter(Word::Shared { at, _keep }))
    }
}

impl Page {
    fn new(arena: &Arena) -> Result<Self> {
        let need = SegmentNeed {
            kind: SegmentKind::Data,
            len: PAGE,
            align: WORD,
        };
        let placed = Arc::new(arena.place(&[need], Reach::Anywhere)?.finalize()?);
        Ok(Self { placed, used: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_has_a_word_of_its_own_that_begins_at_zero() {
        let (arena, shared) = (Arena::new(1 << 20), SharedCounters::default());
        let counters: Vec<Counter> = (0..1200).map(|_| shared.make(&arena).unwrap()).collect();
        for (number, counter) in counters.iter().enumerate() {
            assert_eq!(counter.get(), 0);
            assert_eq!(counter.addr().get() % WORD, 0);
            // SAFETY: a word of the counter's own.
            unsafe { (counter.addr().get() as *mut u64).write_volatile(number as u64 + 1) };
        }
        for (number, counter) in counters.iter().enumerate() {
            assert_eq!(counter.get(), number as u64 + 1);
        }
        // A page that nobody counts in is used again, and is new then.
        let first = counters[0].addr();
        drop(counters);
        drop(shared);
        let again = SharedCounters::default().make(&arena).unwrap();
        assert_eq!((again.addr(), again.get()), (first, 0));
        assert!(!Counter::own().is(&again));
    }
}
