//! Which bits of an instruction are open in a template.

use smallvec::smallvec;

use super::SP;
use super::decode::Word;
use crate::facts::Facts;
use crate::field::{OpenField, Slice};
use crate::open::Opened;

/// The immediates of the formats (Instruction Set Manual, volume I, 2.3).
const I: OpenField = OpenField::bits(&[Slice::new(20, 12, 0)]).with_sign();
const S: OpenField = OpenField::bits(&[Slice::new(7, 5, 0), Slice::new(25, 7, 5)]).with_sign();
const U: OpenField = OpenField::bits(&[Slice::new(12, 20, 12)]).with_sign();
const B: OpenField = OpenField::bits(&[
    Slice::new(8, 4, 1),
    Slice::new(25, 6, 5),
    Slice::new(7, 1, 11),
    Slice::new(31, 1, 12),
])
.with_sign()
.counting(0);
const J: OpenField = OpenField::bits(&[
    Slice::new(21, 10, 1),
    Slice::new(20, 1, 11),
    Slice::new(12, 8, 12),
    Slice::new(31, 1, 20),
])
.with_sign()
.counting(0);

/// See [`Open`](crate::open::Open). Of instructions that name the stack pointer, of shifts and of
/// what writes zero nothing is open.
pub(super) fn open(_: &Facts, bytes: &[u8]) -> Option<Opened> {
    let Some(word) = bytes.first_chunk() else {
        // Compressed.
        return Some(Opened::new());
    };
    let word = Word(u32::from_le_bytes(*word));
    let (to, from) = (word.rd(), word.rs1());
    let is_plain = to != 0 && to != SP && from != SP;
    let field = match (word.opcode(), word.funct3()) {
        (0x6f, _) => J,
        (0x63, _) => B,
        (0x37, _) if to != 0 && to != SP => U,
        (0x13, 0 | 4 | 6 | 7) | (0x1b, 0) if is_plain => I,
        (0x03, _) if is_plain => I,
        (0x07, _) if from != SP => I,
        (0x23 | 0x27, _) if from != SP => S,
        // The address of the instruction plus a number.
        (0x17, _) => return None,
        _ => return Some(Opened::new()),
    };
    Some(smallvec![field])
}
