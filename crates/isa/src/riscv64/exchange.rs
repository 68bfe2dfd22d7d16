//! Which instructions may be exchanged.
//!
//! The rule (volume I, 1.5 and "Zifencei"): a naturally aligned word is stored and fetched whole,
//! and a thread that has not fetched it since executes the old one. So it may be a nop or a jump of
//! four bytes at a multiple of four.

use super::NOP;

/// `c.ebreak`: as short as any instruction. Where there are no compressed instructions it is
/// illegal, which no handler here expects: such processors run no Linux distribution.
pub(super) const TRAP: [u8; 2] = 0x9002_u16.to_le_bytes();

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
    fn of(bytes: &[u8]) -> Option<Self> {
        let word = u32::from_le_bytes(bytes.try_into().ok()?);
        match word & 0xfff {
            // jal x0
            0x06f => Some(Self::Jump),
            _ if bytes == NOP => Some(Self::Nop),
            _ => None,
        }
    }
}

pub(super) fn allowed(old: &[u8], new: &[u8]) -> bool {
    match (Exchangeable::of(old), Exchangeable::of(new)) {
        (Some(old), Some(new)) => PAIRS.contains(&(old, new)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_jumps_and_nops_of_four_bytes_are_exchanged() {
        let jump = 0x0100_006f_u32.to_le_bytes();
        for (old, new) in [(NOP, NOP), (NOP, jump), (jump, NOP), (jump, jump)] {
            assert!(allowed(&old, &new));
        }
        // jal ra; ld; two short nops; ebreak.
        for other in [0x0100_00ef_u32, 0x0085_3283, 0x0001_0001, 0x0010_0073] {
            let other = other.to_le_bytes();
            assert!(!allowed(&other, &NOP) && !allowed(&jump, &other));
        }
    }
}
