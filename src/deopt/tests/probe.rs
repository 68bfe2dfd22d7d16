//! A function that fills every register, flag and red-zone word, goes through a body, and stores
//! them all again.

use core::mem::offset_of;

use super::machine::{Asm, Memory, RAX, RDI, RSI, RSP};
use crate::addr::CodeAddr;
use crate::deopt::state::NO_XSAVE;

/// CF, PF, AF, ZF, SF, DF, OF.
pub(super) const ALL_FLAGS: u64 = 0xcd5;

/// All that code can see of itself.
#[repr(C, align(64))]
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Image {
    pub(super) vectors: [[u8; 64]; 32],
    pub(super) gprs: [u64; 16],
    pub(super) red_zone: [u64; 16],
    pub(super) masks: [u64; 8],
    pub(super) flags: u64,
    pub(super) mxcsr: u64,
    pub(super) control: u64,
    /// st(0) to st(7): the first 10 bytes.
    pub(super) stack: [[u8; 16]; 8],
}

impl Image {
    pub(super) fn zero() -> Self {
        Self {
            vectors: [[0; 64]; 32],
            gprs: [0; 16],
            red_zone: [0; 16],
            masks: [0; 8],
            flags: 0,
            mxcsr: 0,
            control: 0,
            stack: [[0; 16]; 8],
        }
    }

    /// Different bytes everywhere, within what the machine has.
    pub(super) fn pattern(seed: u8, flags: u64) -> Self {
        let mut image = Self::zero();
        let mut next = u64::from(seed) << 32 | 0x9e37_79b9;
        let mut word = || {
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            next ^ next >> 29
        };
        for (number, vector) in image.vectors.iter_mut().enumerate() {
            if number < vector_count() {
                vector[..width()].fill_with(|| word() as u8);
            }
        }
        image.gprs.fill_with(&mut word);
        if width() == 64 {
            image.masks.fill_with(&mut word);
        }
        for (index, slot) in image.red_zone.iter_mut().enumerate() {
            *slot = image.gprs[red_zone_source(index)];
        }
        image.flags = flags;
        // Flush to zero, round up, exceptions masked; x87 at single precision, exceptions masked.
        (image.mxcsr, image.control) = (0xdf80, 0x007f);
        for (n, number) in (0..).zip(&mut image.stack) {
            number[..10].copy_from_slice(&[0x35, 0xc2, seed, 0x21, 0xa2, 0xda, 0x0f, 0xc9, n, 0x40]);
        }
        image
    }
}

/// Bytes of a vector register on this machine. It is asked itself: what the exit stubs say they
/// save is what is tested.
pub(super) fn width() -> usize {
    match std::env::var_os(NO_XSAVE) {
        Some(_) => 16,
        None if std::is_x86_feature_detected!("avx512f") => 64,
        None if std::is_x86_feature_detected!("avx") => 32,
        None => 16,
    }
}

pub(super) fn vector_count() -> usize {
    if width() == 64 { 32 } else { 16 }
}

/// The register whose value the red-zone word holds.
fn red_zone_source(index: usize) -> usize {
    if index == RSP { RAX } else { index }
}

fn vector_at(number: u8) -> i32 {
    offset_of!(Image, vectors) as i32 + 64 * i32::from(number)
}

fn gpr_at(reg: usize) -> i32 {
    (offset_of!(Image, gprs) + 8 * reg) as i32
}

fn mask_at(number: u8) -> i32 {
    offset_of!(Image, masks) as i32 + 8 * i32::from(number)
}

fn stack_at(number: i32) -> i32 {
    offset_of!(Image, stack) as i32 + 16 * number
}

const LOCALS: i32 = 0x208;
const SAVED_RDI: i32 = 0;
const OUTPUT: i32 = 8;
const MXCSR: i32 = 16;
const CONTROL: i32 = 24;

/// A placed probe.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    entry: CodeAddr,
    /// Where it goes on to store its registers.
    pub(super) collect: CodeAddr,
}

impl Probe {
    /// Places a probe whose registers are full when `body` is executed; it falls through to
    /// `collect`.
    pub(super) fn place(memory: &mut Memory, body: impl FnOnce(&mut Asm)) -> Self {
        let mut asm = Asm::new(memory.here());
        fill(&mut asm);
        body(&mut asm);
        let collect = asm.here();
        store(&mut asm);
        Self {
            entry: memory.place(&asm.bytes),
            collect,
        }
    }

    pub(super) fn run(&self, input: &Image) -> Image {
        let mut output = Image::zero();
        // SAFETY: the memory was sealed with a probe there, which follows this convention.
        let entry: extern "sysv64" fn(*const Image, *mut Image) =
            unsafe { core::mem::transmute(self.entry.get() as usize) };
        entry(input, &mut output);
        output
    }
}

fn fill(asm: &mut Asm) {
    // push rbx, rbp, r12 to r15
    asm.raw(&[0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57]);
    asm.move_stack(-LOCALS).store(RSI, RSP, OUTPUT);
    asm.op(&[0x0f, 0xae], 3, RSP, MXCSR).op(&[0xd9], 7, RSP, CONTROL);
    for number in 0..vector_count() as u8 {
        asm.vector(false, width(), number, RDI, vector_at(number));
    }
    if width() == 64 {
        for number in 0..8 {
            asm.mask(false, number, RDI, mask_at(number));
        }
    }
    asm.op(&[0x0f, 0xae], 2, RDI, offset_of!(Image, mxcsr) as i32);
    asm.op(&[0xd9], 5, RDI, offset_of!(Image, control) as i32);
    (0..8)
        .rev()
        .for_each(|n| _ = asm.op(&[0xdb], 5, RDI, stack_at(n)));
    // push [rdi + flags]; popfq
    asm.op(&[0xff], 6, RDI, offset_of!(Image, flags) as i32)
        .raw(&[0x9d]);
    for reg in (0..16).filter(|reg| ![RSP, RDI].contains(reg)) {
        asm.load(reg, RDI, gpr_at(reg));
    }
    asm.load(RDI, RDI, gpr_at(RDI));
    for index in 0..16 {
        asm.store(red_zone_source(index), RSP, -8 * (index as i32 + 1));
    }
}

fn store(asm: &mut Asm) {
    asm.store(RDI, RSP, SAVED_RDI).load(RDI, RSP, OUTPUT);
    for reg in (0..16).filter(|reg| *reg != RDI) {
        asm.store(reg, RDI, gpr_at(reg));
    }
    asm.load(RAX, RSP, SAVED_RDI).store(RAX, RDI, gpr_at(RDI));
    for index in 0..16 {
        let at = offset_of!(Image, red_zone) + 8 * index;
        asm.load(RAX, RSP, -8 * (index as i32 + 1))
            .store(RAX, RDI, at as i32);
    }
    // pushfq; pop rax, below the red zone
    asm.move_stack(-256).raw(&[0x9c, 0x58]).move_stack(256);
    asm.store(RAX, RDI, offset_of!(Image, flags) as i32);
    for number in 0..vector_count() as u8 {
        asm.vector(true, width(), number, RDI, vector_at(number));
    }
    if width() == 64 {
        for number in 0..8 {
            asm.mask(true, number, RDI, mask_at(number));
        }
    }
    asm.op(&[0x0f, 0xae], 3, RDI, offset_of!(Image, mxcsr) as i32);
    asm.op(&[0xd9], 7, RDI, offset_of!(Image, control) as i32);
    (0..8).for_each(|n| _ = asm.op(&[0xdb], 7, RDI, stack_at(n)));
    asm.op(&[0x0f, 0xae], 2, RSP, MXCSR).op(&[0xd9], 5, RSP, CONTROL);
    // push 0x202; popfq
    asm.raw(&[0x68, 2, 2, 0, 0, 0x9d]).move_stack(LOCALS);
    asm.raw(&[0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b])
        .ret();
}

/// Code that destroys what a handler might by chance leave alone: vectors, masks, x87, MXCSR.
pub(super) fn place_trasher(memory: &mut Memory) -> CodeAddr {
    let mut asm = Asm::new(memory.here());
    for number in 0..vector_count() as u8 {
        asm.vector(false, width(), number, RDI, 0);
    }
    if width() == 64 {
        for number in 0..8 {
            asm.mask(false, number, RDI, 0);
        }
    }
    // fninit, fld1
    asm.raw(&[0xdb, 0xe3, 0xd9, 0xe8]).ret();
    memory.place(&asm.bytes)
}

/// Runs the trasher.
pub(super) fn trash(at: CodeAddr) {
    let bytes = [0x5au8; 64];
    // SAFETY: the trasher was placed there; what it changes is declared.
    unsafe {
        core::arch::asm!("call {0}", in(reg) at.get(), in("rdi") bytes.as_ptr(), clobber_abi("sysv64"));
    }
}
