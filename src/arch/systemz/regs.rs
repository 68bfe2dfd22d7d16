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
    R0 = 0, R1 = 1, R2 = 2, R3 = 3, R4 = 4, R5 = 5, R6 = 6, R7 = 7,
    R8 = 8, R9 = 9, R10 = 10, R11 = 11, R12 = 12, R13 = 13, R14 = 14, R15 = 15,
    F0 = 16, F2 = 17, F4 = 18, F6 = 19, F1 = 20, F3 = 21, F5 = 22, F7 = 23,
    F8 = 24, F10 = 25, F12 = 26, F14 = 27, F9 = 28, F11 = 29, F13 = 30, F15 = 31,
}

/// f0 to f15, which are also the left halves of v0 to v15, and v16 to v31.
const VECTORS: RegSet = numbers(16, 31).union(UPPER_VECTORS);

/// v16 to v31.
const UPPER_VECTORS: RegSet = numbers(68, 83);

/// What LLVM gives up at every patchpoint and stackmap, and for linkage at every call.
const FREE: RegSet = RegSet::of(&[R0, R1, R14]);

const CALLER_SAVED: RegSet = RegSet::of(&[R0, R1, R2, R3, R4, R5, R14]);

const CALLER_SAVED_FLOATS: RegSet = numbers(16, 23);

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

/// ELF ABI: r6 to r13, r15 and f8 to f15 are the callee's to save; the last of the integer arguments, in r6, too.
/// The 160 bytes above the stack pointer belong to whoever is called.
pub(super) const REGISTERS: Registers = Registers {
    always_free: FREE,
    free_at_any_reg: FREE,
    // r14 holds the return address.
    free_at_entry: RegSet::of(&[R0, R1]),
    caller_saved: CALLER_SAVED,
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
    stack_args: 160,
    stack_args_at_entry: 160,
};

/// The order in which free registers are taken for values: those last that can be the base of an address.
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
