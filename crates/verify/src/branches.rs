//! Direct branches of whole functions: where code of any kind may continue, as its branch instructions say.
//!
//! The checker's decoders know what sequences are made of. A function holds more than that, floating point for example, so
//! this scanner knows only the length of instructions and which of them branch to an address that they name; whatever
//! else stands there is passed over.
//!
//! # What is found
//!
//! Jumps, conditional branches, calls, and on RISC-V pairs of `auipc` and `jalr`. Not found are branches through a
//! register or memory: jump tables, computed gotos, landing pads of exceptions.
//!
//! # Cost
//!
//! Linear in the number of bytes. On x86-64 no function is decoded that cannot hold a wanted branch: first every byte is
//! looked at as if a branch started there, which is cheap and finds too many, never too few.
//!
//! Encodings: Arm ARM C4.1.88, Power ISA v3.1 2.4, RISC-V unprivileged ISA 2.5 and 26, z/Architecture Principles of
//! Operation (general instructions, branch-relative), Intel SDM volume 2, appendix A.

use alloc::vec::Vec;

use iced_x86::{Decoder, DecoderOptions, OpKind};

use llvm_stackmaps::addr::CodeAddr;
use patchpoint_isa::Arch;

/// A branch to an address that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The address of its instruction.
    pub from: CodeAddr,
    /// The address of its target.
    pub to: CodeAddr,
}

/// Appends the direct branches with a wanted target that stand in the code of a function.
pub fn branches_to(
    arch: Arch,
    addr: CodeAddr,
    code: &[u8],
    wanted: impl Fn(u64) -> bool,
    found: &mut Vec<Branch>,
) {
    let start = addr.get();
    let mut note = |at: usize, to: u64| {
        if wanted(to) {
            found.push(Branch {
                from: CodeAddr::new(start.wrapping_add(at as u64)),
                to: CodeAddr::new(to),
            });
        }
    };
    match arch {
        Arch::X86_64 => {
            if x86_64::may_branch_to(start, code, &wanted) {
                x86_64::branches(start, code, note);
            }
        }
        Arch::AArch64 => words(code, u32::from_le_bytes, |at, word| {
            if let Some(distance) = aarch64(word) {
                note(at, target(start, at, distance));
            }
            4
        }),
        Arch::PowerPc64Le => words(code, u32::from_le_bytes, |at, word| {
            powerpc64(start, at, word, &mut note)
        }),
        Arch::PowerPc64 | Arch::PowerPc64ElfV2 => words(code, u32::from_be_bytes, |at, word| {
            powerpc64(start, at, word, &mut note)
        }),
        Arch::RiscV64 => riscv64::branches(start, code, note),
        Arch::SystemZ => systemz(code, |at, distance| note(at, target(start, at, distance))),
    }
}

/// What is `distance` bytes from the instruction at the offset `at`.
fn target(start: u64, at: usize, distance: i64) -> u64 {
    start.wrapping_add(at as u64).wrapping_add_signed(distance)
}

/// The low `bits` of a number, as a signed one.
const fn signed(value: u32, bits: u32) -> i64 {
    let unused = 32 - bits;
    ((value << unused) as i32 >> unused) as i64
}

/// Gives aligned words one after the other; says how far the next one is.
fn words(code: &[u8], word: impl Fn([u8; 4]) -> u32, mut each: impl FnMut(usize, u32) -> usize) {
    let mut at = 0;
    while let Some(bytes) = code.get(at..).and_then(|rest| rest.first_chunk()) {
        at += each(at, word(*bytes));
    }
}

/// The distance to which an A64 instruction branches, in bytes.
const fn aarch64(word: u32) -> Option<i64> {
    let words = if word & 0x7c00_0000 == 0x1400_0000 {
        // b, bl
        signed(word, 26)
    } else if word & 0xff00_0000 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 {
        // b.cond, bc.cond; cbz, cbnz
        signed(word >> 5, 19)
    } else if word & 0x7e00_0000 == 0x3600_0000 {
        // tbz, tbnz
        signed(word >> 5, 14)
    } else if word & 0x7e00_0000 == 0x7400_0000 {
        // cb<cc>, cbb<cc>, cbh<cc> (FEAT_CMPBR)
        signed(word >> 5, 9)
    } else {
        return None;
    };
    Some(words * 4)
}

/// Notes the target of a Power instruction, and returns its length.
fn powerpc64(start: u64, at: usize, word: u32, note: &mut impl FnMut(usize, u64)) -> usize {
    let distance = match word >> 26 {
        // The prefix of an instruction of eight bytes.
        1 => return 8,
        // b, bl; bc, bcl
        18 => signed(word >> 2, 24) * 4,
        16 => signed(word >> 2, 14) * 4,
        _ => return 4,
    };
    let is_absolute = word & 2 != 0;
    note(
        at,
        if is_absolute {
            distance as u64
        } else {
            target(start, at, distance)
        },
    );
    4
}

/// Gives the offset of each instruction of z/Architecture that branches, and its distance in bytes.
fn systemz(code: &[u8], mut note: impl FnMut(usize, i64)) {
    let mut at = 0;
    while let Some(rest) = code.get(at..) {
        let Some([first, second]) = rest.first_chunk() else {
            return;
        };
        let half = || rest.get(2..4).and_then(|half| half.try_into().ok());
        let short = || half().map(|half| i64::from(i16::from_be_bytes(half)));
        let distance = match (first, second & 15) {
            // With an empty mask these are nops.
            (0xa7 | 0xc0, 4) if second >> 4 == 0 => None,
            // brc, bras, brct, brctg; brxh, brxle
            (0xa7, 4..=7) | (0x84 | 0x85, _) => short(),
            // brcl, brasl; exrl, which executes what it points at; brcth
            (0xc0, 4 | 5) | (0xc6, 0) | (0xcc, 6) => {
                let word = rest.get(2..6).and_then(|word| word.try_into().ok());
                word.map(|word| i64::from(i32::from_be_bytes(word)))
            }
            // brxhg, brxlg; cgrj, clgrj; crj, clrj; cgij, clgij; cij, clij
            (0xec, _) => match rest.get(5) {
                Some(0x44 | 0x45 | 0x64 | 0x65 | 0x76 | 0x77 | 0x7c..=0x7f) => short(),
                _ => None,
            },
            _ => None,
        };
        if let Some(halves) = distance {
            note(at, halves * 2);
        }
        at += match first >> 6 {
            0 => 2,
            3 => 6,
            _ => 4,
        };
    }
}

/// The length of the RISC-V instruction that begins so, in bytes.
pub(super) const fn riscv64_len(half: u16) -> usize {
    if half & 3 != 3 {
        2
    } else if half & 0x1f != 0x1f {
        4
    } else if half & 0x3f == 0x1f {
        6
    } else {
        8
    }
}

mod riscv64 {
    use super::{riscv64_len, signed, target};

    /// Gives the offset of each instruction that branches, and its target.
    pub(super) fn branches(start: u64, code: &[u8], mut note: impl FnMut(usize, u64)) {
        let mut at = 0;
        // The `auipc` right before: its register, and the address that it holds.
        let mut upper: Option<(u32, u64)> = None;
        while let Some(half) = code.get(at..).and_then(|rest| rest.first_chunk()) {
            let half = u16::from_le_bytes(*half);
            let word = code.get(at..).and_then(|rest| rest.first_chunk());
            let word = word.map_or(half.into(), |word| u32::from_le_bytes(*word));
            let before = upper.take();
            let len = riscv64_len(half);
            if len == 2 {
                if let Some(distance) = compressed(half.into()) {
                    note(at, target(start, at, distance));
                } else if let (Some((register, base)), 0x8002 | 0x9002) = (before, half & 0xf07f) {
                    // c.jr, c.jalr
                    if u32::from(half >> 7 & 31) == register {
                        note(at, base);
                    }
                }
            } else if len == 4 {
                match word & 0x7f {
                    0x6f => note(at, target(start, at, jal(word))),
                    0x63 => note(at, target(start, at, conditional(word))),
                    0x17 => {
                        let base = target(start, at, i64::from((word & 0xffff_f000) as i32));
                        upper = Some((word >> 7 & 31, base));
                    }
                    0x67 => match before {
                        Some((register, base)) if word >> 15 & 31 == register => {
                            note(at, base.wrapping_add_signed(signed(word >> 20, 12)) & !1);
                        }
                        _ => {}
                    },
                    _ => {}
                }
            }
            at += len;
        }
    }

    const fn bits(word: u32, from: u32, count: u32, to: u32) -> u32 {
        (word >> from & ((1 << count) - 1)) << to
    }

    const fn jal(word: u32) -> i64 {
        let distance =
            bits(word, 31, 1, 20) | bits(word, 12, 8, 12) | bits(word, 20, 1, 11) | bits(word, 21, 10, 1);
        signed(distance, 21)
    }

    const fn conditional(word: u32) -> i64 {
        let distance =
            bits(word, 31, 1, 12) | bits(word, 7, 1, 11) | bits(word, 25, 6, 5) | bits(word, 8, 4, 1);
        signed(distance, 13)
    }

    /// c.j; c.beqz, c.bnez
    const fn compressed(half: u32) -> Option<i64> {
        match half & 0xe003 {
            0xa001 => {
                let distance = bits(half, 12, 1, 11)
                    | bits(half, 11, 1, 4)
                    | bits(half, 9, 2, 8)
                    | bits(half, 8, 1, 10)
                    | bits(half, 7, 1, 6)
                    | bits(half, 6, 1, 7)
                    | bits(half, 3, 3, 1)
                    | bits(half, 2, 1, 5);
                Some(signed(distance, 12))
            }
            0xc001 | 0xe001 => {
                let distance = bits(half, 12, 1, 8)
                    | bits(half, 10, 2, 3)
                    | bits(half, 5, 2, 6)
                    | bits(half, 3, 2, 1)
                    | bits(half, 2, 1, 5);
                Some(signed(distance, 9))
            }
            _ => None,
        }
    }
}

mod x86_64 {
    use super::{Decoder, DecoderOptions, OpKind};

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
    pub(super) fn may_branch_to(start: u64, code: &[u8], wanted: &impl Fn(u64) -> bool) -> bool {
        let near = |at: usize| -> Option<u64> {
            let distance = code.get(at..)?.first_chunk()?;
            let after = start.wrapping_add(at as u64 + 4);
            Some(after.wrapping_add_signed(i32::from_le_bytes(*distance).into()))
        };
        code.iter().enumerate().any(|(at, byte)| {
            let to = match STARTS.get(usize::from(*byte)) {
                None | Some(Start::Nothing) => return false,
                Some(Start::Short) => code.get(at + 1).map(|distance| {
                    let after = start.wrapping_add(at as u64 + 2);
                    after.wrapping_add_signed((*distance as i8).into())
                }),
                Some(Start::Near) => near(at + 1),
                Some(Start::Two) => match (byte, code.get(at + 1)) {
                    (0x0f, Some(0x80..=0x8f)) | (0xc7, Some(0xf8)) => near(at + 2),
                    _ => return false,
                },
            };
            to.is_some_and(wanted)
        })
    }

    /// Gives the offset of each instruction that branches, and its target. A byte with which no instruction begins is passed
    /// over.
    pub(super) fn branches(start: u64, code: &[u8], mut note: impl FnMut(usize, u64)) {
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
}

#[cfg(test)]
mod tests;
