//! A prepared transaction as data.
//!
//! Problem: committing a site takes a few hundred instructions, so that what is in no cache, and what is moved or
//! freed, is most of its cost. Approach: all that can be known is made when the transaction is prepared, down to
//! what will stand in the site's state and in the journal, where a commit puts pointers to it. What a commit
//! touches lies side by side and has room for one site, of which most transactions are, in the transaction's one
//! allocation; what only failures and displays need is apart. What a commit replaces takes the place of what it was
//! replaced by, and is freed by whoever prepares next.
//!
//! Invariants: items and their parts have the same numbers; a commit writes only if the state in a part's place has
//! the part's version, so what was derived from the state is true then.

use std::sync::Arc;

use smallvec::SmallVec;

use super::fault::{Found, Side};
use super::journal::{Chapter, Journal, Record};
use super::live::HeadExchange;
use super::state::{Place, Ramp, Standing, Status, Stub};
use super::write::Group;
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::error::{Fate, Result};
use crate::publish::{Level, Rest};
use crate::site::{Module, Site};

/// A change of one site, prepared.
pub(super) struct Draft {
    pub(super) site: Site,
    pub(super) old: Arc<[u8]>,
    /// What is to stand there.
    pub(super) standing: Box<Standing>,
    /// Bytes of code, the rest being nops.
    pub(super) used: Len,
    pub(super) ramps: Vec<Ramp>,
    /// How it is written if its site is live.
    pub(super) live: Option<HeadExchange>,
    pub(super) old_stub: OldStub,
    pub(super) place: Place,
    /// The version of the state for which this was prepared.
    pub(super) version: u64,
    /// Whether it would have been prepared otherwise, had its code been run.
    pub(super) until_run: bool,
}

/// What is told of a change, and needed where it fails.
pub(super) struct Item {
    pub(super) site: Site,
    pub(super) used: Len,
    pub(super) ramps: Vec<Ramp>,
    pub(super) until_run: bool,
    pub(super) is_live: bool,
    /// What stood there before.
    old: Arc<[u8]>,
    /// What the site is if a commit has failed and left it in doubt.
    pub(super) fate: Option<Fate>,
}

/// What a commit touches of a change where all goes well.
pub(super) struct Part {
    pub(super) addr: CodeAddr,
    /// Where the old bytes begin among those of the transaction. As many new ones follow.
    start: usize,
    len: u32,
    /// Whether ramps have been made for it.
    pub(super) has_ramps: bool,
    pub(super) old_stub: OldStub,
    pub(super) place: Place,
    pub(super) version: u64,
    /// What is to stand in the site; once the change is made, what stood there.
    pub(super) standing: Option<Box<Standing>>,
}

impl Part {
    /// Its site.
    pub(super) fn range(&self) -> CodeRange {
        CodeRange::new(self.addr, u64::from(self.len)).unwrap_or_default()
    }
}

/// What becomes of the stub of what is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OldStub {
    /// There is none.
    None,
    /// It stays: a thread that resumes from an invalidated site goes on in the stub that it had.
    Kept,
    /// It is given back: the world was stopped outside of it, and nothing leads there any more.
    Freed,
    /// It is given back when threads have come to rest.
    Retired(Rest),
}

impl OldStub {
    /// What becomes of the stub of `old` when `new` takes its place.
    pub(super) fn of(old: &Standing, new: &Standing, is_live: bool) -> Self {
        match &old.stub {
            None => Self::None,
            Some(_) if new.status == Status::Invalidated && new.stub.is_none() => Self::Kept,
            Some(stub) if stub.calls => Self::Retired(Rest::Quiescent),
            Some(_) if is_live => Self::Retired(Rest::Checkpoint),
            Some(_) => Self::Freed,
        }
    }
}

/// The parts with their bytes.
#[derive(Default)]
pub(super) struct Parts {
    list: SmallVec<[Part; 1]>,
    /// The old and the new bytes of each. Room for a site of 32.
    bytes: SmallVec<[u8; 64]>,
}

impl Parts {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    #[inline]
    pub(super) fn iter(&self) -> std::slice::Iter<'_, Part> {
        self.list.iter()
    }

    #[inline]
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Part> {
        self.list.iter_mut()
    }

    pub(super) fn get(&self, number: usize) -> Option<&Part> {
        self.list.get(number)
    }

    /// What is, or is to be, in memory for them.
    #[inline]
    pub(super) fn sides(&self) -> Sides<'_> {
        Sides {
            list: &self.list,
            bytes: &self.bytes,
        }
    }

    /// Takes out the stub that was made for a part whose change was not made.
    pub(super) fn take_stub(&mut self, number: usize) -> Option<Box<Stub>> {
        self.list.get_mut(number)?.standing.as_mut()?.stub.take()
    }
}

/// The parts' addresses and bytes.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    list: &'a [Part],
    bytes: &'a [u8],
}

impl<'a> Sides<'a> {
    /// The address of a part, and what is, or is to be, in memory there.
    #[inline]
    pub(super) fn get(self, number: usize, side: Side) -> Option<(CodeAddr, &'a [u8])> {
        let part = self.list.get(number)?;
        let len = part.len as usize;
        let start = match side {
            Side::Old => part.start,
            Side::New => part.start + len,
        };
        Some((part.addr, self.bytes.get(start..start + len)?))
    }
}

/// A transaction ready to be committed.
pub(super) struct Work {
    pub(super) parts: Parts,
    /// What is written while the world is stopped.
    pub(super) groups: SmallVec<[Group; 1]>,
    /// The changes of live sites.
    pub(super) exchanges: SmallVec<[HeadExchange; 1]>,
    /// What is published: the sites, or the heads of live ones, and what has been written outside of them.
    pub(super) ranges: SmallVec<[CodeRange; 2]>,
    /// What has been written outside of the sites.
    pub(super) outside: SmallVec<[CodeRange; 1]>,
    pub(super) level: Level,
    /// Whether some of the exchanges put a trap.
    pub(super) has_traps: bool,
    /// Modules whose code must not have been run yet.
    pub(super) not_run: SmallVec<[Module; 1]>,
    pub(super) chapter: Option<Box<Chapter>>,
    pub(super) items: Vec<Item>,
    pub(super) found: Found,
    /// Another, in a list of those that are to be freed.
    pub(super) next: Option<Box<Work>>,
}

impl Work {
    /// Room for that many changes.
    pub(super) fn new(changes: usize) -> Self {
        Self {
            parts: Parts::default(),
            groups: SmallVec::new(),
            exchanges: SmallVec::new(),
            ranges: SmallVec::new(),
            outside: SmallVec::new(),
            level: Level::Eventual,
            has_traps: false,
            not_run: SmallVec::new(),
            chapter: None,
            items: Vec::with_capacity(changes),
            found: Found::default(),
            next: None,
        }
    }

    /// Adds a change.
    pub(super) fn add(&mut self, draft: Draft) {
        self.ranges.push(match &draft.live {
            Some(live) => live.range(),
            None => draft.site.range(),
        });
        let stub = draft.standing.stub.iter().map(|stub| stub.slot.range());
        let ramps = draft.ramps.iter().map(|ramp| ramp.slot.range());
        self.outside.extend(ramps.chain(stub));
        let module = draft.site.module();
        if draft.until_run && !self.not_run.last().is_some_and(|last| last.is_same(module)) {
            self.not_run.push(module.clone());
        }
        let start = self.parts.bytes.len();
        self.parts.bytes.extend_from_slice(&draft.old);
        // As many: the checker has seen to it.
        self.parts.bytes.extend_from_slice(&draft.standing.bytes);
        self.parts.list.push(Part {
            addr: draft.site.addr(),
            start,
            len: draft.old.len() as u32,
            has_ramps: !draft.ramps.is_empty(),
            old_stub: draft.old_stub,
            place: draft.place,
            version: draft.version,
            standing: Some(draft.standing),
        });
        self.items.push(Item {
            site: draft.site,
            used: draft.used,
            ramps: draft.ramps,
            until_run: draft.until_run,
            is_live: draft.live.is_some(),
            old: draft.old,
            fate: None,
        });
        let number = self.items.len() - 1;
        self.exchanges.extend(draft.live.map(|live| live.of_item(number)));
    }

    /// Plans the writes of the changes that were added.
    ///
    /// # Errors
    /// [`Error::OutsideMemory`](crate::Error::OutsideMemory) for a site whose pages do not exist.
    pub(super) fn seal(&mut self, journal: &Journal) -> Result<()> {
        self.ranges.extend_from_slice(&self.outside);
        self.has_traps = self.exchanges.iter().any(HeadExchange::is_trap);
        let longest = self.parts.iter().map(|part| part.len).max();
        self.found = Found::of_len(longest.unwrap_or(0) as usize);
        self.groups = Group::all(&self.items, &self.parts)?;
        self.chapter = journal.chapter(self.both().map(record));
        Ok(())
    }

    /// Every item with its part.
    pub(super) fn both(&self) -> impl ExactSizeIterator<Item = (&Item, &Part)> {
        self.items.iter().zip(self.parts.iter())
    }

    /// Whether all its sites are live, so that no thread has to be stopped.
    pub(super) fn is_live(&self) -> bool {
        self.exchanges.len() == self.parts.len()
    }
}

/// What the journal will say of a change.
fn record((item, part): (&Item, &Part)) -> Record {
    let standing = part.standing.as_ref();
    Record {
        site: item.site.key(),
        addr: part.addr,
        generation: standing.map_or(0, |standing| standing.generation),
        became: standing.map_or(Status::Original, |standing| standing.status),
        before: Arc::clone(&item.old),
        after: standing.map_or_else(|| Arc::from([]), |standing| Arc::clone(&standing.bytes)),
    }
}
