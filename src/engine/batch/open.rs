//! Batches that are being prepared, and which sites join them.
//!
//! Problem: sites that are alike may follow each other, or be in a thousand modules. Approach: a site
//! that is changed by itself opens a batch, which has no sites yet. Those that come later in the
//! transaction join it if the same is asked for and they are like it, with all that follow them in their
//! module and do so too.

use std::cell::Cell;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use smallvec::smallvec;

use super::{OldBytes, Part, SiteBatch, ranges};
use crate::addr::CodeRange;
use crate::engine::Shared;
use crate::engine::change::{ChangeSet, SiteChange, publish_too};
use crate::engine::exit_stub::{ExitStubCode, ExitStubKind};
use crate::engine::exits::{ExitRequest, ExitResumption, TakenRooms};
use crate::engine::installed::Installed;
use crate::engine::observe::Boxed;
use crate::engine::prepare::filled_wrong;
use crate::engine::requests::Request;
use crate::engine::state::States;
use crate::engine::state_table::StatePlace;
use crate::engine::templates::Template;
use crate::memory::{Alias, CodeMemory, short};
use crate::sequence::Sequence;
use crate::site::Site;

/// Which change of a site of a batch it is: none was changed before.
const FIRST: u64 = 1;

/// A batch is opened where so many sites are still to be changed: of fewer, a change for each takes less.
pub(in crate::engine) const FEWEST: usize = 4;

/// So many are looked at for each site: functions have sites of some forms.
const MOST: usize = 8;

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
    closed: Vec<SiteBatch>,
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

/// A site, with all that follow it in its module and get the same.
struct Joining<'a> {
    site: &'a Site,
    /// The number of its module among those of the transaction.
    module: u32,
    request: Request<&'a Sequence>,
    /// How many follow it.
    behind: u32,
}

impl Joining<'_> {
    fn sites(&self) -> Range<u32> {
        let first = self.site.key().index;
        first..first + self.behind + 1
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

    /// Adds a site to an open batch, and those that follow it and get the same. Returns how many were added.
    ///
    /// # Errors
    /// An exit stub cannot be made; the module of the site is not registered.
    #[inline(never)] // As `open_batch`.
    pub(in crate::engine) fn join_batch(
        &mut self,
        site: &Site,
        of: (&Shared, &States),
        request: Request<&Sequence>,
        behind: u32,
    ) -> Boxed<u32> {
        let joining = Joining {
            site,
            module: self.number_of_module(site),
            request,
            behind,
        };
        let of_stubs = &mut self.of_stubs;
        // protection: exit-stubs-of-batches-are-published
        self.open.join(of, &joining, |range| publish_too(of_stubs, range))
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
        let full = self.all.iter().position(|open| open.is_for(like.0, request));
        let turn = (self.all.len() == MOST).then_some(self.closed_ever % MOST);
        let Some(place) = full.or(turn).and_then(|at| self.all.get_mut(at)) else {
            self.all.push(open);
            return;
        };
        self.closed_ever += 1;
        let closed = mem::replace(place, open).batch;
        self.closed.extend(Some(closed).filter(|batch| batch.len() > 0));
    }

    /// Adds a site, and those that follow it, to one of them. Returns how many sites were added; `made` is
    /// told where the exit stubs are that were made for them.
    ///
    /// # Errors
    /// An exit stub cannot be made; the module of the site is not registered.
    fn join(
        &mut self,
        of: (&Shared, &States),
        joining: &Joining<'_>,
        made: impl FnMut(CodeRange),
    ) -> Boxed<u32> {
        let Some(open) = self
            .all
            .iter_mut()
            .find(|open| open.is_for(joining.site, joining.request))
        else {
            return Ok(0);
        };
        let (before, len) = (open.batch.made().len(), open.batch.len());
        open.add(of, joining)?;
        open.batch.exit_stubs(before).for_each(made);
        let now = open.batch.len();
        if len < FEWEST && now >= FEWEST {
            self.in_vain = 0;
        }
        Ok((now - len) as u32)
    }

    /// Whether there are none.
    #[inline]
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Those that sites have joined.
    pub(in crate::engine) fn take(&mut self) -> impl Iterator<Item = SiteBatch> {
        self.in_vain = 0;
        let all = self.all.drain(..).map(|open| open.batch);
        self.closed.drain(..).chain(all.filter(|batch| batch.len() > 0))
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
            parts: smallvec![],
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
            request: request.cloned(),
            template,
            site_kind: filling.site_kind,
            is_released: site.module().is_released(),
            over,
        })
    }

    /// Whether a site is like its, and gets the same.
    fn is_for(&self, site: &Site, request: Request<&Sequence>) -> bool {
        let module = site.module();
        self.request.is(request)
            && self.like.is_alike(site)
            && !module.is_live()
            // protection: batches-are-of-released-modules-or-of-others
            && module.is_released() == self.is_released
    }

    /// Adds a site that is like its, and those that follow it, as far as they are.
    fn add(&mut self, (shared, states): (&Shared, &States), joining: &Joining<'_>) -> Boxed<()> {
        let (site, sites) = (joining.site, joining.sites());
        let Some(memory) = site.memory().map_err(crate::Error::from)?.as_alias() else {
            return Ok(());
        };
        let places = states.places_in(site.module());
        match (places.and_then(|places| places.get(site.key())), &self.over) {
            (None, None) => {
                if places.is_none() {
                    // protection: sites-of-batches-are-registered
                    shared.check_registered(site)?;
                }
                self.add_fresh((shared, states), joining, memory, sites)
            }
            (Some(StatePlace::Batch(part)), Some(_)) if self.batch.len() == 0 => {
                self.add_over(states, joining, memory, part)
            }
            _ => Ok(()),
        }
    }

    /// Adds sites without a state, as long as there are rooms for their exit stubs.
    fn add_fresh(
        &mut self,
        (shared, states): (&Shared, &States),
        joining: &Joining<'_>,
        memory: &Alias,
        sites: Range<u32>,
    ) -> Boxed<()> {
        let mut rooms = states.exit_rooms.borrow_mut();
        let near = joining.site.range();
        let Some(taken) = rooms.of_block(&self.batch.block, near, &shared.stubs) else {
            return Ok(());
        };
        let most = taken.len();
        let end = sites.end.min(sites.start.saturating_add(most as u32));
        let sites = self.alike(states, joining.site, memory, sites.start..end);
        let added = self.fill_rooms(shared, (joining, memory), sites, taken);
        let used = most - taken.len();
        rooms.note_taken(used);
        added
    }

    /// Adds those of a batch that has one part, all that are left of it, which keep their exit stubs.
    fn add_over(&mut self, states: &States, joining: &Joining<'_>, memory: &Alias, part: u32) -> Boxed<()> {
        let ((before, own), Some(held)) = (states.batches.part(part), &self.over) else {
            return Ok(());
        };
        // protection: batches-are-over-sites-alike
        let is_alike = held.is_patched_like(&before.installed) && self.batch.exit_stub == before.exit_stub;
        let sites = joining.sites();
        let first = own.number_of(joining.site.key());
        let left = sites.start..sites.start + before.left as u32;
        let places = states.places_in(joining.site.module());
        // protection: batches-are-over-whole-batches
        let is_whole = left.end <= sites.end
            && before.parts.len() == 1
            && first + before.left == before.len()
            && places.is_some_and(|places| places.are_in(part, left.clone()));
        // They are alike: what is so of the first is so of all.
        if !is_alike
            || !is_whole
            || self
                .alike(states, joining.site, memory, left.start..left.start + 1)
                .is_empty()
        {
            return Ok(());
        }
        let old = before.new.get(first * before.site_len..).expect(super::HAS_ALL);
        let numbers = before.rooms.get(first..).expect(super::HAS_ALL).iter().copied();
        self.batch.block = Arc::clone(&before.block);
        match self.fill(joining.site, left.clone(), numbers)? == left.len() {
            true => {
                self.batch.old = OldBytes::OfPart(part, old.to_vec());
                self.push((joining, memory), left);
            }
            false => self.batch.truncate(0),
        }
        Ok(())
    }

    /// Those of these sites, of which the first is like its, that are in the batch: up to the first that
    /// is not, or had a state, or is in another memory.
    fn alike(&self, states: &States, site: &Site, memory: &Alias, sites: Range<u32>) -> Range<u32> {
        let (module, first) = (site.module(), sites.start);
        let alike = first..first + module.alike(first, sites);
        let places = states.places_in(module).filter(|_| self.over.is_none());
        // protection: sites-with-states-are-in-no-batch
        let without = places.map_or(alike.len() as u32, |places| places.without(alike));
        let (in_memory, len) = (memory.range(), self.batch.site_len as u64);
        // They ascend, and the first is there.
        // protection: batches-are-of-one-memory
        let mut end = first + without;
        while end > first && !in_memory.contains_bytes(module.site_addr(end - 1), len) {
            end -= 1;
        }
        match self.site_kind {
            None => first..end,
            // protection: batches-are-of-one-kind
            Some(kind) => {
                let (mut templates, mut site) = (states.templates.borrow_mut(), site.clone());
                let mut is_of_kind = |index: &u32| {
                    site.go_to(*index);
                    templates.kinds.of(&site, None) == Some(kind)
                };
                let other = (first..end).find(|index| !is_of_kind(index));
                first..other.unwrap_or(end)
            }
        }
    }

    /// Makes what these sites hold afterwards, each with the way to the exit stub of its number in the
    /// block: of all that a branch from there reaches. Returns how many these are.
    fn fill(&mut self, site: &Site, sites: Range<u32>, numbers: impl Iterator<Item = u32>) -> Boxed<usize> {
        let (module, batch, code) = (site.module(), &mut self.batch, self.template.code());
        let (len, before) = (batch.site_len, batch.rooms.len());
        let branch = self.template.lone_branch();
        let branch = branch.expect("a batch was opened as its template has one branch");
        batch.rooms.extend(numbers);
        let rooms = batch.rooms.get(before..).expect(super::HAS_ALL);
        append_copies(&mut batch.new, code, rooms.len());
        let new = batch.new.get_mut(before * len..).expect(super::HAS_ALL);
        let block = &*batch.block;
        let places =
            || ranges(module, sites.clone(), len).zip(rooms.iter().map(|number| block.room_at(*number)));
        let filled = branch.fill_in(new, places());
        let codes = new.get(..filled * len).expect(super::HAS_ALL);
        let refused = branch.first_refused(codes, places());
        batch.truncate(before + refused.map_or(filled, |_| 0));
        match refused {
            Some(refused) => {
                let site = module.handle(sites.start + refused as u32);
                Err(filled_wrong(&site).into())
            }
            None => Ok(filled),
        }
    }

    /// Adds these sites, each with an exit stub in one of the rooms, as long as one can be made.
    fn fill_rooms(
        &mut self,
        shared: &Shared,
        (joining, memory): (&Joining<'_>, &Alias),
        sites: Range<u32>,
        rooms: &mut TakenRooms,
    ) -> Boxed<()> {
        let (first, before) = (joining.site, self.batch.len());
        let filled = self.fill(first, sites.clone(), rooms.next(sites.len()))?;
        let Some(number) = self.batch.rooms.get(before) else {
            return Ok(());
        };
        let at = self.batch.block.room_at(*number);
        let (kind, end) = (self.batch.exit_stub.0, first.end());
        let request = ExitRequest {
            site: first,
            role: kind.role(),
            at,
            resumption: match kind {
                ExitStubKind::Miss => ExitResumption::At(end),
                // Sites that are alike have displaced the same.
                ExitStubKind::Deopt | ExitStubKind::Invalidated => {
                    self.batch.facts.resumption(end, || first.displaced())
                }
            },
        };
        let (made, result) = rooms.fill_many(filled, &request, &shared.stubs);
        self.batch.truncate(before + made);
        self.push((joining, memory), sites.start..sites.start + made as u32);
        Ok(result?)
    }

    /// Adds the sites that were filled last.
    fn push(&mut self, (joining, memory): (&Joining<'_>, &Alias), sites: Range<u32>) {
        if sites.is_empty() {
            return;
        }
        self.batch.parts.push(Part {
            module: joining.site.module().clone(),
            module_number: joining.module,
            memory: memory.clone(),
            before: self.batch.len() - sites.len(),
            sites,
            number: 0,
        });
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
