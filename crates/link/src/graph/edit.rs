//! Changing a graph: sections, symbols and edges can be added and changed until there is a layout.
//!
//! Nothing is checked while it is changed, as one change may need another to be right; all is when
//! the graph is laid out or, after that, linked. So the invariants of [`crate::graph`] hold
//! wherever something is computed from it.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use llvm_stackmaps::addr::ByteOffset;

use crate::MAX_ALIGN;
use crate::error::{Error, Result};
use crate::graph::checks;
use crate::graph::comdat::Choice;
use crate::graph::{
    Definition, Edge, Graph, Scope, Section, SectionId, SectionRole, Strength, Symbol, SymbolId,
};
use crate::relocation::Relocation;

/// The file of what a pass added: none.
pub(crate) const ADDED: u32 = u32::MAX;

impl<'data> Graph<'data> {
    /// Adds a section.
    ///
    /// # Errors
    /// There are more than 2^32.
    pub fn add_section(&mut self, section: Section<'data>) -> Result<SectionId> {
        let id = self.bases(1, 0)?.section;
        self.changed = true;
        self.sections.push(section);
        Ok(SectionId(id))
    }

    /// Adds a symbol as [`Graph::add`] would with the object that has it: where there is one of the
    /// name already, the same rules tell which counts. Returns what edges are to refer to.
    ///
    /// # Errors
    /// It is strong, as the one is that is there.
    pub fn add_symbol(&mut self, symbol: Symbol<'data>) -> Result<SymbolId> {
        let mut bases = self.bases(0, 1)?;
        // Its definition counts in the graph's sections already.
        (bases.file, bases.section) = (ADDED, 0);
        let id = SymbolId(bases.symbol);
        self.index();
        let symbols = alloc::vec![symbol];
        self.check_duplicates("a pass", &symbols, &Choice::default())?;
        self.changed = true;
        let ids = self.take_symbols(symbols, &bases);
        Ok(ids.first().copied().unwrap_or(id))
    }

    /// The first symbol of this name that is not local to a file. Looks at all of them.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<SymbolId> {
        let found = |symbol: &Symbol<'_>| symbol.scope != Scope::Local && symbol.name == name;
        let index = self.symbols.iter().position(found)?;
        u32::try_from(index).ok().map(SymbolId)
    }

    /// The section, to be changed.
    pub fn section_mut(&mut self, id: SectionId) -> Option<&mut Section<'data>> {
        self.changed = true;
        self.sections.get_mut(id.index())
    }

    /// The symbol, to be changed.
    pub fn symbol_mut(&mut self, id: SymbolId) -> Option<&mut Symbol<'data>> {
        self.changed = true;
        self.symbols.get_mut(id.index())
    }

    /// The sections under their IDs.
    pub fn section_ids(&self) -> impl Iterator<Item = SectionId> + use<'data> {
        (0..self.sections.len() as u32).map(SectionId)
    }

    /// The symbols under their IDs.
    pub fn symbol_ids(&self) -> impl Iterator<Item = SymbolId> + use<'data> {
        (0..self.symbols.len() as u32).map(SymbolId)
    }

    /// Checks what the reader checks of a file, after changes.
    pub(crate) fn check(&mut self) -> Result<()> {
        if !self.changed {
            return Ok(());
        }
        for section in &self.sections {
            self.check_section(section)?;
        }
        for symbol in &self.symbols {
            let fits = match symbol.definition {
                Definition::Section(id, offset) => {
                    self.section(id).is_some_and(|section| offset <= section.size)
                }
                Definition::Common { align } => align.is_power_of_two() && align <= MAX_ALIGN,
                _ => true,
            };
            if !fits {
                return Err(Error::ObjectMalformed {
                    what: "a symbol's place",
                    reason: format!("`{}` is at {:?}", symbol.name, symbol.definition),
                });
            }
        }
        self.check_tables()?;
        self.changed = false;
        Ok(())
    }

    fn check_section(&self, section: &Section<'_>) -> Result<()> {
        let malformed = |what, reason| Err(Error::ObjectMalformed { what, reason });
        let (size, present) = (u64::from(section.size), section.bytes.len() as u64);
        if size > self.size_limit || present > size {
            return Err(self.too_large(size.max(present)));
        }
        checks::zeros(section)?;
        if !section.align.is_power_of_two() || section.align > MAX_ALIGN {
            let reason = format!(
                "{} of {} is no power of two up to 65536",
                section.align, section.name
            );
            return malformed("a section's alignment", reason);
        }
        for edge in &section.edges {
            let name = || self.section_name(section);
            if !edge.relocation.is_of(self.arch) {
                return Err(Error::RelocationUnsupported {
                    relocation: edge.relocation.name().into(),
                    section: name(),
                    offset: ByteOffset::new(edge.offset.into()),
                    reason: "it is of another architecture",
                });
            }
            if u64::from(edge.offset) + u64::from(edge.relocation.width()) > present {
                return Err(Error::RelocationOutsideSection {
                    relocation: edge.relocation.name(),
                    section: name(),
                    offset: ByteOffset::new(edge.offset.into()),
                    size: present,
                });
            }
            if edge.target.index() >= self.symbols.len() {
                let (target, section, at) = (edge.target.index(), name(), edge.offset);
                let reason = format!("symbol {target} of {section} at {at:#x} is not there");
                return malformed("a relocation's symbol", reason);
            }
        }
        Ok(())
    }
}

impl<'data> Section<'data> {
    /// A section with these bytes, aligned to 16 bytes, without edges.
    #[must_use]
    pub fn new(
        name: impl Into<Cow<'data, str>>,
        role: SectionRole,
        bytes: impl Into<Cow<'data, [u8]>>,
    ) -> Self {
        let mut section = Self {
            name: name.into(),
            file: ADDED,
            role,
            align: 16,
            size: 0,
            bytes: Cow::Borrowed(&[]),
            edges: Vec::new(),
            about_code: false,
            about: None,
            list: None,
            retained: false,
        };
        section.set_bytes(bytes);
        section
    }

    /// What has an index of a file but is of no section.
    pub(crate) fn nothing() -> Self {
        Self {
            file: 0,
            align: 1,
            ..Self::new("", SectionRole::Ignored, Cow::Borrowed(&[][..]))
        }
    }

    /// Gives it other bytes, and their length.
    pub fn set_bytes(&mut self, bytes: impl Into<Cow<'data, [u8]>>) {
        self.bytes = bytes.into();
        // More is refused when it is checked.
        self.size = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
    }

    /// Its bytes, to be changed: without zeros that follow them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.to_mut()
    }

    /// What becomes of it: among other things, which segment it is placed in.
    pub fn set_role(&mut self, role: SectionRole) {
        self.role = role;
    }

    /// What its address is to be a multiple of: a power of two up to 65536.
    pub fn set_align(&mut self, align: u32) {
        self.align = align;
    }

    /// Its edges, to be changed.
    pub fn edges_mut(&mut self) -> &mut Vec<Edge> {
        &mut self.edges
    }

    /// Keeps it when the graph is pruned, with all that it refers to.
    pub fn retain(&mut self) {
        self.retained = true;
    }
}

impl Edge {
    /// The bytes at `offset` depend on the address of `target`, in the way of this relocation.
    #[must_use]
    pub const fn new(offset: u32, relocation: Relocation, target: SymbolId, addend: i64) -> Self {
        Self {
            offset,
            target,
            addend,
            relocation,
        }
    }

    /// The same with another target.
    #[must_use]
    pub const fn to(self, target: SymbolId, addend: i64) -> Self {
        Self {
            target,
            addend,
            ..self
        }
    }
}

impl<'data> Symbol<'data> {
    /// A symbol that everybody may name, no function, of no size; a definition counts before
    /// others.
    #[must_use]
    pub fn new(name: impl Into<Cow<'data, str>>, definition: Definition) -> Self {
        let strength = match definition {
            Definition::Undefined { weak: true } => Strength::WeakReference,
            Definition::Undefined { weak: false } => Strength::Reference,
            Definition::Common { .. } => Strength::Common,
            _ => Strength::Strong,
        };
        Self {
            name: name.into(),
            file: ADDED,
            definition,
            size: 0,
            function: false,
            scope: Scope::Exported,
            strength,
            other: 0,
        }
    }

    /// A function of this size in bytes.
    #[must_use]
    pub fn function(mut self, size: u64) -> Self {
        (self.function, self.size) = (true, size);
        self
    }

    /// Who may name it.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Gives it another definition.
    pub fn set_definition(&mut self, definition: Definition) {
        self.definition = definition;
    }
}
