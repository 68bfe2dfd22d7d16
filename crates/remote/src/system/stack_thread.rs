//! A thread on a stack that two processes share.

use std::ffi::c_void;
use std::io;

use patchpoint::addr::CodeRange;

/// A thread on a stack that two processes share.
#[derive(Debug)]
pub(crate) struct StackThread(libc::pthread_t);

// SAFETY: a thread can be joined by any other.
unsafe impl Send for StackThread {}

type Job = Box<dyn FnOnce() + Send>;

impl StackThread {
    /// Starts a thread on this stack, which is mapped, writable and used by nobody until the thread
    /// has been joined.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn start(stack: CodeRange, work: Job) -> io::Result<Self> {
        // SAFETY: all zero is a valid value of this structure, which is only written.
        let mut attributes: libc::pthread_attr_t = unsafe { core::mem::zeroed() };
        let refused = |errno| match errno {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        };
        // SAFETY: initializes it.
        refused(unsafe { libc::pthread_attr_init(&raw mut attributes) })?;
        let start = stack.start().get() as *mut c_void;
        // SAFETY: initialized above; the system checks the length.
        let set = unsafe { libc::pthread_attr_setstack(&raw mut attributes, start, stack.len() as usize) };
        let work = Box::into_raw(Box::new(work)).cast::<c_void>();
        // A number or a pointer.
        // SAFETY: all zero is a value of either, and only written.
        let mut thread: libc::pthread_t = unsafe { core::mem::zeroed() };
        let started = refused(set).and_then(|()| {
            // SAFETY: the stack is as the caller says; the routine takes what is passed.
            refused(unsafe { libc::pthread_create(&raw mut thread, &raw const attributes, run, work) })
        });
        // SAFETY: initialized above, not used any more.
        unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
        match started {
            Ok(()) => Ok(Self(thread)),
            Err(error) => {
                // SAFETY: made above, and no thread has taken it.
                drop(unsafe { Box::from_raw(work.cast::<Job>()) });
                Err(error)
            }
        }
    }

    /// Waits a second for its end. If that does not come, the stack stays in use.
    pub(crate) fn join(self) -> core::result::Result<(), Self> {
        for _ in 0..1000 {
            // SAFETY: a thread that nobody has joined.
            if unsafe { libc::pthread_tryjoin_np(self.0, core::ptr::null_mut()) } == 0 {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Err(self)
    }
}

extern "C" fn run(work: *mut c_void) -> *mut c_void {
    // SAFETY: what `start` made, given away to this thread.
    let work = unsafe { Box::from_raw(work.cast::<Job>()) };
    // A panic cannot leave the routine: it ends the process.
    work();
    core::ptr::null_mut()
}
