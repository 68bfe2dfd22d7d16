//! Live sites: armed before their code first runs, and changed by exchanging one instruction.
//!
//! Problem: threads execute a site while it is changed, and none is to be stopped. Approach: arming
//! rewrites the site once, while nobody can execute it, as nops, one patchable jump, nops.
//! Afterwards a sequence is always in a stub; a patch fills a fresh stub, publishes it, and
//! exchanges the patchable jump by one aligned store.
//!
//! The patchable jump is the site's gate: open while it is a nop, closed while it jumps. What is
//! behind it is written only while nobody is there, see [`settle`].
//!
//! Invariants: a patch changes the bytes of an armed site only in its patchable jump, and only
//! between instructions that the architecture lets be exchanged (checked by
//! `verify::check_exchange`, which knows nothing of this module); a stub is complete before a
//! patchable jump goes to it and is retired, not freed, when it does no more; no call is in a
//! live site, so no return address points into one.
//!
//! Call sites are exchanged in their operand, or have a patchable jump outside of the site: see
//! [`super::calls`].
//!
//! The order of these steps, and of those that bring code into a site and reclaim stubs, is that of a
//! model whose states are all explored: see `crates/live-model`, where each step is left out once.
//!
//! Shadows of a live module hold the function's own instructions and are not armed: they can only
//! be invalidated, by a [`trap`].

mod arm;
mod settle;
mod trap;

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

pub(super) use arm::{Arming, arm};
pub use settle::Settled;
pub(super) use settle::Settling;
pub(super) use trap::{forget_trap, forget_traps, note_traps};

use super::calls::Gate;
use super::change::{ChangeSet, HeldMemory, Side};
use super::fault::{Fault, Outcome};
use super::prepare::Preparation;
use super::retire::{RetiredCode, Until};
use super::state::{States, Status, Stub};
use super::transaction::Request;
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::{Declared, DeclaredTarget, OnReturn, RegSet, exchange};
use crate::error::Fate;
use crate::invariant::OrAbort;
use crate::latency::{self, Stage};
use crate::memory::{CodeMemory, LiveMemory, StubSlot};
use crate::publish::{Level, Moment, Publisher, QuiescentState};
use crate::sequence::{self, Assembled, Sequence};
use crate::site::Site;
use crate::verify;
use crate::{Error, Result};
use patchpoint_asm::backend::Backend;
use patchpoint_asm::backend_of;
use patchpoint_asm::live::{JumpBytes, PatchableJump};

/// What arming has made of a site.
pub(super) struct Armed {
    /// What is exchanged: it is in the site, or in its gate.
    pub(super) patchable_jump: PatchableJump,
    /// Of a call whose distance cannot be exchanged.
    pub(super) gate: Option<Gate>,
    /// The code that the site held, where that was more than nops; gates, and the stubs by which
    /// they reach their targets.
    pub(super) stubs: SmallVec<[StubSlot; 1]>,
}

/// The exchange of the bytes of one instruction: a patchable jump, or the first bytes of a shadow
/// for a trap. The bytes lie in one quadword.
pub(super) struct JumpExchange {
    memory: HeldMemory,
    /// The quadword.
    word: CodeAddr,
    /// The bits that change; the other bits of `old` and `new` are zeros.
    mask: u64,
    old: u64,
    new: u64,
    range: CodeRange,
    /// Where the trap's handler continues, if it is one.
    trap: Option<CodeAddr>,
}

/// The site's architecture.
fn backend(site: &Site) -> &'static dyn Backend {
    backend_of(site.module().arch())
}

// ---- preparing ----

/// Prepares the change of a site of a live module.
pub(super) fn change(preparation: &mut Preparation<'_>, request: Request<&Sequence>) -> Result<Len> {
    let Some(armed) = &preparation.state.lasting.live else {
        return trap::change(preparation, request);
    };
    let patchable_jump = armed.patchable_jump;
    match request {
        Request::Patch(sequence) => patch(preparation, patchable_jump, sequence, Status::Patched),
        Request::Redirect(sequence) => patch(preparation, patchable_jump, sequence, Status::Redirected),
        Request::Restore => restore(preparation, patchable_jump),
        Request::Invalidate => invalidate(preparation, patchable_jump),
        Request::Retarget(_) => Err(Error::CallSiteOnly {
            site: preparation.site.name(),
        }),
    }
}

fn patch(
    preparation: &mut Preparation<'_>,
    patchable_jump: PatchableJump,
    sequence: &Sequence,
    status: Status,
) -> Result<Len> {
    let site = preparation.site;
    // protection: in-place-sequences-are-refused
    if sequence.is_in_place_only() {
        return Err(Error::LiveInPlace { site: site.name() });
    }
    let environment = preparation.environment(sequence, None)?;
    let context = site.context(&[]);
    let len = sequence::stub_len(sequence, &context, &environment)?;
    let slot = preparation.shared.stubs.alloc(len, site.range())?;
    let addr = slot.addr();
    preparation.new.stub = Some(Stub::empty(slot, preparation.owner()));
    let stage = latency::enter(Stage::Assemble);
    let body = sequence::assemble_stub(sequence, &context, &environment, addr)?;
    stage.end();
    let assembled = Assembled {
        code: Vec::new(),
        stub: Some(body.code),
        declared: body.declared,
        clobbers: body.clobbers,
        return_offsets: Vec::new(),
        used: patchable_jump.end(),
        holes: Vec::new(),
    };
    put_jump(preparation, patchable_jump, addr, assembled)?;
    preparation.describe(status, Some(sequence));
    finish(preparation, patchable_jump)
}

fn invalidate(preparation: &mut Preparation<'_>, patchable_jump: PatchableJump) -> Result<Len> {
    let exit_stub = preparation.invalidation_exit_stub()?;
    let target = DeclaredTarget {
        addr: exit_stub,
        on_return: OnReturn::Never,
    };
    let assembled = Assembled {
        code: Vec::new(),
        stub: None,
        declared: Declared {
            targets: vec![target],
            ..Declared::default()
        },
        clobbers: RegSet::EMPTY,
        return_offsets: Vec::new(),
        used: patchable_jump.end(),
        holes: Vec::new(),
    };
    put_jump(preparation, patchable_jump, exit_stub, assembled)?;
    let installed = preparation.installed_sequence();
    preparation.describe(Status::Invalidated, installed.as_ref());
    finish(preparation, patchable_jump)
}

/// The patchable jump of the armed form comes back, whose bytes were checked when the site was
/// armed. Where that goes on to nops, and there is code that was settled, it jumps over that.
fn restore(preparation: &mut Preparation<'_>, patchable_jump: PatchableJump) -> Result<Len> {
    let (site, armed) = (preparation.site, &preparation.state.lasting.original);
    let gate = patchable_jump.of_site(armed);
    let mut gate = gate.ok_or_else(|| refused(site, "it has no patchable jump"))?;
    let behind = patchable_jump.end().as_usize()..;
    let is_settled = preparation.state.installed.bytes.get(behind.clone()) != armed.get(behind);
    if is_settled && gate == backend(site).nop(patchable_jump) {
        gate = jump(site, patchable_jump, site.end())?;
    }
    put_gate(preparation, patchable_jump, gate);
    preparation.describe(Status::Original, None);
    finish(preparation, patchable_jump)
}

fn jump(site: &Site, patchable_jump: PatchableJump, to: CodeAddr) -> Result<JumpBytes> {
    backend(site)
        .jump(patchable_jump, to)
        .ok_or_else(|| out_of_reach(site, to))
}

/// A jump or call of the site does not reach that stub.
pub(super) fn out_of_reach(site: &Site, stub: CodeAddr) -> Error {
    let site = site.name();
    sequence::Error::StubOutOfReach { site, stub }.into()
}

/// Says which bytes the site gets, of which a patch only changes the patchable jump.
fn put_gate(preparation: &mut Preparation<'_>, patchable_jump: PatchableJump, gate: JumpBytes) {
    let mut bytes = preparation.state.installed.bytes.clone();
    // protection: what-is-behind-a-gate-stays
    patchable_jump.put(gate, &mut bytes);
    preparation.put(&bytes, &[]);
}

/// Says which bytes the site gets, whose patchable jump goes to `to`. They are checked as they are
/// for a thread that arrives: what was settled behind the jump, and was checked then, is executed
/// only by threads that are there.
fn put_jump(
    preparation: &mut Preparation<'_>,
    patchable_jump: PatchableJump,
    to: CodeAddr,
    mut assembled: Assembled,
) -> Result<()> {
    let site = preparation.site;
    let arch = site.module().arch();
    let gate = jump(site, patchable_jump, to)?;
    assembled.code = patchable_jump.armed(arch, site.reserved(), gate);
    preparation.check_and_fill(&site.context(&[]), assembled)?;
    put_gate(preparation, patchable_jump, gate);
    Ok(())
}

/// Checks the exchange, by the checker's rule and by the architecture's table, and makes it part of
/// the change.
fn finish(preparation: &mut Preparation<'_>, patchable_jump: PatchableJump) -> Result<Len> {
    let site = preparation.site;
    let (old, new) = preparation.sides();
    verify::check_exchange(&site.context(&[]), old, new)?;
    let (Some(old), Some(new)) = (patchable_jump.of_site(old), patchable_jump.of_site(new)) else {
        return Err(refused(site, "it has no patchable jump"));
    };
    if !exchange::allowed(site.module().arch(), &old, &new) {
        return Err(refused(
            site,
            "its patchable jump is no nop or jump that may be exchanged",
        ));
    }
    let memory = site.memory()?;
    let exchange = JumpExchange::new(memory, patchable_jump.addr, (&old, &new), None);
    preparation.exchange = Some(Box::new(exchange));
    Ok(patchable_jump.end())
}

fn refused(site: &Site, what: &'static str) -> Error {
    verify::Error::Exchange {
        site: site.name(),
        what,
    }
    .into()
}

// ---- committing ----

/// Exchanges the patchable jumps of the live sites, or none. What the new patchable jumps branch to
/// is in every instruction cache before they are.
#[inline(never)] // Most transactions have none.
pub(super) fn exchange(publisher: &Publisher, set: &mut ChangeSet) -> Outcome {
    // protection: live-old-bytes-are-compared
    compare(set, Side::Old)?;
    let maintained = publisher.maintain(set.outside());
    set.found.check(maintained)?;
    let _stage = latency::enter(Stage::Write);
    let exchanges = set
        .live()
        .iter()
        .map(|change| change.exchange.as_ref().or_abort(HAS_EXCHANGE));
    let mut made = exchanges.map(|exchange| exchange.make()).enumerate();
    let refused = made.find_map(|(at, made)| Some((at, made.err()?)));
    let Some((at, cause)) = refused else {
        return Ok(());
    };
    let noted = set.found.note(Fault::Refused(cause));
    // protection: live-failure-takes-the-others-back
    undo_some(publisher, set, at, Level::Eventual);
    Err(noted)
}

const HAS_EXCHANGE: &str = "the change of a live site has an exchange";

/// Compares the live sites with one of their sides.
fn compare(set: &mut ChangeSet, side: Side) -> Outcome {
    let (found, writes) = (&mut set.found, &set.writes);
    let both = set.changes.iter().zip(writes).enumerate();
    for (number, (change, write)) in both.skip(set.quiescent) {
        let memory = &change.exchange.as_ref().or_abort(HAS_EXCHANGE).memory;
        match memory.holds(write.at, write.side(side)) {
            Ok(true) => {}
            Ok(false) => {
                let read = |at, into: &mut [u8]| memory.get().read(at, into);
                return Err(found.note_changed(writes, number, side, read));
            }
            Err(error) => return found.check(Err(error)),
        }
    }
    Ok(())
}

/// Publishes what was exchanged, and compares the sites with what they have become.
#[inline]
pub(super) fn publish(publisher: &Publisher, set: &mut ChangeSet) -> Outcome {
    let published = publisher.publish(&set.ranges, set.level);
    set.found.check(published)?;
    // protection: live-exchange-is-read-back
    compare(set, Side::New)
}

/// Rolls back the exchanges of a transaction that has failed after them.
#[cold]
pub(super) fn undo(publisher: &Publisher, set: &mut ChangeSet) {
    undo_some(publisher, set, set.live().len(), set.level);
}

/// Rolls back the first so many exchanges. Sites whose patchable jump resists are given their fate.
#[cold]
fn undo_some(publisher: &Publisher, set: &mut ChangeSet, count: usize, level: Level) {
    for change in set.live_mut().iter_mut().take(count).rev() {
        let exchange = change.exchange.as_ref().or_abort(HAS_EXCHANGE);
        if exchange.undo().is_err() {
            let new = &change.installed.bytes;
            change.fate = Some(match exchange.memory.get().holds(change.range.start(), new) {
                Ok(true) => Fate::New,
                _ => Fate::Unknown,
            });
        }
    }
    set.exposed = count > 0;
    if set.exposed {
        // Where this fails, threads may for a bounded time go on as by the new patchable jump; what
        // it branches to stays.
        let _ = publisher.publish(&set.ranges, level);
    }
}

/// Retires what a transaction that was rolled back has made: threads may have gone there while it
/// was reachable.
#[cold]
pub(super) fn retire(set: &mut ChangeSet, states: &mut States, time: Option<Instant>) {
    trap::keep_exit_stubs(set, states);
    let since = (Moment::now(), time);
    for change in set.live_mut() {
        let exit_stubs = change
            .exit_stubs
            .drain(..)
            .map(|exit_stub| RetiredCode::exit_stub(exit_stub, since));
        let stub = change.installed.stub.take();
        let stub = stub.map(|stub| RetiredCode::stub(stub, since));
        for retired_code in exit_stubs.chain(stub) {
            states
                .retired
                .retire(Until::Reported(QuiescentState::Quiescent), retired_code);
        }
    }
}

impl JumpExchange {
    /// An exchange of bytes at an address, which lie in one quadword.
    pub(super) fn new(
        memory: &Arc<dyn CodeMemory>,
        addr: CodeAddr,
        (old, new): (&[u8], &[u8]),
        trap: Option<CodeAddr>,
    ) -> Self {
        let word = CodeAddr::new(addr.get() & !7);
        let into = addr.distance_from(word) as usize;
        assert!(
            // protection: a-patchable-jump-lies-in-one-quadword
            old.len() == new.len() && into + new.len() <= 8,
            "a patchable jump lies in one quadword, see `Backend::plan_patchable_jump`"
        );
        let in_word = |bytes: &mut dyn Iterator<Item = u8>| {
            let mut word = [0; 8];
            let part = word.iter_mut().skip(into);
            part.zip(bytes).for_each(|(to, from)| *to = from);
            u64::from_ne_bytes(word)
        };
        Self {
            memory: HeldMemory::of(memory),
            word,
            mask: in_word(&mut old.iter().map(|_| 0xff)),
            old: in_word(&mut old.iter().copied()),
            new: in_word(&mut new.iter().copied()),
            range: CodeRange::new(addr, old.len() as u64).expect("a quadword's bytes have addresses"),
            trap,
        }
    }

    pub(super) fn is_trap(&self) -> bool {
        self.trap.is_some()
    }

    fn make(&self) -> Result<()> {
        self.store(self.old, self.new)
    }

    fn undo(&self) -> Result<()> {
        self.store(self.new, self.old)
    }

    #[inline]
    fn store(&self, old: u64, new: u64) -> Result<()> {
        match &self.memory {
            HeldMemory::Own(alias) => self.store_in(alias, old, new),
            HeldMemory::Other(memory) => {
                let memory = memory.live().ok_or_else(|| self.no_store())?;
                self.store_in(memory, old, new)
            }
        }
    }

    /// Writes bytes that no thread executes.
    fn write_unexecuted(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        match &self.memory {
            HeldMemory::Own(alias) => Ok(alias.write_unexecuted(at, bytes)?),
            HeldMemory::Other(memory) => {
                let memory = memory.live().ok_or_else(|| self.no_store())?;
                Ok(memory.write_unexecuted(at, bytes)?)
            }
        }
    }

    /// One aligned store. The rest of the quadword is what it holds: neighbours under the same
    /// lock.
    #[inline]
    fn store_in(&self, memory: &(impl LiveMemory + ?Sized), old: u64, new: u64) -> Result<()> {
        let mut word = [0; 8];
        memory.read(self.word, &mut word)?;
        let others = u64::from_ne_bytes(word) & !self.mask;
        Ok(memory.exchange(
            self.word,
            (others | old).to_ne_bytes(),
            (others | new).to_ne_bytes(),
        )?)
    }

    #[cold]
    fn no_store(&self) -> Error {
        Error::Memory(crate::memory::Error::NoAtomicStore {
            strategy: self.memory.get().strategy().name(),
            at: self.word,
            why: "it is no LiveMemory any more",
            mend: "answer the same in every call of `live`",
        })
    }

    pub(super) fn range(&self) -> CodeRange {
        self.range
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
