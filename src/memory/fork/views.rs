//! The list of this process's views of code, and the copies that a fork's child gets of them.
//!
//! What the engine has allocated, the child maps itself, in a handler that runs after others. Pages
//! of somebody else's that were [remapped](crate::memory::Remap) may have code that runs before, be
//! it in the C library. So these are exchanged before the fork: private copies *stand in* for them,
//! which the child inherits, and what was there is kept *aside*, in the parent alone. After the
//! fork it comes back; or before, if a writer has waited for too long.
//!
//! Nodes are only ever added, at the front, and used again, so that a fork walks the list without a
//! lock. While a node is being copied, whoever wants to unmap its memory waits: copying waits for
//! nothing. One that is copied without need costs time; one that is gone is refused by the kernel,
//! which does the copying.

use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::handlers::{block_signals, set_mask};
use super::{Birth, gate};
use crate::addr::CodeRange;
use crate::invariant::broken;
use crate::memory::sys::{self, CopyUse, ExtraFlags};

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
    /// Whether the pages are somebody else's.
    is_remapped: AtomicBool,
    /// What their protection has beside read and execute.
    extra: AtomicI32,
    /// Where the view is while a copy stands in for it, or 0.
    aside: AtomicU64,
    /// Where it is in the copy that is being made.
    place: AtomicU64,
    /// Whether this process has a copy of its own there, from the fork that made it or one before.
    is_copy: AtomicBool,
}

// SAFETY: everything but `next` is atomic, and `next` is never written once others see the node. Nodes live as long as
// the process.
unsafe impl Sync for ViewNode {}

impl ViewNode {
    fn copy_use(&self) -> CopyUse {
        let extra = ExtraFlags::of_bits(self.extra.load(Ordering::Relaxed));
        match self.is_remapped.load(Ordering::Relaxed) {
            true => CopyUse::Private(extra),
            false if self.executes.load(Ordering::Relaxed) => CopyUse::Execute,
            false => CopyUse::Read,
        }
    }
}

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
        Self::with(range, birth, |node| {
            node.executes.store(executes, Ordering::Relaxed);
            node.is_remapped.store(false, Ordering::Relaxed);
            node.extra.store(0, Ordering::Relaxed);
        })
    }

    /// Notes one over pages of somebody else's, that is executed.
    pub(in crate::memory) fn remapped(range: CodeRange, extra: ExtraFlags, birth: Birth) -> Self {
        Self::with(range, birth, |node| {
            node.executes.store(true, Ordering::Relaxed);
            node.is_remapped.store(true, Ordering::Relaxed);
            node.extra.store(extra.bits(), Ordering::Relaxed);
        })
    }

    fn with(range: CodeRange, birth: Birth, describe: impl FnOnce(&ViewNode)) -> Self {
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
        describe(node);
        node.aside.store(0, Ordering::Relaxed);
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
        is_remapped: AtomicBool::new(false),
        extra: AtomicI32::new(0),
        aside: AtomicU64::new(0),
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
    // protection: copies-are-noted-before-they-are-made
    gate::begin_copies();
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
        // SAFETY: the child has inherited nothing there, and what others have mapped there since stays.
        let mapped = unsafe { sys::map_copy(start, len, node.copy_use(), file, place) };
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

/// Held by who exchanges views and what stands in for them. Waiting for it is short: who holds it
/// has its signals blocked, so that nobody who waits for it has stopped it.
static EXCHANGING: AtomicBool = AtomicBool::new(false);

/// The lock, and the mask of signals that the thread had.
struct Exchanging(libc::sigset_t);

impl Exchanging {
    fn lock() -> Self {
        loop {
            let mask = block_signals();
            if !EXCHANGING.swap(true, Ordering::Acquire) {
                return Self(mask);
            }
            set_mask(&mask);
            std::thread::yield_now();
        }
    }
}

impl Drop for Exchanging {
    fn drop(&mut self) {
        EXCHANGING.store(false, Ordering::Release);
        set_mask(&self.0);
    }
}

/// Mappings that are freed before the views are put back, which then have room, or 0.
static SPARE: AtomicU64 = AtomicU64::new(0);

fn free_spare() {
    let spare = SPARE.swap(0, Ordering::Relaxed);
    if spare != 0 {
        // SAFETY: made by `stand_in`, and inherited by the child.
        unsafe { sys::free_spare_mappings(spare) };
    }
}

/// Before a fork: lets copies stand in for the views of remapped pages, unless a writer was too
/// impatient. What cannot be exchanged stays as it is: the child does not inherit it.
pub(super) fn stand_in(file: &OwnedFd, process: u32) {
    let _exchanging = Exchanging::lock();
    // protection: nothing-stands-in-beside-a-writer
    if gate::was_broken() {
        return;
    }
    let mut remapped = all()
        .filter(|node| node.is_remapped.load(Ordering::Relaxed))
        .peekable();
    if remapped.peek().is_none() {
        return;
    }
    // protection: what-stood-in-can-go
    let Ok(spare) = sys::spare_mappings() else {
        return;
    };
    SPARE.store(spare, Ordering::Relaxed);
    for node in remapped {
        let place = node.place.load(Ordering::Relaxed);
        let is_view =
            node.state.load(Ordering::Relaxed) == LIVE && node.process.load(Ordering::Relaxed) == process;
        if place == NO_PLACE || !is_view {
            continue;
        }
        let [start, len] = [&node.start, &node.len].map(|field| field.load(Ordering::Relaxed));
        let extra = ExtraFlags::of_bits(node.extra.load(Ordering::Relaxed));
        // SAFETY: a view of this process; the file holds the same bytes, and nobody writes them before the gate is
        // open again, or `stand_back` was called.
        if let Ok(aside) = unsafe { sys::stand_in(start, len, extra, file, place) } {
            node.aside.store(aside, Ordering::Relaxed);
        }
    }
}

/// Puts the views back for which copies stand in. In the parent after a fork, and by a writer that
/// does not wait for it any longer.
pub(super) fn stand_back() {
    let _exchanging = Exchanging::lock();
    free_spare();
    let patience = gate::Patience::new();
    for node in all() {
        let aside = node.aside.swap(0, Ordering::Relaxed);
        if aside == 0 {
            continue;
        }
        let [start, len] = [&node.start, &node.len].map(|field| field.load(Ordering::Relaxed));
        // SAFETY: what was put aside for these pages.
        // protection: views-come-back-after-a-fork
        while unsafe { sys::stand_back(aside, start, len) }.is_err() {
            // Other threads have taken the room.
            if !patience.wait() {
                // What is written from now on would be executed nowhere.
                broken("the pages that were put aside for a fork are mapped where they were");
            }
        }
    }
}

/// In a fork's child: what stood in for the parent's pages is the child's own.
pub(super) fn keep_what_stands_in() {
    EXCHANGING.store(false, Ordering::Relaxed);
    free_spare();
    for node in all().filter(|node| node.aside.swap(0, Ordering::Relaxed) != 0) {
        node.place.store(NO_PLACE, Ordering::Relaxed);
        node.is_copy.store(true, Ordering::Relaxed);
    }
}
