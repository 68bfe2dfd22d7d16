//! The system calls that asking by signal needs.

use std::mem::MaybeUninit;
use std::ptr;

use super::ask::{self, Gate};
use super::registry;
use crate::error::Errno;
use crate::publish::signals::highest;
use crate::publish::{Error, Result};

fn refused(call: &'static str) -> Error {
    Error::ThreadUnknown {
        call,
        errno: Errno(errno()),
    }
}

/// The number of the last error of this thread. Async-signal-safe.
pub(super) fn errno() -> i32 {
    // SAFETY: a thread's errno is always there.
    unsafe { *libc::__errno_location() }
}

/// Sets it. Async-signal-safe.
pub(super) fn set_errno(value: i32) {
    // SAFETY: a thread's errno is always there.
    unsafe { *libc::__errno_location() = value };
}

/// Sends a signal to a thread of this process; 0 only asks whether it exists.
pub(super) fn send(tid: i32, signal: libc::c_int) -> core::result::Result<(), i32> {
    let pid = registry::this_process();
    // SAFETY: takes numbers only.
    match unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// Sleeps until woken, unless the gate is not `seen` any more. Async-signal-safe.
pub(super) fn sleep(gate: &Gate, seen: u32) {
    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the gate lives as long as the process; no timeout is given.
    unsafe { libc::syscall(libc::SYS_futex, gate.as_ptr(), wait, seen, ptr::null::<u8>()) };
}

/// Wakes who sleeps.
pub(super) fn wake(gate: &Gate) {
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the gate lives as long as the process.
    unsafe { libc::syscall(libc::SYS_futex, gate.as_ptr(), wake, i32::MAX) };
}

fn disposition(signal: libc::c_int) -> Option<libc::sigaction> {
    let mut found = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks only; the place is large enough.
    if unsafe { libc::sigaction(signal, ptr::null(), found.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: filled by the call, and valid as zeros before.
    Some(unsafe { found.assume_init() })
}

/// Whether nobody else handles the signal.
fn is_available(signal: libc::c_int) -> bool {
    let ours = ask::on_signal as *const () as libc::sighandler_t;
    // protection: foreign-signals-are-left-alone
    disposition(signal).is_some_and(|found| found.sa_sigaction == libc::SIG_DFL || found.sa_sigaction == ours)
}

/// The signal with our handler: that one, or the first from the highest that nobody handles.
pub(super) fn install(wanted: Option<libc::c_int>) -> Result<libc::c_int> {
    let real_time = libc::SIGRTMIN()..=highest();
    let signal = match wanted {
        Some(signal) => Some(signal).filter(|signal| real_time.contains(signal) && is_available(*signal)),
        None => real_time.rev().find(|signal| is_available(*signal)),
    };
    let signal = signal.ok_or(Error::SignalTaken {
        signal: wanted.unwrap_or(libc::SIGRTMAX()),
    })?;
    let action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is a valid action: default disposition, empty mask.
    let mut action = unsafe { action.assume_init() };
    action.sa_sigaction = ask::on_signal as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: fills the mask, so that a parked thread runs no other handler.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    // SAFETY: the handler is async-signal-safe and lives as long as the process.
    if unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } != 0 {
        return Err(refused("sigaction"));
    }
    Ok(signal)
}
