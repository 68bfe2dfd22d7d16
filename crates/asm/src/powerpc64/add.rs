//! Sums of a register and a number, or another register.

use super::constant;
use super::emit::Emitter;
use super::insn::{self, Gpr};
use crate::backend::{EncodingRefusal, immediate};
use crate::hole::Part;
use crate::lower::{ADDEND, Lower};
use crate::op::{Extension, OpValue, ValueNumber, Width};

/// What is added to memory.
#[derive(Clone, Copy)]
pub(super) enum Addend {
    /// Fits `addis` and `addi`.
    Imm(i64, Option<ValueNumber>),
    Reg(Gpr),
}

impl Emitter<'_> {
    /// `to = from + value`. `to` may be `from`.
    pub(super) fn put_sum(
        &mut self,
        to: Gpr,
        from: Gpr,
        (value, number): (i64, Option<ValueNumber>),
    ) -> Result<(), EncodingRefusal> {
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
        let Some((high, low)) = constant::split(value).filter(|_| base.0 != 0) else {
            let addend = match to == base {
                true => self.take("a number to add that no instruction has")?,
                false => to,
            };
            if base.0 != 0 {
                self.code.requires(number, value as u64, constant::BEYOND);
            }
            self.put_constant(addend, value as u64, number);
            self.put(insn::add(to, base, addend));
            return Ok(());
        };
        self.code.uses(number, value as u64, constant::SUMS);
        if high != 0 {
            self.put_part(insn::addis(to, base, high), constant::ROUNDED);
        }
        match (high, low) {
            (0, _) => self.put_part(insn::addi(to, base, low), Part::WHOLE),
            (_, 0) => {}
            // `to` is r0 only if it is read as a base: then the sum is made the other way.
            _ if to.0 == 0 => self.put_low_sum(low)?,
            _ => self.put_part(insn::addi(to, to, low), Part::WHOLE),
        }
        Ok(())
    }

    /// Adds to r0 the low part of the number that is being encoded.
    fn put_low_sum(&mut self, low: i16) -> Result<(), EncodingRefusal> {
        let addend = self.take("a number to add to r0")?;
        self.put_part(insn::li(addend, low), Part::WHOLE);
        self.put(insn::add(Gpr(0), Gpr(0), addend));
        Ok(())
    }

    /// A constant stays one if it can be added at once.
    pub(super) fn addend(&mut self, src: OpValue, width: Width) -> Result<Addend, EncodingRefusal> {
        Ok(match src {
            OpValue::Imm(value, number) => {
                let value = immediate(value, width)?;
                match constant::split(value) {
                    Some(_) => Addend::Imm(value, number),
                    None => {
                        self.code.requires(number, value as u64, constant::BEYOND);
                        Addend::Reg(self.in_temp(src, width, Extension::Zero, "a 64-bit immediate")?)
                    }
                }
            }
            OpValue::Reg(reg) => Addend::Reg(Self::gpr(reg)?),
            OpValue::Mem(_) | OpValue::Frame { .. } => {
                let purpose = ADDEND;
                Addend::Reg(self.in_temp(src, width, Extension::Zero, purpose)?)
            }
        })
    }

    pub(super) fn put_addend(&mut self, sum: Gpr, addend: Addend) -> Result<(), EncodingRefusal> {
        match addend {
            Addend::Imm(value, number) => self.put_sum(sum, sum, (value, number)),
            Addend::Reg(reg) => {
                self.put(insn::add(sum, sum, reg));
                Ok(())
            }
        }
    }
}
