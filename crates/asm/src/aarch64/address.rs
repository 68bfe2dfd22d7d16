//! Memory operands and addresses in registers.

use super::constant;
use super::emit::{Emitter, base};
use super::imm::{self, Disp, Imm12, TWO_IMMEDIATES};
use super::insn::{self, Base, Gpr, LEN, Mem};
use crate::backend::EncodingRefusal;
use crate::hole::{Classes, Part};
use crate::lower::Lower;
use crate::op::{self, Address, Extension, ValueNumber, Width};

const LOW: u32 = 0xfff;

impl Emitter<'_> {
    /// The operand for a memory address, in a load or store of that width; may take one register.
    pub(super) fn address(&mut self, address: Address, width: Width) -> Result<Mem, EncodingRefusal> {
        if let op::Base::Reg(reg) = address.base {
            return self.displaced(base(reg)?, (address.disp, address.number), width);
        }
        let at = self.take("a base that is not in a register, or an absolute address")?;
        self.load_base(at, address.base)?;
        if let Some(disp) = Disp::new(address.disp, width) {
            return Ok(Mem::Disp(at.into(), disp, address.number));
        }
        // Added where no load or store has it, which is another thing than to be added.
        self.code
            .uses(address.number, i64::from(address.disp) as u64, Classes::ALONE);
        self.add_disp(at, at.into(), (address.disp, None))?;
        Ok(Mem::Disp(at.into(), Disp::Scaled(0), None))
    }

    /// A register that holds exactly the address; may take one.
    pub(super) fn pointer(&mut self, address: Address) -> Result<Base, EncodingRefusal> {
        if let (op::Base::Reg(reg), 0) = (address.base, address.disp) {
            return base(reg);
        }
        let at = self.take("an address")?;
        let from = match address.base {
            op::Base::Reg(reg) => base(reg)?,
            other => {
                self.load_base(at, other)?;
                at.into()
            }
        };
        self.add_disp(at, from, (address.disp, address.number))?;
        Ok(at.into())
    }

    /// Loads what an address is based on.
    fn load_base(&mut self, at: Gpr, from: op::Base) -> Result<(), EncodingRefusal> {
        match from {
            op::Base::Reg(reg) => self.add_disp(at, base(reg)?, (0, None)),
            op::Base::Absolute(addr) => {
                constant::put(at, addr, &mut self.code.bytes);
                Ok(())
            }
            op::Base::Slot { reg, disp } => {
                let from = base(reg)?;
                let slot = Disp::new(disp, Width::B8).map_or_else(
                    || {
                        constant::put(at, i64::from(disp) as u64, &mut self.code.bytes);
                        Mem::Index(from, at)
                    },
                    |disp| Mem::Disp(from, disp, None),
                );
                insn::load(at, slot, Width::B8, Extension::Zero, &mut self.code.bytes);
                insn::displaced(slot, Width::B8, self.code);
                Ok(())
            }
        }
    }

    fn displaced(
        &mut self,
        base: Base,
        (disp, number): (i32, Option<ValueNumber>),
        width: Width,
    ) -> Result<Mem, EncodingRefusal> {
        if let Some(disp) = Disp::new(disp, width) {
            return Ok(Mem::Disp(base, disp, number));
        }
        let index = self.take("a displacement that does not fit")?;
        constant::put_displacement(index, disp, (number, width), self.code);
        Ok(Mem::Index(base, index))
    }

    /// `dst` becomes `base + disp`; may need a register for a moment.
    pub(super) fn add_disp(
        &mut self,
        dst: Gpr,
        base: Base,
        (disp, number): (i32, Option<ValueNumber>),
    ) -> Result<(), EncodingRefusal> {
        self.put_sum(dst, base, (i64::from(disp), number))
    }

    /// `dst` becomes `base + by`, all 64 bits; may need a register for a moment.
    pub(super) fn put_sum(
        &mut self,
        dst: Gpr,
        base: Base,
        (by, number): (i64, Option<ValueNumber>),
    ) -> Result<(), EncodingRefusal> {
        match by.unsigned_abs() {
            0 if base == dst.into() => {}
            0 if base != Base::SP => {
                let src = Gpr(base.0);
                insn::mov(dst, src, Width::B8, Extension::Zero, &mut self.code.bytes);
            }
            size @ 0..TWO_IMMEDIATES => {
                self.code.uses(number, by as u64, imm::ADDED);
                self.add_immediates(dst, base, size as u32, by < 0);
            }
            _ => {
                let free = self.free;
                let constant = match base == dst.into() {
                    true => self.take("a constant that does not fit an addition")?,
                    false => dst,
                };
                constant::put_addend(constant, by as u64, number, self.code);
                insn::add(
                    dst,
                    base,
                    constant,
                    Width::B8,
                    Extension::Zero,
                    &mut self.code.bytes,
                );
                self.free = free;
            }
        }
        Ok(())
    }

    /// Adds or subtracts in at most two steps.
    fn add_immediates(&mut self, dst: Gpr, base: Base, size: u32, subtract: bool) {
        let put = match subtract {
            true => insn::sub_imm,
            false => insn::add_imm,
        };
        let (high, low) = (size & !LOW, size & LOW);
        let mut from = base;
        for (part, needed) in [(high, high != 0), (low, low != 0 || high == 0)] {
            if needed {
                let imm = Imm12::new(part.into()).expect("each half of 24 bits is an immediate");
                put(dst.into(), from, imm, &mut self.code.bytes);
                self.code.holds(
                    LEN,
                    insn::FIELD_12,
                    Part {
                        negated: subtract,
                        shift: if part == high && high != 0 { 12 } else { 0 },
                        ..Part::WHOLE
                    },
                );
                from = dst.into();
            }
        }
    }
}
