//! Remap: code that others placed, made writable through a second view as the engine's own is.
//!
//! **Problem.** Live sites need one store that other threads see whole, and W^X forbids that the
//! page which is executed is ever writable. Memory of another JIT, and this program's own text, has
//! one mapping only. **Approach.** The whole pages are copied into a sealed memory file, and the
//! file is mapped over them, read-execute, at the same addresses. The kernel does that in one step:
//! a thread that executes there faults at most, waits, and goes on in the copy. From then on the
//! pages are what an [`Arena`](super::Arena) has, and are written by [`Alias`].
//!
//! **Invariants.** All of the pages are judged before the first is mapped; what is refused has
//! changed nothing. A page is remapped once: who adopts other functions on it shares the view, see
//! [`registry`]. Pages that ProcMem or Toggle write are not remapped, nor the other way round.
//! Nothing is mapped over what is not known to be what was copied. When the last user goes the
//! pages become private memory again, with what they hold then.
//!
//! **Forks.** As all code of the engine's, the shared pages are not inherited. But a child may need
//! these pages at once: the C library, or handlers of others, may lie there. So before a fork
//! private copies are mapped over them, which the child inherits as any private memory, and after
//! it the parent has the shared ones back (see `fork/views.rs`).

#![allow(unsafe_code)]

mod mapping;
mod pages;
mod registry;

use std::sync::Arc;
use std::vec::Vec;

use smallvec::SmallVec;

use crate::addr::{CodeAddr, CodeRange};
use crate::invariant::OrAbort;
use crate::memory::{Error, Result};
use crate::quiescence::Stopped;

use super::chunk::DoubleMapping;
use super::code::quadwords;
use super::fork::gate;
use super::{Alias, CodeMemory, LiveMemory, PageRun, Strategy, check_within};
#[cfg(all(test, target_os = "linux", not(emulated)))]
pub(super) use pages::BEFORE_COMPARING;
pub(super) use pages::put_back;
pub(super) use registry::{Claim, forget, is_remapped};

/// Foreign code memory whose pages were mapped anew, and are written through a second view.
///
/// It can be patched live, at the speed of [`Alias`]. What it costs is paid at registration, some
/// tens of microseconds for each page.
///
/// What changes for the owner of the pages, as long as this exists:
///
/// - They cannot be made writable: `mprotect` is refused, and so is a write through `/proc/self/mem` or by a
///   debugger. A debugger needs hardware breakpoints there.
/// - `/proc/self/maps` shows a memory file in place of what was there, which `perf` and others that look for
///   the name of the file do not know: see [`observe`](crate::observe).
/// - A huge page of which a part is remapped is split.
/// - A child that is made by calling `clone` directly does not have them: see [`memory`](super).
#[derive(Debug)]
pub struct Remap {
    range: CodeRange,
    /// The whole pages of `range`.
    pages: CodeRange,
    /// The views of the pages, in ascending address: one, unless a part was remapped before, or the
    /// range had several mappings.
    parts: SmallVec<[Alias; 1]>,
}

impl Remap {
    /// Copies the whole pages of a range, maps the copies over them, and registers it. Pages that
    /// were remapped before are shared.
    ///
    /// # Safety
    ///
    /// - During the call nobody writes to the pages, maps or unmaps them, or changes their protection, as
    ///   whoever has other code on them might. Threads may execute them.
    /// - As long as the value exists nobody but this crate does so; the owner of the pages agrees to their being
    ///   changed, and to what is said of [`Remap`]. Who unmaps them takes them out of the engine's hands: what
    ///   is patched then is executed nowhere.
    /// - Engines that adopt code on the same pages do not have sites in the same aligned 8 bytes.
    /// - What is written through it is as for [`CodeArea::writable`](super::CodeArea::writable).
    ///
    /// # Errors
    ///
    /// [`Error::StrategyUnavailable`], with the part of the range that is concerned, the reason and
    /// what to do: a page is not mapped privately and read-execute; it is locked, sealed,
    /// registered with userfaultfd, a part of a page of `hugetlbfs`, guarded by a protection key,
    /// the kernel's or a device's; its owner keeps it from children; it is written by ProcMem or
    /// Toggle; its bytes change during the call. [`Error::SystemCall`] where the system refuses a
    /// step. Nothing has changed then.
    pub unsafe fn register(range: CodeRange) -> Result<Self> {
        let runs = PageRun::covering(&mut [range])?;
        let [pages] = runs.as_slice() else {
            let mend = "register the bytes that are to be patched";
            return Err(refused(range, "it is empty", mend));
        };
        let pages = pages.range();
        // SAFETY: the caller's promise.
        let parts = unsafe { registry::remap(pages) }?;
        let parts = parts.into_iter().map(Alias::new).collect();
        Ok(Self { range, pages, parts })
    }

    /// The view that holds an address of the pages.
    #[inline]
    fn part(&self, at: CodeAddr) -> Option<&Alias> {
        self.parts.iter().find(|part| part.range().contains(at))
    }

    /// Calls `each` for the parts that some bytes of the pages lie in, with the first address in that part and
    /// which of the bytes are there.
    fn each_part(
        &self,
        at: CodeAddr,
        len: usize,
        mut each: impl FnMut(&Alias, CodeAddr, core::ops::Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        while done < len {
            let from = CodeAddr::new(at.get() + done as u64);
            let outside = || Error::OutsideMemory {
                at,
                len: len as u64,
                memory: self.range,
            };
            let part = self.part(from).ok_or_else(outside)?;
            let here = (part.range().end().get() - from.get()).min((len - done) as u64) as usize;
            each(part, from, done..done + here)?;
            done += here;
        }
        Ok(())
    }
}

/// A refusal of Remap's.
fn refused(range: CodeRange, why: &'static str, mend: &'static str) -> Error {
    let strategy = Strategy::Remap.name();
    Error::StrategyUnavailable {
        strategy,
        range,
        why,
        mend,
    }
}

// SAFETY: the range is mapped by `parts`, which cover its pages, or by its owner; all of them are written and read as Alias does,
// within the range. Nothing in begin can fail halfway as it only asks. No protection ever changes.
unsafe impl CodeMemory for Remap {
    fn strategy(&self) -> Strategy {
        Strategy::Remap
    }

    fn range(&self) -> CodeRange {
        self.range
    }

    fn begin(&self, runs: &[PageRun], stopped: &Stopped) -> Result<()> {
        for run in runs.iter().map(|run| run.range()) {
            check_within(self.pages, run.start(), run.len() as usize)?;
        }
        // Whether this is the process that remapped them.
        self.parts.iter().try_for_each(|part| part.begin(&[], stopped))
    }

    fn write(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        // protection: remap-in-its-range
        check_within(self.range, at, bytes.len())?;
        self.each_part(at, bytes.len(), |part, at, which| {
            part.write(at, bytes.get(which).or_abort("they are some of the bytes"))
        })?;
        // The engine, which is inside the gate, mostly writes by `as_alias`.
        gate::show_written();
        Ok(())
    }

    fn read(&self, at: CodeAddr, into: &mut [u8]) -> Result<()> {
        check_within(quadwords(self.range), at, into.len())?;
        self.each_part(at, into.len(), |part, at, which| {
            part.read(at, into.get_mut(which).or_abort("they are some of the bytes"))
        })
    }

    fn end(&self, _runs: &[PageRun]) -> Result<()> {
        Ok(())
    }

    fn as_alias(&self) -> Option<&Alias> {
        match self.parts.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    fn live(&self) -> Option<&dyn LiveMemory> {
        Some(self)
    }
}

// SAFETY: as for Alias. An aligned quadword lies in one page, and so in one part.
unsafe impl LiveMemory for Remap {
    fn write_unexecuted(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        self.write(at, bytes)
    }

    fn exchange(&self, word: CodeAddr, old: [u8; 8], new: [u8; 8]) -> Result<()> {
        // The word of the first or last site may hold bytes of others: they stay as they are.
        let changes = old
            .iter()
            .zip(&new)
            .zip(word.get()..)
            .filter(|((old, new), _)| old != new);
        for (_, at) in changes {
            // protection: remap-exchanges-in-its-range
            check_within(self.range, CodeAddr::new(at), 1)?;
        }
        let memory = self.range;
        let part = self.part(word).ok_or(Error::OutsideMemory {
            at: word,
            len: 8,
            memory,
        })?;
        part.exchange(word, old, new)?;
        gate::show_written();
        Ok(())
    }
}

/// The views of a registration.
type Parts = Vec<Arc<DoubleMapping>>;
