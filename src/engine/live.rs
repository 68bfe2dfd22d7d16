//! Live sites: armed before their code first runs, and changed by exchanging one instruction.
//!
//! Problem: threads execute a site while it is changed, and none is to be stopped. Approach: arming
//! rewrites the site once, while nobody can execute it, as nops, one patchable jump, nops.
//! Afterwards a sequence always stands in a stub; a patch fills a fresh stub, publishes it, and
//! exchanges the patchable jump by one aligned store.
//!
//! Invariants: after arming, the bytes of a site change only in its patchable jump, and only
//! between instructions that the architecture lets be exchanged (checked by
//! `verify::check_exchange`, which knows nothing of this module); a stub is complete before a
//! patchable jump leads to it and is retired, not freed, when it does no more; no call stands in a
//! live site, so no return address points into one.
//!
//! Call sites are exchanged in their operand, or have a patchable jump elsewhere: see
//! [`super::calls`].
//!
//! Shadows of a live module hold the function's own instructions and are not armed: they can only
//! be invalidated, by a [`trap`].

mod arm;
mod trap;

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

pub(super) use arm::{Arming, arm};
pub(super) use trap::{forget_trap, forget_traps, note_traps};

use super::calls::Gate;
use super::fault::{Fault, Outcome};
use super::prepare::Preparation;
use super::retire::{RetiredCode, Until};
use super::state::{States, Status, Stub};
use super::transaction::Change;
use super::work::{Kind, Work};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::{Declared, DeclaredTarget, OnReturn, RegSet, exchange};
use crate::error::{Error, Fate, Result};
use crate::invariant::OrAbort;
use crate::latency::{self, Stage};
use crate::memory::{CodeMemory, Side, StubSlot};
use crate::publish::{Level, Moment, Publisher, QuiescentState};
use crate::sequence::{self, Assembled, Sequence};
use crate::site::Site;
use crate::verify;
use patchpoint_asm::backend::Backend;
use patchpoint_asm::backend_of;
use patchpoint_asm::live::{JumpBytes, PatchableJump};

/// What arming has made of a site.
pub(super) struct Armed {
    /// What is exchanged: it stands in the site, or in its gate.
    pub(super) patchable_jump: PatchableJump,
    /// Of a call whose distance cannot be exchanged.
    pub(super) gate: Option<Gate>,
    /// The code that stood in the site, where that was more than nops; gates, and what they lead
    /// through.
    pub(super) stubs: SmallVec<[StubSlot; 1]>,
}

/// The exchange of the bytes of one instruction: a patchable jump, or the first bytes of a shadow
/// for a trap. The bytes lie in one quadword.
pub(super) struct JumpExchange {
    memory: Arc<dyn CodeMemory>,
    /// The number of the item.
    item: usize,
    /// The quadword.
    word: CodeAddr,
    /// The bits that change; zeros elsewhere in `old` and `new`.
    mask: u64,
    old: u64,
    new: u64,
    range: CodeRange,
    /// Where the trap leads, if it is one.
    trap: Option<CodeAddr>,
}

/// The site's architecture.
fn backend(site: &Site) -> &'static dyn Backend {
    backend_of(site.module().arch())
}

// ---- preparing ----

/// Prepares the change of a site of a live module.
pub(super) fn change(preparation: &mut Preparation<'_>, change: Change<&Sequence>) -> Result<Len> {
    let Some(armed) = &preparation.state.lasting.live else {
        return trap::change(preparation, change);
    };
    let patchable_jump = armed.patchable_jump;
    match change {
        Change::Patch(sequence) => patch(preparation, patchable_jump, sequence, Status::Patched),
        Change::Redirect(sequence) => patch(preparation, patchable_jump, sequence, Status::Redirected),
        Change::Restore => restore(preparation, patchable_jump),
        Change::Invalidate => invalidate(preparation, patchable_jump),
        Change::Retarget(_) => Err(Error::CallSiteOnly {
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
    preparation.made.stub = Some(Stub::empty(slot, preparation.owner()));
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
    lead(preparation, patchable_jump, addr, assembled)?;
    preparation.stand_for(status, Some(sequence));
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
    lead(preparation, patchable_jump, exit_stub, assembled)?;
    let installed = preparation.installed_sequence();
    preparation.stand_for(Status::Invalidated, installed.as_ref());
    finish(preparation, patchable_jump)
}

/// The armed form comes back, whose bytes were checked when the site was armed.
fn restore(preparation: &mut Preparation<'_>, patchable_jump: PatchableJump) -> Result<Len> {
    let armed = &preparation.state.lasting.original;
    preparation.put(armed, &[]);
    preparation.stand_for(Status::Original, None);
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

/// Puts what is to stand in the site, whose patchable jump jumps to `to`.
fn lead(
    preparation: &mut Preparation<'_>,
    patchable_jump: PatchableJump,
    to: CodeAddr,
    mut assembled: Assembled,
) -> Result<()> {
    let site = preparation.site;
    let arch = site.module().arch();
    assembled.code = patchable_jump.armed(arch, site.reserved(), jump(site, patchable_jump, to)?);
    let assembled = preparation.check_and_fill(&site.context(&[]), assembled)?;
    preparation.put(&assembled.code, &assembled.return_offsets);
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
    let memory = Arc::clone(site.memory()?);
    preparation.made.live = Some(JumpExchange::new(memory, patchable_jump.addr, (&old, &new), None));
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

/// Exchanges the patchable jumps of the live sites, or none. What the new patchable jumps lead to
/// is in every instruction cache before they are.
#[inline]
pub(super) fn exchange(publisher: &Publisher, work: &mut Work) -> Outcome {
    match work.kind {
        Kind::Quiescent => Ok(()),
        Kind::Live | Kind::Both => exchange_some(publisher, work),
    }
}

#[inline(never)]
fn exchange_some(publisher: &Publisher, work: &mut Work) -> Outcome {
    // protection: live-old-bytes-are-compared
    work.compare_live(Side::Old)?;
    work.found.check(publisher.maintain(&work.outside))?;
    let _stage = latency::enter(Stage::Write);
    for (at, exchange) in work.exchanges.iter().enumerate() {
        if let Err(cause) = exchange.make() {
            let noted = work.found.note(Fault::Refused(cause));
            // protection: live-failure-takes-the-others-back
            undo_some(publisher, work, at, Level::Eventual);
            return Err(noted);
        }
    }
    Ok(())
}

/// Publishes what was exchanged, and compares the sites with what they have become.
#[inline]
pub(super) fn publish(publisher: &Publisher, work: &mut Work) -> Outcome {
    let published = publisher.publish(&work.ranges, work.level);
    work.found.check(published)?;
    // protection: live-exchange-is-read-back
    work.compare_live(Side::New)
}

/// Rolls back the exchanges of a transaction that has failed after them.
#[cold]
pub(super) fn undo(publisher: &Publisher, work: &mut Work) {
    undo_some(publisher, work, work.exchanges.len(), work.level);
}

/// Rolls back the first so many exchanges. Sites whose patchable jump resists are given their fate.
#[cold]
fn undo_some(publisher: &Publisher, work: &mut Work, count: usize, level: Level) {
    let done = work.exchanges.iter().take(count).rev();
    for exchange in done.filter(|exchange| exchange.take_back().is_err()) {
        let item = work.items.get_mut(exchange.item);
        let both = item.zip(work.parts.get(exchange.item));
        let (item, part) = both.or_abort("an exchange is of one of the items");
        let new = &part.installed.bytes;
        item.fate = Some(match exchange.memory.holds(part.range.start(), new) {
            Ok(true) => Fate::New,
            _ => Fate::Unknown,
        });
    }
    work.exposed = count > 0;
    if work.exposed {
        // Where this fails, threads may for a bounded time go on as by the new patchable jump; what
        // it leads to stays.
        let _ = publisher.publish(&work.ranges, level);
    }
}

/// Retires what a transaction that was rolled back has made: threads may have gone there while it was
/// reachable.
#[cold]
pub(super) fn retire(work: &mut Work, states: &mut States, time: Option<Instant>) {
    trap::keep_exit_stubs(work, states);
    let since = (Moment::now(), time);
    let both = work.items.iter_mut().zip(&mut work.parts);
    for (item, part) in both.filter(|(item, _)| item.is_live) {
        let exit_stubs = item
            .exit_stubs
            .drain(..)
            .map(|exit_stub| RetiredCode::exit_stub(exit_stub, since));
        let stub = part.take_stub().map(|stub| RetiredCode::stub(stub, since));
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
        memory: Arc<dyn CodeMemory>,
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
            memory,
            item: 0,
            word,
            mask: in_word(&mut old.iter().map(|_| 0xff)),
            old: in_word(&mut old.iter().copied()),
            new: in_word(&mut new.iter().copied()),
            range: CodeRange::new(addr, old.len() as u64).expect("a quadword's bytes have addresses"),
            trap,
        }
    }

    /// The same as part of a transaction, for the item of that number.
    pub(super) fn of_item(self, item: usize) -> Self {
        Self { item, ..self }
    }

    pub(super) fn is_trap(&self) -> bool {
        self.trap.is_some()
    }

    fn make(&self) -> Result<()> {
        self.store(self.old, self.new)
    }

    fn take_back(&self) -> Result<()> {
        self.store(self.new, self.old)
    }

    /// One aligned store. The rest of the quadword is what stands there: neighbours under the same
    /// lock.
    fn store(&self, old: u64, new: u64) -> Result<()> {
        let memory = self.memory.live().ok_or_else(|| self.no_store())?;
        let mut word = [0; 8];
        memory.read(self.word, &mut word)?;
        let rest = u64::from_ne_bytes(word) & !self.mask;
        Ok(memory.exchange(self.word, (rest | old).to_ne_bytes(), (rest | new).to_ne_bytes())?)
    }

    #[cold]
    fn no_store(&self) -> Error {
        Error::Memory(crate::memory::Error::NoAtomicStore {
            strategy: self.memory.strategy().name(),
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
