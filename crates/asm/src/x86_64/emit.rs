//! Resolved operations to instructions.
//!
//! Invariant: registers written are the operation's destination and registers of `free`, nothing else; each
//! is noted in [`Code::clobbers`]. Flags are dead at a site and so may be written.

use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::RegSet;

use super::encode::{Gpr, Mem, Rm};
use super::insn::{self, Imm};
use super::regs::{Hw, SCRATCH_ORDER, hw};
use crate::backend::{BranchKind, Code, Origin, Refusal, extended, immediate};
use crate::op::{Address, Base, Bits, Cond, Dest, Extension, Op, Value, Width};

/// A distance that is in reach of a 32-bit displacement from anywhere in a sequence.
const SURE_REACH: i64 = (1 << 31) - (1 << 20);

pub(super) fn emit(op: &Op<'_>, free: RegSet, code: &mut Code) -> Result<(), Refusal> {
    let mut emitter = Emitter { code, free };
    match *op {
        Op::Move {
            dst,
            src,
            width,
            extension,
        } => emitter.mov(dst, src, width, extension),
        Op::Store { to, src, width } => emitter.store(to, src, width),
        Op::AddToReg {
            dst,
            src,
            width,
            extension,
        } => emitter.add_to_reg(dst, src, width, extension),
        Op::Bits { dst, what } => emitter.bits(dst, what),
        Op::AddToMem {
            to,
            src,
            width,
            atomic,
        } => emitter.add_to_mem(to, src, width, atomic),
        Op::Branch {
            cond,
            lhs,
            rhs,
            width,
            dest,
        } => emitter.branch(cond, lhs, rhs, width, dest),
        Op::Jump(dest) => {
            emitter.put_branch(BranchKind::Jump, dest);
            Ok(())
        }
        Op::Call(addr) => {
            emitter.put_branch(BranchKind::Call, Dest::Addr(addr));
            Ok(())
        }
        Op::Return => {
            insn::ret(&mut emitter.code.bytes);
            Ok(())
        }
        Op::Trap => {
            insn::trap(&mut emitter.code.bytes);
            Ok(())
        }
        Op::Raw(bytes) => {
            emitter.code.bytes.extend_from_slice(bytes);
            Ok(())
        }
    }
}

struct Emitter<'c> {
    code: &'c mut Code,
    free: RegSet,
}

/// A general register, or why not.
fn gpr(reg: DwarfReg) -> Result<Gpr, Refusal> {
    match hw(reg) {
        Some(Hw::Gpr(n)) => Ok(Gpr(n)),
        Some(Hw::Xmm(_)) => Err(Refusal::Unusable(
            "a vector register where a general register is needed",
        )),
        None => Err(Refusal::Unusable("a register that instructions cannot name")),
    }
}

fn any(reg: DwarfReg) -> Result<Hw, Refusal> {
    hw(reg).ok_or(Refusal::Unusable("a register that instructions cannot name"))
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

impl Emitter<'_> {
    /// A free register.
    fn take(&mut self, purpose: &'static str) -> Result<Gpr, Refusal> {
        let reg = self.any_free().ok_or(Refusal::NoScratch(purpose))?;
        self.free = self.free.without(reg);
        self.code.clobbers = self.code.clobbers.with(reg);
        gpr(reg)
    }

    fn any_free(&self) -> Option<DwarfReg> {
        SCRATCH_ORDER.into_iter().find(|reg| self.free.contains(*reg))
    }

    fn put_branch(&mut self, kind: BranchKind, dest: Dest) {
        let scratch = match dest {
            Dest::Addr(_) => self.any_free(),
            Dest::Label(_) | Dest::End => None,
        };
        self.code.branch(kind, dest, scratch);
    }

    /// The operand for a memory address; may take a register.
    fn address(&mut self, address: Address) -> Result<Mem, Refusal> {
        let disp = address.disp;
        match address.base {
            Base::Reg(reg) => Ok(Mem::Base {
                base: gpr(reg)?,
                disp,
            }),
            Base::Slot { reg, disp: slot } => {
                let slot = Mem::Base {
                    base: gpr(reg)?,
                    disp: slot,
                };
                let base = self.take("a base that has been spilled")?;
                insn::load(base, slot, Width::B8, Extension::Zero, self.code);
                Ok(Mem::Base { base, disp })
            }
            Base::Absolute(base) => self.absolute(base.wrapping_add_signed(i64::from(disp))),
        }
    }

    fn absolute(&mut self, target: u64) -> Result<Mem, Refusal> {
        if let Ok(low) = i32::try_from(target as i64) {
            return Ok(Mem::Low(low));
        }
        match self.code.origin {
            Origin::At(origin) if surely_reaches(origin.get(), target) => Ok(Mem::Pc(target)),
            Origin::At(_) => {
                let base = self.take("an address out of reach")?;
                base.put_constant(target, &mut self.code.bytes);
                Ok(Mem::Base { base, disp: 0 })
            }
            Origin::Near(_) => {
                // The other form is the same instruction after a load of 10 bytes.
                self.code.extra = self.code.extra.saturating_add(10);
                Ok(Mem::Pc(target))
            }
        }
    }

    /// Loads any value into a free register, extended with zeros.
    fn in_temp(&mut self, value: Value, width: Width, purpose: &'static str) -> Result<Gpr, Refusal> {
        let free = self.free;
        let reg = self.any_free().ok_or(Refusal::NoScratch(purpose))?;
        // On the way the same register may hold the address of the value.
        self.mov(reg, value, width, Extension::Zero)?;
        self.free = free.without(reg);
        gpr(reg)
    }

    fn mov(&mut self, dst: DwarfReg, src: Value, width: Width, extension: Extension) -> Result<(), Refusal> {
        self.code.clobbers = self.code.clobbers.with(dst);
        match any(dst)? {
            Hw::Gpr(n) => self.mov_to_gpr(Gpr(n), src, width, extension),
            Hw::Xmm(n) => self.mov_to_vector(n, src, width, extension),
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
                Hw::Gpr(n) if n == dst.0 && width == Width::B8 => Ok(()),
                Hw::Gpr(n) => {
                    insn::mov(dst, Gpr(n), width, extension, &mut self.code.bytes);
                    Ok(())
                }
                Hw::Xmm(n) => self.mov_from_vector(dst, n, width, extension),
            },
            Value::Imm(value) => {
                dst.put_constant(extended(value, width, extension)?, &mut self.code.bytes);
                Ok(())
            }
            Value::Mem(address) => {
                let src = self.address(address)?;
                insn::load(dst, src, width, extension, self.code);
                Ok(())
            }
            Value::Frame { .. } if width != Width::B8 => {
                Err(Refusal::Unusable("part of the address of a stack slot"))
            }
            Value::Frame { reg, disp: 0 } => self.mov_to_gpr(dst, Value::Reg(reg), width, extension),
            Value::Frame { reg, disp } => {
                insn::lea(
                    dst,
                    Mem::Base {
                        base: gpr(reg)?,
                        disp,
                    },
                    self.code,
                );
                Ok(())
            }
        }
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
                Hw::Xmm(n) if n == dst => {}
                Hw::Xmm(n) => insn::mov_vector(dst, n, &mut self.code.bytes),
                Hw::Gpr(n) => insn::mov_to_vector(dst, Gpr(n), width, &mut self.code.bytes),
            },
            Value::Mem(address) => {
                let src = self.address(address)?;
                insn::load_vector(dst, src, width, self.code);
            }
            Value::Imm(0) => insn::clear_vector(dst, &mut self.code.bytes),
            Value::Imm(_) => {
                let bits = self.in_temp(src, width, "a constant for a vector register")?;
                insn::mov_to_vector(dst, bits, width, &mut self.code.bytes);
            }
            Value::Frame { .. } => {
                return Err(Refusal::Unusable("an address for a vector register"));
            }
        }
        Ok(())
    }

    fn store(&mut self, to: Address, src: Value, width: Width) -> Result<(), Refusal> {
        let to = self.address(to)?;
        match src {
            Value::Reg(reg) => match any(reg)? {
                Hw::Gpr(n) => insn::store(to, Gpr(n), width, self.code),
                Hw::Xmm(n) => {
                    check_vector(width, Extension::Zero)?;
                    insn::store_vector(to, n, width, self.code);
                }
            },
            Value::Imm(value) => match Imm::full(immediate(value, width)?, width) {
                Some(value) => insn::store_imm(to, value, width, self.code),
                None => {
                    let reg = self.in_temp(src, width, "a 64-bit immediate")?;
                    insn::store(to, reg, width, self.code);
                }
            },
            Value::Mem(_) | Value::Frame { .. } => {
                let reg = self.in_temp(src, width, "a value to store that is not in a register")?;
                insn::store(to, reg, width, self.code);
            }
        }
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
        self.code.clobbers = self.code.clobbers.with(dst);
        let rm = Rm::Reg(reg);
        match src {
            Value::Imm(value) => {
                return self.add_imm(rm, extended(value, width, extension)?, Width::B8, false);
            }
            Value::Reg(src) if width == Width::B8 => {
                insn::add::rm_reg(rm, gpr(src)?, width, false, self.code);
            }
            Value::Mem(address) if width == Width::B8 => {
                let src = self.address(address)?;
                insn::add::reg_mem(reg, src, width, self.code);
            }
            _ => {
                let temp = self.any_free().ok_or(Refusal::NoScratch("a value to extend"))?;
                self.mov(temp, src, width, extension)?;
                insn::add::rm_reg(rm, gpr(temp)?, Width::B8, false, self.code);
            }
        }
        Ok(())
    }

    fn bits(&mut self, dst: DwarfReg, what: Bits) -> Result<(), Refusal> {
        let reg = gpr(dst)?;
        self.code.clobbers = self.code.clobbers.with(dst);
        match what {
            Bits::And(mask) => return self.and(reg, mask),
            Bits::Left(by) => insn::shift::left(reg, by, &mut self.code.bytes),
            Bits::Right(by) => insn::shift::right(reg, by, &mut self.code.bytes),
            Bits::RightSigned(by) => insn::shift::right_signed(reg, by, &mut self.code.bytes),
        }
        Ok(())
    }

    fn and(&mut self, reg: Gpr, mask: u64) -> Result<(), Refusal> {
        let rm = Rm::Reg(reg);
        if let Some(imm) = Imm::shortest(mask as i64, Width::B8) {
            insn::and::rm_imm(rm, imm, Width::B8, false, self.code);
        } else if let Ok(low) = u32::try_from(mask) {
            // Writing the low half clears the other.
            let low = low as i32;
            let imm = Imm::shortest(i64::from(low), Width::B4).unwrap_or(Imm::I32(low));
            insn::and::rm_imm(rm, imm, Width::B4, false, self.code);
        } else {
            let mask = self.in_temp(Value::Imm(mask), Width::B8, "a 64-bit immediate")?;
            insn::and::rm_reg(rm, mask, Width::B8, false, self.code);
        }
        Ok(())
    }

    fn add_to_mem(&mut self, to: Address, src: Value, width: Width, atomic: bool) -> Result<(), Refusal> {
        let to = Rm::Mem(self.address(to)?);
        let src = match src {
            Value::Imm(value) => return self.add_imm(to, value, width, atomic),
            Value::Reg(reg) => gpr(reg)?,
            Value::Mem(_) | Value::Frame { .. } => {
                self.in_temp(src, width, "a value to add that is not in a register")?
            }
        };
        insn::add::rm_reg(to, src, width, atomic, self.code);
        Ok(())
    }

    fn add_imm(&mut self, rm: Rm, value: u64, width: Width, atomic: bool) -> Result<(), Refusal> {
        let signed = immediate(value, width)?;
        if signed == 1 {
            insn::inc(rm, width, atomic, self.code);
        } else if let Some(imm) = Imm::shortest(signed, width) {
            insn::add::rm_imm(rm, imm, width, atomic, self.code);
        } else {
            let reg = self.in_temp(Value::Imm(value), width, "a 64-bit immediate")?;
            insn::add::rm_reg(rm, reg, width, atomic, self.code);
        }
        Ok(())
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
        self.compare(cond, lhs, rhs, width, dest)?;
        // What the comparison took is free again.
        self.free = free;
        self.put_branch(BranchKind::JumpIf(cond), dest);
        Ok(())
    }

    fn compare(
        &mut self,
        cond: Cond,
        lhs: Value,
        rhs: Value,
        width: Width,
        dest: Dest,
    ) -> Result<(), Refusal> {
        let lhs = match lhs {
            Value::Reg(reg) => Rm::Reg(gpr(reg)?),
            Value::Mem(address) => Rm::Mem(self.address(address)?),
            Value::Imm(_) | Value::Frame { .. } => {
                Rm::Reg(self.in_temp(lhs, width, "a value to compare that is not in a register")?)
            }
        };
        match (lhs, rhs) {
            (_, Value::Imm(value)) => return self.compare_imm(cond, lhs, value, width, dest),
            (_, Value::Reg(reg)) => insn::cmp::rm_reg(lhs, gpr(reg)?, width, false, self.code),
            (Rm::Reg(reg), Value::Mem(address)) => {
                let rhs = self.address(address)?;
                insn::cmp::reg_mem(reg, rhs, width, self.code);
            }
            (_, Value::Mem(_) | Value::Frame { .. }) => {
                let reg = self.in_temp(rhs, width, "a second value to compare")?;
                insn::cmp::rm_reg(lhs, reg, width, false, self.code);
            }
        }
        Ok(())
    }

    fn compare_imm(
        &mut self,
        cond: Cond,
        lhs: Rm,
        value: u64,
        width: Width,
        dest: Dest,
    ) -> Result<(), Refusal> {
        let signed = immediate(value, width)?;
        match (lhs, Imm::shortest(signed, width)) {
            // The same flags as a comparison with 0, in one byte less.
            (Rm::Reg(reg), Some(Imm::I8(0))) => insn::test(reg, width, &mut self.code.bytes),
            (_, Some(imm)) => insn::cmp::rm_imm(lhs, imm, width, false, self.code),
            (_, None) if self.any_free().is_some() => {
                let reg = self.in_temp(Value::Imm(value), width, "a 64-bit immediate")?;
                insn::cmp::rm_reg(lhs, reg, width, false, self.code);
            }
            (_, None) => return self.compare_halves(cond, lhs, value, dest),
        }
        Ok(())
    }

    /// Compares eight bytes in memory as twice four, where a difference in either is all that matters. The
    /// caller branches on the second half.
    fn compare_halves(&mut self, cond: Cond, lhs: Rm, value: u64, dest: Dest) -> Result<(), Refusal> {
        let Some(high) = upper_half(lhs).filter(|_| cond == Cond::Ne) else {
            return Err(Refusal::NoScratch("a 64-bit immediate"));
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
        Rm::Mem(Mem::Base { base, disp }) => {
            disp.checked_add(4).map(|disp| Rm::Mem(Mem::Base { base, disp }))
        }
        Rm::Mem(Mem::Low(disp)) => disp.checked_add(4).map(|disp| Rm::Mem(Mem::Low(disp))),
        Rm::Mem(Mem::Pc(target)) => Some(Rm::Mem(Mem::Pc(target.wrapping_add(4)))),
    }
}
