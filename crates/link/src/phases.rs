//! What a graph becomes after it has been laid out: with addresses, with symbols resolved, with its
//! final bytes. Each phase is a type that allows just the changes which are still possible.
//!
//! | phase | type | what may be changed |
//! |---|---|---|
//! | before and after pruning | [`Graph`] | everything |
//! | before allocation | [`Layout`] | places |
//! | after allocation | [`Allocated`] | bytes and edges; not sizes and places |
//! | before fix-ups | [`Resolved`] | those, and the addresses of symbols |
//! | after fix-ups | [`Fixed`] | the final bytes |

use alloc::borrow::Cow;
use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, Len};

use crate::error::Result;
use crate::fixups::{LinkedImage, Linker, Value};
use crate::graph::Symbol;
use crate::graph::descriptors::{Descriptors, Spot};
use crate::graph::edit::ADDED;
use crate::graph::pairs::Pairs;
use crate::graph::{Definition, Edge, Graph, Section, SectionId, SymbolId};
use crate::layout::{Layout, SegmentAddrs};

/// A graph whose sections have addresses.
#[derive(Debug)]
pub struct Allocated<'data> {
    layout: Layout<'data>,
    addrs: SegmentAddrs,
}

/// A graph whose symbols have addresses, too.
#[derive(Debug)]
pub struct Resolved<'data> {
    allocated: Allocated<'data>,
    values: Vec<Value>,
}

/// A section whose size does not change any more.
#[derive(Debug)]
pub struct FixedSection<'a, 'data>(&'a mut Section<'data>);

impl FixedSection<'_, '_> {
    /// Its bytes before fix-ups, without zeros that follow them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes.to_mut()
    }

    /// Its edges. One that needs an entry in the global offset table, or a stub, finds it only if
    /// the symbol had one before.
    pub fn edges_mut(&mut self) -> &mut Vec<Edge> {
        &mut self.0.edges
    }
}

impl<'data> Layout<'data> {
    /// Puts the segments at these addresses.
    ///
    /// # Errors
    /// One is misaligned, overlaps another or is more than 2 GiB away from it.
    pub fn allocate(self, addrs: SegmentAddrs) -> Result<Allocated<'data>> {
        self.check_segments(&addrs)?;
        Ok(Allocated { layout: self, addrs })
    }
}

impl<'data> Allocated<'data> {
    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &Graph<'data> {
        &self.layout.graph
    }

    /// The address of a section that is placed.
    #[must_use]
    pub fn section_addr(&self, id: SectionId) -> Option<CodeAddr> {
        self.layout.section_addr(id.index(), &self.addrs)
    }

    /// The section, to be changed in what it may be changed in.
    pub fn section_mut(&mut self, id: SectionId) -> Option<FixedSection<'_, 'data>> {
        self.layout.graph.section_mut(id).map(FixedSection)
    }

    /// The address of the entry in the global offset table that stands for a symbol.
    #[must_use]
    pub fn got_entry_addr(&self, id: SymbolId) -> Option<CodeAddr> {
        self.spot_addr(self.graph().got_entry(id)?)
    }

    /// The address of the stub that stands for a symbol.
    #[must_use]
    pub fn stub_addr(&self, id: SymbolId) -> Option<CodeAddr> {
        self.spot_addr(self.graph().stub(id)?)
    }

    fn spot_addr(&self, (section, offset): Spot) -> Option<CodeAddr> {
        self.section_addr(section)?.plus(Len::new(offset))
    }

    /// Adds a symbol with an address, for edges to refer to.
    pub fn add_absolute(&mut self, name: impl Into<Cow<'data, str>>, addr: CodeAddr) -> SymbolId {
        let id = SymbolId(self.layout.graph.symbols.len() as u32);
        let mut symbol = Symbol::new(name, Definition::Absolute(addr.get()));
        symbol.scope = crate::Scope::Local;
        symbol.file = ADDED;
        self.layout.graph.symbols.push(symbol);
        id
    }

    /// The symbols that edges refer to and no file defines, in the order in which
    /// [`Allocated::resolve`] asks for them.
    #[must_use]
    pub fn wanted(&self) -> Vec<&str> {
        let wanted = self.layout.graph.wanted();
        let symbols = self.layout.graph.symbols.iter().zip(wanted);
        symbols
            .filter(|(symbol, wanted)| *wanted && matches!(symbol.definition, Definition::Undefined { .. }))
            .map(|(symbol, _)| &*symbol.name)
            .collect()
    }

    /// Gives every symbol its address. `resolve` is asked once for each that [`Allocated::wanted`]
    /// names.
    ///
    /// # Errors
    /// What a pass has changed does not hold together.
    pub fn resolve(mut self, mut resolve: impl FnMut(&str) -> Option<CodeAddr>) -> Result<Resolved<'data>> {
        self.layout.recheck()?;
        let values = Linker::new(&self.layout, self.addrs, &[]).resolve_all(&mut resolve);
        Ok(Resolved {
            allocated: self,
            values,
        })
    }
}

impl<'data> Resolved<'data> {
    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &Graph<'data> {
        self.allocated.graph()
    }

    /// The address of a section that is placed.
    #[must_use]
    pub fn section_addr(&self, id: SectionId) -> Option<CodeAddr> {
        self.allocated.section_addr(id)
    }

    /// The address of a symbol, if it has one.
    #[must_use]
    pub fn symbol_addr(&self, id: SymbolId) -> Option<CodeAddr> {
        match self.values.get(id.index()) {
            Some(Value::Known(value)) => Some(CodeAddr::new(*value)),
            _ => None,
        }
    }

    /// The address of the entry in the global offset table that stands for a symbol.
    #[must_use]
    pub fn got_entry_addr(&self, id: SymbolId) -> Option<CodeAddr> {
        self.allocated.got_entry_addr(id)
    }

    /// The address of the stub that stands for a symbol.
    #[must_use]
    pub fn stub_addr(&self, id: SymbolId) -> Option<CodeAddr> {
        self.allocated.stub_addr(id)
    }

    /// Gives a symbol another address: all edges to it go there. Returns whether there is such a
    /// symbol.
    pub fn set_symbol_addr(&mut self, id: SymbolId, addr: CodeAddr) -> bool {
        let value = self.values.get_mut(id.index());
        value.map(|value| *value = Value::Known(addr.get())).is_some()
    }

    /// The section, to be changed in what it may be changed in.
    pub fn section_mut(&mut self, id: SectionId) -> Option<FixedSection<'_, 'data>> {
        self.allocated.section_mut(id)
    }

    pub(crate) fn layout(&self) -> (&Layout<'data>, &SegmentAddrs) {
        (&self.allocated.layout, &self.allocated.addrs)
    }

    pub(crate) fn linker(&self) -> Linker<'_, 'data> {
        Linker::new(&self.allocated.layout, self.allocated.addrs, &self.values)
    }

    /// Relocates all bytes.
    ///
    /// # Errors
    /// What a pass has changed does not hold together; a symbol has no address; a target is out of a relocation's reach.
    pub fn link(&mut self) -> Result<LinkedImage> {
        self.allocated.layout.recheck()?;
        self.linker().link()
    }
}

/// The final bytes of a graph, and where they are.
#[derive(Debug)]
pub struct Fixed<'a, 'data> {
    resolved: &'a Resolved<'data>,
    image: &'a mut LinkedImage,
}

impl<'a, 'data> Fixed<'a, 'data> {
    /// The image that came of this graph.
    #[must_use]
    pub fn new(resolved: &'a Resolved<'data>, image: &'a mut LinkedImage) -> Self {
        Self { resolved, image }
    }

    /// The graph and the addresses in it.
    #[must_use]
    pub fn resolved(&self) -> &Resolved<'data> {
        self.resolved
    }

    /// The image.
    #[must_use]
    pub fn image(&self) -> &LinkedImage {
        self.image
    }

    /// The final bytes of a section that is placed; zeros that are in no file are made for it.
    /// Unwind information that is kept in the image is a copy.
    pub fn bytes_mut(&mut self, id: SectionId) -> Option<&mut [u8]> {
        let (addr, size) = (
            self.resolved.section_addr(id)?,
            self.resolved.graph().section(id)?.size,
        );
        let mut segments = self.image.segments.iter_mut();
        let segment = segments.find(|segment| addr.is_within(segment.addr, segment.size))?;
        let start = usize::try_from(addr.get() - segment.addr.get()).ok()?;
        let end = start.checked_add(size as usize)?;
        if segment.bytes.len() < end && end <= segment.size.as_usize() {
            segment.bytes.resize(end, 0);
        }
        segment.bytes.get_mut(start..end)
    }
}

impl Layout<'_> {
    /// Checks the graph and finds what is derived from its edges, if a pass has changed it.
    fn recheck(&mut self) -> Result<()> {
        if self.graph.changed {
            // protection: changes-are-checked-after-allocation
            self.graph.check()?;
            self.graph.descriptors = Descriptors::find(&self.graph);
            self.graph.pairs = Pairs::find(&self.graph)?;
        }
        Ok(())
    }
}
