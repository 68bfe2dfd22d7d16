//! The registers in which compiled code holds values, by DWARF number: written from the ABIs, not
//! from the assemblers' tables.

use core::ops::RangeInclusive;

use crate::arch::Arch;

/// Where an architecture's compiled code holds values.
#[derive(Debug)]
pub(super) struct ForValues {
    /// General registers that the register allocator gives to values.
    pub(super) general: &'static [u16],
    /// Registers of floating-point numbers or vectors.
    pub(super) vectors: RangeInclusive<u16>,
    /// The frame pointer, or what stands for it, and the stack pointer.
    pub(super) frame: [u16; 2],
    /// Numbers up to this one are registers, or gaps between them.
    pub(super) last: u16,
}

impl ForValues {
    pub(super) fn of(arch: Arch) -> Self {
        match arch {
            Arch::AArch64 => Self {
                general: &[
                    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 19, 20, 21, 22, 23, 24, 25, 26, 27,
                    28,
                ],
                vectors: 64..=95,
                frame: [29, 31],
                last: 96,
            },
            Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => Self {
                general: &[
                    3, 4, 5, 6, 7, 8, 9, 10, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
                    30,
                ],
                vectors: 32..=63,
                frame: [31, 1],
                last: 108,
            },
            Arch::SystemZ => Self {
                general: &[2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13],
                vectors: 16..=31,
                frame: [11, 15],
                last: 84,
            },
            Arch::RiscV64 => Self {
                general: &[
                    5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,
                    29,
                ],
                vectors: 32..=63,
                frame: [8, 2],
                last: 64,
            },
            _ => Self {
                general: &[0, 1, 2, 3, 4, 5, 8, 9, 10, 12, 13, 14, 15],
                vectors: 17..=32,
                frame: [6, 7],
                last: 33,
            },
        }
    }
}
