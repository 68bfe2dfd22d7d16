//! From bytes to facts.

use patchpoint_isa::RegSet;

use super::{RA, SP, reg};
use crate::facts::{Constant, DecodedCode, Dest, Facts, Flow, StackPointer, StackStore, Step, Undecodable};

const UNKNOWN: &str = "is not known to change registers and memory only: call a function";

/// The fields of an instruction of 4 bytes, in whatever format has them.
#[derive(Clone, Copy)]
pub(super) struct Word(pub(super) u32);

impl Word {
    pub(super) const fn opcode(self) -> u32 {
        self.0 & 0x7f
    }
    pub(super) const fn rd(self) -> u16 {
        (self.0 >> 7 & 31) as u16
    }
    pub(super) const fn funct3(self) -> u32 {
        self.0 >> 12 & 7
    }
    pub(super) const fn rs1(self) -> u16 {
        (self.0 >> 15 & 31) as u16
    }
    pub(super) const fn rs2(self) -> u16 {
        (self.0 >> 20 & 31) as u16
    }
    pub(super) const fn funct7(self) -> u32 {
        self.0 >> 25
    }
    /// The distance of a shift of 64 bits.
    pub(super) const fn shift(self) -> u32 {
        self.0 >> 20 & 63
    }
    /// The immediate of format I.
    pub(super) const fn imm_i(self) -> i64 {
        (self.0 as i32 >> 20) as i64
    }
    /// Of format S.
    pub(super) const fn imm_s(self) -> i64 {
        (self.0 as i32 >> 25 << 5) as i64 | self.rd() as i64
    }
    /// Of format U.
    pub(super) const fn imm_u(self) -> i64 {
        (self.0 & !0xfff) as i32 as i64
    }
    /// Of format B.
    pub(super) const fn imm_b(self) -> i64 {
        let high = (self.0 as i32 >> 31 << 12) as i64;
        let bits = self.0;
        high | ((bits >> 7 & 1) << 11 | (bits >> 25 & 0x3f) << 5 | (bits >> 8 & 0xf) << 1) as i64
    }
    /// Of format J.
    pub(super) const fn imm_j(self) -> i64 {
        let high = (self.0 as i32 >> 31 << 20) as i64;
        let bits = self.0;
        high | (bits & 0xf_f000 | (bits >> 20 & 1) << 11 | (bits >> 21 & 0x3ff) << 1) as i64
    }
}

/// The first instruction, by its length: the only lengths that exist are 2 and 4 bytes.
pub(super) enum Instruction {
    Short(u16),
    Long(Word),
}

/// The first instruction of the bytes; `Err` says whether it is cut off.
pub(super) fn first(bytes: &[u8]) -> Result<Instruction, bool> {
    let (half, _) = bytes.split_first_chunk().ok_or(true)?;
    let half = u16::from_le_bytes(*half);
    match half & 0b1_1111 {
        0b1_1111 => Err(false),
        low if low & 0b11 == 0b11 => match bytes.first_chunk() {
            Some(word) => Ok(Instruction::Long(Word(u32::from_le_bytes(*word)))),
            None => Err(true),
        },
        // All zeros is no instruction.
        _ if half == 0 => Err(false),
        _ => Ok(Instruction::Short(half)),
    }
}

pub(super) fn all(addr: u64, bytes: &[u8], code: &mut DecodedCode) -> Result<(), Undecodable> {
    let (mut rest, mut at) = (bytes, addr);
    while !rest.is_empty() {
        let undecodable = |cut_off| Undecodable { addr: at, cut_off };
        if at % 2 != 0 {
            return Err(undecodable(false));
        }
        let facts = match first(rest).map_err(undecodable)? {
            Instruction::Short(half) => short(at, half),
            Instruction::Long(word) => long(at, word),
        };
        let behind = rest.get(usize::from(facts.len)..);
        rest = behind.expect("an instruction was read whole");
        at = facts.end();
        code.push(facts);
    }
    Ok(())
}

/// Facts of an instruction that does nothing but go on.
fn plain(addr: u64, len: u8) -> Facts {
    Facts {
        addr,
        len,
        nop: false,
        returns_at: None,
        unit: None,
        flow: Flow::Next,
        writes: RegSet::EMPTY,
        flags: false,
        stack: StackPointer::Keep,
        store: StackStore::None,
        constant: None,
        refused: None,
    }
}

/// A compressed instruction. Of those in code that is there already, calls are of interest.
fn short(addr: u64, half: u16) -> Facts {
    let facts = plain(addr, 2);
    let (rs1, rs2) = (half >> 7 & 31, half >> 2 & 31);
    let flow = match (half & 3, half >> 12, rs1, rs2) {
        _ if half == 1 => return Facts { nop: true, ..facts },
        (2, 0b1001, 0, 0) => {
            return Facts {
                flow: Flow::Trap,
                ..facts
            };
        }
        (2, 0b1001, _, 0) => Flow::Call(Dest::Register(reg(rs1))),
        (2, 0b1000, RA, 0) => Flow::Return { plain: true },
        (2, 0b1000, 1.., 0) => Flow::Jump(Dest::Register(reg(rs1))),
        _ => Flow::Next,
    };
    Facts {
        flow,
        refused: Some("is compressed: use the form of 4 bytes"),
        ..facts
    }
}

fn long(addr: u64, word: Word) -> Facts {
    let facts = plain(addr, 4);
    match word.opcode() {
        // nop: addi x0, x0, 0.
        0x13 if word.0 == 0x13 => Facts { nop: true, ..facts },
        0x13 | 0x1b | 0x33 | 0x3b | 0x37 | 0x17 => arithmetic(addr, word, facts),
        0x03 if word.funct3() != 7 => writing(facts, word.rd()),
        0x07 if matches!(word.funct3(), 2 | 3) => writing_float(facts, word.rd()),
        0x23 if word.funct3() < 4 => storing(facts, word.rs1(), word.imm_s(), 1 << word.funct3()),
        0x27 if matches!(word.funct3(), 2 | 3) => {
            storing(facts, word.rs1(), word.imm_s(), 1 << word.funct3())
        }
        0x2f if matches!(word.funct3(), 2 | 3) => atomic(word, facts),
        0x53 => float_move(word, facts),
        0x63 if !matches!(word.funct3(), 2 | 3) => Facts {
            flow: Flow::Branch(Dest::Address(addr.wrapping_add_signed(word.imm_b()))),
            ..facts
        },
        0x6f => linked(word, Dest::Address(addr.wrapping_add_signed(word.imm_j())), facts),
        0x67 if word.funct3() == 0 => through_register(word, facts),
        // ebreak; unimp, a write of a register that cannot be written.
        0x73 if matches!(word.0, 0x0010_0073 | 0xc000_1073) => Facts {
            flow: Flow::Trap,
            ..facts
        },
        _ => unknown(facts),
    }
}

fn unknown(facts: Facts) -> Facts {
    Facts {
        refused: Some(UNKNOWN),
        ..facts
    }
}

/// Writes a general register that is not followed.
fn writing(facts: Facts, rd: u16) -> Facts {
    match rd {
        0 => facts,
        SP => Facts {
            stack: StackPointer::Lost,
            ..facts
        },
        _ => Facts {
            writes: RegSet::of(&[reg(rd)]),
            ..facts
        },
    }
}

fn writing_float(facts: Facts, rd: u16) -> Facts {
    Facts {
        writes: RegSet::of(&[reg(32 + rd)]),
        ..facts
    }
}

fn storing(facts: Facts, base: u16, disp: i64, size: i64) -> Facts {
    let store = match base {
        SP => StackStore::Range(disp, disp.saturating_add(size)),
        _ => StackStore::None,
    };
    Facts { store, ..facts }
}

/// Integer instructions between registers and with immediates.
fn arithmetic(addr: u64, word: Word, facts: Facts) -> Facts {
    let known = match (word.opcode(), word.funct3()) {
        (0x13, 1) => word.0 >> 26 == 0,
        (0x13, 5) => matches!(word.0 >> 26, 0 | 0x10),
        (0x1b, 0) => true,
        (0x1b, 1) => word.funct7() == 0,
        (0x1b, 5) => matches!(word.funct7(), 0 | 0x20),
        (0x1b, _) => false,
        // Multiplication and division write registers only, too.
        (0x33, 0 | 5) => matches!(word.funct7(), 0 | 1 | 0x20),
        (0x33, _) => matches!(word.funct7(), 0 | 1),
        (0x3b, 0 | 5) => matches!(word.funct7(), 0 | 1 | 0x20),
        (0x3b, 1) => word.funct7() == 0,
        (0x3b, 4 | 6 | 7) => word.funct7() == 1,
        (0x3b, _) => false,
        _ => true,
    };
    if !known {
        return unknown(facts);
    }
    let facts = Facts {
        constant: constant(addr, word).filter(|_| word.rd() != 0),
        ..writing(facts, word.rd())
    };
    match (word.opcode(), word.funct3(), word.rd(), word.rs1()) {
        (0x13, 0, SP, SP) => Facts {
            stack: StackPointer::Add(word.imm_i()),
            ..facts
        },
        _ => facts,
    }
}

fn constant(addr: u64, word: Word) -> Option<Constant> {
    let (to, from) = (reg(word.rd()), reg(word.rs1()));
    let step = match (word.opcode(), word.funct3()) {
        (0x37, _) => return Some(Constant::Is(to, word.imm_u() as u64)),
        (0x17, _) => return Some(Constant::Is(to, addr.wrapping_add_signed(word.imm_u()))),
        (0x13, 0) => Step::Add(word.imm_i()),
        (0x1b, 0) => Step::AddWord(word.imm_i()),
        (0x13, 1) => Step::Rotate {
            left: word.shift(),
            keep: u64::MAX << word.shift(),
        },
        (0x13, 5) if word.0 >> 26 == 0 => Step::Rotate {
            left: (64 - word.shift()) % 64,
            keep: u64::MAX >> word.shift(),
        },
        _ => return None,
    };
    match word.rs1() {
        0 => Some(Constant::Is(to, step.apply(0))),
        _ => Some(Constant::Of { to, from, step }),
    }
}

/// Loads that watch, stores that may fail, and arithmetic in memory. All write `rd` and, but for
/// the first, memory.
fn atomic(word: Word, facts: Facts) -> Facts {
    let facts = writing(facts, word.rd());
    match word.funct7() >> 2 {
        0b00010 if word.rs2() == 0 => facts,
        0b00011 | 0b00000 | 0b00001 | 0b00100 | 0b01000 | 0b01100 | 0b10000 | 0b10100 | 0b11000 | 0b11100 => {
            storing(facts, word.rs1(), 0, 1 << word.funct3())
        }
        _ => unknown(facts),
    }
}

/// Moves between registers, which change no number and raise nothing: fsgnj, fmv.
fn float_move(word: Word, facts: Facts) -> Facts {
    let no_second = word.rs2() == 0 && word.funct3() == 0;
    match word.funct7() {
        0x10 | 0x11 if word.funct3() < 3 => writing_float(facts, word.rd()),
        0x70 | 0x71 if no_second => writing(facts, word.rd()),
        0x78 | 0x79 if no_second => writing_float(facts, word.rd()),
        _ => unknown(facts),
    }
}

/// A jump, or a call that links through ra.
fn linked(word: Word, dest: Dest, facts: Facts) -> Facts {
    match word.rd() {
        0 => Facts {
            flow: Flow::Jump(dest),
            ..facts
        },
        link => Facts {
            flow: Flow::Call(dest),
            refused: (link != RA).then_some("links through another register than ra"),
            ..writing(facts, link)
        },
    }
}

fn through_register(word: Word, facts: Facts) -> Facts {
    let plain = word.imm_i() == 0;
    if word.rd() == 0 && word.rs1() == RA {
        return Facts {
            flow: Flow::Return { plain },
            ..facts
        };
    }
    let dest = match plain && word.rs1() != 0 {
        true => Dest::Register(reg(word.rs1())),
        false => Dest::Unknown,
    };
    linked(word, dest, facts)
}

/// The address in ra by `lui`, `addi`, `addiw`, `slli` and `srli`, then `jalr ra, 0(ra)`, any of
/// them compressed where such instructions exist, as LLVM's RISCVAsmPrinter lowers PATCHPOINT.
pub(super) fn patchpoint_call(bytes: &[u8]) -> Option<(u64, u32)> {
    const CALL: u32 = 0x0000_80e7;
    let (mut rest, mut len, mut address) = (bytes, 0, None);
    loop {
        let (word, size) = match first(rest).ok()? {
            Instruction::Long(word) => (word, 4),
            Instruction::Short(half) => (expanded(half)?, 2),
        };
        rest = rest.get(size..)?;
        len += size as u32;
        if word.0 == CALL {
            return Some((address?, len));
        }
        if word.rd() != RA {
            return None;
        }
        address = match constant(0, word)? {
            Constant::Is(..) if word.opcode() == 0x17 => return None,
            Constant::Is(_, value) => Some(value),
            Constant::Of { from, step, .. } if from == reg(RA) => Some(step.apply(address?)),
            Constant::Of { .. } => return None,
        };
    }
}

/// The same instruction in four bytes, of those that a call at a patchpoint may be made of (volume
/// I, 27.3 to 27.5).
fn expanded(half: u16) -> Option<Word> {
    let half = u32::from(half);
    let rd = half >> 7 & 31;
    // Six bits, of which the highest is the sign.
    let imm = (half >> 2 & 31 | (half >> 12 & 1) << 5) << 26;
    let imm = imm as i32 >> 26;
    let word = match (half & 3, half >> 13) {
        // c.addi, c.addiw, c.li
        (1, 0b000) => 0x13 | rd << 15 | (imm << 20) as u32,
        (1, 0b001) => 0x1b | rd << 15 | (imm << 20) as u32,
        (1, 0b010) => 0x13 | (imm << 20) as u32,
        // c.lui; of sp it is another instruction.
        (1, 0b011) if rd != u32::from(SP) => 0x37 | (imm << 12) as u32,
        // c.slli
        (2, 0b000) => 0x13 | 1 << 12 | rd << 15 | (imm as u32 & 63) << 20,
        // c.jalr
        (2, 0b100) if half & 0x107c == 0x1000 => return Some(Word(0xe7 | rd << 15)),
        _ => return None,
    };
    Some(Word(word | rd << 7))
}
