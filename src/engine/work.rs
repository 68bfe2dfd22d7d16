//! A prepared transaction as data.
//!
//! Problem: committing a site takes a few hundred instructions, so that what is in no cache, what
//! is moved or freed, and each call through a table is most of its cost; and preparing one whose
//! sequence is known takes little more. Approach: all that can be known is made when the
//! transaction is prepared, down to what will stand in the site's state, where a commit puts a
//! pointer to it. What a commit touches of its sites lies side by side, in lists that are filled
//! where they stay; what only failures and displays need is apart. What a commit replaces takes the
//! place of what it was replaced by. Whoever prepares next files it in the journal, and takes the
//! room of both, so that most transactions allocate nothing. The engine's own memory is called
//! directly, see `group`.
//!
//! Invariants: items and their parts have the same numbers, in the order in which they are written:
//! quiescent ones by memory and address, then live ones; a commit writes only if the state in a
//! part's place has the part's version, so what was derived from the state is true then.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::fault::Found;
use super::group::Groups;
use super::journal::{Journal, Record};
use super::live::JumpExchange;
use super::prepare::Made;
use super::retire::Until;
use super::state::{ExitStub, Installed, Place, States, Status, Stub};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::error::{Fate, Result};
use crate::invariant::broken;
use crate::memory::{CodeMemory, Side};
use crate::publish::{CoarseTime, Level, QuiescentState};
use crate::site::{Module, Site};

/// What orders the changes of a transaction.
#[inline]
fn order(item: &Item, part: &Part) -> (bool, usize, CodeAddr) {
    (item.is_live, item.memory, part.range.start())
}

/// Numbers the memories of a transaction as they come up.
#[derive(Default)]
pub(super) struct Memories {
    last: Option<(usize, usize)>,
    /// Where there are several: their numbers by their addresses.
    numbers: Option<HashMap<usize, usize>>,
}

impl Memories {
    pub(super) fn number(&mut self, memory: &Arc<dyn CodeMemory>) -> usize {
        let address = Arc::as_ptr(memory).addr();
        let number = match self.last {
            Some((last, number)) if last == address => return number,
            // Most transactions have one, and no map.
            None => 0,
            Some(last) => self.number_of_several(last, address),
        };
        self.last = Some((address, number));
        number
    }

    #[cold]
    fn number_of_several(&mut self, (last, number): (usize, usize), address: usize) -> usize {
        let numbers = self.numbers.get_or_insert_default();
        numbers.insert(last, number);
        let next = numbers.len();
        *numbers.get(&address).unwrap_or(&next)
    }
}

/// What is told of a change, and needed where it fails.
pub(super) struct Item {
    pub(super) site: Site,
    /// What it is to be.
    pub(super) status: Status,
    /// Bytes of code, the rest being nops.
    pub(super) used: Len,
    pub(super) exit_stubs: Vec<ExitStub>,
    /// Whether it would have been prepared otherwise, had its code been run.
    pub(super) until_run: bool,
    pub(super) is_live: bool,
    /// The number of its memory, see [`Memories`].
    pub(super) memory: usize,
    /// Its memory, where something else is written than the site.
    pub(super) elsewhere: Option<Arc<dyn CodeMemory>>,
    /// What the site is if a commit has failed and left it in doubt.
    pub(super) fate: Option<Fate>,
}

impl Item {
    /// The memory that is written.
    ///
    /// # Errors
    /// [`Error::SiteForeign`](crate::Error::SiteForeign): the site's module has no memory there.
    #[inline]
    pub(super) fn written_in(&self, at: CodeAddr) -> Result<&Arc<dyn CodeMemory>> {
        match &self.elsewhere {
            Some(memory) => Ok(memory),
            None => self.site.memory_at(at),
        }
    }
}

/// What a commit touches of a change where all goes well.
pub(super) struct Part {
    /// What is written: its site, or the gate of a call.
    pub(super) range: CodeRange,
    pub(super) old_stub: OldStub,
    pub(super) place: Place,
    /// The version of the state for which this was prepared.
    pub(super) version: u64,
    /// What is to stand in the site; once the change is made, what stood there.
    pub(super) installed: Box<Installed>,
}

impl Part {
    /// Takes out the stub that was made for a change which was not made.
    pub(super) fn take_stub(&mut self) -> Option<Box<Stub>> {
        self.installed.stub.take()
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
    /// It is given back when threads have left it.
    Retired(Until),
}

impl OldStub {
    /// What becomes of the stub of `old` when `new` takes its place.
    pub(super) fn of(old: &Installed, new: &Installed, is_live: bool) -> Self {
        match &old.stub {
            None => Self::None,
            // protection: stub-of-an-invalidated-site-is-kept
            Some(_) if new.status == Status::Invalidated && new.stub.is_none() => Self::Kept,
            // Threads that execute quiescent modules need not report.
            // protection: reports-are-of-live-modules
            Some(stub) if !is_live && (stub.calls || stub.is_led_to()) => Self::Retired(Until::GracePeriod),
            Some(_) if !is_live => Self::Freed,
            // protection: stub-that-calls-waits-for-quiescence
            Some(stub) if stub.calls => Self::Retired(Until::Reported(QuiescentState::Quiescent)),
            // protection: live-replaced-stub-is-retired
            Some(_) => Self::Retired(Until::Reported(QuiescentState::Checkpoint)),
        }
    }
}

/// Adds what is made to a list. An ordinary `push` keeps what it is given on the stack, for the
/// case that the list cannot grow, and copies it from there at once, for which a processor waits
/// longer than all else takes. Here the list has grown before, and nothing is dropped. Inlined
/// always, so that what is made is made in its place: with `add_to`, 29 of 2,850 instructions of a
/// patch.
#[inline(always)]
pub(super) fn push<T>(list: &mut Vec<T>, make: impl FnOnce() -> T) {
    list.reserve(1);
    let made = make();
    match list.len() < list.capacity() {
        true => list.push(made),
        false => {
            // To drop it here would keep it on the stack again.
            mem::forget(made);
            broken("a list that has grown has room")
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

/// A transaction ready to be committed, or being made so.
pub(super) struct Work {
    pub(super) parts: Vec<Part>,
    /// The same by memory.
    pub(super) groups: Groups,
    /// The changes of live sites.
    pub(super) exchanges: Vec<JumpExchange>,
    /// What is published: the sites, or the patchable jumps of live ones, and what has been written
    /// outside of them.
    pub(super) ranges: Vec<CodeRange>,
    /// What has been written outside of the sites.
    pub(super) outside: Vec<CodeRange>,
    pub(super) level: Level,
    pub(super) kind: Kind,
    /// Whether some of the exchanges put a trap.
    pub(super) has_traps: bool,
    /// Whether there are exit stubs or stubs to be kept or given back when the changes are made.
    pub(super) has_code: bool,
    /// Modules whose code must not have been run yet.
    pub(super) not_run: Vec<Module>,
    /// Sites that were left as they are, as they have been invalidated.
    pub(super) invalidated: Vec<Site>,
    pub(super) items: Vec<Item>,
    pub(super) found: Found,
    /// Whether a commit that has failed had exchanged patchable jumps before: threads may be where
    /// they led.
    pub(super) exposed: bool,
    /// When it was committed.
    pub(super) time: CoarseTime,
    /// How long it was prepared, where there are observers.
    pub(super) prepared: Duration,
    /// The one that was committed before, until both are in the journal.
    pub(super) next: Option<Box<Work>>,
    /// What the next change is made of.
    pub(super) made: Option<Box<Made>>,
    /// What stood in sites once: room for what is to stand in others.
    #[allow(clippy::vec_box)] // The boxes are the room.
    pub(super) room: Vec<Box<Installed>>,
}

/// The room of a transaction of so many sites is used again.
const FEW: usize = 8;

impl Default for Work {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            groups: Groups::default(),
            exchanges: Vec::new(),
            ranges: Vec::new(),
            outside: Vec::new(),
            level: Level::Immediate,
            kind: Kind::Quiescent,
            has_traps: false,
            has_code: false,
            not_run: Vec::new(),
            invalidated: Vec::new(),
            items: Vec::new(),
            found: Found::default(),
            exposed: false,
            time: CoarseTime::default(),
            prepared: Duration::ZERO,
            next: None,
            made: None,
            room: Vec::new(),
        }
    }
}

impl Work {
    /// Brings the changes into the order in which they are written, if they have come in another.
    fn order(&mut self) {
        let keys = self.both().map(|(item, part)| order(item, part));
        if keys.is_sorted() {
            return;
        }
        let mut exchanges = mem::take(&mut self.exchanges).into_iter();
        let both = self.items.drain(..).zip(self.parts.drain(..));
        let mut all: Vec<_> = both
            .map(|(item, part)| {
                let exchange = item.is_live.then(|| {
                    let next = exchanges.next();
                    next.expect("every live item has an exchange, in their order")
                });
                (item, part, exchange)
            })
            .collect();
        all.sort_by_key(|(item, part, _)| order(item, part));
        for (number, (item, part, exchange)) in all.into_iter().enumerate() {
            self.exchanges
                .extend(exchange.map(|exchange| exchange.of_item(number)));
            self.items.push(item);
            self.parts.push(part);
        }
    }

    /// Finds what all changes together are, in their order.
    fn sum_up(&mut self, stopped: Level) {
        let mut ends = false;
        for (item, part) in self.items.iter().zip(&self.parts) {
            // Whether code is given up, which nobody may execute afterwards.
            ends |= matches!(item.status, Status::Invalidated | Status::Redirected);
            if !item.is_live {
                self.ranges.push(part.range);
            }
            if part.installed.stub.is_some() || !item.exit_stubs.is_empty() {
                let stub = part.installed.stub.iter().map(|stub| stub.slot.range());
                let exit_stubs = item.exit_stubs.iter().map(|exit_stub| exit_stub.slot.range());
                self.outside.extend(exit_stubs.chain(stub));
            }
            let module = item.site.module();
            if item.until_run && !self.not_run.last().is_some_and(|last| last.is_same(module)) {
                self.not_run.push(module.clone());
            }
            self.has_code |= !item.exit_stubs.is_empty() || part.old_stub != OldStub::None;
        }
        self.kind = match self.exchanges.len() {
            0 => Kind::Quiescent,
            all if all == self.parts.len() => Kind::Live,
            _ => Kind::Both,
        };
        self.level = match (self.kind, ends) {
            // protection: invalidation-is-immediate
            (Kind::Live, true) => Level::Immediate,
            (Kind::Live, false) => Level::Eventual,
            (Kind::Quiescent | Kind::Both, _) => stopped,
        };
        for exchange in &self.exchanges {
            self.ranges.push(exchange.range());
            self.has_traps |= exchange.is_trap();
        }
        if !self.outside.is_empty() {
            self.ranges.extend_from_slice(&self.outside);
        }
    }

    /// Plans the writes of the changes, each from what stands in its site now.
    ///
    /// # Errors
    /// [`memory::Error::OutsideMemory`](crate::memory::Error::OutsideMemory) for a site whose pages do not exist.
    pub(super) fn seal(&mut self, states: &States, stopped: Level) -> Result<()> {
        self.order();
        self.sum_up(stopped);
        let lens = self.parts.iter().map(|part| part.installed.bytes.len());
        // A transaction of no sites compares none.
        self.found.make_room(lens.max().unwrap_or(0));
        self.groups.fill(&self.items, &self.parts, states)
    }

    /// Every item with its part.
    pub(super) fn both(&self) -> impl ExactSizeIterator<Item = (&Item, &Part)> {
        self.items.iter().zip(self.parts.iter())
    }

    /// Whether all its sites are live, so that no thread has to be stopped.
    pub(super) fn is_live(&self) -> bool {
        self.kind == Kind::Live
    }

    /// Puts what was committed into the journal.
    pub(super) fn file(&self, journal: &mut Journal) {
        let mut chapter = journal.chapter(self.parts.len(), self.time);
        for ((item, part), write) in self.both().zip(self.groups.writes()) {
            chapter.add(&Record {
                site: item.site.key(),
                addr: write.at,
                // What has been replaced is in its place.
                // protection: journal-has-both-sides
                generation: part.installed.generation + 1,
                became: item.status,
                before: write.side(Side::Old),
                after: write.side(Side::New),
            });
        }
    }

    /// Whether its room is worth keeping, and not too much.
    pub(super) fn is_small(&self) -> bool {
        self.parts.len() <= FEW
    }

    /// Gives up all that it refers to, and keeps the room.
    pub(super) fn clear(&mut self) {
        let Self {
            parts,
            groups,
            exchanges,
            ranges,
            outside,
            not_run,
            invalidated,
            items,
            found,
            room,
            ..
        } = self;
        while let Some(part) = parts.pop() {
            room.push(part.installed);
        }
        groups.clear();
        exchanges.clear();
        ranges.clear();
        outside.clear();
        not_run.clear();
        invalidated.clear();
        // protection: room-has-no-changes
        items.clear();
        found.clear();
        (self.has_traps, self.has_code, self.exposed) = (false, false, false);
        self.prepared = Duration::ZERO;
    }
}
