//! Registers of RISC-V: numbers, names, and the convention of its psABI.

use llvm_stackmaps::addr::DwarfReg;

use crate::RegSet;
use crate::conventions::Registers;
use crate::registers::{NameRun, named, run, stepped};

registers! {
    ZERO = 0, RA = 1, SP = 2, GP = 3, TP = 4, T0 = 5, T1 = 6, T2 = 7, S0 = 8, S1 = 9, A0 = 10, A1 = 11, A2 = 12, A3 = 13,
    A4 = 14, A5 = 15, A6 = 16, A7 = 17, S2 = 18, S3 = 19, S4 = 20, S5 = 21, S6 = 22, S7 = 23, S8 = 24, S9 = 25,
    S10 = 26, S11 = 27, T3 = 28, T4 = 29, T5 = 30, T6 = 31,
    FT0 = 32, FT1 = 33, FT2 = 34, FT3 = 35, FT4 = 36, FT5 = 37, FT6 = 38, FT7 = 39, FS0 = 40, FS1 = 41, FA0 = 42,
    FA1 = 43, FA2 = 44, FA3 = 45, FA4 = 46, FA5 = 47, FA6 = 48, FA7 = 49, FS2 = 50, FS3 = 51, FS4 = 52, FS5 = 53,
    FS6 = 54, FS7 = 55, FS8 = 56, FS9 = 57, FS10 = 58, FS11 = 59, FT8 = 60, FT9 = 61, FT10 = 62, FT11 = 63,
}

/// The names of the calling convention, which is what disassembly shows.
pub(super) static NAMES: &[NameRun] = &[
    named(0, &["zero", "ra", "sp", "gp", "tp"]),
    run(5, 3, "t"),
    run(8, 2, "s"),
    run(10, 8, "a"),
    stepped(18, 10, "s", 2, 1),
    stepped(28, 4, "t", 3, 1),
    run(32, 8, "ft"),
    run(40, 2, "fs"),
    run(42, 8, "fa"),
    stepped(50, 10, "fs", 2, 1),
    stepped(60, 4, "ft", 8, 1),
    run(96, 32, "v"),
];

const CALLER_SAVED: RegSet = RegSet::numbered(5, 7)
    .union(RegSet::numbered(10, 17))
    .union(RegSet::numbered(28, 31));
const FLOAT_CALLER_SAVED: RegSet = RegSet::numbered(32, 39)
    .union(RegSet::numbered(42, 49))
    .union(RegSet::numbered(60, 63));

/// RISC-V psABI 1.1 and 1.2, with floating-point arguments in registers (lp64d). At a function's
/// entry t2 may hold the static chain.
pub(super) static REGISTERS: Registers = Registers {
    always_free: RegSet::EMPTY,
    free_at_any_reg: CALLER_SAVED,
    free_at_entry: RegSet::of(&[T0, T1, T3, T4, T5, T6]),
    caller_saved: CALLER_SAVED,
    kept_by_calls: RegSet::numbered(8, 9).union(RegSet::numbered(18, 27)),
    special: RegSet::EMPTY,
    lost_in_any_call: RegSet::of(&[RA]),
    lost_in_c_call: CALLER_SAVED.union(FLOAT_CALLER_SAVED).with(RA),
    live_unless_trusted: RegSet::of(&[RA]),
    int_args: &[A0, A1, A2, A3, A4, A5, A6, A7],
    float_args: &[FA0, FA1, FA2, FA3, FA4, FA5, FA6, FA7],
    int_result: A0,
    float_result: FA0,
    vectors: RegSet::numbered(32, 63),
    stack_pointer: SP,
    stack_unit: 16,
    stack_args: 0,
    stack_args_at_entry: 0,
};
