//! Both ways over the border: calls that come from C, and callbacks that go there.
//!
//! Problem: a panic must not reach C, and neither a C++ exception nor a `longjmp` of a callback may
//! go through the library, which would be left in the middle of something. Approach: each call from
//! C catches panics and makes an error of them. Each callback is entered under a guard. An exception
//! that comes out of it finds the guard, which ends the process with a message. A `longjmp` finds
//! nothing: but when the thread next calls the library, its stack pointer is above a guard that is
//! still set, which cannot be otherwise, and then the process is ended too.
//!
//! A handler may go on with another stack, as coroutines do. Addresses are therefore compared only
//! where both are of the stack that the system gave the thread.

use std::cell::Cell;
use std::ffi::c_void;
use std::io::Write;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Failure, Result, pp_error};

/// Frees what a callback was given with it. It is called once, when nothing will call the callback
/// any more, on whichever thread that is found. Null where there is nothing to be freed.
pub type pp_finalizer = Option<unsafe extern "C-unwind" fn(data: *mut c_void)>;

/// The innermost guard of a thread: where it is, and what was entered. Where it is 0 there is none.
#[derive(Clone, Copy)]
struct Innermost {
    at: usize,
    what: &'static str,
}

thread_local! {
    static INNERMOST: Cell<Innermost> = const { Cell::new(Innermost { at: 0, what: "" }) };
}

/// Runs what C has called.
pub(crate) fn call(body: impl FnOnce() -> Result<()>) -> *mut pp_error {
    refuse_left_guards();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => std::ptr::null_mut(),
        Ok(Err(failure)) => failure.into_handle(),
        Err(panic) => Failure::of_panic(&*panic).into_handle(),
    }
}

/// Runs the body of a function of the interface, which may use what the caller has handed over.
macro_rules! boundary {
    ($body:expr) => {
        // SAFETY: the caller's pointers are as the head of the header says: null, handles of this interface, or valid
        // for what the function's own text says. What else it promises is in that text too.
        $crate::guard::call(|| {
            #[allow(unused_unsafe, reason = "what a body promises besides is said where it does")]
            // SAFETY: see above.
            unsafe {
                $body
            }
        })
    };
}
pub(crate) use boundary;

/// Ends the process where a callback has been left without returning.
fn refuse_left_guards() {
    let innermost = INNERMOST.get();
    if innermost.at == 0 {
        return;
    }
    let here = 0_u8;
    let here = std::ptr::from_ref(&here).addr();
    // protection: jumps-out-of-callbacks-end-the-process
    if innermost.at < here && own_stack().is_some_and(|(low, high)| low <= innermost.at && here < high) {
        end(innermost.what, "was left by longjmp");
    }
}

/// The bounds of the stack that the system gave this thread.
fn own_stack() -> Option<(usize, usize)> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut low, mut len) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are written by the first call, read by the second, and freed by the third.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let found = libc::pthread_attr_getstack(attributes.as_ptr(), &mut low, &mut len);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (found == 0).then(|| (low.addr(), low.addr().saturating_add(len)))
    }
}

fn end(what: &str, how: &str) -> ! {
    // Not by a macro for printing: what those print can be kept back, and would be lost with the process.
    let _ = writeln!(
        std::io::stderr(),
        "patchpoint: {what} {how}; callbacks return to the library, which would be left in the middle of its work"
    );
    std::process::abort()
}

/// As long as a callback runs.
struct Guard {
    outer: Innermost,
    what: &'static str,
    has_returned: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // protection: exceptions-in-callbacks-end-the-process
        if !self.has_returned {
            end(self.what, "was left by an exception");
        }
        INNERMOST.set(self.outer);
    }
}

/// Runs a callback of the caller's.
pub(crate) fn callback<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
    refuse_left_guards();
    let run = || {
        let mut guard = Guard {
            outer: INNERMOST.get(),
            what,
            has_returned: false,
        };
        let at = std::ptr::from_ref(&guard).addr();
        INNERMOST.set(Innermost { at, what });
        let result = work();
        guard.has_returned = true;
        result
    };
    // An exception for which nobody is there would end the process where it is thrown, and not say why.
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result,
        Err(_) => end(what, "was left by an exception"),
    }
}

/// What a callback is called with, and how it is freed.
pub(crate) struct Data {
    data: *mut c_void,
    finalizer: pp_finalizer,
}

// SAFETY: callbacks are called on any thread, with their data: the contract of the header.
unsafe impl Send for Data {}
// SAFETY: the same, on several at once.
unsafe impl Sync for Data {}

impl Data {
    pub(crate) const fn new(data: *mut c_void, finalizer: pp_finalizer) -> Self {
        Self { data, finalizer }
    }

    pub(crate) const fn get(&self) -> *mut c_void {
        self.data
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if let Some(finalizer) = self.finalizer {
            // SAFETY: the contract of the header: it can be called with this data, once.
            callback("a finalizer", || unsafe { finalizer(self.data) });
        }
    }
}
