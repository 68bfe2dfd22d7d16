//! Gates that are traps: of live sites whose patchable jump cannot be one store.
//!
//! Problem: five bytes at any address, as a compiler's call or the nops at a function's entry are,
//! may lie in two quadwords; or they are several instructions in code that has run, so that threads
//! may be between them. Approach: the gate of such a site is a trap, which is no longer than any
//! instruction. Nothing is written when the site is armed. What the change of one is depends on the
//! site's old bytes:
//!
//! | the site is | its new form | by |
//! |---|---|---|
//! | open, and no thread can be between the bytes that change | the new bytes | trap, serialization, rewriting, serialization, first bytes: see [`super::exchange`] |
//! | open, and threads may be | a trap before the old bytes | one store; [`settle`](super::settle) makes a jump of it after a grace period |
//! | closed by such a trap | as it is | the handler's note |
//! | closed, and to be restored | the original bytes, which are behind the trap | one store |
//!
//! A thread at the trap goes where the note says; a thread behind it finishes the old bytes. A site
//! whose threads never report stays closed: correct, and as slow as a signal.
//!
//! Invariants: an open site of this kind holds its original bytes, or a jump before the rest of
//! them; a closed one a trap before its original bytes. A thread that is sent on by the handler
//! never finds less than the note's code: stubs are filled before they are noted, and retired when
//! another note is in force.

use super::exchange::TrapNote;
use super::{JumpExchange, OriginalCode, check_gate, jump, refused};
use crate::addr::{CodeAddr, Len};
use crate::arch::exchange;
use crate::engine::exit_stub::ExitStubKind;
use crate::engine::prepare::Preparation;
use crate::engine::state::{SiteState, Status};
use crate::memory::short::{self, Bytes};
use crate::site::Site;
use crate::verify;
use crate::{Error, Result};
use patchpoint_asm::live::PatchableJump;

/// Where a thread does what is installed in a site, if that is known: at its stub, its exit stub, or
/// where its original code is.
pub(super) fn continuation(state: SiteState<'_>) -> Option<CodeAddr> {
    let armed = state.lasting.live.as_ref();
    match state.installed.status {
        Status::Original => match armed?.original {
            OriginalCode::Nops => Some(state.lasting.range.end()),
            OriginalCode::Stub(at) => Some(at),
            OriginalCode::InPlace => None,
        },
        Status::Patched | Status::Redirected => Some(state.installed.stub.as_ref()?.slot.addr()),
        Status::Invalidated => state.exit_stub(ExitStubKind::Invalidated),
        Status::Lost => None,
    }
}

/// Whether a trap is in place of the site's first bytes.
pub(super) fn is_closed(site: &Site, state: SiteState<'_>) -> bool {
    state
        .installed
        .bytes
        .starts_with(exchange::trap(site.module().arch()))
}

/// Bytes of the site with a trap in place of the first ones; `None` if it is shorter than that.
fn closed(site: &Site, bytes: &[u8]) -> Option<Bytes> {
    let trap = exchange::trap(site.module().arch());
    let mut closed = short::of(bytes);
    closed.get_mut(..trap.len())?.copy_from_slice(trap);
    Some(closed)
}

/// Prepares the change by which threads go to `to`: as a jump, or in the original bytes if `restores`
/// says so.
pub(super) fn change(
    preparation: &mut Preparation<'_>,
    patchable_jump: PatchableJump,
    to: CodeAddr,
    restores: bool,
) -> Result<Len> {
    let (site, state) = (preparation.site, preparation.state);
    let trap = exchange::trap(site.module().arch());
    let (addr, original) = (site.addr(), state.original(site));
    let old = state.installed.bytes.clone();
    let mut new = short::of(original);
    if !restores {
        patchable_jump.put(jump(site, patchable_jump, to)?, &mut new);
        check_gate(preparation, to, &new)?;
    }
    let memory = site.memory()?;
    let first = |bytes: &[u8]| bytes.get(..trap.len()).map(short::of);
    let first = |bytes: &[u8]| first(bytes).ok_or_else(|| no_gate(site));
    let store = |old: &[u8], new: &[u8]| JumpExchange::new(memory, addr, (old, new));
    let note = |to, before, closes| TrapNote {
        to,
        before: Some(before),
        closes,
    };
    let exchange = if is_closed(site, state) {
        let before = continuation(state).ok_or_else(|| no_gate(site))?;
        if restores {
            check_trap(site, &new)?;
            preparation.put(&new, &[]);
            // Until it is open, it executes the trap once more.
            store(trap, &first(&new)?).noting(note(addr, before, false))
        } else {
            preparation.put(&old, &[]);
            store(trap, trap).noting(note(to, before, false))
        }
    } else {
        // Where it is a jump, nobody has been between its bytes for a grace period.
        let returns = *old == *original && returns_between(site, patchable_jump);
        // protection: threads-between-old-instructions-are-waited-for
        if !returns && may_rewrite(preparation, to, (&old, &new))? {
            preparation.put(&new, &[]);
            let exchange = store(&first(&old)?, &first(&new)?);
            exchange
                .noting(note(to, addr, false))
                .rewriting(trap, (&old, &new))
        } else {
            check_trap(site, &old)?;
            let closed = closed(site, &old).ok_or_else(|| no_gate(site))?;
            preparation.put(&closed, &[]);
            store(&first(&old)?, trap).noting(note(to, addr, true))
        }
    };
    preparation.exchange = Some(Box::new(exchange));
    Ok(patchable_jump.end())
}

/// Whether the old bytes may be rewritten as the new ones while a trap is in place of the first, with
/// no wait for threads between them. Decoding both takes longer than a barrier: where gates are alike,
/// it is done once.
fn may_rewrite(preparation: &Preparation<'_>, to: CodeAddr, (old, new): (&[u8], &[u8])) -> Result<bool> {
    let (site, lasting) = (preparation.site, &preparation.state.lasting);
    let templates = preparation.templates;
    let is_known = lasting.armed_kind().is_some_and(|kind| {
        let templates = templates.borrow();
        let gate = templates.gate(kind);
        gate.is_some_and(|gate| gate.admits_rewrite(lasting.range, to, (old, new)))
    });
    if is_known {
        return Ok(true);
    }
    if verify::check_rewrite(&site.context(&[]), old, new).is_err() {
        return Ok(false);
    }
    check_trap(site, old)?;
    check_trap(site, new)?;
    let mut templates = templates.borrow_mut();
    templates.note_rewrite(lasting.armed_kind(), site, (old, new))?;
    Ok(true)
}

/// Whether somebody may return between the bytes of the jump, as the runtime has told.
fn returns_between(site: &Site, patchable_jump: PatchableJump) -> bool {
    let end = patchable_jump.end().get();
    site.told_return_offsets().any(|at| at > 0 && at < end)
}

/// Checks that a trap may replace the first of these bytes, and be replaced by them.
fn check_trap(site: &Site, bytes: &[u8]) -> Result<()> {
    let closed = closed(site, bytes).ok_or_else(|| no_gate(site))?;
    Ok(verify::check_trap(&site.context(&[]), bytes, &closed)?)
}

/// What a site that is closed by a trap becomes when no thread is behind the trap any more: a jump
/// to where its threads go already. And by what it is opened.
pub(super) fn opening(
    site: &Site,
    state: SiteState<'_>,
    patchable_jump: PatchableJump,
) -> Result<(Bytes, JumpExchange)> {
    let trap = exchange::trap(site.module().arch());
    let to = continuation(state).ok_or_else(|| no_gate(site))?;
    let mut bytes = state.installed.bytes.clone();
    patchable_jump.put(jump(site, patchable_jump, to)?, &mut bytes);
    check_trap(site, &bytes)?;
    let first = bytes.get(..trap.len()).ok_or_else(|| no_gate(site))?;
    let exchange = JumpExchange::new(site.memory()?, site.addr(), (trap, first));
    Ok((bytes, exchange))
}

fn no_gate(site: &Site) -> Error {
    refused(site, "it cannot be closed by a trap")
}
