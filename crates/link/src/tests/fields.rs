//! Every field against LLVM's assembler, and every limit at its boundary and one beyond.

use super::build::{OUTSIDE, Symbol, code, data, hex, object};
use super::*;
use crate::relocation::{Formula, Relocation};

const BASE: u64 = 0x7000_0000_0000;

fn addrs(data: u64) -> SegmentAddrs {
    SegmentAddrs {
        code: CodeAddr::new(BASE),
        read_only: CodeAddr::new(BASE + 0x10_0000),
        data: CodeAddr::new(data),
    }
}

fn number(arch: Arch, name: &str) -> u32 {
    let named = |number| Relocation::from_elf(arch, number).is_some_and(|found| found.name() == name);
    (0..2000)
        .find(|number| named(*number))
        .unwrap_or_else(|| panic!("{name}"))
}

fn is_relative(arch: Arch, number: u32) -> bool {
    Relocation::from_elf(arch, number)
        .unwrap()
        .formula()
        .needs_place()
}

/// Instructions with an operand of 0 and with the one that gives this value, as llvm-mc 19 encodes
/// them. The number is the offset of the field in the instruction.
#[rustfmt::skip]
const ASSEMBLED: &[(Arch, &str, u64, i128, &str, &str)] = &[
    (Arch::AArch64, "R_AARCH64_CALL26", 0, 0x7fffffc, "00000094", "ffffff95"),
    (Arch::AArch64, "R_AARCH64_CALL26", 0, -0x8000000, "00000094", "00000096"),
    (Arch::AArch64, "R_AARCH64_JUMP26", 0, 0x7fffffc, "00000014", "ffffff15"),
    (Arch::AArch64, "R_AARCH64_JUMP26", 0, -0x8000000, "00000014", "00000016"),
    (Arch::AArch64, "R_AARCH64_JUMP26", 0, 0x4, "00000014", "01000014"),
    (Arch::AArch64, "R_AARCH64_CONDBR19", 0, 0xffffc, "00000054", "e0ff7f54"),
    (Arch::AArch64, "R_AARCH64_CONDBR19", 0, -0x100000, "00000054", "00008054"),
    (Arch::AArch64, "R_AARCH64_TSTBR14", 0, 0x7ffc, "030028b6", "e3ff2bb6"),
    (Arch::AArch64, "R_AARCH64_TSTBR14", 0, -0x8000, "030028b6", "03002cb6"),
    (Arch::AArch64, "R_AARCH64_ADR_PREL_LO21", 0, 0xfffff, "01000010", "e1ff7f70"),
    (Arch::AArch64, "R_AARCH64_ADR_PREL_LO21", 0, -0x100000, "01000010", "01008010"),
    (Arch::AArch64, "R_AARCH64_ADR_PREL_LO21", 0, 0x1, "01000010", "01000030"),
    (Arch::AArch64, "R_AARCH64_ADR_PREL_LO21", 0, 0x2, "01000010", "01000050"),
    (Arch::AArch64, "R_AARCH64_LD_PREL_LO19", 0, 0xffffc, "01000058", "e1ff7f58"),
    (Arch::AArch64, "R_AARCH64_LD_PREL_LO19", 0, -0x100000, "01000058", "01008058"),
    (Arch::AArch64, "R_AARCH64_ADR_PREL_PG_HI21", 0, 0xfffff000, "01000090", "e1ff7ff0"),
    (Arch::AArch64, "R_AARCH64_ADR_PREL_PG_HI21", 0, -0x100000000, "01000090", "01008090"),
    (Arch::AArch64, "R_AARCH64_ADR_PREL_PG_HI21", 0, 0x1000, "01000090", "010000b0"),
    (Arch::AArch64, "R_AARCH64_ADR_PREL_PG_HI21", 0, 0x3000, "01000090", "010000f0"),
    (Arch::AArch64, "R_AARCH64_ADD_ABS_LO12_NC", 0, 0x123456789fff, "41000091", "41fc3f91"),
    (Arch::AArch64, "R_AARCH64_LDST8_ABS_LO12_NC", 0, 0x123456789fff, "41004039", "41fc7f39"),
    (Arch::AArch64, "R_AARCH64_LDST16_ABS_LO12_NC", 0, 0x123456789ffe, "41004079", "41fc5f79"),
    (Arch::AArch64, "R_AARCH64_LDST32_ABS_LO12_NC", 0, 0x123456789ffc, "410000b9", "41fc0fb9"),
    (Arch::AArch64, "R_AARCH64_LDST64_ABS_LO12_NC", 0, 0x123456789ff8, "410040f9", "41fc47f9"),
    (Arch::AArch64, "R_AARCH64_LDST128_ABS_LO12_NC", 0, 0x123456789ff0, "4100c03d", "41fcc33d"),
    (Arch::AArch64, "R_AARCH64_MOVW_UABS_G0_NC", 0, 0xfedcba9876543210, "010080f2", "014286f2"),
    (Arch::AArch64, "R_AARCH64_MOVW_UABS_G1_NC", 0, 0xfedcba9876543210, "0100a0f2", "81caaef2"),
    (Arch::AArch64, "R_AARCH64_MOVW_UABS_G2_NC", 0, 0xfedcba9876543210, "0100c0f2", "0153d7f2"),
    (Arch::AArch64, "R_AARCH64_MOVW_UABS_G3", 0, 0xfedcba9876543210, "0100e0f2", "81dbfff2"),
    (Arch::PowerPc64, "R_PPC64_ADDR14", 0, 0x7ffc, "41820002", "41827ffe"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR14", 0, 0x7ffc, "41820002", "41827ffe"),
    (Arch::PowerPc64, "R_PPC64_ADDR14", 0, -0x8000, "41820002", "41828002"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR14", 0, -0x8000, "41820002", "41828002"),
    (Arch::PowerPc64, "R_PPC64_ADDR24", 0, 0x1fffffc, "48000002", "49fffffe"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR24", 0, 0x1fffffc, "48000002", "49fffffe"),
    (Arch::PowerPc64, "R_PPC64_ADDR24", 0, -0x2000000, "48000002", "4a000002"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR24", 0, -0x2000000, "48000002", "4a000002"),
    (Arch::PowerPc64, "R_PPC64_REL14", 0, 0x7ffc, "41820000", "41827ffc"),
    (Arch::PowerPc64ElfV2, "R_PPC64_REL14", 0, 0x7ffc, "41820000", "41827ffc"),
    (Arch::PowerPc64, "R_PPC64_REL14", 0, -0x8000, "41820000", "41828000"),
    (Arch::PowerPc64ElfV2, "R_PPC64_REL14", 0, -0x8000, "41820000", "41828000"),
    (Arch::PowerPc64, "R_PPC64_ADDR16_LO", 2, 0x123487659abc8def, "60830000", "60838def"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_LO", 2, 0x123487659abc8def, "60830000", "60838def"),
    (Arch::PowerPc64, "R_PPC64_ADDR16_LO_DS", 2, 0x123487659abc8dec, "e8640000", "e8648dec"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_LO_DS", 2, 0x123487659abc8dec, "e8640000", "e8648dec"),
    (Arch::PowerPc64, "R_PPC64_ADDR16_HIGH", 2, 0x123487659abc8def, "60830000", "60839abc"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_HIGH", 2, 0x123487659abc8def, "60830000", "60839abc"),
    (Arch::PowerPc64, "R_PPC64_ADDR16_HIGHA", 2, 0x123487659abc8def, "60830000", "60839abd"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_HIGHA", 2, 0x123487659abc8def, "60830000", "60839abd"),
    (Arch::PowerPc64, "R_PPC64_ADDR16_HIGHER", 2, 0x123487659abc8def, "60830000", "60838765"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_HIGHER", 2, 0x123487659abc8def, "60830000", "60838765"),
    (Arch::PowerPc64, "R_PPC64_ADDR16_HIGHERA", 2, 0x123487659abc8def, "60830000", "60838765"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_HIGHERA", 2, 0x123487659abc8def, "60830000", "60838765"),
    (Arch::PowerPc64, "R_PPC64_ADDR16_HIGHEST", 2, 0x123487659abc8def, "60830000", "60831234"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_HIGHEST", 2, 0x123487659abc8def, "60830000", "60831234"),
    (Arch::PowerPc64, "R_PPC64_ADDR16_HIGHESTA", 2, 0x123487659abc8def, "60830000", "60831234"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_HIGHESTA", 2, 0x123487659abc8def, "60830000", "60831234"),
    (Arch::PowerPc64, "R_PPC64_ADDR16_HIGHERA", 2, 0xffffffffffff8000, "60830000", "60830000"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_HIGHERA", 2, 0xffffffffffff8000, "60830000", "60830000"),
    (Arch::PowerPc64, "R_PPC64_ADDR16_HA", 2, 0x7fff7fff, "3c640000", "3c647fff"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_HA", 2, 0x7fff7fff, "3c640000", "3c647fff"),
    (Arch::PowerPc64, "R_PPC64_ADDR16_HA", 2, 0xffffffff7fff8000, "3c640000", "3c648000"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_HA", 2, 0xffffffff7fff8000, "3c640000", "3c648000"),
    (Arch::PowerPc64, "R_PPC64_ADDR16_HI", 2, 0x7fffffff, "3c640000", "3c647fff"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_HI", 2, 0x7fffffff, "3c640000", "3c647fff"),
    (Arch::PowerPc64, "R_PPC64_ADDR16_HI", 2, 0xffffffff80000000, "3c640000", "3c648000"),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_HI", 2, 0xffffffff80000000, "3c640000", "3c648000"),
    (Arch::PowerPc64, "R_PPC64_PCREL34", 0, 0x1ffffffff, "0610000038600000", "0611ffff3860ffff"),
    (Arch::PowerPc64ElfV2, "R_PPC64_PCREL34", 0, 0x1ffffffff, "0610000038600000", "0611ffff3860ffff"),
    (Arch::PowerPc64, "R_PPC64_PCREL34", 0, -0x200000000, "0610000038600000", "0612000038600000"),
    (Arch::PowerPc64ElfV2, "R_PPC64_PCREL34", 0, -0x200000000, "0610000038600000", "0612000038600000"),
    (Arch::PowerPc64, "R_PPC64_PCREL34", 0, 0x12345, "0610000038600000", "0610000138602345"),
    (Arch::PowerPc64ElfV2, "R_PPC64_PCREL34", 0, 0x12345, "0610000038600000", "0610000138602345"),
    (Arch::PowerPc64Le, "R_PPC64_ADDR14", 0, 0x7ffc, "02008241", "fe7f8241"),
    (Arch::PowerPc64Le, "R_PPC64_REL14", 0, 0x7ffc, "00008241", "fc7f8241"),
    (Arch::PowerPc64Le, "R_PPC64_REL14", 0, -0x8000, "00008241", "00808241"),
    (Arch::PowerPc64Le, "R_PPC64_ADDR16_LO", 0, 0x123487659abc8def, "00008360", "ef8d8360"),
    (Arch::PowerPc64Le, "R_PPC64_ADDR16_LO_DS", 0, 0x123487659abc8dec, "000064e8", "ec8d64e8"),
    (Arch::PowerPc64Le, "R_PPC64_ADDR16_HIGH", 0, 0x123487659abc8def, "00008360", "bc9a8360"),
    (Arch::PowerPc64Le, "R_PPC64_ADDR16_HIGHA", 0, 0x123487659abc8def, "00008360", "bd9a8360"),
    (Arch::PowerPc64Le, "R_PPC64_ADDR16_HIGHER", 0, 0x123487659abc8def, "00008360", "65878360"),
    (Arch::PowerPc64Le, "R_PPC64_ADDR16_HIGHERA", 0, 0x123487659abc8def, "00008360", "65878360"),
    (Arch::PowerPc64Le, "R_PPC64_ADDR16_HIGHEST", 0, 0x123487659abc8def, "00008360", "34128360"),
    (Arch::PowerPc64Le, "R_PPC64_ADDR16_HIGHESTA", 0, 0x123487659abc8def, "00008360", "34128360"),
    (Arch::PowerPc64Le, "R_PPC64_ADDR16_HIGHERA", 0, 0xffffffffffff8000, "00008360", "00008360"),
    (Arch::PowerPc64Le, "R_PPC64_ADDR16_HA", 0, 0x7fff7fff, "0000643c", "ff7f643c"),
    (Arch::PowerPc64Le, "R_PPC64_ADDR16_HA", 0, 0xffffffff7fff8000, "0000643c", "0080643c"),
    (Arch::PowerPc64Le, "R_PPC64_ADDR16_HI", 0, 0x7fffffff, "0000643c", "ff7f643c"),
    (Arch::PowerPc64Le, "R_PPC64_ADDR16_HI", 0, 0xffffffff80000000, "0000643c", "0080643c"),
    (Arch::PowerPc64Le, "R_PPC64_PCREL34", 0, 0x1ffffffff, "0000100600006038", "ffff1106ffff6038"),
    (Arch::PowerPc64Le, "R_PPC64_PCREL34", 0, -0x200000000, "0000100600006038", "0000120600006038"),
    (Arch::PowerPc64Le, "R_PPC64_PCREL34", 0, 0x12345, "0000100600006038", "0100100645236038"),
    (Arch::SystemZ, "R_390_12", 2, 0xabc, "58123000", "58123abc"),
    (Arch::SystemZ, "R_390_12", 2, 0xfff, "58123000", "58123fff"),
    (Arch::SystemZ, "R_390_20", 2, 0x7ffff, "e31230000004", "e3123fff7f04"),
    (Arch::SystemZ, "R_390_20", 2, 0xfffffffffff80000, "e31230000004", "e31230008004"),
    (Arch::SystemZ, "R_390_20", 2, 0x12345, "e31230000004", "e31233451204"),
    (Arch::SystemZ, "R_390_PC16DBL", 2, 0xfffe, "a7f40000", "a7f47fff"),
    (Arch::SystemZ, "R_390_PC16DBL", 2, -0x10000, "a7f40000", "a7f48000"),
    (Arch::SystemZ, "R_390_PC32DBL", 2, 0xfffffffe, "c01000000000", "c0107fffffff"),
    (Arch::SystemZ, "R_390_PC32DBL", 2, -0x100000000, "c01000000000", "c01080000000"),
    (Arch::RiscV64, "R_RISCV_BRANCH", 0, 0xffe, "63802000", "e38f207e"),
    (Arch::RiscV64, "R_RISCV_BRANCH", 0, -0x1000, "63802000", "63802080"),
    (Arch::RiscV64, "R_RISCV_BRANCH", 0, 0x800, "63802000", "e3802000"),
    (Arch::RiscV64, "R_RISCV_BRANCH", 0, 0x554, "63802000", "638a2054"),
    (Arch::RiscV64, "R_RISCV_JAL", 0, 0xffffe, "ef000000", "eff0ff7f"),
    (Arch::RiscV64, "R_RISCV_JAL", 0, -0x100000, "ef000000", "ef000080"),
    (Arch::RiscV64, "R_RISCV_JAL", 0, 0x800, "ef000000", "ef001000"),
    (Arch::RiscV64, "R_RISCV_JAL", 0, 0x55554, "ef000000", "ef504555"),
    (Arch::RiscV64, "R_RISCV_RVC_BRANCH", 0, 0xfe, "01c0", "7dcc"),
    (Arch::RiscV64, "R_RISCV_RVC_BRANCH", 0, -0x100, "01c0", "01d0"),
    (Arch::RiscV64, "R_RISCV_RVC_BRANCH", 0, 0x20, "01c0", "05c0"),
    (Arch::RiscV64, "R_RISCV_RVC_BRANCH", 0, 0x54, "01c0", "31c8"),
    (Arch::RiscV64, "R_RISCV_RVC_JUMP", 0, 0x7fe, "01a0", "fdaf"),
    (Arch::RiscV64, "R_RISCV_RVC_JUMP", 0, -0x800, "01a0", "01b0"),
    (Arch::RiscV64, "R_RISCV_RVC_JUMP", 0, 0x20, "01a0", "05a0"),
    (Arch::RiscV64, "R_RISCV_RVC_JUMP", 0, 0x554, "01a0", "91ab"),
    (Arch::RiscV64, "R_RISCV_HI20", 0, 0x7ffff7ff, "b7020000", "b7f2ff7f"),
    (Arch::RiscV64, "R_RISCV_LO12_I", 0, 0x7ffff7ff, "93020300", "9302f37f"),
    (Arch::RiscV64, "R_RISCV_LO12_S", 0, 0x7ffff7ff, "23305300", "a33f537e"),
    (Arch::RiscV64, "R_RISCV_PCREL_HI20", 0, 0x7ffff7ff, "97020000", "97f2ff7f"),
    (Arch::RiscV64, "R_RISCV_CALL_PLT", 0, 0x7ffff7ff, "97000000e7800000", "97f0ff7fe780f07f"),
    (Arch::RiscV64, "R_RISCV_HI20", 0, 0xffffffff7ffff800, "b7020000", "b7020080"),
    (Arch::RiscV64, "R_RISCV_LO12_I", 0, 0xffffffff7ffff800, "93020300", "93020380"),
    (Arch::RiscV64, "R_RISCV_LO12_S", 0, 0xffffffff7ffff800, "23305300", "23305380"),
    (Arch::RiscV64, "R_RISCV_PCREL_HI20", 0, -0x80000800, "97020000", "97020080"),
    (Arch::RiscV64, "R_RISCV_CALL_PLT", 0, -0x80000800, "97000000e7800000", "97000080e7800080"),
    (Arch::RiscV64, "R_RISCV_HI20", 0, 0x12345800, "b7020000", "b7623412"),
    (Arch::RiscV64, "R_RISCV_LO12_I", 0, 0x12345800, "93020300", "93020380"),
    (Arch::RiscV64, "R_RISCV_LO12_S", 0, 0x12345800, "23305300", "23305380"),
    (Arch::RiscV64, "R_RISCV_PCREL_HI20", 0, 0x12345800, "97020000", "97623412"),
    (Arch::RiscV64, "R_RISCV_CALL_PLT", 0, 0x12345800, "97000000e7800000", "97603412e7800080"),
    (Arch::RiscV64, "R_RISCV_HI20", 0, 0x7ff, "b7020000", "b7020000"),
    (Arch::RiscV64, "R_RISCV_LO12_I", 0, 0x7ff, "93020300", "9302f37f"),
    (Arch::RiscV64, "R_RISCV_LO12_S", 0, 0x7ff, "23305300", "a33f537e"),
    (Arch::RiscV64, "R_RISCV_PCREL_HI20", 0, 0x7ff, "97020000", "97020000"),
    (Arch::RiscV64, "R_RISCV_CALL_PLT", 0, 0x7ff, "97000000e7800000", "97000000e780f07f"),
];

#[test]
fn fields_are_where_the_assembler_has_them() {
    for (arch, name, offset, value, before, after) in ASSEMBLED {
        let number = number(*arch, name);
        let addend = if is_relative(*arch, number) {
            *offset as i64
        } else {
            0
        };
        let text = code(hex(before), vec![(*offset, number, 1, addend)]);
        let bytes = object(*arch, &[text], &[OUTSIDE]);
        let layout = Object::parse(&bytes).unwrap().layout().unwrap();
        let target = if is_relative(*arch, number) {
            BASE.wrapping_add(*value as u64)
        } else {
            *value as u64
        };
        let linked = layout.link(&addrs(0), &|_| Some(CodeAddr::new(target)));
        let linked = linked.unwrap_or_else(|error| panic!("{name} {value:#x}: {error}"));
        let expected = hex(after);
        assert_eq!(
            linked.segments[0].bytes[..expected.len()],
            expected,
            "{name} {value:#x}"
        );
    }
}

const G: i128 = 1 << 31;

/// The least and the greatest value that fit, and the unit.
#[rustfmt::skip]
const LIMITS: &[(Arch, &str, i128, i128, i128)] = &[
    (Arch::X86_64, "R_X86_64_32", 0, 2 * G - 1, 1),
    (Arch::X86_64, "R_X86_64_32S", -G, G - 1, 1),
    (Arch::X86_64, "R_X86_64_16", -0x8000, 0xffff, 1),
    (Arch::X86_64, "R_X86_64_8", -0x80, 0xff, 1),
    (Arch::X86_64, "R_X86_64_PC32", -G, G - 1, 1),
    (Arch::X86_64, "R_X86_64_PC16", -0x8000, 0x7fff, 1),
    (Arch::X86_64, "R_X86_64_PC8", -0x80, 0x7f, 1),
    (Arch::AArch64, "R_AARCH64_ABS32", -G, 2 * G - 1, 1),
    (Arch::AArch64, "R_AARCH64_ABS16", -0x8000, 0xffff, 1),
    (Arch::AArch64, "R_AARCH64_PREL32", -G, G - 1, 1),
    (Arch::AArch64, "R_AARCH64_PREL16", -0x8000, 0x7fff, 1),
    (Arch::AArch64, "R_AARCH64_MOVW_UABS_G0", 0, 0xffff, 1),
    (Arch::AArch64, "R_AARCH64_MOVW_UABS_G1", 0, 2 * G - 1, 1),
    (Arch::AArch64, "R_AARCH64_MOVW_UABS_G2", 0, 0xffff_ffff_ffff, 1),
    (Arch::AArch64, "R_AARCH64_LD_PREL_LO19", -0x10_0000, 0xf_ffff, 4),
    (Arch::AArch64, "R_AARCH64_ADR_PREL_LO21", -0x10_0000, 0xf_ffff, 1),
    (Arch::AArch64, "R_AARCH64_ADR_PREL_PG_HI21", -2 * G, 2 * G - 1, 1),
    (Arch::AArch64, "R_AARCH64_TSTBR14", -0x8000, 0x7fff, 4),
    (Arch::AArch64, "R_AARCH64_CONDBR19", -0x10_0000, 0xf_ffff, 4),
    (Arch::AArch64, "R_AARCH64_CALL26", -0x800_0000, 0x7ff_ffff, 4),
    (Arch::AArch64, "R_AARCH64_JUMP26", -0x800_0000, 0x7ff_ffff, 4),
    (Arch::PowerPc64, "R_PPC64_ADDR32", -G, 2 * G - 1, 1),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR32", -G, 2 * G - 1, 1),
    (Arch::PowerPc64, "R_PPC64_ADDR16", -0x8000, 0xffff, 1),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16", -0x8000, 0xffff, 1),
    (Arch::PowerPc64, "R_PPC64_ADDR16_HI", -G, G - 1, 1),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_HI", -G, G - 1, 1),
    (Arch::PowerPc64, "R_PPC64_ADDR16_HA", -G - 0x8000, G - 0x8001, 1),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_HA", -G - 0x8000, G - 0x8001, 1),
    (Arch::PowerPc64, "R_PPC64_ADDR16_DS", -0x8000, 0xffff, 4),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR16_DS", -0x8000, 0xffff, 4),
    (Arch::PowerPc64, "R_PPC64_ADDR14", -0x8000, 0x7fff, 4),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR14", -0x8000, 0x7fff, 4),
    (Arch::PowerPc64, "R_PPC64_ADDR24", -0x200_0000, 0x1ff_ffff, 4),
    (Arch::PowerPc64ElfV2, "R_PPC64_ADDR24", -0x200_0000, 0x1ff_ffff, 4),
    (Arch::PowerPc64, "R_PPC64_REL14", -0x8000, 0x7fff, 4),
    (Arch::PowerPc64ElfV2, "R_PPC64_REL14", -0x8000, 0x7fff, 4),
    (Arch::PowerPc64, "R_PPC64_REL24", -0x200_0000, 0x1ff_ffff, 4),
    (Arch::PowerPc64ElfV2, "R_PPC64_REL24", -0x200_0000, 0x1ff_ffff, 4),
    (Arch::PowerPc64, "R_PPC64_REL32", -G, G - 1, 1),
    (Arch::PowerPc64ElfV2, "R_PPC64_REL32", -G, G - 1, 1),
    (Arch::PowerPc64Le, "R_PPC64_REL24", -0x200_0000, 0x1ff_ffff, 4),
    (Arch::PowerPc64Le, "R_PPC64_REL24_NOTOC", -0x200_0000, 0x1ff_ffff, 4),
    (Arch::PowerPc64ElfV2, "R_PPC64_REL24_NOTOC", -0x200_0000, 0x1ff_ffff, 4),
    (Arch::PowerPc64Le, "R_PPC64_REL16", -0x8000, 0x7fff, 1),
    (Arch::PowerPc64ElfV2, "R_PPC64_REL16", -0x8000, 0x7fff, 1),
    (Arch::PowerPc64Le, "R_PPC64_REL16_HI", -G, G - 1, 1),
    (Arch::PowerPc64ElfV2, "R_PPC64_REL16_HI", -G, G - 1, 1),
    (Arch::PowerPc64Le, "R_PPC64_REL16_HA", -G - 0x8000, G - 0x8001, 1),
    (Arch::PowerPc64ElfV2, "R_PPC64_REL16_HA", -G - 0x8000, G - 0x8001, 1),
    (Arch::PowerPc64Le, "R_PPC64_PCREL34", -4 * G, 4 * G - 1, 1),
    (Arch::PowerPc64ElfV2, "R_PPC64_PCREL34", -4 * G, 4 * G - 1, 1),
    (Arch::SystemZ, "R_390_8", -0x80, 0xff, 1),
    (Arch::SystemZ, "R_390_12", 0, 0xfff, 1),
    (Arch::SystemZ, "R_390_16", -0x8000, 0xffff, 1),
    (Arch::SystemZ, "R_390_20", -0x8_0000, 0x7_ffff, 1),
    (Arch::SystemZ, "R_390_32", -G, 2 * G - 1, 1),
    (Arch::SystemZ, "R_390_PC16", -0x8000, 0x7fff, 1),
    (Arch::SystemZ, "R_390_PC32", -G, G - 1, 1),
    (Arch::SystemZ, "R_390_PC16DBL", -0x1_0000, 0xffff, 2),
    (Arch::SystemZ, "R_390_PLT16DBL", -0x1_0000, 0xffff, 2),
    (Arch::SystemZ, "R_390_PC32DBL", -2 * G, 2 * G - 1, 2),
    (Arch::RiscV64, "R_RISCV_32", -G, 2 * G - 1, 1),
    (Arch::RiscV64, "R_RISCV_BRANCH", -0x1000, 0xfff, 2),
    (Arch::RiscV64, "R_RISCV_JAL", -0x10_0000, 0xf_ffff, 2),
    (Arch::RiscV64, "R_RISCV_RVC_BRANCH", -0x100, 0xff, 2),
    (Arch::RiscV64, "R_RISCV_RVC_JUMP", -0x800, 0x7ff, 2),
    (Arch::RiscV64, "R_RISCV_HI20", -G - 0x800, G - 0x801, 1),
    (Arch::RiscV64, "R_RISCV_PCREL_HI20", -G - 0x800, G - 0x801, 1),
    (Arch::RiscV64, "R_RISCV_32_PCREL", -G, G - 1, 1),
];

/// Links a relocation that gives this value. A branch goes to the object's own data, so that no
/// stub takes its place.
fn link_value(arch: Arch, name: &str, value: i128) -> crate::error::Result<()> {
    let number = number(arch, name);
    let formula = Relocation::from_elf(arch, number).unwrap().formula();
    let inside = Symbol {
        section: 2,
        name: "inside",
        ..OUTSIDE
    };
    let target = if formula.needs_place() {
        u64::wrapping_add(BASE, value as u64)
    } else {
        value as u64
    };
    let symbol = if formula.is_branch() { inside } else { OUTSIDE };
    let sections = [code(vec![0; 8], vec![(0, number, 1, 0)]), data()];
    let bytes = object(arch, &sections, &[symbol]);
    let layout = Object::parse(&bytes)?.layout()?;
    let data = if formula.is_branch() {
        target
    } else {
        BASE + 0x20_0000
    };
    layout
        .link(&addrs(data), &|_| Some(CodeAddr::new(target)))
        .map(drop)
}

#[test]
fn what_fits_is_linked_and_one_beyond_is_refused_with_its_value() {
    for (arch, name, least, greatest, unit) in LIMITS {
        let greatest = greatest / unit * unit;
        for value in [*least, greatest] {
            link_value(*arch, name, value).unwrap_or_else(|error| panic!("{name} {value:#x}: {error}"));
        }
        for beyond in [least - unit, greatest + unit] {
            // Pages begin 4096 apart.
            let beyond = if name.contains("_PG_") && beyond < 0 {
                least - 0x1000
            } else {
                beyond
            };
            match link_value(*arch, name, beyond) {
                Err(Error::RelocationOutOfReach {
                    relocation,
                    value,
                    symbol,
                    ..
                }) => {
                    assert_eq!(relocation, *name);
                    let page = if name.contains("_PG_") { !0xfff } else { !0 };
                    assert_eq!(value, beyond as i64 & page, "{name}");
                    assert!(!symbol.is_empty());
                }
                other => panic!("{name} {beyond:#x}: {other:?}"),
            }
        }
        for between in 1..*unit {
            let found = link_value(*arch, name, greatest - between);
            assert!(
                matches!(found, Err(Error::RelocationMisaligned { .. })),
                "{name} {found:?}"
            );
        }
    }
}

/// The field has no room for the low bits of an address that is not aligned.
#[test]
fn parts_of_an_access_must_be_multiples_of_its_size() {
    for (size, unit) in [("16", 2), ("32", 4), ("64", 8), ("128", 16)] {
        let name = alloc::format!("R_AARCH64_LDST{size}_ABS_LO12_NC");
        assert!(link_value(Arch::AArch64, &name, 0x1230).is_ok());
        let found = link_value(Arch::AArch64, &name, 0x1230 + unit / 2);
        assert!(
            matches!(&found, Err(Error::RelocationMisaligned { align, .. }) if i128::from(*align) == unit),
            "{found:?}"
        );
    }
    for name in ["R_PPC64_ADDR16_LO_DS", "R_PPC64_ADDR16_DS"] {
        for arch in [Arch::PowerPc64, Arch::PowerPc64Le, Arch::PowerPc64ElfV2] {
            assert!(link_value(arch, name, 4).is_ok());
            assert!(link_value(arch, name, 6).is_err());
        }
    }
}

/// Limited relocations have a row above, so that a new one is not forgotten.
#[test]
fn every_limited_relocation_has_its_limits_tested() {
    let arches = [
        Arch::X86_64,
        Arch::AArch64,
        Arch::PowerPc64Le,
        Arch::SystemZ,
        Arch::RiscV64,
    ];
    for arch in arches {
        for relocation in (0..2000).filter_map(|number| Relocation::from_elf(arch, number)) {
            let formula = relocation.formula();
            // Those of the table and those that stubs extend are tested in `tables`.
            let tested_with_others = formula.needs_got()
                || matches!(formula, Formula::FromGot | Formula::GotBase | Formula::Size)
                || formula.is_branch();
            let tested = LIMITS.iter().any(|row| row.1 == relocation.name());
            assert!(
                tested || tested_with_others || relocation.fit().bits() == 64,
                "{relocation:?}"
            );
        }
    }
}

#[test]
fn thread_local_storage_is_refused_by_name() {
    let cases = [
        (Arch::X86_64, 23, "R_X86_64_TPOFF32"),
        (Arch::AArch64, 549, "R_AARCH64_TLSLE_ADD_TPREL_HI12"),
        (Arch::PowerPc64, 72, "R_PPC64_TPREL16_HA"),
        (Arch::PowerPc64Le, 150, "R_PPC64_GOT_TPREL_PCREL34"),
        (Arch::PowerPc64ElfV2, 72, "R_PPC64_TPREL16_HA"),
        (Arch::SystemZ, 49, "R_390_TLS_IEENT"),
        (Arch::RiscV64, 21, "R_RISCV_TLS_GOT_HI20"),
    ];
    for (arch, number, name) in cases {
        let bytes = object(arch, &[code(vec![0; 8], vec![(0, number, 1, 0)])], &[OUTSIDE]);
        let error = Object::parse(&bytes).unwrap_err().to_string();
        let expected = alloc::format!("`outside` ({name} at .text+0x0) is thread-local, ");
        assert!(error.starts_with(&expected), "{error}");
        // A thread-local symbol under an innocent relocation.
        let symbol = Symbol { kind: 6, ..OUTSIDE };
        let absolute = [
            (Arch::X86_64, 1),
            (Arch::AArch64, 257),
            (Arch::SystemZ, 22),
            (Arch::RiscV64, 2),
        ];
        let absolute = absolute.iter().find(|row| row.0 == arch).map_or(38, |row| row.1);
        let bytes = object(arch, &[code(vec![0; 8], vec![(0, absolute, 1, 0)])], &[symbol]);
        let layout = Object::parse(&bytes).unwrap().layout().unwrap();
        let error = layout.link(&addrs(0), &|_| Some(CodeAddr::new(8))).unwrap_err();
        assert!(matches!(error, Error::SymbolRefused { .. }), "{error}");
    }
}

#[test]
fn byte_orders_and_versions_that_nobody_emits_stack_maps_for_are_refused() {
    let change = |arch: Arch, at: usize, byte: u8| {
        let mut bytes = object(arch, &[code(vec![0; 4], vec![])], &[]);
        bytes[at] = byte;
        Object::parse(&bytes).map(|object| object.arch())
    };
    // e_flags: little-endian at 48, big-endian at 51.
    assert!(change(Arch::PowerPc64Le, 48, 1).is_err());
    assert!(change(Arch::PowerPc64, 51, 3).is_err());
    assert_eq!(change(Arch::PowerPc64, 51, 2), Ok(Arch::PowerPc64ElfV2));
    assert_eq!(change(Arch::PowerPc64ElfV2, 51, 1), Ok(Arch::PowerPc64));
    assert!(change(Arch::RiscV64, 48, 8).is_err());
    assert_eq!(change(Arch::PowerPc64, 51, 0), Ok(Arch::PowerPc64));
    assert_eq!(change(Arch::PowerPc64Le, 48, 0), Ok(Arch::PowerPc64Le));
}
