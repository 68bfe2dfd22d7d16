//! Arming: bringing the sites of a module into the form in which they can be changed live, before
//! it runs.
//!
//! Everything that can be refused is refused before the first byte is written; a write that fails
//! rolls back those before it.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Armed, backend, jump};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::SiteKind;
use crate::engine::Shared;
use crate::engine::calls::{self, Gate};
use crate::engine::state::{SiteState, States};
use crate::error::Fate;
use crate::memory::{CodeMemory, LiveMemory, StubSlot};
use crate::publish::Level;
use crate::site::{Module, Site};
use crate::verify::{self, Original};
use crate::{Error, Result};
use patchpoint_asm::live::{JumpBytes, PatchableJump};

/// A site about to be armed.
pub(in crate::engine) struct Arming {
    pub(in crate::engine) site: Site,
    pub(in crate::engine) memory: Arc<dyn CodeMemory>,
    pub(in crate::engine) patchable_jump: PatchableJump,
    pub(in crate::engine) gate: Option<Gate>,
    pub(in crate::engine) original: Arc<[u8]>,
    /// The bytes that the site gets.
    pub(in crate::engine) armed: Arc<[u8]>,
    /// The bytes that are changed from then on: the same, or those of its gate.
    pub(in crate::engine) installed: Arc<[u8]>,
    pub(in crate::engine) stubs: SmallVec<[StubSlot; 1]>,
}

impl Arming {
    /// Frees what was made for it: nothing branches there.
    pub(in crate::engine) fn discard(&mut self, shared: &Shared) {
        self.stubs.drain(..).for_each(|slot| shared.stubs.discard(slot));
    }
}

/// Arms every patchpoint, entry site and call of a module that has not run: all, or none.
pub(in crate::engine) fn arm(shared: &Shared, states: &mut States, module: &Module) -> Result<()> {
    let mut arming = Vec::new();
    let done = module
        .sites()
        .filter(|site| !site.shape().kind().displaces())
        .try_for_each(|site| {
            arming.push(plan(shared, site)?);
            Ok(())
        })
        .and_then(|()| write(&arming));
    let done = done.and_then(|()| {
        let sites = arming.iter().map(|arming| arming.site.range());
        let stubs = arming.iter().flat_map(|arming| &arming.stubs);
        let ranges: Vec<CodeRange> = sites.chain(stubs.map(StubSlot::range)).collect();
        // No thread has executed these bytes, so none can have fetched others.
        let published = shared.publisher.publish(&ranges, Level::Eventual);
        published.map_err(|cause| undo(arming.iter(), cause.into()))
    });
    if let Err(error) = done {
        // A site that did not get its bytes back branches to its stubs still: they stay, for good.
        if !matches!(error, Error::RollBackFailed { .. }) {
            // protection: arming-frees-its-stubs
            arming.iter_mut().for_each(|arming| arming.discard(shared));
        }
        return Err(error);
    }
    for arming in arming {
        let armed = Armed {
            patchable_jump: arming.patchable_jump,
            gate: arming.gate,
            stubs: arming.stubs,
        };
        let state = SiteState::armed(&arming.site, arming.original, arming.installed, armed);
        states.insert(arming.site.key(), state);
    }
    Ok(())
}

/// Everything about the arming of a site that can be refused.
fn plan(shared: &Shared, site: Site) -> Result<Arming> {
    // protection: armed-before-it-runs
    if site.module().is_released() {
        return Err(Error::ArmedTooLate { site: site.name() });
    }
    let live = backend(&site);
    let memory = Arc::clone(site.memory()?);
    if site.shape().kind() == SiteKind::Call {
        return calls::arm(shared, &site, memory);
    }
    let patchable_jump = site.plan_patchable_jump()?;
    check_memory(&site, &*memory, word(patchable_jump.addr))?;
    let original: Arc<[u8]> = site.read()?.into();
    let (stub, first) = match verify::original(site.module().arch(), site.addr(), &original)? {
        Original::Nops => (None, live.nop(patchable_jump)),
        // protection: displaced-original-is-kept
        Original::LlvmCall { .. } | Original::Instructions { .. } => {
            displace(shared, &site, patchable_jump, &original)?
        }
    };
    let armed: Arc<[u8]> = patchable_jump
        .armed(site.module().arch(), site.reserved(), first)
        .into();
    Ok(Arming {
        site,
        memory,
        patchable_jump,
        gate: None,
        original,
        installed: Arc::clone(&armed),
        armed,
        stubs: stub.into_iter().collect(),
    })
}

/// The memory of a site of which one byte is to be exchanged.
pub(super) fn exchangeable_memory(site: &Site) -> Result<Arc<dyn CodeMemory>> {
    let memory = site.memory()?;
    check_memory(site, &**memory, word(site.addr()))?;
    Ok(Arc::clone(memory))
}

/// The quadword that holds an address.
fn word(addr: CodeAddr) -> CodeAddr {
    CodeAddr::new(addr.get() & !7)
}

/// Tries the exchange of a quadword with what is there already: a memory without an atomic one
/// refuses now, not later.
fn check_memory(site: &Site, memory: &dyn CodeMemory, word: CodeAddr) -> Result<()> {
    let refused = |why: String| Error::ArmedMemory {
        site: site.name(),
        strategy: memory.strategy().name(),
        why,
    };
    let live = memory.live();
    let live = live.ok_or_else(|| refused("it is no LiveMemory".into()))?;
    let mut bytes = [0; 8];
    live.read(word, &mut bytes)?;
    // protection: memory-must-be-live
    live.exchange(word, bytes, bytes)
        .map_err(|error| refused(error.to_string()))
}

/// Puts the instructions of a site into a stub, and returns it with the patchable jump that
/// goes there.
fn displace(
    shared: &Shared,
    site: &Site,
    patchable_jump: PatchableJump,
    original: &[u8],
) -> Result<(Option<StubSlot>, JumpBytes)> {
    let live = backend(site);
    let bound = live.relocated_bound(site.addr(), original);
    let slot = shared
        .stubs
        .alloc(Len::new(u32::try_from(bound).unwrap_or(u32::MAX)), site.range())?;
    let filled = live
        .relocate(slot.addr(), site.addr(), original)
        .map_err(Error::from)
        .and_then(|code| Ok(shared.stubs.fill(&slot, &code)?))
        .and_then(|()| jump(site, patchable_jump, slot.addr()));
    match filled {
        Ok(first) => Ok((Some(slot), first)),
        Err(error) => {
            shared.stubs.discard(slot);
            Err(error)
        }
    }
}

/// Writes the armed bytes; if one site cannot be, those before it get their original bytes back.
fn write(arming: &[Arming]) -> Result<()> {
    for (at, one) in arming.iter().enumerate() {
        if let Err(cause) = write_one(one, &one.armed) {
            return Err(undo(arming.iter().take(at + 1), cause));
        }
    }
    Ok(())
}

/// Restores the original bytes of sites, and returns why, with those that did not get them.
#[cold]
fn undo<'a>(written: impl Iterator<Item = &'a Arming>, cause: Error) -> Error {
    let lost: Vec<_> = written
        // protection: arming-fails-whole
        .filter(|done| write_one(done, &done.original).is_err())
        .map(|done| (*done.site.name(), Fate::Unknown))
        .collect();
    match lost.is_empty() {
        true => cause,
        false => Error::RollBackFailed {
            cause: Box::new(cause),
            sites: lost,
        },
    }
}

fn write_one(arming: &Arming, bytes: &[u8]) -> Result<()> {
    let live = live(&*arming.memory, &arming.site)?;
    Ok(live.write_unexecuted(arming.site.addr(), bytes)?)
}

fn live<'m>(memory: &'m dyn CodeMemory, site: &Site) -> Result<&'m dyn LiveMemory> {
    memory.live().ok_or_else(|| Error::ArmedMemory {
        site: site.name(),
        strategy: memory.strategy().name(),
        why: "it is no LiveMemory any more".into(),
    })
}
