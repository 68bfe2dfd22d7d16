//! Stubs: where a branch goes whose target it cannot reach, or may not enter directly.
//!
//! A stub may change only what the ABI leaves to the linker between a caller and its callee. All but PowerPC's
//! load the target's address from the global offset table, which every stub of an image reaches; PowerPC's hold it
//! themselves, as not every caller there has a TOC pointer.
//!
//! Sources: x86-64 psABI, section 5.2; AAPCS64, section 6.1.1 (x16 is the linker's); ELFv2 ABI, sections 2.3.2.1 (r12
//! and r11 at a call) and 4.2.5 (stubs); ELFv1 supplement 1.9, section 3.2.4 (descriptors); s390x supplement (r1 is volatile); RISC-V
//! psABI, "Procedure Linkage Table" (t3). Encodings: the architectures' manuals, under the mnemonics named here.

use alloc::vec::Vec;

use crate::arch::Arch;

/// The word at which the TOC pointer is saved in a caller's frame, and the instructions that save and restore it.
struct TocSave {
    save: u32,
    restore: u32,
}

const ELF_V1: TocSave = TocSave {
    save: 0xf841_0028,    // std r2, 40(r1)
    restore: 0xe841_0028, // ld r2, 40(r1)
};
const ELF_V2: TocSave = TocSave {
    save: 0xf841_0018,    // std r2, 24(r1)
    restore: 0xe841_0018, // ld r2, 24(r1)
};

const fn toc_save(descriptors: bool) -> TocSave {
    if descriptors { ELF_V1 } else { ELF_V2 }
}

/// The instruction that takes the place of the nop behind a PowerPC call that goes through a stub.
pub(super) const fn toc_restore(descriptors: bool) -> u32 {
    toc_save(descriptors).restore
}

/// What compilers leave behind a PowerPC call for that: a nop, or one of two older forms.
pub(super) const TOC_RESTORE_ROOM: [u32; 3] = [0x6000_0000, 0x4def_7b82, 0x4fff_fb82];

impl Arch {
    /// The room for one stub, in bytes.
    pub(super) const fn stub_size(self) -> u32 {
        match self {
            Self::X86_64 | Self::SystemZ => 8,
            Self::AArch64 | Self::RiscV64 => 16,
            Self::PowerPc64 => 48,
            Self::PowerPc64Le => 32,
        }
    }

    /// Whether a stub loads its target from the global offset table.
    pub(super) const fn stub_needs_got(self) -> bool {
        !self.is_powerpc()
    }

    /// How far into a stub those enter who have no TOC pointer to save.
    pub(super) const fn stub_entry_without_toc(self) -> u64 {
        if self.is_powerpc() { 4 } else { 0 }
    }

    /// A stub at `at` that goes to `target`, whose address also stands at `entry`. Image and stub are within 2 GiB of
    /// each other.
    pub(super) fn stub(self, at: u64, entry: u64, target: u64) -> Vec<u8> {
        let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
        match self {
            Self::X86_64 => x86_64(at, entry),
            Self::AArch64 => words(&aarch64(at, entry)),
            Self::RiscV64 => words(&riscv64(at, entry)),
            Self::SystemZ => s390x(at, entry),
            Self::PowerPc64 => elf_v1(target).into_iter().flat_map(u32::to_be_bytes).collect(),
            Self::PowerPc64Le => words(&elf_v2(target)),
        }
    }
}

/// `jmp *[rip + distance]`
fn x86_64(at: u64, entry: u64) -> Vec<u8> {
    let [d0, d1, d2, d3] = (entry.wrapping_sub(at).wrapping_sub(6) as u32).to_le_bytes();
    alloc::vec![0xff, 0x25, d0, d1, d2, d3]
}

/// `adrp x16, page; ldr x16, [x16, low]; br x16`
fn aarch64(at: u64, entry: u64) -> [u32; 3] {
    let pages = (entry >> 12).wrapping_sub(at >> 12) as u32;
    let (low, high) = (pages & 3, pages >> 2 & 0x7_ffff);
    let doubles = (entry as u32 & 0xfff) >> 3;
    [
        0x9000_0010 | low << 29 | high << 5,
        0xf940_0210 | doubles << 10,
        0xd61f_0200,
    ]
}

/// `auipc t3, upper; ld t3, lower(t3); jr t3`
fn riscv64(at: u64, entry: u64) -> [u32; 3] {
    let distance = entry.wrapping_sub(at) as u32;
    let (upper, lower) = (distance.wrapping_add(0x800) & 0xffff_f000, distance & 0xfff);
    [0x0000_0e17 | upper, 0x000e_3e03 | lower << 20, 0x000e_0067]
}

/// `lgrl %r1, entry; br %r1`
fn s390x(at: u64, entry: u64) -> Vec<u8> {
    let halfwords = (entry.wrapping_sub(at) as i64 >> 1) as u32;
    let [d0, d1, d2, d3] = halfwords.to_be_bytes();
    alloc::vec![0xc4, 0x18, d0, d1, d2, d3, 0x07, 0xf1]
}

/// `lis; ori; sldi 32; oris; ori` of the address into r12 (ELFv2) or r11.
fn powerpc_address(register: u32, address: u64) -> [u32; 5] {
    let part = |shift: u32| (address >> shift) as u32 & 0xffff;
    let both = register << 21 | register << 16;
    [
        0x3c00_0000 | register << 21 | part(48),
        0x6000_0000 | both | part(32),
        0x7800_07c6 | both, // rldicr register, register, 32, 31
        0x6400_0000 | both | part(16),
        0x6000_0000 | both | part(0),
    ]
}

/// Saves the TOC pointer and goes to the global entry, with its address in r12 as that entry wants.
fn elf_v2(target: u64) -> Vec<u32> {
    let mut words = alloc::vec![ELF_V2.save];
    words.extend(powerpc_address(12, target));
    words.extend([0x7d89_03a6 /* mtctr r12 */, 0x4e80_0420 /* bctr */]);
    words
}

/// Saves the TOC pointer and goes to the code of the descriptor at `target`, with its TOC and environment pointers.
fn elf_v1(target: u64) -> Vec<u32> {
    let mut words = alloc::vec![ELF_V1.save];
    words.extend(powerpc_address(11, target));
    words.extend([
        0xe98b_0000, // ld r12, 0(r11)
        0x7d89_03a6, // mtctr r12
        0xe84b_0008, // ld r2, 8(r11)
        0xe96b_0010, // ld r11, 16(r11)
        0x4e80_0420, // bctr
    ]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stub_fits_its_room() {
        for arch in [
            Arch::X86_64,
            Arch::AArch64,
            Arch::RiscV64,
            Arch::SystemZ,
            Arch::PowerPc64,
            Arch::PowerPc64Le,
        ] {
            let stub = arch.stub(0x1000, 0x2000, 0x1234_5678_9abc_def0);
            assert!(stub.len() <= arch.stub_size() as usize, "{arch:?}");
        }
    }

    /// As llvm-mc 19 encodes them, with operands that cross every boundary of their fields.
    #[test]
    fn stubs_are_what_the_assembler_makes() {
        let hex = |bytes: Vec<u8>| -> alloc::string::String {
            bytes.iter().map(|byte| alloc::format!("{byte:02x}")).collect()
        };
        let (at, entry, target) = (0x7000_0ff0, 0x7123_4ff8, 0x1234_5678_9abc_def0);
        let stub = |arch: Arch| hex(arch.stub(at, entry, target));
        assert_eq!(stub(Arch::X86_64), "ff2502402301");
        // adrp x16, 0x1234000; ldr x16, [x16, #4088]; br x16
        assert_eq!(stub(Arch::AArch64), "b091009010fe47f900021fd6");
        // auipc t3, 0x1234; ld t3, 8(t3); jr t3
        assert_eq!(stub(Arch::RiscV64), "174e2301033e8e0067000e00");
        // lgrl %r1, .+0x1234008; br %r1
        assert_eq!(stub(Arch::SystemZ), "c4180091a00407f1");
        // std r2, 40(r1); the address into r11; ld r12, 0(r11); mtctr r12; ld r2, 8(r11); ld r11, 16(r11); bctr
        assert_eq!(
            stub(Arch::PowerPc64),
            "f84100283d601234616b5678796b07c6656b9abc616bdef0e98b00007d8903a6e84b0008e96b00104e800420"
        );
        // std r2, 24(r1); the address into r12; mtctr r12; bctr
        assert_eq!(
            stub(Arch::PowerPc64Le),
            "180041f83412803d78568c61c6078c79bc9a8c65f0de8c61a603897d2004804e"
        );
    }
}
