//! What the capture routine leaves on the stack, and how its parts are found.
//!
//! Invariant: [`RawState`] is written and read by the routine in `capture.rs` by offset; its fields
//! change only together with it.

#![allow(unsafe_code)]

use crate::addr::{CodeAddr, DwarfReg};
use crate::deopt::riscv64::exit_stub;
use crate::deopt::value::MAX;

/// The registers that the RISC-V psABI (1.1, 1.2) makes a function preserve, but for the stack
/// pointer: s0 to s11 and fs0 to fs11, by DWARF number.
pub(in crate::deopt) const CALLEE_SAVED: [u16; 24] = [
    8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 40, 41, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59,
];
/// a0.
pub(in crate::deopt) const RESULT: DwarfReg = DwarfReg::new(10);
/// a1, the second half of a 128-bit result.
pub(in crate::deopt) const RESULT_HIGH: DwarfReg = DwarfReg::new(11);
/// fa0.
pub(in crate::deopt) const FLOAT_RESULT: DwarfReg = DwarfReg::new(42);
/// Where vectors are returned: there, too.
pub(in crate::deopt) const VECTOR_RESULT: DwarfReg = FLOAT_RESULT;
/// sp.
pub(in crate::deopt) const STACK_POINTER: DwarfReg = DwarfReg::new(2);
/// The return address column: ra.
pub(in crate::deopt) const RETURN_ADDRESS: u16 = 1;
/// a0 to a7: the integer arguments.
pub(in crate::deopt) const ARGS: [u16; 8] = [10, 11, 12, 13, 14, 15, 16, 17];
/// fa0 to fa7: the floating-point arguments, by consecutive numbers.
pub(in crate::deopt) const FLOAT_ARGS: core::ops::Range<u16> = 42..50;

/// Floating-point registers by DWARF number.
const FLOATS: core::ops::Range<u16> = 32..64;
/// t1, through which a frame is left.
const EXIT: usize = 6;
/// fflags and frm.
const WRITABLE_FLAGS: u64 = 0xff;

/// The captured registers, as the routine stores and loads them.
#[repr(C)]
pub(in crate::deopt) struct RawState {
    /// x0 to x31, of which the first is 0, by DWARF number.
    pub(in crate::deopt) gprs: [u64; 32],
    /// f0 to f31.
    floats: [u64; 32],
    fcsr: u64,
    /// The return address into the exit stub.
    pub(in crate::deopt) return_to: u64,
    /// The context that the exit stub passed.
    pub(in crate::deopt) context: u64,
    unused: u64,
}

pub(in crate::deopt) const STATE_SIZE: u64 = size_of::<RawState>() as u64;
/// Distance from the state up to the stack pointer at the site.
pub(in crate::deopt) const BELOW_SITE: u64 = STATE_SIZE + exit_stub::BELOW_SITE;
/// How far below the new stack pointer the block begins with which a frame is left.
pub(in crate::deopt) const EXIT_BELOW: u64 = STATE_SIZE;
/// Where the save area is, from the routine's stack pointer.
pub(in crate::deopt) const SAVED_AT: u64 = 0;

const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(RawState, floats) == 256 && offset_of!(RawState, fcsr) == 512);
    assert!(offset_of!(RawState, return_to) == 520 && offset_of!(RawState, context) == 528);
    // The stack stays aligned, and the routine's immediates have 12 bits.
    assert!(STATE_SIZE % 16 == 0 && BELOW_SITE < 2048);
};

/// The captured registers of one frame.
pub(in crate::deopt) struct Captured<'f> {
    pub(in crate::deopt) raw: &'f mut RawState,
    /// The registers as they were at the site, whatever is written later.
    at_site: ([u64; 32], [u64; 32]),
}

fn float_index(reg: DwarfReg) -> Option<usize> {
    let number = Some(reg.get()).filter(|number| FLOATS.contains(number))?;
    Some(usize::from(number - FLOATS.start))
}

/// The place of a general register that can be written: x0 cannot.
fn written_index(reg: DwarfReg) -> Option<usize> {
    Some(usize::from(reg.get())).filter(|number| *number != 0)
}

impl<'f> Captured<'f> {
    /// # Safety
    /// Only for what the capture routine passes: `raw` is valid, unaliased, and outlives `'f`; the other is a part of it.
    pub(in crate::deopt) unsafe fn new(raw: *mut RawState, _: *mut u8) -> Self {
        // SAFETY: as the caller promises.
        let raw = unsafe { &mut *raw };
        let at_site = (raw.gprs, raw.floats);
        Self { raw, at_site }
    }

    /// A register as it was at the site: what addresses are made of, and what a function has to
    /// preserve.
    pub(in crate::deopt) fn base(&self, reg: DwarfReg) -> Option<u64> {
        let (gprs, floats) = &self.at_site;
        match float_index(reg) {
            Some(index) => floats.get(index).copied(),
            None => gprs.get(usize::from(reg.get())).copied(),
        }
    }

    /// fcsr: there are no other flags.
    pub(in crate::deopt) fn flags(&self) -> u64 {
        self.raw.fcsr
    }

    pub(in crate::deopt) fn set_flags(&mut self, flags: u64) {
        self.raw.fcsr = flags & WRITABLE_FLAGS;
    }

    /// The whole register and its size in bytes, 0 when it was not captured.
    pub(in crate::deopt) fn read(&self, reg: DwarfReg) -> ([u8; MAX], usize) {
        let mut bytes = [0; MAX];
        let word = match float_index(reg) {
            Some(index) => self.raw.floats.get(index),
            None => self.raw.gprs.get(usize::from(reg.get())),
        };
        let len = word.map_or(0, |word| fill(&mut bytes, &word.to_le_bytes()));
        (bytes, len)
    }

    /// Overwrites the first bytes of a register. The caller has checked that it has as many. A
    /// shorter floating-point number fills its register with ones, as the instructions do that make
    /// one (volume I, 21.2).
    pub(in crate::deopt) fn write(&mut self, reg: DwarfReg, bytes: &[u8]) {
        let float = float_index(reg);
        let word = match float {
            Some(index) => self.raw.floats.get_mut(index),
            None => written_index(reg).and_then(|index| self.raw.gprs.get_mut(index)),
        };
        let Some(word) = word else {
            return;
        };
        let mut whole = match float {
            Some(_) => [0xff; 8],
            None => word.to_le_bytes(),
        };
        fill(&mut whole, bytes);
        *word = u64::from_le_bytes(whole);
    }

    /// Writes what the routine loads to continue at `at` with this stack pointer, and returns
    /// where.
    ///
    /// # Safety
    /// From the stack pointer upwards is the stack of the code at
    /// `at`; nothing of what lies between it and the site is needed any more.
    pub(in crate::deopt) unsafe fn leave(self, at: CodeAddr, stack_pointer: u64) -> u64 {
        let mut exit = RawState {
            gprs: self.raw.gprs,
            floats: self.raw.floats,
            fcsr: self.raw.fcsr,
            return_to: 0,
            context: 0,
            unused: 0,
        };
        exit.gprs[EXIT] = at.get();
        let block = stack_pointer.wrapping_sub(STATE_SIZE);
        // SAFETY: the block ends at a stack pointer that is at or above the site's. There the exit stub's words and the
        // captured registers are, or dead frames: they have been copied and are not used any more. The dispatcher's
        // own frame is below them.
        unsafe { (block as *mut RawState).write_unaligned(exit) };
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

/// How many bytes of the save area the routine reads when a frame is left: all is in the block.
pub(in crate::deopt) fn saved_len() -> usize {
    0
}

/// Shadow stacks (Zicfiss) are not used by any system that this runs on.
pub(in crate::deopt) fn has_shadow_stack() -> bool {
    false
}
