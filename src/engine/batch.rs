//! Sites that get the same together, behind one that did.
//!
//! Problem: what a runtime has assumed of a class no longer holds, and thousands of sites are
//! invalidated; or a tracer is switched on, and all sites get its sequence. They lie side by side, are
//! alike, and were never changed. A change and a state of its own for each, some 600 bytes, are most of
//! what that takes. Approach: the first of them is changed as any other. The others are a batch, which
//! keeps of each what it is to hold and which exit stub it has, four bytes more than the site has;
//! everything else is as of the first. A site of a batch gets a state when somebody asks for it. Sites of
//! a batch that get the same again, all of them, are a batch in its place.
//!
//! Invariants: a batch is prepared and committed under one lock, so its sites are as they were; all of
//! them are in one memory of the engine's own, of one [form](Site::form_key), and had no state, or are
//! what is left of one batch. They differ in their addresses and in their exit stubs, to which they go,
//! and in nothing else that was looked at for what they hold. A site of a batch has what the batch says, or
//! it is not committed; when it gets a state it is in the batch no more.

use core::cell::Cell;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::Shared;
use super::change::{Side, SiteChange, SiteWrite};
use super::exit_stub::{ExitStub, ExitStubCode, ExitStubKind, RoomExit};
use super::exits::{ExitRequest, ExitResumption, TakenRooms, exits_of};
use super::installed::{Held, Installed};
use super::journal::Record;
use super::observe::Boxed;
use super::originals::SiteFacts;
use super::prepare::filled_wrong;
use super::state::States;
use super::state_table::StatePlace;
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::error::Fate;
use crate::invariant::OrAbort;
use crate::memory::short::{self, Bytes};
use crate::memory::{self, Alias, Block, CodeMemory, OneOfMany};
use crate::sequence::Sequence;
use crate::site::{Module, Site, SiteKey};

/// Which change of a site of a batch it is: none was changed before.
const FIRST: u64 = 1;

/// A batch is tried where the same is asked for of so many sites behind one: of fewer, a change for each
/// takes less.
pub(super) const FEWEST: u32 = 4;

/// What the sites of a batch are filled with, each with the way to its own exit stub.
pub(super) struct Filling<'s> {
    pub(super) sequence: &'s Sequence,
    /// The kind of sites for which it has a template.
    pub(super) kind: u32,
    /// The kind of which each site has to be; `None` where that is for all sites of as many bytes.
    pub(super) site_kind: Option<u32>,
}

/// What the sites of a batch hold before.
enum OldBytes {
    /// All the same: they were never changed.
    Same(Bytes),
    /// Each its own, side by side: they are what was left of the batch of that number.
    OfBatch(u32, Vec<u8>),
}

/// Sites that follow each other in their module, to be changed, or changed.
pub(super) struct SiteBatch {
    module: Module,
    /// The number of its module among those of the transaction.
    module_number: u32,
    /// The number of the first of them.
    first: u32,
    /// How many bytes each has.
    site_len: usize,
    /// What each holds before.
    old: OldBytes,
    /// What each holds afterwards, side by side.
    new: Vec<u8>,
    /// How many bytes of that are code, the rest being nops.
    used: Len,
    /// What is installed in the site before them, and in each but for the bytes.
    installed: Installed,
    facts: SiteFacts,
    memory: Alias,
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
    /// A batch of the sites behind this one, of which a change has just been prepared: at most so many.
    /// `None` where what fills it has no template yet, or the next site is not like this one.
    ///
    /// # Errors
    /// An exit stub cannot be made.
    pub(super) fn behind(
        (site, like): (&Site, &SiteChange),
        (shared, states): (&Shared, &States),
        filling: &Filling<'_>,
        most: u32,
    ) -> Boxed<Option<Self>> {
        let (this, next) = (like.site.index, like.site.index + 1);
        if site.module().alike(this, next..next + 1) == 0 {
            return Ok(None);
        }
        let places = states.places_in(site.module());
        let (sites, first) = (next..next + most, at(site, next));
        let batch = match places.and_then(|places| places.get(first)) {
            Some(StatePlace::Batch(batch)) => Self::over((site, like), states, batch, sites.clone()),
            _ => Self::of_fresh((site, like), states),
        };
        let Some(mut batch) = batch else {
            return Ok(None);
        };
        let filled = match batch.is_of_fresh() {
            true => batch.fill_fresh((shared, states), site, filling, sites),
            false => batch.fill_over(states, site, filling),
        };
        match filled {
            Ok(()) if batch.rooms.is_empty() => Ok(None),
            Ok(()) => Ok(Some(batch)),
            Err(error) => {
                // protection: stubs-of-refused-batches-are-freed
                batch.release(shared);
                Err(error)
            }
        }
    }

    /// One without sites behind a site that is prepared so. They were never changed.
    fn of_fresh((site, change): (&Site, &SiteChange), states: &States) -> Option<Self> {
        let [exit_stub] = &*change.exit_stubs else {
            return None;
        };
        let state = states.at(change.index)?;
        // protection: batches-are-of-sites-alike
        let is_first = exit_stub.generation == FIRST;
        let old = OldBytes::Same(short::of(&state.installed.bytes));
        Self::like((site, change), states, exit_stub, old).filter(|_| is_first)
    }

    /// One without sites behind a site that is prepared so, which are what is left of that batch: all of
    /// these.
    fn over(
        (site, change): (&Site, &SiteChange),
        states: &States,
        number: u32,
        sites: Range<u32>,
    ) -> Option<Self> {
        let batch = states.batches.get(number);
        let (state, places) = (states.at(change.index)?, states.places_in(site.module())?);
        // The site has come out of that batch, or is as if it had.
        let ([], [exit_stub]) = (&*change.exit_stubs, &*state.lasting.exit_stubs) else {
            return None;
        };
        let (held, holds) = (state.installed, &batch.installed);
        // protection: batches-are-over-sites-alike
        let is_alike =
            held.is_patched_like(holds) && (exit_stub.kind, exit_stub.generation) == batch.exit_stub;
        // protection: batches-are-over-whole-batches
        let first = batch.number(at(site, sites.start));
        let left = sites.start..sites.start + batch.left as u32;
        let is_whole = left.end <= sites.end
            && first + batch.left == batch.rooms.len()
            && places.are_in(number, left.clone());
        if !is_alike || !is_whole {
            return None;
        }
        let old = batch.new.get(first * batch.site_len..).expect(HAS_ALL);
        let old = OldBytes::OfBatch(number, old.to_vec());
        let mut over = Self::like((site, change), states, exit_stub, old)?;
        over.block = Arc::clone(&batch.block);
        over.rooms = batch.rooms.get(first..).expect(HAS_ALL).to_vec();
        Some(over)
    }

    /// One without sites behind a site that is prepared so, and has this exit stub.
    fn like(
        (site, change): (&Site, &SiteChange),
        states: &States,
        exit_stub: &ExitStub,
        old: OldBytes,
    ) -> Option<Self> {
        let ExitStubCode::InRoom(room) = &exit_stub.code else {
            return None;
        };
        let (facts, new) = (states.at(change.index)?.lasting.facts, change.to_install());
        // What was told of return offsets is of single sites.
        // protection: batches-are-of-sites-alike (2)
        if change.exchange.is_some() || facts.is_call || site.is_told() || new.stub.is_some() {
            return None;
        }
        let memory = site.memory().ok()?.as_alias()?;
        Some(Self {
            module: site.module().clone(),
            module_number: change.module,
            first: change.site.index + 1,
            site_len: new.bytes.len(),
            old,
            new: Vec::new(),
            used: change.used,
            installed: new.of_like(&new.bytes),
            facts,
            memory: memory.clone(),
            exit_stub: (exit_stub.kind, exit_stub.generation),
            block: Arc::clone(&*room.block),
            rooms: Vec::new(),
            until_run: change.until_run,
            left: 0,
            rolled_back: None,
        })
    }

    /// Fills the sites of the batch before, which keep their exit stubs: all of them or none.
    fn fill_over(&mut self, states: &States, like: &Site, filling: &Filling<'_>) -> Boxed<()> {
        let (all, numbers) = (self.numbers(), mem::take(&mut self.rooms));
        // They are alike: what is so of the first is so of all.
        let first = all.start..all.start + 1;
        if self.alike(states, like, filling, first).is_empty() {
            return Ok(());
        }
        let (new, numbers) = self.filled(states, filling, all.clone(), numbers)?;
        if numbers.len() == all.len() {
            (self.new, self.rooms) = (new, numbers);
        }
        Ok(())
    }

    /// Adds sites as long as they are like the one before them, and there are rooms for exit stubs.
    fn fill_fresh(
        &mut self,
        of: (&Shared, &States),
        like: &Site,
        filling: &Filling<'_>,
        sites: Range<u32>,
    ) -> Boxed<()> {
        let (_, states) = of;
        let mut rooms = states.exit_rooms.borrow_mut();
        let Some(left) = rooms.of_block(&self.block) else {
            return Ok(());
        };
        let most = left.len();
        let end = sites.end.min(sites.start.saturating_add(most as u32));
        let sites = self.alike(states, like, filling, sites.start..end);
        let filled = self.fill_rooms(of, (like, filling), sites, left);
        let taken = most - left.len();
        rooms.note_taken(taken);
        filled
    }

    /// Those of these sites, which are behind one in their module, that are in a batch behind it: up to
    /// the first that is not like it, or had a state, or is in another memory.
    fn alike(&self, states: &States, like: &Site, filling: &Filling<'_>, sites: Range<u32>) -> Range<u32> {
        let (module, first) = (&self.module, sites.start);
        let alike = first..first + module.alike(like.key().index, sites);
        let places = states.places_in(module).filter(|_| self.is_of_fresh());
        // protection: sites-with-states-are-in-no-batch
        let without = places.map_or(alike.len() as u32, |places| places.without(alike));
        let (in_memory, len) = (self.memory.range(), self.site_len as u64);
        // They ascend, and the one before them is there.
        // protection: batches-are-of-one-memory
        let mut end = first + without;
        while end > first && !in_memory.contains_bytes(module.site_addr(end - 1), len) {
            end -= 1;
        }
        match filling.site_kind {
            None => first..end,
            // protection: batches-are-of-one-kind
            Some(kind) => {
                let (mut templates, mut site) = (states.templates.borrow_mut(), like.clone());
                let mut is_of_kind = |index: &u32| {
                    site.go_to(*index);
                    templates.kinds.of(&site, None) == Some(kind)
                };
                let other = (first..end).find(|index| !is_of_kind(index));
                first..other.unwrap_or(end)
            }
        }
    }

    /// What these sites hold afterwards, side by side, and the numbers of their exit stubs: of all that a
    /// branch from there reaches, and none if there is no template.
    fn filled(
        &self,
        states: &States,
        filling: &Filling<'_>,
        sites: Range<u32>,
        mut numbers: Vec<u32>,
    ) -> Boxed<(Vec<u8>, Vec<u32>)> {
        let (templates, outline) = (states.templates.borrow(), filling.sequence.outline());
        let narrowed;
        let template = match templates.template((filling.kind, outline), &Cell::default()) {
            Some(template) if template.has_values() => {
                narrowed = template.with_values_of(&self.installed.bytes);
                Some(&narrowed)
            }
            template => template,
        };
        let Some((template, branch)) = template.and_then(|all| Some((all, all.lone_branch()?))) else {
            return Ok((Vec::new(), Vec::new()));
        };
        let len = self.site_len;
        assert_eq!(
            template.code().len(),
            len,
            "the checker has seen to it that a site keeps its length"
        );
        let mut new = template.code().repeat(numbers.len());
        let room = |number: &u32| self.block.room(*number).start();
        let ranges = || ranges(&self.module, sites.clone(), len).zip(&numbers);
        // As far as branches reach.
        let unfilled = ranges().zip(new.chunks_exact_mut(len));
        let fill_in = |((site, number), code)| branch.fill_in(site, room(number), code);
        let filled = unfilled.map_while(fill_in).count();
        let codes = ranges().zip(new.chunks_exact(len)).take(filled);
        let codes = codes.map(|((site, number), code)| (site, code, room(number)));
        if let Some(refused) = branch.first_refused(codes) {
            let site = self.module.handle(sites.start + refused as u32);
            return Err(filled_wrong(&site).into());
        }
        numbers.truncate(filled);
        new.truncate(filled * len);
        Ok((new, numbers))
    }

    /// Adds these sites, each with an exit stub in one of the rooms, as long as one can be made.
    fn fill_rooms(
        &mut self,
        (shared, states): (&Shared, &States),
        (like, filling): (&Site, &Filling<'_>),
        sites: Range<u32>,
        rooms: &mut TakenRooms,
    ) -> Boxed<()> {
        let numbers = rooms.next(sites.len()).collect();
        let (mut new, mut numbers) = self.filled(states, filling, sites.clone(), numbers)?;
        let Some(at) = numbers.first().map(|first| self.block.room(*first).start()) else {
            return Ok(());
        };
        let first = self.module.handle(sites.start);
        let (kind, end) = (self.exit_stub.0, first.range().end());
        let request = ExitRequest {
            site: &first,
            role: kind.role(),
            at,
            resumption: match kind {
                ExitStubKind::Miss => ExitResumption::At(end),
                // Sites of one form have displaced the same.
                ExitStubKind::Deopt | ExitStubKind::Invalidated => {
                    self.facts.resumption(end, || like.displaced())
                }
            },
        };
        let (made, result) = rooms.fill_many(numbers.len(), &request, &shared.stubs);
        numbers.truncate(made);
        new.truncate(made * self.site_len);
        (self.new, self.rooms) = (new, numbers);
        Ok(result?)
    }

    /// Whether its sites were never changed.
    fn is_of_fresh(&self) -> bool {
        matches!(self.old, OldBytes::Same(_))
    }

    /// How many sites.
    pub(super) fn len(&self) -> usize {
        self.rooms.len()
    }

    /// How many bytes each has.
    pub(super) fn site_len(&self) -> usize {
        self.site_len
    }

    /// Where the exit stubs are that were made for it: those that follow each other together.
    pub(super) fn exit_stubs(&self) -> impl Iterator<Item = CodeRange> {
        let runs = self.made().chunk_by(|one, next| *next == one + 1);
        let ends = runs.filter_map(|run| run.first().zip(run.last()));
        ends.map(|(first, last)| {
            let (first, last) = (self.block.room(*first), self.block.room(*last));
            let run = CodeRange::new(first.start(), last.end().distance_from(first.start()) as u64);
            run.expect("rooms that follow each other have bytes that do")
        })
    }

    /// Where the sites are.
    pub(super) fn sites(&self) -> impl Iterator<Item = CodeRange> {
        ranges(&self.module, self.numbers(), self.site_len)
    }

    #[inline]
    fn addrs(&self) -> impl Iterator<Item = CodeAddr> {
        self.module.site_addrs(self.numbers())
    }

    fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.rooms.len() as u32
    }

    /// What the site of that number among them holds before.
    #[inline]
    fn old_of(&self, number: usize) -> &[u8] {
        match &self.old {
            OldBytes::Same(old) => old,
            OldBytes::OfBatch(_, all) => of_number(all, number, self.site_len),
        }
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
        self.memory.begin_here()
    }

    /// The number of the first site that does not hold this side of it, and its address.
    #[inline(always)] // As `ChangeSet::compare`.
    pub(super) fn unlike(&self, side: Side) -> Option<(usize, CodeAddr)> {
        let unlike = match (side, &self.old) {
            (Side::Old, OldBytes::Same(old)) => {
                let mut addrs = self.addrs();
                addrs.position(|at| !self.memory.has_here(at, old))
            }
            (Side::Old, OldBytes::OfBatch(_, all)) => self.first_without(all),
            (Side::New, _) => self.first_without(&self.new),
        };
        unlike.map(|number| (number, self.addrs().nth(number).or_abort(HAS_ALL)))
    }

    /// The number of the first site that does not hold its own of these bytes.
    #[inline(always)] // As `unlike`.
    fn first_without(&self, all: &[u8]) -> Option<usize> {
        let mut each = self.addrs().zip(all.chunks_exact(self.site_len));
        each.position(|(at, own)| !self.memory.has_here(at, own))
    }

    /// Writes the new bytes of every site.
    #[inline(always)] // As `unlike`.
    pub(super) fn write(&self) -> memory::Result<()> {
        let mut each = self.addrs().zip(self.new.chunks_exact(self.site_len));
        each.try_for_each(|(at, new)| self.write_one(at, Side::New, new))
    }

    /// Writes the old bytes of every site that can be written: a refused write leaves bytes that the
    /// comparison afterwards finds.
    #[cold]
    pub(super) fn restore(&self) {
        for (number, at) in self.addrs().enumerate() {
            // protection: roll-back-of-a-batch-goes-on
            let _ = self.write_one(at, Side::Old, self.old_of(number));
        }
    }

    #[inline(always)] // As `unlike`.
    #[cfg_attr(
        not(all(test, target_arch = "x86_64")),
        expect(unused_variables, reason = "tests let writes of one side fail")
    )]
    fn write_one(&self, at: CodeAddr, side: Side, bytes: &[u8]) -> memory::Result<()> {
        #[cfg(all(test, target_arch = "x86_64"))]
        if failing::is_lost(&self.memory, at, (side, bytes))? {
            return Ok(());
        }
        self.memory.write_here(at, bytes)
    }

    /// What the site at that address holds.
    pub(super) fn read(&self, at: CodeAddr, into: &mut [u8]) -> memory::Result<()> {
        self.memory.read(at, into)
    }

    /// Notes that its sites were rolled back, and whether that was published.
    pub(super) fn note_rolled_back(&mut self, is_published: bool) {
        self.rolled_back = Some(is_published);
    }

    /// What the site of that number among them is after a failed commit, unless that is what it should be.
    fn fate(&self, number: usize, at: CodeAddr) -> Option<Fate> {
        let holds = |bytes| self.memory.holds(at, bytes) == Ok(true);
        match self.rolled_back? {
            true if holds(self.old_of(number)) => None,
            // protection: fates-are-looked-up (2)
            true if holds(self.new_of(number)) => Some(Fate::New),
            _ => Some(Fate::Unknown),
        }
    }

    /// What was committed, for the journal: of all but so many of the first.
    pub(super) fn records(&self, skip: usize) -> impl ExactSizeIterator<Item = Record<'_>> {
        let module = self.module.id();
        (skip..self.len()).map(move |number| {
            let index = self.first + number as u32;
            Record {
                generation: self.installed.generation,
                site: SiteKey { module, index },
                addr: self.module.site_addr(index),
                became: self.installed.status,
                before: self.old_of(number),
                after: self.new_of(number),
            }
        })
    }

    /// What the site of that number among them holds afterwards.
    fn new_of(&self, number: usize) -> &[u8] {
        of_number(&self.new, number, self.site_len)
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

    /// The number of a site among them.
    fn number(&self, site: SiteKey) -> usize {
        (site.index - self.first) as usize
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
    pub(super) fn into_changes(self, states: &mut States, mut take: impl FnMut(SiteChange, SiteWrite)) {
        for (number, at) in self.addrs().enumerate() {
            let site = self.module.handle(self.first + number as u32);
            // protection: sites-of-failed-batches-have-states
            let index = states.index_of(&site, || Ok(())).ok();
            let index = index.or_abort("a site of a batch is like one that has a state");
            let mut change = SiteChange::room();
            change.site = site.key();
            change.module = self.module_number;
            change.index = index;
            change.range = site.range();
            change.status = self.installed.status;
            change.installed = Held::Own(Box::new(self.installed_of(number)));
            change.used = self.used;
            if self.is_of_fresh() {
                change.exit_stubs.push(self.exit_stub_of(number));
            }
            change.until_run = self.until_run;
            change.fate = self.fate(number, at);
            let (old, new) = (self.old_of(number), self.new_of(number));
            take(change, SiteWrite::new(at, old, new));
        }
    }
}

/// The site of that number in the module of another.
fn at(site: &Site, index: u32) -> SiteKey {
    let SiteKey { module, .. } = site.key();
    SiteKey { module, index }
}

/// Those of the site of that number of bytes that lie side by side, so many of each.
#[inline]
fn of_number(all: &[u8], number: usize, len: usize) -> &[u8] {
    all.get(number * len..(number + 1) * len).or_abort(HAS_ALL)
}

/// The bytes of sites of these numbers, which have so many each.
#[inline]
fn ranges(module: &Module, sites: Range<u32>, len: usize) -> impl Iterator<Item = CodeRange> {
    let range = move |at| CodeRange::new(at, len as u64).expect("a site's bytes have addresses");
    module.site_addrs(sites).map(range)
}

const HAS_ALL: &str = "a batch has the bytes and the exit stub of each of its sites";

/// The batches that are committed.
#[derive(Default)]
pub(super) struct Batches {
    all: Vec<Option<SiteBatch>>,
    free: Vec<u32>,
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

    /// Keeps one in the place of another, in which all of its sites are.
    fn replace(&mut self, number: u32, batch: SiteBatch) {
        let place = self.all.get_mut(number as usize).and_then(Option::as_mut);
        let before = mem::replace(place.or_abort(IS_KEPT), batch);
        let now = self.get(number);
        let has_all = (before.left == now.left).then_some(());
        has_all.or_abort("a batch has all sites that are left of the one before");
    }

    /// Keeps one: its number.
    fn add(&mut self, batch: SiteBatch) -> u32 {
        if let Some(number) = self.free.pop() {
            let place = self.all.get_mut(number as usize);
            *place.or_abort("a place that became free is still there") = Some(batch);
            return number;
        }
        self.all.push(Some(batch));
        (self.all.len() - 1) as u32
    }

    /// A site leaves its batch: what is installed in it, and its exit stub.
    pub(super) fn take_out(&mut self, batch: u32, site: SiteKey) -> (Installed, ExitStub, SiteFacts) {
        let place = self.all.get_mut(batch as usize).or_abort(IS_KEPT);
        let of = place.as_mut().or_abort(IS_KEPT);
        let number = of.number(site);
        let (installed, exit_stub, facts) = (of.installed_of(number), of.exit_stub_of(number), of.facts);
        of.left -= 1;
        // protection: batches-go-with-their-last-site
        if of.left == 0 {
            *place = None;
            self.free.push(batch);
        }
        (installed, exit_stub, facts)
    }

    /// Whether the exit stub of a site of a batch contains an address.
    pub(super) fn has(&self, batch: u32, site: SiteKey, addr: CodeAddr) -> bool {
        let batch = self.get(batch);
        let number = batch.rooms.get(batch.number(site)).or_abort(HAS_ALL);
        batch.block.room(*number).contains(addr)
    }
}

impl States {
    /// Makes what was written of a batch the sites' states. Returns its number.
    pub(super) fn install_batch(&mut self, mut batch: SiteBatch) -> u32 {
        batch.left = batch.len();
        if let OldBytes::OfBatch(before, _) = batch.old {
            self.batches.replace(before, batch);
            return before;
        }
        let (module, sites) = (
            batch.module.clone(),
            batch.first..batch.first + batch.len() as u32,
        );
        let number = self.batches.add(batch);
        self.table.insert_batch(&module, sites, number);
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
