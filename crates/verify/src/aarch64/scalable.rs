//! Instructions on vectors of a length that is not known when code is compiled: SVE and SME (Arm
//! ARM C4.1, top-level encodings).

use crate::scan::first;

/// The offset of the first such instruction.
pub(super) fn first_scalable(code: &[u8]) -> Option<usize> {
    first(code, |rest| {
        Some((is_scalable(u32::from_le_bytes(*rest.first_chunk()?)), 4))
    })
}

const fn is_scalable(word: u32) -> bool {
    match word >> 25 & 15 {
        0b0010 => true,
        0b0000 => word >> 31 == 1,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_scalable;

    #[test]
    fn instructions_are_told_apart_as_llvm_encodes_them() {
        for word in [
            0x04e2_0020_u32, // add z0.d, z1.d, z2.d
            0x25d8_e3e0,     // ptrue p0.d
            0xa5e0_a000,     // ld1d
            0xe5e0_e000,     // st1d
            0x8580_0000,     // ldr p0
            0xe580_4000,     // str z0
        ] {
            assert!(is_scalable(word), "{word:#x}");
        }
        for word in [
            0x1e60_2800_u32, // fadd
            0x4ee2_8420,     // add v0.2d
            0xfd40_0000,     // ldr d0
            0xd503_201f,     // nop
            0xa9bf_7bfd,     // stp
            0x0000_0000,     // udf
            0x9400_0000,     // bl
        ] {
            assert!(!is_scalable(word), "{word:#x}");
        }
    }
}
