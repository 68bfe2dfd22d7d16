//! Applies edges: computes each value by its relocation's formula, checks that it fits, and writes
//! it.

use llvm_stackmaps::addr::{ByteOffset, CodeAddr};

use crate::error::{Error, Result};
use crate::fixups::{Linker, Value};
use crate::graph::pairs::uleb_len;
use crate::graph::{Definition, Edge, Section, SectionRole, SymbolId};
use crate::machine;
use crate::relocation::{Fit, Formula, Misfit};
use crate::stubs::{self, has_room_to_restore};

/// The size of a page that `adrp` counts in.
const PAGE_MASK: u64 = 0xfff;

impl Linker<'_, '_> {
    pub(crate) fn entry(&self, symbol: SymbolId) -> Option<u64> {
        self.spot(self.layout.graph.got_entry(symbol)?)
    }

    pub(crate) fn stub(&self, symbol: SymbolId) -> Option<u64> {
        self.spot(self.layout.graph.stub(symbol)?)
    }

    fn value(&self, symbol: SymbolId) -> Result<u64> {
        let name = || self.layout.graph.symbol_name(symbol);
        match self.values.get(symbol.index()) {
            Some(Value::Known(value)) => Ok(*value),
            Some(Value::Refused(reason)) => Err(Error::SymbolRefused {
                symbol: name(),
                reason,
            }),
            Some(Value::Missing) | None => Err(Error::SymbolsUnresolved {
                symbols: alloc::vec![name()],
            }),
        }
    }

    /// Applies all edges of a section. `at` is its address, if it has one.
    pub(crate) fn apply_all(&self, section: &Section<'_>, at: Option<u64>, bytes: &mut [u8]) -> Result<()> {
        let mut previous = None;
        for edge in &section.edges {
            self.apply(section, edge, previous, at, bytes)?;
            previous = Some(edge);
        }
        Ok(())
    }

    /// Computes an edge's value and writes it.
    fn apply(
        &self,
        section: &Section<'_>,
        edge: &Edge,
        previous: Option<&Edge>,
        at: Option<u64>,
        bytes: &mut [u8],
    ) -> Result<()> {
        let formula = edge.relocation.formula();
        if matches!(formula, Formula::Nothing | Formula::UlebSet | Formula::Subtrahend) {
            return Ok(());
        }
        let Some(place) = at.or((!formula.needs_place()).then_some(0)) else {
            return Err(self.unsupported(
                section,
                edge,
                "it is relative to its place, but the section is kept without an address",
            ));
        };
        let place = place.wrapping_add(u64::from(edge.offset));
        let start = edge.offset as usize;
        let outside = || self.unsupported(section, edge, "its place is outside of the section's bytes");
        if formula == Formula::UlebSub {
            let bytes = bytes.get_mut(start..).ok_or_else(outside)?;
            return self.apply_uleb(section, edge, previous, bytes);
        }
        let mut value = self.compute(section, edge, place)?;
        let end = start.saturating_add(usize::from(edge.relocation.width()));
        if self.leaves_for_stub(edge) {
            self.restore_toc(section, edge, bytes.get_mut(start..).ok_or_else(outside)?)?;
        }
        let field = bytes.get_mut(start..end).ok_or_else(outside)?;
        let endian = self.layout.graph.endian();
        match formula {
            Formula::Add => value = edge.relocation.extract(field, endian).wrapping_add(value),
            Formula::Sub => value = edge.relocation.extract(field, endian).wrapping_sub(value),
            Formula::Difference => value = value.wrapping_sub(self.subtrahend(section, edge, previous)?),
            _ => {}
        }
        self.check(section, edge, place, edge.relocation.fit(), value)?;
        edge.relocation.insert(field, endian, value);
        Ok(())
    }

    /// What an edge subtracts: the symbol of the one before it, which is at the same place.
    fn subtrahend(&self, section: &Section<'_>, edge: &Edge, previous: Option<&Edge>) -> Result<u64> {
        let is_half =
            |other: &&Edge| other.offset == edge.offset && other.relocation.formula() == Formula::Subtrahend;
        match previous.filter(is_half) {
            Some(other) => self.value(other.target),
            None => Err(self.unsupported(section, edge, "it has no other half")),
        }
    }

    /// Writes the difference of a pair into a number of variable length, which keeps its length.
    fn apply_uleb(
        &self,
        section: &Section<'_>,
        edge: &Edge,
        previous: Option<&Edge>,
        bytes: &mut [u8],
    ) -> Result<()> {
        let (Some(set), Some(len)) = (previous, uleb_len(bytes)) else {
            return Err(self.unsupported(section, edge, "it has no other half"));
        };
        let sum =
            |edge: &Edge| -> Result<u64> { Ok(self.value(edge.target)?.wrapping_add(edge.addend as u64)) };
        let value = sum(set)?.wrapping_sub(sum(edge)?);
        self.check(section, edge, 0, Fit::unsigned((7 * len).min(64) as u8), value)?;
        for (index, byte) in bytes.iter_mut().take(len).enumerate() {
            *byte = *byte & 0x80 | (value >> (7 * index)) as u8 & 0x7f;
        }
        Ok(())
    }

    fn compute(&self, section: &Section<'_>, edge: &Edge, place: u64) -> Result<u64> {
        let formula = edge.relocation.formula();
        let addend = edge.addend as u64;
        let symbol = || -> Result<u64> { Ok(self.value(edge.target)?.wrapping_add(addend)) };
        let entry = || -> Result<u64> {
            self.value(edge.target)?;
            let entry = self.entry(edge.target);
            let entry = entry.ok_or_else(|| self.unsupported(section, edge, "its symbol has no entry"))?;
            Ok(entry.wrapping_add(addend))
        };
        Ok(match formula {
            Formula::Nothing | Formula::UlebSet | Formula::UlebSub | Formula::Subtrahend => 0,
            Formula::Absolute if section.role == SectionRole::StackMaps => self.of_code(edge, symbol()?),
            Formula::Absolute | Formula::Add | Formula::Sub | Formula::Difference => symbol()?,
            Formula::FromImageBase => symbol()?.wrapping_sub(self.image_base),
            Formula::FromSection => symbol()?.wrapping_sub(self.start_of_section(section, edge)?),
            Formula::Relative => symbol()?.wrapping_sub(place),
            Formula::Branch | Formula::BranchNoToc => self.branch(section, edge, place)?,
            Formula::BranchFromGot | Formula::FromGot => symbol()?.wrapping_sub(self.got),
            Formula::GotOffset => entry()?.wrapping_sub(self.got),
            Formula::GotEntry => entry()?.wrapping_sub(place),
            Formula::GotBase => self.got.wrapping_add(addend).wrapping_sub(place),
            Formula::GotAddress => self.got.wrapping_add(addend),
            Formula::Size => self.size(edge.target).wrapping_add(addend),
            Formula::Page => (symbol()? & !PAGE_MASK).wrapping_sub(place & !PAGE_MASK),
            Formula::GotPage => (entry()? & !PAGE_MASK).wrapping_sub(place & !PAGE_MASK),
            Formula::GotEntryAddress => entry()?,
            Formula::GotFromPage => entry()?.wrapping_sub(self.got & !PAGE_MASK),
            Formula::LowOfPair => self.low_of_pair(section, edge)?,
        })
    }

    /// The address of the section that an edge refers to.
    fn start_of_section(&self, section: &Section<'_>, edge: &Edge) -> Result<u64> {
        let symbol = self.layout.graph.symbols.get(edge.target.index());
        let start = match symbol.map(|symbol| symbol.definition) {
            Some(Definition::Section(id, _)) => self.spot((id, 0)),
            _ => None,
        };
        start.ok_or_else(|| self.unsupported(section, edge, "its symbol is in no section"))
    }

    fn size(&self, symbol: SymbolId) -> u64 {
        let symbol = self.layout.graph.symbols.get(symbol.index());
        symbol.map_or(0, |symbol| symbol.size)
    }

    /// The code that a stack map speaks of: where functions have descriptors, those are what its
    /// relocations name.
    fn of_code(&self, edge: &Edge, otherwise: u64) -> u64 {
        let described = self.layout.graph.described(edge.target.index(), edge.addend);
        described.and_then(|spot| self.spot(spot)).unwrap_or(otherwise)
    }

    /// The value of which this edge holds the lower bits.
    fn low_of_pair(&self, section: &Section<'_>, edge: &Edge) -> Result<u64> {
        let graph = &self.layout.graph;
        let upper = graph.pairs.upper(graph, edge);
        let placed =
            upper.and_then(|(id, section, upper)| Some((section, upper, self.spot((id, upper.offset))?)));
        match placed {
            Some((section, upper, place)) if upper.relocation.formula() != Formula::LowOfPair => {
                self.compute(section, upper, place)
            }
            _ => Err(self.unsupported(section, edge, "it has no other half")),
        }
    }

    /// The distance to the target, or to its stub where the target itself is out of reach or may
    /// not be entered.
    fn branch(&self, section: &Section<'_>, edge: &Edge, place: u64) -> Result<u64> {
        if !self.takes_stub(edge, place)? {
            return self.direct(edge, place);
        }
        let Some(stub) = self.stub(edge.target) else {
            // One that a pass made when stubs were there already.
            return Err(self.unsupported(section, edge, "its symbol has no stub"));
        };
        self.value(edge.target)?;
        let offset = match edge.relocation.formula() {
            Formula::BranchNoToc => stubs::entry_without_toc(self.layout.graph.arch),
            _ if self.needs_stub(edge) => 0,
            _ => edge.addend as u64,
        };
        Ok(stub.wrapping_add(offset).wrapping_sub(place))
    }

    /// Whether a branch goes through the stub of its target: where it may not enter that directly,
    /// or does not reach it and there is a stub.
    pub(crate) fn takes_stub(&self, edge: &Edge, place: u64) -> Result<bool> {
        if self.needs_stub(edge) {
            return Ok(true);
        }
        let has_stub = self.stub(edge.target).is_some();
        Ok(has_stub && edge.relocation.fit().check(self.direct(edge, place)?).is_err())
    }

    /// The distance to the target itself.
    fn direct(&self, edge: &Edge, place: u64) -> Result<u64> {
        let graph = &self.layout.graph;
        let described = graph.described(edge.target.index(), edge.addend);
        if let Some(code) = described.and_then(|spot| self.spot(spot)) {
            return Ok(code.wrapping_sub(place));
        }
        let symbol = graph.symbols.get(edge.target.index());
        let local = machine::local_entry(graph.arch, symbol.map_or(0, |symbol| symbol.other)).unwrap_or(0);
        let target = self.value(edge.target)?.wrapping_add(edge.addend as u64);
        Ok(target.wrapping_add(u64::from(local)).wrapping_sub(place))
    }

    /// Whether a branch may not enter its target directly, wherever that is: on PowerPC, what is
    /// outside may have another TOC pointer.
    fn needs_stub(&self, edge: &Edge) -> bool {
        let graph = &self.layout.graph;
        let definition = graph
            .symbols
            .get(edge.target.index())
            .map(|symbol| symbol.definition);
        let inside = matches!(definition, Some(Definition::Section(..)));
        graph.arch.is_powerpc64() && (!inside || graph.needs_toc_stub(edge))
    }

    /// Whether a call goes through a stub that saves the TOC pointer.
    fn leaves_for_stub(&self, edge: &Edge) -> bool {
        edge.relocation.formula() == Formula::Branch && self.needs_stub(edge)
    }

    /// Replaces the nop behind a call by what restores the TOC pointer. `bytes` start with the
    /// call.
    fn restore_toc(&self, section: &Section<'_>, edge: &Edge, bytes: &mut [u8]) -> Result<()> {
        let arch = self.layout.graph.arch;
        let room = has_room_to_restore(arch, bytes);
        let next = bytes.get_mut(4..).and_then(<[u8]>::first_chunk_mut::<4>);
        match (next, stubs::restore_behind_leaving(arch)) {
            (Some(next), Some(restore)) if room => {
                *next = restore;
                Ok(())
            }
            _ => Err(self.unsupported(
                section,
                edge,
                "it leaves the graph without a nop behind it to restore the TOC pointer: call it, and do not define it in \
                 another object if the compiler took it for local",
            )),
        }
    }

    fn unsupported(&self, section: &Section<'_>, edge: &Edge, reason: &'static str) -> Error {
        Error::RelocationUnsupported {
            relocation: edge.relocation.name().into(),
            section: self.layout.graph.section_name(section),
            offset: ByteOffset::new(u64::from(edge.offset)),
            reason,
        }
    }

    fn check(&self, section: &Section<'_>, edge: &Edge, place: u64, fit: Fit, value: u64) -> Result<()> {
        // protection: truncated-relocations
        let Err(misfit) = fit.check(value) else {
            return Ok(());
        };
        let relocation = edge.relocation.name();
        let (section, offset) = (
            self.layout.graph.section_name(section),
            ByteOffset::new(u64::from(edge.offset)),
        );
        let symbol = self.layout.graph.symbol_name(edge.target).into_boxed_str();
        let to = CodeAddr::new(self.value(edge.target).unwrap_or(0));
        let value = value as i64;
        Err(match misfit {
            Misfit::TooLarge => Error::RelocationOutOfReach {
                relocation,
                section,
                offset,
                symbol,
                from: CodeAddr::new(place),
                to,
                value,
                bits: fit.bits(),
                mend: mend(edge),
            },
            Misfit::Misaligned(align) => Error::RelocationMisaligned {
                relocation,
                section,
                offset,
                symbol,
                to,
                value,
                align,
            },
        })
    }
}

/// What to do about a value that does not fit.
fn mend(edge: &Edge) -> &'static str {
    match edge.relocation.formula() {
        Formula::Absolute => {
            "compile with -relocation-model=pic or -code-model=large, or place the target in the low 2 GiB"
        }
        formula if formula.is_branch() && edge.relocation.fit().bits() < 32 => {
            "split the object: its code is larger than its branches reach"
        }
        Formula::FromGot | Formula::GotOffset if edge.relocation.fit().bits() <= 16 => {
            "compile with -code-model=medium, whose table may be larger"
        }
        _ if edge.relocation.fit().bits() < 32 => {
            "compile with -code-model=small, or place code and data closer together: an arena of shorter chunks"
        }
        _ => "compile with -relocation-model=pic or -code-model=large, or place both within 2 GiB",
    }
}
