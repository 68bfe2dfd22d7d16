//! A chunk: one contiguous reservation with a code part, mapped twice, and a data part.
//!
//! Contiguous, so that code reaches all data of its chunk, and every other function, by 32-bit
//! displacements. Pages of others that were [remapped](super::Remap) are mapped twice as well, and
//! have no chunk.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::addr::{CodeAddr, CodeRange};
use crate::memory::{Error, Result};

use super::fork::gate::Writing;
use super::fork::{Birth, View};
use super::mirror::Mirrored;
use super::spans::Spans;
use super::{Alias, CodeMemory, remap, sys};

/// How many places are tried at which a mirror turns out to have something.
const TRIES: usize = 64;

/// The executed and the writable view of one sealed memory file.
#[derive(Debug)]
pub(super) struct DoubleMapping {
    rx: CodeRange,
    /// What to add to an executed address, modulo 2^64.
    to_rw: u64,
    birth: Birth,
    /// None where there is no code.
    view: Option<View>,
    /// Where the code is executed, if not in this process.
    mirror: Option<Mirrored>,
    owner: PageOwner,
}

/// Whose the executed addresses are.
#[derive(Debug)]
enum PageOwner {
    /// A chunk's, which is kept mapped as long as its code is.
    Chunk(Arc<Reservation>),
    /// Somebody else's, who gets them back.
    Foreign(RemappedRun),
}

/// Pages of somebody else's that were remapped.
#[derive(Debug)]
pub(super) struct RemappedRun {
    /// Of the file that is mapped there.
    inode: u64,
    /// What the pages' protection has beside read and execute.
    extra: sys::ExtraFlags,
}

impl RemappedRun {
    pub(super) fn new(inode: u64, extra: sys::ExtraFlags) -> Self {
        Self { inode, extra }
    }
}

/// The first `len` bytes of a range, and the others.
fn parts(whole: CodeRange, len: u64) -> (CodeRange, CodeRange) {
    let both = whole.len().checked_sub(len).and_then(|others| {
        let first = CodeRange::new(whole.start(), len)?;
        Some((first, CodeRange::new(first.end(), others)?))
    });
    both.expect("as many bytes are reserved as its parts have")
}

impl DoubleMapping {
    /// Maps a memory file over the first `len` bytes of a reservation that nothing uses yet.
    fn over(reservation: Arc<Reservation>, len: u64) -> Result<Self> {
        let start = reservation.whole.start();
        let (rx, _) = parts(reservation.whole, len);
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
            view: Some(View::new(rx, true, birth)),
            mirror: None,
            owner: PageOwner::Chunk(reservation),
        })
    }

    /// Maps files over a reservation, of which the first `len` bytes are code, in this process and
    /// in a mirror. `None` if that has something else there.
    fn with(reservation: &Arc<Reservation>, len: u64, mirror: &Mirrored) -> Result<Option<Self>> {
        let whole = reservation.whole;
        let (rx, data) = parts(whole, len);
        let birth = Birth::here();
        let Some(rw) = mirror.map_chunk(rx, data)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            rx,
            to_rw: rw.wrapping_sub(whole.start().get()),
            birth,
            view: (!rx.is_empty()).then(|| View::new(rx, false, birth)),
            mirror: Some(mirror.clone()),
            owner: PageOwner::Chunk(Arc::clone(reservation)),
        }))
    }

    /// Pages of somebody else's over which a file was mapped, whose writable view is at `rw`.
    pub(super) fn remapped(rx: CodeRange, rw: u64, birth: Birth, view: View, run: RemappedRun) -> Self {
        view.use_up_to(rx.end().get());
        Self {
            rx,
            to_rw: rw.wrapping_sub(rx.start().get()),
            birth,
            view: Some(view),
            mirror: None,
            owner: PageOwner::Foreign(run),
        }
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
        self.mirror.is_none()
    }

    /// Whether this process has the writable view; a fork's child has not.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        self.birth.is_here()
    }

    /// Whether the code can be read here: a fork's child has a copy, unless that could not be made.
    #[inline]
    pub(super) fn is_readable(&self) -> bool {
        self.is_here() || self.has_copy()
    }

    #[cold]
    fn has_copy(&self) -> bool {
        self.view.as_ref().is_some_and(View::is_copy)
    }

    /// Notes that there is, or will be, code up to an address.
    fn use_up_to(&self, end: CodeAddr) {
        if let Some(view) = &self.view {
            view.use_up_to(end.get());
        }
    }
}

impl Drop for DoubleMapping {
    fn drop(&mut self) {
        let has_copy = self.view.as_ref().is_none_or(View::is_copy);
        let reservation = match &self.owner {
            PageOwner::Chunk(reservation) => Arc::clone(reservation),
            PageOwner::Foreign(run) => return self.put_back(run.inode, run.extra),
        };
        // From here on no fork copies it.
        self.view = None;
        // A fork's child does not have this view, and may have mapped something else there.
        // protection: fork-child-unmaps-nothing-of-others
        if self.birth.is_here() {
            if let Some(mirror) = &self.mirror {
                mirror.unmap(reservation.whole);
            }
            self.unmap_writable();
        } else if !has_copy {
            // Nor the other, then.
            reservation.lost.store(self.rx.len(), Ordering::Relaxed);
        }
    }
}

impl DoubleMapping {
    /// Unmaps the writable view, which this process has.
    fn unmap_writable(&self) {
        // SAFETY: mapped by us, and this was the last owner.
        // protection: writable-view-is-unmapped
        unsafe { sys::unmap(self.writable(self.rx.start()), self.rx.len()) };
    }

    /// Gives remapped pages back to their owner, with what they hold. What a fork's child has is
    /// its own already.
    fn put_back(&mut self, inode: u64, extra: sys::ExtraFlags) {
        if self.birth.is_here() {
            remap::forget(inode, || {
                // A fork finds the shared pages and their view, or neither.
                let _writing = Writing::enter();
                self.unmap_writable();
                // SAFETY: nobody can write through the view that was just unmapped.
                unsafe { remap::put_back(self.rx, inode, extra) };
                self.view = None;
            });
        }
        self.view = None;
    }

    /// The inode of the file that is mapped over somebody else's pages; of others 0.
    pub(super) fn inode(&self) -> u64 {
        match &self.owner {
            PageOwner::Chunk(_) => 0,
            PageOwner::Foreign(run) => run.inode,
        }
    }
}

/// Address space, unmapped with everything that was mapped into it when the last owner goes.
#[derive(Debug)]
struct Reservation {
    whole: CodeRange,
    /// How many bytes from the start are no longer this process's: it is a fork's child.
    lost: AtomicU64,
}

impl Reservation {
    fn new(whole: CodeRange) -> Self {
        let lost = AtomicU64::new(0);
        Self { whole, lost }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let lost = self.lost.load(Ordering::Relaxed);
        if lost < self.whole.len() {
            // SAFETY: reserved by us, and this was the last owner.
            // protection: reservation-is-unmapped
            unsafe { sys::unmap(self.whole.start().get() + lost, self.whole.len() - lost) };
        }
    }
}

/// Maps code and data at addresses that are free in this process and in the mirror.
fn map_in_both(
    reserve: impl Fn() -> Result<Arc<Reservation>>,
    code: u64,
    mirror: &Mirrored,
) -> Result<(DoubleMapping, CodeRange)> {
    // Kept until a place is found, so that none is found twice.
    let mut refused = Vec::new();
    loop {
        let reservation = reserve()?;
        let whole = reservation.whole;
        match DoubleMapping::with(&reservation, code, mirror)? {
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
    /// One handle for all whose code is here: who patches sites of many modules finds the memory of each
    /// in the cache.
    pub(super) memory: Arc<dyn CodeMemory>,
    pub(super) whole: CodeRange,
    /// What of the code part is free.
    pub(super) free_code: Mutex<Spans>,
    /// From this address on there never was code.
    pub(super) unused: AtomicU64,
    /// What of the data part is free, in whole pages.
    pub(super) free_data: Mutex<Spans>,
}

impl Chunk {
    /// Takes `code + data` bytes of address space, both multiples of a page, at the place that
    /// `reserve` finds.
    pub(super) fn new(
        code: u64,
        data: u64,
        reserve: impl Fn(u64) -> Result<CodeRange>,
        mirror: Option<&Mirrored>,
    ) -> Result<Self> {
        let reserve = || Ok(Arc::new(Reservation::new(reserve(code.saturating_add(data))?)));
        let (code, whole) = match mirror {
            None => {
                let reservation: Arc<Reservation> = reserve()?;
                let whole = reservation.whole;
                (DoubleMapping::over(reservation, code)?, whole)
            }
            Some(mirror) => map_in_both(reserve, code, mirror)?,
        };
        let (_, data) = parts(whole, code.rx().len());
        let code = Arc::new(code);
        Ok(Self {
            memory: Arc::new(Alias::new(Arc::clone(&code))),
            whole,
            free_code: Mutex::new(Spans::of(code.rx())),
            unused: AtomicU64::new(code.rx().start().get()),
            free_data: Mutex::new(Spans::of(data)),
            code,
        })
    }

    /// Notes that code may be written up to an address: a fork copies no more.
    pub(super) fn use_code(&self, end: CodeAddr) {
        self.code.use_up_to(end);
    }

    /// Whether this process made it; a fork's child takes and gives nothing.
    pub(super) fn is_here(&self) -> bool {
        self.code.is_here()
    }

    /// Backs free data pages with zeroed writable memory.
    pub(super) fn map_data(&self, pages: CodeRange) -> Result<()> {
        if self.code.mirror.is_some() {
            // Mapped with the chunk, in both places.
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
        if let Some(mirror) = &self.code.mirror {
            return mirror.set_writable(pages, false);
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

    /// Frees data pages: inaccessible, and free for the next.
    pub(super) fn free_data(&self, pages: CodeRange) {
        if !self.is_here() {
            // In a fork's child a thread of the parent may have the lock for ever.
            return;
        }
        let released = match &self.code.mirror {
            Some(mirror) => mirror.renew(pages).is_ok(),
            // SAFETY: the pages are in this chunk's reservation and their owner frees them.
            None => unsafe { sys::release(pages.start().get(), pages.len()) }.is_ok(),
        };
        if released {
            self.free_data.lock().give(pages);
        }
    }
}
