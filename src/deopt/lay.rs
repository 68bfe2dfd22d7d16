//! New frames laid on the stack on which the handler ran.
//!
//! Problem: the frames may reach down over what is still needed: the captured registers, and the
//! frames of the code that lays them. Approach: the capture routine has a second entry, which moves
//! the stack pointer below both what is needed and what is to be written, touching each page on the
//! way as every prologue does, so that a stack that is too small ends at its guard page; from there
//! [`lay`] copies the saved registers to the new stack pointer, and then the frames from their
//! buffer to their place. The routine goes on with these registers as after any other answer.
//!
//! ```text
//!     new frames          from a buffer of the heap
//!     block of registers  which the routine reads last
//!     old stack           the captured registers, the dispatcher; may overlap the two above
//!     Laying              all of what is needed lies here or above
//!     saved registers     copied from above, before anything above is written
//!     new stack pointer
//! ```
//!
//! Invariant: nothing is written above [`Laying`] before all of what is read there has been copied.

#![allow(unsafe_code)]

use alloc::vec::Vec;
use core::ffi::c_void;

use super::host::{capture, state};
use crate::addr::CodeAddr;

/// What the routine calls on the lower stack.
pub(super) type Lay = unsafe extern "C" fn(*mut c_void) -> u64;

/// What is to be laid, and where the captured registers are.
pub(super) struct Laying {
    raw: *mut state::RawState,
    save: *mut u8,
    at: CodeAddr,
    stack_pointer: u64,
    bytes: Vec<u8>,
    /// Where the saved registers go.
    saved: u64,
}

impl Laying {
    pub(super) fn new(at: CodeAddr, stack_pointer: u64, bytes: Vec<u8>) -> Self {
        Self {
            raw: core::ptr::null_mut(),
            save: core::ptr::null_mut(),
            at,
            stack_pointer,
            bytes,
            saved: 0,
        }
    }

    /// Lays the frames and enters the code.
    ///
    /// # Safety
    /// To be called by the dispatcher, with what it was called with, when nothing in its frame is needed any more. From
    /// the stack pointer on is the stack of the code at the address, once the bytes are there.
    pub(super) unsafe fn enter(mut self, raw: *mut state::RawState, save: *mut u8) -> ! {
        (self.raw, self.save) = (raw, save);
        let needed = &raw const self as u64;
        let written = self.stack_pointer.wrapping_sub(state::EXIT_BELOW);
        let len = state::saved_len() as u64 + state::SAVED_AT;
        let stack = needed.min(written).wrapping_sub(len) & !63;
        self.saved = stack.wrapping_add(state::SAVED_AT);
        // SAFETY: below that stack pointer nothing is needed, and what is passed lies above it.
        unsafe { capture::enter_lower((&raw mut self).cast(), stack, lay) }
    }
}

/// Called by the capture routine on the lower stack; returns what it is to load.
///
/// # Safety
/// The routine passes what [`Laying::enter`] gave it, once.
pub(super) unsafe extern "C" fn lay(laying: *mut c_void) -> u64 {
    // SAFETY: as the caller promises; the place is not used any more.
    let laying = unsafe { laying.cast::<Laying>().read() };
    // SAFETY: the routine's save area, and a place that lies below it and all else.
    unsafe { core::ptr::copy_nonoverlapping(laying.save, laying.saved as *mut u8, state::saved_len()) };
    // SAFETY: as the dispatcher was given them, and only once.
    let captured = unsafe { state::Captured::new(laying.raw, laying.save) };
    // SAFETY: the block lies above this stack; what it overwrites has been copied, the registers into the block itself.
    let exit = unsafe { captured.leave(laying.at, laying.stack_pointer) };
    // SAFETY: the frames' place, above the block; their bytes are outside of it.
    unsafe {
        core::ptr::copy_nonoverlapping(
            laying.bytes.as_ptr(),
            laying.stack_pointer as *mut u8,
            laying.bytes.len(),
        );
    }
    exit
}
