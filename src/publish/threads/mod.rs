//! Attached threads: those that execute the engine's code, and how they are asked where they are.
//!
//! **Problem.** A runtime without safepoints cannot say that its threads are outside of a site.
//! **Approach.** Each thread that executes compiled code attaches itself; the engine asks attached
//! threads by a real-time signal, whose handler looks at the interrupted program counter and stack.
//! [`SignalWorld`] stops them so, and waits for grace periods. Linux.
//!
//! **Cost.** A signal, its frame and a look at the whole stack per thread and question.

#![allow(unsafe_code)]

mod ask;
mod door;
mod look;
mod registry;
mod signal;
mod world;

use std::fmt;
use std::marker::PhantomData;

use crate::publish::Result;

use super::serialize;
pub use world::{SignalWorld, WhenInside};

/// As long as it exists, its thread may execute the engine's code under a [`SignalWorld`].
///
/// [`SignalWorld::attach`] makes it. It cannot leave its thread. A thread may attach more than
/// once.
pub struct SignalAttached {
    slot: &'static registry::Slot,
    not_send: PhantomData<*mut ()>,
}

fn attach() -> Result<SignalAttached> {
    let slot = registry::attach()?;
    // protection: stop-keeps-threads-from-attaching
    ask::wait_until_open();
    // What was published to the threads that were attached before is not published to this one.
    // protection: serialize-when-attached-to-a-world
    serialize();
    Ok(SignalAttached {
        slot,
        not_send: PhantomData,
    })
}

impl Drop for SignalAttached {
    fn drop(&mut self) {
        registry::detach(self.slot);
    }
}

impl fmt::Debug for SignalAttached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tid = self.slot.tid.load(std::sync::atomic::Ordering::Relaxed);
        f.debug_tuple("SignalAttached").field(&tid).finish()
    }
}

#[cfg(test)]
mod tests;
