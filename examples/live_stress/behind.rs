//! Who is behind a gate: the profilers' signals look where the threads are that they interrupt.
//!
//! A thread that is inside the bytes of a site, behind their first instruction, is one of those for
//! which a grace period is waited before these bytes change. There are few, and they are gone in
//! nanoseconds. So the handler holds them there, while the writer goes on: if it did not wait for
//! them, they would come back to other bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::running::MOST_SITES;

/// The first bytes of the sites, and the ends of these, of the last two generations: by the numbers
/// of those. A handler reads them, which must not wait for anybody.
static SITES: [[[AtomicU64; 2]; MOST_SITES]; 2] =
    [const { [const { [const { AtomicU64::new(0) }; 2] }; MOST_SITES] }; 2];
/// How many threads were found, and where the last one was.
static FOUND: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);

/// Where the sites of a generation are, in place of those before the last.
pub(super) fn note(generation: u64, sites: impl Iterator<Item = (u64, u64)>) {
    let places = &SITES[(generation % 2) as usize];
    for ([first, end], site) in places.iter().zip(sites.map(Some).chain(std::iter::repeat(None))) {
        end.store(0, Ordering::Relaxed);
        if let Some((start, after)) = site {
            first.store(start, Ordering::Release);
            end.store(after, Ordering::Release);
        }
    }
}

/// How long a thread is held, in nanoseconds: long enough for several settlements behind a gate.
const HELD_BEHIND: libc::c_long = 5_000_000;
const HELD: libc::c_long = 500_000;
/// Of how many threads that are somewhere else one is held.
const HELD_AFTER: u64 = 64;

/// Looks at the thread that the signal of that number has interrupted, and holds it if it is behind
/// a gate, or now and then elsewhere, as in a stub. Async-signal-safe.
pub(super) fn look(signal: u64, context: *const libc::c_void) {
    let at = counter(context).filter(|at| is_behind_a_gate(*at));
    // A signal that has come meanwhile finds the thread where it was held.
    let is_behind = at.is_some_and(|at| LAST.swap(at, Ordering::Relaxed) != at);
    if at.is_some() && !is_behind {
        LAST.store(0, Ordering::Relaxed);
        return;
    }
    FOUND.fetch_add(u64::from(is_behind), Ordering::Relaxed);
    match is_behind {
        true => hold(HELD_BEHIND),
        false if signal % HELD_AFTER == 0 => hold(HELD),
        false => {}
    }
}

/// Keeps this thread for so many nanoseconds, and its `errno`.
#[cfg_attr(not(target_os = "linux"), allow(unused_variables))]
fn hold(tv_nsec: libc::c_long) {
    #[cfg(target_os = "linux")]
    {
        let time = libc::timespec { tv_sec: 0, tv_nsec };
        // SAFETY: reads the time; `errno` is this thread's own.
        unsafe {
            let errno = libc::__errno_location();
            let saved = *errno;
            libc::nanosleep(&raw const time, std::ptr::null_mut());
            *errno = saved;
        }
    }
}

fn is_behind_a_gate(at: u64) -> bool {
    let is_behind = |[first, end]: &[AtomicU64; 2]| {
        at < end.load(Ordering::Acquire) && at > first.load(Ordering::Acquire)
    };
    SITES.iter().flatten().any(is_behind)
}

/// How many were found.
pub(super) fn found() -> u64 {
    FOUND.load(Ordering::Relaxed)
}

/// Whether it is known of this machine where a thread was interrupted.
pub(super) const CAN_LOOK: bool = cfg!(all(
    target_os = "linux",
    not(all(target_arch = "powerpc64", not(target_env = "gnu")))
));

/// The program counter that the kernel has saved.
#[cfg(all(
    target_os = "linux",
    not(all(target_arch = "powerpc64", not(target_env = "gnu")))
))]
fn counter(context: *const libc::c_void) -> Option<u64> {
    // SAFETY: the kernel passes a valid context to a handler.
    let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    let at = machine.gregs[libc::REG_RIP as usize] as u64;
    #[cfg(target_arch = "aarch64")]
    let at = machine.pc;
    #[cfg(target_arch = "riscv64")]
    let at = machine.__gregs[0];
    #[cfg(target_arch = "s390x")]
    let at = machine.psw.addr;
    #[cfg(target_arch = "powerpc64")]
    let at = machine.gp_regs[32];
    Some(at)
}

#[cfg(not(all(
    target_os = "linux",
    not(all(target_arch = "powerpc64", not(target_env = "gnu")))
)))]
fn counter(_: *const libc::c_void) -> Option<u64> {
    None
}
