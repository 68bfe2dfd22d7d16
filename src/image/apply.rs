//! Applies edges: computes each value by its relocation's formula, checks that it fits, and writes it; fills
//! the global offset table and the stubs.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::graph::{Edge, Section, SymbolId};
use super::layout::{Place, SLOT, SegmentKind};
use super::link::{Linker, Value};
use super::relocation::Formula;
use crate::addr::{ByteOffset, CodeAddr};
use crate::error::{Error, Result};

impl Linker<'_, '_> {
    /// The entries of the global offset table, and stubs: `jmp *[rip + distance to the entry]`.
    pub(super) fn fill_slots(&self, buffers: &mut [Vec<u8>; 3]) -> Result<()> {
        let [code, read_only, _] = buffers;
        let (got, stubs) = (&self.layout.got, &self.layout.stubs);
        let entries = read_only.get_mut(got.place as usize..).unwrap_or_default();
        for (entry, owner) in entries.chunks_exact_mut(SLOT as usize).zip(&got.owners) {
            entry.copy_from_slice(&self.value(*owner)?.to_le_bytes());
        }
        let code = code.get_mut(stubs.place as usize..).unwrap_or_default();
        for (stub, owner) in code.chunks_exact_mut(SLOT as usize).zip(&stubs.owners) {
            let (Some(at), Some(entry)) = (self.stub(*owner), self.entry(*owner)) else {
                continue;
            };
            // The segments have been checked to be within 2 GiB of each other.
            let distance = (entry.wrapping_sub(at).wrapping_sub(6) as u32).to_le_bytes();
            if let [opcode, modrm, d0, d1, d2, d3, ..] = stub {
                (*opcode, *modrm) = (0xff, 0x25);
                [*d0, *d1, *d2, *d3] = distance;
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
        let name = || self.layout.object.symbol_name(symbol);
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

    /// Computes an edge's value and writes it. `at` is the section's address, if it has one.
    pub(super) fn apply(
        &self,
        section: &Section<'_>,
        edge: &Edge,
        at: Option<u64>,
        bytes: &mut [u8],
    ) -> Result<()> {
        let formula = edge.relocation.formula();
        if formula == Formula::Nothing {
            return Ok(());
        }
        let Some(place) = at.or((!formula.needs_place()).then_some(0)) else {
            return Err(Error::RelocationUnsupported {
                relocation: edge.relocation.name().into(),
                section: section.name.to_string(),
                offset: ByteOffset::new(u64::from(edge.offset)),
                reason: "it is relative to its place, but the section is kept without an address",
            });
        };
        let place = place.wrapping_add(u64::from(edge.offset));
        let value = self.compute(section, edge, place)?;
        let width = edge.relocation.width();
        if !edge.relocation.fit().admits(value, width) {
            return Err(self.out_of_reach(section, edge, place));
        }
        let start = edge.offset as usize;
        let field = start
            .checked_add(usize::from(width))
            .and_then(|end| bytes.get_mut(start..end));
        for (byte, new) in field.unwrap_or_default().iter_mut().zip(value.to_le_bytes()) {
            *byte = new;
        }
        Ok(())
    }

    fn compute(&self, section: &Section<'_>, edge: &Edge, place: u64) -> Result<u64> {
        let formula = edge.relocation.formula();
        let addend = edge.addend as u64;
        let entry = || {
            self.value(edge.target)?;
            self.entry(edge.target)
                .ok_or_else(|| self.out_of_reach(section, edge, place))
        };
        let value = match formula {
            Formula::Nothing => 0,
            Formula::Absolute => self.value(edge.target)?,
            Formula::Relative => self.value(edge.target)?.wrapping_sub(place),
            Formula::Branch => self.branch(edge, place)?,
            Formula::BranchFromGot | Formula::FromGot => self.value(edge.target)?.wrapping_sub(self.got),
            Formula::GotOffset => entry()?.wrapping_sub(self.got),
            Formula::GotEntry => entry()?.wrapping_sub(place),
            Formula::GotBase => self.got.wrapping_sub(place),
            Formula::Size => self
                .layout
                .object
                .symbols
                .get(edge.target.index())
                .map_or(0, |symbol| symbol.size),
        };
        Ok(value.wrapping_add(addend))
    }

    /// The distance to the target, or to its stub where the target itself is out of reach.
    fn branch(&self, edge: &Edge, place: u64) -> Result<u64> {
        let direct = self.value(edge.target)?.wrapping_sub(place);
        let fits = edge
            .relocation
            .fit()
            .admits(direct.wrapping_add(edge.addend as u64), edge.relocation.width());
        Ok(match self.stub(edge.target) {
            Some(stub) if !fits => stub.wrapping_sub(place),
            _ => direct,
        })
    }

    fn out_of_reach(&self, section: &Section<'_>, edge: &Edge, place: u64) -> Error {
        let absolute = edge.relocation.formula() == Formula::Absolute;
        Error::RelocationOutOfReach {
            relocation: edge.relocation.name(),
            section: section.name.to_string(),
            offset: ByteOffset::new(u64::from(edge.offset)),
            symbol: self.layout.object.symbol_name(edge.target),
            from: CodeAddr::new(place),
            to: CodeAddr::new(self.value(edge.target).unwrap_or(0)),
            bytes: edge.relocation.width(),
            mend: if absolute {
                "compile with -relocation-model=pic or -code-model=large, or place the target in the low 2 GiB"
            } else {
                "compile with -relocation-model=pic or -code-model=large, or place both within 2 GiB"
            },
        }
    }
}
