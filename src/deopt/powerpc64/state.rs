//! What the capture routine leaves on the stack, and how its parts are found.
//!
//! Invariant: [`RawState`] is written by the exit stub and by the routine in `capture.rs`; its
//! fields are where `layout.rs` says.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering;

use super::exit_stub::PROCESSOR;
use super::layout::{
    FRAME, GENERAL, HAS_SCALARS, HAS_VECTORS, LR, RED_ZONE, RETURN, SCALARS, STATE, VECTORS, VSCR,
};
use crate::addr::{CodeAddr, DwarfReg};
use crate::deopt::host::in_order;
use crate::deopt::value::MAX;

/// The registers of 8 bytes that both conventions make a function preserve, but for the stack
/// pointer, by DWARF number: r14 to r31, f14 to f31; and r2, which functions without a TOC use as
/// they like.
pub(in crate::deopt) const CALLEE_SAVED: [u16; 37] = [
    2, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 46, 47, 48, 49, 50, 51, 52,
    53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
];
/// r3.
pub(in crate::deopt) const RESULT: DwarfReg = DwarfReg::new(3);
/// r4, the second half of a 128-bit result.
pub(in crate::deopt) const RESULT_HIGH: DwarfReg = DwarfReg::new(4);
/// f1.
pub(in crate::deopt) const FLOAT_RESULT: DwarfReg = DwarfReg::new(33);
/// v2: 64-Bit ELF V2 ABI 1.5, 2.2.5.
pub(in crate::deopt) const VECTOR_RESULT: DwarfReg = DwarfReg::new(79);
/// r1.
pub(in crate::deopt) const STACK_POINTER: DwarfReg = DwarfReg::new(1);
/// The link register.
pub(in crate::deopt) const RETURN_ADDRESS: u16 = 65;
/// r3 to r10: the integer arguments.
pub(in crate::deopt) const ARGS: [u16; 8] = [3, 4, 5, 6, 7, 8, 9, 10];
/// f1 to f13: the floating-point arguments.
pub(in crate::deopt) const FLOAT_ARGS: core::ops::Range<u16> = 33..46;

/// The captured registers.
#[repr(C)]
pub(in crate::deopt) struct RawState {
    fpscr: u64,
    vrsave: u64,
    cr: u64,
    xer: u64,
    features: u64,
    dispatch: u64,
    /// The context that the exit stub stored.
    pub(in crate::deopt) context: u64,
    ctr: u64,
    lr: u64,
    /// The return address into the exit stub, if that is in a block.
    pub(in crate::deopt) return_to: u64,
    /// By DWARF number. The slot of r1 is filled by the dispatcher.
    pub(in crate::deopt) gprs: [u64; 32],
}

const _: () = assert!(core::mem::offset_of!(RawState, gprs) == (GENERAL - STATE) as usize);
const _: () = assert!(core::mem::offset_of!(RawState, lr) == (LR - STATE) as usize);
const _: () = assert!(core::mem::offset_of!(RawState, return_to) == (RETURN - STATE) as usize);

/// Offsets in the block with which a frame is left: r0 to r31, then these.
pub(super) struct Exit {
    pub(super) link: u16,
    pub(super) target: u16,
}

pub(super) const EXIT: Exit = Exit {
    link: 256,
    target: 264,
};
const EXIT_SIZE: u64 = 272;
/// How far below the new stack pointer the block begins with which a frame is left.
pub(in crate::deopt) const EXIT_BELOW: u64 = RED_ZONE + EXIT_SIZE;
/// Where the save area is, from the routine's stack pointer.
pub(in crate::deopt) const SAVED_AT: u64 = SCALARS as u64;

// The block ends where the saved registers do, and does not reach down to the vectors.
const _: () = assert!(FRAME as u64 - RED_ZONE - EXIT_SIZE >= STATE as u64 + 48);

/// The bytes from vs0 to VSCR.
const SAVED: usize = (VSCR + 16 - SCALARS) as usize;

/// The captured registers of one frame.
pub(in crate::deopt) struct Captured<'f> {
    pub(in crate::deopt) raw: &'f mut RawState,
    save: &'f mut [u8],
    /// The general registers as they were at the site, whatever is written later.
    at_site: [u64; 32],
}

/// Where a register is.
enum RegisterPlace {
    /// A word of the state.
    Word(fn(&mut RawState) -> &mut u64),
    General(usize),
    /// So many bytes at this offset of the save area.
    Saved(usize, usize),
    /// The same, the doublewords the highest first.
    Scalar(usize, usize),
    /// A field of the condition register.
    Field(u16),
}

impl RegisterPlace {
    /// Makes bytes of the save area those of a value, or back.
    fn in_order(&self, bytes: &mut [u8]) {
        in_order(bytes);
        // `stxvd2x` stores the high doubleword first, with either order of bytes.
        if matches!(self, Self::Scalar(..)) && cfg!(target_endian = "little") && bytes.len() == 16 {
            bytes.rotate_left(8);
        }
    }
}

const STACK: usize = STACK_POINTER.get() as usize;
const NUMBERED: &str = "there are as many general registers as have numbers";
const SAVED_WHOLE: &str = "the routine saves every register that has a place";
const FITS: &str = "the longest register has room";

fn place(reg: DwarfReg, features: u64) -> Option<RegisterPlace> {
    let has = |feature: u16| features & u64::from(feature) != 0;
    Some(match reg.get() {
        n @ 0..=31 => RegisterPlace::General(usize::from(n)),
        n @ 1200..=1231 => RegisterPlace::General(usize::from(n - 1200)),
        n @ 32..=63 => RegisterPlace::Scalar(usize::from(n - 32) * 16, if has(HAS_SCALARS) { 16 } else { 8 }),
        65 => RegisterPlace::Word(|raw| &mut raw.lr),
        66 => RegisterPlace::Word(|raw| &mut raw.ctr),
        n @ 68..=75 => RegisterPlace::Field(n - 68),
        76 => RegisterPlace::Word(|raw| &mut raw.xer),
        n @ 77..=108 if has(HAS_VECTORS) => {
            RegisterPlace::Saved(usize::from(VECTORS - SCALARS) + usize::from(n - 77) * 16, 16)
        }
        109 if has(HAS_VECTORS) => RegisterPlace::Word(|raw| &mut raw.vrsave),
        _ => return None,
    })
}

impl<'f> Captured<'f> {
    /// # Safety
    /// Only for what the capture routine passes: `raw` and `save` are valid, unaliased, and outlive `'f`.
    pub(in crate::deopt) unsafe fn new(raw: *mut RawState, save: *mut u8) -> Self {
        // SAFETY: as the caller promises.
        let raw = unsafe { &mut *raw };
        // SAFETY: the routine wrote as many bytes; they end where the state begins.
        let save = unsafe { core::slice::from_raw_parts_mut(save, SAVED) };
        let frame = (&raw const *raw as u64).wrapping_sub(u64::from(STATE));
        raw.gprs[STACK] = frame.wrapping_add(u64::from(FRAME));
        let at_site = raw.gprs;
        Self { raw, save, at_site }
    }

    /// A register as it was at the site: what addresses are made of, and what a function has not
    /// saved.
    pub(in crate::deopt) fn base(&self, reg: DwarfReg) -> Option<u64> {
        if let Some(value) = self.at_site.get(usize::from(reg.get())) {
            return Some(*value);
        }
        let (bytes, width) = self.read(reg);
        let word = match place(reg, self.raw.features)? {
            // A floating-point register is the high half.
            RegisterPlace::Scalar(..) => bytes.get(..width)?.last_chunk(),
            _ if width == 8 => bytes.first_chunk(),
            _ => None,
        };
        word.map(|word| u64::from_le_bytes(*word))
    }

    /// The condition register.
    pub(in crate::deopt) fn flags(&self) -> u64 {
        self.raw.cr
    }

    pub(in crate::deopt) fn set_flags(&mut self, flags: u64) {
        self.raw.cr = flags & u64::from(u32::MAX);
    }

    /// The whole register and its size in bytes, 0 when it was not captured. Bytes are from the
    /// least significant on.
    pub(in crate::deopt) fn read(&self, reg: DwarfReg) -> ([u8; MAX], usize) {
        let mut bytes = [0; MAX];
        let word = match place(reg, self.raw.features) {
            None => return (bytes, 0),
            Some(ref place @ (RegisterPlace::Saved(offset, size) | RegisterPlace::Scalar(offset, size))) => {
                let from = self.save.get(offset..offset + size).expect(SAVED_WHOLE);
                let to = bytes.get_mut(..size).expect(FITS);
                to.copy_from_slice(from);
                place.in_order(to);
                return (bytes, size);
            }
            Some(RegisterPlace::General(n)) => *self.raw.gprs.get(n).expect(NUMBERED),
            Some(RegisterPlace::Field(n)) => {
                let field = self.raw.cr >> (28 - 4 * n) & 15;
                bytes[0] = field as u8;
                return (bytes, 4);
            }
            Some(RegisterPlace::Word(_)) => match reg.get() {
                65 => self.raw.lr,
                66 => self.raw.ctr,
                76 => self.raw.xer,
                _ => self.raw.vrsave,
            },
        };
        *bytes.first_chunk_mut().expect(FITS) = word.to_le_bytes();
        (bytes, 8)
    }

    /// Overwrites the first bytes of a register. The caller has checked that it has as many. What
    /// fits a floating-point register goes there.
    pub(in crate::deopt) fn write(&mut self, reg: DwarfReg, bytes: &[u8]) {
        let (mut whole, width) = self.read(reg);
        let first = match place(reg, self.raw.features) {
            Some(RegisterPlace::Scalar(..)) if bytes.len() <= 8 => width.saturating_sub(8),
            _ => 0,
        };
        for (to, from) in whole.iter_mut().skip(first).zip(bytes) {
            *to = *from;
        }
        let low = u64::from_le_bytes(*whole.first_chunk().expect(FITS));
        match place(reg, self.raw.features) {
            None => {}
            Some(ref place @ (RegisterPlace::Saved(offset, size) | RegisterPlace::Scalar(offset, size))) => {
                let to = self.save.get_mut(offset..offset + size).expect(SAVED_WHOLE);
                let from = whole.get_mut(..width).expect(FITS);
                place.in_order(from);
                to.copy_from_slice(from);
            }
            Some(RegisterPlace::General(n)) => {
                *self.raw.gprs.get_mut(n).expect(NUMBERED) = low;
            }
            Some(RegisterPlace::Field(n)) => {
                let shift = 28 - 4 * n;
                self.raw.cr = self.raw.cr & !(15 << shift) | (low & 15) << shift;
            }
            Some(RegisterPlace::Word(word)) => *word(self.raw) = low,
        }
    }

    /// Writes what the routine loads to continue at `at` with this stack pointer, and returns
    /// where.
    ///
    /// # Safety
    /// From the stack pointer upwards is the stack of the code at
    /// `at`; nothing of what lies between a red zone below it and the site is needed any more.
    pub(in crate::deopt) unsafe fn leave(self, at: CodeAddr, stack_pointer: u64) -> u64 {
        let mut words = [0; (EXIT_SIZE / 8) as usize];
        let target = at.get();
        let all = self.raw.gprs.iter().chain([&self.raw.lr, &target]);
        for (to, from) in words.iter_mut().zip(all) {
            *to = *from;
        }
        words[STACK] = stack_pointer;
        let exit = stack_pointer.wrapping_sub(RED_ZONE + EXIT_SIZE);
        // SAFETY: the block ends a red zone below a stack pointer that is at or above the site's. There the captured
        // state from LR on or dead frames are; the dispatcher's own frame is below both, and the state has
        // been copied and is not used any more.
        unsafe { (exit as *mut [u64; (EXIT_SIZE / 8) as usize]).write(words) };
        exit
    }

    /// There is no such flag here.
    pub(in crate::deopt) fn clear_direction(&mut self) {}
}

/// To be called before the first exit stub exists.
pub(in crate::deopt) fn prepare() {
    // PPC_FEATURE_HAS_ALTIVEC and PPC_FEATURE_HAS_VSX of the kernel's asm/cputable.h.
    const ALTIVEC: u64 = 0x1000_0000;
    const VSX: u64 = 0x80;
    // SAFETY: takes a number.
    let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP) } as u64;
    let feature = |bit: u64, feature| if capabilities & bit != 0 { feature } else { 0 };
    let features = feature(ALTIVEC, HAS_VECTORS) | feature(VSX, HAS_SCALARS);
    PROCESSOR.store(features, Ordering::Relaxed);
}

/// How many bytes of the save area the routine reads when a frame is left: up to the general
/// registers.
pub(in crate::deopt) fn saved_len() -> usize {
    usize::from(LR - SCALARS)
}

/// There are none on this architecture.
pub(in crate::deopt) fn has_shadow_stack() -> bool {
    false
}
