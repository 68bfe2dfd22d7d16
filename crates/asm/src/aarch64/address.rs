//! Memory operands and addresses in registers.

use super::constant;
use super::emit::{Emitter, base};
use super::imm::{Disp, Imm12};
use super::insn::{self, Base, Gpr, Mem};
use crate::backend::EncodingRefusal;
use crate::lower::Lower;
use crate::op::{self, Address, Extension, Width};

const LOW: u32 = 0xfff;
/// What two additions of an immediate reach.
const TWO_IMMEDIATES: u32 = 1 << 24;

impl Emitter<'_> {
    /// The operand for a memory address, in a load or store of that width; may take one register.
    pub(super) fn address(&mut self, address: Address, width: Width) -> Result<Mem, EncodingRefusal> {
        if let op::Base::Reg(reg) = address.base {
            return self.displaced(base(reg)?, address.disp, width);
        }
        let at = self.take("a base that is not in a register, or an absolute address")?;
        self.load_base(at, address.base)?;
        if let Some(disp) = Disp::new(address.disp, width) {
            return Ok(Mem::Disp(at.into(), disp));
        }
        self.add_disp(at, at.into(), address.disp)?;
        Ok(Mem::Disp(at.into(), Disp::Scaled(0)))
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
        self.add_disp(at, from, address.disp)?;
        Ok(at.into())
    }

    /// Loads what an address is based on.
    fn load_base(&mut self, at: Gpr, from: op::Base) -> Result<(), EncodingRefusal> {
        match from {
            op::Base::Reg(reg) => self.add_disp(at, base(reg)?, 0),
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
                    |disp| Mem::Disp(from, disp),
                );
                insn::load(at, slot, Width::B8, Extension::Zero, &mut self.code.bytes);
                Ok(())
            }
        }
    }

    fn displaced(&mut self, base: Base, disp: i32, width: Width) -> Result<Mem, EncodingRefusal> {
        if let Some(disp) = Disp::new(disp, width) {
            return Ok(Mem::Disp(base, disp));
        }
        let index = self.take("a displacement that does not fit")?;
        constant::put(index, i64::from(disp) as u64, &mut self.code.bytes);
        Ok(Mem::Index(base, index))
    }

    /// `dst` becomes `base + disp`; may need a register for a moment.
    pub(super) fn add_disp(&mut self, dst: Gpr, base: Base, disp: i32) -> Result<(), EncodingRefusal> {
        self.put_sum(dst, base, i64::from(disp))
    }

    /// `dst` becomes `base + by`, all 64 bits; may need a register for a moment.
    pub(super) fn put_sum(&mut self, dst: Gpr, base: Base, by: i64) -> Result<(), EncodingRefusal> {
        match u32::try_from(by.unsigned_abs()) {
            Ok(0) if base == dst.into() => {}
            Ok(0) if base != Base::SP => {
                let src = Gpr(base.0);
                insn::mov(dst, src, Width::B8, Extension::Zero, &mut self.code.bytes);
            }
            Ok(size) if size < TWO_IMMEDIATES => self.add_immediates(dst, base, size, by < 0),
            _ => {
                let free = self.free;
                let constant = match base == dst.into() {
                    true => self.take("a constant that does not fit an addition")?,
                    false => dst,
                };
                constant::put(constant, by as u64, &mut self.code.bytes);
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
                from = dst.into();
            }
        }
    }
}
