//! Registers as the calling conventions use them, and as LLVM leaves them free at sites.

use llvm_stackmaps::addr::DwarfReg;

use crate::{Arch, RegSet};

/// What a sequence needs to know of an architecture's registers and conventions.
#[derive(Debug)]
pub struct Registers {
    /// Free at the first instruction of every patchpoint and shadow.
    pub always_free: RegSet,
    /// Free at the first instruction of every `anyregcc` patchpoint.
    pub free_at_any_reg: RegSet,
    /// Free at the first instruction of every function.
    pub free_at_entry: RegSet,
    /// General registers that a C call may change.
    pub caller_saved: RegSet,
    /// General registers that a C call keeps, and that code may have for values: not the stack
    /// pointer, nor what points to the thread or to a table.
    pub kept_by_calls: RegSet,
    /// Registers that are neither general ones nor hold vectors, which the encoder asks for:
    /// conditions, links.
    pub special: RegSet,
    /// What every call loses, also one of a target that preserves all registers: what the call
    /// itself needs.
    pub lost_in_any_call: RegSet,
    /// All registers that a C call may change, vector registers included.
    pub lost_in_c_call: RegSet,
    /// Registers that LLVM's own call loses although the function may need them: live at every
    /// patchpoint, unless the runtime vouches for live-outs that do not name them.
    pub live_unless_trusted: RegSet,
    /// Integer arguments of the C convention, in order.
    pub int_args: &'static [DwarfReg],
    /// Floating-point arguments of the C convention, in order.
    pub float_args: &'static [DwarfReg],
    /// Integer result of the C convention.
    pub int_result: DwarfReg,
    /// Floating-point result of the C convention.
    pub float_result: DwarfReg,
    /// Registers that hold vectors or floating-point numbers.
    pub vectors: RegSet,
    /// The stack pointer.
    pub stack_pointer: DwarfReg,
    /// What the stack pointer is a multiple of between any two instructions of code that keeps to
    /// the conventions.
    pub stack_unit: u64,
    /// Bytes from the stack pointer to the first stack argument, at a call before it is executed.
    pub stack_args: i32,
    /// The same at the first instruction of a function.
    pub stack_args_at_entry: i32,
}

/// The registers of an architecture.
#[must_use]
#[inline]
pub fn of(arch: Arch) -> &'static Registers {
    arch.isa().registers()
}
