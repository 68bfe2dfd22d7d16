//! The machine that an object is for: an architecture and, for PowerPC, its binary interface.

use alloc::format;

use object::Endianness;
use object::elf;

use crate::arch::Arch;
use crate::error::{Error, Result};
use crate::stackmap::Endian;

/// What relocations, stubs and symbols depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    X86_64,
    AArch64,
    PowerPc64 {
        /// ELFv1: a function's symbol is a descriptor in `.opd`. Otherwise ELFv2.
        descriptors: bool,
        endian: Endian,
    },
    SystemZ,
    RiscV64,
}

/// The two lowest bits of `e_flags` on PowerPC: the version of its ABI, or 0 (ELFv2 ABI, section 3.1.1).
const POWERPC_ABI: u32 = 3;
/// `e_flags` of RISC-V: only 16 general registers (psABI, "File Header").
const RISCV_RVE: u32 = 8;

impl Machine {
    /// The machine of a 64-bit ELF file.
    pub(super) fn new(machine: u16, endian: Endianness, flags: u32) -> Result<Self> {
        let unsupported = |found| Err(Error::ObjectUnsupported { found });
        let big = endian == Endianness::Big;
        match (machine, big) {
            (elf::EM_X86_64, false) => Ok(Self::X86_64),
            (elf::EM_AARCH64, false) => Ok(Self::AArch64),
            (elf::EM_S390, true) => Ok(Self::SystemZ),
            (elf::EM_RISCV, false) if flags & RISCV_RVE == 0 => Ok(Self::RiscV64),
            (elf::EM_RISCV, false) => unsupported("a RISC-V object for 16 registers (RVE)".into()),
            (elf::EM_PPC64, _) => match flags & POWERPC_ABI {
                // Without a version, it is the first one that the byte order had.
                0 | 1 if big => Ok(Self::powerpc(true, Endian::Big)),
                2 if big => Ok(Self::powerpc(false, Endian::Big)),
                0 | 2 => Ok(Self::powerpc(false, Endian::Little)),
                abi => unsupported(format!("a PowerPC64 object of version {abi} of its ABI")),
            },
            _ => {
                let order = if big { "big" } else { "little" };
                unsupported(format!("an ELF file for machine {machine}, {order}-endian"))
            }
        }
    }

    const fn powerpc(descriptors: bool, endian: Endian) -> Self {
        Self::PowerPc64 { descriptors, endian }
    }

    pub(super) const fn arch(self) -> Arch {
        match self {
            Self::X86_64 => Arch::X86_64,
            Self::AArch64 => Arch::AArch64,
            Self::PowerPc64 { .. } => Arch::PowerPc64,
            Self::SystemZ => Arch::SystemZ,
            Self::RiscV64 => Arch::RiscV64,
        }
    }

    pub(super) const fn endian(self) -> Endian {
        match self {
            Self::PowerPc64 { endian, .. } => endian,
            Self::SystemZ => Endian::Big,
            Self::X86_64 | Self::AArch64 | Self::RiscV64 => Endian::Little,
        }
    }

    /// Whether functions are known by descriptors.
    pub(super) const fn has_descriptors(self) -> bool {
        matches!(
            self,
            Self::PowerPc64 {
                descriptors: true,
                ..
            }
        )
    }

    pub(super) const fn is_powerpc(self) -> bool {
        matches!(self, Self::PowerPc64 { .. })
    }

    /// How far behind the start of the global offset table the address lies that code and relocations count from:
    /// PowerPC reaches the table by signed 16-bit displacements (ELFv2 ABI, section 3.3).
    pub(super) const fn got_bias(self) -> u64 {
        if self.is_powerpc() { 0x8000 } else { 0 }
    }

    /// The symbol that stands for that address.
    pub(super) const fn got_symbol(self) -> &'static str {
        if self.is_powerpc() {
            ".TOC."
        } else {
            "_GLOBAL_OFFSET_TABLE_"
        }
    }

    /// Bytes that trap when they are run by mistake, in units of an instruction.
    pub(super) const fn trap(self) -> &'static [u8] {
        match self {
            Self::X86_64 => &[0xcc],
            // brk #0
            Self::AArch64 => &[0x00, 0x00, 0x20, 0xd4],
            // trap
            Self::PowerPc64 {
                endian: Endian::Little,
                ..
            } => &[0x08, 0x00, 0xe0, 0x7f],
            Self::PowerPc64 { .. } => &[0x7f, 0xe0, 0x00, 0x08],
            // An operation code of 0 is never assigned.
            Self::SystemZ => &[0x00, 0x00],
            // c.unimp: illegal with and without compressed instructions.
            Self::RiscV64 => &[0x00, 0x00],
        }
    }

    /// What the ABI adds to the address of a function for callers that share its TOC pointer, by the three highest
    /// bits of `st_other` (ELFv2 ABI, section 3.4.1). `None` where they are reserved.
    pub(super) const fn local_entry(self, other: u8) -> Option<u32> {
        match (self, other >> 5) {
            (
                Self::PowerPc64 {
                    descriptors: false, ..
                },
                7,
            ) => None,
            (
                Self::PowerPc64 {
                    descriptors: false, ..
                },
                bits @ 2..=6,
            ) => Some(1 << bits),
            _ => Some(0),
        }
    }
}
