//! Sites that get the same together, as one that did.
//!
//! Problem: what a runtime has assumed of a class no longer holds, and thousands of sites are
//! invalidated; or a tracer is switched on, and all sites get its sequence. Many of them are alike, and
//! were never changed. A change and a state of its own for each, some 600 bytes, are most of what that
//! takes. Approach: the first of them is changed as any other. Those that are like it, in its module or in
//! others, are a batch, which keeps of each what it is to hold and which exit stub it has, four bytes
//! more than the site has; everything else is as of the first. A site of a batch gets a state when somebody
//! asks for it. Sites of a batch that get the same again, all of them, are a batch in its place. Which
//! sites join a batch is in [`open`].
//!
//! Invariants: a batch is prepared and committed under one lock, so its sites are as they were; all of
//! them are in memory of the engine's own, are alike, and had no state, or are what is left of one batch.
//! They differ in their addresses and in their exit stubs, to which they go, and in nothing else that was
//! looked at for what they hold. A site of a batch has what the batch says, or it is not committed; when
//! it gets a state it is in the batch no more.

mod alike;
mod open;
mod sites;

use std::iter;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

pub use self::alike::AlikeSites;
pub(super) use self::open::{FEWEST, Filling, OpenBatches};
use self::sites::{BatchSites, OfMemory, Part};
use super::Shared;
use super::change::{Side, SiteChange, SiteWrite};
use super::exit_stub::{ExitStub, ExitStubCode, ExitStubKind, RoomExit};
use super::exits::exits_of;
use super::installed::{Held, Installed};
use super::journal::{AlikeRecords, BytesBefore, Journal, Record};
use super::originals::SiteFacts;
use super::state::States;
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::error::Fate;
use crate::invariant::OrAbort;
use crate::memory::short::Bytes;
use crate::memory::{self, Alias, Block, CodeMemory, OneOfMany};
use crate::publish::CoarseTime;
use crate::site::{Module, Site, SiteKey};

/// From so many sites on, the journal has what was committed of a batch side by side. Of fewer, entries of its ring take
/// less memory.
const LISTED: usize = 16;

/// What the sites of a batch hold before.
enum OldBytes {
    /// All the same: they were never changed.
    Same(Bytes),
    /// Each its own, side by side: they are what was left of a batch, of which they were that part.
    OfPart(u32, Vec<u8>),
}

/// Sites that are alike, to be changed, or changed.
pub(super) struct SiteBatch {
    sites: BatchSites,
    /// How many bytes each site has.
    site_len: usize,
    /// What each holds before.
    old: OldBytes,
    /// What each holds afterwards, side by side.
    new: Vec<u8>,
    /// How many bytes of that are code, the rest being nops.
    used: Len,
    /// What is installed in the site that they are like, and in each but for the bytes.
    installed: Installed,
    facts: SiteFacts,
    /// What the exit stub of each is, and which change of its site it was made for.
    exit_stub: (ExitStubKind, u64),
    /// The block of these.
    block: Arc<Block>,
    /// The numbers of these in it.
    rooms: Vec<u32>,
    /// Whether they would have been prepared otherwise, had their code been run.
    until_run: bool,
    /// How many are in it still.
    left: usize,
    /// After a roll-back, whether what that has written was published.
    rolled_back: Option<bool>,
}

impl SiteBatch {
    /// Whether its sites were never changed.
    fn is_of_fresh(&self) -> bool {
        matches!(self.old, OldBytes::Same(_))
    }

    /// How many sites.
    pub(super) fn len(&self) -> usize {
        self.rooms.len()
    }

    /// How many sites have joined it, of which the last ones may not be filled yet.
    fn joined(&self) -> usize {
        self.sites.len()
    }

    /// Its sites with these numbers.
    fn alike(&self, numbers: Range<usize>) -> AlikeSites<'_> {
        AlikeSites::new(&self.sites, numbers)
    }

    /// Drops what sites are filled with, but for so many of the first.
    fn truncate(&mut self, len: usize) {
        self.rooms.truncate(len);
        self.new.truncate(len * self.site_len);
    }

    /// How many bytes each has.
    pub(super) fn site_len(&self) -> usize {
        self.site_len
    }

    /// Where the exit stubs are that were made for it: those that follow each other together.
    fn exit_stubs(&self) -> impl Iterator<Item = CodeRange> {
        let runs = self.made().chunk_by(|one, next| *next == one + 1);
        let ends = runs.filter_map(|run| run.first().zip(run.last()));
        ends.map(|(first, last)| {
            let (first, last) = (self.block.room(*first), self.block.room(*last));
            let run = CodeRange::new(first.start(), last.end().distance_from(first.start()) as u64);
            run.expect("rooms that follow each other have bytes that do")
        })
    }

    /// Hands on where the sites are, in runs of those between which there are less than so many bytes.
    pub(super) fn each_run(&self, near: u64, mut take: impl FnMut(CodeRange)) {
        let mut take = |start: u64, end: u64| {
            let run = CodeRange::new(CodeAddr::new(start), end - start);
            take(run.expect("sites that ascend end behind where the first of them starts"));
        };
        let (mut addrs, len) = (self.sites.addrs().iter().map(|at| at.get()), self.site_len as u64);
        let Some(first) = addrs.next() else {
            return;
        };
        let (mut start, mut end) = (first, first + len);
        for at in addrs {
            // In the next module they may be before.
            if at < start || at.saturating_sub(end) >= near {
                take(start, end);
                start = at;
            }
            end = at + len;
        }
        take(start, end);
    }

    /// The number of the first whose code may have run since it was prepared as code that has not.
    pub(super) fn first_run(&self) -> Option<usize> {
        let mut parts = self.sites.parts().iter().filter(|_| self.until_run);
        let run = parts.find(|part| part.module.is_released())?;
        Some(run.before)
    }

    /// What the site of that number among them holds before.
    #[inline]
    fn old_of(&self, number: usize) -> &[u8] {
        match &self.old {
            OldBytes::Same(old) => old,
            OldBytes::OfPart(_, all) => of_number(all, number, self.site_len),
        }
    }

    /// What the site of that number among them holds afterwards.
    fn new_of(&self, number: usize) -> &[u8] {
        of_number(&self.new, number, self.site_len)
    }

    /// The numbers of the exit stubs that were made for it.
    fn made(&self) -> &[u32] {
        match self.is_of_fresh() {
            true => &self.rooms,
            // protection: exit-stubs-of-a-batch-before-stay
            false => &[],
        }
    }

    /// Says that they are about to be written.
    pub(super) fn begin(&self) -> memory::Result<()> {
        let mut memories = self.sites.by_memory();
        memories.try_for_each(|of_memory| of_memory.memory.begin_here())
    }

    /// The number of the first site that does not hold this side of it, with its memory and its address.
    #[inline(always)] // As `ChangeSet::compare`.
    pub(super) fn unlike(&self, side: Side) -> Option<(usize, (&Alias, CodeAddr))> {
        let all = match (side, &self.old) {
            (Side::Old, OldBytes::Same(old)) => {
                return self
                    .first(|sites| sites.addrs.iter().position(|at| !sites.memory.has_here(*at, old)));
            }
            (Side::Old, OldBytes::OfPart(_, all)) => all,
            (Side::New, _) => &self.new,
        };
        self.first(|sites| {
            let mut each = sites.with(all, self.site_len);
            each.position(|(at, own)| !sites.memory.has_here(at, own))
        })
    }

    /// The first site that is found among those of one of the memories, by its number there.
    #[inline(always)] // As `unlike`.
    fn first(&self, find: impl Fn(&OfMemory<'_>) -> Option<usize>) -> Option<(usize, (&Alias, CodeAddr))> {
        self.sites.by_memory().find_map(|sites| {
            let number = find(&sites)?;
            let at = sites.addrs.get(number).or_abort(HAS_ALL);
            Some((sites.before + number, (sites.memory, *at)))
        })
    }

    /// Writes the new bytes of every site.
    #[inline(always)] // As `unlike`.
    pub(super) fn write(&self) -> memory::Result<()> {
        self.sites.by_memory().try_for_each(|sites| {
            let mut each = sites.with(&self.new, self.site_len);
            each.try_for_each(|(at, new)| write_one(sites.memory, at, (Side::New, new)))
        })
    }

    /// Writes the old bytes of every site that can be written: a refused write leaves bytes that the
    /// comparison afterwards finds.
    #[cold]
    pub(super) fn restore(&self) {
        for sites in self.sites.by_memory() {
            for (number, at) in (sites.before..).zip(sites.addrs) {
                // protection: roll-back-of-a-batch-goes-on
                let _ = write_one(sites.memory, *at, (Side::Old, self.old_of(number)));
            }
        }
    }

    /// Notes that its sites were rolled back, and whether that was published.
    pub(super) fn note_rolled_back(&mut self, is_published: bool) {
        self.rolled_back = Some(is_published);
    }

    /// What the site of that number among them is after a failed commit, unless that is what it should be.
    fn fate(&self, number: usize, (memory, at): (&Alias, CodeAddr)) -> Option<Fate> {
        let holds = |bytes| memory.holds(at, bytes) == Ok(true);
        match self.rolled_back? {
            true if holds(self.old_of(number)) => None,
            // protection: fates-are-looked-up (2)
            true if holds(self.new_of(number)) => Some(Fate::New),
            _ => Some(Fate::Unknown),
        }
    }

    /// Puts what was committed into the journal, to which so many changes are added next.
    pub(super) fn file(&self, journal: &mut Journal, time: CoarseTime, next: usize) {
        match self.len() < LISTED {
            true => self
                .records()
                .for_each(|record| journal.add(time, iter::once(record))),
            false => journal.add_alike(time, (self.len(), next), |count| self.last_records(count)),
        }
    }

    fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let sites = self.alike(0..self.len());
        let key = |(module, index): (&Module, u32)| SiteKey {
            module: module.id(),
            index,
        };
        let runs = sites.runs();
        let keys = runs.flat_map(move |(module, sites)| sites.map(move |index| key((module, index))));
        keys.zip(sites.addrs())
            .zip(0..)
            .map(|((site, addr), number)| Record {
                generation: self.installed.generation,
                site,
                addr: *addr,
                became: self.installed.status,
                before: self.old_of(number),
                after: self.new_of(number),
            })
    }

    /// The same of so many of the last, side by side.
    fn last_records(&self, count: usize) -> AlikeRecords {
        let skip = self.len() - count;
        let first = |(module, sites): (&Module, Range<u32>)| {
            let (module, index) = (module.id(), sites.start);
            (SiteKey { module, index }, sites.len() as u32)
        };
        let of_last = |all: &[u8]| all.get(skip * self.site_len..).or_abort(HAS_ALL).to_vec();
        let sites = self.alike(skip..self.len());
        AlikeRecords {
            generation: self.installed.generation,
            became: self.installed.status,
            addrs: sites.addrs().to_vec(),
            sites: sites.runs().map(first).collect(),
            before: match &self.old {
                OldBytes::Same(old) => BytesBefore::Same(old.clone()),
                OldBytes::OfPart(_, all) => BytesBefore::Each(of_last(all)),
            },
            after: of_last(&self.new),
        }
    }

    /// What is installed in the site of that number among them.
    fn installed_of(&self, number: usize) -> Installed {
        self.installed.of_like(self.new_of(number))
    }

    /// The exit stub of the site of that number among them, which is in the batch no more.
    fn exit_stub_of(&self, number: usize) -> ExitStub {
        let (kind, generation) = self.exit_stub;
        let number = *self.rooms.get(number).or_abort(HAS_ALL);
        let block = OneOfMany::alone(Arc::clone(&self.block));
        ExitStub {
            kind,
            generation,
            code: ExitStubCode::InRoom(RoomExit { block, number }),
            resumes_in: None,
        }
    }

    /// Frees the exit stubs of sites that are not changed.
    pub(super) fn release(&self, shared: &Shared) {
        let exits = exits_of(&self.block);
        for number in self.made() {
            // protection: numbers-of-refused-batches-are-given-back
            exits.give(*number);
            shared.stubs.discard(self.block.slot(*number));
        }
    }

    /// Hands each site on as a change of its own, which was not made.
    pub(super) fn into_changes(self, states: &mut States, mut take: impl FnMut(Site, SiteChange, SiteWrite)) {
        for part in self.sites.parts() {
            for (number, index) in (part.before..).zip(part.sites.clone()) {
                let (site, (memory, at)) = (part.module.handle(index), self.sites.place(number));
                // protection: sites-of-failed-batches-have-states
                let index = states.index_of(&site, || Ok(())).ok();
                let index = index.or_abort("a site of a batch is like one that has a state");
                let mut change = SiteChange::ROOM;
                change.site = site.key();
                change.index = index;
                change.range = site.range();
                change.status = self.installed.status;
                change.installed = Held::Own(Box::new(self.installed_of(number)));
                change.used = self.used;
                if self.is_of_fresh() {
                    change.exit_stubs.push(self.exit_stub_of(number));
                }
                change.until_run = self.until_run;
                change.fate = self.fate(number, (memory, at));
                let (old, new) = (self.old_of(number), self.new_of(number));
                take(site, change, SiteWrite::new(at, old, new));
            }
        }
    }
}

#[inline(always)] // As `SiteBatch::unlike`.
fn write_one(memory: &Alias, at: CodeAddr, (side, bytes): (Side, &[u8])) -> memory::Result<()> {
    #[cfg(all(test, target_arch = "x86_64"))]
    if failing::is_lost(memory, at, (side, bytes))? {
        return Ok(());
    }
    // A test asks which side it is.
    let _ = side;
    memory.write_here(at, bytes)
}

/// Those of the site of that number of bytes that lie side by side, so many of each.
#[inline]
fn of_number(all: &[u8], number: usize, len: usize) -> &[u8] {
    all.get(number * len..(number + 1) * len).or_abort(HAS_ALL)
}

const HAS_ALL: &str = "a batch has the bytes and the exit stub of each of its sites";

/// The batches that are committed.
#[derive(Default)]
pub(super) struct Batches {
    all: Vec<Option<SiteBatch>>,
    free: Vec<u32>,
    /// Of each part of these, the numbers of its batch and of it in that.
    parts: Vec<(u32, u32)>,
    free_parts: Vec<u32>,
}

const IS_KEPT: &str = "a batch is kept as long as a site is in it";

impl Batches {
    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.iter().flatten().count()
    }

    pub(super) fn get(&self, batch: u32) -> &SiteBatch {
        let found = self.all.get(batch as usize).and_then(Option::as_ref);
        found.or_abort(IS_KEPT)
    }

    /// The part of that number, and its batch.
    fn part(&self, number: u32) -> (&SiteBatch, &Part) {
        let (batch, part) = *self.parts.get(number as usize).or_abort(IS_KEPT);
        let batch = self.get(batch);
        (batch, batch.sites.parts().get(part as usize).or_abort(IS_KEPT))
    }

    /// Keeps one in the place of another, whose part of that number was all that was left of it. Returns
    /// the number of the batch.
    fn replace(&mut self, number: u32, mut batch: SiteBatch) -> u32 {
        let (place, _) = *self.parts.get(number as usize).or_abort(IS_KEPT);
        for part in batch.sites.parts_mut() {
            part.number = number;
        }
        let before = self.all.get_mut(place as usize).and_then(Option::as_mut);
        let before = mem::replace(before.or_abort(IS_KEPT), batch);
        let now = self.get(place);
        let has_all =
            before.left == now.left && (before.sites.parts().len(), now.sites.parts().len()) == (1, 1);
        let has_all = has_all.then_some(());
        has_all.or_abort("a batch has all sites that are left of the one before");
        place
    }

    /// Keeps one: its number.
    fn add(&mut self, mut batch: SiteBatch) -> u32 {
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.all.push(None);
                (self.all.len() - 1) as u32
            }
        };
        for (at, part) in (0..).zip(batch.sites.parts_mut()) {
            part.number = match self.free_parts.pop() {
                Some(free) => free,
                None => {
                    self.parts.push((0, 0));
                    (self.parts.len() - 1) as u32
                }
            };
            let place = self.parts.get_mut(part.number as usize);
            *place.or_abort("a place that became free is still there") = (number, at);
        }
        let place = self.all.get_mut(number as usize);
        *place.or_abort("a place that became free is still there") = Some(batch);
        number
    }

    /// What was committed of a batch is in the journal: where its sites are is known of their modules.
    pub(super) fn note_filed(&mut self, batch: u32) {
        let of = self.all.get_mut(batch as usize).and_then(Option::as_mut);
        of.or_abort(IS_KEPT).sites.forget_places();
    }

    /// A site leaves the batch of that part: what is installed in it, and its exit stub.
    pub(super) fn take_out(&mut self, part: u32, site: SiteKey) -> (Installed, ExitStub, SiteFacts) {
        let (of, part) = self.part(part);
        let number = part.number_of(site.index);
        let (installed, exit_stub, facts) = (of.installed_of(number), of.exit_stub_of(number), of.facts);
        self.leave(part.number);
        (installed, exit_stub, facts)
    }

    fn leave(&mut self, part: u32) {
        let (batch, _) = *self.parts.get(part as usize).or_abort(IS_KEPT);
        let place = self.all.get_mut(batch as usize).or_abort(IS_KEPT);
        let of = place.as_mut().or_abort(IS_KEPT);
        of.left -= 1;
        // protection: batches-go-with-their-last-site
        if of.left == 0 {
            self.free_parts
                .extend(of.sites.parts().iter().map(|part| part.number));
            *place = None;
            self.free.push(batch);
        }
    }

    /// Whether the exit stub of a site of that part contains an address.
    pub(super) fn has(&self, part: u32, site: SiteKey, addr: CodeAddr) -> bool {
        let (batch, part) = self.part(part);
        let number = batch.rooms.get(part.number_of(site.index)).or_abort(HAS_ALL);
        batch.block.room(*number).contains(addr)
    }
}

impl States {
    /// Makes what was written of a batch the sites' states. Returns its number.
    pub(super) fn install_batch(&mut self, mut batch: SiteBatch) -> u32 {
        batch.left = batch.len();
        if let OldBytes::OfPart(before, _) = batch.old {
            return self.batches.replace(before, batch);
        }
        let number = self.batches.add(batch);
        for part in self.batches.get(number).sites.parts() {
            self.table
                .insert_part(&part.module, part.sites.clone(), part.number);
        }
        number
    }
}

/// Writes of batches that fail when a test tells them to: memory of the engine's own does not.
#[cfg(test)]
#[cfg(target_arch = "x86_64")]
pub(super) mod failing {
    use std::cell::Cell;

    use super::Side;
    use crate::addr::CodeAddr;
    use crate::error::Errno;
    use crate::memory::{Alias, CodeMemory, Error, Result};

    /// How many writes succeed before one fails.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(in crate::engine) enum Fails {
        /// After the first half of its bytes.
        Once(u32),
        /// So do all behind it. They write nothing.
        ForGood(u32),
        /// It writes nothing, and says that it has.
        Unsaid(u32),
    }

    thread_local! {
        static RULES: [Cell<Option<Fails>>; 2] = const { [const { Cell::new(None) }; 2] };
    }

    /// Sets what fails of the writes of this thread of that side; returns what was still to fail.
    pub(in crate::engine) fn set(side: Side, fails: Option<Fails>) -> Option<Fails> {
        RULES.with(|rules| rules[side as usize].replace(fails))
    }

    /// Whether a write is lost.
    pub(super) fn is_lost(memory: &Alias, at: CodeAddr, (side, bytes): (Side, &[u8])) -> Result<bool> {
        let (next, is_lost) = match set(side, None) {
            None => (None, Ok(false)),
            Some(Fails::Once(0)) => {
                memory.write(at, &bytes[..bytes.len() / 2])?;
                (None, Err(()))
            }
            Some(Fails::ForGood(0)) => (Some(Fails::ForGood(0)), Err(())),
            Some(Fails::Unsaid(0)) => (None, Ok(true)),
            Some(Fails::Once(left)) => (Some(Fails::Once(left - 1)), Ok(false)),
            Some(Fails::ForGood(left)) => (Some(Fails::ForGood(left - 1)), Ok(false)),
            Some(Fails::Unsaid(left)) => (Some(Fails::Unsaid(left - 1)), Ok(false)),
        };
        set(side, next);
        is_lost.map_err(|()| Error::SystemCall {
            call: "injected fault",
            at,
            len: 0,
            errno: Errno(libc::EIO),
            mend: "none",
        })
    }
}
