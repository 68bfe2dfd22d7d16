//! Writing the sites of a transaction: all of them, or none.
//!
//! The order is that of the guarantee: compare every expected byte; make every run of pages
//! writable; write; restore protection; publish; read back. A failure before the first write leaves
//! nothing to undo but protections, which `CodeMemory::begin` and `end` do; a failure after it
//! rolls every site back, memory by memory, so that one that cannot be restored does not keep the
//! others from it.
//!
//! The world is stopped meanwhile, so nothing here allocates: the plan has all the room that is
//! needed.

use super::batch::SiteBatch;
use super::change::{ChangeSet, MemoryKind, SameMemory, Side, SiteChange, SiteWrite};
use super::fault::{FirstFault, Noted, Outcome};
use crate::error::Fate;
use crate::invariant::OrAbort;
use crate::latency::{self, Stage};
use crate::memory::{self, CodeMemory};
use crate::publish::{Publisher, Stopped};

impl ChangeSet {
    /// Writes the new bytes of the quiescent sites, or leaves the old ones. Changes whose sites
    /// have neither, or are not executable, are given their fate.
    #[inline]
    pub(super) fn write(&mut self, stopped: &Stopped, publisher: &Publisher) -> Outcome {
        match self.is_of_one_memory {
            true => self.write_all::<true>(stopped, publisher),
            false => self.write_all::<false>(stopped, publisher),
        }
    }

    /// The same, where it is known whether all sites are in one memory, as they mostly are: the steps
    /// are then without loops, of which each takes a tenth of what such a transaction does.
    #[inline(always)]
    fn write_all<const ONE: bool>(&mut self, stopped: &Stopped, publisher: &Publisher) -> Outcome {
        // protection: old-bytes-are-compared
        self.compare::<ONE>(Side::Old)?;
        if self.has_others {
            self.begin(stopped)?;
        }
        let stage = latency::enter(Stage::Write);
        for memory in all_memories::<ONE>(&self.memories) {
            let written = match &memory.memory.kind {
                MemoryKind::Own(alias) => {
                    let mut writes = writes_in::<ONE>(memory, &self.writes).iter();
                    writes.try_for_each(|write| alias.write_here(write.at, write.side(Side::New)))
                }
                MemoryKind::Other(other) => write_other(memory, &**other, &self.writes),
            };
            if let Err(cause) = written {
                // protection: failed-write-is-rolled-back
                self.roll_back(Open::Yes, stopped, publisher);
                return self.found.check(Err(cause));
            }
        }
        if !ONE {
            if let Err(cause) = self.write_batches() {
                // protection: failed-write-is-rolled-back (2)
                self.roll_back(Open::Yes, stopped, publisher);
                return self.found.check(Err(cause));
            }
        }
        stage.end();
        let done = match self.has_others {
            true => self.end(),
            false => Ok(()),
        };
        let done = done.and_then(|()| {
            let published = publisher.publish(&self.ranges, self.level);
            self.found.check(published)?;
            // protection: new-bytes-are-read-back
            self.compare::<ONE>(Side::New)
        });
        if done.is_err() {
            // protection: failed-end-is-rolled-back
            self.roll_back(Open::No, stopped, publisher);
        }
        done
    }

    #[inline(never)] // Most transactions have none.
    fn write_batches(&self) -> memory::Result<()> {
        self.batches.iter().try_for_each(SiteBatch::write)
    }

    /// Makes the pages of memories writable that are not the engine's own, or of none.
    #[inline(never)] // Most transactions have none.
    fn begin(&mut self, stopped: &Stopped) -> Outcome {
        let _stage = latency::enter(Stage::Permission);
        for (number, memory) in self.memories.iter().enumerate() {
            if let Err(cause) = memory.begin(stopped) {
                // protection: unopened-memories-are-closed
                close_unwritten(self.memories.iter().take(number), &mut self.changes);
                return self.found.check(Err(cause));
            }
        }
        Ok(())
    }

    /// Makes them executable again.
    #[inline(never)] // As `begin`.
    fn end(&mut self) -> Outcome {
        let _stage = latency::enter(Stage::Permission);
        let mut done = Ok(());
        for memory in &self.memories {
            // Also after one has failed.
            let ended = self.found.check(memory.end());
            done = done.and(ended);
        }
        done
    }

    /// Compares every quiescent site with one of its sides. Before it is written, memory of the
    /// engine's own is asked whether it can be, which is all that it needs.
    #[inline(always)] // Of each side apart: with the side as an argument, a large transaction takes a sixth longer.
    fn compare<const ONE: bool>(&mut self, side: Side) -> Outcome {
        let _stage = latency::enter(Stage::Write);
        for memory in all_memories::<ONE>(&self.memories) {
            match &memory.memory.kind {
                MemoryKind::Own(alias) => {
                    let mut writes = writes_in::<ONE>(memory, &self.writes).iter();
                    if side == Side::Old {
                        self.found.check(alias.begin_here())?;
                    }
                    let unlike = writes.position(|write| !alias.has_here(write.at, write.side(side)));
                    if let Some(unlike) = unlike {
                        return Err(note_unlike(&mut self.found, memory, &self.writes, (unlike, side)));
                    }
                }
                MemoryKind::Other(other) => {
                    compare_other(&mut self.found, (memory, &**other), &self.writes, side)?
                }
            }
        }
        match ONE {
            true => Ok(()),
            false => self.compare_batches(side),
        }
    }

    /// The same of the sites of batches.
    #[inline(never)] // Most transactions have none.
    fn compare_batches(&mut self, side: Side) -> Outcome {
        let mut before = self.changes.len();
        for batch in &self.batches {
            if side == Side::Old {
                self.found.check(batch.begin())?;
            }
            // protection: old-bytes-of-batches-are-compared
            if let Some((number, (memory, at))) = batch.unlike(side) {
                let (unlike, expected) = (before + number, batch.site_len());
                let read = |into: &mut [u8]| memory.read(at, into);
                return Err(self.found.note_changed((unlike, side), expected, read));
            }
            before += batch.len();
        }
        Ok(())
    }

    /// Writes the old bytes everywhere again and notes what came of it. A transaction is rolled
    /// back that has begun to write.
    #[cold]
    fn roll_back(&mut self, open: Open, stopped: &Stopped, publisher: &Publisher) {
        self.restore(open, stopped);
        // protection: roll-back-publishes
        let published = publisher.publish_again(&self.ranges, self.level);
        for memory in &self.memories {
            let changes = memory.of_all_mut(&mut self.changes).iter_mut();
            for (change, write) in changes.zip(memory.of_all(&self.writes)) {
                change.fate = match &published {
                    Ok(()) => memory.fate(write),
                    // The old bytes are in place, but a core may go on executing the new ones.
                    Err(_) => Some(Fate::Unknown),
                };
            }
        }
        for batch in &mut self.batches {
            batch.note_rolled_back(published.is_ok());
        }
    }

    /// Writes what can be written, and notes of each memory whether its pages are executable again.
    /// Whether the old bytes are there is then a matter of looking.
    ///
    /// All memories are written before the first is closed: two of them may share a page.
    fn restore(&mut self, open: Open, stopped: &Stopped) {
        for memory in &mut self.memories {
            // protection: roll-back-opens-again
            memory.good = open == Open::Yes || memory.begin(stopped).is_ok();
        }
        for memory in self.memories.iter().filter(|memory| memory.good) {
            for write in memory.of_all(&self.writes) {
                // A refused write leaves bytes that the comparison afterwards finds.
                let _ = memory.memory.get().write(write.at, write.side(Side::Old));
            }
        }
        for batch in &self.batches {
            // protection: batches-are-rolled-back
            batch.restore();
        }
        for memory in self.memories.iter_mut().filter(|memory| memory.good) {
            // protection: roll-back-closes
            memory.good = memory.end().is_ok();
        }
    }
}

/// The memories of a transaction, of which there may be known to be one.
#[inline(always)] // The length is a constant where it is used.
fn all_memories<const ONE: bool>(memories: &[SameMemory]) -> &[SameMemory] {
    match ONE {
        true => memories.get(..1).or_abort("one memory is the first"),
        false => memories,
    }
}

/// What is written in a memory, which is all where there is no other.
#[inline(always)]
fn writes_in<'w, const ONE: bool>(memory: &SameMemory, writes: &'w [SiteWrite]) -> &'w [SiteWrite] {
    match ONE {
        true => writes,
        false => memory.of_all(writes),
    }
}

/// Writes the new bytes of a memory that is not the engine's own.
#[inline(never)] // Called through its table, it would keep the engine's own from being written out of registers.
fn write_other(memory: &SameMemory, other: &dyn CodeMemory, writes: &[SiteWrite]) -> memory::Result<()> {
    let mut writes = memory.of_all(writes).iter();
    writes.try_for_each(|write| other.write(write.at, write.side(Side::New)))
}

/// Compares the sites of a memory that is not the engine's own with one of their sides.
#[inline(never)] // As `write_other`.
fn compare_other(
    found: &mut FirstFault,
    (memory, other): (&SameMemory, &dyn CodeMemory),
    writes: &[SiteWrite],
    side: Side,
) -> Outcome {
    for (number, write) in memory.of_all(writes).iter().enumerate() {
        match other.holds(write.at, write.side(side)) {
            Ok(true) => {}
            Ok(false) => return Err(note_unlike(found, memory, writes, (number, side))),
            Err(error) => return found.check(Err(error)),
        }
    }
    Ok(())
}

/// Notes what a site holds that is not like the write of that number of its memory's, or why it cannot be read.
#[cold]
fn note_unlike(
    found: &mut FirstFault,
    memory: &SameMemory,
    writes: &[SiteWrite],
    (unlike, side): (usize, Side),
) -> Noted {
    let number = memory.changes.start + unlike;
    let write = writes.get(number).or_abort("what is unlike is one of the writes");
    let read = |into: &mut [u8]| memory.memory.get().read(write.at, into);
    found.note_changed((number, side), write.side(side).len(), read)
}

/// Nothing has been written: the memories that were begun only need their protection back.
#[cold]
fn close_unwritten<'m>(begun: impl Iterator<Item = &'m SameMemory>, changes: &mut [SiteChange]) {
    for memory in begun {
        if memory.end().is_err() {
            for change in memory.of_all_mut(changes) {
                change.fate = Some(Fate::OldNotExecutable);
            }
        }
    }
}

/// Whether the memories are between `begin` and `end`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Yes,
    No,
}
