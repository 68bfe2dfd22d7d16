//! The sites of a transaction by the memory in which they are.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::state::States;
use super::work::{Item, Part, push};
use crate::addr::CodeRange;
use crate::error::{Fate, Result};
use crate::memory::{Alias, CodeMemory, PageRun, Pieces, Side, Write};

/// The items of one memory: all of them live, or none.
pub(super) struct Group<M> {
    memory: M,
    /// The pages that are written while the world is stopped.
    pub(super) runs: SmallVec<[PageRun; 1]>,
    /// Which items they are, in the order of their addresses.
    pub(super) numbers: Range<usize>,
    /// Whether its pages are as they should be at this point of a roll-back.
    pub(super) good: bool,
}

/// How the memory of a group is held.
pub(super) trait Held {
    type Memory: CodeMemory + ?Sized;

    /// Whether its pages have to be opened for a write.
    const OPENS: bool;

    fn get(&self) -> &Self::Memory;
}

impl Held for Alias {
    type Memory = Self;

    const OPENS: bool = false;

    #[inline]
    fn get(&self) -> &Self {
        self
    }
}

impl Held for Arc<dyn CodeMemory> {
    type Memory = dyn CodeMemory;

    const OPENS: bool = true;

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
    groups: Vec<Group<M>>,
    quiescent: usize,
    /// What is written of all items.
    writes: Vec<Write>,
}

impl Groups {
    /// Makes the groups of these items, whose sites are as the states say.
    ///
    /// # Errors
    /// [`Error::OutsideMemory`](crate::Error::OutsideMemory) for a site whose pages do not exist.
    pub(super) fn fill(&mut self, items: &[Item], parts: &[Part], states: &States) -> Result<()> {
        let all = Grouped { items, parts, states };
        self.clear();
        if let Self::Own(own) = self {
            if own.fill(all, |memory| memory.as_alias().cloned())? {
                return Ok(());
            }
        }
        let mut any = List::default();
        any.fill(all, |memory| Some(Arc::clone(memory)))?;
        *self = Self::Any(any);
        Ok(())
    }

    /// Forgets all groups.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Own(own) => own.clear(),
            Self::Any(_) => *self = Self::default(),
        }
    }

    /// Of each item: the address of its site, and the bytes before and after.
    pub(super) fn writes(&self) -> &[Write] {
        match self {
            Self::Own(own) => &own.writes,
            Self::Any(any) => &any.writes,
        }
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
            groups: Vec::new(),
            quiescent: 0,
            writes: Vec::new(),
        }
    }
}

/// What is grouped.
#[derive(Clone, Copy)]
struct Grouped<'a> {
    items: &'a [Item],
    parts: &'a [Part],
    states: &'a States,
}

impl<M: Held> List<M> {
    /// Makes the groups of the items, unless one of their memories cannot be held so.
    fn fill(&mut self, all: Grouped<'_>, hold: impl Fn(&Arc<dyn CodeMemory>) -> Option<M>) -> Result<bool> {
        let mut start = 0;
        for items in all
            .items
            .chunk_by(|a, b| (a.is_live, a.memory) == (b.is_live, b.memory))
        {
            let parts = all.parts.get(start..start + items.len()).unwrap_or_default();
            if let (Some(first), Some(part)) = (items.first(), parts.first()) {
                let memory = first.written_in(part.range.start())?;
                let Some(held) = hold(memory) else {
                    self.clear();
                    return Ok(false);
                };
                let runs = match M::OPENS && !first.is_live {
                    true => runs(parts)?,
                    false => SmallVec::new(),
                };
                if M::OPENS {
                    memory.make_room(runs.len());
                }
                for part in parts {
                    push(&mut self.writes, || write(part, all.states));
                }
                push(&mut self.groups, || Group {
                    memory: held,
                    runs,
                    numbers: start..start + items.len(),
                    good: true,
                });
                self.quiescent += usize::from(!first.is_live);
            }
            start += items.len();
        }
        Ok(true)
    }

    fn clear(&mut self) {
        self.groups.clear();
        self.quiescent = 0;
        self.writes.clear();
    }

    /// The quiescent groups, and the changes of all.
    #[inline]
    pub(super) fn quiescent(&mut self) -> (&mut [Group<M>], &[Write]) {
        let groups = self.groups.get_mut(..self.quiescent).unwrap_or_default();
        (groups, &self.writes)
    }

    /// The live groups, and the changes of all.
    #[inline]
    pub(super) fn live(&self) -> (&[Group<M>], &[Write]) {
        let groups = self.groups.get(self.quiescent..).unwrap_or_default();
        (groups, &self.writes)
    }
}

/// The pages of a quiescent group.
fn runs(parts: &[Part]) -> Result<SmallVec<[PageRun; 1]>> {
    if let [part] = parts {
        return PageRun::cover(&mut [part.range]);
    }
    let mut ranges: Vec<CodeRange> = parts.iter().map(|part| part.range).collect();
    PageRun::cover(&mut ranges)
}

/// What stands in a site, and what is to. As many new bytes as old ones: the checker has seen to it.
#[inline]
fn write(part: &Part, states: &States) -> Write {
    let old = states.at(part.place).map(|state| state.standing.bytes.as_slice());
    Write::new(part.range.start(), old.unwrap_or_default(), &part.standing.bytes)
}

impl<M: Held> Group<M> {
    #[inline]
    pub(super) fn memory(&self) -> &M::Memory {
        self.memory.get()
    }

    /// One side of what is written of its items.
    #[inline]
    pub(super) fn pieces<'a>(&self, writes: &'a [Write], side: Side) -> Pieces<'a> {
        Pieces::of(writes.get(self.numbers.clone()).unwrap_or_default(), side)
    }

    /// What a site is after its roll-back, unless that is what it should be.
    pub(super) fn fate(&self, write: &Write) -> Option<Fate> {
        let holds = |bytes| self.memory().holds(write.at, bytes) == Ok(true);
        match (holds(write.side(Side::Old)), self.good) {
            (true, true) => None,
            (true, false) => Some(Fate::OldNotExecutable),
            (false, _) if holds(write.side(Side::New)) => Some(Fate::New),
            (false, _) => Some(Fate::Unknown),
        }
    }
}
