//! Instructions on vectors of a length that is not known when code is compiled: V (unprivileged ISA
//! 31.5 and 31.7).

use super::branches::instruction_len;
use crate::scan::first;

/// The offset of the first such instruction.
pub(super) fn first_scalable(code: &[u8]) -> Option<usize> {
    first(code, |rest| {
        let half = u16::from_le_bytes(*rest.first_chunk()?);
        let word = rest.first_chunk().map(|word| u32::from_le_bytes(*word));
        Some((word.is_some_and(is_scalable), instruction_len(half)))
    })
}

/// Of four bytes; the low seven bits of others are different.
const fn is_scalable(word: u32) -> bool {
    match word & 0x7f {
        0x57 => true,
        // Loads and stores; the widths of floating-point ones are 1 to 4.
        0x07 | 0x27 => matches!(word >> 12 & 7, 0 | 5..=7),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_scalable;

    #[test]
    fn instructions_are_told_apart_as_llvm_encodes_them() {
        for word in [
            0x0d90_7557_u32,
            0x0205_7007,
            0x0211_0057,
            0x0285_0027,
            0x0205_5087,
        ] {
            assert!(is_scalable(word), "{word:#x}");
        }
        // fld, flw, fsd, fadd.d, addi
        for word in [
            0x0005_3007_u32,
            0x0005_2007,
            0x0005_3027,
            0x0220_f053,
            0x0000_0013,
        ] {
            assert!(!is_scalable(word), "{word:#x}");
        }
    }
}
