//! Writing the sites of a transaction: all of them, or none.
//!
//! The order is that of the guarantee: compare every expected byte; make every run of pages writable; write;
//! restore protection; publish; read back. A failure before the first write leaves nothing to undo but
//! protections, which `CodeMemory::begin` and `end` do; a failure after it rolls every site back, memory by
//! memory, so that one that cannot be restored does not keep the others from it.
//!
//! The world is stopped meanwhile, so nothing here allocates: the plan has all the room that is needed.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::fault::{Found, Outcome};
use super::work::{Item, Part, Work};
use crate::addr::CodeRange;
use crate::error::{Fate, Result};
use crate::memory::{CodeMemory, PageRun, Side, SidesView};
use crate::publish::{Level, Publisher, Stopped};

/// The items of one memory with the pages they touch.
pub(super) struct Group {
    memory: Arc<dyn CodeMemory>,
    runs: SmallVec<[PageRun; 1]>,
    /// The numbers of the items, which are in the order of their addresses.
    items: Range<usize>,
    /// Whether its pages are as they should be at this point of a roll-back.
    good: bool,
}

impl Group {
    /// The groups of the items that are not live.
    ///
    /// # Errors
    /// [`Error::OutsideMemory`](crate::Error::OutsideMemory) for a site whose pages do not exist.
    pub(super) fn all(items: &[Item], parts: &[Part]) -> Result<SmallVec<[Self; 1]>> {
        let mut groups = SmallVec::new();
        let mut start = 0;
        for items in items.chunk_by(|a, b| (a.is_live, a.memory) == (b.is_live, b.memory)) {
            let end = start + items.len();
            if let Some(item) = items.first().filter(|item| !item.is_live) {
                groups.push(Self::of(Arc::clone(item.site.memory()?), start..end, parts)?);
            }
            start = end;
        }
        Ok(groups)
    }

    fn of(memory: Arc<dyn CodeMemory>, items: Range<usize>, parts: &[Part]) -> Result<Self> {
        let parts = parts.get(items.clone()).unwrap_or_default();
        let mut ranges: SmallVec<[CodeRange; 1]> = parts.iter().map(|part| part.range).collect();
        let runs = PageRun::cover(&mut ranges)?;
        memory.make_room(runs.len());
        Ok(Self {
            memory,
            runs,
            items,
            good: true,
        })
    }

    /// What a site is after its roll-back, unless that is what it should be.
    fn fate(&self, sides: SidesView<'_>, number: usize) -> Option<Fate> {
        let holds = |side| {
            let side = sides.get(number, side);
            side.is_some_and(|(addr, bytes)| self.memory.holds(addr, bytes) == Ok(true))
        };
        match (holds(Side::Old), self.good) {
            (true, true) => None,
            (true, false) => Some(Fate::OldNotExecutable),
            (false, _) if holds(Side::New) => Some(Fate::New),
            (false, _) => Some(Fate::Unknown),
        }
    }
}

/// A transaction while it is written.
pub(super) struct Writing<'a> {
    groups: &'a mut [Group],
    sides: SidesView<'a>,
    ranges: &'a [CodeRange],
    level: Level,
    items: &'a mut [Item],
    found: &'a mut Found,
    stopped: &'a Stopped,
    publisher: &'a Publisher,
}

impl<'a> Writing<'a> {
    #[inline]
    pub(super) fn new(work: &'a mut Work, stopped: &'a Stopped, publisher: &'a Publisher) -> Self {
        Self {
            groups: &mut work.groups,
            sides: work.sides.view(),
            ranges: &work.ranges,
            level: work.level,
            items: &mut work.items,
            found: &mut work.found,
            stopped,
            publisher,
        }
    }

    /// Writes the new bytes of every item, or leaves the old ones. Items whose sites have neither, or are not
    /// executable, are given their fate.
    #[inline]
    pub(super) fn run(mut self) -> Outcome {
        self.compare(Side::Old)?;
        self.begin()?;
        let written = self.write();
        if written.is_err() {
            self.roll_back(Open::Yes);
            return written;
        }
        let done = self.finish();
        if done.is_err() {
            self.roll_back(Open::No);
        }
        done
    }

    #[inline]
    fn finish(&mut self) -> Outcome {
        self.end()?;
        let published = self.publisher.publish(self.ranges, self.level);
        self.found.check(published)?;
        self.compare(Side::New)
    }

    #[inline]
    fn compare(&mut self, side: Side) -> Outcome {
        for group in &*self.groups {
            self.found
                .compare(&*group.memory, &group.items, self.sides, side)?;
        }
        Ok(())
    }

    #[inline]
    fn write(&mut self) -> Outcome {
        for group in &*self.groups {
            let new = self.sides.pieces(&group.items, Side::New);
            self.found.check(group.memory.write_all(new))?;
        }
        Ok(())
    }

    #[inline]
    fn begin(&mut self) -> Outcome {
        for (at, group) in self.groups.iter().enumerate() {
            if let Err(cause) = group.memory.begin(&group.runs, self.stopped) {
                self.close_unwritten(at);
                return self.found.check(Err(cause));
            }
        }
        Ok(())
    }

    /// Nothing has been written: the groups that were begun, the first `count`, only need their protection back.
    #[cold]
    fn close_unwritten(&mut self, count: usize) {
        for group in self.groups.iter().take(count) {
            if group.memory.end(&group.runs).is_err() {
                set_fates(self.items, group, |_| Some(Fate::OldNotExecutable));
            }
        }
    }

    /// Ends every group, also after one has failed.
    #[inline]
    fn end(&mut self) -> Outcome {
        let mut done = Ok(());
        for group in &*self.groups {
            let ended = self.found.check(group.memory.end(&group.runs));
            done = done.and(ended);
        }
        done
    }

    /// Writes the old bytes of every group again and notes what came of it. A transaction is taken back that has
    /// begun to write.
    #[cold]
    fn roll_back(&mut self, open: Open) {
        self.restore(open);
        let published = self.publisher.publish(self.ranges, self.level);
        let sides = self.sides;
        for group in &*self.groups {
            set_fates(self.items, group, |number| match &published {
                Ok(()) => group.fate(sides, number),
                // The old bytes are in place, but a core may go on executing the new ones.
                Err(_) => Some(Fate::Unknown),
            });
        }
    }

    /// Writes what can be written, and notes of each group whether its pages are executable again. Whether the old
    /// bytes are there is then a matter of looking.
    ///
    /// All groups are written before the first ends: two memories may share a page.
    fn restore(&mut self, open: Open) {
        let Self { groups, sides, .. } = self;
        for group in groups.iter_mut() {
            group.good = open == Open::Yes || group.memory.begin(&group.runs, self.stopped).is_ok();
        }
        for group in groups.iter().filter(|group| group.good) {
            for (addr, bytes) in sides.pieces(&group.items, Side::Old).iter() {
                // A refused write leaves bytes that the comparison afterwards finds.
                let _ = group.memory.write(addr, bytes);
            }
        }
        for group in groups.iter_mut().filter(|group| group.good) {
            group.good = group.memory.end(&group.runs).is_ok();
        }
    }
}

fn set_fates(items: &mut [Item], group: &Group, fate: impl Fn(usize) -> Option<Fate>) {
    let items = items.get_mut(group.items.clone()).unwrap_or_default();
    for (number, item) in group.items.clone().zip(items) {
        item.fate = fate(number);
    }
}

/// Whether the groups are between `begin` and `end`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Yes,
    No,
}
