//! Registers of SystemZ: numbers, names, and the convention of its ELF ABI.

use llvm_stackmaps::addr::DwarfReg;

use crate::RegSet;
use crate::conventions::Registers;
use crate::registers::{NameRun, RegisterName, run, stepped};

registers! {
    R0 = 0, R1 = 1, R2 = 2, R3 = 3, R4 = 4, R5 = 5, R6 = 6, R7 = 7,
    R8 = 8, R9 = 9, R10 = 10, R11 = 11, R12 = 12, R13 = 13, R14 = 14, R15 = 15,
    F0 = 16, F2 = 17, F4 = 18, F6 = 19, F1 = 20, F3 = 21, F5 = 22, F7 = 23,
    F8 = 24, F10 = 25, F12 = 26, F14 = 27, F9 = 28, F11 = 29, F13 = 30, F15 = 31,
}

/// Floating-point registers are numbered in pairs: even ones of four, then the odd ones. 68 and on
/// are those halves of a vector file that floating-point instructions do not reach.
pub(super) static NAMES: &[NameRun] = &[
    run(0, 16, "r"),
    stepped(16, 4, "f", 0, 2),
    stepped(20, 4, "f", 1, 2),
    stepped(24, 4, "f", 8, 2),
    stepped(28, 4, "f", 9, 2),
    run(32, 16, "c"),
    run(48, 16, "a"),
    stepped(68, 4, "v", 16, 2),
    stepped(72, 4, "v", 17, 2),
    stepped(76, 4, "v", 24, 2),
    stepped(80, 4, "v", 25, 2),
];

/// A vector register is the whole of a floating-point one.
pub(super) fn view(whole: RegisterName, size: u16) -> Option<RegisterName> {
    match whole {
        RegisterName {
            stem: "f",
            number: Some(number),
            ..
        } if size > 8 => Some(RegisterName::numbered("v", number)),
        _ => None,
    }
}

/// f0 to f15, which are also the left halves of v0 to v15, and v16 to v31.
const VECTORS: RegSet = RegSet::numbered(16, 31).union(UPPER_VECTORS);

/// v16 to v31.
const UPPER_VECTORS: RegSet = RegSet::numbered(68, 83);

/// What LLVM clobbers at every patchpoint and stackmap, and for linkage at every call.
const FREE: RegSet = RegSet::of(&[R0, R1, R14]);

const CALLER_SAVED: RegSet = RegSet::of(&[R0, R1, R2, R3, R4, R5, R14]);

const CALLER_SAVED_FLOATS: RegSet = RegSet::numbered(16, 23);

/// ELF ABI: r6 to r13, r15 and f8 to f15 are the callee's to save; the last of the integer
/// arguments, in r6, too. The 160 bytes above the stack pointer belong to whoever is called.
pub(super) static REGISTERS: Registers = Registers {
    always_free: FREE,
    free_at_any_reg: FREE,
    // r14 holds the return address.
    free_at_entry: RegSet::of(&[R0, R1]),
    caller_saved: CALLER_SAVED,
    kept_by_calls: RegSet::numbered(6, 13),
    special: RegSet::EMPTY,
    lost_in_any_call: FREE,
    lost_in_c_call: CALLER_SAVED.union(CALLER_SAVED_FLOATS).union(UPPER_VECTORS),
    live_unless_trusted: RegSet::EMPTY,
    int_args: &[R2, R3, R4, R5, R6],
    float_args: &[F0, F2, F4, F6],
    int_result: R2,
    float_result: F0,
    vectors: VECTORS,
    stack_pointer: R15,
    stack_unit: 8,
    stack_args: 160,
    stack_args_at_entry: 160,
};
