//! Relaxation for x86-64: code that loads an address from the global offset table computes it instead, where the target is in
//! reach.
//!
//! Source: System V ABI, AMD64 supplement, section B.2 ("Optimize GOTPCRELX Relocations"): the relocations `GOTPCRELX` and
//! `REX_GOTPCRELX` say that the instruction may be rewritten. Those that need no operand in 32 bits are:
//!
//! | before | after |
//! |---|---|
//! | `mov foo@GOTPCREL(%rip), %reg` | `lea foo(%rip), %reg` |
//! | `call *foo@GOTPCREL(%rip)` | `addr32 call foo` |
//! | `jmp *foo@GOTPCREL(%rip)` | `jmp foo; nop` |
//!
//! Lengths stay, so nothing moves. Branches through stubs need no pass: they go directly where that reaches. On other
//! architectures nothing is done.

use alloc::vec::Vec;

use super::graph::{Edge, SectionId, SectionRole};
use super::phases::Resolved;
use super::relocation::{Fit, Relocation};
use crate::addr::CodeAddr;
use crate::arch::Arch;
use crate::error::Result;

const GOTPCRELX: u32 = object::elf::R_X86_64_GOTPCRELX;
const REX_GOTPCRELX: u32 = object::elf::R_X86_64_REX_GOTPCRELX;

/// The distance from the field to the end of its instruction, negative, as these relocations have it.
const TO_NEXT: i64 = -4;

/// Rewrites every such instruction whose target is in reach. A pass for
/// [`Passes::before_fix_ups`](super::Passes::before_fix_ups).
///
/// # Errors
/// None; its type is that of a pass.
pub fn relax(resolved: &mut Resolved<'_>) -> Result<()> {
    let graph = resolved.graph();
    if graph.arch() != Arch::X86_64 {
        return Ok(());
    }
    let Some(relative) = Relocation::from_elf(Arch::X86_64, object::elf::R_X86_64_PC32) else {
        return Ok(());
    };
    let code: Vec<SectionId> = graph
        .section_ids()
        .filter(|id| {
            graph.section(*id).is_some_and(|section| {
                section.role == SectionRole::Code && section.edges.iter().any(is_candidate)
            })
        })
        .collect();
    for id in code {
        relax_section(resolved, id, relative);
    }
    Ok(())
}

fn is_candidate(edge: &Edge) -> bool {
    matches!(edge.relocation.number(), GOTPCRELX | REX_GOTPCRELX) && edge.addend == TO_NEXT
}

/// What becomes of an instruction: its bytes from two before the field on, and where the field is then.
struct Rewritten {
    /// The two bytes before the field that was.
    opcode: [u8; 2],
    /// How far the field moves to the front.
    back: u32,
    /// The byte that follows the instruction, if it is shorter than before.
    fill: Option<u8>,
}

fn rewritten(opcode: [u8; 2]) -> Option<Rewritten> {
    let same = |opcode| Rewritten {
        opcode,
        back: 0,
        fill: None,
    };
    match opcode {
        // mov r64, [rip + x] is lea r64, [rip + x].
        [0x8b, operands] if operands & 0xc7 == 0x05 => Some(same([0x8d, operands])),
        // call [rip + x] is addr32 call.
        [0xff, 0x15] => Some(same([0x67, 0xe8])),
        // jmp [rip + x] is jmp and a nop; the opcode is a byte shorter.
        [0xff, 0x25] => Some(Rewritten {
            opcode: [0xe9, 0],
            back: 1,
            fill: Some(0x90),
        }),
        _ => None,
    }
}

fn relax_section(resolved: &mut Resolved<'_>, id: SectionId, relative: Relocation) {
    let Some(start) = resolved.section_addr(id) else {
        return;
    };
    let edges = resolved
        .graph()
        .section(id)
        .map(|section| section.edges.as_slice());
    let edges = edges.unwrap_or_default().iter().enumerate();
    let targets: Vec<(usize, CodeAddr)> = edges
        .filter(|(_, edge)| is_candidate(edge))
        .filter_map(|(index, edge)| Some((index, resolved.symbol_addr(edge.target)?)))
        .collect();
    let Some(mut section) = resolved.section_mut(id) else {
        return;
    };
    for (index, target) in targets {
        let Some(edge) = section.edges_mut().get(index).copied() else {
            continue;
        };
        let end = edge.offset as usize;
        let Some(field) = end
            .checked_sub(2)
            .and_then(|from| section.bytes_mut().get_mut(from..))
        else {
            continue;
        };
        let [a, b, rest @ ..] = field else { continue };
        let Some(new) = rewritten([*a, *b]) else { continue };
        let place = start.get().wrapping_add(u64::from(edge.offset - new.back));
        let value = target.get().wrapping_add(TO_NEXT as u64).wrapping_sub(place);
        if Fit::signed(32).check(value).is_err() {
            continue;
        }
        [*a, *b] = new.opcode;
        if let (Some(fill), Some(last)) = (new.fill, rest.get_mut(3)) {
            *last = fill;
        }
        if let Some(edge) = section.edges_mut().get_mut(index) {
            *edge = Edge::new(edge.offset - new.back, relative, edge.target, TO_NEXT);
        }
    }
}
