//! Which instructions may be exchanged.
//!
//! The rule (AMD64 Architecture Programmer's Manual volume 2, 7.6.1, cross-modifying code): one
//! store inside a naturally aligned quadword that replaces an instruction by one of the same length
//! is seen whole.

/// `int3` (Intel SDM volume 2): one byte, as the shortest instructions have.
pub(super) const TRAP: [u8; 1] = [0xcc];

/// What may become another of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exchangeable {
    /// A 5-byte nop: `0F 1F /0` of an address by a base, an index and a byte, which it does not
    /// access (Intel SDM volume 2, NOP). In table 4-12 index and byte are 0; LLVM writes 8 for the byte.
    Nop,
    /// `jmp rel32`.
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
        match bytes {
            [0x0f, 0x1f, 0x44, _, _] => Some(Self::Nop),
            [0xe9, _, _, _, _] => Some(Self::Jump),
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
    fn only_jumps_and_nops_of_their_length_are_exchanged() {
        let nop = [0x0f, 0x1f, 0x44, 0x00, 0x00];
        let jump = [0xe9, 1, 2, 3, 4];
        let llvm = [0x0f, 0x1f, 0x44, 0x00, 0x08];
        for (old, new) in [
            (nop, nop),
            (nop, jump),
            (jump, nop),
            (jump, jump),
            (llvm, jump),
            (jump, llvm),
        ] {
            assert!(allowed(&old, &new));
        }
        // mov eax, imm32; call rel32; nop, nop, xchg ax, ax.
        for other in [
            [0xb8, 1, 2, 3, 4],
            [0xe8, 1, 2, 3, 4],
            [0x90, 0x66, 0x90, 0x66, 0x90],
            // nop [rax]; ret.
            [0x0f, 0x1f, 0x40, 0x00, 0xc3],
        ] {
            assert!(!allowed(&other, &nop) && !allowed(&jump, &other));
        }
    }
}
