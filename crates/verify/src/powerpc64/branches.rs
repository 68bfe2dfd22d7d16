//! Direct branches of whole functions (Power ISA v3.1 2.4).

use crate::scan::{signed, target, words};

/// Gives the offset of each instruction that branches, and its target.
pub(super) fn branches(start: u64, code: &[u8], read: fn([u8; 4]) -> u32, mut note: impl FnMut(usize, u64)) {
    words(code, read, |at, word| one(start, at, word, &mut note));
}

/// Notes the target of a Power instruction, and returns its length.
fn one(start: u64, at: usize, word: u32, note: &mut impl FnMut(usize, u64)) -> usize {
    let distance = match word >> 26 {
        // The prefix of an instruction of eight bytes.
        1 => return 8,
        // b, bl; bc, bcl
        18 => signed(word >> 2, 24) * 4,
        16 => signed(word >> 2, 14) * 4,
        _ => return 4,
    };
    let is_absolute = word & 2 != 0;
    note(
        at,
        if is_absolute {
            distance as u64
        } else {
            target(start, at, distance)
        },
    );
    4
}
