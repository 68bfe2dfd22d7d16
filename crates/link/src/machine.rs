//! What loading depends on, by architecture.

use alloc::format;

use object::Endianness;
use object::elf;
use patchpoint_isa::Arch;

use crate::error::{Error, Result};

/// The architecture of a 64-bit ELF file.
///
/// Of PowerPC the flags hold the version of the ABI, or 0 (ELFv2 ABI, section 3.1.1); of RISC-V,
/// whether there are only 16 general registers (psABI, "File Header").
pub(crate) fn of_elf(machine: elf::Machine, endian: Endianness, flags: elf::FileFlags) -> Result<Arch> {
    let unsupported = |found| Err(Error::ObjectUnsupported { found });
    let big = endian == Endianness::Big;
    match (machine, big) {
        (elf::EM_X86_64, false) => Ok(Arch::X86_64),
        (elf::EM_AARCH64, false) => Ok(Arch::AArch64),
        (elf::EM_S390, true) => Ok(Arch::SystemZ),
        (elf::EM_RISCV, false) if !flags.contains(elf::EF_RISCV_RVE) => Ok(Arch::RiscV64),
        (elf::EM_RISCV, false) => unsupported("a RISC-V object for 16 registers (RVE)".into()),
        // Without a version, it is the one that goes with the byte order.
        (elf::EM_PPC64, true) if flags.ppc64_abi() <= 1 => Ok(Arch::PowerPc64),
        // protection: conventions-of-powerpc-are-told-apart
        (elf::EM_PPC64, true) if flags.ppc64_abi() == 2 => Ok(Arch::PowerPc64ElfV2),
        (elf::EM_PPC64, false) if matches!(flags.ppc64_abi(), 0 | 2) => Ok(Arch::PowerPc64Le),
        _ => {
            let order = if big { "big" } else { "little" };
            unsupported(format!(
                "an ELF file for machine {machine}, {order}-endian, flags {flags:#x}"
            ))
        }
    }
}

/// How far behind the start of the global offset table the address lies that code and relocations
/// count from: PowerPC reaches the table by signed 16-bit displacements (ELFv2 ABI, section 3.3).
pub(crate) const fn got_bias(arch: Arch) -> u64 {
    if arch.is_powerpc64() { 0x8000 } else { 0 }
}

/// What the table's start is a multiple of. PowerPC linkers align it so that TOC pointers are alike
/// in their low bits.
pub(crate) const fn got_align(arch: Arch) -> u32 {
    if arch.is_powerpc64() { 256 } else { 8 }
}

/// The symbol that stands for that address.
pub(crate) const fn got_symbol(arch: Arch) -> &'static str {
    if arch.is_powerpc64() {
        ".TOC."
    } else {
        "_GLOBAL_OFFSET_TABLE_"
    }
}

/// Bytes that trap when they are run by mistake, in units of an instruction.
pub(crate) const fn trap(arch: Arch) -> &'static [u8] {
    match arch {
        Arch::X86_64 => &[0xcc],
        // brk #0
        Arch::AArch64 => &[0x00, 0x00, 0x20, 0xd4],
        // trap
        Arch::PowerPc64Le => &[0x08, 0x00, 0xe0, 0x7f],
        Arch::PowerPc64 | Arch::PowerPc64ElfV2 => &[0x7f, 0xe0, 0x00, 0x08],
        // An operation code of 0 is never assigned.
        Arch::SystemZ => &[0x00, 0x00],
        // c.unimp: illegal with and without compressed instructions.
        Arch::RiscV64 => &[0x00, 0x00],
    }
}

/// What the ABI adds to the address of a function for callers that share its TOC pointer, by the
/// three highest bits of `st_other` (ELFv2 ABI, section 3.4.1). `None` where they are reserved.
pub(crate) const fn local_entry(arch: Arch, other: u8) -> Option<u32> {
    match other >> 5 {
        _ if !arch.is_powerpc64() || arch.has_descriptors() => Some(0),
        7 => None,
        bits @ 2..=6 => Some(1 << bits),
        _ => Some(0),
    }
}

/// Whether the section is part of PowerPC's table of addresses, which code reaches by the TOC
/// pointer.
pub(crate) fn is_toc(name: &str) -> bool {
    name == ".toc" || name.starts_with(".toc.")
}
