mod branches;
mod encodings;
mod operations;

use alloc::vec::Vec;

use patchpoint_isa::{Arch, nops};

use super::regs::Gpr;

/// Around every boundary at which the form changes.
fn constants() -> impl Iterator<Item = u64> {
    let signed = [0i64, 1, -1, 0x7fff, 0x8000, -0x8000, -0x8001, i64::MIN, i64::MAX];
    let words = [
        0x7fff_ffff,
        0x8000_0000,
        -0x8000_0000,
        -0x8000_0001,
        0xffff_ffff,
        1 << 32,
    ];
    let parts = [
        0xffff,
        0x1_0000,
        0xffff_0000,
        0x1_0001,
        0xffff << 32,
        0xffff << 48 | 1,
    ];
    let all = signed.into_iter().chain(words).map(|value: i64| value as u64);
    all.chain(parts)
        .chain([0xffff << 48, 0x1_0000_0001, 0x1_0001 << 32, u64::MAX << 32])
}

#[test]
fn nops_fill_every_even_length_with_as_few_as_there_can_be() {
    for len in (0..=64).step_by(2) {
        let mut bytes = Vec::new();
        nops::put(Arch::SystemZ, len, &mut bytes);
        assert_eq!(bytes.len(), len as usize);
        let mut count = 0;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let len = match rest {
                [0xc0, 0x04, 0, 0, 0, 0, ..] => 6,
                [0x47, 0, 0, 0, ..] => 4,
                [0x07, 0, ..] => 2,
                _ => panic!("{rest:x?}"),
            };
            rest = &rest[len..];
            count += 1;
        }
        assert_eq!(count, len.div_ceil(6));
    }
}

#[test]
fn lengths_of_constants_are_told_right() {
    for value in constants() {
        let mut bytes = Vec::new();
        Gpr(3).put_constant(value, &mut bytes);
        assert_eq!(bytes.len(), Gpr::constant_len(value) as usize, "{value:#x}");
    }
}
