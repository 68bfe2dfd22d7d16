//! The instructions, encoded by dynasm.
//!
//! In every function a general register is 0 to 30, and the number 31 means the stack pointer where
//! a [`Base`] is asked for and zero where a [`Source`] is.
#![expect(clippy::useless_conversion, reason = "dynasm converts every register number")]

use alloc::vec::Vec;

use dynasmrt::{DynasmApi, dynasm};

use super::imm::{Disp, Halfword, Imm12, Logical, Shift, displacements};
use crate::backend::EncodedCode;
use crate::hole::{BitField, Part, Run};
use crate::op::{Extension, ValueNumber, Width};
use crate::sink::Sink;

/// The length of every instruction.
pub(super) const LEN: u32 = 4;

/// x0 to x30.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gpr(pub(super) u8);

/// A general register or the stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Base(pub(super) u8);

impl Base {
    pub(super) const SP: Self = Self(31);
}

impl From<Gpr> for Base {
    fn from(reg: Gpr) -> Self {
        Self(reg.0)
    }
}

/// A general register or zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source(pub(super) u8);

impl Source {
    pub(super) const ZERO: Self = Self(31);
}

impl From<Gpr> for Source {
    fn from(reg: Gpr) -> Self {
        Self(reg.0)
    }
}

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mem {
    /// Which value of the sequence is the displacement comes last.
    Disp(Base, Disp, Option<ValueNumber>),
    Index(Base, Gpr),
}

/// The immediates of `movz`, of additions and of loads and stores.
pub(super) const FIELD_16: BitField = BitField::little(&[Run::new(0, 16, 5)]);
pub(super) const FIELD_12: BitField = BitField::little(&[Run::new(0, 12, 10)]);
const FIELD_9: BitField = BitField::little(&[Run::new(0, 9, 12)]);

/// Says that the last instruction, an access of that width, has the displacement of `mem`.
pub(super) fn displaced(mem: Mem, width: Width, code: &mut EncodedCode) {
    let Mem::Disp(_, disp, Some(number)) = mem else {
        return;
    };
    let (value, field, part) = match disp {
        Disp::Scaled(disp) => {
            let part = Part::from_bit(width.bytes().trailing_zeros());
            (u64::from(disp), FIELD_12, part)
        }
        Disp::Unscaled(disp) => (i64::from(disp) as u64, FIELD_9, Part::WHOLE),
    };
    code.uses(Some(number), value, displacements(width));
    code.holds(LEN, field, part);
}

macro_rules! put {
    ($out:expr, $($insn:tt)*) => {{
        let mut asm = Sink($out);
        dynasm!(asm; .arch aarch64; $($insn)*);
    }};
}

/// A load or store in each form of its address: scaled, unscaled, indexed.
macro_rules! memory {
    ($out:expr, $mem:expr, $scaled:ident, $unscaled:ident, $reg:ident($number:expr)) => {
        match $mem {
            Mem::Disp(base, Disp::Scaled(disp), _) => put!($out, $scaled $reg($number), [XSP(base.0), disp]),
            Mem::Disp(base, Disp::Unscaled(disp), _) => put!($out, $unscaled $reg($number), [XSP(base.0), disp]),
            Mem::Index(base, index) => put!($out, $scaled $reg($number), [XSP(base.0), X(index.0)]),
        }
    };
}

pub(super) fn ret(out: &mut Vec<u8>) {
    put!(out, ret);
}

/// `udf #0`: permanently undefined.
pub(super) fn trap(out: &mut Vec<u8>) {
    put!(out, udf 0);
}

pub(super) fn br(to: Gpr, out: &mut Vec<u8>) {
    put!(out, br X(to.0));
}

pub(super) fn blr(to: Gpr, out: &mut Vec<u8>) {
    put!(out, blr X(to.0));
}

pub(super) fn movz(dst: Gpr, part: Halfword, out: &mut Vec<u8>) {
    put!(out, movz X(dst.0), part.value, LSL part.shift);
}

pub(super) fn movn(dst: Gpr, part: Halfword, out: &mut Vec<u8>) {
    put!(out, movn X(dst.0), part.value, LSL part.shift);
}

pub(super) fn movk(dst: Gpr, part: Halfword, out: &mut Vec<u8>) {
    put!(out, movk X(dst.0), part.value, LSL part.shift);
}

/// `mov dst, imm` by `orr`.
pub(super) fn mov_logical(dst: Gpr, imm: Logical, out: &mut Vec<u8>) {
    put!(out, orr XSP(dst.0), xzr, imm.get());
}

/// A move between general registers that extends.
pub(super) fn mov(dst: Gpr, src: Gpr, width: Width, extension: Extension, out: &mut Vec<u8>) {
    let (d, s) = (dst.0, src.0);
    match (width, extension) {
        (Width::B8, _) => put!(out, mov X(d), X(s)),
        (Width::B4, Extension::Zero) => put!(out, mov W(d), W(s)),
        (Width::B4, Extension::Sign) => put!(out, sxtw X(d), W(s)),
        (Width::B2, Extension::Zero) => put!(out, uxth W(d), W(s)),
        (Width::B2, Extension::Sign) => put!(out, sxth X(d), W(s)),
        (Width::B1, Extension::Zero) => put!(out, uxtb W(d), W(s)),
        (Width::B1, Extension::Sign) => put!(out, sxtb X(d), W(s)),
    }
}

/// `add dst, base, imm`.
pub(super) fn add_imm(dst: Base, base: Base, imm: Imm12, out: &mut Vec<u8>) {
    match imm {
        Imm12::Low(imm) => put!(out, add XSP(dst.0), XSP(base.0), imm),
        Imm12::High(imm) => put!(out, add XSP(dst.0), XSP(base.0), imm, LSL 12),
    }
}

/// `sub dst, base, imm`.
pub(super) fn sub_imm(dst: Base, base: Base, imm: Imm12, out: &mut Vec<u8>) {
    match imm {
        Imm12::Low(imm) => put!(out, sub XSP(dst.0), XSP(base.0), imm),
        Imm12::High(imm) => put!(out, sub XSP(dst.0), XSP(base.0), imm, LSL 12),
    }
}

/// `add dst, lhs, rhs`, where `rhs` is extended.
pub(super) fn add(dst: Gpr, lhs: Base, rhs: Gpr, width: Width, extension: Extension, out: &mut Vec<u8>) {
    let (d, l, r) = (dst.0, lhs.0, rhs.0);
    match (width, extension) {
        (Width::B8, _) if lhs == Base::SP => put!(out, add XSP(d), XSP(l), X(r), UXTX),
        (Width::B8, _) => put!(out, add X(d), X(l), X(r)),
        (Width::B4, Extension::Zero) => put!(out, add XSP(d), XSP(l), W(r), UXTW),
        (Width::B4, Extension::Sign) => put!(out, add XSP(d), XSP(l), W(r), SXTW),
        (Width::B2, Extension::Zero) => put!(out, add XSP(d), XSP(l), W(r), UXTH),
        (Width::B2, Extension::Sign) => put!(out, add XSP(d), XSP(l), W(r), SXTH),
        (Width::B1, Extension::Zero) => put!(out, add XSP(d), XSP(l), W(r), UXTB),
        (Width::B1, Extension::Sign) => put!(out, add XSP(d), XSP(l), W(r), SXTB),
    }
}

/// `cmp lhs, rhs`: of a narrow width `rhs` is extended to 32 bits, as `lhs` must be.
pub(super) fn cmp(lhs: Gpr, rhs: Gpr, width: Width, extension: Extension, out: &mut Vec<u8>) {
    let (l, r) = (lhs.0, rhs.0);
    match (width, extension) {
        (Width::B8, _) => put!(out, cmp X(l), X(r)),
        (Width::B4, _) => put!(out, cmp W(l), W(r)),
        (Width::B2, Extension::Zero) => put!(out, cmp WSP(l), W(r), UXTH),
        (Width::B2, Extension::Sign) => put!(out, cmp WSP(l), W(r), SXTH),
        (Width::B1, Extension::Zero) => put!(out, cmp WSP(l), W(r), UXTB),
        (Width::B1, Extension::Sign) => put!(out, cmp WSP(l), W(r), SXTB),
    }
}

/// `cmp lhs, imm` of 8 bytes, or else of 4.
pub(super) fn cmp_imm(lhs: Gpr, imm: Imm12, width: Width, out: &mut Vec<u8>) {
    let l = lhs.0;
    match (width, imm) {
        (Width::B8, Imm12::Low(imm)) => put!(out, cmp XSP(l), imm),
        (Width::B8, Imm12::High(imm)) => put!(out, cmp XSP(l), imm, LSL 12),
        (_, Imm12::Low(imm)) => put!(out, cmp WSP(l), imm),
        (_, Imm12::High(imm)) => put!(out, cmp WSP(l), imm, LSL 12),
    }
}

/// `cmn lhs, imm` of 8 bytes, or else of 4.
pub(super) fn cmn_imm(lhs: Gpr, imm: Imm12, width: Width, out: &mut Vec<u8>) {
    let l = lhs.0;
    match (width, imm) {
        (Width::B8, Imm12::Low(imm)) => put!(out, cmn XSP(l), imm),
        (Width::B8, Imm12::High(imm)) => put!(out, cmn XSP(l), imm, LSL 12),
        (_, Imm12::Low(imm)) => put!(out, cmn WSP(l), imm),
        (_, Imm12::High(imm)) => put!(out, cmn WSP(l), imm, LSL 12),
    }
}

pub(super) fn and(dst: Gpr, lhs: Gpr, rhs: Gpr, out: &mut Vec<u8>) {
    put!(out, and X(dst.0), X(lhs.0), X(rhs.0));
}

pub(super) fn and_imm(dst: Gpr, lhs: Gpr, imm: Logical, out: &mut Vec<u8>) {
    put!(out, and XSP(dst.0), X(lhs.0), imm.get());
}

pub(super) fn lsl(dst: Gpr, src: Gpr, by: Shift, out: &mut Vec<u8>) {
    put!(out, lsl X(dst.0), X(src.0), by.get());
}

pub(super) fn lsr(dst: Gpr, src: Gpr, by: Shift, out: &mut Vec<u8>) {
    put!(out, lsr X(dst.0), X(src.0), by.get());
}

pub(super) fn asr(dst: Gpr, src: Gpr, by: Shift, out: &mut Vec<u8>) {
    put!(out, asr X(dst.0), X(src.0), by.get());
}

/// A load that extends.
pub(super) fn load(dst: Gpr, src: Mem, width: Width, extension: Extension, out: &mut Vec<u8>) {
    let d = dst.0;
    match (width, extension) {
        (Width::B8, _) => memory!(out, src, ldr, ldur, X(d)),
        (Width::B4, Extension::Zero) => memory!(out, src, ldr, ldur, W(d)),
        (Width::B4, Extension::Sign) => memory!(out, src, ldrsw, ldursw, X(d)),
        (Width::B2, Extension::Zero) => memory!(out, src, ldrh, ldurh, W(d)),
        (Width::B2, Extension::Sign) => memory!(out, src, ldrsh, ldursh, X(d)),
        (Width::B1, Extension::Zero) => memory!(out, src, ldrb, ldurb, W(d)),
        (Width::B1, Extension::Sign) => memory!(out, src, ldrsb, ldursb, X(d)),
    }
}

pub(super) fn store(to: Mem, src: Source, width: Width, out: &mut Vec<u8>) {
    let s = src.0;
    match width {
        Width::B8 => memory!(out, to, str, stur, X(s)),
        Width::B4 => memory!(out, to, str, stur, W(s)),
        Width::B2 => memory!(out, to, strh, sturh, W(s)),
        Width::B1 => memory!(out, to, strb, sturb, W(s)),
    }
}

/// Of 8 bytes, or else of 4; clears the rest of the register.
pub(super) fn load_vector(dst: u8, src: Mem, width: Width, out: &mut Vec<u8>) {
    match width {
        Width::B8 => memory!(out, src, ldr, ldur, D(dst)),
        _ => memory!(out, src, ldr, ldur, S(dst)),
    }
}

/// Of 8 bytes, or else of 4.
pub(super) fn store_vector(to: Mem, src: u8, width: Width, out: &mut Vec<u8>) {
    match width {
        Width::B8 => memory!(out, to, str, stur, D(src)),
        _ => memory!(out, to, str, stur, S(src)),
    }
}

/// All 16 bytes.
pub(super) fn mov_vector(dst: u8, src: u8, out: &mut Vec<u8>) {
    put!(out, mov V(dst).b16, V(src).b16);
}

/// Of 8 bytes, or else of 4; clears the rest of the register.
pub(super) fn mov_to_vector(dst: u8, src: Source, width: Width, out: &mut Vec<u8>) {
    match width {
        Width::B8 => put!(out, fmov D(dst), X(src.0)),
        _ => put!(out, fmov S(dst), W(src.0)),
    }
}

/// Of 8 bytes, or else of 4; clears the rest of the register.
pub(super) fn mov_from_vector(dst: Gpr, src: u8, width: Width, out: &mut Vec<u8>) {
    match width {
        Width::B8 => put!(out, fmov X(dst.0), D(src)),
        _ => put!(out, fmov W(dst.0), S(src)),
    }
}

/// Loads with acquire semantics, and watches the address.
pub(super) fn load_exclusive(dst: Gpr, from: Base, width: Width, out: &mut Vec<u8>) {
    let (d, f) = (dst.0, from.0);
    match width {
        Width::B8 => put!(out, ldaxr X(d), [XSP(f)]),
        Width::B4 => put!(out, ldaxr W(d), [XSP(f)]),
        Width::B2 => put!(out, ldaxrh W(d), [XSP(f)]),
        Width::B1 => put!(out, ldaxrb W(d), [XSP(f)]),
    }
}

/// Stores with release semantics if nobody else has; `failed` becomes 0 or 1. All three registers
/// differ.
pub(super) fn store_exclusive(failed: Gpr, src: Gpr, to: Base, width: Width, out: &mut Vec<u8>) {
    let (f, s, t) = (failed.0, src.0, to.0);
    match width {
        Width::B8 => put!(out, stlxr W(f), X(s), [XSP(t)]),
        Width::B4 => put!(out, stlxr W(f), W(s), [XSP(t)]),
        Width::B2 => put!(out, stlxrh W(f), W(s), [XSP(t)]),
        Width::B1 => put!(out, stlxrb W(f), W(s), [XSP(t)]),
    }
}
