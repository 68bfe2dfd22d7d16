//! Arming: bringing the sites of a module into the form in which they can be changed live.
//!
//! Code that has not run is rewritten around a patchable jump. Code that has run, or runs, is not
//! written: its sites are changed as they are, by an exchange of their first instruction or behind a
//! trap.
//!
//! Everything that can be refused is refused before the first byte is written; a write that fails
//! rolls back those before it.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Armed, OriginalCode, backend, jump};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::{self, SiteKind};
use crate::engine::Shared;
use crate::engine::calls::{self, Gate};
use crate::engine::state::States;
use crate::error::Fate;
use crate::memory::{CodeMemory, LiveMemory, StubSlot};
use crate::publish::Level;
use crate::site::{Module, Site};
use crate::verify::{self, Original};
use crate::{Error, Result};
use patchpoint_asm::live::PatchableJump;

/// A site about to be armed.
pub(in crate::engine) struct Arming {
    pub(in crate::engine) site: Site,
    pub(in crate::engine) memory: Arc<dyn CodeMemory>,
    pub(in crate::engine) patchable_jump: PatchableJump,
    /// Whether the patchable jump is exchanged behind a trap.
    pub(in crate::engine) is_trapped: bool,
    /// Where the code is that the site holds.
    pub(in crate::engine) code: OriginalCode,
    pub(in crate::engine) gate: Option<Gate>,
    pub(in crate::engine) original: Arc<[u8]>,
    /// The bytes that the site gets.
    pub(in crate::engine) armed: Arc<[u8]>,
    /// The bytes that are changed from then on: the same, or those of its gate.
    pub(in crate::engine) installed: Arc<[u8]>,
    pub(in crate::engine) stubs: SmallVec<[StubSlot; 1]>,
}

impl Arming {
    /// Whether its bytes are written: threads may be in code that has run.
    fn is_rewritten(&self) -> bool {
        !self.is_trapped && !self.site.module().is_released()
    }

    /// Frees what was made for it: nothing branches there.
    pub(in crate::engine) fn discard(&mut self, shared: &Shared) {
        self.stubs.drain(..).for_each(|slot| shared.stubs.discard(slot));
    }
}

/// Arms every patchpoint, entry site, told site and call of a module: all, or none.
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
    states.make_room(arming.len());
    for arming in arming {
        let armed = Armed {
            patchable_jump: arming.patchable_jump,
            is_trapped: arming.is_trapped,
            original: arming.code,
            displaced: arming.original,
            form: arming.installed,
            gate: arming.gate,
            stubs: arming.stubs,
        };
        states.insert_armed(&arming.site, armed);
    }
    Ok(())
}

/// Everything about the arming of a site that can be refused.
fn plan(shared: &Shared, site: Site) -> Result<Arming> {
    let may_run = site.module().is_released();
    let memory = Arc::clone(site.memory()?);
    if site.shape().kind() == SiteKind::Call {
        let arming = calls::arm(shared, &site, memory)?;
        return refuse_late(shared, may_run, arming);
    }
    let original: Arc<[u8]> = site.read()?.into();
    let code = verify::original(site.module().arch(), site.addr(), &original)?;
    let mut arming = Arming {
        patchable_jump: PatchableJump {
            offset: Len::default(),
            addr: site.addr(),
            len: Len::default(),
        },
        site,
        memory,
        is_trapped: false,
        code: OriginalCode::Nops,
        gate: None,
        installed: Arc::clone(&original),
        armed: Arc::clone(&original),
        original,
        stubs: SmallVec::new(),
    };
    // protection: armed-before-it-runs
    let planned = match may_run {
        true => plan_as_it_is(shared, &mut arming, &code),
        false => plan_rewritten(shared, &mut arming, &code),
    };
    match planned {
        Ok(()) => Ok(arming),
        Err(error) => {
            arming.discard(shared);
            Err(error)
        }
    }
}

/// A site that nobody has executed is rewritten around its patchable jump; if there is none in one
/// quadword, it stays as it is.
fn plan_rewritten(shared: &Shared, arming: &mut Arming, code: &Original) -> Result<()> {
    let site = arming.site.clone();
    let patchable_jump = match site.plan_patchable_jump() {
        Ok(patchable_jump) => patchable_jump,
        Err(error) => {
            let behind_trap = backend(&site).plan_behind_trap(site.addr(), site.reserved());
            let behind_trap = behind_trap.ok_or(error)?;
            return plan_trapped(shared, arming, behind_trap, code);
        }
    };
    check_memory(&site, &*arming.memory, word(patchable_jump.addr))?;
    let first = match code {
        Original::Nops => backend(&site).nop(patchable_jump),
        // protection: displaced-original-is-kept
        Original::LlvmCall { .. } | Original::Instructions { .. } => {
            let at = displace(shared, arming)?;
            jump(&site, patchable_jump, at)?
        }
    };
    let armed = patchable_jump.armed(site.module().arch(), site.reserved(), first);
    arming.patchable_jump = patchable_jump;
    arming.armed = armed.into();
    arming.installed = Arc::clone(&arming.armed);
    Ok(())
}

/// A site that threads may be executing is not written: its own first instruction is the patchable
/// jump, if it can be exchanged for one, or a trap is its gate.
fn plan_as_it_is(shared: &Shared, arming: &mut Arming, code: &Original) -> Result<()> {
    let site = arming.site.clone();
    let is_nops = *code == Original::Nops;
    let planned = site.plan_patchable_jump().ok();
    // Instructions before the patchable jump are executed still.
    let planned = planned.filter(|planned| is_nops || planned.offset.get() == 0);
    let exchangeable = planned.filter(|planned| may_be_exchanged(&site, &arming.original, *planned));
    if let Some(patchable_jump) = exchangeable {
        check_memory(&site, &*arming.memory, word(patchable_jump.addr))?;
        arming.patchable_jump = patchable_jump;
        if !is_nops {
            arming.code = OriginalCode::InPlace;
        }
        return Ok(());
    }
    let behind_trap = backend(&site).plan_behind_trap(site.addr(), site.reserved());
    match behind_trap {
        Some(patchable_jump) => plan_trapped(shared, arming, patchable_jump, code),
        None => Err(Error::ArmedTooLate { site: site.name() }),
    }
}

/// Whether what is in the place of the patchable jump may be exchanged for a jump under execution,
/// by the checker's rule and by the architecture's table.
fn may_be_exchanged(site: &Site, original: &[u8], patchable_jump: PatchableJump) -> bool {
    // Where to does not matter for that.
    let Ok(to_end) = jump(site, patchable_jump, site.end()) else {
        return false;
    };
    let mut jumping = original.to_vec();
    patchable_jump.put(to_end, &mut jumping);
    let old = patchable_jump.of_site(original);
    old.is_some_and(|old| arch::exchange::allowed(site.module().arch(), &old, &to_end))
        && verify::check_exchange(&site.context(&[]), original, &jumping).is_ok()
}

/// A site whose gate is a trap. Nothing of it is written before it is changed.
fn plan_trapped(
    shared: &Shared,
    arming: &mut Arming,
    patchable_jump: PatchableJump,
    code: &Original,
) -> Result<()> {
    let site = arming.site.clone();
    check_memory(&site, &*arming.memory, word(site.addr()))?;
    // protection: the-handler-of-traps-is-there-before-a-gate-needs-it
    super::trap::check(shared, &site)?;
    arming.is_trapped = true;
    arming.patchable_jump = patchable_jump;
    if *code != Original::Nops {
        displace(shared, arming)?;
    }
    Ok(())
}

/// Refuses a call of code that may be running, if arming would write it.
fn refuse_late(shared: &Shared, may_run: bool, mut arming: Arming) -> Result<Arming> {
    if may_run && arming.armed != arming.original {
        let site = arming.site.name();
        arming.discard(shared);
        return Err(Error::ArmedTooLate { site });
    }
    Ok(arming)
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
    let read = live.read(word, &mut bytes);
    // It says first why it cannot: a memory that has no exchange may not read the whole word either.
    // protection: memory-must-be-live
    live.exchange(word, bytes, bytes)
        .and(read)
        .map_err(|error| refused(error.to_string()))
}

/// Puts the instructions of a site into a stub, and returns where they are.
fn displace(shared: &Shared, arming: &mut Arming) -> Result<CodeAddr> {
    let (site, original) = (&arming.site, &arming.original);
    let live = backend(site);
    let bound = live.relocated_bound(site.addr(), original);
    let slot = shared
        .stubs
        .alloc(Len::new(u32::try_from(bound).unwrap_or(u32::MAX)), site.range())?;
    let at = slot.addr();
    let code = match live.relocate(at, site.addr(), original) {
        Ok(code) => code,
        Err(error) => {
            shared.stubs.discard(slot);
            return Err(error.into());
        }
    };
    arming.stubs.push(shared.stubs.fill_and_shorten(slot, &code)?);
    arming.code = OriginalCode::Stub(at);
    Ok(at)
}

/// Writes the armed bytes; if one site cannot be, those before it get their original bytes back.
fn write(arming: &[Arming]) -> Result<()> {
    for (at, one) in arming.iter().enumerate().filter(|(_, one)| one.is_rewritten()) {
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
        .filter(|done| done.is_rewritten())
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
