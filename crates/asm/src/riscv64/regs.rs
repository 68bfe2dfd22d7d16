//! Registers as they are encoded, and the order in which free ones are taken.

pub(crate) use patchpoint_isa::riscv64::*;

use llvm_stackmaps::addr::DwarfReg;

/// The order in which free registers are taken.
pub(super) const SCRATCH_ORDER: [DwarfReg; 15] = [T0, T1, T3, T4, T5, T6, T2, A7, A6, A5, A4, A3, A2, A1, A0];

/// A register as it is encoded: 0 to 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hw {
    Gpr(u8),
    Float(u8),
}

/// The encoding of a register, if instructions can name it as an operand.
pub(super) fn hw(reg: DwarfReg) -> Option<Hw> {
    match reg.get() {
        n @ 0..=31 => Some(Hw::Gpr(n as u8)),
        n @ 32..=63 => Some(Hw::Float((n - 32) as u8)),
        _ => None,
    }
}
