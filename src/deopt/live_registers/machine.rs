//! What live-register exit stubs need of each architecture beside the operations of sequences: the
//! stack pointer, and whole vector registers.
//!
//! Sources: Intel SDM volume 2 (movups, vmovups); Arm DDI 0487, C6 and C7; Power ISA 3.1B, books I;
//! z/Architecture Principles of Operation; RISC-V Unprivileged ISA 2.4 and 12.

use alloc::vec::Vec;

use crate::addr::DwarfReg;
use crate::arch::Arch;
use patchpoint_asm::powerpc64::{LITTLE, PowerPc64};

/// One architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine(Arch);

/// Whether a register is stored or loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Store,
    Load,
}

impl Direction {
    /// The one of two words.
    fn pick<T>(self, store: T, load: T) -> T {
        match self {
            Self::Store => store,
            Self::Load => load,
        }
    }
}

impl Machine {
    pub(super) const fn of(arch: Arch) -> Self {
        Self(arch)
    }

    /// The bytes at the stack pointer of a call that belong to whoever is called.
    pub(super) const fn header(self) -> u32 {
        match self.0 {
            Arch::X86_64 | Arch::AArch64 | Arch::RiscV64 => 0,
            // Register save area: ELF ABI, s390x Supplement, section 1.2.2.
            Arch::SystemZ => 160,
            // Header and parameter save area of ELFv1, which are the larger ones.
            Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => 112,
        }
    }

    /// The bytes of an argument or result in a floating-point register that are saved.
    pub(super) const fn float_size(self) -> u16 {
        match self.0 {
            Arch::X86_64 | Arch::AArch64 => 16,
            _ => 8,
        }
    }

    /// The bytes that a C function preserves of a register that is not one of those that it may
    /// change. On AArch64, SystemZ and PowerPC64 (f14 to f31, which are halves of VSX registers) a
    /// vector register keeps a `double`; on PowerPC64 v20 to v31 and the condition fields cr2 to
    /// cr4 are kept whole.
    pub(super) fn preserved(self, reg: DwarfReg) -> u16 {
        match (self.0, reg.get()) {
            (Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2, 77..=108) => 16,
            (Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2, 70..=72) => 4,
            // Registers of which nothing is known here keep nothing.
            _ => self.slot(reg, 1).map_or(0, |_| 8),
        }
    }

    /// The bytes of the slot for `size` bytes of a register; `None` if it cannot be saved.
    pub(super) fn slot(self, reg: DwarfReg, size: u16) -> Option<u16> {
        let steps: &[u16] = match (self.0, reg.get()) {
            (Arch::X86_64, 0..=15) | (Arch::AArch64, 0..=30) => &[8],
            (Arch::X86_64, 17..=32) => &[16, 32, 64],
            // xmm16 to xmm31 exist only with their 64 bytes.
            (Arch::X86_64, 67..=82) => &[64],
            (Arch::AArch64, 64..=95) => &[8, 16],
            (Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2, 0..=63) => &[8],
            (Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2, 77..=108) => &[16],
            (Arch::SystemZ, 0..=15) => &[8],
            (Arch::SystemZ, 16..=31) => &[8, 16],
            (Arch::RiscV64, 1..=63) => &[8],
            _ => &[],
        };
        steps.iter().copied().find(|step| *step >= size)
    }

    /// Whether this is no general register.
    pub(super) fn is_vector(self, reg: DwarfReg) -> bool {
        let first = match self.0 {
            Arch::X86_64 | Arch::SystemZ => 16,
            Arch::AArch64 | Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 | Arch::RiscV64 => 32,
        };
        reg.get() >= first
    }

    /// Lowers the stack pointer, by a multiple of 16 below 2 KiB.
    pub(super) fn lower_stack(self, by: u32, out: &mut Vec<u8>) {
        match self.0 {
            // stdu r1, -by(r1): the back chain, too
            Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => {
                self.word(0xf821_0001 | by.wrapping_neg() & 0xfff0, out)
            }
            _ => self.move_stack(-(by as i32), out),
        }
    }

    /// Raises it.
    pub(super) fn raise_stack(self, by: u32, out: &mut Vec<u8>) {
        self.move_stack(by as i32, out);
    }

    fn move_stack(self, by: i32, out: &mut Vec<u8>) {
        let size = by.unsigned_abs();
        match self.0 {
            // lea rsp, [rsp + by]
            Arch::X86_64 => {
                out.extend([0x48, 0x8d, 0xa4, 0x24]);
                out.extend(by.to_le_bytes());
            }
            // sub, add sp, sp, #size
            Arch::AArch64 if by < 0 => self.word(0xd100_03ff | size << 10, out),
            Arch::AArch64 => self.word(0x9100_03ff | size << 10, out),
            // addi r1, r1, by
            Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => {
                self.word(0x3821_0000 | by as u32 & 0xffff, out)
            }
            // lay %r15, by(%r15)
            Arch::SystemZ => {
                let [_, high, middle, low] = by.to_be_bytes();
                out.extend([0xe3, 0xf0, 0xf0 | middle & 15, low, high << 4 | middle >> 4, 0x71]);
            }
            // addi sp, sp, by
            Arch::RiscV64 => self.word((by as u32) << 20 | 0x0001_0113, out),
        }
    }

    /// Stores the low bytes of a vector register at the stack pointer plus `at`.
    pub(super) fn store(self, reg: DwarfReg, size: u16, at: u32, out: &mut Vec<u8>) {
        self.vector(Direction::Store, reg, size, at, out);
    }

    /// Loads them. The rest of the register is lost.
    pub(super) fn load(self, reg: DwarfReg, size: u16, at: u32, out: &mut Vec<u8>) {
        self.vector(Direction::Load, reg, size, at, out);
    }

    fn vector(self, way: Direction, reg: DwarfReg, size: u16, at: u32, out: &mut Vec<u8>) {
        let reg = u32::from(reg.get());
        match self.0 {
            Arch::X86_64 => x86_64(way, reg, size, at, out),
            // str, ldr of d and q
            Arch::AArch64 => {
                let n = reg.wrapping_sub(64);
                match size {
                    8 => self.word(way.pick(0xfd00_03e0, 0xfd40_03e0) | (at / 8) << 10 | n, out),
                    _ => self.word(way.pick(0x3d80_03e0, 0x3dc0_03e0) | (at / 16) << 10 | n, out),
                }
            }
            Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 if size == 8 => {
                // stfd, lfd
                let n = reg.wrapping_sub(32);
                self.word(way.pick(0xd801_0000, 0xc801_0000) | n << 21 | at, out);
            }
            Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => {
                // li r12, at; stvx, lvx v, r1, r12, which is free at every patchpoint
                let n = reg.wrapping_sub(77);
                self.word(0x3980_0000 | at, out);
                self.word(way.pick(0x7c01_61ce, 0x7c01_60ce) | n << 21, out);
            }
            Arch::SystemZ => systemz(way, reg, size, at, out),
            Arch::RiscV64 => {
                let n = reg.wrapping_sub(32);
                // fsd, fld
                self.word(
                    way.pick(
                        0x0001_3027 | (at >> 5) << 25 | n << 20 | (at & 31) << 7,
                        0x0001_3007 | at << 20 | n << 7,
                    ),
                    out,
                );
            }
        }
    }

    fn word(self, word: u32, out: &mut Vec<u8>) {
        // The words of the others are in memory as those of little-endian PowerPC.
        PowerPc64::of(self.0).unwrap_or(&LITTLE).put_words(&[word], out);
    }
}

/// movups, vmovups with 32 bytes, vmovups with 64 bytes.
fn x86_64(way: Direction, reg: u32, size: u16, at: u32, out: &mut Vec<u8>) {
    let n = match reg {
        67.. => reg.wrapping_sub(51),
        _ => reg.wrapping_sub(17),
    };
    let opcode = way.pick(0x11, 0x10);
    // Bits of the register number, as prefixes have them: inverted.
    let (bit_3, bit_4) = ((!n >> 3 & 1) as u8, (!n >> 4 & 1) as u8);
    match size {
        16 if bit_3 == 0 => out.extend([0x44, 0x0f, opcode]),
        16 => out.extend([0x0f, opcode]),
        32 => out.extend([0xc5, bit_3 << 7 | 0x7c, opcode]),
        _ => out.extend([0x62, bit_3 << 7 | 0x61 | bit_4 << 4, 0x7c, 0x48, opcode]),
    }
    // [rsp + disp32]
    out.extend([0x84 | (n as u8 & 7) << 3, 0x24]);
    out.extend(at.to_le_bytes());
}

/// std, ld; vst, vl.
fn systemz(way: Direction, reg: u32, size: u16, at: u32, out: &mut Vec<u8>) {
    // Numbered in pairs: 0, 2, 4, 6, 1, 3, 5, 7, 8, 10 and so on.
    let pair = reg.wrapping_sub(16);
    let n = (pair >> 3 << 3 | (pair & 3) << 1 | pair >> 2 & 1) as u8;
    let [_, _, high, low] = at.to_be_bytes();
    match size {
        8 => out.extend([way.pick(0x60, 0x68), n << 4, 0xf0 | high, low]),
        _ => out.extend([0xe7, n << 4, 0xf0 | high, low, 0, way.pick(0x0e, 0x06)]),
    }
}
