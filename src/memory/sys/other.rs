//! Systems without sealed memory files: only Toggle works there, and the rest is refused by an
//! error.

use super::ExtraFlags;
use crate::error::Errno;

type Outcome<T> = Result<T, Errno>;

/// A memory file that code or data is mapped from: there is none.
#[derive(Debug)]
pub enum MemoryFile {}

/// What a view of a memory file is for.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) enum View {
    /// Code, where it is only looked at.
    Read,
    /// Data.
    Write,
}

/// No sealed memory files here.
pub(in crate::memory) fn code_file(_len: u64) -> Result<(MemoryFile, u64), Refused> {
    Err(("memfd_create", Errno(libc::ENOSYS)))
}

/// No sealed memory files here.
pub(in crate::memory) fn data_file(_len: u64) -> Result<MemoryFile, Refused> {
    Err(("memfd_create", Errno(libc::ENOSYS)))
}

/// Forks are not noticed here, and need no barrier.
pub(in crate::memory) fn barrier() -> Outcome<()> {
    Err(Errno(libc::ENOSYS))
}

/// There is no file to map.
///
/// # Safety
///
/// None.
pub(in crate::memory) unsafe fn map_view(_at: u64, _len: u64, _view: View, file: &MemoryFile) -> Outcome<()> {
    match *file {}
}

/// Nothing is shared.
///
/// # Safety
///
/// None.
pub(in crate::memory) unsafe fn discard_shared(_at: u64, _len: u64) -> Outcome<()> {
    Err(Errno(libc::ENOSYS))
}

/// What maps a memory file twice, and at which call it failed.
pub(in crate::memory) type Refused = (&'static str, Errno);

/// Pages are backed as they are written.
pub(in crate::memory) fn back(_at: u64, _len: u64) {}

/// There is no reservation without a strategy that uses it.
pub(in crate::memory) fn reserve(_at: Option<u64>, _len: u64) -> Outcome<u64> {
    Err(Errno(libc::ENOSYS))
}

/// Nothing was reserved, so nothing is released.
///
/// # Safety
///
/// None.
pub(in crate::memory) unsafe fn release(_at: u64, _len: u64) -> Outcome<()> {
    Err(Errno(libc::ENOSYS))
}

/// There is no reservation to back.
///
/// # Safety
///
/// None.
pub(in crate::memory) unsafe fn map_data(_at: u64, _len: u64) -> Outcome<()> {
    Err(Errno(libc::ENOSYS))
}

/// Nothing was mapped.
///
/// # Safety
///
/// None.
pub(in crate::memory) unsafe fn unmap(_at: u64, _len: u64) {}

/// No sealed memory files here.
///
/// # Safety
///
/// None.
pub(in crate::memory) unsafe fn map_twice(_rx: u64, _len: u64) -> Result<u64, Refused> {
    Err(("memfd_create", Errno(libc::ENOSYS)))
}

/// No page that a fork wipes.
pub(in crate::memory) fn page_wiped_by_fork() -> Option<std::ptr::NonNull<u8>> {
    None
}

/// The memory of the process as a file, which this system does not have.
#[derive(Debug)]
pub(in crate::memory) struct SelfMem(());

impl SelfMem {
    /// Always refused.
    pub(in crate::memory) fn open() -> Outcome<Self> {
        Err(Errno(libc::ENOSYS))
    }

    /// Always refused.
    ///
    /// # Safety
    ///
    /// None.
    pub(in crate::memory) unsafe fn write(&self, _at: u64, _bytes: &[u8]) -> Outcome<()> {
        Err(Errno(libc::ENOSYS))
    }
}

/// No place is ever tried.
pub(in crate::memory) fn place_is_taken(_errno: Errno) -> bool {
    false
}

/// Systems that forbid it answer when the memory is first changed.
pub(in crate::memory) fn try_toggle() -> Outcome<()> {
    Ok(())
}

/// The system's own list of mappings has been asked, and did not answer.
pub(in crate::memory) fn is_mapped(_pages: crate::addr::CodeRange) -> bool {
    false
}

/// The step of [`map_over`] that is refused.
pub(in crate::memory) const EXCHANGE: &str = "mmap over the pages";

/// No sealed memory files here.
pub(in crate::memory) fn copied_code_file(_from: u64, _len: u64) -> Result<(MemoryFile, u64), Refused> {
    Err(("memfd_create", Errno(libc::ENOSYS)))
}

/// There is no file to map.
pub(in crate::memory) fn try_executed_view(file: &MemoryFile, _len: u64, _extra: ExtraFlags) -> Outcome<()> {
    match *file {}
}

/// There is no file to map.
///
/// # Safety
///
/// None.
pub(in crate::memory) unsafe fn map_over(
    _at: u64,
    _len: u64,
    _extra: ExtraFlags,
    file: &MemoryFile,
) -> Result<(), Refused> {
    match *file {}
}

/// There is no file.
pub(in crate::memory) fn inode(file: &MemoryFile) -> Outcome<u64> {
    match *file {}
}

/// Nothing was remapped.
///
/// # Safety
///
/// None.
pub(in crate::memory) unsafe fn make_private(_at: u64, _len: u64, _extra: ExtraFlags) -> Result<(), Refused> {
    Err(("memfd_create", Errno(libc::ENOSYS)))
}

/// Nothing was kept from children.
pub(in crate::memory) fn give_to_children(_at: u64, _len: u64) -> Outcome<()> {
    Err(Errno(libc::ENOSYS))
}
