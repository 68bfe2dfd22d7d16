//! Which trapping instructions are ours, and where each goes: read by a signal handler, without a
//! lock.
//!
//! An open-addressed table of pairs of atomics. A cell's address is written once and never taken
//! away, so a chain of probes never breaks; a cleared cell has no target. A table that is half
//! full is replaced by a larger copy; old ones are kept, as a handler may be reading one at that
//! moment: all of them together are no larger than the current one. A fork copies the table with
//! the code that it is about.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// A cell without an address.
const EMPTY: u64 = 0;

struct Cell {
    /// The trap's address.
    at: AtomicU64,
    /// Where it goes, or 0.
    to: AtomicU64,
}

struct Cells(Box<[Cell]>);

/// The table.
pub(super) struct Table {
    cells: AtomicPtr<Cells>,
    used: AtomicUsize,
}

impl Cells {
    fn new(len: usize) -> Self {
        let cell = || Cell {
            at: AtomicU64::new(EMPTY),
            to: AtomicU64::new(0),
        };
        Self((0..len).map(|_| cell()).collect())
    }

    /// The cell of an address, or the empty one where it belongs.
    fn cell(&self, at: u64) -> Option<&Cell> {
        let len = self.0.len();
        // Fibonacci hashing: the high bits of the product depend on all bits of the address.
        let first = (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        (0..len)
            .filter_map(|step| self.0.get(first.wrapping_add(step) % len))
            .find(|cell| {
                let found = cell.at.load(Ordering::Acquire);
                found == at || found == EMPTY
            })
    }
}

impl Table {
    pub(super) const fn new() -> Self {
        Self {
            cells: AtomicPtr::new(ptr::null_mut()),
            used: AtomicUsize::new(0),
        }
    }

    fn cells(&self) -> Option<&Cells> {
        // SAFETY: null, or cells that live as long as the process.
        unsafe { self.cells.load(Ordering::Acquire).as_ref() }
    }

    /// Where the trap at that address goes. Async-signal-safe.
    pub(super) fn find(&self, at: u64) -> Option<u64> {
        let cell = self.cells()?.cell(at)?;
        // An empty cell may be taken by another address between two looks: it is asked again which
        // it is.
        let to = cell.to.load(Ordering::Acquire);
        (cell.at.load(Ordering::Acquire) == at && to != 0).then_some(to)
    }

    /// Sets where it goes; 0 for no target. One thread at a time.
    pub(super) fn set(&self, at: u64, to: u64) {
        let cells = match self.cells() {
            Some(cells) if 2 * self.used.load(Ordering::Relaxed) < cells.0.len() => cells,
            _ => self.grow(),
        };
        let Some(cell) = cells.cell(at) else { return };
        cell.to.store(to, Ordering::Release);
        if cell.at.swap(at, Ordering::AcqRel) == EMPTY {
            self.used.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A table of twice the length, without the cells that have no target.
    fn grow(&self) -> &Cells {
        let old = self.cells();
        let larger = Cells::new(old.map_or(64, |old| 2 * old.0.len()));
        let mut used = 0;
        for cell in old.iter().flat_map(|old| &old.0) {
            let (at, to) = (cell.at.load(Ordering::Relaxed), cell.to.load(Ordering::Relaxed));
            if at != EMPTY && to != 0 {
                let into = larger.cell(at).expect("a larger table has a cell for each");
                into.at.store(at, Ordering::Relaxed);
                into.to.store(to, Ordering::Relaxed);
                used += 1;
            }
        }
        let larger = Box::into_raw(Box::new(larger));
        self.used.store(used, Ordering::Relaxed);
        self.cells.store(larger, Ordering::Release);
        // SAFETY: just made, and never freed.
        unsafe { &*larger }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_found_after_the_table_has_grown_many_times() {
        let table = Table::new();
        assert_eq!(table.find(1), None);
        for at in 1..5000 {
            table.set(at * 16, at);
        }
        for at in (1..5000).step_by(3) {
            table.set(at * 16, 0);
        }
        for at in 1..5000 {
            let expected = (at % 3 != 1).then_some(at);
            assert_eq!(table.find(at * 16), expected, "{at}");
            assert_eq!(table.find(at * 16 + 1), None);
        }
        for at in (1..5000).step_by(3) {
            table.set(at * 16, at + 7);
            assert_eq!(table.find(at * 16), Some(at + 7));
        }
    }

    #[test]
    fn readers_never_find_a_wrong_place_while_the_table_grows() {
        let table = Table::new();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut found = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    for at in (16..16 * 2000).step_by(16) {
                        if let Some(to) = table.find(at) {
                            assert_eq!(to, at + 1);
                            found += 1;
                        }
                    }
                }
                found
            });
            for at in (16..16 * 2000).step_by(16) {
                table.set(at, at + 1);
            }
            done.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
    }
}
