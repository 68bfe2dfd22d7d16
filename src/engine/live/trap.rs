//! The live invalidation of a shadow, by a trap in place of its first instruction.
//!
//! Problem: a shadow holds the function's own instructions, at any of which threads may be, so that
//! no jump of several bytes can be put over them. Approach: only the first bytes change, no more
//! than any instruction has, by the same aligned store that exchanges patchable jumps; a thread
//! that executes the trap is sent to the site's exit stub by the process's
//! [handler](crate::publish), with all registers as they were, and a thread that is past it goes on
//! undisturbed.
//!
//! Invariants: the trap is in the handler's table before it is written, and stays there until its
//! module goes, also when it has been rolled back: a thread may have executed it in between.

use super::super::change::{ChangeSet, SiteChange};
use super::super::prepare::Preparation;
use super::super::state::{States, Status};
use super::super::transaction::Request;
use super::{CodeAddr, Error, JumpExchange, Len, Result, Sequence, Site};
use crate::arch::exchange;
use crate::publish::Publisher;
use crate::verify;

/// Prepares the change of a shadow of a live module.
pub(super) fn change(preparation: &mut Preparation<'_>, request: Request<&Sequence>) -> Result<Len> {
    match request {
        Request::Invalidate => invalidate(preparation),
        // protection: shadow-is-invalidated-only
        Request::Patch(_) | Request::Restore | Request::Redirect(_) | Request::Retarget(_) => {
            Err(Error::Site(crate::site::Error::ShadowNotArmed {
                site: preparation.site.name(),
            }))
        }
    }
}

fn invalidate(preparation: &mut Preparation<'_>) -> Result<Len> {
    let site = preparation.site;
    if preparation.shared.publisher.publication().is_none() {
        table::check(site)?;
    }
    let trap = exchange::trap(site.module().arch());
    let exit_stub = preparation.invalidation_exit_stub()?;
    let mut new = preparation.state.lasting.original.to_vec();
    let changed = new.get_mut(..trap.len()).ok_or_else(|| too_short(site, trap))?;
    let old = changed.to_vec();
    changed.copy_from_slice(trap);
    verify::check_trap(&site.context(&[]), &preparation.state.lasting.original, &new)?;
    let len = Len::new(trap.len() as u32);
    preparation.put(&new, &[]);
    preparation.describe(Status::Invalidated, None);
    let memory = super::arm::exchangeable_memory(site)?;
    let exchange = JumpExchange::new(&memory, site.addr(), (&old, trap), Some(exit_stub));
    preparation.exchange = Some(Box::new(exchange));
    Ok(len)
}

fn too_short(site: &Site, trap: &[u8]) -> Error {
    Error::Site(crate::site::Error::NoPatchableJump {
        site: site.name(),
        reserved: site.reserved(),
        needed: Len::new(trap.len() as u32),
    })
}

/// The traps among the changes of live sites: each with its address and its exit stub.
fn traps(live: &[SiteChange]) -> impl Iterator<Item = (&SiteChange, CodeAddr, CodeAddr)> {
    let trap = |change: &SiteChange| change.exchange.as_ref().and_then(|exchange| exchange.trap);
    live.iter()
        .filter_map(move |change| Some((change, change.range.start(), trap(change)?)))
}

/// Notes the traps of a transaction, before anything is written and no thread is stopped. The
/// transaction is known to be current: the note of another that was committed is not overwritten.
pub(in crate::engine) fn note_traps(publisher: &Publisher, live: &[SiteChange]) -> Result<()> {
    traps(live).try_for_each(|(_, site, exit_stub)| match publisher.publication() {
        Some(publication) => Ok(publication.set_trap(site, Some(exit_stub))?),
        None => table::note(site, exit_stub),
    })
}

/// Forgets the traps of a transaction none of whose bytes has been written: those that go to its
/// own exit stubs. A trap that goes to an exit stub which the site has had before is one that was
/// rolled back, of which a thread may have to ask still.
pub(in crate::engine) fn forget_traps(publisher: &Publisher, live: &[SiteChange]) {
    let noted = |site| match publisher.publication() {
        Some(publication) => publication.trap(site),
        None => table::exit_stub(site),
    };
    for (change, site, exit_stub) in traps(live) {
        let mut own = change.exit_stubs.iter();
        // protection: trap-of-another-is-kept
        let is_noted = noted(site) == Some(exit_stub);
        // protection: trap-that-was-seen-is-kept
        if is_noted && own.any(|own| own.slot.addr() == exit_stub) {
            forget(publisher, site);
        }
    }
}

/// Forgets the trap of a site whose module goes.
pub(in crate::engine) fn forget_trap(publisher: &Publisher, site: &Site) {
    forget(publisher, site.addr());
}

fn forget(publisher: &Publisher, site: CodeAddr) {
    match publisher.publication() {
        Some(publication) if publication.trap(site).is_some() => {
            // Where nobody executes the code any more, everything is forgotten.
            let _ = publication.set_trap(site, None);
        }
        Some(_) => {}
        None => table::forget(site),
    }
}

/// Keeps the exit stubs of traps that were rolled back with their sites: a thread may still be on
/// its way there.
pub(super) fn keep_exit_stubs(set: &mut ChangeSet, states: &mut States) {
    let is_trap = |change: &&mut SiteChange| change.exchange.as_deref().is_some_and(JumpExchange::is_trap);
    for change in set.live_mut().iter_mut().filter(is_trap) {
        states.keep_exit_stubs(change.index, &mut change.exit_stubs);
    }
}

/// The handler's table, where there is one.
#[cfg(target_os = "linux")]
mod table {
    use super::{CodeAddr, Result, Site};
    use crate::publish::trap::Traps;

    pub(super) fn check(_: &Site) -> Result<()> {
        Traps::install()?;
        Ok(())
    }

    pub(super) fn note(site: CodeAddr, exit_stub: CodeAddr) -> Result<()> {
        Traps::install()?.note(site, exit_stub);
        Ok(())
    }

    pub(super) fn exit_stub(site: CodeAddr) -> Option<CodeAddr> {
        Traps::install().ok()?.exit_stub(site)
    }

    pub(super) fn forget(site: CodeAddr) {
        if let Ok(traps) = Traps::install() {
            traps.clear(site);
        }
    }
}

/// Elsewhere there is none, and nothing gets past the check.
#[cfg(not(target_os = "linux"))]
mod table {
    use super::{CodeAddr, Error, Result, Site};

    pub(super) fn check(site: &Site) -> Result<()> {
        Err(Error::Site(crate::site::Error::ShadowNotArmed {
            site: site.name(),
        }))
    }

    pub(super) fn note(_: CodeAddr, _: CodeAddr) -> Result<()> {
        Ok(())
    }

    pub(super) fn exit_stub(_: CodeAddr) -> Option<CodeAddr> {
        None
    }

    pub(super) fn forget(_: CodeAddr) {}
}
