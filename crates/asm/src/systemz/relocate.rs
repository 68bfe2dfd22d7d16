//! Instructions moved to other addresses.
//!
//! Operands and branches that count from their own address are adjusted (Principles of Operation,
//! chapter 5, "Relative-Immediate Formats"); short branches become long ones, since a stub may be
//! further away than they reach. What would change its meaning is refused.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use llvm_stackmaps::addr::CodeAddr;

use super::insn::{BRASL, BRCL};
use crate::error::{Error, Result};

/// The jump behind the moved instructions.
const JUMP: u64 = 6;
/// The most that an instruction grows: a branch that is more than one, around a jump.
const GROWTH: u64 = 12;
const ALWAYS: u8 = 15;
const LINK: u8 = 14;

/// How an instruction counts from its own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RelativeKind {
    /// Not at all.
    Absolute,
    /// Data, or an address, within 4 GiB.
    Data,
    /// A branch within 4 GiB.
    Long,
    /// A `brc`.
    Jump,
    /// A `bras`.
    Call,
    /// Another branch within 64 KiB: counts or compares as well.
    Short,
}

/// One instruction and where it goes.
struct Moved<'b> {
    old: u64,
    bytes: &'b [u8],
    kind: RelativeKind,
    /// Its offset in the new code.
    at: u64,
}

impl Moved<'_> {
    fn len(&self) -> u64 {
        match self.kind {
            RelativeKind::Absolute | RelativeKind::Data | RelativeKind::Long => self.bytes.len() as u64,
            RelativeKind::Jump | RelativeKind::Call => 6,
            RelativeKind::Short => self.bytes.len() as u64 + GROWTH,
        }
    }

    /// What a relative operand refers to.
    fn target(&self) -> Option<u64> {
        let halfwords = match (self.kind, self.bytes) {
            (RelativeKind::Data | RelativeKind::Long, [_, _, a, b, c, d]) => {
                i64::from(i32::from_be_bytes([*a, *b, *c, *d]))
            }
            (RelativeKind::Jump | RelativeKind::Call | RelativeKind::Short, [_, _, a, b, ..]) => {
                i64::from(i16::from_be_bytes([*a, *b]))
            }
            _ => return None,
        };
        Some(self.old.wrapping_add_signed(halfwords * 2))
    }
}

/// A length that the relocated instructions and the jump behind them do not exceed.
pub(super) fn bound(_: CodeAddr, bytes: &[u8]) -> u64 {
    let count = bytes.len() as u64 / 2 + 1;
    bytes.len() as u64 + count * GROWTH + JUMP
}

/// The instructions of `bytes` as they are executed at `at`, and a jump to what followed them.
pub(super) fn relocate(at: CodeAddr, addr: CodeAddr, bytes: &[u8]) -> Result<Vec<u8>> {
    let refused = |reason| Error::Relocation { addr, at, reason };
    let moved = split(addr.get(), bytes).map_err(refused)?;
    let end = addr.get().wrapping_add(bytes.len() as u64);
    let mut out = Vec::with_capacity(bytes.len() + 32);
    for instruction in &moved {
        let target = target(instruction, &moved, at.get(), addr.get()..end).map_err(refused)?;
        put(instruction, at.get(), target, &mut out).map_err(refused)?;
    }
    let jump_at = at.get().wrapping_add(out.len() as u64);
    out.extend(BRCL.of(ALWAYS, long(jump_at, end).map_err(refused)?));
    Ok(out)
}

fn split(addr: u64, bytes: &[u8]) -> core::result::Result<Vec<Moved<'_>>, String> {
    let (mut moved, mut rest, mut old, mut at) = (Vec::new(), bytes, addr, 0);
    while let Some(first) = rest.first() {
        let len = match first >> 6 {
            0 => 2,
            1 | 2 => 4,
            _ => 6,
        };
        let Some((bytes, tail)) = rest.split_at_checked(len).filter(|_| *first != 0) else {
            return Err(format!("no instruction at {old:#x}, or cut off at the end"));
        };
        let kind = kind(bytes).map_err(|why| format!("the instruction at {old:#x} {why}"))?;
        let instruction = Moved { old, bytes, kind, at };
        at += instruction.len();
        moved.push(instruction);
        rest = tail;
        old = old.wrapping_add(len as u64);
    }
    Ok(moved)
}

fn kind(bytes: &[u8]) -> core::result::Result<RelativeKind, &'static str> {
    const TAKES_ADDRESS: &str = "takes its own address";
    let &[first, second, ..] = bytes else {
        return Ok(RelativeKind::Absolute);
    };
    let (r1, op, last) = (second >> 4, second & 15, bytes.last().copied().unwrap_or(0));
    Ok(match (first, op) {
        (0xc0, 5) | (0xa7, 5) if r1 != LINK => return Err(TAKES_ADDRESS),
        (0xc0, 4 | 5) | (0xcc, 6) => RelativeKind::Long,
        (0xc0, 0) | (0xc4 | 0xc6, _) => RelativeKind::Data,
        (0xa7, 4) => RelativeKind::Jump,
        (0xa7, 5) => RelativeKind::Call,
        // brct, brctg; brxh, brxle.
        (0xa7, 6 | 7) | (0x84 | 0x85, _) => RelativeKind::Short,
        // brxhg, brxlg; compare and branch.
        (0xec, _) if matches!(last, 0x44 | 0x45 | 0x64 | 0x65 | 0x76 | 0x77 | 0x7c..=0x7f) => {
            RelativeKind::Short
        }
        // balr, basr: a call through r14, or the address of what follows.
        (0x05 | 0x0d, target) if target == 0 || r1 != LINK => return Err(TAKES_ADDRESS),
        // bal, bas; bsm, bassm.
        (0x45 | 0x4d | 0x0b | 0x0c, _) => return Err(TAKES_ADDRESS),
        (0xc5 | 0xc7, _) => return Err("tells the processor about a branch near it"),
        _ => RelativeKind::Absolute,
    })
}

/// Where the operand of an instruction is then.
fn target(
    instruction: &Moved<'_>,
    moved: &[Moved<'_>],
    at: u64,
    range: core::ops::Range<u64>,
) -> core::result::Result<u64, String> {
    let Some(target) = instruction.target() else {
        return Ok(0);
    };
    if !range.contains(&target) {
        return Ok(target);
    }
    let old = instruction.old;
    if instruction.kind == RelativeKind::Data {
        return Err(format!(
            "the instruction at {old:#x} reads the bytes that are replaced"
        ));
    }
    match moved.iter().find(|other| other.old == target) {
        Some(other) => Ok(at.wrapping_add(other.at)),
        None => Err(format!(
            "the branch at {old:#x} goes into an instruction at {target:#x}"
        )),
    }
}

fn put(
    instruction: &Moved<'_>,
    start: u64,
    target: u64,
    out: &mut Vec<u8>,
) -> core::result::Result<(), String> {
    let at = start.wrapping_add(instruction.at);
    match (instruction.kind, instruction.bytes) {
        (RelativeKind::Data | RelativeKind::Long, [first, second, ..]) => {
            out.extend([*first, *second]);
            out.extend(long(at, target)?.to_be_bytes());
        }
        (RelativeKind::Jump, [_, second, ..]) => out.extend(BRCL.of(second >> 4, long(at, target)?)),
        (RelativeKind::Call, [_, second, ..]) => out.extend(BRASL.of(second >> 4, long(at, target)?)),
        (RelativeKind::Short, [first, second, _, _, rest @ ..]) => {
            // To the second of two jumps: the first goes on.
            let len = instruction.bytes.len() as u64;
            out.extend([*first, *second]);
            out.extend(((len + 6) as u16 / 2).to_be_bytes());
            out.extend(rest);
            out.extend(BRCL.of(ALWAYS, GROWTH as u32 / 2));
            out.extend(BRCL.of(ALWAYS, long(at.wrapping_add(len + 6), target)?));
        }
        (_, bytes) => out.extend(bytes),
    }
    Ok(())
}

/// The distance in halfwords.
fn long(from: u64, to: u64) -> core::result::Result<u32, String> {
    let distance = to.wrapping_sub(from) as i64;
    match i32::try_from(distance / 2) {
        Ok(halfwords) if distance % 2 == 0 => Ok(halfwords as u32),
        _ => Err(format!("{to:#x} is out of reach from {from:#x}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: u64 = 0x10_0000_0000;
    const NEW: u64 = 0x10_4000_0000;

    fn moved(bytes: &[u8]) -> Vec<u8> {
        let out = relocate(CodeAddr::new(NEW), CodeAddr::new(OLD), bytes).unwrap();
        assert!(out.len() as u64 <= bound(CodeAddr::new(OLD), bytes));
        out
    }

    fn lines(bytes: &[u8]) -> Vec<String> {
        patchpoint_verify::disassemble(patchpoint_isa::Arch::SystemZ, CodeAddr::new(NEW), bytes)
            .into_iter()
            .map(|line| line.text)
            .collect()
    }

    fn refused(bytes: &[u8], why: &str) {
        let error = relocate(CodeAddr::new(NEW), CodeAddr::new(OLD), bytes).unwrap_err();
        assert!(format!("{error}").contains(why), "{error}");
    }

    #[test]
    fn what_does_not_count_from_itself_stays() {
        // lgr; adbr; basr %r14, %r1; stmg.
        let code = [
            0xb9, 0x04, 0, 0x23, 0xb3, 0x1a, 0, 0x12, 0x0d, 0xe1, 0xeb, 0x6f, 0xf0, 0x30, 0, 0x24,
        ];
        let out = moved(&code);
        assert_eq!(out[..16], code);
        assert_eq!(lines(&out).last().unwrap(), "brcl 15, 0x1000000010");
    }

    #[test]
    fn distances_are_adjusted_and_short_branches_grow() {
        for (code, expected) in [
            // larl, lgrl, brasl, brcl.
            (&[0xc0, 0x10, 0, 0, 0x10, 0][..], &["larl %r1, 0x1000002000"][..]),
            (&[0xc4, 0x18, 0xff, 0xff, 0xff, 0xfe], &["lgrl %r1, 0xffffffffc"]),
            (&[0xc0, 0xe5, 0, 0, 0x10, 0], &["brasl %r14, 0x1000002000"]),
            (&[0xc0, 0x84, 0, 0, 0x10, 0], &["brcl 8, 0x1000002000"]),
            // brc, bras.
            (&[0xa7, 0x44, 0x80, 0], &["brcl 4, 0xfffff0000"]),
            (&[0xa7, 0xe5, 0x7f, 0xff], &["brasl %r14, 0x100000fffe"]),
            // brctg; cgij.
            (
                &[0xa7, 0x67, 0, 0x10],
                &[
                    "brctg %r6, 0x104000000a",
                    "brcl 15, 0x1040000010",
                    "brcl 15, 0x1000000020",
                ],
            ),
            (
                &[0xec, 0x28, 0, 0x10, 5, 0x7c],
                &[
                    "cgij %r2, 5, 8, 0x104000000c",
                    "brcl 15, 0x1040000012",
                    "brcl 15, 0x1000000020",
                ],
            ),
        ] {
            let lines = lines(&moved(code));
            assert_eq!(lines[..lines.len() - 1], *expected);
            let back = format!("brcl 15, {:#x}", OLD + code.len() as u64);
            assert_eq!(lines[lines.len() - 1], back);
        }
    }

    #[test]
    fn branches_among_the_moved_instructions_follow_them() {
        // brc 8 over lgr to the second lgr; back to the first.
        let code = [
            0xa7, 0x84, 0, 4, 0xb9, 0x04, 0, 0x23, 0xb9, 0x04, 0, 0x32, 0xa7, 0x24, 0xff, 0xfc,
        ];
        assert_eq!(
            lines(&moved(&code)),
            [
                "brcl 8, 0x104000000a",
                "lgr %r2, %r3",
                "lgr %r3, %r2",
                "brcl 2, 0x1040000006",
                "brcl 15, 0x1000000010"
            ]
        );
        // To what followed them.
        assert_eq!(lines(&moved(&[0xa7, 0x84, 0, 2]))[0], "brcl 8, 0x1000000004");
    }

    #[test]
    fn what_would_mean_something_else_is_refused() {
        refused(
            &[0xa7, 0x84, 0, 3, 0xc0, 0x10, 0, 0, 0x10, 0],
            "goes into an instruction",
        );
        refused(&[0xc0, 0x10, 0, 0, 0, 0], "reads the bytes that are replaced");
        refused(
            &[0xc4, 0x18, 0, 0, 0, 2, 0x07, 0],
            "reads the bytes that are replaced",
        );
        for takes_address in [
            &[0x0d, 0xd0][..],
            &[0x0d, 0xe0],
            &[0x0d, 0xd1],
            &[0xa7, 0xd5, 0, 8],
            &[0xc0, 0xd5, 0, 0, 0, 8],
            &[0x45, 0xe0, 0x10, 0],
        ] {
            refused(takes_address, "takes its own address");
        }
        refused(&[0xc7, 0, 0, 0, 0, 0], "near it");
        for cut in [&[0xc0, 0x10, 0, 0][..], &[0xb9], &[0, 1]] {
            refused(cut, "cut off");
        }
        let far = CodeAddr::new(OLD + (1 << 33));
        let error = relocate(far, CodeAddr::new(OLD), &[0x07, 0]).unwrap_err();
        assert!(format!("{error}").contains("out of reach"), "{error}");
    }

    #[test]
    fn the_bound_holds_for_branches_only() {
        let branches = [0xa7, 0x67, 0x10, 0].repeat(9);
        moved(&branches);
    }
}
