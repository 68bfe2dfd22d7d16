//! What runs in the executor, and tries to get a writable view of its code by every way that there is.

use std::ffi::CString;
use std::os::fd::AsRawFd;

use patchpoint::addr::CodeAddr;

/// The address of the function.
pub(crate) fn addr() -> CodeAddr {
    CodeAddr::new(attack as *const () as usize as u64)
}

/// The ways.
pub(crate) const WAYS: [&str; 12] = [
    "mprotect read-write",
    "mprotect read-write-execute",
    "process_vm_writev",
    "write to /proc/self/mem",
    "madvise(MADV_REMOVE)",
    "mremap to a copy, made writable",
    "mmap of the file, shared and writable",
    "mmap of the file, shared and executable, made writable",
    "write to the file",
    "truncation of the file",
    "a hole in the file",
    "other seals of the file",
];

/// A bit for each way that worked, and bit 63 if the last six could be tried: with a descriptor of the file, by way of
/// what the process has mapped, which is a matter of privilege.
extern "C" fn attack(at: u64, len: u64) -> u64 {
    let (pointer, len) = (at as *mut libc::c_void, len as usize);
    let rw = libc::PROT_READ | libc::PROT_WRITE;
    let mut worked = [false; WAYS.len()];
    let before = code(at);
    // SAFETY: calls that the kernel refuses, or the test fails; the range is mapped.
    unsafe {
        worked[0] = libc::mprotect(pointer, len, rw) == 0;
        worked[1] = libc::mprotect(pointer, len, rw | libc::PROT_EXEC) == 0;
        let mut byte = !before;
        let from = libc::iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        let to = libc::iovec {
            iov_base: pointer,
            iov_len: 1,
        };
        worked[2] = libc::process_vm_writev(libc::getpid(), &raw const from, 1, &raw const to, 1, 0) == 1;
        worked[4] = libc::madvise(pointer, len, libc::MADV_REMOVE) == 0;
        let copy = libc::mremap(pointer, 0, len, libc::MREMAP_MAYMOVE);
        worked[5] = copy != libc::MAP_FAILED && libc::mprotect(copy, len, rw) == 0;
    }
    if let Ok(mem) = std::fs::File::options().write(true).open("/proc/self/mem") {
        worked[3] = std::os::unix::fs::FileExt::write_at(&mem, &[!before], at).is_ok();
    }
    let tried = by_file(at, len, &mut worked);
    assert_eq!(code(at), before, "the code has changed");
    let bits = worked
        .iter()
        .enumerate()
        .map(|(bit, worked)| u64::from(*worked) << bit);
    bits.sum::<u64>() | u64::from(tried) << 63
}

/// The address of a function that cuts the file of which data at an address is a view. 2 where that could not be tried,
/// as for `attack`; 1 where it worked.
pub(crate) fn addr_of_shorten() -> CodeAddr {
    CodeAddr::new(shorten as *const () as usize as u64)
}

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
        for (worked, way) in worked[6..].iter_mut().zip(ways) {
            *worked |= way;
        }
    }
    true
}

fn ways_of(fd: i32, len: usize) -> [bool; 6] {
    let rw = libc::PROT_READ | libc::PROT_WRITE;
    let rx = libc::PROT_READ | libc::PROT_EXEC;
    let null = std::ptr::null_mut();
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: calls that the kernel refuses, or the test fails. No mapping replaces another.
    unsafe {
        let shared = libc::mmap(null, len, rw, libc::MAP_SHARED, fd, 0) != libc::MAP_FAILED;
        let view = libc::mmap(null, len, rx, libc::MAP_SHARED, fd, 0);
        let made = view != libc::MAP_FAILED && libc::mprotect(view, len, rw) == 0;
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

/// That the test's own file, which has no seals, can be changed by all of them: else the ways would show nothing.
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
