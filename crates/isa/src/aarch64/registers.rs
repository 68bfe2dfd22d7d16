//! Registers of AArch64: numbers, names, and the convention of AAPCS64.

use llvm_stackmaps::addr::DwarfReg;

use crate::RegSet;
use crate::conventions::Registers;
use crate::registers::{NameRun, RegisterName, named, run};

registers! {
    X0 = 0, X1 = 1, X2 = 2, X3 = 3, X4 = 4, X5 = 5, X6 = 6, X7 = 7, X8 = 8, X9 = 9, X10 = 10, X11 = 11,
    X12 = 12, X13 = 13, X14 = 14, X15 = 15, X16 = 16, X17 = 17, X18 = 18, X19 = 19, X20 = 20, X21 = 21,
    X22 = 22, X23 = 23, X24 = 24, X25 = 25, X26 = 26, X27 = 27, X28 = 28, X29 = 29, X30 = 30, SP = 31,
    V0 = 64, V1 = 65, V2 = 66, V3 = 67, V4 = 68, V5 = 69, V6 = 70, V7 = 71, V8 = 72, V9 = 73, V10 = 74,
    V11 = 75, V12 = 76, V13 = 77, V14 = 78, V15 = 79, V16 = 80, V17 = 81, V18 = 82, V19 = 83, V20 = 84,
    V21 = 85, V22 = 86, V23 = 87, V24 = 88, V25 = 89, V26 = 90, V27 = 91, V28 = 92, V29 = 93, V30 = 94,
    V31 = 95,
}

/// 30 is the link register and 29 the frame pointer; assembly writes `x30` and `x29`.
pub(super) static NAMES: &[NameRun] = &[
    run(0, 31, "x"),
    named(31, &["sp"]),
    named(46, &["vg", "ffr"]),
    run(48, 16, "p"),
    run(64, 32, "v"),
    run(96, 32, "z"),
];

pub(super) fn view(reg: u16, size: u16) -> Option<RegisterName> {
    match (reg, size) {
        (0..=30, 1..=4) => Some(RegisterName::numbered("w", reg)),
        (31, 1..=4) => Some(RegisterName::plain("wsp")),
        (64..=95, _) => {
            let stem = match size {
                1 => "b",
                2 => "h",
                4 => "s",
                8 => "d",
                16 => "q",
                _ => return None,
            };
            Some(RegisterName::numbered(stem, reg - 64))
        }
        _ => None,
    }
}

/// IP0 and IP1: even a plain branch may lose them, in a veneer of the linker.
const INTRA_CALL: RegSet = RegSet::of(&[X16, X17]);

/// AAPCS64 6.1. x18 belongs to the platform on some systems: it is lost in
/// calls, and written only where LLVM chose it for a result. Of v8 to v15 a
/// callee saves the low 64 bits.
pub(super) static REGISTERS: Registers = Registers {
    always_free: INTRA_CALL,
    free_at_any_reg: INTRA_CALL.with(X30),
    free_at_entry: INTRA_CALL,
    caller_saved: RegSet::numbered(0, 17).with(X30),
    kept_by_calls: RegSet::numbered(19, 29),
    special: RegSet::EMPTY,
    lost_in_any_call: INTRA_CALL.with(X30),
    lost_in_c_call: RegSet::numbered(0, 18)
        .with(X30)
        .union(RegSet::numbered(64, 71))
        .union(RegSet::numbered(80, 95)),
    live_unless_trusted: RegSet::EMPTY,
    int_args: &[X0, X1, X2, X3, X4, X5, X6, X7],
    float_args: &[V0, V1, V2, V3, V4, V5, V6, V7],
    int_result: X0,
    float_result: V0,
    vectors: RegSet::numbered(64, 95),
    stack_pointer: SP,
    stack_unit: 16,
    stack_args: 0,
    stack_args_at_entry: 0,
};
