//! Code in memory: loaded by the engine or adopted, then registered.

#![allow(unsafe_code, reason = "what a runtime tells of code is a promise")]

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::{Engine, live};
use crate::addr::{CodeAddr, RecordId};
use crate::arch::{Arch, CallShape, SiteKind};
use crate::image::{
    self, AdoptedCode, Graph, Image, LinkedImage, MemoryManager, Object, Passes, SegmentAddrs,
    SegmentRequest, SymbolLookup,
};
use crate::memory::{
    self, Arena, CodeArea, CodeMemory, PlacedSegments, Placement, SegmentKind, Strategy, StrategyChoice,
};
use crate::site::{
    self, CallSpec, Candidate, EntrySpec, Functions, IntoShape, Marks, Module, ModuleParts, ShapeOf, Site,
    SiteSpec, Unrecorded, UnwindBy,
};
use crate::stackmap::OwnedMaps;
use crate::{Error, Result};

/// Code in memory with its stack maps, which no module has been made of yet.
pub struct LoadedCode {
    image: Image,
    symbols: HashMap<String, CodeAddr>,
    constructors: Vec<CodeAddr>,
    destructors: Vec<CodeAddr>,
    areas: Vec<CodeArea>,
    /// In ascending address.
    calls: Vec<CallSpec>,
    may_have_run: bool,
    /// Its strategy was the engine's choice, made before it was known whether it is to be live.
    is_chosen: bool,
    placed: Option<PlacedSegments>,
}

impl LoadedCode {
    /// The address of a symbol that the object defines and does not hide, for other objects to
    /// refer to: they may go there when the module that is made of the code is
    /// [released](Module::release). Empty for adopted code.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<CodeAddr> {
        self.symbols.get(name).copied()
    }

    /// The functions that the objects want called before their others, in this order; empty for
    /// adopted code. The engine never calls them. Call them when the code is registered and
    /// [released](Module::release): what has run cannot be made live any more. See
    /// [`LinkedImage::constructors`](crate::image::LinkedImage::constructors).
    #[must_use]
    pub fn constructors(&self) -> &[CodeAddr] {
        &self.constructors
    }

    /// The functions that the objects want called after all others, in this order: before the
    /// module is unregistered.
    #[must_use]
    pub fn destructors(&self) -> &[CodeAddr] {
        &self.destructors
    }

    /// Whether other code was there before, in memory of the engine's.
    #[cfg(test)]
    pub(super) fn is_reused(&self) -> bool {
        self.placed.as_ref().is_some_and(PlacedSegments::is_reused)
    }

    /// The stack maps, unwind information and functions.
    #[must_use]
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Takes these stack maps for the code in place of its own, in its byte order: such as those
    /// that [`FlatWriter`](crate::stackmap::flat::FlatWriter) made of them. They are read when the
    /// code is registered.
    #[must_use]
    pub fn with_stack_maps(mut self, section: Vec<u8>) -> Self {
        self.image.stack_maps = section;
        self
    }

    /// The ranges of code and how each is written.
    #[must_use]
    pub fn areas(&self) -> &[CodeArea] {
        &self.areas
    }
}

impl fmt::Debug for LoadedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Code")
            .field("functions", &self.image.functions.len())
            .field("areas", &self.areas)
            .finish()
    }
}

/// A registration with more to say than the shapes.
#[must_use = "nothing is registered before `register`"]
pub struct Registration<'e> {
    engine: &'e Engine,
    code: LoadedCode,
    entries: Vec<EntrySpec>,
    marks: Vec<Marks>,
    told: Vec<SiteSpec>,
    trust_live_outs: bool,
    live: bool,
    describe: Option<Describe<'e>>,
    unwind_by: UnwindBy,
    leavable: bool,
}

/// The ID under which calls of a function become sites, if they do.
type CallIds<'a> = &'a dyn Fn(&str) -> Option<RecordId>;

/// Describes a site, if the runtime has something to say of it.
type Describe<'e> = Box<dyn FnMut(&Site) -> Result<()> + 'e>;

impl Engine {
    /// Loads an object into memory of the engine's, resolving its undefined symbols through
    /// `resolve`.
    ///
    /// # Errors
    /// The object is damaged, for another architecture, or needs what the loader does not know; a symbol has no
    /// address; a target is out of reach; there is no memory.
    pub fn load(&self, object: &[u8], resolve: impl Fn(&str) -> Option<CodeAddr>) -> Result<LoadedCode> {
        self.load_graph(Graph::new("object", Object::parse(object)?), resolve)
    }

    /// Loads objects that refer to each other, resolving what none of them defines through
    /// `resolve`.
    ///
    /// # Errors
    /// As [`Engine::load`].
    pub fn load_graph(
        &self,
        graph: Graph<'_>,
        resolve: impl Fn(&str) -> Option<CodeAddr>,
    ) -> Result<LoadedCode> {
        self.load_with(graph, &mut Passes::new(), resolve)
    }

    /// As [`load_graph`](Self::load_graph), and every call of a function for which `calls` has an
    /// ID becomes a site of kind [`Call`](crate::arch::SiteKind::Call) when the code is registered:
    /// see [`Engine::retarget`].
    ///
    /// A call is recorded where the object has a branch relocation for it. There is none for a call
    /// that the compiler has resolved itself, as to a function with local linkage in the same
    /// section; calls through pointers and the global offset table (`-fno-plt`) are not recorded
    /// either.
    ///
    /// On PowerPC recorded calls go through stubs that save the caller's TOC pointer, also to
    /// functions of the graph. One without room behind it to restore that is refused when the code
    /// is registered, by [`site::Error::CallFixed`].
    ///
    /// # Errors
    /// As [`Engine::load`].
    pub fn load_recording(
        &self,
        graph: Graph<'_>,
        resolve: impl Fn(&str) -> Option<CodeAddr>,
        calls: impl Fn(&str) -> Option<RecordId>,
    ) -> Result<LoadedCode> {
        let mut found = Vec::new();
        let by_stub = RefCell::new(None);
        let mut passes = Passes::new()
            .before_pruning(|graph| {
                by_stub.replace(Some(graph.call_by_stubs(|name| calls(name).is_some())?));
                Ok(())
            })
            .before_fix_ups(|resolved| {
                by_stub
                    .borrow()
                    .iter()
                    .for_each(|by_stub| by_stub.resolve(resolved));
                Ok(())
            })
            .after_fix_ups(|fixed| {
                found = recorded(fixed.resolved(), &calls);
                Ok(())
            });
        let mut code = self.load_with(graph, &mut passes, resolve)?;
        drop(passes);
        code.calls = found;
        Ok(code)
    }

    /// Loads objects that refer to each other, with passes that read and change the graph on its
    /// way.
    ///
    /// # Errors
    /// As [`Engine::load`], and what a pass returns.
    pub fn load_with(
        &self,
        graph: Graph<'_>,
        passes: &mut Passes<'_>,
        resolve: impl Fn(&str) -> Option<CodeAddr>,
    ) -> Result<LoadedCode> {
        image::at_once(self.link(graph, passes, &resolve))
    }

    /// As [`load_with`](Self::load_with), for symbols whose addresses become known later: the
    /// runtime polls the future, and may have many of them on one thread.
    ///
    /// # Errors
    /// As [`Engine::load_with`], and what the lookup returns.
    pub async fn link<L: SymbolLookup>(
        &self,
        mut graph: Graph<'_>,
        passes: &mut Passes<'_>,
        lookup: &L,
    ) -> Result<LoadedCode>
    where
        Error: From<L::Error>,
    {
        self.check_here()?;
        self.check_arch(graph.arch())?;
        if let Some(limit) = self.shared.image_limit {
            // protection: engines-pass-their-limit-on
            graph.set_size_limit(limit);
        }
        let linked = image::link(graph, passes, &Loading(&self.shared.arena), lookup).await?;
        let (image, placed) = (linked.image, linked.memory);
        let symbols = image
            .symbols()
            .map(|(name, addr)| (name.to_owned(), addr))
            .collect();
        let areas = areas(&image.image, placed.shared_memory())?;
        // Before anybody has an address to call, and before it is registered.
        let code = placed
            .segments()
            .iter()
            .filter(|segment| segment.kind == SegmentKind::Code);
        let code: Vec<_> = code.map(|segment| segment.range).collect();
        // protection: reused-memory-is-published-to-all-threads
        self.shared.publisher.publish_placed(&code, placed.is_reused())?;
        Ok(LoadedCode {
            image: image.image,
            symbols,
            constructors: image.constructors,
            destructors: image.destructors,
            areas,
            calls: Vec::new(),
            may_have_run: false,
            is_chosen: false,
            placed: Some(placed),
        })
    }

    /// Takes over code that somebody else loaded, to be written by the strategy asked for. With
    /// [`Auto`](StrategyChoice::Auto) that is chosen anew, as [Remap](crate::memory::Remap), if the
    /// code is registered [live](Registration::live).
    ///
    /// # Errors
    /// No strategy works for that memory, or the code is for another architecture. [`Error::MemoryAllocates`]: only Toggle
    /// works, or was asked for, and the engine's world [stops threads anywhere](crate::publish::World::stops_anywhere).
    pub fn adopt(&self, code: AdoptedCode, ask: StrategyChoice) -> Result<LoadedCode> {
        self.check_here()?;
        // protection: mirrored-code-of-this-process-is-refused
        if self.shared.is_mirrored {
            return Err(Error::Memory(crate::memory::Error::NotMirrored {
                what: "code of this process",
                mend: "load the object, or adopt the code by an engine of its own",
            }));
        }
        let areas = memory::adopt_code(&code, ask)?;
        self.adopted(code, areas, ask == StrategyChoice::Auto)
    }

    /// Takes over code whose memory the runtime writes itself.
    ///
    /// # Errors
    /// The code does not lie in the memory, or is for another architecture; [`Error::MemoryAllocates`] as for
    /// [`adopt`](Self::adopt).
    pub fn adopt_with(&self, code: AdoptedCode, memory: &Arc<dyn CodeMemory>) -> Result<LoadedCode> {
        self.check_here()?;
        let areas = areas(code.image(), memory)?;
        self.adopted(code, areas, false)
    }

    fn adopted(&self, code: AdoptedCode, areas: Vec<CodeArea>, is_chosen: bool) -> Result<LoadedCode> {
        self.check_arch(code.image().arch)?;
        self.check_memory(&areas)?;
        let may_have_run = code.may_have_run();
        Ok(LoadedCode {
            image: code.into_image(),
            symbols: HashMap::new(),
            constructors: Vec::new(),
            destructors: Vec::new(),
            areas,
            calls: Vec::new(),
            may_have_run,
            is_chosen,
            placed: None,
        })
    }

    /// Makes a module of code: every record for which `shape` gives a shape becomes a site.
    ///
    /// # Safety
    /// What is told of the code is true from now until the last handle of the module is gone. Nothing of it can be found in the
    /// code:
    ///
    /// - The stack maps, unwind information and tables of `code` are those of its code, and every site is called as its
    ///   [`CallShape`] says: it reserves so many bytes, has a result or none, passes so many arguments by that convention.
    /// - What was said before registering is true: [entries](Registration::entry) and [marks](Registration::marked) are where
    ///   they are said to be; at [told sites](Registration::site) arguments, result and values are in the registers that were
    ///   told, nobody looks at what is told to be free, and what the convention of a site says is true there; [live-outs are complete](Registration::trust_live_outs), if they are trusted; frames are found
    ///   [as said](Registration::unwind_by).
    /// - No thread executes the code before the module is [released](Module::release), by whatever address. Adopted code that
    ///   [may have run](crate::image::AdoptedCode::may_have_run) is released from the start.
    /// - What is made of its sites is right for the code: what the sequences of patches load from, store to and leave as the
    ///   result, and what handlers answer for the result and the values of a record, is what the code around may do and can go on
    ///   with. That concerns the *values* alone: addresses to go to and bytes that are not decoded have promises of their own
    ///   ([`Target::addr`](crate::sequence::Target::addr), [`Sequence::call`](crate::sequence::Sequence::call) and
    ///   [`vouched`](crate::sequence::Sequence::vouched)), and everything else is checked.
    ///
    /// # Errors
    /// Whatever is wrong with a record, its shape or its bytes; nothing is registered then.
    pub unsafe fn register<S: IntoShape>(
        &self,
        code: LoadedCode,
        shape: impl FnMut(&Candidate<'_>) -> S,
    ) -> Result<Module> {
        // SAFETY: the caller promises the same.
        unsafe { self.registration(code).register(shape) }
    }

    /// Starts a registration.
    pub fn registration(&self, code: LoadedCode) -> Registration<'_> {
        Registration {
            engine: self,
            code,
            entries: Vec::new(),
            marks: Vec::new(),
            told: Vec::new(),
            trust_live_outs: false,
            live: false,
            describe: None,
            unwind_by: UnwindBy::EhFrame,
            leavable: false,
        }
    }

    /// Refuses a module that has a site at which a frame cannot be left.
    fn check_leavable(&self, module: &Module) -> Result<()> {
        let refused = |site: &Site, reason: String| Error::SiteNotLeavable {
            site: site.name(),
            reason,
        };
        let Some(exits) = &self.shared.exits else {
            let first = module.sites().next();
            return first.map_or(Ok(()), |site| {
                Err(refused(&site, "the engine has no exit stubs".into()))
            });
        };
        // No handler is called from a call site.
        let sites = module.sites();
        for site in sites.filter(|site| site.shape().kind() != SiteKind::Call) {
            if let Err(error) = exits.check_leavable(&site) {
                // The module will not be registered.
                exits.forget(module.id());
                return Err(refused(&site, error.to_string()));
            }
        }
        Ok(())
    }

    /// Refuses memory whose writing allocates where a thread may be stopped in the allocator.
    fn check_memory(&self, areas: &[CodeArea]) -> Result<()> {
        let strategy = |area: &CodeArea| area.memory().strategy();
        let allocates = |area: &&CodeArea| strategy(area) == Strategy::Toggle;
        match areas.iter().find(allocates) {
            // protection: no-toggle-while-threads-are-stopped-anywhere
            Some(area) if self.shared.stops_anywhere => Err(Error::MemoryAllocates {
                range: area.range(),
                strategy: strategy(area).name(),
            }),
            _ => Ok(()),
        }
    }

    fn check_arch(&self, found: Arch) -> Result<()> {
        let host = self.shared.arch;
        if found == host {
            Ok(())
        } else {
            Err(Error::ForeignArch { found, host })
        }
    }
}

/// The calls of every function that has an ID.
fn recorded(resolved: &image::Resolved<'_>, id: CallIds<'_>) -> Vec<CallSpec> {
    let mut ids = HashMap::new();
    let calls = resolved.calls(|name| {
        let known = id(name);
        ids.extend(known.map(|id| (name.to_owned(), id)));
        known.is_some()
    });
    let spec = |call: image::RecordedCall| {
        let id = *ids.get(&call.callee)?;
        Some(CallSpec { id, call })
    };
    calls.into_iter().filter_map(spec).collect()
}

/// The engine's arena as the memory of a link that may fail by the engine's errors, such as those
/// of a lookup.
struct Loading<'a>(&'a Arena);

impl MemoryManager for Loading<'_> {
    type Memory = Placement;
    type Finalized = PlacedSegments;
    type Error = Error;

    async fn allocate(
        &self,
        segments: &[SegmentRequest; 3],
        reach: image::ImageReach,
    ) -> Result<(Self::Memory, SegmentAddrs)> {
        Ok(self.0.allocate(segments, reach).await?)
    }

    async fn finalize(&self, memory: Self::Memory, image: &LinkedImage) -> Result<Self::Finalized> {
        Ok(self.0.finalize(memory, image).await?)
    }

    fn abandon(&self, memory: Self::Memory) {
        self.0.abandon(memory);
    }

    fn deallocate(&self, finalized: Self::Finalized) -> Result<()> {
        Ok(self.0.deallocate(finalized)?)
    }
}

fn areas(image: &Image, memory: &Arc<dyn CodeMemory>) -> Result<Vec<CodeArea>> {
    image
        .code
        .iter()
        .map(|range| Ok(CodeArea::new(*range, memory)?))
        .collect()
}

impl<'e> Registration<'e> {
    /// Adds reserved bytes at the start of a function.
    pub fn entry(mut self, entry: EntrySpec) -> Self {
        self.entries.push(entry);
        self
    }

    /// Makes sites of the instructions that a PC section marks.
    pub fn marked(mut self, marks: Marks) -> Self {
        self.marks.push(marks);
        self
    }

    /// Adds a site of which the runtime itself tells.
    pub fn site(mut self, site: SiteSpec) -> Self {
        self.told.push(site);
        self
    }

    /// Adds sites of which the runtime itself tells.
    pub fn sites(mut self, sites: impl IntoIterator<Item = SiteSpec>) -> Self {
        self.told.extend(sites);
        self
    }

    /// The LLVM that compiled the code lists all live-outs: callee-saved registers that are not
    /// listed are free.
    pub fn trust_live_outs(mut self) -> Self {
        self.trust_live_outs = true;
        self
    }

    /// Attaches what this returns to each site, before its code can run, for handlers to find: see
    /// [`Site::describe`].
    pub fn describe<T: Any + Send + Sync>(mut self, mut of: impl FnMut(&Site) -> Option<T> + 'e) -> Self {
        self.describe = Some(Box::new(move |site| match of(site) {
            Some(description) => Ok(site.describe(description)?),
            None => Ok(()),
        }));
        self
    }

    /// How the frames of the module's functions are found, where frames are left, replaced or
    /// walked: by the unwind information that came with the code, if nothing else is said.
    pub fn unwind_by(mut self, how: UnwindBy) -> Self {
        self.unwind_by = how;
        self
    }

    /// Handlers will leave or replace the frames of this module's functions. Registering is refused
    /// with [`Error::SiteNotLeavable`] if that cannot be done at every site; without this a handler
    /// is refused, when it tries.
    pub fn leavable(mut self) -> Self {
        self.leavable = true;
        self
    }

    /// Makes the patchpoints, entry sites and told sites of the module live: they are changed while threads
    /// execute them, and no thread is stopped for it. Registering arms them.
    ///
    /// - In code that has not run, every site is rewritten once as nops around a patchable jump that is a nop, or, where
    ///   LLVM's call was, or other instructions of a told site, a jump to those in a stub, so that the code does what it did.
    ///   [`restore`](Engine::restore) puts this form back; the bytes that were there before do not come back, nor does
    ///   unregistering write them.
    /// - Adopted code that [may have run](AdoptedCode::may_have_run), in which threads may be now, is not written. A site
    ///   whose first instruction can be exchanged for a jump by one store is changed by that.
    /// - Everything else, on x86-64, is changed behind a trap: five bytes that cross a quadword, and several instructions
    ///   that may be running. A thread that comes to the trap gets SIGTRAP, and goes on at the new code. Where no thread can
    ///   be between the old bytes, the trap is gone when the change returns, for two barriers more; else it stays until
    ///   [`settle`](Engine::settle) makes a jump of it. `restore` brings the original bytes back. Threads that execute
    ///   such a site must not block SIGTRAP, as the handler of that signal does unless it was installed with `SA_NODEFER`:
    ///   the kernel kills them.
    ///
    /// A call site is armed, too, if its distance cannot be exchanged by one store: it is
    /// retargeted to a jump of its own in a stub, which can.
    ///
    /// Shadows and marked sites are not armed, and a change of one is refused with
    /// [`site::Error::ShadowNotArmed`]; shadows can be invalidated.
    ///
    /// Registering is refused with [`Error::ArmedTooLate`] if the code may have run and a site can neither be exchanged
    /// nor changed behind a trap, with [`site::Error::NoPatchableJump`] if a site is too short, and with
    /// [`Error::ArmedMemory`] if its memory has no atomic store. Nothing is registered or written
    /// then. Code that was [adopted](Engine::adopt) without a choice of how it is written is
    /// [remapped](crate::memory::Remap), or refused with the reason why it cannot be.
    ///
    /// A callee of LLVM's call, and of calls in sequences, finds its return address in a stub. What
    /// takes backtraces through it is in [`observe`](crate::observe).
    pub fn live(mut self) -> Self {
        self.live = true;
        self
    }

    /// Makes a module of the sites that were declared alone: no record of a stack map becomes one,
    /// and there need be no stack map.
    ///
    /// # Safety
    /// As for [`Engine::register`].
    ///
    /// # Errors
    /// As [`Engine::register`].
    pub unsafe fn finish(self) -> Result<Module> {
        // SAFETY: the caller promises the same.
        unsafe { self.register(|_| None::<CallShape>) }
    }

    /// Makes a module: every record whose ID has a shape in the map becomes a site. IDs of the map
    /// that no record has are returned: LLVM merges and removes calls.
    ///
    /// # Safety
    /// As for [`Engine::register`].
    ///
    /// # Errors
    /// As [`Engine::register`].
    pub unsafe fn register_ids(
        self,
        shapes: &HashMap<RecordId, CallShape>,
    ) -> Result<(Module, Vec<RecordId>)> {
        // SAFETY: the caller promises the same.
        let module = unsafe { self.register(|record| shapes.get(&record.id()).copied()) }?;
        let found: std::collections::HashSet<RecordId> = module.sites().map(|site| site.id()).collect();
        let mut missing: Vec<RecordId> = shapes.keys().filter(|id| !found.contains(id)).copied().collect();
        missing.sort_unstable();
        Ok((module, missing))
    }

    /// Makes a module: every record for which `shape` gives a shape becomes a site.
    ///
    /// # Safety
    /// As for [`Engine::register`].
    ///
    /// # Errors
    /// As [`Engine::register`].
    // protection: told-of-code-is-unsafe
    pub unsafe fn register<S: IntoShape>(self, mut shape: impl FnMut(&Candidate<'_>) -> S) -> Result<Module> {
        // SAFETY: the caller promises the same.
        unsafe { self.register_by(&mut |record| shape(record).into_shape()) }
    }

    /// The same, compiled once.
    ///
    /// # Safety
    /// As for [`Engine::register`].
    unsafe fn register_by(self, shape: &mut ShapeOf<'_>) -> Result<Module> {
        let Self {
            engine,
            code,
            entries,
            marks,
            told,
            trust_live_outs,
            live,
            describe,
            unwind_by,
            leavable,
        } = self;
        engine.check_here()?;
        let areas = match live && code.is_chosen {
            // protection: live-code-is-remapped
            true => memory::adopt_live(code.areas)?,
            false => code.areas,
        };
        // Another engine may have adopted the code.
        engine.check_memory(&areas)?;
        let parts = ModuleParts {
            id: engine.next_module(),
            arch: code.image.arch,
            windows: code.image.windows,
            maps: OwnedMaps::new(code.image.stack_maps, code.image.endian)?,
            functions: Functions::new(&code.image.functions)?,
            areas: areas.into_iter().collect(),
            eh_frames: code.image.eh_frames.into(),
            unwind_by,
            trust_live_outs,
            live,
            may_have_run: code.may_have_run,
            owner: Arc::clone(&engine.shared.owner),
            _placed: code.placed,
        };
        let unrecorded = Unrecorded {
            entries: &entries,
            marks: &marks,
            calls: &code.calls,
            told: &told,
            code_tables: &code.image.code_tables,
        };
        let new = site::register(parts, &unrecorded, shape)?;
        let module = new.module.clone();
        if let Some(mut describe) = describe {
            module.sites().try_for_each(|site| describe(&site))?;
        }
        if leavable {
            engine.check_leavable(&module)?;
        }
        let shared = &engine.shared;
        shared.with_states(|states| {
            // protection: live-modules-are-found-armed
            shared.table.read().check(&module).map_err(Error::from)?;
            if live {
                // protection: refused-arming-registers-nothing
                live::arm(shared, states, &module)?;
            }
            // Whoever finds the module may run it: it is armed, and its stubs are known.
            shared.tell_registered(&module, states);
            // Nobody else inserts one without the lock: it is as it was checked.
            // protection: live-modules-are-found-armed (2)
            Ok(shared.change_table(states, |table| table.insert(&new).map_err(Error::from))?)
        })?;
        Ok(module)
    }
}
