//! The unwind information of a Mach-O object made independent of where its sections are.
//!
//! Problem: in a Mach-O object all sections have addresses, and the assembler writes the distances
//! from `__eh_frame` to functions and to their exception tables as numbers, without relocations.
//! They are wrong when sections move apart, and only who understands the entries finds them.
//! Approach: the entries are read, and each such number becomes an edge as if there had been a
//! relocation for it.
//!
//! Invariant: every pointer of an entry has an edge, or is 0 where that means none.
//!
//! Sources: Linux Standard Base 5.0, sections 10.5 (pointer encodings) and 10.6 (entries). Which
//! pointers the assembler leaves without relocation: LLVM, `lib/MC/MCDwarf.cpp`.

use alloc::format;
use alloc::vec::Vec;
use std::collections::HashMap;

use patchpoint_isa::Arch;

use super::Places;
use crate::error::Result;
use crate::graph::checks::contradiction;
use crate::graph::{Definition, Edge, Graph, Section, SectionId, SectionRole, Symbol};
use crate::relocation::{self, Formula, Relocation};

/// Adds what the assembler has left out.
pub(crate) fn complete(graph: &mut Graph<'_>, places: &Places) -> Result<()> {
    let arch = graph.arch;
    let symbols = &graph.symbols;
    for (number, section) in (0..).zip(&mut graph.sections) {
        if section.role != SectionRole::EhFrame {
            continue;
        }
        let own = places.0.iter().find(|place| place.section == SectionId(number));
        let Some(addr) = own.map(|place| place.addr) else {
            continue;
        };
        let mut there: Vec<u32> = section.edges.iter().map(|edge| edge.offset).collect();
        there.sort_unstable();
        let mut frames = Frames {
            told: distances(symbols, SectionId(number), section),
            folded: Vec::new(),
            arch,
            places,
            section,
            addr,
            there,
            commons: Vec::new(),
            found: Vec::new(),
        };
        frames.read()?;
        let (mut found, folded) = (frames.found, frames.folded);
        // protection: frames-of-macho-refer-to-functions
        section.edges.append(&mut found);
        for (offset, value) in folded {
            let field = section.bytes.to_mut().get_mut(offset as usize..);
            if let Some(field) = field.and_then(<[u8]>::first_chunk_mut::<WORD>) {
                *field = value.to_le_bytes();
            }
            section.edges.retain(|edge| edge.offset != offset);
        }
    }
    Ok(())
}

/// By offset: the distances within a section that relocations tell, of 4 bytes.
fn distances(symbols: &[Symbol<'_>], own: SectionId, section: &Section<'_>) -> HashMap<u32, u32> {
    let told = section.edges.iter().filter_map(|edge| {
        let Definition::Section(id, offset) = symbols.get(edge.target.index())?.definition else {
            return None;
        };
        let is_distance = edge.relocation.formula() == Formula::Relative && edge.relocation.width() == 4;
        let value = i64::from(offset).wrapping_add(edge.addend) - i64::from(edge.offset);
        let value = u32::try_from(value).ok()?;
        (is_distance && id == own).then_some((edge.offset, value))
    });
    told.collect()
}

struct Frames<'a, 'data> {
    /// What relocations make of numbers that refer to other entries: the assembler may leave a
    /// difference of two labels to them.
    told: HashMap<u32, u32>,
    /// Those of them that are the numbers by which entries are read, so that they are in the
    /// bytes from now on.
    folded: Vec<(u32, u32)>,
    arch: Arch,
    places: &'a Places,
    section: &'a Section<'data>,
    /// Where the section is in the file's addresses.
    addr: u64,
    /// The offsets that have edges, ascending.
    there: Vec<u32>,
    /// What several entries have in common (CIE), by their places, ascending.
    commons: Vec<(usize, Common)>,
    found: Vec<Edge>,
}

/// How the entries with this in common encode their pointers.
#[derive(Clone, Copy)]
struct Common {
    /// Whether the length of the augmentation is told.
    has_data: bool,
    code: u8,
    table: u8,
}

/// Pointer encodings (`DW_EH_PE_*`): none; the size in the low bits; what the value counts from;
/// through a pointer.
const OMITTED: u8 = 0xff;
const SIZE: u8 = 0x0f;
const BASE: u8 = 0x70;
const FROM_PLACE: u8 = 0x10;

const TAKEN: &str = "as many bytes are taken as are asked for";

/// The size of an entry's length, and that of what follows it.
const WORD: usize = 4;

impl<'a> Frames<'a, '_> {
    fn read(&mut self) -> Result<()> {
        let mut at = 0;
        while at < self.section.bytes.len() {
            let mut entry = self.cursor(at, self.section.bytes.len());
            let len = entry.word()?;
            let len = self.told(at, len);
            if len == 0 {
                break;
            }
            if len == u32::MAX {
                return Err(entry.bad("its length has 64 bits"));
            }
            let start = entry.at;
            let end = start.saturating_add(len as usize);
            let mut entry = self.cursor(start, end);
            entry.check_end()?;
            let back = entry.word()?;
            // protection: a-pointer-to-a-cie-may-be-relocated
            let back = self.told(start, back);
            if back == 0 {
                let (common, personality) = self.common(entry)?;
                self.commons.push((at, common));
                self.found.extend(personality);
            } else {
                let common = start.checked_sub(back as usize);
                let found =
                    common.and_then(|common| self.commons.binary_search_by_key(&common, |(at, _)| *at).ok());
                let common = found.and_then(|index| self.commons.get(index));
                let Some((_, common)) = common.copied() else {
                    return Err(entry.bad("what it has in common with others is not there"));
                };
                let pointers = self.function(entry, common)?;
                self.found.extend(pointers.into_iter().flatten());
            }
            at = end;
        }
        Ok(())
    }

    /// What is at a place when it is relocated.
    fn told(&mut self, at: usize, otherwise: u32) -> u32 {
        let offset = u32::try_from(at).ok();
        let told = offset.and_then(|offset| Some((offset, *self.told.get(&offset)?)));
        self.folded.extend(told);
        told.map_or(otherwise, |(_, value)| value)
    }

    fn cursor(&self, at: usize, end: usize) -> Cursor<'a> {
        let section: &'a Section<'_> = self.section;
        Cursor {
            bytes: &section.bytes,
            name: &section.name,
            at,
            end,
        }
    }

    /// What several entries have in common, from behind its identifier on, with the pointer to the
    /// personality.
    fn common(&self, mut entry: Cursor<'_>) -> Result<(Common, Option<Edge>)> {
        let version = entry.byte()?;
        let augmentation = entry.text()?;
        entry.skip_leb()?;
        entry.skip_leb()?;
        if version == 1 {
            entry.byte()?;
        } else {
            entry.skip_leb()?;
        }
        let mut common = Common {
            has_data: false,
            code: 0,
            table: OMITTED,
        };
        let Some((b'z', letters)) = augmentation.split_first() else {
            return match augmentation {
                [] => Ok((common, None)),
                _ => Err(entry.bad("its augmentation is unknown")),
            };
        };
        common.has_data = true;
        entry.skip_leb()?;
        let mut personality = None;
        for letter in letters {
            match letter {
                b'L' => common.table = entry.byte()?,
                b'R' => common.code = entry.byte()?,
                b'P' => {
                    let encoding = entry.byte()?;
                    personality = Some((entry.at, encoding));
                    entry.skip_pointer(encoding)?;
                }
                b'S' | b'B' => {}
                _ => return Err(entry.bad("its augmentation is unknown")),
            }
        }
        let pointer = match personality {
            Some((at, encoding)) => self.pointer(at, entry.end, encoding)?,
            None => None,
        };
        Ok((common, pointer))
    }

    /// The entry of a function, from behind its identifier on: the pointers to its code and to its
    /// table.
    fn function(&self, mut entry: Cursor<'_>, common: Common) -> Result<[Option<Edge>; 2]> {
        let (code_at, end) = (entry.at, entry.end);
        entry.skip_pointer(common.code)?;
        // The function's length is encoded like its address, but counts from nothing.
        entry.skip_pointer(common.code)?;
        let mut table_at = None;
        if common.has_data {
            entry.skip_leb()?;
            table_at = (common.table != OMITTED).then_some(entry.at);
        }
        let code = self.pointer(code_at, end, common.code)?;
        let table = match table_at {
            Some(at) => self.pointer(at, end, common.table)?,
            None => None,
        };
        Ok([code, table])
    }

    /// The edge that a pointer without one needs.
    fn pointer(&self, at: usize, end: usize, encoding: u8) -> Result<Option<Edge>> {
        let mut field = self.cursor(at, end);
        let Ok(offset) = u32::try_from(at) else {
            return Err(field.bad("it is too far away"));
        };
        if encoding == OMITTED || self.there.binary_search(&offset).is_ok() {
            return Ok(None);
        }
        let width = width(encoding);
        let value = match width {
            Some(8) => field.double()?,
            Some(4) => i64::from(field.word()? as i32) as u64,
            _ => return Err(field.bad("its encoding is unknown")),
        };
        if value == 0 {
            // None, as of a function without a table.
            return Ok(None);
        }
        let target = (encoding & BASE == FROM_PLACE)
            .then(|| self.addr.wrapping_add(at as u64).wrapping_add(value))
            .and_then(|addr| Some((addr, self.places.find(addr)?)));
        let row = width.and_then(|width| self.distance(width));
        let (Some((addr, place)), Some(row)) = (target, row) else {
            return Err(field.bad("it refers to no section of the file"));
        };
        let addend = (addr - place.addr) as i64;
        Ok(Some(Edge::new(offset, row, place.symbol, addend)))
    }

    /// A distance from the field.
    fn distance(&self, width: u8) -> Option<Relocation> {
        let number = match self.arch {
            Arch::X86_64 => object::macho::X86_64_RELOC_SUBTRACTOR,
            _ => object::macho::ARM64_RELOC_SUBTRACTOR,
        };
        relocation::macho::of(self.arch, number, Formula::Relative, width)
    }
}

/// How many bytes a pointer has.
fn width(encoding: u8) -> Option<u8> {
    match encoding & SIZE {
        // Of an address; of 64 bits, unsigned and signed.
        0x00 | 0x04 | 0x0c => Some(8),
        0x03 | 0x0b => Some(4),
        _ => None,
    }
}

/// Reads within an entry.
struct Cursor<'a> {
    bytes: &'a [u8],
    name: &'a str,
    at: usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    fn bad(&self, why: &str) -> crate::Error {
        contradiction(
            "unwind information",
            format!("at {}+{:#x}: {why}", self.name, self.at),
        )
    }

    fn check_end(&self) -> Result<()> {
        if self.end <= self.bytes.len() {
            Ok(())
        } else {
            Err(self.bad("the entry is longer than the section"))
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let end = self.at.saturating_add(len);
        match self.bytes.get(self.at..end).filter(|_| end <= self.end) {
            Some(taken) => {
                self.at = end;
                Ok(taken)
            }
            None => Err(self.bad("the entry ends too early")),
        }
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(*self.take(1)?.first().expect(TAKEN))
    }

    fn word(&mut self) -> Result<u32> {
        let word = self.take(WORD)?.first_chunk().expect(TAKEN);
        Ok(u32::from_le_bytes(*word))
    }

    fn double(&mut self) -> Result<u64> {
        let double = self.take(8)?.first_chunk().expect(TAKEN);
        Ok(u64::from_le_bytes(*double))
    }

    /// A text that ends with a zero.
    fn text(&mut self) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.at..self.end);
        let rest = rest.expect("an entry ends in the section, and is read up to its end");
        let len = rest.iter().position(|byte| *byte == 0);
        let text = self.take(len.unwrap_or(rest.len()))?;
        self.byte()?;
        Ok(text)
    }

    fn skip_leb(&mut self) -> Result<()> {
        while self.byte()? & 0x80 != 0 {}
        Ok(())
    }

    fn skip_pointer(&mut self, encoding: u8) -> Result<()> {
        if encoding == OMITTED {
            return Ok(());
        }
        match width(encoding) {
            Some(width) => self.take(usize::from(width)).map(|_| ()),
            None => Err(self.bad("the encoding of a pointer is unknown")),
        }
    }
}
