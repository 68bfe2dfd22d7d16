//! `jal`, and `auipc` with the `jalr` behind it.

use core::ops::Range;

use llvm_stackmaps::Endian::Little;

use crate::calls::{in_reach, set_word, word};

/// The operand of a pair: the upper part of AUIPC, the lower one of JALR.
const UPPER: u32 = 0xffff_f000;
const LOWER: u32 = 0xfff0_0000;

pub(super) fn around(bytes: &[u8], offset: usize) -> Option<(Range<usize>, i64)> {
    let word = |at: usize| word(Little, bytes.get(at..)?);
    match word(offset)? & 0x7f {
        0x6f => Some((offset..offset + 4, 0)),
        0x17 if word(offset + 4)? & 0x707f == 0x67 => Some((offset..offset + 8, 0)),
        _ => None,
    }
}

pub(super) fn distance(bytes: &[u8]) -> Option<i64> {
    let first = word(Little, bytes)?;
    Some(match word(Little, bytes.get(4..)?) {
        Some(second) => i64::from((first & UPPER) as i32) + i64::from(second as i32 >> 20),
        None => jal_distance(first),
    })
}

pub(super) fn set_distance(bytes: &mut [u8], distance: i64) -> Option<()> {
    let first = word(Little, bytes)?;
    let Some(second) = word(Little, bytes.get(4..)?) else {
        let operand = jal_operand(in_reach(distance, 21, 2)?);
        return set_word(Little, bytes, first & !UPPER | operand);
    };
    // The lower part is sign-extended.
    let upper = i32::try_from(distance.checked_add(0x800)?).ok()? as u32 & UPPER;
    let lower = (distance as u32).wrapping_sub(upper) << 20;
    set_word(Little, bytes, first & !UPPER | upper)?;
    set_word(Little, bytes.get_mut(4..)?, second & !LOWER | lower)
}

fn jal_distance(word: u32) -> i64 {
    let high = i64::from(word as i32 >> 31 << 20);
    high | i64::from(word & 0xf_f000 | (word >> 20 & 1) << 11 | (word >> 21 & 0x3ff) << 1)
}

fn jal_operand(distance: i64) -> u32 {
    let bits = distance as u32;
    (bits >> 20 & 1) << 31 | (bits >> 1 & 0x3ff) << 21 | (bits >> 11 & 1) << 20 | bits & 0xf_f000
}
