//! Writing the sites of a transaction: all of them, or none.
//!
//! The order is that of the guarantee: compare every expected byte; make every run of pages writable; write;
//! restore protection; publish; read back. A failure before the first write leaves nothing to undo but
//! protections, which `CodeMemory::begin` and `end` do; a failure after it rolls every site back, memory by
//! memory, so that one that cannot be restored does not keep the others from it.
//!
//! The world is stopped meanwhile, so nothing here allocates: the plan has all the room that is needed.

use std::sync::Arc;

use smallvec::SmallVec;

use super::fault::{Found, Outcome, Side};
use super::work::{Item, Parts, Sides, Work};
use crate::addr::CodeRange;
use crate::error::{Fate, Result};
use crate::memory::{CodeMemory, PageRun};
use crate::publish::{Publisher, Stopped};

/// The items of one memory with the pages they touch. Lists have room for one site, of which most transactions are.
pub(super) struct Group {
    memory: Arc<dyn CodeMemory>,
    runs: SmallVec<[PageRun; 1]>,
    /// The numbers of the items, by address.
    items: SmallVec<[usize; 1]>,
    /// Whether its pages are as they should be at this point of a roll-back.
    good: bool,
}

impl Group {
    /// The groups of the items that are not live, in the order of their first items.
    ///
    /// # Errors
    /// [`Error::OutsideMemory`](crate::Error::OutsideMemory) for a site whose pages do not exist.
    pub(super) fn all(items: &[Item], parts: &Parts) -> Result<SmallVec<[Self; 1]>> {
        let mut places = SmallVec::<[Place<'_>; 1]>::new();
        let quiescent = items.iter().zip(parts.iter()).enumerate();
        for (number, (item, part)) in quiescent.filter(|(_, (item, _))| !item.is_live) {
            let (memory, range) = (item.site.memory()?, part.range());
            places.push(Place {
                memory,
                range,
                number,
            });
        }
        places.sort_unstable_by_key(|place| (place.address(), place.range));
        let mut groups = places
            .chunk_by(|a, b| a.address() == b.address())
            .map(Self::of)
            .collect::<Result<SmallVec<[Self; 1]>>>()?;
        groups.sort_by_cached_key(|group| group.items.iter().min().copied());
        Ok(groups)
    }

    /// The group of items of the same memory, by address.
    fn of(places: &[Place<'_>]) -> Result<Self> {
        let mut ranges: SmallVec<[CodeRange; 1]> = places.iter().map(|place| place.range).collect();
        let runs = PageRun::cover(&mut ranges)?;
        let memory = places.first().map(|place| place.memory);
        let memory = Arc::clone(memory.ok_or(crate::Error::ModuleForeign)?);
        memory.make_room(runs.len());
        Ok(Self {
            memory,
            runs,
            items: places.iter().map(|place| place.number).collect(),
            good: true,
        })
    }

    #[inline]
    fn compare(&self, parts: Sides<'_>, found: &mut Found, side: Side) -> Outcome {
        for number in &self.items {
            if let Some((addr, bytes)) = parts.get(*number, side) {
                found.compare(&*self.memory, *number, (addr, bytes), side)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn write(&self, parts: Sides<'_>) -> Result<()> {
        for number in &self.items {
            if let Some((addr, bytes)) = parts.get(*number, Side::New) {
                self.memory.write(addr, bytes)?;
            }
        }
        Ok(())
    }

    /// What a site is after its roll-back, unless that is what it should be.
    fn fate(&self, parts: Sides<'_>, number: usize) -> Option<Fate> {
        let holds = |side| {
            let side = parts.get(number, side);
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

/// Where an item is.
struct Place<'a> {
    memory: &'a Arc<dyn CodeMemory>,
    range: CodeRange,
    number: usize,
}

impl Place<'_> {
    /// What tells memories apart.
    fn address(&self) -> usize {
        Arc::as_ptr(self.memory).addr()
    }
}

/// A transaction while it is written.
pub(super) struct Writing<'a> {
    pub(super) work: &'a mut Work,
    pub(super) stopped: &'a Stopped,
    pub(super) publisher: &'a Publisher,
}

impl Writing<'_> {
    /// Writes the new bytes of every item, or leaves the old ones. Items whose sites have neither, or are not
    /// executable, are given their fate.
    pub(super) fn run(mut self) -> Outcome {
        self.compare(Side::Old)?;
        self.begin()?;
        if let Err(cause) = self.write() {
            self.roll_back(Open::Yes);
            return Err(cause.into());
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
        self.publisher.publish(&self.work.ranges, self.work.level)?;
        self.compare(Side::New)
    }

    #[inline]
    fn compare(&mut self, side: Side) -> Outcome {
        let Work {
            groups, parts, found, ..
        } = &mut *self.work;
        let parts = parts.sides();
        for group in groups.iter() {
            group.compare(parts, found, side)?;
        }
        Ok(())
    }

    #[inline]
    fn write(&self) -> Result<()> {
        let Work { groups, parts, .. } = &*self.work;
        let parts = parts.sides();
        for group in groups {
            group.write(parts)?;
        }
        Ok(())
    }

    #[inline]
    fn begin(&mut self) -> Result<()> {
        for (at, group) in self.work.groups.iter().enumerate() {
            if let Err(cause) = group.memory.begin(&group.runs, self.stopped) {
                self.close_unwritten(at);
                return Err(cause);
            }
        }
        Ok(())
    }

    /// Nothing has been written: the groups that were begun, the first `count`, only need their protection back.
    #[cold]
    fn close_unwritten(&mut self, count: usize) {
        for group in self.work.groups.iter().take(count) {
            if group.memory.end(&group.runs).is_err() {
                set_fates(&mut self.work.items, group, |_| Some(Fate::OldNotExecutable));
            }
        }
    }

    /// Ends every group, also after one has failed.
    #[inline]
    fn end(&self) -> Result<()> {
        let mut first = None;
        for group in &self.work.groups {
            if let Err(cause) = group.memory.end(&group.runs) {
                first.get_or_insert(cause);
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Writes the old bytes of every group again and notes what came of it. A transaction is taken back that has
    /// begun to write.
    #[cold]
    fn roll_back(&mut self, open: Open) {
        self.restore(open);
        let published = self.publisher.publish(&self.work.ranges, self.work.level);
        let Work {
            groups, parts, items, ..
        } = &mut *self.work;
        let parts = parts.sides();
        for group in groups.iter() {
            set_fates(items, group, |number| match &published {
                Ok(()) => group.fate(parts, number),
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
        let Work { groups, parts, .. } = &mut *self.work;
        let parts = parts.sides();
        for group in groups.iter_mut() {
            group.good = open == Open::Yes || group.memory.begin(&group.runs, self.stopped).is_ok();
        }
        for group in groups.iter().filter(|group| group.good) {
            for number in &group.items {
                let old = parts.get(*number, Side::Old);
                // A refused write leaves bytes that the comparison afterwards finds.
                let _ = old.map(|(addr, bytes)| group.memory.write(addr, bytes));
            }
        }
        for group in groups.iter_mut().filter(|group| group.good) {
            group.good = group.memory.end(&group.runs).is_ok();
        }
    }
}

fn set_fates(items: &mut [Item], group: &Group, fate: impl Fn(usize) -> Option<Fate>) {
    for number in &group.items {
        if let Some(item) = items.get_mut(*number) {
            item.fate = fate(*number);
        }
    }
}

/// Whether the groups are between `begin` and `end`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Yes,
    No,
}
