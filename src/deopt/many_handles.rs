//! Handles of one module for many, which are counted at once.
//!
//! Problem: each of thousands of exit stubs that are made at once keeps its site's module. A handle for each
//! counts up what all of them share, and waits each time for what was written of the exit stub before: with
//! another locked instruction that is gone, that was a seventh of an invalidation of thousands of sites.
//! Approach: they share one handle, which is counted once, by how many they are, and down by each that
//! goes.

#![allow(unsafe_code)]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::boxed::Box;

use crate::site::Module;

/// The handle, and how many share it.
struct Handle {
    module: Module,
    users: AtomicUsize,
}

/// What hands out shares of a handle.
pub(super) struct Many {
    handle: NonNull<Handle>,
    /// How many were not handed out.
    left: usize,
}

/// A share of a handle, which keeps the module.
pub(super) struct OneOfMany(NonNull<Handle>);

// SAFETY: of what it points to, the module can be shared, and users are counted.
unsafe impl Send for OneOfMany {}
// SAFETY: as above.
unsafe impl Sync for OneOfMany {}

impl Many {
    /// A handle that so many can share.
    pub(super) fn new(module: &Module, count: usize) -> Self {
        let handle = Box::new(Handle {
            module: module.clone(),
            // One more, for this.
            users: AtomicUsize::new(count + 1),
        });
        Self {
            handle: NonNull::from(Box::leak(handle)),
            left: count,
        }
    }

    /// A share of it.
    ///
    /// # Panics
    /// As many were handed out as can share it.
    pub(super) fn one(&mut self) -> OneOfMany {
        let left = self.left.checked_sub(1);
        self.left = left.expect("no more share a handle than it was made for");
        OneOfMany(self.handle)
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        // SAFETY: what was not handed out was counted, and so was this.
        unsafe { lose(self.handle, self.left + 1) };
    }
}

impl OneOfMany {
    pub(super) fn module(&self) -> &Module {
        // SAFETY: it is there as long as one is left that shares it, as this does.
        unsafe { &self.0.as_ref().module }
    }
}

impl Drop for OneOfMany {
    fn drop(&mut self) {
        // SAFETY: each that was handed out was counted.
        unsafe { lose(self.0, 1) };
    }
}

/// Counts down by so many users, of whom the last frees the handle.
///
/// # Safety
/// They were counted, and use it no more.
unsafe fn lose(handle: NonNull<Handle>, users: usize) {
    // SAFETY: users that were counted are left until here.
    let before = unsafe { handle.as_ref() }
        .users
        .fetch_sub(users, Ordering::AcqRel);
    // protection: shared-handles-go-with-their-last-user
    if before == users {
        // SAFETY: it was made by a box, and nobody else uses it.
        drop(unsafe { Box::from_raw(handle.as_ptr()) });
    }
}
