//! Which bits of an instruction are open in a template.

use smallvec::smallvec;

use super::table::{self, OperandForm, Word};
use crate::facts::Facts;
use crate::field::{OpenField, Slice};
use crate::open::Opened;

/// SI or UI, DS, LI and BD (Power ISA, book I, 1.6).
const UI: OpenField = OpenField::bits(&[Slice::new(0, 16, 0)]);
const SI: OpenField = UI.with_sign();
const DS: OpenField = OpenField::bits(&[Slice::new(2, 14, 2)]).with_sign();
const LI: OpenField = OpenField::bits(&[Slice::new(2, 24, 2)]).with_sign().counting(0);
const BD: OpenField = DS.counting(0);

/// The stack pointer.
const SP: u16 = 1;
/// The bit that says that a branch has an address and no distance.
const ABSOLUTE: u32 = 2;

/// See [`Open`](crate::open::Open). Of what names the stack pointer nothing is open, nor of `ori`
/// within r0, which may be a nop; rotations and shifts have no immediates here.
pub(super) fn open(read: fn([u8; 4]) -> u32, facts: &Facts, bytes: &[u8]) -> Option<Opened> {
    // Units of several words are closed.
    let (Ok(word), 4) = (<[u8; 4]>::try_from(bytes), facts.len) else {
        return Some(Opened::new());
    };
    let bits = read(word);
    let Some(row) = table::find(bits) else {
        return Some(Opened::new());
    };
    let word = Word(bits);
    let (t, a) = (word.t(), word.a());
    let is_plain = t != SP && a != SP;
    let field = match row.form {
        OperandForm::Jump if bits & ABSOLUTE == 0 => LI,
        OperandForm::Branch if bits & ABSOLUTE == 0 => BD,
        OperandForm::AddImmediate(left) if is_plain => SI.shifted(left),
        OperandForm::OrImmediate(left) if is_plain && (t, a) != (0, 0) => UI.shifted(left),
        OperandForm::LogicImmediate if is_plain => UI.shifted(if row.name == "xoris" { 16 } else { 0 }),
        OperandForm::CompareSigned if a != SP => SI,
        OperandForm::CompareUnsigned if a != SP => UI,
        OperandForm::Load { ds, float } if a != SP && (float || t != SP) => match ds {
            true => DS,
            false => SI,
        },
        OperandForm::Store { ds, .. } if a != SP => match ds {
            true => DS,
            false => SI,
        },
        _ => return Some(Opened::new()),
    };
    let is_big = read([0, 0, 0, 1]) == 1;
    Some(smallvec![if is_big { field.big_endian() } else { field }])
}
