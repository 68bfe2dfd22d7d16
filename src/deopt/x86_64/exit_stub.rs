//! The bytes of one exit stub.
//!
//! ```text
//!     lea  rsp, [rsp - 128]      skip the red zone; no flag changes
//!     call [rip + capture]       saves, calls the handler, restores; its `ret 128` raises rsp
//!     ...                        resume
//!     .p2align 3
//! context: .quad
//! capture: .quad
//! ```
//!
//! No instruction passes the context. The call ends in its distance to the word with the capture routine's
//! address; the routine reads that distance, and finds the context in the word before.
//!
//! In a block the two addresses are in front of all exit stubs, which are 16 bytes each, and 24, 32 or
//! 56 where they execute what the site held.

use alloc::vec::Vec;

use crate::addr::CodeAddr;
use crate::deopt::exit_stub::{InBlock, RoomCode, stack_at};
use crate::deopt::{Result, Resume};
use crate::engine::StackAt;
use crate::memory::BlockForm;
use patchpoint_asm::backend::Backend;
use patchpoint_asm::x86_64::X86_64;

/// `lea rsp, [rsp - 128]`
// protection: exit-stub-skips-the-red-zone
const SKIP_RED_ZONE: [u8; 5] = [0x48, 0x8d, 0x64, 0x24, 0x80];
/// Opcodes of `call [rip + disp32]` and `jmp [rip + disp32]`.
const CALL: [u8; 2] = [0xff, 0x15];
const JUMP: [u8; 2] = [0xff, 0x25];
const JUMP_NEAR: u8 = 0xe9;

/// The fields of [`StackAt`](crate::engine::StackAt). There is no link register. Where the routine
/// returns to, the stack is the site's again; while it runs, unwinders look up the byte before its
/// return address, which is of the call.
pub(in crate::deopt) const STACK: [StackAt; 3] = [
    stack_at(0, 0, None),
    stack_at(5, 128, None),
    stack_at(HEAD as u32, 0, None),
];

/// In a block. Rooms are as short as they can be: page faults of memory for exit stubs are a sixth of
/// invalidating many functions, and an exit saves kilobytes. 11 bytes enter, 5 jump. 24 bytes have room
/// for 8 more, as short shadows; 32 for 16, as LLVM's call; 56 for 40.
pub(in crate::deopt) const IN_BLOCK: InBlock = InBlock {
    form: BlockForm { shared: 16, room: 16 },
    moving: &[
        BlockForm { shared: 16, room: 24 },
        BlockForm { shared: 16, room: 32 },
        BlockForm { shared: 16, room: 56 },
    ],
    around: HEAD + 5,
    returns: HEAD,
    stack: &STACK,
    enter,
    jump: put_jump,
};

/// What is before the resumption, where the block's context and capture routine are at `shared`.
fn enter(code: &mut RoomCode<'_>, shared: CodeAddr) {
    // A distance in a block, which is far smaller than 2 GiB.
    let capture = shared.distance_from(code.next()) as i32 + 8 - HEAD as i32;
    let ([r0, r1, r2, r3, r4], [c0, c1]) = (SKIP_RED_ZONE, CALL);
    let [a, b, c, d] = capture.to_le_bytes();
    code.put(&[r0, r1, r2, r3, r4, c0, c1, a, b, c, d]);
}

fn put_jump(code: &mut RoomCode<'_>, to: CodeAddr) -> Option<()> {
    let near = i32::try_from(to.distance_from(code.next()).wrapping_sub(5)).ok()?;
    let [a, b, c, d] = near.to_le_bytes();
    code.put_if_room(&[JUMP_NEAR, a, b, c, d])
}

/// Up to where the routine returns to.
const HEAD: u64 = 5 + 6;
/// The longer form of a jump: the instruction and its address.
const LONGEST_JUMP: u64 = 6 + 8;
/// Alignment, and two addresses.
const TAIL: u64 = 7 + 16;

/// A length that no exit stub with this resumption exceeds.
pub(in crate::deopt) fn max_len(resume: &Resume<'_>) -> u64 {
    let moved = match resume {
        Resume::At(_) => LONGEST_JUMP,
        Resume::Original { addr, bytes } => X86_64.relocated_bound(*addr, bytes),
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
    let resume = resumption(resume_at, resume)?;
    let end = HEAD as usize + resume.len();
    let data = end + padding(at, end);
    let mut out = Vec::with_capacity(data + 16);
    out.extend(SKIP_RED_ZONE);
    indirect(&mut out, CALL, data + 8);
    out.extend(resume);
    // Never executed; a trap says so.
    out.resize(data, 0xcc);
    out.extend(context.to_le_bytes());
    out.extend(capture.to_le_bytes());
    Ok(out)
}

/// Bytes up to the next multiple of 8 from `len` bytes after `at`.
fn padding(at: CodeAddr, len: usize) -> usize {
    (at.get().wrapping_add(len as u64).wrapping_neg() & 7) as usize
}

/// An instruction with a memory operand at the offset `to` of the same code.
fn indirect(out: &mut Vec<u8>, opcode: [u8; 2], to: usize) {
    out.extend(opcode);
    let next = out.len() + 4;
    // Both are offsets in an exit stub, which is far smaller than 2 GiB.
    out.extend((to.wrapping_sub(next) as u32).to_le_bytes());
}

fn resumption(at: CodeAddr, resume: Resume<'_>) -> Result<Vec<u8>> {
    match resume {
        Resume::At(to) => Ok(jump(at, to)),
        Resume::Original { addr, bytes } => Ok(X86_64.relocate(at, addr, bytes)?),
    }
}

fn jump(at: CodeAddr, to: CodeAddr) -> Vec<u8> {
    let mut out = Vec::new();
    if let Ok(near) = i32::try_from(to.distance_from(at).wrapping_sub(5)) {
        out.push(JUMP_NEAR);
        out.extend(near.to_le_bytes());
    } else {
        out.extend(JUMP);
        out.extend([0; 4]);
        out.extend(to.get().to_le_bytes());
    }
    out
}
