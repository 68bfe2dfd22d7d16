//! Registers of PowerPC64: numbers, names, and the conventions of ELFv1 and ELFv2.

use llvm_stackmaps::addr::DwarfReg;

use crate::RegSet;
use crate::conventions::Registers;
use crate::registers::{NameRun, named, run};

registers! {
    R0 = 0, R1 = 1, R2 = 2, R3 = 3, R4 = 4, R5 = 5, R6 = 6, R7 = 7,
    R8 = 8, R9 = 9, R10 = 10, R11 = 11, R12 = 12, R13 = 13, R14 = 14, R15 = 15,
    R16 = 16, R17 = 17, R18 = 18, R19 = 19, R20 = 20, R21 = 21, R22 = 22, R23 = 23,
    R24 = 24, R25 = 25, R26 = 26, R27 = 27, R28 = 28, R29 = 29, R30 = 30, R31 = 31,
    F0 = 32, F1 = 33, F2 = 34, F3 = 35, F4 = 36, F5 = 37, F6 = 38, F7 = 39,
    F8 = 40, F9 = 41, F10 = 42, F11 = 43, F12 = 44, F13 = 45,
    LR = 65, CTR = 66,
    CR0 = 68, CR1 = 69, CR2 = 70, CR3 = 71, CR4 = 72, CR5 = 73, CR6 = 74, CR7 = 75,
    XER = 76,
}

pub(super) static NAMES: &[NameRun] = &[
    run(0, 32, "r"),
    run(32, 32, "f"),
    named(65, &["lr", "ctr"]),
    run(68, 8, "cr"),
    named(76, &["xer"]),
    run(77, 32, "v"),
    named(109, &["vrsave"]),
];

const INT_ARGS: [DwarfReg; 8] = [R3, R4, R5, R6, R7, R8, R9, R10];

const FLOAT_ARGS: [DwarfReg; 13] = [F1, F2, F3, F4, F5, F6, F7, F8, F9, F10, F11, F12, F13];

/// f0 to f31 and v0 to v31.
const VECTORS: RegSet = RegSet::numbered(32, 63).union(RegSet::numbered(77, 108));

/// Without r0, which no instruction takes as a base: as scratch it would be more trouble than use.
const CALLER_SAVED: RegSet = RegSet::of(&INT_ARGS).union(RegSet::of(&[R11, R12]));

/// The condition fields that a call may change.
const LOST_CONDITIONS: RegSet = RegSet::of(&[CR0, CR1, CR5, CR6, CR7]);

const SPECIAL: RegSet = LOST_CONDITIONS.union(RegSet::of(&[LR, CTR, XER]));

/// f0 to f13 and v0 to v19.
const LOST_VECTORS: RegSet = RegSet::numbered(32, 45).union(RegSet::numbered(77, 96));

/// ELFv2. Its parameter save area is behind a header of 32 bytes and has a doubleword for each
/// argument, also for those in registers.
pub(super) const ELF_V2: Registers = Registers {
    // `getScratchRegisters` in LLVM: x12, lr8, ctr8.
    always_free: RegSet::of(&[R12, LR, CTR]),
    // Besides, what `CSR_64_AllRegs` does not preserve.
    free_at_any_reg: RegSet::of(&[R11, R12, LR, CTR, XER]),
    // Not r12, from which the global entry point computes the TOC pointer.
    free_at_entry: LOST_CONDITIONS.union(RegSet::of(&[R11, CTR, XER])),
    caller_saved: CALLER_SAVED,
    kept_by_calls: RegSet::numbered(14, 31),
    special: SPECIAL,
    lost_in_any_call: RegSet::of(&[R12, LR, CTR]),
    lost_in_c_call: CALLER_SAVED.with(R0).union(SPECIAL).union(LOST_VECTORS),
    live_unless_trusted: RegSet::EMPTY,
    int_args: &INT_ARGS,
    float_args: &FLOAT_ARGS,
    int_result: R3,
    float_result: F1,
    vectors: VECTORS,
    stack_pointer: R1,
    stack_unit: 16,
    stack_args: 32 + 64,
    stack_args_at_entry: 32 + 64,
};

/// ELFv1: the header has 48 bytes.
pub(super) const ELF_V1: Registers = Registers {
    stack_args: 48 + 64,
    stack_args_at_entry: 48 + 64,
    ..ELF_V2
};
