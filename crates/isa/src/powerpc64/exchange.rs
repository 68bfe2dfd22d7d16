//! Which instructions may be exchanged.
//!
//! The rule (Power ISA book II, concurrent modification and execution of instructions): an aligned
//! word that is in both states an unconditional branch of the I form or the preferred nop is one or
//! the other for every thread.

use llvm_stackmaps::Endian;

use super::NOP;
use crate::calls::word;

/// `tw 31, 0, 0`: the trap interrupt.
pub(super) const TRAP: u32 = 0x7fe0_0008;

/// What may become the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exchangeable {
    Nop,
    Jump,
}

/// The pairs of old and new that may be exchanged while threads execute either.
const PAIRS: [(Exchangeable, Exchangeable); 4] = [
    (Exchangeable::Nop, Exchangeable::Nop),
    (Exchangeable::Nop, Exchangeable::Jump),
    (Exchangeable::Jump, Exchangeable::Nop),
    (Exchangeable::Jump, Exchangeable::Jump),
];

impl Exchangeable {
    fn of(endian: Endian, bytes: &[u8]) -> Option<Self> {
        let whole: &[u8; 4] = bytes.try_into().ok()?;
        match word(endian, whole)? {
            NOP => Some(Self::Nop),
            // Relative, and without a link.
            word if word & 0xfc00_0003 == 0x4800_0000 => Some(Self::Jump),
            _ => None,
        }
    }
}

pub(super) fn allowed(endian: Endian, old: &[u8], new: &[u8]) -> bool {
    match (Exchangeable::of(endian, old), Exchangeable::of(endian, new)) {
        (Some(old), Some(new)) => PAIRS.contains(&(old, new)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nops, jumps, and what is neither: `bl`, `ba`, `bc`, another nop, `trap`.
    const WORDS: [(u32, bool); 8] = [
        (NOP, true),
        (0x4800_0010, true),
        (0x4bff_fff0, true),
        (0x4800_0011, false),
        (0x4800_0012, false),
        (0x4182_0010, false),
        (0x6042_0000, false),
        (TRAP, false),
    ];

    #[test]
    fn only_branches_and_nops_are_exchanged() {
        for endian in [Endian::Big, Endian::Little] {
            for ((old, a), (new, b)) in WORDS.into_iter().flat_map(|old| WORDS.map(|new| (old, new))) {
                let bytes = |word| super::super::bytes(endian, word);
                assert_eq!(
                    allowed(endian, &bytes(old), &bytes(new)),
                    a && b,
                    "{old:#x} {new:#x}"
                );
            }
            assert!(!allowed(endian, &[0x60], &[0x60]));
        }
    }
}
