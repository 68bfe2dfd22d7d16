//! Nops that are known without being decoded.
//!
//! Sources: Intel SDM volume 2, NOP; Arm DDI 0487, NOP; Power ISA 3.1B, `ori`; z/Architecture
//! Principles of Operation, BRANCH ON CONDITION; RISC-V Unprivileged ISA, NOP and C.NOP.

use patchpoint_isa::Arch;

/// Whether these bytes are nops in the forms that producers pad with, all of them. It is quicker
/// than decoding them, and says no of other instructions that do nothing.
#[must_use]
pub fn are_nops(arch: Arch, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        let len = match arch {
            Arch::X86_64 => x86_64(rest),
            Arch::AArch64 => one_of(rest, &[&0xd503_201f_u32.to_le_bytes()]),
            Arch::PowerPc64 | Arch::PowerPc64ElfV2 => one_of(rest, &[&0x6000_0000_u32.to_be_bytes()]),
            Arch::PowerPc64Le => one_of(rest, &[&0x6000_0000_u32.to_le_bytes()]),
            Arch::SystemZ => one_of(rest, &[&[0xc0, 0x04, 0, 0, 0, 0], &[0x47, 0, 0, 0], &[0x07, 0]]),
            Arch::RiscV64 => one_of(rest, &[&0x0000_0013_u32.to_le_bytes(), &0x0001_u16.to_le_bytes()]),
        };
        match len.and_then(|len| rest.get(len..)) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    true
}

/// The length of the instruction with which the bytes begin, if it is one of these.
fn one_of(bytes: &[u8], nops: &[&[u8]]) -> Option<usize> {
    let nop = nops.iter().find(|nop| bytes.starts_with(nop));
    nop.map(|nop| nop.len())
}

/// `nop`, and `nop r/m` with the operands that are used for it, behind prefixes for the length.
fn x86_64(bytes: &[u8]) -> Option<usize> {
    const LONGEST: usize = 15;
    let prefixes = bytes
        .iter()
        .take_while(|byte| matches!(byte, 0x66 | 0x2e))
        .count();
    let len = match bytes.get(prefixes..)? {
        [0x90, ..] => 1,
        [0x0f, 0x1f, 0x00, ..] => 3,
        [0x0f, 0x1f, 0x40, _, ..] => 4,
        [0x0f, 0x1f, 0x44, _, _, ..] => 5,
        [0x0f, 0x1f, 0x80, _, _, _, _, ..] => 7,
        [0x0f, 0x1f, 0x84, _, _, _, _, _, ..] => 8,
        _ => return None,
    };
    let len = prefixes + len;
    (len <= LONGEST).then_some(len)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn what_backends_pad_with_is_nops() {
        for arch in [
            Arch::X86_64,
            Arch::AArch64,
            Arch::PowerPc64,
            Arch::PowerPc64ElfV2,
            Arch::PowerPc64Le,
            Arch::SystemZ,
            Arch::RiscV64,
        ] {
            for units in 0..40 {
                let mut bytes = Vec::new();
                patchpoint_isa::nops::put(arch, 4 * units, &mut bytes);
                assert!(are_nops(arch, &bytes), "{arch:?} {bytes:02x?}");
                // A byte that makes another instruction of the last.
                if let Some(last) = bytes.last_mut() {
                    *last ^= 0xf5;
                    let is_displacement = arch == Arch::X86_64 && bytes.len() > 3;
                    assert!(
                        is_displacement || !are_nops(arch, &bytes),
                        "{arch:?} {bytes:02x?}"
                    );
                    bytes.pop();
                    assert!(bytes.is_empty() || !are_nops(arch, &bytes) || arch == Arch::X86_64);
                }
            }
        }
    }

    #[test]
    fn nops_of_x86_64_have_any_length_up_to_15() {
        let nop: &[u8] = &[0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
        for prefixes in 0..=6 {
            let bytes = [&[0x66].repeat(prefixes), nop].concat();
            assert!(are_nops(Arch::X86_64, &bytes), "{bytes:02x?}");
        }
        let others: [&[u8]; 9] = [
            &[0x66; 7],
            &[0xf3, 0x90],
            &[0x66, 0x91],
            &[0x90, 0x0f],
            &[0x0f, 0x1f],
            &[0x0f, 0x1f, 0x44, 0],
            &[0x0f, 0x1f, 0x04, 0x25],
            &[0x0f, 0x1f, 0x05, 0, 0, 0, 0],
            &[0x0f, 0x1e, 0xfa],
        ];
        for bytes in others {
            assert!(!are_nops(Arch::X86_64, bytes), "{bytes:02x?}");
        }
        let longer = [&[0x66].repeat(7), nop].concat();
        assert!(!are_nops(Arch::X86_64, &longer));
    }
}
