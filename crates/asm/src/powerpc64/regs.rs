//! Registers as they are encoded, and the order in which free ones are taken.

pub(crate) use patchpoint_isa::powerpc64::*;

use llvm_stackmaps::addr::DwarfReg;

/// The order in which free registers are taken.
pub(super) const SCRATCH_ORDER: [DwarfReg; 28] = [
    R12, R11, R10, R9, R8, R7, R6, R5, R4, R3, R30, R29, R28, R27, R26, R25, R24, R23, R22, R21, R20, R19,
    R18, R17, R16, R15, R14, R31,
];

/// The order in which free condition fields are taken.
pub(super) const FIELD_ORDER: [DwarfReg; 5] = [CR0, CR7, CR6, CR5, CR1];

/// A register as it is encoded: 0 to 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hw {
    Gpr(u8),
    Float(u8),
    Vector(u8),
}

/// The encoding of a register, if operands of operations can be in it.
pub(super) fn hw(reg: DwarfReg) -> Option<Hw> {
    match reg.get() {
        n @ 0..=31 => Some(Hw::Gpr(n as u8)),
        n @ 1200..=1231 => Some(Hw::Gpr((n - 1200) as u8)),
        n @ 32..=63 => Some(Hw::Float((n - 32) as u8)),
        n @ 77..=108 => Some(Hw::Vector((n - 77) as u8)),
        _ => None,
    }
}
