//! The stub pool: small pieces of code memory in reach of the code that jumps to them.
//!
//! Slabs are taken from the arena near the code; slots of 16-byte granularity are taken first fit
//! from the newest slab that has room, and so are [pieces](room), from which one user takes its slots.
//! [Blocks](blocks), whose rooms are slots of one length, are taken from the end of a slab. Of a slab from
//! which only these were taken, the pages in front of them have no memory yet. All else of it that is not in
//! use holds trapping instructions. A slot comes back with a [`GracePeriod`], as no thread may be in it
//! or return to it.

mod blocks;
mod room;

use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::vec::Vec;

use parking_lot::{Mutex, MutexGuard};

use crate::addr::{CodeAddr, CodeRange, Len};
use crate::latency::{self, Stage};
use crate::memory::{Error, Result};
use crate::quiescence::{GracePeriod, Moment};

use super::arena::fill_with_traps;
use super::spans::Spans;
use super::{Alias, Arena, CodeMemory, PlacedSegments, Reach, SegmentKind, SegmentNeed, reserve, sys};

use blocks::Blocks;
pub(crate) use blocks::{Block, BlockRooms, KeptRooms};
pub use blocks::{BlockForm, EmptyRoom, EmptyRooms};
pub(crate) use room::StubRoom;

/// The alignment of a slot, and the granularity of its length.
const GRANULE: u64 = 16;
/// How much code memory a slab takes, of the first. Some 200 live sites need no more; the first of them
/// that is armed has all of it backed, so that no patch waits for its pages.
const SLAB: u64 = 32 << 10;
/// The same where there is no room for more.
const LEAST_SLAB: u64 = 16 << 10;
/// So many slabs have the same length, and those that follow twice as much: a large pool has few, all
/// of which are looked through for room.
const SLABS_OF_A_SIZE: usize = 4;
/// A slab has a megabyte at most.
const MOST_DOUBLINGS: usize = 6;

/// A pool of stubs. It is shared by reference between threads.
#[derive(Debug)]
pub struct StubPool {
    arena: Arena,
    /// How far a stub may be from the code, in bytes.
    within: u64,
    state: Mutex<PoolState>,
    /// What is taken but not in use, counted without the lock: whoever keeps it does not take that.
    kept_rooms: AtomicU64,
    kept_bytes: AtomicU64,
    /// What is left of the piece that was taken for several stubs.
    kept_piece: AtomicU64,
    /// How many stubs were ever taken from such pieces. They are freed as the others are.
    carved: AtomicU64,
}

#[derive(Debug, Default)]
struct PoolState {
    slabs: Vec<Slab>,
    blocks: Blocks,
    /// Of slots those that were taken here: fewer than were freed, if more were taken from pieces.
    stats: StubStats,
}

#[derive(Debug)]
struct Slab {
    /// Owns the code memory.
    _placed: PlacedSegments,
    /// Through which it is written.
    memory: Alias,
    range: CodeRange,
    free: Spans,
    /// What is from here on is backed with memory, and held trapping instructions before it was taken.
    backed: CodeAddr,
}

/// What of a slab is backed with memory when some of it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Back {
    /// All: whoever takes more does not wait for pages.
    All,
    /// The pages of what is taken, and those behind.
    Taken,
}

/// Code memory for one stub.
#[derive(Debug, PartialEq, Eq)]
pub struct StubSlot {
    range: CodeRange,
    retired: Option<Moment>,
}

impl StubSlot {
    /// Takes it out, and leaves one that has no bytes.
    #[inline]
    pub(crate) fn take(&mut self) -> Self {
        core::mem::replace(
            self,
            Self {
                range: CodeRange::default(),
                retired: None,
            },
        )
    }

    /// Its first byte, a multiple of 16; in a block, of 8.
    #[must_use]
    pub const fn addr(&self) -> CodeAddr {
        self.range.start()
    }

    /// All its bytes.
    #[must_use]
    pub fn range(&self) -> CodeRange {
        self.range
    }

    /// Notes that nothing branches there any more, and that this has been published: a grace period
    /// that begins later can be about it.
    #[must_use]
    pub fn retire(self) -> Self {
        // Whoever has published it may have done so in another way.
        fence(Ordering::SeqCst);
        self.retired_at(Moment::now())
    }

    /// As [`retire`](Self::retire), at a moment that has passed.
    pub(crate) fn retired_at(mut self, moment: Moment) -> Self {
        self.retired = Some(moment);
        self
    }

    /// Whether the proof is about it.
    pub(crate) fn is_covered_by(&self, grace_period: &GracePeriod) -> bool {
        grace_period.covers(self.range(), self.retired)
    }

    /// How many bytes can be used.
    #[must_use]
    pub const fn len(&self) -> Len {
        // Slabs are placed within the reach of a jump: none has 4 GiB.
        Len::new(self.range.len() as u32)
    }

    /// Whether the slot has no bytes; it never has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

/// How much memory stubs use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StubStats {
    /// Bytes in slabs.
    pub reserved: u64,
    /// Bytes in slots now in use.
    pub in_use: u64,
    /// Bytes ever freed, over the pool's life.
    pub reclaimed: u64,
    /// Slots now in use.
    pub slots: u64,
}

impl StubPool {
    /// A pool that takes its memory from an arena, always less than `within` bytes from the code
    /// that jumps there: as far as jumps reach.
    #[must_use]
    pub fn new(arena: Arena, within: u64) -> Self {
        Self {
            arena,
            within,
            state: Mutex::new(PoolState::default()),
            kept_rooms: AtomicU64::new(0),
            kept_bytes: AtomicU64::new(0),
            kept_piece: AtomicU64::new(0),
            carved: AtomicU64::new(0),
        }
    }

    /// Takes a slot of at least `len` bytes that reaches, and is reached from, every byte of
    /// `near`. It holds trapping instructions.
    ///
    /// # Errors
    ///
    /// [`Error::SegmentRefused`] for a length of 0; [`Error::EngineForked`] in a fork's child; what
    /// [`Arena::place`] answers, notably [`Error::NoAddressSpace`] when nothing near the code is
    /// free.
    pub fn alloc(&self, len: Len, near: CodeRange) -> Result<StubSlot> {
        let _stage = latency::enter(Stage::Allocate);
        let need = u64::from(len.get()).next_multiple_of(GRANULE);
        check_length(need)?;
        let mut state = self.lock()?;
        let first_fit = |slab: &mut Slab| slab.free.take_up_to((need, need), GRANULE);
        let (_, range) = self.take(&mut state, (need, Back::All), self.reach(near), first_fit)?;
        state.stats.in_use += range.len();
        state.stats.slots = state.stats.slots.wrapping_add(1);
        Ok(StubSlot { range, retired: None })
    }

    fn reach(&self, near: CodeRange) -> Reach {
        Reach::Near {
            code: near,
            within: self.within,
        }
    }

    /// Takes so many bytes of a slab, of a new one if need be; which one it is.
    fn take(
        &self,
        state: &mut PoolState,
        (need, back): (u64, Back),
        reach: Reach,
        from: impl Fn(&mut Slab) -> Option<CodeRange>,
    ) -> Result<(usize, CodeRange)> {
        let taken = match state.take(reach, &from) {
            Some(taken) => taken,
            None => {
                let number = state.slabs.len();
                let taken = from(self.grow(state, need, reach)?);
                (number, taken.expect("a new slab has what it was made for"))
            }
        };
        state.back(taken, back)
    }

    /// Takes a new slab near the code.
    fn grow<'a>(&self, state: &'a mut PoolState, need: u64, reach: Reach) -> Result<&'a mut Slab> {
        let doublings = (state.slabs.len() / SLABS_OF_A_SIZE).min(MOST_DOUBLINGS);
        let place = |len| {
            let slab = SegmentNeed {
                kind: SegmentKind::Code,
                len,
                align: 64,
            };
            self.arena.place(&[slab], reach)
        };
        let (usual, least) = (need.max(SLAB << doublings), need.max(LEAST_SLAB));
        let placed = match place(usual) {
            // protection: a-slab-is-smaller-where-there-is-less-room
            Err(Error::NoAddressSpace { .. }) if least < usual => place(least)?,
            placed => placed?,
        };
        let placed = placed.finalize()?;
        let segment = placed.segments().first();
        let range = segment.expect("a slab is the segment that was asked for").range;
        let memory = placed.memory();
        let free = Spans::of(range);
        state.slabs.push(Slab {
            _placed: placed,
            memory,
            range,
            free,
            backed: range.end(),
        });
        state.stats.reserved += range.len();
        Ok(state.slabs.last_mut().expect("one was just added"))
    }

    /// The memory through which a slot is written.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideMemory`] for a slot of another pool; [`Error::EngineForked`] in a fork's
    /// child.
    pub(crate) fn memory(&self, slot: &StubSlot) -> Result<Alias> {
        let state = self.lock()?;
        let slab = state.slab_of(slot.range())?;
        let slab = state.slabs.get(slab);
        slab.map(|slab| slab.memory.clone()).ok_or(foreign(slot.range()))
    }

    /// Writes the code of a slot that nothing branches to yet.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideMemory`] for code that is longer than the slot, or a slot of another pool.
    pub(crate) fn fill(&self, slot: &StubSlot, code: &[u8]) -> Result<()> {
        let _stage = latency::enter(Stage::Allocate);
        let state = self.lock()?;
        let slab = state.slab_of(slot.range())?;
        state.write(slab, slot.range(), code)
    }

    /// The same of code that is mostly shorter than what its slot was taken for: what the slot has
    /// beyond is free again.
    ///
    /// # Errors
    ///
    /// As [`fill`](Self::fill); the slot is free again then.
    pub(crate) fn fill_and_shorten(&self, slot: StubSlot, code: &[u8]) -> Result<StubSlot> {
        let _stage = latency::enter(Stage::Allocate);
        let mut state = self.lock()?;
        let range = slot.range();
        let slab = state.slab_of(range)?;
        if let Err(error) = state.write(slab, range, code) {
            state.give_slot(range)?;
            return Err(error);
        }
        let used = (code.len() as u64).next_multiple_of(GRANULE).max(GRANULE);
        let beyond = range.len().checked_sub(used).filter(|beyond| *beyond > 0);
        let parts = beyond.and_then(|beyond| {
            let kept = CodeRange::new(range.start(), used)?;
            Some((kept, CodeRange::new(kept.end(), beyond)?))
        });
        let Some((kept, beyond)) = parts else {
            return Ok(slot);
        };
        // It holds trapping instructions still.
        let slab = state.slabs.get_mut(slab).ok_or(foreign(range))?;
        // protection: only-what-is-beyond-the-code-is-free
        slab.free.give(beyond);
        state.stats.in_use -= beyond.len();
        let retired = None;
        Ok(StubSlot { range: kept, retired })
    }

    /// The bytes of stubs.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideMemory`] for bytes that are not of one of the pool's slabs.
    pub(crate) fn read(&self, range: CodeRange) -> Result<Vec<u8>> {
        let state = self.lock()?;
        let holds = |slab: &&Slab| slab.range.contains_bytes(range.start(), range.len());
        let slab = state.slabs.iter().find(holds).ok_or(foreign(range))?;
        let len = usize::try_from(range.len()).expect("what is mapped has a length");
        let mut bytes = vec![0; len];
        CodeMemory::read(&slab.memory, range.start(), &mut bytes)?;
        Ok(bytes)
    }

    /// Frees a slot that no thread is in and nothing branches or returns to.
    pub(crate) fn discard(&self, slot: StubSlot) {
        // A slot that cannot be freed, in a fork's child, stays taken.
        let _ = self.give(&slot);
    }

    /// Frees a slot. It is filled with trapping instructions, and may be used again at once.
    ///
    /// # Errors
    ///
    /// [`Error::NoGracePeriod`] if the proof is about other bytes; [`Error::OutsideMemory`] for a
    /// slot of another pool; [`Error::EngineForked`] in a fork's child. The slot is lost then.
    pub fn free(&self, slot: StubSlot, grace_period: &GracePeriod) -> Result<()> {
        // protection: stub-freed-after-a-grace-period-only
        if !slot.is_covered_by(grace_period) {
            return Err(Error::NoGracePeriod { range: slot.range() });
        }
        self.give(&slot)
    }

    fn give(&self, slot: &StubSlot) -> Result<()> {
        self.lock()?.give_slot(slot.range())
    }

    /// How much memory stubs use. In a fork's child nothing is counted if a thread of the parent
    /// was allocating or freeing a slot.
    #[must_use]
    pub fn stats(&self) -> StubStats {
        let state = self.arena.birth().lock(&self.state);
        let mut stats = state.map_or_else(StubStats::default, |state| state.stats);
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        // Others may be taking them, or giving them back.
        let slots = stats.slots.wrapping_add(of(&self.carved));
        stats.slots = slots.saturating_sub(of(&self.kept_rooms));
        let kept = of(&self.kept_bytes) + of(&self.kept_piece);
        stats.in_use = stats.in_use.saturating_sub(kept);
        stats
    }

    /// The state, unless this is a fork's child: a thread of the parent may have the lock for ever.
    #[inline]
    fn lock(&self) -> Result<MutexGuard<'_, PoolState>> {
        match self.arena.birth().is_here() {
            true => Ok(self.state.lock()),
            false => Err(Error::EngineForked),
        }
    }
}

impl Slab {
    /// Has everything from an address on backed with memory, and filled with trapping instructions, that was not yet.
    #[inline]
    fn back(&mut self, from: CodeAddr) -> Result<()> {
        match from < self.backed {
            true => self.back_more(from),
            false => Ok(()),
        }
    }

    #[cold]
    fn back_more(&mut self, from: CodeAddr) -> Result<()> {
        // All of its page.
        let from = CodeAddr::new(from.get() & !(sys::page_size() - 1)).max(self.range.start());
        let more = CodeRange::new(from, self.backed.distance_from(from) as u64);
        let more = more.expect("what is not backed yet ends before its slab does");
        // Backed one by one, as they are written, its pages are a tenth of invalidating a thousand functions.
        self.memory.back(more)?;
        // protection: rooms-hold-traps-when-they-are-taken
        fill_with_traps(&self.memory, more)?;
        self.backed = from;
        Ok(())
    }
}

impl PoolState {
    /// Takes bytes of a slab that is there; which one it is.
    fn take(
        &mut self,
        reach: Reach,
        from: impl Fn(&mut Slab) -> Option<CodeRange>,
    ) -> Option<(usize, CodeRange)> {
        // Of the newest first, which is the largest: the others are mostly full.
        let slabs = self.slabs.iter_mut().enumerate().rev();
        // protection: stub-within-reach
        let mut in_reach = slabs.filter(|(_, slab)| reserve::allows(reach, slab.range));
        in_reach.find_map(|(number, slab)| Some((number, from(slab)?)))
    }

    /// Has bytes that were taken of a slab backed with memory, or frees them again.
    fn back(&mut self, (number, taken): (usize, CodeRange), back: Back) -> Result<(usize, CodeRange)> {
        let slab = self.slabs.get_mut(number).ok_or(foreign(taken))?;
        let backed = slab.back(match back {
            Back::All => slab.range.start(),
            Back::Taken => taken.start(),
        });
        match backed {
            Ok(()) => Ok((number, taken)),
            Err(error) => {
                slab.free.give(taken);
                Err(error)
            }
        }
    }

    /// The number of the slab that has these bytes.
    fn slab_of(&self, range: CodeRange) -> Result<usize> {
        let holds = |slab: &Slab| slab.range.contains(range.start());
        self.slabs.iter().position(holds).ok_or(foreign(range))
    }

    /// Writes the code of a slot that nothing branches to yet.
    fn write(&self, slab: usize, slot: CodeRange, code: &[u8]) -> Result<()> {
        let len = code.len() as u64;
        if len > slot.len() {
            return Err(Error::OutsideMemory {
                at: slot.start(),
                len,
                memory: slot,
            });
        }
        let slab = self.slabs.get(slab).ok_or(foreign(slot))?;
        CodeMemory::write(&slab.memory, slot.start(), code)
    }

    /// Frees a slot, or a room.
    fn give_slot(&mut self, range: CodeRange) -> Result<()> {
        match self.blocks.of(range)? {
            Some(block) => {
                fill_with_traps(block.memory(), range)?;
                if let Some(empty) = self.blocks.give(range) {
                    self.give(empty)?;
                }
            }
            None => self.give(range)?,
        }
        self.stats.in_use -= range.len();
        self.stats.slots = self.stats.slots.wrapping_sub(1);
        self.stats.reclaimed += range.len();
        Ok(())
    }

    /// Fills bytes of a slab with trapping instructions, and frees them.
    fn give(&mut self, range: CodeRange) -> Result<()> {
        let holds = |slab: &&mut Slab| slab.range.contains(range.start());
        let slab = self.slabs.iter_mut().find(holds).ok_or(foreign(range))?;
        fill_with_traps(&slab.memory, range)?;
        slab.free.give(range);
        Ok(())
    }
}

/// Refuses a stub that has no code.
fn check_length(need: u64) -> Result<()> {
    match need {
        0 => Err(Error::SegmentRefused {
            index: 0,
            len: 0,
            align: GRANULE,
            why: "a stub has code",
        }),
        _ => Ok(()),
    }
}

fn foreign(range: CodeRange) -> Error {
    Error::OutsideMemory {
        at: range.start(),
        len: range.len(),
        memory: CodeRange::default(),
    }
}
