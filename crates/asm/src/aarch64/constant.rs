//! Constants in registers: at most four instructions.
//!
//! Three ways, of which the shortest is taken: a repeated pattern by one `orr`; zeros, then the
//! other parts (`movz`, `movk`); ones, then the other parts (`movn`, `movk`).

use alloc::vec::Vec;

use super::imm::{Disp, Halfword, Logical, TWO_IMMEDIATES};
use super::insn::{self, Gpr};
use crate::backend::EncodedCode;
use crate::hole::{Class, Classes, Part};
use crate::op::{ValueNumber, Width};

/// How a constant is loaded.
enum ConstantForm {
    Logical(Logical),
    /// The part that all others start as: 0 or 0xffff.
    Parts {
        rest: u32,
    },
}

fn way(value: u64) -> ConstantForm {
    let parts = Halfword::all(value);
    let count = |like| parts.iter().filter(|part| part.value == like).count();
    let (zeros, ones) = (count(0), count(0xffff));
    match Logical::new(value) {
        Some(imm) if zeros < 3 && ones < 3 => ConstantForm::Logical(imm),
        _ if ones > zeros => ConstantForm::Parts { rest: 0xffff },
        _ => ConstantForm::Parts { rest: 0 },
    }
}

/// The parts to be written: at least one.
fn written(value: u64, rest: u32) -> impl Iterator<Item = Halfword> {
    let parts = Halfword::all(value);
    let only_rest = parts.iter().all(|part| part.value == rest);
    parts
        .into_iter()
        .filter(move |part| part.value != rest || (only_rest && part.shift == 0))
}

/// Sets all 64 bits to `value` and leaves the flags.
pub(super) fn put(dst: Gpr, value: u64, out: &mut Vec<u8>) {
    let rest = match way(value) {
        ConstantForm::Logical(imm) => return insn::mov_logical(dst, imm, out),
        ConstantForm::Parts { rest } => rest,
    };
    for (index, part) in written(value, rest).enumerate() {
        match (index, rest) {
            (0, 0) => insn::movz(dst, part, out),
            (0, _) => {
                let value = part.value ^ 0xffff;
                insn::movn(dst, Halfword { value, ..part }, out);
            }
            _ => insn::movk(dst, part, out),
        }
    }
}

/// Which constants are made by the same instructions: with the same parts. The bits of an `orr`
/// depend on all of its pattern.
fn class(value: u64, _: u8) -> Class {
    match way(value) {
        ConstantForm::Logical(_) => Class::Only(value),
        ConstantForm::Parts { rest } => {
            let shifts = written(value, rest).fold(0, |shifts, part| shifts | 1 << (part.shift / 16));
            Class::Of(u64::from(rest) << 4 | shifts)
        }
    }
}

/// The same as [`put`] with the value of that number.
pub(super) fn put_value(dst: Gpr, value: u64, number: Option<ValueNumber>, code: &mut EncodedCode) {
    put_of(dst, value, (number, Classes::new(class)), code);
}

/// The same of a displacement that no load or store of that width has.
pub(super) fn put_displacement(
    dst: Gpr,
    disp: i32,
    (number, width): (Option<ValueNumber>, Width),
    code: &mut EncodedCode,
) {
    let classes = Classes {
        of: |value, size| match Disp::of_size(value as i32, size.into()) {
            Some(_) => Class::Only(value),
            None => class(value, 0),
        },
        with: width.bytes() as u8,
    };
    put_of(dst, i64::from(disp) as u64, (number, classes), code);
}

/// The same of a number that no addition has.
pub(super) fn put_addend(dst: Gpr, value: u64, number: Option<ValueNumber>, code: &mut EncodedCode) {
    const BEYOND: Classes = Classes::new(|value, _| match (value as i64).unsigned_abs() {
        0..TWO_IMMEDIATES => Class::Only(value),
        _ => class(value, 0),
    });
    put_of(dst, value, (number, BEYOND), code);
}

fn put_of(dst: Gpr, value: u64, (number, classes): (Option<ValueNumber>, Classes), code: &mut EncodedCode) {
    code.uses(number, value, classes);
    put(dst, value, &mut code.bytes);
    let ConstantForm::Parts { rest } = way(value) else {
        return;
    };
    let mut before = len(value);
    for (index, part) in written(value, rest).enumerate() {
        let inverted = index == 0 && rest != 0;
        code.holds(
            before,
            insn::FIELD_16,
            Part {
                // The bits of `movn` are those that are 0: of -1 - x, from a bit on where x has zeros.
                negated: inverted,
                add: if inverted { u64::MAX } else { 0 },
                shift: part.shift,
                ..Part::WHOLE
            },
        );
        before -= insn::LEN;
    }
}

/// The length of what [`put`] appends, in bytes.
pub(super) fn len(value: u64) -> u32 {
    match way(value) {
        ConstantForm::Logical(_) => insn::LEN,
        ConstantForm::Parts { rest } => written(value, rest).count() as u32 * insn::LEN,
    }
}
