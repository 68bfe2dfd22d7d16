//! Cache maintenance and serialization on PowerPC64, in machine code: Rust has inline assembly for
//! it only since 1.95.

#![allow(unsafe_code)]

use crate::addr::CodeRange;

/// Power ISA, book II, 1.8: `dcbst` of each block, `sync`, `icbi` of each, `sync`, `isync`, from
/// `r3` up to `r4`. No processor of this architecture has blocks of less than 32 bytes, and
/// touching one twice does no harm.
#[unsafe(link_section = ".text.patchpoint")]
static MAINTAIN: [u32; 17] = [
    0x7863_06a4, //    clrrdi 3,3,5
    0x7c65_1b78, //    mr 5,3
    0x7c25_2040, // 1: cmpld 5,4
    0x4080_0010, //    bge 2f
    0x7c00_286c, //    dcbst 0,5
    0x38a5_0020, //    addi 5,5,32
    0x4bff_fff0, //    b 1b
    0x7c00_04ac, // 2: sync
    0x7c65_1b78, //    mr 5,3
    0x7c25_2040, // 3: cmpld 5,4
    0x4080_0010, //    bge 4f
    0x7c00_2fac, //    icbi 0,5
    0x38a5_0020, //    addi 5,5,32
    0x4bff_fff0, //    b 3b
    0x7c00_04ac, // 4: sync
    0x4c00_012c, //    isync
    0x4e80_0020, //    blr
];

/// `sync; isync; blr`
#[unsafe(link_section = ".text.patchpoint")]
static SERIALIZE: [u32; 3] = [0x7c00_04ac, 0x4c00_012c, 0x4e80_0020];

/// Calls a function whose code that is. With ELFv1 a function pointer points to a descriptor:
/// address, TOC, environment.
fn call(code: &'static [u32], a: u64, b: u64) {
    let code = code.as_ptr() as usize;
    let descriptor = [code, 0, 0];
    let pointer = if crate::arch::HOST_HAS_DESCRIPTORS {
        core::hint::black_box(&descriptor).as_ptr() as usize
    } else {
        code
    };
    // SAFETY: code of a leaf function of that type, in a section that is executed; the descriptor outlives the call.
    let function = unsafe { core::mem::transmute::<usize, extern "C" fn(u64, u64)>(pointer) };
    function(a, b);
}

/// Makes the instruction cache agree with memory for a range, as seen at the executed addresses.
pub(super) fn maintain(range: CodeRange) {
    call(&MAINTAIN, range.start().get(), range.end().get());
}

/// Makes this core discard every instruction that it has already fetched.
pub(crate) fn serialize() {
    call(&SERIALIZE, 0, 0);
}
