//! The bytes of one ramp.
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

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock,
};

use super::RampContext;
use crate::addr::{CodeAddr, Len};
use crate::error::{Error, Result};

/// `lea rsp, [rsp - 128]`
const SKIP_RED_ZONE: [u8; 5] = [0x48, 0x8d, 0x64, 0x24, 0x80];
/// `lea rsp, [rsp + 136]`: the context and the red zone.
const DROP: [u8; 8] = [0x48, 0x8d, 0xa4, 0x24, 136, 0, 0, 0];
/// Opcodes of `push [rip + disp32]`, `call [rip + disp32]`, `jmp [rip + disp32]`.
const PUSH: [u8; 2] = [0xff, 0x35];
const CALL: [u8; 2] = [0xff, 0x15];
const JUMP: [u8; 2] = [0xff, 0x25];
const JUMP_NEAR: u8 = 0xe9;

const HEAD: u64 = 5 + 6 + 6 + 8;
/// The longer form of a jump: the instruction and its address.
const LONGEST_JUMP: u64 = 6 + 8;
/// What a branch can grow to when it is moved: a short branch over an indirect one and its address.
const LONGEST_BRANCH: u64 = 2 + 2 + 6 + 8;
/// Alignment, twice (the relocated block aligns its own addresses), and two addresses.
const TAIL: u64 = 7 + 7 + 16;

/// What a ramp does when its handler answers [`resume`](super::Frame::resume).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Resume<'a> {
    /// Goes on at an address: the site's end.
    At(CodeAddr),
    /// Executes the instructions that stood at the site before it was patched, moved into the ramp, and goes on
    /// behind them. A call among them has its return address in the ramp.
    Original {
        /// Where they stood.
        addr: CodeAddr,
        /// All of them; whole instructions.
        bytes: &'a [u8],
    },
}

/// A length that no ramp with this resumption exceeds.
#[must_use]
pub fn max_len(resume: &Resume<'_>) -> Len {
    let moved = match resume {
        Resume::At(_) => 0,
        Resume::Original { addr, bytes } => Decoder::with_ip(64, bytes, addr.get(), DecoderOptions::NONE)
            .iter()
            .map(|instruction| longest(&instruction))
            .sum(),
    };
    Len::new(u32::try_from(HEAD + moved + LONGEST_JUMP + TAIL).unwrap_or(u32::MAX))
}

/// The length that an instruction can have elsewhere. The encoder may add a prefix to one that refers to memory.
fn longest(instruction: &Instruction) -> u64 {
    let len = instruction.len() as u64 + 1;
    if is_near_branch(instruction) {
        len.max(LONGEST_BRANCH)
    } else {
        len
    }
}

/// The bytes of a ramp to stand at `at`, where execution enters it. They call with `context`, which must stay where
/// it is while a thread can reach the ramp or be in it.
///
/// # Errors
/// The original instructions cannot be executed elsewhere: they do not decode, jump between or read their own
/// bytes, or refer to something out of reach.
pub fn encode(at: CodeAddr, context: &RampContext, resume: Resume<'_>) -> Result<Vec<u8>> {
    assemble(at, &raw const *context as u64, super::capture_address()?, resume)
}

fn assemble(at: CodeAddr, context: u64, capture: u64, resume: Resume<'_>) -> Result<Vec<u8>> {
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
    // Both are offsets in a ramp, which is far smaller than 2 GiB.
    out.extend((to.wrapping_sub(next) as u32).to_le_bytes());
}

fn resumption(at: CodeAddr, resume: Resume<'_>) -> Result<Vec<u8>> {
    match resume {
        Resume::At(to) => Ok(jump(at, to)),
        Resume::Original { addr, bytes } => relocate(at, addr, bytes),
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

/// The instructions of `bytes` as they are executed at `at`, and a jump to what followed them.
fn relocate(at: CodeAddr, addr: CodeAddr, bytes: &[u8]) -> Result<Vec<u8>> {
    let refused = |reason| Error::RampRelocation {
        addr,
        ramp: at,
        reason,
    };
    let end = addr.get().wrapping_add(bytes.len() as u64);
    let mut instructions: Vec<_> = Decoder::with_ip(64, bytes, addr.get(), DecoderOptions::NONE)
        .iter()
        .collect();
    for instruction in &instructions {
        check(instruction, &instructions, addr.get()..end).map_err(refused)?;
    }
    // Part of the block, because the encoder puts the addresses that far branches need behind it.
    let on =
        Instruction::with_branch(Code::Jmp_rel32_64, end).map_err(|error| refused(format!("{error}")))?;
    instructions.push(on);
    let block = InstructionBlock::new(&instructions, at.get());
    BlockEncoder::encode(64, block, BlockEncoderOptions::NONE)
        .map(|code| code.code_buffer)
        .map_err(|error| refused(format!("{error}")))
}

/// Whether an instruction means the same elsewhere.
fn check(
    instruction: &Instruction,
    all: &[Instruction],
    range: core::ops::Range<u64>,
) -> core::result::Result<(), String> {
    let ip = instruction.ip();
    if instruction.is_invalid() {
        return Err(format!("no instruction at {ip:#x}, or cut off at the end"));
    }
    if instruction.is_ip_rel_memory_operand() && range.contains(&instruction.ip_rel_memory_address()) {
        return Err(format!(
            "the instruction at {ip:#x} reads the bytes that are replaced"
        ));
    }
    if is_near_branch(instruction) {
        let target = instruction.near_branch_target();
        if range.contains(&target) && !all.iter().any(|other| other.ip() == target) {
            return Err(format!(
                "the branch at {ip:#x} goes into an instruction at {target:#x}"
            ));
        }
    }
    Ok(())
}

fn is_near_branch(instruction: &Instruction) -> bool {
    use iced_x86::OpKind;
    matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch
            | FlowControl::Call
            | FlowControl::XbeginXabortXend
    ) && matches!(
        instruction.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    )
}
