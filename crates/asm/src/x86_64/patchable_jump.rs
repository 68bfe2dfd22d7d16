//! Patchable jumps: the one instruction of a live site that is exchanged.
//!
//! The rule (AMD64 Architecture Programmer's Manual volume 2, 7.6.1, cross-modifying code): one
//! store inside a naturally aligned quadword that replaces an instruction by one of the same length
//! is seen whole. So a patchable jump has 5 bytes, as `jmp rel32` and the 5-byte nop have, and lies
//! inside one quadword. The nops before it and those behind it are written
//! when the site is armed and never again: a thread may be between any two of them at any time.

use llvm_stackmaps::addr::{CodeAddr, Len};

use crate::live::{JumpBytes, NoPatchableJump, PatchableJump};

/// The length of every patchable jump.
const LEN: u32 = 5;
/// The 5-byte nop (Intel SDM volume 2, NOP, table 4-12).
pub(super) const NOP: [u8; LEN as usize] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
/// `jmp rel32`.
const JUMP: u8 = 0xe9;
/// What one store changes.
const WORD: u64 = 8;

/// The place of the patchable jump of the site at `addr`: as early as possible. Any site of 9 bytes
/// has one.
pub(super) fn plan(addr: CodeAddr, len: Len) -> Result<PatchableJump, NoPatchableJump> {
    let into = addr.get() % WORD;
    // protection: patchable-jump-within-one-quadword
    let before = match into + u64::from(LEN) <= WORD {
        true => 0,
        false => WORD - into,
    };
    // At most 4.
    PatchableJump::within(addr, len, Len::new(before as u32), Len::new(LEN))
}

/// The jump at the start of the site at `addr`, wherever that lies.
pub(super) fn plan_behind_trap(addr: CodeAddr, len: Len) -> Option<PatchableJump> {
    PatchableJump::within(addr, len, Len::new(0), Len::new(LEN)).ok()
}

/// The patchable jump that jumps to `to`, if it reaches.
pub(super) fn jump(patchable_jump: PatchableJump, to: CodeAddr) -> Option<JumpBytes> {
    let distance = to.distance_from(patchable_jump.addr).wrapping_sub(i64::from(LEN));
    let distance = i32::try_from(distance).ok()? as u32;
    let word = u64::from(JUMP) | u64::from(distance) << 8;
    Some(JumpBytes::of_quadword(word, LEN as u8))
}

#[cfg(test)]
mod tests {
    use iced_x86::{Code, Decoder, DecoderOptions};
    use patchpoint_isa::Arch;

    use super::*;

    /// The rule, stated once more without the planner's arithmetic.
    fn is_one_store(site: u64, len: u32, patchable_jump: PatchableJump) -> bool {
        let (first, last) = (
            patchable_jump.addr.get(),
            patchable_jump.addr.get() + u64::from(LEN) - 1,
        );
        first / 8 == last / 8
            && patchable_jump.len == Len::new(LEN)
            && first >= site
            && last < site + u64::from(len)
            && first - site == u64::from(patchable_jump.offset.get())
    }

    #[test]
    fn every_address_and_length_gets_one_aligned_store_or_a_refusal() {
        let (mut planned, mut refused) = (0, 0);
        for at in 0..64 {
            for len in 0..=64 {
                let site = 0x7f00_0000_1000 + at;
                match plan(CodeAddr::new(site), Len::new(len)) {
                    Ok(patchable_jump) => {
                        assert!(
                            is_one_store(site, len, patchable_jump),
                            "{site:#x} {len} {patchable_jump:?}"
                        );
                        planned += 1;
                    }
                    Err(NoPatchableJump { needed }) => {
                        assert!(len < 9 && len < needed.get(), "{site:#x} {len} {needed:?}");
                        assert!(plan(CodeAddr::new(site), needed).is_ok());
                        // No other place in the site would do either.
                        for offset in 0..=len.saturating_sub(LEN) {
                            let first = site + u64::from(offset);
                            assert!(offset + LEN > len || first / 8 != (first + 4) / 8);
                        }
                        refused += 1;
                    }
                }
            }
        }
        assert_eq!(planned + refused, 64 * 65);
        assert!(planned >= 64 * 56 && refused >= 64 * 5);
    }

    #[test]
    fn a_site_at_the_end_of_the_address_space_is_refused() {
        assert!(plan(CodeAddr::new(u64::MAX), Len::new(64)).is_err());
    }

    #[test]
    fn armed_sites_are_nops_around_one_patchable_jump() {
        for at in 0..64 {
            for len in 9..=64 {
                let site = CodeAddr::new(0x7f00_0000_1000 + at);
                let patchable_jump = plan(site, Len::new(len)).unwrap();
                let to = CodeAddr::new(0x7f00_1000_0000);
                let jump = jump(patchable_jump, to).unwrap();
                for bytes in [JumpBytes::new(&NOP), jump] {
                    let armed = patchable_jump.armed(Arch::X86_64, Len::new(len), bytes);
                    assert_eq!(armed.len(), len as usize);
                    assert_eq!(patchable_jump.of_site(&armed), Some(bytes));
                    let decoder = Decoder::with_ip(64, &armed, site.get(), DecoderOptions::NONE);
                    for instruction in decoder {
                        let is_patchable_jump = instruction.ip() == patchable_jump.addr.get();
                        if is_patchable_jump && bytes == jump {
                            assert_eq!(instruction.near_branch_target(), to.get());
                        } else {
                            let nop = instruction.is_invalid()
                                || !matches!(
                                    instruction.code(),
                                    Code::Nopd | Code::Nopw | Code::Nopq | Code::Nop_rm32 | Code::Nop_rm16
                                );
                            assert!(!nop, "{instruction}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_stub_out_of_reach_has_no_jump() {
        let patchable_jump = plan(CodeAddr::new(0x1000), Len::new(9)).unwrap();
        assert!(jump(patchable_jump, CodeAddr::new(0x1005 + 0x7fff_ffff)).is_some());
        assert_eq!(jump(patchable_jump, CodeAddr::new(0x1005 + 0x8000_0000)), None);
    }
}
