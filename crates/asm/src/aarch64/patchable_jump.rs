//! Patchable jumps: the one instruction of a live site that is exchanged.
//!
//! The rule (DDI 0487, B2.2.5, concurrent modification and execution of instructions): an
//! instruction may be replaced while others execute it, without their being stopped, if the old and
//! the new one are both of B, BL, BRK, HVC, ISB, NOP, SMC, SVC. Every instruction is an aligned
//! word, so one store changes all of it. All other pairs could be executed as something that is
//! neither: `b.cond`, too.

use llvm_stackmaps::addr::{CodeAddr, Len};

use super::branch;
use super::insn::LEN;
use crate::live::{JumpBytes, NoPatchableJump, PatchableJump};

/// `nop`
pub(super) const NOP: [u8; 4] = 0xd503_201f_u32.to_le_bytes();

/// The place of the patchable jump of the site at `addr`: at its start. There is no code at
/// addresses that are not aligned.
pub(super) fn plan(addr: CodeAddr, len: Len) -> Result<PatchableJump, NoPatchableJump> {
    match addr.get() % u64::from(LEN) {
        0 => PatchableJump::within(addr, len, Len::new(0), Len::new(LEN)),
        _ => Err(NoPatchableJump {
            needed: Len::new(u32::MAX),
        }),
    }
}

/// The patchable jump that jumps to `to`, if it reaches.
pub(super) fn jump(patchable_jump: PatchableJump, to: CodeAddr) -> Option<JumpBytes> {
    let word = branch::jump(patchable_jump.addr.get(), to.get())?;
    Some(JumpBytes::new(&word.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use patchpoint_isa::Arch;

    use super::*;
    use crate::backend_of;

    #[test]
    fn every_aligned_site_of_four_bytes_has_a_patchable_jump() {
        for (at, len) in (0..16).flat_map(|at| (0..=16).map(move |len| (at, len))) {
            let planned = plan(CodeAddr::new(0x1000 + at), Len::new(len));
            assert_eq!(planned.is_ok(), at % 4 == 0 && len >= 4, "{at} {len}");
            if let Ok(patchable_jump) = planned {
                assert_eq!(
                    (patchable_jump.offset, patchable_jump.len),
                    (Len::new(0), Len::new(4))
                );
            }
        }
    }

    #[test]
    fn armed_sites_are_a_patchable_jump_and_nops() {
        let (site, len) = (CodeAddr::new(0x7000_0000), Len::new(16));
        let patchable_jump = plan(site, len).unwrap();
        let live = backend_of(Arch::AArch64);
        let jump = jump(patchable_jump, CodeAddr::new(0x7000_0100)).unwrap();
        assert_eq!(&*jump, 0x1400_0040_u32.to_le_bytes());
        let armed = patchable_jump.armed(Arch::AArch64, len, jump);
        assert_eq!(armed[..4], *jump);
        assert_eq!(armed[4..], NOP.repeat(3));
        assert_eq!(*live.nop(patchable_jump), NOP);
    }

    #[test]
    fn patchable_jumps_reach_128_mib() {
        let patchable_jump = plan(CodeAddr::new(0x7000_0000_0000), Len::new(4)).unwrap();
        let to = |distance: i64| {
            jump(
                patchable_jump,
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
}
