//! Worlds that the caller stops by callbacks.

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use patchpoint::publish::{self, Resumption, Stopped, Vacated, World};

use crate::error::{Misuse, Result};
use crate::guard::{Data, callback, pp_finalizer};
use crate::types::{Growing, read};

/// What is done while the world is stopped: to be called with the argument that came with it.
pub type pp_work = Option<unsafe extern "C" fn(argument: *mut c_void)>;

/// Stops every other thread, calls the work once, on this thread, and lets them go.
pub type pp_while_stopped =
    Option<unsafe extern "C-unwind" fn(work: pp_work, argument: *mut c_void, data: *mut c_void) -> bool>;

/// What stopped threads do before they execute code again.
#[repr(C)]
pub enum pp_resumption {
    /// Nothing is promised: the engine publishes to them before they are let go.
    PP_RESUMPTION_UNKNOWN = 0,
    /// Each executes a serializing instruction before any of the engine's code, such as by
    /// pp_serialize().
    PP_RESUMPTION_SERIALIZES = 1,
    /// There are no other threads.
    PP_RESUMPTION_ALONE = 2,
}

/// How the caller stops its threads. `size` comes first, see the head of this file.
///
/// `while_stopped` brings every other thread to a place outside of the engine's code and keeps it
/// there, calls `work(argument)` exactly once, on its own thread, lets the threads go and returns
/// true; or it calls nothing and returns false, and the change is refused. While the work runs no
/// thread has its program counter in code that the engine may patch, in any stub of it, or in a signal
/// handler that goes there, and none will go there; return addresses may point there. It may be called
/// from any thread that patches, from a handler too, and by two threads at once. It calls no other
/// function of this interface.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_world {
    /// The size of this structure.
    pub size: usize,
    /// See above.
    pub while_stopped: pp_while_stopped,
    /// What it is called with.
    pub data: *mut c_void,
    /// Frees the data when no engine has the world any more.
    pub finalizer: pp_finalizer,
    /// One of pp_resumption, true of every thread that was stopped.
    pub resumption: u32,
}

// SAFETY: numbers, pointers and optional functions, of which zeros are values; other functions are the caller's.
unsafe impl Growing for pp_world {}

/// The same as the engine knows it.
pub(crate) struct CWorld {
    while_stopped: unsafe extern "C-unwind" fn(pp_work, *mut c_void, *mut c_void) -> bool,
    data: Data,
    resumption: Resumption,
}

impl CWorld {
    /// # Safety
    /// As for [`read`]; what the structure promises is true.
    pub(crate) unsafe fn read(world: *const pp_world) -> Result<Self> {
        // SAFETY: the same.
        let world = unsafe { read(world) }?;
        let while_stopped = world.while_stopped.ok_or(Misuse::Null("while_stopped"))?;
        let resumption = match world.resumption {
            0 => Resumption::Unknown,
            1 => Resumption::Serializes,
            2 => Resumption::Alone,
            other => return Err(Misuse::Number("pp_resumption", other.into()).into()),
        };
        Ok(Self {
            while_stopped,
            data: Data::new(world.data, world.finalizer),
            resumption,
        })
    }
}

impl fmt::Debug for CWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CWorld")
            .field("resumption", &self.resumption)
            .finish_non_exhaustive()
    }
}

/// Work on its way through C.
struct Passed<'a> {
    work: &'a mut dyn FnMut(&Stopped),
    calls: usize,
    panic: Option<Box<dyn std::any::Any + Send>>,
}

/// What C calls as the work.
unsafe extern "C" fn run(argument: *mut c_void) {
    // SAFETY: `while_stopped` hands on the argument that it was given, during its call, on its thread.
    let passed = unsafe { &mut *argument.cast::<Passed<'_>>() };
    passed.calls += 1;
    if passed.calls > 1 {
        return;
    }
    let work = AssertUnwindSafe(|| {
        // SAFETY: `while_stopped` promises that the threads are stopped now.
        (passed.work)(&unsafe { Stopped::promise() });
    });
    passed.panic = catch_unwind(work).err();
}

// SAFETY: the work is called at most once, by `run`, on this thread if `while_stopped` does what it promises; if it was
// not called that is an error. The rest is promised by whoever gives a `pp_world`.
unsafe impl World for CWorld {
    fn while_stopped(&self, _vacated: &[Vacated], work: &mut dyn FnMut(&Stopped)) -> publish::Result<()> {
        let mut passed = Passed {
            work,
            calls: 0,
            panic: None,
        };
        let argument = std::ptr::from_mut(&mut passed).cast();
        callback("while_stopped", || {
            // SAFETY: the caller of the interface promises that it can be called so.
            unsafe { (self.while_stopped)(Some(run), argument, self.data.get()) }
        });
        if let Some(panic) = passed.panic {
            resume_unwind(panic);
        }
        // What has been written has been written, whatever it answers.
        match passed.calls {
            0 => Err(publish::Error::WorldNotStopped {
                why: "while_stopped has not called the work: it could not stop the threads",
            }),
            _ => Ok(()),
        }
    }

    fn resumption(&self) -> Resumption {
        self.resumption
    }
}
