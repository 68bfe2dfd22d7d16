//! The bytes of one exit stub.
//!
//! ```text
//!     stdu  r1, -FRAME(r1)       skips the red zone; no register is free yet
//!     std   r0, ...              r0, LR, r12 and CTR: what the exit_stub itself uses
//!     ...                        the context and the dispatcher go into the frame
//!     bctrl                      the capture routine saves, calls, restores, returns
//!     ld    r0, ...              LR and r0
//!     addi  r1, r1, FRAME
//!     ...                        resume
//! ```
//!
//! In a block all but the ends is a part that the exit stubs share, 40 bytes being left to each, or
//! 96 where they execute what the site held:
//!
//! ```text
//!     stdu  r1, -FRAME(r1)
//!     std   r0, ...
//!     mflr  r0
//!     std   r0, ...
//!     bl    shared               which jumps to the capture routine, with LR as it is
//!     ld    r0, ...              LR and r0
//!     addi  r1, r1, FRAME
//!     b     ...                  resume
//! ```

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU16, Ordering};

use super::layout::{CONTEXT, CTR, DISPATCH, FEATURES, FRAME, GENERAL, LR, RETURN};
use crate::addr::CodeAddr;
use crate::arch::Arch;
use crate::deopt::exit_stub::{InBlock, RoomCode, stack_at};
use crate::deopt::{Error, Result, Resume};
use crate::engine::StackAt;
use crate::memory::BlockForm;
use patchpoint_asm::backend::Backend;
use patchpoint_asm::powerpc64::{BIG_V1, BIG_V2, LITTLE, PowerPc64};

/// The most instructions before the resumption: three addresses of five each, and twenty others.
const HEAD: u64 = (3 * 5 + 20) * 4;

/// What the processor has. Written before the first exit stub exists.
pub(in crate::deopt) static PROCESSOR: AtomicU16 = AtomicU16::new(0);

/// A length that no exit stub with this resumption exceeds.
pub(in crate::deopt) fn max_len(backend: &PowerPc64, resume: &Resume<'_>) -> u64 {
    let moved = match resume {
        Resume::At(_) => 4,
        Resume::Original { addr, bytes } => backend.relocated_bound(*addr, bytes),
    };
    HEAD + moved
}

/// What an exit stub calls.
#[derive(Clone, Copy, Debug)]
pub(in crate::deopt) struct Called {
    /// The address of the exit stub's context.
    pub(in crate::deopt) context: u64,
    /// The address of the capture routine's first instruction.
    pub(in crate::deopt) capture: u64,
    /// The dispatcher, as a function pointer.
    pub(in crate::deopt) dispatch: u64,
}

/// The exit stub at `at`.
pub(in crate::deopt) fn assemble(
    backend: &PowerPc64,
    at: CodeAddr,
    called: Called,
    resume: Resume<'_>,
) -> Result<Vec<u8>> {
    let mut out = head(backend, called);
    let resume_at = CodeAddr::new(at.get().wrapping_add(out.len() as u64));
    match resume {
        Resume::At(to) => {
            let jump = backend
                .jump_between(resume_at, to)
                .ok_or(Error::ExitStubOutOfReach { exit_stub: at, to })?;
            out.extend(jump);
        }
        Resume::Original { addr, bytes } => out.extend(backend.relocate(resume_at, addr, bytes)?),
    }
    Ok(out)
}

/// The fields of [`StackAt`]: behind `stdu`, the `std` of LR, `mtlr`, and `addi`.
pub(in crate::deopt) fn stack(backend: &PowerPc64, called: Called) -> [StackAt; 5] {
    stack_until(head(backend, called).len() as u32)
}

/// The same where `addi` ends at this offset.
const fn stack_until(end: u32) -> [StackAt; 5] {
    let frame = FRAME as u32;
    [
        stack_at(0, 0, None),
        stack_at(4, frame, None),
        stack_at(16, frame, Some(LR as u32)),
        stack_at(end - 8, frame, None),
        stack_at(end, 0, None),
    ]
}

/// In a block.
pub(in crate::deopt) const fn in_block(arch: Arch) -> InBlock {
    InBlock {
        // The most instructions: three addresses of five each, and eleven others.
        form: BlockForm {
            shared: 112,
            room: 40,
        },
        moving: &[BlockForm {
            shared: 112,
            room: 96,
        }],
        around: 40,
        returns: 20,
        stack: &const { stack_until(36) },
        enter: match arch {
            Arch::PowerPc64 => |code, shared| enter(&BIG_V1, code, shared),
            Arch::PowerPc64ElfV2 => |code, shared| enter(&BIG_V2, code, shared),
            _ => |code, shared| enter(&LITTLE, code, shared),
        },
        jump: match arch {
            Arch::PowerPc64 => |code, to| put_jump(&BIG_V1, code, to),
            Arch::PowerPc64ElfV2 => |code, to| put_jump(&BIG_V2, code, to),
            _ => |code, to| put_jump(&LITTLE, code, to),
        },
    }
}

/// What is before the resumption, where the block's shared part is at `shared`.
fn enter(backend: &PowerPc64, code: &mut RoomCode<'_>, shared: CodeAddr) {
    // bl: a distance in a block, which is far smaller than 32 MiB.
    let distance = shared.distance_from(code.next()) - 16;
    let call = 0x4800_0001 | distance as u32 & 0x03ff_fffc;
    let words = [
        LOWER, SAVE_R0, MFLR_R0, SAVE_LR, call, LOAD_LR, MTLR_R0, LOAD_R0, RAISE,
    ];
    words.iter().for_each(|word| code.put(&backend.word_bytes(*word)));
}

fn put_jump(backend: &PowerPc64, code: &mut RoomCode<'_>, to: CodeAddr) -> Option<()> {
    let jump = backend.jump_between(code.next(), to)?;
    code.put_if_room(&jump)
}

/// What the exit stubs of a block share.
pub(in crate::deopt) fn shared(backend: &PowerPc64, called: Called) -> Vec<u8> {
    let mut out = Vec::new();
    save_used(backend, &mut out);
    // mflr r12; std r12
    backend.put_words(&[0x7d88_02a6, std(12, RETURN)], &mut out);
    pass(backend, called, &mut out);
    // bctr
    backend.put_words(&[0x4e80_0420], &mut out);
    out
}

/// `stdu r1, -FRAME(r1)`
const LOWER: u32 = 0xf821_0001 | FRAME.wrapping_neg() as u32;
const SAVE_R0: u32 = std(0, GENERAL);
const MFLR_R0: u32 = 0x7c08_02a6;
const SAVE_LR: u32 = std(0, LR);
const LOAD_LR: u32 = ld(0, LR);
const MTLR_R0: u32 = 0x7c08_03a6;
const LOAD_R0: u32 = ld(0, GENERAL);
/// `addi r1, r1, FRAME`
const RAISE: u32 = 0x3821_0000 | FRAME as u32;

fn head(backend: &PowerPc64, called: Called) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD as usize);
    backend.put_words(&[LOWER, SAVE_R0, MFLR_R0, SAVE_LR], &mut out);
    save_used(backend, &mut out);
    pass(backend, called, &mut out);
    // bctrl
    let back = [0x4e80_0421, LOAD_LR, MTLR_R0, LOAD_R0, RAISE];
    backend.put_words(&back, &mut out);
    out
}

/// Stores r12 and CTR.
fn save_used(backend: &PowerPc64, out: &mut Vec<u8>) {
    // std r12; mfctr r12; std r12
    backend.put_words(&[std(12, GENERAL + 12 * 8), 0x7d89_02a6, std(12, CTR)], out);
}

/// Stores what the capture routine is passed, and makes CTR its address.
fn pass(backend: &PowerPc64, called: Called, out: &mut Vec<u8>) {
    // li r12, features
    let features = 0x3980_0000 | u32::from(PROCESSOR.load(Ordering::Relaxed));
    backend.put_words(&[features, std(12, FEATURES)], out);
    for (value, slot) in [(called.context, CONTEXT), (called.dispatch, DISPATCH)] {
        backend.put_r12(value, out);
        backend.put_words(&[std(12, slot)], out);
    }
    backend.put_r12(called.capture, out);
    // mtctr r12
    backend.put_words(&[0x7d89_03a6], out);
}

/// `std rs, offset(r1)`.
pub(super) const fn std(rs: u32, offset: u16) -> u32 {
    0xf801_0000 | rs << 21 | offset as u32
}

/// `ld rt, offset(r1)`.
pub(super) const fn ld(rt: u32, offset: u16) -> u32 {
    0xe801_0000 | rt << 21 | offset as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::disassemble;

    #[test]
    fn an_exit_stub_is_what_its_head_says() {
        let called = Called {
            context: 0x1122_3344_5566,
            capture: 0x7788_99aa_bbcc,
            dispatch: 0x7fff_8000,
        };
        for arch in [Arch::PowerPc64, Arch::PowerPc64Le, Arch::PowerPc64ElfV2] {
            let backend = PowerPc64::of(arch).unwrap();
            let resume = Resume::At(CodeAddr::new(0x2000));
            let bytes = assemble(backend, CodeAddr::new(0x1000), called, resume).unwrap();
            assert!(bytes.len() as u64 <= max_len(backend, &resume));
            let listing: Vec<_> = disassemble(arch, CodeAddr::new(0x1000), &bytes)
                .into_iter()
                .map(|line| line.text)
                .collect();
            let saved = [
                "stdu r1, -2000(r1)",
                "std r0, 1232(r1)",
                "mflr r0",
                "std r0, 1216(r1)",
            ];
            assert_eq!(listing[..4], saved);
            let tail = [
                "bctrl",
                "ld r0, 1216(r1)",
                "mtlr r0",
                "ld r0, 1232(r1)",
                "addi r1, r1, 2000",
                "b 0x2000",
            ];
            assert_eq!(listing[listing.len() - 6..], tail);
        }
        let far = Resume::At(CodeAddr::new(1 << 40));
        let of = |backend: &PowerPc64, moved: &[u32]| {
            let mut bytes = Vec::new();
            backend.put_words(moved, &mut bytes);
            let original = Resume::Original {
                addr: CodeAddr::new(0x2000),
                bytes: &bytes,
            };
            assemble(backend, CodeAddr::new(0x1000), called, original).unwrap()
        };
        // add; beq .+16; b .-8
        let moved = [0x7c64_2a14, 0x4182_0010, 0x4bff_fff8];
        let (v1, v2, little) = (of(&BIG_V1, &moved), of(&BIG_V2, &moved), of(&LITTLE, &moved));
        let swapped = little.chunks_exact(4).flat_map(|word| word.iter().rev().copied());
        assert_eq!(v2, swapped.collect::<Vec<_>>());
        // The frame has room for the header of either convention.
        assert_eq!(v2, v1);
        assert!(assemble(&LITTLE, CodeAddr::new(0x1000), called, far).is_err());
    }
}
