//! Direct branches of whole functions (Arm ARM C4.1.88).

use crate::scan::{signed, target, words};

/// Gives the offset of each instruction that branches, and its target.
pub(crate) fn branches(start: u64, code: &[u8], _: &impl Fn(u64) -> bool, mut note: impl FnMut(usize, u64)) {
    words(code, u32::from_le_bytes, |at, word| {
        if let Some(distance) = distance(word) {
            note(at, target(start, at, distance));
        }
        4
    });
}

/// The distance to which an A64 instruction branches, in bytes.
const fn distance(word: u32) -> Option<i64> {
    let words = if word & 0x7c00_0000 == 0x1400_0000 {
        // b, bl
        signed(word, 26)
    } else if word & 0xff00_0000 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 {
        // b.cond, bc.cond; cbz, cbnz
        signed(word >> 5, 19)
    } else if word & 0x7e00_0000 == 0x3600_0000 {
        // tbz, tbnz
        signed(word >> 5, 14)
    } else if word & 0x7e00_0000 == 0x7400_0000 {
        // cb<cc>, cbb<cc>, cbh<cc> (FEAT_CMPBR)
        signed(word >> 5, 9)
    } else {
        return None;
    };
    Some(words * 4)
}
