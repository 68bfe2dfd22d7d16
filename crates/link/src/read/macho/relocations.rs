//! The relocations of Mach-O: what both architectures have in common. Each file of an architecture
//! says what the numbers mean.

use alloc::format;
use core::mem::size_of;

use llvm_stackmaps::addr::ByteOffset;
use object::LittleEndian;
use object::macho::{self, RelocationInfo, RelocationType};
use object::read::macho::Section as _;
use patchpoint_isa::Arch;

use super::{ENDIAN, RawSection, Reader, arm64, x86_64};
use crate::error::{Error, Result};
use crate::graph::checks::{Room, contradiction, malformed, place};
use crate::graph::{Definition, Edge, Graph, Section, SectionId, SectionRole, Strength, Symbol, SymbolId};
use crate::relocation::{self, Formula, Relocation};

/// A relocation of the file.
#[derive(Clone, Copy)]
pub(crate) struct Raw {
    pub(crate) offset: u64,
    pub(crate) number: RelocationType,
    /// In bytes: a power of two up to 8.
    pub(crate) width: u8,
    pub(crate) relative: bool,
    external: bool,
    /// A symbol's index, a section's number, or an addend.
    pub(crate) index: u32,
}

impl From<RelocationInfo> for Raw {
    fn from(info: RelocationInfo) -> Self {
        Self {
            offset: u64::from(info.r_address),
            number: info.r_type,
            width: 1 << (info.r_length & 3),
            relative: info.r_pcrel,
            external: info.r_extern,
            index: info.r_symbolnum,
        }
    }
}

/// What a relocation refers to.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) symbol: SymbolId,
    /// The address in the file that the field counts in: 0 for a symbol, the section's for a
    /// section.
    pub(crate) counted_from: u64,
    pub(crate) external: bool,
}

/// The relocations of one section on their way to edges.
pub(crate) struct Fields<'a, 'data> {
    reader: &'a Reader<'data>,
    symbols: &'a [Symbol<'data>],
    pub(crate) id: SectionId,
    /// Where the section is in the file's addresses.
    pub(crate) addr: u64,
    pub(crate) section: &'a mut Section<'data>,
}

/// A reason that several relocations have.
pub(crate) const ADDS_NOTHING: &str = "the instruction's operand is not 0, and nothing is added to it here";

impl<'data> Reader<'data> {
    /// The relocations of every section that is placed or kept.
    pub(crate) fn edges(&self, graph: &mut Graph<'data>) -> Result<()> {
        let mut room = Room::of(self.bytes, size_of::<macho::Relocation<LittleEndian>>());
        let Graph {
            arch,
            sections,
            symbols,
            ..
        } = graph;
        let raw_sections = (1..).map(SectionId).zip(&self.commands.sections);
        for ((id, raw), section) in raw_sections.zip(sections.iter_mut().skip(1)) {
            if section.role == SectionRole::Ignored {
                continue;
            }
            let relocations = raw
                .relocations(ENDIAN, self.bytes)
                .map_err(malformed("relocations"))?;
            room.take(relocations.len())?;
            section.edges.reserve(relocations.len());
            let mut fields = Fields {
                reader: self,
                symbols,
                id,
                addr: RawSection::addr(raw, ENDIAN),
                section,
            };
            fields.read(*arch, relocations)?;
        }
        Ok(())
    }
}

impl Fields<'_, '_> {
    fn read(&mut self, arch: Arch, relocations: &[macho::Relocation<LittleEndian>]) -> Result<()> {
        let mut relocations = relocations.iter();
        while let Some(first) = relocations.next() {
            if arch == Arch::X86_64 && first.r_scattered(ENDIAN, macho::CPU_TYPE_X86) {
                let offset = u64::from(first.r_word0.get(ENDIAN) & 0x00ff_ffff);
                return Err(contradiction(
                    "a relocation",
                    format!("that at {}+{offset:#x} is scattered", self.section.name),
                ));
            }
            let first = Raw::from(first.info(ENDIAN));
            let mut second = || relocations.next().map(|second| Raw::from(second.info(ENDIAN)));
            match arch {
                Arch::X86_64 => x86_64::read(self, first, &mut second)?,
                _ => arm64::read(self, first, &mut second)?,
            }
        }
        Ok(())
    }

    /// The row for a relocation, if the architecture has it.
    pub(crate) fn row(&self, arch: Arch, raw: Raw, formula: Formula) -> Result<Relocation> {
        let row = relocation::macho::of(arch, raw.number, formula, raw.width);
        row.ok_or_else(|| self.refused(arch, raw))
    }

    /// A number that is not applied.
    pub(crate) fn refused(&self, arch: Arch, raw: Raw) -> Error {
        let (relocation, reason) = relocation::macho::why_refused(arch, raw.number);
        Error::RelocationUnsupported {
            relocation,
            section: self.section.name.clone().into_owned(),
            offset: ByteOffset::new(raw.offset),
            reason,
        }
    }

    /// A row that does not go with its place.
    pub(crate) fn unsuited(&self, row: Relocation, raw: Raw, reason: &'static str) -> Error {
        Error::RelocationUnsupported {
            relocation: row.name().into(),
            section: self.section.name.clone().into_owned(),
            offset: ByteOffset::new(raw.offset),
            reason,
        }
    }

    /// The offset of the field, with its value: of four bytes, with its sign.
    pub(crate) fn field(&self, row: Relocation, raw: Raw) -> Result<(u32, u64)> {
        let offset = place(self.section, row, raw.offset)?;
        let bytes = self.section.bytes.get(offset as usize..);
        let bytes = bytes.expect("it has been placed in the section");
        let value = match (row.width(), bytes.first_chunk::<8>(), bytes.first_chunk::<4>()) {
            (8, Some(bytes), _) => u64::from_le_bytes(*bytes),
            (4, _, Some(bytes)) => i64::from(i32::from_le_bytes(*bytes)) as u64,
            _ => 0,
        };
        Ok((offset, value))
    }

    /// What a relocation refers to.
    pub(crate) fn target(&self, raw: Raw) -> Result<Target> {
        if raw.external {
            if raw.index < self.reader.symbol_count() {
                return Ok(Target {
                    symbol: SymbolId(raw.index),
                    counted_from: 0,
                    external: true,
                });
            }
            return Err(self.not_there("symbol", raw));
        }
        let index = (raw.index as usize).checked_sub(1);
        match index.and_then(|index| self.reader.raw_section(index)) {
            Some(section) => Ok(Target {
                symbol: self.reader.section_symbol(raw.index),
                counted_from: section.addr(ENDIAN),
                external: false,
            }),
            None => Err(self.not_there("section", raw)),
        }
    }

    fn not_there(&self, what: &str, raw: Raw) -> Error {
        let (section, offset) = (&self.section.name, raw.offset);
        let reason = format!("{what} {} of {section} at {offset:#x} is not there", raw.index);
        contradiction("a relocation's symbol", reason)
    }

    pub(crate) fn push(&mut self, offset: u32, row: Relocation, target: SymbolId, addend: u64) {
        let addend = addend as i64;
        self.section.edges.push(Edge::new(offset, row, target, addend));
    }

    /// An address in the field.
    pub(crate) fn pointer(&mut self, arch: Arch, raw: Raw) -> Result<()> {
        let row = self.row(arch, raw, Formula::Absolute)?;
        let (offset, value) = self.field(row, raw)?;
        let target = self.target(raw)?;
        self.push(
            offset,
            row,
            target.symbol,
            value.wrapping_sub(target.counted_from),
        );
        Ok(())
    }

    /// A difference: what to subtract, and behind it what to subtract it from.
    ///
    /// The distance from a place of the same section is one from the field, less what is between
    /// them: sections do not change within, and so there are fewer pairs for others to deal with.
    pub(crate) fn difference(
        &mut self,
        arch: Arch,
        raw: Raw,
        second: Option<Raw>,
        unsigned: RelocationType,
    ) -> Result<()> {
        let half = self.row(arch, raw, Formula::Subtrahend)?;
        let second = second.filter(|second| {
            let same = (second.offset, second.width) == (raw.offset, raw.width);
            same && second.number == unsigned && !second.relative
        });
        let Some(second) = second.filter(|_| !raw.relative) else {
            return Err(self.unsuited(half, raw, "nothing at the same place follows to subtract it from"));
        };
        let (offset, value) = self.field(half, raw)?;
        let (less, from) = (self.target(raw)?, self.target(second)?);
        let addend = value
            .wrapping_add(less.counted_from)
            .wrapping_sub(from.counted_from);
        if let Some(start) = self.fixed_offset(less.symbol) {
            let row = self.row(arch, raw, Formula::Relative)?;
            let addend = addend
                .wrapping_sub(u64::from(start))
                .wrapping_add(u64::from(offset));
            self.push(offset, row, from.symbol, addend);
            return Ok(());
        }
        let row = self.row(arch, second, Formula::Difference)?;
        self.push(offset, half, less.symbol, 0);
        self.push(offset, row, from.symbol, addend);
        Ok(())
    }

    /// The offset of a symbol of this section that no other definition takes the place of.
    fn fixed_offset(&self, symbol: SymbolId) -> Option<u32> {
        let symbol = self.symbols.get(symbol.index())?;
        match symbol.definition {
            Definition::Section(id, offset) if id == self.id && symbol.strength == Strength::Strong => {
                Some(offset)
            }
            _ => None,
        }
    }
}
