//! Resolved operations to instructions.
//!
//! Invariant: registers written are the operation's destination and registers of `free`, nothing else; each
//! is noted in [`Code::clobbers`]. There are no flags: conditional branches compare registers.

use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::RegSet;

use super::insn::{self, Gpr, Imm12, Shift, UNIT};
use super::regs::{GP, Hw, RA, SCRATCH_ORDER, SP, TP, ZERO, hw};
use super::{branch, constant};
use crate::backend::{BranchKind, Code, Refusal, extended, immediate};
use crate::op::{Address, Bits, Cond, Dest, Extension, Op, Value, Width};

pub(super) fn emit(op: &Op<'_>, free: RegSet, code: &mut Code) -> Result<(), Refusal> {
    let mut emitter = Emitter { code, free };
    match *op {
        Op::Move {
            dst,
            src,
            width,
            extension,
        } => emitter.mov(dst, src, width, extension)?,
        Op::Store { to, src, width } => emitter.store(to, src, width)?,
        Op::AddToReg {
            dst,
            src,
            width,
            extension,
        } => emitter.add_to_reg(dst, src, width, extension)?,
        Op::Bits { dst, what } => emitter.bits(dst, what)?,
        Op::AddToMem {
            to,
            src,
            width,
            atomic: false,
        } => emitter.add_to_mem(to, src, width)?,
        Op::AddToMem {
            to,
            src,
            width,
            atomic: true,
        } => emitter.add_atomically(to, src, width)?,
        Op::Branch {
            cond,
            lhs,
            rhs,
            width,
            dest,
        } => emitter.branch(cond, lhs, rhs, width, dest)?,
        Op::Jump(dest) => emitter.put_branch(BranchKind::Jump, dest, 0)?,
        Op::Call(addr) => emitter.put_branch(BranchKind::Call, Dest::Addr(addr), 0)?,
        Op::Return => insn::ret(&mut emitter.code.bytes),
        Op::Trap => insn::trap(&mut emitter.code.bytes),
        Op::Raw(bytes) if bytes.len() % UNIT as usize != 0 => {
            return Err(Refusal::Unusable("bytes that are no multiple of 2"));
        }
        Op::Raw(bytes) => emitter.code.bytes.extend_from_slice(bytes),
    }
    Ok(())
}

pub(super) struct Emitter<'c> {
    pub(super) code: &'c mut Code,
    pub(super) free: RegSet,
}

fn any(reg: DwarfReg) -> Result<Hw, Refusal> {
    hw(reg).ok_or(Refusal::Unusable("a register that instructions cannot name"))
}

/// A general register, or why not.
pub(super) fn gpr(reg: DwarfReg) -> Result<Gpr, Refusal> {
    match any(reg)? {
        Hw::Gpr(n) => Ok(Gpr(n)),
        Hw::Float(_) => Err(Refusal::Unusable(
            "a floating-point register where a general register is needed",
        )),
    }
}

/// Only 4 and 8 bytes go to and from floating-point registers.
fn check_float(width: Width, extension: Extension) -> Result<(), Refusal> {
    match (width, extension) {
        (Width::B4, Extension::Zero) | (Width::B8, _) => Ok(()),
        _ => Err(Refusal::Unusable(
            "a floating-point register for a value that is not 4 or 8 bytes, or is sign-extended",
        )),
    }
}

/// How values of a width are extended before they are compared: 4 bytes always by their sign, which keeps the order
/// of unsigned numbers too, and which the processor does for nothing.
fn extension_of(cond: Cond, width: Width) -> Extension {
    match cond {
        Cond::Less | Cond::LessOrEqual | Cond::Greater | Cond::GreaterOrEqual => Extension::Sign,
        _ if width == Width::B4 => Extension::Sign,
        _ => Extension::Zero,
    }
}

impl Emitter<'_> {
    /// A free register.
    pub(super) fn take(&mut self, purpose: &'static str) -> Result<Gpr, Refusal> {
        let reg = self.any_free().ok_or(Refusal::NoScratch(purpose))?;
        self.free = self.free.without(reg);
        self.code.clobbers = self.code.clobbers.with(reg);
        gpr(reg)
    }

    fn any_free(&self) -> Option<DwarfReg> {
        let preferred = SCRATCH_ORDER.into_iter().find(|reg| self.free.contains(*reg));
        preferred.or_else(|| self.free.first())
    }

    fn put_branch(&mut self, kind: BranchKind, dest: Dest, compared: u16) -> Result<(), Refusal> {
        let scratch = match dest {
            Dest::Addr(addr) if addr.get() % u64::from(UNIT) != 0 => {
                return Err(Refusal::Unusable("a target that is no multiple of 2"));
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

    /// The register that an operation names as its destination.
    fn written(&mut self, dst: DwarfReg) -> Result<Hw, Refusal> {
        if [ZERO, SP, GP, TP].contains(&dst) {
            return Err(Refusal::Unusable(
                "zero, or sp, gp or tp, which belong to the stack and the platform",
            ));
        }
        self.code.clobbers = self.code.clobbers.with(dst);
        any(dst)
    }

    /// Loads any value into a free register.
    fn in_temp(
        &mut self,
        value: Value,
        width: Width,
        extension: Extension,
        purpose: &'static str,
    ) -> Result<Gpr, Refusal> {
        let free = self.free;
        let reg = self.any_free().ok_or(Refusal::NoScratch(purpose))?;
        // On the way the same register may hold the address of the value.
        self.mov(reg, value, width, extension)?;
        self.free = free.without(reg);
        gpr(reg)
    }

    fn mov(&mut self, dst: DwarfReg, src: Value, width: Width, extension: Extension) -> Result<(), Refusal> {
        match self.written(dst)? {
            Hw::Gpr(n) => self.mov_to_gpr(Gpr(n), src, width, extension),
            Hw::Float(n) => self.mov_to_float(n, src, width, extension),
        }
    }

    fn mov_to_gpr(
        &mut self,
        dst: Gpr,
        src: Value,
        width: Width,
        extension: Extension,
    ) -> Result<(), Refusal> {
        match src {
            Value::Reg(reg) => match any(reg)? {
                Hw::Gpr(n) if n == dst.0 && width == Width::B8 => {}
                Hw::Float(n) => self.mov_from_float(dst, n, width, extension)?,
                _ => insn::mov(dst, gpr(reg)?, width, extension, &mut self.code.bytes),
            },
            Value::Imm(value) => {
                constant::put(dst, extended(value, width, extension)?, &mut self.code.bytes);
            }
            Value::Mem(address) => self.load(dst, address, width, extension)?,
            Value::Frame { .. } if width != Width::B8 => {
                return Err(Refusal::Unusable("part of the address of a stack slot"));
            }
            Value::Frame { reg, disp } => self.add_constant(dst, gpr(reg)?, disp.into())?,
        }
        Ok(())
    }

    /// A load, whose destination may hold the address before.
    fn load(
        &mut self,
        dst: Gpr,
        address: Address,
        width: Width,
        extension: Extension,
    ) -> Result<(), Refusal> {
        let (free, whole) = (self.free, DwarfReg::new(dst.0.into()));
        if address.base.reg() != Some(whole) {
            self.free = free.with(whole);
        }
        let src = self.address(address)?;
        insn::load(dst, src, width, extension, &mut self.code.bytes);
        self.free = free;
        Ok(())
    }

    fn mov_from_float(
        &mut self,
        dst: Gpr,
        src: u8,
        width: Width,
        extension: Extension,
    ) -> Result<(), Refusal> {
        if matches!(width, Width::B1 | Width::B2) {
            return Err(Refusal::Unusable(
                "less than 4 bytes of a floating-point register",
            ));
        }
        insn::mov_from_float(dst, src, width, &mut self.code.bytes);
        if width == Width::B4 && extension == Extension::Zero {
            insn::mov(dst, dst, width, extension, &mut self.code.bytes);
        }
        Ok(())
    }

    fn mov_to_float(
        &mut self,
        dst: u8,
        src: Value,
        width: Width,
        extension: Extension,
    ) -> Result<(), Refusal> {
        check_float(width, extension)?;
        match src {
            Value::Reg(reg) => match any(reg)? {
                Hw::Float(n) if n == dst => {}
                Hw::Float(n) => insn::mov_float(dst, n, &mut self.code.bytes),
                Hw::Gpr(n) => insn::mov_to_float(dst, Gpr(n), width, &mut self.code.bytes),
            },
            Value::Mem(address) => {
                let src = self.address(address)?;
                insn::load_float(dst, src, width, &mut self.code.bytes);
            }
            Value::Imm(0) => insn::mov_to_float(dst, Gpr::ZERO, width, &mut self.code.bytes),
            Value::Imm(_) => {
                let bits = self.in_temp(src, width, extension, "a constant for a floating-point register")?;
                insn::mov_to_float(dst, bits, width, &mut self.code.bytes);
            }
            Value::Frame { .. } => {
                return Err(Refusal::Unusable("an address for a floating-point register"));
            }
        }
        Ok(())
    }

    fn store(&mut self, to: Address, src: Value, width: Width) -> Result<(), Refusal> {
        let to = self.address(to)?;
        if let Value::Imm(value) = src {
            immediate(value, width)?;
        }
        let src = match src {
            Value::Reg(reg) => match any(reg)? {
                Hw::Float(n) => {
                    check_float(width, Extension::Zero)?;
                    insn::store_float(to, n, width, &mut self.code.bytes);
                    return Ok(());
                }
                Hw::Gpr(n) => Gpr(n),
            },
            Value::Imm(0) => Gpr::ZERO,
            _ => {
                let purpose = "a value to store that is not in a register";
                self.in_temp(src, width, Extension::Zero, purpose)?
            }
        };
        insn::store(to, src, width, &mut self.code.bytes);
        Ok(())
    }

    fn add_to_reg(
        &mut self,
        dst: DwarfReg,
        src: Value,
        width: Width,
        extension: Extension,
    ) -> Result<(), Refusal> {
        let reg = gpr(dst)?;
        self.written(dst)?;
        match src {
            Value::Imm(value) => {
                let by = extended(value, width, extension)? as i64;
                self.add_constant(reg, reg, by)?;
            }
            Value::Reg(src) if width == Width::B8 && matches!(any(src)?, Hw::Gpr(_)) => {
                insn::add(reg, reg, gpr(src)?, &mut self.code.bytes);
            }
            _ => {
                let temp = self.in_temp(src, width, extension, "a value to add that is not in a register")?;
                insn::add(reg, reg, temp, &mut self.code.bytes);
            }
        }
        Ok(())
    }

    fn bits(&mut self, dst: DwarfReg, what: Bits) -> Result<(), Refusal> {
        let reg = gpr(dst)?;
        self.written(dst)?;
        let (put, by): (fn(_, _, _, &mut _), u8) = match what {
            Bits::And(mask) => return self.and(reg, mask),
            Bits::Left(by) => (insn::shift_left, by),
            Bits::Right(by) => (insn::shift_right, by),
            Bits::RightSigned(by) => (insn::shift_right_signed, by),
        };
        let by = Shift::new(by).ok_or(Refusal::Unusable("a shift by more than 63 bits"))?;
        if by.get() != 0 {
            put(reg, reg, by, &mut self.code.bytes);
        }
        Ok(())
    }

    fn and(&mut self, reg: Gpr, mask: u64) -> Result<(), Refusal> {
        if let Some(imm) = Imm12::new(mask as i64) {
            insn::and_imm(reg, reg, imm, &mut self.code.bytes);
            return Ok(());
        }
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
                let mask = Value::Imm(mask);
                let mask = self.in_temp(mask, Width::B8, Extension::Zero, "a mask that does not fit")?;
                insn::and(reg, reg, mask, &mut self.code.bytes);
            }
        }
        Ok(())
    }

    /// Adds the low bytes of `src` to `sum`; what is above them is of no interest.
    fn add_value(&mut self, sum: Gpr, src: Value, width: Width) -> Result<(), Refusal> {
        let reg = match src {
            Value::Imm(value) => return self.add_constant(sum, sum, immediate(value, width)?),
            _ => self.as_register(src, width)?,
        };
        insn::add(sum, sum, reg, &mut self.code.bytes);
        Ok(())
    }

    fn add_to_mem(&mut self, to: Address, src: Value, width: Width) -> Result<(), Refusal> {
        let to = self.address(to)?;
        let sum = self.take("a value to add to")?;
        insn::load(sum, to, width, Extension::Zero, &mut self.code.bytes);
        self.add_value(sum, src, width)?;
        insn::store(to, sum, width, &mut self.code.bytes);
        Ok(())
    }

    fn add_atomically(&mut self, to: Address, src: Value, width: Width) -> Result<(), Refusal> {
        if matches!(width, Width::B1 | Width::B2) {
            return Err(Refusal::Unusable("less than 4 bytes to add to atomically"));
        }
        let to = self.pointer(to)?;
        let src = self.as_register(src, width)?;
        insn::add_atomically(to, src, width, &mut self.code.bytes);
        Ok(())
    }

    /// A register that holds the low bytes of a value.
    fn as_register(&mut self, src: Value, width: Width) -> Result<Gpr, Refusal> {
        match src {
            Value::Reg(reg) => gpr(reg),
            Value::Imm(value) if immediate(value, width)? == 0 => Ok(Gpr::ZERO),
            _ => self.in_temp(
                src,
                width,
                Extension::Sign,
                "a value to add that is not in a register",
            ),
        }
    }

    fn branch(
        &mut self,
        cond: Cond,
        lhs: Value,
        rhs: Value,
        width: Width,
        dest: Dest,
    ) -> Result<(), Refusal> {
        let free = self.free;
        let extension = extension_of(cond, width);
        let lhs = self.comparable(lhs, width, extension)?;
        let rhs = self.comparable(rhs, width, extension)?;
        // What the comparison took is read by the branch itself, and so is no register for it to go through.
        let done = self.put_branch(BranchKind::JumpIf(cond), dest, branch::compared(lhs, rhs));
        self.free = free;
        done
    }

    /// A register that holds the value, extended to all 64 bits.
    fn comparable(&mut self, value: Value, width: Width, extension: Extension) -> Result<Gpr, Refusal> {
        match value {
            Value::Imm(value) if immediate(value, width)? == 0 => Ok(Gpr::ZERO),
            Value::Imm(value) => {
                let reg = self.take("a constant to compare with")?;
                constant::put(reg, extended(value, width, extension)?, &mut self.code.bytes);
                Ok(reg)
            }
            Value::Reg(reg) if width == Width::B8 => gpr(reg),
            Value::Reg(reg) => {
                gpr(reg)?;
                self.in_temp(value, width, extension, "a narrow value to compare")
            }
            Value::Mem(_) | Value::Frame { .. } => {
                let purpose = "a value to compare that is not in a register";
                self.in_temp(value, width, extension, purpose)
            }
        }
    }
}
