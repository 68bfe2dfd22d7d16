//! Global offset tables and stubs: where they are, what is in them, when they are used.

use llvm_stackmaps::Endian;

use super::build::{OUTSIDE, Symbol, code, data, object};
use super::*;

const BASE: u64 = 0x7000_0000_0000;
const READ_ONLY: u64 = BASE + 0x1234_5000;
/// Nothing near reaches it.
const FAR: u64 = 0x1234_5678_9abc_def0;

const ADDRS: SegmentAddrs = SegmentAddrs {
    code: CodeAddr::new(BASE),
    read_only: CodeAddr::new(READ_ONLY),
    data: CodeAddr::new(BASE + 0x4000_0000),
};

/// Links instructions with relocations of one symbol outside.
fn link(arch: Arch, text: &[u8], relas: &[(u64, u32, i64)], target: u64) -> LinkedImage {
    let relas = relas
        .iter()
        .map(|(at, number, addend)| (*at, *number, 1, *addend))
        .collect();
    let bytes = object(arch, &[code(text.to_vec(), relas)], &[OUTSIDE]);
    let layout = Object::parse(&bytes).unwrap().layout().unwrap();
    layout.link(&ADDRS, &|_| Some(CodeAddr::new(target))).unwrap()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn double(image: &LinkedImage, addr: u64) -> u64 {
    let holds = |segment: &&Segment| {
        CodeAddr::new(addr).is_within(segment.addr, Len::new(segment.bytes.len() as u32))
    };
    let segment = image
        .segments
        .iter()
        .find(holds)
        .unwrap_or_else(|| panic!("nothing at {addr:#x}"));
    let at = (addr - segment.addr.get()) as usize;
    let bytes = segment.bytes[at..at + 8].try_into().unwrap();
    match image.image.endian {
        Endian::Little => u64::from_le_bytes(bytes),
        Endian::Big => u64::from_be_bytes(bytes),
    }
}

/// What `adrp` at `at` and the load behind it read.
fn aarch64_entry(text: &[u8], at: usize) -> u64 {
    let (adrp, load) = (word(text, at), word(text, at + 4));
    let pages = i64::from((((adrp >> 5 & 0x7_ffff) << 2 | adrp >> 29 & 3) << 11) as i32 >> 11);
    let page = ((BASE + at as u64) & !0xfff).wrapping_add_signed(pages << 12);
    page + u64::from(load >> 10 & 0xfff) * 8
}

/// What `auipc` at `at` and the 12-bit displacement of the next instruction refer to.
fn riscv64_address(text: &[u8], at: usize) -> u64 {
    let (auipc, second) = (word(text, at), word(text, at + 4));
    let upper = i64::from((auipc & 0xffff_f000) as i32);
    (BASE + at as u64).wrapping_add_signed(upper + i64::from(second as i32 >> 20))
}

/// The target of a relative long instruction of SystemZ at `at`.
fn systemz_address(text: &[u8], at: usize) -> u64 {
    let halfwords = i32::from_be_bytes(text[at + 2..at + 6].try_into().unwrap());
    (BASE + at as u64).wrapping_add_signed(i64::from(halfwords) * 2)
}

#[test]
fn an_entry_of_the_table_holds_the_address() {
    // adrp x0; ldr x0, [x0]
    let text = [0x00, 0x00, 0x00, 0x90, 0x00, 0x00, 0x40, 0xf9];
    let image = link(Arch::AArch64, &text, &[(0, 311, 0), (4, 312, 0)], FAR);
    assert_eq!(double(&image, aarch64_entry(&image.segments[0].bytes, 0)), FAR);
    assert_eq!(image.got(), Some(CodeAddr::new(READ_ONLY)));
    // lgrl %r1
    let image = link(Arch::SystemZ, &[0xc4, 0x18, 0, 0, 0, 0], &[(2, 26, 2)], FAR);
    assert_eq!(double(&image, systemz_address(&image.segments[0].bytes, 0)), FAR);
    // larl %r12 of the table, and a 20-bit displacement from it.
    let text = [0xc0, 0xc0, 0, 0, 0, 0, 0xe3, 0x10, 0xc0, 0, 0, 0x04];
    let image = link(Arch::SystemZ, &text, &[(2, 21, 2), (8, 58, 0)], FAR);
    let text = &image.segments[0].bytes;
    let got = systemz_address(text, 0);
    let displacement = u64::from(text[8] & 0xf) << 8 | u64::from(text[9]) | u64::from(text[10]) << 12;
    assert_eq!(double(&image, got + displacement), FAR);
    // pld r3, 0(0), 1: of 34 bits.
    let text = [0x00, 0x00, 0x10, 0x04, 0x00, 0x00, 0x60, 0xe4];
    let image = link(Arch::PowerPc64Le, &text, &[(0, 133, 0)], FAR);
    let text = &image.segments[0].bytes;
    let distance = (word(text, 0) & 0x3_ffff) << 16 | word(text, 4) & 0xffff;
    assert_eq!(double(&image, BASE + u64::from(distance)), FAR);
    assert_eq!(image.got(), Some(CodeAddr::new(READ_ONLY + 0x8000)));
    let text = [0x04, 0x10, 0x00, 0x00, 0xe4, 0x60, 0x00, 0x00];
    let image = link(Arch::PowerPc64ElfV2, &text, &[(0, 133, 0)], FAR);
    let big = |at: usize| u32::from_be_bytes(image.segments[0].bytes[at..at + 4].try_into().unwrap());
    let distance = (big(0) & 0x3_ffff) << 16 | big(4) & 0xffff;
    assert_eq!(double(&image, BASE + u64::from(distance)), FAR);
    assert_eq!(image.got(), Some(CodeAddr::new(READ_ONLY + 0x8000)));
}

/// A branch, its relocation and where it goes, by architecture: how far it reaches, and how its
/// target is read.
struct Branch {
    arch: Arch,
    text: &'static [u8],
    rela: (u64, u32, i64),
    /// A target that it reaches itself.
    near: u64,
    goes_to: fn(&[u8]) -> u64,
    /// What the stub at this offset reads its target from.
    entry: fn(&[u8], usize) -> u64,
}

fn branches() -> [Branch; 3] {
    [
        Branch {
            arch: Arch::AArch64,
            text: &[0, 0, 0, 0x94],
            rela: (0, 283, 0),
            near: BASE + 0x7ff_fffc,
            goes_to: |text| BASE.wrapping_add_signed(i64::from((word(text, 0) << 6) as i32 >> 4)),
            entry: aarch64_entry,
        },
        Branch {
            arch: Arch::RiscV64,
            // auipc ra; jalr ra
            text: &[0x97, 0, 0, 0, 0xe7, 0x80, 0, 0],
            rela: (0, 19, 0),
            near: BASE + 0x7fff_f7fe,
            goes_to: |text| riscv64_address(text, 0),
            entry: riscv64_address,
        },
        Branch {
            arch: Arch::SystemZ,
            // brasl %r14
            text: &[0xc0, 0xe5, 0, 0, 0, 0],
            rela: (2, 20, 2),
            near: BASE + 0xffff_fffe,
            goes_to: |text| systemz_address(text, 0),
            entry: systemz_address,
        },
    ]
}

#[test]
fn branches_go_directly_to_the_last_byte_they_reach_and_through_a_stub_beyond() {
    for Branch {
        arch,
        text,
        rela,
        near,
        goes_to,
        entry,
    } in branches()
    {
        let image = link(arch, text, &[rela], near);
        assert_eq!(goes_to(&image.segments[0].bytes), near, "{arch}");
        for target in [near + if arch == Arch::AArch64 { 4 } else { 2 }, FAR] {
            let image = link(arch, text, &[rela], target);
            let text = &image.segments[0].bytes;
            assert_eq!(goes_to(text), BASE + 16, "{arch}: the stub is behind the code");
            assert_eq!(double(&image, entry(text, 16)), target, "{arch}");
        }
    }
}

/// One stub and one entry serve all branches to a symbol.
#[test]
fn stubs_are_shared() {
    for Branch { arch, text, rela, .. } in branches() {
        let second = text.len() as u64 + rela.0;
        let image = link(arch, &text.repeat(2), &[rela, (second, rela.1, rela.2)], FAR);
        let sizes: Vec<_> = image.segments.iter().map(|segment| segment.bytes.len()).collect();
        assert_eq!(sizes, [16 + stubs::size(arch) as usize, 8], "{arch}");
    }
}

/// Code that runs off its end traps.
#[test]
fn what_is_between_sections_traps() {
    let traps: [(Arch, &[u8]); 7] = [
        (Arch::X86_64, &[0xcc; 4]),
        (Arch::AArch64, &[0, 0, 0x20, 0xd4]),
        (Arch::PowerPc64, &[0x7f, 0xe0, 0, 8]),
        (Arch::PowerPc64ElfV2, &[0x7f, 0xe0, 0, 8]),
        (Arch::PowerPc64Le, &[8, 0, 0xe0, 0x7f]),
        (Arch::SystemZ, &[0, 0, 0, 0]),
        (Arch::RiscV64, &[0, 0, 0, 0]),
    ];
    for (arch, trap) in traps {
        let mut second = code(vec![1; 4], vec![]);
        second.align = 8;
        let bytes = object(arch, &[code(vec![1; 4], vec![]), second, data()], &[]);
        let layout = Object::parse(&bytes).unwrap().layout().unwrap();
        let linked = layout.link(&ADDRS, &|_| None).unwrap();
        assert_eq!(&linked.segments[0].bytes[4..8], trap, "{arch}");
    }
}

/// Addresses of 32 bits pin the whole image into low memory.
#[test]
fn absolute_parts_ask_for_low_memory() {
    let cases = [
        (Arch::RiscV64, 26, ImageReach::Low2GiB),
        (Arch::RiscV64, 1, ImageReach::Low2GiB),
        (Arch::RiscV64, 2, ImageReach::Anywhere),
        (Arch::RiscV64, 23, ImageReach::Anywhere),
        (Arch::PowerPc64, 6, ImageReach::Low2GiB),
        (Arch::PowerPc64ElfV2, 6, ImageReach::Low2GiB),
        (Arch::SystemZ, 4, ImageReach::Low2GiB),
        (Arch::SystemZ, 19, ImageReach::Anywhere),
        (Arch::AArch64, 258, ImageReach::Low2GiB),
        (Arch::AArch64, 275, ImageReach::Anywhere),
    ];
    for (arch, number, reach) in cases {
        let inside = Symbol {
            section: 2,
            ..OUTSIDE
        };
        let bytes = object(
            arch,
            &[code(vec![0; 8], vec![(0, number, 1, 0)]), data()],
            &[inside],
        );
        let layout = Object::parse(&bytes).unwrap().layout().unwrap();
        assert_eq!(layout.reach(), reach, "{arch} {number}");
        let found = layout.link(&ADDRS, &|_| None);
        assert_eq!(found.is_err(), reach == ImageReach::Low2GiB, "{arch} {number}");
    }
}
