//! Hosts without exit stubs: no frame is ever captured there, so nothing here can be called.

use core::convert::Infallible;

use crate::addr::{CodeAddr, DwarfReg};
use crate::deopt::value::MAX;

pub(in crate::deopt) const CALLEE_SAVED: [u16; 0] = [];
pub(in crate::deopt) const RESULT: DwarfReg = DwarfReg::new(0);
pub(in crate::deopt) const RESULT_HIGH: DwarfReg = DwarfReg::new(0);
pub(in crate::deopt) const FLOAT_RESULT: DwarfReg = DwarfReg::new(0);
pub(in crate::deopt) const VECTOR_RESULT: DwarfReg = FLOAT_RESULT;
pub(in crate::deopt) const STACK_POINTER: DwarfReg = DwarfReg::new(0);
pub(in crate::deopt) const RETURN_ADDRESS: u16 = 0;
pub(in crate::deopt) const ARGS: [u16; 0] = [];
pub(in crate::deopt) const FLOAT_ARGS: core::ops::Range<u16> = 0..0;

pub(in crate::deopt) const EXIT_BELOW: u64 = 0;
pub(in crate::deopt) const SAVED_AT: u64 = 0;

/// What no routine leaves on a stack.
pub(in crate::deopt) struct RawState {
    pub(in crate::deopt) gprs: [u64; 0],
    pub(in crate::deopt) context: u64,
    pub(in crate::deopt) return_to: u64,
}

/// No frame.
pub(in crate::deopt) struct Captured<'f> {
    never: Infallible,
    pub(in crate::deopt) raw: &'f mut RawState,
}

impl Captured<'_> {
    /// # Safety
    /// There is nothing that may call it.
    pub(in crate::deopt) unsafe fn new(_: *mut RawState, _: *mut u8) -> Self {
        unreachable!("no exit stub comes here")
    }
    pub(in crate::deopt) fn base(&self, _: DwarfReg) -> Option<u64> {
        match self.never {}
    }
    pub(in crate::deopt) fn flags(&self) -> u64 {
        match self.never {}
    }
    pub(in crate::deopt) fn set_flags(&mut self, _: u64) {
        match self.never {}
    }
    pub(in crate::deopt) fn read(&self, _: DwarfReg) -> ([u8; MAX], usize) {
        match self.never {}
    }
    pub(in crate::deopt) fn write(&mut self, _: DwarfReg, _: &[u8]) {
        match self.never {}
    }
    pub(in crate::deopt) unsafe fn leave(self, _: CodeAddr, _: u64) -> u64 {
        match self.never {}
    }
    pub(in crate::deopt) fn clear_direction(&mut self) {
        match self.never {}
    }
}

pub(in crate::deopt) fn has_shadow_stack() -> bool {
    false
}

pub(in crate::deopt) fn prepare() {}

pub(in crate::deopt) fn saved_len() -> usize {
    0
}
