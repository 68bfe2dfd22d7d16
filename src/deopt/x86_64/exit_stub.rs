//! The bytes of one exit stub.
//!
//! ```text
//!     lea  rsp, [rsp - 128]      skip the red zone; no flag changes
//!     push [rip + context]
//!     call [rip + capture]       saves, calls the handler, restores, returns
//!     lea  rsp, [rsp + 136]
//!     ...                        resume
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
use crate::deopt::{Result, Resume};
use crate::engine::StackAt;
use crate::memory::BlockForm;
use patchpoint_asm::backend::Backend;
use patchpoint_asm::x86_64::X86_64;

/// `lea rsp, [rsp - 128]`
// protection: exit-stub-skips-the-red-zone
const SKIP_RED_ZONE: [u8; 5] = [0x48, 0x8d, 0x64, 0x24, 0x80];
/// `lea rsp, [rsp + 136]`: the context and the red zone.
// protection: exit-stub-skips-the-red-zone (2)
const DROP: [u8; 8] = [0x48, 0x8d, 0xa4, 0x24, 136, 0, 0, 0];
/// Opcodes of `push [rip + disp32]`, `call [rip + disp32]`, `jmp [rip + disp32]`.
const PUSH: [u8; 2] = [0xff, 0x35];
const CALL: [u8; 2] = [0xff, 0x15];
const JUMP: [u8; 2] = [0xff, 0x25];
const JUMP_NEAR: u8 = 0xe9;

/// The fields of [`StackAt`](crate::engine::StackAt). There is no link register.
pub(in crate::deopt) const STACK: [StackAt; 4] = [
    stack_at(0, 0, None),
    stack_at(5, 128, None),
    stack_at(11, 136, None),
    stack_at(25, 0, None),
];

/// In a block: two rooms to a cache line.
pub(in crate::deopt) const IN_BLOCK: InBlock = InBlock {
    form: BlockForm { shared: 32, room: 32 },
    moving: BlockForm { shared: 32, room: 64 },
    returns: 17,
    stack: &STACK,
    enter,
    jump: put_jump,
};

/// What is before the resumption, where the block's context and capture routine are at `shared`.
fn enter(code: &mut RoomCode<'_>, shared: CodeAddr) {
    // Distances in a block, which is far smaller than 2 GiB.
    let data = shared.distance_from(code.next()) as i32;
    let [r0, r1, r2, r3, r4] = SKIP_RED_ZONE;
    let ([p0, p1], [a, b, c, d]) = (PUSH, (data - 11).to_le_bytes());
    let ([c0, c1], [e, f, g, h]) = (CALL, (data + 8 - 17).to_le_bytes());
    code.put(&[r0, r1, r2, r3, r4, p0, p1, a, b, c, d, c0, c1, e, f, g, h]);
    code.put(&DROP);
}

fn put_jump(code: &mut RoomCode<'_>, to: CodeAddr) -> Option<()> {
    let near = i32::try_from(to.distance_from(code.next()).wrapping_sub(5)).ok()?;
    let [a, b, c, d] = near.to_le_bytes();
    code.put_if_room(&[JUMP_NEAR, a, b, c, d])
}

const HEAD: u64 = 5 + 6 + 6 + 8;
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
    indirect(&mut out, PUSH, data);
    indirect(&mut out, CALL, data + 8);
    out.extend(DROP);
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
