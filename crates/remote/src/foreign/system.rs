//! The system calls by which a process is stopped and looked at.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use patchpoint::error::Errno;

use crate::system::last_errno;

/// A handle of a process.
pub(super) fn open_process(id: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: two numbers for a descriptor.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, id, 0) };
    if handle < 0 {
        return Err(last_errno());
    }
    // SAFETY: opened above, and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(handle as i32) })
}

/// Whether the process has ended, all of its threads.
pub(super) fn has_ended(handle: &OwnedFd) -> bool {
    let mut poll = libc::pollfd {
        fd: handle.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, which the call reads and writes.
    unsafe { libc::poll(&raw mut poll, 1, 0) != 0 }
}

/// Makes this thread the tracer of a thread, which goes on. It is let go when this thread ends.
pub(super) fn seize(thread: i32) -> Result<(), Errno> {
    request(libc::PTRACE_SEIZE, thread, 0)
}

/// Asks a traced thread to stop.
pub(super) fn interrupt(thread: i32) -> Result<(), Errno> {
    request(libc::PTRACE_INTERRUPT, thread, 0)
}

/// Lets a stopped thread go on for good, with the signal that it was about to receive, if not 0.
pub(super) fn detach(thread: i32, signal: i32) -> Result<(), Errno> {
    request(libc::PTRACE_DETACH, thread, signal)
}

/// What the C library takes a request for.
#[cfg(target_env = "gnu")]
type Request = libc::c_uint;
#[cfg(not(target_env = "gnu"))]
type Request = libc::c_int;

fn request(request: Request, thread: i32, data: i32) -> Result<(), Errno> {
    let null = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: these requests neither read nor write memory of this process.
    match unsafe { libc::ptrace(request, thread, null, libc::c_long::from(data)) } {
        -1 => Err(last_errno()),
        _ => Ok(()),
    }
}

/// What has become of a traced thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It has not stopped yet.
    None,
    /// It has stopped, with a signal that it is about to receive, or 0.
    Stopped { signal: i32 },
    /// It has ended.
    Ended,
}

/// What has become of a thread that this one traces, without waiting.
pub(super) fn news(thread: i32) -> News {
    let mut status = 0;
    // SAFETY: writes one number.
    match unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL | libc::WNOHANG) } {
        0 => News::None,
        1.. if libc::WIFSTOPPED(status) => {
            // Only a stop by an event, the one that was asked for among them, says which above the
            // signal's number.
            let is_event = status >> 16 != 0;
            let signal = if is_event { 0 } else { libc::WSTOPSIG(status) };
            News::Stopped { signal }
        }
        1.. => News::Ended,
        _ if last_errno() == Errno(libc::EINTR) => News::None,
        // No thread that this one traces any more.
        _ => News::Ended,
    }
}

/// Where a stopped thread is.
#[derive(Clone, Debug)]
pub(super) struct Registers {
    pub(super) pc: u64,
    pub(super) sp: u64,
    /// The other general registers.
    pub(super) others: Vec<u64>,
}

#[cfg(target_arch = "x86_64")]
pub(super) fn registers(thread: i32) -> Result<Registers, Errno> {
    let mut found = std::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
    let null = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the place is as large as the request writes.
    if unsafe { libc::ptrace(libc::PTRACE_GETREGS, thread, null, found.as_mut_ptr()) } == -1 {
        return Err(last_errno());
    }
    // SAFETY: filled by the request, and valid as zeros before.
    let regs = unsafe { found.assume_init() };
    let others = vec![
        regs.rax, regs.rbx, regs.rcx, regs.rdx, regs.rsi, regs.rdi, regs.rbp, regs.r8, regs.r9, regs.r10,
        regs.r11, regs.r12, regs.r13, regs.r14, regs.r15,
    ];
    Ok(Registers {
        pc: regs.rip,
        sp: regs.rsp,
        others,
    })
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn registers(_: i32) -> Result<Registers, Errno> {
    Err(Errno(libc::ENOSYS))
}
