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

use super::fault::{Fault, Found, Outcome, Side};
use super::prepare::Item;
use crate::addr::CodeRange;
use crate::error::{Fate, Result};
use crate::memory::{CodeMemory, PageRun};
use crate::publish::{Level, Publisher, Stopped};

/// The items of one memory with the pages they touch. Lists have room for one site, of which most transactions are.
struct Group {
    memory: Arc<dyn CodeMemory>,
    runs: SmallVec<[PageRun; 1]>,
    /// The numbers of the items, by address.
    items: SmallVec<[usize; 1]>,
    /// Whether its pages are as they should be at this point of a roll-back.
    good: bool,
}

/// Everything about a transaction's writes that can be known before the world is stopped.
#[derive(Default)]
pub(super) struct Plan {
    groups: SmallVec<[Group; 1]>,
    /// What is published: the sites, and what has been written outside of them.
    pub(super) ranges: SmallVec<[CodeRange; 2]>,
    pub(super) found: Found,
}

impl Plan {
    /// Plans the writes of the items that are not live.
    ///
    /// # Errors
    /// [`Error::OutsideMemory`] for a site whose pages do not exist.
    pub(super) fn of(items: &[Item]) -> Result<Self> {
        let mut plan = Self {
            groups: SmallVec::new(),
            ranges: items.iter().flat_map(Item::ranges).collect(),
            found: Found::for_items(items),
        };
        for (number, item) in items.iter().enumerate().filter(|(_, item)| item.live.is_none()) {
            plan.add(number, item.site.memory()?);
        }
        let range = |number: &usize| items.get(*number).map_or(CodeRange::default(), Item::range);
        for group in &mut plan.groups {
            group.items.sort_unstable_by_key(range);
            let mut ranges: SmallVec<[CodeRange; 1]> = group.items.iter().map(range).collect();
            group.runs = PageRun::cover(&mut ranges)?;
            group.memory.make_room(group.runs.len());
        }
        Ok(plan)
    }

    fn add(&mut self, number: usize, memory: &Arc<dyn CodeMemory>) {
        let address = |memory: &Arc<dyn CodeMemory>| Arc::as_ptr(memory).addr();
        let mut groups = self.groups.iter_mut();
        if let Some(group) = groups.find(|group| address(&group.memory) == address(memory)) {
            group.items.push(number);
            return;
        }
        self.groups.push(Group {
            memory: Arc::clone(memory),
            runs: SmallVec::new(),
            items: SmallVec::from_buf([number]),
            good: true,
        });
    }
}

/// A transaction while it is written.
pub(super) struct Writing<'a> {
    pub(super) plan: &'a mut Plan,
    pub(super) items: &'a mut [Item],
    pub(super) stopped: &'a Stopped,
    pub(super) publisher: &'a Publisher,
    pub(super) level: Level,
}

impl Group {
    /// Its items with their numbers.
    fn each<'a>(&'a self, items: &'a [Item]) -> impl Iterator<Item = (usize, &'a Item)> {
        self.items
            .iter()
            .filter_map(|number| Some((*number, items.get(*number)?)))
    }

    fn compare(&self, items: &[Item], found: &mut Found, side: Side) -> Outcome {
        self.each(items)
            .try_for_each(|(number, item)| found.compare(&*self.memory, number, item, side))
    }

    fn write(&self, items: &[Item]) -> Result<()> {
        self.each(items)
            .try_for_each(|(_, item)| self.memory.write(item.addr, &item.new))
    }

    /// What a site is after its roll-back, unless that is what it should be.
    fn fate(&self, item: &Item) -> Option<Fate> {
        let holds = |side: Side| self.memory.holds(item.addr, side.of(item)) == Ok(true);
        match (holds(Side::Old), self.good) {
            (true, true) => None,
            (true, false) => Some(Fate::OldNotExecutable),
            (false, _) if holds(Side::New) => Some(Fate::New),
            (false, _) => Some(Fate::Unknown),
        }
    }
}

impl Writing<'_> {
    /// Writes the new bytes of every item, or leaves the old ones. Items whose sites have neither, or are not
    /// executable, are given their fate.
    pub(super) fn run(mut self) -> Outcome {
        self.compare(Side::Old)?;
        self.begin()?;
        if let Err(cause) = self
            .plan
            .groups
            .iter()
            .try_for_each(|group| group.write(self.items))
        {
            self.roll_back(Open::Yes);
            return Err(cause.into());
        }
        let published = self
            .end()
            .and_then(|()| self.publisher.publish(&self.plan.ranges, self.level));
        let done = published
            .map_err(Fault::from)
            .and_then(|()| self.compare(Side::New));
        if done.is_err() {
            self.roll_back(Open::No);
        }
        done
    }

    fn compare(&mut self, side: Side) -> Outcome {
        let Plan { groups, found, .. } = &mut *self.plan;
        groups
            .iter()
            .try_for_each(|group| group.compare(self.items, found, side))
    }

    fn begin(&mut self) -> Result<()> {
        let groups = &mut self.plan.groups;
        for at in 0..groups.len() {
            let begun = groups
                .get(at)
                .map_or(Ok(()), |group| group.memory.begin(&group.runs, self.stopped));
            if let Err(cause) = begun {
                self.close_unwritten(at);
                return Err(cause);
            }
        }
        Ok(())
    }

    /// Nothing has been written: the groups that were begun, the first `count`, only need their protection back.
    #[cold]
    fn close_unwritten(&mut self, count: usize) {
        for group in self.plan.groups.iter().take(count) {
            if group.memory.end(&group.runs).is_err() {
                set_fates(self.items, group, |_| Some(Fate::OldNotExecutable));
            }
        }
    }

    /// Ends every group, also after one has failed.
    fn end(&self) -> Result<()> {
        self.plan
            .groups
            .iter()
            .map(|group| group.memory.end(&group.runs))
            .fold(Ok(()), Result::and)
    }

    /// Writes the old bytes of every group again and notes what came of it. A transaction is taken back that has
    /// begun to write.
    #[cold]
    fn roll_back(&mut self, open: Open) {
        self.restore(open);
        for group in &self.plan.groups {
            set_fates(self.items, group, |item| group.fate(item));
        }
        if self.publisher.publish(&self.plan.ranges, self.level).is_err() {
            // The old bytes are in place, but a core may go on executing the new ones.
            for group in &self.plan.groups {
                set_fates(self.items, group, |_| Some(Fate::Unknown));
            }
        }
    }

    /// Writes what can be written, and notes of each group whether its pages are executable again. Whether the old
    /// bytes are there is then a matter of looking.
    ///
    /// All groups are written before the first ends: two memories may share a page.
    fn restore(&mut self, open: Open) {
        let groups = &mut self.plan.groups;
        for group in groups.iter_mut() {
            group.good = open == Open::Yes || group.memory.begin(&group.runs, self.stopped).is_ok();
        }
        for group in groups.iter().filter(|group| group.good) {
            for (_, item) in group.each(self.items) {
                // A refused write leaves bytes that the comparison afterwards finds.
                let _ = group.memory.write(item.addr, &item.old);
            }
        }
        for group in groups.iter_mut().filter(|group| group.good) {
            group.good = group.memory.end(&group.runs).is_ok();
        }
    }
}

fn set_fates(items: &mut [Item], group: &Group, fate: impl Fn(&Item) -> Option<Fate>) {
    for number in &group.items {
        if let Some(item) = items.get_mut(*number) {
            item.fate = fate(item);
        }
    }
}

/// Whether the groups are between `begin` and `end`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Yes,
    No,
}
