//! Which architectures there are.

use core::fmt;

use llvm_stackmaps::Endian;

/// An architecture for which LLVM emits stack maps.
///
/// Matches are exhaustive, so that the compiler lists what another one needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// x86-64, System V and Darwin conventions.
    X86_64,
    /// AArch64, little endian.
    AArch64,
    /// 64-bit PowerPC, big endian, with the conventions of ELFv1: function addresses are those of
    /// descriptors.
    PowerPc64,
    /// 64-bit PowerPC, little endian, with the conventions of ELFv2.
    PowerPc64Le,
    /// 64-bit PowerPC, big endian, with the conventions of ELFv2, as musl and the BSDs have it:
    /// function addresses are those of code.
    PowerPc64ElfV2,
    /// SystemZ (s390x), big endian.
    SystemZ,
    /// 64-bit RISC-V.
    RiscV64,
}

/// Whether this machine is big-endian PowerPC with the conventions of ELFv2. Compilers before Rust
/// 1.93 or so do not say it by `target_abi`; these are the systems for which they generate such
/// code.
const HOST_IS_BIG_ELF_V2: bool = cfg!(all(
    target_arch = "powerpc64",
    target_endian = "big",
    any(
        target_abi = "elfv2",
        target_env = "musl",
        target_os = "freebsd",
        target_os = "openbsd"
    )
));

impl Arch {
    /// The architecture of this machine, if it is one of these.
    #[must_use]
    #[inline]
    pub const fn host() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            Some(Self::X86_64)
        } else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
            Some(Self::AArch64)
        } else if cfg!(all(target_arch = "powerpc64", target_endian = "little")) {
            Some(Self::PowerPc64Le)
        } else if HOST_IS_BIG_ELF_V2 {
            Some(Self::PowerPc64ElfV2)
        } else if cfg!(target_arch = "powerpc64") {
            Some(Self::PowerPc64)
        } else if cfg!(target_arch = "s390x") {
            Some(Self::SystemZ)
        } else if cfg!(target_arch = "riscv64") {
            Some(Self::RiscV64)
        } else {
            None
        }
    }

    /// The byte order of its data. Instructions have the same, but on big-endian AArch64, which is
    /// not among these.
    #[must_use]
    #[inline]
    pub const fn endian(self) -> Endian {
        match self {
            Self::PowerPc64 | Self::PowerPc64ElfV2 | Self::SystemZ => Endian::Big,
            Self::X86_64 | Self::AArch64 | Self::PowerPc64Le | Self::RiscV64 => Endian::Little,
        }
    }

    /// Whether the lowest bytes of a value are at the highest addresses.
    #[must_use]
    #[inline]
    pub const fn is_big_endian(self) -> bool {
        matches!(self.endian(), Endian::Big)
    }

    /// Its number in ELF headers (System V gABI, `e_machine`).
    #[must_use]
    pub fn elf_machine(self) -> u16 {
        self.isa().elf_machine()
    }

    /// Whether this is 64-bit PowerPC, of whichever byte order and conventions.
    #[must_use]
    #[inline]
    pub const fn is_powerpc64(self) -> bool {
        matches!(self, Self::PowerPc64 | Self::PowerPc64Le | Self::PowerPc64ElfV2)
    }

    /// Whether function pointers are the addresses of descriptors, which hold those of code, and
    /// not of code (ELFv1).
    #[must_use]
    #[inline]
    pub const fn has_descriptors(self) -> bool {
        matches!(self, Self::PowerPc64)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::X86_64 => "x86_64",
            Self::AArch64 => "aarch64",
            Self::PowerPc64 => "powerpc64",
            Self::PowerPc64Le => "powerpc64le",
            Self::PowerPc64ElfV2 => "powerpc64-elfv2",
            Self::SystemZ => "s390x",
            Self::RiscV64 => "riscv64",
        })
    }
}
