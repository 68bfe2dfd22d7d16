//! Registers of x86-64: numbers, names, and System V's convention.

use llvm_stackmaps::addr::DwarfReg;

use crate::RegSet;
use crate::conventions::Registers;
use crate::registers::{NameRun, RegisterName, named, run, stepped};

registers! {
    RAX = 0, RDX = 1, RCX = 2, RBX = 3, RSI = 4, RDI = 5, RBP = 6, RSP = 7,
    R8 = 8, R9 = 9, R10 = 10, R11 = 11, R12 = 12, R13 = 13, R14 = 14, R15 = 15,
    XMM0 = 17, XMM1 = 18, XMM2 = 19, XMM3 = 20, XMM4 = 21, XMM5 = 22, XMM6 = 23, XMM7 = 24,
    XMM8 = 25, XMM9 = 26, XMM10 = 27, XMM11 = 28, XMM12 = 29, XMM13 = 30, XMM14 = 31, XMM15 = 32,
}

pub(super) static NAMES: &[NameRun] = &[
    named(0, &["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"]),
    stepped(8, 8, "r", 8, 1),
    named(16, &["rip"]),
    run(17, 16, "xmm"),
    run(33, 8, "st"),
    run(41, 8, "mm"),
    named(49, &["rflags", "es", "cs", "ss", "ds", "fs", "gs"]),
    named(58, &["fs_base", "gs_base"]),
    stepped(67, 16, "xmm", 16, 1),
    run(118, 8, "k"),
    stepped(130, 16, "r", 16, 1),
];

pub(super) fn view(reg: u16, size: u16) -> Option<RegisterName> {
    let vector = |number| match size {
        17..=32 => Some(RegisterName::numbered("ymm", number)),
        33.. => Some(RegisterName::numbered("zmm", number)),
        _ => None,
    };
    match reg {
        0..=7 => {
            let names: &[&str; 8] = match size {
                1 => &["al", "dl", "cl", "bl", "sil", "dil", "bpl", "spl"],
                2 => &["ax", "dx", "cx", "bx", "si", "di", "bp", "sp"],
                4 => &["eax", "edx", "ecx", "ebx", "esi", "edi", "ebp", "esp"],
                _ => return None,
            };
            names.get(usize::from(reg)).map(|name| RegisterName::plain(name))
        }
        8..=15 => gpr_suffix(reg, size),
        130..=145 => gpr_suffix(reg - 114, size),
        17..=32 => vector(reg - 17),
        67..=82 => vector(reg - 51),
        _ => None,
    }
}

fn gpr_suffix(number: u16, size: u16) -> Option<RegisterName> {
    let suffix = match size {
        1 => "b",
        2 => "w",
        4 => "d",
        _ => return None,
    };
    Some(RegisterName {
        suffix,
        ..RegisterName::numbered("r", number)
    })
}

const FLOAT_ARGS: [DwarfReg; 8] = [XMM0, XMM1, XMM2, XMM3, XMM4, XMM5, XMM6, XMM7];

const VECTORS: RegSet = RegSet::numbered(17, 32).union(RegSet::numbered(67, 82));

/// k0 to k7.
const MASKS: RegSet = RegSet::numbered(118, 125);

const CALLER_SAVED: RegSet = RegSet::of(&[RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11]);

/// System V: every vector and mask register is the caller's to save.
pub(super) static REGISTERS: Registers = Registers {
    always_free: RegSet::of(&[R11]),
    free_at_any_reg: RegSet::of(&[R11]),
    free_at_entry: RegSet::of(&[R11]),
    caller_saved: CALLER_SAVED,
    kept_by_calls: RegSet::of(&[RBX, RBP, R12, R13, R14, R15]),
    special: RegSet::EMPTY,
    lost_in_any_call: RegSet::of(&[R11]),
    lost_in_c_call: CALLER_SAVED.union(VECTORS).union(MASKS),
    live_unless_trusted: RegSet::EMPTY,
    int_args: &[RDI, RSI, RDX, RCX, R8, R9],
    float_args: &FLOAT_ARGS,
    int_result: RAX,
    float_result: XMM0,
    vectors: VECTORS,
    stack_pointer: RSP,
    stack_unit: 8,
    stack_args: 0,
    stack_args_at_entry: 8,
};
