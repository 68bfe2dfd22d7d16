//! Comparisons, which set the condition code.
//!
//! Values of 1 and 2 bytes in registers are extended first, as the condition asks, and compared as
//! words.

use super::emit::Emitter;
use super::insn::{self, Mem};
use super::regs::Gpr;
use crate::backend::{EncodingRefusal, extended, immediate};
use crate::lower::Lower;
use crate::op::{Cond, Extension, OpValue, Width};

/// How numbers are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Signed,
    Unsigned,
    /// Only whether they are equal is asked.
    Either,
}

impl Order {
    fn of(cond: Cond) -> Self {
        match cond {
            Cond::Eq | Cond::Ne => Self::Either,
            Cond::Below | Cond::BelowOrEqual | Cond::Above | Cond::AboveOrEqual => Self::Unsigned,
            Cond::Less | Cond::LessOrEqual | Cond::Greater | Cond::GreaterOrEqual => Self::Signed,
        }
    }

    fn is_signed(self) -> bool {
        self == Self::Signed
    }

    fn extension(self) -> Extension {
        match self {
            Self::Signed => Extension::Sign,
            Self::Unsigned | Self::Either => Extension::Zero,
        }
    }

    /// The number as a signed immediate of 16 bits.
    fn signed16(self, value: i64) -> Option<u16> {
        let imm = i16::try_from(value).ok().filter(|_| self != Self::Unsigned);
        imm.map(|imm| imm as u16)
    }

    /// The number, of which `width` counts, as an unsigned immediate of 16 bits.
    fn unsigned16(self, value: i64, width: Width) -> Option<u16> {
        let value = if width == Width::B8 {
            value as u64
        } else {
            u64::from(value as u32)
        };
        u16::try_from(value).ok().filter(|_| !self.is_signed())
    }
}

impl Emitter<'_> {
    pub(super) fn compare(
        &mut self,
        cond: Cond,
        lhs: OpValue,
        rhs: OpValue,
        width: Width,
    ) -> Result<(), EncodingRefusal> {
        let order = Order::of(cond);
        for value in [lhs, rhs] {
            match value {
                OpValue::Reg(reg) => Self::gpr(reg).map(|_| ())?,
                OpValue::Imm(value, _) => immediate(value, width).map(|_| ())?,
                OpValue::Mem(_) | OpValue::Frame { .. } => {}
            }
        }
        let free = self.free;
        let (at, clobbers) = (self.code.bytes.len(), self.code.clobbers);
        if let (OpValue::Mem(address), OpValue::Imm(value, _)) = (lhs, rhs) {
            let lhs = self.address(address)?;
            if self.compare_mem_imm(lhs, immediate(value, width)?, width, order) {
                return Ok(());
            }
            // The address is made again on the way to a register.
            self.code.bytes.truncate(at);
            (self.free, self.code.clobbers) = (free, clobbers);
        }
        match width {
            Width::B1 | Width::B2 => self.compare_narrow(lhs, rhs, width, order),
            Width::B4 | Width::B8 => self.compare_wide(lhs, rhs, width, order),
        }
    }

    /// Compares memory with an immediate, where there is an instruction for it.
    fn compare_mem_imm(&mut self, lhs: Mem, value: i64, width: Width, order: Order) -> bool {
        if lhs.index.is_some() {
            return false;
        }
        if width == Width::B1 {
            if !order.is_signed() {
                insn::CLI.put(lhs, value as u8, &mut self.code.bytes);
            }
            return !order.is_signed();
        }
        let (signed, unsigned) = match width {
            Width::B1 | Width::B2 => (insn::CHHSI, insn::CLHHSI),
            Width::B4 => (insn::CHSI, insn::CLFHSI),
            Width::B8 => (insn::CGHSI, insn::CLGHSI),
        };
        // All 16 bits of a halfword fit either instruction.
        let unsigned_imm = match width {
            Width::B2 => (!order.is_signed()).then_some(value as u16),
            _ => order.unsigned16(value, width),
        };
        let insn = match (order.signed16(value), unsigned_imm) {
            _ if !lhs.is_short() => return false,
            (Some(imm), _) => signed.of(lhs, imm),
            (None, Some(imm)) => unsigned.of(lhs, imm),
            (None, None) => return false,
        };
        self.put(insn);
        true
    }

    fn compare_narrow(
        &mut self,
        lhs: OpValue,
        rhs: OpValue,
        width: Width,
        order: Order,
    ) -> Result<(), EncodingRefusal> {
        let extension = order.extension();
        let left = self.in_temp(lhs, width, extension, "a value to compare")?;
        if let OpValue::Imm(value, _) = rhs {
            let value = extended(value, width, extension)? as i64;
            self.compare_word(left, value, order);
            return Ok(());
        }
        let right = self.in_temp(rhs, width, extension, "a second value to compare")?;
        let insn = if order.is_signed() { insn::CR } else { insn::CLR };
        self.put(insn.of(left.0, right.0));
        Ok(())
    }

    /// Compares the low four bytes with a number of four bytes.
    fn compare_word(&mut self, left: Gpr, value: i64, order: Order) {
        let imm = value as u32;
        match order.signed16(value) {
            Some(imm) => self.put(insn::CHI.of(left.0, imm)),
            None if order.is_signed() => self.put(insn::CFI.of(left.0, imm)),
            None => self.put(insn::CLFI.of(left.0, imm)),
        }
    }

    fn compare_wide(
        &mut self,
        lhs: OpValue,
        rhs: OpValue,
        width: Width,
        order: Order,
    ) -> Result<(), EncodingRefusal> {
        let left = match lhs {
            OpValue::Reg(reg) => Self::gpr(reg)?,
            _ => self.in_temp(
                lhs,
                width,
                Extension::Zero,
                "a value to compare that is not in a register",
            )?,
        };
        let signed = order.is_signed();
        match (rhs, width) {
            (OpValue::Imm(value, _), Width::B8) => return self.compare_doubleword(left, value, order),
            (OpValue::Imm(value, _), _) => self.compare_word(left, immediate(value, width)?, order),
            (OpValue::Mem(address), _) => {
                let right = self.address(address)?;
                let insn = match (width, signed) {
                    (Width::B8, true) => insn::CG,
                    (Width::B8, false) => insn::CLG,
                    (_, true) => insn::C,
                    (_, false) => insn::CL,
                };
                insn.put(left.0, right, &mut self.code.bytes);
            }
            (OpValue::Reg(_) | OpValue::Frame { .. }, _) => {
                let right = match rhs {
                    OpValue::Reg(reg) => Self::gpr(reg)?,
                    _ => self.in_temp(rhs, width, Extension::Zero, "a second value to compare")?,
                };
                self.compare_gprs(left, right, width, signed);
            }
        }
        Ok(())
    }

    fn compare_gprs(&mut self, left: Gpr, right: Gpr, width: Width, signed: bool) {
        match (width, signed) {
            (Width::B8, true) => self.put(insn::CGR.of(left, right)),
            (Width::B8, false) => self.put(insn::CLGR.of(left, right)),
            (_, true) => self.put(insn::CR.of(left.0, right.0)),
            (_, false) => self.put(insn::CLR.of(left.0, right.0)),
        }
    }

    fn compare_doubleword(&mut self, left: Gpr, value: u64, order: Order) -> Result<(), EncodingRefusal> {
        let signed = value as i64;
        if let Some(imm) = order.signed16(signed) {
            self.put(insn::CGHI.of(left.0, imm));
            return Ok(());
        }
        let word = i32::try_from(signed).ok().filter(|_| order != Order::Unsigned);
        let unsigned_word = u32::try_from(value).ok().filter(|_| !order.is_signed());
        match (word, unsigned_word) {
            (Some(imm), _) => self.put(insn::CGFI.of(left.0, imm as u32)),
            (None, Some(imm)) => self.put(insn::CLGFI.of(left.0, imm)),
            (None, None) => {
                let right = self.take("a 64-bit immediate")?;
                right.put_constant(value, &mut self.code.bytes);
                self.compare_gprs(left, right, Width::B8, order.is_signed());
            }
        }
        Ok(())
    }
}
