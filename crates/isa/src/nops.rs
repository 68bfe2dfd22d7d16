//! Padding: the nops that the manufacturers recommend, and that LLVM pads with.

use alloc::vec::Vec;

use crate::Arch;

/// Appends `len` bytes of nops, as few instructions as there can be. What no instruction can fill,
/// as an odd last byte on SystemZ, is left out.
///
/// ```
/// use patchpoint_isa::{Arch, nops};
/// let mut bytes = Vec::new();
/// nops::put(Arch::SystemZ, 6, &mut bytes);
/// assert_eq!(bytes, [0xc0, 0x04, 0, 0, 0, 0]); // brcl 0, .
/// ```
pub fn put(arch: Arch, len: u32, out: &mut Vec<u8>) {
    arch.isa().put_nops(len, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length that instructions of an architecture can fill is filled.
    #[test]
    fn every_length_of_whole_instructions_is_filled() {
        for (arch, unit) in [
            (Arch::X86_64, 1),
            (Arch::AArch64, 4),
            (Arch::PowerPc64, 4),
            (Arch::PowerPc64Le, 4),
            (Arch::PowerPc64ElfV2, 4),
            (Arch::SystemZ, 2),
            (Arch::RiscV64, 2),
        ] {
            for len in (0..=64).step_by(unit) {
                let mut bytes = Vec::from([1]);
                put(arch, len, &mut bytes);
                assert_eq!(bytes.len(), 1 + len as usize, "{arch}");
            }
        }
    }
}
