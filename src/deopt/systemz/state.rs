//! What the capture routine leaves on the stack, and how its parts are found.
//!
//! Invariant: [`RawState`] is written by the exit stub and by the routine in `capture.rs`; its
//! fields change only together with them.

#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::addr::{CodeAddr, DwarfReg};
use crate::deopt::value::MAX;

/// The registers that the ELF ABI makes a function preserve, but for the stack pointer: r6 to r13,
/// and f8 to f15, by DWARF number.
pub(in crate::deopt) const CALLEE_SAVED: [u16; 16] =
    [6, 7, 8, 9, 10, 11, 12, 13, 24, 25, 26, 27, 28, 29, 30, 31];
/// r2.
pub(in crate::deopt) const RESULT: DwarfReg = DwarfReg::new(2);
/// r3. LLVM returns the second of two integers there.
pub(in crate::deopt) const RESULT_HIGH: DwarfReg = DwarfReg::new(3);
/// f0.
pub(in crate::deopt) const FLOAT_RESULT: DwarfReg = DwarfReg::new(16);
/// v24: ELF ABI, s390x Supplement 1.6, section 1.2.5.
pub(in crate::deopt) const VECTOR_RESULT: DwarfReg = DwarfReg::new(76);
/// r15.
pub(in crate::deopt) const STACK_POINTER: DwarfReg = DwarfReg::new(15);
/// The return address column: r14.
pub(in crate::deopt) const RETURN_ADDRESS: u16 = 14;
/// r2 to r6: the integer arguments.
pub(in crate::deopt) const ARGS: [u16; 5] = [2, 3, 4, 5, 6];
/// f0, f2, f4, f6: the floating-point arguments, by consecutive numbers.
pub(in crate::deopt) const FLOAT_ARGS: core::ops::Range<u16> = 16..20;

/// Condition code and program mask, where INSERT PROGRAM MASK puts them; the rest is left over.
const FLAGS: u64 = 0x3f00_0000;
/// The condition code.
const WRITABLE_FLAGS: u64 = 0x3000_0000;
/// f8, the first floating-point register that a function preserves.
const FIRST_SAVED_FLOAT: u16 = 24;
/// r1, through which a frame is left.
const EXIT: usize = 1;

/// The captured registers.
#[repr(C)]
pub(in crate::deopt) struct RawState {
    /// The slot of r15 is filled by the dispatcher.
    pub(in crate::deopt) gprs: [u64; 16],
    /// Condition code and program mask, as INSERT PROGRAM MASK has them in a word.
    flags: u64,
    /// The floating-point control register.
    fpc: u64,
    /// The context that the exit stub passed.
    pub(in crate::deopt) context: u64,
    /// The return address into the exit stub.
    pub(in crate::deopt) return_to: u64,
}

const _: () = assert!(size_of::<RawState>() == 160);

/// How far below the new stack pointer the block begins with which a frame is left.
pub(in crate::deopt) const EXIT_BELOW: u64 = size_of::<RawState>() as u64;
/// Where the save area is, from the routine's stack pointer.
pub(in crate::deopt) const SAVED_AT: u64 = 160;

/// Bytes of the area of vector registers.
const SAVE_SIZE: usize = 32 * 16;

/// Whether the machine has vector registers. Written before the first exit stub exists.
pub(in crate::deopt) static HAS_VECTORS: AtomicU32 = AtomicU32::new(0);

/// `HWCAP_S390_VXRS` of `<asm/elf.h>`: the kernel lets programs use vector registers.
const HWCAP_VECTORS: libc::c_ulong = 1 << 11;

fn has_vectors() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: reads the auxiliary vector.
        let found = unsafe { libc::getauxval(libc::AT_HWCAP) } & HWCAP_VECTORS != 0;
        HAS_VECTORS.store(found.into(), Ordering::Relaxed);
        found
    })
}

/// The vector register, or the floating-point register in its left half, of a DWARF number.
fn vector(reg: DwarfReg) -> Option<usize> {
    let of = |first: u16, lowest: u16| usize::from(lowest + (reg.get() - first) * 2);
    Some(match reg.get() {
        16..=19 => of(16, 0),
        20..=23 => of(20, 1),
        24..=27 => of(24, 8),
        28..=31 => of(28, 9),
        68..=71 => of(68, 16),
        72..=75 => of(72, 17),
        76..=79 => of(76, 24),
        80..=83 => of(80, 25),
        _ => return None,
    })
}

/// The captured registers of one frame.
pub(in crate::deopt) struct Captured<'f> {
    pub(in crate::deopt) raw: &'f mut RawState,
    save: &'f mut [u8],
    has_vectors: bool,
    /// The general registers as they were at the site, whatever is written later.
    at_site: [u64; 16],
    /// f8 to f15 by DWARF number, likewise.
    floats_at_site: [u64; 8],
}

const STACK: usize = STACK_POINTER.get() as usize;
const SAVED_WHOLE: &str = "the routine saves every register that has a slot";

impl<'f> Captured<'f> {
    /// # Safety
    /// Only for what the capture routine passes: `raw` and `save` are valid, unaliased, and outlive `'f`.
    pub(in crate::deopt) unsafe fn new(raw: *mut RawState, save: *mut u8) -> Self {
        // SAFETY: as the caller promises.
        let raw = unsafe { &mut *raw };
        // SAFETY: the routine reserved as many bytes.
        let save = unsafe { core::slice::from_raw_parts_mut(save, SAVE_SIZE) };
        let stack_pointer = (&raw const *raw as u64).wrapping_add(size_of::<RawState>() as u64);
        raw.gprs[STACK] = stack_pointer;
        let at_site = raw.gprs;
        let mut captured = Self {
            raw,
            save,
            has_vectors: has_vectors(),
            at_site,
            floats_at_site: [0; 8],
        };
        captured.floats_at_site = core::array::from_fn(|at| {
            let float = captured.float(DwarfReg::new(FIRST_SAVED_FLOAT + at as u16));
            float.expect("every machine has and saves f8 to f15")
        });
        captured
    }

    /// A register as it was at the site: a general one, which addresses are made of, or a
    /// floating-point one that a function preserves.
    pub(in crate::deopt) fn base(&self, reg: DwarfReg) -> Option<u64> {
        let number = reg.get();
        let float = || {
            self.floats_at_site
                .get(usize::from(number.checked_sub(FIRST_SAVED_FLOAT)?))
        };
        let general = self.at_site.get(usize::from(number));
        general.or_else(float).copied()
    }

    pub(in crate::deopt) fn flags(&self) -> u64 {
        self.raw.flags & FLAGS
    }

    pub(in crate::deopt) fn set_flags(&mut self, flags: u64) {
        self.raw.flags = self.raw.flags & !WRITABLE_FLAGS | flags & WRITABLE_FLAGS;
    }

    /// The place of a vector register.
    fn slot(&self, reg: DwarfReg) -> Option<core::ops::Range<usize>> {
        let number = vector(reg)?;
        let size = match (self.has_vectors, number) {
            (true, _) => 16,
            (false, 0..=15) => 8,
            (false, _) => return None,
        };
        let start = number * 16;
        Some(start..start + size)
    }

    fn float(&self, reg: DwarfReg) -> Option<u64> {
        let bytes = self.save.get(self.slot(reg)?).and_then(<[u8]>::first_chunk);
        Some(u64::from_be_bytes(*bytes.expect(SAVED_WHOLE)))
    }

    /// The whole register, least significant byte first, and its size in bytes, 0 when it was not
    /// captured. A floating-point register is the left half of a vector register.
    pub(in crate::deopt) fn read(&self, reg: DwarfReg) -> ([u8; MAX], usize) {
        let mut bytes = [0; MAX];
        if let Some(word) = self.raw.gprs.get(usize::from(reg.get())) {
            *bytes
                .first_chunk_mut()
                .expect("a word is no longer than a vector") = word.to_le_bytes();
            return (bytes, 8);
        }
        let Some(slot) = self.slot(reg) else {
            return (bytes, 0);
        };
        let saved = self.save.get(slot).expect(SAVED_WHOLE);
        for (to, from) in bytes.iter_mut().zip(saved.iter().rev()) {
            *to = *from;
        }
        (bytes, saved.len())
    }

    /// Overwrites the first bytes of a register, least significant first. The caller has checked
    /// that it has as many. What fits a floating-point register goes there: up to 4 bytes into its
    /// left half, as short numbers are.
    pub(in crate::deopt) fn write(&mut self, reg: DwarfReg, bytes: &[u8]) {
        if let Some(word) = self.raw.gprs.get_mut(usize::from(reg.get())) {
            let mut whole = word.to_le_bytes();
            for (to, from) in whole.iter_mut().zip(bytes) {
                *to = *from;
            }
            *word = u64::from_le_bytes(whole);
            return;
        }
        let Some(slot) = self.slot(reg) else {
            return;
        };
        let part = match bytes.len() {
            0..=4 => slot.start..slot.start + 4,
            5..=8 => slot.start..slot.start + 8,
            _ => slot,
        };
        let to = self.save.get_mut(part).expect(SAVED_WHOLE);
        for (to, from) in to.iter_mut().rev().zip(bytes) {
            *to = *from;
        }
    }

    /// Writes what the routine loads to continue at `at` with this stack pointer, and returns
    /// where.
    ///
    /// # Safety
    /// From the stack pointer upwards is the stack of the code at `at`;
    /// nothing of what lies between it and the captured state is needed any more.
    pub(in crate::deopt) unsafe fn leave(self, at: CodeAddr, stack_pointer: u64) -> u64 {
        let mut gprs = self.raw.gprs;
        gprs[EXIT] = at.get();
        let state = RawState { gprs, ..*self.raw };
        let exit = stack_pointer.wrapping_sub(size_of::<RawState>() as u64);
        // SAFETY: it ends at a stack pointer that is at or above the site's. There the captured state or dead frames
        // are; the saved vectors and the dispatcher's own frame are below both, and the state has been copied and
        // is not used any more.
        unsafe { (exit as *mut RawState).write_unaligned(state) };
        exit
    }

    /// No flag must be cleared at a return.
    pub(in crate::deopt) fn clear_direction(&mut self) {}
}

/// To be called before the first exit stub exists.
pub(in crate::deopt) fn prepare() {
    has_vectors();
}

/// How many bytes of the save area the routine reads when a frame is left: with those of the access
/// registers.
pub(in crate::deopt) fn saved_len() -> usize {
    SAVE_SIZE + 64
}

/// There are no shadow stacks.
pub(in crate::deopt) fn has_shadow_stack() -> bool {
    false
}
