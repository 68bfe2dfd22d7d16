//! Which signals wait while one of the library's handlers runs. Linux.
//!
//! **Problem.** A frame of a signal takes 1 to 4 KiB, as much as the registers need; the alternate
//! stack that Rust gives its threads has 8. Three frames on top of each other (a trap, a profiler's
//! timer, a stop) overflow it and kill the process. **Approach.** While a handler of the library's
//! runs, which is short, everything waits that is not the fault of an instruction. Faults are let
//! through: the kernel kills a thread that blocks one, and an emulator of system calls (`SIGSYS`)
//! is called for those of the handlers too.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr;

use crate::interrupted::Context;

/// Raised by instructions. The library's own handlers raise none of them, but for system calls that
/// are emulated.
const FAULTS: [libc::c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSYS,
];

fn empty() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: empties the set, which is valid as zeros.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// What waits while a handler of the library's runs.
pub(super) fn while_handling() -> libc::sigset_t {
    let mut set = empty();
    // SAFETY: fills the set.
    unsafe { libc::sigfillset(&raw mut set) };
    for fault in FAULTS {
        // SAFETY: the set is valid, and the signal exists.
        unsafe { libc::sigdelset(&raw mut set, fault) };
    }
    set
}

/// Gives this thread, which is in a handler of the library's, the mask that it would have in that
/// handler: what was blocked where the signal came, what the handler blocks, and the signal, unless
/// the handler does not want that. The kernel puts back what was blocked when the handler returns.
/// Async-signal-safe.
pub(super) fn become_that_of(handler: &libc::sigaction, signal: libc::c_int, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid context to a handler with SA_SIGINFO.
    let was = unsafe { &raw const (*context.cast::<Context>()).uc_sigmask };
    let mut mask = handler.sa_mask;
    for other in 1..=libc::SIGRTMAX() {
        // SAFETY: asks the kernel's set, which has a bit for each of these signals.
        if unsafe { libc::sigismember(was, other) } == 1 {
            // SAFETY: the set is valid, and the signal exists.
            unsafe { libc::sigaddset(&raw mut mask, other) };
        }
    }
    // protection: trap-handler-may-trap
    if handler.sa_flags & libc::SA_NODEFER == 0 {
        // SAFETY: as above.
        unsafe { libc::sigaddset(&raw mut mask, signal) };
    }
    // SAFETY: concerns this thread alone.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, ptr::null_mut()) };
}

/// Lets a signal through. Async-signal-safe.
pub(super) fn unblock(signal: libc::c_int) {
    let mut set = empty();
    // SAFETY: the set is valid, and the signal exists.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    // SAFETY: concerns this thread alone.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut()) };
}
