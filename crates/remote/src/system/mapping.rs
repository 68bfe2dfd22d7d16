//! A view of the controller's memory files, in the process that executes.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use patchpoint::addr::CodeRange;
use patchpoint::error::Errno;

use super::{last_errno, page_size};
use crate::protocol::{Access, View};

/// What nobody can take off a file of code: its writable view is the controller's alone, and its
/// length stays.
const CODE_SEALS: i32 = libc::F_SEAL_FUTURE_WRITE | LENGTH_SEALS;
/// The same for data: a process that shortens the file would kill whoever reads it.
const LENGTH_SEALS: i32 = libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;

/// A view of another process's file. Dropping it unmaps it: nothing may refer to it then. A fork's
/// child has no such view, neither of code nor of data.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) range: CodeRange,
    pub(crate) view: View,
    /// The process that has it.
    process: u32,
}

fn pointer(address: u64) -> *mut libc::c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

impl Mapped {
    /// Maps a file at exactly that range, whole pages. `None`: something else is there.
    ///
    /// # Errors
    /// The file is not sealed as it must be or too short (`EPERM`), the range is none, or the system refuses.
    pub(crate) fn new(range: CodeRange, view: View, file: &OwnedFd) -> Result<Option<Self>, Errno> {
        let (start, len) = (range.start().get(), range.len());
        if range.is_empty() || (start | len) % page_size() != 0 {
            return Err(Errno(libc::EINVAL));
        }
        // protection: remote-unsealed-files-are-refused
        if !is_sealed_for(file, view, len) {
            return Err(Errno(libc::EPERM));
        }
        let rights = match view {
            // protection: remote-executed-views-are-not-writable
            View::Execute => libc::PROT_READ | libc::PROT_EXEC,
            View::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        match reserve(start, len) {
            Ok(()) => {}
            Err(errno) if place_is_taken(errno) => return Ok(None),
            Err(errno) => return Err(errno),
        }
        let process = std::process::id();
        // Dropping it frees the place.
        let mapped = Self { range, view, process };
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: reserved above, and seen by nobody.
        let at = unsafe { libc::mmap(pointer(start), len as usize, rights, flags, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(last_errno());
        }
        // What another process writes must not reach a fork's child, nor what that writes this process and that one.
        // SAFETY: the advice changes nothing in this process.
        match unsafe { libc::madvise(pointer(start), len as usize, libc::MADV_DONTFORK) } {
            0 => Ok(Some(mapped)),
            _ => Err(last_errno()),
        }
    }

    /// Sets what may be done with pages of it.
    ///
    /// # Errors
    /// It is code, or they are not its pages (`EINVAL`); the system refuses.
    pub(crate) fn protect(&self, pages: CodeRange, access: Access) -> Result<(), Errno> {
        let inside = self.range.contains_bytes(pages.start(), pages.len()) && !pages.is_empty();
        let whole = (pages.start().get() | pages.len()) % page_size() == 0;
        if self.view != View::Write || !inside || !whole {
            return Err(Errno(libc::EINVAL));
        }
        let rights = match access {
            Access::None => libc::PROT_NONE,
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: data of the process that asks, which says that nothing relies on what was before.
        match unsafe { libc::mprotect(pointer(pages.start().get()), pages.len() as usize, rights) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // A fork's child has no view, and may have mapped something else there.
            return;
        }
        // SAFETY: mapped by this value, and nothing refers to it.
        unsafe { libc::munmap(pointer(self.range.start().get()), self.range.len() as usize) };
    }
}

/// Reserves inaccessible address space exactly there, if nothing is mapped there.
fn reserve(start: u64, len: u64) -> Result<(), Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a mapping that replaces nothing touches no memory in use.
    let at = unsafe { libc::mmap(pointer(start), len as usize, libc::PROT_NONE, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(last_errno());
    }
    if at.expose_provenance() as u64 != start {
        // Kernels before 4.17 take the flag for nothing and the address for a hint.
        // SAFETY: mapped above, and nobody has seen it.
        unsafe { libc::munmap(at, len as usize) };
        return Err(Errno(libc::EEXIST));
    }
    Ok(())
}

/// Whether a reservation failed because of the place, and another is worth trying.
fn place_is_taken(errno: Errno) -> bool {
    // EPERM: below vm.mmap_min_addr. ENOMEM and EINVAL: beyond what the process can address.
    matches!(errno.0, libc::EEXIST | libc::EPERM | libc::ENOMEM | libc::EINVAL)
}

/// Whether a file from another process has the seals of this view, and this length at least.
fn is_sealed_for(file: &OwnedFd, view: View, len: u64) -> bool {
    let needed = match view {
        View::Write => LENGTH_SEALS,
        View::Execute => CODE_SEALS,
    };
    // SAFETY: the descriptor is open; the call reads and writes no memory of ours.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the descriptor is open, and the place is as large as the call writes.
    let known = unsafe { libc::fstat(file.as_raw_fd(), stat.as_mut_ptr()) } == 0;
    // SAFETY: filled by the call, and valid as zeros before.
    let has = unsafe { stat.assume_init() }.st_size;
    seals >= 0 && seals & needed == needed && known && u64::try_from(has).is_ok_and(|has| has >= len)
}
