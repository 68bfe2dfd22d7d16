//! The bytes of one exit stub.
//!
//! ```text
//!     addi  sp, sp, -32          no register is free at a shadow
//!     sd    ra, 0(sp)
//!     sd    t0, 8(sp)
//!     auipc t0, data
//!     ld    ra, data + 8(t0)     capture
//!     ld    t0, data(t0)         context
//!     jalr  ra, 0(ra)            saves, calls the handler, restores, returns
//!     ld    t0, 8(sp)
//!     ld    ra, 0(sp)
//!     addi  sp, sp, 32
//!     ...                        resume
//!     .p2align 3
//! data: .quad context, capture
//! ```
//!
//! In a block the data is in front of all exit stubs, which are 48 bytes each, or 96 where they
//! execute what the site held.

use alloc::vec::Vec;

use crate::addr::CodeAddr;
use crate::deopt::exit_stub::{InBlock, RoomCode, stack_at};
use crate::deopt::{Error, Result, Resume};
use crate::engine::StackAt;
use crate::memory::BlockForm;
use patchpoint_asm::backend::Backend;
use patchpoint_asm::riscv64::RiscV64;

/// Bytes by which the exit stub lowers the stack pointer.
#[cfg(target_arch = "riscv64")]
pub(in crate::deopt) const BELOW_SITE: u64 = 32;

/// `addi sp, sp, -32`; `sd ra, 0(sp)`; `sd t0, 8(sp)`
const SAVE: [u32; 3] = [0xfe01_0113, 0x0011_3023, 0x0051_3423];
/// `auipc t0`; `ld ra, 0(t0)`; `ld t0, 0(t0)`, without their distances; `jalr ra, 0(ra)`
const DATA: u32 = 0x0000_0297;
const LOAD_CAPTURE: u32 = 0x0002_b083;
const LOAD_CONTEXT: u32 = 0x0002_b283;
const CALL: u32 = 0x0000_80e7;
/// `ld t0, 8(sp)`; `ld ra, 0(sp)`; `addi sp, sp, 32`
const RESTORE: [u32; 3] = [0x0081_3283, 0x0001_3083, 0x0201_0113];

/// The fields of [`StackAt`](crate::engine::StackAt): behind the first two of [`SAVE`] and the last
/// of [`RESTORE`].
pub(in crate::deopt) const STACK: [StackAt; 5] = [
    stack_at(0, 0, None),
    stack_at(4, 32, None),
    stack_at(8, 32, Some(0)),
    stack_at(36, 32, None),
    stack_at(40, 0, None),
];

/// In a block.
pub(in crate::deopt) const IN_BLOCK: InBlock = InBlock {
    form: BlockForm { shared: 16, room: 48 },
    moving: &[BlockForm { shared: 16, room: 96 }],
    around: 44,
    returns: 28,
    stack: &STACK,
    enter,
    jump: put_jump,
};

/// What is before the resumption, where the block's context and capture routine are at `shared`.
fn enter(code: &mut RoomCode<'_>, shared: CodeAddr) {
    // A distance in a block, which is far smaller than 2 GiB. Rooms and what they share are multiples of
    // 16 long, so that the distance is 4 more than one, and no upper part changes within 8 bytes of it.
    let distance = (shared.distance_from(code.next()) - 12) as u32;
    let call = call(distance).expect("one `auipc` reaches both words from a room");
    for word in SAVE.into_iter().chain(call).chain(RESTORE) {
        code.put(&word.to_le_bytes());
    }
}

fn put_jump(code: &mut RoomCode<'_>, to: CodeAddr) -> Option<()> {
    let jump = jump(code.next(), code.next(), to).ok()?;
    code.put_if_room(&jump)
}

/// The call with what is so far from its first instruction; `None` where one `auipc` does not reach
/// both words.
fn call(distance: u32) -> Option<[u32; 4]> {
    // The loads add signed numbers of 12 bits, and both have the same upper part.
    let upper = distance.wrapping_add(0x800) & !0xfff;
    let low = distance.wrapping_sub(upper);
    let capture = low.wrapping_add(8);
    ((capture as i32) < 0x800).then_some([
        DATA | upper,
        LOAD_CAPTURE | (capture << 20),
        LOAD_CONTEXT | (low << 20),
        CALL,
    ])
}

/// The instructions before the resumption.
const HEAD: u64 = 10 * 4;
/// Alignment, and two addresses.
const TAIL: u64 = 6 + 8 + 16;

/// A length that no exit stub with this resumption exceeds.
pub(in crate::deopt) fn max_len(resume: &Resume<'_>) -> u64 {
    let moved = match resume {
        Resume::At(_) => 4,
        Resume::Original { addr, bytes } => RiscV64.relocated_bound(*addr, bytes),
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
    let resume = match resume {
        Resume::At(to) => jump(at, resume_at, to)?,
        Resume::Original { addr, bytes } => RiscV64.relocate(resume_at, addr, bytes)?,
    };
    let end = HEAD as usize + resume.len();
    let data = data_at(at, end);
    let mut out = Vec::with_capacity(data + 16);
    put(&mut out, &SAVE);
    // An offset in an exit stub, which is far smaller than 2 GiB.
    let distance = data.wrapping_sub(out.len()) as u32;
    let call = call(distance).expect("the data is where one `auipc` reaches it");
    put(&mut out, &call);
    put(&mut out, &RESTORE);
    out.extend(resume);
    // Never executed; zeros are no instruction.
    out.resize(data, 0);
    out.extend(context.to_le_bytes());
    out.extend(capture.to_le_bytes());
    Ok(out)
}

/// Where the data is in an exit stub whose code ends at `end`: aligned, and with both words in
/// reach of one `auipc`.
fn data_at(at: CodeAddr, end: usize) -> usize {
    let data = end + (at.get().wrapping_add(end as u64).wrapping_neg() & 7) as usize;
    let from_auipc = data.wrapping_sub(4 * SAVE.len()) & 0xfff;
    match from_auipc {
        0x7f8..=0x7ff => data + 8,
        _ => data,
    }
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// A jump changes no register, so it has to reach by itself: 1 MiB.
fn jump(exit_stub: CodeAddr, at: CodeAddr, to: CodeAddr) -> Result<Vec<u8>> {
    let patchable_jump = RiscV64
        .plan_patchable_jump(at, crate::addr::Len::new(8))
        .ok()
        .filter(|patchable_jump| patchable_jump.addr == at)
        .and_then(|patchable_jump| RiscV64.jump(patchable_jump, to));
    let bytes = patchable_jump.ok_or(Error::ExitStubOutOfReach { exit_stub, to })?;
    Ok(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Arch;
    use crate::verify::disassemble;
    use alloc::string::String;

    #[test]
    fn an_exit_stub_keeps_every_register_but_through_the_stack() {
        for at in [0x7000_0000_1000, 0x7000_0000_1004] {
            let (at, to) = (CodeAddr::new(at), CodeAddr::new(at + 0x800));
            let exit_stub = assemble(at, 0x1122_3344_5566_7788, 0x99aa, Resume::At(to)).unwrap();
            assert!(exit_stub.len() as u64 <= max_len(&Resume::At(to)));
            let data = exit_stub.len() - 16;
            assert_eq!((at.get() + data as u64) % 8, 0);
            let texts: Vec<String> = disassemble(Arch::RiscV64, at, &exit_stub[..44])
                .into_iter()
                .map(|line| line.text)
                .collect();
            let expected = [
                "addi sp, sp, -32".into(),
                "sd ra, 0(sp)".into(),
                "sd t0, 8(sp)".into(),
                "auipc t0, 0x0".into(),
                alloc::format!("ld ra, {}(t0)", data - 12 + 8),
                alloc::format!("ld t0, {}(t0)", data - 12),
                "jalr ra, 0(ra)".into(),
                "ld t0, 8(sp)".into(),
                "ld ra, 0(sp)".into(),
                "addi sp, sp, 32".into(),
                alloc::format!("jal zero, {:#x}", to.get()),
            ];
            assert_eq!(texts, expected);
            let (context, capture) = exit_stub[data..].split_at(8);
            assert_eq!(context, 0x1122_3344_5566_7788_u64.to_le_bytes());
            assert_eq!(capture, 0x99aa_u64.to_le_bytes());
        }
    }

    /// `auipc` and the loads add up, whatever the length of what is between.
    #[test]
    fn the_data_is_found_from_any_distance() {
        for nops in (1..1200).chain(4000..4010) {
            let at = CodeAddr::new(0x10_0000);
            let original = [0x13, 0, 0, 0].repeat(nops);
            let addr = CodeAddr::new(0x10_8000);
            let bytes = &original;
            let exit_stub = assemble(at, 1, 2, Resume::Original { addr, bytes }).unwrap();
            let word = |index: usize| u32::from_le_bytes(exit_stub[4 * index..][..4].try_into().unwrap());
            let base = 12 + i64::from((word(3) & !0xfff) as i32);
            let data = exit_stub.len() as i64 - 16;
            assert_eq!(base + i64::from(word(4) as i32 >> 20), data + 8);
            assert_eq!(base + i64::from(word(5) as i32 >> 20), data);
        }
    }

    #[test]
    fn an_exit_stub_resumes_within_1_mib() {
        let at = CodeAddr::new(0x7000_0000_1000);
        let resume = |distance: i64| {
            let to = CodeAddr::new((at.get() + HEAD).wrapping_add_signed(distance));
            assemble(at, 0, 0, Resume::At(to))
        };
        for distance in [0, 2, (1 << 20) - 2, -(1 << 20)] {
            assert!(resume(distance).is_ok(), "{distance}");
        }
        for distance in [1, 1 << 20, -(1 << 20) - 2] {
            assert!(
                matches!(resume(distance), Err(Error::ExitStubOutOfReach { .. })),
                "{distance}"
            );
        }
    }
}
