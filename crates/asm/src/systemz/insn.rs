//! The instructions that are emitted, by format (Principles of Operation, chapter 5, "Instruction
//! Formats").
//!
//! Bytes are in the order of the manual: big endian. The facility that an instruction needs beyond
//! the base of z/Architecture follows it: LD long-displacement, EI extended-immediate, GE
//! general-instructions-extension, FX FPR-GR-transfer.

use alloc::vec::Vec;

use super::regs::{Fpr, Gpr};
use crate::op::ValueNumber;

/// A memory operand of an instruction: base, perhaps an index, and a displacement of 20 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mem {
    /// `None` for none. Never r0.
    pub(super) base: Option<Gpr>,
    pub(super) index: Option<Gpr>,
    pub(super) disp: i32,
    /// Which value of the sequence the displacement is.
    pub(super) number: Option<ValueNumber>,
}

impl Mem {
    pub(super) const fn base(base: Gpr, disp: i32) -> Self {
        Self {
            base: Some(base),
            index: None,
            disp,
            number: None,
        }
    }

    /// The same with a displacement that is the value of that number.
    pub(super) const fn numbered(self, number: Option<ValueNumber>) -> Self {
        Self { number, ..self }
    }

    /// Whether the displacement fits the formats with 12 bits.
    pub(super) const fn is_short(self) -> bool {
        0 <= self.disp && self.disp < 4096
    }

    const fn number(reg: Option<Gpr>) -> u8 {
        match reg {
            Some(Gpr(n)) => n,
            None => 0,
        }
    }

    /// B and D of 12 bits.
    const fn short(self) -> [u8; 2] {
        let [_, _, high, low] = self.disp.to_be_bytes();
        [Self::number(self.base) << 4 | high & 0xf, low]
    }

    /// B, DL and DH of 20 bits.
    const fn long(self) -> [u8; 3] {
        let [high, low] = self.short();
        [high, low, (self.disp >> 12) as u8]
    }
}

/// Two registers, 2 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rr(u8);

impl Rr {
    pub(super) const fn of(self, r1: u8, r2: u8) -> [u8; 2] {
        [self.0, r1 << 4 | r2]
    }
}

/// Two registers, 4 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rre(u16);

impl Rre {
    pub(super) const fn of(self, r1: Gpr, r2: Gpr) -> [u8; 4] {
        self.numbers(r1.0, r2.0)
    }

    pub(super) const fn numbers(self, r1: u8, r2: u8) -> [u8; 4] {
        let [a, b] = self.0.to_be_bytes();
        [a, b, 0, r1 << 4 | r2]
    }
}

/// A register and 16 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ri(u16);

impl Ri {
    pub(super) const fn of(self, r1: u8, imm: u16) -> [u8; 4] {
        let [a, b] = imm.to_be_bytes();
        [(self.0 >> 4) as u8, r1 << 4 | (self.0 & 0xf) as u8, a, b]
    }
}

/// A register and 32 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ril(u16);

impl Ril {
    pub(super) const fn of(self, r1: u8, imm: u32) -> [u8; 6] {
        let [a, b, c, d] = imm.to_be_bytes();
        [(self.0 >> 4) as u8, r1 << 4 | (self.0 & 0xf) as u8, a, b, c, d]
    }
}

/// A register and memory with an index: RX where there is such a form and the displacement fits,
/// else RXY.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rx(pub(super) Option<u8>, u16);

impl Rx {
    pub(super) fn put(self, r1: u8, mem: Mem, out: &mut Vec<u8>) {
        match self.0 {
            Some(op) if mem.is_short() => out.extend(Self::short(op, r1, mem)),
            _ => out.extend(Self::long(self.1, r1, mem)),
        }
    }

    const fn short(op: u8, r1: u8, mem: Mem) -> [u8; 4] {
        let [a, b] = mem.short();
        [op, r1 << 4 | Mem::number(mem.index), a, b]
    }

    const fn long(op: u16, r1: u8, mem: Mem) -> [u8; 6] {
        let ([first, last], [a, b, c]) = (op.to_be_bytes(), mem.long());
        [first, r1 << 4 | Mem::number(mem.index), a, b, c, last]
    }
}

/// Two registers and memory without an index: RS where there is such a form and the displacement
/// fits, else RSY. Shifts have an amount in place of an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rs(pub(super) Option<u8>, u16);

impl Rs {
    pub(super) fn put(self, r1: u8, r3: u8, mem: Mem, out: &mut Vec<u8>) {
        // The formats differ from RX in what the bits of the index mean.
        let mem = Mem {
            index: Some(Gpr(r3)),
            ..mem
        };
        Rx(self.0, self.1).put(r1, mem, out);
    }
}

/// Memory without an index and 8 bits: SI where there is such a form and the displacement fits,
/// else SIY.
#[derive(Clone, Copy, Debug)]
pub(super) struct Si(pub(super) Option<u8>, u16);

impl Si {
    pub(super) fn put(self, mem: Mem, imm: u8, out: &mut Vec<u8>) {
        match self.0 {
            Some(op) if mem.is_short() => out.extend(Self::short(op, mem, imm)),
            _ => out.extend(Self::long(self.1, mem, imm)),
        }
    }

    const fn short(op: u8, mem: Mem, imm: u8) -> [u8; 4] {
        let [a, b] = mem.short();
        [op, imm, a, b]
    }

    const fn long(op: u16, mem: Mem, imm: u8) -> [u8; 6] {
        let ([first, last], [a, b, c]) = (op.to_be_bytes(), mem.long());
        [first, imm, a, b, c, last]
    }
}

/// Memory without an index, a displacement of 12 bits, and 16 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sil(u16);

impl Sil {
    pub(super) const fn of(self, mem: Mem, imm: u16) -> [u8; 6] {
        let ([x, y], [a, b], [c, d]) = (self.0.to_be_bytes(), mem.short(), imm.to_be_bytes());
        [x, y, a, b, c, d]
    }
}

macro_rules! instructions {
    ($($format:ident { $($name:ident = $format_of:ident($($op:expr),*);)* })*) => {
        $($(pub(super) const $name: $format_of = $format_of($($op),*);)*)*

        $(
            #[cfg(test)]
            impl $format {
                /// All of the format, by mnemonic.
                pub(super) const ALL: &'static [(&'static str, Self)] = &[$((stringify!($name), $name)),*];
            }
        )*
    };
}

instructions! {
    Rr {
        CR = Rr(0x19);
        CLR = Rr(0x15);
        AR = Rr(0x1a);
        LR = Rr(0x18);
        LDR = Rr(0x28);
        BCR = Rr(0x07);
        BASR = Rr(0x0d);
    }
    Rre {
        LGR = Rre(0xb904);
        LGBR = Rre(0xb906); // EI
        LLGCR = Rre(0xb984); // EI
        LGHR = Rre(0xb907); // EI
        LLGHR = Rre(0xb985); // EI
        LGFR = Rre(0xb914);
        LLGFR = Rre(0xb916);
        AGR = Rre(0xb908);
        AGFR = Rre(0xb918);
        ALGFR = Rre(0xb91a);
        CGR = Rre(0xb920);
        CLGR = Rre(0xb921);
        LDGR = Rre(0xb3c1); // FX
        LGDR = Rre(0xb3cd); // FX
        LZDR = Rre(0xb375);
    }
    Ri {
        LGHI = Ri(0xa79);
        LLILL = Ri(0xa5f);
        LLILH = Ri(0xa5e);
        LLIHL = Ri(0xa5d);
        LLIHH = Ri(0xa5c);
        NILL = Ri(0xa57);
        NILH = Ri(0xa56);
        NIHL = Ri(0xa55);
        NIHH = Ri(0xa54);
        AHI = Ri(0xa7a);
        AGHI = Ri(0xa7b);
        CHI = Ri(0xa7e);
        CGHI = Ri(0xa7f);
        BRC = Ri(0xa74);
        BRAS = Ri(0xa75);
    }
    Ril {
        LGFI = Ril(0xc01); // EI, as all of the format with an immediate
        LLIHF = Ril(0xc0e);
        LLILF = Ril(0xc0f);
        IIHF = Ril(0xc08);
        NIHF = Ril(0xc0a);
        NILF = Ril(0xc0b);
        AGFI = Ril(0xc28);
        AFI = Ril(0xc29);
        ALGFI = Ril(0xc2a);
        SLGFI = Ril(0xc24);
        CGFI = Ril(0xc2c);
        CFI = Ril(0xc2d);
        CLGFI = Ril(0xc2e);
        CLFI = Ril(0xc2f);
        BRCL = Ril(0xc04);
        BRASL = Ril(0xc05);
    }
    Rx {
        LA = Rx(Some(0x41), 0xe371); // LD
        L = Rx(Some(0x58), 0xe358); // LD
        LG = Rx(None, 0xe304);
        LGB = Rx(None, 0xe377); // LD
        LLGC = Rx(None, 0xe390);
        LGH = Rx(None, 0xe315);
        LLGH = Rx(None, 0xe391);
        LGF = Rx(None, 0xe314);
        LLGF = Rx(None, 0xe316);
        STC = Rx(Some(0x42), 0xe372); // LD
        STH = Rx(Some(0x40), 0xe370); // LD
        ST = Rx(Some(0x50), 0xe350); // LD
        STG = Rx(None, 0xe324);
        LD = Rx(Some(0x68), 0xed65); // LD
        LE = Rx(Some(0x78), 0xed64); // LD
        STD = Rx(Some(0x60), 0xed67); // LD
        STE = Rx(Some(0x70), 0xed66); // LD
        AG = Rx(None, 0xe308);
        AGF = Rx(None, 0xe318);
        ALGF = Rx(None, 0xe31a);
        A = Rx(Some(0x5a), 0xe35a); // LD
        AH = Rx(Some(0x4a), 0xe37a); // LD
        C = Rx(Some(0x59), 0xe359); // LD
        CL = Rx(Some(0x55), 0xe355); // LD
        CG = Rx(None, 0xe320);
        CLG = Rx(None, 0xe321);
    }
    Rs {
        CS = Rs(Some(0xba), 0xeb14); // LD
        CSG = Rs(None, 0xeb30);
        SLLG = Rs(None, 0xeb0d);
        SRLG = Rs(None, 0xeb0c);
        SRAG = Rs(None, 0xeb0a);
    }
    Si {
        MVI = Si(Some(0x92), 0xeb52); // LD
        CLI = Si(Some(0x95), 0xeb55); // LD
        ASI = Si(None, 0xeb6a); // GE
        AGSI = Si(None, 0xeb7a); // GE
    }
    Sil {
        MVHHI = Sil(0xe544); // GE, as all of the format
        MVHI = Sil(0xe54c);
        MVGHI = Sil(0xe548);
        CHHSI = Sil(0xe554);
        CHSI = Sil(0xe55c);
        CGHSI = Sil(0xe558);
        CLHHSI = Sil(0xe555);
        CLFHSI = Sil(0xe55d);
        CLGHSI = Sil(0xe559);
    }
}

impl Gpr {
    /// Sets all 64 bits to `value`, in the shortest form; leaves the condition code.
    pub(super) fn put_constant(self, value: u64, out: &mut Vec<u8>) {
        let Gpr(r1) = self;
        let (low, high) = (value as u32, (value >> 32) as u32);
        match Form::of(value) {
            Form::Signed16 => out.extend(LGHI.of(r1, low as u16)),
            Form::Quarter0 => out.extend(LLILL.of(r1, low as u16)),
            Form::Quarter1 => out.extend(LLILH.of(r1, (low >> 16) as u16)),
            Form::Quarter2 => out.extend(LLIHL.of(r1, high as u16)),
            Form::Quarter3 => out.extend(LLIHH.of(r1, (high >> 16) as u16)),
            Form::Signed32 => out.extend(LGFI.of(r1, low)),
            Form::Low => out.extend(LLILF.of(r1, low)),
            Form::High => out.extend(LLIHF.of(r1, high)),
            Form::Both => {
                out.extend(LLILF.of(r1, low));
                out.extend(IIHF.of(r1, high));
            }
        }
    }

    /// The length of what [`put_constant`](Self::put_constant) appends.
    pub(super) fn constant_len(value: u64) -> u32 {
        match Form::of(value) {
            Form::Signed16 | Form::Quarter0 | Form::Quarter1 | Form::Quarter2 | Form::Quarter3 => 4,
            Form::Signed32 | Form::Low | Form::High => 6,
            Form::Both => 12,
        }
    }
}

/// How a constant is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// From 16 bits and their sign.
    Signed16,
    /// From one of the four aligned halfwords, the others being 0.
    Quarter0,
    Quarter1,
    Quarter2,
    Quarter3,
    /// From 32 bits and their sign.
    Signed32,
    /// From the low half, or the high one, the other being 0.
    Low,
    High,
    /// From both.
    Both,
}

impl Form {
    /// The shortest.
    pub(super) fn of(value: u64) -> Self {
        let signed = value as i64;
        let only = |shift: u32| value & 0xffff << shift == value;
        match i32::try_from(signed) {
            _ if i16::try_from(signed).is_ok() => Self::Signed16,
            _ if only(0) => Self::Quarter0,
            _ if only(16) => Self::Quarter1,
            _ if only(32) => Self::Quarter2,
            _ if only(48) => Self::Quarter3,
            Ok(_) => Self::Signed32,
            Err(_) if u32::try_from(value).is_ok() => Self::Low,
            Err(_) if value as u32 == 0 => Self::High,
            Err(_) => Self::Both,
        }
    }
}

/// The bits of a floating-point register, and back; short ones are in its left half.
pub(super) const fn lgdr(dst: Gpr, src: Fpr) -> [u8; 4] {
    LGDR.numbers(dst.0, src.0)
}

pub(super) const fn ldgr(dst: Fpr, src: Gpr) -> [u8; 4] {
    LDGR.numbers(dst.0, src.0)
}

/// Shifts all 64 bits of `src` into `dst`.
pub(super) fn shift(insn: Rs, dst: Gpr, src: Gpr, by: u8, out: &mut Vec<u8>) {
    let amount = Mem {
        base: None,
        index: None,
        disp: by.into(),
        number: None,
    };
    insn.put(dst.0, src.0, amount, out);
}

/// ROTATE THEN INSERT SELECTED BITS (GE) without a rotation: keeps the bits of a mask whose ones
/// are all in one run, and clears the others.
pub(super) const fn select_bits(reg: Gpr, mask: u64) -> Option<[u8; 6]> {
    let (first, last) = (mask.leading_zeros() as u8, 63 - mask.trailing_zeros() as i32);
    let one_run = mask != 0
        && (mask >> mask.trailing_zeros()).count_zeros() == mask.leading_zeros() + mask.trailing_zeros();
    if !one_run {
        return None;
    }
    /// The bit that asks to clear the others.
    const CLEAR: u8 = 0x80;
    Some([0xec, reg.0 << 4 | reg.0, first, last as u8 | CLEAR, 0, 0x55])
}

/// An instruction without operands that is none, and never will be: 2 bytes of which the first is 0. Linux makes
/// it SIGILL, and SIGTRAP for a process that is traced.
pub(super) const TRAP: [u8; 2] = [0x00, 0x01];

/// `br %r14`.
pub(super) const RETURN: [u8; 2] = BCR.of(15, 14);
