//! The threads of this process as the system shows them, and signals to them. Linux.

use std::format;
use std::fs;
use std::mem::MaybeUninit;
use std::vec::Vec;

use crate::error::Errno;

/// A thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thread(libc::pid_t);

/// Whether a thread with a pending signal may execute user code before it has handled it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// It may, or it is not known.
    MayExecute,
    /// Not before it has handled the signal, or never any more.
    Held,
}

fn last_errno() -> Errno {
    Errno(
        std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EINVAL),
    )
}

/// This process. Async-signal-safe.
pub(super) fn process() -> libc::pid_t {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

/// Every thread but this one.
pub(super) fn others() -> Result<Vec<Thread>, Errno> {
    // SAFETY: takes nothing and cannot fail.
    let this = unsafe { libc::gettid() };
    let failed = |e: std::io::Error| Errno(e.raw_os_error().unwrap_or(libc::EIO));
    let mut threads = Vec::new();
    for entry in fs::read_dir("/proc/self/task").map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let tid = name
            .to_str()
            .and_then(|name| name.parse().ok())
            .ok_or(Errno(libc::EIO))?;
        if tid != this {
            threads.push(Thread(tid));
        }
    }
    Ok(threads)
}

/// What the system shows of a thread whose signal is pending.
pub(super) fn whereabouts(thread: Thread, signal: libc::c_int) -> Whereabouts {
    match fs::read_to_string(format!("/proc/self/task/{}/status", thread.0)) {
        Ok(status) => read_status(&status, signal),
        Err(e)
            if e.raw_os_error()
                .is_some_and(|e| e == libc::ENOENT || e == libc::ESRCH) =>
        {
            Whereabouts::Held
        }
        Err(_) => Whereabouts::MayExecute,
    }
}

/// Reads `State` and `SigBlk` of proc_pid_status(5).
fn read_status(status: &str, signal: libc::c_int) -> Whereabouts {
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let state = field("State:").and_then(|state| state.chars().next());
    let blocked = field("SigBlk:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    // Not shown counts as blocked.
    let is_blocked = blocked.is_none_or(|mask| (mask >> (signal - 1)) & 1 != 0);
    match state {
        // Dead, or about to be.
        Some('Z' | 'X' | 'x') => Whereabouts::Held,
        // In the kernel, which looks for signals before it returns. Interruptible sleep is not among these:
        // the signal ends it, so that the thread will answer.
        Some('D' | 'T' | 't') if !is_blocked => Whereabouts::Held,
        _ => Whereabouts::MayExecute,
    }
}

/// The head of `siginfo_t` for a queued signal on 64-bit Linux (asm-generic/siginfo.h), and the rest of its
/// 128 bytes.
#[repr(C)]
struct QueuedInfo {
    signal: libc::c_int,
    errno: libc::c_int,
    code: libc::c_int,
    padding: libc::c_int,
    pid: libc::pid_t,
    uid: libc::uid_t,
    value: u64,
    rest: [u64; 12],
}

/// Queues a signal with a ticket to a thread.
pub(super) fn queue(thread: Thread, signal: libc::c_int, ticket: u64) -> Result<(), Errno> {
    let pid = process();
    // SAFETY: takes nothing and cannot fail.
    let uid = unsafe { libc::getuid() };
    let info = QueuedInfo {
        signal,
        errno: 0,
        code: libc::SI_QUEUE,
        padding: 0,
        pid,
        uid,
        value: ticket,
        rest: [0; 12],
    };
    // SAFETY: the kernel reads the 128 bytes of the info, which outlives the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            pid,
            thread.0,
            signal,
            &raw const info,
        )
    };
    if answer == 0 { Ok(()) } else { Err(last_errno()) }
}

/// The ticket of a queued signal; that of a signal which someone else sent is `u64::MAX`.
///
/// # Safety
///
/// `info` is what the kernel passed to a handler.
pub(super) unsafe fn ticket(info: *mut libc::siginfo_t) -> u64 {
    // SAFETY: the kernel's info has the layout above.
    let info = unsafe { &*info.cast::<QueuedInfo>() };
    if info.code == libc::SI_QUEUE && info.pid == process() {
        info.value
    } else {
        u64::MAX
    }
}

/// Whether a signal has its default disposition.
pub(super) fn is_unhandled(signal: libc::c_int) -> bool {
    let mut found = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks only; the place is large enough.
    if unsafe { libc::sigaction(signal, std::ptr::null(), found.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: filled by the call, and valid as zeros before.
    unsafe { found.assume_init() }.sa_sigaction == libc::SIG_DFL
}

/// Installs a handler. Interrupted system calls are restarted where the system can; it runs on the alternate
/// stack, if the thread has one, as compiled code may run on small stacks.
pub(super) fn handle(
    signal: libc::c_int,
    handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void),
) -> Result<(), Errno> {
    let action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is a valid action: default disposition, empty mask.
    let mut action = unsafe { action.assume_init() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the handler is async-signal-safe and lives as long as the process.
    if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } == 0 {
        return Ok(());
    }
    Err(last_errno())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Blocks every signal that can be blocked, for this thread.
    pub(in crate::publish) fn block_every_signal() {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: fills the set.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: the set was filled above.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut()) };
    }

    fn status(state: &str, blocked: &str) -> std::string::String {
        format!("Name:\tx\nState:\t{state}\nSigQ:\t0/1\nSigBlk:\t{blocked}\n")
    }

    #[test]
    fn only_threads_that_must_handle_the_signal_first_are_held() {
        let none = "0000000000000000";
        let blocks_64 = "8000000000000000";
        for (state, blocked, expected) in [
            ("R (running)", none, Whereabouts::MayExecute),
            ("S (sleeping)", none, Whereabouts::MayExecute),
            ("D (disk sleep)", none, Whereabouts::Held),
            ("T (stopped)", none, Whereabouts::Held),
            ("T (stopped)", blocks_64, Whereabouts::MayExecute),
            ("Z (zombie)", blocks_64, Whereabouts::Held),
        ] {
            assert_eq!(
                read_status(&status(state, blocked), 64),
                expected,
                "{state} {blocked}"
            );
        }
        assert_eq!(read_status("State:\tT (stopped)\n", 64), Whereabouts::MayExecute);
        assert_eq!(read_status("", 64), Whereabouts::MayExecute);
        let dead = Thread(libc::pid_t::MAX);
        assert_eq!(whereabouts(dead, 64), Whereabouts::Held);
    }

    #[test]
    fn the_info_has_the_kernels_size() {
        assert_eq!(size_of::<QueuedInfo>(), size_of::<libc::siginfo_t>());
    }
}
