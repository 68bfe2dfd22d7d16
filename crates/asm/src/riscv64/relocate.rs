//! Instructions moved to other addresses.
//!
//! What is relative to the program counter means the same in other instructions: `auipc` becomes a
//! constant, a conditional branch one over a jump of 1 MiB, a compressed one the same in four
//! bytes. A call goes through the register in which it links. No register is free among the
//! instructions of a function, so a jump that does not reach is refused. The lengths depend on the
//! instructions alone, so branches among them find their places.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use llvm_stackmaps::addr::CodeAddr;

use super::insn::{Gpr, LEN};
use super::{branch, constant, insn};
use crate::error::{Error, Result};

/// What an instruction becomes.
#[derive(Clone, Copy, Debug)]
enum Moved {
    Short(u16),
    Same(u32),
    Jump {
        to: u64,
    },
    Call {
        link: Gpr,
        to: u64,
    },
    /// A branch without its distance.
    Branch {
        word: u32,
        to: u64,
    },
    Constant {
        rd: Gpr,
        value: u64,
    },
    Nothing,
}

/// The bits `first` to `last` of a word, moved to bit `to`.
const fn bits(of: u32, last: u32, first: u32, to: u32) -> u32 {
    (of >> first & ((1 << (last - first + 1)) - 1)) << to
}

/// A number of so many bits, sign included.
const fn signed(value: u32, bits: u32) -> i64 {
    (value << (32 - bits)) as i32 as i64 >> (32 - bits)
}

/// The distances of the formats B and J, and of the compressed CJ and CB (volume I, 2.3 and 27.2).
const fn distance_b(w: u32) -> i64 {
    signed(
        bits(w, 31, 31, 12) | bits(w, 7, 7, 11) | bits(w, 30, 25, 5) | bits(w, 11, 8, 1),
        13,
    )
}
const fn distance_j(w: u32) -> i64 {
    signed(
        bits(w, 31, 31, 20) | bits(w, 19, 12, 12) | bits(w, 20, 20, 11) | bits(w, 30, 21, 1),
        21,
    )
}
const fn distance_cj(h: u32) -> i64 {
    let high = bits(h, 12, 12, 11) | bits(h, 8, 8, 10) | bits(h, 10, 9, 8) | bits(h, 6, 6, 7);
    signed(
        high | bits(h, 7, 7, 6) | bits(h, 2, 2, 5) | bits(h, 11, 11, 4) | bits(h, 5, 3, 1),
        12,
    )
}
const fn distance_cb(h: u32) -> i64 {
    let high = bits(h, 12, 12, 8) | bits(h, 6, 5, 6) | bits(h, 2, 2, 5);
    signed(high | bits(h, 11, 10, 3) | bits(h, 4, 3, 1), 9)
}

/// The bits of a branch that are its distance.
const DISTANCE: u32 = 0xfe00_0f80;
/// A distance of 8 in a branch: over the jump behind it.
const OVER: u32 = 8 >> 1 << 8;
/// What inverts a branch.
const INVERT: u32 = 1 << 12;

/// What a compressed instruction that was at `at` becomes.
fn short(at: u64, half: u16) -> Moved {
    let word = u32::from(half);
    match (word & 3, word >> 13) {
        // c.j
        (1, 0b101) => Moved::Jump {
            to: at.wrapping_add_signed(distance_cj(word)),
        },
        // c.beqz, c.bnez of x8 to x15
        (1, kind @ (0b110 | 0b111)) => Moved::Branch {
            word: 0x63 | (kind & 1) << 12 | (8 + (word >> 7 & 7)) << 15,
            to: at.wrapping_add_signed(distance_cb(word)),
        },
        _ => Moved::Short(half),
    }
}

/// What an instruction of four bytes that was at `at` becomes.
fn long(at: u64, word: u32) -> Moved {
    let rd = Gpr((word >> 7 & 31) as u8);
    match (word & 0x7f, rd) {
        (0x6f, Gpr::ZERO) => Moved::Jump {
            to: at.wrapping_add_signed(distance_j(word)),
        },
        (0x6f, link) => Moved::Call {
            link,
            to: at.wrapping_add_signed(distance_j(word)),
        },
        (0x63, _) => Moved::Branch {
            word: word & !DISTANCE,
            to: at.wrapping_add_signed(distance_b(word)),
        },
        (0x17, Gpr::ZERO) => Moved::Nothing,
        (0x17, rd) => Moved::Constant {
            rd,
            value: at.wrapping_add_signed(i64::from((word & !0xfff) as i32)),
        },
        _ => Moved::Same(word),
    }
}

impl Moved {
    /// Its length in bytes, wherever it is.
    fn len(self) -> u64 {
        let len = match self {
            Self::Nothing => 0,
            Self::Short(_) => 2,
            Self::Same(_) | Self::Jump { .. } => LEN,
            Self::Branch { .. } => 2 * LEN,
            Self::Call { to, .. } => constant::len(to) + LEN,
            Self::Constant { value, .. } => constant::len(value),
        };
        len.into()
    }

    /// Appends it as it is executed at `at`, where `to` is its target's new place.
    fn put(self, at: u64, to: impl Fn(u64) -> u64, out: &mut Vec<u8>) -> core::result::Result<(), String> {
        match self {
            Self::Nothing => {}
            Self::Short(half) => out.extend_from_slice(&half.to_le_bytes()),
            Self::Same(word) => out.extend_from_slice(&word.to_le_bytes()),
            Self::Jump { to: old } => out.extend_from_slice(&jump(at, to(old))?),
            Self::Branch { word, to: old } => {
                out.extend_from_slice(&((word ^ INVERT) | OVER).to_le_bytes());
                out.extend_from_slice(&jump(at.wrapping_add(u64::from(LEN)), to(old))?);
            }
            Self::Call { link, to: old } if to(old) == old => {
                constant::put(link, old, out);
                insn::jump_register(link, link, out);
            }
            Self::Call { to, .. } => return Err(format!("a call goes to {to:#x} among the instructions")),
            Self::Constant { rd, value } => constant::put(rd, value, out),
        }
        Ok(())
    }
}

fn jump(from: u64, to: u64) -> core::result::Result<[u8; 4], String> {
    branch::jump(from, to)
        .map(u32::to_le_bytes)
        .ok_or_else(|| format!("a branch does not reach {to:#x}, 1 MiB is the most"))
}

/// Each instruction with the address at which it was; where they end, or why they do not decode.
fn classify(addr: u64, bytes: &[u8]) -> core::result::Result<Vec<(u64, Moved)>, String> {
    let (mut rest, mut at, mut all) = (bytes, addr, Vec::new());
    while !rest.is_empty() {
        let cut_off = || format!("the instruction at {at:#x} is cut off");
        let (half, tail) = rest.split_first_chunk().ok_or_else(cut_off)?;
        let half = u16::from_le_bytes(*half);
        let moved = match half & 0b1_1111 {
            0b1_1111 => {
                return Err(format!(
                    "the instruction at {at:#x} is longer than any that is known"
                ));
            }
            low if low & 3 == 3 => {
                let (word, longer) = rest.split_first_chunk().ok_or_else(cut_off)?;
                rest = longer;
                long(at, u32::from_le_bytes(*word))
            }
            _ => {
                rest = tail;
                short(at, half)
            }
        };
        all.push((at, moved));
        at = addr.wrapping_add((bytes.len() - rest.len()) as u64);
    }
    Ok(all)
}

/// A length that the relocated instructions and the jump behind them do not exceed.
pub(super) fn bound(addr: CodeAddr, bytes: &[u8]) -> u64 {
    let len = |all: Vec<(u64, Moved)>| all.iter().map(|(_, moved)| moved.len()).sum();
    // What cannot be moved needs no room: `relocate` refuses it.
    let moved: u64 = classify(addr.get(), bytes).map_or(0, len);
    moved + u64::from(LEN)
}

/// The instructions of `bytes` as they are executed at `at`, and a jump to what followed them.
pub(super) fn relocate(at: CodeAddr, addr: CodeAddr, bytes: &[u8]) -> Result<Vec<u8>> {
    moved(at.get(), addr.get(), bytes).map_err(|reason| Error::Relocation { addr, at, reason })
}

fn moved(at: u64, addr: u64, bytes: &[u8]) -> core::result::Result<Vec<u8>, String> {
    let old = addr..addr.wrapping_add(bytes.len() as u64);
    let mut to = at;
    let mut all = Vec::new();
    for (from, moved) in classify(addr, bytes)? {
        all.push((from, to, moved));
        to = to.wrapping_add(moved.len());
    }
    // A branch to one of the instructions follows it; all others go where they went.
    let place = |target: u64| {
        let inside = all.iter().find(|(from, _, _)| *from == target);
        inside.map_or(target, |(_, to, _)| *to)
    };
    let mut out = Vec::new();
    for (from, to, moved) in &all {
        let (Moved::Jump { to: target } | Moved::Branch { to: target, .. } | Moved::Call { to: target, .. }) =
            moved
        else {
            moved.put(*to, place, &mut out)?;
            continue;
        };
        if old.contains(target) && all.iter().all(|(start, _, _)| start != target) {
            return Err(format!(
                "the branch at {from:#x} goes into an instruction at {target:#x}"
            ));
        }
        moved.put(*to, place, &mut out)?;
    }
    out.extend_from_slice(&jump(to, old.end)?);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use patchpoint_isa::Arch;
    use patchpoint_verify as verify;

    use super::*;

    const OLD: u64 = 0x10_0000;
    const NEW: u64 = 0x14_0000;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// What the moved instructions are, as the checker's decoder writes them.
    fn text(code: &[u8]) -> Vec<String> {
        let moved = relocate(CodeAddr::new(NEW), CodeAddr::new(OLD), code).unwrap();
        assert!(moved.len() as u64 <= bound(CodeAddr::new(OLD), code));
        let lines = verify::disassemble(Arch::RiscV64, CodeAddr::new(NEW), &moved);
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn what_is_relative_means_the_same() {
        // add; auipc a0, 1; ld a0, 8(a0).
        let code = bytes(&[0x00b5_0533, 0x0000_1517, 0x0085_3503]);
        let back = "jal zero, 0x10000c";
        assert_eq!(
            text(&code),
            [
                "add a0, a0, a1",
                "lui a0, 0x101",
                "addiw a0, a0, 4",
                "ld a0, 8(a0)",
                back
            ]
        );
        // beq a0, a1, +64; j +32.
        assert_eq!(
            text(&bytes(&[0x04b5_0063, 0x0200_006f])),
            [
                "bne a0, a1, 0x140008",
                "jal zero, 0x100040",
                "jal zero, 0x100024",
                "jal zero, 0x100008"
            ]
        );
        // jal ra, +0x800.
        assert_eq!(
            text(&bytes(&[0x0010_00ef])),
            [
                "lui ra, 0x101",
                "addiw ra, ra, -2048",
                "jalr ra, 0(ra)",
                "jal zero, 0x100004"
            ]
        );
    }

    #[test]
    fn compressed_branches_grow() {
        // c.beqz a0, +8; c.j -2; c.nop; c.mv.
        let code = [0xc501u16, 0xbffd, 0x0001, 0x852e];
        let code: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        assert_eq!(
            text(&code),
            [
                "bne a0, zero, 0x140008",
                "jal zero, 0x100008",
                "jal zero, 0x140000",
                "c.nop",
                ".insn 0x852e",
                "jal zero, 0x100008"
            ]
        );
    }

    #[test]
    fn what_cannot_be_moved_is_refused() {
        let refused = |at: u64, code: &[u8]| {
            let error = relocate(CodeAddr::new(at), CodeAddr::new(OLD), code).unwrap_err();
            matches!(error, Error::Relocation { .. })
        };
        assert!(refused(NEW, &[0x13, 0, 0]));
        assert!(refused(NEW, &[0x1f, 0, 0, 0, 0, 0]));
        // Back out of reach; a jump out of reach; a branch into an instruction; a call among them.
        assert!(refused(OLD + (2 << 20), &bytes(&[0x13])));
        assert!(refused(OLD + 0xf_0000, &bytes(&[0x8000_006f, 0x13])));
        assert!(refused(NEW, &bytes(&[0x0060_006f, 0x13, 0x13])));
        assert!(refused(NEW, &bytes(&[0x0040_00ef, 0x13])));
    }
}
