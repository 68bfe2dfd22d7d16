//! From a change to bytes: assemble, place stubs and exit stubs, check. Everything that can be
//! refused is refused here; nothing that is executed is touched.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::LazyLock;

use super::batch::{self, Filling};
use super::change::{ChangeSet, OldStub};
use super::commit::Prepared;
use super::exit_stub::{ExitStub, ExitStubKind, ExitStubList};
use super::exits::{ExitResumption, ExitRooms, WantedExit};
use super::installed::{Held, Installed, Stub};
use super::live::{self, JumpExchange, LiveRoom};
use super::lower::{CodePlace, Lowered, Lowering, NeedsLowering, check_and_fill};
use super::observe::{Boxed, CodeOwner, Event};
use super::requests::{IfInvalid, Request, Requests};
use super::state::{self, SiteState, StateIndex, States, Status};
use super::templates::Templates;
use super::{Engine, Shared, calls};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::latency::{self, Stage};
use crate::memory::{StubRoom, short};
use crate::sequence::{self, Environment, Outline, Sequence, Target};
use crate::site::Site;
use crate::verify::{self, Place};
use crate::{Error, Result};

/// What an invalidated site holds: a way to its exit stub.
pub(super) static EXIT: LazyLock<Sequence> = LazyLock::new(|| Sequence::new().jump(Target::Deopt));

/// What holds of a transaction.
#[derive(Clone, Copy)]
pub(super) struct Conditions {
    /// No return address points into its sites.
    pub(super) grace_period: bool,
    /// It is committed under the lock under which it is prepared.
    pub(super) at_once: bool,
}

/// Prepares changes of sites that are different ones. Whether something was lowered ahead for them
/// makes no difference but that each of the two is compiled for its caller.
pub(super) fn prepare<'e, 's, const AHEAD: bool>(
    engine: &'e Engine,
    states: &mut States,
    requests: impl Requests<'s>,
    conditions: Conditions,
) -> Boxed<Prepared<'e>> {
    let shared = &engine.shared;
    let grace_period = conditions.grace_period;
    let since = shared.observers.now();
    let of = requests.count();
    // Observers are told of each site, and a world that looks for threads of each.
    // protection: batches-are-committed-at-once
    let may_batch =
        of > batch::FEWEST && conditions.at_once && since.is_none() && !shared.stops_anywhere && !AHEAD;
    // protection: commits-are-filed-by-who-prepares
    states.file();
    states.retired.make_room(of);
    states.expect_sites(of);
    let mut set = states.room();
    set.reserve(of);
    let mut left = of;
    let collected = requests.try_each(|site, request, if_invalid, behind| {
        if since.is_some() {
            tell_progress(shared, &set, of);
        }
        left -= usize::from(may_batch);
        if may_batch && !set.open.is_empty() {
            let joined = set.join_batch(site.place(), (shared, states), request, behind)?;
            if let Some(others) = joined.checked_sub(1) {
                left -= others as usize;
                return Ok(others);
            }
        }
        let may_open = may_batch.then_some(left);
        change_alone(
            (shared, states),
            &mut set,
            (site.into_site(), request, if_invalid),
            grace_period,
            may_open,
        )?;
        Ok(0)
    });
    let collected = match may_batch {
        true => collected.and_then(|()| fill_batches((shared, states), &mut set, grace_period)),
        false => collected,
    };
    states.expect_sites(0);
    if may_batch {
        states.exit_rooms.get_mut().drop_used_up();
        states.give_room_back();
    }
    states.exit_rooms.get_mut().keep_few(&shared.stubs);
    if let Err(error) = collected.and_then(|()| set.seal(states, shared)) {
        // protection: stubs-of-refused-transactions-are-freed
        set.release(shared);
        return Err(shared.refused(states, *error, since).into());
    }
    if let Some(since) = since {
        set.prepared = since.elapsed();
    }
    Ok(Prepared::new(engine, set))
}

/// Prepares the change of one site. A batch may be opened for sites like it if it is known how many are to come.
#[inline(always)] // It is all that a single patch prepares.
fn change_alone(
    (shared, states): (&Shared, &mut States),
    set: &mut ChangeSet,
    (site, request, if_invalid): (Cow<'_, Site>, Request<&Sequence>, IfInvalid),
    grace_period: bool,
    may_open: Option<usize>,
) -> Boxed<()> {
    let index = states.index_of(&site, || shared.check_registered(&site))?;
    let room = states.installed_room.take();
    let mut preparation = Preparation::new(shared, states, index, &site, grace_period, room);
    match preparation.change(request) {
        Ok(Some(used)) => {
            let filling = match may_open.is_some_and(|left| set.open.may_open(left)) {
                true => preparation.filling(request),
                false => None,
            };
            // Each part to its place: as a whole it would be copied first, by a call.
            let Preparation {
                old,
                state,
                new,
                gate,
                exchange,
                exit_stubs,
                until_run,
                ..
            } = preparation;
            let change = set.next_change();
            change.site = site.key();
            change.index = index;
            change.version = state.version();
            change.range = gate.unwrap_or(state.lasting.range);
            change.old_stub = match &old.stub {
                None => OldStub::None,
                Some(stub) => OldStub::of(stub, &new, exchange.is_some()),
            };
            change.status = new.status;
            change.installed = Held::Own(new);
            change.used = used;
            change.exit_stubs = exit_stubs;
            change.until_run = until_run;
            change.exchange = exchange;
            set.add(&site, &old.bytes, &shared.publisher)?;
            if let Some(filling) = filling {
                set.open_batch(&site, states, (request, &filling));
            }
            if !set.has_module(&site) {
                set.keep_module(site, &mut states.kept_module);
            }
            return Ok(());
        }
        Ok(None) => set.unchanged += 1,
        // protection: a-site-that-is-named-is-meant
        Err(Error::SiteInvalidated { .. }) if if_invalid == IfInvalid::Leave => {
            set.invalidated.push(preparation.site.clone());
        }
        Err(error) => {
            // protection: stubs-of-refused-changes-are-freed
            preparation.release();
            return Err(error.into());
        }
    }
    preparation.release();
    Ok(())
}

/// Fills the batches, all of whose sites have joined them. Those that cannot be in one are changed by
/// themselves.
#[inline(never)] // Few transactions have batches.
fn fill_batches(
    (shared, states): (&Shared, &mut States),
    set: &mut ChangeSet,
    grace_period: bool,
) -> Boxed<()> {
    // None of them has been changed before, so none is invalid.
    // protection: sites-that-are-left-out-are-changed
    for left_out in set.fill_batches(shared, states)? {
        for (module, sites) in left_out.runs() {
            for index in sites {
                let asked = (
                    Cow::Owned(module.handle(index)),
                    left_out.request(),
                    IfInvalid::Refuse,
                );
                change_alone((shared, states), set, asked, grace_period, None)?;
            }
        }
    }
    Ok(())
}

/// Observers are told each time that so many changes of a transaction are prepared: some milliseconds.
const STRETCH: usize = if cfg!(test) { 4 } else { 4096 };

/// Tells observers how far a transaction is prepared, if it is long.
#[cold]
fn tell_progress(shared: &Shared, set: &ChangeSet, of: usize) {
    let prepared = set.changes.len() + set.unchanged + set.invalidated.len();
    if prepared > 0 && prepared % STRETCH == 0 {
        shared.observers.tell(&Event::Preparing { prepared, of });
    }
}

/// What was filled into a template is not what was asked for.
#[cold]
pub(super) fn filled_wrong(site: &Site) -> Error {
    verify::Error::Filled { site: site.name() }.into()
}

/// One site being prepared, with what has been allocated for it so far.
pub(super) struct Preparation<'a> {
    pub(super) shared: &'a Shared,
    pub(super) state: SiteState<'a>,
    /// What is installed now.
    pub(super) old: &'a Installed,
    pub(super) templates: &'a RefCell<Templates>,
    exit_rooms: &'a RefCell<ExitRooms>,
    pub(super) stub_room: &'a RefCell<StubRoom>,
    pub(super) live_room: &'a RefCell<LiveRoom>,
    pub(super) site: &'a Site,
    /// Whether it would have been prepared otherwise, had its code been run.
    until_run: bool,
    pub(super) exit_stubs: ExitStubList,
    /// What is to be installed.
    pub(super) new: Box<Installed>,
    /// How it is written if its site is live.
    pub(super) exchange: Option<Box<JumpExchange>>,
    /// What is written in place of the site.
    pub(super) gate: Option<CodeRange>,
}

impl<'a> Preparation<'a> {
    #[inline(always)] // Called, it takes 92 instructions of a patch, and `kind` 52.
    pub(super) fn new(
        shared: &'a Shared,
        states: &'a States,
        index: StateIndex,
        site: &'a Site,
        grace_period: bool,
        mut new: Box<Installed>,
    ) -> Self {
        let state = states.at(index);
        let state = state.expect("the index of a state that was just found");
        let (is_released, old) = (site.module().is_released(), state.installed);
        let has_return_offsets = !grace_period && old.has_return_offsets();
        new.return_offsets.assign(&[]);
        // protection: return-offsets-stay-in-force
        if has_return_offsets && is_released {
            new.return_offsets = old.all_return_offsets();
        }
        new.generation = old.generation + 1;
        Self {
            shared,
            state,
            old,
            templates: &states.templates,
            exit_rooms: &states.exit_rooms,
            stub_room: &states.stub_room,
            live_room: &states.live_room,
            site,
            // While its code has not been run, none are in force yet.
            until_run: has_return_offsets && !is_released,
            exit_stubs: ExitStubList::new(),
            new,
            exchange: None,
            gate: None,
        }
    }

    /// Frees what was allocated for a change that is not made.
    pub(super) fn release(self) {
        self.shared.release(self.exit_stubs, self.new.stub);
    }

    /// Whose code that is which is made now.
    pub(super) fn owner(&self) -> CodeOwner {
        CodeOwner {
            site: self.site.key(),
            generation: self.new.generation,
        }
    }

    /// Makes the change: bytes of code, the rest being nops; `None` where the site is already as
    /// asked for.
    fn change(&mut self, request: Request<&Sequence>) -> Result<Option<Len>> {
        let installed = self.old.sequence.as_ref();
        match (request, self.old.status) {
            // protection: invalidation-is-idempotent
            (Request::Invalidate, Status::Invalidated) | (Request::Restore, Status::Original) => {
                return Ok(None);
            }
            (Request::Retarget(to), Status::Patched) | (Request::Redirect(to), Status::Redirected)
                if installed == Some(to) =>
            {
                return Ok(None);
            }
            (_, Status::Original | Status::Patched) | (Request::Redirect(_), Status::Redirected) => {}
            (_, status) => state::check_changeable(self.site, status)?,
        }
        // protection: call-sites-are-only-retargeted
        if self.state.lasting.facts.is_call {
            return calls::change(self, request).map(Some);
        }
        if self.site.module().is_live() {
            return live::change(self, request).map(Some);
        }
        match request {
            Request::Patch(sequence) | Request::Redirect(sequence) => {
                let environment = self.environment(sequence, None)?;
                let used = self.install(sequence, &environment, self.kind(sequence.outline()))?;
                // protection: the-installed-sequence-is-the-one-asked-for
                self.describe(request.status(), Some(sequence));
                Ok(Some(used))
            }
            Request::Restore => self.restore().map(Some),
            Request::Invalidate => self.invalidate().map(Some),
            Request::Retarget(_) => Err(Error::CallSiteOnly {
                site: self.site.name(),
            }),
        }
    }

    /// The site gets the sequence, by a template of that kind that is filled with its values, or
    /// assembled and checked.
    #[inline(always)] // A call of its own copies what it returns.
    fn install(&mut self, sequence: &Sequence, environment: &Environment, kind: Option<u32>) -> Result<Len> {
        let (outline, new) = (sequence.outline(), &mut self.new);
        if let Some(kind) = kind {
            let _stage = latency::enter(Stage::Assemble);
            let (templates, last) = (self.templates.borrow(), &self.state.lasting.template);
            if let Some(template) = templates.template((kind, outline), last) {
                let place = Place::Site(self.state.lasting.range);
                match template.fill(place, outline, environment, &mut new.bytes) {
                    Some(true) => {
                        new.returns.assign(&template.returns);
                        return Ok(template.used);
                    }
                    Some(false) => return Err(filled_wrong(self.site)),
                    None => {}
                }
            }
        }
        self.install_lowered(kind, sequence, environment)
    }

    /// The same where no template makes it. The second time that a sequence like it is asked for at
    /// this kind of site, its code is kept as a template.
    #[inline(never)] // What is filled needs none of its room on the stack.
    fn install_lowered(
        &mut self,
        kind: Option<u32>,
        sequence: &Sequence,
        environment: &Environment,
    ) -> Result<Len> {
        let again = kind.filter(|kind| self.is_for_template(*kind, sequence));
        let lowered = self.lower((CodePlace::Site, false), again.is_some(), sequence, environment)?;
        let assembled = &lowered.assembled;
        let _stage = latency::enter(Stage::Assemble);
        if let Some(kind) = again.filter(|_| lowered.stub.is_none()) {
            let context = self.site.context(&self.new.return_offsets);
            let mut templates = self.templates.borrow_mut();
            templates.keep((kind, sequence), (self.site, &context), environment, assembled);
        }
        if let Some(stub) = lowered.stub {
            self.new.stub = Some(stub);
        }
        self.put(&assembled.code, &assembled.return_offsets);
        Ok(assembled.used)
    }

    /// The number of the kind of the site, for a sequence that can have a template.
    #[inline(always)] // As `new`.
    fn kind(&self, outline: &Outline) -> Option<u32> {
        let known = self.state.lasting.kind.get();
        let kind = known.map_or_else(|| self.find_kind(), |known| *known);
        let kind = kind.filter(|_| outline.is_whole());
        let return_offsets = &self.new.return_offsets;
        match return_offsets.is_empty() {
            true => kind,
            // protection: kept-return-offsets-are-told-apart
            false => kind.and_then(|kind| {
                let mut templates = self.templates.borrow_mut();
                templates.kinds.returning(kind, return_offsets)
            }),
        }
    }

    /// The number of the kind of the site, which is asked for the first time.
    #[inline(never)]
    fn find_kind(&self) -> Option<u32> {
        let kind = self.templates.borrow_mut().kinds.of(self.site, None);
        *self.state.lasting.kind.get_or_init(|| kind)
    }

    /// The number of a kind for a sequence that only goes to an exit stub: that of all sites of as many
    /// bytes, whatever their records say.
    #[inline(always)] // As `new`.
    fn exit_kind(&self) -> Option<u32> {
        let kind = match self.new.return_offsets.is_empty() {
            true => {
                let mut templates = self.templates.borrow_mut();
                let context = || self.site.context(&[]);
                templates.kinds.of_exits(self.site.reserved(), context)
            }
            false => None,
        };
        kind.or_else(|| self.kind(EXIT.outline()))
    }

    /// What fills the sites that come behind this one, for which the same is asked, if they are like it.
    /// `None` where each needs more than a way to an exit stub of its own.
    #[inline(never)] // Few transactions ask.
    fn filling<'s>(&self, request: Request<&'s Sequence>) -> Option<Filling<'s>> {
        let (sequence, kind): (&Sequence, _) = match request {
            Request::Invalidate => (&EXIT, self.exit_kind()?),
            Request::Patch(sequence) => (sequence, self.kind(sequence.outline())?),
            Request::Restore | Request::Redirect(_) | Request::Retarget(_) => return None,
        };
        // protection: batches-go-to-their-own-exit-stubs
        let goes_to_exit = matches!(sequence.outline().targets(), [Target::Miss | Target::Deopt]);
        let is_of_all = self.templates.borrow().kinds.is_of_exits(kind);
        let site_kind = match is_of_all {
            true => None,
            false => *self.state.lasting.kind.get()?,
        };
        goes_to_exit.then_some(Filling {
            sequence,
            kind,
            site_kind,
        })
    }

    /// Whether what is lowered becomes a template: the second time that one like it is asked for at
    /// this kind of site. What was lowered ahead has asked then.
    pub(super) fn is_for_template(&self, kind: u32, sequence: &Sequence) -> bool {
        let mut templates = self.templates.borrow_mut();
        match templates.ahead.of(self.site, self.state.version()) {
            Some(ahead) => ahead.is_for_template(),
            None => templates.note(kind, sequence.outline()),
        }
    }

    /// The code of a sequence, for which there is no template.
    #[inline(always)] // As `Lowering::lower`.
    pub(super) fn lower(
        &mut self,
        (place, knows_gate): (CodePlace, bool),
        for_template: bool,
        sequence: &Sequence,
        environment: &Environment,
    ) -> Result<Lowered> {
        let lowering = Lowering {
            site: self.site,
            sequence,
            environment,
            return_offsets: &self.new.return_offsets,
            place,
            knows_gate,
            owner: self.owner(),
            for_template,
        };
        let mut templates = self.templates.borrow_mut();
        let ahead = templates.ahead.of(self.site, self.state.version());
        let lowered = ahead.and_then(|ahead| ahead.take(&lowering));
        drop(templates);
        match lowered {
            Some(lowered) => Ok(lowered),
            None => {
                let _inside = self.shared.contention.lowering();
                lowering.lower(self.shared)
            }
        }
    }

    /// Whether the sequence needs code that no template makes. What is refused needs none.
    pub(super) fn needs_lowering(&mut self, sequence: &Sequence) -> Option<NeedsLowering> {
        let lasting = &self.state.lasting;
        state::check_changeable(self.site, self.old.status).ok()?;
        let (kind, place) = match (&lasting.live, self.site.module().is_live()) {
            _ if lasting.facts.is_call => return None,
            (Some(armed), true) if !sequence.is_in_place_only() => {
                let kind = lasting.armed_kind().filter(|_| sequence.outline().is_whole());
                (kind, CodePlace::Stub(armed.patchable_jump))
            }
            (_, true) => return None,
            (_, false) => (self.kind(sequence.outline()), CodePlace::Site),
        };
        let knows_gate = place != CodePlace::Site && self.knows_gate();
        let has_template = |kind| {
            let templates = self.templates.borrow();
            let template = templates.template((kind, sequence.outline()), &lasting.template);
            template.is_some() && (place == CodePlace::Site || knows_gate)
        };
        if kind.is_some_and(has_template) {
            return None;
        }
        let environment = self.environment(sequence, None).ok()?;
        let for_template = kind.is_some_and(|kind| self.is_for_template(kind, sequence));
        Some(NeedsLowering {
            environment,
            place,
            knows_gate,
            for_template,
        })
    }

    /// Whether the gate of a site of this kind is known: then it is [compared](live) when it is closed.
    pub(super) fn knows_gate(&self) -> bool {
        let kind = self.state.lasting.armed_kind();
        kind.is_some_and(|kind| self.templates.borrow().gate(kind).is_some())
    }

    /// Says which bytes are to be installed, and the offsets to which calls of them return.
    pub(super) fn put(&mut self, bytes: &[u8], returns: &[u32]) {
        let new = &mut self.new;
        new.bytes = short::of(bytes);
        new.returns.assign(returns);
    }

    /// Says what the bytes that were [put](Self::put) are, and of which sequence.
    pub(super) fn describe(&mut self, status: Status, sequence: Option<&Sequence>) {
        let new = &mut self.new;
        new.describe(status, sequence.cloned());
    }

    /// The bytes that are installed, and those that are to be.
    pub(super) fn sides(&self) -> (&[u8], &[u8]) {
        (&self.old.bytes, &self.new.bytes)
    }

    /// The sequence that is installed now.
    pub(super) fn installed_sequence(&self) -> Option<Sequence> {
        self.old.sequence.clone()
    }

    fn invalidate(&mut self) -> Result<Len> {
        let environment = Environment {
            miss: None,
            deopt: Some(self.invalidation_exit_stub()?),
        };
        let used = self.install(&EXIT, &environment, self.exit_kind())?;
        let installed = self.installed_sequence();
        self.describe(Status::Invalidated, installed.as_ref());
        Ok(used)
    }

    /// The original bytes go through no assembler; what must hold for them is that they keep the
    /// return offsets.
    fn restore(&mut self) -> Result<Len> {
        let (site, original) = (self.site, self.state.original(self.site));
        let returns = state::returns_of(site, self.state.displaced(site))?;
        // protection: restore-keeps-return-offsets
        state::check_keeps_return_offsets(site, original, &returns, &self.new.return_offsets)?;
        self.put(original, &returns);
        self.describe(Status::Original, None);
        Ok(self.site.reserved())
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
                    let end = self.state.lasting.range.end();
                    environment.miss = Some(self.exit_stub(ExitStubKind::Miss, Some(end))?);
                }
                Target::Deopt if deopt.is_none() => {
                    environment.deopt = Some(self.exit_stub(ExitStubKind::Deopt, None)?);
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
            return self.exit_stub(ExitStubKind::Invalidated, None);
        };
        let addr = match &self.old.stub {
            Some(stub) => stub.slot.addr(),
            None => self.copy_out_of_line(&sequence)?,
        };
        let exit_stub = self.exit_stub(ExitStubKind::Invalidated, Some(addr))?;
        let stub = self.old.stub.as_ref().or(self.new.stub.as_ref());
        let reference = stub.map(|stub| stub.reference());
        let mut made = self.exit_stubs.iter_mut();
        if let Some(made) = made.find(|made| made.addr() == exit_stub) {
            // protection: what-an-exit-resumes-to-stays
            made.resumes_in = reference;
        }
        Ok(exit_stub)
    }

    /// Puts the installed sequence into a stub, also one that was to be in place only, and was.
    pub(super) fn copy_out_of_line(&mut self, sequence: &Sequence) -> Result<CodeAddr> {
        let sequence = &sequence.anywhere();
        let environment = self.environment(sequence, None)?;
        let site = self.site;
        let context = site.context(&[]);
        let len = sequence::stub_len(sequence, &context, &environment)?;
        let slot = self.shared.stubs.alloc(len, self.state.lasting.range)?;
        let addr = slot.addr();
        self.new.stub = Some(Stub::empty(slot, self.owner()));
        let mut assembled = sequence::assemble_out_of_line(sequence, &context, &environment, addr)?;
        let stub = self.new.stub.as_deref_mut();
        check_and_fill(self.shared, &context, &mut assembled, stub)?;
        Ok(addr)
    }

    /// The exit stub of that kind, made if the site has none yet. Resumes at that address, or else with
    /// what the site held.
    fn exit_stub(&mut self, kind: ExitStubKind, resumes_at: Option<CodeAddr>) -> Result<CodeAddr> {
        let made = self
            .exit_stubs
            .iter()
            .find(|exit_stub| exit_stub.kind == kind)
            .map(ExitStub::addr);
        if let Some(addr) = made.or_else(|| self.state.exit_stub(kind)) {
            return Ok(addr);
        }
        let resumption = match resumes_at {
            Some(at) => ExitResumption::At(at),
            None => self.state.resumption(self.site),
        };
        let mut wanted = WantedExit::new(kind, self.new.generation, self.site, resumption);
        let role = wanted.role();
        let exits = self.shared.exits.as_ref().filter(|exits| exits.handles(role));
        let exits = exits.ok_or_else(|| Error::NoHandler {
            site: self.site.name(),
            role: role.name(),
        })?;
        if let Some(exit_stub) = self.exit_stub_ahead(kind) {
            let at = exit_stub.addr();
            self.exit_stubs.push(exit_stub);
            return Ok(at);
        }
        let near = self.state.lasting.range;
        let (rooms, made) = (&mut self.exit_rooms.borrow_mut(), &mut self.exit_stubs);
        self.shared.make_exit(rooms, &**exits, &mut wanted, near, made)
    }

    /// The exit stub of that kind, if it was made before this was lowered without the lock.
    fn exit_stub_ahead(&self, kind: ExitStubKind) -> Option<ExitStub> {
        let mut templates = self.templates.borrow_mut();
        let ahead = templates.ahead.of(self.site, self.state.version());
        ahead.and_then(|ahead| ahead.take_exit_stub(kind))
    }
}
