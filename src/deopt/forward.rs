//! Exits that are handled by somebody else.
//!
//! **Problem.** Code may leave by an exit stub in one place, and its handler be in another: see
//! [`Mirror`](crate::memory::Mirror). **Approach.** Where the code is executed, the routine saves
//! the registers as ever, on the thread's stack, and the thread hands the addresses to who forwards
//! its exits. The answer is a word, as the dispatcher's is.

#![allow(unsafe_code)]

use core::cell::Cell;
use core::ptr;

use super::exit_stub;
use super::host::state;
use crate::addr::CodeAddr;

/// The routine of this process that exit stubs call, which saves the registers. A stub that is made
/// for another place names the routine there; both must save the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Where it is.
    pub routine: CodeAddr,
    /// How many bytes of vector registers it saves.
    pub vectors: u64,
    /// Whether returns of this thread are checked by a shadow stack: then a frame can only be
    /// resumed.
    pub shadow_stack: bool,
}

impl Capture {
    /// That of this process, which is made ready to be called.
    #[must_use]
    pub fn here() -> Self {
        state::prepare();
        Self {
            routine: CodeAddr::new(exit_stub::capture()),
            vectors: state::saved_len() as u64,
            shadow_stack: state::has_shadow_stack(),
        }
    }
}

/// Asks the handlers of exits in the place of this process.
///
/// # Safety
/// [`forward`](Self::forward) returns what [`Engine::handle_exit`](crate::engine::Engine::handle_exit) does for these words and
/// this thread's stack, by the engine whose exit stub it was; that handler has decided where the code goes on.
pub unsafe trait ForwardExit {
    /// This thread has left compiled code by an exit stub: returns what its routine is to do. The
    /// words are what [`SavedFrame::new`](crate::engine::SavedFrame::new) takes.
    fn forward(&self, saved: [u64; 3]) -> u64;
}

/// Whom this thread asks; null for nobody. A thin pointer, so that a signal finds all of it or
/// nothing.
type Asked = *const &'static dyn ForwardExit;

thread_local! {
    static ASKED: Cell<Asked> = const { Cell::new(ptr::null()) };
}

/// Does some work, and whenever this thread leaves compiled code meanwhile by an exit stub, asks
/// there how it goes on.
pub fn forward_exits<R>(to: &dyn ForwardExit, work: impl FnOnce() -> R) -> R {
    /// Puts back who was asked before, however the work ends.
    struct Before(Asked);

    impl Drop for Before {
        fn drop(&mut self) {
            ASKED.set(self.0);
        }
    }

    let asked: Asked = ptr::from_ref(&to).cast();
    // protection: mirrored-exits-are-forwarded-no-longer
    let _before = Before(ASKED.replace(asked));
    work()
}

/// What the routine is to do, if this thread asks somebody else.
pub(super) fn forwarded(saved: [u64; 3]) -> Option<u64> {
    // SAFETY: null, or what a `forward_exits` further up this stack holds as long as its work lasts.
    let asked = unsafe { ASKED.get().as_ref() }?;
    Some(asked.forward(saved))
}
