//! Resolved operations to instructions.
//!
//! Invariant: registers written are the operation's destination and registers of `free`, nothing else; each
//! is noted in [`Code::clobbers`]. The condition code is dead between operations and so may be written.

use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::RegSet;

use super::insn::{self, Mem, Rs, Rx};
use super::regs::{BRANCH_ORDER, Fpr, Gpr, Hw, VALUE_ORDER, hw};
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
            atomic: true,
        } => emitter.add_atomically(to, src, width),
        Op::AddToMem {
            to,
            src,
            width,
            atomic: false,
        } => emitter.add_to_mem(to, src, width),
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
            emitter.put(insn::RETURN);
            Ok(())
        }
        Op::Trap => {
            emitter.put(insn::TRAP);
            Ok(())
        }
        Op::Raw(bytes) if bytes.len() % 2 != 0 => {
            Err(Refusal::Unusable("an odd number of bytes as instructions"))
        }
        Op::Raw(bytes) => {
            emitter.code.bytes.extend_from_slice(bytes);
            Ok(())
        }
    }
}

pub(super) struct Emitter<'c> {
    pub(super) code: &'c mut Code,
    pub(super) free: RegSet,
}

/// A register that holds values, or why not.
fn any(reg: DwarfReg) -> Result<Hw, Refusal> {
    hw(reg).ok_or(Refusal::Unusable("a register that instructions cannot name"))
}

/// A general register, or why not.
pub(super) fn gpr(reg: DwarfReg) -> Result<Gpr, Refusal> {
    match any(reg)? {
        Hw::Gpr(reg) => Ok(reg),
        Hw::Fpr(_) | Hw::UpperVector => Err(Refusal::Unusable(
            "a vector register where a general register is needed",
        )),
    }
}

const UPPER: Refusal =
    Refusal::Unusable("v16 to v31, which only instructions of the vector facility can name");

/// Only 4 and 8 bytes go to and from floating-point registers.
fn check_float(width: Width, extension: Extension) -> Result<(), Refusal> {
    match (width, extension) {
        (Width::B4, Extension::Zero) | (Width::B8, _) => Ok(()),
        _ => Err(Refusal::Unusable(
            "a vector register for a value that is not 4 or 8 bytes, or is sign-extended",
        )),
    }
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

impl Emitter<'_> {
    pub(super) fn put<const N: usize>(&mut self, insn: [u8; N]) {
        self.code.bytes.extend(insn);
    }

    /// A free register, the first in that order.
    pub(super) fn take(&mut self, order: &[DwarfReg], purpose: &'static str) -> Result<Gpr, Refusal> {
        let reg = self.first_free(order).ok_or(Refusal::NoScratch(purpose))?;
        self.free = self.free.without(reg);
        self.code.clobbers = self.code.clobbers.with(reg);
        gpr(reg)
    }

    pub(super) fn take_value(&mut self, purpose: &'static str) -> Result<Gpr, Refusal> {
        self.take(&VALUE_ORDER, purpose)
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

    /// Loads any value into a free register.
    pub(super) fn in_temp(
        &mut self,
        value: Value,
        width: Width,
        extension: Extension,
        purpose: &'static str,
    ) -> Result<Gpr, Refusal> {
        let free = self.free;
        let reg = self.first_free(&VALUE_ORDER).ok_or(Refusal::NoScratch(purpose))?;
        // On the way the same register may hold the address of the value.
        self.mov(reg, value, width, extension)?;
        self.free = free.without(reg);
        gpr(reg)
    }

    fn mov(&mut self, dst: DwarfReg, src: Value, width: Width, extension: Extension) -> Result<(), Refusal> {
        self.code.clobbers = self.code.clobbers.with(dst);
        match any(dst)? {
            Hw::Gpr(reg) => self.mov_to_gpr(dst, reg, src, width, extension),
            Hw::Fpr(reg) => self.mov_to_fpr(reg, src, width, extension),
            Hw::UpperVector => Err(UPPER),
        }
    }

    fn mov_to_gpr(
        &mut self,
        dst: DwarfReg,
        reg: Gpr,
        src: Value,
        width: Width,
        extension: Extension,
    ) -> Result<(), Refusal> {
        match src {
            Value::Reg(src) => match any(src)? {
                Hw::Gpr(src) if src == reg && width == Width::B8 => {}
                Hw::Gpr(src) => self.put(copy(width, extension).of(reg, src)),
                Hw::Fpr(src) => self.mov_from_fpr(reg, src, width, extension)?,
                Hw::UpperVector => return Err(UPPER),
            },
            Value::Imm(value) => {
                reg.put_constant(extended(value, width, extension)?, &mut self.code.bytes);
            }
            Value::Mem(address) => {
                let src = self.address_before(dst, address)?;
                load(width, extension).put(reg.0, src, &mut self.code.bytes);
            }
            Value::Frame { .. } if width != Width::B8 => {
                return Err(Refusal::Unusable("part of the address of a stack slot"));
            }
            Value::Frame { reg: base, disp } => self.frame_address(reg, gpr(base)?, disp),
        }
        Ok(())
    }

    /// An address for an instruction that writes `dst`, which may hold the address until then.
    fn address_before(&mut self, dst: DwarfReg, address: Address) -> Result<Mem, Refusal> {
        let free = self.free;
        if address.base.reg() != Some(dst) {
            self.free = free.with(dst);
        }
        let mem = self.address(address);
        self.free = free;
        mem
    }

    fn frame_address(&mut self, dst: Gpr, base: Gpr, disp: i32) {
        let near = Mem::base(base, disp);
        if disp == 0 {
            if dst != base {
                self.put(insn::LGR.of(dst, base));
            }
        } else if base != Gpr(0) && (-(1 << 19)..1 << 19).contains(&disp) {
            insn::LA.put(dst.0, near, &mut self.code.bytes);
        } else if dst == base {
            self.put(insn::AGFI.of(dst.0, disp as u32));
        } else {
            dst.put_constant(i64::from(disp) as u64, &mut self.code.bytes);
            self.put(insn::AGR.of(dst, base));
        }
    }

    fn mov_from_fpr(
        &mut self,
        dst: Gpr,
        src: Fpr,
        width: Width,
        extension: Extension,
    ) -> Result<(), Refusal> {
        let half = match (width, extension) {
            (Width::B8, _) => None,
            (Width::B4, Extension::Zero) => Some(insn::SRLG),
            (Width::B4, Extension::Sign) => Some(insn::SRAG),
            _ => return Err(Refusal::Unusable("less than 4 bytes of a vector register")),
        };
        self.put(insn::lgdr(dst, src));
        if let Some(shift) = half {
            self.shift(shift, dst, dst, 32);
        }
        Ok(())
    }

    fn mov_to_fpr(
        &mut self,
        dst: Fpr,
        src: Value,
        width: Width,
        extension: Extension,
    ) -> Result<(), Refusal> {
        check_float(width, extension)?;
        let left = if width == Width::B4 { 32 } else { 0 };
        match src {
            Value::Reg(reg) => match any(reg)? {
                Hw::Fpr(src) if src == dst => {}
                Hw::Fpr(src) => self.put(insn::LDR.of(dst.0, src.0)),
                Hw::Gpr(src) if left == 0 => self.put(insn::ldgr(dst, src)),
                Hw::Gpr(src) => {
                    let bits = self.take_value("4 bytes for a vector register")?;
                    self.shift(insn::SLLG, bits, src, left);
                    self.put(insn::ldgr(dst, bits));
                }
                Hw::UpperVector => return Err(UPPER),
            },
            Value::Mem(address) => {
                let src = self.address(address)?;
                let load = if left == 0 { insn::LD } else { insn::LE };
                load.put(dst.0, src, &mut self.code.bytes);
            }
            Value::Imm(0) => self.put(insn::LZDR.numbers(dst.0, 0)),
            Value::Imm(value) => {
                let value = extended(value, width, extension)? << left;
                let bits = self.take_value("a constant for a vector register")?;
                bits.put_constant(value, &mut self.code.bytes);
                self.put(insn::ldgr(dst, bits));
            }
            Value::Frame { .. } => {
                return Err(Refusal::Unusable("an address for a vector register"));
            }
        }
        Ok(())
    }

    fn shift(&mut self, insn: Rs, dst: Gpr, src: Gpr, by: u8) {
        insn::shift(insn, dst, src, by, &mut self.code.bytes);
    }

    fn store(&mut self, to: Address, src: Value, width: Width) -> Result<(), Refusal> {
        let to = self.address(to)?;
        match src {
            Value::Reg(reg) => match any(reg)? {
                Hw::Gpr(reg) => self.store_gpr(to, reg, width),
                Hw::Fpr(reg) => {
                    check_float(width, Extension::Zero)?;
                    let store = if width == Width::B4 { insn::STE } else { insn::STD };
                    store.put(reg.0, to, &mut self.code.bytes);
                }
                Hw::UpperVector => return Err(UPPER),
            },
            Value::Imm(value) => {
                let value = immediate(value, width)?;
                if self.store_imm(to, value, width) {
                    return Ok(());
                }
                let reg = self.in_temp(src, width, Extension::Sign, "an immediate to store")?;
                self.store_gpr(to, reg, width);
            }
            Value::Mem(_) | Value::Frame { .. } => {
                let purpose = "a value to store that is not in a register";
                let reg = self.in_temp(src, width, Extension::Zero, purpose)?;
                self.store_gpr(to, reg, width);
            }
        }
        Ok(())
    }

    pub(super) fn store_gpr(&mut self, to: Mem, reg: Gpr, width: Width) {
        let insn = match width {
            Width::B1 => insn::STC,
            Width::B2 => insn::STH,
            Width::B4 => insn::ST,
            Width::B8 => insn::STG,
        };
        insn.put(reg.0, to, &mut self.code.bytes);
    }

    /// Stores an immediate without a register, where there is an instruction for it.
    fn store_imm(&mut self, to: Mem, value: i64, width: Width) -> bool {
        if to.index.is_some() {
            return false;
        }
        let insn = match width {
            Width::B1 => {
                insn::MVI.put(to, value as u8, &mut self.code.bytes);
                return true;
            }
            Width::B2 => insn::MVHHI,
            Width::B4 => insn::MVHI,
            Width::B8 => insn::MVGHI,
        };
        match i16::try_from(value) {
            Ok(value) if to.is_short() => {
                self.put(insn.of(to, value as u16));
                true
            }
            _ => false,
        }
    }

    fn bits(&mut self, dst: DwarfReg, what: Bits) -> Result<(), Refusal> {
        let reg = gpr(dst)?;
        self.code.clobbers = self.code.clobbers.with(dst);
        match what {
            Bits::And(mask) => self.and(reg, mask),
            Bits::Left(by) => self.shift(insn::SLLG, reg, reg, by),
            Bits::Right(by) => self.shift(insn::SRLG, reg, reg, by),
            Bits::RightSigned(by) => self.shift(insn::SRAG, reg, reg, by),
        }
        Ok(())
    }

    /// Keeps the bits of the mask, in the shortest form.
    fn and(&mut self, reg: Gpr, mask: u64) {
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
    }

    fn and_halves(&mut self, reg: Gpr, mask: u64) {
        for (insn, half) in [(insn::NILF, mask as u32), (insn::NIHF, (mask >> 32) as u32)] {
            if half != u32::MAX {
                self.put(insn.of(reg.0, half));
            }
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
        let (cond, lhs, rhs) = match (lhs, rhs) {
            (Value::Imm(_), Value::Reg(_) | Value::Mem(_) | Value::Frame { .. }) => {
                (cond.swapped(), rhs, lhs)
            }
            _ => (cond, lhs, rhs),
        };
        let free = self.free;
        self.compare(cond, lhs, rhs, width)?;
        // What the comparison took is free again.
        self.free = free;
        self.put_branch(BranchKind::JumpIf(cond), dest);
        Ok(())
    }
}
