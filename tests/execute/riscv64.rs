//! LP64D: instructions to enter and leave code with all registers given.

use super::machine::{Block, Host, Trampolines};
use core::arch::global_asm;

pub(super) const HOST: Host = Host {
    link: Some(1),
    return_address: 0,
    // The way in and out goes through t5 and t6; gp and tp are the process's.
    excluded: &[0, 3, 4, 30, 31],
    int_args: &[10, 11, 12, 13, 14, 15, 16, 17],
    first_float_arg: 42,
    float_args: 8,
    stack_args: 0,
    stack_args_at_entry: 0,
    above_stack_pointer: 0,
    int_result: 10,
    float_result: 42,
    stack_pointer: 2,
    frame_pointer: 8,
};

/// Where a floating-point register is in [`Block::float`].
pub(super) fn float(dwarf: u16) -> Option<usize> {
    dwarf.checked_sub(32).filter(|n| *n < 32).map(usize::from)
}

/// The low 4 bytes of a value that is put in a floating-point register: boxed in a NaN.
pub(super) fn single(low: u32) -> u64 {
    u64::from(low) | 0xffff_ffff_0000_0000
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

/// `auipc t6, 0; ld t5, 24(t6); ld t6, 16(t6); jr t6`, where to, and what identifies the exit.
pub(super) fn exit(_at: u64, block: &Block, id: u64, to: u64) -> Vec<u8> {
    let load = |rd: u32, offset: u32| offset << 20 | 31 << 15 | 3 << 12 | rd << 7 | 0x03;
    let words = [31 << 7 | 0x17, load(30, 24), load(31, 16), 31 << 15 | 0x67];
    let mut code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    code.extend(to.to_le_bytes());
    code.extend((core::ptr::from_ref(block) as u64 | id).to_le_bytes());
    code
}

global_asm!(
    r"
    .option push
    .option arch, +d
    .data
    .p2align 3
    .globl patchpoint_execute_table
    .hidden patchpoint_execute_table
patchpoint_execute_table:
    .quad 10f, 20f, 30f, 40f
    .text
    .p2align 4
10: addi sp, sp, -208
    sd ra, 0(sp)
    sd s0, 8(sp)
    sd s1, 16(sp)
    .irp n,2,3,4,5,6,7,8,9,10,11
    sd s\n, 8 + 8 * \n(sp)
    .endr
    .irp n,0,1,2,3,4,5,6,7,8,9,10,11
    fsd fs\n, 104 + 8 * \n(sp)
    .endr
    sd sp, 520(a0)
    mv t5, a0
    .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    fld f\n, 256 + 8 * \n(t5)
    .endr
    .irp n,1,2,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29
    ld x\n, 8 * \n(t5)
    .endr
    ld t6, 512(t5)
    jr t6
20: andi t6, t5, -64
    sd t5, 528(t6)
    .irp n,1,2,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29
    sd x\n, 8 * \n(t6)
    .endr
    .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    fsd f\n, 256 + 8 * \n(t6)
    .endr
    ld sp, 520(t6)
    ld ra, 0(sp)
    ld s0, 8(sp)
    ld s1, 16(sp)
    .irp n,2,3,4,5,6,7,8,9,10,11
    ld s\n, 8 + 8 * \n(sp)
    .endr
    .irp n,0,1,2,3,4,5,6,7,8,9,10,11
    fld fs\n, 104 + 8 * \n(sp)
    .endr
    addi sp, sp, 208
    ret
30: add a0, a0, a1
    add a0, a0, a1
    addi a0, a0, 5
    .irp n,a1,a2,a3,a4,a5,a6,a7,t0,t1,t2,t3,t4,t5,t6
    li \n, -77
    .endr
    .irp n,0,1,2,3,4,5,6,7,10,11,12,13,14,15,16,17,28,29,30,31
    fmv.d.x f\n, t0
    .endr
    ret
40: ret
    .option pop
    "
);
