//! A second place in which an arena's memory is mapped, and where its code is executed.
//!
//! **Problem.** Whoever can write code can do anything: code is to be executed where no writable
//! view of it exists, and changed from here, where an engine decides. **Approach.** The same sealed
//! memory files are mapped in both places at the same addresses: of code, the [`Mirror`] maps it
//! read-execute, and this process read-only there and read-write at another address; data is
//! shared, and writable in both. So an address means the same on both sides, and the code is
//! written as that of this process is: through its alias. Where the mirror is, and how it is asked,
//! the engine does not know.
//!
//! **Invariants.** A file of code is sealed before it is handed over. Nothing here keeps a
//! descriptor of it. A range is freed on this side only after the mirror has been told.

#![allow(unsafe_code)]

use std::fmt;
use std::sync::Arc;

pub use super::sys::MemoryFile;
use super::sys::{self, View};
use crate::addr::CodeRange;
use crate::error::Errno;
use crate::memory::{Error, Result};

/// A second place in which the memory of an [`Arena`](super::Arena) is mapped, at the same
/// addresses, and where its code is executed. See [`Arena::mirrored`](super::Arena::mirrored), and
/// [`Mirroring`](crate::engine::Mirroring) for an engine of it.
///
/// # Safety
///
/// The engine writes code through its own view and relies on who executes it seeing just that:
///
/// - where [`map_code`](Self::map_code) and [`map_data`](Self::map_data) return `Ok(true)`, all of the range is that file from
///   its start, shared, with these rights and no others, until it is unmapped; else nothing of the range has changed;
/// - the code is executed through these mappings and not in this process;
/// - when [`unmap`](Self::unmap) returns, nobody executes what was there or holds addresses of it, or else the range stays
///   mapped and is never mapped anew.
pub unsafe trait Mirror: Send + Sync + fmt::Debug {
    /// Maps code read-execute, at exactly that range of whole pages. False: something else is
    /// there, and nothing has been mapped; another place is tried then.
    ///
    /// # Errors
    /// The mirror is gone, or refuses; in its own words ([`Error::Provider`]).
    fn map_code(&self, at: CodeRange, file: MemoryFile) -> Result<bool>;

    /// The same of data, which is mapped read-write.
    ///
    /// # Errors
    /// As [`map_code`](Self::map_code).
    fn map_data(&self, at: CodeRange, file: MemoryFile) -> Result<bool>;

    /// Makes whole pages of data read-only, or writable again.
    ///
    /// # Errors
    /// As [`map_code`](Self::map_code).
    fn set_writable(&self, pages: CodeRange, writable: bool) -> Result<()>;

    /// Unmaps everything that was mapped in a range. Where the mirror is gone, that has happened.
    fn unmap(&self, range: CodeRange);
}

/// The mirror of an arena, and this process's half of what is mapped in both.
#[derive(Clone, Debug)]
pub(super) struct Mirrored(Arc<dyn Mirror>);

impl Mirrored {
    pub(super) fn by(mirror: Arc<dyn Mirror>) -> Self {
        Self(mirror)
    }

    /// Maps new files in both places: code over the first bytes of a reservation, data over the
    /// rest. Returns where the code's writable view is, or `None` where the mirror has something
    /// else at these addresses.
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
            Ok(self.0.map_code(code, file)? && self.share_or_unmap(code, data)?)
        };
        let mapped: Result<bool> = map();
        if mapped != Ok(true) {
            // SAFETY: mapped above, seen by nobody.
            unsafe { sys::unmap(rw, code.len()) };
        }
        mapped.map(|mapped| mapped.then_some(rw))
    }

    fn share_or_unmap(&self, code: CodeRange, data: CodeRange) -> Result<bool> {
        let shared = self.share(data);
        if shared != Ok(true) {
            self.0.unmap(code);
        }
        shared
    }

    /// Maps new data in both places, over a reservation.
    fn share(&self, data: CodeRange) -> Result<bool> {
        if data.is_empty() {
            return Ok(true);
        }
        let file = sys::data_file(data.len()).map_err(|(call, errno)| refused(call, data, errno))?;
        // SAFETY: the reservation is the caller's and new, so nothing refers to its pages.
        unsafe { sys::map_view(data.start().get(), data.len(), View::Write, &file) }
            .map_err(|errno| refused("mmap of shared data", data, errno))?;
        self.0.map_data(data, file)
    }

    /// Makes pages of data read-only or writable, in both places.
    pub(super) fn set_writable(&self, pages: CodeRange, writable: bool) -> Result<()> {
        let protection = match writable {
            true => region::Protection::READ_WRITE,
            false => region::Protection::READ,
        };
        // SAFETY: the pages are the caller's, which has ended using them in another way.
        unsafe { sys::protect(pages.start().get(), pages.len(), protection) }
            .map_err(|errno| refused("mprotect of data", pages, errno))?;
        self.0.set_writable(pages, writable)
    }

    /// Makes pages of data as they were when they were new.
    pub(super) fn renew(&self, pages: CodeRange) -> Result<()> {
        self.set_writable(pages, true)?;
        // SAFETY: a shared view of this arena's, whose owner gives the pages up.
        unsafe { sys::discard_shared(pages.start().get(), pages.len()) }
            .map_err(|errno| refused("madvise of shared data", pages, errno))
    }

    /// Tells the mirror that a range is freed.
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
