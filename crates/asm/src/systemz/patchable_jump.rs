//! Patchable jumps: the one instruction of a live site that is exchanged.
//!
//! The rule (Principles of Operation, chapter 5, "Instruction Fetching"): an instruction may be
//! fetched piecemeal, so a store must change no more than one part of it that is fetched at once. A
//! patchable jump therefore is always `brcl 15`, and what changes is its distance, an aligned word;
//! where there is nothing to do its target is the next instruction. It is 2 bytes into a
//! doubleword, so that one store holds it.

use llvm_stackmaps::addr::{CodeAddr, Len};

use super::insn::BRCL;
use crate::live::{JumpBytes, NoPatchableJump, PatchableJump};

/// The length of every patchable jump.
pub(super) const LEN: u32 = 6;
/// What one store changes.
const WORD: u64 = 8;
/// Where in it a patchable jump starts.
const INTO: u64 = 2;
/// Always.
const MASK: u8 = 15;

/// The place of the patchable jump of the site at `addr`: as early as possible. Any site of 12
/// bytes at an even address has one.
pub(super) fn plan(addr: CodeAddr, len: Len) -> Result<PatchableJump, NoPatchableJump> {
    let before = INTO.wrapping_sub(addr.get()) % WORD;
    if before % 2 != 0 {
        // No instruction is at an odd address, so there is no length that would do.
        return Err(NoPatchableJump {
            needed: Len::new(u32::MAX),
        });
    }
    // At most 6.
    PatchableJump::within(addr, len, Len::new(before as u32), Len::new(LEN))
}

/// The patchable jump that goes on behind itself.
pub(super) fn nop() -> JumpBytes {
    JumpBytes::new(&BRCL.of(MASK, LEN / 2))
}

/// The patchable jump that jumps to `to`, if it reaches.
pub(super) fn jump(patchable_jump: PatchableJump, to: CodeAddr) -> Option<JumpBytes> {
    let distance = to.distance_from(patchable_jump.addr);
    let halfwords = i32::try_from(distance / 2).ok().filter(|_| distance % 2 == 0)?;
    Some(JumpBytes::new(&BRCL.of(MASK, halfwords as u32)))
}

#[cfg(test)]
mod tests {
    use patchpoint_isa::Arch;

    use super::*;
    use crate::backend_of;

    #[test]
    fn every_even_address_and_length_gets_one_aligned_word_or_a_refusal() {
        let (mut planned, mut refused) = (0, 0);
        for at in (0..64).step_by(2) {
            for len in (0..=64).step_by(2) {
                let site = 0x7f00_0000_1000 + at;
                match plan(CodeAddr::new(site), Len::new(len)) {
                    Ok(patchable_jump) => {
                        let first = patchable_jump.addr.get();
                        assert_eq!((first + 2) % 4, 0, "the distance is aligned");
                        assert_eq!(first / 8, (first + 5) / 8, "one doubleword holds it");
                        assert_eq!(first - site, u64::from(patchable_jump.offset.get()));
                        assert!(
                            patchable_jump.offset.get() + LEN <= len && patchable_jump.len == Len::new(LEN)
                        );
                        planned += 1;
                    }
                    Err(NoPatchableJump { needed }) => {
                        assert!(len < 12 && len < needed.get(), "{site:#x} {len} {needed:?}");
                        assert!(plan(CodeAddr::new(site), needed).is_ok());
                        refused += 1;
                    }
                }
            }
        }
        assert!(planned >= 32 * 27 && refused >= 32 * 3);
        assert!(plan(CodeAddr::new(0x1001), Len::new(64)).is_err());
        assert!(plan(CodeAddr::new(u64::MAX - 1), Len::new(64)).is_err());
    }

    #[test]
    fn armed_sites_are_nops_around_one_patchable_jump() {
        let live = backend_of(Arch::SystemZ);
        for at in (0..16).step_by(2) {
            for len in (12..=40).step_by(2) {
                let site = CodeAddr::new(0x7f00_0000_1000 + at);
                let patchable_jump = live.plan_patchable_jump(site, Len::new(len)).unwrap();
                let jump = live
                    .jump(patchable_jump, CodeAddr::new(0x7f00_1000_0000))
                    .unwrap();
                for bytes in [live.nop(patchable_jump), jump] {
                    let armed = patchable_jump.armed(Arch::SystemZ, Len::new(len), bytes);
                    assert_eq!(armed.len(), len as usize);
                    assert_eq!(patchable_jump.of_site(&armed), Some(bytes));
                    let at = patchable_jump.offset.as_usize();
                    for nops in [&armed[..at], &armed[at + LEN as usize..]] {
                        let whole = patchpoint_verify::original(Arch::SystemZ, site, nops).unwrap();
                        assert_eq!(whole, patchpoint_verify::Original::Nops);
                    }
                }
            }
        }
    }

    #[test]
    fn jumps_reach_four_gib() {
        let patchable_jump = plan(CodeAddr::new(0x10_0000_0002), Len::new(6)).unwrap();
        let to = |to| jump(patchable_jump, CodeAddr::new(to)).map(|patchable_jump| patchable_jump.to_vec());
        assert_eq!(
            to(0x11_0000_0000),
            Some([0xc0, 0xf4, 0x7f, 0xff, 0xff, 0xff].to_vec())
        );
        assert_eq!(to(0x11_0000_0002), None);
        assert_eq!(to(0xf_0000_0002), Some([0xc0, 0xf4, 0x80, 0, 0, 0].to_vec()));
        assert_eq!(to(0xf_0000_0000), None);
        assert_eq!(to(0x10_0000_1001), None, "an odd address");
    }
}
