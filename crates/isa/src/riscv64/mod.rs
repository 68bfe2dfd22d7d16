//! RISC-V, 64 bits.
//!
//! Sources: The RISC-V Instruction Set Manual, volume I, 1.5 and "Zifencei" (exchanges), 2.5 (JAL,
//! AUIPC with JALR), 27 (short nops and traps); RISC-V ELF psABI, 1 (registers, convention) and 4
//! (DWARF numbers).

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
use crate::registers::NameRun;

/// `addi x0, x0, 0`
const NOP: [u8; 4] = 0x0000_0013_u32.to_le_bytes();
/// `c.nop`
const SHORT_NOP: [u8; 2] = 0x0001_u16.to_le_bytes();

/// `lpad` (Zicfilp), which is `auipc x0`: the bits without its label.
const LPAD: u32 = 0x17;

pub(crate) struct RiscV64;

impl Isa for RiscV64 {
    fn register_names(&self) -> &'static [NameRun] {
        registers::NAMES
    }

    fn registers(&self) -> &'static Registers {
        &registers::REGISTERS
    }

    fn instruction_unit(&self) -> u32 {
        2
    }

    fn instruction_len(&self, first: u8) -> Option<usize> {
        Some(if first & 3 == 3 { 4 } else { 2 })
    }

    fn prologue(&self, code: &[u8]) -> Prologue {
        Prologue::pad_if(word(Endian::Little, code).is_some_and(|word| word & 0xfff == LPAD))
    }

    fn elf_machine(&self) -> u16 {
        243
    }

    fn put_nops(&self, len: u32, out: &mut Vec<u8>) {
        if len % 4 >= 2 {
            out.extend_from_slice(&SHORT_NOP);
        }
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
