//! The step "lower", where no template makes the code of a sequence: it is assembled, checked, and
//! put into a stub where it does not fit.
//!
//! Problem: this is most of what such a patch takes. Under the engine's lock, threads that patch
//! sites which have nothing to do with each other would wait for each other's. Approach: a
//! [`Lowering`] is all that the code depends on, so that it is made with the lock or without.
//! Without contention it is made where it is asked for, with the lock. Where threads have been
//! waiting for that (see [`super::lock`]), a change is first [looked at](Ahead::look): with the lock
//! it is found what has to be lowered, which is then done without; with the lock again the change
//! is prepared, and takes what was made.
//!
//! Invariants: what was made ahead is used only where all that it depends on is as it was; else it
//! is freed, and made once more with the lock. Whatever is refused is refused with the lock, so it
//! does not matter for a caller which way was taken.

use super::Shared;
use super::exit_stub::{ExitStub, ExitStubKind, ExitStubList};
use super::installed::{ReturnOffsets, Stub};
use super::observe::CodeOwner;
use super::prepare::Preparation;
use super::requests::{Request, Requests};
use super::state::States;
use crate::addr::Len;
use crate::arch::{OnReturn, SiteContext};
use crate::latency::{self, Stage};
use crate::sequence::{self, Assembled, Environment, Fit, Holes, Sequence};
use crate::site::Site;
use crate::verify::{self, Chunk};
use crate::{Error, Result};
use patchpoint_asm::live::PatchableJump;

/// Where the code is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodePlace {
    /// In the site; in a stub what does not fit there.
    Site,
    /// In a stub, to which this jump of the site goes.
    Stub(PatchableJump),
}

/// What needs code that no template makes.
pub(super) struct NeedsLowering {
    pub(super) environment: Environment,
    pub(super) place: CodePlace,
    pub(super) knows_gate: bool,
    /// Whether it is to become a template.
    pub(super) for_template: bool,
}

/// All that the code of a sequence at a site depends on.
pub(super) struct Lowering<'a> {
    pub(super) site: &'a Site,
    pub(super) sequence: &'a Sequence,
    pub(super) environment: &'a Environment,
    /// The return offsets that the site has to keep.
    pub(super) return_offsets: &'a [u32],
    pub(super) place: CodePlace,
    /// Whether gates of such sites are known: then a stub is checked without its site, which is looked at
    /// when it is closed.
    pub(super) knows_gate: bool,
    /// Whose code it is.
    pub(super) owner: CodeOwner,
    /// Whether a template is to be made of it.
    pub(super) for_template: bool,
}

/// The code: checked, and its stub in place.
pub(super) struct Lowered {
    /// Without the bytes of a site whose gate is known.
    pub(super) assembled: Assembled,
    pub(super) stub: Option<Box<Stub>>,
    /// Where values are in a stub of which a template is to be made.
    pub(super) holes: Option<Box<Holes>>,
}

impl Lowering<'_> {
    /// Makes the code.
    #[inline(always)] // Called, what it returns is copied: 1,991 ns of a shape never seen for 1,960.
    pub(super) fn lower(&self, shared: &Shared) -> Result<Lowered> {
        let mut stub = None;
        let context = self.site.context(self.return_offsets);
        let lowered = match self.place {
            CodePlace::Site => self.in_site(shared, &context, &mut stub),
            CodePlace::Stub(jump) => self.in_stub(shared, (&context, jump), &mut stub),
        };
        let refused = match lowered {
            Ok((mut assembled, holes)) => {
                let checked = self.check(&context, &mut assembled);
                match checked.and_then(|()| fill(shared, &assembled, stub.as_deref_mut())) {
                    Ok(()) => {
                        return Ok(Lowered {
                            assembled,
                            stub,
                            holes,
                        });
                    }
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        // protection: stubs-of-refused-lowerings-are-freed
        shared.release(ExitStubList::new(), stub);
        Err(refused)
    }

    #[inline(always)] // As above.
    fn in_site(
        &self,
        shared: &Shared,
        context: &SiteContext<'_>,
        stub: &mut Option<Box<Stub>>,
    ) -> Result<(Assembled, Option<Box<Holes>>)> {
        let _stage = latency::enter(Stage::Assemble);
        let fit = match self.for_template {
            true => sequence::assemble_template(self.sequence, context, self.environment)?,
            false => sequence::assemble(self.sequence, context, self.environment)?,
        };
        let assembled = match fit {
            Fit::InPlace(assembled) => assembled,
            Fit::OutOfLine { stub_len } => {
                let slot = shared.stubs.alloc(stub_len, self.site.range())?;
                let addr = slot.addr();
                *stub = Some(Stub::empty(slot, self.owner));
                sequence::assemble_out_of_line(self.sequence, context, self.environment, addr)?
            }
        };
        Ok((assembled, None))
    }

    fn in_stub(
        &self,
        shared: &Shared,
        (context, jump): (&SiteContext<'_>, PatchableJump),
        stub: &mut Option<Box<Stub>>,
    ) -> Result<(Assembled, Option<Box<Holes>>)> {
        let _stage = latency::enter(Stage::Assemble);
        let room = |len| {
            let slot = shared.stubs.alloc(len, self.site.range())?;
            let addr = slot.addr();
            *stub = Some(Stub::empty(slot, self.owner));
            Ok::<_, Error>(addr)
        };
        let (sequence, environment) = (self.sequence, self.environment);
        let body = match self.for_template {
            true => sequence::assemble_stub_template(sequence, context, environment, room),
            false => sequence::assemble_stub(sequence, context, environment, room),
        }?;
        let addr = body.code.addr;
        let assembled = Assembled {
            code: match self.knows_gate {
                true => Vec::new(),
                false => super::live::going_to(self.site, jump, addr)?,
            },
            stub: Some(body.code),
            declared: body.declared,
            clobbers: body.clobbers,
            return_offsets: Vec::new(),
            used: jump.end(),
            holes: None,
        };
        Ok((assembled, body.holes))
    }

    /// Checks the code. Where a stub is not accepted alone, it is checked with its site, also for the
    /// error.
    fn check(&self, context: &SiteContext<'_>, assembled: &mut Assembled) -> Result<()> {
        if let (CodePlace::Stub(jump), true, Some(stub)) = (self.place, self.knows_gate, &assembled.stub) {
            let (addr, bytes) = (stub.addr, &*stub.bytes);
            let _stage = latency::enter(Stage::Verify);
            // protection: stubs-are-checked-alone-by-the-checker
            if verify::check_stub(context, Chunk { addr, bytes }, &assembled.declared).is_ok() {
                return Ok(());
            }
            assembled.code = super::live::going_to(self.site, jump, addr)?;
        }
        check(context, assembled)
    }
}

/// Checks site and stub together, then puts the stub in place.
pub(super) fn check_and_fill(
    shared: &Shared,
    context: &SiteContext<'_>,
    assembled: &mut Assembled,
    stub: Option<&mut Stub>,
) -> Result<()> {
    check(context, assembled)?;
    fill(shared, assembled, stub)
}

/// Checks site and stub together.
fn check(context: &SiteContext<'_>, assembled: &mut Assembled) -> Result<()> {
    let chunk = assembled.stub.as_ref().map(|stub| Chunk {
        addr: stub.addr,
        bytes: &stub.bytes,
    });
    let _stage = latency::enter(Stage::Verify);
    // protection: checked-by-the-checker
    let checked = verify::check(context, &assembled.code, chunk.as_slice(), &assembled.declared)?;
    // Of what the bytes do, the checker is believed.
    assembled.return_offsets = checked.return_offsets;
    Ok(())
}

/// Puts the stub, which was checked, in place.
fn fill(shared: &Shared, assembled: &Assembled, stub: Option<&mut Stub>) -> Result<()> {
    if let Some(code) = &assembled.stub {
        let stub = stub.expect("whoever assembles a stub has a slot for it");
        stub.calls = assembled
            .declared
            .targets
            .iter()
            // protection: stub-with-an-unknown-end-calls
            .any(|t| t.on_return != OnReturn::Never);
        // protection: stub-is-filled-before-the-patchable-jump
        shared.stubs.fill(&stub.slot, &code.bytes)?;
        stub.len = Len::of(&code.bytes).expect("a stub is as long as its slot at most");
    }
    Ok(())
}

/// What was lowered without the lock for a change that is prepared later, and on what it depends.
pub(super) struct Ahead {
    site: Site,
    /// The version of the site's state for which it is.
    version: u64,
    sequence: Sequence,
    environment: Environment,
    return_offsets: ReturnOffsets,
    place: CodePlace,
    knows_gate: bool,
    owner: CodeOwner,
    for_template: bool,
    /// Made with the lock.
    exit_stubs: ExitStubList,
    /// `None` before, and where it was refused.
    lowered: Option<Lowered>,
}

impl Ahead {
    /// Finds, with the lock, which of these changes need code that no template makes, and makes
    /// their exit stubs.
    pub(super) fn look<'s>(
        shared: &Shared,
        states: &mut States,
        requests: impl Requests<'s>,
        grace_period: bool,
    ) -> Vec<Self> {
        let mut found = Vec::new();
        let looked = requests.try_each(|site, request, _, _| {
            let site = site.into_site();
            let (Request::Patch(sequence) | Request::Redirect(sequence)) = request else {
                return Ok(0);
            };
            let index = states.index_of(&site, || shared.check_registered(&site))?;
            let room = states.installed_room.take();
            let mut preparation = Preparation::new(shared, states, index, &site, grace_period, room);
            let needed = preparation.needs_lowering(sequence);
            let (owner, version) = (preparation.owner(), preparation.state.version());
            let Preparation {
                exit_stubs, mut new, ..
            } = preparation;
            match needed {
                Some(needed) => found.push(Self {
                    version,
                    sequence: sequence.clone(),
                    environment: needed.environment,
                    return_offsets: std::mem::take(&mut new.return_offsets),
                    place: needed.place,
                    knows_gate: needed.knows_gate,
                    owner,
                    for_template: needed.for_template,
                    exit_stubs,
                    lowered: None,
                    site: site.into_owned(),
                }),
                None => shared.release(exit_stubs, None),
            }
            states.installed_room.keep(new);
            Ok(0)
        });
        // What is refused here is refused again where the change is prepared, and those behind it
        // with it.
        drop(looked);
        found
    }

    /// Makes the code, without the lock.
    fn lower(&mut self, shared: &Shared) {
        let lowering = Lowering {
            site: &self.site,
            sequence: &self.sequence,
            environment: &self.environment,
            return_offsets: &self.return_offsets,
            place: self.place,
            knows_gate: self.knows_gate,
            owner: self.owner,
            for_template: self.for_template,
        };
        // What is refused here is refused again where the change is prepared.
        self.lowered = lowering.lower(shared).ok();
    }

    /// Whether a template is to be made of it.
    pub(super) fn is_for_template(&self) -> bool {
        self.for_template
    }

    /// The exit stub of that kind that it goes to.
    pub(super) fn take_exit_stub(&mut self, kind: ExitStubKind) -> Option<ExitStub> {
        let at = self.exit_stubs.iter().position(|made| made.kind == kind)?;
        Some(self.exit_stubs.swap_remove(at))
    }

    /// The code, if that is what this lowering would make.
    pub(super) fn take(&mut self, lowering: &Lowering<'_>) -> Option<Lowered> {
        let is_same = *lowering.sequence == self.sequence
            && *lowering.environment == self.environment
            // protection: lowered-ahead-for-other-return-offsets
            && *lowering.return_offsets == *self.return_offsets
            && lowering.place == self.place;
        self.lowered.take_if(|_| is_same)
    }

    /// Frees what nobody has taken.
    fn release(self, shared: &Shared) {
        // protection: what-was-lowered-in-vain-is-freed
        shared.release(self.exit_stubs, self.lowered.and_then(|lowered| lowered.stub));
    }
}

/// What was lowered for the changes of a transaction, in the order of their sites.
#[derive(Default)]
pub(super) struct AllAhead(Vec<Ahead>);

impl AllAhead {
    /// Makes the code of them all, without the lock.
    pub(super) fn lower(shared: &Shared, mut ahead: Vec<Ahead>) -> Self {
        ahead.sort_unstable_by_key(|ahead| ahead.owner.site);
        ahead.iter_mut().for_each(|ahead| ahead.lower(shared));
        Self(ahead)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// What was lowered for a site, whose state has that version, and had it then.
    #[inline]
    pub(super) fn of(&mut self, site: &Site, version: u64) -> Option<&mut Ahead> {
        if self.0.is_empty() {
            return None;
        }
        let at = self.0.binary_search_by_key(&site.key(), |ahead| ahead.owner.site);
        let ahead = self.0.get_mut(at.ok()?)?;
        // protection: lowered-ahead-of-another-change
        (ahead.version == version).then_some(ahead)
    }

    /// Frees what nobody has taken.
    pub(super) fn release(self, shared: &Shared) {
        self.0.into_iter().for_each(|ahead| ahead.release(shared));
    }
}
