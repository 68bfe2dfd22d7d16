//! Frames of threads that leave compiled code in a [mirror](crate::memory::Mirror).
//!
//! **Problem.** Code leaves by an exit stub in one place, and its handler is here. **Approach.**
//! The stacks of the threads that execute the code are mapped in both, at the same addresses. The
//! routine there saves the registers on that stack as ever, and whoever forwards the exit hands the
//! addresses over; the handler looks at the very frame. Its answer is a word, as the dispatcher's
//! is.
//!
//! **Invariants.** Nothing that was handed over is believed: the context is one that was made here,
//! looked up, never followed; what was saved lies on the stack, both parts apart; and whatever a
//! register says, nothing outside of the stack is read or written for the frame. The thread waits
//! meanwhile. One that does not and changes its own stack changes values that its handler reads,
//! which it could have done before.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::answer::Step;
use super::host::state::{self, RawState};
use super::live_registers::Registers;
use super::{ExitStubContext, ExitStubSite, Frame, ask};
use crate::addr::{CodeAddr, CodeRange};
use crate::deopt::{Error, Result};
use crate::engine::{Role, SavedFrame};

/// The contexts of the exit stubs that are executed in a mirror, by address.
#[derive(Clone)]
pub(super) struct Contexts {
    capture: CodeAddr,
    known: Arc<Mutex<KnownContexts>>,
}

type KnownContexts = HashMap<u64, (Role, Arc<dyn ExitStubSite>)>;

/// A context that is known as long as this lives.
pub(super) struct KnownContext {
    context: Box<ExitStubContext>,
    known: Arc<Mutex<KnownContexts>>,
}

impl Contexts {
    pub(super) fn new(capture: CodeAddr) -> Self {
        Self {
            capture,
            known: Arc::default(),
        }
    }

    /// The routine that the exit stubs call.
    pub(super) fn capture(&self) -> u64 {
        self.capture.get()
    }

    pub(super) fn keep(&self, context: Box<ExitStubContext>) -> KnownContext {
        let entry = (context.role, Arc::clone(&context.site));
        self.known.lock().insert(&raw const *context as u64, entry);
        KnownContext {
            context,
            known: Arc::clone(&self.known),
        }
    }

    /// Asks the handler of an exit stub. `None` for a context that is none of these.
    pub(super) fn handle(&self, saved: &SavedFrame) -> Result<Option<u64>> {
        let Some((role, site)) = self.known.lock().get(&saved.context()).cloned() else {
            return Ok(None);
        };
        // protection: mirrored-frames-are-on-their-stack
        check(saved)?;
        let (raw, save) = (saved.general() as *mut RawState, saved.vectors() as *mut u8);
        // SAFETY: both are on the stack and apart, as was checked; that is mapped here, its thread waits, and nobody
        // else in this process looks at it.
        let captured = unsafe { state::Captured::new(raw, save) };
        let site_stack = captured.base(state::STACK_POINTER).map(CodeAddr::new);
        if !site_stack.is_some_and(|at| saved.stack().contains_bytes(at, 8)) {
            return Err(wrong("a frame that is not on its stack"));
        }
        let context = site.site();
        let mut frame = Frame::new(Registers::All(captured), (&*site, &context), role).within(saved.stack());
        let answer = ask(&*site, &mut frame);
        // SAFETY: the answer was made by this frame.
        match unsafe { frame.carry_out(answer) } {
            Step::Answer(word) => Ok(Some(word)),
            Step::Lay(_) => Err(wrong("a frame that was to be replaced")),
        }
    }
}

impl KnownContext {
    /// What the exit stub hands over.
    pub(super) fn address(&self) -> u64 {
        &raw const *self.context as u64
    }
}

impl Drop for KnownContext {
    fn drop(&mut self) {
        self.known.lock().remove(&self.address());
    }
}

fn wrong(why: &'static str) -> Error {
    Error::SavedFrame { why }
}

/// Whether what was saved is on the stack.
fn check(saved: &SavedFrame) -> Result<()> {
    let range = |start, len| {
        let range = CodeRange::new(CodeAddr::new(start), len);
        range.filter(|range| saved.stack().contains_bytes(range.start(), range.len()))
    };
    let raw = range(saved.general(), size_of::<RawState>() as u64);
    let raw = raw.ok_or(wrong("registers that are not on its stack"))?;
    let save = range(saved.vectors(), state::saved_len() as u64);
    let save = save.ok_or(wrong("vector registers that are not on its stack"))?;
    if raw.overlaps(save) || saved.general() % align_of::<RawState>() as u64 != 0 {
        return Err(wrong("registers that overlap, or are where none can be"));
    }
    Ok(())
}
