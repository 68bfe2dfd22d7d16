//! AAPCS64: instructions to enter and leave code with all registers given.

use super::machine::{Block, Host, Trampolines};
use core::arch::global_asm;

pub(super) const HOST: Host = Host {
    link: Some(30),
    return_address: 0,
    // The way in and out goes through x16 and x17; x18 is the platform's.
    excluded: &[16, 17, 18],
    int_args: &[0, 1, 2, 3, 4, 5, 6, 7],
    first_float_arg: 64,
    float_args: 8,
    stack_args: 0,
    stack_args_at_entry: 0,
    above_stack_pointer: 0,
    int_result: 0,
    float_result: 64,
    stack_pointer: 31,
    frame_pointer: 29,
};

/// Where a floating-point register is in [`Block::float`].
pub(super) fn float(dwarf: u16) -> Option<usize> {
    dwarf.checked_sub(64).filter(|n| *n < 32).map(usize::from)
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

/// `ldr x16, .+16; ldr x17, .+20; br x16; nop`, where to, and what identifies the exit.
pub(super) fn exit(_at: u64, block: &Block, id: u64, to: u64) -> Vec<u8> {
    let words = [0x5800_0090u32, 0x5800_00b1, 0xd61f_0200, 0xd503_201f];
    let mut code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    code.extend(to.to_le_bytes());
    code.extend((core::ptr::from_ref(block) as u64 | id).to_le_bytes());
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
10: sub sp, sp, #176
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0, #520]
    mov x17, x0
    .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ldr d\n, [x17, #(256 + 8 * \n)]
    .endr
    ldr x16, [x17, #248]
    mov sp, x16
    .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,19,20,21,22,23,24,25,26,27,28,29,30
    ldr x\n, [x17, #(8 * \n)]
    .endr
    ldr x16, [x17, #512]
    br x16
20: and x16, x17, #0xffffffffffffffc0
    str x17, [x16, #528]
    .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,19,20,21,22,23,24,25,26,27,28,29,30
    str x\n, [x16, #(8 * \n)]
    .endr
    mov x17, sp
    str x17, [x16, #248]
    .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    str d\n, [x16, #(256 + 8 * \n)]
    .endr
    ldr x17, [x16, #520]
    mov sp, x17
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #176
    ret
30: add x0, x0, x1, lsl #1
    add x0, x0, #5
    .irp n,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
    mov x\n, #-77
    .endr
    .irp n,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    fmov d\n, x1
    .endr
    ret
40: ret
    "
);
