//! Which pages of this process are remapped, and which are written by the strategies that do not
//! bear it.
//!
//! JITs pack functions, and runtimes adopt them one by one: the second that lies on a page finds it
//! remapped, and shares its view. What is adopted over the end of a remapped run gets the rest
//! remapped, as a part of its own.
//!
//! A fork's child begins with an empty list, as what it inherits is private to it; the lock of its
//! parent's, which a thread may have for ever, is never touched.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::mapping::{self, Mapping};
use super::{Parts, pages, refused};
use crate::addr::{CodeAddr, CodeRange};
use crate::memory::chunk::DoubleMapping;
use crate::memory::fork::Birth;
use crate::memory::sys::ExtraFlags;
use crate::memory::{Error, Result, Strategy};

#[derive(Default)]
struct Entries {
    runs: Vec<Run>,
    claims: Vec<(u64, CodeRange, Strategy)>,
}

/// Pages that are remapped.
struct Run {
    range: CodeRange,
    /// Of the file that is mapped there.
    inode: u64,
    mapping: Weak<DoubleMapping>,
}

/// The list of one process.
struct Registry {
    process: u32,
    entries: Mutex<Entries>,
}

static CURRENT: AtomicPtr<Registry> = AtomicPtr::new(ptr::null_mut());

/// The list of this process. It is never freed.
fn registry() -> &'static Registry {
    let process = Birth::here().number();
    loop {
        let current = CURRENT.load(Ordering::Acquire);
        // SAFETY: null, or a list, which lives as long as the process.
        if let Some(own) = unsafe { current.as_ref() }.filter(|own| own.process == process) {
            return own;
        }
        let entries = Mutex::default();
        let new = Box::into_raw(Box::new(Registry { process, entries }));
        let set = CURRENT.compare_exchange(current, new, Ordering::AcqRel, Ordering::Relaxed);
        if set.is_err() {
            // SAFETY: made above, and nobody has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}

/// Pages that a strategy writes which cannot write remapped ones, as long as it exists.
#[derive(Debug)]
pub(in crate::memory) struct Claim {
    process: u32,
    number: u64,
}

impl Claim {
    /// Claims pages for ProcMem or Toggle.
    ///
    /// # Errors
    /// [`Error::StrategyUnavailable`] where one is remapped.
    pub(in crate::memory) fn new(pages: CodeRange, strategy: Strategy) -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let registry = registry();
        let mut entries = registry.entries.lock();
        // protection: remapped-pages-are-written-by-remap-only
        if entries.runs.iter().any(|run| run.range.overlaps(pages)) {
            return Err(Error::StrategyUnavailable {
                strategy: strategy.name(),
                range: pages,
                why: "a page of it is remapped, for code that was adopted before",
                mend: "ask for Remap, or for Auto",
            });
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        entries.claims.push((number, pages, strategy));
        let process = registry.process;
        Ok(Self { process, number })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let registry = registry();
        if registry.process == self.process {
            registry
                .entries
                .lock()
                .claims
                .retain(|(number, ..)| *number != self.number);
        }
    }
}

/// Whether a page of a range is remapped.
pub(in crate::memory) fn is_remapped(pages: CodeRange) -> bool {
    registry()
        .entries
        .lock()
        .runs
        .iter()
        .any(|run| run.range.overlaps(pages))
}

/// The last user of remapped pages goes: `put_back` makes them private again, before anybody can
/// adopt them anew. In the process that remapped them.
pub(in crate::memory) fn forget(inode: u64, put_back: impl FnOnce()) {
    let mut entries = registry().entries.lock();
    put_back();
    entries.runs.retain(|run| run.inode != inode);
}

/// Remaps whole pages, and finds those that are remapped already. All of them are judged first.
///
/// # Safety
///
/// As for [`Remap::register`](super::Remap::register).
pub(super) unsafe fn remap(pages: CodeRange) -> Result<Parts> {
    loop {
        // Declared before the lock, and so dropped after it: the last user of a view locks the list.
        let mut parts = Parts::new();
        let mut entries = registry().entries.lock();
        // protection: pages-that-others-write-are-not-remapped
        if let Some((_, range, _)) = entries.claims.iter().find(|(_, range, _)| range.overlaps(pages)) {
            let why = "another module's code is there, which ProcMem or Toggle writes";
            return Err(refused(
                *range,
                why,
                "unregister that module, or adopt its code by Remap as well",
            ));
        }
        let known = entries.runs.iter().filter(|run| run.range.overlaps(pages));
        let known: Vec<(u64, Option<Arc<DoubleMapping>>)> =
            known.map(|run| (run.inode, run.mapping.upgrade())).collect();
        let expected = known.len();
        let inodes: Vec<u64> = known.iter().map(|(inode, _)| *inode).collect();
        parts.extend(known.into_iter().filter_map(|(_, mapping)| mapping));
        if parts.len() < expected {
            // Their last user is about to put them back, and waits for the lock.
            drop(entries);
            std::thread::yield_now();
            continue;
        }
        let unreadable = |_| {
            let why = "its mappings cannot be read (/proc/self/smaps)";
            refused(pages, why, "mount /proc, or use Toggle")
        };
        let found = mapping::overlapping(pages).map_err(unreadable)?;
        let pieces = judge(pages, &parts, &inodes, &found)?;
        for (piece, extra) in pieces {
            // SAFETY: the caller's promise; the piece is private code in one mapping.
            let mapping = unsafe { pages::remap(piece, extra) }?;
            parts.push(Arc::new(mapping));
        }
        for part in parts.iter().skip(expected) {
            entries.runs.push(Run {
                range: part.rx(),
                inode: part.inode(),
                mapping: Arc::downgrade(part),
            });
        }
        parts.sort_by_key(|part| part.rx());
        return Ok(parts);
    }
}

/// What of the pages is to be remapped, in pieces that lie in one mapping each. Those that are
/// remapped already still have to be so.
fn judge(
    pages: CodeRange,
    parts: &[Arc<DoubleMapping>],
    inodes: &[u64],
    found: &[Mapping],
) -> Result<Vec<(CodeRange, ExtraFlags)>> {
    let mut pieces = Vec::new();
    let mut covered = pages.start();
    while covered < pages.end() {
        let rest = between(covered, pages.end());
        let Some(mapping) = found.iter().find(|mapping| mapping.range.contains(covered)) else {
            let mend = "register the code where it is mapped, or less of it";
            return Err(refused(rest, "a part of it is not mapped", mend));
        };
        let known = parts
            .iter()
            .zip(inodes)
            .find(|(part, _)| part.rx().contains(covered));
        let end = match known {
            Some((part, inode)) => {
                let end = part.rx().end().min(mapping.range.end()).min(pages.end());
                // protection: remapped-pages-are-still-so
                if !mapping.is_of(*inode) {
                    let why = "it was remapped before, and then somebody mapped something else there";
                    let mend = "unregister the modules that were there first";
                    return Err(refused(between(covered, end), why, mend));
                }
                end
            }
            None => {
                let next = parts
                    .iter()
                    .map(|part| part.rx().start())
                    .filter(|start| *start > covered);
                let end = mapping.range.end().min(pages.end());
                let end = next.fold(end, CodeAddr::min);
                let piece = between(covered, end);
                let extra = mapping.judge().map_err(|(why, mend)| refused(piece, why, mend))?;
                pieces.push((piece, extra));
                end
            }
        };
        covered = end;
    }
    Ok(pieces)
}

/// The bytes from an address up to another.
fn between(start: CodeAddr, end: CodeAddr) -> CodeRange {
    CodeRange::new(start, end.get() - start.get()).expect("it ends at an address")
}
