//! Patchable jumps: the one instruction of a live site that is exchanged.
//!
//! The rule (volume I, 1.5 and "Zifencei"): a naturally aligned word is stored and fetched whole,
//! and a thread that has not fetched it since executes the old one. So a patchable jump is a nop or
//! a jump of four bytes at a multiple of four; where the site begins between two such, a short nop
//! branches to it. Every thread's instruction fetches are made to see the store by the
//! `riscv_flush_icache` system call.

use llvm_stackmaps::addr::{CodeAddr, Len};

use super::branch;
use super::insn::{LEN, UNIT};
use crate::live::{JumpBytes, NoPatchableJump, PatchableJump};

/// `addi x0, x0, 0`
pub(super) const NOP: [u8; 4] = 0x0000_0013_u32.to_le_bytes();

/// The place of the patchable jump of the site at `addr`: as early as possible. There is no code at
/// odd addresses.
pub(super) fn plan(addr: CodeAddr, len: Len) -> Result<PatchableJump, NoPatchableJump> {
    let before = match addr.get() % u64::from(LEN) {
        0 => 0,
        2 => UNIT,
        _ => {
            return Err(NoPatchableJump {
                needed: Len::new(u32::MAX),
            });
        }
    };
    PatchableJump::within(addr, len, Len::new(before), Len::new(LEN))
}

/// The patchable jump that jumps to `to`, if it reaches.
pub(super) fn jump(patchable_jump: PatchableJump, to: CodeAddr) -> Option<JumpBytes> {
    let word = branch::jump(patchable_jump.addr.get(), to.get())?;
    Some(JumpBytes::new(&word.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use patchpoint_isa::Arch;
    use patchpoint_verify as verify;

    use super::*;

    #[test]
    fn every_address_and_length_gets_one_aligned_word_or_a_refusal() {
        for (at, len) in (0..16).flat_map(|at| (0..=24).map(move |len| (at, len))) {
            let site = CodeAddr::new(0x1000 + at);
            let before = match at % 4 {
                0 => 0,
                2 => 2,
                _ => {
                    assert!(plan(site, Len::new(len)).is_err());
                    continue;
                }
            };
            match plan(site, Len::new(len)) {
                Ok(patchable_jump) => {
                    assert!(len >= before + 4 && patchable_jump.addr.get() % 4 == 0);
                    assert_eq!(
                        (patchable_jump.offset.get(), patchable_jump.len.get()),
                        (before, 4)
                    );
                }
                Err(NoPatchableJump { needed }) => assert!(len < before + 4 && needed.get() == before + 4),
            }
        }
    }

    #[test]
    fn armed_sites_are_nops_around_one_patchable_jump() {
        for (at, len) in (0..8).flat_map(|at| (3..=16).map(move |len| (2 * at, 2 * len))) {
            let site = CodeAddr::new(0x1000 + at);
            let patchable_jump = plan(site, Len::new(len)).unwrap();
            let jump = jump(patchable_jump, CodeAddr::new(0x1_0000)).unwrap();
            for bytes in [JumpBytes::new(&NOP), jump] {
                let armed = patchable_jump.armed(Arch::RiscV64, Len::new(len), bytes);
                assert_eq!(
                    (armed.len(), patchable_jump.of_site(&armed)),
                    (len as usize, Some(bytes))
                );
                let lines = verify::disassemble(Arch::RiscV64, site, &armed);
                for line in lines {
                    let is_jump = line.addr == patchable_jump.addr && bytes == jump;
                    let expected: &[&str] = if is_jump {
                        &["jal zero, 0x10000"]
                    } else {
                        &["nop", "c.nop"]
                    };
                    assert!(expected.contains(&line.text.as_str()), "{}", line.text);
                }
            }
        }
    }

    #[test]
    fn a_stub_out_of_reach_has_no_jump() {
        let patchable_jump = plan(CodeAddr::new(0x100_0000), Len::new(4)).unwrap();
        let mib = 1 << 20;
        for (distance, reached) in [(mib - 2, true), (mib, false), (-mib, true), (-mib - 2, false)] {
            let to = CodeAddr::new(0x100_0000u64.wrapping_add_signed(distance));
            assert_eq!(jump(patchable_jump, to).is_some(), reached);
        }
    }
}
