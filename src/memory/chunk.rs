//! A chunk: one contiguous reservation with a code part, mapped twice, and a data part.
//!
//! Contiguous, so that code reaches all data of its chunk, and every other function, by 32-bit displacements.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use crate::addr::{CodeAddr, CodeRange};
use crate::error::{Error, Result};

use super::elsewhere::{Access, Elsewhere};
use super::fork::Birth;
use super::spans::Spans;
use super::sys;

/// How many places are tried at which the other process turns out to have something.
const TRIES: usize = 64;

/// The executed and the writable view of one sealed memory file.
#[derive(Debug)]
pub(super) struct DoubleMapping {
    rx: CodeRange,
    /// What to add to an executed address, modulo 2^64.
    to_rw: u64,
    birth: Birth,
    /// Who executes the code, where that is not this process.
    elsewhere: Option<Elsewhere>,
    /// Kept mapped as long as its code is.
    reservation: Arc<Reservation>,
}

impl DoubleMapping {
    /// Maps a memory file over the first `len` bytes of a reservation that nothing uses yet.
    fn over(reservation: Arc<Reservation>, len: u64) -> Result<Self> {
        let start = reservation.0.start();
        let rx = CodeRange::new(start, len.min(reservation.0.len())).unwrap_or_default();
        let birth = Birth::here();
        // SAFETY: the reservation is ours and new, so nothing refers to its pages.
        let rw = unsafe { sys::map_twice(start.get(), rx.len()) }.map_err(|(call, errno)| {
            let mend = "allow sealed memory files to be mapped executable, or place the code in memory of the \
                        runtime's and adopt that";
            Error::SystemCall { call, at: start, len, errno, mend }
        })?;
        Ok(Self {
            rx,
            to_rw: rw.wrapping_sub(start.get()),
            birth,
            elsewhere: None,
            reservation,
        })
    }

    /// Maps files over a reservation, of which the first `len` bytes are code, in this process and another one. `None`
    /// if that has something else there.
    #[cfg_attr(
        not(feature = "remote"),
        allow(unreachable_code, reason = "there is no other process")
    )]
    fn with(reservation: &Arc<Reservation>, len: u64, elsewhere: &Elsewhere) -> Result<Option<Self>> {
        let whole = reservation.0;
        let rx = CodeRange::new(whole.start(), len.min(whole.len())).unwrap_or_default();
        let data = CodeRange::new(rx.end(), whole.len() - rx.len()).unwrap_or_default();
        let birth = Birth::here();
        let Some(rw) = elsewhere.map_chunk(rx, data)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            rx,
            to_rw: rw.wrapping_sub(whole.start().get()),
            birth,
            elsewhere: Some(elsewhere.clone()),
            reservation: Arc::clone(reservation),
        }))
    }

    #[inline]
    pub(super) fn rx(&self) -> CodeRange {
        self.rx
    }

    /// Where to write what is executed at `at`.
    #[inline]
    pub(super) fn writable(&self, at: CodeAddr) -> u64 {
        at.get().wrapping_add(self.to_rw)
    }

    /// Whether it is this process that executes it.
    pub(super) fn is_executed_here(&self) -> bool {
        self.elsewhere.is_none()
    }

    /// Whether this process has the writable view; a fork's child has not.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        self.birth.is_here()
    }
}

impl Drop for DoubleMapping {
    fn drop(&mut self) {
        // A fork's child does not have this view, and may have mapped something else there.
        if self.birth.is_here() {
            if let Some(elsewhere) = &self.elsewhere {
                elsewhere.unmap(self.reservation.0);
            }
            // SAFETY: mapped by us, and this was the last owner.
            unsafe { sys::unmap(self.writable(self.rx.start()), self.rx.len()) };
        }
    }
}

/// Address space, unmapped with everything that was mapped into it when the last owner goes.
#[derive(Debug)]
struct Reservation(CodeRange);

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: reserved by us, and this was the last owner.
        unsafe { sys::unmap(self.0.start().get(), self.0.len()) };
    }
}

/// Maps code and data at addresses that are free in both processes.
fn map_in_both(
    reserve: impl Fn() -> Result<Arc<Reservation>>,
    code: u64,
    elsewhere: &Elsewhere,
) -> Result<(DoubleMapping, CodeRange)> {
    // Kept until a place is found, so that none is found twice.
    let mut refused = Vec::new();
    loop {
        let reservation = reserve()?;
        let whole = reservation.0;
        match DoubleMapping::with(&reservation, code, elsewhere)? {
            Some(mapping) => return Ok((mapping, whole)),
            None if refused.len() < TRIES => refused.push(reservation),
            None => {
                let len = whole.len();
                return Err(Error::NoAddressSpace { len, within: whole });
            }
        }
    }
}

/// One contiguous piece of address space for code and its data.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) code: Arc<DoubleMapping>,
    pub(super) whole: CodeRange,
    /// What of the code part is free.
    pub(super) free_code: Mutex<Spans>,
    /// From this address on there never was code.
    pub(super) unused: AtomicU64,
    /// What of the data part is free, in whole pages.
    pub(super) free_data: Mutex<Spans>,
}

impl Chunk {
    /// Takes `code + data` bytes of address space, both multiples of a page, at the place that `reserve`
    /// finds.
    pub(super) fn new(
        code: u64,
        data: u64,
        reserve: impl Fn(u64) -> Result<CodeRange>,
        elsewhere: Option<&Elsewhere>,
    ) -> Result<Self> {
        let reserve = || Ok(Arc::new(Reservation(reserve(code.saturating_add(data))?)));
        let (code, whole) = match elsewhere {
            None => {
                let reservation: Arc<Reservation> = reserve()?;
                let whole = reservation.0;
                (DoubleMapping::over(reservation, code)?, whole)
            }
            Some(elsewhere) => map_in_both(reserve, code, elsewhere)?,
        };
        let data = CodeRange::new(code.rx().end(), whole.len() - code.rx().len()).unwrap_or_default();
        Ok(Self {
            whole,
            free_code: Mutex::new(Spans::of(code.rx())),
            unused: AtomicU64::new(code.rx().start().get()),
            free_data: Mutex::new(Spans::of(data)),
            code: Arc::new(code),
        })
    }

    /// Backs free data pages with zeroed writable memory.
    pub(super) fn map_data(&self, pages: CodeRange) -> Result<()> {
        if self.code.elsewhere.is_some() {
            // Mapped with the chunk, in both processes.
            return Ok(());
        }
        // SAFETY: the pages are in this chunk's reservation, and were free until the caller took them.
        unsafe { sys::map_data(pages.start().get(), pages.len()) }.map_err(|errno| Error::SystemCall {
            call: "mmap of data",
            at: pages.start(),
            len: pages.len(),
            errno,
            mend: "free memory, or raise the limit on address space",
        })
    }

    /// Makes data pages read-only.
    pub(super) fn seal_data(&self, pages: CodeRange) -> Result<()> {
        if let Some(elsewhere) = &self.code.elsewhere {
            return elsewhere.protect(pages, Access::Read);
        }
        // SAFETY: the pages are the caller's; it has ended writing them.
        unsafe { sys::protect(pages.start().get(), pages.len(), region::Protection::READ) }.map_err(|errno| {
            Error::SystemCall {
                call: "mprotect of read-only data",
                at: pages.start(),
                len: pages.len(),
                errno,
                mend: "raise the limit on mappings (vm.max_map_count)",
            }
        })
    }

    /// Gives data pages back: inaccessible, and free for the next.
    pub(super) fn free_data(&self, pages: CodeRange) {
        let released = match &self.code.elsewhere {
            Some(elsewhere) => elsewhere.renew(pages).is_ok(),
            // SAFETY: the pages are in this chunk's reservation and their owner gives them up.
            None => unsafe { sys::release(pages.start().get(), pages.len()) }.is_ok(),
        };
        if released {
            self.free_data.lock().give(pages);
        }
    }
}
