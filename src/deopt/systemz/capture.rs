//! The part that all exit stubs of the process share: it saves every register, calls the
//! dispatcher, and restores them.
//!
//! The exit stub has lowered the stack pointer by the size of [`RawState`](super::state::RawState),
//! which then is there with r0 to r14 filled, and passes its context in r2; everything else is as
//! at the site, the condition code included. Below come the vector registers, or the floating-point
//! ones where there are none, the access registers, and the register save area of the dispatcher
//! (ELF ABI, s390x Supplement, section 1.2.2).
//!
//! The dispatcher runs with the floating-point control that the platform starts a program with:
//! compiled code may have changed it.
//!
//! It answers 0 to resume: the exit stub takes r0 to r14 and the stack pointer back itself. Or it
//! answers the address of a `RawState` that ends at the new stack pointer; it is read from the
//! stack pointer up, so at no time does anything that is still needed lie below it. There is no
//! branch to an address in memory: r1 holds it.
//!
//! The second entry is for [`lay`](crate::deopt::lay): it moves the stack pointer down page by
//! page, calls, and goes on as behind the dispatcher, with the save area at the lower stack
//! pointer.
//!
//! Vector instructions are written as bytes, since they are not of the processor for which this is
//! compiled.

#![allow(unsafe_code)]

use core::ffi::c_void;

use super::state::HAS_VECTORS;
use crate::deopt::lay::Lay;

core::arch::global_asm!(
    ".text",
    ".p2align 4",
    ".globl {name}",
    "{name}:",
    ".cfi_startproc",
    // The caller is the exit stub, in the frame of the site's function: whoever has unwind
    // information for the exit stub goes on. Its stack pointer is not the frame address but 160
    // bytes below (DW_CFA_val_offset r15, 20 times -8: the assembler of the oldest compiler has no
    // directive for it).
    ".cfi_escape 0x14, 15, 20",
    "ipm %r0",
    "st %r0, 132(%r15)",
    "stfpc 140(%r15)",
    "stg %r2, 144(%r15)",
    "stg %r14, 152(%r15)",
    // Of the registers that the exit stub's caller keeps, these alone are changed below; the exit
    // stub has stored them.
    ".cfi_rel_offset %r9, 72",
    ".cfi_rel_offset %r11, 88",
    ".cfi_rel_offset %r14, 152",
    "lgr %r11, %r15",
    ".cfi_def_cfa_register %r11",
    "aghi %r15, -736",
    "stam %a0, %a15, 672(%r15)",
    "larl %r1, {vectors}",
    "lt %r9, 0(%r1)",
    "je 2f",
    // vstm %v0, %v15, 160(%r15); vstm %v16, %v31, 416(%r15)
    ".byte 0xe7, 0x0f, 0xf0, 0xa0, 0x00, 0x3e, 0xe7, 0x0f, 0xf1, 0xa0, 0x0c, 0x3e",
    "j 3f",
    "2:",
    "std %f0, 160(%r15)",
    "std %f1, 176(%r15)",
    "std %f2, 192(%r15)",
    "std %f3, 208(%r15)",
    "std %f4, 224(%r15)",
    "std %f5, 240(%r15)",
    "std %f6, 256(%r15)",
    "std %f7, 272(%r15)",
    "std %f8, 288(%r15)",
    "std %f9, 304(%r15)",
    "std %f10, 320(%r15)",
    "std %f11, 336(%r15)",
    "std %f12, 352(%r15)",
    "std %f13, 368(%r15)",
    "std %f14, 384(%r15)",
    "std %f15, 400(%r15)",
    "3:",
    "lghi %r0, 0",
    "sfpc %r0",
    "lgr %r2, %r11",
    "la %r3, 160(%r15)",
    "brasl %r14, {dispatch}",
    "7:",
    // From here on nothing is called but on a stack that has been left.
    ".cfi_undefined %r14",
    "ltr %r9, %r9",
    "je 4f",
    // vlm %v0, %v15, 160(%r15); vlm %v16, %v31, 416(%r15)
    ".byte 0xe7, 0x0f, 0xf0, 0xa0, 0x00, 0x36, 0xe7, 0x0f, 0xf1, 0xa0, 0x0c, 0x36",
    "j 5f",
    "4:",
    "ld %f0, 160(%r15)",
    "ld %f1, 176(%r15)",
    "ld %f2, 192(%r15)",
    "ld %f3, 208(%r15)",
    "ld %f4, 224(%r15)",
    "ld %f5, 240(%r15)",
    "ld %f6, 256(%r15)",
    "ld %f7, 272(%r15)",
    "ld %f8, 288(%r15)",
    "ld %f9, 304(%r15)",
    "ld %f10, 320(%r15)",
    "ld %f11, 336(%r15)",
    "ld %f12, 352(%r15)",
    "ld %f13, 368(%r15)",
    "ld %f14, 384(%r15)",
    "ld %f15, 400(%r15)",
    "5:",
    // a0 and a1 hold the thread pointer.
    "lam %a2, %a15, 680(%r15)",
    "ltgr %r2, %r2",
    "jne 6f",
    "lgr %r15, %r11",
    "lfpc 140(%r15)",
    "l %r0, 132(%r15)",
    "spm %r0",
    "lg %r14, 152(%r15)",
    "br %r14",
    "6:",
    "lgr %r15, %r2",
    "lfpc 140(%r15)",
    "l %r0, 132(%r15)",
    "spm %r0",
    "lmg %r0, %r14, 0(%r15)",
    "la %r15, 160(%r15)",
    "br %r1",
    ".globl {lower}",
    "{lower}:",
    "lgr %r1, %r15",
    "8:",
    "aghi %r1, -4096",
    "clgr %r1, %r3",
    "jl 9f",
    "lgr %r15, %r1",
    "xc 0(8, %r15), 0(%r15)",
    "j 8b",
    "9:",
    "lgr %r15, %r3",
    "larl %r1, {vectors}",
    "lt %r9, 0(%r1)",
    "basr %r14, %r4",
    "j 7b",
    ".cfi_endproc",
    name = sym patchpoint_capture,
    lower = sym patchpoint_enter_lower,
    vectors = sym HAS_VECTORS,
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
