//! Direct branches of whole functions (unprivileged ISA 2.5 and 26).

use crate::scan::{signed, target};

/// The length of the instruction that begins so, in bytes.
pub(super) const fn instruction_len(half: u16) -> usize {
    if half & 3 != 3 {
        2
    } else if half & 0x1f != 0x1f {
        4
    } else if half & 0x3f == 0x1f {
        6
    } else {
        8
    }
}

/// Gives the offset of each instruction that branches, and its target.
pub(crate) fn branches(start: u64, code: &[u8], _: &impl Fn(u64) -> bool, mut note: impl FnMut(usize, u64)) {
    let mut at = 0;
    // The `auipc` right before: its register, and the address that it holds.
    let mut upper: Option<(u32, u64)> = None;
    while let Some(half) = code.get(at..).and_then(|rest| rest.first_chunk()) {
        let half = u16::from_le_bytes(*half);
        let word = code.get(at..).and_then(|rest| rest.first_chunk());
        let word = word.map_or(half.into(), |word| u32::from_le_bytes(*word));
        let before = upper.take();
        let len = instruction_len(half);
        if len == 2 {
            if let Some(distance) = compressed(half.into()) {
                note(at, target(start, at, distance));
            } else if let (Some((register, base)), 0x8002 | 0x9002) = (before, half & 0xf07f) {
                // c.jr, c.jalr
                if u32::from(half >> 7 & 31) == register {
                    note(at, base);
                }
            }
        } else if len == 4 {
            match word & 0x7f {
                0x6f => note(at, target(start, at, jal(word))),
                0x63 => note(at, target(start, at, conditional(word))),
                0x17 => {
                    let base = target(start, at, i64::from((word & 0xffff_f000) as i32));
                    upper = Some((word >> 7 & 31, base));
                }
                0x67 => match before {
                    Some((register, base)) if word >> 15 & 31 == register => {
                        note(at, base.wrapping_add_signed(signed(word >> 20, 12)) & !1);
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        at += len;
    }
}

const fn bits(word: u32, from: u32, count: u32, to: u32) -> u32 {
    (word >> from & ((1 << count) - 1)) << to
}

const fn jal(word: u32) -> i64 {
    let distance =
        bits(word, 31, 1, 20) | bits(word, 12, 8, 12) | bits(word, 20, 1, 11) | bits(word, 21, 10, 1);
    signed(distance, 21)
}

const fn conditional(word: u32) -> i64 {
    let distance = bits(word, 31, 1, 12) | bits(word, 7, 1, 11) | bits(word, 25, 6, 5) | bits(word, 8, 4, 1);
    signed(distance, 13)
}

/// c.j; c.beqz, c.bnez
const fn compressed(half: u32) -> Option<i64> {
    match half & 0xe003 {
        0xa001 => {
            let distance = bits(half, 12, 1, 11)
                | bits(half, 11, 1, 4)
                | bits(half, 9, 2, 8)
                | bits(half, 8, 1, 10)
                | bits(half, 7, 1, 6)
                | bits(half, 6, 1, 7)
                | bits(half, 3, 3, 1)
                | bits(half, 2, 1, 5);
            Some(signed(distance, 12))
        }
        0xc001 | 0xe001 => {
            let distance = bits(half, 12, 1, 8)
                | bits(half, 10, 2, 3)
                | bits(half, 5, 2, 6)
                | bits(half, 3, 2, 1)
                | bits(half, 2, 1, 5);
            Some(signed(distance, 9))
        }
        _ => None,
    }
}
