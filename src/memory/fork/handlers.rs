//! What is done before and after a fork: the child gets copies of the code, at the same addresses.
//!
//! **Life of a fork.** The thread that forks closes the [gate](super::gate) and waits until no
//! transaction is being written; it blocks its signals, so that it is not stopped before it opens
//! the gate again; it copies all code into one sealed memory file. The kernel makes the child,
//! which inherits none of the views. The child maps the copies where the views were, and closes the
//! file; the parent closes the file and opens the gate. For pages that were remapped, whose code
//! may be what the child runs until then, copies stand in before the child is made, and the parent
//! has its own back afterwards (see [`views`]).
//!
//! **Invariants.** What the child's code refers to is what its heap holds: from the copy to the
//! fork no site changes, and what a site branches to is freed only when no thread can be in it, the
//! one that forks included. The copies are never writable: the file is written by the kernel,
//! sealed, and mapped then. Nothing here allocates or takes a lock. Where a copy cannot be made or
//! mapped the child has nothing at these addresses: to execute there kills it, and reading through
//! the library is refused by [`Error::Forked`](crate::memory::Error::Forked).
//!
//! **Cost.** Copying the pages that have code, some 0.3 ms per MiB, and some ten system calls.

use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::gate::{self, Patience};
use super::views;

/// Whether the handlers are registered: 0, [`DONE`], or the process that is at it.
static REGISTERED: AtomicI32 = AtomicI32::new(0);
const DONE: i32 = -1;

/// The thread that forks, in the parent and in the child, or 0. Copied to the child, unlike what
/// [`super::own`] holds.
static FORKING_THREAD: AtomicU64 = AtomicU64::new(0);
/// The number of its process.
static PARENT: AtomicU32 = AtomicU32::new(0);
/// The file with the copies, or -1.
static COPIES: AtomicI32 = AtomicI32::new(-1);
/// The words of the mask of signals that the thread had.
static MASK: [AtomicU64; MASK_WORDS] = [const { AtomicU64::new(0) }; MASK_WORDS];
const MASK_WORDS: usize = size_of::<libc::sigset_t>() / 8;

/// Registers the handlers, once. Where the system refuses, children have no code.
pub(super) fn register() {
    if REGISTERED.load(Ordering::Acquire) == DONE {
        return;
    }
    // SAFETY: takes nothing and cannot fail.
    let this = unsafe { libc::getpid() };
    loop {
        match REGISTERED.compare_exchange(0, this, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => break,
            Err(DONE) => return,
            Err(found) if found == this => std::thread::yield_now(),
            // The parent's, at the moment of the fork. Registered twice, the handlers do their work
            // once.
            Err(found) => {
                let _ = REGISTERED.compare_exchange(found, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
    super::seat::find_barrier();
    // SAFETY: the handlers live as long as the code of this library, and do only what is allowed in a child.
    let _ = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    REGISTERED.store(DONE, Ordering::Release);
}

/// This thread, by a number that a fork's child has too.
fn this_thread() -> u64 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::pthread_self() as u64 }
}

/// Keeps `errno`: what the caller of fork finds there is fork's.
fn keeping_errno(work: impl FnOnce()) {
    // SAFETY: a thread's errno is always there.
    let errno = unsafe { *libc::__errno_location() };
    work();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

pub(super) fn set_mask(mask: &libc::sigset_t) -> libc::sigset_t {
    let mut old = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the sets are valid; concerns this thread alone.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, old.as_mut_ptr()) };
    // SAFETY: filled by the call, and valid as zeros before.
    unsafe { old.assume_init() }
}

/// Blocks every signal of this thread, and returns what it had blocked.
pub(super) fn block_signals() -> libc::sigset_t {
    let mut every = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: fills the set, which is valid as zeros.
    unsafe { libc::sigfillset(every.as_mut_ptr()) };
    // SAFETY: as above.
    set_mask(&unsafe { every.assume_init() })
}

fn keep_mask(mask: &libc::sigset_t) {
    let words = ptr::from_ref(mask).cast::<u64>();
    for (index, word) in MASK.iter().enumerate() {
        // SAFETY: within the set, whose size is that many words, and which has their alignment.
        word.store(unsafe { words.add(index).read() }, Ordering::Relaxed);
    }
}

fn kept_mask() -> libc::sigset_t {
    let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
    let words = mask.as_mut_ptr().cast::<u64>();
    for (index, word) in MASK.iter().enumerate() {
        // SAFETY: as in `keep_mask`.
        unsafe { words.add(index).write(word.load(Ordering::Relaxed)) };
    }
    // SAFETY: what `keep_mask` was given.
    unsafe { mask.assume_init() }
}

extern "C" fn before() {
    keeping_errno(prepare);
}

fn prepare() {
    let (this, own) = (this_thread(), super::own());
    let forker = &own.forker;
    if forker.load(Ordering::Relaxed) == this {
        // Registered twice.
        return;
    }
    let patience = Patience::new();
    while forker
        .compare_exchange(0, this, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        if !patience.wait() {
            return;
        }
    }
    gate::close();
    // A writer may have to stop this thread, so signals are not blocked while it is waited for.
    let mask = loop {
        let mask = block_signals();
        // protection: fork-waits-for-a-transaction
        if gate::is_empty() {
            break mask;
        }
        set_mask(&mask);
        if !patience.wait() {
            gate::open();
            forker.store(0, Ordering::Release);
            return;
        }
    };
    keep_mask(&mask);
    let process = super::number();
    PARENT.store(process, Ordering::Relaxed);
    FORKING_THREAD.store(this, Ordering::Relaxed);
    let copies = views::copy(process);
    if let Some(copies) = &copies {
        // protection: copies-stand-in-for-remapped-pages
        views::stand_in(copies, process);
    }
    let copies = copies.map_or(-1, IntoRawFd::into_raw_fd);
    COPIES.store(copies, Ordering::Release);
}

/// The file with the copies, which is the caller's from now on.
fn take_copies() -> Option<OwnedFd> {
    let file = COPIES.swap(-1, Ordering::AcqRel);
    // SAFETY: opened by `prepare`, and taken out once in each process.
    (file >= 0).then(|| unsafe { OwnedFd::from_raw_fd(file) })
}

extern "C" fn in_parent() {
    keeping_errno(|| {
        let (this, own) = (this_thread(), super::own());
        if own.forker.load(Ordering::Relaxed) != this {
            return;
        }
        views::stand_back();
        gate::end_copies();
        drop(take_copies());
        FORKING_THREAD.store(0, Ordering::Relaxed);
        gate::open();
        let mask = kept_mask();
        own.forker.store(0, Ordering::Release);
        // The last, as a handler of a signal may fork.
        set_mask(&mask);
    });
}

extern "C" fn in_child() {
    keeping_errno(|| {
        let parent = PARENT.load(Ordering::Relaxed);
        let is_mine = FORKING_THREAD.swap(0, Ordering::Relaxed) == this_thread();
        super::wipe(parent);
        views::stop_copying();
        views::keep_what_stands_in();
        let copies = take_copies();
        if !is_mine {
            return;
        }
        if let Some(copies) = copies.filter(|_| !gate::was_broken()) {
            // protection: fork-child-has-a-copy
            views::map_copies(&copies, parent);
        }
        set_mask(&kept_mask());
    });
}
