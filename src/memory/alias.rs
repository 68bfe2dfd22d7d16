//! Alias: code memory with a second, writable view at another address.
//!
//! The executed view of a sealed memory file cannot be made writable by anyone: not by the engine,
//! not by an attacker who can call `mprotect`. A write goes to the other view, whose distance is a
//! constant.

#![allow(unsafe_code)]

use std::sync::Arc;

use crate::addr::{CodeAddr, CodeRange};
use crate::icache;
use crate::memory::{Error, Result};
use crate::quiescence::Stopped;

use super::chunk::DoubleMapping;
use super::{CodeMemory, LiveMemory, PageRun, Strategy, check_within, raw, sys};

/// Code memory of an [`Arena`](super::Arena), written through its second mapping.
///
/// `begin` and `end` do nothing. Cloning is cheap; the mappings live as long as the last clone.
#[derive(Clone, Debug)]
pub struct Alias {
    mapping: Arc<DoubleMapping>,
}

impl Alias {
    pub(super) fn new(mapping: Arc<DoubleMapping>) -> Self {
        Self { mapping }
    }

    /// How many clones there are, and others who keep the mappings.
    #[cfg(test)]
    pub(crate) fn holders(&self) -> usize {
        Arc::strong_count(&self.mapping)
    }

    /// The distance from an executed address to its writable view, and the check that there is one.
    #[inline]
    pub(super) fn writable(&self, at: CodeAddr, len: usize) -> Result<u64> {
        // protection: fork-alias-is-refused
        self.check_here()?;
        self.writable_here(at, len)
    }

    /// The same in a process that has a writable view.
    #[inline]
    fn writable_here(&self, at: CodeAddr, len: usize) -> Result<u64> {
        // protection: alias-in-its-range
        check_within(self.mapping.rx(), at, len)?;
        Ok(self.mapping.writable(at))
    }

    /// [Begins](CodeMemory::begin) to write, which is no more than asking whether it can be written.
    #[inline]
    pub(crate) fn begin_here(&self) -> Result<()> {
        // protection: fork-alias-begin-is-refused
        self.check_here()?;
        Ok(())
    }

    /// Writes bytes, for who has [begun](CodeMemory::begin) to write: this is no fork's child then.
    #[inline]
    pub(crate) fn write_here(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        let to = self.writable_here(at, bytes.len())?;
        // SAFETY: as for `write`.
        unsafe { raw::store(to, bytes) };
        Ok(())
    }

    /// Bytes in the writable view, to be written in place.
    ///
    /// # Safety
    /// Nobody executes them, and there is no other reference to them; as for [`write`](CodeMemory::write), nobody else writes
    /// them, or the aligned quadwords in which they lie, as long as they are referred to. The memory lives as long.
    ///
    /// # Errors
    /// They are not in the memory; this is a fork's child.
    #[inline]
    pub(crate) unsafe fn bytes_mut<'b>(&self, range: CodeRange) -> Result<&'b mut [u8]> {
        let (at, len) = (range.start(), range.len() as usize);
        let to = self.writable(at, len)?;
        // SAFETY: within the writable view; the rest is the caller's promise.
        Ok(unsafe { raw::bytes_mut(to, len) })
    }

    /// Has the pages backed with memory that have these bytes, all of which are about to be written.
    pub(super) fn back(&self, range: CodeRange) -> Result<()> {
        let to = self.writable(range.start(), range.len() as usize)?;
        let before = to % sys::page_size();
        sys::back(to - before, before + range.len());
        Ok(())
    }

    /// Makes the instruction cache agree with what was written, at the executed addresses. Code
    /// that is executed in a mirror is maintained there, by who publishes it.
    pub(super) fn maintain(&self, range: CodeRange) {
        if self.mapping.is_executed_here() {
            icache::maintain(range);
        }
    }

    /// Refuses to write in a fork's child, which has no writable view.
    #[inline]
    fn check_here(&self) -> Result<()> {
        match self.mapping.is_here() {
            true => Ok(()),
            false => Err(self.forked()),
        }
    }

    /// Whether the bytes are these, for who knows that it is not in a fork's child: asking again
    /// for each site is an eighth of a batch.
    #[inline]
    pub(crate) fn holds_here(&self, at: CodeAddr, expected: &[u8]) -> Result<bool> {
        check_within(self.mapping.rx(), at, expected.len())?;
        // SAFETY: as for `read`.
        Ok(unsafe { raw::holds(at.get(), expected) })
    }

    /// Whether the memory has these bytes, for the same: one answer, where most get the same.
    #[inline]
    pub(crate) fn has_here(&self, at: CodeAddr, expected: &[u8]) -> bool {
        self.holds_here(at, expected) == Ok(true)
    }

    /// Refuses to read in a fork's child that has no copy of the code.
    #[inline]
    fn check_readable(&self) -> Result<()> {
        match self.mapping.is_readable() {
            true => Ok(()),
            false => Err(self.forked()),
        }
    }

    #[cold]
    fn forked(&self) -> Error {
        Error::Forked {
            memory: self.mapping.rx(),
        }
    }
}

// SAFETY: the range is mapped by `mapping` and readable as long as it lives, which is asked in a fork's child. Nothing in begin can fail
// halfway as begin does nothing. Writes are checked against the range and go to the same pages through the
// writable view. Neither view ever changes its protection: one is read-execute and sealed, the other
// read-write.
unsafe impl CodeMemory for Alias {
    fn strategy(&self) -> Strategy {
        Strategy::Alias
    }

    fn range(&self) -> CodeRange {
        self.mapping.rx()
    }

    #[inline]
    fn begin(&self, runs: &[PageRun], _stopped: &Stopped) -> Result<()> {
        self.begin_here()?;
        for run in runs {
            check_within(self.mapping.rx(), run.range().start(), run.range().len() as usize)?;
        }
        Ok(())
    }

    #[inline]
    fn write(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        let to = self.writable(at, bytes.len())?;
        // SAFETY: within the writable view, whose length is a multiple of a page, so that whole quadwords are
        // in it too; only this type writes there, and its callers do not overlap in time.
        unsafe { raw::store(to, bytes) };
        Ok(())
    }

    #[inline]
    fn read(&self, at: CodeAddr, into: &mut [u8]) -> Result<()> {
        check_within(self.mapping.rx(), at, into.len())?;
        // protection: fork-without-a-copy-is-not-read
        self.check_readable()?;
        // SAFETY: within the executed view, which is readable; writers hold the engine's lock, as the caller
        // does.
        unsafe { raw::load(at.get(), into) };
        Ok(())
    }

    #[inline]
    fn holds(&self, at: CodeAddr, expected: &[u8]) -> Result<bool> {
        self.check_readable()?;
        self.holds_here(at, expected)
    }

    #[inline]
    fn end(&self, _runs: &[PageRun]) -> Result<()> {
        Ok(())
    }

    fn as_alias(&self) -> Option<&Alias> {
        Some(self)
    }

    fn live(&self) -> Option<&dyn LiveMemory> {
        Some(self)
    }
}

// SAFETY: no call changes a protection, and the exchange is one locked compare-exchange of an aligned
// quadword.
unsafe impl LiveMemory for Alias {
    fn write_unexecuted(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        self.write(at, bytes)
    }

    #[inline]
    fn exchange(&self, word: CodeAddr, old: [u8; 8], new: [u8; 8]) -> Result<()> {
        // protection: exchange-is-aligned
        if word.get() % 8 != 0 {
            return Err(Error::NoAtomicStore {
                strategy: Strategy::Alias.name(),
                at: word,
                why: "the address is not a multiple of 8",
                mend: "name the aligned word that holds the patchable jump",
            });
        }
        let to = self.writable(word, 8)?;
        // SAFETY: within the writable view and aligned: both views start at a page.
        // protection: patchable-jump-is-one-store
        unsafe { raw::exchange(to, old, new) }.map_err(|found| Error::WordChanged {
            at: word,
            expected: old,
            found,
        })
    }
}
