//! A registered module: its functions, its stack maps and its sites.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::describe::Descriptions;
use super::unwind_by::UnwindBy;
use crate::addr::{CodeAddr, CodeRange, FnOffset, Len, RecordId};
use crate::arch::live::{Head, NoHead};
use crate::arch::{Arch, CallShape, SiteContext, SiteKind};
use crate::error::{Error, Result, SiteName};
use crate::image::{EhFrame, FunctionRange};
use crate::memory::{CodeArea, CodeMemory, Placed};
use crate::stackmap::{Constants, OwnedMaps, Record, RecordRef, StackSize};

/// Names a module of an engine; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(pub(crate) u32);

/// Names a site of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteKey {
    pub(crate) module: ModuleId,
    pub(crate) index: u32,
}

/// One site that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) id: RecordId,
    pub(super) addr: CodeAddr,
    /// `None` for entry sites.
    pub(super) record: Option<RecordRef>,
    pub(super) function: u32,
    pub(super) shape: u16,
    /// How many bytes the last instruction of a shadow extends beyond it.
    pub(super) overhang: u8,
    /// Where its bytes start among those of the module's sites.
    pub(super) original: u32,
}

/// A site as a module keeps it, in 24 bytes: its ID is in its record.
#[derive(Clone, Copy, Debug)]
struct Kept {
    addr: CodeAddr,
    /// Where in the stack maps its record is; of an entry site, the number of its ID.
    at: u32,
    function: u32,
    original: u32,
    shape: u16,
    overhang: u8,
    recorded: bool,
}

impl Entry {
    /// A site whose shape is yet to be numbered, and whose bytes are yet to be kept.
    pub(super) fn new(
        id: RecordId,
        addr: CodeAddr,
        record: Option<RecordRef>,
        function: u32,
        overhang: u8,
    ) -> Self {
        Self {
            id,
            addr,
            record,
            function,
            shape: 0,
            overhang,
            original: 0,
        }
    }
}

/// What a module is made of.
pub(crate) struct ModuleParts {
    pub(crate) id: ModuleId,
    pub(crate) arch: Arch,
    /// Sorted by address.
    pub(crate) functions: Vec<FunctionRange>,
    pub(crate) maps: OwnedMaps,
    /// Sorted by address.
    pub(crate) areas: Vec<CodeArea>,
    pub(crate) eh_frames: Vec<EhFrame>,
    pub(crate) unwind_by: UnwindBy,
    pub(crate) trust_live_outs: bool,
    pub(crate) may_have_run: bool,
    /// Its patchpoints and entry sites are armed.
    pub(crate) live: bool,
    /// The memory of code that the engine loaded, which is given back with the module.
    pub(crate) _placed: Option<Placed>,
}

/// A registered module. Cloning clones a handle.
#[derive(Clone)]
pub struct Module(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) parts: ModuleParts,
    pub(super) shapes: Vec<CallShape>,
    /// Sorted by address; they do not overlap.
    sites: Box<[Kept]>,
    /// The IDs of entry sites.
    entry_ids: Vec<RecordId>,
    /// What the sites held when they were audited, each with the rest of its last instruction. Those that held the same
    /// share it.
    originals: Box<[u8]>,
    may_have_run: AtomicBool,
    descriptions: Descriptions,
}

impl Module {
    pub(super) fn new(
        parts: ModuleParts,
        shapes: Vec<CallShape>,
        sites: Vec<Entry>,
        originals: Vec<u8>,
    ) -> Self {
        let may_have_run = AtomicBool::new(parts.may_have_run);
        let mut entry_ids = Vec::new();
        let keep = |site: Entry| {
            let at = site.record.map(RecordRef::offset);
            let entry = || {
                entry_ids.push(site.id);
                entry_ids.len() as u32 - 1
            };
            Kept {
                addr: site.addr,
                at: at.unwrap_or_else(entry),
                function: site.function,
                original: site.original,
                shape: site.shape,
                overhang: site.overhang,
                recorded: at.is_some(),
            }
        };
        let sites = sites.into_iter().map(keep).collect();
        Self(Arc::new(Inner {
            parts,
            shapes,
            sites,
            entry_ids,
            originals: originals.into_boxed_slice(),
            may_have_run,
            descriptions: Descriptions::default(),
        }))
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
        let index = self.0.parts.functions.iter().position(|f| f.name == name);
        index
            .map(|index| Function {
                module: self.clone(),
                index: index as u32,
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
        (0..self.0.sites.len() as u32).map(|index| Site {
            module: self.clone(),
            index,
        })
    }

    /// The function that contains `addr`.
    #[must_use]
    pub fn function_at(&self, addr: CodeAddr) -> Option<Function> {
        let functions = &self.0.parts.functions;
        let after = functions.partition_point(|function| function.addr <= addr);
        let index = after.checked_sub(1)?;
        let function = functions.get(index)?;
        addr.is_within(function.addr, function.len).then(|| Function {
            module: self.clone(),
            index: index as u32,
        })
    }

    /// Every record with the address that its offset stands for: of a statepoint, the return address.
    pub(crate) fn record_addresses(&self) -> Result<impl Iterator<Item = (CodeAddr, RecordRef)>> {
        super::audit::record_addresses(&self.0.parts)
    }

    /// The record of a reference, with its constants.
    pub(crate) fn record(&self, reference: RecordRef) -> Option<(Record<'_>, Constants<'_>)> {
        self.0.parts.maps.get(reference)
    }

    /// The site that contains `addr`.
    #[must_use]
    pub fn site_at(&self, addr: CodeAddr) -> Option<Site> {
        let index = self
            .0
            .sites
            .partition_point(|site| site.addr <= addr)
            .checked_sub(1)?;
        let site = Site {
            module: self.clone(),
            index: index as u32,
        };
        addr.is_within(site.addr(), site.reserved()).then_some(site)
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

    /// How the frames of its functions are found.
    #[must_use]
    pub fn unwind_by(&self) -> UnwindBy {
        self.0.parts.unwind_by
    }

    /// Whether the engine has loaded its code.
    #[cfg(feature = "backtrace")]
    pub(crate) fn is_loaded(&self) -> bool {
        self.0.parts._placed.is_some()
    }

    /// Whether it is the same module, not one like it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether code of the module may have executed: its entry addresses have been handed out.
    pub(crate) fn may_have_run(&self) -> bool {
        self.0.may_have_run.load(Ordering::Acquire)
    }

    /// Whether its patchpoints and entry sites are changed while threads execute them.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.0.parts.live
    }

    /// The ID of every site, with its key.
    pub(super) fn ids(&self) -> impl Iterator<Item = (RecordId, SiteKey)> + '_ {
        let module = self.id();
        let one = move |(index, site)| (self.0.id(site), SiteKey { module, index });
        (0..).zip(&self.0.sites).map(one)
    }

    pub(super) fn site(&self, index: u32) -> Option<Site> {
        self.0.sites.get(index as usize).map(|_| Site {
            module: self.clone(),
            index,
        })
    }
}

impl Inner {
    fn id(&self, site: &Kept) -> RecordId {
        match site.recorded {
            true => self
                .parts
                .maps
                .at(site.at)
                .map_or(RecordId::default(), |(record, _)| record.id()),
            false => self.entry_ids.get(site.at as usize).copied().unwrap_or_default(),
        }
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

/// A function of a registered module.
#[derive(Clone)]
pub struct Function {
    module: Module,
    index: u32,
}

impl Function {
    fn range(&self) -> Option<&FunctionRange> {
        self.module.0.parts.functions.get(self.index as usize)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.range().map_or("", |range| &range.name)
    }

    /// What a pointer to it holds, to call it: its address, but on PowerPC ELFv1 that of its descriptor. It is good as long as the module is registered and its engine exists.
    ///
    /// From the first call of this on, its module counts as code that may have
    /// run: return addresses may then point into its sites.
    #[must_use]
    pub fn entry(&self) -> CodeAddr {
        self.module.0.may_have_run.store(true, Ordering::Release);
        self.range().map_or(CodeAddr::default(), |range| range.pointer)
    }

    /// What a pointer to it holds, to look at and not to call.
    pub(crate) fn pointer(&self) -> CodeAddr {
        self.range().map_or(CodeAddr::default(), |range| range.pointer)
    }

    /// The address of its first byte, to look at and not to call.
    #[must_use]
    pub fn addr(&self) -> CodeAddr {
        self.range().map_or(CodeAddr::default(), |range| range.addr)
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> Len {
        self.range().map_or(Len::default(), |range| range.len)
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len().get() == 0
    }

    /// The size of its frames, as its stack map tells; `None` if it is in none. It is looked for among all functions of
    /// the module.
    #[must_use]
    pub fn stack_size(&self) -> Option<StackSize> {
        super::audit::stack_size(&self.module.0.parts, self.addr())
    }

    /// The module that it belongs to.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Its sites, in ascending address.
    pub fn sites(&self) -> impl Iterator<Item = Site> + '_ {
        let sites = &self.module.0.sites;
        let (start, len) = (self.addr(), self.len());
        let first = sites.partition_point(|site| site.addr < start);
        let count = sites
            .iter()
            .skip(first)
            .take_while(move |site| site.addr.is_within(start, len))
            .count();
        (first..first + count).map(|index| Site {
            module: self.module.clone(),
            index: index as u32,
        })
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name(), self.addr())
    }
}

/// A site: a handle that keeps its module.
#[derive(Clone)]
pub struct Site {
    module: Module,
    index: u32,
}

impl Site {
    fn entry(&self) -> Option<&Kept> {
        self.module.0.sites.get(self.index as usize)
    }

    /// Its module's descriptions, its index there, and how many sites there are.
    pub(super) fn place(&self) -> (&Descriptions, u32, usize) {
        (&self.module.0.descriptions, self.index, self.module.0.sites.len())
    }

    /// The site's name in its engine.
    #[must_use]
    pub fn key(&self) -> SiteKey {
        SiteKey {
            module: self.module.id(),
            index: self.index,
        }
    }

    /// The ID of its record, or the one that the runtime chose for an entry site. Not unique.
    #[must_use]
    pub fn id(&self) -> RecordId {
        self.entry()
            .map_or(RecordId::default(), |entry| self.module.0.id(entry))
    }

    /// The address of its first byte.
    #[must_use]
    pub fn addr(&self) -> CodeAddr {
        self.entry().map_or(CodeAddr::default(), |entry| entry.addr)
    }

    /// The number of its bytes.
    #[must_use]
    pub fn reserved(&self) -> Len {
        self.shape().reserved()
    }

    /// All its bytes.
    #[must_use]
    pub fn range(&self) -> CodeRange {
        // Registration has checked that the site lies in a function.
        CodeRange::new(self.addr(), u64::from(self.reserved().get())).unwrap_or_default()
    }

    /// The instructions that stood there when it was registered: the reserved bytes, and of a shadow the rest of
    /// its last instruction.
    pub(crate) fn displaced(&self) -> &[u8] {
        let entry = self.entry();
        let start = entry.map_or(0, |entry| Len::new(entry.original).as_usize());
        let overhang = entry.map_or(0, |entry| usize::from(entry.overhang));
        let end = start.saturating_add(self.reserved().as_usize() + overhang);
        self.module.0.originals.get(start..end).unwrap_or_default()
    }

    /// The memory in which it stands.
    pub(crate) fn memory(&self) -> Result<&Arc<dyn CodeMemory>> {
        let area = CodeArea::containing(self.module.areas(), self.addr());
        area.map(CodeArea::memory)
            .ok_or_else(|| Error::SiteForeign { site: self.name() })
    }

    /// The bytes that stand there now.
    ///
    /// # Errors
    /// Its memory refuses.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.reserved().as_usize()];
        self.memory()?.read(self.addr(), &mut bytes)?;
        Ok(bytes)
    }

    /// Whether a stack map records it: it is no entry site.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.entry().is_some_and(|entry| entry.recorded)
    }

    /// The address after its last byte.
    #[must_use]
    pub fn end(&self) -> CodeAddr {
        self.range().end()
    }

    /// What the runtime told of it.
    #[must_use]
    pub fn shape(&self) -> CallShape {
        let shapes = &self.module.0.shapes;
        let shape = self
            .entry()
            .and_then(|entry| shapes.get(usize::from(entry.shape)));
        shape.copied().unwrap_or(CallShape::shadow(0))
    }

    /// The function in which it lies.
    #[must_use]
    pub fn function(&self) -> Function {
        Function {
            module: self.module.clone(),
            index: self.entry().map_or(0, |entry| entry.function),
        }
    }

    /// The distance from the start of its function.
    #[must_use]
    pub fn offset(&self) -> FnOffset {
        // Not by a handle of the function, which counts: every handler is told the offset.
        let function = self
            .entry()
            .and_then(|entry| self.module.0.parts.functions.get(entry.function as usize));
        let start = function.map_or(CodeAddr::default(), |range| range.addr);
        FnOffset::new(u32::try_from(self.addr().distance_from(start)).unwrap_or(0))
    }

    /// The module that it belongs to.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Its record with the constants that the record refers to; `None` for an entry site.
    #[must_use]
    pub fn record(&self) -> Option<(Record<'_>, Constants<'_>)> {
        let entry = self.entry().filter(|entry| entry.recorded)?;
        self.module.0.parts.maps.at(entry.at)
    }

    /// Where its head stands, or would if its module were [live](crate::engine::Registration::live).
    ///
    /// # Errors
    /// [`Error::NoHead`] where it is too short for its address; [`Error::ShadowNotArmed`] of a shadow, which has none.
    pub fn head(&self) -> Result<CodeRange> {
        let head = self.plan_head()?;
        Ok(CodeRange::new(head.addr, u64::from(head.len.get())).unwrap_or_default())
    }

    pub(crate) fn plan_head(&self) -> Result<Head> {
        if self.shape().kind() == SiteKind::Shadow {
            return Err(Error::ShadowNotArmed { site: self.name() });
        }
        let live = self.module.arch().live();
        live.plan_head(self.addr(), self.reserved())
            .map_err(|NoHead { needed }| Error::NoHead {
                site: self.name(),
                reserved: self.reserved(),
                needed,
            })
    }

    /// Where it is, for errors.
    pub(crate) fn name(&self) -> Box<SiteName> {
        SiteName::of(&self.context(&[]))
    }

    /// What an assembler and a checker need to know of it.
    #[must_use]
    pub fn context<'a>(&'a self, landings: &'a [u32]) -> SiteContext<'a> {
        let record = self.record();
        let functions = &self.module.0.parts.functions;
        let function = self
            .entry()
            .and_then(|entry| functions.get(entry.function as usize));
        SiteContext {
            arch: self.module.arch(),
            id: self.id(),
            function: function.map(|range| range.name.as_str()),
            offset: self.offset(),
            addr: self.addr(),
            shape: self.shape(),
            record: record.map(|(record, _)| record),
            constants: record.map_or(Constants::NONE, |(_, constants)| constants),
            landings,
            trust_live_outs: self.module.0.parts.trust_live_outs,
        }
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.name(), f)
    }
}
