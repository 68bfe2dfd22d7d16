//! Hosts without ramps: no frame is ever captured there, so nothing here can be called.

use core::convert::Infallible;
use core::marker::PhantomData;

use super::value::MAX;
use crate::addr::{CodeAddr, DwarfReg};

pub(super) const CALLEE_SAVED: [u16; 0] = [];
pub(super) const RESULT: DwarfReg = DwarfReg::new(0);
pub(super) const RESULT_HIGH: DwarfReg = DwarfReg::new(0);
pub(super) const FLOAT_RESULT: DwarfReg = DwarfReg::new(0);
pub(super) const STACK_POINTER: DwarfReg = DwarfReg::new(0);
pub(super) const RETURN_ADDRESS: u16 = 0;
pub(super) const ARGS: [u16; 0] = [];
pub(super) const FLOAT_ARGS: core::ops::Range<u16> = 0..0;

/// No frame.
pub(super) struct Captured<'f> {
    never: Infallible,
    frame: PhantomData<&'f mut ()>,
}

impl Captured<'_> {
    pub(super) fn base(&self, _: DwarfReg) -> Option<u64> {
        match self.never {}
    }
    pub(super) fn flags(&self) -> u64 {
        match self.never {}
    }
    pub(super) fn set_flags(&mut self, _: u64) {
        match self.never {}
    }
    pub(super) fn read(&self, _: DwarfReg) -> ([u8; MAX], usize) {
        match self.never {}
    }
    pub(super) fn write(&mut self, _: DwarfReg, _: &[u8]) {
        match self.never {}
    }
    pub(super) unsafe fn leave(self, _: CodeAddr, _: u64) -> u64 {
        match self.never {}
    }
    pub(super) fn clear_direction(&mut self) {
        match self.never {}
    }
}

pub(super) fn has_shadow_stack() -> bool {
    false
}
