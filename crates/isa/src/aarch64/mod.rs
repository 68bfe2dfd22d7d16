//! AArch64.
//!
//! Sources: Arm Architecture Reference Manual for A-profile (DDI 0487), C6.2 (B, BL, BRK, BTI, NOP)
//! and B2.2.5 (exchanges); Procedure Call Standard for the Arm 64-bit Architecture (AAPCS64), 6;
//! DWARF for the Arm 64-bit Architecture (AADWARF64), 4.1 (register numbers).

mod calls;
mod exchange;
mod registers;

pub use registers::*;

use alloc::vec::Vec;
use core::ops::Range;

use llvm_stackmaps::Endian;
use llvm_stackmaps::addr::CodeAddr;

use crate::calls::{whole_word, word};
use crate::conventions::Registers;
use crate::instructions::Prologue;
use crate::isa::Isa;
use crate::registers::{NameRun, RegisterName};

/// `nop`
const NOP: [u8; 4] = 0xd503_201f_u32.to_le_bytes();

/// `bti`, and the bits that say for which branches it is.
const BTI: u32 = 0xd503_241f;
const BTI_TARGETS: u32 = 0xc0;

pub(crate) struct AArch64;

impl Isa for AArch64 {
    fn register_names(&self) -> &'static [NameRun] {
        registers::NAMES
    }

    fn register_view(&self, _: RegisterName, reg: u16, size: u16) -> Option<RegisterName> {
        registers::view(reg, size)
    }

    fn registers(&self) -> &'static Registers {
        &registers::REGISTERS
    }

    fn instruction_unit(&self) -> u32 {
        4
    }

    fn instruction_len(&self, _: u8) -> Option<usize> {
        Some(4)
    }

    fn prologue(&self, code: &[u8]) -> Prologue {
        Prologue::pad_if(word(Endian::Little, code).is_some_and(|word| word & !BTI_TARGETS == BTI))
    }

    fn elf_machine(&self) -> u16 {
        183
    }

    fn put_nops(&self, len: u32, out: &mut Vec<u8>) {
        for _ in 0..len / 4 {
            out.extend_from_slice(&NOP);
        }
    }

    fn trap(&self) -> &'static [u8] {
        &exchange::TRAP
    }

    fn exchangeable(&self, old: &[u8], new: &[u8]) -> bool {
        exchange::allowed(old, new)
    }

    fn call_around(&self, bytes: &[u8], offset: usize) -> Option<(Range<usize>, i64)> {
        calls::around(bytes, offset)
    }

    fn call_distance(&self, bytes: &[u8]) -> Option<i64> {
        calls::distance(bytes)
    }

    fn set_call_distance(&self, bytes: &mut [u8], distance: i64) -> Option<()> {
        calls::set_distance(bytes, distance)
    }

    fn call_operand(&self, addr: CodeAddr, len: usize) -> Option<Range<usize>> {
        whole_word(addr, len)
    }
}
