//! From a word to an instruction (DDI 0487, C4.1). Numbers of registers are those of the encoding:
//! 31 is the stack pointer or zero, as the instruction has it.

/// A condition field.
pub(super) type Cond = u8;

/// How a 16-bit immediate fills a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wide {
    /// `movn`
    Not,
    /// `movz`
    Zero,
    /// `movk`
    Keep,
}

/// Addition or subtraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddSub {
    pub(super) wide: bool,
    pub(super) sub: bool,
    /// Sets the flags; then a destination of 31 is zero.
    pub(super) flags: bool,
    pub(super) rd: u8,
    pub(super) rn: u8,
}

/// The last operand of arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Imm(u64),
    /// `lsl`, `lsr`, `asr`, `ror` by a number.
    Shifted {
        rm: u8,
        kind: u8,
        by: u8,
    },
    /// `uxtb` to `sxtx`, then `lsl` by a number.
    Extended {
        rm: u8,
        kind: u8,
        by: u8,
    },
}

/// Bitwise instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logic {
    And,
    Or,
    Xor,
    /// Sets the flags.
    Test,
}

/// The register and the direction of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) rt: u8,
    pub(super) vector: bool,
    pub(super) load: bool,
    /// Bytes of memory, of each register.
    pub(super) size: u8,
    /// A load that extends the sign, to 64 bits or to 32.
    pub(super) signed: bool,
    /// The general register is named by its 64 bits.
    pub(super) wide: bool,
}

/// The address of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Offset { rn: u8, by: i64, unscaled: bool },
    Pre { rn: u8, by: i64 },
    Post { rn: u8, by: i64 },
    Index { rn: u8, rm: u8, kind: u8, scaled: bool },
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Insn {
    Udf {
        imm: u16,
    },
    Brk {
        imm: u16,
    },
    /// `svc` and its kin.
    Exception,
    /// `nop` is number 0.
    Hint {
        number: u8,
    },
    /// `dsb`, `dmb`, `isb`.
    Barrier {
        kind: u8,
        option: u8,
    },
    B {
        to: u64,
    },
    Bl {
        to: u64,
    },
    /// `bc.cond` if `hinted`.
    BCond {
        cond: Cond,
        hinted: bool,
        to: u64,
    },
    Cb {
        nonzero: bool,
        wide: bool,
        rt: u8,
        to: u64,
    },
    Tb {
        nonzero: bool,
        rt: u8,
        bit: u8,
        to: u64,
    },
    /// `plain` is without pointer authentication.
    Br {
        rn: u8,
        plain: bool,
    },
    Blr {
        rn: u8,
        plain: bool,
    },
    Ret {
        rn: u8,
        plain: bool,
    },
    Adr {
        rd: u8,
        to: u64,
        page: bool,
    },
    MoveWide {
        how: Wide,
        wide: bool,
        rd: u8,
        imm: u16,
        shift: u8,
    },
    AddSub(AddSub, Operand),
    Logical {
        op: Logic,
        not: bool,
        wide: bool,
        rd: u8,
        rn: u8,
        operand: Operand,
    },
    /// `sbfm` (`signed`), `bfm` (`keeps`), `ubfm`.
    Bitfield {
        signed: bool,
        keeps: bool,
        wide: bool,
        rd: u8,
        rn: u8,
        immr: u8,
        imms: u8,
    },
    Memory(Access, Address),
    Pair {
        access: Access,
        rt2: u8,
        address: Address,
    },
    Literal {
        access: Access,
        to: u64,
    },
    /// A load-exclusive, or a store-exclusive with a status register.
    Exclusive {
        access: Access,
        rn: u8,
        status: Option<u8>,
        ordered: bool,
    },
    /// Between a general and a vector register.
    Fmov {
        wide: bool,
        to_vector: bool,
        rd: u8,
        rn: u8,
    },
    /// Of a whole vector register, or of its low 8 or 4 bytes.
    MoveVector {
        size: u8,
        rd: u8,
        rn: u8,
    },
    Unknown,
}

/// `len` bits of a word from `low` on.
const fn bits(word: u32, low: u32, len: u32) -> u32 {
    word >> low & ((1 << len) - 1)
}

const fn bit(word: u32, n: u32) -> bool {
    bits(word, n, 1) == 1
}

/// A register field.
const fn reg(word: u32, low: u32) -> u8 {
    bits(word, low, 5) as u8
}

/// `len` bits from `low` on with the sign extended.
const fn signed(word: u32, low: u32, len: u32) -> i64 {
    ((word << (32 - low - len)) as i32 >> (32 - len)) as i64
}

/// An address so many instructions away.
const fn target(addr: u64, instructions: i64) -> u64 {
    addr.wrapping_add_signed(instructions * 4)
}

/// The instruction `word` at `addr`.
pub(super) fn insn(addr: u64, word: u32) -> Insn {
    match bits(word, 25, 4) {
        0b0000 if word >> 16 == 0 => Insn::Udf { imm: word as u16 },
        0b1000 | 0b1001 => immediate(addr, word),
        0b1010 | 0b1011 => branch(addr, word),
        0b0100 | 0b0110 | 0b1100 | 0b1110 => memory(addr, word),
        0b0101 | 0b1101 => register(word),
        0b0111 | 0b1111 => vector(word),
        _ => Insn::Unknown,
    }
}

/// Data processing, immediate (C4.1.92).
fn immediate(addr: u64, word: u32) -> Insn {
    let (wide, rd, rn) = (bit(word, 31), reg(word, 0), reg(word, 5));
    match bits(word, 23, 3) {
        0b000 | 0b001 => {
            let distance = signed(word, 5, 19) << 2 | i64::from(bits(word, 29, 2));
            let page = bit(word, 31);
            let to = match page {
                true => (addr & !0xfff).wrapping_add_signed(distance << 12),
                false => addr.wrapping_add_signed(distance),
            };
            Insn::Adr { rd, to, page }
        }
        0b010 => {
            let imm = u64::from(bits(word, 10, 12)) << (12 * bits(word, 22, 1));
            Insn::AddSub(add_sub(word), Operand::Imm(imm))
        }
        0b100 => match logical_immediate(wide, bits(word, 22, 1), bits(word, 16, 6), bits(word, 10, 6)) {
            Some(imm) => Insn::Logical {
                op: logic(word),
                not: false,
                wide,
                rd,
                rn,
                operand: Operand::Imm(imm),
            },
            None => Insn::Unknown,
        },
        0b101 => {
            let (how, shift) = (bits(word, 29, 2), bits(word, 21, 2) as u8 * 16);
            let how = match how {
                0b00 => Wide::Not,
                0b10 => Wide::Zero,
                0b11 => Wide::Keep,
                _ => return Insn::Unknown,
            };
            match wide || shift < 32 {
                true => Insn::MoveWide {
                    how,
                    wide,
                    rd,
                    imm: bits(word, 5, 16) as u16,
                    shift,
                },
                false => Insn::Unknown,
            }
        }
        0b110 => bitfield(word, wide, rd, rn),
        _ => Insn::Unknown,
    }
}

fn add_sub(word: u32) -> AddSub {
    AddSub {
        wide: bit(word, 31),
        sub: bit(word, 30),
        flags: bit(word, 29),
        rd: reg(word, 0),
        rn: reg(word, 5),
    }
}

fn logic(word: u32) -> Logic {
    match bits(word, 29, 2) {
        0b00 => Logic::And,
        0b01 => Logic::Or,
        0b10 => Logic::Xor,
        _ => Logic::Test,
    }
}

fn bitfield(word: u32, wide: bool, rd: u8, rn: u8) -> Insn {
    let (immr, imms) = (bits(word, 16, 6) as u8, bits(word, 10, 6) as u8);
    let fits = wide || (immr < 32 && imms < 32);
    let opc = bits(word, 29, 2);
    if opc == 0b11 || bit(word, 22) != wide || !fits {
        return Insn::Unknown;
    }
    Insn::Bitfield {
        signed: opc == 0b00,
        keeps: opc == 0b01,
        wide,
        rd,
        rn,
        immr,
        imms,
    }
}

/// DecodeBitMasks (shared pseudocode): a run of ones in an element, rotated, repeated.
fn logical_immediate(wide: bool, n: u32, immr: u32, imms: u32) -> Option<u64> {
    let size_bits = n << 6 | (!imms & 0x3f);
    let len = 31u32.checked_sub(size_bits.leading_zeros())?;
    if len == 0 || (!wide && n == 1) {
        return None;
    }
    let (size, levels) = (1u32 << len, (1u32 << len) - 1);
    let (ones, right) = ((imms & levels) + 1, immr & levels);
    if ones > levels {
        return None;
    }
    let run = (1u64 << ones) - 1;
    let mask = u64::MAX >> (64 - size);
    let element = match right {
        0 => run,
        _ => (run >> right | run << (size - right)) & mask,
    };
    let copies = (0..64 / size).fold(0, |sum, copy| sum | element << (copy * size));
    Some(match wide {
        true => copies,
        false => copies & u64::from(u32::MAX),
    })
}

/// Branches, exceptions, system instructions (C4.1.93).
fn branch(addr: u64, word: u32) -> Insn {
    let to19 = target(addr, signed(word, 5, 19));
    match bits(word, 26, 6) {
        0b00_0101 => Insn::B {
            to: target(addr, signed(word, 0, 26)),
        },
        0b10_0101 => Insn::Bl {
            to: target(addr, signed(word, 0, 26)),
        },
        0b01_0101 if bits(word, 24, 2) == 0 => Insn::BCond {
            cond: bits(word, 0, 4) as u8,
            hinted: bit(word, 4),
            to: to19,
        },
        0b00_1101 | 0b10_1101 if !bit(word, 25) => Insn::Cb {
            nonzero: bit(word, 24),
            wide: bit(word, 31),
            rt: reg(word, 0),
            to: to19,
        },
        0b00_1101 | 0b10_1101 => Insn::Tb {
            nonzero: bit(word, 24),
            rt: reg(word, 0),
            bit: (bits(word, 31, 1) << 5 | bits(word, 19, 5)) as u8,
            to: target(addr, signed(word, 5, 14)),
        },
        0b11_0101 if bit(word, 25) => branch_register(word),
        0b11_0101 => system(word),
        _ => Insn::Unknown,
    }
}

/// Unconditional branches to a register, with and without pointer authentication.
fn branch_register(word: u32) -> Insn {
    let (rn, plain) = (reg(word, 5), word & 0x001f_fc1f == 0x001f_0000);
    match bits(word, 21, 4) {
        0b0000 | 0b1000 => Insn::Br { rn, plain },
        0b0001 | 0b1001 => Insn::Blr { rn, plain },
        0b0010 => Insn::Ret { rn, plain },
        _ => Insn::Unknown,
    }
}

fn system(word: u32) -> Insn {
    let imm = bits(word, 5, 16) as u16;
    match (bits(word, 21, 5), bits(word, 0, 5)) {
        (0b0_0000, 1..=3) => Insn::Exception,
        (0b0_0001, 0) => Insn::Brk { imm },
        (0b0_0010, 0) => Insn::Exception,
        (0b0_1000, 0b1_1111) => match bits(word, 12, 9) {
            0b0_0011_0010 => Insn::Hint {
                number: bits(word, 5, 7) as u8,
            },
            0b0_0011_0011 if (4..=6).contains(&bits(word, 5, 3)) => Insn::Barrier {
                kind: bits(word, 5, 3) as u8,
                option: bits(word, 8, 4) as u8,
            },
            _ => Insn::Unknown,
        },
        _ => Insn::Unknown,
    }
}

/// Loads and stores (C4.1.94).
fn memory(addr: u64, word: u32) -> Insn {
    match (bits(word, 27, 3), bits(word, 24, 2)) {
        (0b001, 0b00) if !bit(word, 26) => exclusive(word),
        (0b011, 0b00) => literal(addr, word),
        (0b101, _) => pair(word),
        (0b111, 0b01) => single(word, true),
        (0b111, 0b00) => single(word, false),
        _ => Insn::Unknown,
    }
}

fn exclusive(word: u32) -> Insn {
    // o2, o1: neither the pairs nor the instructions without a monitor.
    if bit(word, 23) || bit(word, 21) || bits(word, 10, 5) != 31 {
        return Insn::Unknown;
    }
    let (load, rs) = (bit(word, 22), reg(word, 16));
    if load && rs != 31 {
        return Insn::Unknown;
    }
    let log = bits(word, 30, 2);
    Insn::Exclusive {
        access: Access {
            rt: reg(word, 0),
            vector: false,
            load,
            size: 1 << log,
            signed: false,
            wide: log == 3,
        },
        rn: reg(word, 5),
        status: (!load).then_some(rs),
        ordered: bit(word, 15),
    }
}

fn literal(addr: u64, word: u32) -> Insn {
    let (vector, opc) = (bit(word, 26), bits(word, 30, 2));
    let (size, signed_load) = match (vector, opc) {
        (false, 0b00) => (4, false),
        (false, 0b01) => (8, false),
        (false, 0b10) => (4, true),
        (true, 0b00..=0b10) => (4 << opc, false),
        _ => return Insn::Unknown,
    };
    Insn::Literal {
        access: Access {
            rt: reg(word, 0),
            vector,
            load: true,
            size,
            signed: signed_load,
            wide: size == 8 || signed_load,
        },
        to: target(addr, signed(word, 5, 19)),
    }
}

fn pair(word: u32) -> Insn {
    let (vector, opc, load) = (bit(word, 26), bits(word, 30, 2), bit(word, 22));
    let size: u8 = match (vector, opc) {
        (false, 0b00) => 4,
        (false, 0b10) => 8,
        (true, 0b00..=0b10) => 4 << opc,
        _ => return Insn::Unknown,
    };
    let (rn, by) = (reg(word, 5), signed(word, 15, 7) * i64::from(size));
    let address = match bits(word, 23, 2) {
        0b01 => Address::Post { rn, by },
        0b11 => Address::Pre { rn, by },
        0b10 => Address::Offset {
            rn,
            by,
            unscaled: false,
        },
        _ => return Insn::Unknown,
    };
    Insn::Pair {
        access: Access {
            rt: reg(word, 0),
            vector,
            load,
            size,
            signed: false,
            wide: size == 8,
        },
        rt2: reg(word, 10),
        address,
    }
}

/// One register: with a scaled offset, or in one of the other forms.
fn single(word: u32, scaled: bool) -> Insn {
    let Some(access) = access(word) else {
        return Insn::Unknown;
    };
    let (rn, size) = (reg(word, 5), i64::from(access.size));
    let by = signed(word, 12, 9);
    let address = match (scaled, bit(word, 21), bits(word, 10, 2)) {
        (true, _, _) => Address::Offset {
            rn,
            by: i64::from(bits(word, 10, 12)) * size,
            unscaled: false,
        },
        (false, false, 0b00) => Address::Offset {
            rn,
            by,
            unscaled: true,
        },
        (false, false, 0b01) => Address::Post { rn, by },
        (false, false, 0b11) => Address::Pre { rn, by },
        // An index of 32 bits, or of 64; the other options are not allocated.
        (false, true, 0b10) if bit(word, 14) => Address::Index {
            rn,
            rm: reg(word, 16),
            kind: bits(word, 13, 3) as u8,
            scaled: bit(word, 12),
        },
        _ => return Insn::Unknown,
    };
    Insn::Memory(access, address)
}

fn access(word: u32) -> Option<Access> {
    let (size, opc) = (bits(word, 30, 2), bits(word, 22, 2));
    let whole = Access {
        rt: reg(word, 0),
        vector: bit(word, 26),
        load: bit(word, 22),
        size: 1 << size,
        signed: false,
        wide: size == 3,
    };
    match (whole.vector, opc) {
        (_, 0b00 | 0b01) => Some(whole),
        // The 16 bytes of a vector register.
        (true, _) => (size == 0).then_some(Access { size: 16, ..whole }),
        (false, 0b10) if size < 3 => Some(Access {
            load: true,
            signed: true,
            wide: true,
            ..whole
        }),
        (false, 0b11) if size < 2 => Some(Access {
            load: true,
            signed: true,
            wide: false,
            ..whole
        }),
        _ => None,
    }
}

/// Data processing, register (C4.1.95): bitwise, addition, subtraction.
fn register(word: u32) -> Insn {
    let (wide, rm) = (bit(word, 31), reg(word, 16));
    let (kind, by) = (bits(word, 22, 2) as u8, bits(word, 10, 6) as u8);
    let fits = wide || by < 32;
    let shifted = Operand::Shifted { rm, kind, by };
    match (bits(word, 24, 5), bit(word, 21)) {
        (0b0_1010, not) if fits => Insn::Logical {
            op: logic(word),
            not,
            wide,
            rd: reg(word, 0),
            rn: reg(word, 5),
            operand: shifted,
        },
        (0b0_1011, false) if fits && kind != 3 => Insn::AddSub(add_sub(word), shifted),
        (0b0_1011, true) if kind == 0 && bits(word, 10, 3) <= 4 => {
            let extended = Operand::Extended {
                rm,
                kind: bits(word, 13, 3) as u8,
                by: bits(word, 10, 3) as u8,
            };
            Insn::AddSub(add_sub(word), extended)
        }
        _ => Insn::Unknown,
    }
}

/// Moves of vector registers (C7.2: FMOV, ORR).
fn vector(word: u32) -> Insn {
    let (rd, rn) = (reg(word, 0), reg(word, 5));
    match word & 0xffff_fc00 {
        0x1e26_0000 | 0x9e66_0000 | 0x1e27_0000 | 0x9e67_0000 => Insn::Fmov {
            wide: bit(word, 31),
            to_vector: bit(word, 16),
            rd,
            rn,
        },
        0x1e20_4000 => Insn::MoveVector { size: 4, rd, rn },
        0x1e60_4000 => Insn::MoveVector { size: 8, rd, rn },
        _ if word & 0xffe0_fc00 == 0x4ea0_1c00 && reg(word, 16) == rn => {
            Insn::MoveVector { size: 16, rd, rn }
        }
        _ => Insn::Unknown,
    }
}
