//! The part that all exit stubs of the process share: it saves every register, calls the
//! dispatcher, and restores them.
//!
//! An exit stub calls it with its context in t0, and has stored ra and t0 at the stack pointer. The
//! stack then holds, from the site's stack pointer down: 16 bytes that are not touched, t0, ra, and
//! [`RawState`] with all general and floating-point registers and fcsr. Registers of the vector
//! extension are not saved.
//!
//! The dispatcher runs with the floating-point settings that the platform starts a program with:
//! compiled code may have changed them.
//!
//! It answers 0 to resume: everything is loaded from where it was stored, and `ret` goes back into
//! the exit stub, so that calls and returns stay paired. Or it answers the address of another
//! [`RawState`], which ends at the new stack pointer; the stack pointer is moved below it first, so
//! at no time does anything that is still needed lie below the stack pointer, where a signal may
//! write. There the last jump needs a register: t1 holds the address at which the thread goes on.
//! gp and tp belong to the platform and are never loaded.
//!
//! The second entry is for [`lay`](crate::deopt::lay): it moves the stack pointer down page by
//! page, calls, and goes on as behind the dispatcher.
//!
//! [`RawState`]: super::state::RawState

#![allow(unsafe_code)]

use core::ffi::c_void;

use crate::deopt::lay::Lay;

core::arch::global_asm!(
    ".option push",
    ".option arch, +d",
    ".text",
    ".p2align 4",
    ".globl {name}",
    "{name}:",
    ".cfi_startproc",
    // The caller is the exit stub, in the frame of the site's function: whoever has unwind
    // information for the exit stub goes on.
    "addi sp, sp, -{size}",
    ".cfi_adjust_cfa_offset {size}",
    ".irp n, 0,3,4,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "sd x\\n, 8 * \\n(sp)",
    ".endr",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "fsd f\\n, 256 + 8 * \\n(sp)",
    ".endr",
    // What the exit stub has stored.
    "ld t1, {size}(sp)",
    "sd t1, 8(sp)",
    "ld t1, {size} + 8(sp)",
    "sd t1, 40(sp)",
    "addi t1, sp, {below_site}",
    "sd t1, 16(sp)",
    "frcsr t1",
    "sd t1, 512(sp)",
    "sd ra, 520(sp)",
    // Of the registers that the exit stub's caller keeps, this one alone is changed below.
    ".cfi_rel_offset s0, 64",
    ".cfi_rel_offset ra, 520",
    "sd t0, 528(sp)",
    "fscsr zero",
    "mv a0, sp",
    "addi a1, sp, 256",
    "li s0, 0",
    "call {dispatch}",
    "5:",
    // From here on nothing is called but on a stack that has been left.
    ".cfi_undefined ra",
    "mv t0, a0",
    "bnez t0, 6f",
    // For the exit stub to load.
    "ld t1, 8(sp)",
    "sd t1, {size}(sp)",
    "ld t1, 40(sp)",
    "sd t1, {size} + 8(sp)",
    "ld ra, 520(sp)",
    "j 7f",
    "6:",
    "mv sp, t0",
    "ld ra, 8(sp)",
    "7:",
    "ld t1, 512(sp)",
    "fscsr t1",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "fld f\\n, 256 + 8 * \\n(sp)",
    ".endr",
    ".irp n, 6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "ld x\\n, 8 * \\n(sp)",
    ".endr",
    "bnez t0, 8f",
    "addi sp, sp, {size}",
    "ret",
    "8:",
    "ld t0, 40(sp)",
    "addi sp, sp, {size}",
    "jr t1",
    ".globl {lower}",
    "{lower}:",
    "lui t1, 1",
    "mv t2, sp",
    "9:",
    "sub t2, t2, t1",
    "bltu t2, a1, 4f",
    "mv sp, t2",
    "sd zero, 0(sp)",
    "j 9b",
    "4:",
    "mv sp, a1",
    "li s0, 0",
    "jalr a2",
    "j 5b",
    ".cfi_endproc",
    ".option pop",
    name = sym patchpoint_capture,
    lower = sym patchpoint_enter_lower,
    size = const super::state::STATE_SIZE,
    below_site = const super::state::BELOW_SITE,
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
