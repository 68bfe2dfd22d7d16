//! Memory that the measurements own, and the bare calls that the library is compared with.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;

/// The size of a page.
pub const PAGE: usize = 4096;

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const READ_EXECUTE: i32 = libc::PROT_READ | libc::PROT_EXEC;

fn map(len: usize, protection: i32, flags: i32, file: i32) -> u64 {
    // SAFETY: a mapping wherever there is room touches no memory in use.
    let at = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, file, 0) };
    assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    at.expose_provenance() as u64
}

/// Changes the protection of pages to read-write or read-execute.
///
/// # Safety
///
/// The pages are the caller's, and no code in them runs while they are read-write.
#[inline]
pub unsafe fn protect(at: u64, len: usize, writable: bool) {
    let protection = if writable { READ_WRITE } else { READ_EXECUTE };
    // SAFETY: the caller's promise.
    let done = unsafe { libc::mprotect(ptr::with_exposed_provenance_mut(at as usize), len, protection) };
    assert_eq!(done, 0);
}

/// Copies bytes to an address.
///
/// # Safety
///
/// It is mapped writable, and nothing refers to it.
#[inline]
pub unsafe fn copy(at: u64, bytes: &[u8]) {
    let to = ptr::with_exposed_provenance_mut::<u8>(at as usize);
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

/// Stores an aligned quadword.
///
/// # Safety
///
/// It is mapped writable and aligned, and nothing refers to it.
#[inline]
pub unsafe fn store(at: u64, word: u64) {
    let to = ptr::with_exposed_provenance_mut::<u64>(at as usize);
    // SAFETY: the caller's promise.
    unsafe { to.write_volatile(word) };
}

/// The bytes at an address.
///
/// # Safety
///
/// They are mapped readable.
pub unsafe fn read(at: u64, len: usize) -> Vec<u8> {
    let from = ptr::with_exposed_provenance::<u8>(at as usize);
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(from, len) }.to_vec()
}

/// A copy of so many bytes at an address.
///
/// # Safety
///
/// They are mapped readable.
#[inline]
pub unsafe fn read_array<const N: usize>(at: u64) -> [u8; N] {
    let from = ptr::with_exposed_provenance::<[u8; N]>(at as usize);
    // SAFETY: the caller's promise; bytes may be at any address.
    unsafe { from.read() }
}

/// Private memory with code, read-execute, as a JIT has it. It stays mapped until the program ends.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    /// Its address.
    pub at: u64,
}

impl Foreign {
    /// Maps the code.
    pub fn new(code: &[u8]) -> Self {
        let len = code.len().next_multiple_of(PAGE);
        let at = map(len, READ_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
        // SAFETY: just mapped, read-write.
        unsafe { copy(at, code) };
        // SAFETY: just mapped; nothing runs there yet.
        unsafe { protect(at, len, false) };
        Self { at }
    }
}

/// The writable view of a memory file that is mapped read-execute as well. Both stay mapped.
pub fn writable_view_of_code(len: usize) -> u64 {
    // SAFETY: the name is a C string.
    let file = unsafe { libc::memfd_create(c"bare".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(file >= 0);
    // SAFETY: the descriptor is new and nobody else's.
    let file = unsafe { File::from_raw_fd(file) };
    file.set_len(len as u64).unwrap();
    let executed = map(len, READ_EXECUTE, libc::MAP_SHARED, file.as_raw_fd());
    let writable = map(len, READ_WRITE, libc::MAP_SHARED, file.as_raw_fd());
    // SAFETY: just mapped.
    unsafe { copy(writable, &vec![0xcc; len]) };
    // SAFETY: just mapped. Both views have their pages then.
    assert!(unsafe { read(executed, len) }.iter().all(|byte| *byte == 0xcc));
    writable
}
