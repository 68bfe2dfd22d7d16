//! Thread-local variables of linked code.
//!
//! Problem: the thread-local storage of ELF is laid out by the system's loader for the modules that
//! it knows: what is linked later has no module number, no offset from the thread pointer, and no
//! place in the table that `__tls_get_addr` reads. So its relocations are refused, each with its
//! symbol ([`Error::ThreadLocal`](super::Error::ThreadLocal)). Approach: *emulated* thread-local
//! storage, for which clang (`-femulated-tls`) and llc (`-emulated-tls`) emit ordinary data and
//! calls of one function, on every architecture and in every relocation model. That function is
//! here, for code that runs in this process: [`emulated_tls`] resolves it.
//!
//! Each variable has a control record in the object's data: its size, its alignment, a word that is
//! the function's own, and a pointer to what it starts as, or none if that is zeros (LLVM,
//! `lib/CodeGen/LowerEmuTLS.cpp`). At a thread's first use it gets a copy, which lives as long as
//! the thread.
//!
//! Invariants: a variable's number is given once in the life of the process, so that no variable
//! finds the copies of one whose code has been unloaded; those go with their threads. Cost: a hash
//! lookup for each use; an allocation for each variable and thread.
#![allow(unsafe_code, reason = "compiled code passes pointers to its data")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::collections::HashMap;
use std::process::abort;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::addr::CodeAddr;

/// The function's name.
const EMULATED: &str = "__emutls_get_address";

/// The address of the function that code with emulated thread-local storage calls, by its name;
/// `None` for other names. A resolver asks it first:
///
/// ```
/// use patchpoint::addr::CodeAddr;
/// use patchpoint::image;
///
/// let resolve = |name: &str| image::emulated_tls(name).or_else(|| lookup(name));
/// # fn lookup(_: &str) -> Option<CodeAddr> { None }
/// assert!(resolve("__emutls_get_address").is_some());
/// ```
///
/// It is for code that this process executes. It allocates, so signal handlers may not use
/// variables that their thread has not used before; without memory it ends the process, as it
/// cannot say so to compiled code. A variable that is used while its thread's own variables are
/// being destroyed gets a copy that is never freed.
#[must_use]
pub fn emulated_tls(name: &str) -> Option<CodeAddr> {
    let function = get_address as unsafe extern "C" fn(*const Control) -> *mut u8;
    (name == EMULATED).then(|| CodeAddr::new(function as usize as u64))
}

/// What the compiler emits for each variable, as `__emutls_v.NAME`.
#[repr(C)]
struct Control {
    size: usize,
    align: usize,
    /// 0 until it has one.
    number: AtomicUsize,
    initial: *const u8,
}

/// A variable of one thread.
struct Copy {
    start: NonNull<u8>,
    layout: Layout,
}

impl Drop for Copy {
    fn drop(&mut self) {
        // SAFETY: nobody refers to it any more.
        // protection: copies-end-with-threads
        unsafe { self.free() };
    }
}

impl Copy {
    /// Frees its bytes.
    ///
    /// # Safety
    ///
    /// They are not used afterwards.
    unsafe fn free(&mut self) {
        #[cfg(test)]
        tests::freed(self.layout.size());
        // SAFETY: `start` was allocated with this layout by `Control::copy`, and the caller stops using it.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

thread_local! {
    /// By the variable's number.
    static COPIES: RefCell<HashMap<usize, Copy>> = RefCell::new(HashMap::new());
}

impl Control {
    /// The variable's number, given at its first use by any thread.
    fn number(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let known = self.number.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        // protection: copies-of-what-was-unloaded
        let new = NEXT.fetch_add(1, Ordering::Relaxed);
        // The number is all that threads tell each other.
        let given = self
            .number
            .compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
        given.map_or_else(|first| first, |_| new)
    }

    /// A new copy of the variable, as it starts; `None` without memory for it, or if it cannot be
    /// that large or aligned so.
    ///
    /// # Safety
    /// `initial` is null, or points to `size` bytes that may be read.
    unsafe fn copy(&self) -> Option<Copy> {
        let layout = Layout::from_size_align(self.size.max(1), self.align.max(1)).ok()?;
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        if !self.initial.is_null() {
            // SAFETY: the caller vouches for `size` bytes to read; as many were allocated for this copy alone.
            unsafe {
                start.copy_from_nonoverlapping(NonNull::new_unchecked(self.initial.cast_mut()), self.size)
            };
        }
        Some(Copy { start, layout })
    }
}

/// The address of the calling thread's copy of a variable.
///
/// # Safety
/// `control` points to a control record that a compiler has emitted, in memory that may be read and whose third word may be
/// written, for as long as code that uses the variable runs.
unsafe extern "C" fn get_address(control: *const Control) -> *mut u8 {
    // SAFETY: the caller vouches for the record, of which only `number`, an atomic, is ever written.
    let control = unsafe { &*control };
    let number = control.number();
    // SAFETY: what a compiler emits points to as many bytes as it says the variable has, or is null.
    let copy = || unsafe { control.copy() }.unwrap_or_else(|| abort());
    let found = COPIES.try_with(|copies| {
        let mut copies = copies.try_borrow_mut().ok()?;
        Some(copies.entry(number).or_insert_with(copy).start)
    });
    match found {
        Ok(Some(start)) => start.as_ptr(),
        // The table is gone, or a signal handler has come between.
        Err(_) => {
            let start = copy();
            core::mem::ManuallyDrop::new(start).start.as_ptr()
        }
        Ok(None) => abort(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(size: usize, align: usize, initial: Option<&'static [u8]>) -> Control {
        Control {
            size,
            align,
            number: AtomicUsize::new(0),
            initial: initial.map_or(core::ptr::null(), <[u8]>::as_ptr),
        }
    }

    fn get(control: &Control) -> *mut u8 {
        // SAFETY: the records of these tests are as a compiler makes them.
        unsafe { get_address(control) }
    }

    #[test]
    fn each_thread_has_its_own() {
        static INITIAL: [u8; 3] = [7, 8, 9];
        struct Shared(Control);
        // SAFETY: a record's pointer is to constant data, and its number is atomic.
        unsafe impl Sync for Shared {}
        static VARIABLE: Shared = Shared(Control {
            size: 3,
            align: 64,
            number: AtomicUsize::new(0),
            initial: INITIAL.as_ptr(),
        });
        let add = || {
            let start = get(&VARIABLE.0);
            assert_eq!(start, get(&VARIABLE.0));
            assert_eq!(start as usize % 64, 0);
            // SAFETY: this thread's copy, of 3 bytes.
            let bytes = unsafe { core::slice::from_raw_parts_mut(start, 3) };
            bytes[1] += 1;
            bytes.to_vec()
        };
        assert_eq!(add(), [7, 9, 9]);
        assert_eq!(add(), [7, 10, 9]);
        for _ in 0..4 {
            assert_eq!(std::thread::spawn(add).join().unwrap(), [7, 9, 9]);
        }
        assert_eq!(add(), [7, 11, 9]);
    }

    static FREED: AtomicUsize = AtomicUsize::new(0);
    /// A size that no other test has.
    const WATCHED: usize = 12_345;

    pub(super) fn freed(size: usize) {
        FREED.fetch_add(usize::from(size == WATCHED), Ordering::Relaxed);
    }

    #[test]
    fn copies_are_freed_with_their_thread() {
        let use_both = || {
            let [first, second] = [control(WATCHED, 16, None), control(0, 1, None)];
            // SAFETY: this thread's copy, of so many bytes.
            let bytes = unsafe { core::slice::from_raw_parts(get(&first), WATCHED) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            get(&second);
            FREED.load(Ordering::Relaxed)
        };
        for thread in 0..3 {
            assert_eq!(std::thread::spawn(use_both).join().unwrap(), thread);
            assert_eq!(FREED.load(Ordering::Relaxed), thread + 1);
        }
    }

    /// Data that is loaded again where other data was finds no copies of that.
    #[test]
    fn numbers_are_given_once() {
        let mut record = control(1, 1, Some(&[5]));
        let first = get(&record);
        // SAFETY: this thread's copy, of a byte.
        unsafe { first.write(6) };
        record.number = AtomicUsize::new(0);
        let second = get(&record);
        // SAFETY: as above.
        assert_eq!(unsafe { (first.read(), second.read()) }, (6, 5));
    }
}
