//! Comparisons, with a condition field where one is free, else without.

use llvm_stackmaps::addr::DwarfReg;

use super::branch::COUNT;
use super::emit::Emitter;
use super::insn::{self, Field, Gpr};
use super::regs::{CR0, CTR, FIELD_ORDER, LR};
use crate::backend::{BranchKind, EncodingRefusal, extended, immediate};
use crate::hole::{Class, Classes, Part};
use crate::lower::{Lower, constant_last};
use crate::op::{Cond, Dest, Extension, OpValue, ValueNumber, Width};

/// The second value of a comparison.
#[derive(Clone, Copy)]
enum Rhs {
    Reg(Gpr),
    Signed(i16),
    Unsigned(u16),
}

/// The forms that a comparison with an immediate has, as bits.
#[derive(Clone, Copy)]
struct ImmediateForms(u8);

/// An immediate in one of them.
enum Immediate {
    Signed(i16),
    Unsigned(u16),
}

impl ImmediateForms {
    const SIGNED: u8 = 1;
    const UNSIGNED: u8 = 2;
    /// Of words only the bits count.
    const BITS: u8 = 4;

    fn of(cond: Cond, width: Width) -> Self {
        let equality = matches!(cond, Cond::Eq | Cond::Ne);
        let signed = if is_signed(cond) || equality {
            Self::SIGNED
        } else {
            0
        };
        let unsigned = if is_signed(cond) { 0 } else { Self::UNSIGNED };
        let bits = if equality && width == Width::B4 {
            Self::BITS
        } else {
            0
        };
        Self(signed | unsigned | bits)
    }

    /// A number in the first form that has it.
    fn form(self, value: u64) -> Option<Immediate> {
        // Whether words are equal is a matter of their bits: a negative one is one of the signed
        // form.
        let signed = match self.0 & Self::BITS {
            0 => value as i64,
            _ => i64::from(value as i32),
        };
        match (i16::try_from(signed), u16::try_from(value)) {
            (Ok(imm), _) if self.0 & Self::SIGNED != 0 => Some(Immediate::Signed(imm)),
            (_, Ok(imm)) if self.0 & Self::UNSIGNED != 0 => Some(Immediate::Unsigned(imm)),
            _ => None,
        }
    }

    /// By the form that a number has.
    fn classes(self) -> Classes {
        Classes {
            of: |value, with| {
                Class::Of(match Self(with).form(value) {
                    Some(Immediate::Signed(_)) => 0,
                    Some(Immediate::Unsigned(_)) => 1,
                    None => 2,
                })
            },
            with: self.0,
        }
    }
}

/// How a register and a number are compared for equality: by a sum that is 1, or by a difference
/// that is 0.
const EQUALITIES: Classes = Classes {
    of: |value, small| match u32::try_from(value) {
        _ if small != 0 && opposite(value as i64).is_some() => Class::Of(0),
        Ok(word) => Class::Of(1 | u64::from(word >> 16 != 0) << 1 | u64::from(word as u16 != 0) << 2),
        Err(_) => Class::Of(8),
    },
    with: 0,
};

/// What makes 1 of a number, if `addi` adds it.
fn opposite(value: i64) -> Option<i16> {
    i16::try_from(1 - i128::from(value)).ok()
}

const fn is_signed(cond: Cond) -> bool {
    matches!(
        cond,
        Cond::Less | Cond::LessOrEqual | Cond::Greater | Cond::GreaterOrEqual
    )
}

/// How narrow values are extended for the comparison.
const fn extension(cond: Cond) -> Extension {
    if is_signed(cond) {
        Extension::Sign
    } else {
        Extension::Zero
    }
}

/// The bit of a condition field that decides, and whether the condition holds if it is set.
const fn bit(cond: Cond) -> (u8, bool) {
    match cond {
        Cond::Below | Cond::Less => (0, true),
        Cond::AboveOrEqual | Cond::GreaterOrEqual => (0, false),
        Cond::Above | Cond::Greater => (1, true),
        Cond::BelowOrEqual | Cond::LessOrEqual => (1, false),
        Cond::Eq => (2, true),
        Cond::Ne => (2, false),
    }
}

impl Emitter<'_> {
    pub(super) fn compare_and_branch(
        &mut self,
        cond: Cond,
        lhs: OpValue,
        rhs: OpValue,
        width: Width,
        dest: Dest,
    ) -> Result<(), EncodingRefusal> {
        let (cond, lhs, rhs) = constant_last(cond, lhs, rhs);
        let free = self.free;
        let field = FIELD_ORDER.into_iter().find(|field| free.contains(*field));
        let (cond, detail) = match (field, cond) {
            (Some(reg), _) => {
                self.claim(reg, "a condition field")?;
                let field = field_of(reg);
                self.compare(field, cond, lhs, rhs, width)?;
                (cond, field.0)
            }
            (None, Cond::Eq | Cond::Ne) => {
                self.count_equal(lhs, rhs, width)?;
                (cond, COUNT)
            }
            (None, _) => (self.count_ordered(cond, lhs, rhs, width)?, COUNT),
        };
        // What the comparison took is free again.
        self.free = free;
        self.put_branch(BranchKind::JumpIf(cond), dest, detail);
        Ok(())
    }

    /// Compares into a condition field.
    fn compare(
        &mut self,
        field: Field,
        cond: Cond,
        lhs: OpValue,
        rhs: OpValue,
        width: Width,
    ) -> Result<(), EncodingRefusal> {
        let lhs = self.side(lhs, cond, width, "a value to compare that is not in a register")?;
        let rhs = self.rhs(rhs, cond, width)?;
        let (doubleword, signed) = (width == Width::B8, is_signed(cond));
        match rhs {
            Rhs::Reg(rhs) => self.put(insn::compare(field, lhs, rhs, doubleword, signed)),
            Rhs::Signed(imm) => {
                self.put_part(insn::compare_signed(field, lhs, imm, doubleword), Part::WHOLE);
            }
            Rhs::Unsigned(imm) => {
                self.put_part(insn::compare_unsigned(field, lhs, imm, doubleword), Part::WHOLE);
            }
        }
        Ok(())
    }

    /// A register that a comparison of words or doublewords may read.
    fn side(
        &mut self,
        value: OpValue,
        cond: Cond,
        width: Width,
        purpose: &'static str,
    ) -> Result<Gpr, EncodingRefusal> {
        match value {
            OpValue::Reg(reg) if matches!(width, Width::B4 | Width::B8) && is_general(reg) => Self::gpr(reg),
            _ => self.in_temp(value, width, extension(cond), purpose),
        }
    }

    fn rhs(&mut self, rhs: OpValue, cond: Cond, width: Width) -> Result<Rhs, EncodingRefusal> {
        if let OpValue::Imm(value, number) = rhs {
            let value = extended(value, width, extension(cond))?;
            let with = ImmediateForms::of(cond, width);
            self.code.uses(number, value, with.classes());
            match with.form(value) {
                Some(Immediate::Signed(imm)) => return Ok(Rhs::Signed(imm)),
                Some(Immediate::Unsigned(imm)) => return Ok(Rhs::Unsigned(imm)),
                None => {}
            }
        }
        self.side(rhs, cond, width, "a second value to compare")
            .map(Rhs::Reg)
    }

    /// CTR becomes 1 if the values are equal.
    fn count_equal(&mut self, lhs: OpValue, rhs: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        self.claim(CTR, "the count register, for a comparison")?;
        let temp = self.take("the difference of two values")?;
        let mut difference = match (lhs, rhs) {
            (OpValue::Reg(reg), OpValue::Imm(value, number)) if is_general(reg) => {
                let reg = Self::gpr(reg)?;
                let small = width == Width::B8 && reg != Gpr(0);
                if let Some(by) = opposite(immediate(value, width)?).filter(|_| small) {
                    let classes = Classes {
                        with: 1,
                        ..EQUALITIES
                    };
                    self.code.uses(number, value, classes);
                    self.put_part(
                        insn::addi(temp, reg, by),
                        Part {
                            add: 1,
                            ..Part::OPPOSITE
                        },
                    );
                    self.put(insn::mtctr(temp));
                    return Ok(());
                }
                self.put_difference(temp, reg, (value, number), (width, small))?
            }
            (OpValue::Reg(one), OpValue::Reg(other)) if is_general(one) && is_general(other) => {
                self.put(insn::xor(temp, Self::gpr(one)?, Self::gpr(other)?));
                temp
            }
            (OpValue::Reg(reg), other) | (other, OpValue::Reg(reg)) if is_general(reg) => {
                self.value_to_gpr(temp, other, width, Extension::Zero)?;
                self.put(insn::xor(temp, temp, Self::gpr(reg)?));
                temp
            }
            (one, OpValue::Imm(value, number)) => {
                self.value_to_gpr(temp, one, width, Extension::Zero)?;
                self.put_difference(temp, temp, (value, number), (width, false))?
            }
            (one, other) => {
                self.value_to_gpr(temp, one, width, Extension::Zero)?;
                let other = self.in_temp(other, width, Extension::Zero, "a second value to compare")?;
                self.put(insn::xor(temp, temp, other));
                temp
            }
        };
        if width != Width::B8 || difference == Gpr(0) {
            self.put(insn::extend(temp, difference, width, Extension::Zero));
            difference = temp;
        }
        self.put(insn::addi(temp, difference, 1));
        self.put(insn::mtctr(temp));
        Ok(())
    }

    /// A register, `temp` or `from`, of which the low `width` bytes are 0 if those of `from` are
    /// `value`.
    fn put_difference(
        &mut self,
        temp: Gpr,
        from: Gpr,
        (value, number): (u64, Option<ValueNumber>),
        (width, small): (Width, bool),
    ) -> Result<Gpr, EncodingRefusal> {
        let value = extended(value, width, Extension::Zero)?;
        let with = small.into();
        self.code.uses(number, value, Classes { with, ..EQUALITIES });
        let Ok(word) = u32::try_from(value) else {
            let other = match temp == from {
                true => self.take("a 64-bit immediate")?,
                false => temp,
            };
            self.put_constant(other, value, number);
            self.put(insn::xor(temp, from, other));
            return Ok(temp);
        };
        let mut difference = from;
        for (from, xor) in [(16, insn::xoris as fn(Gpr, Gpr, u16) -> u32), (0, insn::xori)] {
            let half = (word >> from) as u16;
            if half != 0 {
                self.put_part(xor(temp, difference, half), Part::from_bit(from));
                difference = temp;
            }
        }
        Ok(difference)
    }

    /// CTR becomes 1 if the bit of the comparison is set; returns the condition on that.
    fn count_ordered(
        &mut self,
        cond: Cond,
        lhs: OpValue,
        rhs: OpValue,
        width: Width,
    ) -> Result<Cond, EncodingRefusal> {
        let field = field_of(CR0);
        self.claim(CTR, "the count register, for a comparison")?;
        self.claim(LR, "the link register, to keep a condition field in")?;
        let free = self.free;
        let saved = self.take("a condition field")?;
        self.put(insn::mfocrf(saved, field));
        self.put(insn::mtlr(saved));
        self.free = free;
        self.compare(field, cond, lhs, rhs, width)?;
        self.put(insn::mfocrf(saved, field));
        self.put(insn::mtctr(saved));
        self.put(insn::mflr(saved));
        self.put(insn::mtocrf(field, saved));
        self.put(insn::mfctr(saved));
        let (bit, if_set) = bit(cond);
        self.put(insn::extract_bit(saved, saved, bit));
        self.put(insn::mtctr(saved));
        Ok(if if_set { Cond::Eq } else { Cond::Ne })
    }
}

/// The condition field that has this DWARF number.
fn field_of(reg: DwarfReg) -> Field {
    Field(reg.get().wrapping_sub(CR0.get()) as u8 & 7)
}

fn is_general(reg: DwarfReg) -> bool {
    Emitter::gpr(reg).is_ok()
}
