//! Calls and jumps of compiled code to functions: the instructions that a linker's branch
//! relocations fill.
//!
//! What a compiler wrote is changed in its operand only, so that a call stays a call and a
//! condition that condition. An operand that lies in one naturally aligned word is changed under
//! execution by one store; the others are x86-64's that cross a multiple of 8, SystemZ's that are
//! not at a multiple of 4, and RISC-V's pairs of instructions.

use alloc::vec::Vec;
use core::ops::Range;

use llvm_stackmaps::Endian;
use llvm_stackmaps::addr::CodeAddr;

use crate::Arch;

/// The bytes of the call or jump whose operand a relocation at `offset` fills, which adds `addend`
/// to its symbol; `None` if it fills something else, or has another target than the symbol.
#[must_use]
pub fn around(arch: Arch, bytes: &[u8], offset: usize, addend: i64) -> Option<Range<usize>> {
    let (range, plain) = arch.isa().call_around(bytes, offset)?;
    (addend == plain && range.end <= bytes.len()).then_some(range)
}

/// What relocations of calls, jumps and instructions that load an address add to the distance of
/// their field from the symbol: it counts from the end of the instruction on x86-64, from its start
/// on SystemZ, 2 bytes before the field.
#[must_use]
pub fn addend(arch: Arch) -> i64 {
    arch.isa().branch_addend()
}

/// The target of the call or jump at `addr`, which is all of `bytes`.
#[must_use]
pub fn target(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> Option<CodeAddr> {
    let distance = arch.isa().call_distance(bytes)?;
    Some(CodeAddr::new(addr.get().wrapping_add_signed(distance)))
}

/// Whether a PowerPC branch sets the link register.
#[must_use]
pub fn links(arch: Arch, bytes: &[u8]) -> bool {
    word(arch.endian(), bytes).is_some_and(|word| word & 1 != 0)
}

/// The same call or jump, but with the target `to`, if it reaches.
#[must_use]
pub fn retargeted(arch: Arch, addr: CodeAddr, bytes: &[u8], to: CodeAddr) -> Option<Vec<u8>> {
    let mut new = bytes.to_vec();
    arch.isa().set_call_distance(&mut new, to.distance_from(addr))?;
    Some(new)
}

/// The bytes of the call at `addr` that one store may change while threads execute it: its operand,
/// where that lies in one naturally aligned word.
#[must_use]
pub fn operand(arch: Arch, addr: CodeAddr, len: usize) -> Option<Range<usize>> {
    arch.isa().call_operand(addr, len)
}

/// The first word of these bytes.
pub(crate) fn word(endian: Endian, bytes: &[u8]) -> Option<u32> {
    let bytes = *bytes.first_chunk()?;
    Some(match endian {
        Endian::Big => u32::from_be_bytes(bytes),
        Endian::Little => u32::from_le_bytes(bytes),
    })
}

/// Writes the first word of these bytes.
pub(crate) fn set_word(endian: Endian, bytes: &mut [u8], word: u32) -> Option<()> {
    *bytes.first_chunk_mut()? = match endian {
        Endian::Big => word.to_be_bytes(),
        Endian::Little => word.to_le_bytes(),
    };
    Some(())
}

/// The distance, if it is a number of so many bits and a multiple of that.
pub(crate) fn in_reach(distance: i64, bits: u32, unit: i64) -> Option<i64> {
    let spare = 64 - bits;
    (distance << spare >> spare == distance && distance % unit == 0).then_some(distance)
}

/// The operand of a call that is one aligned word.
pub(crate) fn whole_word(addr: CodeAddr, len: usize) -> Option<Range<usize>> {
    (len == 4 && addr.get() % 4 == 0).then_some(0..4)
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

    /// Of each architecture: calls and jumps at 0x1000_0000 to 0x1000_0abc, as llvm-mc 19 encodes
    /// them, and where the relocation is.
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
    fn calls_are_read_and_retargeted() {
        let at = CodeAddr::new(0x1000_0000);
        for arch in ALL {
            for (bytes, offset, addend) in calls(arch) {
                assert_eq!(
                    around(arch, &bytes, offset, addend),
                    Some(0..bytes.len()),
                    "{arch} {bytes:02x?}"
                );
                assert_eq!(around(arch, &bytes, offset, addend + 8), None);
                let abc = CodeAddr::new(0x1000_0abc);
                assert_eq!(target(arch, at, &bytes), Some(abc), "{arch} {bytes:02x?}");
                assert_eq!(retargeted(arch, at, &bytes, abc), Some(bytes.clone()));
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
                    let new = retargeted(arch, at, &bytes, to).unwrap();
                    assert_eq!(target(arch, at, &new), Some(to), "{arch} {distance:#x}");
                    assert_eq!(around(arch, &new, offset, addend), Some(0..bytes.len()));
                }
                for distance in [lowest - 4, reach] {
                    let to = CodeAddr::new(0x1000_0000_u64.wrapping_add_signed(distance));
                    assert_eq!(retargeted(arch, at, &bytes, to), None, "{arch} {distance:#x}");
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
            assert_eq!(around(Arch::X86_64, bytes, 3, -4), None);
        }
        // ldr x0, .+8; larl %r1, .; auipc alone
        assert_eq!(around(Arch::AArch64, &[0x40, 0, 0, 0x58], 0, 0), None);
        assert_eq!(around(Arch::SystemZ, &[0xc0, 0x10, 0, 0, 0, 0], 2, 2), None);
        assert_eq!(
            around(Arch::RiscV64, &[0x97, 0x10, 0, 0, 0x13, 0, 0, 0], 0, 0),
            None
        );
        assert_eq!(around(Arch::X86_64, &[0xe8, 0, 0], 1, -4), None);
    }

    /// The rule once more: one store of an aligned word changes all of the operand.
    #[test]
    fn operands_in_one_word_are_found() {
        for arch in ALL {
            for (bytes, ..) in calls(arch) {
                for at in 0x1000..0x1010_u64 {
                    let found = operand(arch, CodeAddr::new(at), bytes.len());
                    let expected = match arch {
                        Arch::X86_64 => (at + bytes.len() as u64 - 4) % 8 <= 4,
                        Arch::SystemZ => at % 4 == 2,
                        _ => at % 4 == 0 && bytes.len() == 4,
                    };
                    assert_eq!(found.is_some(), expected, "{arch} {at:#x}");
                }
            }
        }
    }
}
