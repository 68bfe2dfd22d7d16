//! Source: RISC-V ELF psABI, "GOT load relaxation". Encodings: RISC-V Instruction Set Manual,
//! volume I.
//!
//! `auipc a, %got_pcrel_hi(foo); ld b, %pcrel_lo(label)(a)` becomes `auipc a, %pcrel_hi(foo); addi
//! b, a, %pcrel_lo(label)`, if the compiler has marked both with `RELAX`, and everything that takes
//! the lower bits of that distance is such a load.

use alloc::vec::Vec;
use std::collections::{HashMap, HashSet};

use patchpoint_isa::Arch;

use super::{Changes, CodeSection, Edge, Graph, Targets};
use crate::graph::descriptors::Spot;
use crate::relocation::Fit;

const GOT_HI20: u32 = object::elf::R_RISCV_GOT_HI20.0;
const HI20: u32 = object::elf::R_RISCV_PCREL_HI20.0;
const LO12_I: u32 = object::elf::R_RISCV_PCREL_LO12_I.0;
const LO12_S: u32 = object::elf::R_RISCV_PCREL_LO12_S.0;
const RELAX: u32 = object::elf::R_RISCV_RELAX.0;

/// `auipc`, and what `ld` and `addi` have in their operation's fields.
const AUIPC: u32 = 0x17;
const LD: u32 = 0x3003;
const ADDI: u32 = 0x13;
const OPERATION: u32 = 0x707f;

/// Half of what the lower 12 bits, which are sign-extended, can hold.
const CARRY: u64 = 0x800;

pub(super) fn rewrite(code: &CodeSection<'_, '_>, target: Targets<'_>, changes: &mut Changes) {
    let edges = &code.section.edges;
    let of = |number| {
        edges
            .iter()
            .filter(move |edge| edge.relocation.number() == number)
    };
    let marked: HashSet<u32> = of(RELAX).map(|edge| edge.offset).collect();
    let lows = lows(code);
    for (index, upper) in edges.iter().enumerate() {
        if upper.relocation.number() != GOT_HI20 || upper.addend != 0 {
            continue;
        }
        let Some(target) = target(upper.target) else {
            continue;
        };
        let loads = lows.get(&upper.offset).map_or(&[][..], Vec::as_slice);
        let distance = target.wrapping_sub(code.place(upper.offset));
        // protection: relaxation-within-a-section
        let relaxable = !code.shared.contains(&(code.id, upper.offset))
            && is_auipc(code, upper)
            && marked.contains(&upper.offset)
            && !loads.is_empty()
            && loads
                .iter()
                .all(|(_, low)| marked.contains(&low.offset) && is_load(code, upper, low))
            && Fit::signed(32).check(distance.wrapping_add(CARRY)).is_ok();
        if !relaxable {
            continue;
        }
        changes.edge(index, upper, HI20, upper.offset, 0);
        for (index, low) in loads {
            let Some(load) = code.word(low.offset) else {
                continue;
            };
            changes.word(low.offset, load & !OPERATION | ADDI);
            // It stays as it is: what it takes the lower bits of has changed.
            changes.edges.push((*index, **low));
        }
    }
}

/// What takes the lower bits of the distance at each offset of the section, with the edges'
/// indices.
fn lows<'c>(code: &'c CodeSection<'_, '_>) -> HashMap<u32, Vec<(usize, &'c Edge)>> {
    let mut found: HashMap<u32, Vec<_>> = HashMap::new();
    for (index, edge) in code.section.edges.iter().enumerate() {
        if let Some((section, offset)) = upper_of(code.graph, edge) {
            if section == code.id {
                found.entry(offset).or_default().push((index, edge));
            }
        }
    }
    found
}

/// The upper halves that have lower ones in other sections, which compilers do not make.
pub(super) fn shared(graph: &Graph<'_>) -> HashSet<Spot> {
    if graph.arch() != Arch::RiscV64 {
        return HashSet::new();
    }
    let sections = graph.section_ids().zip(&graph.sections);
    let lows = sections.flat_map(|(id, section)| section.edges.iter().map(move |edge| (id, edge)));
    let uppers = lows.filter_map(|(id, edge)| Some((id, upper_of(graph, edge)?)));
    uppers
        .filter(|(id, upper)| *id != upper.0)
        .map(|(_, upper)| upper)
        .collect()
}

/// Where the upper half is to the lower one that an edge fills.
fn upper_of(graph: &Graph<'_>, edge: &Edge) -> Option<Spot> {
    let low = matches!(edge.relocation.number(), LO12_I | LO12_S);
    low.then(|| graph.spot(edge.target.index(), 0)).flatten()
}

fn is_auipc(code: &CodeSection<'_, '_>, upper: &Edge) -> bool {
    code.word(upper.offset).is_some_and(|word| word & 0x7f == AUIPC)
}

/// Whether it loads 64 bits by the register that `auipc` has written.
fn is_load(code: &CodeSection<'_, '_>, upper: &Edge, low: &Edge) -> bool {
    let (Some(auipc), Some(load)) = (code.word(upper.offset), code.word(low.offset)) else {
        return false;
    };
    low.relocation.number() == LO12_I && load & OPERATION == LD && load >> 15 & 0x1f == auipc >> 7 & 0x1f
}
