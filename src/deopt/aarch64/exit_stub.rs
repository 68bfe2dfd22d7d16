//! The bytes of one exit stub.
//!
//! ```text
//!     stp  x16, x17, [sp, #-160]!   skip the red zone that Darwin has; no flag changes
//!     str  x30, [sp, #16]
//!     ldr  x16, context
//!     ldr  x17, capture
//!     blr  x17                      saves, calls the handler, restores, returns
//!     ldr  x30, [sp, #16]
//!     ldp  x16, x17, [sp], #160
//!     ...                           resume
//!     .p2align 3
//! context: .quad
//! capture: .quad
//! ```
//!
//! In a block the two addresses are in front of all exit stubs, which are 32 bytes each, or 64 where
//! they execute what the site held.

use alloc::vec::Vec;

use crate::addr::CodeAddr;
use crate::deopt::exit_stub::{InBlock, RoomCode, stack_at};
use crate::deopt::{Error, Result, Resume};
use crate::engine::StackAt;
use crate::memory::BlockForm;
use patchpoint_asm::aarch64::AArch64;
use patchpoint_asm::backend::Backend;

/// Bytes by which the exit stub lowers the stack pointer: three registers, alignment, and 128 bytes
/// of a red zone.
#[cfg(target_arch = "aarch64")]
pub(in crate::deopt) const BELOW_SITE: u64 = 160;

/// `stp x16, x17, [sp, #-160]!`; `str x30, [sp, #16]`
const SAVE: [u32; 2] = [0xa9b6_47f0, 0xf900_0bfe];
/// `ldr x30, [sp, #16]`; `ldp x16, x17, [sp], #160`
const RESTORE: [u32; 2] = [0xf940_0bfe, 0xa8ca_47f0];
/// `ldr x16, .` and `ldr x17, .`
const LOAD_CONTEXT: u32 = 0x5800_0010;
const LOAD_CAPTURE: u32 = 0x5800_0011;
/// `blr x17`
const CALL: u32 = 0xd63f_0220;
/// `b .`
const JUMP: u32 = 0x1400_0000;
/// `brk #0`
const TRAP: u32 = 0xd420_0000;

/// The fields of [`StackAt`](crate::engine::StackAt): behind each of [`SAVE`] and of [`RESTORE`].
pub(in crate::deopt) const STACK: [StackAt; 5] = [
    stack_at(0, 0, None),
    stack_at(4, 160, None),
    stack_at(8, 160, Some(16)),
    stack_at(24, 160, None),
    stack_at(28, 0, None),
];

/// In a block.
pub(in crate::deopt) const IN_BLOCK: InBlock = InBlock {
    form: BlockForm { shared: 32, room: 32 },
    moving: &[BlockForm { shared: 32, room: 64 }],
    around: 32,
    returns: 20,
    stack: &STACK,
    enter,
    jump: put_jump,
};

/// What is before the resumption, where the block's context and capture routine are at `shared`.
fn enter(code: &mut RoomCode<'_>, shared: CodeAddr) {
    // Distances in a block, which is far smaller than 1 MiB.
    let literal = |word: u32, distance: i64| word | ((distance / 4) as u32 & 0x7_ffff) << 5;
    let data = shared.distance_from(code.next());
    let words = [
        SAVE[0],
        SAVE[1],
        literal(LOAD_CONTEXT, data - 8),
        literal(LOAD_CAPTURE, data + 8 - 12),
        CALL,
        RESTORE[0],
        RESTORE[1],
    ];
    words.iter().for_each(|word| code.put(&word.to_le_bytes()));
}

fn put_jump(code: &mut RoomCode<'_>, to: CodeAddr) -> Option<()> {
    let jump = jump_word(code.next(), to)?;
    code.put_if_room(&jump.to_le_bytes())
}

/// The instructions before the resumption.
const HEAD: u64 = 7 * 4;
/// Alignment, and two addresses.
const TAIL: u64 = 4 + 16;

/// A length that no exit stub with this resumption exceeds.
pub(in crate::deopt) fn max_len(resume: &Resume<'_>) -> u64 {
    let moved = match resume {
        Resume::At(_) => 4,
        Resume::Original { addr, bytes } => AArch64.relocated_bound(*addr, bytes),
    };
    HEAD + moved + TAIL
}

/// The exit stub at `at` that passes `context` to the routine at `capture`.
pub(in crate::deopt) fn assemble(
    at: CodeAddr,
    context: u64,
    capture: u64,
    resume: Resume<'_>,
) -> Result<Vec<u8>> {
    let resume_at = CodeAddr::new(at.get().wrapping_add(HEAD));
    let resume = resumption(at, resume_at, resume)?;
    let end = HEAD as usize + resume.len();
    let data = end + (at.get().wrapping_add(end as u64).wrapping_neg() & 7) as usize;
    let mut out = Vec::with_capacity(data + 16);
    put(&mut out, &SAVE);
    load(&mut out, LOAD_CONTEXT, data);
    load(&mut out, LOAD_CAPTURE, data + 8);
    put(&mut out, &[CALL]);
    put(&mut out, &RESTORE);
    out.extend(resume);
    if out.len() < data {
        // Never executed; a trap says so.
        put(&mut out, &[TRAP]);
    }
    out.extend(context.to_le_bytes());
    out.extend(capture.to_le_bytes());
    Ok(out)
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// A load of what is at the offset `to` of the same code.
fn load(out: &mut Vec<u8>, word: u32, to: usize) {
    // Both are offsets in an exit stub, which is far smaller than 1 MiB.
    let distance = (to.wrapping_sub(out.len()) / 4) as u32;
    put(out, &[word | distance << 5]);
}

fn resumption(exit_stub: CodeAddr, at: CodeAddr, resume: Resume<'_>) -> Result<Vec<u8>> {
    match resume {
        Resume::At(to) => jump(exit_stub, at, to),
        Resume::Original { addr, bytes } => Ok(AArch64.relocate(at, addr, bytes)?),
    }
}

/// A jump changes no register, so it has to reach by itself: 128 MiB.
fn jump(exit_stub: CodeAddr, at: CodeAddr, to: CodeAddr) -> Result<Vec<u8>> {
    let word = jump_word(at, to).ok_or(Error::ExitStubOutOfReach { exit_stub, to })?;
    Ok(word.to_le_bytes().to_vec())
}

fn jump_word(at: CodeAddr, to: CodeAddr) -> Option<u32> {
    let distance = to.distance_from(at);
    let reaches = distance % 4 == 0 && (-(1 << 27)..1 << 27).contains(&distance);
    reaches.then_some(JUMP | (distance / 4) as u32 & 0x03ff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Arch;
    use crate::verify::disassemble;
    use alloc::string::String;

    const AT: CodeAddr = CodeAddr::new(0x7000_0000_1000);

    fn texts(exit_stub: &[u8], at: CodeAddr) -> Vec<String> {
        let code = &exit_stub[..exit_stub.len() - 16];
        let lines = disassemble(Arch::AArch64, at, code);
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn an_exit_stub_keeps_every_register_but_through_the_stack() {
        for (at, padding) in [(AT, &[][..]), (CodeAddr::new(AT.get() + 4), &["brk #0x0"])] {
            let to = CodeAddr::new(at.get() + 0x1000);
            let exit_stub = assemble(at, 0x1122_3344_5566_7788, 0x99aa, Resume::At(to)).unwrap();
            let data = at.get() + exit_stub.len() as u64 - 16;
            assert_eq!(data % 8, 0);
            let expected = [
                "stp x16, x17, [sp, #-160]!".into(),
                "str x30, [sp, #16]".into(),
                alloc::format!("ldr x16, {data:#x}"),
                alloc::format!("ldr x17, {:#x}", data + 8),
                "blr x17".into(),
                "ldr x30, [sp, #16]".into(),
                "ldp x16, x17, [sp], #160".into(),
                alloc::format!("b {:#x}", to.get()),
            ];
            let padding = padding.iter().map(|text| String::from(*text));
            let expected: Vec<_> = expected.into_iter().chain(padding).collect();
            assert_eq!(texts(&exit_stub, at), expected);
            let (context, capture) = exit_stub[exit_stub.len() - 16..].split_at(8);
            assert_eq!(context, 0x1122_3344_5566_7788_u64.to_le_bytes());
            assert_eq!(capture, 0x99aa_u64.to_le_bytes());
            assert!(exit_stub.len() as u64 <= max_len(&Resume::At(to)));
        }
    }

    #[test]
    fn an_exit_stub_resumes_within_128_mib() {
        let from = AT.get() + HEAD;
        let resume = |distance: i64| {
            let to = CodeAddr::new(from.wrapping_add_signed(distance));
            assemble(AT, 0, 0, Resume::At(to))
        };
        for distance in [0, 4, (128 << 20) - 4, -(128 << 20)] {
            assert!(resume(distance).is_ok(), "{distance}");
        }
        for distance in [2, 128 << 20, -(128 << 20) - 4] {
            assert!(
                matches!(resume(distance), Err(Error::ExitStubOutOfReach { .. })),
                "{distance}"
            );
        }
    }
}
