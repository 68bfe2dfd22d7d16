//! What the objects call and read outside themselves.
#![allow(unsafe_code, reason = "declares a function of the C library")]

use std::sync::atomic::AtomicU64;

static EXT_DATA: AtomicU64 = AtomicU64::new(23);

extern "C" fn ext_add(a: u64, b: u64) -> u64 {
    a.wrapping_add(b)
}

extern "C" fn callee<const ID: u64>(a: u64) -> u64 {
    a.wrapping_add(ID)
}

extern "C" fn callee_void(_: u64) {}

unsafe extern "C" {
    /// What some targets call for a copy of a few bytes.
    fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
}

/// The address in this process of a symbol that the objects need; `None` for those that must be missing.
///
/// `callee_ID(x, ..)` returns `x + ID`, the contract of the site that calls it.
#[must_use]
pub fn resolve(name: &str) -> Option<u64> {
    let address = match name {
        "ext_add" => ext_add as extern "C" fn(u64, u64) -> u64 as usize,
        "ext_data" => EXT_DATA.as_ptr() as usize,
        "callee_600" => callee::<600> as extern "C" fn(u64) -> u64 as usize,
        "callee_601" => callee::<601> as extern "C" fn(u64) -> u64 as usize,
        "callee_602" => callee_void as extern "C" fn(u64) as usize,
        "memcpy" => memcpy as unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8 as usize,
        // Nothing is thrown, so nobody calls them.
        "__gxx_personality_v0" | "_Unwind_Resume" => callee_void as extern "C" fn(u64) as usize,
        _ => return None,
    };
    u64::try_from(address).ok()
}
