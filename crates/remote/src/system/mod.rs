//! What is asked of the system: connections, mappings, and threads on stacks of the caller's
//! choice.

#![allow(unsafe_code)]

pub(crate) mod listen;
pub(crate) mod mapping;
pub(crate) mod socket;
pub(crate) mod stack_thread;

use patchpoint::error::Errno;

/// The number of the error that the last call of the system ended in.
pub(crate) fn last_errno() -> Errno {
    errno(&std::io::Error::last_os_error())
}

/// The number in an error; one that is not the system's has none.
pub(crate) fn errno(error: &std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(libc::EIO))
}

/// The size of a page in bytes.
pub(crate) fn page_size() -> u64 {
    // SAFETY: takes and returns a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).expect("every system has pages, and tells their size")
}
