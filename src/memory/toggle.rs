//! Toggle: protection taken from read-execute to read-write and back.
//!
//! Works for any memory whose protection may be changed, and is the strictest reading of W^X. A
//! thread that executes on a page while it is read-write faults, so the world must be stopped.
//! Exactly two protection changes are made per run of pages and transaction; what the pages'
//! protection is was learnt at registration, as asking the system parses the whole list of
//! mappings.

#![allow(unsafe_code)]

use parking_lot::Mutex;
use region::Protection;
use std::vec::Vec;

use crate::addr::{CodeAddr, CodeRange};
use crate::error::Errno;
use crate::memory::{Error, Result};
use crate::quiescence::Stopped;

use super::fork::Birth;
use super::remap::Claim;
use super::{CodeMemory, PageRun, Strategy, check_within, raw, sys};

/// Foreign code memory that is written by changing its protection.
///
/// It opens with the token of a stopped world, and is no [`LiveMemory`](super::LiveMemory), whose
/// calls need none:
///
/// ```
/// use patchpoint::memory::{CodeMemory, PageRun, Toggle};
/// use patchpoint::publish::Stopped;
/// fn open(memory: &Toggle, runs: &[PageRun], stopped: &Stopped) -> patchpoint::memory::Result<()> {
///     memory.begin(runs, stopped)
/// }
/// ```
/// ```compile_fail,E0277
/// use patchpoint::memory::{LiveMemory, Toggle};
/// fn while_threads_run(memory: &Toggle) -> &dyn LiveMemory {
///     memory
/// }
/// ```
#[derive(Debug)]
pub struct Toggle {
    range: CodeRange,
    /// The whole pages of `range`.
    pages: CodeRange,
    /// Flags beside read, write and execute that the pages have and must keep.
    extra: sys::ExtraFlags,
    /// What `begin` made writable and `end` has not yet undone, by address.
    open: Mutex<Vec<CodeRange>>,
    birth: Birth,
    /// Keeps the pages from being remapped.
    _claim: Claim,
}

impl Toggle {
    // protection: toggle-is-not-live
    /// Registers memory that is mapped read-execute, all with the same flags.
    ///
    /// That it is so is checked where the system shows it (on Linux, in `/proc`), and believed
    /// on other systems.
    ///
    /// Whether the system lets a page go to read-write and come back is tried on a scratch page,
    /// not on the memory, where a thread may be executing.
    ///
    /// # Safety
    ///
    /// As long as the value exists, the range stays mapped read-execute, with nobody else changing
    /// its protection or its bytes, and the owner of its pages agrees to their being written and,
    /// under a stopped world, made not executable. What is written through it is as for
    /// [`CodeArea::writable`](super::CodeArea::writable).
    ///
    /// # Errors
    ///
    /// [`Error::StrategyUnavailable`] when a page is unmapped, or not read-execute, or when the
    /// system forbids to make memory executable again; when a page is [remapped](super::Remap).
    pub unsafe fn register(range: CodeRange) -> Result<Self> {
        let refused = |why, mend| Error::StrategyUnavailable {
            strategy: Strategy::Toggle.name(),
            range,
            why,
            mend,
        };
        let runs = PageRun::covering(&mut [range])?;
        let [pages] = runs.as_slice() else {
            return Err(refused(
                "it is empty",
                "register the bytes that are to be patched",
            ));
        };
        check_read_execute(pages.range()).map_err(|why| {
            refused(
                why,
                "map the code read-execute before it is registered, or register less of it",
            )
        })?;
        let extra = sys::extra_flags(pages.range()).ok_or_else(|| {
            refused(
                "its pages differ in their flags",
                "register the parts with different flags each by itself",
            )
        })?;
        // protection: toggle-tries-a-scratch-page
        sys::try_toggle().map_err(|_| {
            refused(
                "the system does not let a writable page become executable (PR_SET_MDWE, SELinux execmem)",
                "let the engine load the code, which then is written through an alias",
            )
        })?;
        Ok(Self {
            range,
            pages: pages.range(),
            extra,
            open: Mutex::new(Vec::new()),
            birth: Birth::here(),
            _claim: Claim::new(pages.range(), Strategy::Toggle)?,
        })
    }

    fn set(&self, run: CodeRange, writable: bool) -> core::result::Result<(), Errno> {
        let protection = if writable {
            // protection: toggle-is-never-writable-and-executable
            Protection::READ_WRITE
        } else {
            Protection::READ_EXECUTE
        };
        // SAFETY: the pages are registered memory, which nothing in Rust refers to. They lose execution only
        // in `begin`, where a stopped world was shown.
        unsafe { sys::protect_keeping(run, protection, self.extra) }
    }

    /// Refuses to write in a fork's child: the pages are its own, but what is said of them is its
    /// parent's, whose thread may have the lock for ever.
    fn check_here(&self) -> Result<()> {
        match self.birth.is_here() {
            true => Ok(()),
            false => Err(Error::Forked { memory: self.range }),
        }
    }

    fn is_open(&self, at: CodeAddr, len: u64) -> bool {
        let open = self.open.lock();
        let before = open.partition_point(|run| run.start() <= at);
        let run = before.checked_sub(1).and_then(|last| open.get(last));
        run.is_some_and(|run| run.contains_bytes(at, len))
    }

    /// Makes runs executable again; returns those where it failed, and the first refusal.
    fn close(&self, runs: impl Iterator<Item = CodeRange>) -> Result<()> {
        let mut lost = Vec::new();
        let mut first = None;
        let mut open = self.open.lock();
        for run in runs {
            match self.set(run, false) {
                Ok(()) => {
                    // They are closed in order, mostly, so that it is the first.
                    if let Some(at) = open.iter().position(|open| *open == run) {
                        open.remove(at);
                    }
                }
                Err(errno) => {
                    first.get_or_insert(errno);
                    lost.push(run);
                    // protection: toggle-closes-all-it-can
                }
            }
        }
        match first {
            None => Ok(()),
            Some(errno) => Err(Error::ProtectionLost { runs: lost, errno }),
        }
    }
}

/// Says what is wrong unless every page is mapped read-execute.
fn check_read_execute(pages: CodeRange) -> core::result::Result<(), &'static str> {
    let start = std::ptr::without_provenance::<u8>(pages.start().get() as usize);
    let regions = match region::query_range(start, pages.len() as usize) {
        Ok(regions) => regions,
        Err(region::Error::UnmappedRegion) => return Err("it is not mapped"),
        // Without /proc the promise of the registration has to do for the protection.
        Err(_) if sys::is_mapped(pages) => return Ok(()),
        Err(_) => return Err("a part of it is not mapped"),
    };
    let mut covered = pages.start().get();
    for region in regions {
        let region = region.map_err(|_| "its mappings cannot be read")?;
        let found = region.as_range();
        if found.start as u64 > covered {
            return Err("a part of it is not mapped");
        }
        // protection: toggle-needs-read-execute
        if region.protection() != Protection::READ_EXECUTE {
            return Err("a part of it is not mapped read-execute");
        }
        covered = covered.max(found.end as u64);
    }
    if covered < pages.end().get() {
        Err("a part of it is not mapped")
    } else {
        Ok(())
    }
}

// SAFETY: the range is mapped and readable by the promise at registration. `begin` undoes what it has
// done when it fails. Writes are allowed only inside runs that are open. The pages go from read-execute to
// read-write and back, never through a protection with both, and keep their other flags.
unsafe impl CodeMemory for Toggle {
    fn strategy(&self) -> Strategy {
        Strategy::Toggle
    }

    fn range(&self) -> CodeRange {
        self.range
    }

    fn begin(&self, runs: &[PageRun], _stopped: &Stopped) -> Result<()> {
        // protection: fork-toggle-is-refused
        self.check_here()?;
        for run in runs.iter().map(|run| run.range()) {
            // protection: toggle-begins-in-its-pages
            check_within(self.pages, run.start(), run.len() as usize)?;
        }
        for (done, run) in runs.iter().enumerate() {
            let Err(errno) = self.set(run.range(), true) else {
                continue;
            };
            // Also the run that was refused: a run over several mappings may be half changed.
            // protection: toggle-takes-back-a-refused-begin
            self.close(runs.iter().take(done + 1).map(|run| run.range()))?;
            return Err(Error::SystemCall {
                call: "mprotect to read-write",
                at: run.range().start(),
                len: run.range().len(),
                errno,
                mend: "raise the limit on mappings (vm.max_map_count), or patch fewer sites at once",
            });
        }
        let mut open = self.open.lock();
        open.extend(runs.iter().map(|run| run.range()));
        open.sort_unstable();
        Ok(())
    }

    fn write(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        // protection: toggle-in-its-range
        check_within(self.range, at, bytes.len())?;
        self.check_here()?;
        let len = bytes.len() as u64;
        // protection: toggle-writes-open-pages-only
        if len > 0 && !self.is_open(at, len) {
            return Err(Error::PageNotOpen { at, len });
        }
        // SAFETY: the pages are registered memory and read-write now, until `end`; whole pages are, so whole
        // quadwords too. Callers do not overlap in time.
        unsafe { raw::store(at.get(), bytes) };
        Ok(())
    }

    fn read(&self, at: CodeAddr, into: &mut [u8]) -> Result<()> {
        check_within(self.range, at, into.len())?;
        // SAFETY: registered memory is readable, with either protection.
        unsafe { raw::load(at.get(), into) };
        Ok(())
    }

    fn holds(&self, at: CodeAddr, expected: &[u8]) -> Result<bool> {
        check_within(self.range, at, expected.len())?;
        // SAFETY: as for `read`.
        Ok(unsafe { raw::holds(at.get(), expected) })
    }

    fn make_room(&self, runs: usize) {
        if self.birth.is_here() {
            self.open.lock().reserve(runs);
        }
    }

    fn end(&self, runs: &[PageRun]) -> Result<()> {
        self.check_here()?;
        self.close(runs.iter().map(|run| run.range()))
    }
}
