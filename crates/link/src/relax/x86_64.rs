//! Source: System V ABI, AMD64 supplement, section B.2 ("Optimize GOTPCRELX Relocations"): the
//! relocations `GOTPCRELX` and `REX_GOTPCRELX` say that the instruction may be rewritten.
//!
//! | before | after | the address |
//! |---|---|---|
//! | `mov foo@GOTPCREL(%rip), %reg` | `lea foo(%rip), %reg` | within 2 GiB |
//! | | `mov $foo, %reg` | of 32 bits, where it is not within 2 GiB |
//! | `call *foo@GOTPCREL(%rip)` | `addr32 call foo` | within 2 GiB |
//! | `jmp *foo@GOTPCREL(%rip)` | `jmp foo; nop` | within 2 GiB |
//! | `test %reg, foo@GOTPCREL(%rip)` | `test $foo, %reg` | of 32 bits |
//! | `binop foo@GOTPCREL(%rip), %reg` | `binop $foo, %reg` | of 32 bits |
//!
//! `binop` is one of `adc add and cmp or sbb sub xor`. An operand of 64 bits takes an address that
//! is one of 31 bits, as it is extended with its sign.

use super::{Changes, CodeSection, Edge, Targets};
use crate::relocation::Fit;

const GOTPCRELX: u32 = object::elf::R_X86_64_GOTPCRELX.0;
const REX_GOTPCRELX: u32 = object::elf::R_X86_64_REX_GOTPCRELX.0;
const PC32: u32 = object::elf::R_X86_64_PC32.0;
const ADDRESS: u32 = object::elf::R_X86_64_32.0;
const SIGNED_ADDRESS: u32 = object::elf::R_X86_64_32S.0;

/// The distance from the field to the end of its instruction, negative, as these relocations have
/// it.
const TO_NEXT: i64 = -4;

/// Of a prefix REX: 64-bit operands, and the upper bits of the register in `reg` and of the one in
/// `rm`.
const REX_W: u8 = 8;
const REX_R: u8 = 4;
const REX_B: u8 = 1;

pub(super) fn rewrite(code: &CodeSection<'_, '_>, target: Targets<'_>, changes: &mut Changes) {
    for (index, edge) in code.section.edges.iter().enumerate() {
        let candidate =
            matches!(edge.relocation.number(), GOTPCRELX | REX_GOTPCRELX) && edge.addend == TO_NEXT;
        let Some(target) = candidate.then(|| target(edge.target)).flatten() else {
            continue;
        };
        if to_distance(code, edge, index, target, changes).is_none() {
            to_immediate(code, edge, index, target, changes);
        }
    }
}

/// Rewrites what can have the distance in its field, if it fits. `None` if nothing was.
fn to_distance(
    code: &CodeSection<'_, '_>,
    edge: &Edge,
    index: usize,
    target: u64,
    changes: &mut Changes,
) -> Option<()> {
    let start = edge.offset.checked_sub(2)?;
    let field = match code.bytes(start)? {
        // mov r, [rip + x] is lea r, [rip + x]; call [rip + x] is addr32 call.
        [0x8b, operands] if operands & 0xc7 == 0x05 => edge.offset,
        [0xff, 0x15] => edge.offset,
        // jmp [rip + x] is jmp and a nop; the opcode is a byte shorter.
        [0xff, 0x25] => edge.offset - 1,
        _ => return None,
    };
    let distance = target
        .wrapping_add(TO_NEXT as u64)
        .wrapping_sub(code.place(field));
    // protection: relaxation-within-reach
    Fit::signed(32).check(distance).ok()?;
    match code.bytes(start)? {
        [0xff, 0x15] => changes.bytes(start, &[0x67, 0xe8]),
        [0xff, _] => {
            changes.bytes(start, &[0xe9]);
            changes.bytes(edge.offset + 3, &[0x90]);
        }
        _ => changes.bytes(start, &[0x8d]),
    }
    changes.edge(index, edge, PC32, field, TO_NEXT);
    Some(())
}

/// Rewrites what can have the address in its field, if it fits. `None` if nothing was.
fn to_immediate(
    code: &CodeSection<'_, '_>,
    edge: &Edge,
    index: usize,
    target: u64,
    changes: &mut Changes,
) -> Option<()> {
    let start = edge.offset.checked_sub(2)?;
    let [opcode, operands] = code.bytes(start)?;
    if operands & 0xc7 != 0x05 {
        return None;
    }
    let register = operands >> 3 & 7;
    // The instruction that takes a number of 32 bits, and what is in `reg` of its operands.
    let (new, kind) = match opcode {
        0x8b => (0xc7, 0),
        0x85 => (0xf7, 0),
        // add, or, adc, sbb, and, sub, xor, cmp: the same number in both encodings.
        _ if opcode & 0xc7 == 0x03 => (0x81, opcode >> 3 & 7),
        _ => return None,
    };
    let rex = (edge.relocation.number() == REX_GOTPCRELX)
        .then(|| code.bytes::<1>(start.checked_sub(1)?))
        .flatten();
    let rex = rex.map(|[rex]| rex);
    if edge.relocation.number() == REX_GOTPCRELX && rex.is_none_or(|rex| rex & 0xf0 != 0x40) {
        return None;
    }
    let wide = rex.is_some_and(|rex| rex & REX_W != 0);
    let fits = if wide { Fit::signed(32) } else { Fit::unsigned(32) };
    fits.check(target).ok()?;
    if let Some(rex) = rex {
        // The register moves from `reg` to `rm`.
        let extended = if rex & REX_R != 0 { REX_B } else { 0 };
        changes.bytes(start - 1, &[rex & !(REX_R | REX_B) | extended]);
    }
    changes.bytes(start, &[new, 0xc0 | kind << 3 | register]);
    let number = if wide { SIGNED_ADDRESS } else { ADDRESS };
    changes.edge(index, edge, number, edge.offset, 0);
    Some(())
}
