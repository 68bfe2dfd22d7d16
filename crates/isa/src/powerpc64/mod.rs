//! 64-bit PowerPC, of either byte order, with the conventions of ELFv1 and ELFv2.
//!
//! Sources: Power ISA 3.1B, book I, 2.4 (b, bl), and book II (exchanges); 64-Bit ELF V2 ABI
//! Specification 1.5, 2.2; 64-bit PowerPC ELF ABI Supplement 1.9, 3.2 (conventions);
//! `PPCCallingConv.td` and `getScratchRegisters` in LLVM (what is free at sites).

mod calls;
mod exchange;
mod registers;

pub use registers::*;

use alloc::vec::Vec;
use core::ops::Range;

use llvm_stackmaps::Endian;
use llvm_stackmaps::addr::CodeAddr;

use crate::Arch;
use crate::calls::{whole_word, word};
use crate::conventions::Registers;
use crate::instructions::Prologue;
use crate::isa::Isa;
use crate::registers::NameRun;

/// `ori 0, 0, 0`
const NOP: u32 = 0x6000_0000;

/// `addis r2, r12`, `lis r2` and `addi r2, r2` without their numbers: how the functions of ELFv2
/// make the TOC pointer (ELFv2 ABI, 2.3.2.1).
const ADDIS_R2_R12: u32 = 0x3c4c_0000;
const LIS_R2: u32 = 0x3c40_0000;
const ADDI_R2_R2: u32 = 0x3842_0000;

/// One convention and byte order.
pub(crate) struct PowerPc64 {
    endian: Endian,
    registers: &'static Registers,
    /// Functions make their TOC pointer of their address.
    makes_toc: bool,
}

/// ELFv1, big endian.
pub(crate) static BIG_V1: PowerPc64 = PowerPc64 {
    endian: Arch::PowerPc64.endian(),
    registers: &registers::ELF_V1,
    makes_toc: false,
};
/// ELFv2, big endian.
pub(crate) static BIG_V2: PowerPc64 = PowerPc64 {
    endian: Arch::PowerPc64ElfV2.endian(),
    registers: &registers::ELF_V2,
    makes_toc: true,
};
/// ELFv2, little endian.
pub(crate) static LITTLE: PowerPc64 = PowerPc64 {
    endian: Arch::PowerPc64Le.endian(),
    registers: &registers::ELF_V2,
    makes_toc: true,
};

/// An instruction in memory.
const fn bytes(endian: Endian, word: u32) -> [u8; 4] {
    match endian {
        Endian::Big => word.to_be_bytes(),
        Endian::Little => word.to_le_bytes(),
    }
}

impl Isa for PowerPc64 {
    fn register_names(&self) -> &'static [NameRun] {
        registers::NAMES
    }

    fn registers(&self) -> &'static Registers {
        self.registers
    }

    fn instruction_unit(&self) -> u32 {
        4
    }

    fn instruction_len(&self, _: u8) -> Option<usize> {
        Some(4)
    }

    fn prologue(&self, code: &[u8]) -> Prologue {
        let high = |at: usize| Some(word(self.endian, code.get(at..)?)? & 0xffff_0000);
        match (high(0), high(4)) {
            (Some(ADDIS_R2_R12 | LIS_R2), Some(ADDI_R2_R2)) if self.makes_toc => Prologue::Toc,
            _ => Prologue::None,
        }
    }

    fn elf_machine(&self) -> u16 {
        21
    }

    fn put_nops(&self, len: u32, out: &mut Vec<u8>) {
        for _ in 0..len / 4 {
            out.extend_from_slice(&bytes(self.endian, NOP));
        }
    }

    fn trap(&self) -> &'static [u8] {
        match self.endian {
            Endian::Big => const { &exchange::TRAP.to_be_bytes() },
            Endian::Little => const { &exchange::TRAP.to_le_bytes() },
        }
    }

    fn exchangeable(&self, old: &[u8], new: &[u8]) -> bool {
        exchange::allowed(self.endian, old, new)
    }

    fn call_around(&self, bytes: &[u8], offset: usize) -> Option<(Range<usize>, i64)> {
        calls::around(self.endian, bytes, offset)
    }

    fn call_distance(&self, bytes: &[u8]) -> Option<i64> {
        calls::distance(self.endian, bytes)
    }

    fn set_call_distance(&self, bytes: &mut [u8], distance: i64) -> Option<()> {
        calls::set_distance(self.endian, bytes, distance)
    }

    fn call_operand(&self, addr: CodeAddr, len: usize) -> Option<Range<usize>> {
        whole_word(addr, len)
    }
}
