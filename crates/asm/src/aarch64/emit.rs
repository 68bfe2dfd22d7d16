//! Resolved operations to instructions.
//!
//! Invariant: registers written are the operation's destination and registers of `free`, nothing else; each
//! is noted in [`Code::clobbers`]. Flags are dead at a site and so may be written.

use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::RegSet;

use super::imm::{Imm12, Logical, Shift};
use super::insn::{self, Base, Gpr, LEN, Source};
use super::regs::{Hw, SCRATCH_ORDER, hw};
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
        Op::Jump(dest) => emitter.put_branch(BranchKind::Jump, dest)?,
        Op::Call(addr) => emitter.put_branch(BranchKind::Call, Dest::Addr(addr))?,
        Op::Return => insn::ret(&mut emitter.code.bytes),
        Op::Trap => insn::trap(&mut emitter.code.bytes),
        Op::Raw(bytes) if bytes.len() % LEN as usize != 0 => {
            return Err(Refusal::Unusable("bytes that are no multiple of 4"));
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
        Hw::Sp => Err(Refusal::Unusable(
            "the stack pointer where a general register is needed",
        )),
        Hw::Vector(_) => Err(Refusal::Unusable(
            "a vector register where a general register is needed",
        )),
    }
}

/// A register that an address can be based on.
pub(super) fn base(reg: DwarfReg) -> Result<Base, Refusal> {
    match any(reg)? {
        Hw::Sp => Ok(Base::SP),
        _ => gpr(reg).map(Base::from),
    }
}

/// Only 4 and 8 bytes go to and from vector registers.
fn check_vector(width: Width, extension: Extension) -> Result<(), Refusal> {
    match (width, extension) {
        (Width::B4, Extension::Zero) | (Width::B8, _) => Ok(()),
        _ => Err(Refusal::Unusable(
            "a vector register for a value that is not 4 or 8 bytes, or is sign-extended",
        )),
    }
}

/// The width in which values of a width are compared once they are extended.
fn compared(width: Width) -> Width {
    match width {
        Width::B8 => Width::B8,
        _ => Width::B4,
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

    fn put_branch(&mut self, kind: BranchKind, dest: Dest) -> Result<(), Refusal> {
        let scratch = match dest {
            Dest::Addr(addr) if addr.get() % u64::from(LEN) != 0 => {
                return Err(Refusal::Unusable("a target that is no multiple of 4"));
            }
            Dest::Addr(_) => self.any_free(),
            Dest::Label(_) | Dest::End => None,
        };
        self.code.branch(kind, dest, scratch);
        Ok(())
    }

    /// The register that an operation names as its destination.
    fn written(&mut self, dst: DwarfReg) -> Result<Hw, Refusal> {
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
            Hw::Vector(n) => self.mov_to_vector(n, src, width, extension),
            Hw::Sp => gpr(dst).map(drop),
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
                Hw::Vector(n) => self.mov_from_vector(dst, n, width, extension)?,
                _ => insn::mov(dst, gpr(reg)?, width, extension, &mut self.code.bytes),
            },
            Value::Imm(value) => {
                constant::put(dst, extended(value, width, extension)?, &mut self.code.bytes);
            }
            Value::Mem(address) => self.load(dst, address, width, extension)?,
            Value::Frame { .. } if width != Width::B8 => {
                return Err(Refusal::Unusable("part of the address of a stack slot"));
            }
            Value::Frame { reg, disp } => self.add_constant(dst, base(reg)?, disp.into())?,
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
        let src = self.address(address, width)?;
        insn::load(dst, src, width, extension, &mut self.code.bytes);
        self.free = free;
        Ok(())
    }

    fn mov_from_vector(
        &mut self,
        dst: Gpr,
        src: u8,
        width: Width,
        extension: Extension,
    ) -> Result<(), Refusal> {
        if matches!(width, Width::B1 | Width::B2) {
            return Err(Refusal::Unusable("less than 4 bytes of a vector register"));
        }
        insn::mov_from_vector(dst, src, width, &mut self.code.bytes);
        if width == Width::B4 && extension == Extension::Sign {
            insn::mov(dst, dst, width, extension, &mut self.code.bytes);
        }
        Ok(())
    }

    fn mov_to_vector(
        &mut self,
        dst: u8,
        src: Value,
        width: Width,
        extension: Extension,
    ) -> Result<(), Refusal> {
        check_vector(width, extension)?;
        match src {
            Value::Reg(reg) => match any(reg)? {
                Hw::Vector(n) if n == dst => {}
                Hw::Vector(n) => insn::mov_vector(dst, n, &mut self.code.bytes),
                _ => insn::mov_to_vector(dst, gpr(reg)?.into(), width, &mut self.code.bytes),
            },
            Value::Mem(address) => {
                let src = self.address(address, width)?;
                insn::load_vector(dst, src, width, &mut self.code.bytes);
            }
            Value::Imm(0) => insn::mov_to_vector(dst, Source::ZERO, width, &mut self.code.bytes),
            Value::Imm(_) => {
                let bits = self.in_temp(src, width, extension, "a constant for a vector register")?;
                insn::mov_to_vector(dst, bits.into(), width, &mut self.code.bytes);
            }
            Value::Frame { .. } => {
                return Err(Refusal::Unusable("an address for a vector register"));
            }
        }
        Ok(())
    }

    fn store(&mut self, to: Address, src: Value, width: Width) -> Result<(), Refusal> {
        let to = self.address(to, width)?;
        if let Value::Imm(value) = src {
            immediate(value, width)?;
        }
        let src = match src {
            Value::Reg(reg) => match any(reg)? {
                Hw::Vector(n) => {
                    check_vector(width, Extension::Zero)?;
                    insn::store_vector(to, n, width, &mut self.code.bytes);
                    return Ok(());
                }
                _ => gpr(reg)?.into(),
            },
            Value::Imm(0) => Source::ZERO,
            _ => {
                let purpose = "a value to store that is not in a register";
                self.in_temp(src, width, Extension::Zero, purpose)?.into()
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
                self.add_constant(reg, reg.into(), by)?;
            }
            Value::Reg(src) if !matches!(any(src)?, Hw::Vector(_)) => {
                insn::add(reg, reg.into(), gpr(src)?, width, extension, &mut self.code.bytes);
            }
            _ => {
                let temp = self.in_temp(src, width, extension, "a value to add that is not in a register")?;
                insn::add(reg, reg.into(), temp, Width::B8, extension, &mut self.code.bytes);
            }
        }
        Ok(())
    }

    fn bits(&mut self, dst: DwarfReg, what: Bits) -> Result<(), Refusal> {
        let reg = gpr(dst)?;
        self.written(dst)?;
        let (put, by): (fn(_, _, _, &mut _), u8) = match what {
            Bits::And(mask) => return self.and(reg, mask),
            Bits::Left(by) => (insn::lsl, by),
            Bits::Right(by) => (insn::lsr, by),
            Bits::RightSigned(by) => (insn::asr, by),
        };
        let by = Shift::new(by).ok_or(Refusal::Unusable("a shift by more than 63 bits"))?;
        if by.get() != 0 {
            put(reg, reg, by, &mut self.code.bytes);
        }
        Ok(())
    }

    fn and(&mut self, reg: Gpr, mask: u64) -> Result<(), Refusal> {
        match (mask, Logical::new(mask)) {
            (u64::MAX, _) => {}
            (0, _) => constant::put(reg, 0, &mut self.code.bytes),
            (_, Some(mask)) => insn::and_imm(reg, reg, mask, &mut self.code.bytes),
            (_, None) => {
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
            Value::Imm(value) => return self.add_constant(sum, sum.into(), immediate(value, width)?),
            Value::Reg(reg) => gpr(reg)?,
            Value::Mem(_) | Value::Frame { .. } => self.in_temp(
                src,
                width,
                Extension::Zero,
                "a value to add that is not in a register",
            )?,
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

    fn add_to_mem(&mut self, to: Address, src: Value, width: Width) -> Result<(), Refusal> {
        let to = self.address(to, width)?;
        let sum = self.take("a value to add to")?;
        insn::load(sum, to, width, Extension::Zero, &mut self.code.bytes);
        self.add_value(sum, src, width)?;
        insn::store(to, sum.into(), width, &mut self.code.bytes);
        Ok(())
    }

    /// A loop of an exclusive load and store: nothing else in it touches memory.
    fn add_atomically(&mut self, to: Address, src: Value, width: Width) -> Result<(), Refusal> {
        let to = self.pointer(to)?;
        let src = match src {
            Value::Imm(value) => match Imm12::new(immediate(value, width)?.unsigned_abs()) {
                Some(_) => src,
                None => self.as_register(src, width)?,
            },
            Value::Reg(_) => src,
            Value::Mem(_) | Value::Frame { .. } => self.as_register(src, width)?,
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

    fn as_register(&mut self, src: Value, width: Width) -> Result<Value, Refusal> {
        let purpose = "a value to add that is not in a register";
        let reg = self.in_temp(src, width, Extension::Zero, purpose)?;
        Ok(Value::Reg(DwarfReg::new(reg.0.into())))
    }

    fn branch(
        &mut self,
        cond: Cond,
        lhs: Value,
        rhs: Value,
        width: Width,
        dest: Dest,
    ) -> Result<(), Refusal> {
        let (cond, lhs, rhs) = match (lhs, rhs) {
            (Value::Imm(_), Value::Reg(_) | Value::Mem(_) | Value::Frame { .. }) => {
                (cond.swapped(), rhs, lhs)
            }
            _ => (cond, lhs, rhs),
        };
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

    fn compare(&mut self, lhs: Value, rhs: Value, width: Width, extension: Extension) -> Result<(), Refusal> {
        let lhs = match lhs {
            Value::Reg(reg) if matches!(width, Width::B4 | Width::B8) => gpr(reg)?,
            Value::Reg(reg) => {
                gpr(reg)?;
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
            Value::Imm(value) => return self.compare_imm(lhs, value, width, extension),
            Value::Reg(reg) => insn::cmp(lhs, gpr(reg)?, width, extension, &mut self.code.bytes),
            Value::Mem(_) | Value::Frame { .. } => {
                let rhs = self.in_temp(rhs, width, extension, "a second value to compare")?;
                insn::cmp(lhs, rhs, compared(width), extension, &mut self.code.bytes);
            }
        }
        Ok(())
    }

    fn compare_imm(
        &mut self,
        lhs: Gpr,
        value: u64,
        width: Width,
        extension: Extension,
    ) -> Result<(), Refusal> {
        // Of 4 bytes the upper half does not count, and so the shorter constant is taken.
        let number = match width {
            Width::B4 | Width::B8 => immediate(value, width)?,
            Width::B1 | Width::B2 => extended(value, width, extension)? as i64,
        };
        let imm = Imm12::new(number.unsigned_abs());
        match imm {
            Some(imm) if number >= 0 => insn::cmp_imm(lhs, imm, width, &mut self.code.bytes),
            // Subtracting a negative number sets the same flags as adding its opposite, unless that is 0.
            Some(imm) => insn::cmn_imm(lhs, imm, width, &mut self.code.bytes),
            None => {
                let rhs = self.take("an immediate that does not fit")?;
                constant::put(rhs, number as u64, &mut self.code.bytes);
                insn::cmp(lhs, rhs, compared(width), extension, &mut self.code.bytes);
            }
        }
        Ok(())
    }
}
