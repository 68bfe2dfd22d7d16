//! The handler for SIGTRAP, and what was there before it.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::TABLE;
use crate::error::{Errno, Error, Result};

/// What handled the signal before; null until the handler is about to be installed. It lives as long as the
/// process.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
/// How many traps led to a ramp.
static TAKEN: AtomicU64 = AtomicU64::new(0);

type Handler = extern "C" fn(libc::c_int);
type InfoHandler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

fn this() -> libc::sighandler_t {
    on_trap as *const () as libc::sighandler_t
}

fn action(signal: libc::c_int, new: *const libc::sigaction) -> Result<libc::sigaction> {
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `new` is null or an action whose handler lives as long as the process; `old` is large enough.
    if unsafe { libc::sigaction(signal, new, old.as_mut_ptr()) } != 0 {
        let errno = std::io::Error::last_os_error().raw_os_error();
        return Err(Error::ThreadUnknown {
            call: "sigaction",
            errno: Errno(errno.unwrap_or(libc::EINVAL)),
        });
    }
    // SAFETY: filled by the call.
    Ok(unsafe { old.assume_init() })
}

/// Installs the handler, unless it is there. The caller holds the writers' lock.
pub(super) fn install() -> Result<()> {
    let before = action(libc::SIGTRAP, ptr::null())?;
    if before.sa_sigaction == this() {
        return Ok(());
    }
    // One that was installed after ours and hands on to it must not be handed on to by ours: that would go round.
    if BEFORE.load(Ordering::Acquire).is_null() {
        BEFORE.store(Box::into_raw(Box::new(before)), Ordering::Release);
    } else {
        return Ok(());
    }
    let ours = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is a valid action: default disposition, empty mask.
    let mut ours = unsafe { ours.assume_init() };
    ours.sa_sigaction = this();
    // Not deferred: a handler that is called from here may trap itself. The signal's mask is that of the handler
    // before, which it expects while it runs.
    ours.sa_flags =
        libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | (before.sa_flags & libc::SA_RESTART);
    ours.sa_mask = before.sa_mask;
    action(libc::SIGTRAP, &raw const ours)
        .map(drop)
        .inspect_err(|_| BEFORE.store(ptr::null_mut(), Ordering::Release))
}

/// How many threads a trap has sent to a ramp.
#[cfg(test)]
pub(super) fn taken() -> u64 {
    TAKEN.load(Ordering::Relaxed)
}

/// Sends the thread to its ramp, or hands on. Async-signal-safe.
extern "C" fn on_trap(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid context, which nothing else refers to, to a handler with SA_SIGINFO.
    let interrupted = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    // SAFETY: as above.
    let code = unsafe { (*info).si_code };
    let counter = interrupted.uc_mcontext.gregs.get_mut(libc::REG_RIP as usize);
    // A breakpoint's code is SI_KERNEL; what was sent by kill or by single steps is none of ours.
    let trap = counter.filter(|_| code == libc::SI_KERNEL).and_then(|counter| {
        let ramp = TABLE.find((*counter as u64).wrapping_sub(1))?;
        Some((counter, ramp))
    });
    if let Some((counter, ramp)) = trap {
        TAKEN.fetch_add(1, Ordering::Relaxed);
        *counter = ramp as i64;
        return;
    }
    hand_on(signal, info, context);
}

/// Does what would have been done without this handler. Async-signal-safe.
fn hand_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: null, or what install has made, which is never freed.
    let before = unsafe { BEFORE.load(Ordering::Acquire).as_ref() };
    match before.map(|before| (before.sa_sigaction, before.sa_flags)) {
        // A breakpoint cannot be ignored: the kernel kills for it even then.
        Some((libc::SIG_IGN, _)) if !is_fault(info) => {}
        None | Some((libc::SIG_DFL | libc::SIG_IGN, _)) => die(signal),
        Some((handler, flags)) if flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: with this flag, the address is that of such a function.
            let handler = unsafe { std::mem::transmute::<usize, InfoHandler>(handler) };
            handler(signal, info, context);
        }
        Some((handler, _)) => {
            // SAFETY: without the flag, the address is that of such a function.
            let handler = unsafe { std::mem::transmute::<usize, Handler>(handler) };
            handler(signal);
        }
    }
}

/// Whether the thread itself trapped, rather than somebody having sent the signal.
fn is_fault(info: *mut libc::siginfo_t) -> bool {
    // SAFETY: what the kernel passed to the handler.
    unsafe { (*info).si_code > 0 }
}

/// Gives the signal its default disposition back and sends it again, so that the process dies of it as it would
/// have: with the signal's number, and a core.
fn die(signal: libc::c_int) {
    let default = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is the default disposition.
    let default = unsafe { default.assume_init() };
    // SAFETY: the action is valid.
    unsafe { libc::sigaction(signal, &raw const default, ptr::null_mut()) };
    // SAFETY: sends a signal to this thread, in which it is not blocked (SA_NODEFER).
    unsafe { libc::raise(signal) };
}

/// Makes the process one that has never installed the handler. Only in a test's child.
#[cfg(test)]
pub(super) fn forget() {
    BEFORE.store(ptr::null_mut(), Ordering::Relaxed);
    let default = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is the default disposition.
    let default = unsafe { default.assume_init() };
    action(libc::SIGTRAP, &raw const default).unwrap();
}
