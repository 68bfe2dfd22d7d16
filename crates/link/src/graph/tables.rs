//! The global offset table and the stubs: sections of the graph that a pass adds.
//!
//! Problem: code loads addresses from a table that is in no object, and calls what its branches may
//! not reach. Approach: [`Graph::build_tables`] adds a section `.stubs`, with a stub for every
//! symbol outside the graph that a branch goes to, and a section `.got`, with an entry for every
//! symbol that an edge wants one for, those of the stubs included. Both are sections like others:
//! an entry is 8 bytes with an absolute edge to its symbol, a stub is instructions with the edges
//! that an assembler would give them. A later pass may retarget those edges, or change the
//! bytes.
//!
//! Edges into the tables go on naming the symbol, as the relocations of the ABIs do; the graph
//! knows which entry and which stub stand for it ([`Graph::got_entry`], [`Graph::stub`]), and a
//! pass may name others ([`Graph::set_got_entry`], [`Graph::set_stub`]). What a symbol has already,
//! it is not given again.
//!
//! Whether a branch goes through its stub is decided when the addresses are known: it does where
//! its target is out of reach or may not be entered directly. Stubs and entries that nobody needs
//! then are left where they are, as nothing moves any more;
//! [`Resolved::unused_tables`](crate::Resolved::unused_tables) reports them.
//!
//! Invariant: what a symbol has lies in its section. Cost: linear in the edges, with no lookup by
//! name.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use core::mem;

use llvm_stackmaps::addr::ByteOffset;
use object::elf::RelocationType;

use crate::error::{Error, Result};
use crate::graph::descriptors::Spot;
use crate::graph::edit::ADDED;
use crate::graph::{Definition, Edge, Graph, Scope, Section, SectionId, SectionRole, Symbol, SymbolId};
use crate::relocation::{Formula, Relocation};
use crate::stubs::{self, StubTarget};

/// The size of an entry of the global offset table, in bytes.
pub(crate) const ENTRY: u32 = 8;

/// The alignment of the stubs.
const STUBS_ALIGN: u32 = 16;

const GOT_NAME: &str = ".got";
const STUBS_NAME: &str = ".stubs";

/// What stands for each symbol.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    pub(crate) entries: Slots,
    pub(crate) stubs: Slots,
    /// Whether nothing was added since they were built but by passes, which say so themselves.
    pub(crate) complete: bool,
}

/// Entries of the global offset table, or stubs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    /// The section that the pass has added.
    pub(crate) section: Option<SectionId>,
    by_symbol: Vec<Option<Spot>>,
}

impl Slots {
    pub(crate) fn get(&self, symbol: SymbolId) -> Option<Spot> {
        self.by_symbol.get(symbol.index()).copied().flatten()
    }

    /// The symbols that have one, in their order.
    pub(crate) fn all(&self) -> impl Iterator<Item = (SymbolId, Spot)> + '_ {
        let slots = (0..).map(SymbolId).zip(&self.by_symbol);
        slots.filter_map(|(symbol, spot)| Some((symbol, (*spot)?)))
    }

    /// Forgets what is in sections that are taken out.
    fn retain(&mut self, is_live: impl Fn(SectionId) -> bool) {
        self.section = self.section.filter(|section| is_live(*section));
        for slot in &mut self.by_symbol {
            *slot = slot.filter(|(section, _)| is_live(*section));
        }
    }

    fn set(&mut self, symbol: SymbolId, spot: Spot) {
        if self.by_symbol.len() <= symbol.index() {
            self.by_symbol.resize(symbol.index() + 1, None);
        }
        if let Some(slot) = self.by_symbol.get_mut(symbol.index()) {
            *slot = Some(spot);
        }
    }
}

impl Tables {
    /// Forgets what is in sections that are taken out.
    pub(crate) fn retain(&mut self, is_live: impl Fn(SectionId) -> bool) {
        self.entries.retain(&is_live);
        self.stubs.retain(&is_live);
    }
}

impl<'data> Graph<'data> {
    /// Gives every symbol that an edge wants an entry in the global offset table for one, and every
    /// symbol outside the graph that a branch goes to a stub, but those that have one.
    /// [`Passes`](crate::Passes) run it between pruning and the passes behind that;
    /// [`Graph::layout`] runs it for what was added later.
    ///
    /// # Errors
    /// They would be larger than an image may be.
    pub fn build_tables(&mut self) -> Result<()> {
        let mut stubs = mem::take(&mut self.tables.stubs);
        let wanted = self.give(&mut stubs, stubs::size(self.arch), Self::may_need_stub);
        self.tables.stubs = stubs;
        self.add_stubs(&wanted?)?;
        let mut entries = mem::take(&mut self.tables.entries);
        let wanted = self.give(&mut entries, ENTRY, |_, edge| {
            edge.relocation.formula().needs_got()
        });
        self.tables.entries = entries;
        self.add_entries(&wanted?)?;
        self.tables.complete = true;
        Ok(())
    }

    /// The entry in the global offset table that stands for a symbol: its section, and the offset
    /// in bytes there.
    #[must_use]
    pub fn got_entry(&self, symbol: SymbolId) -> Option<(SectionId, u32)> {
        self.tables.entries.get(symbol)
    }

    /// The stub that stands for a symbol: its section, and the offset in bytes there.
    #[must_use]
    pub fn stub(&self, symbol: SymbolId) -> Option<(SectionId, u32)> {
        self.tables.stubs.get(symbol)
    }

    /// Lets 8 bytes of a section be the symbol's entry in the global offset table: edges that need
    /// one refer to it. An edge of that section is to write the address there. On PowerPC, where
    /// code reaches the table in 16 bits from the TOC pointer, it has to be near the others.
    ///
    /// That the place is in the section is checked when the graph is laid out.
    pub fn set_got_entry(&mut self, symbol: SymbolId, section: SectionId, offset: u32) {
        self.changed = true;
        self.tables.entries.set(symbol, (section, offset));
    }

    /// Lets the code at a place of a section be the symbol's stub: branches to the symbol go
    /// there where they do not reach it.
    ///
    /// That the place is in the section is checked when the graph is laid out.
    pub fn set_stub(&mut self, symbol: SymbolId, section: SectionId, offset: u32) {
        self.changed = true;
        self.tables.stubs.set(symbol, (section, offset));
    }

    /// Builds what was not there yet when passes ran, or no passes have run.
    pub(crate) fn complete_tables(&mut self) -> Result<()> {
        if self.changed || !self.tables.complete {
            self.build_tables()?;
        }
        Ok(())
    }

    /// The sections that an edge refers to by way of the tables.
    pub(crate) fn tables_of(&self, edge: &Edge) -> [Option<SectionId>; 2] {
        let formula = edge.relocation.formula();
        let section = |slot: Option<Spot>| slot.map(|(section, _)| section);
        [
            section(self.got_entry(edge.target).filter(|_| formula.needs_got())),
            section(self.stub(edge.target).filter(|_| formula.is_branch())),
        ]
    }

    /// Gives a slot to the target of every edge that wants one, behind those of the section that
    /// was built before. Returns whose they are, in their order.
    fn give(&self, slots: &mut Slots, size: u32, wants: impl Fn(&Self, &Edge) -> bool) -> Result<SlotRun> {
        let too_large = |size: u64| self.too_large(size);
        let count = self.sections.len();
        let next = u32::try_from(count).map_err(|_| too_large(count as u64))?;
        let section = slots.section.unwrap_or(SectionId(next));
        let start = self
            .section(section)
            .map_or(0, |section| section.size)
            .next_multiple_of(size);
        let mut owners = Vec::new();
        slots
            .by_symbol
            .resize(self.symbols.len().max(slots.by_symbol.len()), None);
        for edge in self.sections.iter().flat_map(|section| &section.edges) {
            if !wants(self, edge) {
                continue;
            }
            let Some(slot @ None) = slots.by_symbol.get_mut(edge.target.index()) else {
                continue;
            };
            let end = u64::from(start) + (owners.len() as u64 + 1) * u64::from(size);
            let (true, Ok(end)) = (end <= self.size_limit, u32::try_from(end)) else {
                return Err(too_large(end));
            };
            *slot = Some((section, end - size));
            owners.push(edge.target);
        }
        if !owners.is_empty() {
            slots.section = Some(section);
        }
        Ok(SlotRun {
            section,
            start,
            owners,
        })
    }

    /// The section to add slots to: a new one where there is none yet.
    fn grow(&mut self, given: &SlotRun, new: Section<'data>, unit: &[u8]) -> Option<&mut Section<'data>> {
        if given.section.index() == self.sections.len() {
            self.sections.push(new);
        }
        let section = self.sections.get_mut(given.section.index())?;
        let mut bytes = mem::take(&mut section.bytes).into_owned();
        bytes.resize(given.start as usize, 0);
        bytes.reserve(given.owners.len() * unit.len());
        for _ in &given.owners {
            bytes.extend_from_slice(unit);
        }
        section.set_bytes(bytes);
        Some(section)
    }

    fn add_entries(&mut self, given: &SlotRun) -> Result<()> {
        if given.owners.is_empty() {
            return Ok(());
        }
        let absolute = self.relocation(GOT_NAME, stubs::absolute_64(self.arch))?;
        let mut new = Section::new(GOT_NAME, SectionRole::ReadOnly, Vec::new());
        new.align = ENTRY;
        if let Some(section) = self.grow(given, new, &[0; ENTRY as usize]) {
            let offsets = (given.start..).step_by(ENTRY as usize);
            let edges = offsets.zip(&given.owners);
            section
                .edges
                .extend(edges.map(|(at, owner)| Edge::new(at, absolute, *owner, 0)));
        }
        Ok(())
    }

    fn add_stubs(&mut self, given: &SlotRun) -> Result<()> {
        if given.owners.is_empty() {
            return Ok(());
        }
        let shape = stubs::of(self.arch);
        let mut new = Section::new(STUBS_NAME, SectionRole::Code, Vec::new());
        new.align = STUBS_ALIGN;
        let relocations = shape
            .edges
            .iter()
            .map(|edge| self.relocation(STUBS_NAME, edge.relocation));
        let relocations = relocations.collect::<Result<Vec<_>>>()?;
        let own = shape.edges.iter().any(|edge| edge.target == StubTarget::Itself);
        let mut edges = Vec::with_capacity(given.owners.len() * relocations.len());
        for (start, owner) in (given.start..).step_by(shape.bytes.len()).zip(&given.owners) {
            let itself = if own {
                self.name_stub(*owner, (given.section, start))?
            } else {
                *owner
            };
            for (edge, relocation) in shape.edges.iter().zip(&relocations) {
                let target = match edge.target {
                    StubTarget::Symbol => *owner,
                    StubTarget::Itself => itself,
                };
                edges.push(Edge::new(start + edge.offset, *relocation, target, edge.addend));
            }
        }
        if let Some(section) = self.grow(given, new, shape.bytes) {
            section.edges.append(&mut edges);
        }
        Ok(())
    }

    /// A local symbol at a stub, for edges within it.
    fn name_stub(&mut self, owner: SymbolId, spot: Spot) -> Result<SymbolId> {
        let id = self.bases(0, 1)?.symbol;
        let name = self.symbols.get(owner.index());
        let name = name.map_or(Cow::Borrowed(""), |symbol| symbol.name.clone());
        let mut symbol = Symbol::new(name, Definition::Section(spot.0, spot.1));
        (symbol.scope, symbol.file) = (Scope::Local, ADDED);
        self.symbols.push(symbol);
        Ok(SymbolId(id))
    }

    fn relocation(&self, section: &str, number: RelocationType) -> Result<Relocation> {
        Relocation::from_elf(self.arch, number.0).ok_or_else(|| Error::RelocationUnsupported {
            relocation: format!("relocation type {number}"),
            section: section.into(),
            offset: ByteOffset::new(0),
            reason: "the tables of this architecture need it",
        })
    }

    /// Checks that what stands for symbols is in the sections that it is said to be in.
    pub(crate) fn check_tables(&self) -> Result<()> {
        let outside = |(id, offset): Spot, size: u32| {
            let room = self.section(id).map_or(0, |section| section.size);
            // protection: entries-and-stubs-lie-in-sections
            offset.checked_add(size).is_none_or(|end| end > room)
        };
        let entries = self
            .tables
            .entries
            .all()
            .filter(|(_, spot)| outside(*spot, ENTRY));
        let stubs = self.tables.stubs.all().filter(|(_, spot)| outside(*spot, 1));
        match entries
            .map(|of| ("entry", of))
            .chain(stubs.map(|of| ("stub", of)))
            .next()
        {
            None => Ok(()),
            Some((what, (symbol, (section, offset)))) => Err(Error::ObjectMalformed {
                what: "the place of a table's entry or of a stub",
                reason: format!(
                    "the {what} of `{}` is at {section:?}, {offset:#x}, which is not there",
                    self.symbol_name(symbol)
                ),
            }),
        }
    }

    pub(crate) fn is_inside(&self, edge: &Edge) -> bool {
        let symbol = self.symbols.get(edge.target.index());
        matches!(
            symbol.map(|symbol| symbol.definition),
            Some(Definition::Section(..) | Definition::GotBase | Definition::ImageBase)
        )
    }

    /// Whether a branch may have to go through a stub: to the outside always, within the graph
    /// where caller and callee do not agree about the TOC pointer.
    fn may_need_stub(&self, edge: &Edge) -> bool {
        edge.relocation.formula().is_branch() && (!self.is_inside(edge) || self.needs_toc_stub(edge))
    }

    /// Whether a branch within the graph has to go through a stub because its caller has no TOC
    /// pointer and its callee needs one, or the caller has one that the callee may change (ELFv2
    /// ABI, section 3.4.1: 1 in the three bits).
    pub(crate) fn needs_toc_stub(&self, edge: &Edge) -> bool {
        let other = self
            .symbols
            .get(edge.target.index())
            .map_or(0, |symbol| symbol.other);
        if !self.arch.is_powerpc64() || self.arch.has_descriptors() {
            return false;
        }
        match edge.relocation.formula() {
            Formula::Branch => other >> 5 == 1,
            Formula::BranchNoToc => other >> 5 > 1,
            _ => false,
        }
    }
}

/// Slots that are to be made: in which section, from which offset on, for whom.
struct SlotRun {
    section: SectionId,
    start: u32,
    owners: Vec<SymbolId>,
}
