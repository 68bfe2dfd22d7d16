//! Alignment of RISC-V code that a linker may shorten: the assembler leaves as many nops as could be needed, and the
//! linker takes away those that are not (psABI, "Alignment Relocations").
//!
//! Where a section starts is known up to its own alignment, which is no less, so it is done when the object is read.
//! Nothing else is shortened. What moves is what relocations and symbols speak of: in an object with such
//! relocations, every distance across them is a relocation too.

use alloc::format;
use alloc::vec::Vec;

use super::graph::{Definition, Graph, Section, SectionId};
use crate::arch::Arch;
use crate::error::{Error, Result};

const R_RISCV_ALIGN: u32 = object::elf::R_RISCV_ALIGN;

/// `addi x0, x0, 0` and `c.nop`.
const NOP: [u8; 4] = [0x13, 0, 0, 0];
const SHORT_NOP: [u8; 2] = [1, 0];

/// Bytes that go: where they start, how many, as offsets before any went.
type Cuts = Vec<(u32, u32)>;

pub(super) fn carry_out(object: &mut Graph<'_>) -> Result<()> {
    if object.arch != Arch::RiscV64 {
        return Ok(());
    }
    for index in 0..object.sections.len() {
        let Some(section) = object.sections.get_mut(index) else {
            continue;
        };
        let cuts = cuts(section)?;
        if cuts.is_empty() {
            continue;
        }
        shorten(section, &cuts);
        for symbol in &mut object.symbols {
            if let Definition::Section(SectionId(id), offset) = &mut symbol.definition {
                if *id as usize == index {
                    let end = u64::from(*offset).saturating_add(symbol.size);
                    *offset = moved(*offset, &cuts);
                    let end = u32::try_from(end).map_or(end, |end| moved(end, &cuts).into());
                    symbol.size = end.saturating_sub(u64::from(*offset));
                }
            }
        }
    }
    Ok(())
}

/// What goes from a section, ascending. Writes the nops that stay.
fn cuts(section: &mut Section<'_>) -> Result<Cuts> {
    let mut places: Vec<(u32, i64)> = section
        .edges
        .iter()
        .filter(|edge| edge.relocation.number() == R_RISCV_ALIGN)
        .map(|edge| (edge.offset, edge.addend))
        .collect();
    places.sort_unstable();
    let (mut cuts, mut removed, mut last) = (Cuts::new(), 0_u32, 0_u32);
    for (at, nops) in places {
        let malformed = |why: &str| Error::ObjectMalformed {
            what: "R_RISCV_ALIGN",
            reason: format!("at {}+{at:#x}: {nops} bytes of nops {why}", section.name),
        };
        let nops = u32::try_from(nops)
            .ok()
            .filter(|nops| nops % 2 == 0 && *nops < section.align)
            .ok_or_else(|| malformed("are odd or more than the section's alignment needs"))?;
        let room = section.bytes.len() as u64;
        if at < last || u64::from(at) + u64::from(nops) > room {
            return Err(malformed("overlap others or the section's end"));
        }
        last = at + nops;
        let align = (nops + 1).next_power_of_two();
        let needed = (at - removed).next_multiple_of(align) - (at - removed);
        let Some(spare) = nops.checked_sub(needed) else {
            return Err(malformed("do not suffice"));
        };
        if needed % 2 != 0 {
            return Err(malformed("stand at an odd offset"));
        }
        if spare > 0 {
            write_nops(section, at, needed);
            cuts.push((at + needed, spare));
            removed += spare;
        }
    }
    Ok(cuts)
}

fn write_nops(section: &mut Section<'_>, at: u32, len: u32) {
    let start = at as usize;
    let Some(bytes) = section.bytes.to_mut().get_mut(start..start + len as usize) else {
        return;
    };
    let (short, long) = bytes.split_at_mut(bytes.len() % NOP.len());
    for (byte, nop) in short.iter_mut().zip(SHORT_NOP) {
        *byte = nop;
    }
    for (byte, nop) in long.iter_mut().zip(NOP.iter().cycle()) {
        *byte = *nop;
    }
}

fn shorten(section: &mut Section<'_>, cuts: &Cuts) {
    let mut kept = Vec::with_capacity(section.bytes.len());
    let mut from = 0;
    for (start, len) in cuts {
        kept.extend_from_slice(section.bytes.get(from..*start as usize).unwrap_or_default());
        from = (*start + *len) as usize;
    }
    kept.extend_from_slice(section.bytes.get(from..).unwrap_or_default());
    section.size = section
        .size
        .saturating_sub((section.bytes.len() - kept.len()) as u32);
    section.bytes = kept.into();
    for edge in &mut section.edges {
        edge.offset = moved(edge.offset, cuts);
    }
}

/// Where the byte that was at this offset is now.
fn moved(offset: u32, cuts: &Cuts) -> u32 {
    let before = cuts.iter().take_while(|(start, _)| *start < offset);
    before.fold(offset, |at, (start, len)| at - (*len).min(offset - start))
}
