//! Registers by DWARF number.

use crate::addr::DwarfReg;
use crate::arch::RegSet;
use crate::arch::backend::Registers;

macro_rules! registers {
    ($($name:ident = $number:literal,)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`, DWARF number ", stringify!($number), ".")]
            pub const $name: DwarfReg = DwarfReg::new($number);
        )*
    };
}

registers! {
    RAX = 0, RDX = 1, RCX = 2, RBX = 3, RSI = 4, RDI = 5, RBP = 6, RSP = 7,
    R8 = 8, R9 = 9, R10 = 10, R11 = 11, R12 = 12, R13 = 13, R14 = 14, R15 = 15,
    XMM0 = 17, XMM1 = 18, XMM2 = 19, XMM3 = 20, XMM4 = 21, XMM5 = 22, XMM6 = 23, XMM7 = 24,
    XMM8 = 25, XMM9 = 26, XMM10 = 27, XMM11 = 28, XMM12 = 29, XMM13 = 30, XMM14 = 31, XMM15 = 32,
}

const FLOAT_ARGS: [DwarfReg; 8] = [XMM0, XMM1, XMM2, XMM3, XMM4, XMM5, XMM6, XMM7];

const VECTORS: RegSet = numbers(17, 32).union(numbers(67, 82));

/// k0 to k7.
const MASKS: RegSet = numbers(118, 125);

const CALLER_SAVED: RegSet = RegSet::of(&[RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11]);

/// The registers of these numbers.
const fn numbers(first: u16, last: u16) -> RegSet {
    let mut set = RegSet::EMPTY;
    let mut number = first;
    while number <= last {
        set = set.with(DwarfReg::new(number));
        number += 1;
    }
    set
}

/// System V: every vector and mask register is the caller's to save.
pub(super) const REGISTERS: Registers = Registers {
    always_free: RegSet::of(&[R11]),
    free_at_any_reg: RegSet::of(&[R11]),
    free_at_entry: RegSet::of(&[R11]),
    caller_saved: CALLER_SAVED,
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
    stack_args: 0,
    stack_args_at_entry: 8,
};

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
