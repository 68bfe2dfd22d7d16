//! The list of threads that execute the engine's code.
//!
//! Slots are only ever added, at the front, and used again by later threads, so that a signal
//! handler and an asker can walk the list without a lock while threads come and go. A slot that a
//! fork copied into a child is not the child's: it holds another number of process.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::ask::Question;
use crate::error::Errno;
use crate::publish::{Error, Result};

/// No thread has the slot.
pub(super) const FREE: i32 = 0;
/// A thread is moving in.
const TAKEN: i32 = -1;

/// What is asked of one thread, and what it answered. A thread's handler writes only to its own
/// slot.
pub(super) struct Slot {
    next: *const Slot,
    /// The thread, or [`FREE`].
    pub(super) tid: AtomicI32,
    pid: AtomicI32,
    /// The thread's stack: its lowest address, and the one after its highest.
    pub(super) low: AtomicU64,
    pub(super) high: AtomicU64,
    /// How many guards the thread has.
    depth: AtomicU32,
    /// The number of the question and its [`phase`](super::ask), in the low two bits.
    pub(super) state: AtomicU64,
    /// What is asked, valid from ASKED until ANSWERED.
    pub(super) ask: AtomicPtr<Question>,
    /// What was found, and where.
    pub(super) found: AtomicU32,
    pub(super) at: AtomicU64,
    /// What a parked thread sleeps on.
    pub(super) gate: AtomicU32,
}

// SAFETY: everything but `next` is atomic, and `next` is never written once others see the slot. Slots live as
// long as the process.
unsafe impl Sync for Slot {}

static FIRST: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());

/// This process. Async-signal-safe.
pub(super) fn this_process() -> libc::pid_t {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

/// This thread. Async-signal-safe.
pub(super) fn this_thread() -> libc::pid_t {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// Every slot that a thread of this process has. Async-signal-safe.
pub(super) fn slots() -> impl Iterator<Item = &'static Slot> {
    let pid = this_process();
    all().filter(move |slot| {
        // protection: fork-child-has-no-attached-threads
        slot.tid.load(Ordering::Acquire) > FREE && slot.pid.load(Ordering::Relaxed) == pid
    })
}

/// Every slot.
fn all() -> impl Iterator<Item = &'static Slot> {
    let mut next = FIRST.load(Ordering::Acquire).cast_const();
    std::iter::from_fn(move || {
        // SAFETY: null, or a slot, which lives as long as the process.
        let slot = unsafe { next.as_ref() }?;
        next = slot.next;
        Some(slot)
    })
}

/// The slot of this thread, if it is attached. Async-signal-safe.
pub(super) fn mine() -> Option<&'static Slot> {
    let tid = this_thread();
    slots().find(|slot| slot.tid.load(Ordering::Relaxed) == tid)
}

/// Attaches this thread once more.
pub(super) fn attach() -> Result<&'static Slot> {
    if let Some(slot) = mine() {
        slot.depth.fetch_add(1, Ordering::Relaxed);
        return Ok(slot);
    }
    let (low, high) = stack()?;
    let slot = all()
        .find(|slot| {
            let taken = slot
                .tid
                .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok()
        })
        .unwrap_or_else(add);
    slot.low.store(low, Ordering::Relaxed);
    slot.high.store(high, Ordering::Relaxed);
    slot.depth.store(1, Ordering::Relaxed);
    slot.pid.store(this_process(), Ordering::Relaxed);
    slot.tid.store(this_thread(), Ordering::SeqCst);
    Ok(slot)
}

/// Detaches this thread once. A child of a fork leaves the slots of its parent alone.
pub(super) fn detach(slot: &Slot) {
    let here = slot.pid.load(Ordering::Relaxed) == this_process();
    if here && slot.depth.fetch_sub(1, Ordering::Relaxed) == 1 {
        // protection: detached-threads-are-not-asked
        slot.tid.store(FREE, Ordering::Release);
    }
}

/// A new slot at the front of the list.
fn add() -> &'static Slot {
    let slot = Box::into_raw(Box::new(Slot {
        next: ptr::null(),
        tid: AtomicI32::new(TAKEN),
        pid: AtomicI32::new(0),
        low: AtomicU64::new(0),
        high: AtomicU64::new(0),
        depth: AtomicU32::new(0),
        state: AtomicU64::new(0),
        ask: AtomicPtr::new(ptr::null_mut()),
        found: AtomicU32::new(0),
        at: AtomicU64::new(0),
        gate: AtomicU32::new(0),
    }));
    let mut first = FIRST.load(Ordering::Relaxed);
    loop {
        // SAFETY: nobody else has seen the slot yet.
        unsafe { (*slot).next = first };
        match FIRST.compare_exchange_weak(first, slot, Ordering::Release, Ordering::Relaxed) {
            // SAFETY: the slot is never freed.
            Ok(_) => return unsafe { &*slot },
            Err(found) => first = found,
        }
    }
}

/// The bounds of this thread's stack.
fn stack() -> Result<(u64, u64)> {
    let refused = |code: libc::c_int| Error::ThreadUnknown {
        call: "pthread_getattr_np",
        errno: Errno(code),
    };
    let mut attr = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: fills the attributes of the thread that calls.
    let code = unsafe { libc::pthread_getattr_np(libc::pthread_self(), attr.as_mut_ptr()) };
    if code != 0 {
        return Err(refused(code));
    }
    let (mut low, mut len) = (ptr::null_mut(), 0);
    // SAFETY: the attributes were filled above.
    let code = unsafe { libc::pthread_attr_getstack(attr.as_ptr(), &raw mut low, &raw mut len) };
    // SAFETY: the same, which are not used any more.
    unsafe { libc::pthread_attr_destroy(attr.as_mut_ptr()) };
    if code != 0 {
        return Err(refused(code));
    }
    Ok((low as u64, low as u64 + len as u64))
}
