//! Committing what was prepared.
//!
//! One pass over the changes for each step: whether the sites are still as they were, the writes
//! (see `write` for quiescent sites and `live` for the others), the states. Nothing is derived here
//! that could be when it was prepared; see `change`.

use std::mem::{self, ManuallyDrop};
use std::time::Instant;

use super::change::{ChangeSet, OldStub, SiteChange};
use super::fault::{self, Fault, Noted, Outcome};
use super::installed::ReturnOffsets;
use super::live::{self, JumpExchange};
use super::observe::{self, Boxed, CodeOwner, FreedCode};
use super::retire::{RetiredCode, Until};
use super::state::{States, Status};
use super::{Engine, Receipt, Shared};
use crate::addr::{CodeRange, Len};
use crate::invariant::OrAbort;
use crate::memory::fork::gate::{self, Writing};
use crate::memory::{StubPool, StubSlot};
use crate::publish::{self, Level, Moment, Stopped, Vacated};
use crate::site::Site;
use crate::{Error, Result};

/// A transaction whose sequences are assembled, checked and, where they have stubs, in place but
/// not yet reachable. Displayed, it shows each site with its slack and its disassembly before and
/// after.
///
/// Dropping it changes nothing.
#[must_use = "a prepared transaction changes nothing until it is committed"]
pub struct Prepared<'e> {
    engine: &'e Engine,
    /// There is one until it has been committed.
    set: Option<Box<ChangeSet>>,
}

impl<'e> Prepared<'e> {
    pub(super) fn new(engine: &'e Engine, set: Box<ChangeSet>) -> Self {
        let set = Some(set);
        Self { engine, set }
    }

    pub(super) fn set(&self) -> Option<&ChangeSet> {
        self.set.as_deref()
    }

    /// Where the stubs are that were made for it.
    pub(super) fn stubs(&self) -> &StubPool {
        &self.engine.shared.stubs
    }

    /// Sites of an ID that will be left as they are, as they have been invalidated.
    #[must_use]
    pub fn invalidated(&self) -> &[Site] {
        self.set().map_or(&[], |set| &set.invalidated)
    }

    /// Makes the commit wait for all threads. Where the world is stopped they wait for it already.
    pub(super) fn be_immediate(&mut self) {
        if let Some(set) = self.set.as_deref_mut().filter(|set| set.is_live()) {
            set.level = Level::Immediate;
        }
    }

    /// Stops the world, compares what the sites hold with what they should, writes, publishes and
    /// reads back.
    ///
    /// # Errors
    /// [`Error::SiteChanged`] if a site was changed, or its module released, meanwhile; [`Error::BytesChanged`] if something else wrote
    /// there; whatever the memory or the world refuses. No site has been changed then, unless the error is
    /// [`Error::RollBackFailed`].
    pub fn commit(self) -> Result<Receipt> {
        let engine = self.engine;
        engine.shared.with_states(|states| self.commit_with(states))
    }

    /// The same for whoever has the engine's lock.
    pub(super) fn commit_with(self, states: &mut States) -> Boxed<Receipt> {
        let shared = &self.engine.shared;
        // What is left has nothing to be dropped, which is then not asked behind the serialization.
        let Some(mut set) = ManuallyDrop::new(self).set.take() else {
            return Ok(Receipt::default());
        };
        let receipt = Receipt {
            sites: set.len(),
            invalidated: set.invalidated.len(),
        };
        if set.changes.is_empty() {
            return Ok(receipt);
        }
        let since = shared.observers.now();
        // protection: barrier-is-checked-before-writing
        let needed = if set.rewrites { Level::Immediate } else { set.level };
        let checked = shared.publisher.check(needed);
        if let Err(error) = checked {
            return Err(set.refuse(shared, states, error.into(), since));
        }
        if since.is_some() {
            // protection: code-is-told-before-it-is-reached
            shared.tell_made(&set);
        }
        // From here on threads may go to its stubs. If the world or a memory panics, nobody knows
        // which of the sites branch there: everything stays, for good.
        let mut set = ManuallyDrop::new(set);
        // protection: panics-free-nothing-in-use
        if set.apply(shared, states).is_err() {
            return Err(ChangeSet::fail(set, shared, states, since));
        }
        if set.rewrites {
            live::note_opened(&shared.publisher, set.live());
        }
        ManuallyDrop::into_inner(set).record(shared, states, since);
        Ok(receipt)
    }
}

impl Drop for Prepared<'_> {
    /// What is there was never committed: nothing branches to it, and nobody was told of it.
    fn drop(&mut self) {
        if let Some(set) = &mut self.set {
            // protection: stubs-of-dropped-transactions-are-freed
            set.release(&self.engine.shared);
        }
    }
}

impl ChangeSet {
    /// Makes what was written the state of the sites, tells of it, and leaves it for the
    /// [journal](super::journal).
    #[inline]
    fn record(self: Box<Self>, shared: &Shared, states: &mut States, since: Option<Instant>) {
        let mut set = self;
        // protection: observers-are-told-of-what-is-final
        set.install(states);
        let replaced = set.has_code.then(|| set.place_code(shared, states));
        states.leave(set);
        if let Some(replaced) = replaced {
            shared.free_code(replaced);
        }
        if let Some(since) = since {
            observe::committed(shared, states, since);
        }
    }

    /// Refuses what was prepared, before anything was written.
    #[cold]
    fn refuse(
        &mut self,
        shared: &Shared,
        states: &mut States,
        error: Error,
        since: Option<Instant>,
    ) -> Box<Error> {
        self.release(shared);
        shared.refused(states, error, since).into()
    }

    /// Frees what was allocated for changes that were not made.
    pub(super) fn release(&mut self, shared: &Shared) {
        for change in &mut self.changes {
            shared.release(mem::take(&mut change.exit_stubs), change.take_stub());
        }
        // protection: stubs-of-refused-batches-are-freed
        for batch in self.open.take().chain(self.batches.drain(..)) {
            batch.release(shared);
        }
    }

    /// What was allocated for changes that were not made, and is kept by nobody.
    #[cold]
    fn take_made(&mut self) -> FreedCode {
        let mut made = FreedCode::new();
        for change in &mut self.changes {
            let stub = change.take_stub().map(|stub| (stub.owner, stub.slot));
            let exit_stubs = change.exit_stubs.drain(..);
            let exit_stubs =
                exit_stubs.map(|exit_stub| (exit_stub.owner(change.site), exit_stub.into_slot()));
            made.extend(exit_stubs.chain(stub));
        }
        made
    }

    /// Compares the sites, writes them, publishes and reads back: all of them, or none. Where all
    /// are live, or there are no other threads, no thread is stopped.
    #[inline]
    fn apply(&mut self, shared: &Shared, states: &States) -> Outcome {
        let stopped = match self.is_live() {
            true => None,
            false => match shared.world.already_stopped() {
                None => return self.apply_stopping(shared, states),
                stopped => stopped,
            },
        };
        // Until all is written, no fork is under way, and none begins.
        let _writing = match self.notes_traps {
            true => self.note_traps(shared, states)?,
            false => states.seat.enter(),
        };
        match stopped {
            None => self.apply_live(shared, states),
            Some(stopped) => self.apply_while(shared, states, stopped),
        }
    }

    /// The same where threads have to be stopped.
    #[inline(never)] // In a world of one thread nobody has to be.
    fn apply_stopping(&mut self, shared: &Shared, states: &States) -> Outcome {
        let is_noted = self.notes_traps;
        let _noting = match is_noted {
            true => Some(self.note_traps(shared, states)?),
            false => None,
        };
        let mut vacated = Vec::new();
        if shared.stops_anywhere {
            vacated = self.vacated(states);
        }
        let mut fork_took_too_long = false;
        loop {
            let (mut written, mut forks) = (Ok(()), false);
            let stopped = shared.world.while_stopped(&vacated, &mut |stopped| {
                let entered = match fork_took_too_long {
                    _ if is_noted => None,
                    true => Some(Writing::enter_anyway()),
                    false => states.seat.try_enter(),
                };
                match is_noted || entered.is_some() {
                    true => written = self.apply_while(shared, states, stopped),
                    false => forks = true,
                }
            });
            match stopped {
                // Not while the world is stopped: the thread that forks may be one of those that
                // were.
                Ok(()) if forks => fork_took_too_long = !gate::wait(),
                Ok(()) => return written,
                // protection: toggle-needs-a-stopped-world
                Err(error) => return self.found.check(Err(self.name_site(error))),
            }
        }
    }

    /// Tells the handler of traps what it is to do. The note of a closed site is its change. A fork's
    /// child has the notes as they are when it is made, and the code as it was a moment before: it
    /// could be sent to a stub that it does not have.
    #[cold]
    fn note_traps(&mut self, shared: &Shared, states: &States) -> core::result::Result<Writing, Noted> {
        // protection: traps-are-noted-between-forks
        let writing = Writing::enter();
        // Here, as noting may allocate. The note of another that was committed is not overwritten.
        // protection: trap-is-current-before-it-is-noted
        self.check_current(states)?;
        // protection: trap-is-noted-before-it-is-written
        let noted = live::note_traps(&shared.publisher, self.live());
        let mut exchanges = self.live().iter().filter_map(|change| change.exchange.as_deref());
        // protection: what-was-noted-has-been-reachable
        self.exposed = exchanges.any(JumpExchange::is_exposed_by_its_note);
        self.found.check(noted)?;
        Ok(writing)
    }

    /// Exchanges the patchable jumps of a transaction that has only live sites, and publishes once.
    /// Inside the gate of forks.
    fn apply_live(&mut self, shared: &Shared, states: &States) -> Outcome {
        // protection: live-current-before-the-exchange
        self.check_current(states)?;
        self.time.take();
        let publisher = &shared.publisher;
        live::exchange(publisher, self)?;
        let done = live::publish(publisher, self);
        if done.is_err() {
            // protection: live-failure-after-exchange-takes-back
            live::undo(publisher, self);
        }
        done
    }

    /// What happens while the world is stopped. It neither allocates nor frees: see
    /// [`super::fault`].
    #[inline(always)] // Called, a patch takes a thirtieth longer.
    fn apply_while(&mut self, shared: &Shared, states: &States, stopped: &Stopped) -> Outcome {
        // Not before: only now does no thread start to run code that had not been run.
        // protection: stopped-before-the-check
        self.check_current(states)?;
        // Here, as behind the serialization nothing else goes on beside it.
        self.time.take();
        let publisher = &shared.publisher;
        if !self.live().is_empty() {
            live::exchange(publisher, self)?;
        }
        let written = self.write(stopped, publisher);
        if written.is_err() {
            // protection: live-goes-back-with-the-quiescent
            live::undo(publisher, self);
        }
        written
    }

    /// Whether every site is still as it was when this was prepared: not changed, and not run where
    /// return offsets would have had to be kept for that.
    #[inline]
    fn check_current(&mut self, states: &States) -> Outcome {
        // protection: sites-still-current
        let is_current = self.changes.iter().all(|change| is_current(change, states));
        // protection: not-run-is-checked-at-commit
        if is_current && !(self.until_run && self.have_any_run()) {
            return Ok(());
        }
        Err(self.note_not_current(states))
    }

    #[inline(never)] // Few transactions ask.
    fn have_any_run(&self) -> bool {
        let mut batches = self.batches.iter();
        // protection: modules-of-batches-are-looked-at
        self.changes.iter().any(|change| self.has_run(change))
            || batches.any(|batch| batch.first_run().is_some())
    }

    /// Whether code may have run since its change was prepared as for code that has not.
    fn has_run(&self, change: &SiteChange) -> bool {
        change.until_run && self.module(change).is_released()
    }

    #[cold]
    fn note_not_current(&mut self, states: &States) -> Noted {
        let mut changes = self.changes.iter().enumerate();
        let stale = changes.find(|(_, change)| !is_current(change, states) || self.has_run(change));
        let Some((number, change)) = stale else {
            let mut batches = self.batches.iter().scan(self.changes.len(), |behind, batch| {
                let before = *behind;
                *behind += batch.len();
                Some((before, batch))
            });
            let run = batches.find_map(|(before, batch)| Some(before + batch.first_run()?));
            let run = run.or_abort("one was found that is not current");
            return self.found.note(Fault::Stale(run));
        };
        let fault = match states.at(change.index).map(|state| state.installed.status) {
            Some(Status::Lost) => Fault::Lost(number),
            _ => Fault::Stale(number),
        };
        self.found.note(fault)
    }

    /// The bytes in which no thread may be, or return to, while they change.
    #[inline(never)]
    fn vacated(&self, states: &States) -> Vec<Vacated> {
        let changes = self.changes.iter();
        changes.flat_map(|change| vacated_by(change, states)).collect()
    }

    /// Says in which site a thread is, where the world said at which address.
    #[cold]
    fn name_site(&self, error: publish::Error) -> Error {
        let publish::Error::ThreadInside {
            thread, at, returns, ..
        } = error
        else {
            return error.into();
        };
        let mut sites = self.sites();
        match sites.find(|site| site.range().contains(at)) {
            Some(site) => Error::ThreadInSite {
                site: site.name(),
                thread,
                offset: Len::new(at.distance_from(site.addr()) as u32),
                returns,
            },
            None => error.into(),
        }
    }

    /// Makes what was prepared the sites' states, and records it. What the sites had takes its
    /// place.
    #[inline]
    fn install(&mut self, states: &mut States) {
        let version = states.next_version();
        for change in &mut self.changes {
            states.exchange(change.index, &mut change.installed, version);
        }
        if !self.batches.is_empty() {
            self.install_batches(states);
        }
    }

    #[inline(never)] // Few transactions have any: it takes 26 instructions of the others.
    fn install_batches(&mut self, states: &mut States) {
        for batch in self.batches.drain(..) {
            self.installed_batches.push(states.install_batch(batch));
        }
    }

    /// Keeps new exit stubs with their sites, and finds a place for the stubs of what was replaced.
    /// Runs no code of others. Returns the stubs in which no thread is.
    #[inline(never)]
    fn place_code(&mut self, shared: &Shared, states: &mut States) -> FreedCode {
        let since = (Moment::now(), shared.observers.now());
        let mut replaced = FreedCode::new();
        for change in &mut self.changes {
            states.keep_exit_stubs(change.index, &mut change.exit_stubs);
            if let Some(exchange) = &change.exchange {
                states.note_closed(change.index, change.site);
                if exchange.leaves_trap() {
                    states.note_trapped(change.index);
                }
            }
            if let Some(freed) = change.place_stub(states, since) {
                replaced.push(freed);
            }
        }
        replaced
    }

    /// Tells why the commit has failed. What it has made is kept where threads may be in it, or a
    /// site may hold it.
    #[cold]
    fn fail(
        set: ManuallyDrop<Box<Self>>,
        shared: &Shared,
        states: &mut States,
        time: Option<Instant>,
    ) -> Box<Error> {
        let mut set = set;
        let with_own = set.changes.len();
        set.take_batches_apart(states);
        let error = fault::explain(&mut set);
        // protection: sites-of-batches-are-not-live
        set.put_before_live(with_own);
        // protection: lost-sites-are-refused
        set.mark_lost(states);
        // Notes are rolled back.
        let writing = set.notes_traps.then(Writing::enter);
        match set.exposed {
            // protection: live-stub-of-a-rolled-back-patchable-jump-is-retired
            true => live::retire(&shared.publisher, &mut set, states, time),
            // protection: trap-of-a-refused-invalidation-is-forgotten
            false => live::forget_traps(&shared.publisher, set.live()),
        }
        drop(writing);
        let made = ManuallyDrop::into_inner(set).take_made();
        shared.free_code(made);
        shared.refused(states, error, time).into()
    }

    /// Marks the sites that a failed roll-back has left in doubt.
    fn mark_lost(&mut self, states: &mut States) {
        for change in &mut self.changes {
            if change.fate.is_some() {
                let stub = change.take_stub();
                states.lose(change.index, &mut change.exit_stubs, stub);
            }
        }
    }
}

#[inline]
fn is_current(change: &SiteChange, states: &States) -> bool {
    states.is_still(change.index, change.version)
}

/// The bytes of a site in which no thread may be, or return to, while they change. At the site's
/// first byte a thread executes the new bytes from their start; the return offsets that the new
/// bytes keep are left out. Calls return to no others than those of the bytes that are installed,
/// and of those before them; what a call at the end returns to is behind the site. A stub that is
/// given back at once must be left too; it does not call.
fn vacated_by(change: &SiteChange, states: &States) -> impl Iterator<Item = Vacated> {
    let old = states.at(change.index).map(|state| state.installed);
    // Of a site that is gone, whose module was unregistered meanwhile, nothing is written: see
    // `check_current`.
    let return_offsets = old.map_or_else(ReturnOffsets::new, |old| old.all_return_offsets());
    let (start, end) = (change.range.start(), change.range.len() as u32);
    let kept = || change.to_install().return_offsets.iter().copied();
    let holes = std::iter::once(0).chain(kept()).map(|at| at + 1);
    let ends = kept().chain(std::iter::once(end));
    let parts = holes.zip(ends).filter_map(|(from, to)| {
        let len = to.checked_sub(from).filter(|len| *len > 0)?;
        let from_addr = start.plus(Len::new(from));
        let range = from_addr.and_then(|from| CodeRange::new(from, len.into()));
        let range = range.expect("a site's bytes have addresses");
        let inside = return_offsets.iter().filter(|at| (from..to).contains(*at));
        // protection: stop-is-told-of-return-offsets
        // protection: stop-takes-return-offsets-only
        Some(Vacated::return_offset_at(range, inside.map(|at| at - from)))
    });
    let stub = old.and_then(|old| old.stub.as_ref()).filter(|stub| !stub.calls);
    let stub = stub.map(|stub| Vacated::return_offset_at(stub.slot.range(), []));
    parts.chain(stub).collect::<Vec<_>>().into_iter()
}

impl SiteChange {
    /// Finds a place for the stub of what it has replaced, or returns it if it can be freed.
    fn place_stub(
        &mut self,
        states: &mut States,
        since: (Moment, Option<Instant>),
    ) -> Option<(CodeOwner, StubSlot)> {
        let stub = self.take_stub()?;
        let until = match self.old_stub {
            OldStub::Reported(state) => Until::Reported(state),
            OldStub::GracePeriod => Until::GracePeriod,
            OldStub::Kept => {
                states.keep_stub(self.index, stub);
                return None;
            }
            OldStub::Freed | OldStub::None => {
                states.note_reclaimed(self.index, stub.slot.range());
                return Some((stub.owner, stub.slot));
            }
        };
        states.retired.retire(until, RetiredCode::stub(stub, since));
        None
    }
}
