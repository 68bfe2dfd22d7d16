//! Memory whose code another process executes.
//!
//! **Problem.** Code is to be changed by one process and executed by another, which must never have a writable view of
//! it. **Approach.** Both map the same sealed memory files at the same addresses: of code, the other process maps it
//! read-execute, and this one read-only there and read-write somewhere else; data is shared, and writable in both. So an
//! address means the same on both sides, and the code is written as that of this process is: through its alias.
//!
//! **Invariants.** A file of code is sealed before its descriptor is handed over. The descriptors are closed on this side
//! when they have been. A range is given up on this side only after the other has been told.

#![allow(unsafe_code)]

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::addr::{CodeAddr, CodeRange};
use crate::error::{Errno, Error, Result};

use super::fork::Birth;
pub(crate) use super::sys::View;
use super::{Placed, SegmentKind, sys};

/// What an arena asks of the process that executes its code.
pub(crate) trait OtherProcess: Send + Sync + fmt::Debug {
    /// Maps a file there, at exactly that range. False: something else is there, and nothing has been mapped.
    ///
    /// # Errors
    /// The process is gone, or refuses.
    fn map(&self, at: CodeRange, view: View, file: OwnedFd) -> Result<bool>;

    /// Sets what may be done with pages of data.
    ///
    /// # Errors
    /// The process is gone, or refuses.
    fn protect(&self, pages: CodeRange, access: Access) -> Result<()>;

    /// Gives up everything that was mapped in a range. Where the process is gone, that has happened.
    fn unmap(&self, range: CodeRange);
}

/// The stack of a thread of the other process, which both see.
#[derive(Debug)]
pub(crate) struct SharedStack {
    memory: Placed,
    /// Above the guard.
    range: CodeRange,
}

impl SharedStack {
    /// Of data that is nobody else's, of which so many bytes at the start are not used.
    pub(crate) fn new(memory: Placed, guard: u64) -> Option<Self> {
        let whole = memory.segments().first()?;
        let len = whole.range.len().checked_sub(guard)?;
        let start = whole.range.start().get().checked_add(guard)?;
        let range = CodeRange::new(CodeAddr::new(start), len)?;
        let is_data = whole.kind == SegmentKind::Data;
        is_data.then_some(Self { memory, range })
    }

    /// Where it is.
    pub(crate) fn range(&self) -> CodeRange {
        self.range
    }

    /// What is below it.
    pub(crate) fn guard(&self) -> Option<CodeRange> {
        let whole = self.memory.segments().first()?.range;
        CodeRange::new(whole.start(), whole.len().checked_sub(self.range.len())?)
    }

    /// Its words from an address on, as they are now; all, if the address is none of it. The other process may write them at
    /// any time.
    pub(crate) fn words(&self, from: u64) -> impl Iterator<Item = u64> {
        let (start, end) = (self.range.start().get(), self.range.end().get());
        let from = if (start..end).contains(&from) { from } else { start };
        let aligned = (from.next_multiple_of(8)..end).step_by(8);
        aligned.filter(move |at| end - at >= 8).map(|at| {
            // SAFETY: an aligned word of data that this value owns, which is mapped as long as it lives and readable here.
            unsafe { (at as *const u64).read_volatile() }
        })
    }
}

/// What may be done with pages of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing.
    None,
    /// They can be read.
    Read,
    /// They can be read and written.
    Write,
}

impl Access {
    fn protection(self) -> region::Protection {
        match self {
            Self::None => region::Protection::NONE,
            Self::Read => region::Protection::READ,
            Self::Write => region::Protection::READ_WRITE,
        }
    }
}

/// The process that executes the code of an arena.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere(pub(crate) Arc<dyn OtherProcess>);

impl Elsewhere {
    /// Maps new files into both processes: code over the first bytes of a reservation, data over the rest. Returns where
    /// the code's writable view is, or `None` where the other process has something else at these addresses.
    pub(super) fn map_chunk(&self, code: CodeRange, data: CodeRange) -> Result<Option<u64>> {
        if code.is_empty() {
            let mapped = self.share(data)?;
            return Ok(mapped.then_some(code.start().get()));
        }
        let refused = |(call, errno)| refused(call, code, errno);
        let (file, rw) = sys::code_file(code.len()).map_err(refused)?;
        let map = || {
            // SAFETY: the reservation is the caller's and new, so nothing refers to its pages.
            unsafe { sys::map_view(code.start().get(), code.len(), View::Read, &file) }
                .map_err(|errno| refused(("mmap of the view that is read", errno)))?;
            Ok(self.0.map(code, View::Execute, file)? && self.share_or_give_up(code, data)?)
        };
        let mapped: Result<bool> = map();
        if mapped != Ok(true) {
            // SAFETY: mapped above, seen by nobody.
            unsafe { sys::unmap(rw, code.len()) };
        }
        mapped.map(|mapped| mapped.then_some(rw))
    }

    fn share_or_give_up(&self, code: CodeRange, data: CodeRange) -> Result<bool> {
        let shared = self.share(data);
        if shared != Ok(true) {
            self.0.unmap(code);
        }
        shared
    }

    /// Maps new data into both processes, over a reservation.
    fn share(&self, data: CodeRange) -> Result<bool> {
        if data.is_empty() {
            return Ok(true);
        }
        let file = sys::data_file(data.len()).map_err(|(call, errno)| refused(call, data, errno))?;
        // SAFETY: the reservation is the caller's and new, so nothing refers to its pages.
        unsafe { sys::map_view(data.start().get(), data.len(), View::Write, &file) }
            .map_err(|errno| refused("mmap of shared data", data, errno))?;
        self.0.map(data, View::Write, file)
    }

    /// Sets what may be done with pages of data, in both processes.
    pub(super) fn protect(&self, pages: CodeRange, access: Access) -> Result<()> {
        // SAFETY: the pages are the caller's, which has ended using them in another way.
        unsafe { sys::protect(pages.start().get(), pages.len(), access.protection()) }
            .map_err(|errno| refused("mprotect of data", pages, errno))?;
        self.0.protect(pages, access)
    }

    /// Makes pages of data as they were when they were new.
    pub(super) fn renew(&self, pages: CodeRange) -> Result<()> {
        self.protect(pages, Access::Write)?;
        // SAFETY: a shared view of this arena's, whose owner gives the pages up.
        unsafe { sys::discard_shared(pages.start().get(), pages.len()) }
            .map_err(|errno| refused("madvise of shared data", pages, errno))
    }

    /// Tells the other process that a range is given up.
    pub(super) fn unmap(&self, range: CodeRange) {
        self.0.unmap(range);
    }
}

fn refused(call: &'static str, range: CodeRange, errno: Errno) -> Error {
    Error::SystemCall {
        call,
        at: range.start(),
        len: range.len(),
        errno,
        mend: "allow sealed memory files, or raise the limits on memory and mappings",
    }
}

/// A view of another process's file, in the process that executes. Dropping it unmaps it: nothing may refer to it then.
/// A fork's child of that process has no such view, neither of code nor of data.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) range: CodeRange,
    pub(crate) view: View,
    birth: Birth,
}

impl Mapped {
    /// Maps a file at exactly that range, whole pages. `None`: something else is there.
    ///
    /// # Errors
    /// The file is not sealed as it must be or too short (`EPERM`), the range is none, or the system refuses.
    pub(crate) fn new(
        range: CodeRange,
        view: View,
        file: &OwnedFd,
    ) -> core::result::Result<Option<Self>, Errno> {
        let page = sys::page_size();
        let (start, len) = (range.start().get(), range.len());
        if range.is_empty() || start % page != 0 || len % page != 0 || view == View::Read {
            return Err(Errno(libc::EINVAL));
        }
        // protection: remote-unsealed-files-are-refused
        if !sys::is_sealed_for(file, view, len) {
            return Err(Errno(libc::EPERM));
        }
        match sys::reserve(Some(start), len) {
            Ok(_) => {}
            Err(errno) if sys::place_is_taken(errno) => return Ok(None),
            Err(errno) => return Err(errno),
        }
        let birth = Birth::here();
        let mapped = Self { range, view, birth };
        // SAFETY: reserved above, and seen by nobody.
        unsafe { sys::map_view(start, len, view, file) }?;
        // What another process writes must not reach a fork's child, nor what that writes this process and that one.
        sys::keep_from_children(start, len)?;
        Ok(Some(mapped))
    }

    /// Sets what may be done with pages of it.
    ///
    /// # Errors
    /// It is code, or they are not its pages (`EINVAL`); the system refuses.
    pub(crate) fn protect(&self, pages: CodeRange, access: Access) -> core::result::Result<(), Errno> {
        let inside = self.range.contains_bytes(pages.start(), pages.len()) && !pages.is_empty();
        let whole = (pages.start().get() | pages.len()) % sys::page_size() == 0;
        if self.view != View::Write || !inside || !whole {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: data of the process that asks, which says that nothing relies on what was before.
        unsafe { sys::protect(pages.start().get(), pages.len(), access.protection()) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if !self.birth.is_here() {
            // A fork's child has no view, and may have mapped something else there.
            return;
        }
        // SAFETY: mapped by this value, and nothing refers to it.
        unsafe { sys::unmap(self.range.start().get(), self.range.len()) };
    }
}
