//! Stacks of the executor's threads, which both processes map.

#![allow(unsafe_code)]

use patchpoint::addr::{CodeAddr, CodeRange};
use patchpoint::memory::{PlacedSegments, SegmentKind};

/// The stack of a thread of the other process, which both see.
#[derive(Debug)]
pub(crate) struct SharedStack {
    memory: PlacedSegments,
    /// Above the guard.
    range: CodeRange,
}

impl SharedStack {
    /// Of data that is nobody else's, of which so many bytes at the start are not used.
    pub(crate) fn new(memory: PlacedSegments, guard: u64) -> Option<Self> {
        let whole = memory.segments().first()?;
        let len = whole.range.len().checked_sub(guard)?;
        let start = whole.range.start().get().checked_add(guard)?;
        let range = CodeRange::new(CodeAddr::new(start), len)?;
        let is_data = whole.kind == SegmentKind::Data;
        is_data.then_some(Self { memory, range })
    }

    /// Where it is.
    pub(crate) fn range(&self) -> CodeRange {
        self.range
    }

    /// What is below it.
    pub(crate) fn guard(&self) -> Option<CodeRange> {
        let whole = self.memory.segments().first()?.range;
        CodeRange::new(whole.start(), whole.len().checked_sub(self.range.len())?)
    }

    /// Its words from an address on, as they are now; all, if the address is none of it. The other
    /// process may write them at any time.
    pub(crate) fn words(&self, from: u64) -> impl Iterator<Item = u64> {
        let (start, end) = (self.range.start().get(), self.range.end().get());
        let from = if (start..end).contains(&from) { from } else { start };
        let aligned = (from.next_multiple_of(8)..end).step_by(8);
        aligned.filter(move |at| end - at >= 8).map(|at| {
            // SAFETY: an aligned word of data that this value owns, which is mapped as long as it lives and readable here.
            unsafe { (at as *const u64).read_volatile() }
        })
    }
}
