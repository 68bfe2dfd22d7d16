//! Padding.

use alloc::vec::Vec;

/// The recommended nops of 1 to 9 bytes (Intel SDM volume 2, NOP, table 4-12; AMD64 APM volume 3,
/// NOP), and that of 10 with which LLVM pads where it knows nothing of the processor (its
/// `X86AsmBackend.cpp`). Still longer ones have three prefixes or more, which some processors decode
/// slowly.
///
/// In a cache that leaves 19 bytes of 32 two nops are executed with the longest, not three: a hit in
/// place takes 1.22 of what the check takes that is written by hand, not 1.30 (`benches caches`).
const NOPS: [&[u8]; 10] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0x2e, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];

/// Appends `len` bytes of nops, as few as there can be.
pub(super) fn put(len: u32, out: &mut Vec<u8>) {
    let mut left = len as usize;
    while left > 0 {
        let Some(nop) = NOPS.get(left.min(NOPS.len()) - 1) else {
            return;
        };
        out.extend_from_slice(nop);
        left -= nop.len();
    }
}
