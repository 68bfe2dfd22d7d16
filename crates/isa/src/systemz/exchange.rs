//! Which instructions may be exchanged.
//!
//! The rule (Principles of Operation, chapter 5, "Instruction Fetching"): an instruction may be
//! fetched piecemeal, so a store must change no more than one part of it that is fetched at once.
//! What is exchanged therefore is always `brcl 15`, and what changes is its distance, an aligned
//! word; where there is nothing to do its target is the next instruction.

/// An instruction without operands that is none, and never will be: 2 bytes of which the first is 0. Linux makes
/// it SIGILL, and SIGTRAP for a process that is traced.
pub(super) const TRAP: [u8; 2] = [0x00, 0x01];

/// What may become another of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exchangeable {
    /// `brcl 15`, whatever its target.
    Jump,
}

/// The pairs of old and new that may be exchanged while threads execute either.
const PAIRS: [(Exchangeable, Exchangeable); 1] = [(Exchangeable::Jump, Exchangeable::Jump)];

impl Exchangeable {
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0xc0, 0xf4, _, _, _, _] => Some(Self::Jump),
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
    use super::allowed;

    #[test]
    fn only_distances_are_exchanged() {
        // To the next instruction, and to another.
        let (nop, jump) = ([0xc0, 0xf4, 0, 0, 0, 3], [0xc0, 0xf4, 0, 0, 8, 0]);
        for (old, new) in [(nop, nop), (nop, jump), (jump, nop), (jump, jump)] {
            assert!(allowed(&old, &new));
        }
        // brcl 0, brasl, bc and bcr.
        for other in [
            [0xc0, 0x04, 0, 0, 0, 3],
            [0xc0, 0xe5, 0, 0, 0, 3],
            [0x47, 0, 0, 0, 0x07, 0],
        ] {
            assert!(!allowed(&other, &jump) && !allowed(&jump, &other));
        }
        assert!(!allowed(&jump, &jump[..4]));
    }
}
