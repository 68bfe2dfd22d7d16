//! Which instructions may be exchanged.
//!
//! The rule (DDI 0487, B2.2.5, concurrent modification and execution of instructions): an
//! instruction may be replaced while others execute it, without their being stopped, if the old and
//! the new one are both of B, BL, BRK, HVC, ISB, NOP, SMC, SVC. Every instruction is an aligned
//! word, so one store changes all of it. All other pairs could be executed as something that is
//! neither: `b.cond`, too.

use super::NOP;

/// `brk #0`
pub(super) const TRAP: [u8; 4] = 0xd420_0000_u32.to_le_bytes();

/// What may become another of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exchangeable {
    Nop,
    Jump,
    Call,
    Trap,
}

impl Exchangeable {
    fn of(bytes: &[u8]) -> Option<Self> {
        let word = u32::from_le_bytes(bytes.try_into().ok()?);
        match word >> 26 {
            0b00_0101 => Some(Self::Jump),
            0b10_0101 => Some(Self::Call),
            // brk with any comment.
            0b11_0101 if word & 0xffe0_001f == 0xd420_0000 => Some(Self::Trap),
            _ if bytes == NOP => Some(Self::Nop),
            _ => None,
        }
    }
}

/// The pairs of old and new that may be exchanged while threads execute either.
const PAIRS: [(Exchangeable, Exchangeable); 16] = [
    (Exchangeable::Nop, Exchangeable::Nop),
    (Exchangeable::Nop, Exchangeable::Jump),
    (Exchangeable::Nop, Exchangeable::Call),
    (Exchangeable::Nop, Exchangeable::Trap),
    (Exchangeable::Jump, Exchangeable::Nop),
    (Exchangeable::Jump, Exchangeable::Jump),
    (Exchangeable::Jump, Exchangeable::Call),
    (Exchangeable::Jump, Exchangeable::Trap),
    (Exchangeable::Call, Exchangeable::Nop),
    (Exchangeable::Call, Exchangeable::Jump),
    (Exchangeable::Call, Exchangeable::Call),
    (Exchangeable::Call, Exchangeable::Trap),
    (Exchangeable::Trap, Exchangeable::Nop),
    (Exchangeable::Trap, Exchangeable::Jump),
    (Exchangeable::Trap, Exchangeable::Call),
    (Exchangeable::Trap, Exchangeable::Trap),
];

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
    fn only_what_the_manual_lists_is_exchanged() {
        // nop, b, b back, bl, brk #0, brk #0xffff
        let may = [
            0xd503_201f,
            0x1400_0001,
            0x17ff_fffe,
            0x9400_0007,
            0xd420_0000,
            0xd43f_ffe0,
        ];
        // b.eq, cbz, tbz, br, ret, movz, ldr, yield, bti c, udf, add, hlt
        let may_not = [
            0x5400_0000,
            0xb400_0000,
            0x3600_0000,
            0xd61f_0200,
            0xd65f_03c0,
            0xd280_0000,
            0xf940_0000,
            0xd503_203f,
            0xd503_245f,
            0x0000_0000,
            0x9100_0400,
            0xd440_0000,
        ];
        let all = || may.iter().chain(&may_not);
        for (old, new) in all().flat_map(|old| all().map(move |new| (*old, *new))) {
            let may_be = allowed(&u32::to_le_bytes(old), &u32::to_le_bytes(new));
            assert_eq!(
                may_be,
                may.contains(&old) && may.contains(&new),
                "{old:08x} {new:08x}"
            );
        }
        assert!(!allowed(&NOP[..2], &NOP) && !allowed(&NOP, &NOP.repeat(2)));
    }
}
