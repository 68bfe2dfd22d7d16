//! Linux: sealed memory files, reservations, and the process's own memory as a file.

use std::ffi::CStr;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};

use super::ExtraFlags;
use crate::error::Errno;

type Outcome<T> = Result<T, Errno>;

pub(in crate::memory) fn last_errno() -> Errno {
    Errno(
        std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EINVAL),
    )
}

fn pointer(address: u64) -> *mut libc::c_void {
    ptr::with_exposed_provenance_mut(address as usize)
}

/// Where a mapping may go.
#[derive(Clone, Copy)]
enum At {
    /// Where the kernel likes.
    Anywhere,
    /// Exactly there, and only if nothing is mapped there.
    Free(u64),
    /// Exactly there, over what is mapped there.
    Over(u64),
}

/// Maps memory.
///
/// # Safety
///
/// With [`At::Over`] the range must belong to the caller, and nothing may refer to what was there.
unsafe fn map(at: At, len: u64, prot: i32, flags: i32, file: Option<&OwnedFd>) -> Outcome<u64> {
    // SAFETY: the caller's promise.
    unsafe { map_part(at, len, prot, flags, file.map(|file| (file, 0))) }
}

/// The same, of a file from an offset on.
///
/// # Safety
///
/// As for [`map`].
unsafe fn map_part(at: At, len: u64, prot: i32, flags: i32, part: Option<(&OwnedFd, u64)>) -> Outcome<u64> {
    let (address, place) = match at {
        At::Anywhere => (0, 0),
        At::Free(address) => (address, libc::MAP_FIXED_NOREPLACE),
        At::Over(address) => (address, libc::MAP_FIXED),
    };
    let (fd, offset) = part.map_or((-1, 0), |(file, offset)| (file.as_raw_fd(), offset));
    // SAFETY: a mapping that replaces nothing touches no memory in use; one that replaces is promised by the
    // caller to replace only the caller's.
    let mapped = unsafe {
        libc::mmap(
            pointer(address),
            len as usize,
            prot,
            flags | place,
            fd,
            offset as libc::off_t,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(last_errno());
    }
    let mapped = mapped.expose_provenance() as u64;
    if let At::Free(wanted) = at {
        // Kernels before 4.17 take the flag for nothing and the address for a hint.
        if mapped != wanted {
            // SAFETY: this mapping was made above and nobody has seen it.
            unsafe { unmap(mapped, len) };
            return Err(Errno(libc::EEXIST));
        }
    }
    Ok(mapped)
}

const RESERVE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

/// Reserves inaccessible address space, exactly `at` an address or anywhere.
pub(in crate::memory) fn reserve(at: Option<u64>, len: u64) -> Outcome<u64> {
    let at = at.map_or(At::Anywhere, At::Free);
    // SAFETY: neither place replaces a mapping.
    unsafe { map(at, len, libc::PROT_NONE, RESERVE, None) }
}

/// Returns pages of a reservation to it: their content is gone and they are inaccessible.
///
/// # Safety
///
/// The range lies in a reservation of the caller's and nothing refers to it.
pub(in crate::memory) unsafe fn release(at: u64, len: u64) -> Outcome<()> {
    // SAFETY: the caller owns the range.
    unsafe { map(At::Over(at), len, libc::PROT_NONE, RESERVE, None) }.map(drop)
}

/// Backs pages of a reservation with private memory that is zero, readable and writable.
///
/// # Safety
///
/// The range lies in a reservation of the caller's and nothing refers to it.
pub(in crate::memory) unsafe fn map_data(at: u64, len: u64) -> Outcome<()> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the caller owns the range.
    unsafe { map(At::Over(at), len, prot, flags, None) }.map(drop)
}

/// Unmaps a range. A refusal can only leave it mapped, so it is not reported.
///
/// # Safety
///
/// The range was mapped by the caller and nothing refers to it.
pub(in crate::memory) unsafe fn unmap(at: u64, len: u64) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(pointer(at), len as usize) };
}

/// What maps a memory file twice, and at which call it failed.
pub(in crate::memory) type Refused = (&'static str, Errno);

/// What nobody can take off a file of code: its writable view is the last, and its length stays.
// protection: executed-view-is-not-writable (2)
// protection: seal-future-write
const CODE_SEALS: i32 = libc::F_SEAL_FUTURE_WRITE | LENGTH_SEALS;
/// The same for a file that may be written: who shortens it would kill whoever reads it.
const LENGTH_SEALS: i32 = libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;

/// Maps one memory file read-execute over the reservation at `rx`, and read-write at another
/// address; returns where.
///
/// # Safety
///
/// The range at `rx` lies in a reservation of the caller's and nothing refers to it.
pub(in crate::memory) unsafe fn map_twice(rx: u64, len: u64) -> Result<u64, Refused> {
    let (file, rw) = code_file(len)?;
    // SAFETY: the caller owns the range.
    match unsafe { map_view(rx, len, View::Execute, &file) } {
        // protection: seal-before-the-executed-view (2)
        Ok(()) => Ok(rw),
        Err(errno) => {
            // SAFETY: mapped above, seen by nobody.
            unsafe { unmap(rw, len) };
            Err(("mmap of the executable view", errno))
        }
    }
}

/// A memory file that code or data is mapped from: a descriptor of it, closed with this. Its length
/// is sealed, and that of code against every further writable mapping (`F_SEAL_FUTURE_WRITE`), for
/// good (`F_SEAL_SEAL`), whoever has it.
#[derive(Debug)]
pub struct MemoryFile(OwnedFd);

impl From<MemoryFile> for OwnedFd {
    fn from(file: MemoryFile) -> Self {
        file.0
    }
}

/// What a view of a memory file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory) enum View {
    /// Code, where it is executed.
    Execute,
    /// Code, where it is only looked at.
    Read,
    /// Data.
    Write,
}

/// Maps a file over a range.
///
/// # Safety
///
/// The range lies in a reservation of the caller's and nothing refers to it.
pub(in crate::memory) unsafe fn map_view(at: u64, len: u64, view: View, file: &MemoryFile) -> Outcome<()> {
    let prot = match view {
        // protection: executed-view-is-not-writable
        View::Execute => libc::PROT_READ | libc::PROT_EXEC,
        View::Read => libc::PROT_READ,
        View::Write => libc::PROT_READ | libc::PROT_WRITE,
    };
    // SAFETY: the caller owns the range.
    unsafe { map(At::Over(at), len, prot, libc::MAP_SHARED, Some(&file.0)) }?;
    match view {
        // What is written to the file must not reach a fork's child.
        // protection: fork-child-has-no-executed-view
        View::Execute => keep_from_children(at, len),
        View::Read => keep_from_children(at, len),
        View::Write => Ok(()),
    }
}

/// A memory file for code, and where its only writable view is.
///
/// The order is what makes every other view immutable: the read-write view is mapped first, then
/// the file is sealed against further ones, and only then another can be mapped; the kernel takes
/// the right to become writable away from a shared mapping of a file sealed so.
pub(in crate::memory) fn code_file(len: u64) -> Result<(MemoryFile, u64), Refused> {
    let file = memory_file(c"patchpoint code").map_err(|e| ("memfd_create", e))?;
    set_len(&file, len)?;
    sealed_code_file(file, len)
}

/// The same with a copy of pages that are there already, which the kernel reads.
pub(in crate::memory) fn copied_code_file(from: u64, len: u64) -> Result<(MemoryFile, u64), Refused> {
    let file = file_for(c"patchpoint remapped", len)?;
    copy_into(&file, from, len, 0).map_err(|e| ("pwrite", e))?;
    sealed_code_file(file, len)
}

/// Maps the writable view of a file, and seals it against any other.
fn sealed_code_file(file: OwnedFd, len: u64) -> Result<(MemoryFile, u64), Refused> {
    let rw_prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the place is the kernel's choice, so nothing is replaced.
    let rw = unsafe { map(At::Anywhere, len, rw_prot, libc::MAP_SHARED, Some(&file)) }
        .map_err(|e| ("mmap of the writable view", e))?;
    let finish = || {
        // A child after fork must not write the parent's code, so it does not get this view.
        // SAFETY: the range was mapped above; the advice changes nothing in this process.
        // protection: fork-child-has-no-writable-view
        if unsafe { libc::madvise(pointer(rw), len as usize, libc::MADV_DONTFORK) } != 0 {
            return Err(("madvise", last_errno()));
        }
        // protection: seal-before-the-executed-view
        seal(&file, CODE_SEALS)
    };
    match finish() {
        Ok(()) => Ok((MemoryFile(file), rw)),
        Err(refused) => {
            // SAFETY: mapped above, seen by nobody.
            unsafe { unmap(rw, len) };
            Err(refused)
        }
    }
}

/// What is executed where the pages are somebody else's.
const REMAPPED: i32 = libc::PROT_READ | libc::PROT_EXEC;

/// Maps a file where the kernel likes, as [`map_over`] would, and unmaps it again.
pub(in crate::memory) fn try_executed_view(file: &MemoryFile, len: u64, extra: ExtraFlags) -> Outcome<()> {
    // SAFETY: the place is the kernel's choice.
    let tried = unsafe {
        map(
            At::Anywhere,
            len,
            REMAPPED | extra.0,
            libc::MAP_SHARED,
            Some(&file.0),
        )
    }?;
    // SAFETY: mapped above, seen by nobody.
    unsafe { unmap(tried, len) };
    Ok(())
}

/// The step of [`map_over`] that exchanges the pages, as it names it when it is refused.
pub(in crate::memory) const EXCHANGE: &str = "mmap over the pages";

/// Maps a file over pages, in one step for whoever executes there. A fork's child does not inherit
/// them.
///
/// # Safety
///
/// The pages are the caller's to exchange, and hold what the file does.
pub(in crate::memory) unsafe fn map_over(
    at: u64,
    len: u64,
    extra: ExtraFlags,
    file: &MemoryFile,
) -> Result<(), Refused> {
    // SAFETY: the caller's promise.
    unsafe {
        map(
            At::Over(at),
            len,
            REMAPPED | extra.0,
            libc::MAP_SHARED,
            Some(&file.0),
        )
    }
    .map_err(|errno| (EXCHANGE, errno))?;
    // protection: fork-child-does-not-share-remapped-pages
    keep_from_children(at, len).map_err(|errno| ("madvise", errno))
}

/// The inode of a file.
pub(in crate::memory) fn inode(file: &MemoryFile) -> Outcome<u64> {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the place is as large as the call writes.
    match unsafe { libc::fstat(file.0.as_raw_fd(), status.as_mut_ptr()) } {
        // SAFETY: filled by the call, and valid as zeros before.
        0 => Ok(unsafe { status.assume_init() }.st_ino),
        _ => Err(last_errno()),
    }
}

/// Lets a part of a sealed file stand in for pages, privately, and returns where these are kept
/// aside. Both are refused, or neither.
///
/// # Safety
///
/// The pages are one shared mapping of the caller's, and hold what the part of the file does.
pub(in crate::memory) unsafe fn stand_in(
    at: u64,
    len: u64,
    extra: ExtraFlags,
    file: &OwnedFd,
    offset: u64,
) -> Outcome<u64> {
    // Of a length of 0: the pages are mapped once more, as they are (mremap(2)).
    // SAFETY: leaves the pages as they are, and maps them where the kernel likes.
    let aside = unsafe { libc::mremap(pointer(at), 0, len as usize, libc::MREMAP_MAYMOVE) };
    if aside == libc::MAP_FAILED {
        return Err(last_errno());
    }
    let aside = aside.expose_provenance() as u64;
    let part = Some((file, offset));
    // SAFETY: the caller's promise.
    let mapped = unsafe { map_part(At::Over(at), len, REMAPPED | extra.0, libc::MAP_PRIVATE, part) };
    match mapped {
        Ok(_) => Ok(aside),
        Err(errno) => {
            // Before others know of it, as old kernels unmap what is there before they refuse.
            // SAFETY: what was there.
            let _ = unsafe { stand_back(aside, at, len) };
            Err(errno)
        }
    }
}

/// How many mappings [`spare_mappings`] makes.
const SPARE: u64 = 8;

/// Mappings for nothing but to be freed where one is needed and must not be refused. A process may
/// have so many only (`vm.max_map_count`), and moving one wants room for six.
pub(in crate::memory) fn spare_mappings() -> Outcome<u64> {
    let page = super::page_size();
    let at = reserve(None, SPARE * page)?;
    // Those of one protection would be one mapping.
    for index in (1..SPARE).step_by(2) {
        // SAFETY: reserved above, seen by nobody.
        let split = unsafe { super::protect(at + index * page, page, region::Protection::READ) };
        if let Err(errno) = split {
            // SAFETY: as above.
            unsafe { free_spare_mappings(at) };
            return Err(errno);
        }
    }
    Ok(at)
}

/// Frees them.
///
/// # Safety
///
/// `at` is what [`spare_mappings`] returned, in this process or the parent of a fork's child, and
/// they are still there.
pub(in crate::memory) unsafe fn free_spare_mappings(at: u64) {
    // SAFETY: the caller's promise; nothing refers to them.
    unsafe { unmap(at, SPARE * super::page_size()) };
}

/// Puts pages back where they were before [`stand_in`].
///
/// # Safety
///
/// `aside` is what that returned for the range, and was not put back yet.
pub(in crate::memory) unsafe fn stand_back(aside: u64, at: u64, len: u64) -> Outcome<()> {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: over what stands in for these pages, which holds the same bytes.
    let moved = unsafe { libc::mremap(pointer(aside), len as usize, len as usize, flags, pointer(at)) };
    match moved == libc::MAP_FAILED {
        true => Err(last_errno()),
        false => Ok(()),
    }
}

/// Maps private copies of pages over them.
///
/// # Safety
///
/// The pages are the caller's to exchange, and nobody writes them during the call.
pub(in crate::memory) unsafe fn make_private(at: u64, len: u64, extra: ExtraFlags) -> Result<(), Refused> {
    let file = copy_file(len)?;
    copy_into(&file, at, len, 0).map_err(|errno| ("pwrite", errno))?;
    seal_copy(&file)?;
    // SAFETY: the caller's promise.
    unsafe {
        map(
            At::Over(at),
            len,
            REMAPPED | extra.0,
            libc::MAP_PRIVATE,
            Some(&file),
        )
    }
    .map(drop)
    .map_err(|errno| ("mmap of private pages", errno))
}

/// Lets a fork's child inherit a mapping again.
pub(in crate::memory) fn give_to_children(at: u64, len: u64) -> Outcome<()> {
    // SAFETY: the advice changes nothing in this process.
    match unsafe { libc::madvise(pointer(at), len as usize, libc::MADV_DOFORK) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

fn set_len(file: &OwnedFd, len: u64) -> Result<(), Refused> {
    // SAFETY: the descriptor is open; the call reads and writes no memory of ours.
    match unsafe { libc::ftruncate(file.as_raw_fd(), len as libc::off_t) } {
        0 => Ok(()),
        _ => Err(("ftruncate", last_errno())),
    }
}

fn seal(file: &OwnedFd, seals: i32) -> Result<(), Refused> {
    // SAFETY: the descriptor is open; the call reads and writes no memory of ours.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(()),
        // protection: seal-is-demanded
        _ => Err(("fcntl(F_ADD_SEALS)", last_errno())),
    }
}

/// A memory file for data that is written in two places.
pub(in crate::memory) fn data_file(len: u64) -> Result<MemoryFile, Refused> {
    let file = memory_file(c"patchpoint data").map_err(|e| ("memfd_create", e))?;
    set_len(&file, len)?;
    seal(&file, LENGTH_SEALS)?;
    Ok(MemoryFile(file))
}

/// Makes pages of shared data zero, and frees their memory.
///
/// # Safety
///
/// The range is a writable shared view of the caller's and nothing refers to it.
pub(in crate::memory) unsafe fn discard_shared(at: u64, len: u64) -> Outcome<()> {
    // SAFETY: the caller owns the range.
    match unsafe { libc::madvise(pointer(at), len as usize, libc::MADV_REMOVE) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// A memory file that can be sealed and is closed on exec.
fn memory_file(name: &CStr) -> Outcome<OwnedFd> {
    // MFD_NOEXEC_SEAL: the file never becomes executable as a program, which `vm.memfd_noexec=2`
    // demands; mapping it executable stays allowed. Kernels before 6.3 do not know the flag.
    let sealable = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let create = |flags| {
        // SAFETY: the name is a C string that outlives the call.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
        if fd < 0 {
            return Err(last_errno());
        }
        // SAFETY: the descriptor was opened above and is owned by nobody else.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    match create(sealable | libc::MFD_NOEXEC_SEAL) {
        Err(Errno(libc::EINVAL)) => create(sealable),
        other => other,
    }
}

/// A page of zeros that is zero again in a fork's child; `None` where the kernel has no such.
///
/// The page is never unmapped: the address stays good for the process's life.
pub(in crate::memory) fn page_wiped_by_fork() -> Option<NonNull<u8>> {
    let len = super::page_size();
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the place is the kernel's choice.
    let page = unsafe {
        map(
            At::Anywhere,
            len,
            prot,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            None,
        )
    }
    .ok()?;
    // SAFETY: the page was mapped above; the advice changes nothing in this process.
    // protection: fork-mark-is-wiped
    if unsafe { libc::madvise(pointer(page), len as usize, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: mapped above, seen by nobody.
        unsafe { unmap(page, len) };
        return None;
    }
    NonNull::new(pointer(page).cast())
}

/// Makes what every other thread of the process has stored seen by this one, and what this one has
/// stored by them (membarrier(2), Linux 4.14). Async-signal-safe.
pub(in crate::memory) fn barrier() -> Outcome<()> {
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
    match membarrier(PRIVATE_EXPEDITED) {
        // Not registered: a fork's child need not inherit that.
        Err(Errno(libc::EPERM)) => {
            membarrier(REGISTER_PRIVATE_EXPEDITED)?;
            membarrier(PRIVATE_EXPEDITED)
        }
        done => done,
    }
}

fn membarrier(command: libc::c_int) -> Outcome<()> {
    // SAFETY: the call takes no pointer.
    match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// A memory file of that length, for the copies that a fork's child gets.
pub(in crate::memory) fn copy_file(len: u64) -> Result<OwnedFd, Refused> {
    file_for(c"patchpoint copy", len)
}

/// A memory file of that length, to be written by the kernel.
fn file_for(name: &CStr, len: u64) -> Result<OwnedFd, Refused> {
    // Beyond that limit, writing a file does not only fail: it sends a signal.
    let mut limit = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: the place is as large as the call writes.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, limit.as_mut_ptr()) } == 0;
    // SAFETY: filled by the call, and valid as zeros before.
    let limit = unsafe { limit.assume_init() }.rlim_cur;
    if !known || len > limit {
        return Err(("getrlimit", Errno(libc::EFBIG)));
    }
    let file = memory_file(name).map_err(|e| ("memfd_create", e))?;
    set_len(&file, len)?;
    Ok(file)
}

/// Copies memory into a file, at an offset. The kernel reads it: memory that is gone is a refusal.
pub(in crate::memory) fn copy_into(file: &OwnedFd, from: u64, len: u64, to: u64) -> Outcome<()> {
    let mut done = 0;
    while done < len {
        let at = pointer(from + done).cast_const();
        // SAFETY: the call reads no memory as far as Rust knows, and answers `EFAULT` where there is none.
        let written = unsafe {
            libc::pwrite(
                file.as_raw_fd(),
                at,
                (len - done) as usize,
                (to + done) as libc::off_t,
            )
        };
        match u64::try_from(written) {
            Ok(0) => return Err(Errno(libc::EIO)),
            Ok(written) => done += written,
            Err(_) if last_errno() == Errno(libc::EINTR) => {}
            Err(_) => return Err(last_errno()),
        }
    }
    Ok(())
}

/// Lets nobody change copies any more.
pub(in crate::memory) fn seal_copy(file: &OwnedFd) -> Result<(), Refused> {
    seal(file, CODE_SEALS)
}

/// What a copy in a fork's child is for.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) enum CopyUse {
    /// It is executed.
    Execute,
    /// It is only looked at.
    Read,
    /// It is executed, and belongs to whoever owned the pages before they were remapped, with these
    /// flags.
    Private(ExtraFlags),
}

/// Maps a part of a file of copies at an address, unless something else is there.
///
/// # Safety
///
/// Nothing refers to the range, if it is mapped.
pub(in crate::memory) unsafe fn map_copy(
    at: u64,
    len: u64,
    purpose: CopyUse,
    file: &OwnedFd,
    offset: u64,
) -> Outcome<()> {
    let (prot, sharing) = match purpose {
        CopyUse::Execute => (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_SHARED),
        CopyUse::Read => (libc::PROT_READ, libc::MAP_SHARED),
        CopyUse::Private(extra) => (REMAPPED | extra.0, libc::MAP_PRIVATE),
    };
    // An emulator that knows no MADV_DONTFORK has let the child inherit the parent's view.
    let at = if cfg!(emulated) {
        At::Over(at)
    } else {
        At::Free(at)
    };
    let part = Some((file, offset));
    // SAFETY: replaces nothing, but under such an emulator the view that is no longer used.
    unsafe { map_part(at, len, prot, sharing, part) }.map(drop)
}

/// Lets a fork's child not inherit a mapping.
pub(in crate::memory) fn keep_from_children(at: u64, len: u64) -> Outcome<()> {
    // SAFETY: the advice changes nothing in this process.
    match unsafe { libc::madvise(pointer(at), len as usize, libc::MADV_DONTFORK) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// Backs pages that are about to be written, all by one call: each is a fault otherwise. Where that is
/// refused, as by Linux before 5.14, they are backed as they are written.
pub(in crate::memory) fn back(at: u64, len: u64) {
    // SAFETY: the advice changes nothing of what pages hold.
    let _ = unsafe { libc::madvise(pointer(at), len as usize, libc::MADV_POPULATE_WRITE) };
}

/// The memory of this process as a file. The descriptor is not inherited across exec.
#[derive(Debug)]
pub(in crate::memory) struct SelfMem(File);

impl SelfMem {
    /// Opens it for writing.
    pub(in crate::memory) fn open() -> Outcome<Self> {
        // The standard library opens everything close-on-exec.
        let opened = File::options().read(true).write(true).open("/proc/self/mem");
        opened
            .map(Self)
            .map_err(|e| Errno(e.raw_os_error().unwrap_or(libc::EIO)))
    }

    /// Writes bytes of this process whatever their protection; says how many were written when not
    /// all.
    ///
    /// # Safety
    ///
    /// The range is code that the caller may change, and nothing in Rust refers to it.
    pub(in crate::memory) unsafe fn write(&self, at: u64, bytes: &[u8]) -> Outcome<()> {
        match self.0.write_at(bytes, at) {
            Ok(n) if n == bytes.len() => Ok(()),
            Ok(_) => Err(Errno(libc::EIO)),
            Err(e) => Err(Errno(e.raw_os_error().unwrap_or(libc::EIO))),
        }
    }
}

/// Whether a fixed reservation failed because of the place, and another is worth trying.
pub(in crate::memory) fn place_is_taken(errno: Errno) -> bool {
    // EPERM: below vm.mmap_min_addr. ENOMEM and EINVAL: beyond what the process can address.
    matches!(errno.0, libc::EEXIST | libc::EPERM | libc::ENOMEM | libc::EINVAL)
}

/// Takes a scratch page from read-execute to read-write and back.
pub(in crate::memory) fn try_toggle() -> Outcome<()> {
    let len = super::page_size();
    let rx = libc::PROT_READ | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the place is the kernel's choice.
    let page = unsafe { map(At::Anywhere, len, rx, flags, None) }?;
    let there_and_back = || {
        // SAFETY: the page is new and nobody uses it.
        unsafe { super::protect(page, len, region::Protection::READ_WRITE) }?;
        // SAFETY: as above.
        unsafe { super::protect(page, len, region::Protection::READ_EXECUTE) }
    };
    let outcome = there_and_back();
    // SAFETY: mapped above, seen by nobody.
    unsafe { unmap(page, len) };
    outcome
}

/// Whether every page is mapped, with whatever protection.
pub(in crate::memory) fn is_mapped(pages: crate::addr::CodeRange) -> bool {
    let page = super::page_size();
    let starts = (pages.start().get()..pages.end().get()).step_by(page as usize);
    starts.into_iter().all(|start| {
        let mut resident = 0_u8;
        // SAFETY: writes one byte for the one page asked about.
        unsafe { libc::mincore(pointer(start), page as usize, &raw mut resident) == 0 }
    })
}
