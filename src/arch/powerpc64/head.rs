//! Heads: the one word of a live site that is exchanged.
//!
//! The rule (Power ISA book II, concurrent modification and execution of instructions): an aligned word that is in
//! both states an unconditional branch of the I form or the preferred nop is one or the other for every thread.

use super::Flavor;
use super::insn;
use crate::addr::{CodeAddr, Len};
use crate::arch::live::{Head, HeadBytes, NoHead};

/// The length of every head.
const LEN: u32 = 4;

/// What can be a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nop,
    Jump,
}

/// The pairs of old and new that may be exchanged while threads execute either.
const EXCHANGEABLE: [(Kind, Kind); 4] = [
    (Kind::Nop, Kind::Nop),
    (Kind::Nop, Kind::Jump),
    (Kind::Jump, Kind::Nop),
    (Kind::Jump, Kind::Jump),
];

impl Kind {
    fn of(flavor: Flavor, head: &[u8]) -> Option<Self> {
        match flavor.word(head.try_into().ok()?) {
            insn::NOP => Some(Self::Nop),
            // Relative, and without a link.
            word if word & 0xfc00_0003 == insn::b(0) => Some(Self::Jump),
            _ => None,
        }
    }
}

/// Whether the head may be exchanged live.
pub(super) fn exchangeable(flavor: Flavor, old: &[u8], new: &[u8]) -> bool {
    match (Kind::of(flavor, old), Kind::of(flavor, new)) {
        (Some(old), Some(new)) => EXCHANGEABLE.contains(&(old, new)),
        _ => false,
    }
}

/// Where the head of the site at `addr` stands: at its first aligned word.
pub(super) fn plan(addr: CodeAddr, len: Len) -> Result<Head, NoHead> {
    let lead = addr.get().wrapping_neg() % u64::from(LEN);
    Head::within(addr, len, Len::new(lead as u32), Len::new(LEN))
}

/// An instruction as a head.
pub(super) fn of_word(flavor: Flavor, word: u32) -> HeadBytes {
    HeadBytes::new(&flavor.bytes(word))
}

/// The head that jumps to `to`, if it reaches: 32 MiB.
pub(super) fn jump(flavor: Flavor, head: Head, to: CodeAddr) -> Option<HeadBytes> {
    let word = insn::b_to(to.distance_from(head.addr))?;
    Some(of_word(flavor, word))
}

#[cfg(test)]
mod tests {
    use super::super::{BIG_V1, BIG_V2, LITTLE};
    use super::*;
    use crate::arch::live::Live;

    /// Nops, jumps, and what is neither: `bl`, `ba`, `bc`, another nop, `trap`.
    const WORDS: [(u32, bool); 8] = [
        (insn::NOP, true),
        (0x4800_0010, true),
        (0x4bff_fff0, true),
        (0x4800_0011, false),
        (0x4800_0012, false),
        (0x4182_0010, false),
        (0x6042_0000, false),
        (insn::TRAP, false),
    ];

    #[test]
    fn a_head_is_the_first_aligned_word() {
        for at in 0..8 {
            for len in 0..=16 {
                let addr = CodeAddr::new(0x1000 + at);
                match plan(addr, Len::new(len)) {
                    Ok(head) => {
                        assert_eq!(head.addr.get() % 4, 0);
                        assert!(head.offset.get() < 4 && head.end() <= Len::new(len));
                    }
                    Err(NoHead { needed }) => assert!(len < needed.get() && needed.get() < 8),
                }
            }
        }
    }

    #[test]
    fn only_branches_and_nops_are_exchanged() {
        for backend in [&BIG_V1, &BIG_V2, &LITTLE] {
            for ((old, a), (new, b)) in WORDS.into_iter().flat_map(|old| WORDS.map(|new| (old, new))) {
                let bytes = |word| backend.0.bytes(word);
                assert_eq!(
                    backend.exchangeable(&bytes(old), &bytes(new)),
                    a && b,
                    "{old:#x} {new:#x}"
                );
            }
            assert!(!backend.exchangeable(&[0x60], &[0x60]));
        }
    }

    #[test]
    fn a_jump_reaches_32_mib() {
        let head = plan(CodeAddr::new(0x1_0000_0000), Len::new(4)).unwrap();
        let jump = |distance: i64| {
            let to = CodeAddr::new(head.addr.get().wrapping_add_signed(distance));
            LITTLE.jump(head, to).map(|bytes| bytes.to_vec())
        };
        assert_eq!(jump((1 << 25) - 4), Some(vec![0xfc, 0xff, 0xff, 0x49]));
        assert_eq!(jump(-(1 << 25)), Some(vec![0x00, 0x00, 0x00, 0x4a]));
        assert_eq!((jump(1 << 25), jump(-(1 << 25) - 4), jump(2)), (None, None, None));
    }
}
