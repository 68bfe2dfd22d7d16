//! Pages grouped into runs, so that a protection is changed once per run and transaction.

use std::fmt;
use std::vec::Vec;

use smallvec::{Array, SmallVec};

use crate::addr::{CodeAddr, CodeRange};
use crate::memory::{Error, Result};

use super::sys;

/// A run of adjacent whole pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageRun(CodeRange);

impl PageRun {
    /// The fewest runs that hold all the ranges, in the order of their addresses. `ranges` is
    /// sorted on the way.
    ///
    /// Empty ranges have no page.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideMemory`] for a range whose last page does not exist.
    pub fn covering(ranges: &mut [CodeRange]) -> Result<Vec<Self>> {
        Self::cover::<[Self; 1]>(ranges).map(SmallVec::into_vec)
    }

    /// As [`covering`](Self::covering), without an allocation while the runs are few.
    #[inline]
    pub(crate) fn cover<A: Array<Item = Self>>(ranges: &mut [CodeRange]) -> Result<SmallVec<A>> {
        if let [range] = ranges {
            let around = Self::around(*range)?;
            return Ok(core::iter::once(around).filter(|_| !range.is_empty()).collect());
        }
        ranges.sort_unstable();
        let mut runs = SmallVec::<A>::new();
        for range in ranges.iter().filter(|r| !r.is_empty()) {
            let pages = Self::around(*range)?;
            match runs.last_mut() {
                Some(last) if pages.0.start() <= last.0.end() => last.extend_to(pages.0.end()),
                _ => runs.push(pages),
            }
        }
        Ok(runs)
    }

    /// The pages in which a range lies.
    #[inline]
    fn around(range: CodeRange) -> Result<Self> {
        let page = sys::page_size();
        let start = range.start().get() & !(page - 1);
        let end = range.end().get().checked_next_multiple_of(page);
        end.and_then(|end| CodeRange::new(CodeAddr::new(start), end - start))
            .map(Self)
            .ok_or_else(|| Error::OutsideMemory {
                at: range.start(),
                len: range.len(),
                memory: CodeRange::default(),
            })
    }

    fn extend_to(&mut self, end: CodeAddr) {
        let end = end.max(self.0.end());
        let start = self.0.start();
        let longer = CodeRange::new(start, end.get() - start.get());
        self.0 = longer.expect("it ends at an address, no earlier than it did");
    }

    /// The addresses, whole pages.
    #[must_use]
    pub const fn range(self) -> CodeRange {
        self.0
    }
}

impl fmt::Debug for PageRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, len: u64) -> CodeRange {
        CodeRange::new(CodeAddr::new(start), len).unwrap()
    }

    #[test]
    fn adjacent_pages_are_one_run_and_distant_ones_are_not() {
        let p = sys::page_size();
        let mut ranges = [
            range(10 * p + 5, 20),
            range(3 * p, 1),
            range(4 * p - 1, 2),
            range(11 * p, 8),
            range(20 * p, 0),
            range(10 * p, 4),
        ];
        let runs = PageRun::covering(&mut ranges).unwrap();
        assert_eq!(
            runs,
            [PageRun(range(3 * p, 2 * p)), PageRun(range(10 * p, 2 * p))]
        );
    }

    #[test]
    fn a_contained_range_does_not_shorten_its_run() {
        let p = sys::page_size();
        let runs = PageRun::covering(&mut [range(p, 3 * p), range(p + 1, 1)]).unwrap();
        assert_eq!(runs, [PageRun(range(p, 3 * p))]);
    }

    #[test]
    fn the_end_of_the_address_space_is_refused() {
        let last = range(u64::MAX - 1, 1);
        assert!(PageRun::covering(&mut [last]).is_err());
    }
}
