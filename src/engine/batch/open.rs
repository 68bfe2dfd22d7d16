//! Batches that are being prepared, and which sites join them.
//!
//! Problem: sites that are alike may follow each other, or be in a thousand modules. Approach: a site
//! that is changed by itself opens a batch, which has no sites yet. Those that come later in the
//! transaction join it if the same is asked for and they are like it, with all that follow them in their
//! module and do so too. When all have joined, their exit stubs and what they are to hold are made together:
//! until then, the rooms of these are promised.

use std::cell::Cell;
use std::iter;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::sites::BatchSites;
use super::{OldBytes, SiteBatch};
use crate::addr::{CodeAddr, CodeRange};
use crate::engine::Shared;
use crate::engine::change::{ChangeSet, SiteChange, publish_too};
use crate::engine::exit_stub::{ExitStubCode, ExitStubKind};
use crate::engine::exits::{ExitRequest, ExitResumption, TakenRooms};
use crate::engine::installed::Installed;
use crate::engine::observe::Boxed;
use crate::engine::prepare::filled_wrong;
use crate::engine::requests::Request;
use crate::engine::state::States;
use crate::engine::state_table::{Places, StatePlace};
use crate::engine::templates::Template;
use crate::memory::{Alias, CodeMemory, short};
use crate::sequence::Sequence;
use crate::site::{FormNumber, Module, Site};

/// Which change of a site of a batch it is: none was changed before.
const FIRST: u64 = 1;

/// A batch is opened where so many sites are still to be changed: of fewer, a change for each takes less.
pub(in crate::engine) const FEWEST: usize = 4;

/// So many are looked at for each site: functions have sites of some forms.
const MOST: usize = 8;

/// So many sites are filled at a time: what is written of them is in the nearest cache when it is checked.
const AT_ONCE: usize = 256;

/// Once as many were opened in vain, one is opened for each so many sites: to open one is a quarter of a change.
const SELDOM: usize = 64;

/// What the sites of a batch are filled with, each with the way to its own exit stub.
pub(in crate::engine) struct Filling<'s> {
    pub(in crate::engine) sequence: &'s Sequence,
    /// The kind of sites for which it has a template.
    pub(in crate::engine) kind: u32,
    /// The kind of which each site has to be; `None` where that is for all sites of as many bytes.
    pub(in crate::engine) site_kind: Option<u32>,
}

/// Those of a transaction.
#[derive(Default)]
pub(in crate::engine) struct OpenBatches {
    /// Those that are looked at, no two of which a site could join.
    all: Vec<OpenBatch>,
    /// Those that sites have joined, and none does any more.
    closed: Vec<OpenBatch>,
    /// How often one was closed: which place the next one gets.
    closed_ever: usize,
    /// How many were opened since enough sites have joined one: where sites differ, few are.
    in_vain: usize,
}

/// A batch that sites may join.
struct OpenBatch {
    batch: SiteBatch,
    /// The site that was changed by itself, which all are like.
    like: Site,
    /// The number of its form, if it has one.
    form: Option<FormNumber>,
    /// What is asked for.
    request: Request,
    /// What is filled with the ways to exit stubs.
    template: Template,
    site_kind: Option<u32>,
    /// Whether its module is released, on which return offsets depend.
    is_released: bool,
    /// What that site had, where the others are to be those of a batch that has it, too.
    over: Option<Installed>,
}

/// What holds of all sites of a module that get the same.
struct Joining<'a> {
    module: &'a Module,
    memory: &'a Alias,
    /// Where those of its sites are that were changed.
    places: Option<&'a Places>,
}

/// Sites that have joined a batch and cannot be in it: each is changed by itself.
pub(in crate::engine) struct LeftOut {
    sites: Vec<(Module, Range<u32>)>,
    request: Request,
}

impl LeftOut {
    /// The sites, of modules.
    pub(in crate::engine) fn runs(&self) -> impl Iterator<Item = (&Module, Range<u32>)> {
        self.sites.iter().map(|(module, sites)| (module, sites.clone()))
    }

    /// What is asked for.
    pub(in crate::engine) fn request(&self) -> Request<&Sequence> {
        self.request.by_ref()
    }
}

impl ChangeSet {
    /// Opens a batch of sites like this one, whose change was added last.
    #[inline(never)] // Few transactions have batches.
    pub(in crate::engine) fn open_batch(
        &mut self,
        site: &Site,
        states: &States,
        filled: (Request<&Sequence>, &Filling<'_>),
    ) {
        let like = self.changes.last().expect("one has just been added");
        self.open.open((site, like), states, filled);
    }

    /// Adds a site to an open batch, and those that follow it in its module and get the same, each to the batch
    /// that it is like. Returns how many were added, up to the first for which there is none.
    ///
    /// # Errors
    /// The module of the site is not registered.
    #[inline(never)] // As `open_batch`.
    pub(in crate::engine) fn join_batch(
        &mut self,
        site: (&Module, u32),
        of: (&Shared, &States),
        request: Request<&Sequence>,
        behind: u32,
    ) -> Boxed<u32> {
        self.open.join(of, site, request, behind)
    }

    /// Makes the exit stubs of all that have joined batches, and what they are to hold. Returns those for which
    /// that cannot be.
    ///
    /// # Errors
    /// An exit stub cannot be made at all.
    #[inline(never)] // As `open_batch`.
    pub(in crate::engine) fn fill_batches(
        &mut self,
        shared: &Shared,
        states: &States,
    ) -> Boxed<Vec<LeftOut>> {
        let (mut left_out, OpenBatches { closed, all, .. }) = (Vec::new(), &mut self.open);
        for open in closed.iter_mut().chain(all) {
            let sites = open.fill_joined(shared, states)?;
            if !sites.is_empty() {
                let request = open.request.clone();
                left_out.push(LeftOut { sites, request });
            }
            if shared.publisher.takes_ranges() {
                // protection: exit-stubs-of-batches-are-published
                let exit_stubs = open.batch.exit_stubs();
                exit_stubs.for_each(|range| publish_too(&mut self.of_stubs, range));
            }
        }
        Ok(left_out)
    }
}

impl OpenBatches {
    /// Whether it is worth it to open one where so many sites are still to come.
    #[inline]
    pub(in crate::engine) fn may_open(&self, left: usize) -> bool {
        left >= FEWEST && (self.in_vain < MOST || left % SELDOM == 0)
    }

    /// Opens one of sites that are like this one, of which a change has just been prepared. None is opened
    /// where what fills them has no template yet, or each needs more.
    fn open(
        &mut self,
        like: (&Site, &SiteChange),
        states: &States,
        (request, filling): (Request<&Sequence>, &Filling<'_>),
    ) {
        let Some(open) = OpenBatch::like(like, states, request, filling) else {
            return;
        };
        self.in_vain += 1;
        // One that the site could have joined has no rooms left.
        let full = self.number_for((like.0.module(), like.0.index()), request);
        let turn = (self.all.len() == MOST).then_some(self.closed_ever % MOST);
        let Some(place) = full.or(turn).and_then(|at| self.all.get_mut(at)) else {
            self.all.push(open);
            return;
        };
        self.closed_ever += 1;
        let closed = mem::replace(place, open);
        self.closed
            .extend(Some(closed).filter(|closed| closed.batch.joined() > 0));
    }

    /// Adds a site, and those that follow it, to some of them: see [`ChangeSet::join_batch`].
    fn join(
        &mut self,
        (shared, states): (&Shared, &States),
        (module, first): (&Module, u32),
        request: Request<&Sequence>,
        behind: u32,
    ) -> Boxed<u32> {
        let Some(mut number) = self.number_for((module, first), request) else {
            return Ok(0);
        };
        let memory = module.memory_of(first).map_err(crate::Error::from)?.as_alias();
        let Some(memory) = memory.filter(|_| !module.is_live()) else {
            return Ok(0);
        };
        let places = states.places_in(module);
        if places.is_none() {
            // protection: sites-of-batches-are-registered
            shared.check_registered_with(states, (module, first))?;
        }
        let joining = Joining {
            module,
            memory,
            places,
        };
        let mut left = first..first + behind + 1;
        loop {
            let open = self
                .all
                .get_mut(number)
                .expect("a site is like one of those that are open");
            let before = open.batch.joined();
            open.add((shared, states), &joining, left.clone())?;
            let now = open.batch.joined();
            if before < FEWEST && now >= FEWEST {
                self.in_vain = 0;
            }
            left.start += (now - before) as u32;
            if now == before || left.is_empty() {
                break;
            }
            match self.number_for((module, left.start), request) {
                Some(next) => number = next,
                None => break,
            }
        }
        Ok(left.start - first)
    }

    /// The number of the one that a site may join.
    fn number_for(&self, (module, index): (&Module, u32), request: Request<&Sequence>) -> Option<usize> {
        let is_released = module.is_released();
        let mut asked = self
            .all
            .iter()
            .enumerate()
            .filter(|(_, open)| open.is_for(request, is_released));
        let first = asked.next()?;
        let mut all = iter::once(first).chain(asked);
        // Those of the same number first: to compare what sites held takes as long as all else of one that joins.
        let form = module.form_number_of(index);
        let numbered = all.clone().find(|(_, open)| form.is_some() && open.form == form);
        let found = numbered.or_else(|| all.find(|(_, open)| open.like.is_alike((module, index))));
        found.map(|(number, _)| number)
    }

    /// Whether there are none.
    #[inline]
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Those that have sites which are filled.
    pub(in crate::engine) fn take(&mut self) -> impl Iterator<Item = SiteBatch> {
        self.in_vain = 0;
        let all = self.closed.drain(..).chain(self.all.drain(..));
        all.map(|open| open.batch).filter(|batch| batch.len() > 0)
    }
}

impl OpenBatch {
    /// One without sites, like a site that is prepared so.
    fn like(
        (site, change): (&Site, &SiteChange),
        states: &States,
        request: Request<&Sequence>,
        filling: &Filling<'_>,
    ) -> Option<Self> {
        let (state, new) = (states.at(change.index)?, change.to_install());
        let held = state.installed;
        let (exit_stub, old, over) = match (&*change.exit_stubs, &*state.lasting.exit_stubs) {
            // protection: batches-are-of-sites-alike
            ([made], []) if made.generation == FIRST => (made, OldBytes::Same(short::of(&held.bytes)), None),
            // Which part that is says the first site that joins.
            ([], [kept]) if held.stub.is_none() => {
                let old = OldBytes::OfPart(0, Vec::new());
                (kept, old, Some(held.of_like(&[])))
            }
            _ => return None,
        };
        let ExitStubCode::InRoom(room) = &exit_stub.code else {
            return None;
        };
        let facts = state.lasting.facts;
        // What was told of return offsets is of single sites.
        // protection: batches-are-of-sites-alike (2)
        if change.exchange.is_some() || facts.is_call || site.is_told() || new.stub.is_some() {
            return None;
        }
        let (templates, outline) = (states.templates.borrow(), filling.sequence.outline());
        let template = templates.template((filling.kind, outline), &Cell::default())?;
        let template = template.with_values_of(&new.bytes);
        template.lone_branch()?;
        assert_eq!(
            template.code().len(),
            new.bytes.len(),
            "the checker has seen to it that a site keeps its length"
        );
        let batch = SiteBatch {
            sites: BatchSites::default(),
            site_len: new.bytes.len(),
            old,
            new: Vec::new(),
            used: change.used,
            installed: new.of_like(&[]),
            facts,
            exit_stub: (exit_stub.kind, exit_stub.generation),
            block: Arc::clone(&*room.block),
            rooms: Vec::new(),
            until_run: change.until_run,
            left: 0,
            rolled_back: None,
        };
        Some(Self {
            batch,
            like: site.clone(),
            form: site.module().form_number_of(site.index()),
            request: request.cloned(),
            template,
            site_kind: filling.site_kind,
            is_released: site.module().is_released(),
            over,
        })
    }

    /// Whether the same is asked for, of a module that is released as its is.
    #[inline]
    fn is_for(&self, request: Request<&Sequence>, is_released: bool) -> bool {
        // protection: batches-are-of-released-modules-or-of-others
        self.request.is(request) && is_released == self.is_released
    }

    /// Adds the first of these sites, which is like its, and those that follow it, as far as they are.
    fn add(&mut self, of: (&Shared, &States), joining: &Joining<'_>, sites: Range<u32>) -> Boxed<()> {
        let place = joining.places.and_then(|places| places.get(sites.start));
        match (place, &self.over) {
            (None, None) => self.add_fresh(of, joining, sites),
            (Some(StatePlace::Batch(part)), Some(_)) if self.batch.joined() == 0 => {
                self.add_over(of.1, joining, sites, part)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds sites without a state, as long as there are rooms for their exit stubs, which are promised.
    fn add_fresh(&mut self, (shared, states): (&Shared, &States), joining: &Joining<'_>, sites: Range<u32>) {
        let near = CodeRange::new(joining.module.site_addr(sites.start), self.batch.site_len as u64);
        let near = near.expect("a site's bytes have addresses");
        let mut rooms = states.exit_rooms.borrow_mut();
        let Some(taken) = rooms.promisable(&self.batch.block, near, &shared.stubs) else {
            return;
        };
        let most = taken.unpromised() as u32;
        let end = sites.end.min(sites.start.saturating_add(most));
        let sites = self.alike(states, joining, sites.start..end);
        taken.promise(sites.len());
        rooms.note_need(self.batch.block.form(), sites.len());
        self.join(joining, sites);
    }

    /// Adds those of a batch that has one part, all that are left of it, which keep their exit stubs.
    fn add_over(
        &mut self,
        states: &States,
        joining: &Joining<'_>,
        sites: Range<u32>,
        part: u32,
    ) -> Boxed<()> {
        let ((before, own), Some(held)) = (states.batches.part(part), &self.over) else {
            return Ok(());
        };
        // protection: batches-are-over-sites-alike
        let is_alike = held.is_patched_like(&before.installed) && self.batch.exit_stub == before.exit_stub;
        let first = own.number_of(sites.start);
        let left = sites.start..sites.start + before.left as u32;
        let places = joining.places;
        let are_in_it = places.is_some_and(|places| places.are_in(part, left.clone()));
        // protection: batches-are-over-whole-batches
        let is_whole = left.end <= sites.end
            && before.sites.parts().len() == 1
            && first + before.left == before.len()
            && are_in_it;
        // They are alike: what is so of the first is so of all.
        if !is_alike || !is_whole || self.alike(states, joining, left.start..left.start + 1).is_empty() {
            return Ok(());
        }
        let old = before.new.get(first * before.site_len..).expect(super::HAS_ALL);
        let numbers = before.rooms.get(first..).expect(super::HAS_ALL).iter().copied();
        self.batch.block = Arc::clone(&before.block);
        let len = left.len();
        self.join(joining, left);
        match self.fill(numbers)? == len {
            true => self.batch.old = OldBytes::OfPart(part, old.to_vec()),
            false => {
                self.batch.truncate(0);
                self.batch.sites.clear();
            }
        }
        Ok(())
    }

    /// Those of these sites, of which the first is like its, that are in the batch: up to the first that
    /// is not, or had a state, or is in another memory.
    fn alike(&self, states: &States, joining: &Joining<'_>, sites: Range<u32>) -> Range<u32> {
        let (module, first) = (joining.module, sites.start);
        let alike = first..first + module.alike(first, sites);
        let places = joining.places.filter(|_| self.over.is_none());
        // protection: sites-with-states-are-in-no-batch
        let without = places.map_or(alike.len() as u32, |places| places.without(alike));
        let (in_memory, len) = (joining.memory.range(), self.batch.site_len as u64);
        // They ascend from a site that is there: if one is, so are those before it.
        // protection: batches-are-of-one-memory
        let mut end = first + without;
        while end > first && !in_memory.contains_bytes(module.site_addr(end - 1), len) {
            end -= 1;
        }
        match self.site_kind {
            None => first..end,
            // protection: batches-are-of-one-kind
            Some(kind) => {
                let (mut templates, mut site) = (states.templates.borrow_mut(), module.handle(first));
                let mut is_of_kind = |index: &u32| {
                    site.go_to(*index);
                    templates.kinds.of(&site, None) == Some(kind)
                };
                let other = (first..end).find(|index| !is_of_kind(index));
                first..other.unwrap_or(end)
            }
        }
    }

    /// Makes the exit stubs of all that have joined, and what they are to hold. Returns those for which that cannot
    /// be: their exit stubs cannot be in the block, or a branch from there does not reach them.
    fn fill_joined(&mut self, shared: &Shared, states: &States) -> Boxed<Vec<(Module, Range<u32>)>> {
        let (mut left_out, mut rooms) = (Vec::new(), states.exit_rooms.borrow_mut());
        while self.batch.len() < self.batch.joined() {
            let promised = rooms.promised(&self.batch.block);
            let promised = promised.expect("there is a room for each site that has joined");
            if self.fill_rooms(shared, promised)? {
                continue;
            }
            let next = self.batch.len();
            left_out.push(self.batch.sites.take_out(next));
            // Those behind are all filled again, each time.
            // protection: sites-that-cannot-be-filled-are-few
            if left_out.len() == MOST {
                left_out.append(&mut self.batch.sites.split_off(next));
            }
        }
        Ok(left_out)
    }

    /// Fills as many of those that are not filled yet as rooms are promised, up to the first for which that cannot
    /// be. Returns whether there is none.
    fn fill_rooms(&mut self, shared: &Shared, rooms: &mut TakenRooms) -> Boxed<bool> {
        let before = self.batch.len();
        let count = rooms.promised().min(self.batch.joined() - before);
        let filled = self.fill(rooms.next(count))?;
        let batch = &mut self.batch;
        let sites = batch.alike(before..before + filled);
        let (Some(first), Some(number)) = (sites.iter().next(), batch.rooms.get(before)) else {
            return Ok(false);
        };
        let (kind, end) = (batch.exit_stub.0, first.end());
        let request = ExitRequest {
            site: &first,
            role: kind.role(),
            at: batch.block.room_at(*number),
            resumption: match kind {
                ExitStubKind::Miss => ExitResumption::At(end),
                // Sites that are alike have displaced the same.
                ExitStubKind::Deopt | ExitStubKind::Invalidated => {
                    batch.facts.resumption(end, || first.displaced())
                }
            },
        };
        let (made, result) = rooms.fill_promised(&request, &sites, &shared.stubs);
        batch.truncate(before + made);
        result?;
        Ok(made == count)
    }

    /// Makes the code of as many of those that are not filled yet, each with a branch to the exit stub of its number
    /// in the block, up to the first that the branch does not reach. Returns how many these are.
    fn fill(&mut self, numbers: impl Iterator<Item = u32>) -> Boxed<usize> {
        let (batch, code) = (&mut self.batch, self.template.code());
        let (len, before) = (batch.site_len, batch.rooms.len());
        let branch = self.template.lone_branch();
        let branch = branch.expect("a batch was opened as its template has one branch");
        batch.rooms.extend(numbers);
        let end = batch.rooms.len();
        append_copies(&mut batch.new, code, end - before);
        let mut filled = before;
        while filled < end {
            let now = filled..end.min(filled + AT_ONCE);
            let (new, places) = batch.new_of_all(now.clone());
            let made = branch.fill_in(new, places.clone());
            let made_of_new = new.get(..made * len).expect(super::HAS_ALL);
            if let Some(refused) = branch.first_refused(made_of_new, places) {
                batch.truncate(before);
                let site = batch.alike(filled + refused..end).iter().next();
                return Err(filled_wrong(&site.expect("what is refused is of a site")).into());
            }
            filled += made;
            if filled < now.end {
                break;
            }
        }
        batch.truncate(filled);
        Ok(filled - before)
    }

    /// Adds sites that are like its.
    fn join(&mut self, joining: &Joining<'_>, sites: Range<u32>) {
        if !sites.is_empty() {
            let of = (joining.module, joining.memory);
            self.batch.sites.join(of, sites);
        }
    }
}

impl SiteBatch {
    /// What the sites with these numbers are to hold, with each one's bytes and exit stub.
    #[inline]
    fn new_of_all(
        &mut self,
        numbers: Range<usize>,
    ) -> (
        &mut [u8],
        impl Iterator<Item = (CodeRange, CodeAddr)> + Clone + '_,
    ) {
        let (len, block) = (self.site_len, &self.block);
        let new = self.new.get_mut(numbers.start * len..numbers.end * len);
        let addrs = self.sites.addrs().get(numbers.clone()).expect(super::HAS_ALL);
        let rooms = self.rooms.get(numbers).expect(super::HAS_ALL);
        let range =
            move |at: &CodeAddr| CodeRange::new(*at, len as u64).expect("a site's bytes have addresses");
        let exits = rooms.iter().map(|number| block.room_at(*number));
        (new.expect(super::HAS_ALL), addrs.iter().map(range).zip(exits))
    }
}

/// Appends as many copies of these bytes, of what was appended twice as much each time: to append them one by
/// one is a twentieth of a batch.
fn append_copies(all: &mut Vec<u8>, one: &[u8], count: usize) {
    let (first, end) = (all.len(), all.len() + one.len() * count);
    all.reserve(end - first);
    all.extend_from_slice(one);
    while all.len() < end {
        let more = (all.len() - first).min(end - all.len());
        all.extend_from_within(first..first + more);
    }
    all.truncate(end);
}
