//! Resolved operations to instructions: [`Lower`] for x86-64. Flags are dead at a site and so may
//! be written.

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::RegSet;

use super::encode::{Gpr, Mem, Rm};
use super::insn::{self, Imm};
use super::regs::{Hw, SCRATCH_ORDER, hw};
use crate::backend::{BranchKind, EncodedCode, EncodingRefusal, Origin, immediate};
use crate::lower::{ADDEND, Lower, NAMELESS, Named, constant_last};
use crate::op::{Address, Base, Bits, Cond, Dest, Extension, OpValue, ValueNumber, Width};

/// A distance that is in reach of a 32-bit displacement from anywhere in a sequence.
const SURE_REACH: i64 = (1 << 31) - (1 << 20);

pub(super) struct Emitter<'c> {
    pub(super) code: &'c mut EncodedCode,
    pub(super) free: RegSet,
}

impl Lower for Emitter<'_> {
    type Gpr = Gpr;
    type Float = u8;
    type Mem = Mem;
    const UNIT: usize = 1;

    fn code(&mut self) -> &mut EncodedCode {
        self.code
    }

    fn free(&mut self) -> &mut RegSet {
        &mut self.free
    }

    fn any_free(&self) -> Option<DwarfReg> {
        SCRATCH_ORDER.into_iter().find(|reg| self.free.contains(*reg))
    }

    fn named(reg: DwarfReg) -> Result<Named<Gpr, u8>, EncodingRefusal> {
        match hw(reg).ok_or(NAMELESS)? {
            Hw::Gpr(n) => Ok(Named::General(Gpr(n))),
            Hw::Xmm(n) => Ok(Named::Float(n)),
        }
    }

    fn memory(&mut self, address: Address, _: Width) -> Result<Mem, EncodingRefusal> {
        self.address(address)
    }

    fn copy(&mut self, dst: Gpr, src: Gpr, width: Width, extension: Extension) {
        insn::mov(dst, src, width, extension, &mut self.code.bytes);
    }

    fn put_constant(&mut self, dst: Gpr, value: u64, number: Option<ValueNumber>) {
        dst.put_constant(value, &mut self.code.bytes);
        let len = match (u32::try_from(value), i32::try_from(value as i64)) {
            (Err(_), Err(_)) => 8,
            _ => 4,
        };
        self.code.end_is(len, number);
    }

    fn load(
        &mut self,
        dst: Gpr,
        src: Address,
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal> {
        let src = self.address(src)?;
        insn::load(dst, src, width, extension, self.code);
        Ok(())
    }

    fn put_address(&mut self, dst: Gpr, base: DwarfReg, disp: i32) -> Result<(), EncodingRefusal> {
        if disp == 0 {
            return self.value_to_gpr(dst, OpValue::Reg(base), Width::B8, Extension::Zero);
        }
        let base = Self::gpr(base)?;
        let number = None;
        insn::lea(dst, Mem::Base { base, disp, number }, self.code);
        Ok(())
    }

    fn mov_from_float(
        &mut self,
        dst: Gpr,
        src: u8,
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal> {
        if matches!(width, Width::B1 | Width::B2) {
            return Err(EncodingRefusal::Unusable(
                "less than 4 bytes of a vector register",
            ));
        }
        insn::mov_from_vector(dst, src, width, &mut self.code.bytes);
        if width == Width::B4 && extension == Extension::Sign {
            insn::mov(dst, dst, width, extension, &mut self.code.bytes);
        }
        Ok(())
    }

    fn mov_to_float(&mut self, dst: u8, src: Gpr, width: Width) -> Result<(), EncodingRefusal> {
        insn::mov_to_vector(dst, src, width, &mut self.code.bytes);
        Ok(())
    }

    fn copy_float(&mut self, dst: u8, src: u8) -> Result<(), EncodingRefusal> {
        if dst != src {
            insn::mov_vector(dst, src, &mut self.code.bytes);
        }
        Ok(())
    }

    fn load_float(&mut self, dst: u8, src: Address, width: Width) -> Result<(), EncodingRefusal> {
        let src = self.address(src)?;
        insn::load_vector(dst, src, width, self.code);
        Ok(())
    }

    fn clear_float(&mut self, dst: u8, _: Width) -> bool {
        insn::clear_vector(dst, &mut self.code.bytes);
        true
    }

    fn store_gpr(&mut self, to: Mem, src: Gpr, width: Width) {
        insn::store(to, src, width, self.code);
    }

    fn store_float(&mut self, to: Mem, src: u8, width: Width) {
        insn::store_vector(to, src, width, self.code);
    }

    fn store_constant(&mut self, to: Mem, value: i64, number: Option<ValueNumber>, width: Width) -> bool {
        let imm = Imm::full(value, width);
        if let Some(imm) = imm {
            insn::store_imm(to, imm, width, self.code);
            self.code.end_is(imm.len(), number);
        }
        imm.is_some()
    }

    fn add_constant(&mut self, to: Gpr, by: u64, number: Option<ValueNumber>) -> Result<(), EncodingRefusal> {
        self.add_imm(Rm::Reg(to), (by, number), Width::B8, false)
    }

    fn add_directly(
        &mut self,
        to: Gpr,
        by: OpValue,
        width: Width,
        _: Extension,
    ) -> Result<bool, EncodingRefusal> {
        match by {
            OpValue::Reg(by) if width == Width::B8 => {
                let by = Self::gpr(by)?;
                self.add(to, by);
                Ok(true)
            }
            OpValue::Mem(by) if width == Width::B8 => {
                let by = self.address(by)?;
                insn::add::reg_mem(to, by, width, self.code);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn add(&mut self, to: Gpr, by: Gpr) {
        insn::add::rm_reg(Rm::Reg(to), by, Width::B8, false, self.code);
    }

    fn and(&mut self, reg: Gpr, mask: u64, number: Option<ValueNumber>) -> Result<(), EncodingRefusal> {
        let rm = Rm::Reg(reg);
        if let Some(imm) = Imm::shortest(mask as i64, Width::B8) {
            insn::and::rm_imm(rm, imm, Width::B8, false, self.code);
            self.code.end_is(imm.len(), number);
        } else if let Ok(low) = u32::try_from(mask) {
            // Writing the low half clears the other.
            let low = low as i32;
            let imm = Imm::shortest(i64::from(low), Width::B4).unwrap_or(Imm::I32(low));
            insn::and::rm_imm(rm, imm, Width::B4, false, self.code);
            self.code.end_is(imm.len(), number);
        } else {
            let mask = self.in_temp(
                OpValue::Imm(mask, number),
                Width::B8,
                Extension::Zero,
                "a 64-bit immediate",
            )?;
            insn::and::rm_reg(rm, mask, Width::B8, false, self.code);
        }
        Ok(())
    }

    fn shift(&mut self, reg: Gpr, how: Bits) -> Result<(), EncodingRefusal> {
        match how {
            Bits::And(mask) => return self.and(reg, mask, None),
            Bits::Left(by) => insn::shift::left(reg, by, &mut self.code.bytes),
            Bits::Right(by) => insn::shift::right(reg, by, &mut self.code.bytes),
            Bits::RightSigned(by) => insn::shift::right_signed(reg, by, &mut self.code.bytes),
        }
        Ok(())
    }

    fn add_to_mem(&mut self, to: Address, src: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        self.add_to(to, src, width, false)
    }

    fn add_atomically(&mut self, to: Address, src: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        self.add_to(to, src, width, true)
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
        self.compare(cond, lhs, rhs, width, dest)?;
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
        insn::ret(&mut self.code.bytes);
    }

    fn trap(&mut self) {
        insn::trap(&mut self.code.bytes);
    }
}

impl Emitter<'_> {
    fn put_branch(&mut self, kind: BranchKind, dest: Dest) {
        let scratch = match dest {
            Dest::Addr(_) => self.any_free(),
            Dest::Label(_) | Dest::End => None,
        };
        self.code.branch(kind, dest, scratch);
    }

    /// The operand for a memory address; may take a register.
    fn address(&mut self, address: Address) -> Result<Mem, EncodingRefusal> {
        let Address { disp, number, .. } = address;
        match address.base {
            Base::Reg(reg) => Ok(Mem::Base {
                base: Self::gpr(reg)?,
                disp,
                number,
            }),
            Base::Slot { reg, disp: slot } => {
                let slot = Mem::Base {
                    base: Self::gpr(reg)?,
                    disp: slot,
                    number: None,
                };
                let base = self.take("a base that has been spilled")?;
                insn::load(base, slot, Width::B8, Extension::Zero, self.code);
                Ok(Mem::Base { base, disp, number })
            }
            Base::Absolute(base) => self.absolute(base.wrapping_add_signed(i64::from(disp))),
        }
    }

    fn absolute(&mut self, target: u64) -> Result<Mem, EncodingRefusal> {
        if let Ok(low) = i32::try_from(target as i64) {
            return Ok(Mem::Low(low));
        }
        match self.code.origin {
            Origin::At(origin) if surely_reaches(origin.get(), target) => Ok(Mem::Pc(target)),
            Origin::At(_) => {
                let base = self.take("an address out of reach")?;
                base.put_constant(target, &mut self.code.bytes);
                Ok(Mem::Base {
                    base,
                    disp: 0,
                    number: None,
                })
            }
            Origin::Near(_) => {
                // The other form is the same instruction after a load of 10 bytes.
                self.code.extra = self.code.extra.saturating_add(10);
                Ok(Mem::Pc(target))
            }
        }
    }

    fn add_to(
        &mut self,
        to: Address,
        src: OpValue,
        width: Width,
        atomic: bool,
    ) -> Result<(), EncodingRefusal> {
        let to = Rm::Mem(self.address(to)?);
        let src = match src {
            OpValue::Imm(value, number) => return self.add_imm(to, (value, number), width, atomic),
            OpValue::Reg(reg) => Self::gpr(reg)?,
            OpValue::Mem(_) | OpValue::Frame { .. } => self.in_temp(src, width, Extension::Zero, ADDEND)?,
        };
        insn::add::rm_reg(to, src, width, atomic, self.code);
        Ok(())
    }

    fn add_imm(
        &mut self,
        rm: Rm,
        (value, number): (u64, Option<ValueNumber>),
        width: Width,
        atomic: bool,
    ) -> Result<(), EncodingRefusal> {
        let signed = immediate(value, width)?;
        if signed == 1 {
            insn::inc(rm, width, atomic, self.code);
        } else if let Some(imm) = Imm::shortest(signed, width) {
            insn::add::rm_imm(rm, imm, width, atomic, self.code);
            self.code.end_is(imm.len(), number);
        } else {
            let constant = OpValue::Imm(value, number);
            let reg = self.in_temp(constant, width, Extension::Zero, "a 64-bit immediate")?;
            insn::add::rm_reg(rm, reg, width, atomic, self.code);
        }
        Ok(())
    }

    fn compare(
        &mut self,
        cond: Cond,
        lhs: OpValue,
        rhs: OpValue,
        width: Width,
        dest: Dest,
    ) -> Result<(), EncodingRefusal> {
        let lhs = match lhs {
            OpValue::Reg(reg) => Rm::Reg(Self::gpr(reg)?),
            OpValue::Mem(address) => Rm::Mem(self.address(address)?),
            OpValue::Imm(..) | OpValue::Frame { .. } => Rm::Reg(self.in_temp(
                lhs,
                width,
                Extension::Zero,
                "a value to compare that is not in a register",
            )?),
        };
        match (lhs, rhs) {
            (_, OpValue::Imm(value, number)) => {
                return self.compare_imm(cond, lhs, (value, number), width, dest);
            }
            (_, OpValue::Reg(reg)) => insn::cmp::rm_reg(lhs, Self::gpr(reg)?, width, false, self.code),
            (Rm::Reg(reg), OpValue::Mem(address)) => {
                let rhs = self.address(address)?;
                insn::cmp::reg_mem(reg, rhs, width, self.code);
            }
            (_, OpValue::Mem(_) | OpValue::Frame { .. }) => {
                let reg = self.in_temp(rhs, width, Extension::Zero, "a second value to compare")?;
                insn::cmp::rm_reg(lhs, reg, width, false, self.code);
            }
        }
        Ok(())
    }

    fn compare_imm(
        &mut self,
        cond: Cond,
        lhs: Rm,
        (value, number): (u64, Option<ValueNumber>),
        width: Width,
        dest: Dest,
    ) -> Result<(), EncodingRefusal> {
        let signed = immediate(value, width)?;
        match (lhs, Imm::shortest(signed, width)) {
            // The same flags as a comparison with 0, in one byte less.
            (Rm::Reg(reg), Some(Imm::I8(0))) => insn::test(reg, width, &mut self.code.bytes),
            (_, Some(imm)) => {
                insn::cmp::rm_imm(lhs, imm, width, false, self.code);
                self.code.end_is(imm.len(), number);
            }
            (_, None) if self.any_free().is_some() => {
                let constant = OpValue::Imm(value, number);
                let reg = self.in_temp(constant, width, Extension::Zero, "a 64-bit immediate")?;
                insn::cmp::rm_reg(lhs, reg, width, false, self.code);
            }
            (_, None) => return self.compare_halves(cond, lhs, value, dest),
        }
        Ok(())
    }

    /// Compares eight bytes in memory as twice four, where a difference in either is all that
    /// matters. The caller branches on the second half.
    fn compare_halves(&mut self, cond: Cond, lhs: Rm, value: u64, dest: Dest) -> Result<(), EncodingRefusal> {
        let Some(high) = upper_half(lhs).filter(|_| cond == Cond::Ne) else {
            return Err(EncodingRefusal::NoScratch("a 64-bit immediate"));
        };
        for (half, value) in [(lhs, value as i32), (high, (value >> 32) as i32)] {
            let imm = Imm::shortest(i64::from(value), Width::B4).unwrap_or(Imm::I32(value));
            insn::cmp::rm_imm(half, imm, Width::B4, false, self.code);
            if half == lhs {
                self.put_branch(BranchKind::JumpIf(Cond::Ne), dest);
            }
        }
        Ok(())
    }
}

fn surely_reaches(from: u64, to: u64) -> bool {
    (-SURE_REACH..SURE_REACH).contains(&(to.wrapping_sub(from) as i64))
}

/// The second four bytes of an operand of eight in memory.
fn upper_half(rm: Rm) -> Option<Rm> {
    match rm {
        Rm::Reg(_) => None,
        Rm::Mem(Mem::Base { base, disp, .. }) => {
            let (disp, number) = (disp.checked_add(4)?, None);
            Some(Rm::Mem(Mem::Base { base, disp, number }))
        }
        Rm::Mem(Mem::Low(disp)) => disp.checked_add(4).map(|disp| Rm::Mem(Mem::Low(disp))),
        Rm::Mem(Mem::Pc(target)) => Some(Rm::Mem(Mem::Pc(target.wrapping_add(4)))),
    }
}
