//! The ELF ABI of SystemZ: instructions to enter and leave code with all registers given.

use super::machine::{Block, Host, Trampolines};
use core::arch::global_asm;

pub(super) const HOST: Host = Host {
    link: Some(14),
    return_address: 0,
    // The way in and out goes through r0 and r1.
    excluded: &[0, 1],
    int_args: &[2, 3, 4, 5, 6],
    first_float_arg: 16,
    float_args: 4,
    stack_args: 160,
    stack_args_at_entry: 160,
    above_stack_pointer: 160,
    int_result: 2,
    float_result: 16,
    stack_pointer: 15,
    frame_pointer: 11,
};

/// Where a floating-point register is in [`Block::float`]: by its number in instructions.
pub(super) fn float(dwarf: u16) -> Option<usize> {
    let numbers = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15];
    numbers.get(usize::from(dwarf.checked_sub(16)?)).copied()
}

/// The low 4 bytes of a value that is put in a floating-point register: its high half.
pub(super) fn single(low: u32) -> u64 {
    u64::from(low) << 32
}

/// What a floating-point register holds as 4 bytes.
pub(super) fn of_single(value: u64) -> Option<u32> {
    Some((value >> 32) as u32)
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

/// `larl %r1, .; lg %r0, 32(%r1); lg %r1, 24(%r1); br %r1; nopr; nopr`, where to, and what
/// identifies the exit.
pub(super) fn exit(_at: u64, block: &Block, id: u64, to: u64) -> Vec<u8> {
    let mut code = vec![0xc0, 0x10, 0, 0, 0, 0];
    code.extend([0xe3, 0x00, 0x10, 0x20, 0x00, 0x04]);
    code.extend([0xe3, 0x10, 0x10, 0x18, 0x00, 0x04]);
    code.extend([0x07, 0xf1, 0x07, 0x00, 0x07, 0x00]);
    code.extend(to.to_be_bytes());
    code.extend((core::ptr::from_ref(block) as u64 | id).to_be_bytes());
    code
}

global_asm!(
    r"
    .data
    .p2align 3
    .globl patchpoint_execute_table
    .hidden patchpoint_execute_table
patchpoint_execute_table:
    .quad .Lexecute_enter, .Lexecute_leave, .Lexecute_callee, .Lexecute_preserver
    .text
    .p2align 4
.Lexecute_enter:
    stmg %r6, %r15, 48(%r15)
    aghi %r15, -224
    .irp n,8,9,10,11,12,13,14,15
    std %f\n, 96 + 8 * \n(%r15)
    .endr
    stg %r15, 520(%r2)
    lgr %r1, %r2
    .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    ld %f\n, 256 + 8 * \n(%r1)
    .endr
    lmg %r2, %r15, 16(%r1)
    lg %r1, 512(%r1)
    br %r1
.Lexecute_leave:
    lgr %r1, %r0
    nill %r1, 0xffc0
    stg %r0, 528(%r1)
    stmg %r2, %r15, 16(%r1)
    .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    std %f\n, 256 + 8 * \n(%r1)
    .endr
    lg %r15, 520(%r1)
    .irp n,8,9,10,11,12,13,14,15
    ld %f\n, 96 + 8 * \n(%r15)
    .endr
    aghi %r15, 224
    lmg %r6, %r15, 48(%r15)
    br %r14
.Lexecute_callee:
    agr %r2, %r3
    agr %r2, %r3
    aghi %r2, 5
    .irp n,0,1,3,4,5
    lghi %r\n, -77
    .endr
    .irp n,0,1,2,3,4,5,6,7
    ldgr %f\n, %r3
    .endr
.Lexecute_preserver:
    br %r14
    "
);
