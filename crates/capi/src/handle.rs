//! Handles: what a pointer of the C interface points to.
//!
//! Problem: a C program may hand over a null pointer, a handle of another kind, one that it has
//! freed, or one that another thread frees at this moment, and none of that may be undefined.
//! Approach: handles live in slots that are never given back to the allocator and always begin with
//! one word: a number that says of which kind the handle is, and how many hold it. Whoever uses a
//! handle looks at the number and adds itself to the count, in one exchange; freeing takes the
//! number away, and the last who lets go drops what was in the slot. A slot is used again only when
//! many others have been freed after it, so that a stale handle is found out for long.
//!
//! Invariants: a slot, once made, is mapped for good, and its first word is only accessed
//! atomically; what is in it is accessed only by who is counted.
//!
//! Cost: two atomic operations for each use of a handle.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::error::{Failure, Misuse};

/// How many freed slots wait before one is used again.
const QUARANTINE: usize = 256;

/// Longer than anybody holds the lock of a pool. A fork's child may find it held for ever, and goes
/// on without.
const PATIENCE: Duration = Duration::from_millis(20);

/// What a handle of some kind refers to.
pub(crate) trait Handle: Send + Sync + Sized + 'static {
    /// The type that C knows.
    type Opaque;
    /// Which kind it is: no other has this number, which is not 0.
    const KIND: u32;
    /// What it is called in messages.
    const NAME: &'static str;

    /// Where its slots are.
    fn pool() -> &'static Pool<Self>;
}

/// Makes a type that C knows by name only stand for what its handles refer to.
macro_rules! handle {
    ($opaque:ident, $inner:ty, $kind:expr) => {
        impl $crate::handle::Handle for $inner {
            type Opaque = $opaque;
            const KIND: u32 = $kind;
            const NAME: &'static str = stringify!($opaque);

            fn pool() -> &'static $crate::handle::Pool<Self> {
                static POOL: $crate::handle::Pool<$inner> = $crate::handle::Pool::new();
                &POOL
            }
        }
    };
}
pub(crate) use handle;

/// The kind in the upper half, 0 when it has been freed; in the lower half how many hold it.
#[repr(C)]
struct Slot<T> {
    state: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: what is in it is Send and Sync, as handles are, and the count says who may access it.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

/// The slots of a kind that wait to be used again.
pub(crate) struct Pool<T: 'static> {
    waiting: Mutex<VecDeque<&'static Slot<T>>>,
}

impl<T: Handle> Pool<T> {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: Mutex::new(VecDeque::new()),
        }
    }

    fn take(&self) -> Option<&'static Slot<T>> {
        let mut waiting = self.waiting.try_lock_for(PATIENCE)?;
        (waiting.len() > QUARANTINE)
            .then(|| waiting.pop_front())
            .flatten()
    }

    fn give(&self, slot: &'static Slot<T>) {
        // What cannot be given back is never used again.
        if let Some(mut waiting) = self.waiting.try_lock_for(PATIENCE) {
            waiting.push_back(slot);
        }
    }
}

const fn held(kind: u32, count: u64) -> u64 {
    (kind as u64) << 32 | count
}

/// Puts a value behind a new handle.
pub(crate) fn new<T: Handle>(value: T) -> *mut T::Opaque {
    let slot = T::pool().take().unwrap_or_else(|| {
        Box::leak(Box::new(Slot {
            state: AtomicU64::new(0),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }))
    });
    // SAFETY: nobody is counted: a slot that waits has been left by all, and this is its only new user.
    unsafe { (*slot.value.get()).write(value) };
    slot.state.store(held(T::KIND, 1), Ordering::Release);
    std::ptr::from_ref(slot).cast::<T::Opaque>().cast_mut()
}

/// Someone who uses a handle.
pub(crate) struct Held<T: Handle> {
    slot: &'static Slot<T>,
}

impl<T: Handle> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this one is counted, so the value has been written and not been dropped.
        unsafe { (*self.slot.value.get()).assume_init_ref() }
    }
}

impl<T: Handle> Drop for Held<T> {
    fn drop(&mut self) {
        let before = self.slot.state.fetch_sub(1, Ordering::AcqRel);
        if before == held(0, 1) {
            // SAFETY: the handle has been freed, and this was the last who held it.
            unsafe { (*self.slot.value.get()).assume_init_drop() };
            T::pool().give(self.slot);
        }
    }
}

/// The handle behind a pointer.
///
/// # Errors
/// It is null, has been freed, or is of another kind.
///
/// # Safety
/// It is null, or points to what this interface once handed out.
pub(crate) unsafe fn get<T: Handle>(pointer: *const T::Opaque) -> Result<Held<T>, Failure> {
    // protection: null-handles-are-refused
    if pointer.is_null() {
        return Err(Misuse::Null(T::NAME).into());
    }
    let refused = || Misuse::Handle(T::NAME).into();
    let word: *const AtomicU64 = pointer.cast();
    if !word.is_aligned() {
        return Err(refused());
    }
    // SAFETY: every handle begins with its state, and stays mapped.
    let state = unsafe { &*word };
    let mut seen = state.load(Ordering::Acquire);
    loop {
        // protection: freed-and-other-handles-are-refused
        if seen >> 32 != u64::from(T::KIND) {
            return Err(refused());
        }
        match state.compare_exchange_weak(seen, seen + 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => break,
            Err(now) => seen = now,
        }
    }
    let slot: *const Slot<T> = pointer.cast();
    // SAFETY: the kind says that it is such a slot.
    let slot = unsafe { &*slot };
    Ok(Held { slot })
}

/// Frees a handle: nobody finds what it refers to by it any more. Null is nothing to be freed.
///
/// # Errors
/// It has been freed already, or is of another kind.
///
/// # Safety
/// As for [`get`].
pub(crate) unsafe fn free<T: Handle>(pointer: *mut T::Opaque) -> Result<(), Failure> {
    if pointer.is_null() {
        return Ok(());
    }
    // SAFETY: the same.
    let handle = unsafe { get::<T>(pointer) }?;
    let state = &handle.slot.state;
    let mut seen = state.load(Ordering::Acquire);
    loop {
        // Another thread has freed it meanwhile.
        if seen >> 32 != u64::from(T::KIND) {
            return Err(Misuse::Handle(T::NAME).into());
        }
        // Without its kind, and without the one who had it.
        let freed = held(0, (seen & 0xffff_ffff) - 1);
        match state.compare_exchange_weak(seen, freed, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Ok(()),
            Err(now) => seen = now,
        }
    }
}

/// Where a new handle is to be put. It is null until then, also where a call fails.
pub(crate) struct HandleOut<T: Handle>(*mut *mut T::Opaque);

impl<T: Handle> HandleOut<T> {
    /// # Safety
    /// It is null, or may be written.
    pub(crate) unsafe fn new(to: *mut *mut T::Opaque) -> Result<Self, Failure> {
        if to.is_null() {
            return Err(Misuse::Null("the place for the handle").into());
        }
        // SAFETY: the caller says that it may be written.
        unsafe { to.write(std::ptr::null_mut()) };
        Ok(Self(to))
    }

    pub(crate) fn set(self, value: T) {
        let handle = new(value);
        // SAFETY: as in `new`.
        unsafe { self.0.write(handle) };
    }

    /// The same for what may not be there: then it stays null.
    pub(crate) fn set_some(self, value: Option<T>) {
        if let Some(value) = value {
            self.set(value);
        }
    }
}
