//! Resolved operations to instructions.
//!
//! Invariant: registers written are the operation's destination and registers of `free`, nothing else; each
//! is noted in [`Code::clobbers`]. r0 is never taken as scratch: as a base it means 0.

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::RegSet;

use super::constant;
use super::insn::{self, Field, Gpr};
use super::regs::{CR0, CTR, Hw, LR, R12, SCRATCH_ORDER, XER, hw};
use super::{Convention, Flavor};
use crate::backend::{BranchKind, Code, Refusal, extended, immediate};
use crate::op::{Address, Base, Bits, Dest, Extension, Op, Value, Width};

pub(super) fn emit(flavor: Flavor, op: &Op<'_>, free: RegSet, code: &mut Code) -> Result<(), Refusal> {
    let mut emitter = Emitter { flavor, code, free };
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
            atomic: false,
        } => emitter.add_to_mem(to, src, width),
        Op::AddToMem {
            to,
            src,
            width,
            atomic: true,
        } => emitter.atomic_add(to, src, width),
        Op::Branch {
            cond,
            lhs,
            rhs,
            width,
            dest,
        } => emitter.branch(cond, lhs, rhs, width, dest),
        Op::Jump(dest) => {
            emitter.put_branch(BranchKind::Jump, dest, 0);
            Ok(())
        }
        Op::Call(addr) => emitter.call(addr),
        Op::Return => {
            emitter.put(insn::BLR);
            Ok(())
        }
        Op::Trap => {
            emitter.put(insn::ILLEGAL);
            Ok(())
        }
        Op::Raw(bytes) => emitter.raw(bytes),
    }
}

/// A base that is not r0, and a displacement.
#[derive(Clone, Copy)]
pub(super) struct Mem {
    base: Gpr,
    disp: i16,
}

pub(super) struct Emitter<'c> {
    pub(super) flavor: Flavor,
    pub(super) code: &'c mut Code,
    pub(super) free: RegSet,
}

/// A general register, or why not.
pub(super) fn gpr(reg: DwarfReg) -> Result<Gpr, Refusal> {
    match any(reg)? {
        Hw::Gpr(n) => Ok(Gpr(n)),
        Hw::Float(_) | Hw::Vector(_) => Err(Refusal::Unusable(
            "a vector register where a general register is needed",
        )),
    }
}

fn any(reg: DwarfReg) -> Result<Hw, Refusal> {
    hw(reg).ok_or(Refusal::Unusable("a register that instructions cannot name"))
}

/// Floating-point registers hold 8 bytes, and hand out 4 as a number of that size.
fn check_float(width: Width, extension: Extension) -> Result<(), Refusal> {
    match (width, extension) {
        (Width::B4, Extension::Zero) | (Width::B8, _) => Ok(()),
        _ => Err(Refusal::Unusable(
            "a floating-point register for a value that is not 4 or 8 bytes, or is sign-extended",
        )),
    }
}

impl Emitter<'_> {
    pub(super) fn put(&mut self, word: u32) {
        self.flavor.put(word, &mut self.code.bytes);
    }

    pub(super) fn put_constant(&mut self, reg: Gpr, value: u64) {
        constant::load(reg, value).put(self.flavor, &mut self.code.bytes);
    }

    fn any_free(&self) -> Option<DwarfReg> {
        SCRATCH_ORDER.into_iter().find(|reg| self.free.contains(*reg))
    }

    /// Notes that a register is written, and keeps it from being taken.
    pub(super) fn clobber(&mut self, reg: DwarfReg) {
        self.free = self.free.without(reg);
        self.code.clobbers = self.code.clobbers.with(reg);
    }

    /// A free general register.
    pub(super) fn take(&mut self, purpose: &'static str) -> Result<Gpr, Refusal> {
        let reg = self.any_free().ok_or(Refusal::NoScratch(purpose))?;
        self.clobber(reg);
        gpr(reg)
    }

    /// A free register of that number.
    pub(super) fn claim(&mut self, reg: DwarfReg, purpose: &'static str) -> Result<(), Refusal> {
        match self.free.contains(reg) {
            true => {
                self.clobber(reg);
                Ok(())
            }
            false => Err(Refusal::NoScratch(purpose)),
        }
    }

    /// Branches; a far form goes through a free register and CTR.
    pub(super) fn put_branch(&mut self, kind: BranchKind, dest: Dest, detail: u8) {
        let scratch = match dest {
            Dest::Addr(_) if self.free.contains(CTR) => self.any_free(),
            Dest::Addr(_) | Dest::Label(_) | Dest::End => None,
        };
        self.code.branch_with(kind, dest, scratch, detail.into());
    }

    fn raw(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        if bytes.len() % 4 != 0 {
            return Err(Refusal::Unusable("raw bytes that are no whole instructions of 4"));
        }
        self.code.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// As LLVM calls at patchpoints: through r12 and CTR, with the TOC pointer in its slot meanwhile.
    fn call(&mut self, addr: CodeAddr) -> Result<(), Refusal> {
        let r12 = gpr(R12)?;
        self.claim(R12, "r12, through which functions are called")?;
        self.claim(CTR, "the count register, through which functions are called")?;
        self.claim(LR, "the link register")?;
        let slot = self.flavor.convention.toc_slot();
        self.put_constant(r12, addr.get());
        self.put(insn::store(Gpr::TOC, Gpr::SP, slot, Width::B8));
        if self.flavor.convention == Convention::V1 {
            self.put(insn::load(Gpr::TOC, r12, 8, Width::B8, Extension::Zero));
            self.put(insn::load(r12, r12, 0, Width::B8, Extension::Zero));
        }
        self.put(insn::mtctr(r12));
        self.put(insn::BCTRL);
        self.put(insn::load_toc(slot));
        Ok(())
    }

    // ---- addresses ----

    /// The operand for a memory address. `aligned`: the displacement must be a multiple of 4. `temp` may be
    /// clobbered; else a register is taken where one is needed.
    pub(super) fn address(
        &mut self,
        address: Address,
        aligned: bool,
        temp: Option<Gpr>,
    ) -> Result<Mem, Refusal> {
        let temp = temp.filter(|temp| temp.0 != 0);
        match address.base {
            Base::Reg(reg) => self.near(gpr(reg)?, address.disp, aligned, temp),
            Base::Slot { reg, disp } => {
                let slot = self.near(gpr(reg)?, disp, true, temp)?;
                let base = match (temp, slot.base == gpr(reg)?) {
                    (Some(temp), _) => temp,
                    (None, false) => slot.base,
                    (None, true) => self.take("a base that has been spilled")?,
                };
                self.put(insn::load(base, slot.base, slot.disp, Width::B8, Extension::Zero));
                self.near(base, address.disp, aligned, Some(base))
            }
            Base::Absolute(base) => {
                let target = base.wrapping_add_signed(i64::from(address.disp));
                let low = match target as i16 {
                    low if aligned && low % 4 != 0 => 0,
                    low => low,
                };
                let base = self.temp(temp, "a fixed address")?;
                self.put_constant(base, target.wrapping_sub(low as u64));
                Ok(Mem { base, disp: low })
            }
        }
    }

    fn temp(&mut self, temp: Option<Gpr>, purpose: &'static str) -> Result<Gpr, Refusal> {
        match temp {
            Some(temp) => Ok(temp),
            None => self.take(purpose),
        }
    }

    /// `[base + disp]` with a displacement that instructions have.
    fn near(&mut self, base: Gpr, disp: i32, aligned: bool, temp: Option<Gpr>) -> Result<Mem, Refusal> {
        let fits = i16::try_from(disp).ok();
        if let Some(disp) = fits.filter(|disp| base.0 != 0 && !(aligned && disp % 4 != 0)) {
            return Ok(Mem { base, disp });
        }
        let to = self.temp(temp, "a displacement that no instruction has, or a base in r0")?;
        match constant::split(i64::from(disp)) {
            Some((high, low)) if base.0 != 0 && !(aligned && low % 4 != 0) => {
                self.put(insn::addis(to, base, high));
                Ok(Mem { base: to, disp: low })
            }
            _ => {
                self.put_sum(to, base, i64::from(disp))?;
                Ok(Mem { base: to, disp: 0 })
            }
        }
    }

    /// `to = from + value`. `to` may be `from`.
    pub(super) fn put_sum(&mut self, to: Gpr, from: Gpr, value: i64) -> Result<(), Refusal> {
        if value == 0 {
            if to != from {
                self.put(insn::mr(to, from));
            }
            return Ok(());
        }
        // A base in r0 means 0, but it can be copied first.
        let base = match from.0 {
            0 if to.0 != 0 => {
                self.put(insn::mr(to, from));
                to
            }
            _ => from,
        };
        match constant::split(value).filter(|_| base.0 != 0) {
            Some((0, low)) => self.put(insn::addi(to, base, low)),
            Some((high, 0)) => self.put(insn::addis(to, base, high)),
            Some((high, low)) => {
                self.put(insn::addis(to, base, high));
                // `to` is r0 only if it is read as a base: then the sum is made the other way.
                match to.0 {
                    0 => return self.put_low_sum(low),
                    _ => self.put(insn::addi(to, to, low)),
                }
            }
            None => {
                let addend = match to == base {
                    true => self.take("a number to add that no instruction has")?,
                    false => to,
                };
                self.put_constant(addend, value as u64);
                self.put(insn::add(to, base, addend));
            }
        }
        Ok(())
    }

    /// Adds to r0.
    fn put_low_sum(&mut self, low: i16) -> Result<(), Refusal> {
        let addend = self.take("a number to add to r0")?;
        self.put(insn::li(addend, low));
        self.put(insn::add(Gpr(0), Gpr(0), addend));
        Ok(())
    }

    // ---- values ----

    /// Loads any value into a free register.
    pub(super) fn in_temp(
        &mut self,
        value: Value,
        width: Width,
        extension: Extension,
        purpose: &'static str,
    ) -> Result<Gpr, Refusal> {
        let reg = self.take(purpose)?;
        self.mov_to_gpr(reg, value, width, extension)?;
        Ok(reg)
    }

    fn mov(&mut self, dst: DwarfReg, src: Value, width: Width, extension: Extension) -> Result<(), Refusal> {
        self.clobber(dst);
        match any(dst)? {
            Hw::Gpr(n) => self.mov_to_gpr(Gpr(n), src, width, extension),
            Hw::Float(n) => self.mov_to_float(n, src, width, extension),
            Hw::Vector(n) => self.mov_to_vector(n + 32, src, width),
        }
    }

    pub(super) fn mov_to_gpr(
        &mut self,
        dst: Gpr,
        src: Value,
        width: Width,
        extension: Extension,
    ) -> Result<(), Refusal> {
        match src {
            Value::Reg(reg) => match any(reg)? {
                Hw::Gpr(n) if n == dst.0 && width == Width::B8 => {}
                Hw::Gpr(n) => self.put(insn::extend(dst, Gpr(n), width, extension)),
                Hw::Float(n) => return self.mov_from_vector(dst, n, width),
                Hw::Vector(n) => return self.mov_from_vector(dst, n + 32, width),
            },
            Value::Imm(value) => self.put_constant(dst, extended(value, width, extension)?),
            Value::Mem(address) => {
                let src = self.address(address, insn::is_ds(width, extension), Some(dst))?;
                self.put(insn::load(dst, src.base, src.disp, width, extension));
                if (width, extension) == (Width::B1, Extension::Sign) {
                    self.put(insn::extend(dst, dst, width, extension));
                }
            }
            Value::Frame { .. } if width != Width::B8 => {
                return Err(Refusal::Unusable("part of the address of a stack slot"));
            }
            Value::Frame { reg, disp } => return self.put_sum(dst, gpr(reg)?, i64::from(disp)),
        }
        Ok(())
    }

    fn check_direct_moves(&self, width: Width) -> Result<(), Refusal> {
        if width != Width::B8 {
            return Err(Refusal::Unusable(
                "less than 8 bytes between a general and a vector register",
            ));
        }
        if !self.flavor.has_isa_2_07() {
            return Err(Refusal::Unusable(
                "a move between a general and a vector register, which older processors of big-endian systems lack",
            ));
        }
        Ok(())
    }

    fn mov_from_vector(&mut self, dst: Gpr, src: u8, width: Width) -> Result<(), Refusal> {
        self.check_direct_moves(width)?;
        self.put(insn::mfvsrd(dst, src));
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
                // A number of 4 bytes is kept as one of 8.
                Hw::Float(n) => self.put(insn::fmr(dst, n)),
                Hw::Gpr(_) | Hw::Vector(_) => return self.mov_to_vector(dst, src, width),
            },
            Value::Mem(address) => {
                let src = self.address(address, false, None)?;
                self.put(insn::load_float(dst, src.base, src.disp, width));
            }
            Value::Imm(_) => return self.mov_to_vector(dst, src, width),
            Value::Frame { .. } => return Err(Refusal::Unusable("an address for a vector register")),
        }
        Ok(())
    }

    /// To the first doubleword of a vector register, 0 to 63.
    fn mov_to_vector(&mut self, dst: u8, src: Value, width: Width) -> Result<(), Refusal> {
        self.check_direct_moves(width)?;
        let bits = match src {
            Value::Reg(reg) => gpr(reg)?,
            Value::Imm(_) | Value::Mem(_) => {
                self.in_temp(src, width, Extension::Zero, "a value for a vector register")?
            }
            Value::Frame { .. } => return Err(Refusal::Unusable("an address for a vector register")),
        };
        self.put(insn::mtvsrd(dst, bits));
        Ok(())
    }

    // ---- operations ----

    fn store(&mut self, to: Address, src: Value, width: Width) -> Result<(), Refusal> {
        if let Value::Reg(reg) = src {
            if let Hw::Float(n) = any(reg)? {
                check_float(width, Extension::Zero)?;
                let to = self.address(to, false, None)?;
                self.put(insn::store_float(n, to.base, to.disp, width));
                return Ok(());
            }
        }
        let src = match src {
            Value::Reg(reg) if hw(reg).is_some_and(|reg| matches!(reg, Hw::Gpr(_))) => gpr(reg)?,
            _ => {
                // Constants are shorter with their sign, loads without.
                let extension = match src {
                    Value::Imm(_) => Extension::Sign,
                    _ => Extension::Zero,
                };
                self.in_temp(
                    src,
                    width,
                    extension,
                    "a value to store that is not in a register",
                )?
            }
        };
        let to = self.address(to, insn::is_ds(width, Extension::Zero), None)?;
        self.put(insn::store(src, to.base, to.disp, width));
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
        self.clobber(dst);
        match src {
            Value::Imm(value) => {
                let value = extended(value, width, extension)? as i64;
                self.put_sum(reg, reg, value)
            }
            Value::Reg(src) if width == Width::B8 => {
                let src = gpr(src)?;
                self.put(insn::add(reg, reg, src));
                Ok(())
            }
            _ => {
                let temp = self.in_temp(src, width, extension, "a value to add that is not in a register")?;
                self.put(insn::add(reg, reg, temp));
                Ok(())
            }
        }
    }

    fn bits(&mut self, dst: DwarfReg, what: Bits) -> Result<(), Refusal> {
        let reg = gpr(dst)?;
        self.clobber(dst);
        let word = match what {
            Bits::And(mask) => return self.and(reg, mask),
            Bits::Left(0) | Bits::Right(0) | Bits::RightSigned(0) => return Ok(()),
            Bits::Left(by) => insn::rldicr(reg, reg, by & 63, 63 - (by & 63)),
            Bits::Right(by) => insn::rldicl(reg, reg, 64 - (by & 63), by & 63),
            Bits::RightSigned(by) => {
                self.claim(XER, "the carry, which a signed shift writes")?;
                insn::sradi(reg, reg, by & 63)
            }
        };
        self.put(word);
        Ok(())
    }

    fn and(&mut self, reg: Gpr, mask: u64) -> Result<(), Refusal> {
        if mask == u64::MAX {
            return Ok(());
        }
        if mask == 0 {
            self.put(insn::li(reg, 0));
            return Ok(());
        }
        // Bits that are cleared at one end only: no constant is needed. The forms with an immediate write cr0.
        if mask.wrapping_add(1).is_power_of_two() {
            self.put(insn::rldicl(reg, reg, 0, mask.leading_zeros() as u8));
        } else if (!mask).wrapping_add(1).is_power_of_two() {
            self.put(insn::rldicr(
                reg,
                reg,
                0,
                63 - mask.trailing_zeros().min(63) as u8,
            ));
        } else {
            let value = Value::Imm(mask);
            let mask = self.in_temp(
                value,
                Width::B8,
                Extension::Zero,
                "a mask that no instruction has",
            )?;
            self.put(insn::and(reg, reg, mask));
        }
        Ok(())
    }

    fn add_to_mem(&mut self, to: Address, src: Value, width: Width) -> Result<(), Refusal> {
        let addend = self.addend(src, width)?;
        let to = self.address(to, insn::is_ds(width, Extension::Zero), None)?;
        let sum = self.take("a value of memory")?;
        self.put(insn::load(sum, to.base, to.disp, width, Extension::Zero));
        self.put_addend(sum, addend)?;
        self.put(insn::store(sum, to.base, to.disp, width));
        Ok(())
    }

    /// A constant stays one if it can be added at once.
    fn addend(&mut self, src: Value, width: Width) -> Result<Addend, Refusal> {
        Ok(match src {
            Value::Imm(value) => {
                let value = immediate(value, width)?;
                match constant::split(value) {
                    Some(_) => Addend::Imm(value),
                    None => Addend::Reg(self.in_temp(src, width, Extension::Zero, "a 64-bit immediate")?),
                }
            }
            Value::Reg(reg) => Addend::Reg(gpr(reg)?),
            Value::Mem(_) | Value::Frame { .. } => {
                let purpose = "a value to add that is not in a register";
                Addend::Reg(self.in_temp(src, width, Extension::Zero, purpose)?)
            }
        })
    }

    fn put_addend(&mut self, sum: Gpr, addend: Addend) -> Result<(), Refusal> {
        match addend {
            Addend::Imm(value) => self.put_sum(sum, sum, value),
            Addend::Reg(reg) => {
                self.put(insn::add(sum, sum, reg));
                Ok(())
            }
        }
    }

    /// A loop of a load with reservation and a conditional store (Power ISA book II, 4.6.2 and B.2). It orders no other
    /// accesses.
    fn atomic_add(&mut self, to: Address, src: Value, width: Width) -> Result<(), Refusal> {
        if matches!(width, Width::B1 | Width::B2) && !self.flavor.has_isa_2_07() {
            return Err(Refusal::Unusable(
                "an atomic addition of 1 or 2 bytes, which older processors of big-endian systems lack",
            ));
        }
        let addend = self.addend(src, width)?;
        let to = match to {
            Address {
                base: Base::Reg(reg),
                disp: 0,
            } => gpr(reg)?,
            _ => self.exact(to)?,
        };
        let sum = self.take("a value of memory")?;
        let field = Field(0);
        let saved = !self.free.contains(CR0);
        if saved {
            self.claim(LR, "condition field 0, which a conditional store writes")?;
            self.put(insn::mfocrf(sum, field));
            self.put(insn::mtlr(sum));
        } else {
            self.clobber(CR0);
        }
        let start = self.code.at();
        self.put(insn::load_reserve(sum, to, width));
        self.put_addend(sum, addend)?;
        self.put(insn::store_conditional(sum, to, width));
        // At most five instructions.
        let back = start.wrapping_sub(self.code.at()) as i16;
        self.put(insn::bc(4, 2, back));
        if saved {
            self.put(insn::mflr(sum));
            self.put(insn::mtocrf(field, sum));
        }
        Ok(())
    }

    /// A register with the address itself.
    fn exact(&mut self, address: Address) -> Result<Gpr, Refusal> {
        let to = self.take("the address of an atomic addition")?;
        let mem = self.address(address, false, Some(to))?;
        self.put_sum(to, mem.base, i64::from(mem.disp))?;
        Ok(to)
    }
}

/// What is added to memory.
#[derive(Clone, Copy)]
enum Addend {
    /// Fits `addis` and `addi`.
    Imm(i64),
    Reg(Gpr),
}
