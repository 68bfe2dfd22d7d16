//! Padding.

use alloc::vec::Vec;

/// The recommended nops of 1 to 9 bytes: Intel SDM volume 2, NOP, table 4-12; AMD64 APM volume 3,
/// NOP. Longer ones need more than one prefix, which some processors decode slowly.
const NOPS: [&[u8]; 9] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
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
