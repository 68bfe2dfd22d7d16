//! A prepared transaction as data.
//!
//! Problem: committing a site takes a few hundred instructions, so that what is in no cache, what is moved or freed, and
//! each call through a table is most of its cost. Approach: all that can be known is made when the transaction is prepared, down to
//! what will stand in the site's state and in the journal, where a commit puts pointers to it. What a commit
//! touches lies side by side and has room for one site, of which most transactions are, in the transaction's one
//! allocation; what only failures and displays need is apart. What a commit replaces takes the place of what it was
//! replaced by, and is freed by whoever prepares next. The engine's own memory is called directly, see `group`.
//!
//! Invariants: items and their parts have the same numbers, in the order in which they are written: quiescent ones by
//! memory and address, then live ones; a commit writes only if the state in a part's place has the part's version,
//! so what was derived from the state is true then.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::fault::Found;
use super::group::Groups;
use super::journal::{Chapter, Journal, Record};
use super::live::HeadExchange;
use super::state::{Place, Ramp, Standing, Status, Stub};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::error::{Fate, Result};
use crate::memory::{CodeMemory, Side};
use crate::publish::{CoarseTime, Level, Rest};
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
    /// The number of its memory, see [`Memories`].
    pub(super) memory: usize,
}

impl Draft {
    /// What orders the changes of a transaction.
    pub(super) fn order(&self) -> (bool, usize, CodeAddr) {
        (self.live.is_some(), self.memory, self.site.addr())
    }
}

/// Numbers the memories of a transaction as they come up.
#[derive(Default)]
pub(super) struct Memories {
    last: Option<(usize, usize)>,
    /// Where there are several: their numbers by their addresses.
    numbers: HashMap<usize, usize>,
}

impl Memories {
    pub(super) fn number(&mut self, memory: &Arc<dyn CodeMemory>) -> usize {
        let address = Arc::as_ptr(memory).addr();
        match self.last {
            Some((last, number)) if last == address => return number,
            // Most transactions have one, and no map.
            None => {}
            Some((last, number)) => _ = self.numbers.insert(last, number),
        }
        let next = self.numbers.len();
        let number = *self.numbers.get(&address).unwrap_or(&next);
        self.last = Some((address, number));
        number
    }
}

/// What is told of a change, and needed where it fails.
pub(super) struct Item {
    pub(super) site: Site,
    pub(super) used: Len,
    pub(super) ramps: Vec<Ramp>,
    pub(super) until_run: bool,
    pub(super) is_live: bool,
    /// The number of its memory, see [`Memories`].
    pub(super) memory: usize,
    /// What stood there before.
    old: Arc<[u8]>,
    /// What the site is if a commit has failed and left it in doubt.
    pub(super) fate: Option<Fate>,
}

impl Item {
    /// The bytes of its site before the change is made, or after.
    pub(super) fn side<'a>(&'a self, part: &'a Part, side: Side) -> &'a [u8] {
        match side {
            Side::Old => &self.old,
            Side::New => &part.standing.bytes,
        }
    }
}

/// What a commit touches of a change where all goes well.
pub(super) struct Part {
    /// Its site.
    pub(super) range: CodeRange,
    pub(super) old_stub: OldStub,
    pub(super) place: Place,
    pub(super) version: u64,
    /// What is to stand in the site; once the change is made, what stood there.
    pub(super) standing: Box<Standing>,
}

impl Part {
    /// Takes out the stub that was made for a change which was not made.
    pub(super) fn take_stub(&mut self) -> Option<Box<Stub>> {
        self.standing.stub.take()
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

/// Which sites a transaction has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Quiescent,
    /// No thread has to be stopped for them.
    Live,
    Both,
}

/// A transaction ready to be committed.
pub(super) struct Work {
    pub(super) parts: SmallVec<[Part; 1]>,
    /// The same by memory.
    pub(super) groups: Groups,
    /// The changes of live sites.
    pub(super) exchanges: SmallVec<[HeadExchange; 1]>,
    /// What is published: the sites, or the heads of live ones, and what has been written outside of them.
    pub(super) ranges: SmallVec<[CodeRange; 2]>,
    /// What has been written outside of the sites.
    pub(super) outside: SmallVec<[CodeRange; 1]>,
    pub(super) level: Level,
    pub(super) kind: Kind,
    /// Whether some of the exchanges put a trap.
    pub(super) has_traps: bool,
    /// Whether there are ramps or stubs to be kept or given back when the changes are made.
    pub(super) has_code: bool,
    /// Modules whose code must not have been run yet.
    pub(super) not_run: SmallVec<[Module; 1]>,
    pub(super) chapter: Option<Box<Chapter>>,
    pub(super) items: Vec<Item>,
    pub(super) found: Found,
    /// Whether a commit that has failed had exchanged heads before: threads may be where they led.
    pub(super) exposed: bool,
    /// When it was committed.
    pub(super) time: CoarseTime,
    /// How long it was prepared, where there are observers.
    pub(super) prepared: Duration,
    /// The one that was committed before, until both are in the journal.
    pub(super) next: Option<Box<Work>>,
}

impl Work {
    /// These changes, in the order in which they are written.
    pub(super) fn of(mut drafts: Vec<Draft>, stopped: Level) -> Self {
        drafts.sort_by_key(Draft::order);
        // Whether code is given up, which nobody may execute afterwards.
        let ends = drafts.iter().any(|draft| {
            let status = draft.standing.status;
            matches!(status, Status::Invalidated | Status::Redirected)
        });
        let mut work = Self {
            parts: SmallVec::new(),
            groups: Groups::default(),
            exchanges: SmallVec::new(),
            ranges: SmallVec::new(),
            outside: SmallVec::new(),
            level: stopped,
            kind: Kind::Quiescent,
            has_traps: false,
            has_code: false,
            not_run: SmallVec::new(),
            chapter: None,
            items: Vec::with_capacity(drafts.len()),
            found: Found::default(),
            exposed: false,
            time: CoarseTime::default(),
            prepared: Duration::ZERO,
            next: None,
        };
        drafts.into_iter().for_each(|draft| work.add(draft));
        work.kind = match work.exchanges.len() {
            0 => Kind::Quiescent,
            all if all == work.parts.len() => Kind::Live,
            _ => Kind::Both,
        };
        if work.is_live() {
            work.level = match ends {
                true => Level::Immediate,
                false => Level::Eventual,
            };
        }
        work
    }

    /// Adds a change.
    fn add(&mut self, draft: Draft) {
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
        let range = draft.site.range();
        self.has_code |= !draft.ramps.is_empty() || draft.old_stub != OldStub::None;
        self.parts.push(Part {
            range,
            old_stub: draft.old_stub,
            place: draft.place,
            version: draft.version,
            standing: draft.standing,
        });
        self.items.push(Item {
            site: draft.site,
            used: draft.used,
            ramps: draft.ramps,
            until_run: draft.until_run,
            is_live: draft.live.is_some(),
            memory: draft.memory,
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
        let lens = self.items.iter().map(|item| item.old.len());
        self.found = Found::of_len(lens.max().unwrap_or(0));
        self.groups = Groups::of(&self.items, &self.parts)?;
        self.chapter = journal.chapter(self.both().map(record));
        Ok(())
    }

    /// Every item with its part.
    pub(super) fn both(&self) -> impl ExactSizeIterator<Item = (&Item, &Part)> {
        self.items.iter().zip(self.parts.iter())
    }

    /// Whether all its sites are live, so that no thread has to be stopped.
    pub(super) fn is_live(&self) -> bool {
        self.kind == Kind::Live
    }
}

/// What the journal will say of a change.
fn record((item, part): (&Item, &Part)) -> Record {
    Record {
        site: item.site.key(),
        addr: part.range.start(),
        generation: part.standing.generation,
        became: part.standing.status,
        before: Arc::clone(&item.old),
        after: Arc::clone(&part.standing.bytes),
    }
}
