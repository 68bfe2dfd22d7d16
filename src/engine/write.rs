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

use super::fault::{Found, Outcome};
use super::group::{Group, Groups, Held};
use super::work::{Item, Work};
use crate::addr::CodeRange;
use crate::error::Fate;
use crate::invariant::OrAbort;
use crate::latency::{self, Stage};
use crate::memory::{CodeMemory, Side, Write};
use crate::publish::{Level, Publisher, Stopped};

/// Compares every site of these groups with one of its sides.
#[inline]
fn compare<M: Held>(groups: &[Group<M>], writes: &[Write], side: Side, found: &mut Found) -> Outcome {
    let _stage = latency::enter(Stage::Write);
    for group in groups {
        found.compare(group, writes, side)?;
    }
    Ok(())
}

impl Work {
    /// Compares every live site with one of its sides.
    #[inline]
    pub(super) fn compare_live(&mut self, side: Side) -> Outcome {
        match &self.groups {
            Groups::Own(list) => {
                let (groups, writes) = list.live();
                compare(groups, writes, side, &mut self.found)
            }
            Groups::Any(list) => apart(|| {
                let (groups, writes) = list.live();
                compare(groups, writes, side, &mut self.found)
            }),
        }
    }

    /// Writes the new bytes of the quiescent items, or leaves the old ones. Items whose sites have
    /// neither, or are not executable, are given their fate.
    #[inline]
    pub(super) fn write(&mut self, stopped: &Stopped, publisher: &Publisher) -> Outcome {
        let writing = Writing {
            ranges: &self.ranges,
            level: self.level,
            items: &mut self.items,
            found: &mut self.found,
            stopped,
            publisher,
        };
        match &mut self.groups {
            Groups::Own(list) => writing.run(list.quiescent()),
            Groups::Any(list) => apart(|| writing.run(list.quiescent())),
        }
    }
}

/// Does it in a function of its own: what lies on the way of a commit that does not call it costs
/// that commit.
#[inline(never)]
fn apart<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// A transaction while its quiescent groups are written.
struct Writing<'a> {
    ranges: &'a [CodeRange],
    level: Level,
    items: &'a mut [Item],
    found: &'a mut Found,
    stopped: &'a Stopped,
    publisher: &'a Publisher,
}

impl Writing<'_> {
    #[inline]
    fn run<M: Held>(mut self, (groups, writes): (&mut [Group<M>], &[Write])) -> Outcome {
        // protection: old-bytes-are-compared
        compare(groups, writes, Side::Old, self.found)?;
        self.begin(groups, writes)?;
        let written = self.write(groups, writes);
        if written.is_err() {
            // protection: failed-write-is-rolled-back
            self.roll_back(groups, writes, Open::Yes);
            return written;
        }
        let done = self.finish(groups, writes);
        if done.is_err() {
            // protection: failed-end-is-rolled-back
            self.roll_back(groups, writes, Open::No);
        }
        done
    }

    #[inline]
    fn finish<M: Held>(&mut self, groups: &[Group<M>], writes: &[Write]) -> Outcome {
        self.end(groups)?;
        let published = self.publisher.publish(self.ranges, self.level);
        self.found.check(published)?;
        // protection: new-bytes-are-read-back
        compare(groups, writes, Side::New, self.found)
    }

    #[inline]
    fn begin<M: Held>(&mut self, groups: &[Group<M>], writes: &[Write]) -> Outcome {
        let _stage = latency::enter(Stage::Permission);
        for (at, group) in groups.iter().enumerate() {
            if let Err(cause) = group.memory().begin(&group.runs, self.stopped) {
                // protection: unopened-groups-are-closed
                self.close_unwritten(groups.iter().take(at), writes);
                return self.found.check(Err(cause));
            }
        }
        Ok(())
    }

    /// Nothing has been written: the groups that were begun only need their protection back.
    #[cold]
    fn close_unwritten<'g, M: Held + 'g>(
        &mut self,
        begun: impl Iterator<Item = &'g Group<M>>,
        writes: &[Write],
    ) {
        for group in begun {
            if group.memory().end(&group.runs).is_err() {
                set_fates(self.items, group, writes, |_| Some(Fate::OldNotExecutable));
            }
        }
    }

    #[inline]
    fn write<M: Held>(&mut self, groups: &[Group<M>], writes: &[Write]) -> Outcome {
        let _stage = latency::enter(Stage::Write);
        for group in groups {
            let written = group.memory().write_all(group.pieces(writes, Side::New));
            self.found.check(written)?;
        }
        Ok(())
    }

    /// Ends every group, also after one has failed.
    #[inline]
    fn end<M: Held>(&mut self, groups: &[Group<M>]) -> Outcome {
        let _stage = latency::enter(Stage::Permission);
        let mut done = Ok(());
        for group in groups {
            let ended = self.found.check(group.memory().end(&group.runs));
            done = done.and(ended);
        }
        done
    }

    /// Writes the old bytes of every group again and notes what came of it. A transaction is taken
    /// back that has begun to write.
    #[cold]
    fn roll_back<M: Held>(&mut self, groups: &mut [Group<M>], writes: &[Write], open: Open) {
        restore(groups, writes, open, self.stopped);
        // protection: roll-back-publishes
        let published = self.publisher.publish_again(self.ranges, self.level);
        for group in &*groups {
            set_fates(self.items, group, writes, |write| match &published {
                Ok(()) => group.fate(write),
                // The old bytes are in place, but a core may go on executing the new ones.
                Err(_) => Some(Fate::Unknown),
            });
        }
    }
}

/// Writes what can be written, and notes of each group whether its pages are executable again.
/// Whether the old bytes are there is then a matter of looking.
///
/// All groups are written before the first ends: two memories may share a page.
fn restore<M: Held>(groups: &mut [Group<M>], writes: &[Write], open: Open, stopped: &Stopped) {
    for group in groups.iter_mut() {
        // protection: roll-back-opens-again
        group.good = open == Open::Yes || group.memory().begin(&group.runs, stopped).is_ok();
    }
    for group in groups.iter().filter(|group| group.good) {
        for (addr, bytes) in group.pieces(writes, Side::Old).iter() {
            // A refused write leaves bytes that the comparison afterwards finds.
            let _ = group.memory().write(addr, bytes);
        }
    }
    for group in groups.iter_mut().filter(|group| group.good) {
        // protection: roll-back-closes
        group.good = group.memory().end(&group.runs).is_ok();
    }
}

/// Notes of every item of the group what it is, by its address and both its sides.
fn set_fates<M: Held>(
    items: &mut [Item],
    group: &Group<M>,
    writes: &[Write],
    fate: impl Fn(&Write) -> Option<Fate>,
) {
    let items = items.get_mut(group.numbers.clone());
    let items = items.or_abort("a group's numbers are those of items");
    for (item, write) in items.iter_mut().zip(group.writes(writes)) {
        item.fate = fate(write);
    }
}

/// Whether the groups are between `begin` and `end`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Yes,
    No,
}
