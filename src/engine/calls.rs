//! Call sites: made to call another function, and the first one again.
//!
//! Problem: every call of a function is to go to another one, while threads make those calls; an
//! instruction of a compiler's is where it is, and reaches as far as it reaches. Approach: the call
//! stays the instruction that it was, and only its distance changes. A function that is out of its
//! reach is reached by a stub near the code, which uses no register but those that are free at the
//! first instruction of a function, as linkers' stubs do.
//!
//! Under execution, a distance that lies in one naturally aligned word is exchanged by one store.
//! Other calls get, once, when the module is armed, a *gate* of their own as their target: a stub
//! near the code that is a jump at a place where a patchable jump can be. From then on the call
//! never changes, and the gate's jump is exchanged as patchable jumps are. It costs such a call one
//! jump.
//!
//! On PowerPC every call that may be retargeted goes to a stub that saves the caller's TOC
//! pointer, as the linker's do: the function may have another, and the caller restores its own
//! behind the call.
//!
//! Invariants: the bytes of a call are checked to be the same call with the target that was meant
//! (`verify::check_call`), a stub as the first instructions of a function; a call that has a gate
//! keeps it until its module goes. Each call goes to the old function or the new one. Calls are
//! exchanged one after the other: while a transaction is published, one may go to the new function
//! already and another still to the old one.

#![allow(unsafe_code, reason = "an address is a promise")]

use std::sync::Arc;

use smallvec::SmallVec;

use super::installed::Stub;
use super::live::{Arming, JumpExchange, OriginalCode, out_of_reach};
use super::prepare::Preparation;
use super::requests::Request;
use super::state::Status;
use super::{Engine, Receipt, Shared};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::{CallShape, Declared, DeclaredTarget, OnReturn, SiteContext, calls};
use crate::memory::{CodeMemory, StubSlot};
use crate::sequence::{self, Environment, Sequence, Target};
use crate::site::Site;
use crate::verify;
use crate::{Error, Result};
use patchpoint_asm::backend_of;
use patchpoint_asm::live::PatchableJump;
use patchpoint_link::stubs;

/// The room for a gate: a jump, and what brings it to where a patchable jump can be.
const GATE: Len = Len::new(16);

/// The jump of its own that is a call's target.
pub(super) struct Gate {
    /// All bytes of it.
    range: CodeRange,
    patchable_jump: PatchableJump,
    memory: Arc<dyn CodeMemory>,
}

/// The branch that is changed in place of a call: the call itself, or its gate's.
enum Branch<'a> {
    Call,
    Gate(&'a Gate),
}

impl Engine {
    /// Makes every recorded call of `function`, in all modules, go to `to`, in one transaction: see
    /// [`Transaction::retarget`](super::Transaction::retarget).
    ///
    /// # Safety
    /// As for [`Transaction::retarget`](super::Transaction::retarget).
    ///
    /// # Errors
    /// [`Error::NoCallSite`], and as [`Transaction::commit`](super::Transaction::commit).
    pub unsafe fn retarget(&self, function: &str, to: CodeAddr) -> Result<Receipt> {
        let mut change = self.transaction();
        // SAFETY: the caller promises the same.
        unsafe { change.retarget(function, to) }?.commit()
    }

    /// Makes every recorded call of `function`, in all modules, go where it was linked to.
    ///
    /// # Errors
    /// As [`retarget`](Self::retarget).
    pub fn restore_calls(&self, function: &str) -> Result<Receipt> {
        self.transaction().restore_calls(function)?.commit()
    }

    /// The recorded calls of a function, in all modules.
    ///
    /// # Errors
    /// [`Error::NoCallSite`].
    pub fn calls_of(&self, function: &str) -> Result<Vec<Site>> {
        let table = self.shared.table.read();
        let calls: Vec<Site> = table
            .modules()
            .flat_map(|module| module.calls_of(function))
            .collect();
        match calls.is_empty() {
            true => Err(Error::NoCallSite {
                function: function.into(),
            }),
            false => Ok(calls),
        }
    }
}

/// What makes a call one of that function.
pub(super) fn sequence(to: CodeAddr) -> Sequence {
    // SAFETY: `retarget` is unsafe, and demands of `to` that it can be called there; nobody else has such sites changed.
    Sequence::new().jump(unsafe { Target::addr(to) })
}

/// Prepares the change of a call site.
pub(super) fn change(preparation: &mut Preparation<'_>, request: Request<&Sequence>) -> Result<Len> {
    let site = preparation.site;
    let armed = preparation.state.lasting.live.as_ref();
    let branch = match armed.and_then(|armed| armed.gate.as_ref()) {
        Some(gate) => Branch::Gate(gate),
        None => Branch::Call,
    };
    let original = preparation.state.original(site);
    let (new, status, sequence) = match request {
        Request::Restore => (original.to_vec(), Status::Original, None),
        Request::Retarget(sequence) => {
            let [Target::Addr(to)] = sequence.outline().targets() else {
                return Err(Error::CallSiteOnly { site: site.name() });
            };
            let new = branch_to(preparation, &branch, original, to.get())?;
            (new, Status::Patched, Some(sequence))
        }
        _ => return Err(Error::CallSiteOnly { site: site.name() }),
    };
    preparation.put(&new, &[]);
    preparation.describe(status, sequence);
    let used = Len::new(new.len() as u32);
    let Some(armed) = preparation.state.lasting.live.as_ref() else {
        return Ok(used);
    };
    let (old, new) = preparation.sides();
    verify::check_exchange(&branch.context(site), old, new)?;
    let (Some(old), Some(new)) = (
        armed.patchable_jump.of_site(old),
        armed.patchable_jump.of_site(new),
    ) else {
        return Err(no_patchable_jump(site));
    };
    let memory = match &branch {
        Branch::Call => site.memory()?,
        Branch::Gate(gate) => &gate.memory,
    };
    let exchange = JumpExchange::new(memory, armed.patchable_jump.addr, (&old, &new));
    preparation.exchange = Some(Box::new(exchange));
    preparation.gate = match &branch {
        Branch::Call => None,
        Branch::Gate(gate) => Some(gate.range),
    };
    Ok(used)
}

/// The bytes of the branch to a function, by a stub if it has to.
fn branch_to(
    preparation: &mut Preparation<'_>,
    branch: &Branch<'_>,
    original: &[u8],
    to: CodeAddr,
) -> Result<Vec<u8>> {
    let site = preparation.site;
    if stubs::restore_behind_leaving(site.module().arch()).is_none() {
        if let Some(bytes) = branch.to(site, original, to)? {
            return Ok(bytes);
        }
    }
    let (slot, len) = far(preparation.shared, site, branch.range(site), to)?;
    let addr = slot.addr();
    let mut stub = Stub::empty(slot, preparation.owner());
    // It jumps: its callee returns to the caller.
    (stub.len, stub.calls) = (len, false);
    preparation.new.stub = Some(stub);
    branch
        .to(site, original, addr)?
        .ok_or_else(|| out_of_reach(site, addr))
}

impl Branch<'_> {
    fn range(&self, site: &Site) -> CodeRange {
        match self {
            Self::Call => site.range(),
            Self::Gate(gate) => gate.range,
        }
    }

    /// What a checker is told of it: a gate is run like the first instruction of a function.
    fn context<'s>(&self, site: &'s Site) -> SiteContext<'s> {
        match self {
            Self::Call => site.context(&[]),
            Self::Gate(gate) => at_entry(site, gate.range),
        }
    }

    /// Its bytes, checked, when it goes to an address; `None` if it does not reach.
    fn to(&self, site: &Site, original: &[u8], to: CodeAddr) -> Result<Option<Vec<u8>>> {
        let arch = site.module().arch();
        let context = self.context(site);
        match self {
            Self::Call => {
                let Some(bytes) = calls::retargeted(arch, site.addr(), original, to) else {
                    return Ok(None);
                };
                verify::check_call(&context, original, &bytes, to)?;
                Ok(Some(bytes))
            }
            Self::Gate(gate) => {
                let Some(jump) = backend_of(arch).jump(gate.patchable_jump, to) else {
                    return Ok(None);
                };
                let len = Len::new(gate.range.len() as u32);
                let bytes = gate.patchable_jump.armed(arch, len, jump);
                let target = DeclaredTarget {
                    addr: to,
                    on_return: OnReturn::Never,
                };
                let declared = Declared {
                    targets: vec![target],
                    ..Declared::default()
                };
                verify::check(&context, &bytes, &[], &declared)?;
                Ok(Some(bytes))
            }
        }
    }
}

/// Code outside of a site that is run where a function would begin, named after the site.
fn at_entry(site: &Site, range: CodeRange) -> SiteContext<'_> {
    SiteContext {
        addr: range.start(),
        shape: CallShape::entry(range.len() as u32),
        ..site.context(&[])
    }
}

/// A stub in reach of `near` that jumps to a function, however far, checked and in place.
fn far(shared: &Shared, site: &Site, near: CodeRange, to: CodeAddr) -> Result<(StubSlot, Len)> {
    let slot = shared.stubs.alloc(far_len(site, near, to)?, near)?;
    let filled = far_code(site, near, slot.addr(), to).and_then(|code| {
        shared.stubs.fill(&slot, &code)?;
        Ok(Len::of(&code).expect("a stub is as long as its slot at most"))
    });
    match filled {
        Ok(len) => Ok((slot, len)),
        Err(error) => {
            shared.stubs.discard(slot);
            Err(error)
        }
    }
}

fn far_len(site: &Site, near: CodeRange, to: CodeAddr) -> Result<Len> {
    match stubs::leaving(site.module().arch(), to) {
        Some(code) => Ok(Len::new(code.len() as u32)),
        None => {
            let (sequence, context) = (sequence(to), at_entry(site, near));
            Ok(sequence::stub_len(&sequence, &context, &Environment::default())?)
        }
    }
}

/// The code of such a stub at an address.
fn far_code(site: &Site, near: CodeRange, at: CodeAddr, to: CodeAddr) -> Result<Vec<u8>> {
    let context = at_entry(site, near);
    if let Some(code) = stubs::leaving(site.module().arch(), to) {
        verify::check_leaving(&context, at, &code, to)?;
        return Ok(code);
    }
    let (sequence, environment) = (sequence(to), Environment::default());
    let body: Result<_> = sequence::assemble_stub(&sequence, &context, &environment, |_| Ok(at));
    let body = body?;
    let code = body.code.bytes;
    let range = CodeRange::new(at, code.len() as u64).expect("a stub lies in its slot");
    verify::check(&at_entry(site, range), &code, &[], &body.declared)?;
    Ok(code)
}

fn no_patchable_jump(site: &Site) -> Error {
    verify::Error::Exchange {
        site: site.name(),
        what: "it has no patchable jump",
    }
    .into()
}

// ---- arming ----

/// Everything about the arming of a call that can be refused.
pub(super) fn arm(shared: &Shared, site: &Site, memory: Arc<dyn CodeMemory>) -> Result<Arming> {
    let original: Arc<[u8]> = site.read()?.into();
    let mut arming = Arming {
        site: site.clone(),
        memory,
        armed: Arc::clone(&original),
        installed: Arc::clone(&original),
        patchable_jump: PatchableJump {
            offset: Len::default(),
            addr: site.addr(),
            len: Len::default(),
        },
        is_trapped: false,
        code: OriginalCode::InPlace,
        gate: None,
        stubs: SmallVec::new(),
        original,
    };
    let done = match site.plan_patchable_jump() {
        // Calls are recorded where the engine itself has placed the code, whose memory can be
        // exchanged.
        Ok(patchable_jump) => {
            arming.patchable_jump = patchable_jump;
            Ok(())
        }
        Err(crate::site::Error::NoPatchableJump { .. }) => put_gate(shared, &mut arming),
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(()) => Ok(arming),
        Err(error) => {
            arming.discard(shared);
            Err(error)
        }
    }
}

/// Makes a gate with the target of the call, and makes the call go to the gate.
fn put_gate(shared: &Shared, arming: &mut Arming) -> Result<()> {
    let site = arming.site.clone();
    let arch = site.module().arch();
    let slot = shared.stubs.alloc(GATE, site.range())?;
    let range = slot.range();
    let memory = shared.stubs.memory(&slot);
    arming.stubs.push(slot);
    let patchable_jump = backend_of(arch).plan_patchable_jump(range.start(), GATE);
    let patchable_jump = patchable_jump.map_err(|_| no_patchable_jump(&site))?;
    let gate = Gate {
        range: CodeRange::new(range.start(), GATE.get().into()).expect("a gate lies in its slot"),
        patchable_jump,
        memory: Arc::new(memory?),
    };
    let target = calls::target(arch, site.addr(), &arming.original);
    let target = target.ok_or_else(|| no_patchable_jump(&site))?;
    let branch = Branch::Gate(&gate);
    let installed = match branch.to(&site, &arming.original, target)? {
        Some(bytes) => bytes,
        None => {
            let (slot, _) = far(shared, &site, gate.range, target)?;
            let addr = slot.addr();
            arming.stubs.push(slot);
            branch
                .to(&site, &arming.original, addr)?
                .ok_or_else(|| out_of_reach(&site, addr))?
        }
    };
    let slot = arming.stubs.first().expect("the gate's slot is the first");
    shared.stubs.fill(slot, &installed)?;
    let armed = Branch::Call.to(&site, &arming.original, range.start())?;
    let armed = armed.ok_or_else(|| out_of_reach(&site, range.start()))?;
    (arming.armed, arming.installed) = (armed.into(), installed.into());
    (arming.patchable_jump, arming.gate) = (patchable_jump, Some(gate));
    Ok(())
}

#[cfg(test)]
mod tests;
