//! Additions.

use super::emit::Emitter;
use super::holes;
use super::insn::{self, Mem};
use super::regs::Gpr;
use crate::backend::{EncodingRefusal, immediate};
use crate::hole::{Classes, Part};
use crate::lower::Lower;
use crate::op::{Address, Extension, OpValue, ValueNumber, Width};

impl Emitter<'_> {
    /// Adds what one instruction can add to all 64 bits.
    pub(super) fn add_in_one(
        &mut self,
        to: Gpr,
        by: OpValue,
        width: Width,
        extension: Extension,
    ) -> Result<bool, EncodingRefusal> {
        let (add, add_memory) = match (width, extension) {
            (Width::B8, _) => (insn::AGR, insn::AG),
            (Width::B4, Extension::Sign) => (insn::AGFR, insn::AGF),
            (Width::B4, Extension::Zero) => (insn::ALGFR, insn::ALGF),
            _ => return Ok(false),
        };
        match by {
            OpValue::Reg(by) => {
                let by = Self::gpr(by)?;
                self.put(add.of(to, by));
            }
            OpValue::Mem(address) => {
                let by = self.address(address)?;
                self.access(add_memory, to.0, by);
            }
            OpValue::Imm(..) | OpValue::Frame { .. } => return Ok(false),
        }
        Ok(true)
    }

    /// Adds a constant to all 64 bits.
    pub(super) fn add_imm(
        &mut self,
        reg: Gpr,
        value: u64,
        number: Option<ValueNumber>,
    ) -> Result<(), EncodingRefusal> {
        let signed = value as i64;
        self.code.uses(number, value, holes::ADDED);
        if let Ok(imm) = i16::try_from(signed) {
            self.put_immediate(insn::AGHI.of(reg.0, imm as u16), 2, Part::WHOLE);
        } else if let Ok(imm) = i32::try_from(signed) {
            self.put_immediate(insn::AGFI.of(reg.0, imm as u32), 4, Part::WHOLE);
        } else if let Ok(imm) = u32::try_from(value) {
            self.put_immediate(insn::ALGFI.of(reg.0, imm), 4, Part::WHOLE);
        } else if let Ok(imm) = u32::try_from(value.wrapping_neg()) {
            self.put_immediate(insn::SLGFI.of(reg.0, imm), 4, Part::OPPOSITE);
        } else {
            let temp = self.take("a 64-bit immediate")?;
            self.put_value(temp, value, number);
            self.put(insn::AGR.of(reg, temp));
        }
        Ok(())
    }

    pub(super) fn add_value_to_mem(
        &mut self,
        to: Address,
        src: OpValue,
        width: Width,
    ) -> Result<(), EncodingRefusal> {
        if let OpValue::Imm(value, number) = src {
            if self.add_imm_to_mem(to, (immediate(value, width)?, number), width)? {
                return Ok(());
            }
        }
        let purpose = "a value to add to memory";
        if let (Width::B1, OpValue::Mem(_) | OpValue::Frame { .. }) = (width, src) {
            let src = self.in_temp(src, width, Extension::Zero, purpose)?;
            let to = self.address(to)?;
            return self.add_byte(to, |emitter, sum| emitter.put(insn::AR.of(sum.0, src.0)));
        }
        match (width, src) {
            (Width::B1, OpValue::Reg(reg)) => {
                let (src, to) = (Self::gpr(reg)?, self.address(to)?);
                self.add_byte(to, |emitter, sum| emitter.put(insn::AR.of(sum.0, src.0)))
            }
            (Width::B1, OpValue::Imm(value, number)) => {
                let (value, to) = (immediate(value, width)? as u64, self.address(to)?);
                self.add_byte(to, |emitter, sum| {
                    emitter.code.uses(number, value, Classes::ALL);
                    emitter.put_immediate(insn::AHI.of(sum.0, value as u16), 2, Part::WHOLE);
                })
            }
            _ => {
                if let OpValue::Reg(reg) = src {
                    Self::gpr(reg)?;
                }
                let sum = self.in_temp(src, width, Extension::Sign, purpose)?;
                let to = self.address(to)?;
                let add = match width {
                    Width::B8 => insn::AG,
                    Width::B4 => insn::A,
                    Width::B1 | Width::B2 => insn::AH,
                };
                self.access(add, sum.0, to);
                self.store_gpr(to, sum, width);
                Ok(())
            }
        }
    }

    /// Adds without a register, where there is an instruction for it.
    pub(super) fn add_imm_to_mem(
        &mut self,
        to: Address,
        (value, number): (i64, Option<ValueNumber>),
        width: Width,
    ) -> Result<bool, EncodingRefusal> {
        let insn = match width {
            Width::B1 | Width::B2 => return Ok(false),
            Width::B4 => insn::ASI,
            Width::B8 => insn::AGSI,
        };
        self.code.requires(number, value as u64, holes::SIGNED);
        let Ok(imm) = i8::try_from(value) else {
            return Ok(false);
        };
        let to = self.address(to)?;
        let to = self.plain(to);
        self.code.uses(number, value as u64, Classes::ALL);
        self.access_by_byte(insn, to, imm as u8);
        Ok(true)
    }

    /// No instruction adds a byte in memory.
    fn add_byte(&mut self, to: Mem, add: impl FnOnce(&mut Self, Gpr)) -> Result<(), EncodingRefusal> {
        let sum = self.take("a byte to add to")?;
        self.access(insn::LLGC, sum.0, to);
        add(self, sum);
        self.store_gpr(to, sum, Width::B1);
        Ok(())
    }
}
