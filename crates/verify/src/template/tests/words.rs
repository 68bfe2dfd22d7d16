//! The fields of instructions that are words.

use super::*;

fn of(arch: Arch, code: &[u8]) -> Option<Template> {
    let site = SiteContext {
        arch,
        ..site(code.len() as u32)
    };
    Template::of(&site, code, &declared())
}

/// The open bits of each byte.
fn open(arch: Arch, code: &[u8]) -> Vec<u8> {
    let template = of(arch, code).unwrap();
    template.closed.iter().map(|closed| !closed).collect()
}

fn little(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn big(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[track_caller]
fn expect_little(arch: Arch, cases: &[(u32, u32)]) {
    for (word, mask) in cases {
        assert_eq!(open(arch, &little(&[*word])), little(&[*mask]), "{word:#x}");
    }
}

#[test]
fn immediates_displacements_and_distances_of_aarch64_are_open() {
    expect_little(
        Arch::AArch64,
        &[
            (0xb940_0810, 0x003f_fc00), // ldr w16, [x0, #8]
            (0xf81f_8010, 0x001f_f000), // stur x16, [x0, #-8]
            (0xb940_0bf0, 0),           // ldr w16, [sp, #8]
            (0xf840_8410, 0),           // ldr x16, [x0], #8
            (0x7100_5e1f, 0x003f_fc00), // cmp w16, #0x17
            (0x9140_0610, 0x003f_fc00), // add x16, x16, #1, lsl #12
            (0x9100_43ff, 0),           // add sp, sp, #0x10
            (0x9100_03f0, 0),           // mov x16, sp
            (0xd282_4690, 0x001f_ffe0), // movz x16, #0x1234
            (0x9240_1e10, 0),           // and x16, x16, #0xff
            (0xd503_201f, 0),           // nop
            (0xd37d_f210, 0),           // lsl x16, x16, #3
            (0x1400_2000, 0x03ff_ffff), // b TARGET
            (0x1400_0000, 0),           // b .
            (0x5404_0001, 0x00ff_ffe0), // b.ne TARGET
        ],
    );
    // adr x16, .; ldr x16, .
    assert!(of(Arch::AArch64, &little(&[0x1000_0010])).is_none());
    assert!(of(Arch::AArch64, &little(&[0x5800_0010])).is_none());
}

#[test]
fn immediates_displacements_and_distances_of_riscv64_are_open() {
    expect_little(
        Arch::RiscV64,
        &[
            (0x0085_6283, 0xfff0_0000), // lwu t0, 8(a0)
            (0x0081_3283, 0),           // ld t0, 8(sp)
            (0x0055_3423, 0xfe00_0f80), // sd t0, 8(a0)
            (0x0051_3423, 0),           // sd t0, 8(sp)
            (0x0001_22b7, 0xffff_f000), // lui t0, 0x12
            (0x3452_8293, 0xfff0_0000), // addi t0, t0, 0x345
            (0x0ff2_f293, 0xfff0_0000), // andi t0, t0, 0xff
            (0x0102_9293, 0),           // slli t0, t0, 16
            (0xff01_0113, 0),           // addi sp, sp, -16
            (0x0000_0013, 0),           // nop
            (0x0000_806f, 0xffff_f000), // j TARGET
        ],
    );
    // auipc t0, 0
    assert!(of(Arch::RiscV64, &little(&[0x0000_0297])).is_none());
}

#[test]
fn immediates_displacements_and_distances_of_powerpc64_are_open() {
    let cases = [
        (0x8163_0008_u32, 0xffff_u32), // lwz r11, 8(r3)
        (0xe963_0008, 0xfffc),         // ld r11, 8(r3)
        (0xe961_0008, 0),              // ld r11, 8(r1)
        (0xf963_0008, 0xfffc),         // std r11, 8(r3)
        (0x3960_1234, 0xffff),         // li r11, 0x1234
        (0x3d60_0001, 0xffff),         // lis r11, 1
        (0x616b_2345, 0xffff),         // ori r11, r11, 0x2345
        (0x696b_2345, 0xffff),         // xori r11, r11, 0x2345
        (0x6d6b_0001, 0xffff),         // xoris r11, r11, 1
        (0x6000_0000, 0),              // nop
        (0x3821_fff0, 0),              // addi r1, r1, -16
        (0x2c0b_0017, 0xffff),         // cmpwi r11, 0x17
        (0x280b_0017, 0xffff),         // cmplwi r11, 0x17
        (0x796b_0420, 0),              // clrldi r11, r11, 16
        (0x4800_8000, 0x03ff_fffc),    // b TARGET
        (0x4082_0008, 0),              // bne .+8
    ];
    for (word, mask) in cases {
        for arch in [Arch::PowerPc64, Arch::PowerPc64ElfV2] {
            assert_eq!(open(arch, &big(&[word])), big(&[mask]), "{word:#x}");
        }
        let le = Arch::PowerPc64Le;
        assert_eq!(open(le, &little(&[word])), little(&[mask]), "{word:#x}");
    }
}

#[test]
fn immediates_displacements_and_distances_of_systemz_are_open() {
    let cases: [(&[u8], &[u8]); 14] = [
        // l %r1, 8(%r2); lg %r1, 8(%r2); lg %r1, 8(%r15)
        (&[0x58, 0x10, 0x20, 0x08], &[0, 0, 0x0f, 0xff]),
        (&[0xe3, 0x10, 0x20, 0x08, 0, 0x04], &[0, 0, 0x0f, 0xff, 0xff, 0]),
        (&[0xe3, 0x10, 0xf0, 0x08, 0, 0x04], &[0; 6]),
        // lghi %r1, 1; llihl %r1, 1; aghi %r15, -8
        (&[0xa7, 0x19, 0, 1], &[0, 0, 0xff, 0xff]),
        (&[0xa5, 0x1d, 0, 1], &[0, 0, 0xff, 0xff]),
        (&[0xa7, 0xfb, 0xff, 0xf8], &[0; 4]),
        // llilf %r1, 1; clfi %r1, 1
        (&[0xc0, 0x1f, 0, 0, 0, 1], &[0, 0, 0xff, 0xff, 0xff, 0xff]),
        (&[0xc2, 0x1f, 0, 0, 0, 1], &[0, 0, 0xff, 0xff, 0xff, 0xff]),
        // cli 8(%r2), 1; mvhi 8(%r2), 1
        (&[0x95, 0x01, 0x20, 0x08], &[0, 0xff, 0x0f, 0xff]),
        (&[0xe5, 0x4c, 0x20, 0x08, 0, 1], &[0, 0, 0x0f, 0xff, 0xff, 0xff]),
        // sllg %r1, %r1, 3; brcl 0; jg TARGET; jne .+8
        (&[0xeb, 0x11, 0, 3, 0, 0x0d], &[0; 6]),
        (&[0xc0, 0x04, 0, 0, 0, 0], &[0; 6]),
        (&[0xc0, 0xf4, 0, 0, 0x40, 0], &[0, 0, 0xff, 0xff, 0xff, 0xff]),
        (&[0xa7, 0x74, 0, 4], &[0; 4]),
    ];
    for (code, mask) in cases {
        assert_eq!(open(Arch::SystemZ, code), mask, "{code:02x?}");
    }
    // larl %r1, .
    assert!(of(Arch::SystemZ, &[0xc0, 0x10, 0, 0, 0, 0]).is_none());
}

/// Constants by several instructions, each with the values that its fields are of.
fn constants() -> [(Arch, Vec<u8>, u64); 5] {
    [
        // movz x16, #0x1234; movk x16, #0x5678, lsl #16
        (Arch::AArch64, little(&[0xd282_4690, 0xf2aa_cf10]), 0x5678_1234),
        // lui t0, 0x12345; addiw t0, t0, -0x11; slli t0, t0, 12; addi t0, t0, 7
        (
            Arch::RiscV64,
            little(&[0x1234_52b7, 0xfef2_829b, 0x00c2_9293, 0x0072_8293]),
            (0x1234_5000 - 0x11) << 12 | 7,
        ),
        // lis r11, 0x1234; ori r11, r11, 0x5678
        (Arch::PowerPc64, big(&[0x3d60_1234, 0x616b_5678]), 0x1234_5678),
        // li r11, -2; sldi r11, r11, 32; oris r11, r11, 0x1234; ori r11, r11, 0x5678
        (
            Arch::PowerPc64Le,
            little(&[0x3960_fffe, 0x796b_07c6, 0x656b_1234, 0x616b_5678]),
            0xffff_fffe_1234_5678,
        ),
        // llilf %r1, 0x12345678; iihf %r1, 0x9abcdef0
        (
            Arch::SystemZ,
            vec![
                0xc0, 0x1f, 0x12, 0x34, 0x56, 0x78, 0xc0, 0x18, 0x9a, 0xbc, 0xde, 0xf0,
            ],
            0x9abc_def0_1234_5678,
        ),
    ]
}

#[test]
fn the_fields_of_a_constant_add_up_to_it() {
    for (arch, code, value) in constants() {
        let template = of(arch, &code).unwrap();
        let sum = template.fields().iter().map(|field| field.read(&code).unwrap());
        assert_eq!(sum.fold(0, u64::wrapping_add), value, "{arch}");
        let mut contents = vec![Content::More; template.fields().len()];
        contents[0] = Content::Value(value);
        assert!(template.admits(site_of(code.len()), &code, &contents), "{arch}");
        for bit in 0..8 * code.len() {
            let mut damaged = code.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(
                !template.admits(site_of(code.len()), &damaged, &contents),
                "{arch} {bit}"
            );
        }
    }
}

#[test]
fn no_part_of_a_value_is_left_out() {
    for (arch, code, value) in constants() {
        let template = of(arch, &code).unwrap();
        let last = template.fields().last().unwrap().read(&code).unwrap();
        // The last is said to be a value of its own, which it is, and the others to be all.
        let mut contents = vec![Content::More; template.fields().len()];
        contents[0] = Content::Value(value);
        *contents.last_mut().unwrap() = Content::Value(last);
        assert!(!template.admits(site_of(code.len()), &code, &contents), "{arch}");
        contents[0] = Content::Value(value.wrapping_sub(last));
        assert!(template.admits(site_of(code.len()), &code, &contents), "{arch}");
        contents[0] = Content::More;
        assert!(!template.admits(site_of(code.len()), &code, &contents), "{arch}");
    }
}

#[test]
fn a_constant_that_says_where_the_stack_is_written_is_not_open() {
    // movz x16, #8; str x1, [x0, x16]; then to the stack: str x1, [sp, x16]
    assert!(of(Arch::AArch64, &little(&[0xd280_0110, 0xf830_6801])).is_some());
    assert!(of(Arch::AArch64, &little(&[0xd280_0110, 0xf830_6be1])).is_none());
    // lghi %r1, 8; stg %r2, 0(%r1, %r15)
    assert!(of(Arch::SystemZ, &[0xa7, 0x19, 0, 8, 0xe3, 0x21, 0xf0, 0, 0, 0x24]).is_none());
}

#[test]
fn a_constant_that_says_where_a_branch_goes_is_not_open() {
    // movz x16, #0x9000; br x16
    assert!(of(Arch::AArch64, &little(&[0xd292_0010, 0xd61f_0200])).is_none());
    // lui t0, 9; jr t0
    assert!(of(Arch::RiscV64, &little(&[0x0000_92b7, 0x0002_8067])).is_none());
    // lis r11, 1; mtctr r11; bctr
    let words = [0x3d60_0001, 0x7d69_03a6, 0x4e80_0420];
    assert!(of(Arch::PowerPc64Le, &little(&words)).is_none());
    // lghi %r1, 8; br %r1
    assert!(of(Arch::SystemZ, &[0xa7, 0x19, 0, 8, 0x07, 0xf1]).is_none());
}

/// What is found by its bits stays what it is: a unit that keeps a condition field.
#[test]
fn the_instructions_of_a_unit_are_closed() {
    // mfocrf r11, 128; mtlr r11; cmpwi r3, 0x17; mflr r11; mtocrf 128, r11; cmpwi r3, 0x17
    let words = [
        0x7d78_0026,
        0x7d68_03a6,
        0x2c03_0017,
        0x7d68_02a6,
        0x7d78_0120,
        0x2c03_0017,
    ];
    let template = of(Arch::PowerPc64, &big(&words)).unwrap();
    let opened: Vec<_> = template.fields().iter().map(|field| field.at).collect();
    assert_eq!(opened, [20]);
}
