//! Blocks: stubs of one length, side by side behind what they share.
//!
//! Problem: stubs that differ in a few bytes only need much more time for finding room than for
//! those bytes, and each has its own copy of what is the same in all. Approach: a block is taken
//! from a slab at once. It begins with what its stubs share, and its rooms are handed out by their
//! numbers.
//!
//! Invariants: a room is a [slot](StubSlot) like any other, and freed like one: it holds trapping
//! instructions unless it is in use. What is shared stays as long as one room is in use: a thread
//! in it has come from a room and returns there, and no room is freed before every thread has left
//! it. Of the blocks of one form at most one is empty; another is freed.

#![allow(unsafe_code, reason = "the bytes of a room are written in place")]

use core::any::Any;
use core::cell::Cell;
use core::fmt;
use core::iter::successors;
use core::mem;
use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec::Vec;

use smallvec::SmallVec;

use super::{Back, GRANULE, SLAB, Slab, StubPool, StubSlot, foreign};
use crate::addr::{CodeAddr, CodeRange};
use crate::latency::{self, Stage};
use crate::memory::{Alias, CodeMemory, Error, Result, reserve};

/// The alignment of a block: that of a cache line.
const ALIGN: u64 = 64;

/// A block has as many rooms at least, unless the form has no room for them.
const FEWEST: u64 = 16;

/// A block that is made for many has up to as many bytes, so that a table and a slab are taken once for as many
/// rooms. In small blocks, a thousand functions take a tenth longer to invalidate, one of a hundred sites
/// a quarter; in those that fill the smallest slab, 4 in 100. A larger table is in no cache.
const LARGEST: u64 = 4 * SLAB;

/// The lengths in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockForm {
    /// The bytes in front, which the rooms share. A multiple of 16.
    pub shared: u32,
    /// The bytes of one room. A multiple of 8.
    pub room: u32,
}

/// What the users of a block's rooms need of it.
pub(crate) struct Block {
    memory: Alias,
    range: CodeRange,
    form: BlockForm,
    owner: Box<dyn Any + Send + Sync>,
}

/// Rooms of one block that nobody else uses, for whoever needs several: they are found at once.
pub(crate) struct BlockRooms {
    block: Arc<Block>,
    /// The lowest last.
    numbers: SmallVec<[u32; 4]>,
}

/// Rooms that are taken, but not in use.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeptRooms {
    pub(crate) rooms: u64,
    pub(crate) bytes: u64,
}

/// All blocks of a pool.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// By where they begin.
    all: BTreeMap<CodeAddr, Rooms>,
    /// Those that have a free room, the one that is used next last.
    open: Vec<CodeAddr>,
}

/// The rooms of one block.
#[derive(Debug)]
struct Rooms {
    block: Arc<Block>,
    /// The numbers of free ones, the lowest last.
    free: Vec<u32>,
    count: u32,
}

impl Block {
    /// The memory through which it is written.
    pub(crate) fn memory(&self) -> &Alias {
        &self.memory
    }

    /// Whom it was made for.
    pub(crate) fn owner<T: Any>(&self) -> Option<&T> {
        self.owner.downcast_ref()
    }

    /// The lengths in it.
    pub(crate) fn form(&self) -> BlockForm {
        self.form
    }

    /// The bytes of the room of that number.
    pub(crate) fn room(&self, number: u32) -> CodeRange {
        let room = CodeRange::new(self.room_at(number), self.form.room.into());
        room.expect("a room lies in its block, which has an end")
    }

    /// Where the room of that number begins.
    #[inline]
    pub(crate) fn room_at(&self, number: u32) -> CodeAddr {
        let before = u64::from(self.form.shared) + u64::from(number) * u64::from(self.form.room);
        CodeAddr::new(self.range.start().get() + before)
    }

    /// The room of that number, which is in use, to be freed.
    pub(crate) fn slot(&self, number: u32) -> StubSlot {
        StubSlot {
            range: self.room(number),
            retired: None,
        }
    }
}

/// A room that nobody uses or executes, to be filled: nobody else has it.
#[derive(Debug)]
pub struct EmptyRoom<'b> {
    number: u32,
    at: CodeAddr,
    bytes: &'b mut [u8],
}

impl<'b> EmptyRoom<'b> {
    /// # Safety
    /// Nobody else has the room, and it is not in use.
    #[inline]
    unsafe fn new(block: &'b Block, number: u32) -> Result<Self> {
        let room = block.room(number);
        // SAFETY: nobody executes what is not in use, and nobody else refers to it, by the caller's promise. It is a multiple
        // of a quadword, and the block lives as long.
        let bytes = unsafe { block.memory.bytes_mut(room) };
        Ok(Self {
            number,
            at: room.start(),
            bytes: bytes?,
        })
    }

    /// One of a test's own.
    #[cfg(test)]
    pub(crate) fn of(number: u32, at: CodeAddr, bytes: &'b mut [u8]) -> Self {
        Self { number, at, bytes }
    }

    /// Its number in its block.
    #[inline]
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Where it begins when it is executed.
    #[inline]
    #[must_use]
    pub fn at(&self) -> CodeAddr {
        self.at
    }

    /// Its bytes, which hold traps, to be written.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        self.bytes
    }
}

/// Empty rooms of one block, side by side, each taken out when it is asked for. To make each of them on its
/// own takes a seventh of the instructions of a site of a batch.
#[derive(Debug)]
pub struct EmptyRooms<'b> {
    /// Of the next.
    number: u32,
    at: CodeAddr,
    /// So many bytes has each.
    room: u32,
    /// All of theirs.
    bytes: &'b mut [u8],
    /// How many were taken out.
    taken: &'b Cell<usize>,
}

#[cfg(test)]
impl<'b> EmptyRooms<'b> {
    /// Some of a test's own, of so many bytes each.
    pub(crate) fn of(
        (number, at): (u32, CodeAddr),
        room: u32,
        bytes: &'b mut [u8],
        taken: &'b Cell<usize>,
    ) -> Self {
        Self {
            number,
            at,
            room,
            bytes,
            taken,
        }
    }
}

impl EmptyRooms<'_> {
    /// The number of the next in its block; each other has one more than the one before.
    #[inline]
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Where the next begins when it is executed.
    #[inline]
    #[must_use]
    pub fn at(&self) -> CodeAddr {
        self.at
    }
}

impl<'b> Iterator for EmptyRooms<'b> {
    type Item = EmptyRoom<'b>;

    #[inline]
    fn next(&mut self) -> Option<EmptyRoom<'b>> {
        let (bytes, rest) = mem::take(&mut self.bytes).split_at_mut_checked(self.room as usize)?;
        let (number, at) = (self.number, self.at);
        self.bytes = rest;
        self.number += 1;
        self.at = CodeAddr::new(at.get().wrapping_add(self.room.into()));
        self.taken.set(self.taken.get() + 1);
        Some(EmptyRoom { number, at, bytes })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.bytes.len() / self.room as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for EmptyRooms<'_> {}

/// Rooms that are handed out. Those that were taken out are gone, whatever the one who had them does.
struct HandedOut<'b> {
    numbers: &'b mut SmallVec<[u32; 4]>,
    taken: Cell<usize>,
}

impl Drop for HandedOut<'_> {
    fn drop(&mut self) {
        // protection: rooms-that-were-taken-out-are-gone
        self.numbers.truncate(self.numbers.len() - self.taken.get());
    }
}

impl BlockRooms {
    /// What the block has in common.
    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// The numbers of as many of them, if there are, which are taken out next.
    #[inline]
    pub(crate) fn next(&self, count: usize) -> impl Iterator<Item = u32> {
        self.numbers.iter().rev().take(count).copied()
    }

    /// Takes out one of them, to be filled.
    ///
    /// # Errors
    /// [`Error::Forked`]: this is a fork's child.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Result<EmptyRoom<'_>>> {
        let number = self.numbers.pop()?;
        // SAFETY: the rooms are taken, but not in use, and this one is taken out of them.
        Some(unsafe { EmptyRoom::new(&self.block, number) })
    }

    /// Hands those of the next that lie side by side, at most so many, to whoever fills them. Returns what that
    /// returns, and how many were taken out.
    ///
    /// # Errors
    /// [`Error::Forked`]: this is a fork's child.
    ///
    /// # Panics
    /// If none are left.
    pub(crate) fn take_side_by_side<R>(
        &mut self,
        most: usize,
        fill: impl FnOnce(EmptyRooms<'_>) -> R,
    ) -> Result<(R, usize)> {
        let number = *self.numbers.last().expect("whoever fills rooms has counted them");
        let next = self.numbers.iter().rev().take(most);
        let run = number..number + next.len() as u32;
        // They ascend: if the last one's number is that of the run's, so are those between.
        // protection: rooms-that-are-filled-together-lie-side-by-side
        let count = match next.clone().next_back() == run.clone().next_back().as_ref() {
            true => run.len(),
            false => next.zip(run).take_while(|(one, of_run)| *one == of_run).count(),
        };
        let room = self.block.form.room;
        let (at, len) = (self.block.room(number).start(), count as u64 * u64::from(room));
        let rooms = CodeRange::new(at, len).expect("rooms lie in their block, which has an end");
        // SAFETY: nobody executes or refers to rooms that are taken, but not in use, nor takes them out as long as this is
        // borrowed; those that are taken out are not among them afterwards. They are multiples of a quadword, and the block
        // lives as long.
        let bytes = unsafe { self.block.memory.bytes_mut(rooms) }?;
        let out = HandedOut {
            numbers: &mut self.numbers,
            taken: Cell::new(0),
        };
        let filled = fill(EmptyRooms {
            number,
            at,
            room,
            bytes,
            taken: &out.taken,
        });
        Ok((filled, out.taken.get()))
    }

    /// Takes out all but so many of them, the lowest.
    pub(crate) fn split_off(&mut self, most: usize) -> Option<Self> {
        let more = self.numbers.len().checked_sub(most).filter(|more| *more > 0)?;
        Some(Self {
            block: Arc::clone(&self.block),
            numbers: self.numbers.drain(..more).collect(),
        })
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether they are of that form, and in reach of `near`.
    pub(crate) fn are_for(&self, form: BlockForm, near: CodeRange, pool: &StubPool) -> bool {
        // protection: kept-rooms-are-within-reach
        self.block.form == form && reserve::allows(pool.reach(near), self.block.range)
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("range", &self.range).finish()
    }
}

impl Rooms {
    /// The number of the room that has these bytes.
    fn number(&self, room: CodeRange) -> Option<u32> {
        let form = self.block.form;
        let before = room.start().get() - self.block.range.start().get();
        let number = before.checked_sub(form.shared.into())? / u64::from(form.room);
        let number = u32::try_from(number).ok()?;
        (number < self.count && self.block.room(number) == room).then_some(number)
    }

    fn is_empty(&self) -> bool {
        self.free.len() == self.count as usize
    }
}

impl Blocks {
    /// The block that has this room, if it is a block's.
    pub(super) fn of(&self, room: CodeRange) -> Result<Option<&Block>> {
        let Some(rooms) = self.around(room) else {
            return Ok(None);
        };
        match rooms.number(room) {
            Some(_) => Ok(Some(&rooms.block)),
            None => Err(foreign(room)),
        }
    }

    fn around(&self, room: CodeRange) -> Option<&Rooms> {
        let (_, rooms) = self.all.range(..=room.start()).next_back()?;
        rooms.block.range.contains(room.start()).then_some(rooms)
    }

    /// Takes at most so many rooms of a block that `allows` accepts.
    fn take(
        &mut self,
        (form, most): (BlockForm, usize),
        allows: impl Fn(CodeRange) -> bool,
    ) -> Option<BlockRooms> {
        let fits = |rooms: &Rooms| rooms.block.form == form && allows(rooms.block.range);
        let is_next = |start: &CodeAddr| self.all.get(start).is_some_and(fits);
        let at = self.open.iter().rposition(is_next)?;
        let rooms = self.all.get_mut(self.open.get(at)?)?;
        let left = rooms.free.len().saturating_sub(most);
        let mut numbers: SmallVec<[u32; 4]> = rooms.free.drain(left..).collect();
        // Those that were freed are in the order in which they were.
        // protection: rooms-that-were-freed-are-side-by-side-again
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        if rooms.free.is_empty() {
            self.open.remove(at);
        }
        let block = Arc::clone(&rooms.block);
        Some(BlockRooms { block, numbers })
    }

    /// Frees a room, as [`give_all`](Self::give_all).
    pub(super) fn give(&mut self, room: CodeRange) -> Option<CodeRange> {
        let number = self.around(room)?.number(room)?;
        self.give_all(room.start(), &[number])
    }

    /// Frees rooms of the block around `at`. Returns the bytes of the block if that is empty now, and
    /// another has rooms.
    fn give_all(&mut self, at: CodeAddr, numbers: &[u32]) -> Option<CodeRange> {
        let (start, rooms) = self.all.range_mut(..=at).next_back()?;
        let start = *start;
        if rooms.free.is_empty() {
            self.open.push(start);
        }
        rooms.free.extend_from_slice(numbers);
        let (is_empty, form) = (rooms.is_empty(), rooms.block.form);
        let is_other = |other: &CodeAddr| {
            let same_form = || self.all.get(other).is_some_and(|rooms| rooms.block.form == form);
            *other != start && same_form()
        };
        // protection: a-block-goes-when-it-is-empty
        if !(is_empty && self.open.iter().any(is_other)) {
            return None;
        }
        self.open.retain(|other| *other != start);
        self.all.remove(&start).map(|rooms| rooms.block.range)
    }
}

impl StubPool {
    /// Whether these bytes are a room.
    #[cfg(test)]
    pub(crate) fn blocks_of(&self, room: CodeRange) -> Result<bool> {
        Ok(self.lock()?.blocks.of(room)?.is_some())
    }

    /// Takes at most so many rooms of a block in reach of `near`, if one has any.
    ///
    /// # Errors
    /// [`Error::EngineForked`] in a fork's child.
    pub(crate) fn rooms(&self, form: BlockForm, near: CodeRange, most: usize) -> Result<Option<BlockRooms>> {
        let _stage = latency::enter(Stage::Allocate);
        let mut state = self.lock()?;
        let reach = self.reach(near);
        // protection: room-within-reach
        let allows = |block| reserve::allows(reach, block);
        let rooms = state.blocks.take((form, most), allows);
        if let Some(rooms) = &rooms {
            state.stats.in_use += u64::from(form.room) * rooms.len() as u64;
            state.stats.slots = state.stats.slots.wrapping_add(rooms.len() as u64);
        }
        Ok(rooms)
    }

    /// Takes back rooms that were not used: they hold trapping instructions still.
    ///
    /// # Errors
    /// [`Error::EngineForked`] in a fork's child.
    pub(crate) fn give_rooms(&self, rooms: &BlockRooms) -> Result<()> {
        let mut state = self.lock()?;
        let state = &mut *state;
        state.stats.in_use -= u64::from(rooms.block.form.room) * rooms.len() as u64;
        state.stats.slots = state.stats.slots.wrapping_sub(rooms.len() as u64);
        match state.blocks.give_all(rooms.block.range.start(), &rooms.numbers) {
            Some(empty) => state.give(empty),
            None => Ok(()),
        }
    }

    /// So many rooms are taken, but kept for later, and no others.
    pub(crate) fn note_kept(&self, kept: KeptRooms) {
        self.kept_rooms.store(kept.rooms, Ordering::Relaxed);
        self.kept_bytes.store(kept.bytes, Ordering::Relaxed);
    }

    /// Makes a block in reach of `near`, of which so many rooms are wanted, if that is known. `make` is told
    /// where it is and how many rooms it has, and returns what they share, and whom the block is for.
    ///
    /// # Errors
    /// Those of [`alloc`](Self::alloc).
    pub(crate) fn add_block<O: Any + Send + Sync>(
        &self,
        form: BlockForm,
        near: CodeRange,
        wanted: usize,
        make: impl FnOnce(CodeRange, u32) -> (Vec<u8>, O),
    ) -> Result<()> {
        let _stage = latency::enter(Stage::Allocate);
        let mut state = self.lock()?;
        let state = &mut *state;
        let within = |bytes: u64| (bytes - u64::from(form.shared)) / u64::from(form.room);
        // Where nobody knows, the first has few rooms, as most engines need few; two of the largest fill a slab.
        let same_form = state.blocks.all.values().filter(|rooms| rooms.block.form == form);
        let usual = (FEWEST << same_form.take(8).count()).min(within(SLAB / 2));
        let most = usual.max(within(LARGEST).min(wanted as u64));
        let len = |count: u64| {
            let len = u64::from(form.shared) + count * u64::from(form.room);
            len.next_multiple_of(GRANULE)
        };
        let reach = self.reach(near);
        // From the other end than single stubs, which stay side by side.
        let last_fit = |count| move |slab: &mut Slab| slab.free.take_last(len(count), ALIGN);
        // A slab that has room for a smaller one is used up first, unless that is much smaller.
        let fewest = FEWEST.max(most / 8);
        let mut counts = successors(Some(most), |count| Some(count / 2)).take_while(|count| *count >= fewest);
        let there = counts.find_map(|count| Some((count, state.take(reach, last_fit(count))?)));
        let (count, (slab, range)) = match there {
            Some((count, taken)) => (count, state.back(taken, Back::Taken)?),
            None => {
                let mut take = |count| self.take(state, (len(count), Back::Taken), reach, last_fit(count));
                match take(most) {
                    // protection: a-block-is-smaller-where-there-is-less-room
                    Err(Error::NoAddressSpace { .. }) if usual < most => (usual, take(usual)?),
                    taken => (most, taken?),
                }
            }
        };
        let slab = state.slabs.get(slab);
        let memory = slab.ok_or(foreign(range))?.memory.clone();
        let count = count as u32;
        let (shared, owner) = make(range, count);
        let written = match shared.len() <= form.shared as usize {
            true => CodeMemory::write(&memory, range.start(), &shared),
            false => Err(Error::OutsideMemory {
                at: range.start(),
                len: shared.len() as u64,
                memory: range,
            }),
        };
        if let Err(error) = written {
            state.give(range)?;
            return Err(error);
        }
        // What is shared may be code, which nobody executes before a room's code is published.
        memory.maintain(range);
        let owner = Box::new(owner);
        let rooms = Rooms {
            block: Arc::new(Block {
                memory,
                range,
                form,
                owner,
            }),
            free: (0..count).rev().collect(),
            count,
        };
        state.blocks.all.insert(range.start(), rooms);
        state.blocks.open.push(range.start());
        Ok(())
    }
}
