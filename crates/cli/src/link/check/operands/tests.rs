//! What operands are is compared with LLVM in the tests of the command `link`; here is what has
//! none.

use super::Operand::{Immediate, Register};
use super::*;

/// Numbers that look random and are the same in every run (xorshift, Marsaglia 2003).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 32) as u8).collect()
    }
}

#[test]
fn operands_are_counted_as_llvm_counts_them() {
    // addl $0x7f, 8(%rbx,%rcx,4)
    let add = [0x83, 0x44, 0x8b, 0x08, 0x7f];
    let memory = [Register, Immediate(4), Register, Immediate(8), Register];
    let expected = [&memory[..], &[Immediate(0x7f)]].concat();
    assert_eq!(operands(Arch::X86_64, &add), Some(expected));
    // movk x0, #0x1234, lsl #16
    let movk = 0xf2a2_4680_u32.to_le_bytes();
    let expected = vec![Register, Register, Immediate(0x1234), Immediate(16)];
    assert_eq!(operands(Arch::AArch64, &movk), Some(expected));
}

/// Instructions of RISC-V and their operands as `llvm-mc-19 -disassemble -show-inst` lists them:
/// registers, and numbers.
#[rustfmt::skip]
const RISCV: &[(&str, &str)] = &[
    ("37f5ffff", "r 1048575"), // lui a0, 1048575
    ("97520000", "r 5"), // auipc t0, 5
    ("ef000080", "r -1048576"), // jal ra, -1048576
    ("eff0ff7f", "r 1048574"), // jal ra, 1048574
    ("6785d5ff", "r r -3"), // jalr a0, -3(a1)
    ("6300b580", "r r -4096"), // beq a0, a1, -4096
    ("e37fb57e", "r r 4094"), // bgeu a0, a1, 4094
    ("03850580", "r r -2048"), // lb a0, -2048(a1)
    ("03e5f57f", "r r 2047"), // lwu a0, 2047(a1)
    ("07b58500", "r r 8"), // fld fa0, 8(a1)
    ("07a585ff", "r r -8"), // flw fa0, -8(a1)
    ("a3b0a580", "r r -2047"), // sd a0, -2047(a1)
    ("27b8a500", "r r 16"), // fsd fa0, 16(a1)
    ("1385f5ff", "r r -1"), // addi a0, a1, -1
    ("1395f503", "r r 63"), // slli a0, a1, 63
    ("13d51542", "r r 33"), // srai a0, a1, 33
    ("1b85b5ff", "r r -5"), // addiw a0, a1, -5
    ("1bd5f541", "r r 31"), // sraiw a0, a1, 31
    ("3385c500", "r r r"), // add a0, a1, a2
    ("3b85c502", "r r r"), // mulw a0, a1, a2
    ("73000000", ""), // ecall
    ("e81f", "r r 1020"), // c.addi4spn a0, sp, 1020
    ("4800", "r r 4"), // c.addi4spn a0, sp, 4
    ("e85d", "r r 124"), // c.lw a0, 124(a1)
    ("e87d", "r r 248"), // c.ld a0, 248(a1)
    ("e825", "r r 200"), // c.fld fa0, 200(a1)
    ("e8c1", "r r 68"), // c.sw a0, 68(a1)
    ("c8e5", "r r 136"), // c.sd a0, 136(a1)
    ("0100", ""), // c.nop
    ("0115", "r r -32"), // c.addi a0, -32
    ("7d05", "r r 31"), // c.addi a0, 31
    ("7535", "r r -3"), // c.addiw a0, -3
    ("0155", "r -32"), // c.li a0, -32
    ("0175", "r 1048544"), // c.lui a0, 1048544
    ("7d65", "r 31"), // c.lui a0, 31
    ("0171", "r r -512"), // c.addi16sp sp, -512
    ("7d61", "r r 496"), // c.addi16sp sp, 496
    ("7d91", "r r 63"), // c.srli a0, 63
    ("0595", "r r 33"), // c.srai a0, 33
    ("0199", "r r -32"), // c.andi a0, -32
    ("0d8d", "r r r"), // c.sub a0, a1
    ("2d9d", "r r r"), // c.addw a0, a1
    ("01b0", "-2048"), // c.j -2048
    ("fdaf", "2046"), // c.j 2046
    ("01d1", "r -256"), // c.beqz a0, -256
    ("7ded", "r 254"), // c.bnez a0, 254
    ("7e15", "r r 63"), // c.slli a0, 63
    ("7e55", "r r 252"), // c.lwsp a0, 252(sp)
    ("7e75", "r r 504"), // c.ldsp a0, 504(sp)
    ("3225", "r r 264"), // c.fldsp fa0, 264(sp)
    ("aac3", "r r 196"), // c.swsp a0, 196(sp)
    ("aae7", "r r 456"), // c.sdsp a0, 456(sp)
    ("2aa4", "r r 8"), // c.fsdsp fa0, 8(sp)
    ("0285", "r"), // c.jr a0
    ("0295", "r"), // c.jalr a0
    ("2e85", "r r"), // c.mv a0, a1
    ("2e95", "r r r"), // c.add a0, a1
    ("0290", ""), // c.ebreak
];

#[test]
fn operands_of_riscv_are_llvms() {
    for (hex, expected) in RISCV {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let operand = |word: &str| match word {
            "r" => Register,
            number => Immediate(number.parse().unwrap()),
        };
        let expected: Vec<_> = expected.split_whitespace().map(operand).collect();
        assert_eq!(operands(Arch::RiscV64, &bytes), Some(expected), "{hex}");
    }
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
        (Arch::SystemZ, &[0x07, 0x00]),
        // amoadd.w, and an instruction that is cut short.
        (Arch::RiscV64, &[0x2f, 0x20, 0xb5, 0x00]),
        (Arch::RiscV64, &[0x13, 0x00]),
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
            // None has more than a destination, its copy, a place in memory, a number and a
            // condition.
            .inspect(|all| assert!(all.len() <= 9, "{bytes:02x?}"))
            .count();
    }
    assert!(known > 5_000, "{known}");
}
