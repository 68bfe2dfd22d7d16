//! The bytes of one exit stub.
//!
//! ```text
//!     lay  %r15, -160(%r15)      nothing is below the stack pointer; no condition changes
//!     stmg %r0, %r14, 0(%r15)
//!     larl %r2, data
//!     lg   %r1, 8(%r2)           capture
//!     lg   %r2, 0(%r2)           context
//!     basr %r14, %r1             saves the rest, calls the handler, restores, returns
//!     lmg  %r0, %r14, 0(%r15)
//!     lay  %r15, 160(%r15)
//!     ...                        resume
//!     .p2align 3
//! data: .quad context, capture
//! ```
//!
//! In a block the data is in front of all exit stubs, which are 56 bytes each, or 96 where they
//! execute what the site held.

use alloc::format;
use alloc::vec::Vec;

use crate::addr::CodeAddr;
use crate::deopt::exit_stub::{InBlock, RoomCode, stack_at};
use crate::deopt::{Result, Resume};
use crate::engine::StackAt;
use crate::memory::BlockForm;
use patchpoint_asm::backend::Backend;
use patchpoint_asm::systemz::SystemZ;

/// `lay %r15, -160(%r15); stmg %r0, %r14, 0(%r15)`
const SAVE: [u8; 12] = [
    0xe3, 0xf0, 0xff, 0x60, 0xff, 0x71, 0xeb, 0x0e, 0xf0, 0x00, 0x00, 0x24,
];
/// `larl %r2`, without its distance.
const DATA: [u8; 2] = [0xc0, 0x20];
/// `lg %r1, 8(%r2); lg %r2, 0(%r2); basr %r14, %r1`
const CALL: [u8; 14] = [
    0xe3, 0x10, 0x20, 0x08, 0x00, 0x04, 0xe3, 0x20, 0x20, 0x00, 0x00, 0x04, 0x0d, 0xe1,
];
/// `lmg %r0, %r14, 0(%r15); lay %r15, 160(%r15)`
const RESTORE: [u8; 12] = [
    0xeb, 0x0e, 0xf0, 0x00, 0x00, 0x04, 0xe3, 0xf0, 0xf0, 0xa0, 0x00, 0x71,
];
/// `brcl 15`, without its distance.
const JUMP: [u8; 2] = [0xc0, 0xf4];

/// The fields of [`StackAt`](crate::engine::StackAt): behind each of [`SAVE`] and of [`RESTORE`].
pub(in crate::deopt) const STACK: [StackAt; 5] = [
    stack_at(0, 0, None),
    stack_at(6, 160, None),
    stack_at(12, 160, Some(14 * 8)),
    stack_at(38, 160, None),
    stack_at(44, 0, None),
];

/// In a block.
pub(in crate::deopt) const IN_BLOCK: InBlock = InBlock {
    form: BlockForm { shared: 16, room: 56 },
    moving: &[BlockForm { shared: 16, room: 96 }],
    around: 50,
    returns: 32,
    stack: &STACK,
    enter,
    jump: put_jump,
};

/// What is before the resumption, where the block's context and capture routine are at `shared`.
fn enter(code: &mut RoomCode<'_>, shared: CodeAddr) {
    // A distance in a block, which is far smaller than 4 GiB.
    let data = ((shared.distance_from(code.next()) - 12) / 2) as i32;
    code.put(&SAVE);
    code.put(&DATA);
    code.put(&data.to_be_bytes());
    code.put(&CALL);
    code.put(&RESTORE);
}

fn put_jump(code: &mut RoomCode<'_>, to: CodeAddr) -> Option<()> {
    let distance = to.distance_from(code.next());
    let halfwords = i32::try_from(distance / 2).ok().filter(|_| distance % 2 == 0)?;
    let [a, b, c, d] = halfwords.to_be_bytes();
    code.put_if_room(&[JUMP[0], JUMP[1], a, b, c, d])
}

const HEAD: u64 = 12 + 6 + 14 + 12;
/// `llilf %r1; iihf %r1; br %r1`
const LONGEST_JUMP: u64 = 6 + 6 + 2;
/// Alignment, and two addresses.
const TAIL: u64 = 7 + 16;

/// A length that no exit stub with this resumption exceeds.
pub(in crate::deopt) fn max_len(resume: &Resume<'_>) -> u64 {
    let moved = match resume {
        Resume::At(_) => LONGEST_JUMP,
        Resume::Original { addr, bytes } => SystemZ.relocated_bound(*addr, bytes),
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
    if at.get() % 2 != 0 {
        let reason = format!("no instruction can be at {at}");
        return Err(patchpoint_asm::Error::Relocation { addr: at, at, reason }.into());
    }
    let resume_at = CodeAddr::new(at.get().wrapping_add(HEAD));
    let resume = match resume {
        Resume::At(to) => jump(resume_at, to),
        Resume::Original { addr, bytes } => SystemZ.relocate(resume_at, addr, bytes)?,
    };
    let end = HEAD as usize + resume.len();
    let data = end + padding(at, end);
    let mut out = Vec::with_capacity(data + 16);
    out.extend(SAVE);
    let halfwords = (data - SAVE.len()) as u32 / 2;
    out.extend(DATA);
    out.extend(halfwords.to_be_bytes());
    out.extend(CALL);
    out.extend(RESTORE);
    out.extend(resume);
    // Never executed; zeros are no instruction.
    out.resize(data, 0);
    out.extend(context.to_be_bytes());
    out.extend(capture.to_be_bytes());
    Ok(out)
}

/// Bytes up to the next multiple of 8 from `len` bytes after `at`.
fn padding(at: CodeAddr, len: usize) -> usize {
    (at.get().wrapping_add(len as u64).wrapping_neg() & 7) as usize
}

/// A jump to the end of a site, where r1 is free.
fn jump(at: CodeAddr, to: CodeAddr) -> Vec<u8> {
    let mut out = Vec::new();
    if let Ok(halfwords) = i32::try_from(to.distance_from(at) / 2) {
        out.extend(JUMP);
        out.extend(halfwords.to_be_bytes());
    } else {
        let [a, b, c, d, rest @ ..] = to.get().to_be_bytes();
        out.extend([0xc0, 0x1f]);
        out.extend(rest);
        out.extend([0xc0, 0x18, a, b, c, d]);
        out.extend([0x07, 0xf1]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    const AT: u64 = 0x10_0000_0004;

    fn lines(resume: Resume<'_>, len: usize) -> (Vec<String>, Vec<u8>) {
        let exit_stub = assemble(CodeAddr::new(AT), 0x1122_3344_5566_7788, 0x99aa, resume).unwrap();
        assert!(exit_stub.len() as u64 <= max_len(&resume));
        let code = crate::verify::disassemble(crate::arch::Arch::SystemZ, CodeAddr::new(AT), &exit_stub);
        (
            code.into_iter().take(len).map(|line| line.text).collect(),
            exit_stub,
        )
    }

    #[test]
    fn an_exit_stub_saves_calls_restores_and_resumes() {
        let (lines, exit_stub) = lines(Resume::At(CodeAddr::new(0x10_0000_1000)), 9);
        assert_eq!(
            lines,
            [
                "lay %r15, -160(%r15)",
                "stmg %r0, %r14, 0(%r15)",
                "larl %r2, 0x1000000038",
                "lg %r1, 8(%r2)",
                "lg %r2, 0(%r2)",
                "basr %r14, %r1",
                "lmg %r0, %r14, 0(%r15)",
                "lay %r15, 160(%r15)",
                "brcl 15, 0x1000001000"
            ]
        );
        assert_eq!(exit_stub.len(), 0x34 + 16);
        assert_eq!(exit_stub[0x34..0x3c], 0x1122_3344_5566_7788u64.to_be_bytes());
        assert_eq!(exit_stub[0x3c..], 0x99aau64.to_be_bytes());
    }

    #[test]
    fn an_exit_stub_far_from_its_site_resumes_through_r1() {
        let (lines, _) = lines(Resume::At(CodeAddr::new(0x7fff_1234_5678)), 11);
        assert_eq!(
            lines[8..],
            ["llilf %r1, 305419896", "iihf %r1, 32767", "bcr 15, %r1"]
        );
    }

    #[test]
    fn an_exit_stub_executes_what_its_site_held() {
        // brc 8, .+16
        let original = Resume::Original {
            addr: CodeAddr::new(0x10_0000_1000),
            bytes: &[0xa7, 0x84, 0, 8],
        };
        let (lines, _) = lines(original, 10);
        assert_eq!(lines[8..], ["brcl 8, 0x1000001010", "brcl 15, 0x1000001004"]);
        let odd = assemble(CodeAddr::new(1), 0, 0, Resume::At(CodeAddr::new(2)));
        assert!(matches!(
            odd,
            Err(crate::deopt::Error::Assemble(
                patchpoint_asm::Error::Relocation { .. }
            ))
        ));
    }
}
