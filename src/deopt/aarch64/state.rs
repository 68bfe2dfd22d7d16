//! What the capture routine leaves on the stack, and how its parts are found.
//!
//! Invariant: [`RawState`] and [`Exit`] are written and read by the routine in `capture.rs` by
//! offset; their fields change only together with it.

#![allow(unsafe_code)]

use crate::addr::{CodeAddr, DwarfReg};
use crate::deopt::aarch64::exit_stub;
use crate::deopt::value::MAX;

/// The registers that AAPCS64 (6.1) makes a function preserve, but for the stack pointer: x19 to
/// x29, and the low halves of v8 to v15, by DWARF number.
pub(in crate::deopt) const CALLEE_SAVED: [u16; 19] = [
    19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 72, 73, 74, 75, 76, 77, 78, 79,
];
/// x0.
pub(in crate::deopt) const RESULT: DwarfReg = DwarfReg::new(0);
/// x1, the second half of a 128-bit result.
pub(in crate::deopt) const RESULT_HIGH: DwarfReg = DwarfReg::new(1);
/// v0.
pub(in crate::deopt) const FLOAT_RESULT: DwarfReg = DwarfReg::new(64);
/// Where vectors are returned: there, too.
pub(in crate::deopt) const VECTOR_RESULT: DwarfReg = FLOAT_RESULT;
/// sp.
pub(in crate::deopt) const STACK_POINTER: DwarfReg = DwarfReg::new(31);
/// The return address column: x30.
pub(in crate::deopt) const RETURN_ADDRESS: u16 = 30;
/// x0 to x7: the integer arguments.
pub(in crate::deopt) const ARGS: [u16; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
/// v0 to v7: the floating-point arguments, by consecutive numbers.
pub(in crate::deopt) const FLOAT_ARGS: core::ops::Range<u16> = 64..72;

/// Vector registers by DWARF number.
const VECTORS: core::ops::Range<u16> = 64..96;
/// N, Z, C, V: what compiled code keeps in the flags.
const WRITABLE_FLAGS: u64 = 0xf000_0000;

/// The captured registers, as the routine stores them.
#[repr(C)]
pub(in crate::deopt) struct RawState {
    /// x0 to x30, and the stack pointer, by DWARF number.
    pub(in crate::deopt) gprs: [u64; 32],
    nzcv: u64,
    fpsr: u64,
    fpcr: u64,
    /// The return address into the exit stub.
    pub(in crate::deopt) return_to: u64,
    /// The context that the exit stub passed.
    pub(in crate::deopt) context: u64,
    unused: u64,
}

/// The save area below it: v0 to v31, low bytes first.
type Vectors = [[u8; 16]; 32];

/// What the routine loads when the frame is left.
#[repr(C)]
struct Exit {
    /// x0 to x30.
    gprs: [u64; 31],
    at: u64,
    nzcv: u64,
    fpsr: u64,
    fpcr: u64,
    unused: u64,
}

pub(in crate::deopt) const STATE_SIZE: u64 = size_of::<RawState>() as u64;
pub(in crate::deopt) const SAVE_SIZE: u64 = size_of::<Vectors>() as u64;
/// Distance from the state up to the stack pointer at the site.
pub(in crate::deopt) const BELOW_SITE: u64 = STATE_SIZE + exit_stub::BELOW_SITE;
pub(in crate::deopt) const EXIT_SIZE: u64 = size_of::<Exit>() as u64;
/// Bytes below the stack pointer that are left alone: Darwin's red zone.
pub(in crate::deopt) const SKIPPED: u64 = 128;
/// How far below the new stack pointer the block begins with which a frame is left.
pub(in crate::deopt) const EXIT_BELOW: u64 = SKIPPED + EXIT_SIZE;
/// Where the save area is, from the routine's stack pointer.
pub(in crate::deopt) const SAVED_AT: u64 = 0;

const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(RawState, nzcv) == 256 && offset_of!(RawState, fpcr) == 272);
    assert!(offset_of!(RawState, context) == 288);
    assert!(offset_of!(Exit, at) == 248 && offset_of!(Exit, nzcv) == 256 && offset_of!(Exit, fpcr) == 272);
    assert!(STATE_SIZE % 16 == 0 && EXIT_SIZE % 16 == 0);
    // What is loaded when a frame is left does not reach down to the save area.
    assert!(EXIT_SIZE + SKIPPED <= BELOW_SITE);
};

/// The captured registers of one frame.
pub(in crate::deopt) struct Captured<'f> {
    pub(in crate::deopt) raw: &'f mut RawState,
    vectors: &'f mut Vectors,
    /// The general registers and the low halves of the vector registers as they were at the site,
    /// whatever is written later.
    at_site: ([u64; 32], [u64; 32]),
}

fn low(vector: &[u8; 16]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *vector;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// The place of a register among those of its kind.
fn vector_index(reg: DwarfReg) -> Option<usize> {
    let number = Some(reg.get()).filter(|number| VECTORS.contains(number))?;
    Some(usize::from(number - VECTORS.start))
}

impl<'f> Captured<'f> {
    /// # Safety
    /// Only for what the capture routine passes: `raw` and `save` are valid, unaliased, and outlive `'f`.
    pub(in crate::deopt) unsafe fn new(raw: *mut RawState, save: *mut u8) -> Self {
        // SAFETY: as the caller promises.
        let raw = unsafe { &mut *raw };
        // SAFETY: the routine reserved and wrote as many bytes; they need no alignment.
        let vectors = unsafe { &mut *save.cast::<Vectors>() };
        let at_site = (raw.gprs, vectors.each_ref().map(low));
        Self {
            raw,
            vectors,
            at_site,
        }
    }

    /// A register as it was at the site: what addresses are made of, and of vector registers what a
    /// function has to preserve.
    pub(in crate::deopt) fn base(&self, reg: DwarfReg) -> Option<u64> {
        let (gprs, vectors) = &self.at_site;
        match vector_index(reg) {
            Some(index) => vectors.get(index).copied(),
            None => gprs.get(usize::from(reg.get())).copied(),
        }
    }

    pub(in crate::deopt) fn flags(&self) -> u64 {
        self.raw.nzcv
    }

    pub(in crate::deopt) fn set_flags(&mut self, flags: u64) {
        self.raw.nzcv = flags & WRITABLE_FLAGS;
    }

    /// The whole register and its size in bytes, 0 when it was not captured.
    pub(in crate::deopt) fn read(&self, reg: DwarfReg) -> ([u8; MAX], usize) {
        let mut bytes = [0; MAX];
        let len = match vector_index(reg).and_then(|index| self.vectors.get(index)) {
            Some(vector) => fill(&mut bytes, vector),
            None => match self.raw.gprs.get(usize::from(reg.get())) {
                Some(word) => fill(&mut bytes, &word.to_le_bytes()),
                None => 0,
            },
        };
        (bytes, len)
    }

    /// Overwrites the first bytes of a register. The caller has checked that it has as many.
    pub(in crate::deopt) fn write(&mut self, reg: DwarfReg, bytes: &[u8]) {
        if let Some(vector) = vector_index(reg).and_then(|index| self.vectors.get_mut(index)) {
            fill(vector, bytes);
        } else if let Some(word) = self.raw.gprs.get_mut(usize::from(reg.get())) {
            let mut whole = word.to_le_bytes();
            fill(&mut whole, bytes);
            *word = u64::from_le_bytes(whole);
        }
    }

    /// Writes what the routine loads to continue at `at` with this stack pointer, and returns
    /// where.
    ///
    /// # Safety
    /// From the stack pointer upwards is the stack of the code at
    /// `at`; nothing of what lies between 128 bytes below it and the site is needed any more.
    pub(in crate::deopt) unsafe fn leave(self, at: CodeAddr, stack_pointer: u64) -> u64 {
        let mut exit = Exit {
            gprs: [0; 31],
            at: at.get(),
            nzcv: self.raw.nzcv,
            fpsr: self.raw.fpsr,
            fpcr: self.raw.fpcr,
            unused: 0,
        };
        for (to, from) in exit.gprs.iter_mut().zip(&self.raw.gprs) {
            *to = *from;
        }
        let block = stack_pointer.wrapping_sub(SKIPPED + EXIT_SIZE);
        // SAFETY: the block ends 128 bytes below a stack pointer that is at or above the site's. There the exit stub's
        // words and the captured general registers are, or dead frames: they have been copied and are not used any
        // more. The save area, which the routine loads first, and the dispatcher's own frame are below it.
        unsafe { (block as *mut Exit).write_unaligned(exit) };
        block
    }

    /// There is no such flag.
    pub(in crate::deopt) fn clear_direction(&mut self) {}
}

/// Copies as many bytes as both have, and says how many.
fn fill(to: &mut [u8], from: &[u8]) -> usize {
    to.iter_mut().zip(from).map(|(to, from)| *to = *from).count()
}

/// To be called before the first exit stub exists.
pub(in crate::deopt) fn prepare() {}

/// How many bytes of the save area the routine reads when a frame is left.
pub(in crate::deopt) fn saved_len() -> usize {
    SAVE_SIZE as usize
}

/// Whether this thread has a guarded control stack, which checks every return.
pub(in crate::deopt) fn has_shadow_stack() -> bool {
    let feature: u64;
    // SAFETY: CHKFEAT x16 (DDI 0487, C6.2) clears the bits of x16 whose features are enabled: bit 0 is this one. On
    // older processors it is a hint that does nothing.
    unsafe {
        std::arch::asm!("hint #40", inout("x16") 1_u64 => feature, options(nomem, nostack, preserves_flags));
    }
    feature == 0
}
