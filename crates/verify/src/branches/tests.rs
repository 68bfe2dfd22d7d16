//! Branches as LLVM's assembler encodes them: all go to the first byte of the code, or to its last
//! instruction.

use super::*;

const START: u64 = 0x4000_0000;

/// The branches of `code` with the offsets of their instructions and targets.
fn found(arch: Arch, code: &[u8]) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    branches_to(arch, CodeAddr::new(START), code, |_| true, &mut found);
    let offset = |addr: CodeAddr| addr.get().wrapping_sub(START);
    found
        .iter()
        .map(|branch| (offset(branch.from), offset(branch.to)))
        .collect()
}

/// All instructions at these offsets branch in turns to `end` and to 0.
fn in_turns(offsets: &[u64], end: u64) -> Vec<(u64, u64)> {
    let targets = [end, 0].into_iter().cycle();
    offsets.iter().copied().zip(targets).collect()
}

#[test]
fn aarch64() {
    let words = [
        0x1400_000a_u32, // b
        0x97ff_ffff,     // bl
        0x5400_0100,     // b.eq
        0x54ff_ffb1,     // bc.ne
        0x3400_00c3,     // cbz w3
        0xb5ff_ff64,     // cbnz x4
        0xb640_0085,     // tbz x5, #40
        0x371f_ff25,     // tbnz w5, #3
        0x1e60_4020,     // fmov d0, d1
        0x10ff_fee0,     // adr x0
        0xd503_201f,     // nop
    ];
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let expected = in_turns(&[0, 4, 8, 12, 16, 20, 24, 28], 0x28);
    assert_eq!(found(Arch::AArch64, &code), expected);
}

#[test]
fn powerpc64() {
    let words = [
        0x4800_0028_u32, // b
        0x4bff_fffd,     // bl
        0x4182_0020,     // bt 2
        0x4200_fff4,     // bdnz
        0x4086_0018,     // bf 6
        0x0600_000f,     // pli, of eight bytes
        0x4800_0028,     // (not an instruction)
        0xfc22_182a,     // fadd
        0x4800_0042,     // ba 0x40
        0x4182_0042,     // bta 2, 0x40
        0x6000_0000,     // nop
    ];
    let mut expected = in_turns(&[0, 4, 8, 12, 16], 0x28);
    let absolute = 0x40_u64.wrapping_sub(START);
    expected.extend([(0x20, absolute), (0x24, absolute)]);
    let little: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(found(Arch::PowerPc64Le, &little), expected);
    let big: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    assert_eq!(found(Arch::PowerPc64, &big), expected);
    assert_eq!(found(Arch::PowerPc64ElfV2, &big), expected);
}

#[test]
fn riscv64() {
    let code = [
        &[0x1d, 0xa8][..],         // c.j
        &[0x6f, 0, 0x40, 0x03],    // jal zero
        &[0xef, 0xf0, 0xbf, 0xff], // jal ra
        &[0x63, 0x06, 0x05, 0x02], // beqz
        &[0xe3, 0xe9, 0xc5, 0xfe], // bltu
        &[0x15, 0xc1],             // c.beqz
        &[0xf5, 0xf5],             // c.bnez
        &[0xed, 0xb7],             // c.j
        &[0x53, 0xf0, 0x20, 0x02], // fadd.d
        &[0x17, 0x03, 0, 0],       // auipc t1, 0
        &[0x67, 0x00, 0x83, 0x01], // jr 24(t1)
        &[0x17, 0x03, 0, 0],       // auipc t1, 0
        &[0x02, 0x83],             // c.jr t1
        &[0x17, 0x13, 0, 0],       // auipc t1, 1
        &[0xe7, 0x00, 0x03, 0x80], // jalr -2048(t1)
        &[0x67, 0x00, 0x83, 0x00], // jr 8(t1)
        &[0x01, 0],                // nop
    ]
    .concat();
    let direct = [
        (0, 0x36),
        (2, 0x36),
        (6, 0),
        (0xa, 0x36),
        (0xe, 0),
        (0x12, 0x36),
        (0x14, 0),
        (0x16, 0),
    ];
    let pairs = [(0x20, 0x34), (0x28, 0x24), (0x2e, 0x82a)];
    assert_eq!(found(Arch::RiscV64, &code), [&direct[..], &pairs].concat());
}

#[test]
fn systemz() {
    let code = [
        &[0xa7, 0xf4, 0x00, 0x3d][..],         // j
        &[0xa7, 0x15, 0xff, 0xfe],             // bras
        &[0xa7, 0x26, 0x00, 0x39],             // brct
        &[0xa7, 0x27, 0xff, 0xfa],             // brctg
        &[0xc0, 0xf4, 0, 0, 0, 0x35],          // jg
        &[0xc0, 0xe5, 0xff, 0xff, 0xff, 0xf5], // brasl
        &[0xc6, 0x10, 0, 0, 0, 0x2f],          // exrl
        &[0xcc, 0x26, 0xff, 0xff, 0xff, 0xef], // brcth
        &[0x84, 0x24, 0x00, 0x29],             // brxh
        &[0x85, 0x24, 0xff, 0xea],             // brxle
        &[0xec, 0x24, 0x00, 0x25, 0, 0x44],    // brxhg
        &[0xec, 0x24, 0xff, 0xe5, 0, 0x45],    // brxlg
        &[0xec, 0x12, 0x00, 0x1f, 0x80, 0x76], // crje
        &[0xec, 0x12, 0xff, 0xdf, 0x80, 0x64], // cgrje
        &[0xec, 0x18, 0x00, 0x19, 0x03, 0x7e], // cije
        &[0xec, 0x18, 0xff, 0xd9, 0x03, 0x7c], // cgije
        &[0xec, 0x12, 0x00, 0x13, 0x80, 0x77], // clrje
        &[0xec, 0x12, 0xff, 0xd3, 0x80, 0x65], // clgrje
        &[0xec, 0x18, 0x00, 0x0d, 0x03, 0x7f], // clije
        &[0xec, 0x18, 0xff, 0xcd, 0x03, 0x7d], // clgije
        &[0xc0, 0x10, 0xff, 0xff, 0xff, 0xca], // larl
        &[0xb3, 0x1a, 0x00, 0x02],             // adbr
        &[0xb9, 0x04, 0x00, 0x12],             // lgr
        &[0x07, 0x07],                         // nopr
        &[0xc0, 0x04, 0, 0, 0, 0x35],          // brcl 0, a nop
        &[0xa7, 0x04, 0, 0x35],                // brc 0
    ]
    .concat();
    let offsets = [
        0, 4, 8, 0xc, 0x10, 0x16, 0x1c, 0x22, 0x28, 0x2c, 0x30, 0x36, 0x3c, 0x42, 0x48, 0x4e, 0x54, 0x5a,
        0x60, 0x66,
    ];
    assert_eq!(found(Arch::SystemZ, &code), in_turns(&offsets, 0x7a));
}

/// On x86-64 also behind bytes with which no instruction begins, and not in the middle of
/// instructions.
#[test]
fn x86_64() {
    let code = [
        &[0xeb, 0x2e][..],                     // jmp
        &[0xe9, 0x29, 0, 0, 0],                // jmp
        &[0xe8, 0xf4, 0xff, 0xff, 0xff],       // call
        &[0x74, 0x22],                         // je
        &[0x0f, 0x85, 0xec, 0xff, 0xff, 0xff], // jne
        &[0xe2, 0xea],                         // loop
        &[0xe3, 0x18],                         // jrcxz
        &[0xc7, 0xf8, 0xe2, 0xff, 0xff, 0xff], // xbegin
        &[0x62, 0xf1, 0xed, 0x48, 0x58, 0xd9], // vaddpd
        &[0x3e, 0xff, 0xe0],                   // notrack jmp rax
        &[0xf2, 0xeb, 0xd6],                   // bnd jmp
        &[0x06],                               // (no instruction)
        &[0xb8, 0xe8, 0xfd, 0xff, 0xff],       // mov eax, whose immediate looks like a call
        &[0x90],                               // nop
    ]
    .concat();
    let offsets = [
        (0, 0x30),
        (2, 0x30),
        (7, 0),
        (0xc, 0x30),
        (0xe, 0),
        (0x14, 0),
        (0x16, 0x30),
        (0x18, 0),
        (0x27, 0),
    ];
    assert_eq!(found(Arch::X86_64, &code), offsets);
    // Cut off by the end.
    assert_eq!(found(Arch::X86_64, &[0x90, 0xe9, 0, 0]), []);
    // In three bytes that are no instruction, the last of which begins one.
    assert_eq!(found(Arch::X86_64, &[0x06, 0xe9, 0xeb, 0xfd]), [(2, 1)]);
}

/// Whatever the bytes are, no decoder stops, and addresses wrap around as the architecture's do.
#[test]
fn any_bytes_at_any_address() {
    for arch in [
        Arch::X86_64,
        Arch::AArch64,
        Arch::PowerPc64,
        Arch::PowerPc64Le,
        Arch::PowerPc64ElfV2,
        Arch::RiscV64,
        Arch::SystemZ,
    ] {
        for len in 0..24 {
            for byte in 0..=u8::MAX {
                for addr in [0, u64::MAX - 7] {
                    let code = alloc::vec![byte; len];
                    branches_to(arch, CodeAddr::new(addr), &code, |_| true, &mut Vec::new());
                }
            }
        }
    }
}
