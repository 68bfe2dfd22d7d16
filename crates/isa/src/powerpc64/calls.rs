//! `bl` and `b`.

use core::ops::Range;

use llvm_stackmaps::Endian;

use crate::calls::{in_reach, set_word, word};

/// The distance, whose last two bits are zero.
const LI: u32 = 0x03ff_fffc;

pub(super) fn around(endian: Endian, bytes: &[u8], offset: usize) -> Option<(Range<usize>, i64)> {
    let word = word(endian, bytes.get(offset..)?)?;
    (word & 0xfc00_0002 == 0x4800_0000).then_some((offset..offset + 4, 0))
}

pub(super) fn distance(endian: Endian, bytes: &[u8]) -> Option<i64> {
    Some(i64::from(((word(endian, bytes)? & LI) << 6) as i32 >> 6))
}

pub(super) fn set_distance(endian: Endian, bytes: &mut [u8], distance: i64) -> Option<()> {
    let operand = in_reach(distance, 26, 4)? as u32 & LI;
    let word = word(endian, bytes)? & !LI | operand;
    set_word(endian, bytes, word)
}
