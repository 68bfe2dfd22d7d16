//! Alignment of RISC-V code that a linker may shorten: the assembler leaves as many nops as could
//! be needed, and the linker takes away those that are not (psABI, "Alignment Relocations").
//!
//! Where a section starts is known up to its own alignment, which is no less, so it is done when
//! the object is read. Nothing else is shortened. What moves is what relocations and symbols speak
//! of: in an object with such relocations, every distance across them is a relocation too.

use alloc::format;
use alloc::vec::Vec;

use patchpoint_isa::Arch;

use crate::error::{Error, Result};
use crate::graph::cut::Cuts;
use crate::graph::{Graph, Section};

const R_RISCV_ALIGN: u32 = object::elf::R_RISCV_ALIGN.0;

/// `addi x0, x0, 0` and `c.nop`.
const NOP: [u8; 4] = [0x13, 0, 0, 0];
const SHORT_NOP: [u8; 2] = [1, 0];

pub(crate) fn carry_out(graph: &mut Graph<'_>) -> Result<()> {
    if graph.arch != Arch::RiscV64 {
        return Ok(());
    }
    let cuts: Vec<Cuts> = graph.sections.iter_mut().map(cuts).collect::<Result<_>>()?;
    if cuts.iter().any(|cuts| !cuts.is_empty()) {
        graph.cut(&cuts);
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
    let (mut cuts, mut last) = (Cuts::default(), 0_u32);
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
        let needed = (at - cuts.removed()).next_multiple_of(align) - (at - cuts.removed());
        let Some(spare) = nops.checked_sub(needed) else {
            return Err(malformed("do not suffice"));
        };
        if needed % 2 != 0 {
            return Err(malformed("are at an odd offset"));
        }
        if spare > 0 {
            write_nops(section, at, needed);
            cuts.push(at + needed, spare);
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
