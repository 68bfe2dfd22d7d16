//! Atomic addition: a loop around COMPARE AND SWAP, which takes two free registers and often a
//! third for the address. Most sites have three in all, so that a small number, which counters add,
//! is added by ADD IMMEDIATE: it needs the address only. With the interlocked-access facility 1
//! (z196 and later, 2010) it is as atomic, of memory that is aligned to its width (Principles of
//! Operation, chapter 7, "ADD IMMEDIATE").
//!
//! COMPARE AND SWAP raises a specification exception where the memory is not aligned.

use super::emit::Emitter;
use super::insn::{self, Mem};
use super::regs::Gpr;
use crate::backend::{EncodingRefusal, immediate};
use crate::hole::{Classes, Part};
use crate::lower::Lower;
use crate::op::{Address, Base, Extension, OpValue, ValueNumber, Width};

/// The mask of condition code 1: another thread was faster.
const CHANGED: u8 = 4;

/// What is added, so that it can be added again.
enum Addend {
    Reg(Gpr),
    Imm(i64, Option<ValueNumber>),
    /// Memory that needs no register to be addressed.
    Mem(Mem),
    Frame(Gpr, i32),
}

impl Emitter<'_> {
    pub(super) fn add_by_swapping(
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
        let (load, swap) = match width {
            Width::B1 | Width::B2 => {
                return Err(EncodingRefusal::Unusable(
                    "less than 4 bytes to add to atomically",
                ));
            }
            Width::B4 => (insn::L, insn::CS),
            Width::B8 => (insn::LG, insn::CSG),
        };
        let addend = self.addend(src, width)?;
        let to = self.address(to)?;
        let to = self.plain(to);
        let purpose = "the old and the new value of memory to add to atomically";
        let old = self.take(purpose)?;
        let new = self.take(purpose)?;
        self.access(load, old.0, to);
        let again = self.code.at();
        self.sum(new, old, &addend, width);
        self.access_by_two(swap, old.0, new.0, to);
        let back = again.wrapping_sub(self.code.at()) as i32 / 2;
        self.put(insn::BRC.of(CHANGED, back as u16));
        Ok(())
    }

    fn addend(&mut self, src: OpValue, width: Width) -> Result<Addend, EncodingRefusal> {
        Ok(match src {
            OpValue::Reg(reg) => Addend::Reg(Self::gpr(reg)?),
            OpValue::Imm(value, number) => Addend::Imm(immediate(value, width)?, number),
            OpValue::Frame { .. } if width != Width::B8 => {
                return Err(EncodingRefusal::Unusable("part of the address of a stack slot"));
            }
            OpValue::Frame { reg, disp } => Addend::Frame(Self::gpr(reg)?, disp),
            OpValue::Mem(address) => {
                let free = self.free;
                let direct = matches!(address.base, Base::Reg(_) | Base::Absolute(_));
                let mark = self.code.mark();
                match self.address(address) {
                    Ok(mem) if direct && self.free == free => Addend::Mem(mem),
                    _ => {
                        // Read once, into one more register.
                        self.code.forget(mark);
                        self.free = free;
                        Addend::Reg(self.in_temp(src, width, Extension::Sign, "a value to add atomically")?)
                    }
                }
            }
        })
    }

    /// Makes `new` the sum.
    fn sum(&mut self, new: Gpr, old: Gpr, addend: &Addend, width: Width) {
        if let Addend::Imm(value, number) = *addend {
            if i32::try_from(value).is_err() {
                self.put_value(new, value as u64, number);
                self.put(insn::AGR.of(new, old));
                return;
            }
        }
        let double = width == Width::B8;
        match double {
            true => self.put(insn::LGR.of(new, old)),
            false => self.put(insn::LR.of(new.0, old.0)),
        }
        match *addend {
            Addend::Reg(reg) if double => self.put(insn::AGR.of(new, reg)),
            Addend::Reg(reg) => self.put(insn::AR.of(new.0, reg.0)),
            Addend::Imm(value, number) => self.add_small(new, (value, number), double),
            Addend::Mem(mem) => {
                let add = if double { insn::AG } else { insn::A };
                self.access(add, new.0, mem);
            }
            Addend::Frame(base, disp) => {
                self.put(insn::AGR.of(new, base));
                self.put(insn::AGFI.of(new.0, disp as u32));
            }
        }
    }

    /// Adds a number of 32 bits.
    fn add_small(&mut self, reg: Gpr, (value, number): (i64, Option<ValueNumber>), double: bool) {
        self.code.uses(number, value as u64, Classes::ALL);
        let (half, word) = match double {
            true => (insn::AGHI, insn::AGFI),
            false => (insn::AHI, insn::AFI),
        };
        match i16::try_from(value) {
            Ok(imm) => self.put_immediate(half.of(reg.0, imm as u16), 2, Part::WHOLE),
            Err(_) => self.put_immediate(word.of(reg.0, value as u32), 4, Part::WHOLE),
        }
    }
}
