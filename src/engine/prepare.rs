//! From a change to bytes: assemble, place stubs and ramps, check. Everything that can be refused is refused
//! here; nothing that is executed is touched.

use std::mem;
use std::sync::Arc;
use std::time::SystemTime;

use super::exits::{ExitCode, ExitRequest, Resumption, Role};
use super::fault::{Fault, Outcome};
use super::journal::JournalEntry;
use super::live::{self, HeadExchange};
use super::retire::Retiree;
use super::state::{self, Landings, Ramp, RampKind, SiteState, States, Status, Stub};
use super::transaction::Change;
use super::write::{Plan, Writing};
use super::{Engine, Receipt, Shared};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::{OnReturn, SiteContext};
use crate::error::{Error, Fate, Result};
use crate::memory::{Strategy, StubSlot};
use crate::publish::{Level, Rest, Stopped};
use crate::sequence::{self, Assembled, Environment, Fit, Sequence, Target};
use crate::site::Site;
use crate::verify::{self, Chunk};

/// A change of one site, ready to be written.
pub(super) struct Item {
    pub(super) site: Site,
    pub(super) addr: CodeAddr,
    pub(super) status: Status,
    pub(super) old: Arc<[u8]>,
    pub(super) new: Arc<[u8]>,
    /// Bytes of code, the rest being nops.
    pub(super) used: Len,
    pub(super) stub: Option<Stub>,
    /// How it is written if its site is live.
    pub(super) live: Option<HeadExchange>,
    /// What the site is if a commit has failed and left it in doubt.
    pub(super) fate: Option<Fate>,
    landings: Landings,
    /// Whether the landings were promised to be gone.
    drained: bool,
    /// Whether the code may have run when this was prepared.
    may_have_run: bool,
    returns: Vec<u32>,
    sequence: Option<Arc<Sequence>>,
    pub(super) ramps: Vec<Ramp>,
    /// What the journal keeps, if it keeps anything: `old` and `new`.
    recorded: Option<[Arc<[u8]>; 2]>,
    /// The generation of the site for which this was prepared.
    generation: u64,
}

/// A transaction whose sequences are assembled, checked and, where they have stubs, in place but not yet
/// reachable. `{:#?}` shows each site with its slack and its disassembly before and after.
///
/// Dropping it changes nothing.
#[must_use = "a prepared transaction changes nothing until it is committed"]
pub struct Prepared<'e> {
    engine: &'e Engine,
    pub(super) items: Vec<Item>,
    plan: Plan,
    level: Level,
    /// Whether all sites are live, so that no thread has to be stopped.
    live: bool,
}

/// What a commit has left over. Freeing it takes longer than the commit, so that is left to the next preparation.
pub(super) struct Leftover {
    _items: Vec<Item>,
    _plan: Plan,
}

pub(super) fn prepare(engine: &Engine, changes: Vec<(Site, Change)>, drained: bool) -> Result<Prepared<'_>> {
    let mut states = engine.shared.states.lock();
    states.free_leftovers();
    states.make_room(changes.len());
    collect(engine, &mut states, changes, drained)
}

fn collect<'e>(
    engine: &'e Engine,
    states: &mut States,
    changes: Vec<(Site, Change)>,
    drained: bool,
) -> Result<Prepared<'e>> {
    // Items are collected where their drop gives stubs back if a later one is refused.
    let mut prepared = Prepared {
        engine,
        items: Vec::with_capacity(changes.len()),
        plan: Plan::default(),
        level: engine.shared.level,
        live: false,
    };
    for (site, change) in changes {
        engine.shared.check_registered(&site)?;
        let mut preparation = Preparation::new(&engine.shared, states, site, drained)?;
        let done = preparation.change(change);
        let (ramps, stub) = (preparation.ramps, preparation.stub);
        match done {
            Ok(Some(mut item)) => {
                (item.ramps, item.stub) = (ramps, stub);
                prepared.items.push(item);
            }
            Ok(None) => engine.shared.release(ramps, stub),
            Err(error) => {
                engine.shared.release(ramps, stub);
                return Err(error);
            }
        }
    }
    prepared.plan = Plan::of(&prepared.items)?;
    let invalidates = |item: &Item| item.status == Status::Invalidated;
    prepared.live = prepared.items.iter().all(|item| item.live.is_some());
    prepared.level = match prepared.live {
        true if prepared.items.iter().any(invalidates) => Level::Immediate,
        true => Level::Eventual,
        false => engine.shared.level,
    };
    Ok(prepared)
}

/// One site being prepared, with what has been allocated for it so far.
pub(super) struct Preparation<'a> {
    pub(super) shared: &'a Shared,
    pub(super) state: &'a SiteState,
    pub(super) site: Site,
    landings: Landings,
    drained: bool,
    may_have_run: bool,
    pub(super) ramps: Vec<Ramp>,
    pub(super) stub: Option<Stub>,
}

impl<'a> Preparation<'a> {
    pub(super) fn new(shared: &'a Shared, states: &'a mut States, site: Site, drained: bool) -> Result<Self> {
        let state = &*states.of(&site)?;
        let may_have_run = site.module().may_have_run();
        let landings = state.landings_in_force(may_have_run, drained);
        Ok(Self {
            shared,
            state,
            site,
            landings,
            drained,
            may_have_run,
            ramps: Vec::new(),
            stub: None,
        })
    }

    /// The item, or `None` where the site is already as asked for.
    fn change(&mut self, change: Change) -> Result<Option<Item>> {
        let status = self.state.status;
        match change {
            Change::Invalidate if status == Status::Invalidated => return Ok(None),
            Change::Restore if status == Status::Original => return Ok(None),
            _ => state::check_changeable(&self.site, status)?,
        }
        if self.site.module().is_live() {
            return live::change(self, &change).map(Some);
        }
        match change {
            Change::Patch(sequence) => self.patch(&sequence).map(Some),
            Change::Restore => self.restore().map(Some),
            Change::Invalidate => self.invalidate().map(Some),
        }
    }

    fn patch(&mut self, sequence: &Arc<Sequence>) -> Result<Item> {
        let assembled = self.assemble(sequence, None)?;
        Ok(self.item(Status::Patched, &assembled, Some(Arc::clone(sequence))))
    }

    fn invalidate(&mut self) -> Result<Item> {
        let ramp = self.invalidation_ramp()?;
        let assembled = self.assemble(&Sequence::new().jump(Target::Deopt), Some(ramp))?;
        Ok(self.item(Status::Invalidated, &assembled, self.state.sequence.clone()))
    }

    /// The original bytes go through no assembler; what must hold for them is that they keep the landings.
    fn restore(&mut self) -> Result<Item> {
        let returns = state::returns_of(&self.site, &self.state.displaced)?;
        state::check_keeps_landings(&self.site, &self.state.original, &returns, &self.landings)?;
        let used = self.site.reserved();
        let new = Arc::clone(&self.state.original);
        Ok(self.item_of(Status::Original, new, used, returns, None))
    }

    fn assemble(&mut self, sequence: &Sequence, deopt: Option<CodeAddr>) -> Result<Assembled> {
        let environment = self.environment(sequence, deopt)?;
        // Cloning the handle lets the stub be recorded while the context borrows the site.
        let (site, landings) = (self.site.clone(), self.landings.clone());
        let context = site.context(&landings);
        let assembled = match sequence::assemble(sequence, &context, &environment)? {
            Fit::InPlace(assembled) => assembled,
            Fit::OutOfLine { stub_len } => {
                let slot = self.shared.stubs.alloc(stub_len, site.range())?;
                let addr = slot.addr();
                self.stub = Some(Stub {
                    slot,
                    code: Vec::new(),
                    calls: true,
                });
                sequence::assemble_out_of_line(sequence, &context, &environment, addr)?
            }
        };
        self.check_and_fill(&context, assembled)
    }

    /// Checks site and stub together, then puts the stub in place.
    pub(super) fn check_and_fill(
        &mut self,
        context: &SiteContext<'_>,
        mut assembled: Assembled,
    ) -> Result<Assembled> {
        let chunk = assembled.stub.as_ref().map(|stub| Chunk {
            addr: stub.addr,
            bytes: &stub.bytes,
        });
        let checked = verify::check(context, &assembled.code, chunk.as_slice(), &assembled.declared)?;
        // Of what the bytes do, the checker is believed.
        assembled.landings = checked.landings;
        if let (Some(stub), Some(code)) = (&mut self.stub, assembled.stub.take()) {
            stub.calls = assembled
                .declared
                .targets
                .iter()
                .any(|t| t.on_return != OnReturn::Never);
            self.shared.stubs.fill(&stub.slot, &code.bytes)?;
            stub.code = code.bytes;
        }
        Ok(assembled)
    }

    pub(super) fn environment(
        &mut self,
        sequence: &Sequence,
        deopt: Option<CodeAddr>,
    ) -> Result<Environment> {
        let miss = match sequence.uses(Target::Miss) {
            true => Some(self.ramp(RampKind::Miss, Resumption::At(self.site.end()))?),
            false => None,
        };
        let deopt = match deopt {
            None if sequence.uses(Target::Deopt) => {
                Some(self.ramp(RampKind::Deopt, Resumption::Displaced(&self.state.displaced))?)
            }
            given => given,
        };
        Ok(Environment { miss, deopt })
    }

    /// The ramp of an invalidated site. A thread that resumes from it does what the site did before.
    pub(super) fn invalidation_ramp(&mut self) -> Result<CodeAddr> {
        let Some(sequence) = self.state.sequence.clone() else {
            return self.ramp(
                RampKind::Invalidated,
                Resumption::Displaced(&self.state.displaced),
            );
        };
        let addr = match &self.state.stub {
            Some(stub) => stub.slot.addr(),
            None => self.copy_out_of_line(&sequence)?,
        };
        self.ramp(RampKind::Invalidated, Resumption::At(addr))
    }

    /// The sequence that stands in the site, in a stub: also one that was to stand in place only, and did.
    pub(super) fn copy_out_of_line(&mut self, sequence: &Sequence) -> Result<CodeAddr> {
        let sequence = &sequence.anywhere();
        let environment = self.environment(sequence, None)?;
        let site = self.site.clone();
        let context = site.context(&[]);
        let len = sequence::stub_len(sequence, &context, &environment)?;
        let slot = self.shared.stubs.alloc(len, site.range())?;
        let addr = slot.addr();
        self.stub = Some(Stub {
            slot,
            code: Vec::new(),
            calls: true,
        });
        let assembled = sequence::assemble_out_of_line(sequence, &context, &environment, addr)?;
        self.check_and_fill(&context, assembled)?;
        Ok(addr)
    }

    /// The ramp of that kind, made if the site has none yet.
    fn ramp(&mut self, kind: RampKind, resumption: Resumption<'_>) -> Result<CodeAddr> {
        let made = self
            .ramps
            .iter()
            .find(|ramp| ramp.kind == kind)
            .map(|ramp| ramp.slot.addr());
        if let Some(addr) = made.or_else(|| self.state.ramp(kind)) {
            return Ok(addr);
        }
        let role = if kind == RampKind::Miss {
            Role::Miss
        } else {
            Role::Deopt
        };
        let exits = self.shared.exits.as_ref().filter(|exits| exits.handles(role));
        let exits = exits.ok_or_else(|| Error::NoHandler {
            site: self.site.name(),
            role: role.name(),
        })?;
        let slot = self
            .shared
            .stubs
            .alloc(exits.bound(&self.site, resumption)?, self.site.range())?;
        let at = slot.addr();
        let made = exits.encode(&ExitRequest {
            site: &self.site,
            role,
            at,
            resumption,
        });
        let made = made.and_then(|code| self.shared.stubs.fill(&slot, &code.bytes).map(|()| code));
        match made {
            Ok(ExitCode { keep, .. }) => {
                self.ramps.push(Ramp {
                    kind,
                    slot,
                    _keep: keep,
                });
                Ok(at)
            }
            Err(error) => {
                self.shared.stubs.discard(slot);
                Err(error)
            }
        }
    }

    pub(super) fn item(
        &mut self,
        status: Status,
        assembled: &Assembled,
        sequence: Option<Arc<Sequence>>,
    ) -> Item {
        let new = assembled.code.as_slice().into();
        self.item_of(status, new, assembled.used, assembled.landings.clone(), sequence)
    }

    pub(super) fn item_of(
        &mut self,
        status: Status,
        new: Arc<[u8]>,
        used: Len,
        returns: Vec<u32>,
        sequence: Option<Arc<Sequence>>,
    ) -> Item {
        let old = Arc::clone(&self.state.current);
        Item {
            addr: self.site.addr(),
            site: self.site.clone(),
            status,
            recorded: Some([Arc::clone(&old), Arc::clone(&new)]),
            old,
            new,
            used,
            stub: None,
            live: None,
            fate: None,
            landings: mem::take(&mut self.landings),
            drained: self.drained,
            may_have_run: self.may_have_run,
            returns,
            sequence,
            ramps: Vec::new(),
            generation: self.state.generation,
        }
    }
}

impl Prepared<'_> {
    /// Makes the commit wait for all threads. Where the world is stopped they wait for it already.
    pub(super) fn be_immediate(&mut self) {
        if self.live {
            self.level = Level::Immediate;
        }
    }

    /// Stops the world, compares what stands in the sites with what should, writes, publishes and reads back.
    ///
    /// # Errors
    /// [`Error::SiteChanged`] if a site was changed, or its code first run, meanwhile; [`Error::BytesChanged`] if something else wrote
    /// there; whatever the memory or the world refuses. No site has been changed then, unless the error is
    /// [`Error::RollBackFailed`].
    pub fn commit(mut self) -> Result<Receipt> {
        let shared = &self.engine.shared;
        let mut states = shared.states.lock();
        if self.items.is_empty() {
            return Ok(Receipt { sites: 0 });
        }
        shared.publisher.check(self.level)?;
        let written = self.note_traps(&states).and_then(|()| match self.live {
            true => self.write_live(&states),
            false => self.write_stopped(&states),
        });
        if let Err(Failed { fault, exposed }) = written {
            let error = fault.explain(&self.items, &self.plan.found);
            mark_lost(&mut states, &mut self.items);
            match exposed {
                true => live::retire(&mut self.items, &mut states),
                false => live::forget_traps(&self.items),
            }
            return Err(error);
        }
        let time = states.journal.now();
        for item in &mut self.items {
            item.install(shared, &mut states, time);
        }
        let sites = self.items.len();
        states.leave(Leftover {
            _items: mem::take(&mut self.items),
            _plan: mem::take(&mut self.plan),
        });
        Ok(Receipt { sites })
    }

    /// Notes the traps of the transaction, if it has any and is current: here, as noting may allocate.
    fn note_traps(&self, states: &States) -> core::result::Result<(), Failed> {
        if live::has_traps(&self.items) {
            self.check_current(states)?;
            live::note_traps(&self.items);
        }
        Ok(())
    }

    /// Exchanges the heads of a transaction that has only live sites, and publishes once.
    fn write_live(&mut self, states: &States) -> core::result::Result<(), Failed> {
        self.check_current(states)?;
        let (publisher, level) = (&self.engine.shared.publisher, self.level);
        live::exchange(publisher, &mut self.items, &mut self.plan.found)?;
        let published = publisher.publish(&self.plan.ranges, level).map_err(Fault::from);
        published
            .and_then(|()| live::read_back(&self.items, &mut self.plan.found))
            .map_err(|fault| live::undo(publisher, &mut self.items, &self.plan.ranges, fault, level))
    }

    /// Writes the quiescent sites while the world is stopped, and exchanges the heads of live ones among them.
    fn write_stopped(&mut self, states: &States) -> core::result::Result<(), Failed> {
        let shared = &self.engine.shared;
        let mut vacated = Vec::new();
        if shared.world.stops_anywhere() {
            self.items.iter().try_for_each(Item::check_memory)?;
            vacated = self.items.iter().flat_map(|item| item.vacated(states)).collect();
        }
        let mut written = Ok(());
        let stopped = shared.world.while_stopped(&vacated, &mut |stopped| {
            written = self.write_while(states, stopped);
        });
        stopped.map_err(|error| self.name_site(error))?;
        written
    }

    /// Says in which site a thread is, where the world said at which address.
    fn name_site(&self, error: Error) -> Error {
        let Error::ThreadInside {
            thread, at, returns, ..
        } = error
        else {
            return error;
        };
        match self.items.iter().find(|item| item.site.range().contains(at)) {
            Some(item) => Error::ThreadInSite {
                site: item.site.name(),
                thread,
                offset: Len::new(at.distance_from(item.site.addr()) as u32),
                returns,
            },
            None => error,
        }
    }

    /// What happens while the world is stopped. It neither allocates nor frees: see [`super::fault`].
    fn write_while(&mut self, states: &States, stopped: &Stopped) -> core::result::Result<(), Failed> {
        // Not before: only now does no thread start to run code that had not been run.
        self.check_current(states)?;
        let publisher = &self.engine.shared.publisher;
        live::exchange(publisher, &mut self.items, &mut self.plan.found)?;
        let written = Writing {
            plan: &mut self.plan,
            items: &mut self.items,
            stopped,
            publisher,
            level: self.level,
        }
        .run();
        written.map_err(|fault| live::undo(publisher, &mut self.items, &self.plan.ranges, fault, self.level))
    }

    fn check_current(&self, states: &States) -> Outcome {
        let stale = |item: &Item| {
            states
                .get(item.site.key())
                .is_none_or(|state| !item.is_for(state))
        };
        let Some(number) = self.items.iter().position(stale) else {
            return Ok(());
        };
        let state = self
            .items
            .get(number)
            .and_then(|item| states.get(item.site.key()));
        Err(match state.map(|state| state.status) {
            Some(Status::Lost) => Fault::Lost(number),
            _ => Fault::Stale(number),
        })
    }
}

/// A commit that has failed.
pub(super) struct Failed {
    pub(super) fault: Fault,
    /// Whether a head has led to what the items have made, so that threads may be there.
    pub(super) exposed: bool,
}

impl<T: Into<Fault>> From<T> for Failed {
    /// A failure before the first exchange.
    fn from(fault: T) -> Self {
        Self {
            fault: fault.into(),
            exposed: false,
        }
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        for item in self.items.drain(..) {
            self.engine.shared.release(item.ramps, item.stub);
        }
    }
}

impl Item {
    /// Whether the site is still as it was when this was prepared: not changed, and not run where landings would
    /// have had to be kept for that.
    fn is_for(&self, state: &SiteState) -> bool {
        let may_have_run = self.site.module().may_have_run();
        state.generation == self.generation
            && state.status != Status::Lost
            && (may_have_run == self.may_have_run
                || state.landings_in_force(may_have_run, self.drained) == self.landings)
    }

    pub(super) fn range(&self) -> CodeRange {
        CodeRange::new(self.addr, self.old.len() as u64).unwrap_or_default()
    }

    /// What has to be published for it: the site, or the head of a live one, and what has been written outside.
    pub(super) fn ranges(&self) -> impl Iterator<Item = CodeRange> + '_ {
        let site = self
            .live
            .as_ref()
            .map_or_else(|| self.range(), HeadExchange::range);
        std::iter::once(site).chain(self.outside())
    }

    /// What has been written for it outside of its site.
    pub(super) fn outside(&self) -> impl Iterator<Item = CodeRange> + '_ {
        let ramps = self.ramps.iter().map(|ramp| &ramp.slot);
        let slots = ramps.chain(self.stub.iter().map(|stub| &stub.slot));
        slots.map(StubSlot::range)
    }

    /// The bytes in which no thread may be, or return to, while they change. At the site's first byte a thread
    /// executes the new bytes from their start; the landings are kept by the new bytes. A stub that is given back
    /// at once must be left too.
    fn vacated(&self, states: &States) -> Vec<CodeRange> {
        let start = self.site.addr().get();
        let kept = self.landings.iter().map(|landing| start + u64::from(*landing));
        let holes = std::iter::once(start).chain(kept).map(|at| at + 1);
        let ends = self.landings.iter().map(|landing| start + u64::from(*landing));
        let ends = ends.chain(std::iter::once(self.site.end().get()));
        let parts = holes
            .zip(ends)
            .filter_map(|(from, to)| CodeRange::new(CodeAddr::new(from), to.checked_sub(from)?))
            .filter(|part| !part.is_empty());
        let stub = states
            .get(self.site.key())
            .and_then(|state| state.stub.as_ref())
            .filter(|stub| !stub.calls)
            .map(|stub| stub.slot.range());
        parts.chain(stub).collect()
    }

    /// Refuses memory whose writing allocates, as a stopped thread may be in the allocator.
    fn check_memory(&self) -> Result<()> {
        match self.site.memory()?.strategy() {
            strategy @ Strategy::Toggle => Err(Error::MemoryAllocates {
                site: self.site.name(),
                strategy: strategy.name(),
            }),
            _ => Ok(()),
        }
    }

    /// Takes the stub and the ramps out.
    pub(super) fn take_code(&mut self) -> impl Iterator<Item = Retiree> + '_ {
        let stub = self.stub.take().map(|stub| Retiree::stub(stub, None));
        let ramps = self.ramps.drain(..).map(Retiree::ramp);
        ramps.chain(stub)
    }

    /// Makes the item the site's state, and records it. What the site had takes its place in the item.
    fn install(&mut self, shared: &Shared, states: &mut States, time: SystemTime) {
        let Some(state) = states.sites.get_mut(&self.site.key()) else {
            // Found there before it was written, under the same lock.
            return;
        };
        state.status = self.status;
        state.generation += 1;
        mem::swap(&mut state.current, &mut self.new);
        mem::swap(&mut state.landings, &mut self.landings);
        mem::swap(&mut state.returns, &mut self.returns);
        mem::swap(&mut state.sequence, &mut self.sequence);
        state.ramps.append(&mut self.ramps);
        // A thread that resumes from an invalidated site goes on in the stub that it had.
        let keeps = self.status == Status::Invalidated && self.stub.is_none();
        if !keeps {
            mem::swap(&mut state.stub, &mut self.stub);
        }
        if let Some([before, after]) = self.recorded.take() {
            states.journal.record(JournalEntry {
                number: 0,
                generation: state.generation,
                site: self.site.key(),
                addr: self.addr,
                name: None,
                became: self.status,
                before,
                after,
                time,
            });
        }
        if let Some(old) = self.stub.take() {
            let calls = old.calls;
            let retiree = Retiree::stub(old, self.sequence.take());
            match (calls, self.live.is_some()) {
                (true, _) => states.retired.retire(Rest::Quiescent, retiree),
                (false, true) => states.retired.retire(Rest::Checkpoint, retiree),
                // The world was stopped outside of it, and nothing leads there any more.
                (false, false) => shared.stubs.discard(retiree.slot),
            }
        }
    }
}

/// Marks the sites that a failed roll-back has left in doubt. What their new bytes may lead to is kept, with them,
/// until their module goes.
fn mark_lost(states: &mut States, items: &mut [Item]) {
    for item in items.iter_mut().filter(|item| item.fate.is_some()) {
        if let Some(state) = states.sites.get_mut(&item.site.key()) {
            state.status = Status::Lost;
            state.generation += 1;
            state.ramps.append(&mut item.ramps);
            state.doubtful = item.stub.take();
        }
    }
}
