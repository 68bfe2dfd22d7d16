//! Forks: noticing that this process is a fork's child of the one that mapped the memory, and what
//! a child gets of it.
//!
//! The writable view of code, and an open `/proc/self/mem`, stay the parent's: a child that patched
//! would change code under its parent's feet. The executed view would be changed by the parent,
//! under the child's, whose heap is its own: so a child does not inherit it either, and gets a copy
//! at the same address (see [`handlers`], and [`views`] for pages of others). Nobody changes that any more: grandchildren inherit it
//! as it is.
//!
//! A page that the kernel wipes in the child holds the number of the process in the line of forks:
//! one load tells. Where there is no such page, `getpid` does.

#![allow(unsafe_code)]

pub(crate) mod gate;
#[cfg(target_os = "linux")]
mod handlers;
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "forks are not noticed there")
)]
pub(crate) mod seat;
#[cfg(target_os = "linux")]
mod views;
#[cfg(not(target_os = "linux"))]
#[path = "fork/no_views.rs"]
mod views;

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::sys;
pub(super) use views::View;

/// The number that the mark of this process holds; copied by fork, unlike the mark.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// What is true of one process only. All zeros in one that was just made by a fork.
#[derive(Debug)]
pub(crate) struct OwnProcess {
    /// The process's number in the line of forks, or 0.
    number: AtomicU32,
    /// See [`gate`].
    gate: AtomicU32,
    /// The thread that forks, or 0.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "forks are not noticed there")
    )]
    forker: AtomicU64,
    /// Who is inside the gate and not counted there.
    marks: seat::Marks,
    /// Whether copies are made for a child, which may stand in for code here.
    copying: AtomicBool,
}

impl OwnProcess {
    /// The process's number in the line of forks, which it gets when it is first asked for.
    #[inline]
    fn generation(&self) -> u32 {
        match self.number.load(Ordering::Acquire) {
            0 => self.number_anew(),
            number => number,
        }
    }

    #[cold]
    fn number_anew(&self) -> u32 {
        let next = GENERATION.load(Ordering::Relaxed).wrapping_add(1).max(2);
        let number = &self.number;
        match number.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                GENERATION.store(next, Ordering::Relaxed);
                next
            }
            Err(found) => found,
        }
    }
}

/// The number of this process, which no process has that it was forked from or that was forked from
/// it. Never 0.
#[inline]
pub(crate) fn this_process() -> u32 {
    mark().map_or_else(std::process::id, OwnProcess::generation)
}

/// Where the kernel wipes nothing.
static UNWIPED: OwnProcess = OwnProcess {
    number: AtomicU32::new(0),
    gate: AtomicU32::new(0),
    forker: AtomicU64::new(0),
    marks: seat::Marks::new(),
    copying: AtomicBool::new(false),
};

/// The kernel wipes one page.
const _: () = assert!(size_of::<OwnProcess>() <= 4096);

/// What is this process's own.
#[inline]
fn own() -> &'static OwnProcess {
    mark().unwrap_or(&UNWIPED)
}

/// In a fork's child: wipes what the kernel should have wiped, but some emulators do not.
#[cfg(target_os = "linux")]
fn wipe(parent: u32) {
    let own = own();
    if mark().is_none() || own.number.load(Ordering::Relaxed) == parent {
        own.gate.store(0, Ordering::Relaxed);
        own.marks.wipe();
        own.copying.store(false, Ordering::Relaxed);
        own.forker.store(0, Ordering::Relaxed);
        own.number.store(0, Ordering::Relaxed);
    }
}

/// The number of this process; 0 if nothing has asked for one yet.
#[cfg(target_os = "linux")]
fn number() -> u32 {
    mark().map_or_else(std::process::id, |own| own.number.load(Ordering::Relaxed))
}

/// The page that a fork wipes, if the kernel has such.
///
/// No lock is held while it is made: a child that was forked then would wait for ever. Of two
/// threads that make one at once, one leaves its page unused.
#[inline]
fn mark() -> Option<&'static OwnProcess> {
    // SAFETY: null, or a mark, which lives as long as the process.
    unsafe { MARK.load(Ordering::Acquire).as_ref() }.or_else(make_mark)
}

static MARK: AtomicPtr<OwnProcess> = AtomicPtr::new(ptr::null_mut());

#[cold]
fn make_mark() -> Option<&'static OwnProcess> {
    let made = sys::page_wiped_by_fork()?.as_ptr().cast::<OwnProcess>();
    // SAFETY: the page is mapped, aligned, zero, which is a value of this type, and never unmapped.
    let own = unsafe { &*made };
    own.number.store(1, Ordering::Release);
    match MARK.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(own),
        // SAFETY: a mark, as above.
        Err(other) => unsafe { other.as_ref() },
    }
}

/// The process in which something was made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Birth {
    Marked { mark: &'static OwnProcess, generation: u32 },
    Pid(u32),
}

impl Birth {
    /// This process.
    pub(crate) fn here() -> Self {
        // Before there is anything that a fork must not come across, be it memory of the engine's
        // own or foreign.
        #[cfg(target_os = "linux")]
        handlers::register();
        match mark() {
            Some(mark) => Self::Marked {
                mark,
                generation: mark.generation(),
            },
            None => Self::Pid(std::process::id()),
        }
    }

    /// Its number, which no process has that it was forked from or that was forked from it.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Marked { generation, .. } => generation,
            Self::Pid(pid) => pid,
        }
    }

    /// Locks what that process made. `None` in a fork's child where a thread of the parent has the
    /// lock, for ever.
    pub(crate) fn lock<T>(self, mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        match self.is_here() {
            true => Some(mutex.lock()),
            false => mutex.try_lock(),
        }
    }

    /// Whether this is still that process.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        match self {
            Self::Marked { mark, generation } => mark.number.load(Ordering::Relaxed) == generation,
            Self::Pid(pid) => is_process(pid),
        }
    }
}

#[cold]
fn is_process(pid: u32) -> bool {
    std::process::id() == pid
}

/// Lets copies stand in for what is remapped, as before a fork whose gate is closed. Whether there
/// was something.
#[cfg(all(test, target_os = "linux", not(emulated)))]
pub(crate) fn stand_in() -> bool {
    let copies = views::copy(number());
    copies
        .inspect(|copies| views::stand_in(copies, number()))
        .is_some()
}
