//! System V: instructions to enter and leave code with all registers given.

use super::machine::{Block, Host, Trampolines};
use core::arch::global_asm;

pub(super) const HOST: Host = Host {
    link: None,
    return_address: 8,
    // Everything in the record can be in any register; r11 counts the exits.
    excluded: &[11],
    int_args: &[5, 4, 1, 2, 8, 9],
    first_float_arg: 17,
    float_args: 8,
    stack_args: 0,
    stack_args_at_entry: 8,
    above_stack_pointer: 8,
    int_result: 0,
    float_result: 17,
    stack_pointer: 7,
    frame_pointer: 6,
};

/// Where a floating-point register is in [`Block::float`].
pub(super) fn float(dwarf: u16) -> Option<usize> {
    dwarf.checked_sub(17).filter(|n| *n < 16).map(usize::from)
}

/// The low 4 bytes of a value that is put in a floating-point register.
pub(super) fn single(low: u32) -> u64 {
    low.into()
}

/// What a floating-point register holds as 4 bytes.
pub(super) fn of_single(value: u64) -> Option<u32> {
    Some(value as u32)
}

unsafe extern "C" {
    static patchpoint_execute_table: [u64; 4];
}

pub(super) fn trampolines() -> Trampolines {
    // SAFETY: defined below, and never written.
    let [enter, leave, callee, preserver] = unsafe { patchpoint_execute_table };
    Trampolines {
        enter,
        leave,
        callee,
        preserver,
    }
}

/// What is called instead of the code.
pub(super) fn function(code: u64) -> u64 {
    code
}

/// The function at an address that goes to other code.
pub(super) fn near(at: u64, block: &Block, to: u64) -> Vec<u8> {
    exit(at, block, 0, to)
}

/// `movabs r11, block; mov qword ptr [r11 + 528], id; jmp [rip]`, and where to.
pub(super) fn exit(_at: u64, block: &Block, id: u64, to: u64) -> Vec<u8> {
    let mut code = vec![0x49, 0xbb];
    code.extend((core::ptr::from_ref(block) as u64).to_le_bytes());
    code.extend([0x49, 0xc7, 0x83, 0x10, 0x02, 0x00, 0x00]);
    code.extend((id as u32).to_le_bytes());
    code.extend([0xff, 0x25, 0, 0, 0, 0]);
    code.extend(to.to_le_bytes());
    code
}

global_asm!(
    r"
    .data
    .p2align 3
    .globl patchpoint_execute_table
    .hidden patchpoint_execute_table
patchpoint_execute_table:
    .quad 10f, 20f, 30f, 40f
    .text
    .p2align 4
10: push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    mov [rdi + 520], rsp
    mov r11, rdi
    .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movsd xmm\n, qword ptr [r11 + 256 + 8 * \n]
    .endr
    mov rax, [r11]
    mov rdx, [r11 + 8]
    mov rcx, [r11 + 16]
    mov rbx, [r11 + 24]
    mov rsi, [r11 + 32]
    mov rdi, [r11 + 40]
    mov rbp, [r11 + 48]
    mov rsp, [r11 + 56]
    .irp n,8,9,10,12,13,14,15
    mov r\n, [r11 + 8 * \n]
    .endr
    jmp qword ptr [r11 + 512]
20: mov [r11], rax
    mov [r11 + 8], rdx
    mov [r11 + 16], rcx
    mov [r11 + 24], rbx
    mov [r11 + 32], rsi
    mov [r11 + 40], rdi
    mov [r11 + 48], rbp
    mov [r11 + 56], rsp
    .irp n,8,9,10,12,13,14,15
    mov [r11 + 8 * \n], r\n
    .endr
    .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movsd qword ptr [r11 + 256 + 8 * \n], xmm\n
    .endr
    mov rsp, [r11 + 520]
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
30: lea rax, [rdi + 2 * rsi + 5]
    mov rcx, -77
    .irp n,rdx,rsi,rdi,r8,r9,r10,r11
    mov \n, rcx
    .endr
    .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movq xmm\n, rcx
    .endr
    ret
40: ret
    "
);
