//! Instructions on vectors of a length that is not known when code is compiled: SVE and SME of
//! AArch64, V of RISC-V.
//!
//! No exit saves their registers, and where no record tells what is live at a site, a function that
//! has such instructions may keep a value there. Encodings: Arm ARM C4.1 (top-level encodings: SVE,
//! SME); RISC-V unprivileged ISA 31.5 and 31.7.

use llvm_stackmaps::addr::CodeAddr;
use patchpoint_isa::Arch;

use super::dispatch::isa;

/// The first such instruction of a function.
#[must_use]
pub fn first_scalable(arch: Arch, addr: CodeAddr, code: &[u8]) -> Option<CodeAddr> {
    let at = (isa(arch).scalable)(code)?;
    Some(CodeAddr::new(addr.get().wrapping_add(at as u64)))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

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
