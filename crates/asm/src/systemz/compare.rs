//! Comparisons, which set the condition code.
//!
//! Values of 1 and 2 bytes in registers are extended first, as the condition asks, and compared as
//! words.

use super::emit::Emitter;
use super::holes;
use super::insn::{self, Mem};
use super::regs::Gpr;
use crate::backend::{EncodingRefusal, extended, immediate};
use crate::hole::{Class, Classes, Part};
use crate::lower::Lower;
use crate::op::{Cond, Extension, OpValue, ValueNumber, Width};

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

    /// Numbers of a width by the instructions that they are compared by: which of 16 bits, which of
    /// 32.
    fn classes(self, width: Width) -> Classes {
        let order = match self {
            Self::Signed => 0,
            Self::Unsigned => 0x10,
            Self::Either => 0x20,
        };
        Classes {
            of: |value, with| {
                let order = match with >> 4 {
                    0 => Self::Signed,
                    1 => Self::Unsigned,
                    _ => Self::Either,
                };
                let (value, width) = (value as i64, Width::of((with & 15).into()));
                let unsigned = width.and_then(|width| order.unsigned16(value, width));
                let words = [i32::try_from(value).is_ok(), u32::try_from(value).is_ok()];
                let forms = [
                    order.signed16(value).is_some(),
                    unsigned.is_some(),
                    words[0],
                    words[1],
                ];
                Class::Of(forms.into_iter().fold(0, |all, form| all << 1 | u64::from(form)))
            },
            with: order | width.bytes() as u8,
        }
    }

    /// The number as a signed immediate of 16 bits.
    fn signed16(self, value: i64) -> Option<u16> {
        let imm = i16::try_from(value).ok().filter(|_| self != Self::Unsigned);
        imm.map(|imm| imm as u16)
    }

    /// The number, of which `width` counts, as an unsigned immediate of 16 bits.
    fn unsigned16(self, value: i64, width: Width) -> Option<u16> {
        let value = match width {
            Width::B8 => value as u64,
            Width::B4 => u64::from(value as u32),
            // All 16 bits of a halfword fit.
            Width::B2 | Width::B1 => u64::from(value as u16),
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
        if let (OpValue::Mem(address), OpValue::Imm(value, number)) = (lhs, rhs) {
            let value = immediate(value, width)?;
            if width != Width::B1 {
                let disp = i64::from(address.disp) as u64;
                self.code.requires(address.number, disp, holes::SHORT_OR_NOT);
                self.code.requires(number, value as u64, order.classes(width));
            }
            let mark = self.code.mark();
            let lhs = self.address(address)?;
            if self.compare_mem_imm(lhs, (value, number), width, order) {
                return Ok(());
            }
            // The address is made again on the way to a register.
            self.code.forget(mark);
            self.free = free;
        }
        match width {
            Width::B1 | Width::B2 => self.compare_narrow(lhs, rhs, width, order),
            Width::B4 | Width::B8 => self.compare_wide(lhs, rhs, width, order),
        }
    }

    /// Compares memory with an immediate, where there is an instruction for it.
    fn compare_mem_imm(
        &mut self,
        lhs: Mem,
        (value, number): (i64, Option<ValueNumber>),
        width: Width,
        order: Order,
    ) -> bool {
        if lhs.index.is_some() {
            return false;
        }
        self.code.uses(number, value as u64, Classes::ALL);
        if width == Width::B1 {
            if !order.is_signed() {
                self.access_by_byte(insn::CLI, lhs, value as u8);
            }
            return !order.is_signed();
        }
        let (signed, unsigned) = match width {
            Width::B1 | Width::B2 => (insn::CHHSI, insn::CLHHSI),
            Width::B4 => (insn::CHSI, insn::CLFHSI),
            Width::B8 => (insn::CGHSI, insn::CLGHSI),
        };
        let unsigned_imm = order.unsigned16(value, width);
        let (insn, imm) = match (order.signed16(value), unsigned_imm) {
            _ if !lhs.is_short() => return false,
            (Some(imm), _) => (signed, imm),
            (None, Some(imm)) => (unsigned, imm),
            (None, None) => return false,
        };
        self.access_by_halfword(insn, lhs, imm);
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
        if let OpValue::Imm(value, number) = rhs {
            let value = extended(value, width, extension)? as i64;
            self.compare_word(left, (value, number), order);
            return Ok(());
        }
        let right = self.in_temp(rhs, width, extension, "a second value to compare")?;
        let insn = if order.is_signed() { insn::CR } else { insn::CLR };
        self.put(insn.of(left.0, right.0));
        Ok(())
    }

    /// Compares the low four bytes with a number of four bytes.
    fn compare_word(&mut self, left: Gpr, (value, number): (i64, Option<ValueNumber>), order: Order) {
        let imm = value as u32;
        self.code.uses(number, value as u64, order.classes(Width::B4));
        match order.signed16(value) {
            Some(imm) => self.put_immediate(insn::CHI.of(left.0, imm), 2, Part::WHOLE),
            None if order.is_signed() => self.put_immediate(insn::CFI.of(left.0, imm), 4, Part::WHOLE),
            None => self.put_immediate(insn::CLFI.of(left.0, imm), 4, Part::WHOLE),
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
            (OpValue::Imm(value, number), Width::B8) => {
                return self.compare_doubleword(left, (value, number), order);
            }
            (OpValue::Imm(value, number), _) => {
                self.compare_word(left, (immediate(value, width)?, number), order);
            }
            (OpValue::Mem(address), _) => {
                let right = self.address(address)?;
                let insn = match (width, signed) {
                    (Width::B8, true) => insn::CG,
                    (Width::B8, false) => insn::CLG,
                    (_, true) => insn::C,
                    (_, false) => insn::CL,
                };
                self.access(insn, left.0, right);
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

    fn compare_doubleword(
        &mut self,
        left: Gpr,
        (value, number): (u64, Option<ValueNumber>),
        order: Order,
    ) -> Result<(), EncodingRefusal> {
        let signed = value as i64;
        self.code.uses(number, value, order.classes(Width::B8));
        if let Some(imm) = order.signed16(signed) {
            self.put_immediate(insn::CGHI.of(left.0, imm), 2, Part::WHOLE);
            return Ok(());
        }
        let word = i32::try_from(signed).ok().filter(|_| order != Order::Unsigned);
        let unsigned_word = u32::try_from(value).ok().filter(|_| !order.is_signed());
        match (word, unsigned_word) {
            (Some(imm), _) => self.put_immediate(insn::CGFI.of(left.0, imm as u32), 4, Part::WHOLE),
            (None, Some(imm)) => self.put_immediate(insn::CLGFI.of(left.0, imm), 4, Part::WHOLE),
            (None, None) => {
                let right = self.take("a 64-bit immediate")?;
                self.put_value(right, value, number);
                self.compare_gprs(left, right, Width::B8, order.is_signed());
            }
        }
        Ok(())
    }
}
