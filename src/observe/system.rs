//! What a [`JitDump`](super::JitDump) needs of the system: its clock, and the mapping by which
//! `perf` finds the file.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;

/// Nanoseconds of the clock that `perf record -k 1` stamps its samples with.
pub(super) fn monotonic_nanos() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the call writes a time to its argument, or nothing.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) };
    // SAFETY: it has been written, or is zeros.
    let time = unsafe { time.assume_init() };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// This thread's number.
pub(super) fn thread() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    let thread = unsafe { libc::gettid() };
    u32::try_from(thread).unwrap_or(0)
}

/// A mapping of a file that is there to be seen: `perf` notes executable mappings with the names of
/// their files. It is far behind the file's end, so that nothing of what is written to the file can
/// be executed.
pub(super) struct Marker(usize);

/// Larger than any page.
const LEN: usize = 1 << 16;
/// Far behind the end of any such file.
const OFFSET: libc::off_t = 1 << 46;

impl Marker {
    pub(super) fn new(file: &File) -> io::Result<Self> {
        let prot = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: a mapping where the kernel likes touches no memory in use, and this one is never accessed.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                LEN,
                prot,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                OFFSET,
            )
        };
        match mapped == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(Self(mapped.expose_provenance())),
        }
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, made in `new`, and nothing refers to it.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(self.0), LEN) };
    }
}
