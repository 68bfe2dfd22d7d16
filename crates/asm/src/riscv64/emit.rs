//! Resolved operations to instructions: [`Lower`] for RISC-V. There are no flags: conditional
//! branches compare registers.

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::RegSet;

use super::insn::{self, Gpr, Imm12, LEN, Mem, Shift, UNIT};
use super::regs::{GP, Hw, RA, SCRATCH_ORDER, SP, TP, ZERO, hw};
use super::{branch, constant};
use crate::backend::{BranchKind, EncodedCode, EncodingRefusal, extended, immediate};
use crate::hole::{Classes, Part};
use crate::lower::{ADDEND, Lower, NAMELESS, Named};
use crate::op::{Address, Bits, Cond, Dest, Extension, OpValue, ValueNumber, Width};

pub(super) struct Emitter<'c> {
    pub(super) code: &'c mut EncodedCode,
    pub(super) free: RegSet,
}

/// How values of a width are extended before they are compared: 4 bytes always by their sign, which
/// keeps the order of unsigned numbers too, and which the processor does for nothing.
fn extension_of(cond: Cond, width: Width) -> Extension {
    match cond {
        Cond::Less | Cond::LessOrEqual | Cond::Greater | Cond::GreaterOrEqual => Extension::Sign,
        _ if width == Width::B4 => Extension::Sign,
        _ => Extension::Zero,
    }
}

impl Lower for Emitter<'_> {
    type Gpr = Gpr;
    type Float = u8;
    type Mem = Mem;
    const UNIT: usize = UNIT as usize;

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
            Hw::Float(n) => Ok(Named::Float(n)),
        }
    }

    fn written(&mut self, dst: DwarfReg) -> Result<(), EncodingRefusal> {
        if [ZERO, SP, GP, TP].contains(&dst) {
            return Err(EncodingRefusal::Unusable(
                "zero, or sp, gp or tp, which belong to the stack and the platform",
            ));
        }
        self.code.clobbers = self.code.clobbers.with(dst);
        Ok(())
    }

    fn memory(&mut self, address: Address, _: Width) -> Result<Mem, EncodingRefusal> {
        self.address(address)
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
        insn::displaced(src, insn::FIELD_I, self.code);
        Ok(())
    }

    fn put_address(&mut self, dst: Gpr, base: DwarfReg, disp: i32) -> Result<(), EncodingRefusal> {
        self.put_sum(dst, Self::gpr(base)?, disp.into(), None)
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
                "less than 4 bytes of a floating-point register",
            ));
        }
        insn::mov_from_float(dst, src, width, &mut self.code.bytes);
        if width == Width::B4 && extension == Extension::Zero {
            insn::mov(dst, dst, width, extension, &mut self.code.bytes);
        }
        Ok(())
    }

    fn mov_to_float(&mut self, dst: u8, src: Gpr, width: Width) -> Result<(), EncodingRefusal> {
        insn::mov_to_float(dst, src, width, &mut self.code.bytes);
        Ok(())
    }

    fn copy_float(&mut self, dst: u8, src: u8) -> Result<(), EncodingRefusal> {
        if dst != src {
            insn::mov_float(dst, src, &mut self.code.bytes);
        }
        Ok(())
    }

    fn load_float(&mut self, dst: u8, src: Address, width: Width) -> Result<(), EncodingRefusal> {
        let src = self.address(src)?;
        insn::load_float(dst, src, width, &mut self.code.bytes);
        insn::displaced(src, insn::FIELD_I, self.code);
        Ok(())
    }

    fn clear_float(&mut self, dst: u8, width: Width) -> bool {
        insn::mov_to_float(dst, Gpr::ZERO, width, &mut self.code.bytes);
        true
    }

    fn store_gpr(&mut self, to: Mem, src: Gpr, width: Width) {
        insn::store(to, src, width, &mut self.code.bytes);
        insn::displaced(to, insn::FIELD_S, self.code);
    }

    fn store_float(&mut self, to: Mem, src: u8, width: Width) {
        insn::store_float(to, src, width, &mut self.code.bytes);
        insn::displaced(to, insn::FIELD_S, self.code);
    }

    fn store_constant(&mut self, to: Mem, value: i64, _: Option<ValueNumber>, width: Width) -> bool {
        if value == 0 {
            insn::store(to, Gpr::ZERO, width, &mut self.code.bytes);
            insn::displaced(to, insn::FIELD_S, self.code);
        }
        value == 0
    }

    fn add_constant(&mut self, to: Gpr, by: u64, number: Option<ValueNumber>) -> Result<(), EncodingRefusal> {
        self.put_sum(to, to, by as i64, number)
    }

    fn add_directly(
        &mut self,
        to: Gpr,
        by: OpValue,
        width: Width,
        _: Extension,
    ) -> Result<bool, EncodingRefusal> {
        let OpValue::Reg(by) = by else {
            return Ok(false);
        };
        match Self::named(by)? {
            Named::General(by) if width == Width::B8 => {
                insn::add(to, to, by, &mut self.code.bytes);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn add(&mut self, to: Gpr, by: Gpr) {
        insn::add(to, to, by, &mut self.code.bytes);
    }

    fn and(&mut self, reg: Gpr, mask: u64, number: Option<ValueNumber>) -> Result<(), EncodingRefusal> {
        if let Some(imm) = Imm12::new(mask as i64) {
            self.code.uses(number, mask, insn::IMM12);
            insn::and_imm(reg, reg, imm, &mut self.code.bytes);
            self.code.holds(LEN, insn::FIELD_I, Part::WHOLE);
            return Ok(());
        }
        // No instruction has the mask, or it is made in one of several ways.
        self.code.uses(number, mask, Classes::ALONE);
        // A run of ones from bit 0 on, or up to bit 63.
        let zeros = (mask.leading_zeros() + mask.trailing_zeros()) as u8;
        let one_run = mask.count_ones() + u32::from(zeros) == u64::BITS;
        let shifts: Option<[fn(_, _, _, &mut _); 2]> = match (mask.leading_zeros(), mask.trailing_zeros()) {
            (_, 0) if one_run => Some([insn::shift_left, insn::shift_right]),
            (0, _) if one_run => Some([insn::shift_right, insn::shift_left]),
            _ => None,
        };
        match (shifts, Shift::new(zeros)) {
            (Some(shifts), Some(by)) => shifts
                .into_iter()
                .for_each(|shift| shift(reg, reg, by, &mut self.code.bytes)),
            _ => {
                let mask = OpValue::imm(mask);
                let mask = self.in_temp(mask, Width::B8, Extension::Zero, "a mask that does not fit")?;
                insn::and(reg, reg, mask, &mut self.code.bytes);
            }
        }
        Ok(())
    }

    fn shift(&mut self, reg: Gpr, how: Bits) -> Result<(), EncodingRefusal> {
        let (put, by): (fn(_, _, _, &mut _), u8) = match how {
            Bits::Left(by) => (insn::shift_left, by),
            Bits::Right(by) => (insn::shift_right, by),
            Bits::RightSigned(by) => (insn::shift_right_signed, by),
            Bits::And(mask) => return self.and(reg, mask, None),
        };
        let by = Shift::new(by).ok_or(EncodingRefusal::Unusable("a shift by more than 63 bits"))?;
        if by.get() != 0 {
            put(reg, reg, by, &mut self.code.bytes);
        }
        Ok(())
    }

    fn add_to_mem(&mut self, to: Address, src: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        let to = self.address(to)?;
        let sum = self.take("a value to add to")?;
        insn::load(sum, to, width, Extension::Zero, &mut self.code.bytes);
        insn::displaced(to, insn::FIELD_I, self.code);
        self.add_value(sum, src, width)?;
        insn::store(to, sum, width, &mut self.code.bytes);
        insn::displaced(to, insn::FIELD_S, self.code);
        Ok(())
    }

    fn add_atomically(&mut self, to: Address, src: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        if matches!(width, Width::B1 | Width::B2) {
            return Err(EncodingRefusal::Unusable(
                "less than 4 bytes to add to atomically",
            ));
        }
        let to = self.pointer(to)?;
        let src = self.as_register(src, width)?;
        insn::add_atomically(to, src, width, &mut self.code.bytes);
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
        let free = self.free;
        let extension = extension_of(cond, width);
        let lhs = self.comparable(lhs, width, extension)?;
        let rhs = self.comparable(rhs, width, extension)?;
        // What the comparison took is read by the branch itself, and so is no register for it to go
        // through.
        let done = self.put_branch(BranchKind::JumpIf(cond), dest, branch::compared(lhs, rhs));
        self.free = free;
        done
    }

    fn jump(&mut self, dest: Dest) -> Result<(), EncodingRefusal> {
        self.put_branch(BranchKind::Jump, dest, 0)
    }

    fn call(&mut self, addr: CodeAddr) -> Result<(), EncodingRefusal> {
        self.put_branch(BranchKind::Call, Dest::Addr(addr), 0)
    }

    fn ret(&mut self) {
        insn::ret(&mut self.code.bytes);
    }

    fn trap(&mut self) {
        insn::trap(&mut self.code.bytes);
    }
}

impl Emitter<'_> {
    fn put_branch(&mut self, kind: BranchKind, dest: Dest, compared: u16) -> Result<(), EncodingRefusal> {
        let scratch = match dest {
            Dest::Addr(addr) if addr.get() % u64::from(UNIT) != 0 => {
                return Err(EncodingRefusal::Unusable("a target that is no multiple of 2"));
            }
            Dest::Addr(_) => self.any_free(),
            Dest::Label(_) | Dest::End => None,
        };
        if kind == BranchKind::Call {
            self.code.clobbers = self.code.clobbers.with(RA);
        }
        self.code.branch_with(kind, dest, scratch, compared);
        Ok(())
    }

    /// Adds the low bytes of `src` to `sum`; what is above them is of no interest.
    fn add_value(&mut self, sum: Gpr, src: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        let reg = match src {
            OpValue::Imm(value, number) => return self.put_sum(sum, sum, immediate(value, width)?, number),
            _ => self.as_register(src, width)?,
        };
        insn::add(sum, sum, reg, &mut self.code.bytes);
        Ok(())
    }

    /// A register that holds the low bytes of a value.
    fn as_register(&mut self, src: OpValue, width: Width) -> Result<Gpr, EncodingRefusal> {
        match src {
            OpValue::Reg(reg) => Self::gpr(reg),
            OpValue::Imm(value, _) if immediate(value, width)? == 0 => Ok(Gpr::ZERO),
            _ => self.in_temp(src, width, Extension::Sign, ADDEND),
        }
    }

    /// A register that holds the value, extended to all 64 bits.
    fn comparable(
        &mut self,
        value: OpValue,
        width: Width,
        extension: Extension,
    ) -> Result<Gpr, EncodingRefusal> {
        match value {
            OpValue::Imm(value, _) if immediate(value, width)? == 0 => Ok(Gpr::ZERO),
            OpValue::Imm(value, number) => {
                let reg = self.take("a constant to compare with")?;
                constant::put_value(reg, extended(value, width, extension)?, number, self.code);
                Ok(reg)
            }
            OpValue::Reg(reg) if width == Width::B8 => Self::gpr(reg),
            OpValue::Reg(reg) => {
                Self::gpr(reg)?;
                self.in_temp(value, width, extension, "a narrow value to compare")
            }
            OpValue::Mem(_) | OpValue::Frame { .. } => {
                let purpose = "a value to compare that is not in a register";
                self.in_temp(value, width, extension, purpose)
            }
        }
    }
}
