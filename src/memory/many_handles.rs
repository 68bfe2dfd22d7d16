//! Handles of one thing for many, which are counted at once.
//!
//! Problem: each of thousands of exit stubs that are made at once keeps its block and its site's module. A
//! handle for each counts up what all of them share, and waits each time for what was written of the exit
//! stub before: of the module alone, and with another locked instruction that is gone, that was a seventh
//! of an invalidation of thousands of sites. Approach: they share one handle, which is counted once, by how
//! many they are, and down by each that goes.

#![allow(unsafe_code)]

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is shared, and by how many.
struct Shared<T> {
    value: T,
    users: AtomicUsize,
}

/// What hands out handles.
pub(crate) struct ManyHandles<T> {
    shared: NonNull<Shared<T>>,
    /// How many were not handed out.
    left: usize,
}

/// One of many handles.
pub(crate) struct OneOfMany<T>(NonNull<Shared<T>>);

// SAFETY: users of what can be shared are counted, and the last frees it, on any thread.
unsafe impl<T: Send + Sync> Send for OneOfMany<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for OneOfMany<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for ManyHandles<T> {}

impl<T> ManyHandles<T> {
    /// As many handles.
    pub(crate) fn new(value: T, count: usize) -> Self {
        let shared = Box::new(Shared {
            value,
            // One more, for this.
            users: AtomicUsize::new(count + 1),
        });
        Self {
            shared: NonNull::from(Box::leak(shared)),
            left: count,
        }
    }

    /// One of them.
    ///
    /// # Panics
    /// All have been handed out.
    #[inline]
    pub(crate) fn one(&mut self) -> OneOfMany<T> {
        let left = self.left.checked_sub(1);
        self.left = left.expect("as many are handed out as there are");
        OneOfMany(self.shared)
    }
}

impl<T> Drop for ManyHandles<T> {
    fn drop(&mut self) {
        // SAFETY: what was not handed out was counted, and so was this.
        unsafe { lose(self.shared, self.left + 1) };
    }
}

impl<T> OneOfMany<T> {
    /// The only one.
    pub(crate) fn alone(value: T) -> Self {
        ManyHandles::new(value, 1).one()
    }
}

impl<T> Deref for OneOfMany<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: it is there as long as one of its handles is.
        unsafe { &self.0.as_ref().value }
    }
}

impl<T> Drop for OneOfMany<T> {
    fn drop(&mut self) {
        // SAFETY: each that was handed out was counted.
        unsafe { lose(self.0, 1) };
    }
}

/// Counts down by so many users, of whom the last frees what is shared.
///
/// # Safety
/// They were counted, and use it no more.
unsafe fn lose<T>(shared: NonNull<Shared<T>>, users: usize) {
    // SAFETY: users that were counted are left until here.
    let before = unsafe { shared.as_ref() }
        .users
        .fetch_sub(users, Ordering::AcqRel);
    // protection: shared-handles-go-with-their-last-user
    if before == users {
        // SAFETY: it was made by a box, and nobody else uses it.
        drop(unsafe { Box::from_raw(shared.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    /// Whatever comes last: what hands them out, or one of them, on any thread.
    #[test]
    fn what_is_shared_goes_with_the_last_handle() {
        for handed_out in 0..4 {
            for first in [false, true] {
                let value = Arc::new(());
                let mut handles = ManyHandles::new(Arc::clone(&value), 3);
                let out: Vec<_> = (0..handed_out.min(3)).map(|_| handles.one()).collect();
                assert!(out.iter().all(|one| Arc::ptr_eq(one, &value)));
                let mut handles = Some(handles);
                if first {
                    handles = None;
                }
                let threads = out.into_iter().map(|one| {
                    assert_eq!(Arc::strong_count(&value), 2);
                    thread::spawn(move || drop(one))
                });
                threads.for_each(|thread| thread.join().unwrap());
                assert_eq!(Arc::strong_count(&value), if first { 1 } else { 2 });
                drop(handles);
                assert_eq!(Arc::strong_count(&value), 1);
            }
        }
        let value = Arc::new(());
        let alone = OneOfMany::alone(Arc::clone(&value));
        assert_eq!(Arc::strong_count(&value), 2);
        drop(alone);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    #[should_panic(expected = "as many are handed out as there are")]
    fn no_more_are_handed_out_than_there_are() {
        let mut handles = ManyHandles::new((), 1);
        let _one = handles.one();
        handles.one();
    }
}
