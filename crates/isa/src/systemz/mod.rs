//! SystemZ (s390x).
//!
//! Sources: z/Architecture Principles of Operation (SA22-7832), chapters 5 (instruction fetching)
//! and 7 (BRASL, BRCL); ELF Application Binary Interface, s390x Supplement, sections 1.1.4
//! (registers) and 1.2 (calls), table 1.11 (DWARF numbers); for sites `getScratchRegisters` in
//! LLVM's `llvm/lib/Target/SystemZ/SystemZISelLowering.h`.

mod calls;
mod exchange;
mod nops;
mod registers;

pub use registers::*;

use alloc::vec::Vec;
use core::ops::Range;

use llvm_stackmaps::addr::CodeAddr;

use crate::conventions::Registers;
use crate::isa::Isa;
use crate::registers::{NameRun, RegisterName};

pub(crate) struct SystemZ;

impl Isa for SystemZ {
    fn register_names(&self) -> &'static [NameRun] {
        registers::NAMES
    }

    fn register_view(&self, whole: RegisterName, _: u16, size: u16) -> Option<RegisterName> {
        registers::view(whole, size)
    }

    fn registers(&self) -> &'static Registers {
        &registers::REGISTERS
    }

    fn instruction_unit(&self) -> u32 {
        2
    }

    fn instruction_len(&self, first: u8) -> Option<usize> {
        Some(match first >> 6 {
            0 => 2,
            3 => 6,
            _ => 4,
        })
    }

    fn elf_machine(&self) -> u16 {
        22
    }

    fn put_nops(&self, len: u32, out: &mut Vec<u8>) {
        nops::put(len, out);
    }

    fn trap(&self) -> &'static [u8] {
        &exchange::TRAP
    }

    fn exchangeable(&self, old: &[u8], new: &[u8]) -> bool {
        exchange::allowed(old, new)
    }

    fn branch_addend(&self) -> i64 {
        2
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

    fn call_operand(&self, addr: CodeAddr, _: usize) -> Option<Range<usize>> {
        calls::operand(addr)
    }
}
