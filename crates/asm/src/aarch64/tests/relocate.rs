//! Moved instructions, read back.

use alloc::vec::Vec;

use llvm_stackmaps::addr::CodeAddr;

use crate::aarch64::AArch64;
use crate::backend::Backend;
use crate::error::Error;

const OLD: u64 = 0x7000_0000_1000;
const NEW: u64 = 0x7000_0040_0000;

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn relocate(words: &[u32]) -> Result<Vec<u32>, Error> {
    relocate_to(NEW, words)
}

fn relocate_to(to: u64, words: &[u32]) -> Result<Vec<u32>, Error> {
    let (addr, bytes) = (CodeAddr::new(OLD), bytes(words));
    let moved = AArch64.relocate(CodeAddr::new(to), addr, &bytes)?;
    assert!(moved.len() as u64 <= AArch64.relocated_bound(addr, &bytes));
    Ok(moved
        .chunks(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect())
}

/// `b` from the instruction at that index of the new code.
fn b(index: u64, to: u64) -> u32 {
    let distance = to.wrapping_sub(NEW + index * 4) >> 2;
    0x1400_0000 | distance as u32 & 0x03ff_ffff
}

/// The end of so many old instructions.
fn end(count: u64) -> u64 {
    OLD + count * 4
}

#[test]
fn what_does_not_depend_on_its_place_is_copied() {
    // add x0, x0, #1; ldr x1, [x2]; blr x3; ret; svc #0; paciasp
    let words = [
        0x9100_0400,
        0xf940_0041,
        0xd63f_0060,
        0xd65f_03c0,
        0xd400_0001,
        0xd503_233f,
    ];
    let moved = relocate(&words).unwrap();
    assert_eq!(moved, [&words[..], &[b(6, end(6))]].concat());
}

#[test]
fn jumps_and_calls_go_where_they_went() {
    let moved = relocate(&[0x1400_0100, 0x97ff_ff00]).unwrap();
    let call = b(1, OLD + 4 - 0x400) | 0x8000_0000;
    assert_eq!(moved, [b(0, OLD + 0x400), call, b(2, end(2))]);
}

#[test]
fn conditional_branches_become_opposite_ones_over_jumps() {
    let words = [
        0x5400_1000, // b.eq +0x200
        0xb400_1005, // cbz x5, +0x200
        0x3500_1006, // cbnz w6, +0x200
        0x3608_1007, // tbz w7, #1, +0x200
        0xb7f8_1008, // tbnz x8, #63, +0x200
    ];
    let moved = relocate(&words).unwrap();
    let to = |n: u64| OLD + n * 4 + 0x200;
    let expected = [
        0x5400_0041, // b.ne +8
        b(1, to(0)),
        0xb500_0045, // cbnz x5, +8
        b(3, to(1)),
        0x3400_0046, // cbz w6, +8
        b(5, to(2)),
        0x3708_0047, // tbnz w7, #1, +8
        b(7, to(3)),
        0xb6f8_0048, // tbz x8, #63, +8
        b(9, to(4)),
        b(10, end(5)),
    ];
    assert_eq!(moved, expected);
    // b.al, +0x200
    assert_eq!(relocate(&[0x5400_100e]).unwrap(), [b(0, to(0)), b(1, end(1))]);
}

#[test]
fn branches_among_the_moved_follow_them() {
    // nop; cbz x0, to the load; b.ne, to the nop; ldr x1, [x2]; b to the end
    let words = [0xd503_201f, 0xb400_0040, 0x54ff_ffc1, 0xf940_0041, 0x1400_0001];
    let moved = relocate(&words).unwrap();
    let expected = [
        0xd503_201f,
        0xb500_0040,
        b(2, NEW + 5 * 4),
        0x5400_0040,
        b(4, NEW),
        0xf940_0041,
        b(6, end(5)),
        b(7, end(5)),
    ];
    assert_eq!(moved, expected);
}

#[test]
fn addresses_become_constants() {
    // adr x3, +0x10; adrp x4, +2 pages; adr xzr, +0
    let moved = relocate(&[0x1000_0083, 0xd000_0004, 0x1000_001f]).unwrap();
    let expected = [
        0xd282_0203, // movz x3, #0x1010
        0xf2ce_0003, // movk x3, #0x7000, lsl #32
        0xd286_0004, // movz x4, #0x3000
        0xf2ce_0004,
        b(4, end(3)),
    ];
    assert_eq!(moved, expected);
}

#[test]
fn literals_are_loaded_through_the_register_that_is_written() {
    // ldr w1, +0x100; ldr x2, +0x100; ldrsw x3, +0x100; prfm; ldr xzr, +0x100
    let moved = relocate(&[0x1800_0801, 0x5800_0802, 0x9800_0803, 0xd800_0800, 0x5800_081f]).unwrap();
    let expected = [
        0xd282_2001, // movz x1, #0x1100
        0xf2ce_0001,
        0xb940_0021, // ldr w1, [x1]
        0xd282_2082,
        0xf2ce_0002,
        0xf940_0042, // ldr x2, [x2]
        0xd282_2103,
        0xf2ce_0003,
        0xb980_0063, // ldrsw x3, [x3]
        b(9, end(5)),
    ];
    assert_eq!(moved, expected);
}

#[test]
fn vector_literals_are_loaded_through_a_register_that_is_kept() {
    // ldr s1, d2, q3, +0x100
    for (word, load) in [
        (0x1c00_0801, 0xbd40_0201),
        (0x5c00_0802, 0xfd40_0202),
        (0x9c00_0803, 0x3dc0_0203),
    ] {
        let moved = relocate(&[word]).unwrap();
        let push = 0xf81f_0ff0;
        let pop = 0xf841_07f0;
        let expected = [push, 0xd282_2010, 0xf2ce_0010, load, pop, b(5, end(1))];
        assert_eq!(moved, expected);
    }
}

#[test]
fn what_would_mean_something_else_is_refused() {
    let refused = [
        &[0x5800_0020, 0xd503_201f][..], // ldr x0, +4: the next instruction
        &[0x9c00_0000],                  // ldr q0, +0
        &[0xd503_201f, 0x9cff_ffe0],     // ldr q0, -4: reads all of it
        &[0x7400_0000],                  // a branch that compares
        &[0x5500_0000],
    ];
    for words in refused {
        assert!(
            matches!(relocate(words), Err(Error::Relocation { .. })),
            "{words:x?}"
        );
    }
    let cut_off = AArch64.relocate(CodeAddr::new(NEW), CodeAddr::new(OLD), &[0; 6]);
    assert!(matches!(cut_off, Err(Error::Relocation { .. })));
}

#[test]
fn moved_code_stays_in_reach_of_a_jump() {
    const MIB: u64 = 1 << 20;
    // The jump behind the nop goes back from 8 bytes on.
    let nop = [0xd503_201f];
    assert!(relocate_to(OLD + 128 * MIB, &nop).is_ok());
    assert!(relocate_to(OLD + 128 * MIB + 4, &nop).is_err());
    assert!(relocate_to(OLD - 128 * MIB + 4, &nop).is_ok());
    assert!(relocate_to(OLD - 128 * MIB, &nop).is_err());
}
