//! The sites of a transaction by the memory in which they are.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::state::States;
use super::work::{Item, Part};
use crate::Result;
use crate::addr::CodeRange;
use crate::error::Fate;
use crate::invariant::OrAbort;
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
pub(super) trait Held: Sized {
    type Memory: CodeMemory + ?Sized;

    /// Whether its pages have to be opened for a write.
    const OPENS: bool;

    /// A hold of a memory, if it can be held so.
    fn of(memory: &Arc<dyn CodeMemory>) -> Option<Self>;

    /// Whether it is one of this memory.
    fn is_of(&self, memory: &Arc<dyn CodeMemory>) -> bool;

    fn get(&self) -> &Self::Memory;
}

impl Held for Alias {
    type Memory = Self;

    const OPENS: bool = false;

    fn of(memory: &Arc<dyn CodeMemory>) -> Option<Self> {
        memory.as_alias().cloned()
    }

    #[inline]
    fn is_of(&self, memory: &Arc<dyn CodeMemory>) -> bool {
        memory.as_alias().is_some_and(|alias| alias.is_same(self))
    }

    #[inline]
    fn get(&self) -> &Self {
        self
    }
}

impl Held for Arc<dyn CodeMemory> {
    type Memory = dyn CodeMemory;

    const OPENS: bool = true;

    fn of(memory: &Arc<dyn CodeMemory>) -> Option<Self> {
        Some(Self::clone(memory))
    }

    fn is_of(&self, memory: &Arc<dyn CodeMemory>) -> bool {
        Self::ptr_eq(self, memory)
    }

    #[inline]
    fn get(&self) -> &Self::Memory {
        &**self
    }
}

/// The items of a transaction by memory, in their order.
pub(super) enum Groups {
    /// All of them are in memory of the engine's own. It is called directly: calls through a table
    /// were a third of a commit's instructions.
    Own(List<Alias>),
    Any(List<Arc<dyn CodeMemory>>),
}

/// Groups in the order of their items: quiescent ones, then live ones.
pub(super) struct List<M> {
    /// Those of the last time stay until others take their places: most transactions are of the
    /// memory of the one before, and letting go of it and holding it again is a good part of what
    /// they take.
    groups: Vec<Group<M>>,
    /// How many of them there are this time.
    used: usize,
    quiescent: usize,
    /// What is written of all items. Those of the last time stay as well, as room.
    writes: Vec<Write>,
    written: usize,
}

impl Groups {
    /// Makes the groups of these items, whose sites are as the states say.
    ///
    /// # Errors
    /// [`memory::Error::OutsideMemory`](crate::memory::Error::OutsideMemory) for a site whose pages do not exist.
    pub(super) fn fill(&mut self, items: &[Item], parts: &[Part], states: &States) -> Result<()> {
        let all = Grouped { items, parts, states };
        self.clear();
        if let Self::Own(own) = self {
            if own.fill(all)? {
                return Ok(());
            }
        }
        let mut any = List::default();
        any.fill(all)?;
        *self = Self::Any(any);
        Ok(())
    }

    /// Forgets all items.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Own(own) => own.clear(),
            Self::Any(_) => *self = Self::default(),
        }
    }

    /// Of each item: the address of its site, and the bytes before and after.
    pub(super) fn writes(&self) -> &[Write] {
        match self {
            Self::Own(own) => own.writes(),
            Self::Any(any) => any.writes(),
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
            used: 0,
            quiescent: 0,
            writes: Vec::new(),
            written: 0,
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
    fn fill(&mut self, all: Grouped<'_>) -> Result<bool> {
        let (mut start, mut rest) = (0, all.parts);
        for items in all
            .items
            .chunk_by(|a, b| (a.is_live, a.memory) == (b.is_live, b.memory))
        {
            let numbers = start..start + items.len();
            let both = rest.split_at_checked(items.len());
            let (parts, others) = both.expect("every item has a part");
            let (first, part) = items.first().zip(parts.first()).expect("no chunk is empty");
            let memory = first.written_in(part.range.start())?;
            let Some(group) = self.group(memory, numbers.clone()) else {
                self.clear();
                return Ok(false);
            };
            if M::OPENS && !first.is_live {
                group.runs = runs(parts)?;
            }
            if M::OPENS {
                memory.make_room(group.runs.len());
            }
            for part in parts {
                self.write(part, all.states);
            }
            self.quiescent += usize::from(!first.is_live);
            (start, rest) = (numbers.end, others);
        }
        Ok(true)
    }

    /// The next group, of a memory, if that can be held so.
    #[inline]
    fn group(&mut self, memory: &Arc<dyn CodeMemory>, numbers: Range<usize>) -> Option<&mut Group<M>> {
        let is_known = |group: &Group<M>| group.memory.is_of(memory);
        if !self.groups.get(self.used).is_some_and(is_known) {
            self.groups.truncate(self.used);
            self.groups.push(Group {
                memory: M::of(memory)?,
                runs: SmallVec::new(),
                numbers: 0..0,
                good: true,
            });
        }
        let group = self.groups.get_mut(self.used);
        let group = group.expect("a group that was not known has been added");
        group.runs.clear();
        (group.numbers, group.good) = (numbers, true);
        self.used += 1;
        Some(group)
    }

    fn clear(&mut self) {
        self.used = 0;
        self.quiescent = 0;
        self.written = 0;
    }

    /// Adds what stands in a site, and what is to.
    #[inline]
    fn write(&mut self, part: &Part, states: &States) {
        if self.writes.len() == self.written {
            self.writes.push(Write::default());
        }
        let write = self.writes.get_mut(self.written);
        let write = write.expect("where there was no room, some was added");
        let state = states.at(part.place);
        let state = state.expect("nobody has unregistered the site of a change that is being prepared");
        let (old, new) = (&state.installed.bytes, &part.installed.bytes);
        assert_eq!(
            old.len(),
            new.len(),
            "the checker has seen to it that a site keeps its length"
        );
        write.become_that(part.range.start(), old, new);
        self.written += 1;
    }

    /// What is written of all items.
    #[inline]
    fn writes(&self) -> &[Write] {
        written(&self.writes, self.written)
    }

    /// The quiescent groups, and the changes of all.
    #[inline]
    pub(super) fn quiescent(&mut self) -> (&mut [Group<M>], &[Write]) {
        let groups = self.groups.get_mut(..self.quiescent);
        let groups = groups.or_abort("quiescent groups are the first of all");
        (groups, written(&self.writes, self.written))
    }

    /// The live groups, and the changes of all.
    #[inline]
    pub(super) fn live(&self) -> (&[Group<M>], &[Write]) {
        let groups = self.groups.get(self.quiescent..self.used);
        let groups = groups.or_abort("live groups are the last of all");
        (groups, self.writes())
    }
}

/// The first of the writes, which are those of this time. It is asked while the world is stopped.
#[inline]
fn written(writes: &[Write], count: usize) -> &[Write] {
    writes
        .get(..count)
        .or_abort("as many writes were made as are counted")
}

/// The pages of a quiescent group.
fn runs(parts: &[Part]) -> Result<SmallVec<[PageRun; 1]>> {
    if let [part] = parts {
        return Ok(PageRun::cover(&mut [part.range])?);
    }
    let mut ranges: Vec<CodeRange> = parts.iter().map(|part| part.range).collect();
    Ok(PageRun::cover(&mut ranges)?)
}

impl<M: Held> Group<M> {
    #[inline]
    pub(super) fn memory(&self) -> &M::Memory {
        self.memory.get()
    }

    /// One side of what is written of its items.
    #[inline]
    pub(super) fn pieces<'a>(&self, writes: &'a [Write], side: Side) -> Pieces<'a> {
        Pieces::of(self.writes(writes), side)
    }

    /// Those writes of all that are of its items.
    #[inline]
    pub(super) fn writes<'a>(&self, writes: &'a [Write]) -> &'a [Write] {
        let own = writes.get(self.numbers.clone());
        own.or_abort("a group's numbers are those of writes")
    }

    /// What a site is after its roll-back, unless that is what it should be.
    pub(super) fn fate(&self, write: &Write) -> Option<Fate> {
        let holds = |bytes| self.memory().holds(write.at, bytes) == Ok(true);
        match (holds(write.side(Side::Old)), self.good) {
            (true, true) => None,
            (true, false) => Some(Fate::OldNotExecutable),
            // protection: fates-are-looked-up
            (false, _) if holds(write.side(Side::New)) => Some(Fate::New),
            (false, _) => Some(Fate::Unknown),
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::invariant::tests::last_words;

    #[test]
    fn a_commit_that_has_lost_count_of_its_writes_writes_nothing_and_ends() {
        let words = last_words(|| assert!(written(&[], 1).is_empty()));
        assert!(
            words.contains("as many writes were made as are counted"),
            "{words}"
        );
    }

    #[test]
    fn a_commit_that_has_lost_count_of_its_groups_ends() {
        let mut list = List::<Alias> {
            quiescent: 1,
            ..List::default()
        };
        let words = last_words(|| assert!(list.quiescent().0.is_empty()));
        assert!(words.contains("quiescent groups are the first of all"), "{words}");
    }
}
