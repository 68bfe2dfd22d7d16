//! `bl` and `b`.

use core::ops::Range;

use llvm_stackmaps::Endian::Little;

use crate::calls::{in_reach, set_word, word};

/// The distance, in words.
const IMM26: u32 = 0x03ff_ffff;

pub(super) fn around(bytes: &[u8], offset: usize) -> Option<(Range<usize>, i64)> {
    let word = word(Little, bytes.get(offset..)?)?;
    (word >> 26 & 0x1f == 5).then_some((offset..offset + 4, 0))
}

pub(super) fn distance(bytes: &[u8]) -> Option<i64> {
    Some(i64::from((word(Little, bytes)? << 6) as i32 >> 4))
}

pub(super) fn set_distance(bytes: &mut [u8], distance: i64) -> Option<()> {
    let operand = in_reach(distance, 28, 4)? as u32 >> 2 & IMM26;
    let word = word(Little, bytes)? & !IMM26 | operand;
    set_word(Little, bytes, word)
}
