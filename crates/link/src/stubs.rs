//! Stubs: where a branch goes whose target it cannot reach, or may not enter directly.
//!
//! A stub may change only what the ABI leaves to the linker between a caller and its callee. All
//! but PowerPC's load the target's address from the global offset table, which every stub of an
//! image reaches; PowerPC's hold it themselves, as not every caller there has a TOC pointer.
//!
//! Sources: x86-64 psABI, section 5.2; AAPCS64, section 6.1.1 (x16 is the linker's); ELFv2 ABI,
//! sections 2.3.2.1 (r12 and r11 at a call) and 4.2.5 (stubs); ELFv1 supplement 1.9, section 3.2.4
//! (descriptors); s390x supplement (r1 is volatile); RISC-V psABI, "Procedure Linkage Table" (t3).
//! Encodings: the architectures' manuals, under the mnemonics named here.

use alloc::vec::Vec;

use llvm_stackmaps::Endian;
use llvm_stackmaps::addr::CodeAddr;
use object::elf;
use patchpoint_isa::Arch;

use crate::relocation::Relocation;

/// The word at which the TOC pointer is saved in a caller's frame, and the instructions that save
/// and restore it.
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
pub(crate) const fn toc_restore(descriptors: bool) -> u32 {
    toc_save(descriptors).restore
}

/// What compilers leave behind a PowerPC call for that: a nop, or one of two older forms.
const TOC_RESTORE_ROOM: [u32; 3] = [0x6000_0000, 0x4def_7b82, 0x4fff_fb82];

/// Whether the bytes start with a PowerPC branch that links, and that room behind it.
pub(crate) fn has_room_to_restore(arch: Arch, bytes: &[u8]) -> bool {
    let word = |bytes: &[u8; 4]| match arch.endian() {
        Endian::Big => u32::from_be_bytes(*bytes),
        Endian::Little => u32::from_le_bytes(*bytes),
    };
    let Some((call, rest)) = bytes.split_first_chunk::<4>() else {
        return false;
    };
    let next = rest.first_chunk::<4>();
    word(call) & 1 != 0 && next.is_some_and(|next| TOC_RESTORE_ROOM.contains(&word(next)))
}

/// A stub before relocation: its bytes, trapping where none of its instructions is, and the edges
/// that fill them.
pub(crate) struct StubShape {
    pub(crate) bytes: &'static [u8],
    pub(crate) edges: &'static [StubEdge],
}

/// An edge of a stub.
pub(crate) struct StubEdge {
    /// From the stub's start, in bytes.
    pub(crate) offset: u32,
    /// Of the architecture's ELF supplement.
    pub(crate) relocation: elf::RelocationType,
    pub(crate) target: StubTarget,
    pub(crate) addend: i64,
}

/// What an edge of a stub refers to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StubTarget {
    /// To the symbol that the stub stands for.
    Symbol,
    /// To the start of the stub.
    Itself,
}

const fn edge(offset: u32, relocation: elf::RelocationType, addend: i64) -> StubEdge {
    StubEdge {
        offset,
        relocation,
        target: StubTarget::Symbol,
        addend,
    }
}

/// The room for one stub, in bytes.
pub(crate) const fn size(arch: Arch) -> u32 {
    of(arch).bytes.len() as u32
}

/// How far into a stub those enter who have no TOC pointer to save.
pub(crate) const fn entry_without_toc(arch: Arch) -> u64 {
    if arch.is_powerpc64() { 4 } else { 0 }
}

/// The stub by which a call leaves for a function whose TOC pointer may be another, named as
/// function pointers name it; `None` where calls keep nothing, which is everywhere but on PowerPC.
///
/// For who retargets a [recorded call](crate::RecordedCall) when it is linked.
#[must_use]
pub fn leaving(arch: Arch, to: CodeAddr) -> Option<Vec<u8>> {
    arch.is_powerpc64().then_some(())?;
    let shape = of(arch);
    let mut bytes = shape.bytes.to_vec();
    for edge in shape.edges {
        let relocation = Relocation::from_elf(arch, edge.relocation.0)?;
        let field = bytes.get_mut(edge.offset as usize..)?.get_mut(..2)?;
        relocation.insert(field, arch.endian(), to.get());
    }
    Some(bytes)
}

/// The instruction that follows a call which leaves by such a stub, and restores the caller's
/// TOC pointer; `None` as for [`leaving`].
#[must_use]
pub fn restore_behind_leaving(arch: Arch) -> Option<[u8; 4]> {
    let word = toc_restore(arch.has_descriptors());
    let bytes = match arch.endian() {
        Endian::Big => word.to_be_bytes(),
        Endian::Little => word.to_le_bytes(),
    };
    arch.is_powerpc64().then_some(bytes)
}

/// What the stubs of an architecture are made of.
pub(crate) const fn of(arch: Arch) -> StubShape {
    match arch {
        Arch::X86_64 => X86_64,
        Arch::AArch64 => AARCH64,
        Arch::RiscV64 => RISCV64,
        Arch::SystemZ => SYSTEMZ,
        Arch::PowerPc64 => STUB_V1,
        Arch::PowerPc64Le => STUB_V2,
        Arch::PowerPc64ElfV2 => STUB_V2_BIG,
    }
}

/// The relocation that writes an address into 8 bytes: what an entry of the global offset table
/// has.
pub(crate) const fn absolute_64(arch: Arch) -> elf::RelocationType {
    match arch {
        Arch::X86_64 => elf::R_X86_64_64,
        Arch::AArch64 => elf::R_AARCH64_ABS64,
        Arch::RiscV64 => elf::R_RISCV_64,
        Arch::SystemZ => elf::R_390_64,
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => elf::R_PPC64_ADDR64,
    }
}

/// `jmp *[rip + entry]`, and two bytes of trap.
const X86_64: StubShape = StubShape {
    bytes: &[0xff, 0x25, 0, 0, 0, 0, 0xcc, 0xcc],
    edges: &[edge(2, elf::R_X86_64_GOTPCREL, -4)],
};

/// `adrp x16, entry; ldr x16, [x16, low]; br x16; brk #0`
const AARCH64: StubShape = StubShape {
    bytes: &little::<4, 16>([0x9000_0010, 0xf940_0210, 0xd61f_0200, 0xd420_0000]),
    edges: &[
        edge(0, elf::R_AARCH64_ADR_GOT_PAGE, 0),
        edge(4, elf::R_AARCH64_LD64_GOT_LO12_NC, 0),
    ],
};

/// `auipc t3, upper; ld t3, lower(t3); jr t3`, and four bytes of trap.
const RISCV64: StubShape = StubShape {
    bytes: &little::<4, 16>([0x0000_0e17, 0x000e_3e03, 0x000e_0067, 0]),
    edges: &[
        edge(0, elf::R_RISCV_GOT_HI20, 0),
        StubEdge {
            target: StubTarget::Itself,
            ..edge(4, elf::R_RISCV_PCREL_LO12_I, 0)
        },
    ],
};

/// `lgrl %r1, entry; br %r1`
const SYSTEMZ: StubShape = StubShape {
    bytes: &[0xc4, 0x18, 0, 0, 0, 0, 0x07, 0xf1],
    edges: &[edge(2, elf::R_390_GOTENT, 2)],
};

/// Saves the TOC pointer and goes to the code of the descriptor at the target, with its TOC and
/// environment pointers.
const STUB_V1: StubShape = StubShape {
    bytes: &big::<12, 48>([
        ELF_V1.save,
        ADDRESS_TO_R11[0],
        ADDRESS_TO_R11[1],
        ADDRESS_TO_R11[2],
        ADDRESS_TO_R11[3],
        ADDRESS_TO_R11[4],
        0xe98b_0000, // ld r12, 0(r11)
        0x7d89_03a6, // mtctr r12
        0xe84b_0008, // ld r2, 8(r11)
        0xe96b_0010, // ld r11, 16(r11)
        0x4e80_0420, // bctr
        0x7fe0_0008, // trap
    ]),
    edges: &[
        edge(6, elf::R_PPC64_ADDR16_HIGHEST, 0),
        edge(10, elf::R_PPC64_ADDR16_HIGHER, 0),
        edge(18, elf::R_PPC64_ADDR16_HIGH, 0),
        edge(22, elf::R_PPC64_ADDR16_LO, 0),
    ],
};

/// Saves the TOC pointer and goes to the global entry, with its address in r12 as that entry wants.
const STUB_V2: StubShape = StubShape {
    bytes: &little::<8, 32>(WORDS_V2),
    edges: &[
        edge(4, elf::R_PPC64_ADDR16_HIGHEST, 0),
        edge(8, elf::R_PPC64_ADDR16_HIGHER, 0),
        edge(16, elf::R_PPC64_ADDR16_HIGH, 0),
        edge(20, elf::R_PPC64_ADDR16_LO, 0),
    ],
};

/// The same in the other order of bytes: the 16 bits of an operand are the last of their
/// instruction.
const STUB_V2_BIG: StubShape = StubShape {
    bytes: &big::<8, 32>(WORDS_V2),
    edges: &[
        edge(6, elf::R_PPC64_ADDR16_HIGHEST, 0),
        edge(10, elf::R_PPC64_ADDR16_HIGHER, 0),
        edge(18, elf::R_PPC64_ADDR16_HIGH, 0),
        edge(22, elf::R_PPC64_ADDR16_LO, 0),
    ],
};

const WORDS_V2: [u32; 8] = [
    ELF_V2.save,
    ADDRESS_TO_R12[0],
    ADDRESS_TO_R12[1],
    ADDRESS_TO_R12[2],
    ADDRESS_TO_R12[3],
    ADDRESS_TO_R12[4],
    0x7d89_03a6, // mtctr r12
    0x4e80_0420, // bctr
];

const ADDRESS_TO_R11: [u32; 5] = powerpc_address(11);
const ADDRESS_TO_R12: [u32; 5] = powerpc_address(12);

/// `lis; ori; sldi 32; oris; ori` of an address into a register.
const fn powerpc_address(register: u32) -> [u32; 5] {
    let both = register << 21 | register << 16;
    [
        0x3c00_0000 | register << 21,
        0x6000_0000 | both,
        0x7800_07c6 | both, // rldicr register, register, 32, 31
        0x6400_0000 | both,
        0x6000_0000 | both,
    ]
}

const fn little<const WORDS: usize, const BYTES: usize>(words: [u32; WORDS]) -> [u8; BYTES] {
    bytes(words, false)
}

const fn big<const WORDS: usize, const BYTES: usize>(words: [u32; WORDS]) -> [u8; BYTES] {
    bytes(words, true)
}

/// The words' bytes. Evaluated when the crate is compiled: a wrong length does not compile.
#[expect(clippy::indexing_slicing, reason = "evaluated when the crate is compiled")]
const fn bytes<const WORDS: usize, const BYTES: usize>(words: [u32; WORDS], big: bool) -> [u8; BYTES] {
    assert!(BYTES == 4 * WORDS, "four bytes to a word");
    let mut all = [0; BYTES];
    let mut at = 0;
    while at < BYTES {
        let word = words[at / 4];
        let ordered = if big {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        };
        all[at] = ordered[at % 4];
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;

    use super::*;
    use crate::tests::build::{OUTSIDE, code, object};
    use crate::{Object, SegmentAddrs};

    /// A stub at an address, with its entry and its target at others.
    fn stub(arch: Arch, at: u64, entry: u64, target: u64) -> String {
        let (call, number): (&[u8], elf::RelocationType) = match arch {
            Arch::X86_64 => (&[0, 0, 0, 0], elf::R_X86_64_PLT32),
            Arch::AArch64 => (&[0, 0, 0, 0x94], elf::R_AARCH64_CALL26),
            Arch::RiscV64 => (&[0x97, 0, 0, 0, 0xe7, 0x80, 0, 0], elf::R_RISCV_CALL),
            Arch::SystemZ => (&[0; 4], elf::R_390_PLT32DBL),
            Arch::PowerPc64 | Arch::PowerPc64ElfV2 => (&[0x48, 0, 0, 1, 0x60, 0, 0, 0], elf::R_PPC64_REL24),
            Arch::PowerPc64Le => (&[1, 0, 0, 0x48, 0, 0, 0, 0x60], elf::R_PPC64_REL24),
        };
        let mut bytes = call.to_vec();
        bytes.resize(16, 0);
        let object = object(arch, &[code(bytes, vec![(0, number.0, 1, 0)])], &[OUTSIDE]);
        let addrs = SegmentAddrs {
            code: CodeAddr::new(at - 16),
            // PowerPC aligns the table more strictly, and has no entry.
            read_only: CodeAddr::new(if arch.is_powerpc64() { entry & !0xff } else { entry }),
            data: CodeAddr::new(0),
        };
        let layout = Object::parse(&object).unwrap().layout().unwrap();
        let linked = layout.link(&addrs, &|_| Some(CodeAddr::new(target))).unwrap();
        assert_eq!(linked.stub("outside"), Some(CodeAddr::new(at)));
        let entry = (!arch.is_powerpc64()).then_some(CodeAddr::new(entry));
        assert_eq!(linked.got_entry("outside"), entry);
        let stub = linked.segments[0].bytes[16..].iter();
        stub.map(|byte| alloc::format!("{byte:02x}")).collect()
    }

    /// As llvm-mc 19 encodes them, with operands that cross every boundary of their fields.
    #[test]
    fn stubs_are_what_the_assembler_makes() {
        let stub = |arch| stub(arch, 0x7000_0ff0, 0x7123_4ff8, 0x1234_5678_9abc_def0);
        assert_eq!(stub(Arch::X86_64), "ff2502402301cccc");
        // adrp x16, 0x1234000; ldr x16, [x16, #4088]; br x16
        assert_eq!(stub(Arch::AArch64), "b091009010fe47f900021fd6000020d4");
        // auipc t3, 0x1234; ld t3, 8(t3); jr t3
        assert_eq!(stub(Arch::RiscV64), "174e2301033e8e0067000e0000000000");
        // lgrl %r1, .+0x1234008; br %r1
        assert_eq!(stub(Arch::SystemZ), "c4180091a00407f1");
        // std r2, 40(r1); the address into r11; ld r12, 0(r11); mtctr r12; ld r2, 8(r11); ld r11,
        // 16(r11); bctr
        assert_eq!(
            stub(Arch::PowerPc64),
            "f84100283d601234616b5678796b07c6656b9abc616bdef0e98b00007d8903a6e84b0008e96b00104e8004207fe00008"
        );
        // std r2, 24(r1); the address into r12; mtctr r12; bctr
        assert_eq!(
            stub(Arch::PowerPc64Le),
            "180041f83412803d78568c61c6078c79bc9a8c65f0de8c61a603897d2004804e"
        );
        assert_eq!(
            stub(Arch::PowerPc64ElfV2),
            "f84100183d801234618c5678798c07c6658c9abc618cdef07d8903a64e800420"
        );
    }
}
