//! Frames of another process.
//!
//! **Problem.** Code leaves by a ramp in one process, and its handler is in another. **Approach.** The stacks of the
//! threads that execute the code are shared between both, at the same addresses (see
//! [`memory`](crate::memory)'s remote strategy). The executor's routine saves the registers on that stack as ever and
//! hands the addresses over; the controller looks at the very frame. Its answer is a word, as the dispatcher's is.
//!
//! **Invariants.** The controller believes nothing: the context is one that it made, looked up, never followed; what
//! was saved lies on the stack, both parts apart; and whatever a register says, nothing outside of the stack is read or
//! written for the frame. The executor's thread waits meanwhile. One that does not and changes its own stack
//! changes values that its handler reads, which it could have done before.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use parking_lot::Mutex;

use super::answer::Step;
use super::host::state::{self, RawState};
use super::lean::Registers;
use super::{Frame, RampContext, RampSite, ask, ramp};
use crate::addr::{CodeAddr, CodeRange};
use crate::engine::{ExitElsewhere, Role};
use crate::error::{Error, Result};

// ---- in the process that changes the code ----

/// The contexts of the ramps that another process executes, by address.
#[derive(Clone)]
pub(super) struct Contexts {
    capture: CodeAddr,
    known: Arc<Mutex<Known>>,
}

type Known = HashMap<u64, (Role, Arc<dyn RampSite>)>;

/// A context that is known as long as this lives.
pub(super) struct Kept {
    context: Box<RampContext>,
    known: Arc<Mutex<Known>>,
}

impl Contexts {
    pub(super) fn new(capture: CodeAddr) -> Self {
        Self {
            capture,
            known: Arc::default(),
        }
    }

    /// The routine that the ramps call.
    pub(super) fn capture(&self) -> u64 {
        self.capture.get()
    }

    pub(super) fn keep(&self, context: Box<RampContext>) -> Kept {
        let entry = (context.role, Arc::clone(&context.site));
        self.known.lock().insert(&raw const *context as u64, entry);
        Kept {
            context,
            known: Arc::clone(&self.known),
        }
    }

    /// Asks the handler of a ramp. `None` for a context that is none of these.
    pub(super) fn exit(&self, exit: &ExitElsewhere) -> Result<Option<u64>> {
        let Some((role, site)) = self.known.lock().get(&exit.context).cloned() else {
            return Ok(None);
        };
        // protection: remote-frames-are-on-their-stack
        check(exit)?;
        let (raw, save) = (exit.raw as *mut RawState, exit.save as *mut u8);
        // SAFETY: both are on the stack and apart, as was checked; that is mapped here, its thread waits, and nobody
        // else in this process looks at it.
        let captured = unsafe { state::Captured::new(raw, save) };
        let site_stack = captured.base(state::STACK_POINTER).map(CodeAddr::new);
        if !site_stack.is_some_and(|at| exit.stack.contains_bytes(at, 8)) {
            return Err(wrong("a frame that is not on its stack"));
        }
        let mut frame = Frame::new(Registers::All(captured), &*site, role).within(exit.stack);
        let answer = ask(&*site, &mut frame);
        // SAFETY: the answer was made by this frame.
        match unsafe { frame.carry_out(answer) } {
            Step::Answer(word) => Ok(Some(word)),
            Step::Lay(_) => Err(wrong("a frame that was to be replaced")),
        }
    }
}

impl Kept {
    /// What the ramp hands over.
    pub(super) fn address(&self) -> u64 {
        &raw const *self.context as u64
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.known.lock().remove(&self.address());
    }
}

fn wrong(why: &'static str) -> Error {
    let during = "a thread left compiled code";
    Error::ExecutorAnswer { during, why }
}

/// Whether what was saved is on the stack.
fn check(exit: &ExitElsewhere) -> Result<()> {
    let range = |start, len| {
        let range = CodeRange::new(CodeAddr::new(start), len);
        range.filter(|range| exit.stack.contains_bytes(range.start(), range.len()))
    };
    let raw = range(exit.raw, size_of::<RawState>() as u64);
    let raw = raw.ok_or(wrong("registers that are not on its stack"))?;
    let save = range(exit.save, state::saved_len() as u64);
    let save = save.ok_or(wrong("vector registers that are not on its stack"))?;
    if raw.overlaps(save) || exit.raw % align_of::<RawState>() as u64 != 0 {
        return Err(wrong("registers that overlap, or are where none can be"));
    }
    Ok(())
}

// ---- in the process that executes the code ----

/// By which a thread reaches the process that changes its code.
pub(crate) trait Line {
    /// The thread has left compiled code: returns what its routine is to do.
    fn exit(&self, context: u64, raw: u64, save: u64) -> u64;
}

thread_local! {
    static LINE: RefCell<Option<Rc<dyn Line>>> = const { RefCell::new(None) };
}

/// Makes what this thread does when it leaves code by a ramp the business of another process, for good.
pub(crate) fn set_line(line: Rc<dyn Line>) {
    LINE.set(Some(line));
}

/// Asks the other process, if this thread executes its code.
pub(super) fn pass_on(context: u64, raw: u64, save: u64) -> Option<u64> {
    let line = LINE.with_borrow(Clone::clone)?;
    Some(line.exit(context, raw, save))
}

/// The routine that ramps call in this process, which is made ready.
pub(crate) fn capture() -> CodeAddr {
    state::prepare();
    CodeAddr::new(ramp::capture())
}

/// How many bytes of vector registers that routine saves.
pub(crate) fn saved_len() -> u64 {
    state::saved_len() as u64
}

/// Whether returns of this thread are checked by a shadow stack.
pub(crate) fn has_shadow_stack() -> bool {
    state::has_shadow_stack()
}

/// Calls a function of the code that another process wrote here, with integer arguments.
pub(crate) fn call(at: CodeAddr, args: [u64; 6]) -> u64 {
    // SAFETY: the address is in code of the other process's, as was checked. That this is a function of up to six
    // integers is that process's promise, which could have written any code here.
    let function: extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64 =
        unsafe { core::mem::transmute(at.get() as usize) };
    let [a, b, c, d, e, f] = args;
    function(a, b, c, d, e, f)
}

/// A thread on a stack that two processes share.
#[derive(Debug)]
pub(crate) struct StackThread(libc::pthread_t);

// SAFETY: a thread can be joined by any other.
unsafe impl Send for StackThread {}

type Work = Box<dyn FnOnce() + Send>;

impl StackThread {
    /// Starts a thread on this stack, which is mapped, writable and used by nobody until the thread has been joined.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn start(stack: CodeRange, work: Work) -> io::Result<Self> {
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
                drop(unsafe { Box::from_raw(work.cast::<Work>()) });
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
    let work = unsafe { Box::from_raw(work.cast::<Work>()) };
    // A panic cannot leave the routine: it ends the process.
    work();
    core::ptr::null_mut()
}
