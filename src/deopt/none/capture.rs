//! There is no routine: no context is made, so no exit stub asks for one.

use core::ffi::c_void;

use crate::deopt::lay::Lay;

pub(in crate::deopt) fn address() -> u64 {
    0
}

/// # Safety
/// Nothing can call it.
pub(in crate::deopt) unsafe fn enter_lower(_: *mut c_void, _: u64, _: Lay) -> ! {
    unreachable!("no exit stub comes here")
}
