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
