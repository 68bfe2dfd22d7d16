//! Room for the stubs that one user of the pool fills, one after the other.
//!
//! Problem: to lock the pool, to look for room and to write down that it is taken is a third of what
//! filling a stub takes. Approach: whoever fills many takes a piece of a slab, and takes its stubs from
//! the start of that, under a lock of its own.
//!
//! Invariants: what is left of a piece holds trapping instructions, and nobody else has it. A stub
//! that was taken from one is a [slot](StubSlot) like any other, and freed like one.

use core::mem;
use core::sync::atomic::Ordering;

use super::{Back, GRANULE, Slab, StubPool, StubSlot, check_length, foreign};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::latency::{self, Stage};
use crate::memory::{Alias, CodeMemory, Error, Result, reserve};

/// How long a piece is at most, unless one stub is longer: sixteen stubs of the usual length.
const PIECE: u64 = 512;

/// A piece of a slab. Only one user of a pool has one.
#[derive(Default)]
pub(crate) struct StubRoom {
    /// Through which it is written.
    memory: Option<Alias>,
    /// What is left of it.
    left: CodeRange,
}

impl StubRoom {
    /// Where the next stub is, if it has so many bytes, and is in reach of `near`.
    ///
    /// # Errors
    /// Those of [`StubPool::alloc`].
    #[inline]
    pub(crate) fn next(&mut self, pool: &StubPool, len: Len, near: CodeRange) -> Result<CodeAddr> {
        let _stage = latency::enter(Stage::Allocate);
        let need = u64::from(len.get()).next_multiple_of(GRANULE);
        // protection: kept-piece-is-within-reach
        if need > self.left.len() || need == 0 || !reserve::allows(pool.reach(near), self.left) {
            self.renew(pool, need, near)?;
        }
        Ok(self.left.start())
    }

    #[inline(never)] // Few stubs need a new piece.
    fn renew(&mut self, pool: &StubPool, need: u64, near: CodeRange) -> Result<()> {
        let (memory, left) = pool.exchange_piece(mem::take(&mut self.left), need, near)?;
        (self.memory, self.left) = (Some(memory), left);
        pool.kept_piece.store(self.left.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Takes the [next](Self::next) stub, and writes its code, to which nothing branches yet.
    ///
    /// # Errors
    /// [`Error::OutsideMemory`] for code that is longer than what is left; [`Error::Forked`] in a fork's child.
    /// Nothing is taken then.
    #[inline]
    pub(crate) fn fill(&mut self, pool: &StubPool, code: &[u8]) -> Result<StubSlot> {
        let need = (code.len() as u64).next_multiple_of(GRANULE);
        let parts = self.left.len().checked_sub(need).and_then(|left| {
            let range = CodeRange::new(self.left.start(), need)?;
            Some((range, CodeRange::new(range.end(), left)?))
        });
        let (Some((range, left)), Some(memory)) = (parts, &self.memory) else {
            return Err(Error::OutsideMemory {
                at: self.left.start(),
                len: need,
                memory: self.left,
            });
        };
        // protection: filled-stub-is-there-before-its-jump
        memory.write(range.start(), code)?;
        self.left = left;
        // Nobody else counts these, so nothing is lost between reading and writing.
        let carved = pool.carved.load(Ordering::Relaxed) + 1;
        pool.carved.store(carved, Ordering::Relaxed);
        // protection: what-is-left-of-a-piece-is-not-in-use
        pool.kept_piece.store(left.len(), Ordering::Relaxed);
        let retired = None;
        Ok(StubSlot { range, retired })
    }
}

impl StubPool {
    /// Takes back what is left of a piece, and takes another of so many bytes at least.
    fn exchange_piece(&self, left: CodeRange, need: u64, near: CodeRange) -> Result<(Alias, CodeRange)> {
        check_length(need)?;
        let mut state = self.lock()?;
        self.kept_piece.store(0, Ordering::Relaxed);
        if !left.is_empty() {
            let slab = state.slab_of(left)?;
            let slab = state.slabs.get_mut(slab).ok_or(foreign(left))?;
            // protection: what-is-left-of-a-piece-is-given-back
            slab.free.give(left);
            state.stats.in_use -= left.len();
        }
        let most = need.max(PIECE);
        let first_fit = |slab: &mut Slab| slab.free.take_up_to((need, most), GRANULE);
        let (slab, piece) = self.take(&mut state, (need, Back::All), self.reach(near), first_fit)?;
        state.stats.in_use += piece.len();
        let slab = state.slabs.get(slab).ok_or(foreign(piece))?;
        Ok((slab.memory.clone(), piece))
    }
}
