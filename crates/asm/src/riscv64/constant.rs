//! Constants in registers: at most eight instructions.
//!
//! A number of 32 bits is `lui` and `addiw`. Of a longer one, the low 12 bits are added last; what
//! is left is built without the zeros at its end and shifted.

use alloc::vec::Vec;

use super::insn::{self, Gpr, Imm12, LEN, Shift, Upper};

/// The next instruction of a constant.
#[derive(Clone, Copy)]
enum Step {
    Upper(Upper),
    /// Adds 32 bits, to what an upper part left.
    AddWord(Imm12),
    Add(Imm12),
    Shift(Shift),
}

fn each(value: i64, step: &mut impl FnMut(Step)) {
    let low = Imm12::low(value);
    // Without the low part 12 zeros are at the end.
    let rest = value.wrapping_sub(low.get());
    if i32::try_from(value).is_ok() {
        match rest {
            0 => step(Step::Add(low)),
            _ => {
                step(Step::Upper(Upper::of(rest)));
                if low != Imm12::ZERO {
                    step(Step::AddWord(low));
                }
            }
        }
        return;
    }
    // Not 0, or the value would have had 12 bits; so less than 64.
    let zeros = rest.trailing_zeros() as u8;
    let by = Shift::new(zeros).expect("a number other than 0 ends in fewer than 64 zeros");
    each(rest >> zeros, step);
    step(Step::Shift(by));
    if low != Imm12::ZERO {
        step(Step::Add(low));
    }
}

/// Sets all 64 bits to `value`.
pub(super) fn put(dst: Gpr, value: u64, out: &mut Vec<u8>) {
    let mut from = Gpr::ZERO;
    each(value as i64, &mut |step| {
        match step {
            Step::Upper(upper) => insn::lui(dst, upper, out),
            Step::AddWord(imm) => insn::add_imm_word(dst, dst, imm, out),
            Step::Add(imm) => insn::add_imm(dst, from, imm, out),
            Step::Shift(by) => insn::shift_left(dst, dst, by, out),
        }
        from = dst;
    });
}

/// The length of what [`put`] appends, in bytes.
pub(super) fn len(value: u64) -> u32 {
    let mut count = 0;
    each(value as i64, &mut |_| count += 1);
    count * LEN
}
