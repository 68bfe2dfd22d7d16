//! Addresses as the formats take them.
//!
//! Displacements beyond 20 bits, fixed addresses and bases that have been spilled go through a
//! register; so does a base in r0, which instructions read as zero.

use llvm_stackmaps::addr::DwarfReg;

use super::emit::Emitter;
use super::holes;
use super::insn::{self, Mem};
use super::regs::{ADDRESS_ORDER, Gpr};
use crate::backend::EncodingRefusal;
use crate::hole::Part;
use crate::lower::Lower;
use crate::op::{Address, Base, ValueNumber};

pub(super) const LONG: core::ops::Range<i32> = -(1 << 19)..1 << 19;

impl Emitter<'_> {
    fn take_address(&mut self, purpose: &'static str) -> Result<Gpr, EncodingRefusal> {
        self.take_first(&ADDRESS_ORDER, purpose)
    }

    /// The operand for a memory address; may take a register. It has an index only where it took
    /// the base.
    pub(super) fn address(&mut self, address: Address) -> Result<Mem, EncodingRefusal> {
        let disp = address.disp;
        match address.base {
            Base::Reg(reg) => self.based(Self::gpr(reg)?, (disp, address.number)),
            Base::Slot { reg, disp: slot } => {
                let base = self.spilled(reg, slot)?;
                Ok(self.in_reach(base, (disp, address.number)))
            }
            Base::Absolute(base) => self.absolute(base.wrapping_add_signed(i64::from(disp))),
        }
    }

    fn based(
        &mut self,
        base: Gpr,
        (disp, number): (i32, Option<ValueNumber>),
    ) -> Result<Mem, EncodingRefusal> {
        if base == Gpr(0) {
            let copy = self.take_address("a base in r0")?;
            self.put(insn::LGR.of(copy, base));
            return Ok(self.in_reach(copy, (disp, number)));
        }
        if LONG.contains(&disp) {
            return Ok(Mem::base(base, disp).numbered(number));
        }
        let far = self.take_address("a displacement beyond 512 KiB")?;
        let value = i64::from(disp) as u64;
        self.code.requires(number, value, holes::BEYOND);
        self.put_value(far, value, number);
        Ok(Mem {
            base: Some(far),
            index: Some(base),
            disp: 0,
            number: None,
        })
    }

    /// The displacement from a register that may be changed.
    fn in_reach(&mut self, base: Gpr, (disp, number): (i32, Option<ValueNumber>)) -> Mem {
        if LONG.contains(&disp) {
            return Mem::base(base, disp).numbered(number);
        }
        self.code.uses(number, i64::from(disp) as u64, holes::BEYOND);
        self.put_immediate(insn::AGFI.of(base.0, disp as u32), 4, Part::WHOLE);
        Mem::base(base, 0)
    }

    /// Loads a base that has been spilled.
    fn spilled(&mut self, reg: DwarfReg, slot: i32) -> Result<Gpr, EncodingRefusal> {
        let free = self.free;
        let slot = self.based(Self::gpr(reg)?, (slot, None))?;
        // The pointer to the slot is free again, and may become the base itself.
        self.free = free;
        let base = self.take_address("a base that has been spilled")?;
        self.access(insn::LG, base.0, slot);
        Ok(base)
    }

    fn absolute(&mut self, target: u64) -> Result<Mem, EncodingRefusal> {
        if let Some(disp) = i32::try_from(target as i64).ok().filter(|d| LONG.contains(d)) {
            return Ok(Mem {
                base: None,
                index: None,
                disp,
                number: None,
            });
        }
        let base = self.take_address("a fixed address")?;
        base.put_constant(target, &mut self.code.bytes);
        Ok(Mem::base(base, 0))
    }

    /// The same address for a format without an index.
    pub(super) fn plain(&mut self, mem: Mem) -> Mem {
        let (Some(base), Some(_)) = (mem.base, mem.index) else {
            return mem;
        };
        self.access(insn::LA, base.0, mem);
        Mem::base(base, 0)
    }
}
