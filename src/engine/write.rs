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

use super::change::{ChangeSet, SameMemory, Side, SiteChange, SiteWrite};
use super::fault::{FirstFault, Outcome};
use crate::addr::CodeRange;
use crate::error::Fate;
use crate::latency::{self, Stage};
use crate::publish::{Level, Publisher, Stopped};

impl ChangeSet {
    /// Writes the new bytes of the quiescent sites, or leaves the old ones. Changes whose sites
    /// have neither, or are not executable, are given their fate.
    #[inline]
    pub(super) fn write(&mut self, stopped: &Stopped, publisher: &Publisher) -> Outcome {
        let mut writing = Writing {
            memories: &mut self.memories,
            changes: &mut self.changes,
            writes: &self.writes,
            ranges: &self.ranges,
            level: self.level,
            found: &mut self.found,
            stopped,
            publisher,
        };
        // protection: old-bytes-are-compared
        writing.compare(Side::Old)?;
        writing.begin()?;
        let written = writing.write();
        if written.is_err() {
            // protection: failed-write-is-rolled-back
            writing.roll_back(Open::Yes);
            return written;
        }
        let done = writing.finish();
        if done.is_err() {
            // protection: failed-end-is-rolled-back
            writing.roll_back(Open::No);
        }
        done
    }
}

/// A transaction while its quiescent sites are written.
struct Writing<'a> {
    memories: &'a mut [SameMemory],
    changes: &'a mut [SiteChange],
    writes: &'a [SiteWrite],
    ranges: &'a [CodeRange],
    level: Level,
    found: &'a mut FirstFault,
    stopped: &'a Stopped,
    publisher: &'a Publisher,
}

impl Writing<'_> {
    /// Compares every site with one of its sides.
    #[inline(always)] // Of each side apart: with the side as an argument, a batch takes a sixth longer.
    fn compare(&mut self, side: Side) -> Outcome {
        let _stage = latency::enter(Stage::Write);
        for memory in &*self.memories {
            match memory.first_unlike(self.writes, side) {
                Ok(None) => {}
                Ok(Some(number)) => {
                    let read = |at, into: &mut [u8]| memory.read(at, into);
                    return Err(self.found.note_changed(self.writes, number, side, read));
                }
                Err(error) => return self.found.check(Err(error)),
            }
        }
        Ok(())
    }

    #[inline]
    fn begin(&mut self) -> Outcome {
        let _stage = latency::enter(Stage::Permission);
        for (number, memory) in self.memories.iter().enumerate() {
            if let Err(cause) = memory.begin(self.stopped) {
                // protection: unopened-memories-are-closed
                close_unwritten(self.memories.iter().take(number), self.changes);
                return self.found.check(Err(cause));
            }
        }
        Ok(())
    }

    #[inline]
    fn write(&mut self) -> Outcome {
        let _stage = latency::enter(Stage::Write);
        for memory in &*self.memories {
            self.found.check(memory.write_all(self.writes))?;
        }
        Ok(())
    }

    #[inline]
    fn finish(&mut self) -> Outcome {
        self.end()?;
        let published = self.publisher.publish(self.ranges, self.level);
        self.found.check(published)?;
        // protection: new-bytes-are-read-back
        self.compare(Side::New)
    }

    /// Closes every memory, also after one has failed.
    #[inline]
    fn end(&mut self) -> Outcome {
        let _stage = latency::enter(Stage::Permission);
        let mut done = Ok(());
        for memory in &*self.memories {
            let ended = self.found.check(memory.end());
            done = done.and(ended);
        }
        done
    }

    /// Writes the old bytes everywhere again and notes what came of it. A transaction is rolled
    /// back that has begun to write.
    #[cold]
    fn roll_back(&mut self, open: Open) {
        self.restore(open);
        // protection: roll-back-publishes
        let published = self.publisher.publish_again(self.ranges, self.level);
        for memory in &*self.memories {
            let changes = memory.of_all_mut(self.changes).iter_mut();
            for (change, write) in changes.zip(memory.of_all(self.writes)) {
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
    fn restore(&mut self, open: Open) {
        for memory in &mut *self.memories {
            // protection: roll-back-opens-again
            memory.good = open == Open::Yes || memory.begin(self.stopped).is_ok();
        }
        for memory in self.memories.iter().filter(|memory| memory.good) {
            for write in memory.of_all(self.writes) {
                // A refused write leaves bytes that the comparison afterwards finds.
                let _ = memory.write(write.at, write.side(Side::Old));
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
