//! A registered module: its stack maps and its sites.

use core::any::Any;
use core::fmt;
use core::hint::black_box;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use super::alike::FormKey;
use super::calls::Callees;
use super::details::{Details, Inner, ModuleParts, ToldRecords};
use super::found::SiteEntry;
use super::function::Function;
use super::kept::{FormNumber, KeptSite, Origin, RecordedBy, SiteForm, Sites};
use super::owner::Owner;
use super::unwind_by::UnwindBy;
use crate::addr::{CodeAddr, CodeRange, FnOffset, Len, RecordId};
use crate::arch::{Arch, CallShape, SiteContext, SiteKind, calls};
use crate::error::SiteName;
use crate::image::EhFrame;
use crate::memory::{Alias, CodeArea, CodeMemory};
use crate::site::{Error, Result};
use crate::stackmap::flat::FlatFrame;
use crate::stackmap::{Constants, Record, RecordRef, Version};
use patchpoint_asm::backend_of;
use patchpoint_asm::live::{NoPatchableJump, PatchableJump};

/// Names a module of an engine; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(pub(crate) u32);

/// Names a site of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteKey {
    pub(crate) module: ModuleId,
    pub(crate) index: u32,
}

/// A registered module. Cloning clones a handle.
#[derive(Clone)]
pub struct Module(pub(super) Arc<Inner>);

impl Module {
    pub(super) fn new(
        parts: ModuleParts,
        shapes: Vec<CallShape>,
        sites: &[SiteEntry],
        originals: Vec<u8>,
        callees: Callees,
        told: ToldRecords,
    ) -> Self {
        let released = AtomicBool::new(parts.may_have_run);
        let is_told = told.records.maps().next().is_some();
        let (mut inner, room) = {
            let mut unused = parts.owner.unused();
            (unused.module(), unused.sites(sites.len()))
        };
        let filled = Arc::get_mut(&mut inner).expect("an unused module has no other handles");
        let mut sites = Sites::new(sites, room);
        let mut numbers = parts.owner.forms();
        sites.number_forms(|form| numbers.of(FormKey::new(form, &parts, (&shapes, &originals))));
        drop(numbers);
        *filled = Inner {
            sites,
            details: Some(Box::new(Details {
                parts,
                shapes: shapes.into(),
                originals: originals.into_boxed_slice(),
                released,
                states_at: AtomicU32::new(0),
                table_at: AtomicU32::new(0),
                callees,
                told: is_told.then(|| Box::new(told)),
                on_demand: OnceLock::new(),
            })),
        };
        Self(inner)
    }

    /// The module's name in its engine.
    #[must_use]
    pub fn id(&self) -> ModuleId {
        self.0.parts.id
    }

    /// The architecture of its code.
    #[must_use]
    pub fn arch(&self) -> Arch {
        self.0.parts.arch
    }

    /// The function of that name.
    ///
    /// # Errors
    /// [`Error::NoSuchFunction`].
    pub fn function(&self, name: &str) -> Result<Function> {
        let index = self.0.parts.functions.named(name);
        index
            .map(|index| Function {
                module: self.clone(),
                index,
            })
            .ok_or_else(|| Error::NoSuchFunction { name: name.into() })
    }

    /// All functions, in ascending address.
    pub fn functions(&self) -> impl Iterator<Item = Function> + '_ {
        (0..self.0.parts.functions.len() as u32).map(|index| Function {
            module: self.clone(),
            index,
        })
    }

    /// All sites, in ascending address.
    pub fn sites(&self) -> impl Iterator<Item = Site> + '_ {
        (0..self.0.sites.len() as u32).map(|index| self.handle(index))
    }

    /// The sites that call the function of that name, whose calls were
    /// [recorded](crate::Engine::load_recording).
    pub fn calls_of<'a>(&'a self, function: &str) -> impl Iterator<Item = Site> + use<'a> {
        let calls = self.0.callees.calls_of(function).iter();
        calls.filter_map(|addr| self.site_at(*addr))
    }

    /// The function that contains `addr`.
    #[must_use]
    pub fn function_at(&self, addr: CodeAddr) -> Option<Function> {
        let index = self.0.parts.functions.containing(addr)?;
        Some(Function {
            module: self.clone(),
            index,
        })
    }

    /// Every record with the address that its offset stands for: of a statepoint, the return
    /// address.
    pub(crate) fn record_addresses(&self) -> Result<impl Iterator<Item = (CodeAddr, RecordRef)>> {
        super::audit::record_addresses(&self.0.parts)
    }

    /// What flat stack maps say of its functions.
    pub(crate) fn frames(&self) -> impl Iterator<Item = FlatFrame<'_>> {
        self.0.parts.maps.maps().flat_map(|(_, map)| map.frames())
    }

    /// The record of a reference, with its constants.
    pub(crate) fn record(&self, reference: RecordRef) -> Option<(Record<'_>, Constants<'_>)> {
        self.0.parts.maps.get(reference)
    }

    /// The site that contains `addr`.
    #[must_use]
    pub fn site_at(&self, addr: CodeAddr) -> Option<Site> {
        let sites = &self.0.sites;
        let at = sites.before(addr);
        // One that starts there, or the one before.
        let found = sites.containing(&sites.all, at, addr);
        let before = || sites.containing(&sites.all, at.checked_sub(1)?, addr);
        found.or_else(before).map(|index| self.handle(index))
    }

    /// The same by whoever has the sites at hand, where that site is not far behind the one with
    /// number `first`.
    pub(super) fn site_from(&self, kept: &[KeptSite], first: u32, addr: CodeAddr) -> Option<Site> {
        let index = self.0.sites.containing(kept, first, addr)?;
        Some(self.handle(index))
    }

    /// The ranges of code of the module, ascending, and how each is written.
    #[must_use]
    pub fn areas(&self) -> &[CodeArea] {
        &self.0.parts.areas
    }

    /// The unwind information that came with the code.
    #[must_use]
    pub fn eh_frames(&self) -> &[EhFrame] {
        &self.0.parts.eh_frames
    }

    /// Whether the live-outs of its records are believed.
    pub(crate) fn trusts_live_outs(&self) -> bool {
        self.0.parts.trust_live_outs
    }

    /// How the frames of its functions are found.
    #[must_use]
    pub fn unwind_by(&self) -> UnwindBy {
        self.0.parts.unwind_by
    }

    /// What was [kept](Self::keep_unwinds) of its unwind information.
    pub(crate) fn kept_unwinds<T: Any>(&self) -> Option<&T> {
        let kept = self.0.known_on_demand()?.unwinds.get()?;
        Some(kept.downcast_ref().expect("what is kept is of one type"))
    }

    /// Keeps what was read of its unwind information, unless another thread has, and returns what is
    /// kept.
    ///
    /// # Panics
    /// What is kept is of another type.
    pub(crate) fn keep_unwinds<T: Any + Send + Sync>(&self, read: T) -> &T {
        let unwinds = &self.0.on_demand().unwinds;
        let kept = unwinds.get_or_init(|| Box::new(read));
        kept.downcast_ref().expect("what is kept is of one type")
    }

    /// Whether the engine has loaded its code.
    #[cfg(feature = "backtrace")]
    pub(crate) fn is_loaded(&self) -> bool {
        self.0.parts._placed.is_some()
    }

    /// The number that its engine gave it [last](Self::put_states_at); 0 before.
    #[inline]
    pub(crate) fn states_at(&self) -> u32 {
        self.0.states_at.load(Ordering::Relaxed)
    }

    /// Keeps the number of its list of states, for the engine in which it is registered.
    pub(crate) fn put_states_at(&self, number: u32) {
        self.0.states_at.store(number, Ordering::Relaxed);
    }

    /// The place that it got [last](Self::put_table_at) in a table; 0 before.
    pub(super) fn table_at(&self) -> u32 {
        self.0.table_at.load(Ordering::Relaxed)
    }

    /// Keeps the place that it got in a table.
    pub(super) fn put_table_at(&self, place: u32) {
        self.0.table_at.store(place, Ordering::Relaxed);
    }

    /// Whether it is the same module, not one like it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Declares that threads may execute its code from now on, by whatever address they know.
    ///
    /// Into code that has not run no return address points. Until it is released a patch therefore
    /// has all bytes of a site, also where a call is. Afterwards the place behind a call that
    /// was in a site stays an instruction boundary with only nops behind it, or what does not fit
    /// is moved out of line. So the early patches come first, then this.
    ///
    /// [Entries](Function::entry) are given of released modules only. That nobody goes there by
    /// another address before, such as by a symbol that another object was linked with, is part of
    /// what [registering](crate::engine::Engine::register) promises.
    ///
    /// Any thread may call it, more than once; it takes effect at once, and there is no way back. A
    /// change that was prepared before, and keeps no place to return to, is refused with
    /// [`Error::SiteChanged`](crate::Error::SiteChanged) when it is committed. Adopted code that
    /// [may have run](crate::image::AdoptedCode::may_have_run) is released when it is registered.
    pub fn release(&self) {
        // protection: released-code-may-run
        self.0.released.store(true, Ordering::Release);
    }

    /// Whether threads may execute its code: see [`release`](Self::release).
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.0.released.load(Ordering::Acquire)
    }

    /// Whether its patchpoints and entry sites are changed while threads execute them.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.0.parts.live
    }

    /// The engine that it is registered with, by its own type.
    pub(crate) fn owner(&self) -> &Owner {
        &self.0.parts.owner
    }

    /// The sites themselves.
    pub(super) fn kept(&self) -> &Arc<[KeptSite]> {
        &self.0.sites.all
    }

    pub(crate) fn site_count(&self) -> usize {
        self.0.sites.len()
    }

    /// Where every site is, and how many bytes it has, in ascending address.
    pub(super) fn extents(&self) -> impl Iterator<Item = (CodeAddr, Len)> + '_ {
        let sites = &self.0.sites;
        (0..sites.len() as u32).map(|index| (sites.addr(index), sites.form_of(index).reserved))
    }

    /// Where the site with that number is, of which there is one.
    #[inline]
    pub(crate) fn site_addr(&self, index: u32) -> CodeAddr {
        self.0.sites.addr(index)
    }

    /// Where the sites with these numbers are.
    #[inline]
    pub(crate) fn site_addrs(&self, sites: Range<u32>) -> impl Iterator<Item = CodeAddr> {
        self.0.sites.addrs(sites)
    }

    /// The memory in which the site with that number is, of which there is one.
    #[inline]
    pub(crate) fn memory_of(&self, index: u32) -> Result<&Arc<dyn CodeMemory>> {
        self.memory_at((index, self.site_addr(index)))
    }

    #[inline]
    fn memory_at(&self, (index, addr): (u32, CodeAddr)) -> Result<&Arc<dyn CodeMemory>> {
        let area = CodeArea::containing(self.areas(), addr);
        area.map(CodeArea::memory).ok_or_else(|| self.foreign(index))
    }

    /// That the site with that number is not in this engine.
    #[cold]
    pub(crate) fn foreign(&self, index: u32) -> Error {
        let site = self.handle(index).name();
        Error::SiteForeign { site }
    }

    /// How many of these sites, from the first on, are like another: they differ in their addresses, IDs
    /// and what their records say of values.
    pub(crate) fn alike(&self, other: u32, sites: Range<u32>) -> u32 {
        self.0.sites.alike(other, sites)
    }

    /// Reads the first of what a change asks it, through which [`warm`](Self::warm) finds the rest.
    #[inline]
    pub(crate) fn touch(&self) {
        black_box(self.is_released());
    }

    /// Reads what else a change of a site asks its module. Of many modules one right after the other: the processor
    /// fetches what is in no cache of several at a time, and does not wait for it when it is needed.
    #[inline]
    pub(crate) fn warm(&self, index: u32) {
        let memory = self.memory_of(index).ok().and_then(|memory| memory.as_alias());
        black_box((self.form_number_of(index), memory.map(Alias::range)));
    }

    /// The number of the form of a site, if it has one: of sites with one number, each is like the others.
    #[inline]
    pub(crate) fn form_number_of(&self, index: u32) -> Option<FormNumber> {
        self.0.sites.form_of(index).number
    }

    /// The ID of every site, with its number.
    pub(super) fn ids(&self) -> impl Iterator<Item = (RecordId, u32)> + '_ {
        (0..self.0.sites.len() as u32).map(|index| (self.0.id(index), index))
    }

    /// The site with that number, of which there has been one.
    pub(crate) fn handle(&self, index: u32) -> Site {
        Site {
            module: self.clone(),
            index: index.into(),
        }
    }

    /// The site of a number that one of its has, by this handle.
    #[inline]
    pub(crate) fn into_site(self, index: u32) -> Site {
        Site {
            module: self,
            index: index.into(),
        }
    }

    /// The same, of which `kept` becomes the handle of the module if it is one: to count them up and
    /// down is a twentieth of a patch.
    #[inline]
    pub(super) fn handle_by(&self, kept: &mut Option<Self>, index: u32) -> Site {
        // protection: a-kept-handle-is-of-this-module
        match kept.take_if(|kept| kept.is_same(self)) {
            Some(module) => Site {
                module,
                index: index.into(),
            },
            None => self.handle(index),
        }
    }

    pub(super) fn site(&self, index: u32) -> Option<Site> {
        self.0.sites.get(index).map(|_| self.handle(index))
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module")
            .field("id", &self.id())
            .field("functions", &self.0.parts.functions.len())
            .field("sites", &self.0.sites.len())
            .finish()
    }
}

/// A site: a handle that keeps its module.
#[derive(Clone)]
pub struct Site {
    module: Module,
    /// Its number, as wide as the handle. A word that is loaded waits for the store of its half: a fortieth
    /// of a patch.
    index: u64,
}

impl Site {
    #[inline]
    fn form(&self) -> &SiteForm {
        self.module.0.sites.form_of(self.index())
    }

    fn origin(&self) -> &Origin {
        self.module.0.sites.origin(self.index())
    }

    /// Its number among its module's.
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        // It was one.
        self.index as u32
    }

    /// Another handle of it, of which `kept` becomes the handle of the module if it is one.
    #[inline]
    pub(crate) fn handle_by(&self, kept: &mut Option<Module>) -> Self {
        self.module.handle_by(kept, self.index())
    }

    /// The handle of its module that it was.
    #[inline]
    pub(crate) fn into_module(self) -> Module {
        self.module
    }

    /// Makes it a handle of the module's site with that number, of which there has been one: without
    /// counting the handles of the module.
    #[inline]
    pub(crate) fn go_to(&mut self, index: u32) {
        self.index = index.into();
    }

    /// The site's name in its engine.
    #[must_use]
    pub fn key(&self) -> SiteKey {
        SiteKey {
            module: self.module.id(),
            index: self.index(),
        }
    }

    /// The ID of its record, or the one that the runtime chose for it. Not unique.
    #[must_use]
    pub fn id(&self) -> RecordId {
        self.module.0.id(self.index())
    }

    /// The address of its first byte.
    #[must_use]
    pub fn addr(&self) -> CodeAddr {
        self.module.0.sites.addr(self.index())
    }

    /// The number of its bytes.
    #[must_use]
    pub fn reserved(&self) -> Len {
        self.form().reserved
    }

    /// All its bytes.
    #[must_use]
    pub fn range(&self) -> CodeRange {
        self.module.0.sites.range(self.index())
    }

    /// The instructions that were there when it was registered: the reserved bytes, and of a
    /// shadow the rest of its last instruction.
    pub(crate) fn displaced(&self) -> &[u8] {
        self.form().displaced(&self.module.0.originals)
    }

    /// The reserved bytes as they were then.
    pub(crate) fn original(&self) -> &[u8] {
        let original = self.displaced().get(..self.reserved().as_usize());
        original.expect("what a site displaces begins with its reserved bytes")
    }

    /// What tells whether it is like another: with the same here they are in the same module, and
    /// differ in their addresses, IDs and what their records say of values.
    #[inline]
    pub(crate) fn form_key(&self) -> (ModuleId, u32) {
        (self.module.id(), self.module.0.sites.form_number(self.index()))
    }

    /// Whether a module's site of that number is like it: they differ in their addresses, IDs and what their records say of
    /// values. Of two modules, they held the same.
    #[inline]
    pub(crate) fn is_alike(&self, (module, index): (&Module, u32)) -> bool {
        let (form, of_other) = (self.form(), module.0.sites.form_of(index));
        if self.module.is_same(module) {
            return ptr::eq(form, of_other);
        }
        if form.number.is_some() && form.number == of_other.number {
            return true;
        }
        // protection: sites-of-two-modules-are-compared
        (form.reserved, form.overhang, form.recorded)
            == (of_other.reserved, of_other.overhang, of_other.recorded)
            && self.displaced() == of_other.displaced(&module.0.originals)
            && self.shape() == of_other.shape_of(&module.0.shapes)
            && self.module.arch() == module.arch()
            && self.module.trusts_live_outs() == module.trusts_live_outs()
    }

    /// The memory in which it is.
    pub(crate) fn memory(&self) -> Result<&Arc<dyn CodeMemory>> {
        self.module.memory_of(self.index())
    }

    /// The same for who knows its address.
    #[inline]
    pub(crate) fn memory_at(&self, addr: CodeAddr) -> Result<&Arc<dyn CodeMemory>> {
        self.module.memory_at((self.index(), addr))
    }

    /// The bytes that are there now.
    ///
    /// # Errors
    /// Its memory refuses.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.reserved().as_usize()];
        self.memory()?.read(self.addr(), &mut bytes)?;
        Ok(bytes)
    }

    /// Whether it has a record: a patchpoint and a shadow have LLVM's, a told site has one that was
    /// made of what was told.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.form().is_recorded()
    }

    /// The offsets in it to which return addresses may point that the runtime has told, ascending.
    pub(crate) fn told_return_offsets(&self) -> impl Iterator<Item = u32> + '_ {
        let addr = self.addr();
        let told = self.module.0.told.iter().filter(|_| self.is_told());
        let returns = told.flat_map(move |told| {
            let first = told.returns.partition_point(|(site, _)| *site < addr);
            told.returns.iter().skip(first)
        });
        returns
            .take_while(move |(site, _)| *site == addr)
            .map(|(_, offset)| *offset)
    }

    /// Whether its record was made of what was told.
    #[inline]
    pub(crate) fn is_told(&self) -> bool {
        self.form().recorded == RecordedBy::Runtime
    }

    /// The address after its last byte.
    #[must_use]
    pub fn end(&self) -> CodeAddr {
        self.range().end()
    }

    /// What the runtime told of it.
    #[must_use]
    pub fn shape(&self) -> CallShape {
        self.form().shape_of(&self.module.0.shapes)
    }

    /// The function in which it lies.
    #[must_use]
    pub fn function(&self) -> Function {
        Function {
            module: self.module.clone(),
            index: self.origin().function,
        }
    }

    /// The distance from the start of its function.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
    pub fn offset(&self) -> FnOffset {
        // Not by a handle of the function, which counts.
        let function = self.module.0.parts.functions.addr(self.origin().function);
        offset_in(function.expect(IN_A_FUNCTION), self.addr())
    }

    /// The module that it belongs to.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Its record with the constants that the record refers to: of a told site, one that was made
    /// of what was told. `None` for a site that has none.
    #[must_use]
    pub fn record(&self) -> Option<(Record<'_>, Constants<'_>)> {
        self.module.0.record(self.index())
    }

    /// Whether its record says the same is live as one of that version does that has so many locations
    /// and these [bytes](Record::live_bytes).
    pub(crate) fn has_record_like(&self, alike: (Version, u16, &[u8])) -> bool {
        self.module.0.has_record_like(self.index(), alike)
    }

    /// Whether it has a record.
    pub(crate) fn has_record(&self) -> bool {
        self.module.0.maps_of(self.index()).is_some()
    }

    /// Where its patchable jump is, or would be if its module were
    /// [live](crate::engine::Registration::live): of a call site, its operand.
    ///
    /// # Errors
    /// [`Error::NoPatchableJump`] where there is no room for one in a quadword, so that it would be changed behind a trap or
    /// refused, or the operand of a call lies in several words; [`Error::ShadowNotArmed`] of a shadow or marked site, which has none.
    #[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
    pub fn patchable_jump(&self) -> Result<CodeRange> {
        let patchable_jump = self.plan_patchable_jump()?;
        let range = CodeRange::new(patchable_jump.addr, u64::from(patchable_jump.len.get()));
        Ok(range.expect("a patchable jump lies in its site"))
    }

    pub(crate) fn plan_patchable_jump(&self) -> Result<PatchableJump> {
        if self.shape().kind().displaces() {
            return Err(Error::ShadowNotArmed { site: self.name() });
        }
        let arch = self.module.arch();
        if self.shape().kind() == SiteKind::Call {
            return self.plan_operand();
        }
        let live = backend_of(arch);
        live.plan_patchable_jump(self.addr(), self.reserved())
            .map_err(|NoPatchableJump { needed }| Error::NoPatchableJump {
                site: self.name(),
                reserved: self.reserved(),
                needed,
            })
    }

    /// The operand of a call site, where it lies in one word.
    fn plan_operand(&self) -> Result<PatchableJump> {
        let (addr, reserved) = (self.addr(), self.reserved());
        let operand = calls::operand(self.module.arch(), addr, reserved.as_usize());
        let patchable_jump = operand.and_then(|operand| {
            let offset = Len::new(operand.start as u32);
            let len = Len::new(operand.len() as u32);
            PatchableJump::within(addr, reserved, offset, len).ok()
        });
        patchable_jump.ok_or_else(|| Error::NoPatchableJump {
            site: self.name(),
            reserved,
            needed: reserved,
        })
    }

    /// Where it is, for errors.
    pub(crate) fn name(&self) -> Box<SiteName> {
        SiteName::of(&self.context(&[]))
    }

    /// What an assembler and a checker need to know of it.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
    pub fn context<'a>(&'a self, return_offsets: &'a [u32]) -> SiteContext<'a> {
        let record = self.record();
        let parts = &self.module.0.parts;
        let function = parts.functions.get(self.origin().function);
        let function = function.expect(IN_A_FUNCTION);
        let addr = self.addr();
        SiteContext {
            arch: parts.arch,
            id: record.map_or_else(|| self.id(), |(record, _)| record.id()),
            function: Some(function.name),
            offset: offset_in(function.addr, addr),
            addr,
            shape: self.shape(),
            record: record.map(|(record, _)| record),
            constants: record.map_or(Constants::NONE, |(_, constants)| constants),
            return_offsets,
            trust_live_outs: parts.trust_live_outs,
        }
    }
}

const IN_A_FUNCTION: &str = "a site's function is one of its module's";

/// How far behind the start of its function a site is.
fn offset_in(function: CodeAddr, site: CodeAddr) -> FnOffset {
    let offset = u32::try_from(site.distance_from(function));
    FnOffset::new(offset.expect("a site lies in its function"))
}

/// The same site of the same registration.
impl PartialEq for Site {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.module.is_same(&other.module)
    }
}

impl Eq for Site {}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.name(), f)
    }
}
