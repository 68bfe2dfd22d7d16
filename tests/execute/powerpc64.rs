//! ELFv2 and ELFv1: instructions to enter and leave code with all registers given. Rust has no
//! stable assembly for PowerPC: they are made here, word by word (Power ISA 3.1, book I).

use super::HAS_DESCRIPTORS;
use super::machine::{Block, Host, Trampolines, executable};

pub(super) const HOST: Host = Host {
    link: None,
    return_address: 0,
    // The way in and out goes through r11 and r12; r0, r2 and r13 are the ABI's.
    excluded: &[0, 2, 11, 12, 13],
    int_args: &[3, 4, 5, 6, 7, 8, 9, 10],
    first_float_arg: 33,
    float_args: 13,
    stack_args: if HAS_DESCRIPTORS { 112 } else { 96 },
    stack_args_at_entry: if HAS_DESCRIPTORS { 112 } else { 96 },
    above_stack_pointer: if HAS_DESCRIPTORS { 112 } else { 96 },
    int_result: 3,
    float_result: 33,
    stack_pointer: 1,
    frame_pointer: 31,
};

/// Where a floating-point register is in [`Block::float`].
pub(super) fn float(dwarf: u16) -> Option<usize> {
    dwarf.checked_sub(32).filter(|n| *n < 32).map(usize::from)
}

/// The 4 bytes of a value that is put in a floating-point register as a number: in the double
/// format, where the bits of what is no number go along (Power ISA book I, 4.6.2).
pub(super) fn single(low: u32) -> u64 {
    let number = f32::from_bits(low);
    if number.is_nan() {
        let (sign, fraction) = (u64::from(low >> 31), u64::from(low & 0x007f_ffff));
        return sign << 63 | 0x7ff << 52 | fraction << 29;
    }
    f64::from(number).to_bits()
}

/// What a floating-point register holds as 4 bytes: only a number that single precision has.
pub(super) fn of_single(value: u64) -> Option<u32> {
    let number = f64::from_bits(value);
    let low = match number.is_nan() {
        true => (value >> 32) as u32 & 0xff80_0000 | (value >> 29) as u32 & 0x007f_ffff,
        false => (number as f32).to_bits(),
    };
    (single(low) == value).then_some(low)
}

const fn memory(opcode: u32, reg: u32, offset: u32, base: u32) -> u32 {
    opcode << 26 | reg << 21 | base << 16 | offset & 0xffff
}

const fn ld(reg: u32, offset: u32, base: u32) -> u32 {
    memory(58, reg, offset, base)
}

const fn std(reg: u32, offset: u32, base: u32) -> u32 {
    memory(62, reg, offset, base)
}

const fn lfd(reg: u32, offset: u32, base: u32) -> u32 {
    memory(50, reg, offset, base)
}

const fn stfd(reg: u32, offset: u32, base: u32) -> u32 {
    memory(54, reg, offset, base)
}

const fn addi(reg: u32, base: u32, value: i32) -> u32 {
    memory(14, reg, value as u32, base)
}

const MFLR_0: u32 = 0x7c08_02a6;
const MTLR_0: u32 = 0x7c08_03a6;
const MTLR_12: u32 = 0x7d88_03a6;
const MFCR_0: u32 = 0x7c00_0026;
const MTCR_0: u32 = 0x7c0f_f120;
const MTCTR_12: u32 = 0x7d89_03a6;
const BCTR: u32 = 0x4e80_0420;
const BLR: u32 = 0x4e80_0020;
/// `mr 11, 3`
const MR_11_3: u32 = 0x7c6b_1b78;
/// `clrrdi 12, 11, 6`
const CLEAR_ID: u32 = 0x796c_0664;
const FRAME: i32 = 448;

/// The registers that are loaded and stored.
fn general() -> impl Iterator<Item = u32> {
    [1].into_iter().chain(3..=10).chain(14..=31)
}

fn enter() -> Vec<u32> {
    // stdu 1, -FRAME(1)
    let push = std(1, (-FRAME) as u32, 1) | 1;
    let mut code = vec![MFLR_0, std(0, 16, 1), MFCR_0, std(0, 8, 1), push];
    code.extend((14..32).map(|n| std(n, 112 + 8 * (n - 14), 1)));
    code.extend((14..32).map(|n| stfd(n, 256 + 8 * (n - 14), 1)));
    code.extend([std(1, 520, 3), std(2, 536, 3), MR_11_3, ld(12, 544, 11), MTLR_12]);
    code.extend((0..32).map(|n| lfd(n, 256 + 8 * n, 11)));
    code.extend(general().map(|n| ld(n, 8 * n, 11)));
    code.extend([ld(12, 512, 11), MTCTR_12, BCTR]);
    code
}

fn leave() -> Vec<u32> {
    let mut code = vec![CLEAR_ID, std(11, 528, 12)];
    code.extend(general().map(|n| std(n, 8 * n, 12)));
    code.extend((0..32).map(|n| stfd(n, 256 + 8 * n, 12)));
    code.extend([ld(1, 520, 12), ld(2, 536, 12)]);
    code.extend((14..32).map(|n| ld(n, 112 + 8 * (n - 14), 1)));
    code.extend((14..32).map(|n| lfd(n, 256 + 8 * (n - 14), 1)));
    code.extend([addi(1, 1, FRAME), ld(0, 8, 1), MTCR_0, ld(0, 16, 1), MTLR_0, BLR]);
    code
}

fn callee() -> Vec<u32> {
    // add 3, 3, 4
    let add = 0x7c63_2214;
    let mut code = vec![add, add, addi(3, 3, 5)];
    code.extend([0, 4, 5, 6, 7, 8, 9, 10, 11, 12].map(|n| addi(n, 0, -77)));
    code.extend([MTCTR_12, std(4, (-8i32) as u32, 1)]);
    code.extend((0..14).map(|n| lfd(n, (-8i32) as u32, 1)));
    code.push(BLR);
    code
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

pub(super) fn trampolines() -> Trampolines {
    let place = |words: &[u32]| executable(&bytes(words));
    let entry = place(&enter());
    Trampolines {
        enter: function(entry),
        leave: place(&leave()),
        callee: place(&callee()),
        preserver: place(&[BLR]),
    }
}

/// What is called instead of the code. ELFv1: a descriptor, with the code's address, a TOC pointer,
/// and an environment.
pub(super) fn function(code: u64) -> u64 {
    match HAS_DESCRIPTORS {
        true => vec![code, 0, 0].leak().as_ptr() as u64,
        false => code,
    }
}

/// The function at an address that goes to other code.
pub(super) fn near(at: u64, block: &Block, to: u64) -> Vec<u8> {
    let code = exit(at, block, 0, to);
    match HAS_DESCRIPTORS {
        true => [at + 24, 0, 0]
            .into_iter()
            .flat_map(u64::to_ne_bytes)
            .chain(code)
            .collect(),
        false => code,
    }
}

/// A constant in r11 or r12, in five instructions.
fn constant(reg: u32, value: u64) -> [u32; 5] {
    let part = |shift: u32| (value >> shift) as u32 & 0xffff;
    [
        memory(15, reg, part(48), 0),
        memory(24, reg, part(32), reg),
        // sldi reg, reg, 32
        0x7800_07c6 | reg << 21 | reg << 16,
        memory(25, reg, part(16), reg),
        memory(24, reg, part(0), reg),
    ]
}

/// The address in r12, through ctr; what identifies the exit in r11.
pub(super) fn exit(_at: u64, block: &Block, id: u64, to: u64) -> Vec<u8> {
    let mut code = Vec::new();
    code.extend(constant(12, to));
    code.extend(constant(11, core::ptr::from_ref(block) as u64 | id));
    code.extend([MTCTR_12, BCTR]);
    bytes(&code)
}
