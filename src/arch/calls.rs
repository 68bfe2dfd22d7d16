//! Calls and jumps of compiled code to functions: the instructions that a linker's branch relocations fill.
//!
//! What a compiler wrote is changed in its operand only, so that a call stays a call and a condition that condition. An
//! operand that lies in one naturally aligned word is changed under execution by one store; the others are
//! x86-64's that cross a multiple of 8, SystemZ's that are not at a multiple of 4, and RISC-V's pairs of instructions.
//!
//! Encodings: Intel SDM volume 2 (CALL, JMP, Jcc); DDI 0487, C6.2 (B, BL); Power ISA, book I, 2.4 (b, bl); z/Architecture
//! Principles of Operation, chapter 7 (BRASL, BRCL); RISC-V manual, volume I, 2.5 (JAL, AUIPC with JALR).

use alloc::vec::Vec;
use core::ops::Range;

use super::Arch;
use crate::addr::CodeAddr;

/// The operand of a RISC-V pair: the upper part of AUIPC, the lower one of JALR.
const UPPER: u32 = 0xffff_f000;
const LOWER: u32 = 0xfff0_0000;
/// AArch64's 26 bits, PowerPC's 24.
const IMM26: u32 = 0x03ff_ffff;
const LI: u32 = 0x03ff_fffc;

impl Arch {
    /// The bytes of the call or jump whose operand a relocation at `offset` fills, which adds `addend` to its symbol; `None` if
    /// it fills something else, or leads elsewhere than to the symbol.
    pub(crate) fn call_around(self, bytes: &[u8], offset: usize, addend: i64) -> Option<Range<usize>> {
        let word = |at: usize| self.word(bytes.get(at..)?);
        let before = |count: usize| bytes.get(offset.checked_sub(count)?).copied();
        let (start, len, plain) = match self {
            Self::X86_64 => match (before(2), before(1)?) {
                (_, 0xe8 | 0xe9) => (offset - 1, 5, -4),
                (Some(0x0f), 0x80..=0x8f) => (offset - 2, 6, -4),
                _ => return None,
            },
            Self::SystemZ => match (before(2)?, before(1)?) {
                (0xc0, low) if matches!(low & 15, 4 | 5) => (offset - 2, 6, 2),
                _ => return None,
            },
            Self::AArch64 if word(offset)? >> 26 & 0x1f == 5 => (offset, 4, 0),
            Self::PowerPc64 | Self::PowerPc64Le | Self::PowerPc64ElfV2
                if word(offset)? & 0xfc00_0002 == 0x4800_0000 =>
            {
                (offset, 4, 0)
            }
            Self::RiscV64 if word(offset)? & 0x7f == 0x6f => (offset, 4, 0),
            Self::RiscV64 if word(offset)? & 0x7f == 0x17 && word(offset + 4)? & 0x707f == 0x67 => {
                (offset, 8, 0)
            }
            _ => return None,
        };
        let range = start..start + len;
        (addend == plain && range.end <= bytes.len()).then_some(range)
    }

    /// Where the call or jump at `addr`, which is all of `bytes`, leads.
    pub(crate) fn call_target(self, addr: CodeAddr, bytes: &[u8]) -> Option<CodeAddr> {
        let distance = match self {
            Self::X86_64 => {
                let (_, operand) = bytes.split_last_chunk::<4>()?;
                i64::from(i32::from_le_bytes(*operand)) + bytes.len() as i64
            }
            Self::SystemZ => {
                let (_, operand) = bytes.split_last_chunk::<4>()?;
                i64::from(i32::from_be_bytes(*operand)) * 2
            }
            Self::AArch64 => i64::from((self.word(bytes)? << 6) as i32 >> 4),
            Self::PowerPc64 | Self::PowerPc64Le | Self::PowerPc64ElfV2 => {
                i64::from(((self.word(bytes)? & LI) << 6) as i32 >> 6)
            }
            Self::RiscV64 => {
                let first = self.word(bytes)?;
                match self.word(bytes.get(4..)?) {
                    Some(second) => i64::from((first & UPPER) as i32) + i64::from(second as i32 >> 20),
                    None => jal_distance(first),
                }
            }
        };
        Some(CodeAddr::new(addr.get().wrapping_add_signed(distance)))
    }

    /// Whether a PowerPC branch sets the link register.
    pub(crate) fn call_links(self, bytes: &[u8]) -> bool {
        self.word(bytes).is_some_and(|word| word & 1 != 0)
    }

    /// The same call or jump, but leading to `to`, if it reaches.
    pub(crate) fn call_to(self, addr: CodeAddr, bytes: &[u8], to: CodeAddr) -> Option<Vec<u8>> {
        let distance = to.distance_from(addr);
        let mut new = bytes.to_vec();
        match self {
            Self::X86_64 => {
                let operand = i32::try_from(distance.checked_sub(bytes.len() as i64)?).ok()?;
                *new.last_chunk_mut::<4>()? = operand.to_le_bytes();
            }
            Self::SystemZ => {
                let operand = i32::try_from(distance / 2).ok().filter(|_| distance % 2 == 0)?;
                *new.last_chunk_mut::<4>()? = operand.to_be_bytes();
            }
            Self::AArch64 => {
                let operand = in_reach(distance, 28, 4)? as u32 >> 2 & IMM26;
                self.set_word(&mut new, self.word(bytes)? & !IMM26 | operand)?;
            }
            Self::PowerPc64 | Self::PowerPc64Le | Self::PowerPc64ElfV2 => {
                let operand = in_reach(distance, 26, 4)? as u32 & LI;
                self.set_word(&mut new, self.word(bytes)? & !LI | operand)?;
            }
            Self::RiscV64 => self.riscv_to(&mut new, distance)?,
        }
        Some(new)
    }

    fn riscv_to(self, new: &mut [u8], distance: i64) -> Option<()> {
        let first = self.word(new)?;
        let Some(second) = self.word(new.get(4..)?) else {
            let operand = jal_operand(in_reach(distance, 21, 2)?);
            return self.set_word(new, first & !UPPER | operand);
        };
        // The lower part is sign-extended.
        let upper = i32::try_from(distance.checked_add(0x800)?).ok()? as u32 & UPPER;
        let lower = (distance as u32).wrapping_sub(upper) << 20;
        self.set_word(new, first & !UPPER | upper)?;
        self.set_word(new.get_mut(4..)?, second & !LOWER | lower)
    }

    /// The bytes of the call at `addr` that one store may change while threads execute it: its operand, where that lies in one
    /// naturally aligned word.
    pub(crate) fn call_operand(self, addr: CodeAddr, len: usize) -> Option<Range<usize>> {
        let at = |offset: usize| addr.get().wrapping_add(offset as u64);
        match self {
            Self::X86_64 => {
                let start = len.checked_sub(4)?;
                (at(start) / 8 == at(len - 1) / 8).then_some(start..len)
            }
            Self::SystemZ => (at(2) % 4 == 0).then_some(2..6),
            Self::AArch64 | Self::PowerPc64 | Self::PowerPc64Le | Self::PowerPc64ElfV2 | Self::RiscV64 => {
                (len == 4 && at(0) % 4 == 0).then_some(0..4)
            }
        }
    }

    fn word(self, bytes: &[u8]) -> Option<u32> {
        let bytes = *bytes.first_chunk()?;
        Some(match self.is_big_endian() {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        })
    }

    fn set_word(self, bytes: &mut [u8], word: u32) -> Option<()> {
        *bytes.first_chunk_mut()? = match self.is_big_endian() {
            true => word.to_be_bytes(),
            false => word.to_le_bytes(),
        };
        Some(())
    }
}

/// The distance, if it is a number of so many bits and a multiple of that.
fn in_reach(distance: i64, bits: u32, unit: i64) -> Option<i64> {
    let spare = 64 - bits;
    (distance << spare >> spare == distance && distance % unit == 0).then_some(distance)
}

fn jal_distance(word: u32) -> i64 {
    let high = i64::from(word as i32 >> 31 << 20);
    high | i64::from(word & 0xf_f000 | (word >> 20 & 1) << 11 | (word >> 21 & 0x3ff) << 1)
}

fn jal_operand(distance: i64) -> u32 {
    let bits = distance as u32;
    (bits >> 20 & 1) << 31 | (bits >> 1 & 0x3ff) << 21 | (bits >> 11 & 1) << 20 | bits & 0xf_f000
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Arch; 7] = [
        Arch::X86_64,
        Arch::AArch64,
        Arch::PowerPc64,
        Arch::PowerPc64Le,
        Arch::PowerPc64ElfV2,
        Arch::SystemZ,
        Arch::RiscV64,
    ];

    /// Of each architecture: calls and jumps at 0x1000_0000 to 0x1000_0abc, as llvm-mc 19 encodes them, and where the
    /// relocation stands.
    fn calls(arch: Arch) -> Vec<(Vec<u8>, usize, i64)> {
        let of =
            |calls: &[(&[u8], usize, i64)]| calls.iter().map(|(b, at, a)| (b.to_vec(), *at, *a)).collect();
        match arch {
            Arch::X86_64 => of(&[
                // call, jmp, jne
                (&[0xe8, 0xb7, 0x0a, 0, 0], 1, -4),
                (&[0xe9, 0xb7, 0x0a, 0, 0], 1, -4),
                (&[0x0f, 0x85, 0xb6, 0x0a, 0, 0], 2, -4),
            ]),
            // bl, b
            Arch::AArch64 => of(&[(&[0xaf, 2, 0, 0x94], 0, 0), (&[0xaf, 2, 0, 0x14], 0, 0)]),
            Arch::PowerPc64Le => of(&[(&[0xbd, 0x0a, 0, 0x48], 0, 0), (&[0xbc, 0x0a, 0, 0x48], 0, 0)]),
            Arch::PowerPc64 | Arch::PowerPc64ElfV2 => {
                of(&[(&[0x48, 0, 0x0a, 0xbd], 0, 0), (&[0x48, 0, 0x0a, 0xbc], 0, 0)])
            }
            // brasl %r14, jg
            Arch::SystemZ => of(&[
                (&[0xc0, 0xe5, 0, 0, 0x05, 0x5e], 2, 2),
                (&[0xc0, 0xf4, 0, 0, 0x05, 0x5e], 2, 2),
            ]),
            // auipc ra, 1; jalr ra, -1348(ra). jal ra
            Arch::RiscV64 => of(&[
                (&[0x97, 0x10, 0, 0, 0xe7, 0x80, 0xc0, 0xab], 0, 0),
                (&[0xef, 0x00, 0xd0, 0x2b], 0, 0),
            ]),
        }
    }

    #[test]
    fn calls_are_read_and_led_elsewhere() {
        let at = CodeAddr::new(0x1000_0000);
        for arch in ALL {
            for (bytes, offset, addend) in calls(arch) {
                assert_eq!(
                    arch.call_around(&bytes, offset, addend),
                    Some(0..bytes.len()),
                    "{arch} {bytes:02x?}"
                );
                assert_eq!(arch.call_around(&bytes, offset, addend + 8), None);
                let target = CodeAddr::new(0x1000_0abc);
                assert_eq!(arch.call_target(at, &bytes), Some(target), "{arch} {bytes:02x?}");
                assert_eq!(arch.call_to(at, &bytes, target), Some(bytes.clone()));
                let reach: i64 = match (arch, bytes.len()) {
                    (Arch::AArch64, _) => 1 << 27,
                    (Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2, _) => 1 << 25,
                    (Arch::SystemZ, _) => 1 << 32,
                    (Arch::RiscV64, 4) => 1 << 20,
                    (Arch::RiscV64, _) => (1 << 31) - 0x800,
                    _ => (1 << 31) + bytes.len() as i64,
                };
                let lowest = match (arch, bytes.len()) {
                    (Arch::RiscV64, 8) => -(1 << 31) - 0x800,
                    (Arch::X86_64, len) => -(1 << 31) + len as i64,
                    _ => -reach,
                };
                for distance in [lowest, -4096, 0, 2044, 2048, 4096, reach - 4] {
                    let to = CodeAddr::new(0x1000_0000_u64.wrapping_add_signed(distance));
                    let new = arch.call_to(at, &bytes, to).unwrap();
                    assert_eq!(arch.call_target(at, &new), Some(to), "{arch} {distance:#x}");
                    assert_eq!(arch.call_around(&new, offset, addend), Some(0..bytes.len()));
                }
                for distance in [lowest - 4, reach] {
                    let to = CodeAddr::new(0x1000_0000_u64.wrapping_add_signed(distance));
                    assert_eq!(arch.call_to(at, &bytes, to), None, "{arch} {distance:#x}");
                }
            }
        }
    }

    #[test]
    fn other_operands_are_no_calls() {
        // lea rax, [rip + x]; call [rip + x]
        for bytes in [
            &[0x48, 0x8d, 0x05, 0, 0, 0, 0][..],
            &[0x90, 0xff, 0x15, 0, 0, 0, 0],
        ] {
            assert_eq!(Arch::X86_64.call_around(bytes, 3, -4), None);
        }
        // ldr x0, .+8; larl %r1, .; auipc alone
        assert_eq!(Arch::AArch64.call_around(&[0x40, 0, 0, 0x58], 0, 0), None);
        assert_eq!(Arch::SystemZ.call_around(&[0xc0, 0x10, 0, 0, 0, 0], 2, 2), None);
        assert_eq!(
            Arch::RiscV64.call_around(&[0x97, 0x10, 0, 0, 0x13, 0, 0, 0], 0, 0),
            None
        );
        assert_eq!(Arch::X86_64.call_around(&[0xe8, 0, 0], 1, -4), None);
    }

    /// The rule once more: one store of an aligned word changes all of the operand.
    #[test]
    fn operands_in_one_word_are_found() {
        for arch in ALL {
            for (bytes, ..) in calls(arch) {
                for at in 0x1000..0x1010_u64 {
                    let operand = arch.call_operand(CodeAddr::new(at), bytes.len());
                    let expected = match arch {
                        Arch::X86_64 => (at + bytes.len() as u64 - 4) % 8 <= 4,
                        Arch::SystemZ => at % 4 == 2,
                        _ => at % 4 == 0 && bytes.len() == 4,
                    };
                    assert_eq!(operand.is_some(), expected, "{arch} {at:#x}");
                }
            }
        }
    }
}
