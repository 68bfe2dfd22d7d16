//! What the handler of traps is told, and the live invalidation of a shadow.
//!
//! Problem: a shadow holds the function's own instructions, at any of which threads may be, so that
//! no jump of several bytes can be put over them. Approach: only the first bytes change, no more
//! than any instruction has, by the same aligned store that exchanges patchable jumps; a thread
//! that executes the trap is sent to the site's exit stub by the process's
//! [handler](crate::publish), with all registers as they were, and a thread that is past it goes on
//! undisturbed. [`settle`](super::settle) makes a jump of the trap when none is any more.
//!
//! Invariants: the note of a trap is in the handler's table before it is written, and a note stays
//! there until its module goes, also when the trap is gone: a thread may have executed it in
//! between. That of a site which is open again says that it is executed again.

use super::super::Shared;
use super::super::change::{ChangeSet, SiteChange};
use super::super::prepare::Preparation;
use super::super::requests::Request;
use super::super::state::{States, Status};
use super::exchange::TrapNote;
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
    check(preparation.shared, site)?;
    let trap = exchange::trap(site.module().arch());
    let exit_stub = preparation.invalidation_exit_stub()?;
    let mut new = preparation.state.original(site).to_vec();
    let changed = new.get_mut(..trap.len()).ok_or_else(|| too_short(site, trap))?;
    let old = changed.to_vec();
    changed.copy_from_slice(trap);
    verify::check_trap(&site.context(&[]), preparation.state.original(site), &new)?;
    let len = Len::new(trap.len() as u32);
    preparation.put(&new, &[]);
    preparation.describe(Status::Invalidated, None);
    let memory = super::arm::exchangeable_memory(site)?;
    let exchange = JumpExchange::new(&memory, site.addr(), (&old, trap));
    let note = TrapNote {
        to: exit_stub,
        before: None,
        closes: true,
    };
    preparation.exchange = Some(Box::new(exchange.noting(note)));
    Ok(len)
}

/// Checks that there is a handler of traps, which is installed the first time.
pub(super) fn check(shared: &Shared, site: &Site) -> Result<()> {
    match shared.publisher.publication() {
        Some(_) => Ok(()),
        None => table::check(site),
    }
}

fn too_short(site: &Site, trap: &[u8]) -> Error {
    Error::Site(crate::site::Error::NoPatchableJump {
        site: site.name(),
        reserved: site.reserved(),
        needed: Len::new(trap.len() as u32),
    })
}

/// What is noted for changes of live sites, each with the site's address.
fn notes(live: &[SiteChange]) -> impl Iterator<Item = (&SiteChange, CodeAddr, TrapNote)> {
    let note = |change: &SiteChange| change.exchange.as_ref().and_then(|exchange| exchange.note());
    live.iter()
        .filter_map(move |change| Some((change, change.range.start(), note(change)?)))
}

/// Notes the traps of a transaction, before anything is written and no thread is stopped. The
/// transaction is known to be current: the note of another that was committed is not overwritten.
pub(in crate::engine) fn note_traps(publisher: &Publisher, live: &[SiteChange]) -> Result<()> {
    notes(live).try_for_each(|(_, site, note)| self::note(publisher, site, note.to))
}

/// Notes where the handler sends threads that execute a trap at that site.
pub(super) fn note(publisher: &Publisher, site: CodeAddr, to: CodeAddr) -> Result<()> {
    match publisher.publication() {
        Some(publication) => Ok(publication.set_trap(site, Some(to))?),
        None => table::note(site, to),
    }
}

/// Notes that a site is open: a thread that has executed its trap executes the site again.
pub(super) fn execute_again(publisher: &Publisher, site: CodeAddr) -> Result<()> {
    note(publisher, site, site)
}

/// Notes that the sites which were rewritten behind their traps are open. Where the world was
/// stopped this is done when it goes on, as the handler's table has a lock.
pub(in crate::engine) fn note_opened(publisher: &Publisher, live: &[SiteChange]) {
    let opened = |(change, ..): &(&SiteChange, CodeAddr, TrapNote)| change.is_rewritten();
    for (_, site, _) in notes(live).filter(opened) {
        // protection: an-opened-site-is-executed-again
        // Where this cannot be told, nobody executes the code any more.
        let _ = execute_again(publisher, site);
    }
}

/// Makes the notes of gates those that were in force before a transaction that was rolled back.
#[cold]
pub(super) fn note_again(publisher: &Publisher, live: &[SiteChange]) {
    for (change, site, note) in notes(live) {
        // Of a site in doubt what was made is kept.
        if let (Some(before), None) = (note.before, change.fate) {
            // protection: a-rolled-back-gate-has-its-note-again
            // Where this cannot be told, nobody executes the code any more.
            let _ = self::note(publisher, site, before);
        }
    }
}

/// Forgets the traps of a transaction none of whose bytes has been written: those that go to its
/// own exit stubs. A trap that goes to an exit stub which the site has had before is one that was
/// rolled back, of which a thread may have to ask still.
pub(in crate::engine) fn forget_traps(publisher: &Publisher, live: &[SiteChange]) {
    let noted = |site| match publisher.publication() {
        Some(publication) => publication.trap(site),
        None => table::exit_stub(site),
    };
    for (change, site, note) in notes(live) {
        let mut own = change.exit_stubs.iter();
        // protection: trap-of-another-is-kept
        let is_noted = noted(site) == Some(note.to);
        // protection: trap-that-was-seen-is-kept
        if is_noted && own.any(|own| own.addr() == note.to) {
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
    let is_trap = |change: &&mut SiteChange| change.exchange.as_deref().is_some_and(JumpExchange::notes_trap);
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

    /// The handler was installed when the site was armed, or its invalidation prepared.
    pub(super) fn note(site: CodeAddr, to: CodeAddr) -> Result<()> {
        match Traps::installed() {
            Some(traps) => traps.note(site, to),
            None => Traps::install()?.note(site, to),
        }
        Ok(())
    }

    pub(super) fn exit_stub(site: CodeAddr) -> Option<CodeAddr> {
        Traps::installed()?.exit_stub(site)
    }

    pub(super) fn forget(site: CodeAddr) {
        if let Some(traps) = Traps::installed() {
            traps.clear(site);
        }
    }
}

/// On other systems there is none, and nothing gets past the check.
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
