//! Resolved operations to instructions: [`Lower`] for s390x. The condition code is dead between
//! operations and so may be written.

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::RegSet;

use super::holes;
use super::insn::{self, Mem, Rs, Rx};
use super::regs::{BRANCH_ORDER, Fpr, Gpr, Hw, VALUE_ORDER, hw};
use crate::backend::{BranchKind, EncodedCode, EncodingRefusal, extended};
use crate::hole::Classes;
use crate::lower::{Lower, NAMELESS, Named, constant_last};
use crate::op::{Address, Bits, Cond, Dest, Extension, OpValue, ValueNumber, Width};

pub(super) struct Emitter<'c> {
    pub(super) code: &'c mut EncodedCode,
    pub(super) free: RegSet,
}

/// Loads and extends.
fn load(width: Width, extension: Extension) -> Rx {
    match (width, extension) {
        (Width::B1, Extension::Zero) => insn::LLGC,
        (Width::B1, Extension::Sign) => insn::LGB,
        (Width::B2, Extension::Zero) => insn::LLGH,
        (Width::B2, Extension::Sign) => insn::LGH,
        (Width::B4, Extension::Zero) => insn::LLGF,
        (Width::B4, Extension::Sign) => insn::LGF,
        (Width::B8, _) => insn::LG,
    }
}

/// Copies and extends.
fn copy(width: Width, extension: Extension) -> insn::Rre {
    match (width, extension) {
        (Width::B1, Extension::Zero) => insn::LLGCR,
        (Width::B1, Extension::Sign) => insn::LGBR,
        (Width::B2, Extension::Zero) => insn::LLGHR,
        (Width::B2, Extension::Sign) => insn::LGHR,
        (Width::B4, Extension::Zero) => insn::LLGFR,
        (Width::B4, Extension::Sign) => insn::LGFR,
        (Width::B8, _) => insn::LGR,
    }
}

impl Lower for Emitter<'_> {
    type Gpr = Gpr;
    type Float = Fpr;
    type Mem = Mem;
    const UNIT: usize = 2;
    const STORED: Extension = Extension::Sign;

    fn code(&mut self) -> &mut EncodedCode {
        self.code
    }

    fn free(&mut self) -> &mut RegSet {
        &mut self.free
    }

    fn any_free(&self) -> Option<DwarfReg> {
        self.first_free(&VALUE_ORDER)
    }

    fn named(reg: DwarfReg) -> Result<Named<Gpr, Fpr>, EncodingRefusal> {
        match hw(reg).ok_or(NAMELESS)? {
            Hw::Gpr(reg) => Ok(Named::General(reg)),
            Hw::Fpr(reg) => Ok(Named::Float(reg)),
            Hw::UpperVector => Err(EncodingRefusal::Unusable(
                "v16 to v31, which only instructions of the vector facility can name",
            )),
        }
    }

    fn memory(&mut self, address: Address, _: Width) -> Result<Mem, EncodingRefusal> {
        self.address(address)
    }

    fn copy(&mut self, dst: Gpr, src: Gpr, width: Width, extension: Extension) {
        self.put(copy(width, extension).of(dst, src));
    }

    fn put_constant(&mut self, dst: Gpr, value: u64, number: Option<ValueNumber>) {
        self.put_value(dst, value, number);
    }

    fn load(
        &mut self,
        dst: Gpr,
        src: Address,
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal> {
        let src = self.memory_before(DwarfReg::new(dst.0.into()), src, width)?;
        self.access(load(width, extension), dst.0, src);
        Ok(())
    }

    fn put_address(&mut self, dst: Gpr, base: DwarfReg, disp: i32) -> Result<(), EncodingRefusal> {
        let base = Self::gpr(base)?;
        let near = Mem::base(base, disp);
        if disp == 0 {
            if dst != base {
                self.put(insn::LGR.of(dst, base));
            }
        } else if base != Gpr(0) && (-(1 << 19)..1 << 19).contains(&disp) {
            self.access(insn::LA, dst.0, near);
        } else if dst == base {
            self.put(insn::AGFI.of(dst.0, disp as u32));
        } else {
            dst.put_constant(i64::from(disp) as u64, &mut self.code.bytes);
            self.put(insn::AGR.of(dst, base));
        }
        Ok(())
    }

    fn mov_from_float(
        &mut self,
        dst: Gpr,
        src: Fpr,
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal> {
        let half = match (width, extension) {
            (Width::B8, _) => None,
            (Width::B4, Extension::Zero) => Some(insn::SRLG),
            (Width::B4, Extension::Sign) => Some(insn::SRAG),
            _ => {
                return Err(EncodingRefusal::Unusable(
                    "less than 4 bytes of a vector register",
                ));
            }
        };
        self.put(insn::lgdr(dst, src));
        if let Some(shift) = half {
            self.shifted(shift, dst, dst, 32);
        }
        Ok(())
    }

    fn mov_to_float(&mut self, dst: Fpr, src: Gpr, width: Width) -> Result<(), EncodingRefusal> {
        if width == Width::B8 {
            self.put(insn::ldgr(dst, src));
            return Ok(());
        }
        let bits = self.take("4 bytes for a vector register")?;
        self.shifted(insn::SLLG, bits, src, 32);
        self.put(insn::ldgr(dst, bits));
        Ok(())
    }

    fn copy_float(&mut self, dst: Fpr, src: Fpr) -> Result<(), EncodingRefusal> {
        if dst != src {
            self.put(insn::LDR.of(dst.0, src.0));
        }
        Ok(())
    }

    fn load_float(&mut self, dst: Fpr, src: Address, width: Width) -> Result<(), EncodingRefusal> {
        let src = self.address(src)?;
        let load = if width == Width::B8 { insn::LD } else { insn::LE };
        self.access(load, dst.0, src);
        Ok(())
    }

    fn clear_float(&mut self, dst: Fpr, _: Width) -> bool {
        self.put(insn::LZDR.numbers(dst.0, 0));
        true
    }

    /// The upper half of the register is what counts.
    fn put_float_constant(
        &mut self,
        dst: Fpr,
        (value, number): (u64, Option<ValueNumber>),
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal> {
        let left = if width == Width::B4 { 32 } else { 0 };
        let value = extended(value, width, extension)? << left;
        let bits = self.take("a constant for a vector register")?;
        self.code.uses(number, value, Classes::ALONE);
        bits.put_constant(value, &mut self.code.bytes);
        self.put(insn::ldgr(dst, bits));
        Ok(())
    }

    fn store_gpr(&mut self, to: Mem, src: Gpr, width: Width) {
        let insn = match width {
            Width::B1 => insn::STC,
            Width::B2 => insn::STH,
            Width::B4 => insn::ST,
            Width::B8 => insn::STG,
        };
        self.access(insn, src.0, to);
    }

    fn store_float(&mut self, to: Mem, src: Fpr, width: Width) {
        let store = if width == Width::B4 { insn::STE } else { insn::STD };
        self.access(store, src.0, to);
    }

    fn store_constant(&mut self, to: Mem, value: i64, number: Option<ValueNumber>, width: Width) -> bool {
        if to.index.is_some() {
            return false;
        }
        let classes = match width {
            Width::B1 => Classes::ALL,
            _ => holes::SIGNED_16,
        };
        self.code.uses(number, value as u64, classes);
        let insn = match width {
            Width::B1 => {
                self.access_by_byte(insn::MVI, to, value as u8);
                return true;
            }
            Width::B2 => insn::MVHHI,
            Width::B4 => insn::MVHI,
            Width::B8 => insn::MVGHI,
        };
        match i16::try_from(value) {
            Ok(value) if to.is_short() => {
                self.access_by_halfword(insn, to, value as u16);
                true
            }
            _ => {
                let disp = i64::from(to.disp) as u64;
                self.code.requires(to.number, disp, holes::SHORT_OR_NOT);
                false
            }
        }
    }

    fn add_constant(&mut self, to: Gpr, by: u64, number: Option<ValueNumber>) -> Result<(), EncodingRefusal> {
        self.add_imm(to, by, number)
    }

    fn add_directly(
        &mut self,
        to: Gpr,
        by: OpValue,
        width: Width,
        extension: Extension,
    ) -> Result<bool, EncodingRefusal> {
        self.add_in_one(to, by, width, extension)
    }

    fn add(&mut self, to: Gpr, by: Gpr) {
        self.put(insn::AGR.of(to, by));
    }

    /// Keeps the bits of the mask, in the shortest form.
    fn and(&mut self, reg: Gpr, mask: u64, number: Option<ValueNumber>) -> Result<(), EncodingRefusal> {
        // Most masks are in a selection, by where their ends are.
        self.code.uses(number, mask, Classes::ALONE);
        let quarters = [
            (insn::NILL, 0),
            (insn::NILH, 16),
            (insn::NIHL, 32),
            (insn::NIHH, 48),
        ];
        let one_quarter = quarters
            .into_iter()
            .find(|(_, shift)| mask | 0xffff << shift == u64::MAX);
        match mask {
            0 => self.put(insn::LGHI.of(reg.0, 0)),
            0xff => self.put(insn::LLGCR.of(reg, reg)),
            0xffff => self.put(insn::LLGHR.of(reg, reg)),
            0xffff_ffff => self.put(insn::LLGFR.of(reg, reg)),
            _ => match (one_quarter, insn::select_bits(reg, mask)) {
                (Some((insn, shift)), _) => self.put(insn.of(reg.0, (mask >> shift) as u16)),
                (None, Some(select)) => self.put(select),
                (None, None) => self.and_halves(reg, mask),
            },
        }
        Ok(())
    }

    fn shift(&mut self, reg: Gpr, how: Bits) -> Result<(), EncodingRefusal> {
        match how {
            Bits::And(mask) => return self.and(reg, mask, None),
            Bits::Left(by) => self.shifted(insn::SLLG, reg, reg, by),
            Bits::Right(by) => self.shifted(insn::SRLG, reg, reg, by),
            Bits::RightSigned(by) => self.shifted(insn::SRAG, reg, reg, by),
        }
        Ok(())
    }

    fn add_to_mem(&mut self, to: Address, src: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        self.add_value_to_mem(to, src, width)
    }

    fn add_atomically(&mut self, to: Address, src: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        self.add_by_swapping(to, src, width)
    }

    fn branch(
        &mut self,
        cond: Cond,
        lhs: OpValue,
        rhs: OpValue,
        width: Width,
        dest: Dest,
    ) -> Result<(), EncodingRefusal> {
        let (cond, lhs, rhs) = constant_last(cond, lhs, rhs);
        let free = self.free;
        self.compare(cond, lhs, rhs, width)?;
        // What the comparison took is free again.
        self.free = free;
        self.put_branch(BranchKind::JumpIf(cond), dest);
        Ok(())
    }

    fn jump(&mut self, dest: Dest) -> Result<(), EncodingRefusal> {
        self.put_branch(BranchKind::Jump, dest);
        Ok(())
    }

    fn call(&mut self, addr: CodeAddr) -> Result<(), EncodingRefusal> {
        self.put_branch(BranchKind::Call, Dest::Addr(addr));
        Ok(())
    }

    fn ret(&mut self) {
        self.put(insn::RETURN);
    }

    fn trap(&mut self) {
        self.put(insn::TRAP);
    }
}

impl Emitter<'_> {
    pub(super) fn put<const N: usize>(&mut self, insn: [u8; N]) {
        self.code.bytes.extend(insn);
    }

    /// A free register, the first in that order.
    pub(super) fn take_first(
        &mut self,
        order: &[DwarfReg],
        purpose: &'static str,
    ) -> Result<Gpr, EncodingRefusal> {
        let reg = self
            .first_free(order)
            .ok_or(EncodingRefusal::NoScratch(purpose))?;
        self.take_this(reg)
    }

    fn first_free(&self, order: &[DwarfReg]) -> Option<DwarfReg> {
        order.iter().copied().find(|reg| self.free.contains(*reg))
    }

    fn put_branch(&mut self, kind: BranchKind, dest: Dest) {
        let scratch = match dest {
            Dest::Addr(_) => self.first_free(&BRANCH_ORDER),
            Dest::Label(_) | Dest::End => None,
        };
        self.code.branch(kind, dest, scratch);
    }

    fn shifted(&mut self, insn: Rs, dst: Gpr, src: Gpr, by: u8) {
        insn::shift(insn, dst, src, by, &mut self.code.bytes);
    }

    fn and_halves(&mut self, reg: Gpr, mask: u64) {
        for (insn, half) in [(insn::NILF, mask as u32), (insn::NIHF, (mask >> 32) as u32)] {
            if half != u32::MAX {
                self.put(insn.of(reg.0, half));
            }
        }
    }
}
