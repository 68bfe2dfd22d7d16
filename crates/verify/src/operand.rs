//! An operand as LLVM's disassembler lists it.

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operand {
    /// A register, or no register where there might be one.
    Register,
    /// A number as the encoding holds it: of a branch the distance in units of the encoding, not its target; of a scaled offset
    /// the number before it is scaled; on RISC-V bytes in both cases. It has its sign, but on x86-64 where it is as wide as what it is an operand for and that
    /// has 16 or 32 bits.
    Immediate(i64),
}
