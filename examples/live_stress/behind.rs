//! Who is behind a gate: the profilers' signals look where the threads are that they interrupt.
//!
//! A thread that is inside the bytes of a site, behind their first instruction, is one of those for
//! which a grace period is waited before these bytes change. Nothing is to be learnt from it but
//! that there were such threads.

use std::sync::atomic::{AtomicU64, Ordering};

use super::running::MOST_SITES;

/// The first bytes of the sites, and the ends of these, of the last two generations: by the numbers
/// of those. A handler reads them, which must not wait for anybody.
static SITES: [[[AtomicU64; 2]; MOST_SITES]; 2] =
    [const { [const { [const { AtomicU64::new(0) }; 2] }; MOST_SITES] }; 2];
static FOUND: AtomicU64 = AtomicU64::new(0);

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

/// Looks at the thread that a signal has interrupted. Async-signal-safe.
pub(super) fn look(context: *const libc::c_void) {
    let Some(at) = counter(context) else {
        return;
    };
    let is_behind = |[first, end]: &[AtomicU64; 2]| {
        at < end.load(Ordering::Acquire) && at > first.load(Ordering::Acquire)
    };
    if SITES.iter().flatten().any(is_behind) {
        FOUND.fetch_add(1, Ordering::Relaxed);
    }
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
