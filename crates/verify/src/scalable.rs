//! Instructions on vectors of a length that is not known when code is compiled: SVE and SME of AArch64, V of RISC-V.
//!
//! No exit saves their registers, and where no record tells what is live at a site, a function that has such instructions may
//! keep a value there. Encodings: Arm ARM C4.1 (top-level encodings: SVE, SME); RISC-V unprivileged ISA 31.5 and 31.7.

use llvm_stackmaps::addr::CodeAddr;
use patchpoint_isa::Arch;

/// The first such instruction of a function.
pub fn first_scalable(arch: Arch, addr: CodeAddr, code: &[u8]) -> Option<CodeAddr> {
    let mut at = 0;
    loop {
        let rest = code.get(at..)?;
        let half = u16::from_le_bytes(*rest.first_chunk()?);
        let word = rest.first_chunk().map(|word| u32::from_le_bytes(*word));
        let (found, len) = match arch {
            Arch::AArch64 => (aarch64(word?), 4),
            Arch::RiscV64 => (word.is_some_and(riscv64), super::branches::riscv64_len(half)),
            Arch::X86_64 | Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 | Arch::SystemZ => {
                return None;
            }
        };
        if found {
            return Some(CodeAddr::new(addr.get().wrapping_add(at as u64)));
        }
        at += len;
    }
}

const fn aarch64(word: u32) -> bool {
    match word >> 25 & 15 {
        0b0010 => true,
        0b0000 => word >> 31 == 1,
        _ => false,
    }
}

/// Of four bytes; the low seven bits of others are different.
const fn riscv64(word: u32) -> bool {
    match word & 0x7f {
        0x57 => true,
        // Loads and stores; the widths of floating-point ones are 1 to 4.
        0x07 | 0x27 => matches!(word >> 12 & 7, 0 | 5..=7),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn instructions_are_told_apart_as_llvm_encodes_them() {
        for word in [
            0x04e2_0020_u32, // add z0.d, z1.d, z2.d
            0x25d8_e3e0,     // ptrue p0.d
            0xa5e0_a000,     // ld1d
            0xe5e0_e000,     // st1d
            0x8580_0000,     // ldr p0
            0xe580_4000,     // str z0
        ] {
            assert!(aarch64(word), "{word:#x}");
        }
        for word in [
            0x1e60_2800_u32, // fadd
            0x4ee2_8420,     // add v0.2d
            0xfd40_0000,     // ldr d0
            0xd503_201f,     // nop
            0xa9bf_7bfd,     // stp
            0x0000_0000,     // udf
            0x9400_0000,     // bl
        ] {
            assert!(!aarch64(word), "{word:#x}");
        }
        for word in [
            0x0d90_7557_u32,
            0x0205_7007,
            0x0211_0057,
            0x0285_0027,
            0x0205_5087,
        ] {
            assert!(riscv64(word), "{word:#x}");
        }
        // fld, flw, fsd, fadd.d, addi
        for word in [
            0x0005_3007_u32,
            0x0005_2007,
            0x0005_3027,
            0x0220_f053,
            0x0000_0013,
        ] {
            assert!(!riscv64(word), "{word:#x}");
        }
    }

    #[test]
    fn the_first_is_found_behind_instructions_of_any_length() {
        let addr = CodeAddr::new(0x1000);
        // c.nop; addi; vsetvli
        let code: Vec<u8> = [&[1, 0][..], &[0x13, 0, 0, 0], &[0x57, 0x75, 0x90, 0x0d]].concat();
        assert_eq!(
            first_scalable(Arch::RiscV64, addr, &code),
            Some(CodeAddr::new(0x1006))
        );
        assert_eq!(first_scalable(Arch::RiscV64, addr, &code[..8]), None);
        assert_eq!(first_scalable(Arch::X86_64, addr, &code), None);
    }
}
