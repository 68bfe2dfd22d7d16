//! The operands of an instruction as LLVM's disassembler lists them, for checks of linked code that
//! are written in its terms.
//!
//! Source: the order of `MCInst` operands follows from LLVM's tables of instructions
//! (`llvm/lib/Target/X86/X86Instr*.td`, `llvm/lib/Target/AArch64/AArch64InstrFormats.td`) and its
//! decoders (`X86Disassembler.cpp`, `AArch64Disassembler.cpp`).

mod aarch64;
mod riscv64;
#[cfg(test)]
mod tests;
mod x86_64;

use patchpoint::arch::Arch;

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// A register, or no register where there might be one.
    Register,
    /// A number as the encoding holds it: of a branch the distance in units of the encoding, not
    /// its target; of a scaled offset the number before it is scaled; on RISC-V bytes in both
    /// cases. It has its sign, but on x86-64 where it is as wide as what it is an operand for and
    /// that has 16 or 32 bits.
    Immediate(i64),
}

/// The operands of the instruction that the bytes start with, in the order of LLVM's `MCInst`: on
/// x86-64 one in memory is five (base, scale, index, displacement, segment), and a source that is
/// also the destination is listed twice.
///
/// `None` for what is no instruction, for instructions that no relocation of an object fills and
/// that are rare, and on architectures other than x86-64, AArch64 and RISC-V.
pub(super) fn operands(arch: Arch, bytes: &[u8]) -> Option<Vec<Operand>> {
    match arch {
        Arch::X86_64 => x86_64::operands(bytes),
        Arch::AArch64 => aarch64::operands(bytes),
        Arch::RiscV64 => riscv64::operands(bytes),
        _ => None,
    }
}
