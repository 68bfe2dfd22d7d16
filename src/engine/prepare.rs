//! From a change to bytes: assemble, place stubs and ramps, check. Everything that can be refused is refused
//! here; nothing that is executed is touched.

use std::mem;
use std::sync::Arc;

use super::commit::Prepared;
use super::exits::{ExitCode, ExitRequest, Resumption, Role};
use super::live;
use super::observe::Owner;
use super::state::{self, Landings, Place, Ramp, RampKind, SiteState, Standing, States, Status, Stub};
use super::transaction::Change;
use super::work::{Draft, Memories, OldStub, Work};
use super::{Engine, Shared, templates};
use crate::addr::{CodeAddr, Len};
use crate::arch::{OnReturn, SiteContext};
use crate::error::{Error, Result};
use crate::latency::{self, Stage};
use crate::sequence::{self, Assembled, Environment, Fit, Outline, Sequence, Target};
use crate::site::Site;
use crate::verify::{self, Chunk};

pub(super) fn prepare<'e>(
    engine: &'e Engine,
    states: &mut States,
    changes: Vec<(Site, Change)>,
    drained: bool,
) -> Result<Prepared<'e>> {
    states.file_leftovers();
    states.retired.make_room(changes.len());
    let mut drafts = Vec::with_capacity(changes.len());
    let collected = collect(&mut drafts, &engine.shared, states, changes, drained);
    let mut work = Box::new(Work::of(drafts, engine.shared.level));
    match collected.and_then(|()| work.seal(&states.journal)) {
        Ok(()) => Ok(Prepared::new(engine, work)),
        Err(error) => {
            work.release(&engine.shared);
            Err(error)
        }
    }
}

fn collect(
    drafts: &mut Vec<Draft>,
    shared: &Shared,
    states: &mut States,
    changes: Vec<(Site, Change)>,
    drained: bool,
) -> Result<()> {
    let mut memories = Memories::default();
    for (site, change) in changes {
        shared.check_registered(&site)?;
        let memory = memories.number(site.memory()?);
        let draft = Preparation::new(shared, states, site, drained)?.finish(change)?;
        drafts.extend(draft.map(|draft| Draft { memory, ..draft }));
    }
    Ok(())
}

/// One site being prepared, with what has been allocated for it so far.
pub(super) struct Preparation<'a> {
    pub(super) shared: &'a Shared,
    pub(super) state: &'a SiteState,
    place: Place,
    pub(super) site: Site,
    landings: Landings,
    drained: bool,
    may_have_run: bool,
    pub(super) ramps: Vec<Ramp>,
    pub(super) stub: Option<Box<Stub>>,
}

impl<'a> Preparation<'a> {
    pub(super) fn new(shared: &'a Shared, states: &'a mut States, site: Site, drained: bool) -> Result<Self> {
        let place = states.place_of(&site)?;
        // It has just been found, or made.
        let state = states
            .at(place)
            .ok_or_else(|| Error::SiteForeign { site: site.name() })?;
        let may_have_run = site.module().may_have_run();
        let landings = state.standing.landings_in_force(may_have_run, drained);
        Ok(Self {
            shared,
            state,
            place,
            site,
            landings,
            drained,
            may_have_run,
            ramps: Vec::new(),
            stub: None,
        })
    }

    /// Whose code that is which is made now.
    pub(super) fn owner(&self) -> Owner {
        Owner {
            site: self.site.key(),
            generation: self.state.standing.generation + 1,
        }
    }

    /// The change with all that has been allocated for it, or `None` where the site is already as asked for.
    fn finish(mut self, change: Change) -> Result<Option<Draft>> {
        let done = self.change(change);
        if let Ok(Some(mut draft)) = done {
            let old = &self.state.standing;
            draft.standing.stub = self.stub;
            draft.old_stub = OldStub::of(old, &draft.standing, draft.live.is_some());
            draft.ramps = self.ramps;
            return Ok(Some(draft));
        }
        self.shared.release(self.ramps, self.stub);
        done
    }

    fn change(&mut self, change: Change) -> Result<Option<Draft>> {
        let status = self.state.standing.status;
        match change {
            Change::Invalidate if status == Status::Invalidated => return Ok(None),
            Change::Restore if status == Status::Original => return Ok(None),
            Change::Redirect(ref to) if status == Status::Redirected => {
                if self.state.standing.sequence.as_ref() == Some(to) {
                    return Ok(None);
                }
            }
            _ => state::check_changeable(&self.site, status)?,
        }
        if self.site.module().is_live() {
            return live::change(self, &change).map(Some);
        }
        match change {
            Change::Patch(ref sequence) | Change::Redirect(ref sequence) => {
                self.patch(sequence, change.status()).map(Some)
            }
            Change::Restore => self.restore().map(Some),
            Change::Invalidate => self.invalidate().map(Some),
        }
    }

    fn patch(&mut self, sequence: &Arc<Sequence>, status: Status) -> Result<Draft> {
        let environment = self.environment(sequence, None)?;
        let stage = latency::enter(Stage::Assemble);
        let outline = self.outline(sequence);
        let standing = Some(Arc::clone(sequence));
        if let Some(outline) = &outline {
            let site = &self.site;
            let templates = self.shared.templates.lock();
            let filled = templates.fill(outline, site.range(), &environment, || site.name())?;
            if let Some(filled) = filled {
                let (code, returns) = (filled.code[..].into(), filled.returns.to_vec());
                return Ok(self.draft_of(status, code, filled.used, returns, standing));
            }
        }
        stage.end();
        let assembled = self.assemble(sequence, &environment)?;
        let _stage = latency::enter(Stage::Assemble);
        if let Some(outline) = outline.filter(|_| self.stub.is_none()) {
            let context = self.site.context(&[]);
            let mut templates = self.shared.templates.lock();
            templates.learn(outline, sequence, &context, &environment, &assembled);
        }
        Ok(self.draft(status, &assembled, standing))
    }

    /// What names the sequence's template at this kind of site, if it can have one.
    fn outline(&self, sequence: &Sequence) -> Option<Outline> {
        if !self.landings.is_empty() {
            return None;
        }
        let templates = || self.shared.templates.lock();
        let of_site = || templates().site(&self.site.context(&[]));
        let kind = (*self.state.lasting.kind.get_or_init(of_site))?;
        Some(templates::at_site(Outline::of(sequence)?, kind))
    }

    fn invalidate(&mut self) -> Result<Draft> {
        let ramp = self.invalidation_ramp()?;
        let sequence = Sequence::new().jump(Target::Deopt);
        let environment = self.environment(&sequence, Some(ramp))?;
        let assembled = self.assemble(&sequence, &environment)?;
        Ok(self.draft(
            Status::Invalidated,
            &assembled,
            self.state.standing.sequence.clone(),
        ))
    }

    /// The original bytes go through no assembler; what must hold for them is that they keep the landings.
    fn restore(&mut self) -> Result<Draft> {
        let returns = state::returns_of(&self.site, &self.state.lasting.displaced)?;
        state::check_keeps_landings(&self.site, &self.state.lasting.original, &returns, &self.landings)?;
        let used = self.site.reserved();
        let new = Arc::clone(&self.state.lasting.original);
        Ok(self.draft_of(Status::Original, new, used, returns, None))
    }

    fn assemble(&mut self, sequence: &Sequence, environment: &Environment) -> Result<Assembled> {
        // Cloning the handle lets the stub be recorded while the context borrows the site.
        let (site, landings) = (self.site.clone(), self.landings.clone());
        let context = site.context(&landings);
        let stage = latency::enter(Stage::Assemble);
        let assembled = match sequence::assemble(sequence, &context, environment)? {
            Fit::InPlace(assembled) => assembled,
            Fit::OutOfLine { stub_len } => {
                let slot = self.shared.stubs.alloc(stub_len, site.range())?;
                let addr = slot.addr();
                self.stub = Some(Stub::empty(slot, self.owner()));
                sequence::assemble_out_of_line(sequence, &context, environment, addr)?
            }
        };
        stage.end();
        self.check_and_fill(&context, assembled)
    }

    /// Checks site and stub together, then puts the stub in place.
    pub(super) fn check_and_fill(
        &mut self,
        context: &SiteContext<'_>,
        mut assembled: Assembled,
    ) -> Result<Assembled> {
        let chunk = assembled.stub.as_ref().map(|stub| Chunk {
            addr: stub.addr,
            bytes: &stub.bytes,
        });
        let stage = latency::enter(Stage::Verify);
        let checked = verify::check(context, &assembled.code, chunk.as_slice(), &assembled.declared)?;
        stage.end();
        // Of what the bytes do, the checker is believed.
        assembled.landings = checked.landings;
        if let (Some(stub), Some(code)) = (&mut self.stub, assembled.stub.take()) {
            stub.calls = assembled
                .declared
                .targets
                .iter()
                .any(|t| t.on_return != OnReturn::Never);
            self.shared.stubs.fill(&stub.slot, &code.bytes)?;
            stub.code = code.bytes;
        }
        Ok(assembled)
    }

    pub(super) fn environment(
        &mut self,
        sequence: &Sequence,
        deopt: Option<CodeAddr>,
    ) -> Result<Environment> {
        let miss = match sequence.uses(Target::Miss) {
            true => Some(self.ramp(RampKind::Miss, Resumption::At(self.site.end()))?),
            false => None,
        };
        let deopt = match deopt {
            None if sequence.uses(Target::Deopt) => Some(self.ramp(
                RampKind::Deopt,
                Resumption::Displaced(&self.state.lasting.displaced),
            )?),
            given => given,
        };
        Ok(Environment { miss, deopt })
    }

    /// The ramp of an invalidated site. A thread that resumes from it does what the site did before.
    pub(super) fn invalidation_ramp(&mut self) -> Result<CodeAddr> {
        let Some(sequence) = self.state.standing.sequence.clone() else {
            return self.ramp(
                RampKind::Invalidated,
                Resumption::Displaced(&self.state.lasting.displaced),
            );
        };
        let addr = match &self.state.standing.stub {
            Some(stub) => stub.slot.addr(),
            None => self.copy_out_of_line(&sequence)?,
        };
        self.ramp(RampKind::Invalidated, Resumption::At(addr))
    }

    /// The sequence that stands in the site, in a stub: also one that was to stand in place only, and did.
    pub(super) fn copy_out_of_line(&mut self, sequence: &Sequence) -> Result<CodeAddr> {
        let sequence = &sequence.anywhere();
        let environment = self.environment(sequence, None)?;
        let site = self.site.clone();
        let context = site.context(&[]);
        let len = sequence::stub_len(sequence, &context, &environment)?;
        let slot = self.shared.stubs.alloc(len, site.range())?;
        let addr = slot.addr();
        self.stub = Some(Stub::empty(slot, self.owner()));
        let assembled = sequence::assemble_out_of_line(sequence, &context, &environment, addr)?;
        self.check_and_fill(&context, assembled)?;
        Ok(addr)
    }

    /// The ramp of that kind, made if the site has none yet.
    fn ramp(&mut self, kind: RampKind, resumption: Resumption<'_>) -> Result<CodeAddr> {
        let made = self
            .ramps
            .iter()
            .find(|ramp| ramp.kind == kind)
            .map(|ramp| ramp.slot.addr());
        if let Some(addr) = made.or_else(|| self.state.ramp(kind)) {
            return Ok(addr);
        }
        let role = if kind == RampKind::Miss {
            Role::Miss
        } else {
            Role::Deopt
        };
        let exits = self.shared.exits.as_ref().filter(|exits| exits.handles(role));
        let exits = exits.ok_or_else(|| Error::NoHandler {
            site: self.site.name(),
            role: role.name(),
        })?;
        let slot = self
            .shared
            .stubs
            .alloc(exits.bound(&self.site, role, resumption)?, self.site.range())?;
        let at = slot.addr();
        let made = exits.encode(&ExitRequest {
            site: &self.site,
            role,
            at,
            resumption,
        });
        let made = made.and_then(|code| self.shared.stubs.fill(&slot, &code.bytes).map(|()| code));
        match made {
            Ok(ExitCode { keep, stack, .. }) => {
                self.ramps.push(Ramp {
                    kind,
                    slot,
                    owner: self.owner(),
                    stack: stack.into(),
                    _keep: keep,
                });
                Ok(at)
            }
            Err(error) => {
                self.shared.stubs.discard(slot);
                Err(error)
            }
        }
    }

    pub(super) fn draft(
        &mut self,
        status: Status,
        assembled: &Assembled,
        sequence: Option<Arc<Sequence>>,
    ) -> Draft {
        let new = assembled.code.as_slice().into();
        self.draft_of(status, new, assembled.used, assembled.landings.clone(), sequence)
    }

    pub(super) fn draft_of(
        &mut self,
        status: Status,
        new: Arc<[u8]>,
        used: Len,
        returns: Vec<u32>,
        sequence: Option<Arc<Sequence>>,
    ) -> Draft {
        let old = &self.state.standing;
        let until_run = !self.may_have_run && old.landings_in_force(true, self.drained) != self.landings;
        Draft {
            site: self.site.clone(),
            old: Arc::clone(&old.bytes),
            standing: Box::new(Standing {
                status,
                bytes: new,
                landings: mem::take(&mut self.landings),
                returns,
                sequence,
                stub: None,
                generation: old.generation + 1,
            }),
            used,
            ramps: Vec::new(),
            live: None,
            old_stub: OldStub::None,
            place: self.place,
            version: self.state.version(),
            until_run,
            memory: 0,
        }
    }
}
