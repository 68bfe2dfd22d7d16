//! The one place where an architecture is chosen.

use crate::Arch;
use crate::isa::Isa;

impl Arch {
    /// The architecture's answers.
    #[inline]
    pub(crate) fn isa(self) -> &'static dyn Isa {
        match self {
            Self::X86_64 => &crate::x86_64::X86_64,
            Self::AArch64 => &crate::aarch64::AArch64,
            Self::PowerPc64 => &crate::powerpc64::BIG_V1,
            Self::PowerPc64ElfV2 => &crate::powerpc64::BIG_V2,
            Self::PowerPc64Le => &crate::powerpc64::LITTLE,
            Self::SystemZ => &crate::systemz::SystemZ,
            Self::RiscV64 => &crate::riscv64::RiscV64,
        }
    }
}
