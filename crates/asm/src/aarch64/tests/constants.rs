//! Constants by an interpreter of the instructions that load them.

use alloc::vec::Vec;

use crate::aarch64::{constant, insn::Gpr};

/// What a register holds after `movz`, `movn`, `movk` and `orr` with a bitmask (DDI 0487, C6.2).
fn interpret(bytes: &[u8], reg: u32) -> u64 {
    let mut value = 0xdead_beef_dead_beef;
    for word in bytes.chunks(4) {
        let word = u32::from_le_bytes(word.try_into().unwrap());
        assert_eq!(word & 0x1f, reg);
        let (imm, shift) = (u64::from(word >> 5 & 0xffff), word >> 21 & 3);
        match word >> 23 {
            0b1_1010_0101 => value = imm << (shift * 16),
            0b1_0010_0101 => value = !(imm << (shift * 16)),
            0b1_1110_0101 => value = value & !(0xffff << (shift * 16)) | imm << (shift * 16),
            0b1_0110_0100 => {
                assert_eq!(word >> 5 & 0x1f, 31);
                value = bitmask(word >> 22 & 1, word >> 16 & 0x3f, word >> 10 & 0x3f);
            }
            other => panic!("{other:b}"),
        }
    }
    value
}

/// DecodeBitMasks (DDI 0487, J1).
fn bitmask(n: u32, immr: u32, imms: u32) -> u64 {
    let len = 31 - (n << 6 | (!imms & 0x3f)).leading_zeros();
    let (size, levels) = (1u32 << len, (1u32 << len) - 1);
    let (ones, right) = (imms & levels, immr & levels);
    let mask = if size == 64 { u64::MAX } else { (1 << size) - 1 };
    let run = (1u64 << (ones + 1)) - 1;
    let element = match right {
        0 => run,
        _ => (run >> right | run << (size - right)) & mask,
    };
    (0..64 / size).fold(0, |value, n| value | element << (n * size))
}

fn values() -> Vec<u64> {
    let parts = [0u64, 1, 0x1234, 0x8000, 0xfffe, 0xffff];
    let mut values = Vec::new();
    for a in parts {
        for b in parts {
            for c in parts {
                for d in parts {
                    values.push(a | b << 16 | c << 32 | d << 48);
                }
            }
        }
    }
    for n in 0..64 {
        values.extend([1 << n, !(1 << n), u64::MAX >> n, u64::MAX << n, 0b101 << n]);
    }
    values.extend([
        0x5555_5555_5555_5555,
        0x0f0f_0f0f_0f0f_0f0f,
        0xaaaa_aaab_aaaa_aaaa,
    ]);
    values
}

#[test]
fn every_way_loads_the_value_and_tells_its_length() {
    for value in values() {
        for reg in [0, 16, 30] {
            let mut bytes = Vec::new();
            constant::put(Gpr(reg), value, &mut bytes);
            assert_eq!(interpret(&bytes, reg.into()), value, "{value:#x}");
            assert_eq!(bytes.len(), constant::len(value) as usize, "{value:#x}");
            assert!((4..=16).contains(&bytes.len()));
        }
    }
}

#[test]
fn the_shortest_way_is_taken() {
    let lengths = [
        (0, 4),
        (u64::MAX, 4),
        (0xffff_ffff_ffff_1234, 4),
        (0x1234_0000_0000, 4),
        (0x1234_ffff_ffff_5678, 8),
        (0x5555_5555_5555_5555, 4),
        (0x7fff_1234_5678, 12),
        (0x1234_5678_9abc_def0, 16),
    ];
    for (value, expected) in lengths {
        assert_eq!(constant::len(value), expected, "{value:#x}");
    }
}
