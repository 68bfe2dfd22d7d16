//! Registers as they are encoded, and the order in which free ones are taken.

pub(crate) use patchpoint_isa::x86_64::*;

use llvm_stackmaps::addr::DwarfReg;

/// The order in which free registers are taken.
pub(super) const SCRATCH_ORDER: [DwarfReg; 15] = [
    R11, R10, RAX, RCX, RDX, R9, R8, RSI, RDI, RBX, R12, R13, R14, R15, RBP,
];

/// A register as it is encoded: 0 to 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hw {
    Gpr(u8),
    Xmm(u8),
}

/// The encoding of a register, if instructions can name it as an operand.
pub(super) fn hw(reg: DwarfReg) -> Option<Hw> {
    match reg.get() {
        0 => Some(Hw::Gpr(0)),
        1 => Some(Hw::Gpr(2)),
        2 => Some(Hw::Gpr(1)),
        3 => Some(Hw::Gpr(3)),
        4 => Some(Hw::Gpr(6)),
        5 => Some(Hw::Gpr(7)),
        6 => Some(Hw::Gpr(5)),
        7 => Some(Hw::Gpr(4)),
        n @ 8..=15 => Some(Hw::Gpr(n as u8)),
        n @ 17..=32 => Some(Hw::Xmm((n - 17) as u8)),
        _ => None,
    }
}
