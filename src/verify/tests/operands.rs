//! What operands are is compared with LLVM in the tests of the command `link`; here is what has none.

use super::random::Numbers;
use super::*;
use crate::verify::Operand::{Immediate, Register};
use crate::verify::operands;

#[test]
fn operands_are_counted_as_llvm_counts_them() {
    // addl $0x7f, 8(%rbx,%rcx,4)
    let add = [0x83, 0x44, 0x8b, 0x08, 0x7f];
    let memory = [Register, Immediate(4), Register, Immediate(8), Register];
    let expected = [&memory[..], &[Immediate(0x7f)]].concat();
    assert_eq!(operands(Arch::X86_64, &add), Some(expected));
    // movk x0, #0x1234, lsl #16
    let movk = 0xf2a2_4680_u32.to_le_bytes();
    let expected = alloc::vec![Register, Register, Immediate(0x1234), Immediate(16)];
    assert_eq!(operands(Arch::AArch64, &movk), Some(expected));
}

#[test]
fn what_is_not_known_has_no_operands() {
    for (arch, bytes) in [
        (Arch::X86_64, &[][..]),
        // Cut short.
        (Arch::X86_64, &[0x83, 0x44, 0x8b, 0x08]),
        // vaddps, and loopne, which has a condition and is no conditional jump.
        (Arch::X86_64, &[0xc5, 0xf8, 0x58, 0xc1]),
        (Arch::X86_64, &[0xe0, 0x00]),
        // enter has two numbers.
        (Arch::X86_64, &[0xc8, 0x10, 0x00, 0x01]),
        (Arch::AArch64, &[0x00, 0x00, 0x80]),
        // madd, and a logical immediate, of which LLVM lists the encoding.
        (Arch::AArch64, &[0x20, 0x0c, 0x02, 0x9b]),
        (Arch::AArch64, &[0x20, 0x00, 0x40, 0x92]),
        (Arch::RiscV64, &[0x13, 0x00, 0x00, 0x00]),
    ] {
        assert_eq!(operands(arch, bytes), None, "{arch} {bytes:02x?}");
    }
}

#[test]
fn any_bytes_have_operands_or_not() {
    let mut numbers = Numbers(0x0be7_a5d5);
    let mut known = 0;
    for _ in 0..50_000 {
        let bytes = numbers.bytes(15);
        known += [Arch::X86_64, Arch::AArch64]
            .into_iter()
            .filter_map(|arch| operands(arch, &bytes))
            // None has more than a destination, its copy, a place in memory, a number and a condition.
            .inspect(|all| assert!(all.len() <= 9, "{bytes:02x?}"))
            .count();
    }
    assert!(known > 5_000, "{known}");
}
