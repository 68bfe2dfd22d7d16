//! Padding.

use alloc::vec::Vec;

/// Branches that are never taken, of 6, 4 and 2 bytes, as LLVM pads with: `brcl 0, .`, `bc 0, 0`,
/// `bcr 0, 0`.
const NOPS: [&[u8]; 3] = [&[0xc0, 0x04, 0, 0, 0, 0], &[0x47, 0, 0, 0], &[0x07, 0]];

/// Appends `len` bytes of nops, as few as there can be. An odd last byte, which no instruction can
/// fill, is left out.
pub(super) fn put(len: u32, out: &mut Vec<u8>) {
    let mut left = len as usize;
    for nop in NOPS {
        while left >= nop.len() {
            out.extend_from_slice(nop);
            left -= nop.len();
        }
    }
}
