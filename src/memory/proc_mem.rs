//! ProcMem: foreign private code memory, written through the process's own memory as a file.
//!
//! The kernel writes into pages whose protection forbids it to the process. No protection changes,
//! so threads on the page are not disturbed; but how the kernel copies is its own business, so no
//! word is exchanged by one store. The open descriptor can write anything, so it is opened when
//! memory is first registered, never inherited across exec, and closed with the last value.

#![allow(unsafe_code)]

use crate::addr::{CodeAddr, CodeRange};
use crate::error::Errno;
use crate::memory::{Error, Result};
use crate::quiescence::Stopped;
use region::Protection;
use std::vec::Vec;

use super::fork::Birth;
use super::remap::Claim;
use super::{CodeMemory, LiveMemory, PageRun, Strategy, check_within, raw, sys};

/// Foreign code memory that is written through `/proc/self/mem`.
#[derive(Debug)]
pub struct ProcMem {
    range: CodeRange,
    /// The whole pages of `range`.
    pages: CodeRange,
    file: sys::SelfMem,
    birth: Birth,
    /// Keeps the pages from being remapped.
    _claim: Claim,
}

impl ProcMem {
    /// Registers memory, and tries a write that changes nothing on each of its mappings.
    ///
    /// # Safety
    ///
    /// As long as the value exists, the range stays mapped read-execute, nobody else changes its
    /// bytes, and its owner agrees to their being changed. What is written through it is as for
    /// [`CodeArea::writable`](super::CodeArea::writable).
    ///
    /// # Errors
    ///
    /// [`Error::StrategyUnavailable`] when a page is unmapped, or not read-execute; when there is
    /// no `/proc`, when the system forbids such writes, or when the memory is a shared mapping; when
    /// a page is [remapped](super::Remap).
    pub unsafe fn register(range: CodeRange) -> Result<Self> {
        let refused = |why, mend| Error::StrategyUnavailable {
            strategy: Strategy::ProcMem.name(),
            range,
            why,
            mend,
        };
        let file = sys::SelfMem::open()
            .map_err(|_| refused("/proc/self/mem cannot be opened", "mount /proc, or use Toggle"))?;
        let whole = PageRun::covering(&mut [range])?;
        let pages = whole.first().map_or(range, |run| run.range());
        let memory = Self {
            range,
            pages,
            file,
            birth: Birth::here(),
            _claim: Claim::new(pages, Strategy::ProcMem)?,
        };
        let first_of_each = first_bytes(range).map_err(|why| {
            refused(
                why,
                "map the code read-execute before it is registered, or register less of it",
            )
        })?;
        for at in first_of_each {
            let mut same = [0];
            memory.read(at, &mut same)?;
            // protection: proc-mem-probes-each-mapping
            memory.write(at, &same).map_err(|_| {
                refused(
                    "the system refuses to write it (a shared mapping, or proc_mem.force_override is off)",
                    "use Toggle",
                )
            })?;
        }
        Ok(memory)
    }
}

/// The first address of each mapping within the range; says what is wrong where one is missing, or
/// is not read-execute: the kernel would write that, too, and whoever else may write it is not
/// known.
fn first_bytes(range: CodeRange) -> core::result::Result<Vec<CodeAddr>, &'static str> {
    let start = std::ptr::without_provenance::<u8>(range.start().get() as usize);
    let regions = region::query_range(start, range.len() as usize).map_err(|_| "it is not mapped")?;
    let mut firsts = Vec::new();
    let mut covered = range.start().get();
    for region in regions {
        let region = region.map_err(|_| "its mappings cannot be read")?;
        let found = region.as_range();
        if found.start as u64 > covered {
            return Err("a part of it is not mapped");
        }
        // protection: procmem-takes-only-code
        if region.protection() != Protection::READ_EXECUTE {
            return Err("a part of it is not mapped read-execute");
        }
        firsts.push(CodeAddr::new(covered));
        covered = found.end as u64;
    }
    if covered < range.end().get() {
        Err("a part of it is not mapped")
    } else {
        Ok(firsts)
    }
}

// SAFETY: the range is mapped and readable by the promise at registration. `begin` changes nothing. Writes
// are checked against the range. No protection is ever changed.
unsafe impl CodeMemory for ProcMem {
    fn strategy(&self) -> Strategy {
        Strategy::ProcMem
    }

    fn range(&self) -> CodeRange {
        self.range
    }

    fn begin(&self, runs: &[PageRun], _stopped: &Stopped) -> Result<()> {
        // protection: fork-proc-mem-begin-is-refused
        if !self.birth.is_here() {
            return Err(Error::Forked { memory: self.range });
        }
        runs.iter()
            .map(|run| run.range())
            .try_for_each(|run| check_within(self.pages, run.start(), run.len() as usize))
    }

    fn write(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        // protection: proc-mem-in-its-range
        check_within(self.range, at, bytes.len())?;
        // protection: fork-proc-mem-is-refused
        if !self.birth.is_here() {
            return Err(Error::Forked { memory: self.range });
        }
        // SAFETY: within the registered range.
        unsafe { self.file.write(at.get(), bytes) }.map_err(|errno: Errno| Error::SystemCall {
            call: "pwrite to /proc/self/mem",
            at,
            len: bytes.len() as u64,
            errno,
            mend: "register the memory again, as Toggle",
        })
    }

    fn read(&self, at: CodeAddr, into: &mut [u8]) -> Result<()> {
        check_within(self.range, at, into.len())?;
        // SAFETY: registered memory is readable.
        unsafe { raw::load(at.get(), into) };
        Ok(())
    }

    fn holds(&self, at: CodeAddr, expected: &[u8]) -> Result<bool> {
        check_within(self.range, at, expected.len())?;
        // SAFETY: as for `read`.
        Ok(unsafe { raw::holds(at.get(), expected) })
    }

    fn end(&self, _runs: &[PageRun]) -> Result<()> {
        Ok(())
    }

    fn live(&self) -> Option<&dyn LiveMemory> {
        Some(self)
    }
}

// SAFETY: no call changes a protection, and the exchange that could not be one store is refused.
unsafe impl LiveMemory for ProcMem {
    fn write_unexecuted(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        self.write(at, bytes)
    }

    // protection: proc-mem-exchanges-nothing
    fn exchange(&self, word: CodeAddr, _old: [u8; 8], _new: [u8; 8]) -> Result<()> {
        Err(Error::NoAtomicStore {
            strategy: Strategy::ProcMem.name(),
            at: word,
            why: "the kernel promises no width for its copy",
            mend: "let the engine load the code (Alias), or stop the world and write the whole site",
        })
    }
}
