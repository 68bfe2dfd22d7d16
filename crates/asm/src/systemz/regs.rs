//! Registers as they are encoded, and the order in which free ones are taken.

pub(crate) use patchpoint_isa::systemz::*;

use llvm_stackmaps::addr::DwarfReg;

/// The order in which free registers are taken for values: those last that can be the base of an
/// address.
pub(super) const VALUE_ORDER: [DwarfReg; 14] = [R0, R14, R1, R5, R4, R3, R2, R6, R7, R8, R9, R10, R12, R13];

/// The order in which free registers are taken for addresses. r0 as a base reads as zero.
pub(super) const ADDRESS_ORDER: [DwarfReg; 13] = [R1, R14, R5, R4, R3, R2, R6, R7, R8, R9, R10, R12, R13];

/// The order in which free registers are taken for branches: a branch through r14 is a return.
pub(super) const BRANCH_ORDER: [DwarfReg; 5] = [R1, R5, R4, R3, R2];

/// A general register, 0 to 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gpr(pub(super) u8);

/// A floating-point register, 0 to 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fpr(pub(super) u8);

/// A register as it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hw {
    Gpr(Gpr),
    Fpr(Fpr),
    /// v16 to v31, which only instructions of the vector facility (z13) can name.
    UpperVector,
}

/// The encoding of a register, if it holds values of compiled code.
pub(super) fn hw(reg: DwarfReg) -> Option<Hw> {
    let fpr = |first: u16, number: u16| Some(Hw::Fpr(Fpr((number + (reg.get() - first) * 2) as u8)));
    match reg.get() {
        n @ 0..=15 => Some(Hw::Gpr(Gpr(n as u8))),
        16..=19 => fpr(16, 0),
        20..=23 => fpr(20, 1),
        24..=27 => fpr(24, 8),
        28..=31 => fpr(28, 9),
        68..=83 => Some(Hw::UpperVector),
        _ => None,
    }
}
