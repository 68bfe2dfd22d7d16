//! Direct branches of whole functions (Intel SDM volume 2, appendix A).

use iced_x86::{Decoder, DecoderOptions, OpKind};

/// What may follow a byte, if a branch starts there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Nothing,
    /// A distance of one byte.
    Short,
    /// A distance of four.
    Near,
    /// A second byte of the opcode, which decides.
    Two,
}

static STARTS: [Start; 256] = {
    let mut starts = [Start::Nothing; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::indexing_slicing, reason = "below the length")]
        {
            starts[byte] = match byte {
                // jcc; loopne, loope, loop, jrcxz; jmp
                0x70..=0x7f | 0xe0..=0xe3 | 0xeb => Start::Short,
                // call, jmp
                0xe8 | 0xe9 => Start::Near,
                // jcc; xbegin
                0x0f | 0xc7 => Start::Two,
                _ => Start::Nothing,
            };
        }
        byte += 1;
    }
    starts
};

/// Whether a branch to a wanted target may start at any of the bytes: surely not, if this is false.
fn may_branch_to(start: u64, code: &[u8], wanted: &impl Fn(u64) -> bool) -> bool {
    // With most bytes none starts: what follows one is not looked at in this loop.
    code.iter()
        .enumerate()
        .any(|(at, byte)| match STARTS.get(usize::from(*byte)) {
            None | Some(Start::Nothing) => false,
            Some(first) => target_at(start, code, at, *first).is_some_and(wanted),
        })
}

/// Where the branch goes that may start at an offset.
#[inline(never)]
fn target_at(start: u64, code: &[u8], at: usize, first: Start) -> Option<u64> {
    let near = |at: usize| -> Option<u64> {
        let distance = code.get(at..)?.first_chunk()?;
        let after = start.wrapping_add(at as u64 + 4);
        Some(after.wrapping_add_signed(i32::from_le_bytes(*distance).into()))
    };
    match first {
        Start::Nothing => None,
        Start::Short => code.get(at + 1).map(|distance| {
            let after = start.wrapping_add(at as u64 + 2);
            after.wrapping_add_signed((*distance as i8).into())
        }),
        Start::Near => near(at + 1),
        Start::Two => match (code.get(at), code.get(at + 1)) {
            (Some(0x0f), Some(0x80..=0x8f)) | (Some(0xc7), Some(0xf8)) => near(at + 2),
            _ => None,
        },
    }
}

/// Gives the offset of each instruction that branches, and its target, if one of them may be
/// wanted.
pub(crate) fn branches(start: u64, code: &[u8], wanted: &impl Fn(u64) -> bool, note: impl FnMut(usize, u64)) {
    if may_branch_to(start, code, wanted) {
        decoded(start, code, note);
    }
}

/// Gives the offset of each instruction that branches, and its target. A byte with which no
/// instruction begins is passed over.
fn decoded(start: u64, code: &[u8], mut note: impl FnMut(usize, u64)) {
    let mut at = 0;
    'next: while let Some(rest) = code.get(at..).filter(|rest| !rest.is_empty()) {
        let ip = start.wrapping_add(at as u64);
        let mut decoder = Decoder::with_ip(64, rest, ip, DecoderOptions::NONE);
        while decoder.can_decode() {
            let offset = at + decoder.position();
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                at = offset + 1;
                continue 'next;
            }
            if instruction.op0_kind() == OpKind::NearBranch64 {
                note(offset, instruction.near_branch_target());
            }
        }
        return;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::{decoded, may_branch_to};

    /// What is looked at first finds every branch that decoding finds, and spares decoding where
    /// there is none.
    #[test]
    fn no_branch_is_missed_where_nothing_is_decoded() {
        let start = 0x4000_0000;
        let mut random = 0x1234_5678_9abc_def1_u64;
        let mut step = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for _ in 0..2000 {
            let code: Vec<u8> = (0..40).map(|_| step() as u8).collect();
            decoded(start, &code, |_, to| {
                assert!(may_branch_to(start, &code, &|wanted| wanted == to));
            });
        }
        let code = [0x90, 0xe9, 4, 0, 0, 0, 0xeb, 0x10, 0x90];
        assert!(!may_branch_to(start, &code, &|to| to == start + 1));
    }
}
