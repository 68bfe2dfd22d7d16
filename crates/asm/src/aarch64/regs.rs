//! Registers as they are encoded, and the order in which free ones are taken.

pub(crate) use patchpoint_isa::aarch64::*;

use llvm_stackmaps::addr::DwarfReg;

/// The order in which free registers are taken. x16 and x17 come first: branches go through them.
pub(super) const SCRATCH_ORDER: [DwarfReg; 19] = [
    X16, X17, X9, X10, X11, X12, X13, X14, X15, X8, X7, X6, X5, X4, X3, X2, X1, X0, X30,
];

/// A register as it is encoded: 0 to 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hw {
    Gpr(u8),
    Sp,
    Vector(u8),
}

/// The encoding of a register, if instructions can name it as an operand.
pub(super) fn hw(reg: DwarfReg) -> Option<Hw> {
    match reg.get() {
        n @ 0..=30 => Some(Hw::Gpr(n as u8)),
        31 => Some(Hw::Sp),
        n @ 64..=95 => Some(Hw::Vector((n - 64) as u8)),
        _ => None,
    }
}
