//! `call`, `jmp` and `jcc` with a distance of 32 bits from their end.

use core::ops::Range;

use llvm_stackmaps::addr::CodeAddr;

pub(super) fn around(bytes: &[u8], offset: usize) -> Option<(Range<usize>, i64)> {
    let before = |count: usize| bytes.get(offset.checked_sub(count)?).copied();
    match (before(2), before(1)?) {
        (_, 0xe8 | 0xe9) => Some((offset - 1..offset + 4, -4)),
        (Some(0x0f), 0x80..=0x8f) => Some((offset - 2..offset + 4, -4)),
        _ => None,
    }
}

pub(super) fn distance(bytes: &[u8]) -> Option<i64> {
    let (_, operand) = bytes.split_last_chunk::<4>()?;
    Some(i64::from(i32::from_le_bytes(*operand)) + bytes.len() as i64)
}

pub(super) fn set_distance(bytes: &mut [u8], distance: i64) -> Option<()> {
    let operand = i32::try_from(distance.checked_sub(bytes.len() as i64)?).ok()?;
    *bytes.last_chunk_mut::<4>()? = operand.to_le_bytes();
    Some(())
}

pub(super) fn operand(addr: CodeAddr, len: usize) -> Option<Range<usize>> {
    let at = |offset: usize| addr.get().wrapping_add(offset as u64);
    let start = len.checked_sub(4)?;
    // protection: call-distances-lie-in-one-word
    (at(start) / 8 == at(len - 1) / 8).then_some(start..len)
}
