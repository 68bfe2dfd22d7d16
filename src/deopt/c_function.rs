//! C functions as handlers.
//!
//! Problem: a runtime that is not written in Rust has its lookup as a C function and data that it
//! works on. Approach: a [`CFunction`] is both, with the promises that a closure makes by its type.
//! It is called with a record that a C header can declare, and only computes a result: the code
//! resumes, as after any call. What else a handler can answer takes a closure.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::fmt;

use smallvec::SmallVec;

use super::{Answer, Frame};

/// A C function, `void function(void *data, T *call)`, with the data that it is called with.
pub struct CFunction<T> {
    function: unsafe extern "C" fn(data: *mut c_void, call: *mut T),
    data: *mut c_void,
}

// SAFETY: `new` promises that it may be called from any thread.
unsafe impl<T> Send for CFunction<T> {}
// SAFETY: the same, from several at once.
unsafe impl<T> Sync for CFunction<T> {}

impl<T> CFunction<T> {
    /// The function, called with this data.
    ///
    /// # Safety
    /// As long as this value exists, the function may be called with this data, and a `T` that is valid during the call,
    /// from every thread that executes compiled code, from several at once and again while it runs. It neither unwinds
    /// nor jumps out, and leaves a valid `T`: what it answers is right for the site, as a handler's answer is, and an address in
    /// it is as [`Sequence::call`](crate::sequence::Sequence::call) demands.
    pub const unsafe fn new(
        function: unsafe extern "C" fn(data: *mut c_void, call: *mut T),
        data: *mut c_void,
    ) -> Self {
        Self { function, data }
    }

    pub(crate) fn call(&self, call: &mut T) {
        // SAFETY: `new` promises that it may be called.
        unsafe { (self.function)(self.data, call) }
    }
}

impl<T> fmt::Debug for CFunction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CFunction")
            .field("function", &(self.function as *const ()))
            .field("data", &self.data)
            .finish()
    }
}

/// What a C function is told of an execution of a site, and answers:
///
/// ```c
/// struct patchpoint_call {
///     uint64_t site, id;
///     const uint64_t *args;
///     size_t arg_count;
///     uint64_t result;
/// };
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct CCall {
    /// The address of the site.
    pub site: u64,
    /// The ID of its record.
    pub id: u64,
    /// The site's arguments, the receiver usually first, each extended by zeros to 8 bytes; valid
    /// during the call.
    pub args: *const u64,
    /// How many arguments there are, up to the first that is longer than 8 bytes.
    pub arg_count: usize,
    /// To be set: what the site returns, as far as its result has bytes. It is 0 before.
    pub result: u64,
}

impl CCall {
    /// Shows the arguments of the frame to `call`, which returns the result, that the frame gets,
    /// and more.
    pub(crate) fn of<R>(frame: &mut Frame<'_>, call: impl FnOnce(Self) -> (u64, R)) -> R {
        let args: SmallVec<[u64; 8]> = (0..).map_while(|index| frame.arg(index).ok()?.u64()).collect();
        let (result, more) = call(Self {
            site: frame.pc().get(),
            id: frame.context().id.get(),
            args: args.as_ptr(),
            arg_count: args.len(),
            result: 0,
        });
        // Refused where the shape has no result; nobody waits for one then.
        let _ = frame.set_word(result);
        more
    }
}

/// Resumes with the result of a C function.
pub(super) fn answer<'f>(function: &CFunction<CCall>, frame: &mut Frame<'f>) -> Answer<'f> {
    CCall::of(frame, |mut call| {
        function.call(&mut call);
        (call.result, ())
    });
    frame.resume()
}
