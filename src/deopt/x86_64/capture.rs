//! The part that all exit stubs of the process share: it saves every register, calls the
//! dispatcher, and restores them.
//!
//! It is called with the red zone skipped. What called it ends in the distance to the word with this
//! routine's address, and in the word before that is the context. The stack then holds, from the site's
//! stack pointer down: 128 bytes that are not touched, the return address into the exit stub, flags, r15
//! to rax in descending DWARF number, and the context, which are a `RawState`; and the save area of XSAVE
//! or FXSAVE, aligned to 64 bytes. That area stays under one page, so no guard page can be stepped over.
//!
//! The dispatcher runs with the direction flag clear and with the floating-point settings that the
//! platform starts a program with: compiled code may have changed them.
//!
//! It answers 0 to resume: everything is popped where it was pushed and `ret 128` goes back into the
//! exit stub, so that calls and returns stay paired. It drops the skipped red zone, too: an instruction
//! less in each exit stub. Or it answers the address of a block of
//! registers, flags and address, which ends 128 bytes below the new stack pointer: `ret 128` takes
//! the last word and skips the red zone, so at no time does anything that is still needed lie below
//! the stack pointer, where a signal may write.
//!
//! The second entry is for [`lay`](crate::deopt::lay): it moves the stack pointer down page by
//! page, calls, and goes on as behind the dispatcher, with the save area at the lower stack
//! pointer.

#![allow(unsafe_code)]

use core::ffi::c_void;

use super::state::{SAVE_MASK, SAVE_SIZE};
use crate::deopt::lay::Lay;

macro_rules! pop_all {
    () => {
        "pop rax
         pop rdx
         pop rcx
         pop rbx
         pop rsi
         pop rdi
         pop rbp
         lea rsp, [rsp + 8]
         pop r8
         pop r9
         pop r10
         pop r11
         pop r12
         pop r13
         pop r14
         pop r15
         popfq"
    };
}

core::arch::global_asm!(
    ".text",
    ".p2align 4",
    ".globl {name}",
    "{name}:",
    ".cfi_startproc",
    // The caller is the exit stub, in the frame of the site's function: whoever has unwind
    // information for the exit stub goes on.
    "endbr64",
    "pushfq",
    ".cfi_adjust_cfa_offset 8",
    "push r15",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset r15, 0",
    "push r14",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset r14, 0",
    "push r13",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset r13, 0",
    "push r12",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset r12, 0",
    "push r11",
    "push r10",
    "push r9",
    "push r8",
    "push rsp",
    ".cfi_adjust_cfa_offset 40",
    "push rbp",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset rbp, 0",
    "push rdi",
    "push rsi",
    ".cfi_adjust_cfa_offset 16",
    "push rbx",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset rbx, 0",
    "push rcx",
    "push rdx",
    "push rax",
    ".cfi_adjust_cfa_offset 24",
    "mov rax, [rsp + 17 * 8]",
    "movsxd rcx, dword ptr [rax - 4]",
    "push qword ptr [rax + rcx - 8]",
    ".cfi_adjust_cfa_offset 8",
    "cld",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "sub rsp, qword ptr [rip + {size}]",
    "and rsp, -64",
    "mov rdi, rbp",
    "mov rsi, rsp",
    "mov eax, dword ptr [rip + {mask}]",
    "mov edx, dword ptr [rip + {mask} + 4]",
    "test rax, rax",
    "jz 2f",
    // XRSTOR refuses a header with anything but 0 behind its first word, and XSAVE writes only
    // that.
    "xor ecx, ecx",
    "mov qword ptr [rsp + 512], rcx",
    "mov qword ptr [rsp + 520], rcx",
    "mov qword ptr [rsp + 528], rcx",
    "mov qword ptr [rsp + 536], rcx",
    "mov qword ptr [rsp + 544], rcx",
    "mov qword ptr [rsp + 552], rcx",
    "mov qword ptr [rsp + 560], rcx",
    "mov qword ptr [rsp + 568], rcx",
    "xsave64 [rsp]",
    // Where x87 is as FNINIT makes it (bit 0 of XSTATE_BV: Intel SDM volume 1, 13.6), as in most
    // code, that is left out: 20 ns of a miss.
    "test byte ptr [rsp + 512], 1",
    "jz 9f",
    "jmp 3f",
    "2:",
    "fxsave64 [rsp]",
    "3:",
    // protection: handlers-find-x87-as-it-is-first
    "fninit",
    "9:",
    "push 0x1f80",
    "ldmxcsr dword ptr [rsp]",
    "pop rcx",
    "call {dispatch}",
    "7:",
    "mov rbx, rax",
    "mov eax, dword ptr [rip + {mask}]",
    "mov edx, dword ptr [rip + {mask} + 4]",
    "test rax, rax",
    "jz 4f",
    "xrstor64 [rsp]",
    "jmp 5f",
    "4:",
    "fxrstor64 [rsp]",
    "5:",
    "test rbx, rbx",
    "jnz 6f",
    // From here on nothing is called.
    ".cfi_undefined 16",
    // Without the context.
    "lea rsp, [rbp + 8]",
    pop_all!(),
    // protection: exit-stub-skips-the-red-zone (2)
    "ret 128",
    "6:",
    "mov rsp, rbx",
    pop_all!(),
    "ret 128",
    ".globl {lower}",
    "{lower}:",
    "lea rax, [rsp - 4096]",
    "cmp rax, rsi",
    "jb 8f",
    "mov rsp, rax",
    "or qword ptr [rsp], 0",
    "jmp {lower}",
    "8:",
    "mov rsp, rsi",
    "call rdx",
    "jmp 7b",
    ".cfi_endproc",
    name = sym patchpoint_capture,
    lower = sym patchpoint_enter_lower,
    mask = sym SAVE_MASK,
    size = sym SAVE_SIZE,
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
