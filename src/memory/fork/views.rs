//! The list of this process's views of code, and the copies that a fork's child gets of them.
//!
//! Nodes are only ever added, at the front, and used again, so that a fork walks the list without a
//! lock. While a node is being copied, whoever wants to unmap its memory waits: copying waits for
//! nothing. One that is copied without need costs time; one that is gone is refused by the kernel,
//! which does the copying.

use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::Birth;
use crate::addr::CodeRange;
use crate::memory::sys;

/// Nobody's.
const FREE: u32 = 0;
/// Being filled in.
const TAKEN: u32 = 1;
/// A view.
const LIVE: u32 = 2;
/// A view that is being copied.
const COPYING: u32 = 3;

/// No place in the copy.
const NO_PLACE: u64 = u64::MAX;

struct ViewNode {
    next: *const ViewNode,
    state: AtomicU32,
    start: AtomicU64,
    len: AtomicU64,
    /// How many bytes from the start have ever been used.
    used: AtomicU64,
    /// The number of the process that has mapped it.
    process: AtomicU32,
    /// Whether it is executed, and not only read.
    executes: AtomicBool,
    /// Where it is in the copy that is being made.
    place: AtomicU64,
    /// Whether this process has a copy of its own there, from the fork that made it or one before.
    is_copy: AtomicBool,
}

// SAFETY: everything but `next` is atomic, and `next` is never written once others see the node. Nodes live as long as
// the process.
unsafe impl Sync for ViewNode {}

static FIRST: AtomicPtr<ViewNode> = AtomicPtr::new(ptr::null_mut());

fn all() -> impl Iterator<Item = &'static ViewNode> {
    let mut next = FIRST.load(Ordering::Acquire).cast_const();
    std::iter::from_fn(move || {
        // SAFETY: null, or a node, which lives as long as the process.
        let node = unsafe { next.as_ref() }?;
        next = node.next;
        Some(node)
    })
}

/// A view that a fork's child does not inherit, but gets a copy of.
pub(in crate::memory) struct View(&'static ViewNode);

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("View")
    }
}

impl View {
    /// Notes one that has been mapped by a process, which is this one.
    pub(in crate::memory) fn new(range: CodeRange, executes: bool, birth: Birth) -> Self {
        let is_taken = |node: &&ViewNode| {
            node.state
                .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        };
        let node = all().find(is_taken).unwrap_or_else(add);
        node.start.store(range.start().get(), Ordering::Relaxed);
        node.len.store(range.len(), Ordering::Relaxed);
        node.used.store(0, Ordering::Relaxed);
        node.process.store(birth.number(), Ordering::Relaxed);
        node.executes.store(executes, Ordering::Relaxed);
        node.place.store(NO_PLACE, Ordering::Relaxed);
        node.is_copy.store(false, Ordering::Relaxed);
        node.state.store(LIVE, Ordering::Release);
        Self(node)
    }

    /// Notes that bytes up to an address are about to be used.
    pub(in crate::memory) fn use_up_to(&self, end: u64) {
        let used = end.saturating_sub(self.0.start.load(Ordering::Relaxed));
        self.0.used.fetch_max(used, Ordering::Relaxed);
    }

    /// Whether this process, which did not map it, has a copy there.
    #[inline]
    pub(in crate::memory) fn is_copy(&self) -> bool {
        self.0.is_copy.load(Ordering::Relaxed)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if self.0.process.load(Ordering::Relaxed) != super::number() {
            // A fork's child. Nothing is being copied here, whatever was in the parent.
            self.0.state.store(FREE, Ordering::Release);
            return;
        }
        while let Err(COPYING) =
            self.0
                .state
                .compare_exchange(LIVE, FREE, Ordering::AcqRel, Ordering::Relaxed)
        {
            std::thread::yield_now();
        }
    }
}

/// A new node at the front of the list.
fn add() -> &'static ViewNode {
    let node = Box::into_raw(Box::new(ViewNode {
        next: ptr::null(),
        state: AtomicU32::new(TAKEN),
        start: AtomicU64::new(0),
        len: AtomicU64::new(0),
        used: AtomicU64::new(0),
        process: AtomicU32::new(0),
        executes: AtomicBool::new(false),
        place: AtomicU64::new(NO_PLACE),
        is_copy: AtomicBool::new(false),
    }));
    let mut first = FIRST.load(Ordering::Relaxed);
    loop {
        // SAFETY: nobody else has seen the node yet.
        unsafe { (*node).next = first };
        match FIRST.compare_exchange_weak(first, node, Ordering::Release, Ordering::Relaxed) {
            // SAFETY: the node is never freed.
            Ok(_) => return unsafe { &*node },
            Err(found) => first = found,
        }
    }
}

/// Copies every view of this process, which has that number, into one sealed file. `None` if there
/// is nothing to copy, or it cannot be done. Allocates nothing.
pub(super) fn copy(process: u32) -> Option<OwnedFd> {
    let mut len = 0;
    for node in all() {
        let is_view = node.process.load(Ordering::Relaxed) == process
            && node
                .state
                .compare_exchange(LIVE, COPYING, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        let place = if is_view { len } else { NO_PLACE };
        node.place.store(place, Ordering::Relaxed);
        len += if is_view {
            node.len.load(Ordering::Relaxed)
        } else {
            0
        };
    }
    let copied = match len {
        0 => None,
        _ => copy_into_file(len).ok(),
    };
    for node in all() {
        let _ = node
            .state
            .compare_exchange(COPYING, LIVE, Ordering::Release, Ordering::Relaxed);
    }
    copied
}

fn copy_into_file(len: u64) -> Result<OwnedFd, sys::Refused> {
    let file = sys::copy_file(len)?;
    for node in all().filter(|node| node.state.load(Ordering::Relaxed) == COPYING) {
        let (from, to) = (
            node.start.load(Ordering::Relaxed),
            node.place.load(Ordering::Relaxed),
        );
        let used = node
            .used
            .load(Ordering::Relaxed)
            .min(node.len.load(Ordering::Relaxed));
        sys::copy_into(&file, from, used, to).map_err(|errno| ("pwrite", errno))?;
    }
    // protection: fork-copy-is-sealed
    sys::seal_copy(&file)?;
    Ok(file)
}

/// Maps the copies of a parent, which had that number, where its views were. What cannot be mapped
/// is left out.
pub(super) fn map_copies(file: &OwnedFd, parent: u32) {
    for node in all() {
        let place = node.place.swap(NO_PLACE, Ordering::Relaxed);
        let is_view =
            node.state.load(Ordering::Relaxed) == LIVE && node.process.load(Ordering::Relaxed) == parent;
        if place == NO_PLACE || !is_view {
            continue;
        }
        let (start, len) = (
            node.start.load(Ordering::Relaxed),
            node.len.load(Ordering::Relaxed),
        );
        let executes = node.executes.load(Ordering::Relaxed);
        // SAFETY: the child has inherited nothing there, and what others have mapped there since stays.
        let mapped = unsafe { sys::map_copy(start, len, executes, file, place) };
        node.is_copy.store(mapped.is_ok(), Ordering::Relaxed);
    }
}

/// In a fork's child: nothing is being copied.
pub(super) fn stop_copying() {
    for node in all() {
        let _ = node
            .state
            .compare_exchange(COPYING, LIVE, Ordering::Relaxed, Ordering::Relaxed);
    }
}
