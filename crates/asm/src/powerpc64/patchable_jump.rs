//! Patchable jumps: the one word of a live site that is exchanged.
//!
//! The rule (Power ISA book II, concurrent modification and execution of instructions): an aligned
//! word that is in both states an unconditional branch of the I form or the preferred nop is one or
//! the other for every thread.

use llvm_stackmaps::addr::{CodeAddr, Len};

use super::Flavor;
use super::insn;
use crate::live::{JumpBytes, NoPatchableJump, PatchableJump};

/// The length of every patchable jump.
const LEN: u32 = 4;

/// The place of the patchable jump of the site at `addr`: at its first aligned word.
pub(super) fn plan(addr: CodeAddr, len: Len) -> Result<PatchableJump, NoPatchableJump> {
    let before = addr.get().wrapping_neg() % u64::from(LEN);
    PatchableJump::within(addr, len, Len::new(before as u32), Len::new(LEN))
}

/// An instruction as a patchable jump.
pub(super) fn of_word(flavor: Flavor, word: u32) -> JumpBytes {
    JumpBytes::new(&flavor.bytes(word))
}

/// The patchable jump that jumps to `to`, if it reaches: 32 MiB.
pub(super) fn jump(flavor: Flavor, patchable_jump: PatchableJump, to: CodeAddr) -> Option<JumpBytes> {
    let word = insn::b_to(to.distance_from(patchable_jump.addr))?;
    Some(of_word(flavor, word))
}

#[cfg(test)]
mod tests {
    use super::super::LITTLE;
    use super::*;
    use crate::backend::Backend;

    #[test]
    fn a_patchable_jump_is_the_first_aligned_word() {
        for at in 0..8 {
            for len in 0..=16 {
                let addr = CodeAddr::new(0x1000 + at);
                match plan(addr, Len::new(len)) {
                    Ok(patchable_jump) => {
                        assert_eq!(patchable_jump.addr.get() % 4, 0);
                        assert!(patchable_jump.offset.get() < 4 && patchable_jump.end() <= Len::new(len));
                    }
                    Err(NoPatchableJump { needed }) => assert!(len < needed.get() && needed.get() < 8),
                }
            }
        }
    }

    #[test]
    fn a_jump_reaches_32_mib() {
        let patchable_jump = plan(CodeAddr::new(0x1_0000_0000), Len::new(4)).unwrap();
        let jump = |distance: i64| {
            let to = CodeAddr::new(patchable_jump.addr.get().wrapping_add_signed(distance));
            LITTLE.jump(patchable_jump, to).map(|bytes| bytes.to_vec())
        };
        assert_eq!(jump((1 << 25) - 4), Some(vec![0xfc, 0xff, 0xff, 0x49]));
        assert_eq!(jump(-(1 << 25)), Some(vec![0x00, 0x00, 0x00, 0x4a]));
        assert_eq!((jump(1 << 25), jump(-(1 << 25) - 4), jump(2)), (None, None, None));
    }
}
