//! The sites of a transaction by the memory in which they are.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::work::{Item, Part};
use crate::addr::{CodeAddr, CodeRange};
use crate::error::{Fate, Result};
use crate::memory::{Alias, CodeMemory, PageRun, Side, Sides};

/// The items of one memory, with their bytes: all of them live, or none.
pub(super) struct Group<M> {
    memory: M,
    pub(super) sides: Sides,
    /// The pages that are written while the world is stopped.
    pub(super) runs: SmallVec<[PageRun; 1]>,
    /// The numbers of the items, which are in the order of their addresses.
    pub(super) items: Range<usize>,
    /// Whether its pages are as they should be at this point of a roll-back.
    pub(super) good: bool,
}

/// How the memory of a group is held.
pub(super) trait Held {
    type Memory: CodeMemory + ?Sized;

    fn get(&self) -> &Self::Memory;
}

impl Held for Alias {
    type Memory = Self;

    #[inline]
    fn get(&self) -> &Self {
        self
    }
}

impl Held for Arc<dyn CodeMemory> {
    type Memory = dyn CodeMemory;

    #[inline]
    fn get(&self) -> &Self::Memory {
        &**self
    }
}

/// The items of a transaction by memory, in their order.
pub(super) enum Groups {
    /// All of them are in memory of the engine's own. It is called directly: calls through a table were a third of a
    /// commit's instructions.
    Own(List<Alias>),
    Any(List<Arc<dyn CodeMemory>>),
}

/// Groups in the order of their items: quiescent ones, then live ones.
pub(super) struct List<M> {
    groups: SmallVec<[Group<M>; 1]>,
    quiescent: usize,
}

impl Groups {
    /// The groups of these items.
    ///
    /// # Errors
    /// [`Error::OutsideMemory`](crate::Error::OutsideMemory) for a site whose pages do not exist.
    pub(super) fn of(items: &[Item], parts: &[Part]) -> Result<Self> {
        if let Some(own) = List::of(items, parts, |memory| memory.as_alias().cloned())? {
            return Ok(Self::Own(own));
        }
        let any = List::of(items, parts, |memory| Some(Arc::clone(memory)))?;
        Ok(Self::Any(any.unwrap_or_default()))
    }
}

impl Default for Groups {
    fn default() -> Self {
        Self::Own(List::default())
    }
}

impl<M> Default for List<M> {
    fn default() -> Self {
        Self {
            groups: SmallVec::new(),
            quiescent: 0,
        }
    }
}

impl<M> List<M> {
    /// The groups of the items, unless one of their memories cannot be held so.
    fn of(
        items: &[Item],
        parts: &[Part],
        hold: impl Fn(&Arc<dyn CodeMemory>) -> Option<M>,
    ) -> Result<Option<Self>> {
        let mut list = Self::default();
        let mut start = 0;
        for items in items.chunk_by(|a, b| (a.is_live, a.memory) == (b.is_live, b.memory)) {
            let parts = parts.get(start..).unwrap_or_default();
            if let Some(first) = items.first() {
                let memory = first.site.memory()?;
                let Some(held) = hold(memory) else {
                    return Ok(None);
                };
                let group = Group::of(held, items, parts, start)?;
                memory.make_room(group.runs.len());
                list.groups.push(group);
                list.quiescent += usize::from(!first.is_live);
            }
            start += items.len();
        }
        Ok(Some(list))
    }

    #[inline]
    pub(super) fn quiescent(&mut self) -> &mut [Group<M>] {
        self.groups.get_mut(..self.quiescent).unwrap_or_default()
    }

    #[inline]
    pub(super) fn live(&self) -> &[Group<M>] {
        self.groups.get(self.quiescent..).unwrap_or_default()
    }
}

impl<M> Group<M> {
    fn of(memory: M, items: &[Item], parts: &[Part], start: usize) -> Result<Self> {
        let both = items.iter().zip(parts);
        let quiescent = both.clone().filter(|(item, _)| !item.is_live);
        let mut ranges: SmallVec<[CodeRange; 1]> = quiescent.map(|(_, part)| part.range).collect();
        // As many new bytes as old ones: the checker has seen to it.
        let sides = both.map(|(item, part)| {
            let [old, new] = [Side::Old, Side::New].map(|side| item.side(part, side));
            (part.range.start(), old, new)
        });
        Ok(Self {
            memory,
            sides: Sides::of(sides),
            runs: PageRun::cover(&mut ranges)?,
            items: start..start + items.len(),
            good: true,
        })
    }
}

impl<M: Held> Group<M> {
    #[inline]
    pub(super) fn memory(&self) -> &M::Memory {
        self.memory.get()
    }

    /// What a site is after its roll-back, unless that is what it should be.
    pub(super) fn fate(&self, (addr, old, new): (CodeAddr, &[u8], &[u8])) -> Option<Fate> {
        let holds = |bytes| self.memory().holds(addr, bytes) == Ok(true);
        match (holds(old), self.good) {
            (true, true) => None,
            (true, false) => Some(Fate::OldNotExecutable),
            (false, _) if holds(new) => Some(Fate::New),
            (false, _) => Some(Fate::Unknown),
        }
    }
}
