//! The one place where an architecture is chosen.

use patchpoint_isa::Arch;

use super::facts::Isa;

/// Evaluates an expression in which a name stands for the module of an architecture: the one place
/// where one is chosen.
macro_rules! of_arch {
    ($arch:expr, $isa:ident => $what:expr) => {
        match $arch {
            patchpoint_isa::Arch::X86_64 => {
                use crate::x86_64 as $isa;
                $what
            }
            patchpoint_isa::Arch::AArch64 => {
                use crate::aarch64 as $isa;
                $what
            }
            patchpoint_isa::Arch::PowerPc64 => {
                use crate::powerpc64::big_v1 as $isa;
                $what
            }
            patchpoint_isa::Arch::PowerPc64ElfV2 => {
                use crate::powerpc64::big_v2 as $isa;
                $what
            }
            patchpoint_isa::Arch::PowerPc64Le => {
                use crate::powerpc64::little as $isa;
                $what
            }
            patchpoint_isa::Arch::SystemZ => {
                use crate::systemz as $isa;
                $what
            }
            patchpoint_isa::Arch::RiscV64 => {
                use crate::riscv64 as $isa;
                $what
            }
        }
    };
}
pub(super) use of_arch;

/// The decoder of an architecture.
#[inline]
pub(super) fn isa(arch: Arch) -> &'static Isa {
    of_arch!(arch, isa => &isa::ISA)
}
