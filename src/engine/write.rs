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

use super::change::{ChangeSet, MemoryKind, SameMemory, Side, SiteChange};
use super::fault::Outcome;
use crate::error::Fate;
use crate::latency::{self, Stage};
use crate::publish::{Publisher, Stopped};

impl ChangeSet {
    /// Writes the new bytes of the quiescent sites, or leaves the old ones. Changes whose sites
    /// have neither, or are not executable, are given their fate.
    pub(super) fn write(&mut self, stopped: &Stopped, publisher: &Publisher) -> Outcome {
        // protection: old-bytes-are-compared
        self.compare(Side::Old)?;
        if self.has_others {
            self.begin(stopped)?;
        }
        let stage = latency::enter(Stage::Write);
        for memory in &self.memories {
            let mut writes = memory.of_all(&self.writes).iter();
            let written = match &memory.memory.kind {
                MemoryKind::Own(alias) => {
                    writes.try_for_each(|write| alias.write_here(write.at, write.side(Side::New)))
                }
                MemoryKind::Other(memory) => {
                    writes.try_for_each(|write| memory.write(write.at, write.side(Side::New)))
                }
            };
            if let Err(cause) = written {
                // protection: failed-write-is-rolled-back
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
            self.compare(Side::New)
        });
        if done.is_err() {
            // protection: failed-end-is-rolled-back
            self.roll_back(Open::No, stopped, publisher);
        }
        done
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
    #[inline(always)] // Of each side apart: with the side as an argument, a batch takes a sixth longer.
    fn compare(&mut self, side: Side) -> Outcome {
        let _stage = latency::enter(Stage::Write);
        for memory in &self.memories {
            let mut writes = memory.changes.clone().zip(memory.of_all(&self.writes));
            let unlike = |number, holds| (holds != Ok(true)).then_some((number, holds));
            let unlike = match &memory.memory.kind {
                MemoryKind::Own(alias) => {
                    if side == Side::Old {
                        self.found.check(alias.begin_here())?;
                    }
                    writes
                        .find(|(_, write)| !alias.has_here(write.at, write.side(side)))
                        .map(|(number, write)| (number, alias.holds_here(write.at, write.side(side))))
                }
                MemoryKind::Other(memory) => writes
                    .find_map(|(number, write)| unlike(number, memory.holds(write.at, write.side(side)))),
            };
            match unlike {
                None => {}
                Some((number, Ok(_))) => {
                    let read = |at, into: &mut [u8]| memory.memory.get().read(at, into);
                    return Err(self.found.note_changed(&self.writes, number, side, read));
                }
                Some((_, Err(error))) => return self.found.check(Err(error)),
            }
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
        for memory in self.memories.iter_mut().filter(|memory| memory.good) {
            // protection: roll-back-closes
            memory.good = memory.end().is_ok();
        }
    }
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
