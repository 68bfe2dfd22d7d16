//! The one place where an architecture is chosen.

use super::Arch;
use super::backend::Backend;

/// The encoder of an architecture.
#[inline]
pub(crate) fn backend_of(arch: Arch) -> &'static dyn Backend {
    match arch {
        Arch::X86_64 => &super::x86_64::X86_64,
        Arch::AArch64 => &super::aarch64::AArch64,
        Arch::PowerPc64 => &super::powerpc64::BIG_V1,
        Arch::PowerPc64ElfV2 => &super::powerpc64::BIG_V2,
        Arch::PowerPc64Le => &super::powerpc64::LITTLE,
        Arch::SystemZ => &super::systemz::SystemZ,
        Arch::RiscV64 => &super::riscv64::RiscV64,
    }
}
