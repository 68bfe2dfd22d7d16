//! The part that all exit stubs of the process share: it saves every register, calls the
//! dispatcher, and restores them.
//!
//! An exit stub calls it with x17, its context in x16, and has stored x16, x17 and x30 at the stack
//! pointer. The stack then holds, from the site's stack pointer down: 136 bytes that are not
//! touched, x30, x17, x16, [`RawState`] with all general registers, NZCV, FPSR and FPCR, and v0 to
//! v31. The longer registers of SVE and the predicates are not saved.
//!
//! The dispatcher runs with the floating-point settings that the platform starts a program with:
//! compiled code may have changed them.
//!
//! It answers 0 to resume: everything is loaded from where it was stored, and `ret` goes back into
//! the exit stub, so that calls and returns stay paired. Or it answers the address of a block of
//! registers, flags and address, which ends 128 bytes below the new stack pointer, so at no time
//! does anything that is still needed lie below the stack pointer, where a signal may write. There
//! the last branch needs a register: x17 holds the address at which the thread goes on. `ret` takes
//! it, since it needs no landing pad.
//!
//! The second entry is for [`lay`](crate::deopt::lay): it moves the stack pointer down page by
//! page, calls, and goes on as behind the dispatcher, with the save area at the lower stack
//! pointer.
//!
//! [`RawState`]: super::state::RawState

#![allow(unsafe_code)]

use core::ffi::c_void;

use crate::deopt::lay::Lay;

macro_rules! each_general_pair {
    ($op:literal, $base:literal) => {
        concat!(
            $op,
            " x0, x1, [",
            $base,
            "]\n",
            $op,
            " x2, x3, [",
            $base,
            ", #16]\n",
            $op,
            " x4, x5, [",
            $base,
            ", #32]\n",
            $op,
            " x6, x7, [",
            $base,
            ", #48]\n",
            $op,
            " x8, x9, [",
            $base,
            ", #64]\n",
            $op,
            " x10, x11, [",
            $base,
            ", #80]\n",
            $op,
            " x12, x13, [",
            $base,
            ", #96]\n",
            $op,
            " x14, x15, [",
            $base,
            ", #112]\n",
            $op,
            " x18, x19, [",
            $base,
            ", #144]\n",
            $op,
            " x20, x21, [",
            $base,
            ", #160]\n",
            $op,
            " x22, x23, [",
            $base,
            ", #176]\n",
            $op,
            " x24, x25, [",
            $base,
            ", #192]\n",
            $op,
            " x26, x27, [",
            $base,
            ", #208]\n",
            $op,
            " x28, x29, [",
            $base,
            ", #224]",
        )
    };
}

macro_rules! each_vector_pair {
    ($op:literal) => {
        concat!(
            $op,
            " q0, q1, [sp]\n",
            $op,
            " q2, q3, [sp, #32]\n",
            $op,
            " q4, q5, [sp, #64]\n",
            $op,
            " q6, q7, [sp, #96]\n",
            $op,
            " q8, q9, [sp, #128]\n",
            $op,
            " q10, q11, [sp, #160]\n",
            $op,
            " q12, q13, [sp, #192]\n",
            $op,
            " q14, q15, [sp, #224]\n",
            $op,
            " q16, q17, [sp, #256]\n",
            $op,
            " q18, q19, [sp, #288]\n",
            $op,
            " q20, q21, [sp, #320]\n",
            $op,
            " q22, q23, [sp, #352]\n",
            $op,
            " q24, q25, [sp, #384]\n",
            $op,
            " q26, q27, [sp, #416]\n",
            $op,
            " q28, q29, [sp, #448]\n",
            $op,
            " q30, q31, [sp, #480]",
        )
    };
}

core::arch::global_asm!(
    ".text",
    ".p2align 4",
    ".globl {name}",
    "{name}:",
    ".cfi_startproc",
    // The caller is the exit stub, in the frame of the site's function: whoever has unwind
    // information for the exit stub goes on. bti c
    "hint #34",
    "sub sp, sp, #{size}",
    ".cfi_adjust_cfa_offset {size}",
    each_general_pair!("stp", "sp"),
    // What the exit stub has stored: x16, x17, x30.
    "ldp x0, x1, [sp, #{size}]",
    "stp x0, x1, [sp, #128]",
    "ldr x0, [sp, #{size} + 16]",
    "add x1, sp, #{below_site}",
    "stp x0, x1, [sp, #240]",
    "mrs x0, nzcv",
    "mrs x1, fpsr",
    "stp x0, x1, [sp, #256]",
    "mrs x0, fpcr",
    "stp x0, x30, [sp, #272]",
    // Of the registers that the exit stub's caller keeps, this one alone is changed below.
    ".cfi_rel_offset x29, 232",
    ".cfi_rel_offset x30, 280",
    "str x16, [sp, #288]",
    "mov x0, sp",
    "sub sp, sp, #{vectors}",
    ".cfi_adjust_cfa_offset {vectors}",
    each_vector_pair!("stp"),
    "mov x1, sp",
    "msr fpcr, xzr",
    "mov x29, xzr",
    "bl {dispatch}",
    "7:",
    // From here on nothing is called but on a stack that has been left.
    ".cfi_undefined x30",
    each_vector_pair!("ldp"),
    "add sp, sp, #{vectors}",
    "cbnz x0, 6f",
    "ldp x0, x1, [sp, #256]",
    "msr nzcv, x0",
    "msr fpsr, x1",
    "ldp x0, x30, [sp, #272]",
    "msr fpcr, x0",
    // For the exit stub to load.
    "ldp x0, x1, [sp, #128]",
    "stp x0, x1, [sp, #{size}]",
    "ldr x0, [sp, #240]",
    "str x0, [sp, #{size} + 16]",
    each_general_pair!("ldp", "sp"),
    "add sp, sp, #{size}",
    "ret",
    // The block need not be aligned as an access through the stack pointer must be.
    "6:",
    "mov x17, x0",
    "mov sp, x17",
    "ldp x0, x1, [x17, #256]",
    "msr nzcv, x0",
    "msr fpsr, x1",
    "ldr x0, [x17, #272]",
    "msr fpcr, x0",
    each_general_pair!("ldp", "x17"),
    "ldr x16, [x17, #128]",
    "ldr x30, [x17, #240]",
    "ldr x17, [x17, #248]",
    "add sp, sp, #{exit}",
    "ret x17",
    ".globl {lower}",
    "{lower}:",
    "hint #34",
    "mov x3, sp",
    "8:",
    "sub x3, x3, #1, lsl #12",
    "cmp x3, x1",
    "b.lo 9f",
    "mov sp, x3",
    "str xzr, [sp]",
    "b 8b",
    "9:",
    "mov sp, x1",
    "mov x29, xzr",
    "blr x2",
    "b 7b",
    ".cfi_endproc",
    name = sym patchpoint_capture,
    lower = sym patchpoint_enter_lower,
    size = const super::state::STATE_SIZE,
    vectors = const super::state::SAVE_SIZE,
    below_site = const super::state::BELOW_SITE,
    exit = const super::state::EXIT_SIZE + super::state::SKIPPED,
    dispatch = sym crate::deopt::dispatch,
);

unsafe extern "C" {
    /// The routine above. The version keeps two copies of this crate in one program apart.
    #[link_name = concat!("patchpoint_capture_", env!("CARGO_PKG_VERSION"))]
    fn patchpoint_capture();
    /// Its second entry: calls the function on the stack at that address, and leaves with what it
    /// returns.
    #[link_name = concat!("patchpoint_enter_lower_", env!("CARGO_PKG_VERSION"))]
    fn patchpoint_enter_lower(laying: *mut c_void, stack: u64, lay: Lay) -> !;
}

/// See [`lay`](crate::deopt::lay).
///
/// # Safety
/// Nothing below the stack is needed, what is passed lies above it, and the function answers as the dispatcher does.
pub(in crate::deopt) unsafe fn enter_lower(laying: *mut c_void, stack: u64, lay: Lay) -> ! {
    // SAFETY: as the caller promises.
    unsafe { patchpoint_enter_lower(laying, stack, lay) }
}

/// The address of the routine.
pub(in crate::deopt) fn address() -> u64 {
    patchpoint_capture as *const () as u64
}
