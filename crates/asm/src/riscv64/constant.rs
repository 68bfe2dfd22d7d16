//! Constants in registers: at most eight instructions.
//!
//! A number of 32 bits is `lui` and `addiw`. Of a longer one, the low 12 bits are added last; what
//! is left is built without the zeros at its end and shifted.
//!
//! Each instruction but the shifts holds a [part](Part) of the number: that number without what the
//! later ones add, which round up where they subtract, shifted back.

use alloc::vec::Vec;

use super::insn::{self, Gpr, Imm12, LEN, Shift, Upper};
use crate::backend::EncodedCode;
use crate::hole::{Class, Classes, Part};
use crate::op::ValueNumber;

/// What `lui` is rounded by, as 12 bits with a sign are added behind it.
const ROUND: u64 = 0x800;

/// The next instruction of a constant.
#[derive(Clone, Copy)]
enum Step {
    Upper(Upper),
    /// Adds 32 bits, to what an upper part left.
    AddWord(Imm12),
    Add(Imm12),
    Shift(Shift),
}

/// Gives the instructions of a value, which is a part of the number that is wanted.
fn each(value: i64, part: Part, step: &mut impl FnMut(Step, Part)) {
    let low = Imm12::low(value);
    // Without the low part 12 zeros are at the end.
    let rest = value.wrapping_sub(low.get());
    let rounded = Part {
        add: part.add.wrapping_add(ROUND << part.shift),
        ..part
    };
    if i32::try_from(value).is_ok() {
        match rest {
            0 => step(Step::Add(low), part),
            _ => {
                step(Step::Upper(Upper::of(rest)), rounded);
                if low != Imm12::ZERO {
                    step(Step::AddWord(low), part);
                }
            }
        }
        return;
    }
    // Not 0, or the value would have had 12 bits; so less than 64.
    let zeros = rest.trailing_zeros() as u8;
    let by = Shift::new(zeros).expect("a number other than 0 ends in fewer than 64 zeros");
    let shifted = Part {
        shift: part.shift + u32::from(zeros),
        ..rounded
    };
    each(rest >> zeros, shifted, step);
    step(Step::Shift(by), part);
    if low != Imm12::ZERO {
        step(Step::Add(low), part);
    }
}

/// The instructions without their immediates, and whether a word overflows on the way.
fn class(value: u64, _: u8) -> Class {
    // At most eight, of seven bits each.
    let mut kinds = 0;
    let mut wraps = false;
    each(value as i64, Part::WHOLE, &mut |step, part| {
        let kind = match step {
            Step::Upper(_) => {
                let upper = part.number(value) as i64 >> 12;
                wraps |= upper >= 1 << 19;
                1
            }
            Step::AddWord(_) => 2,
            Step::Add(_) => 3,
            Step::Shift(by) => 0x40 | u64::from(by.get()),
        };
        kinds = kinds << 7 | kind;
    });
    Class::Of(kinds << 1 | u64::from(wraps))
}

/// Which constants are made by the same instructions.
const CLASSES: Classes = Classes::new(class);

/// Sets all 64 bits to `value`.
pub(super) fn put(dst: Gpr, value: u64, out: &mut Vec<u8>) {
    let mut from = Gpr::ZERO;
    each(value as i64, Part::WHOLE, &mut |step, _| {
        match step {
            Step::Upper(upper) => insn::lui(dst, upper, out),
            Step::AddWord(imm) => insn::add_imm_word(dst, dst, imm, out),
            Step::Add(imm) => insn::add_imm(dst, from, imm, out),
            Step::Shift(by) => insn::shift_left(dst, dst, by, out),
        }
        from = dst;
    });
}

/// The same with the value of that number.
pub(super) fn put_value(dst: Gpr, value: u64, number: Option<ValueNumber>, code: &mut EncodedCode) {
    code.uses(number, value, CLASSES);
    put(dst, value, &mut code.bytes);
    if number.is_some() {
        name(value, code);
    }
}

/// The same of a number that no [`Imm12`] is.
pub(super) fn put_sum(dst: Gpr, value: u64, number: Option<ValueNumber>, code: &mut EncodedCode) {
    const BEYOND: Classes = Classes::new(|value, with| match Imm12::new(value as i64) {
        Some(_) => Class::Only(value),
        None => class(value, with),
    });
    code.uses(number, value, BEYOND);
    put(dst, value, &mut code.bytes);
    if number.is_some() {
        name(value, code);
    }
}

/// Names the holes of the constant at the end of the code.
pub(super) fn name(value: u64, code: &mut EncodedCode) {
    let mut before = len(value);
    each(value as i64, Part::WHOLE, &mut |step, part| {
        match step {
            Step::Upper(_) => code.holds(before, insn::FIELD_U, part),
            Step::AddWord(_) | Step::Add(_) => code.holds(before, insn::FIELD_I, part),
            Step::Shift(_) => {}
        }
        before -= LEN;
    });
}

/// The length of what [`put`] appends, in bytes.
pub(super) fn len(value: u64) -> u32 {
    let mut count = 0;
    each(value as i64, Part::WHOLE, &mut |_, _| count += 1);
    count * LEN
}
