//! Applies edges: computes each value by its relocation's formula, checks that it fits, and writes it; fills
//! the global offset table and the stubs.

use alloc::vec::Vec;

use super::graph::{Definition, Edge, Section, SectionRole, SymbolId};
use super::layout::{Place, SegmentKind};
use super::link::{Linker, Value};
use super::pairs::uleb_len;
use super::relocation::{Fit, Formula, Misfit};
use super::stubs::{TOC_RESTORE_ROOM, toc_restore};
use crate::addr::{ByteOffset, CodeAddr};
use crate::error::{Error, Result};
use crate::stackmap::Endian;

/// The size of a page that `adrp` counts in.
const PAGE_MASK: u64 = 0xfff;

impl Linker<'_, '_> {
    /// The entries of the global offset table, and stubs.
    pub(super) fn fill_slots(&self, buffers: &mut [Vec<u8>; 3]) -> Result<()> {
        let [code, read_only, _] = buffers;
        let (got, stubs) = (&self.layout.got, &self.layout.stubs);
        let arch = self.layout.graph.arch;
        let entries = read_only.get_mut(got.place as usize..).unwrap_or_default();
        for (entry, owner) in entries.chunks_exact_mut(got.size as usize).zip(&got.owners) {
            let value = self.value(*owner)?;
            entry.copy_from_slice(&match arch.endian() {
                Endian::Little => value.to_le_bytes(),
                Endian::Big => value.to_be_bytes(),
            });
        }
        let code = code.get_mut(stubs.place as usize..).unwrap_or_default();
        for (room, owner) in code.chunks_exact_mut(stubs.size as usize).zip(&stubs.owners) {
            let Some(at) = self.stub(*owner) else { continue };
            let entry = self.entry(*owner).unwrap_or(0);
            let stub = arch.stub(at, entry, self.value(*owner)?);
            for (byte, new) in room.iter_mut().zip(stub) {
                *byte = new;
            }
        }
        Ok(())
    }

    fn entry(&self, symbol: SymbolId) -> Option<u64> {
        let offset = self.layout.got.offset(symbol)?;
        Some(self.address(Place {
            segment: SegmentKind::ReadOnly,
            offset,
        }))
    }

    fn stub(&self, symbol: SymbolId) -> Option<u64> {
        let offset = self.layout.stubs.offset(symbol)?;
        Some(self.address(Place {
            segment: SegmentKind::Code,
            offset,
        }))
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
    pub(super) fn apply_all(&self, section: &Section<'_>, at: Option<u64>, bytes: &mut [u8]) -> Result<()> {
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
        if matches!(formula, Formula::Nothing | Formula::UlebSet) {
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
        if formula == Formula::UlebSub {
            let bytes = bytes.get_mut(start..).unwrap_or_default();
            return self.apply_uleb(section, edge, previous, bytes);
        }
        let mut value = self.compute(section, edge, place)?;
        let end = start.saturating_add(usize::from(edge.relocation.width()));
        if self.leaves_for_stub(edge) {
            self.restore_toc(section, edge, bytes.get_mut(start..).unwrap_or_default())?;
        }
        let field = bytes.get_mut(start..end).unwrap_or_default();
        let endian = self.layout.graph.endian();
        match formula {
            Formula::Add => value = edge.relocation.extract(field, endian).wrapping_add(value),
            Formula::Sub => value = edge.relocation.extract(field, endian).wrapping_sub(value),
            _ => {}
        }
        self.check(section, edge, place, edge.relocation.fit(), value)?;
        edge.relocation.insert(field, endian, value);
        Ok(())
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
        let symbol = || Ok(self.value(edge.target)?.wrapping_add(addend));
        let entry = || {
            self.value(edge.target)?;
            let entry = self.entry(edge.target);
            let entry = entry.ok_or_else(|| self.unsupported(section, edge, "its symbol has no entry"))?;
            Ok(entry.wrapping_add(addend))
        };
        Ok(match formula {
            Formula::Nothing | Formula::UlebSet | Formula::UlebSub => 0,
            Formula::Absolute if section.role == SectionRole::StackMaps => self.of_code(edge, symbol()?),
            Formula::Absolute | Formula::Add | Formula::Sub => symbol()?,
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

    fn size(&self, symbol: SymbolId) -> u64 {
        let symbol = self.layout.graph.symbols.get(symbol.index());
        symbol.map_or(0, |symbol| symbol.size)
    }

    /// The code that a stack map speaks of: where functions have descriptors, those are what its relocations name.
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

    /// The distance to the target, or to its stub where the target itself is out of reach or may not be entered.
    fn branch(&self, section: &Section<'_>, edge: &Edge, place: u64) -> Result<u64> {
        let arch = self.layout.graph.arch;
        let addend = edge.addend as u64;
        let stub = self.stub(edge.target);
        if self.needs_stub(edge) {
            let Some(stub) = stub else {
                // One that a pass made when stubs were there already.
                return Err(self.unsupported(section, edge, "its symbol has no stub"));
            };
            self.value(edge.target)?;
            let entry = match edge.relocation.formula() {
                Formula::BranchNoToc => arch.stub_entry_without_toc(),
                _ => 0,
            };
            return Ok(stub.wrapping_add(entry).wrapping_sub(place));
        }
        let described = self.layout.graph.described(edge.target.index(), edge.addend);
        if let Some(code) = described.and_then(|spot| self.spot(spot)) {
            return Ok(code.wrapping_sub(place));
        }
        let other = self
            .layout
            .graph
            .symbols
            .get(edge.target.index())
            .map_or(0, |symbol| symbol.other);
        let local = arch.local_entry(other).unwrap_or(0);
        let direct = self
            .value(edge.target)?
            .wrapping_add(addend)
            .wrapping_add(u64::from(local))
            .wrapping_sub(place);
        Ok(match stub {
            Some(stub) if edge.relocation.fit().check(direct).is_err() => {
                stub.wrapping_add(addend).wrapping_sub(place)
            }
            _ => direct,
        })
    }

    /// Whether a branch may not enter its target directly, wherever that is: on PowerPC, what is outside may have another
    /// TOC pointer.
    fn needs_stub(&self, edge: &Edge) -> bool {
        let graph = &self.layout.graph;
        let definition = graph
            .symbols
            .get(edge.target.index())
            .map(|symbol| symbol.definition);
        let inside = matches!(definition, Some(Definition::Section(..)));
        graph.arch.is_powerpc() && (!inside || graph.needs_toc_stub(edge))
    }

    /// Whether a call goes through a stub that saves the TOC pointer.
    fn leaves_for_stub(&self, edge: &Edge) -> bool {
        edge.relocation.formula() == Formula::Branch && self.needs_stub(edge)
    }

    /// Replaces the nop behind a call by what restores the TOC pointer. `bytes` start with the call.
    fn restore_toc(&self, section: &Section<'_>, edge: &Edge, bytes: &mut [u8]) -> Result<()> {
        let arch = self.layout.graph.arch;
        let big = arch.endian() == Endian::Big;
        let word = |bytes: &[u8; 4]| {
            if big {
                u32::from_be_bytes(*bytes)
            } else {
                u32::from_le_bytes(*bytes)
            }
        };
        let Some((call, rest)) = bytes.split_first_chunk_mut::<4>() else {
            return Ok(());
        };
        let links = word(call) & 1 != 0;
        match rest.split_first_chunk_mut::<4>() {
            Some((next, _)) if links && TOC_RESTORE_ROOM.contains(&word(next)) => {
                let restore = toc_restore(arch.has_descriptors());
                *next = if big {
                    restore.to_be_bytes()
                } else {
                    restore.to_le_bytes()
                };
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
