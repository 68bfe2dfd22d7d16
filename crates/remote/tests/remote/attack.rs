//! What runs in the executor, and tries to get a writable view of its code by every way that there
//! is.

use std::ffi::CString;
use std::os::fd::AsRawFd;

/// What the executor has of this: `attack` takes the address and length of code, and returns a bit
/// for each way that worked, in the order of [`ways`]; bit 63 if those with a descriptor of the
/// file could be tried, by way of what the process has mapped, which is a matter of privilege, and
/// bit 62 if a child could trace it.
pub(crate) fn symbols() -> [(&'static str, usize); 2] {
    [
        ("attack", attack as *const () as usize),
        ("shorten", shorten as *const () as usize),
    ]
}

pub(crate) const BY_FILE: u64 = 1 << 63;
pub(crate) const BY_TRACER: u64 = 1 << 62;

/// The ways.
pub(crate) fn ways() -> impl Iterator<Item = &'static str> {
    let direct = DIRECT.iter().map(|(name, _)| *name);
    direct.chain(TRACED).chain(WITH_DESCRIPTOR)
}

/// A way: whether it worked for this address and length.
type Attack = fn(u64, usize) -> bool;

const DIRECT: [(&str, Attack); 9] = [
    ("mprotect read-write", |at, len| protect(at, len, RW)),
    ("mprotect read-write-execute", |at, len| {
        protect(at, len, RW | libc::PROT_EXEC)
    }),
    ("process_vm_writev", write_by_call),
    ("write to /proc/self/mem", write_by_file),
    ("madvise(MADV_REMOVE)", |at, len| {
        advise(at, len, libc::MADV_REMOVE)
    }),
    ("madvise(MADV_POPULATE_WRITE)", |at, len| {
        advise(at, len, libc::MADV_POPULATE_WRITE)
    }),
    ("mremap to a copy, made writable", |at, len| {
        // SAFETY: makes a second view, in a place of the kernel's choice.
        let copy = unsafe { libc::mremap(pointer(at), 0, len, libc::MREMAP_MAYMOVE) };
        copy != libc::MAP_FAILED && protect(copy as u64, len, RW)
    }),
    (
        "mremap to another place that leaves the first, made writable",
        |at, len| {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
            // SAFETY: the kernel only does that with private memory.
            let copy = unsafe { libc::mremap(pointer(at), len, len, flags) };
            copy != libc::MAP_FAILED && protect(copy as u64, len, RW)
        },
    ),
    ("remap_file_pages, made writable", |at, len| {
        // SAFETY: maps the same pages anew at the same place.
        let done = unsafe { libc::syscall(libc::SYS_remap_file_pages, at, len, 0, 0, 0) };
        done == 0 && protect(at, len, RW)
    }),
];

/// By a child of the attacker, which traces it.
const TRACED: [&str; 2] = ["ptrace(POKETEXT) by a child", "write to /proc/PID/mem by a child"];

const WITH_DESCRIPTOR: [&str; 6] = [
    "mmap of the file, shared and writable",
    "mmap of the file, shared and executable, made writable",
    "write to the file",
    "truncation of the file",
    "a hole in the file",
    "other seals of the file",
];

const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;

fn pointer(at: u64) -> *mut libc::c_void {
    at as *mut libc::c_void
}

fn protect(at: u64, len: usize, protection: i32) -> bool {
    // SAFETY: a call that the kernel refuses, or the test fails.
    unsafe { libc::mprotect(pointer(at), len, protection) == 0 }
}

fn advise(at: u64, len: usize, advice: i32) -> bool {
    // SAFETY: as above.
    unsafe { libc::madvise(pointer(at), len, advice) == 0 }
}

fn write_by_call(at: u64, _: usize) -> bool {
    let mut byte = !code(at);
    let (from, to) = ((&raw mut byte).cast(), pointer(at));
    let [from, to] = [from, to].map(|iov_base| libc::iovec { iov_base, iov_len: 1 });
    // SAFETY: as above.
    unsafe { libc::process_vm_writev(libc::getpid(), &raw const from, 1, &raw const to, 1, 0) == 1 }
}

fn write_by_file(at: u64, _: usize) -> bool {
    let mem = std::fs::File::options().write(true).open("/proc/self/mem");
    mem.is_ok_and(|mem| std::os::unix::fs::FileExt::write_at(&mem, &[!code(at)], at).is_ok())
}

extern "C" fn attack(at: u64, len: u64) -> u64 {
    let len = len as usize;
    let before = code(at);
    let mut worked: Vec<bool> = DIRECT.iter().map(|(_, way)| way(at, len)).collect();
    let traced = by_tracer(at);
    worked.extend(traced.unwrap_or_default());
    let mut by_descriptor = [false; WITH_DESCRIPTOR.len()];
    let tried = by_file(at, len, &mut by_descriptor);
    worked.extend(by_descriptor);
    assert_eq!(code(at), before, "the code has changed");
    let bits = worked.iter().enumerate();
    let bits: u64 = bits.map(|(bit, worked)| u64::from(*worked) << bit).sum();
    let also = |tried, bit| if tried { bit } else { 0 };
    bits | also(tried, BY_FILE) | also(traced.is_some(), BY_TRACER)
}

/// Lets a child trace this thread and write there. Which of its ways worked; `None` if it may not
/// trace.
///
/// From a thread of its own: a fork's child has the stack of its parent's, which here two processes
/// share already.
fn by_tracer(at: u64) -> Option<[bool; 2]> {
    std::thread::spawn(move || by_child(at)).join().unwrap()
}

fn by_child(at: u64) -> Option<[bool; 2]> {
    let path = CString::new(format!("/proc/{}/mem", std::process::id())).unwrap();
    let word = i64::from(!code(at));
    // SAFETY: the child makes system calls only, and leaves by one.
    unsafe {
        let thread = libc::gettid();
        libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0);
        let child = libc::fork();
        if child == 0 {
            libc::alarm(20);
            libc::_exit(trace(thread, &path, at, word));
        }
        let mut status = 0;
        while libc::waitpid(child, &raw mut status, 0) != child {}
        assert!(libc::WIFEXITED(status), "the tracer ended with {status:#x}");
        match libc::WEXITSTATUS(status) {
            4.. => None,
            bits => Some([bits & 1 != 0, bits & 2 != 0]),
        }
    }
}

/// In the child: traces that thread, and writes. A bit for each way that worked, or 4 if it may
/// not.
///
/// # Safety
/// Nothing but the code at the address is written.
unsafe fn trace(thread: libc::pid_t, path: &CString, at: u64, word: i64) -> i32 {
    // SAFETY: system calls on a process that waits for this one.
    unsafe {
        if libc::ptrace(libc::PTRACE_ATTACH, thread, 0, 0) != 0 {
            return 4;
        }
        let mut status = 0;
        if libc::waitpid(thread, &raw mut status, libc::__WALL) != thread {
            return 4;
        }
        let poked = libc::ptrace(libc::PTRACE_POKETEXT, thread, at, word) == 0;
        let mem = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        let written = mem >= 0 && libc::pwrite(mem, (&raw const word).cast(), 1, at as libc::off_t) == 1;
        libc::ptrace(libc::PTRACE_DETACH, thread, 0, 0);
        i32::from(poked) | i32::from(written) << 1
    }
}

/// Cuts the file of which data at an address is a view. 2 where that could not be tried, as for
/// `attack`; 1 where it worked.
extern "C" fn shorten(at: u64) -> u64 {
    let path = map_file(at);
    // SAFETY: a C string; the descriptor is checked.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    match fd {
        ..0 => 2,
        // SAFETY: a call that the kernel refuses, or the test fails.
        fd => u64::from(unsafe { libc::ftruncate(fd, 0) } == 0),
    }
}

/// The file of which what is mapped at an address is a view.
fn map_file(at: u64) -> CString {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let mut ranges = maps.lines().map(|line| line.split(' ').next().unwrap());
    let range = ranges.find(|range| {
        let (start, end) = range.split_once('-').unwrap();
        (number(start)..number(end)).contains(&at)
    });
    CString::new(format!("/proc/self/map_files/{}", range.unwrap())).unwrap()
}

fn code(at: u64) -> u8 {
    // SAFETY: mapped, readable code.
    unsafe { (at as *const u8).read_volatile() }
}

/// The ways that need a descriptor.
fn by_file(at: u64, len: usize, worked: &mut [bool]) -> bool {
    let path = map_file(at);
    // SAFETY: a C string; the descriptor is checked.
    let open = |flags| unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
    let (reader, writer) = (open(libc::O_RDONLY), open(libc::O_RDWR));
    if reader < 0 {
        return false;
    }
    for fd in [reader, writer] {
        let ways = ways_of(fd, len);
        for (worked, way) in worked.iter_mut().zip(ways) {
            *worked |= way;
        }
    }
    true
}

fn ways_of(fd: i32, len: usize) -> [bool; 6] {
    let rx = libc::PROT_READ | libc::PROT_EXEC;
    let null = std::ptr::null_mut();
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: calls that the kernel refuses, or the test fails. No mapping replaces another.
    unsafe {
        let shared = libc::mmap(null, len, RW, libc::MAP_SHARED, fd, 0) != libc::MAP_FAILED;
        let view = libc::mmap(null, len, rx, libc::MAP_SHARED, fd, 0);
        let made = view != libc::MAP_FAILED && libc::mprotect(view, len, RW) == 0;
        [
            shared,
            made,
            libc::pwrite(fd, [0_u8].as_ptr().cast(), 1, 0) == 1,
            libc::ftruncate(fd, 0) == 0,
            libc::fallocate(fd, punch, 0, 4096) == 0,
            libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_WRITE) == 0,
        ]
    }
}

/// That the test's own file, which has no seals, can be changed by all of them: else the ways would
/// show nothing.
#[test]
fn the_ways_work_where_nothing_forbids_them() {
    // SAFETY: a C string; the descriptor is checked, and owned by the file.
    let file = unsafe {
        let fd = libc::memfd_create(c"test".as_ptr(), libc::MFD_ALLOW_SEALING);
        assert!(fd >= 0);
        <std::fs::File as std::os::fd::FromRawFd>::from_raw_fd(fd)
    };
    file.set_len(4096).unwrap();
    let [shared, made, written, cut, hole, _] = ways_of(file.as_raw_fd(), 4096);
    assert!(shared && made && written && cut && hole);
}

/// Nor does the way by a tracer show nothing: it writes to private pages that nobody can write,
/// which is what debuggers do. The code is safe from it because it is shared.
#[test]
fn a_tracer_writes_private_code() {
    let rx = libc::PROT_READ | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new pages, which this test leaves mapped.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, rx, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    match by_tracer(at as u64) {
        Some(worked) => assert_eq!(worked, [true; 2]),
        None => eprintln!("this system lets no child trace its parent"),
    }
    assert!(!protect(0, 4096, RW));
}
