//! x86-64.
//!
//! Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (nops, CALL,
//! JMP, Jcc, INT3); AMD64 Architecture Programmer's Manual, volume 2, 7.6.1 (exchanges); System V
//! ABI, AMD64 supplement, 3.2 (convention) and figure 3.36 (DWARF numbers).

mod calls;
mod exchange;
mod nops;
mod registers;

pub use registers::*;

use alloc::vec::Vec;
use core::ops::Range;

use llvm_stackmaps::addr::CodeAddr;

use crate::conventions::Registers;
use crate::instructions::Prologue;
use crate::isa::Isa;
use crate::registers::{NameRun, RegisterName};

/// `endbr64`
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

pub(crate) struct X86_64;

impl Isa for X86_64 {
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
        1
    }

    fn instruction_len(&self, _: u8) -> Option<usize> {
        None
    }

    fn prologue(&self, code: &[u8]) -> Prologue {
        Prologue::pad_if(code.starts_with(&ENDBR64))
    }

    fn elf_machine(&self) -> u16 {
        62
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
        -4
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
        calls::operand(addr, len)
    }
}
