//! Heads: the one instruction of a live site that is exchanged.
//!
//! The rule (DDI 0487, B2.2.5, concurrent modification and execution of instructions): an instruction may be
//! replaced while others execute it, without their being stopped, if the old and the new one are both of B, BL, BRK,
//! HVC, ISB, NOP, SMC, SVC. Every instruction is an aligned word, so one store changes all of it. All other pairs
//! could be executed as something that is neither: `b.cond`, too.

use super::branch;
use super::insn::LEN;
use crate::addr::{CodeAddr, Len};
use crate::arch::live::{Head, HeadBytes, NoHead};

/// `nop`
pub(super) const NOP: [u8; 4] = 0xd503_201f_u32.to_le_bytes();
/// `brk #0`
pub(super) const TRAP: [u8; 4] = 0xd420_0000_u32.to_le_bytes();

/// What may become another of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nop,
    Jump,
    Call,
    Trap,
}

impl Kind {
    fn of(head: &[u8]) -> Option<Self> {
        let word = u32::from_le_bytes(head.try_into().ok()?);
        match word >> 26 {
            0b00_0101 => Some(Self::Jump),
            0b10_0101 => Some(Self::Call),
            // brk with any comment.
            0b11_0101 if word & 0xffe0_001f == 0xd420_0000 => Some(Self::Trap),
            _ if head == NOP => Some(Self::Nop),
            _ => None,
        }
    }
}

/// The pairs of old and new that may be exchanged while threads execute either.
const EXCHANGEABLE: [(Kind, Kind); 16] = [
    (Kind::Nop, Kind::Nop),
    (Kind::Nop, Kind::Jump),
    (Kind::Nop, Kind::Call),
    (Kind::Nop, Kind::Trap),
    (Kind::Jump, Kind::Nop),
    (Kind::Jump, Kind::Jump),
    (Kind::Jump, Kind::Call),
    (Kind::Jump, Kind::Trap),
    (Kind::Call, Kind::Nop),
    (Kind::Call, Kind::Jump),
    (Kind::Call, Kind::Call),
    (Kind::Call, Kind::Trap),
    (Kind::Trap, Kind::Nop),
    (Kind::Trap, Kind::Jump),
    (Kind::Trap, Kind::Call),
    (Kind::Trap, Kind::Trap),
];

/// Whether the head may be exchanged live.
pub(super) fn exchangeable(old: &[u8], new: &[u8]) -> bool {
    match (Kind::of(old), Kind::of(new)) {
        (Some(old), Some(new)) => EXCHANGEABLE.contains(&(old, new)),
        _ => false,
    }
}

/// Where the head of the site at `addr` stands: at its start. There is no code at addresses that are not aligned.
pub(super) fn plan(addr: CodeAddr, len: Len) -> Result<Head, NoHead> {
    match addr.get() % u64::from(LEN) {
        0 => Head::within(addr, len, Len::new(0), Len::new(LEN)),
        _ => Err(NoHead {
            needed: Len::new(u32::MAX),
        }),
    }
}

/// The head that jumps to `to`, if it reaches.
pub(super) fn jump(head: Head, to: CodeAddr) -> Option<HeadBytes> {
    let word = branch::jump(head.addr.get(), to.get())?;
    Some(HeadBytes::new(&word.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Arch;

    #[test]
    fn every_aligned_site_of_four_bytes_has_a_head() {
        for (at, len) in (0..16).flat_map(|at| (0..=16).map(move |len| (at, len))) {
            let planned = plan(CodeAddr::new(0x1000 + at), Len::new(len));
            assert_eq!(planned.is_ok(), at % 4 == 0 && len >= 4, "{at} {len}");
            if let Ok(head) = planned {
                assert_eq!((head.offset, head.len), (Len::new(0), Len::new(4)));
            }
        }
    }

    #[test]
    fn armed_sites_are_a_head_and_nops() {
        let (site, len) = (CodeAddr::new(0x7000_0000), Len::new(16));
        let head = plan(site, len).unwrap();
        let live = Arch::AArch64.live();
        let jump = jump(head, CodeAddr::new(0x7000_0100)).unwrap();
        assert_eq!(&*jump, 0x1400_0040_u32.to_le_bytes());
        let armed = head.armed(live, len, jump);
        assert_eq!(armed[..4], *jump);
        assert_eq!(armed[4..], NOP.repeat(3));
        assert_eq!(*live.nop(head), NOP);
    }

    #[test]
    fn heads_reach_128_mib() {
        let head = plan(CodeAddr::new(0x7000_0000_0000), Len::new(4)).unwrap();
        let to = |distance: i64| {
            jump(
                head,
                CodeAddr::new(0x7000_0000_0000_u64.wrapping_add_signed(distance)),
            )
        };
        for distance in [0, 4, -4, (128 << 20) - 4, -(128 << 20)] {
            assert!(to(distance).is_some(), "{distance}");
        }
        for distance in [2, 128 << 20, -(128 << 20) - 4] {
            assert!(to(distance).is_none(), "{distance}");
        }
    }

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
            let allowed = exchangeable(&u32::to_le_bytes(old), &u32::to_le_bytes(new));
            assert_eq!(
                allowed,
                may.contains(&old) && may.contains(&new),
                "{old:08x} {new:08x}"
            );
        }
        assert!(!exchangeable(&NOP[..2], &NOP) && !exchangeable(&NOP, &NOP.repeat(2)));
    }
}
