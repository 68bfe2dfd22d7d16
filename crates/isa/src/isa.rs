//! What an architecture answers.

use alloc::vec::Vec;
use core::ops::Range;

use llvm_stackmaps::addr::CodeAddr;

use crate::conventions::Registers;
use crate::instructions::Prologue;
use crate::registers::{NameRun, RegisterName};

/// One architecture.
pub(crate) trait Isa: Sync {
    /// The names of its registers.
    fn register_names(&self) -> &'static [NameRun];

    /// The name of the low `size` bytes of a register, where they have one.
    fn register_view(&self, _whole: RegisterName, _reg: u16, _size: u16) -> Option<RegisterName> {
        None
    }

    /// Its registers as its calling conventions use them.
    fn registers(&self) -> &'static Registers;

    /// What the lengths of all instructions are multiples of.
    fn instruction_unit(&self) -> u32;

    /// The length of an instruction with that first byte, where it tells.
    fn instruction_len(&self, first: u8) -> Option<usize>;

    /// What a function begins with that changes nothing.
    fn prologue(&self, _code: &[u8]) -> Prologue {
        Prologue::None
    }

    /// Its number in ELF headers.
    fn elf_machine(&self) -> u16;

    /// Appends `len` bytes of nops, as few instructions as there can be.
    fn put_nops(&self, len: u32, out: &mut Vec<u8>);

    /// The instruction that traps and is no longer than any other.
    fn trap(&self) -> &'static [u8];

    /// Whether the instruction may be exchanged while threads execute either.
    fn exchangeable(&self, old: &[u8], new: &[u8]) -> bool;

    /// What is added to a distance from its field for one from where the processor counts.
    fn branch_addend(&self) -> i64 {
        0
    }

    /// The bytes of the call or jump whose operand a relocation at `offset` fills, and what such a
    /// relocation adds to its symbol.
    fn call_around(&self, bytes: &[u8], offset: usize) -> Option<(Range<usize>, i64)>;

    /// How far from its start the target of a call or jump is.
    fn call_distance(&self, bytes: &[u8]) -> Option<i64>;

    /// Gives a call or jump the target that far from its start, if it reaches.
    fn set_call_distance(&self, bytes: &mut [u8], distance: i64) -> Option<()>;

    /// The operand of a call of `len` bytes, where one store writes it.
    fn call_operand(&self, addr: CodeAddr, len: usize) -> Option<Range<usize>>;
}
