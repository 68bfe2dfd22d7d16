//! Instructions moved to other addresses.
//!
//! What is relative to the program counter (DDI 0487, C4.1.92 to C4.1.94) means the same in other
//! instructions: an address becomes a constant, a load from a literal one through a register, a
//! conditional branch one over a jump of 128 MiB. No register is free among the instructions of a
//! function, so a register is only used where the instruction itself writes it, or after its value
//! has been pushed. Their lengths depend on the instructions alone, so branches among them find
//! their places. Flags are not touched.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use llvm_stackmaps::addr::CodeAddr;

use super::imm::{Disp, Halfword};
use super::insn::{self, Base, Gpr, LEN, Mem};
use super::{branch, constant};
use crate::error::{Error, Result};
use crate::op::{Extension, Width};

/// `str x16, [sp, #-16]!`
const PUSH: u32 = 0xf81f_0ff0;
/// `ldr x16, [sp], #16`
const POP: u32 = 0xf841_07f0;
/// What is pushed.
const SCRATCH: Gpr = Gpr(16);
/// The zero register's number.
const ZERO: u8 = 31;

/// What an instruction becomes.
#[derive(Clone, Copy, Debug)]
enum Moved {
    Same(u32),
    /// `b` or `bl`, which differ in the top bit.
    Jump {
        word: u32,
        to: u64,
    },
    /// A branch whose distance is in the field from bit 5 on; inverted by one bit.
    Branch {
        word: u32,
        field: u32,
        inverted: u32,
        to: u64,
    },
    /// `adr` and `adrp`.
    Address {
        rd: u8,
        value: u64,
    },
    /// A load from this address.
    Load {
        rd: u8,
        from: u64,
        width: Width,
        extension: Extension,
    },
    /// Of 4, 8 or 16 bytes.
    LoadVector {
        rd: u8,
        from: u64,
        log: u32,
    },
    Nothing,
}

fn signed(word: u32, low: u32, bits: u32) -> i64 {
    ((word << (32 - low - bits)) as i32 >> (32 - bits)) as i64
}

fn target(at: u64, word: u32, low: u32, bits: u32) -> u64 {
    at.wrapping_add_signed(signed(word, low, bits) * i64::from(LEN))
}

/// What the instruction `word`, which was at `at`, becomes; or why it cannot move.
fn classify(at: u64, word: u32) -> core::result::Result<Moved, &'static str> {
    let (rd, to19) = ((word & 31) as u8, target(at, word, 5, 19));
    let branch = |inverted, field, to| Moved::Branch {
        word,
        field,
        inverted,
        to,
    };
    Ok(match word >> 24 {
        // b, bl
        0x14..=0x17 | 0x94..=0x97 => Moved::Jump {
            word,
            to: target(at, word, 0, 26),
        },
        // b.cond and bc.cond; "always" has no opposite.
        0x54 if word & 0xe == 0xe => Moved::Jump {
            word: 0x1400_0000,
            to: to19,
        },
        0x54 => branch(1, 19, to19),
        // cbz, cbnz
        0x34 | 0x35 | 0xb4 | 0xb5 => branch(1 << 24, 19, to19),
        // tbz, tbnz
        0x36 | 0x37 | 0xb6 | 0xb7 => branch(1 << 24, 14, target(at, word, 5, 14)),
        // br, blr, ret; exceptions, system instructions
        0xd4..=0xd7 => Moved::Same(word),
        // ldr of a literal: w, x, sw, prfm; s, d, q
        0x18 | 0x58 | 0x98 if rd == ZERO => Moved::Nothing,
        0x18 => load(rd, to19, Width::B4, Extension::Zero),
        0x58 => load(rd, to19, Width::B8, Extension::Zero),
        0x98 => load(rd, to19, Width::B4, Extension::Sign),
        0xd8 => Moved::Nothing,
        0x1c | 0x5c | 0x9c => Moved::LoadVector {
            rd,
            from: to19,
            log: 2 + (word >> 30),
        },
        _ if word & 0x1f00_0000 == 0x1000_0000 => address(at, word),
        // Other members of the group of branches are of extensions that this has never seen.
        _ if word >> 26 & 0b111 == 0b101 => {
            return Err("is a branch of an extension, or no instruction");
        }
        _ => Moved::Same(word),
    })
}

fn load(rd: u8, from: u64, width: Width, extension: Extension) -> Moved {
    Moved::Load {
        rd,
        from,
        width,
        extension,
    }
}

/// `adr` and `adrp`.
fn address(at: u64, word: u32) -> Moved {
    let distance = signed(word, 5, 19) << 2 | i64::from(word >> 29 & 3);
    let (rd, page) = ((word & 31) as u8, word >> 31 == 1);
    let value = match page {
        true => (at & !0xfff).wrapping_add_signed(distance << 12),
        false => at.wrapping_add_signed(distance),
    };
    match rd {
        ZERO => Moved::Nothing,
        _ => Moved::Address { rd, value },
    }
}

impl Moved {
    /// Its length in bytes, wherever it is.
    fn len(self) -> u64 {
        let instructions = match self {
            Self::Nothing => 0,
            Self::Same(_) | Self::Jump { .. } => LEN,
            Self::Branch { .. } => 2 * LEN,
            Self::Address { value, .. } => constant::len(value),
            Self::Load { from, .. } => constant::len(from) + LEN,
            Self::LoadVector { from, .. } => constant::len(from) + 3 * LEN,
        };
        instructions.into()
    }

    /// The bytes that it reads.
    fn reads(self) -> Option<Range<u64>> {
        match self {
            Self::Load { from, width, .. } => Some(from..from.wrapping_add(width.bytes().into())),
            Self::LoadVector { from, log, .. } => Some(from..from.wrapping_add(1 << log)),
            _ => None,
        }
    }

    /// Appends it as it is executed at `at`, where `to` is its target's new place.
    fn put(self, at: u64, to: impl Fn(u64) -> u64, out: &mut Vec<u8>) -> core::result::Result<(), String> {
        let mut word = |word: u32| out.extend_from_slice(&word.to_le_bytes());
        match self {
            Self::Nothing => {}
            Self::Same(same) => word(same),
            Self::Jump {
                word: old,
                to: old_to,
            } => word(jump(at, to(old_to))? | old & 1 << 31),
            Self::Branch {
                word: old,
                field,
                inverted,
                to: old_to,
            } => {
                let distance = ((1 << field) - 1) << 5;
                // Over the jump: two instructions.
                word((old ^ inverted) & !distance | 2 << 5);
                word(jump(at.wrapping_add(u64::from(LEN)), to(old_to))?);
            }
            Self::Address { rd, value } => constant::put(Gpr(rd), value, out),
            Self::Load {
                rd,
                from,
                width,
                extension,
            } => {
                constant::put(Gpr(rd), from, out);
                let mem = Mem::Disp(Base(rd), Disp::Scaled(0), None);
                insn::load(Gpr(rd), mem, width, extension, out);
            }
            Self::LoadVector { rd, from, log } => {
                word(PUSH);
                constant::put(SCRATCH, from, out);
                out.extend_from_slice(&load_vector(rd, log).to_le_bytes());
                out.extend_from_slice(&POP.to_le_bytes());
            }
        }
        Ok(())
    }
}

/// `ldr` of a vector register of 4, 8 or 16 bytes from `[x16]`.
fn load_vector(rd: u8, log: u32) -> u32 {
    let (size, opc) = match log {
        4 => (0, 0b11),
        _ => (log, 0b01),
    };
    0x3d00_0000 | size << 30 | opc << 22 | u32::from(SCRATCH.0) << 5 | u32::from(rd)
}

fn jump(from: u64, to: u64) -> core::result::Result<u32, String> {
    branch::jump(from, to).ok_or_else(|| format!("a branch does not reach {to:#x}, 128 MiB is the most"))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = Option<u32>> + '_ {
    bytes
        .chunks(LEN as usize)
        .map(|word| word.try_into().ok().map(u32::from_le_bytes))
}

/// A length that the relocated instructions and the jump behind them do not exceed.
pub(super) fn bound(addr: CodeAddr, bytes: &[u8]) -> u64 {
    let longest = u64::from(3 * LEN) + Halfword::all(0).len() as u64 * u64::from(LEN);
    let moved = words(bytes).enumerate().map(|(index, word)| {
        let at = addr.get().wrapping_add(index as u64 * u64::from(LEN));
        word.and_then(|word| classify(at, word).ok())
            .map_or(longest, Moved::len)
    });
    moved.sum::<u64>() + u64::from(LEN)
}

/// The instructions of `bytes` as they are executed at `at`, and a jump to what followed them.
pub(super) fn relocate(at: CodeAddr, addr: CodeAddr, bytes: &[u8]) -> Result<Vec<u8>> {
    moved(at.get(), addr.get(), bytes).map_err(|reason| Error::Relocation { addr, at, reason })
}

fn moved(at: u64, addr: u64, bytes: &[u8]) -> core::result::Result<Vec<u8>, String> {
    let old = addr..addr.wrapping_add(bytes.len() as u64);
    let mut all = Vec::with_capacity(bytes.len() / LEN as usize + 1);
    let (mut from, mut to) = (addr, at);
    for word in words(bytes) {
        let word = word.ok_or_else(|| format!("the instruction at {from:#x} is cut off"))?;
        let moved = classify(from, word).map_err(|why| format!("{word:#010x} at {from:#x} {why}"))?;
        let overlaps = |range: Range<u64>| range.start < old.end && old.start < range.end;
        if moved.reads().is_some_and(overlaps) {
            return Err(format!(
                "the instruction at {from:#x} reads the bytes that are replaced"
            ));
        }
        all.push((from, to, moved));
        from = from.wrapping_add(u64::from(LEN));
        to = to.wrapping_add(moved.len());
    }
    let mut out = Vec::new();
    // A branch to one of the instructions follows it; all others go where they went.
    let place = |target: u64| {
        let inside = all.iter().find(|(from, _, _)| *from == target);
        inside.map_or(target, |(_, to, _)| *to)
    };
    for (_, to, moved) in &all {
        moved.put(*to, place, &mut out)?;
    }
    out.extend_from_slice(&jump(to, old.end)?.to_le_bytes());
    Ok(out)
}
