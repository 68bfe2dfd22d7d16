//! Which registers a live-register exit stub saves, and where.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::machine::Machine;
use crate::addr::DwarfReg;
use crate::arch::conventions::{self, Registers};
use crate::arch::registers::canonical;
use crate::arch::{Convention, RegSet, SiteContext, SiteKind};
use crate::stackmap::LocationKind;

/// One saved register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::deopt) struct Slot {
    pub(super) reg: DwarfReg,
    /// Its bytes: all of a general register, as many of a vector register as are needed.
    pub(super) size: u16,
    /// The distance from the first slot.
    pub(super) offset: u32,
    /// Whether it is loaded back.
    pub(super) back: bool,
}

/// The registers that a live-register exit stub saves.
#[derive(Debug)]
pub(in crate::deopt) struct Plan {
    pub(super) slots: Box<[Slot]>,
    /// The distance from the stack pointer of the call to the first slot.
    pub(super) header: u32,
    /// The distance from the stack pointer of the call to that of the site.
    pub(super) frame: u32,
}

/// What is needed of one register.
struct RegisterNeed {
    reg: DwarfReg,
    size: u16,
    back: bool,
}

struct RegisterNeeds<'a> {
    machine: Machine,
    registers: &'static Registers,
    site: &'a SiteContext<'a>,
    needs: Vec<RegisterNeed>,
}

impl Plan {
    /// The registers to be saved at a site; `None` where that is not known, or is beyond a
    /// live-register exit stub.
    pub(in crate::deopt) fn new(site: &SiteContext<'_>) -> Option<Self> {
        let c = site.shape.convention() == Convention::C;
        let record = site.record?;
        let unlisted = !c && record.live_outs().next().is_none();
        if site.shape.kind() != SiteKind::Patchpoint || unlisted {
            return None;
        }
        let mut needs = RegisterNeeds {
            machine: Machine::of(site.arch),
            registers: conventions::of(site.arch),
            site,
            needs: Vec::new(),
        };
        needs.recorded()?;
        needs.live_outs(c)?;
        if c {
            needs.of_c_call()?;
        }
        Some(needs.lay_out())
    }
}

impl RegisterNeeds<'_> {
    /// The values of the record, and what their addresses are based on.
    fn recorded(&mut self) -> Option<()> {
        for location in self.site.record?.locations() {
            match location.kind {
                LocationKind::Register { reg, bit_offset } => {
                    let before = u16::try_from(bit_offset / 8).ok()?;
                    self.need(reg, before.checked_add(location.size)?, true)?;
                }
                LocationKind::Direct { reg, .. } | LocationKind::Indirect { reg, .. } => {
                    self.need(reg, 8, true)?
                }
                LocationKind::Constant { .. } | LocationKind::ConstantIndex { .. } => {}
            }
        }
        Some(())
    }

    /// What the code needs afterwards and a C function may change.
    fn live_outs(&mut self, c: bool) -> Option<()> {
        let registers = self.registers;
        let lost_by_llvm = match c {
            true => registers.lost_in_c_call,
            false => registers.free_at_any_reg,
        };
        let free = registers.always_free.union(lost_by_llvm);
        let unseen = match self.site.trust_live_outs && c {
            true => RegSet::EMPTY,
            false => registers.live_unless_trusted,
        };
        for reg in unseen.iter() {
            self.need(reg, 8, true)?;
        }
        for live_out in self.site.record?.live_outs() {
            let reg = canonical(self.site.arch, live_out.reg);
            if free.contains(reg) || u16::from(live_out.size) <= self.preserved(reg) {
                continue;
            }
            self.need(reg, live_out.size.into(), true)?;
        }
        Some(())
    }

    /// Arguments and results of the C convention.
    fn of_c_call(&mut self) -> Option<()> {
        let (registers, shape) = (self.registers, self.site.shape);
        if shape.has_result() {
            self.need(registers.int_result, 8, true)?;
            self.need(registers.float_result, self.machine.float_size(), true)?;
        }
        let count = shape.arg_count() as usize;
        for reg in registers.int_args.iter().take(count) {
            self.need(*reg, 8, false)?;
        }
        for reg in registers.float_args.iter().take(count) {
            self.need(*reg, self.machine.float_size(), false)?;
        }
        Some(())
    }

    /// The bytes of a register that the dispatcher leaves as they are.
    fn preserved(&self, reg: DwarfReg) -> u16 {
        match self.registers.lost_in_c_call.contains(reg) {
            true => 0,
            false => self.machine.preserved(reg),
        }
    }

    fn need(&mut self, reg: DwarfReg, size: u16, back: bool) -> Option<()> {
        let reg = canonical(self.site.arch, reg);
        if reg == self.registers.stack_pointer {
            return Some(());
        }
        let size = self.machine.slot(reg, size)?;
        match self.needs.iter_mut().find(|need| need.reg == reg) {
            Some(need) => {
                need.size = need.size.max(size);
                need.back |= back;
            }
            None => self.needs.push(RegisterNeed { reg, size, back }),
        }
        Some(())
    }

    /// The largest first, so that each is aligned to its size.
    fn lay_out(mut self) -> Plan {
        self.needs.sort_by_key(|need| core::cmp::Reverse(need.size));
        let mut offset = 0;
        let slots = self.needs.iter().map(|need| {
            let slot = Slot {
                reg: need.reg,
                size: need.size,
                offset,
                back: need.back,
            };
            offset += u32::from(need.size);
            slot
        });
        let slots = slots.collect();
        let header = self.machine.header();
        Plan {
            slots,
            header,
            // The stack pointer is a multiple of 16 at calls, on SystemZ of 8.
            frame: (header + offset + 15) & !15,
        }
    }
}
