//! `brasl` and `brcl`, whose distances count halfwords.

use core::ops::Range;

use llvm_stackmaps::addr::CodeAddr;

pub(super) fn around(bytes: &[u8], offset: usize) -> Option<(Range<usize>, i64)> {
    let before = |count: usize| bytes.get(offset.checked_sub(count)?).copied();
    match (before(2)?, before(1)?) {
        (0xc0, low) if matches!(low & 15, 4 | 5) => Some((offset - 2..offset + 4, 2)),
        _ => None,
    }
}

pub(super) fn distance(bytes: &[u8]) -> Option<i64> {
    let (_, operand) = bytes.split_last_chunk::<4>()?;
    Some(i64::from(i32::from_be_bytes(*operand)) * 2)
}

pub(super) fn set_distance(bytes: &mut [u8], distance: i64) -> Option<()> {
    let operand = i32::try_from(distance / 2).ok().filter(|_| distance % 2 == 0)?;
    *bytes.last_chunk_mut::<4>()? = operand.to_be_bytes();
    Some(())
}

pub(super) fn operand(addr: CodeAddr) -> Option<Range<usize>> {
    (addr.get().wrapping_add(2) % 4 == 0).then_some(2..6)
}
