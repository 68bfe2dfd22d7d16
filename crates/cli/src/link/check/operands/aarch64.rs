//! Operands in LLVM's order: of branches, addresses, wide moves, additions of a number, and loads
//! and stores with an offset.
//!
//! Source: Arm's Architecture Reference Manual, DDI 0487, C4.1.

use super::Operand::{self, Immediate, Register};

/// The operands of the word that the bytes start with; `None` for other instructions.
pub(super) fn operands(bytes: &[u8]) -> Option<Vec<Operand>> {
    let word = u32::from_le_bytes(*bytes.first_chunk()?);
    let is = |mask: u32, value: u32| word & mask == value;
    let far = || Immediate(signed(word, 5, 19));
    Some(match word {
        // Hints, `nop` among them; brk.
        _ if is(0xffff_f01f, 0xd503_201f) => vec![number(word, 5, 7)],
        _ if is(0xffe0_001f, 0xd420_0000) => vec![number(word, 5, 16)],
        // b, bl; b.cond; cbz, cbnz; tbz, tbnz.
        _ if is(0x7c00_0000, 0x1400_0000) => vec![Immediate(signed(word, 0, 26))],
        _ if is(0xff00_0010, 0x5400_0000) => vec![number(word, 0, 4), far()],
        _ if is(0x7e00_0000, 0x3400_0000) => vec![Register, far()],
        _ if is(0x7e00_0000, 0x3600_0000) => {
            let tested = bits(word, 31, 1) << 5 | bits(word, 19, 5);
            vec![Register, Immediate(tested.into()), Immediate(signed(word, 5, 14))]
        }
        // br, blr, ret, without pointer authentication.
        _ if matches!(word & 0xffff_fc1f, 0xd61f_0000 | 0xd63f_0000 | 0xd65f_0000) => vec![Register],
        // adr, adrp: the lowest two bits are apart.
        _ if is(0x1f00_0000, 0x1000_0000) => {
            let distance = signed(word, 5, 19) << 2 | i64::from(bits(word, 29, 2));
            vec![Register, Immediate(distance)]
        }
        _ if is(0x1f80_0000, 0x1280_0000) => move_wide(word)?,
        // add, sub of a number, and by how many bits that is shifted.
        _ if is(0x1f80_0000, 0x1100_0000) => {
            let shift = Immediate(12 * i64::from(bits(word, 22, 1)));
            vec![Register, Register, number(word, 10, 12), shift]
        }
        // Loads of a constant near by; not prfm.
        _ if is(0x3b00_0000, 0x1800_0000) && bits(word, 30, 2) != 3 => vec![Register, far()],
        // Loads and stores of one register: the offset in units of what is accessed, or in bytes.
        _ if is(0x3b00_0000, 0x3900_0000) && is_access(word) => {
            vec![Register, Register, number(word, 10, 12)]
        }
        _ if is(0x3b20_0c00, 0x3800_0000) && is_access(word) => {
            vec![Register, Register, Immediate(signed(word, 12, 9))]
        }
        // Of two registers.
        _ if is(0x3b80_0000, 0x2900_0000) && is_pair(word) => {
            vec![Register, Register, Register, Immediate(signed(word, 15, 7))]
        }
        _ => return None,
    })
}

/// `len` bits of a word from `low` on.
const fn bits(word: u32, low: u32, len: u32) -> u32 {
    word >> low & ((1 << len) - 1)
}

/// The same with the sign extended.
const fn signed(word: u32, low: u32, len: u32) -> i64 {
    ((word << (32 - low - len)) as i32 >> (32 - len)) as i64
}

fn number(word: u32, low: u32, len: u32) -> Operand {
    Immediate(bits(word, low, len).into())
}

/// movn, movz, movk.
fn move_wide(word: u32) -> Option<Vec<Operand>> {
    let (is_64_bit, shift) = (bits(word, 31, 1) == 1, 16 * bits(word, 21, 2));
    let registers = match bits(word, 29, 2) {
        0b00 | 0b10 => 1,
        // The rest of the destination is a source.
        0b11 => 2,
        _ => return None,
    };
    if !is_64_bit && shift >= 32 {
        return None;
    }
    let mut all = vec![Register; registers];
    all.extend([number(word, 5, 16), Immediate(shift.into())]);
    Some(all)
}

/// Whether a size, and what is done with it, are that of a load or store of one register: they may
/// be a prefetch or nothing.
const fn is_access(word: u32) -> bool {
    let (size, how, is_vector) = (bits(word, 30, 2), bits(word, 22, 2), bits(word, 26, 1) == 1);
    match how {
        0b00 | 0b01 => true,
        // The 16 bytes of a vector register.
        _ if is_vector => size == 0,
        // With the sign extended to 64 bits; to 32.
        0b10 => size < 3,
        _ => size < 2,
    }
}

const fn is_pair(word: u32) -> bool {
    let (size, is_vector) = (bits(word, 30, 2), bits(word, 26, 1) == 1);
    matches!((is_vector, size), (_, 0b00 | 0b10) | (true, 0b01))
}
