//! The instructions, encoded by dynasm.
#![expect(
    clippy::useless_conversion,
    clippy::unnecessary_cast,
    reason = "dynasm converts every number"
)]

use alloc::vec::Vec;

use dynasmrt::{DynasmApi, dynasm};

use crate::backend::EncodedCode;
use crate::hole::{BitField, Class, Classes, Part, Run};
use crate::op::{Extension, ValueNumber, Width};
use crate::sink::Sink;

/// The length of every instruction but the short nop.
pub(super) const LEN: u32 = 4;
/// The length of the short nop.
pub(super) const UNIT: u32 = 2;

/// x0 to x31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gpr(pub(super) u8);

impl Gpr {
    /// Always 0.
    pub(super) const ZERO: Self = Self(0);
    /// The link register.
    pub(super) const RA: Self = Self(1);
}

/// A signed immediate of 12 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Imm12(i32);

impl Imm12 {
    pub(super) const ZERO: Self = Self(0);

    pub(super) fn new(value: i64) -> Option<Self> {
        (-0x800..0x800).contains(&value).then_some(Self(value as i32))
    }

    /// The low 12 bits of a value, as a signed number.
    pub(super) fn low(value: i64) -> Self {
        Self((value << 52 >> 52) as i32)
    }

    pub(super) fn get(self) -> i64 {
        self.0.into()
    }
}

/// The upper 20 bits of a signed number of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Upper(i32);

impl Upper {
    /// The bits from number 12 to 31 of a value.
    pub(super) fn of(value: i64) -> Self {
        Self(value as i32 & !0xfff)
    }
}

/// The distance of a shift: 0 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shift(u32);

impl Shift {
    pub(super) fn new(by: u8) -> Option<Self> {
        (by < 64).then_some(Self(by.into()))
    }

    /// The distance between the lowest byte of a width and the top of a register.
    fn above(width: Width) -> Self {
        Self(64 - 8 * u32::from(width.bytes()))
    }

    pub(super) fn get(self) -> u32 {
        self.0
    }
}

/// Memory at a distance from a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mem {
    pub(super) base: Gpr,
    pub(super) disp: Imm12,
    /// Which value of the sequence the distance is.
    pub(super) number: Option<ValueNumber>,
}

/// The immediates of the formats I, S and U.
pub(super) const FIELD_I: BitField = BitField::little(&[Run::new(0, 12, 20)]);
pub(super) const FIELD_S: BitField = BitField::little(&[Run::new(0, 5, 7), Run::new(5, 7, 25)]);
pub(super) const FIELD_U: BitField = BitField::little(&[Run::new(12, 20, 12)]);

/// Which numbers are an [`Imm12`].
pub(super) const IMM12: Classes = Classes::new(|number, _| match Imm12::new(number as i64) {
    Some(_) => Class::Of(0),
    None => Class::Only(number),
});

/// Says that the last instruction has the distance of `mem` in that field.
pub(super) fn displaced(mem: Mem, field: BitField, code: &mut EncodedCode) {
    if mem.number.is_some() {
        code.uses(mem.number, mem.disp.get() as u64, IMM12);
        code.holds(LEN, field, Part::WHOLE);
    }
}

macro_rules! put {
    ($out:expr, $($insn:tt)*) => {{
        let mut asm = Sink($out);
        dynasm!(asm; .arch riscv64i; .feature gc; $($insn)*);
    }};
}

pub(super) fn ret(out: &mut Vec<u8>) {
    jump_register(Gpr::ZERO, Gpr::RA, out);
}

/// An instruction that is guaranteed to be invalid (the assembler's `unimp`).
pub(super) fn trap(out: &mut Vec<u8>) {
    put!(out, unimp);
}

/// `jalr link, 0(target)`.
pub(super) fn jump_register(link: Gpr, target: Gpr, out: &mut Vec<u8>) {
    put!(out, jalr X(link.0), X(target.0), 0);
}

pub(super) fn lui(dst: Gpr, upper: Upper, out: &mut Vec<u8>) {
    put!(out, lui X(dst.0), upper.0);
}

pub(super) fn add_imm(dst: Gpr, src: Gpr, imm: Imm12, out: &mut Vec<u8>) {
    put!(out, addi X(dst.0), X(src.0), imm.0);
}

/// Adds 32 bits and extends their sign.
pub(super) fn add_imm_word(dst: Gpr, src: Gpr, imm: Imm12, out: &mut Vec<u8>) {
    put!(out, addiw X(dst.0), X(src.0), imm.0);
}

pub(super) fn add(dst: Gpr, lhs: Gpr, rhs: Gpr, out: &mut Vec<u8>) {
    put!(out, add X(dst.0), X(lhs.0), X(rhs.0));
}

pub(super) fn and(dst: Gpr, lhs: Gpr, rhs: Gpr, out: &mut Vec<u8>) {
    put!(out, and X(dst.0), X(lhs.0), X(rhs.0));
}

pub(super) fn and_imm(dst: Gpr, src: Gpr, imm: Imm12, out: &mut Vec<u8>) {
    put!(out, andi X(dst.0), X(src.0), imm.0);
}

pub(super) fn shift_left(dst: Gpr, src: Gpr, by: Shift, out: &mut Vec<u8>) {
    put!(out, slli X(dst.0), X(src.0), by.0);
}

pub(super) fn shift_right(dst: Gpr, src: Gpr, by: Shift, out: &mut Vec<u8>) {
    put!(out, srli X(dst.0), X(src.0), by.0);
}

pub(super) fn shift_right_signed(dst: Gpr, src: Gpr, by: Shift, out: &mut Vec<u8>) {
    put!(out, srai X(dst.0), X(src.0), by.0);
}

/// `dst` becomes the low bytes of `src`, extended.
pub(super) fn mov(dst: Gpr, src: Gpr, width: Width, extension: Extension, out: &mut Vec<u8>) {
    match (width, extension) {
        (Width::B8, _) => add_imm(dst, src, Imm12::ZERO, out),
        (Width::B4, Extension::Sign) => add_imm_word(dst, src, Imm12::ZERO, out),
        (Width::B1, Extension::Zero) => and_imm(dst, src, Imm12(0xff), out),
        (_, Extension::Zero) => {
            shift_left(dst, src, Shift::above(width), out);
            shift_right(dst, dst, Shift::above(width), out);
        }
        (_, Extension::Sign) => {
            shift_left(dst, src, Shift::above(width), out);
            shift_right_signed(dst, dst, Shift::above(width), out);
        }
    }
}

/// A load that extends.
pub(super) fn load(dst: Gpr, src: Mem, width: Width, extension: Extension, out: &mut Vec<u8>) {
    let (d, b, disp) = (dst.0, src.base.0, src.disp.0);
    match (width, extension) {
        (Width::B8, _) => put!(out, ld X(d), [X(b), disp]),
        (Width::B4, Extension::Zero) => put!(out, lwu X(d), [X(b), disp]),
        (Width::B4, Extension::Sign) => put!(out, lw X(d), [X(b), disp]),
        (Width::B2, Extension::Zero) => put!(out, lhu X(d), [X(b), disp]),
        (Width::B2, Extension::Sign) => put!(out, lh X(d), [X(b), disp]),
        (Width::B1, Extension::Zero) => put!(out, lbu X(d), [X(b), disp]),
        (Width::B1, Extension::Sign) => put!(out, lb X(d), [X(b), disp]),
    }
}

pub(super) fn store(to: Mem, src: Gpr, width: Width, out: &mut Vec<u8>) {
    let (s, b, disp) = (src.0, to.base.0, to.disp.0);
    match width {
        Width::B8 => put!(out, sd X(s), [X(b), disp]),
        Width::B4 => put!(out, sw X(s), [X(b), disp]),
        Width::B2 => put!(out, sh X(s), [X(b), disp]),
        Width::B1 => put!(out, sb X(s), [X(b), disp]),
    }
}

/// Of 8 bytes, or else of 4, which become a number in its register.
pub(super) fn load_float(dst: u8, src: Mem, width: Width, out: &mut Vec<u8>) {
    let (b, disp) = (src.base.0, src.disp.0);
    match width {
        Width::B8 => put!(out, fld F(dst), [X(b), disp]),
        _ => put!(out, flw F(dst), [X(b), disp]),
    }
}

/// Of 8 bytes, or else of 4.
pub(super) fn store_float(to: Mem, src: u8, width: Width, out: &mut Vec<u8>) {
    let (b, disp) = (to.base.0, to.disp.0);
    match width {
        Width::B8 => put!(out, fsd F(src), [X(b), disp]),
        _ => put!(out, fsw F(src), [X(b), disp]),
    }
}

/// All 8 bytes.
pub(super) fn mov_float(dst: u8, src: u8, out: &mut Vec<u8>) {
    put!(out, fmv.d F(dst), F(src));
}

/// Of 8 bytes, or else of 4.
pub(super) fn mov_to_float(dst: u8, src: Gpr, width: Width, out: &mut Vec<u8>) {
    match width {
        Width::B8 => put!(out, fmv.d.x F(dst), X(src.0)),
        _ => put!(out, fmv.w.x F(dst), X(src.0)),
    }
}

/// Of 8 bytes, or else of 4, whose sign is extended.
pub(super) fn mov_from_float(dst: Gpr, src: u8, width: Width, out: &mut Vec<u8>) {
    match width {
        Width::B8 => put!(out, fmv.x.d X(dst.0), F(src)),
        _ => put!(out, fmv.x.w X(dst.0), F(src)),
    }
}

/// Adds to memory of 8 bytes, or else of 4, which is naturally aligned; in order with everything
/// before and after.
pub(super) fn add_atomically(at: Gpr, src: Gpr, width: Width, out: &mut Vec<u8>) {
    match width {
        Width::B8 => put!(out, amoadd.d.aqrl x0, X(src.0), [X(at.0)]),
        _ => put!(out, amoadd.w.aqrl x0, X(src.0), [X(at.0)]),
    }
}
