//! Where the stack of a thread ends.

#![allow(unsafe_code)]

use std::cell::Cell;

/// The lowest address of the stack that the system gave this thread, if `within` lies on it; else
/// 0: the thread is on one that its runtime made.
pub(super) fn lowest_of_this_thread(within: u64) -> u64 {
    thread_local! {
        static KNOWN: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
    }
    let found = KNOWN.try_with(|known| {
        let stack = known.get().unwrap_or_else(find);
        known.set(Some(stack));
        stack
    });
    match found {
        Ok((lowest, end)) if (lowest..end).contains(&within) => lowest,
        _ => 0,
    }
}

#[cfg(target_os = "linux")]
fn find() -> (u64, u64) {
    // SAFETY: all zero is a valid value of this structure, which is only written.
    let mut attributes: libc::pthread_attr_t = unsafe { core::mem::zeroed() };
    // SAFETY: asks for this thread's attributes.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) } != 0 {
        return (0, 0);
    }
    let (mut start, mut len) = (core::ptr::null_mut(), 0);
    // SAFETY: the attributes have been filled in.
    let known = unsafe { libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut len) };
    // SAFETY: as above; they are not used any more.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    match known {
        0 => (start as u64, (start as u64).saturating_add(len as u64)),
        _ => (0, 0),
    }
}

#[cfg(not(target_os = "linux"))]
fn find() -> (u64, u64) {
    (0, 0)
}
