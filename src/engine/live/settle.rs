//! Settling: moving installed code from its stub into the site, while threads run; and making jumps
//! of traps.
//!
//! Problem: a live patch changes one instruction, so its sequence is in a stub, and whoever executes
//! the site pays for the way there and back; where a trap is the gate, and has to stay, for a signal.
//! Code that is executed often should be where the compiler left room for it. Approach: the patch
//! has closed the site's *gate*: threads that arrive go to the stub. Once every thread has reported
//! a quiescent state since then, none is behind the gate, and the bytes there can be rewritten. Then
//! all cores serialize, once for however many sites, and the gate is opened: a patchable jump
//! becomes a nop, behind which the same sequence is, and the stub is retired; a trap becomes a jump
//! to the stub. The next patch closes the gate again, by one store.
//!
//! | step | in a patch | in [`settle`] |
//! |---|---|---|
//! | close | one exchange; the patch is in effect | |
//! | wait | | for a grace period, by epochs: sites that still wait stay as they are |
//! | rewrite | | what is behind the gates, then one barrier |
//! | open | | one exchange for each site |
//!
//! A thread between any two steps is correct: before the gate opens it goes to the stub, afterwards
//! it executes the same sequence in place; one that still fetches the old gate goes to the stub,
//! which is only retired.
//!
//! Invariants: bytes behind a gate are written only while the gate is closed, and has been for a
//! grace period: of checkpoints, for code that calls nothing; of quiescent states, where original
//! code may have called, and frames may return between its bytes. Between the writing and the
//! opening every core serializes, so that none has fetched what was there before. Code that is moved
//! in place calls nothing to which a return address inside the site would belong: threads that
//! report a checkpoint may have frames of compiled code. A thread that does not report keeps sites
//! from being settled, and nothing else.

use super::{Armed, JumpExchange, OriginalCode, backend, gate, refused};
use crate::addr::{CodeRange, Len};
use crate::arch::exchange;
use crate::engine::change::MANY;
use crate::engine::exit_stub::{ExitStubKind, ExitStubList};
use crate::engine::observe::Event;
use crate::engine::retire::{RetiredCode, Until};
use crate::engine::state::{SiteState, StateIndex, States, Status};
use crate::engine::{Engine, Shared};
use crate::error::Fate;
use crate::memory::fork::gate::Writing;
use crate::memory::short::{self, Bytes};
use crate::publish::{Attached, CoarseTime, Level, Moment, QuiescentState};
use crate::sequence::{self, Environment, Fit, Sequence};
use crate::site::{ModuleId, Site};
use crate::verify;
use crate::{Error, Result};
use patchpoint_asm::live::PatchableJump;

/// What [`Engine::settle`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settled {
    /// How many sites execute their code in place from now on, or jump to it where there was a trap.
    pub settled: usize,
    /// How many wait until every attached thread has reported: they execute their stubs.
    pub waiting: usize,
    /// How many of those that have been patched since the last call stay in their stubs: their code
    /// is longer than the room behind the patchable jump, makes calls, or leaves for good.
    pub staying: usize,
}

/// A site that is about to be settled, with all that its state says of it: a thousand sites' states
/// lie anywhere, and are looked up once, when they change.
pub(in crate::engine) struct Settling {
    site: Site,
    index: StateIndex,
    /// The version of the state for which this was prepared.
    version: u64,
    range: CodeRange,
    /// How many bytes there are up to the end of the gate.
    gate_end: Len,
    /// The bytes of the site while it is closed, and settled.
    closed: Bytes,
    bytes: Bytes,
    /// Opens the gate.
    opening: JumpExchange,
    way: Way,
    /// What its stub is retired until, if its code moves out of that.
    retired_until: Until,
    /// Which change closed it by a trap, if one has.
    closed_since: Option<u64>,
    /// Whoever has reported in this epoch or later is not behind the gate.
    epoch: u64,
}

/// How a closed site is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Its code is behind its patchable jump.
    InPlace,
    /// It jumps to its code, where a trap has gone.
    AsJump,
}

impl Way {
    /// What every thread must have reported: a jump may lie where calls of the site return.
    fn needs(self) -> QuiescentState {
        match self {
            Self::InPlace => QuiescentState::Checkpoint,
            // protection: jumps-wait-for-frames
            Self::AsJump => QuiescentState::Quiescent,
        }
    }
}

impl Engine {
    /// Moves the code of live sites from their stubs into the sites, where it has not been changed
    /// for a grace period and fits: it then runs without the jumps there and back. Whoever calls
    /// this often enough, as a runtime does [`reclaim_passed`](Self::reclaim_passed), has hot code
    /// run in place; a patch of a settled site is one store, as of others.
    ///
    /// A site that is closed by a trap, as some are where threads may be between its instructions (see
    /// [`Registration::live`](crate::engine::Registration::live)), and a shadow that was invalidated, gets a jump in place of
    /// the trap when every thread has reported that it is [quiescent](crate::publish::ThreadHandle::quiescent).
    ///
    /// Nothing waits: what was patched since the last call is looked at in this one, and settled by
    /// the next one after the reports of all attached [threads](crate::publish::ThreadHandle). A call
    /// that finds such sites makes every core serialize, once. No thread is stopped.
    ///
    /// What was [prepared](super::super::Prepared) before for a site that is settled meanwhile is refused
    /// as changed when it is committed.
    ///
    /// # Errors
    /// [`publish::Error::NoBarrier`](crate::publish::Error::NoBarrier) where other threads cannot be made to serialize;
    /// [`Error::BytesChanged`] where something else wrote to a site; what the memory refuses. Each site is
    /// settled then, or goes to its stub as before, unless the error is [`Error::RollBackFailed`]. What the memory or the
    /// barrier refused is tried again by the next call.
    pub fn settle(&self, _attached: &Attached) -> Result<Settled> {
        let shared = &self.shared;
        shared.with_states(|states| Ok(settle(shared, states)?))
    }
}

/// Each of thousands of sites takes several lines of memory: every step goes once over all of them,
/// and does there what it has to.
fn settle(shared: &Shared, states: &mut States) -> Result<Settled> {
    // What was committed before comes first in the journal.
    states.file();
    let passed = shared.epochs.passed();
    // protection: gates-open-after-a-grace-period
    let is_ready = |one: &Settling| passed.has(one.epoch, one.way.needs());
    let (mut ready, waiting) = take_ready(states, is_ready);
    states.settling = waiting;
    states.retired.make_room(ready.len());
    // Until all gates are open: a fork's child has the bytes as they are between two steps.
    let writing = Writing::enter();
    let mut first_error = None;
    let mut keep_first = |error: Error| _ = first_error.get_or_insert(error);
    let mut ranges = Vec::with_capacity(ready.len());
    each(&mut ready, states, &mut keep_first, |one, states| {
        if !one.is_still_closed(states) {
            return Ok(false);
        }
        one.rewrite(states)?;
        ranges.push(one.range);
        Ok(true)
    });
    let mut epoch = None;
    if !ready.is_empty() || states.has_closed() || states.retired.has_fresh() {
        // protection: settling-serializes-before-gates-open
        let published = shared.publisher.publish(&ranges, Level::Immediate);
        if let Err(error) = published {
            each(&mut ready, states, &mut keep_first, |one, states| {
                one.rewrite_again(states).map(|()| true)
            });
            states.settling.extend(ready);
            return Err(first_error.unwrap_or(error.into()));
        }
        let begun = shared.epochs.advance();
        states.retired.stamp(begun);
        epoch = Some(begun);
    }
    ranges.clear();
    let (mut stubs, mut time) = (Vec::with_capacity(ready.len()), CoarseTime::EPOCH);
    time.take();
    each(&mut ready, states, &mut keep_first, |one, states| {
        one.open(states)?;
        ranges.push(one.opening.range());
        let (index, place) = (one.index, (one.site.key(), one.range.start()));
        match one.way {
            Way::InPlace => {
                let stub = states.note_settled((index, true), place, &one.bytes, time);
                stubs.extend(stub.map(|stub| (one.retired_until, stub)));
            }
            Way::AsJump => {
                states.note_settled((index, false), place, &one.bytes, time);
                // protection: what-is-settled-as-a-jump-is-executed-again
                super::trap::execute_again(&shared.publisher, one.range.start())?;
            }
        }
        Ok(true)
    });
    let published = shared.publisher.publish(&ranges, Level::Eventual);
    drop(writing);
    if let Err(error) = published {
        keep_first(error.into());
    }
    let since = (Moment::now(), shared.observers.now());
    for (until, stub) in stubs {
        // protection: the-stub-of-a-settled-site-is-retired
        states.retired.retire(until, RetiredCode::stub(stub, since));
    }
    if shared.observers.any() {
        for one in &ready {
            shared.observers.tell(&Event::Settled { site: &one.site });
        }
    }
    let mut done = Settled {
        settled: ready.len(),
        ..Settled::default()
    };
    // Room for those that are found now.
    if states.settling.capacity() == 0 && ready.len() <= MANY {
        ready.clear();
        states.settling = ready;
    }
    if let Some(epoch) = epoch {
        for key in states.take_closed() {
            // Its module may be unregistered, and the site with it.
            let site = shared.table.read_with(&states.table_key).get(key);
            let listed = site.and_then(|site| Some((states.take_listed(&site)?, site)));
            let Some((index, site)) = listed else {
                continue;
            };
            match plan(states, index, site, epoch) {
                Ok(Some(one)) => states.settling.push(one),
                Ok(None) => done.staying += 1,
                Err(error) => keep_first(error),
            }
        }
    }
    done.waiting = states.settling.len();
    match first_error {
        Some(error) => Err(error),
        None => Ok(done),
    }
}

/// The sites whose grace period has passed, and the others.
fn take_ready(states: &mut States, is_ready: impl Fn(&Settling) -> bool) -> (Vec<Settling>, Vec<Settling>) {
    let mut all = std::mem::take(&mut states.settling);
    if states.has_trapped() {
        // One that was patched while it waited was listed once more.
        // protection: a-site-is-opened-once
        all.sort_by_key(|one| (one.range.start(), one.epoch));
        all.dedup_by_key(|one| one.index);
    }
    // Mostly all are, and none has to be moved.
    match all.iter().all(&is_ready) {
        true => (all, Vec::new()),
        false => {
            let (ready, mut waiting): (Vec<_>, Vec<_>) = all.into_iter().partition(is_ready);
            waiting.retain_mut(|one| one.is_still_closed(states));
            (ready, waiting)
        }
    }
}

/// Takes a step with each site, and leaves out those of which it fails or says so.
#[inline(always)] // A call for each of a thousand.
fn each(
    ready: &mut Vec<Settling>,
    states: &mut States,
    failed: &mut impl FnMut(Error),
    mut step: impl FnMut(&mut Settling, &mut States) -> Result<bool>,
) {
    let mut left_out = Vec::new();
    for (at, one) in ready.iter_mut().enumerate() {
        match step(one, states) {
            Ok(true) => {}
            Ok(false) => left_out.push((at, false)),
            Err(error) => {
                // protection: what-was-refused-is-settled-later
                let is_later = !matches!(error, Error::RollBackFailed { .. } | Error::BytesChanged { .. });
                left_out.push((at, is_later));
                failed(error);
            }
        }
    }
    if left_out.is_empty() {
        return;
    }
    let mut left_out = left_out.into_iter().peekable();
    for (at, one) in std::mem::take(ready).into_iter().enumerate() {
        match left_out.next_if(|(left_out, _)| *left_out == at) {
            None => ready.push(one),
            Some((_, true)) => states.settling.push(one),
            Some((_, false)) => {}
        }
    }
}

/// What a site will hold when it is settled, for which threads have to report that epoch; `None` for
/// one that stays as it is.
fn plan(states: &States, index: StateIndex, site: Site, epoch: u64) -> Result<Option<Settling>> {
    let state = states.at(index).expect("the site was found with its state");
    let planned = match &state.lasting.live {
        _ if state.lasting.facts.is_call => None,
        Some(armed) if !armed.is_trapped => plan_in_place(state, &site, armed)?,
        _ => plan_as_jump(state, &site)?,
    };
    Ok(planned.map(|planned| Settling {
        site,
        index,
        version: state.version(),
        range: state.lasting.range,
        epoch,
        gate_end: planned.gate_end,
        closed: state.installed.bytes.clone(),
        bytes: planned.bytes,
        opening: planned.opening,
        way: planned.way,
        retired_until: match &state.installed.stub {
            Some(stub) if !stub.calls => Until::Reported(QuiescentState::Checkpoint),
            _ => Until::Reported(QuiescentState::Quiescent),
        },
        closed_since: state.lasting.closed_since(),
    }))
}

/// What a site becomes.
struct Planned {
    gate_end: Len,
    bytes: Bytes,
    opening: JumpExchange,
    way: Way,
}

/// A site that is closed by a trap becomes a jump to where its threads go already.
fn plan_as_jump(state: SiteState<'_>, site: &Site) -> Result<Option<Planned>> {
    if !gate::is_closed(site, state) {
        return Ok(None);
    }
    let Some(patchable_jump) = backend(site).plan_behind_trap(site.addr(), site.reserved()) else {
        return Ok(None);
    };
    let (bytes, opening) = gate::opening(site, state, patchable_jump)?;
    Ok(Some(Planned {
        gate_end: Len::new(exchange::trap(site.module().arch()).len() as u32),
        bytes,
        opening,
        way: Way::AsJump,
    }))
}

/// A site that jumps to its stub gets the code of that behind the jump, if it fits.
fn plan_in_place(state: SiteState<'_>, site: &Site, armed: &Armed) -> Result<Option<Planned>> {
    let (installed, original) = (&state.installed, state.original(site));
    let patchable_jump = armed.patchable_jump;
    let bytes = match (installed.status, &installed.sequence) {
        // What would restore it is behind its gate.
        // protection: originals-in-place-are-not-rewritten
        _ if armed.original == OriginalCode::InPlace => None,
        (Status::Patched | Status::Redirected, Some(sequence)) if installed.stub.is_some() => {
            in_place(state, site, patchable_jump, sequence)?
        }
        // It jumps over what was settled there before.
        (Status::Original, _) if armed.original == OriginalCode::Nops => {
            let is_armed = *installed.bytes == *original;
            (!is_armed).then(|| short::of(original))
        }
        _ => None,
    };
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    let (gate, open) = (
        patchable_jump.of_site(&installed.bytes),
        patchable_jump.of_site(&bytes),
    );
    let gate = gate.expect("a site holds its patchable jump");
    let open = open.expect("a site holds its patchable jump");
    // What the gate is opened in: the new code is behind it already.
    let mut closed = bytes.clone();
    patchable_jump.put(gate, &mut closed);
    verify::check_exchange(&site.context(&[]), &closed, &bytes)?;
    if !exchange::allowed(site.module().arch(), &gate, &open) {
        return Err(refused(site, "its patchable jump cannot be exchanged for a nop"));
    }
    let opening = JumpExchange::new(site.memory()?, patchable_jump.addr, (&gate, &open));
    Ok(Some(Planned {
        gate_end: patchable_jump.end(),
        bytes,
        opening,
        way: Way::InPlace,
    }))
}

/// The site with the sequence behind its gate, which is a nop; `None` if that does not fit.
fn in_place(
    state: SiteState<'_>,
    site: &Site,
    patchable_jump: PatchableJump,
    sequence: &Sequence,
) -> Result<Option<Bytes>> {
    let environment = Environment {
        miss: state.exit_stub(ExitStubKind::Miss),
        deopt: state.exit_stub(ExitStubKind::Deopt),
    };
    let context = site.context(&[]);
    let Some(behind) = context.behind(patchable_jump.end()) else {
        return Ok(None);
    };
    let Ok(Fit::InPlace(assembled)) = sequence::assemble(sequence, &behind, &environment) else {
        return Ok(None);
    };
    let mut bytes = short::of(&state.installed.bytes);
    bytes.truncate(patchable_jump.end().as_usize());
    patchable_jump.put(backend(site).nop(patchable_jump), &mut bytes);
    bytes.extend_from_slice(&assembled.code);
    let checked = verify::check(&context, &bytes, &[], &assembled.declared)?;
    // protection: nothing-returns-into-a-settled-site
    Ok(checked.return_offsets.is_empty().then_some(bytes))
}

impl Settling {
    /// Whether its site is one of that module.
    pub(in crate::engine) fn is_of(&self, module: ModuleId) -> bool {
        self.site.module().id() == module
    }

    /// Whether its site still is what this was prepared for. One that is closed by a trap may have
    /// been patched since: it stayed closed, and only goes to another stub.
    fn is_still_closed(&mut self, states: &States) -> bool {
        let Some(state) = states.at(self.index) else {
            return false;
        };
        // protection: a-site-that-was-patched-again-is-not-settled
        if states.is_still(self.index, self.version) {
            return true;
        }
        // protection: a-site-that-was-opened-waits-anew
        if self.way == Way::InPlace || state.lasting.closed_since() != self.closed_since {
            return false;
        }
        let again = plan(states, self.index, self.site.clone(), self.epoch);
        let Ok(Some(again)) = again else {
            return false;
        };
        *self = again;
        true
    }

    /// Says that its grace period has passed: what nobody may say.
    #[cfg(all(test, target_arch = "x86_64"))]
    pub(in crate::engine) fn pass(&mut self) {
        self.epoch = 0;
    }

    /// The bytes behind the gate, of the settled site or of another state of it.
    fn behind<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let behind = bytes.get(self.gate_end.as_usize()..);
        behind.expect("a site holds its patchable jump")
    }

    /// Writes what will be behind the gate, which is closed. What the site should hold is compared
    /// first.
    fn rewrite(&self, states: &mut States) -> Result<()> {
        // protection: settling-compares-the-old-bytes
        if !self.opening.holds(self.range.start(), &self.closed)? {
            return Err(Error::BytesChanged {
                site: self.site.name(),
                expected: self.closed.to_vec(),
                found: self.site.read()?,
            });
        }
        match self.write_behind(&self.bytes) {
            Ok(()) => Ok(()),
            Err(cause) => Err(self.undo(states, cause)),
        }
    }

    /// Writes the old bytes behind the gate again.
    #[cold]
    fn rewrite_again(&self, states: &mut States) -> Result<()> {
        self.write_behind(&self.closed)
            .map_err(|cause| self.lose(states, cause))
    }

    /// Undoes what was written behind the gate, and returns why, with what became of it.
    #[cold]
    fn undo(&self, states: &mut States, cause: Error) -> Error {
        match self.rewrite_again(states) {
            Ok(()) => cause,
            Err(_) => self.lose(states, cause),
        }
    }

    /// Nobody knows what is behind the gate.
    #[cold]
    fn lose(&self, states: &mut States, cause: Error) -> Error {
        states.lose(self.index, &mut ExitStubList::new(), None);
        Error::RollBackFailed {
            cause: Box::new(cause),
            sites: vec![(*self.site.name(), Fate::Unknown)],
        }
    }

    fn write_behind(&self, bytes: &[u8]) -> Result<()> {
        let at = self.range.start().plus(self.gate_end);
        let at = at.expect("a site's bytes have addresses");
        self.opening.write_unexecuted(at, self.behind(bytes))
    }

    /// Opens the gate, and reads back.
    fn open(&self, states: &mut States) -> Result<()> {
        if let Err(cause) = self.opening.make() {
            return Err(self.undo(states, cause));
        }
        // protection: a-settled-site-is-read-back
        match self.opening.holds(self.range.start(), &self.bytes) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let cause = Error::BytesChanged {
                    site: self.site.name(),
                    expected: self.bytes.to_vec(),
                    found: self.site.read()?,
                };
                Err(self.lose(states, cause))
            }
            Err(error) => Err(self.lose(states, error)),
        }
    }
}
