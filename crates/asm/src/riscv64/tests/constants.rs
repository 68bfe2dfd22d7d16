//! Constants: what the instructions compute, decoded again from their bytes.

use alloc::vec::Vec;

use crate::riscv64::constant;
use crate::riscv64::insn::Gpr;

/// Executes `lui`, `addi`, `addiw` and `slli` on one register, which nothing else may be written to
/// or read from.
fn execute(code: &[u8], reg: u32) -> u64 {
    let mut value = None;
    for word in code.chunks(4) {
        let word = u32::from_le_bytes(word.try_into().unwrap());
        let (opcode, funct3, rs1) = (word & 0x7f, word >> 12 & 7, word >> 15 & 31);
        assert_eq!(word >> 7 & 31, reg);
        let imm = i64::from(word as i32 >> 20);
        let source = || match rs1 {
            0 => 0,
            _ => {
                assert_eq!(rs1, reg);
                value.unwrap()
            }
        };
        value = Some(match (opcode, funct3) {
            (0x37, _) => i64::from(word as i32 & !0xfff) as u64,
            (0x13, 0) => source().wrapping_add_signed(imm),
            (0x1b, 0) => source().wrapping_add_signed(imm) as i32 as u64,
            (0x13, 1) => {
                assert_eq!(word >> 26, 0);
                source() << (word >> 20 & 63)
            }
            _ => panic!("{word:#010x}"),
        });
    }
    value.unwrap()
}

fn check(value: u64) -> usize {
    let mut out = Vec::new();
    constant::put(Gpr(6), value, &mut out);
    assert_eq!(out.len(), constant::len(value) as usize, "{value:#x}");
    assert_eq!(execute(&out, 6), value, "{value:#x}");
    out.len() / 4
}

#[test]
fn constants_are_what_they_should_be() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut longest = 0;
    for bit in 0..64 {
        for by in -3i64..=3 {
            longest = longest.max(check((1u64 << bit).wrapping_add_signed(by)));
            longest = longest.max(check((!0u64 << bit).wrapping_add_signed(by)));
        }
        for _ in 0..1000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            longest = longest.max(check(state >> bit));
            longest = longest.max(check(!(state >> bit)));
        }
    }
    assert_eq!(longest, 8);
}

#[test]
fn short_constants_are_short() {
    for (value, instructions) in [
        (0, 1),
        (0x7ff, 1),
        (u64::MAX, 1),
        (0x1000, 1),
        (0x1234_5678, 2),
        (i32::MAX as u64, 2),
        (0x8000_0000, 2),
        (1 << 63, 2),
        (0x7fff_1234_5000, 5),
    ] {
        assert!(check(value) <= instructions, "{value:#x}");
    }
}
