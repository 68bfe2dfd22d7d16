//! From a change to bytes: assemble, place stubs and exit stubs, check. Everything that can be
//! refused is refused here; nothing that is executed is touched.

use std::cell::RefCell;
use std::mem;
use std::sync::Arc;

use super::commit::Prepared;
use super::exits::{ExitCode, ExitRequest, ExitResumption, Role};
use super::live::{self, JumpExchange};
use super::observe::{Boxed, Owner};
use super::state::{
    self, ExitStub, ExitStubKind, Installed, Place, ReturnOffsets, SiteState, States, Status, Stub,
};
use super::templates::Templates;
use super::transaction::{Change, IfInvalid};
use super::work::{Item, Memories, OldStub, Part, Work, push};
use super::{Engine, Shared, calls};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::{OnReturn, SiteContext};
use crate::error::{Error, Result};
use crate::latency::{self, Stage};
use crate::memory::{CodeMemory, short};
use crate::sequence::{self, Assembled, Environment, Fit, Sequence, Target, Variant};
use crate::site::Site;
use crate::verify::{self, Chunk};

/// Prepares changes of sites that are different ones.
pub(super) fn prepare<'e, 's>(
    engine: &'e Engine,
    states: &mut States,
    changes: impl ExactSizeIterator<Item = (Site, Change<&'s Sequence>, IfInvalid)>,
    grace_period: bool,
) -> Boxed<Prepared<'e>> {
    let shared = &engine.shared;
    let since = shared.observers.now();
    states.file_unfiled();
    states.retired.make_room(changes.len());
    let mut work = states.room();
    let collected = collect(&mut work, shared, states, changes, grace_period);
    if let Err(error) = collected.and_then(|()| work.seal(states, shared.level)) {
        // protection: stubs-of-refused-transactions-are-freed
        work.release(shared);
        return Err(shared.refused(states, error, since).into());
    }
    if let Some(since) = since {
        work.prepared = since.elapsed();
    }
    Ok(Prepared::new(engine, work))
}

fn collect<'s>(
    work: &mut Work,
    shared: &Shared,
    states: &mut States,
    changes: impl Iterator<Item = (Site, Change<&'s Sequence>, IfInvalid)>,
    grace_period: bool,
) -> Result<()> {
    let mut memories = Memories::default();
    let mut unchanged = 0;
    for (site, change, if_invalid) in changes {
        let place = match states.known(&site) {
            Some(place) => place,
            None => {
                shared.check_registered(&site)?;
                states.place_of(&site)?
            }
        };
        let state = states.at(place).expect("a place that was just found has a state");
        let own = memories.number(site.memory_at(state.lasting.range.start())?);
        #[expect(
            clippy::disallowed_methods,
            reason = "without room of an earlier change it is made"
        )]
        let mut made = work.made.take().unwrap_or_default();
        made.new = work.room.pop();
        let mut preparation = Preparation::new(shared, states, state, &site, grace_period, &mut made);
        match preparation.change(change) {
            Ok(Some(used)) => {
                let memory = match &made.elsewhere {
                    Some((_, memory)) => memories.number(memory),
                    None => own,
                };
                made.add_to(work, (place, state), (site, memory), used);
                work.made = Some(made);
            }
            Ok(None) => {
                unchanged += 1;
                shared.release(made.exit_stubs, made.stub);
            }
            // protection: a-site-that-is-named-is-meant
            Err(Error::SiteInvalidated { .. }) if if_invalid == IfInvalid::Leave => {
                shared.release(made.exit_stubs, made.stub);
                work.invalidated.push(site);
            }
            Err(error) => {
                // protection: stubs-of-refused-changes-are-freed
                shared.release(made.exit_stubs, made.stub);
                return Err(error);
            }
        }
    }
    match work.invalidated.first() {
        // Nothing of what was asked for can be done.
        // protection: nothing-valid-is-an-error
        Some(site) if work.items.is_empty() && unchanged == 0 => {
            Err(Error::SiteInvalidated { site: site.name() })
        }
        _ => Ok(()),
    }
}

/// What a change of a site is made of. It stays where it is, also for the next: moving it takes
/// longer than filling it.
#[derive(Default)]
pub(super) struct Made {
    /// Offsets to which return addresses may point while the new bytes stand there.
    return_offsets: ReturnOffsets,
    /// Whether it would have been prepared otherwise, had its code been run.
    until_run: bool,
    pub(super) exit_stubs: Vec<ExitStub>,
    pub(super) stub: Option<Box<Stub>>,
    /// What is to stand in the site, or room for it.
    new: Option<Box<Installed>>,
    /// How it is written if its site is live.
    pub(super) live: Option<JumpExchange>,
    /// What is written in place of the site, and its memory.
    pub(super) elsewhere: Option<(CodeRange, Arc<dyn CodeMemory>)>,
}

impl Made {
    /// Adds the change to the transaction. What is left is as at the beginning, but for
    /// `until_run`, which is said each time.
    // A call of its own would have what stands in the site copied once more.
    #[inline(always)]
    fn add_to(
        &mut self,
        work: &mut Work,
        (place, state): (Place, &SiteState),
        (site, memory): (Site, usize),
        used: Len,
    ) {
        let old = &state.installed;
        let installed = self.new.take();
        let mut installed = installed.expect("a change has put what is to stand in its site");
        installed.return_offsets = mem::take(&mut self.return_offsets);
        installed.stub = self.stub.take();
        installed.generation = old.generation + 1;
        let (is_live, status) = (self.live.is_some(), installed.status);
        if let Some(live) = self.live.take() {
            work.exchanges.push(live.of_item(work.items.len()));
        }
        let (range, elsewhere) = match self.elsewhere.take() {
            Some((range, memory)) => (range, Some(memory)),
            None => (state.lasting.range, None),
        };
        push(&mut work.parts, || Part {
            range,
            old_stub: OldStub::of(old, &installed, is_live),
            place,
            version: state.version(),
            installed,
        });
        push(&mut work.items, || Item {
            site,
            status,
            used,
            exit_stubs: mem::take(&mut self.exit_stubs),
            until_run: self.until_run,
            is_live,
            memory,
            elsewhere,
            fate: None,
        });
    }
}

/// One site being prepared, with what has been allocated for it so far.
pub(super) struct Preparation<'a> {
    pub(super) shared: &'a Shared,
    pub(super) state: &'a SiteState,
    templates: &'a RefCell<Templates>,
    pub(super) site: &'a Site,
    pub(super) made: &'a mut Made,
}

impl<'a> Preparation<'a> {
    #[inline]
    pub(super) fn new(
        shared: &'a Shared,
        states: &'a States,
        state: &'a SiteState,
        site: &'a Site,
        grace_period: bool,
        made: &'a mut Made,
    ) -> Self {
        let (is_released, old) = (site.module().is_released(), &state.installed);
        let has_return_offsets = !grace_period && old.has_return_offsets();
        // While its code has not been run, none are in force yet.
        made.until_run = has_return_offsets && !is_released;
        if has_return_offsets && is_released {
            // protection: return-offsets-stay-in-force
            made.return_offsets = old.all_return_offsets();
        }
        Self {
            shared,
            state,
            templates: &states.templates,
            site,
            made,
        }
    }

    /// Whose code that is which is made now.
    pub(super) fn owner(&self) -> Owner {
        Owner {
            site: self.site.key(),
            generation: self.state.installed.generation + 1,
        }
    }

    /// Makes the change: bytes of code, the rest being nops; `None` where the site is already as
    /// asked for.
    fn change(&mut self, change: Change<&Sequence>) -> Result<Option<Len>> {
        let status = self.state.installed.status;
        match change {
            // protection: invalidation-is-idempotent
            Change::Invalidate if status == Status::Invalidated => return Ok(None),
            Change::Restore if status == Status::Original => return Ok(None),
            Change::Retarget(to) if status == Status::Patched => {
                if self.installed_sequence().as_ref() == Some(to) {
                    return Ok(None);
                }
            }
            Change::Redirect(to) if status == Status::Redirected => {
                if self.installed_sequence().as_ref() == Some(to) {
                    return Ok(None);
                }
            }
            _ => state::check_changeable(self.site, status)?,
        }
        // protection: call-sites-are-only-led
        if self.state.lasting.is_call {
            return calls::change(self, change).map(Some);
        }
        if self.site.module().is_live() {
            return live::change(self, change).map(Some);
        }
        match change {
            Change::Patch(sequence) => self.patch(sequence, Status::Patched).map(Some),
            Change::Redirect(sequence) => self.patch(sequence, Status::Redirected).map(Some),
            Change::Restore => self.restore().map(Some),
            Change::Invalidate => self.invalidate().map(Some),
            Change::Retarget(_) => Err(Error::CallSiteOnly {
                site: self.site.name(),
            }),
        }
    }

    fn patch(&mut self, sequence: &Sequence, status: Status) -> Result<Len> {
        let environment = self.environment(sequence, None)?;
        let stage = latency::enter(Stage::Assemble);
        let kind = self.kind().filter(|_| sequence.outline().is_whole());
        if let Some(kind) = kind {
            let (site, templates) = (self.site, self.templates.borrow());
            let new = self.made.new.get_or_insert_default();
            let asked = sequence.outline();
            let filled = templates.fill(
                (kind, asked, &self.state.lasting.template),
                self.state.lasting.range,
                &environment,
                &mut new.bytes,
                || site.name(),
            )?;
            if let Some(filled) = filled {
                new.returns.clear();
                new.returns.extend(filled.returns);
                new.stand_like(status, filled.like, sequence.outline());
                return Ok(filled.used);
            }
        }
        stage.end();
        let kind = kind.filter(|kind| self.templates.borrow_mut().note(*kind, sequence.outline()));
        let assemble = match kind {
            Some(_) => sequence::assemble_template,
            None => sequence::assemble,
        };
        let assembled = self.assemble(assemble, sequence, &environment)?;
        let _stage = latency::enter(Stage::Assemble);
        if let Some(kind) = kind.filter(|_| self.made.stub.is_none()) {
            let mut templates = self.templates.borrow_mut();
            templates.keep((kind, sequence), self.site, &environment, &assembled);
        }
        self.put(&assembled.code, &assembled.return_offsets);
        self.stand_for(status, Some(sequence));
        Ok(assembled.used)
    }

    /// Puts what is to stand in the site, and the offsets to which calls of it return.
    pub(super) fn put(&mut self, bytes: &[u8], returns: &[u32]) {
        let new = self.made.new.get_or_insert_default();
        new.bytes = short::of(bytes);
        new.returns = returns.to_vec();
    }

    /// What is [put](Self::put) there stands for a sequence, or for what was there.
    pub(super) fn stand_for(&mut self, status: Status, sequence: Option<&Sequence>) {
        let new = self.made.new.get_or_insert_default();
        new.stand_for(status, sequence.map(Variant::from));
    }

    /// What stands in the site, and what has been put to stand there.
    pub(super) fn sides(&self) -> (&[u8], &[u8]) {
        let new = self.made.new.as_ref();
        let new = new.expect("a change compares what it has put");
        (&self.state.installed.bytes, &new.bytes)
    }

    /// The sequence that stands in the site now.
    pub(super) fn installed_sequence(&self) -> Option<Sequence> {
        self.state.installed.sequence.as_ref().map(Variant::sequence)
    }

    /// The kind of site for which there may be templates.
    fn kind(&self) -> Option<u32> {
        if !self.made.return_offsets.is_empty() {
            return None;
        }
        let kind = &self.state.lasting.kind;
        *kind.get_or_init(|| self.templates.borrow_mut().site(&self.site.context(&[])))
    }

    fn invalidate(&mut self) -> Result<Len> {
        let exit_stub = self.invalidation_exit_stub()?;
        let sequence = Sequence::new().jump(Target::Deopt);
        let environment = self.environment(&sequence, Some(exit_stub))?;
        let assembled = self.assemble(sequence::assemble, &sequence, &environment)?;
        self.put(&assembled.code, &assembled.return_offsets);
        let installed = self.installed_sequence();
        self.stand_for(Status::Invalidated, installed.as_ref());
        Ok(assembled.used)
    }

    /// The original bytes go through no assembler; what must hold for them is that they keep the
    /// return offsets.
    fn restore(&mut self) -> Result<Len> {
        let lasting = &self.state.lasting;
        let returns = state::returns_of(self.site, &lasting.displaced)?;
        // protection: restore-keeps-return-offsets
        state::check_keeps_return_offsets(self.site, &lasting.original, &returns, &self.made.return_offsets)?;
        self.put(&lasting.original, &returns);
        self.stand_for(Status::Original, None);
        Ok(self.site.reserved())
    }

    fn assemble(
        &mut self,
        assemble: impl Fn(&Sequence, &SiteContext<'_>, &Environment) -> std::result::Result<Fit, sequence::Error>,
        sequence: &Sequence,
        environment: &Environment,
    ) -> Result<Assembled> {
        // Cloning them lets the stub be recorded while the context borrows them.
        let (site, return_offsets) = (self.site, self.made.return_offsets.clone());
        let context = site.context(&return_offsets);
        let stage = latency::enter(Stage::Assemble);
        let assembled = match assemble(sequence, &context, environment)? {
            Fit::InPlace(assembled) => assembled,
            Fit::OutOfLine { stub_len } => {
                let slot = self.shared.stubs.alloc(stub_len, self.state.lasting.range)?;
                let addr = slot.addr();
                self.made.stub = Some(Stub::empty(slot, self.owner()));
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
        // protection: checked-by-the-checker
        let checked = verify::check(context, &assembled.code, chunk.as_slice(), &assembled.declared)?;
        stage.end();
        // Of what the bytes do, the checker is believed.
        assembled.return_offsets = checked.return_offsets;
        if let Some(code) = assembled.stub.take() {
            let stub = self.made.stub.as_mut();
            let stub = stub.expect("whoever assembles a stub has a slot for it");
            stub.calls = assembled
                .declared
                .targets
                .iter()
                // protection: stub-with-an-unknown-end-calls
                .any(|t| t.on_return != OnReturn::Never);
            // protection: stub-is-filled-before-the-patchable-jump
            self.shared.stubs.fill(&stub.slot, &code.bytes)?;
            stub.code = code.bytes;
        }
        Ok(assembled)
    }

    // A call of its own costs a patch more than it does, as its result is copied.
    #[inline(always)]
    pub(super) fn environment(
        &mut self,
        sequence: &Sequence,
        deopt: Option<CodeAddr>,
    ) -> Result<Environment> {
        let mut environment = Environment { miss: None, deopt };
        for target in sequence.outline().targets() {
            match target {
                Target::Miss => {
                    environment.miss = Some(self.exit_stub(
                        ExitStubKind::Miss,
                        ExitResumption::At(self.state.lasting.range.end()),
                    )?);
                }
                Target::Deopt if deopt.is_none() => {
                    let displaced = ExitResumption::Displaced(&self.state.lasting.displaced);
                    environment.deopt = Some(self.exit_stub(ExitStubKind::Deopt, displaced)?);
                }
                _ => {}
            }
        }
        Ok(environment)
    }

    /// The exit stub of an invalidated site. A thread that resumes from it does what the site did
    /// before.
    pub(super) fn invalidation_exit_stub(&mut self) -> Result<CodeAddr> {
        let Some(sequence) = self.installed_sequence() else {
            return self.exit_stub(
                ExitStubKind::Invalidated,
                ExitResumption::Displaced(&self.state.lasting.displaced),
            );
        };
        let addr = match &self.state.installed.stub {
            Some(stub) => stub.slot.addr(),
            None => self.copy_out_of_line(&sequence)?,
        };
        let exit_stub = self.exit_stub(ExitStubKind::Invalidated, ExitResumption::At(addr))?;
        let stub = self.state.installed.stub.as_ref().or(self.made.stub.as_ref());
        let leads_to = stub.map(|stub| stub.leads_to());
        let mut made = self.made.exit_stubs.iter_mut();
        if let Some(made) = made.find(|made| made.slot.addr() == exit_stub) {
            // protection: what-an-exit-resumes-to-stays
            made.resumes_in = leads_to;
        }
        Ok(exit_stub)
    }

    /// The sequence that stands in the site, in a stub: also one that was to stand in place only,
    /// and did.
    pub(super) fn copy_out_of_line(&mut self, sequence: &Sequence) -> Result<CodeAddr> {
        let sequence = &sequence.anywhere();
        let environment = self.environment(sequence, None)?;
        let site = self.site;
        let context = site.context(&[]);
        let len = sequence::stub_len(sequence, &context, &environment)?;
        let slot = self.shared.stubs.alloc(len, self.state.lasting.range)?;
        let addr = slot.addr();
        self.made.stub = Some(Stub::empty(slot, self.owner()));
        let assembled = sequence::assemble_out_of_line(sequence, &context, &environment, addr)?;
        self.check_and_fill(&context, assembled)?;
        Ok(addr)
    }

    /// The exit stub of that kind, made if the site has none yet.
    fn exit_stub(&mut self, kind: ExitStubKind, resumption: ExitResumption<'_>) -> Result<CodeAddr> {
        let made = self
            .made
            .exit_stubs
            .iter()
            .find(|exit_stub| exit_stub.kind == kind)
            .map(|exit_stub| exit_stub.slot.addr());
        if let Some(addr) = made.or_else(|| self.state.exit_stub(kind)) {
            return Ok(addr);
        }
        let role = if kind == ExitStubKind::Miss {
            Role::Miss
        } else {
            Role::Deopt
        };
        let exits = self.shared.exits.as_ref().filter(|exits| exits.handles(role));
        let exits = exits.ok_or_else(|| Error::NoHandler {
            site: self.site.name(),
            role: role.name(),
        })?;
        let slot = self.shared.stubs.alloc(
            exits.bound(self.site, role, resumption)?,
            self.state.lasting.range,
        )?;
        let at = slot.addr();
        let made = exits.encode(&ExitRequest {
            site: self.site,
            role,
            at,
            resumption,
        });
        let made = made.and_then(|code| {
            self.shared.stubs.fill(&slot, &code.bytes)?;
            Ok(code)
        });
        match made {
            Ok(ExitCode { keep, stack, .. }) => {
                self.made.exit_stubs.push(ExitStub {
                    kind,
                    slot,
                    owner: self.owner(),
                    stack: stack.into(),
                    resumes_in: None,
                    _keep: keep,
                });
                Ok(at)
            }
            Err(error) => {
                // protection: exit-stub-that-cannot-be-made-is-freed
                self.shared.stubs.discard(slot);
                Err(error)
            }
        }
    }
}
