//! The threads of this process as the system shows them, and signals to them. Linux.

use std::ffi::CStr;
use std::io::Write;
use std::mem::MaybeUninit;

use crate::error::Errno;
use crate::invariant::OrAbort;
use crate::publish::mask;

/// A thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thread(pub(super) libc::pid_t);

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

/// A file or folder that is read without an allocation: a stopped thread may be in the allocator.
struct Opened(libc::c_int);

impl Opened {
    fn open(path: &CStr) -> Result<Self, Errno> {
        // SAFETY: the path ends with a zero.
        match unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) } {
            -1 => Err(last_errno()),
            file => Ok(Self(file)),
        }
    }

    /// The next bytes of a file; none at its end.
    fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the call writes no more than the length of the buffer.
        let read = unsafe { libc::read(self.0, into.as_mut_ptr().cast(), into.len()) };
        usize::try_from(read).map_err(|_| last_errno())
    }

    /// The next entries of a folder, as getdents64(2) has them; none at its end.
    fn entries(&self, into: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the call writes no more than the length of the buffer.
        let read = unsafe { libc::syscall(libc::SYS_getdents64, self.0, into.as_mut_ptr(), into.len()) };
        usize::try_from(read).map_err(|_| last_errno())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: opened by us, and closed once.
        // protection: signals-close-their-descriptors
        unsafe { libc::close(self.0) };
    }
}

/// Of what a system call reads. It is asked while the world is stopped.
const NO_LONGER: &str = "no more is read than there is room for";

/// Calls `each` with every thread but this one, until it fails.
pub(super) fn others(mut each: impl FnMut(Thread) -> Result<(), Errno>) -> Result<(), Errno> {
    // SAFETY: takes nothing and cannot fail.
    let this = unsafe { libc::gettid() };
    let folder = Opened::open(c"/proc/self/task")?;
    let mut buffer = [0; 4096];
    loop {
        let len = folder.entries(&mut buffer)?;
        let mut entries = buffer.get(..len).or_abort(NO_LONGER);
        if entries.is_empty() {
            return Ok(());
        }
        while !entries.is_empty() {
            // A thread that is overlooked would not serialize.
            let (name, rest) = next_entry(entries).ok_or(Errno(libc::EIO))?;
            entries = rest;
            if let Some(thread) = number(name).filter(|thread| *thread != this) {
                each(Thread(thread))?;
            }
        }
    }
}

/// The name of the first `linux_dirent64`, and what is behind it: the length of an entry is at 16,
/// its name, which ends with a zero, at 19 (getdents(2)).
fn next_entry(entries: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = entries.get(16..18)?.first_chunk::<2>()?;
    let (entry, rest) = entries.split_at_checked(usize::from(u16::from_ne_bytes(*len)))?;
    let name = entry.get(19..)?;
    Some((name.split(|byte| *byte == 0).next()?, rest))
}

/// A thread's number; `.` and `..` are none.
fn number(name: &[u8]) -> Option<libc::pid_t> {
    core::str::from_utf8(name).ok()?.parse().ok()
}

/// What the system shows of a thread whose signal is pending.
pub(super) fn whereabouts(thread: Thread, signal: libc::c_int) -> Whereabouts {
    let mut buffer = [0; 8192];
    match status(thread, &mut buffer) {
        Ok(len) => read_status(buffer.get(..len).or_abort(NO_LONGER), signal),
        Err(Errno(libc::ENOENT | libc::ESRCH)) => Whereabouts::Held,
        Err(_) => Whereabouts::MayExecute,
    }
}

/// Reads what the system shows of a thread, as much as there is room for.
fn status(thread: Thread, into: &mut [u8]) -> Result<usize, Errno> {
    let mut path = [0; 64];
    // Longer paths than that there are none.
    let _ = write!(path.as_mut_slice(), "/proc/self/task/{}/status\0", thread.0);
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| Errno(libc::ENAMETOOLONG))?;
    let file = Opened::open(path)?;
    let mut len = 0;
    loop {
        match file.read(into.get_mut(len..).or_abort(NO_LONGER))? {
            0 => return Ok(len),
            read => len += read,
        }
    }
}

/// Reads `State` and `SigBlk` of proc_pid_status(5).
fn read_status(status: &[u8], signal: libc::c_int) -> Whereabouts {
    let field = |name: &[u8]| {
        let mut lines = status.split(|byte| *byte == b'\n');
        lines
            .find_map(|line| line.strip_prefix(name))
            .map(<[u8]>::trim_ascii)
    };
    let state = field(b"State:").and_then(<[u8]>::first);
    let blocked = field(b"SigBlk:").and_then(|mask| core::str::from_utf8(mask).ok());
    let blocked = blocked.and_then(|mask| u64::from_str_radix(mask, 16).ok());
    // Not shown counts as blocked.
    let is_blocked = blocked.is_none_or(|mask| (mask >> (signal - 1)) & 1 != 0);
    match state {
        // Dead, or about to be.
        Some(b'Z' | b'X' | b'x') => Whereabouts::Held,
        // In the kernel, which looks for signals before it returns. Interruptible sleep is not among these:
        // the signal ends it, so that the thread will answer.
        // protection: signals-acknowledge-after-serializing
        Some(b'D' | b'T' | b't') if !is_blocked => Whereabouts::Held,
        _ => Whereabouts::MayExecute,
    }
}

/// The head of `siginfo_t` for a queued signal on 64-bit Linux (asm-generic/siginfo.h), and the
/// rest of its 128 bytes.
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

/// Installs a handler. Interrupted system calls are restarted where the system can; it runs on the
/// alternate stack, if the thread has one, as compiled code may run on small stacks.
pub(super) fn handle(
    signal: libc::c_int,
    handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void),
) -> Result<(), Errno> {
    let action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is a valid action: default disposition, empty mask.
    let mut action = unsafe { action.assume_init() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    action.sa_mask = mask::while_handling();
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

    /// Lets this process have so many open files, for good. Only in a child.
    pub(in crate::publish) fn limit_descriptors(limit: libc::rlim_t) {
        let limit = libc::rlimit {
            rlim_cur: limit,
            rlim_max: limit,
        };
        // SAFETY: reads the limit, which lives as long as the call.
        let done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        assert_eq!(done, 0);
    }

    fn status(state: &str, blocked: &str) -> std::string::String {
        std::format!("Name:\tx\nState:\t{state}\nSigQ:\t0/1\nSigBlk:\t{blocked}\n")
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
                read_status(status(state, blocked).as_bytes(), 64),
                expected,
                "{state} {blocked}"
            );
        }
        assert_eq!(read_status(b"State:\tT (stopped)\n", 64), Whereabouts::MayExecute);
        assert_eq!(read_status(b"", 64), Whereabouts::MayExecute);
        let dead = Thread(libc::pid_t::MAX);
        assert_eq!(whereabouts(dead, 64), Whereabouts::Held);
    }

    #[test]
    fn every_thread_but_this_one_is_listed() {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let spawn = |_| {
            let (stop, (tell, told)) = (std::sync::Arc::clone(&stop), std::sync::mpsc::channel());
            let thread = std::thread::spawn(move || {
                // SAFETY: takes nothing and cannot fail.
                tell.send(unsafe { libc::gettid() }).unwrap();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            });
            (thread, told.recv().unwrap())
        };
        // More than one call for their entries shows, which are 24 bytes.
        let (threads, numbers): (Vec<_>, Vec<_>) = (0..200).map(spawn).unzip();
        let mut listed = Vec::new();
        others(|thread| {
            listed.push(thread.0);
            Ok(())
        })
        .unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(numbers.iter().all(|number| listed.contains(number)));
        // SAFETY: takes nothing and cannot fail.
        assert!(!listed.contains(&unsafe { libc::gettid() }));
    }

    #[test]
    fn the_info_has_the_kernels_size() {
        assert_eq!(size_of::<QueuedInfo>(), size_of::<libc::siginfo_t>());
    }
}
