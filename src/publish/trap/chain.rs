//! The handler for the signals of traps, and what was there before it.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use super::TABLE;
use crate::error::Errno;
use crate::interrupted::{self, TRAP_SIGNALS};
use crate::publish::mask;
use crate::publish::{Error, Result};

/// What handled each of the signals before; null until the handler is about to be installed. It
/// lives as long as the process.
static BEFORE: [AtomicPtr<libc::sigaction>; TRAP_SIGNALS.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; TRAP_SIGNALS.len()];
/// Whether a handler that wanted to be called once (`SA_RESETHAND`) has been.
static WAS_CALLED: AtomicBool = AtomicBool::new(false);
/// How many traps of the table were taken.
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
    let mut signals = TRAP_SIGNALS.iter().zip(&BEFORE);
    signals.try_for_each(|(signal, place)| install_for(*signal, place))
}

/// Whether the handler was installed for every signal.
pub(super) fn is_installed() -> bool {
    BEFORE
        .iter()
        .all(|before| !before.load(Ordering::Acquire).is_null())
}

fn install_for(signal: libc::c_int, place: &AtomicPtr<libc::sigaction>) -> Result<()> {
    let before = action(signal, ptr::null())?;
    if before.sa_sigaction == this() {
        return Ok(());
    }
    // One that was installed after ours and hands on to it must not be handed on to by ours: that would go round.
    // protection: trap-handler-does-not-go-round
    if place.load(Ordering::Acquire).is_null() {
        place.store(Box::into_raw(Box::new(before)), Ordering::Release);
    } else {
        return Ok(());
    }
    let ours = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is a valid action: default disposition, empty mask.
    let mut ours = unsafe { ours.assume_init() };
    ours.sa_sigaction = this();
    // protection: trap-handler-uses-the-alternate-stack
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | (before.sa_flags & libc::SA_RESTART);
    // On a small alternate stack there is room for one frame, not for that of a profiler on top of it. The mask of the
    // handler before is for that handler, and set when it is called.
    // protection: trap-handler-lets-profilers-wait
    ours.sa_mask = mask::while_handling();
    action(signal, &raw const ours)
        .map(drop)
        .inspect_err(|_| place.store(ptr::null_mut(), Ordering::Release))
}

/// How many times a trap has sent a thread to where its note says.
pub(super) fn taken() -> u64 {
    TAKEN.load(Ordering::Relaxed)
}

/// Sends the thread to its exit stub, or hands on. Async-signal-safe.
extern "C" fn on_trap(signal: libc::c_int, info: *mut libc::siginfo_t, frame: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid context, which nothing else refers to, to a handler with SA_SIGINFO.
    let context = unsafe { &mut *frame.cast::<interrupted::Context>() };
    // SAFETY: as above.
    let code = unsafe { (*info).si_code };
    let trap = interrupted::trapped_at(interrupted::counter(context), code);
    if let Some(exit_stub) = trap.and_then(|at| TABLE.find(at)) {
        TAKEN.fetch_add(1, Ordering::Relaxed);
        // protection: trap-goes-to-its-exit-stub
        interrupted::set_counter(context, exit_stub);
        return;
    }
    hand_on(signal, info, frame);
}

/// Does what would have been done without this handler. Async-signal-safe.
fn hand_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = TRAP_SIGNALS.iter().position(|known| *known == signal);
    let place = before.and_then(|index| BEFORE.get(index));
    // SAFETY: null, or what install has made, which is never freed.
    let before = place.and_then(|place| unsafe { place.load(Ordering::Acquire).as_ref() });
    let Some(before) = before else {
        return die(signal);
    };
    match before.sa_sigaction {
        // A breakpoint cannot be ignored: the kernel kills for it even then.
        // protection: ignored-traps-that-were-sent-stay-ignored
        libc::SIG_IGN if !is_fault(info) => {}
        // protection: foreign-breakpoint-kills
        libc::SIG_DFL | libc::SIG_IGN => die(signal),
        // It wanted to be called once.
        // protection: trap-handler-before-is-called-once
        _ if before.sa_flags & libc::SA_RESETHAND != 0 && WAS_CALLED.swap(true, Ordering::Relaxed) => {
            die(signal)
        }
        handler => {
            // protection: trap-handler-before-has-its-own-mask
            mask::become_that_of(before, signal, context);
            call(handler, before.sa_flags, (signal, info, context));
        }
    }
}

/// Calls a handler with what the kernel has passed.
fn call(
    handler: libc::sighandler_t,
    flags: libc::c_int,
    (signal, info, context): (libc::c_int, *mut libc::siginfo_t, *mut libc::c_void),
) {
    if flags & libc::SA_SIGINFO != 0 {
        // SAFETY: with this flag, the address is that of such a function.
        let handler = unsafe { std::mem::transmute::<usize, InfoHandler>(handler) };
        // protection: trap-handler-chains
        handler(signal, info, context);
    } else {
        // SAFETY: without the flag, the address is that of such a function.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(handler) };
        // protection: trap-handler-chains-the-old-form
        handler(signal);
    }
}

/// Whether the thread itself trapped, rather than somebody having sent the signal.
fn is_fault(info: *mut libc::siginfo_t) -> bool {
    // SAFETY: what the kernel passed to the handler.
    unsafe { (*info).si_code > 0 }
}

/// Restores the signal's default disposition and sends it again, so that the process dies of it
/// as it would have: with the signal's number, and a core.
fn die(signal: libc::c_int) {
    let default = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is the default disposition.
    let default = unsafe { default.assume_init() };
    // SAFETY: the action is valid.
    unsafe { libc::sigaction(signal, &raw const default, ptr::null_mut()) };
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(signal) };
    // It is blocked while its handler runs.
    mask::unblock(signal);
}

/// Makes the process one that has never installed the handler. Only in a test's child.
#[cfg(test)]
pub(super) fn forget() {
    BEFORE
        .iter()
        .for_each(|place| place.store(ptr::null_mut(), Ordering::Relaxed));
    WAS_CALLED.store(false, Ordering::Relaxed);
    let default = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is the default disposition.
    let default = unsafe { default.assume_init() };
    for signal in TRAP_SIGNALS {
        action(*signal, &raw const default).unwrap();
    }
}
