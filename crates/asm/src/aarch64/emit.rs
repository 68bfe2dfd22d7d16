//! Resolved operations to instructions: [`Lower`] for AArch64. Flags are dead at a site and so may
//! be written.

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::RegSet;

use super::imm::{self, Imm12, Logical, Shift};
use super::insn::{self, Base, Gpr, LEN, Mem, Source};
use super::regs::{Hw, SCRATCH_ORDER, hw};
use super::{branch, constant};
use crate::backend::{BranchKind, EncodedCode, EncodingRefusal, extended, immediate};
use crate::hole::{Classes, Part};
use crate::lower::{ADDEND, Lower, NAMELESS, Named, constant_last};
use crate::op::{Address, Bits, Cond, Dest, Extension, OpValue, ValueNumber, Width};

pub(super) struct Emitter<'c> {
    pub(super) code: &'c mut EncodedCode,
    pub(super) free: RegSet,
}

/// A register that an address can be based on.
pub(super) fn base(reg: DwarfReg) -> Result<Base, EncodingRefusal> {
    match hw(reg) {
        Some(Hw::Sp) => Ok(Base::SP),
        _ => Emitter::gpr(reg).map(Base::from),
    }
}

/// The width in which values of a width are compared once they are extended.
fn compared(width: Width) -> Width {
    match width {
        Width::B8 => Width::B8,
        _ => Width::B4,
    }
}

impl Lower for Emitter<'_> {
    type Gpr = Gpr;
    type Float = u8;
    type Mem = Mem;
    const UNIT: usize = LEN as usize;

    fn code(&mut self) -> &mut EncodedCode {
        self.code
    }

    fn free(&mut self) -> &mut RegSet {
        &mut self.free
    }

    fn any_free(&self) -> Option<DwarfReg> {
        let preferred = SCRATCH_ORDER.into_iter().find(|reg| self.free.contains(*reg));
        preferred.or_else(|| self.free.first())
    }

    fn named(reg: DwarfReg) -> Result<Named<Gpr, u8>, EncodingRefusal> {
        match hw(reg).ok_or(NAMELESS)? {
            Hw::Gpr(n) => Ok(Named::General(Gpr(n))),
            Hw::Vector(n) => Ok(Named::Float(n)),
            Hw::Sp => Err(EncodingRefusal::Unusable(
                "the stack pointer where a general register is needed",
            )),
        }
    }

    fn memory(&mut self, address: Address, width: Width) -> Result<Mem, EncodingRefusal> {
        self.address(address, width)
    }

    fn copy(&mut self, dst: Gpr, src: Gpr, width: Width, extension: Extension) {
        insn::mov(dst, src, width, extension, &mut self.code.bytes);
    }

    fn put_constant(&mut self, dst: Gpr, value: u64, number: Option<ValueNumber>) {
        constant::put_value(dst, value, number, self.code);
    }

    fn load(
        &mut self,
        dst: Gpr,
        src: Address,
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal> {
        let src = self.memory_before(DwarfReg::new(dst.0.into()), src, width)?;
        insn::load(dst, src, width, extension, &mut self.code.bytes);
        insn::displaced(src, width, self.code);
        Ok(())
    }

    fn put_address(&mut self, dst: Gpr, from: DwarfReg, disp: i32) -> Result<(), EncodingRefusal> {
        self.add_disp(dst, base(from)?, (disp, None))
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
        insn::mov_to_vector(dst, src.into(), width, &mut self.code.bytes);
        Ok(())
    }

    fn copy_float(&mut self, dst: u8, src: u8) -> Result<(), EncodingRefusal> {
        if dst != src {
            insn::mov_vector(dst, src, &mut self.code.bytes);
        }
        Ok(())
    }

    fn load_float(&mut self, dst: u8, src: Address, width: Width) -> Result<(), EncodingRefusal> {
        let src = self.address(src, width)?;
        insn::load_vector(dst, src, width, &mut self.code.bytes);
        insn::displaced(src, width, self.code);
        Ok(())
    }

    fn clear_float(&mut self, dst: u8, width: Width) -> bool {
        insn::mov_to_vector(dst, Source::ZERO, width, &mut self.code.bytes);
        true
    }

    fn store_gpr(&mut self, to: Mem, src: Gpr, width: Width) {
        insn::store(to, src.into(), width, &mut self.code.bytes);
        insn::displaced(to, width, self.code);
    }

    fn store_float(&mut self, to: Mem, src: u8, width: Width) {
        insn::store_vector(to, src, width, &mut self.code.bytes);
        insn::displaced(to, width, self.code);
    }

    fn store_constant(&mut self, to: Mem, value: i64, _: Option<ValueNumber>, width: Width) -> bool {
        if value == 0 {
            insn::store(to, Source::ZERO, width, &mut self.code.bytes);
            insn::displaced(to, width, self.code);
        }
        value == 0
    }

    fn add_constant(&mut self, to: Gpr, by: u64, number: Option<ValueNumber>) -> Result<(), EncodingRefusal> {
        self.put_sum(to, to.into(), (by as i64, number))
    }

    fn add_directly(
        &mut self,
        to: Gpr,
        by: OpValue,
        width: Width,
        extension: Extension,
    ) -> Result<bool, EncodingRefusal> {
        let OpValue::Reg(by) = by else {
            return Ok(false);
        };
        if let Named::General(by) = Self::named(by)? {
            insn::add(to, to.into(), by, width, extension, &mut self.code.bytes);
            return Ok(true);
        }
        Ok(false)
    }

    fn add(&mut self, to: Gpr, by: Gpr) {
        insn::add(
            to,
            to.into(),
            by,
            Width::B8,
            Extension::Zero,
            &mut self.code.bytes,
        );
    }

    fn and(&mut self, reg: Gpr, mask: u64, number: Option<ValueNumber>) -> Result<(), EncodingRefusal> {
        // The bits of a logical immediate depend on all of its pattern.
        self.code.uses(number, mask, Classes::ALONE);
        match (mask, Logical::new(mask)) {
            (u64::MAX, _) => {}
            (0, _) => constant::put(reg, 0, &mut self.code.bytes),
            (_, Some(mask)) => insn::and_imm(reg, reg, mask, &mut self.code.bytes),
            (_, None) => {
                let mask = OpValue::imm(mask);
                let mask = self.in_temp(mask, Width::B8, Extension::Zero, "a mask that does not fit")?;
                insn::and(reg, reg, mask, &mut self.code.bytes);
            }
        }
        Ok(())
    }

    fn shift(&mut self, reg: Gpr, how: Bits) -> Result<(), EncodingRefusal> {
        let (put, by): (fn(_, _, _, &mut _), u8) = match how {
            Bits::Left(by) => (insn::lsl, by),
            Bits::Right(by) => (insn::lsr, by),
            Bits::RightSigned(by) => (insn::asr, by),
            Bits::And(mask) => return self.and(reg, mask, None),
        };
        let by = Shift::new(by).ok_or(EncodingRefusal::Unusable("a shift by more than 63 bits"))?;
        if by.get() != 0 {
            put(reg, reg, by, &mut self.code.bytes);
        }
        Ok(())
    }

    fn add_to_mem(&mut self, to: Address, src: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        let to = self.address(to, width)?;
        let sum = self.take("a value to add to")?;
        insn::load(sum, to, width, Extension::Zero, &mut self.code.bytes);
        insn::displaced(to, width, self.code);
        self.add_value(sum, src, width)?;
        insn::store(to, sum.into(), width, &mut self.code.bytes);
        insn::displaced(to, width, self.code);
        Ok(())
    }

    /// A loop of an exclusive load and store: nothing else in it touches memory.
    fn add_atomically(&mut self, to: Address, src: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        let to = self.pointer(to)?;
        let src = match src {
            OpValue::Imm(value, number) => {
                let value = immediate(value, width)?;
                match Imm12::new(value.unsigned_abs()) {
                    Some(_) => src,
                    None => {
                        self.code.requires(number, value as u64, imm::BEYOND);
                        self.as_register(src, width)?
                    }
                }
            }
            OpValue::Reg(_) => src,
            OpValue::Mem(_) | OpValue::Frame { .. } => self.as_register(src, width)?,
        };
        let sum = self.take("a value to add to")?;
        let failed = self.take("the result of an exclusive store")?;
        let start = self.code.at();
        insn::load_exclusive(sum, to, width, &mut self.code.bytes);
        self.add_value(sum, src, width)?;
        insn::store_exclusive(failed, sum, to, width, &mut self.code.bytes);
        let instructions = self.code.at().saturating_sub(start) / LEN;
        branch::back_if_not_zero(failed, instructions, &mut self.code.bytes);
        Ok(())
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
        let extension = match cond {
            Cond::Less | Cond::LessOrEqual | Cond::Greater | Cond::GreaterOrEqual => Extension::Sign,
            _ => Extension::Zero,
        };
        self.compare(lhs, rhs, width, extension)?;
        // What the comparison took is free again.
        self.free = free;
        self.put_branch(BranchKind::JumpIf(cond), dest)
    }

    fn jump(&mut self, dest: Dest) -> Result<(), EncodingRefusal> {
        self.put_branch(BranchKind::Jump, dest)
    }

    fn call(&mut self, addr: CodeAddr) -> Result<(), EncodingRefusal> {
        self.put_branch(BranchKind::Call, Dest::Addr(addr))
    }

    fn ret(&mut self) {
        insn::ret(&mut self.code.bytes);
    }

    fn trap(&mut self) {
        insn::trap(&mut self.code.bytes);
    }
}

impl Emitter<'_> {
    fn put_branch(&mut self, kind: BranchKind, dest: Dest) -> Result<(), EncodingRefusal> {
        let scratch = match dest {
            Dest::Addr(addr) if addr.get() % u64::from(LEN) != 0 => {
                return Err(EncodingRefusal::Unusable("a target that is no multiple of 4"));
            }
            Dest::Addr(_) => self.any_free(),
            Dest::Label(_) | Dest::End => None,
        };
        self.code.branch(kind, dest, scratch);
        Ok(())
    }

    /// Adds the low bytes of `src` to `sum`; what is above them is of no interest.
    fn add_value(&mut self, sum: Gpr, src: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        let reg = match src {
            OpValue::Imm(value, number) => {
                return self.put_sum(sum, sum.into(), (immediate(value, width)?, number));
            }
            OpValue::Reg(reg) => Self::gpr(reg)?,
            OpValue::Mem(_) | OpValue::Frame { .. } => self.in_temp(src, width, Extension::Zero, ADDEND)?,
        };
        insn::add(
            sum,
            sum.into(),
            reg,
            Width::B8,
            Extension::Zero,
            &mut self.code.bytes,
        );
        Ok(())
    }

    fn as_register(&mut self, src: OpValue, width: Width) -> Result<OpValue, EncodingRefusal> {
        let reg = self.in_temp(src, width, Extension::Zero, ADDEND)?;
        Ok(OpValue::Reg(DwarfReg::new(reg.0.into())))
    }

    fn compare(
        &mut self,
        lhs: OpValue,
        rhs: OpValue,
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal> {
        let lhs = match lhs {
            OpValue::Reg(reg) if matches!(width, Width::B4 | Width::B8) => Self::gpr(reg)?,
            OpValue::Reg(reg) => {
                Self::gpr(reg)?;
                self.in_temp(lhs, width, extension, "a narrow value to compare")?
            }
            _ => self.in_temp(
                lhs,
                width,
                extension,
                "a value to compare that is not in a register",
            )?,
        };
        match rhs {
            OpValue::Imm(value, number) => {
                return self.compare_imm(lhs, (value, number), width, extension);
            }
            OpValue::Reg(reg) => insn::cmp(lhs, Self::gpr(reg)?, width, extension, &mut self.code.bytes),
            OpValue::Mem(_) | OpValue::Frame { .. } => {
                let rhs = self.in_temp(rhs, width, extension, "a second value to compare")?;
                insn::cmp(lhs, rhs, compared(width), extension, &mut self.code.bytes);
            }
        }
        Ok(())
    }

    fn compare_imm(
        &mut self,
        lhs: Gpr,
        (value, named): (u64, Option<ValueNumber>),
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal> {
        // Of 4 bytes the upper half does not count, and so the shorter constant is taken.
        let number = match width {
            Width::B4 | Width::B8 => immediate(value, width)?,
            Width::B1 | Width::B2 => extended(value, width, extension)? as i64,
        };
        let imm = Imm12::new(number.unsigned_abs());
        match imm {
            Some(imm) => {
                self.code.uses(named, number as u64, imm::COMPARED);
                // Subtracting a negative number sets the same flags as adding its opposite, unless
                // that is 0.
                let put = if number >= 0 { insn::cmp_imm } else { insn::cmn_imm };
                put(lhs, imm, width, &mut self.code.bytes);
                self.code.holds(
                    LEN,
                    insn::FIELD_12,
                    Part {
                        negated: number < 0,
                        shift: if matches!(imm, Imm12::High(_)) { 12 } else { 0 },
                        ..Part::WHOLE
                    },
                );
            }
            None => {
                let rhs = self.take("an immediate that does not fit")?;
                self.code.requires(named, number as u64, imm::BEYOND);
                constant::put_value(rhs, number as u64, named, self.code);
                insn::cmp(lhs, rhs, compared(width), extension, &mut self.code.bytes);
            }
        }
        Ok(())
    }
}
