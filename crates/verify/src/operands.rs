//! The operands of an instruction as LLVM's disassembler lists them, for checks of linked code that are written in its terms.
//! Not used while patching.
//!
//! Source: the order of `MCInst` operands follows from LLVM's tables of instructions (`llvm/lib/Target/X86/X86Instr*.td`,
//! `llvm/lib/Target/AArch64/AArch64InstrFormats.td`) and its decoders (`X86Disassembler.cpp`, `AArch64Disassembler.cpp`).

use alloc::vec::Vec;

use patchpoint_isa::Arch;

use super::dispatch::isa;
use super::operand::Operand;

/// The operands of the instruction that the bytes start with, in the order of LLVM's `MCInst`: on x86-64 one in memory is five
/// (base, scale, index, displacement, segment), and a source that is also the destination stands twice.
///
/// `None` for what is no instruction, for instructions that no relocation of an object fills and that are rare, and on
/// architectures other than x86-64, AArch64 and RISC-V.
#[must_use]
pub fn operands(arch: Arch, bytes: &[u8]) -> Option<Vec<Operand>> {
    (isa(arch).operands)(bytes)
}
