//! The one place where an architecture is chosen.

use patchpoint_isa::Arch;

use crate::backend::Backend;

/// The encoder of an architecture.
#[inline]
pub fn backend_of(arch: Arch) -> &'static dyn Backend {
    match arch {
        Arch::X86_64 => &crate::x86_64::X86_64,
        Arch::AArch64 => &crate::aarch64::AArch64,
        Arch::PowerPc64 => &crate::powerpc64::BIG_V1,
        Arch::PowerPc64ElfV2 => &crate::powerpc64::BIG_V2,
        Arch::PowerPc64Le => &crate::powerpc64::LITTLE,
        Arch::SystemZ => &crate::systemz::SystemZ,
        Arch::RiscV64 => &crate::riscv64::RiscV64,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use std::panic::catch_unwind;

    use llvm_stackmaps::addr::CodeAddr;

    use super::*;
    use crate::backend::{Branch, BranchForm, BranchKind};
    use crate::live::JumpBytes;
    use crate::op::{Cond, Dest};

    const ARCHS: [Arch; 7] = [
        Arch::X86_64,
        Arch::AArch64,
        Arch::PowerPc64,
        Arch::PowerPc64ElfV2,
        Arch::PowerPc64Le,
        Arch::SystemZ,
        Arch::RiscV64,
    ];
    const FROM: u64 = 0x1_0000;
    const FAR: u64 = 0x7fff_1234_5678;

    /// What is appended for a branch that `reaches` refuses.
    fn put(arch: Arch, kind: BranchKind, form: BranchForm) -> Option<Vec<u8>> {
        let branch = Branch {
            at: 0,
            kind,
            dest: Dest::Addr(CodeAddr::new(FAR)),
            scratch: None,
            form,
            detail: 0,
            op: 0,
        };

        assert!(
            !backend_of(arch).reaches(&branch, form, FROM, FAR),
            "{arch:?} {kind:?}"
        );
        let put = catch_unwind(|| {
            let mut out = Vec::new();
            backend_of(arch).put_branch(&branch, FROM, FAR, &mut out);
            out
        });
        put.ok()
    }

    #[test]
    fn a_far_branch_without_a_register_is_never_left_out() {
        for arch in ARCHS {
            for kind in [BranchKind::Jump, BranchKind::JumpIf(Cond::Eq), BranchKind::Call] {
                // There a call goes through ra, which it loses.
                if (arch, kind) != (Arch::RiscV64, BranchKind::Call) {
                    assert_eq!(put(arch, kind, BranchForm::Far), None, "{arch:?} {kind:?}");
                }
            }
        }
    }

    #[test]
    fn a_near_branch_that_does_not_reach_is_never_left_out() {
        for arch in [Arch::AArch64, Arch::RiscV64] {
            for kind in [BranchKind::Jump, BranchKind::JumpIf(Cond::Eq), BranchKind::Call] {
                assert_eq!(put(arch, kind, BranchForm::Near), None, "{arch:?} {kind:?}");
            }
        }
    }

    #[test]
    fn a_patchable_jump_is_never_cut_off() {
        assert_eq!(&JumpBytes::new(&[7; 8])[..], [7; 8]);
        assert!(catch_unwind(|| JumpBytes::new(&[7; 9])).is_err());
    }
}
