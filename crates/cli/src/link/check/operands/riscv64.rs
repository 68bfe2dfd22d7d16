//! Operands in LLVM's order: of branches, jumps, loads, stores, and instructions with a number or
//! registers only.
//!
//! Source: the order of operands in `llvm/lib/Target/RISCV/RISCVInstrInfo.td` and
//! `RISCVInstrInfoC.td`; the encodings of RISC-V's unprivileged specification, chapters "RV32I",
//! "RV64I" and "C".

use super::Operand::{self, Immediate, Register};

/// The operands of the instruction that the bytes start with; `None` for other instructions.
pub(super) fn operands(bytes: &[u8]) -> Option<Vec<Operand>> {
    let half = u16::from_le_bytes(*bytes.first_chunk()?);
    // The lowest bits tell the length; longer ones than 4 bytes do not exist, and all zeros is no
    // instruction.
    match half & 0b1_1111 {
        0b1_1111 => None,
        low if low & 0b11 == 0b11 => long(Word(u32::from_le_bytes(*bytes.first_chunk()?))),
        _ if half == 0 => None,
        _ => short(half),
    }
}

/// The fields of an instruction of 4 bytes, in whatever format has them.
#[derive(Clone, Copy)]
struct Word(u32);

impl Word {
    const fn opcode(self) -> u32 {
        self.0 & 0x7f
    }

    const fn rd(self) -> u32 {
        self.0 >> 7 & 31
    }

    const fn funct3(self) -> u32 {
        self.0 >> 12 & 7
    }

    const fn rs2(self) -> u32 {
        self.0 >> 20 & 31
    }

    const fn funct7(self) -> u32 {
        self.0 >> 25
    }

    /// The distance of a shift of 64 bits.
    const fn shift(self) -> u32 {
        self.0 >> 20 & 63
    }

    /// The immediate of format I.
    const fn imm_i(self) -> i64 {
        (self.0 as i32 >> 20) as i64
    }

    /// Of format S.
    const fn imm_s(self) -> i64 {
        (self.0 as i32 >> 25 << 5) as i64 | self.rd() as i64
    }

    /// Of format B.
    const fn imm_b(self) -> i64 {
        let (sign, rest) = (self.0 as i32 >> 31 << 12, self.0);
        let rest = (rest >> 7 & 1) << 11 | (rest >> 25 & 0x3f) << 5 | (rest >> 8 & 0xf) << 1;
        sign as i64 | rest as i64
    }

    /// Of format J.
    const fn imm_j(self) -> i64 {
        let (sign, rest) = (self.0 as i32 >> 31 << 20, self.0);
        let rest = rest & 0xf_f000 | (rest >> 20 & 1) << 11 | (rest >> 21 & 0x3ff) << 1;
        sign as i64 | rest as i64
    }
}

fn registers(count: usize) -> Vec<Operand> {
    vec![Register; count]
}

/// So many registers, and a number behind them.
fn then(count: usize, number: i64) -> Option<Vec<Operand>> {
    let mut all = registers(count);
    all.push(Immediate(number));
    Some(all)
}

fn long(word: Word) -> Option<Vec<Operand>> {
    match word.opcode() {
        // lui, auipc: the upper 20 bits, without a sign.
        0x37 | 0x17 => then(1, i64::from(word.0 >> 12)),
        // jal
        0x6f => then(1, word.imm_j()),
        // jalr
        0x67 if word.funct3() == 0 => then(2, word.imm_i()),
        // beq and the like
        0x63 if !matches!(word.funct3(), 2 | 3) => then(2, word.imm_b()),
        // Loads, of floating point too.
        0x03 if word.funct3() != 7 => then(2, word.imm_i()),
        0x07 if matches!(word.funct3(), 2 | 3) => then(2, word.imm_i()),
        // Stores.
        0x23 if word.funct3() <= 3 => then(2, word.imm_s()),
        0x27 if matches!(word.funct3(), 2 | 3) => then(2, word.imm_s()),
        // With a number; shifts have the distance.
        0x13 => match word.funct3() {
            1 if word.0 >> 26 == 0 => then(2, word.shift().into()),
            5 if matches!(word.0 >> 26, 0 | 0x10) => then(2, word.shift().into()),
            1 | 5 => None,
            _ => then(2, word.imm_i()),
        },
        0x1b => match (word.funct3(), word.funct7()) {
            (0, _) => then(2, word.imm_i()),
            (1, 0) | (5, 0 | 0x20) => then(2, i64::from(word.rs2())),
            _ => None,
        },
        // Of registers: the base, and multiplications.
        0x33 | 0x3b if matches!(word.funct7(), 0 | 1 | 0x20) => Some(registers(3)),
        // ecall, ebreak
        0x73 if matches!(word.0, 0x73 | 0x10_0073) => Some(Vec::new()),
        _ => None,
    }
}

/// The bits of a number: each of them is at the first place, and is worth two to the power of
/// the second.
fn gather(half: u16, bits: &[(u16, u16)]) -> i64 {
    let bit = |(from, to): &(u16, u16)| i64::from(half >> from & 1) << to;
    bits.iter().map(bit).sum()
}

/// The same where the last of them is the sign.
fn signed(half: u16, bits: &[(u16, u16)]) -> i64 {
    let (value, sign) = (gather(half, bits), bits.last().map_or(0, |(_, to)| *to));
    // protection: numbers-of-short-instructions-have-a-sign
    if value >> sign & 1 == 1 {
        value - (2 << sign)
    } else {
        value
    }
}

const SIX: [(u16, u16); 6] = [(2, 0), (3, 1), (4, 2), (5, 3), (6, 4), (12, 5)];
const WORD_AT: [(u16, u16); 5] = [(6, 2), (10, 3), (11, 4), (12, 5), (5, 6)];
const DOUBLE_AT: [(u16, u16); 5] = [(10, 3), (11, 4), (12, 5), (5, 6), (6, 7)];
const WORD_LOADED: [(u16, u16); 6] = [(4, 2), (5, 3), (6, 4), (12, 5), (2, 6), (3, 7)];
const DOUBLE_LOADED: [(u16, u16); 6] = [(5, 3), (6, 4), (12, 5), (2, 6), (3, 7), (4, 8)];
const WORD_STORED: [(u16, u16); 6] = [(9, 2), (10, 3), (11, 4), (12, 5), (7, 6), (8, 7)];
const DOUBLE_STORED: [(u16, u16); 6] = [(10, 3), (11, 4), (12, 5), (7, 6), (8, 7), (9, 8)];
#[rustfmt::skip]
const ADDED_TO_SP: [(u16, u16); 8] =
    [(6, 2), (5, 3), (11, 4), (12, 5), (7, 6), (8, 7), (9, 8), (10, 9)];
const MOVED_SP: [(u16, u16); 6] = [(6, 4), (2, 5), (5, 6), (3, 7), (4, 8), (12, 9)];
#[rustfmt::skip]
const JUMP: [(u16, u16); 11] = [
    (3, 1), (4, 2), (5, 3), (11, 4), (2, 5), (7, 6), (6, 7), (9, 8), (10, 9), (8, 10), (12, 11),
];
#[rustfmt::skip]
const BRANCH: [(u16, u16); 8] =
    [(3, 1), (4, 2), (10, 3), (11, 4), (2, 5), (5, 6), (6, 7), (12, 8)];

fn short(half: u16) -> Option<Vec<Operand>> {
    let (rd, rs2) = (half >> 7 & 31, half >> 2 & 31);
    match (half & 3, half >> 13) {
        (0, 0) => then(2, gather(half, &ADDED_TO_SP)).filter(|_| half >> 5 != 0),
        (0, 2 | 6) => then(2, gather(half, &WORD_AT)),
        (0, 1 | 3 | 5 | 7) => then(2, gather(half, &DOUBLE_AT)),
        // c.nop, which has none if its number is 0.
        (1, 0) if rd == 0 => (signed(half, &SIX) == 0).then(Vec::new),
        (1, 0) => then(2, signed(half, &SIX)),
        (1, 1) if rd != 0 => then(2, signed(half, &SIX)),
        (1, 2) => then(1, signed(half, &SIX)),
        (1, 3) if rd == 2 => then(2, signed(half, &MOVED_SP)).filter(|_| signed(half, &MOVED_SP) != 0),
        // c.lui: 20 bits without a sign.
        (1, 3) => then(1, signed(half, &SIX) & 0xf_ffff).filter(|_| signed(half, &SIX) != 0),
        (1, 4) => match (half >> 10 & 3, half >> 12 & 1, half >> 5 & 3) {
            (0 | 1, _, _) => then(2, gather(half, &SIX)),
            (2, _, _) => then(2, signed(half, &SIX)),
            (_, 0, _) | (_, _, 0 | 1) => Some(registers(3)),
            _ => None,
        },
        (1, 5) => then(0, signed(half, &JUMP)),
        (1, 6 | 7) => then(1, signed(half, &BRANCH)),
        (2, 0) => then(2, gather(half, &SIX)),
        (2, 2) if rd != 0 => then(2, gather(half, &WORD_LOADED)),
        (2, 3) if rd == 0 => None,
        (2, 1 | 3) => then(2, gather(half, &DOUBLE_LOADED)),
        (2, 6) => then(2, gather(half, &WORD_STORED)),
        (2, 5 | 7) => then(2, gather(half, &DOUBLE_STORED)),
        (2, 4) => match (half >> 12 & 1, rd, rs2) {
            (1, 0, 0) => Some(Vec::new()),
            (_, 0, _) => None,
            // c.jr, c.jalr
            (_, _, 0) => Some(registers(1)),
            // c.mv
            (0, _, _) => Some(registers(2)),
            // c.add
            _ => Some(registers(3)),
        },
        _ => None,
    }
}
