//! Which patchable jump may become which: every pair of old and new, of every architecture, against
//! the tables below. They are written after the manuals, with encodings by an independent
//! assembler; the encoder's table and the checker's rule are both compared with them.

use llvm_stackmaps::Constants;
use llvm_stackmaps::addr::CodeAddr;
use patchpoint_isa::{Arch, CallShape, SiteContext, exchange};

use crate::{check_exchange, check_trap};

/// One instruction, whether a trap may replace it under execution, and, as the row of the old one,
/// a letter for each new one in the order of the rows: `x` where it is done, `c` where the manual
/// and the checker allow it but no patchable jump here is like that, `.` where it is not allowed,
/// `-` for itself.
type Row = (&'static str, &'static [u8], bool, &'static str);

/// AMD64 Architecture Programmer's Manual volume 2, 7.6.1: one aligned store, and instructions of
/// the same length; here only what goes on or leaves. A trap replaces anything.
#[rustfmt::skip]
const X86_64: [Row; 10] = [
    ("nopl 0(%rax,%rax)", &[0x0f, 0x1f, 0x44, 0, 0], true, "-xxx......"),
    ("nopl 8(%rax,%rax)", &[0x0f, 0x1f, 0x44, 0, 8], true, "x-xx......"),
    ("jmp .+0x10", &[0xe9, 0x0b, 0, 0, 0], true, "xx-x......"),
    ("jmp .-0x1000", &[0xe9, 0xfb, 0xef, 0xff, 0xff], true, "xxx-......"),
    ("call .+0x10", &[0xe8, 0x0b, 0, 0, 0], true, "....-....."),
    ("mov $1, %eax", &[0xb8, 1, 0, 0, 0], true, ".....-...."),
    ("test $1, %eax", &[0xa9, 1, 0, 0, 0], true, "......-..."),
    ("nop; nop; nop; nop; nop", &[0x90; 5], true, ".......-.."),
    ("jmp .+5; nopl (%rax)", &[0xeb, 3, 0x0f, 0x1f, 0], true, "........-."),
    ("int3; nopl 0(%rax)", &[0xcc, 0x0f, 0x1f, 0x40, 0], true, ".........-"),
];

/// DDI 0487, B2.2.5: B, BL, BRK, HVC, ISB, NOP, SMC and SVC may become each other, nothing else.
#[rustfmt::skip]
const AARCH64: [Row; 13] = [
    ("nop", &[0x1f, 0x20, 0x03, 0xd5], true, "-xxxxx......."),
    ("b .+16", &[0x04, 0, 0, 0x14], true, "x-xxxx......."),
    ("b .-16", &[0xfc, 0xff, 0xff, 0x17], true, "xx-xxx......."),
    ("bl .+16", &[0x04, 0, 0, 0x94], true, "xxx-xx......."),
    ("brk #0", &[0, 0, 0x20, 0xd4], true, "xxxx-x......."),
    ("brk #0xffff", &[0xe0, 0xff, 0x3f, 0xd4], true, "xxxxx-......."),
    ("b.eq .+16", &[0x80, 0, 0, 0x54], false, "......-......"),
    ("cbz x0, .+16", &[0x80, 0, 0, 0xb4], false, ".......-....."),
    ("br x16", &[0, 0x02, 0x1f, 0xd6], false, "........-...."),
    ("ret", &[0xc0, 0x03, 0x5f, 0xd6], false, ".........-..."),
    ("movz x16, #1", &[0x30, 0, 0x80, 0xd2], false, "..........-.."),
    ("bti c", &[0x5f, 0x24, 0x03, 0xd5], false, "...........-."),
    ("yield", &[0x3f, 0x20, 0x03, 0xd5], false, "............-"),
];

/// Power ISA book II, concurrent modification and execution of instructions: an aligned word that
/// is an unconditional branch or the preferred nop before and afterwards. Here no branch with a
/// link: nothing returns to a patchable jump.
#[rustfmt::skip]
const POWERPC64: [Row; 12] = [
    ("nop", &[0x60, 0, 0, 0], true, "-xxc........"),
    ("b .+16", &[0x48, 0, 0, 0x10], true, "x-xc........"),
    ("b .-16", &[0x4b, 0xff, 0xff, 0xf0], true, "xx-c........"),
    ("ba 16", &[0x48, 0, 0, 0x12], true, "ccc-........"),
    ("bl .+16", &[0x48, 0, 0, 0x11], true, "....-......."),
    ("beq .+16", &[0x41, 0x82, 0, 0x10], true, ".....-......"),
    ("bctr", &[0x4e, 0x80, 0x04, 0x20], true, "......-....."),
    ("blr", &[0x4e, 0x80, 0, 0x20], true, ".......-...."),
    ("trap", &[0x7f, 0xe0, 0, 0x08], true, "........-..."),
    ("li 3, 1", &[0x38, 0x60, 0, 1], true, ".........-.."),
    ("ori 1, 1, 0", &[0x60, 0x21, 0, 0], true, "..........-."),
    ("isync", &[0x4c, 0, 0x01, 0x2c], true, "...........-"),
];

/// Principles of Operation, chapter 5, "Instruction Fetching": instructions are fetched piecemeal,
/// so the mask of a branch changes, or its distance in an aligned word, but not both.
#[rustfmt::skip]
const SYSTEMZ: [Row; 9] = [
    ("brcl 15, .+6", &[0xc0, 0xf4, 0, 0, 0, 3], true, "-xc......"),
    ("brcl 15, .+0x1000", &[0xc0, 0xf4, 0, 0, 8, 0], true, "x-.c....."),
    ("brcl 0, .+6", &[0xc0, 0x04, 0, 0, 0, 3], true, "c.-c....."),
    ("brcl 0, .+0x1000", &[0xc0, 0x04, 0, 0, 8, 0], true, ".cc-....."),
    ("brcl 8, .+6", &[0xc0, 0x84, 0, 0, 0, 3], true, "....-...."),
    ("brasl %r14, .+6", &[0xc0, 0xe5, 0, 0, 0, 3], true, ".....-..."),
    ("larl %r1, .+6", &[0xc0, 0x10, 0, 0, 0, 3], true, "......-.."),
    ("lgfi %r1, 3", &[0xc0, 0x11, 0, 0, 0, 3], true, ".......-."),
    ("nopr; nopr; nopr", &[7, 0, 7, 0, 7, 0], true, "........-"),
];

/// Volume I, 1.5 and "Zifencei": one aligned word of one instruction; here only what goes on or
/// jumps.
#[rustfmt::skip]
const RISCV64: [Row; 11] = [
    ("nop", &[0x13, 0, 0, 0], true, "-xx........"),
    ("j .+16", &[0x6f, 0, 0, 0x01], true, "x-x........"),
    ("j .+32", &[0x6f, 0, 0, 0x02], true, "xx-........"),
    ("jal .+16", &[0xef, 0, 0, 0x01], true, "...-......."),
    ("jal t0, .+16", &[0xef, 0x02, 0, 0x01], true, "....-......"),
    ("beqz a0, .+16", &[0x63, 0x08, 0x05, 0], true, ".....-....."),
    ("jr t1", &[0x67, 0, 0x03, 0], true, "......-...."),
    ("addi t1, t1, 1", &[0x13, 0x03, 0x13, 0], true, ".......-..."),
    ("auipc t1, 1", &[0x17, 0x13, 0, 0], true, "........-.."),
    ("ebreak", &[0x73, 0, 0x10, 0], true, ".........-."),
    ("c.nop; c.nop", &[1, 0, 1, 0], true, "..........-"),
];

fn table(arch: Arch) -> &'static [Row] {
    match arch {
        Arch::X86_64 => &X86_64,
        Arch::AArch64 => &AARCH64,
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => &POWERPC64,
        Arch::SystemZ => &SYSTEMZ,
        Arch::RiscV64 => &RISCV64,
    }
}

/// The bytes of an instruction, which the table of PowerPC64 lists in big-endian order.
fn bytes(arch: Arch, row: &Row) -> Vec<u8> {
    let mut bytes = row.1.to_vec();
    if arch == Arch::PowerPc64Le {
        bytes.reverse();
    }
    bytes
}

/// The site of a patchable jump. A branch of SystemZ has its distance in an aligned word at 2
/// modulo 8.
fn site(arch: Arch, len: usize) -> SiteContext<'static> {
    SiteContext {
        arch,
        id: Default::default(),
        function: None,
        offset: Default::default(),
        addr: CodeAddr::new(if arch == Arch::SystemZ { 0x1002 } else { 0x1000 }),
        shape: CallShape::entry(len as u32),
        record: None,
        constants: Constants::NONE,
        return_offsets: &[],
        trust_live_outs: false,
    }
}

pub(super) const ALL: [Arch; 7] = [
    Arch::X86_64,
    Arch::AArch64,
    Arch::PowerPc64,
    Arch::PowerPc64Le,
    Arch::PowerPc64ElfV2,
    Arch::SystemZ,
    Arch::RiscV64,
];

#[test]
fn patchable_jumps_are_exchanged_as_the_tables_say() {
    for arch in ALL {
        let rows = table(arch);
        for old in rows {
            assert_eq!(old.3.len(), rows.len(), "{arch}: {}", old.0);
            for (new, letter) in rows.iter().zip(old.3.bytes()) {
                if letter == b'-' {
                    continue;
                }
                let (before, after) = (bytes(arch, old), bytes(arch, new));
                let site = site(arch, before.len());
                let checked = check_exchange(&site, &before, &after).is_ok();
                let found = match (checked, exchange::allowed(arch, &before, &after)) {
                    (true, true) => b'x',
                    (true, false) => b'c',
                    (false, false) => b'.',
                    (false, true) => panic!("{arch}: {} becomes {}, unchecked", old.0, new.0),
                };
                assert_eq!(found, letter, "{arch}: {} becomes {}", old.0, new.0);
            }
        }
    }
}

#[test]
fn traps_replace_what_the_tables_say() {
    for arch in ALL {
        for row in table(arch) {
            let old = bytes(arch, row);
            let trap = exchange::trap(arch);
            let new = [trap, &old[trap.len()..]].concat();
            let result = check_trap(&site(arch, old.len()), &old, &new);
            assert_eq!(result.is_ok(), row.2, "{arch}: {}: {result:?}", row.0);
        }
    }
}

#[test]
fn a_trap_changes_nothing_behind_it() {
    for arch in ALL {
        let (trap, row) = (
            exchange::trap(arch),
            table(arch).iter().find(|row| row.2).unwrap(),
        );
        let old = [bytes(arch, row), bytes(arch, row)].concat();
        let mut new = [trap, &old[trap.len()..]].concat();
        let site = site(arch, old.len());
        check_trap(&site, &old, &new).unwrap();
        *new.last_mut().unwrap() ^= 1;
        assert!(check_trap(&site, &old, &new).is_err(), "{arch}");
    }
}

/// What differs crosses a boundary of 8 bytes, so no store writes it at once.
#[test]
fn nothing_is_exchanged_that_no_store_can_write() {
    for arch in ALL {
        let rows = table(arch);
        let row = rows.iter().find(|row| row.3.contains('x')).unwrap();
        let other = &rows[row.3.find('x').unwrap()];
        let (old, new) = (bytes(arch, row), bytes(arch, other));
        let differs = |at: &usize| old[*at] != new[*at];
        let (first, last) = (
            (0..old.len()).find(differs).unwrap(),
            (0..old.len()).rfind(differs).unwrap(),
        );
        for boundary in first + 1..=last {
            let mut site = site(arch, old.len());
            site.addr = CodeAddr::new(0x2000 - boundary as u64);
            assert!(check_exchange(&site, &old, &new).is_err(), "{arch}: {boundary}");
        }
    }
}
