//! Memory operands and addresses in registers.

use super::constant;
use super::emit::Emitter;
use super::insn::{self, Gpr, Imm12, LEN, Mem};
use crate::backend::EncodingRefusal;
use crate::hole::{Classes, Part};
use crate::lower::Lower;
use crate::op::{self, Address, Extension, ValueNumber, Width};

impl Emitter<'_> {
    /// The operand for a memory address; may take one register.
    pub(super) fn address(&mut self, address: Address) -> Result<Mem, EncodingRefusal> {
        let disp = i64::from(address.disp);
        let (base, disp) = match address.base {
            op::Base::Reg(reg) => (Self::gpr(reg)?, disp),
            op::Base::Slot { reg, disp: slot } => {
                let from = Self::gpr(reg)?;
                let at = self.take("a base that has been spilled")?;
                let slot = self.displaced(from, (slot.into(), None), Some(at))?;
                insn::load(at, slot, Width::B8, Extension::Zero, &mut self.code.bytes);
                insn::displaced(slot, insn::FIELD_I, self.code);
                (at, disp)
            }
            op::Base::Absolute(addr) => (Gpr::ZERO, addr.wrapping_add_signed(disp) as i64),
        };
        self.displaced(base, (disp, address.number), None)
    }

    /// A register that holds exactly the address; may take one.
    pub(super) fn pointer(&mut self, address: Address) -> Result<Gpr, EncodingRefusal> {
        let mem = self.address(address)?;
        if mem.disp == Imm12::ZERO {
            return Ok(mem.base);
        }
        let kept = match address.base {
            op::Base::Reg(reg) => Self::gpr(reg)?,
            _ => Gpr::ZERO,
        };
        // What the address took can be added to.
        let at = match mem.base == kept {
            true => self.take("an address")?,
            false => mem.base,
        };
        self.code.uses(mem.number, mem.disp.get() as u64, insn::IMM12);
        insn::add_imm(at, mem.base, mem.disp, &mut self.code.bytes);
        self.code.holds(LEN, insn::FIELD_I, Part::WHOLE);
        Ok(at)
    }

    /// Memory at a distance from a base that stays as it is. What does not fit an immediate is
    /// built in `into`, or in a free register.
    fn displaced(
        &mut self,
        base: Gpr,
        (disp, number): (i64, Option<ValueNumber>),
        into: Option<Gpr>,
    ) -> Result<Mem, EncodingRefusal> {
        if let Some(disp) = Imm12::new(disp) {
            return Ok(Mem { base, disp, number });
        }
        // Several instructions may have the low part.
        self.code.uses(number, disp as u64, Classes::ALONE);
        let at = match into {
            Some(at) => at,
            None => self.take("a displacement that does not fit")?,
        };
        let low = Imm12::low(disp);
        constant::put(at, disp.wrapping_sub(low.get()) as u64, &mut self.code.bytes);
        if base != Gpr::ZERO {
            insn::add(at, at, base, &mut self.code.bytes);
        }
        Ok(Mem {
            base: at,
            disp: low,
            number: None,
        })
    }

    /// `dst` becomes `base + by`; may need a register for a moment.
    pub(super) fn put_sum(
        &mut self,
        dst: Gpr,
        base: Gpr,
        by: i64,
        number: Option<ValueNumber>,
    ) -> Result<(), EncodingRefusal> {
        match Imm12::new(by) {
            Some(Imm12::ZERO) if dst == base => {}
            Some(imm) => {
                self.code.uses(number, by as u64, insn::IMM12);
                insn::add_imm(dst, base, imm, &mut self.code.bytes);
                self.code.holds(LEN, insn::FIELD_I, Part::WHOLE);
            }
            None => {
                let free = self.free;
                let constant = match dst == base {
                    true => self.take("a constant that does not fit an addition")?,
                    false => dst,
                };
                constant::put_sum(constant, by as u64, number, self.code);
                insn::add(dst, base, constant, &mut self.code.bytes);
                self.free = free;
            }
        }
        Ok(())
    }
}
