//! Live sites: changed while threads execute them. The one protocol for it, of four steps.
//!
//! Problem: threads execute a site while it is changed, and none is to be stopped. Several
//! instructions cannot be exchanged by one store; a thread may be between any two of them, for as
//! long as it likes; and a core goes on with what it has fetched until it serializes. Approach: the
//! new code is put into a stub first, and every change consists of these steps, of which most need
//! only the first:
//!
//! 1. **Close.** One store to the site's *gate* sends every thread that arrives to the stub. The
//!    change is in effect. The gate is the patchable jump, where old and new instruction may be
//!    exchanged under execution and lie in one quadword; else a trap, whose handler sends threads
//!    on.
//! 2. **Wait** one grace period, so that no thread is behind the gate. Not needed where the bytes
//!    that change are one instruction, which [`verify::check_rewrite`] tells from the bytes.
//! 3. **Rewrite** what is behind the gate. All cores serialize before it and after it, once for
//!    however many sites.
//! 4. **Open.** One store makes the gate the first bytes of the new code.
//!
//! | what is done | steps | where |
//! |---|---|---|
//! | a patch, a restore, an invalidation, by a patchable jump; a call to another function | 1 | here, [`super::calls`] |
//! | the same behind a trap: five bytes in two quadwords | 1, 3, 4 in one transaction | [`gate`] |
//! | the same where threads may be between the bytes | 1; [`settle`] does the others | [`gate`] |
//! | settling: installed code moves from its stub into the site | 2, 3, 4 | [`settle`] |
//! | the invalidation of a shadow | 1; [`settle`] makes a jump of the trap | [`trap`] |
//!
//! The stores and barriers themselves, and how each is undone, are in [`exchange`]. Before all of
//! them a site is [armed](arm). Code that has not run is rewritten then, as nops, one patchable
//! jump, nops; code that may be running is not written, and gets the gate that its bytes allow.
//!
//! Invariants: what is executed changes only in a gate, and only between instructions that the
//! architecture lets be exchanged (checked by `verify::check_exchange` and `verify::check_trap`,
//! which know nothing of this module). A stub is complete before a gate goes to it and is retired,
//! not freed, when it does no more. No call is in a site that was armed before it ran or was
//! settled, so no return address points into one; where original calls are in a site, it is
//! rewritten when no thread has frames any more.
//!
//! The order of these steps, and of those that bring code into a site and reclaim stubs, is that of
//! a model whose states are all explored: see `crates/live-model`, where each step is left out
//! once.

mod arm;
mod exchange;
mod gate;
mod settle;
mod trap;

use std::sync::Arc;

use smallvec::SmallVec;

pub(super) use arm::{Arming, arm};
pub(super) use exchange::{JumpExchange, LiveRoom, exchange, publish, retire, undo};
pub use settle::Settled;
pub(super) use settle::Settling;
pub(super) use trap::{forget_trap, forget_traps, note_opened, note_traps};

use super::calls::Gate;
use super::lower::CodePlace;
use super::prepare::{Preparation, filled_wrong};
use super::requests::Request;
use super::state::Status;
use crate::addr::{CodeAddr, Len};
use crate::arch::{self, Declared, DeclaredTarget, OnReturn};
use crate::latency::{self, Stage};
use crate::memory::StubSlot;
use crate::memory::short;
use crate::memory::short::Bytes;
use crate::sequence::{self, Environment, Sequence};
use crate::site::Site;
use crate::verify::{self, Chunk, Place};
use crate::{Error, Result};
use patchpoint_asm::backend::Backend;
use patchpoint_asm::backend_of;
use patchpoint_asm::live::{JumpBytes, PatchableJump};

/// What arming has made of a site.
pub(super) struct Armed {
    /// What is exchanged: it is in the site, or in its gate.
    pub(super) patchable_jump: PatchableJump,
    /// Whether a trap is the gate while it is exchanged: then it may lie in two quadwords.
    pub(super) is_trapped: bool,
    pub(super) original: OriginalCode,
    /// What the site held before.
    pub(super) displaced: Arc<[u8]>,
    /// What it holds, or its gate, until it is changed.
    pub(super) form: Arc<[u8]>,
    /// Of a call whose distance cannot be exchanged.
    pub(super) gate: Option<Gate>,
    /// The code that the site held, where that was more than nops; gates, and the stubs by which
    /// they reach their targets.
    pub(super) stubs: SmallVec<[StubSlot; 1]>,
}

/// Where the code is that a live site held when it was armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OriginalCode {
    /// There is none, only nops.
    Nops,
    /// In a stub.
    Stub(CodeAddr),
    /// In the site only, behind the patchable jump too.
    InPlace,
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
        Request::Restore => restore(preparation, armed),
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
    let to = match fill(preparation, sequence, &environment)? {
        Some(stub) => stub,
        None => assemble(preparation, patchable_jump, sequence, &environment)?,
    };
    let used = close(preparation, patchable_jump, to)?;
    preparation.describe(status, Some(sequence));
    Ok(used)
}

/// A stub with the sequence, by a template; `None` if there is none that can be filled, or the
/// site's gate was not checked yet.
fn fill(
    preparation: &mut Preparation<'_>,
    sequence: &Sequence,
    environment: &Environment,
) -> Result<Option<CodeAddr>> {
    let (site, lasting) = (preparation.site, &preparation.state.lasting);
    let (outline, templates) = (sequence.outline(), preparation.templates.borrow());
    let kind = lasting.armed_kind().filter(|_| outline.is_whole());
    let Some(kind) = kind.filter(|kind| templates.gate(*kind).is_some()) else {
        return Ok(None);
    };
    let stage = latency::enter(Stage::Assemble);
    let Some(template) = templates.template((kind, outline), &lasting.template) else {
        return Ok(None);
    };
    let (pool, mut room) = (&preparation.shared.stubs, preparation.stub_room.borrow_mut());
    let at = room.next(pool, template.len(), lasting.range)?;
    let mut code = Bytes::new();
    let place = Place::Stub {
        at,
        site: lasting.range,
    };
    match template.fill(place, outline, environment, &mut code) {
        Some(true) => {}
        Some(false) => return Err(filled_wrong(site)),
        None => return Ok(None),
    }
    stage.end();
    let slot = room.fill(pool, &code)?;
    drop(room);
    let (owner, len) = (preparation.owner(), template.len());
    let mut stub = preparation.live_room.borrow_mut().stub(slot, owner, len);
    stub.calls = template.calls;
    preparation.new.stub = Some(stub);
    Ok(Some(at))
}

/// A stub with the sequence, assembled and checked: together with the site that jumps there, where that
/// is not known to do nothing else. The second time that one like it is asked for at this kind of site, it is kept as a template.
fn assemble(
    preparation: &mut Preparation<'_>,
    patchable_jump: PatchableJump,
    sequence: &Sequence,
    environment: &Environment,
) -> Result<CodeAddr> {
    let (site, templates) = (preparation.site, preparation.templates);
    let kind = preparation.state.lasting.armed_kind();
    let kind = kind.filter(|_| sequence.outline().is_whole());
    let again = kind.filter(|kind| preparation.is_for_template(*kind, sequence));
    let place = CodePlace::Stub(patchable_jump);
    let knows_gate = preparation.knows_gate();
    let lowered = preparation.lower((place, knows_gate), again.is_some(), sequence, environment)?;
    let assembled = &lowered.assembled;
    let stub = lowered.stub.expect("what is lowered for a stub is in one");
    let addr = stub.slot.addr();
    let code = assembled
        .stub
        .as_ref()
        .expect("what is in a stub was assembled for one");
    let mut templates = templates.borrow_mut();
    if let Some(kind) = kind.filter(|_| !knows_gate) {
        templates.keep_gate(kind, site, &assembled.code, (patchable_jump, addr));
    }
    if let (Some(kind), Some(holes)) = (again, &lowered.holes) {
        let bytes = &*code.bytes;
        let code = (Chunk { addr, bytes }, &**holes, &assembled.declared);
        templates.keep_stub((kind, sequence), site, environment, code);
    }
    preparation.new.stub = Some(stub);
    Ok(addr)
}

/// The bytes of a site as they are for a thread that arrives: with a jump there, before nops. What
/// was settled behind the jump, and was checked then, is executed only by threads that are there.
pub(super) fn going_to(site: &Site, patchable_jump: PatchableJump, to: CodeAddr) -> Result<Vec<u8>> {
    let gate = jump(site, patchable_jump, to)?;
    Ok(patchable_jump.armed(site.module().arch(), site.reserved(), gate))
}

fn invalidate(preparation: &mut Preparation<'_>, patchable_jump: PatchableJump) -> Result<Len> {
    let exit_stub = preparation.invalidation_exit_stub()?;
    check_exit(preparation, patchable_jump, exit_stub)?;
    let used = close(preparation, patchable_jump, exit_stub)?;
    let installed = preparation.installed_sequence();
    preparation.describe(Status::Invalidated, installed.as_ref());
    Ok(used)
}

/// Checks the site that jumps to its exit stub, once for each kind of site: what is before the jump
/// is the same in all of them.
fn check_exit(preparation: &mut Preparation<'_>, patchable_jump: PatchableJump, to: CodeAddr) -> Result<()> {
    let (site, templates) = (preparation.site, preparation.templates);
    if preparation.knows_gate() {
        return Ok(());
    }
    let code = going_to(site, patchable_jump, to)?;
    let exit = DeclaredTarget {
        addr: to,
        on_return: OnReturn::Never,
    };
    let declared = Declared {
        targets: vec![exit],
        ..Declared::default()
    };
    let stage = latency::enter(Stage::Verify);
    verify::check(&site.context(&[]), &code, &[], &declared)?;
    stage.end();
    if let Some(kind) = preparation.state.lasting.armed_kind() {
        let mut templates = templates.borrow_mut();
        templates.keep_gate(kind, site, &code, (patchable_jump, to));
    }
    Ok(())
}

/// The armed form comes back, whose bytes were checked when the site was armed. Where its patchable
/// jump goes on to nops, and there is code that was settled, it jumps over that.
fn restore(preparation: &mut Preparation<'_>, armed: &Armed) -> Result<Len> {
    let (site, state) = (preparation.site, preparation.state);
    let original = state.original(site);
    let patchable_jump = armed.patchable_jump;
    let used = if armed.is_trapped {
        let to = match armed.original {
            OriginalCode::Stub(at) => at,
            OriginalCode::Nops | OriginalCode::InPlace => site.end(),
        };
        gate::change(preparation, patchable_jump, to, true)?
    } else {
        let gate = patchable_jump.of_site(original);
        let mut gate = gate.ok_or_else(|| refused(site, "it has no patchable jump"))?;
        let behind = patchable_jump.end().as_usize()..;
        let is_settled = preparation.old.bytes.get(behind.clone()) != original.get(behind);
        if is_settled && armed.original == OriginalCode::Nops {
            gate = jump(site, patchable_jump, site.end())?;
        }
        put_gate(preparation, patchable_jump, gate);
        finish(preparation, patchable_jump)?
    };
    preparation.describe(Status::Original, None);
    Ok(used)
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
    let mut bytes = preparation.old.bytes.clone();
    // protection: what-is-behind-a-gate-stays
    patchable_jump.put(gate, &mut bytes);
    preparation.put(&bytes, &[]);
}

/// Makes the gate go to `to`, a stub that was checked with its site, or an exit stub.
fn close(preparation: &mut Preparation<'_>, patchable_jump: PatchableJump, to: CodeAddr) -> Result<Len> {
    let (site, lasting) = (preparation.site, &preparation.state.lasting);
    let armed = lasting.live.as_ref();
    if armed.is_some_and(|armed| armed.is_trapped) {
        return gate::change(preparation, patchable_jump, to, false);
    }
    let templates = preparation.templates.borrow();
    if let Some(gate) = lasting.armed_kind().and_then(|kind| templates.gate(kind)) {
        let new = &mut preparation.new.bytes;
        short::assign(new, &preparation.old.bytes);
        patchable_jump.put(jump(site, patchable_jump, to)?, new);
        if gate.admits(lasting.range, to, preparation.sides()) {
            return exchange_jump(preparation, patchable_jump);
        }
        check_gate(preparation, to, &preparation.new.bytes)?;
    }
    drop(templates);
    put_gate(preparation, patchable_jump, jump(site, patchable_jump, to)?);
    finish(preparation, patchable_jump)
}

/// Checks that these bytes of the site go to `to`, where gates of its kind are known: the stub was checked
/// without them.
fn check_gate(preparation: &Preparation<'_>, to: CodeAddr, bytes: &[u8]) -> Result<()> {
    let (lasting, templates) = (&preparation.state.lasting, preparation.templates.borrow());
    let gate = lasting.armed_kind().and_then(|kind| templates.gate(kind));
    // protection: a-known-gate-goes-to-its-stub
    match gate.is_none_or(|gate| gate.goes_to(lasting.range, to, bytes)) {
        true => Ok(()),
        false => Err(filled_wrong(preparation.site)),
    }
}

/// Checks the exchange, by the checker's rule and by the architecture's table, and makes it part of
/// the change.
fn finish(preparation: &mut Preparation<'_>, patchable_jump: PatchableJump) -> Result<Len> {
    let site = preparation.site;
    let (old, new) = preparation.sides();
    let (Some(before), Some(after)) = (patchable_jump.of_site(old), patchable_jump.of_site(new)) else {
        return Err(refused(site, "it has no patchable jump"));
    };
    if !arch::exchange::allowed(site.module().arch(), &before, &after) {
        return Err(refused(
            site,
            "its patchable jump is no nop or jump that may be exchanged",
        ));
    }
    let kind = preparation.state.lasting.armed_kind();
    let mut templates = preparation.templates.borrow_mut();
    templates.check_exchange(kind, site, (old, new))?;
    drop(templates);
    exchange_jump(preparation, patchable_jump)
}

/// Makes the exchange of the patchable jump, which was checked, part of the change.
fn exchange_jump(preparation: &mut Preparation<'_>, patchable_jump: PatchableJump) -> Result<Len> {
    let site = preparation.site;
    let (old, new) = preparation.sides();
    let bytes = patchable_jump.offset.as_usize()..patchable_jump.end().as_usize();
    let (Some(old), Some(new)) = (old.get(bytes.clone()), new.get(bytes)) else {
        return Err(refused(site, "it has no patchable jump"));
    };
    let addr = patchable_jump.addr;
    let memory = site.memory_at(addr)?;
    let mut room = preparation.live_room.borrow_mut();
    preparation.exchange = Some(room.exchange(memory, addr, (old, new)));
    Ok(patchable_jump.end())
}

fn refused(site: &Site, what: &'static str) -> Error {
    verify::Error::Exchange {
        site: site.name(),
        what,
    }
    .into()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
