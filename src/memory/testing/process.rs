//! Trying what changes the whole process, in a child that ends with it.

use std::io::Read;
use std::os::fd::FromRawFd;
use std::string::String;
use std::vec::Vec;

use crate::arch::Arch;
use crate::verify;

/// Runs a function in a forked child; whether it returned true.
pub(crate) fn in_child(work: impl FnOnce() -> bool) -> bool {
    end_of_child(work) == End::Returned(true)
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The function returned this.
    Returned(bool),
    /// It panicked, or did not come to an end.
    Panicked,
    /// A signal killed the child.
    Killed(i32),
}

/// Runs a function in a forked child, and says how that ended.
pub(crate) fn end_of_child(work: impl FnOnce() -> bool) -> End {
    wait_for(start(work))
}

/// The same, with what the child wrote to its standard error past what tests print. Panics say
/// nothing there.
pub(crate) fn end_and_message(work: impl FnOnce() -> bool) -> (End, String) {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let [from, to] = ends;
    let child = start(move || {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: concerns the child alone: its standard error, and that it leaves no core file.
        unsafe {
            libc::dup2(to, 2);
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        }
        work()
    });
    // SAFETY: the descriptors are this function's.
    let mut pipe = unsafe {
        libc::close(to);
        std::fs::File::from_raw_fd(from)
    };
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    (wait_for(child), String::from_utf8_lossy(&bytes).into_owned())
}

/// Two descriptors: what is written to the second is read from the first.
fn pipe() -> [libc::c_int; 2] {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    ends
}

fn wait_for_a_byte(from: libc::c_int) {
    let mut byte = 0_u8;
    // SAFETY: the place has room for the byte.
    let read = unsafe { libc::read(from, (&raw mut byte).cast(), 1) };
    assert_eq!(read, 1);
}

fn send_a_byte(to: libc::c_int) {
    // SAFETY: reads a byte that lives as long as the call.
    let sent = unsafe { libc::write(to, [1_u8].as_ptr().cast(), 1) };
    assert_eq!(sent, 1);
}

/// Forks, does `meanwhile` in the parent, and then `work` in the child.
pub(crate) fn end_of_child_after(meanwhile: impl FnOnce() + Send, work: impl FnOnce() -> bool) -> End {
    let (ready, done) = (pipe(), pipe());
    let end = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_for_a_byte(ready[0]);
            meanwhile();
            send_a_byte(done[1]);
        });
        end_of_child(|| {
            send_a_byte(ready[1]);
            wait_for_a_byte(done[0]);
            work()
        })
    });
    for descriptor in ready.into_iter().chain(done) {
        // SAFETY: opened by this function.
        unsafe { libc::close(descriptor) };
    }
    end
}

/// Lets panics say nothing in forked children. A message with a backtrace takes locks, which a
/// thread of the parent that was just panicking would have there for ever.
fn be_quiet_in_children() {
    static DONE: std::sync::Once = std::sync::Once::new();
    DONE.call_once(|| {
        let (parent, say) = (std::process::id(), std::panic::take_hook());
        std::panic::set_hook(std::boxed::Box::new(move |info| {
            if std::process::id() == parent {
                say(info);
            }
        }));
    });
}

/// Forks. The decoder for x86-64 makes its tables when it is first used: that is done before, as a child waits
/// for ever for what another thread had begun.
fn fork() -> libc::pid_t {
    verify::prepare_decoder(Arch::X86_64);
    // SAFETY: the child only uses what is async-signal-safe or, with glibc, works after fork (the allocator),
    // and leaves without running anything of the parent's.
    unsafe { libc::fork() }
}

/// Starts a forked child.
fn start(work: impl FnOnce() -> bool) -> libc::pid_t {
    be_quiet_in_children();
    match fork() {
        0 => {
            // SAFETY: a child that hangs is ended, and its test with it.
            unsafe { libc::alarm(120) };
            let code = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
                Ok(ok) => i32::from(!ok),
                Err(_) => 2,
            };
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(code) }
        }
        child => {
            // What the child drops is the child's copy.
            std::mem::forget(work);
            assert!(child > 0);
            child
        }
    }
}

fn wait_for(child: libc::pid_t) -> End {
    let mut status = 0;
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    match libc::WIFEXITED(status) {
        true if libc::WEXITSTATUS(status) == 2 => End::Panicked,
        true => End::Returned(libc::WEXITSTATUS(status) == 0),
        false if libc::WTERMSIG(status) == libc::SIGALRM => End::Panicked,
        false => End::Killed(libc::WTERMSIG(status)),
    }
}

/// Makes system calls of this process fail with an error number, for good. Only in a child.
pub(crate) fn deny(calls: &[libc::c_long], errno: i32) {
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let jump = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let line = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    // The number of the call is the first word of what the filter sees.
    let mut program = Vec::from([line(load, 0, 0, 0)]);
    for call in calls {
        program.push(line(jump, 0, 1, *call as u32));
        program.push(line(answer, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32));
    }
    program.push(line(answer, 0, 0, libc::SECCOMP_RET_ALLOW));
    filter(&mut program);
}

/// Has all system calls of this process go through a filter, for good.
fn filter(program: &mut [libc::sock_filter]) {
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: concerns only this process, which is a test's child.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the filter is a valid program and outlives the call; TSYNC concerns only threads of this
    // process.
    let set = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const filter,
        )
    };
    assert_eq!(set, 0);
}

/// Makes one system call of this process fail with an error number, where all of some bits are set
/// in one of its arguments. Only in a child, for good.
#[cfg(not(emulated))]
pub(crate) fn deny_where(call: libc::c_long, argument: u32, bits: i32, errno: i32) {
    let line = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let jump = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    // Behind the number, the architecture and an address are the arguments, of 8 bytes each.
    let low = if cfg!(target_endian = "big") { 4 } else { 0 };
    filter(&mut [
        line(load, 0, 0, 0),
        line(jump, 0, 4, call as u32),
        line(load, 0, 0, 16 + 8 * argument + low),
        line(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, bits as u32),
        line(jump, 0, 1, bits as u32),
        line(answer, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        line(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]);
}

/// The numbers of the system calls that the second function makes, in a child in which the first
/// has prepared what it works on. The child is traced, so nothing is missed.
pub(crate) fn system_calls<T>(prepare: impl FnOnce() -> T, work: impl FnOnce(T)) -> Vec<libc::c_long> {
    let child = fork();
    if child == 0 {
        let prepared = prepare();
        // SAFETY: lets the parent trace this process.
        if unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } != 0 {
            // SAFETY: ends the child at once; the parent reports it.
            unsafe { libc::_exit(1) };
        }
        // SAFETY: stops this process until the parent has begun to count.
        unsafe { libc::raise(libc::SIGSTOP) };
        work(prepared);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0);
    std::mem::forget((prepare, work));
    let mut calls = Vec::new();
    let mut status = 0;
    let mut begun = false;
    // SAFETY: the child is ours.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } == child && libc::WIFSTOPPED(status) {
        let signal = libc::WSTOPSIG(status);
        let is_call = signal == libc::SIGTRAP | 0x80;
        // What the child does not stop itself with: whoever pauses the tests sends it, too.
        let passed_on = if is_call || !begun { 0 } else { signal };
        if !begun {
            // Only so does the kernel tell what a stop is for.
            // SAFETY: the child is stopped.
            unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, child, 0, libc::PTRACE_O_TRACESYSGOOD) };
            begun = true;
        }
        if is_call {
            // The `libc` crate has neither for every C library: a word of what it is about, two
            // addresses, then what is entered (include/uapi/linux/ptrace.h, ptrace_syscall_info).
            const GET_SYSCALL_INFO: u16 = 0x420e;
            const NUMBER: usize = 3;
            const ENTRY: u8 = 1;
            let mut info = [0_u64; 11];
            let (size, place) = (size_of_val(&info), info.as_mut_ptr());
            // SAFETY: the child is stopped, and the place is as large as is said.
            unsafe { libc::ptrace(GET_SYSCALL_INFO.into(), child, size, place) };
            // The first byte, which says what the stop is, is the lowest of a word of either order.
            if info[0].to_ne_bytes()[0] == ENTRY {
                calls.push(info[NUMBER] as libc::c_long);
            }
        }
        // SAFETY: the child is stopped; it goes on to the next entry or exit of a system call.
        unsafe { libc::ptrace(libc::PTRACE_SYSCALL, child, 0, passed_on) };
    }
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "the child ended with {status:#x}"
    );
    calls
}
