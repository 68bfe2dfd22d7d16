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

use core::any::Any;
use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec::Vec;

use super::{GRANULE, SLAB, Slab, StubPool, StubSlot, foreign};
use crate::addr::{CodeAddr, CodeRange};
use crate::latency::{self, Stage};
use crate::memory::{Alias, CodeMemory, Error, Result, reserve};

/// The alignment of a block: that of a cache line.
const ALIGN: u64 = 64;

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
    owner: Box<dyn Any + Send + Sync>,
}

/// A room that nobody else uses.
pub(crate) struct BlockRoom {
    pub(crate) slot: StubSlot,
    pub(crate) number: u32,
    pub(crate) block: Arc<Block>,
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
    form: BlockForm,
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
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("range", &self.range).finish()
    }
}

impl Rooms {
    fn room(&self, number: u32) -> CodeRange {
        let before = u64::from(self.form.shared) + u64::from(number) * u64::from(self.form.room);
        let start = CodeAddr::new(self.block.range.start().get() + before);
        let room = CodeRange::new(start, self.form.room.into());
        room.expect("a room lies in its block, which has an end")
    }

    /// The number of the room that has these bytes.
    fn number(&self, room: CodeRange) -> Option<u32> {
        let before = room.start().get() - self.block.range.start().get();
        let number = before.checked_sub(self.form.shared.into())? / u64::from(self.form.room);
        let number = u32::try_from(number).ok()?;
        (number < self.count && self.room(number) == room).then_some(number)
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

    /// Takes a room that `allows` accepts the block of.
    fn take(&mut self, form: BlockForm, allows: impl Fn(CodeRange) -> bool) -> Option<BlockRoom> {
        let fits = |rooms: &Rooms| rooms.form == form && allows(rooms.block.range);
        let is_next = |start: &CodeAddr| self.all.get(start).is_some_and(fits);
        let at = self.open.iter().rposition(is_next)?;
        let rooms = self.all.get_mut(self.open.get(at)?)?;
        let number = rooms.free.pop()?;
        if rooms.free.is_empty() {
            self.open.remove(at);
        }
        let slot = StubSlot {
            range: rooms.room(number),
            retired: None,
        };
        let block = Arc::clone(&rooms.block);
        Some(BlockRoom { slot, number, block })
    }

    /// Frees a room. Returns the bytes of its block if that is empty now, and another has rooms.
    pub(super) fn give(&mut self, room: CodeRange) -> Option<CodeRange> {
        let (start, rooms) = self.all.range_mut(..=room.start()).next_back()?;
        let start = *start;
        let number = rooms.number(room)?;
        if rooms.free.is_empty() {
            self.open.push(start);
        }
        rooms.free.push(number);
        let (is_empty, form) = (rooms.is_empty(), rooms.form);
        let is_other = |other: &CodeAddr| {
            let same_form = || self.all.get(other).is_some_and(|rooms| rooms.form == form);
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

    /// Takes a room of a block in reach of `near`, if there is one.
    ///
    /// # Errors
    /// [`Error::EngineForked`] in a fork's child.
    pub(crate) fn room(&self, form: BlockForm, near: CodeRange) -> Result<Option<BlockRoom>> {
        let _stage = latency::enter(Stage::Allocate);
        let mut state = self.lock()?;
        let reach = self.reach(near);
        // protection: room-within-reach
        let room = state.blocks.take(form, |block| reserve::allows(reach, block));
        if room.is_some() {
            state.stats.in_use += u64::from(form.room);
            state.stats.slots += 1;
        }
        Ok(room)
    }

    /// Makes a block in reach of `near`. `make` is told where it is and how many rooms it has, and
    /// returns what they share, and whom the block is for.
    ///
    /// # Errors
    /// Those of [`alloc`](Self::alloc).
    pub(crate) fn add_block<O: Any + Send + Sync>(
        &self,
        form: BlockForm,
        near: CodeRange,
        make: impl FnOnce(CodeRange, u32) -> (Vec<u8>, O),
    ) -> Result<()> {
        let _stage = latency::enter(Stage::Allocate);
        let mut state = self.lock()?;
        let state = &mut *state;
        // The first has few rooms, as most engines need few; two of the largest fill a slab.
        let most = (SLAB / 2 - u64::from(form.shared)) / u64::from(form.room);
        let same_form = state.blocks.all.values().filter(|rooms| rooms.form == form);
        let count = (16 << same_form.take(8).count()).min(most);
        let len = u64::from(form.shared) + count * u64::from(form.room);
        let len = len.next_multiple_of(GRANULE);
        // From the other end than single stubs, which stay side by side.
        let last_fit = |slab: &mut Slab| slab.free.take_last(len, ALIGN);
        let range = self.take(state, len, self.reach(near), last_fit)?;
        let slab = state.slabs.iter().find(|slab| slab.range.contains(range.start()));
        let memory = slab.ok_or(foreign(range))?.placed.memory();
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
            block: Arc::new(Block { memory, range, owner }),
            form,
            free: (0..count).rev().collect(),
            count,
        };
        state.blocks.all.insert(range.start(), rooms);
        state.blocks.open.push(range.start());
        Ok(())
    }
}
