//! Live-register exit stubs: ways to the runtime that save the live registers and no others.
//!
//! Problem: a [exit_stub](super) captures every register, since nobody knows what its handler will
//! look at. A lookup at an inline cache's miss needs the values of the site's record, and that the
//! code finds its live values again. Approach: [`Plan`] computes from the record and the convention
//! which registers those are; a stub of the site's own stores just them below the stack pointer,
//! calls the dispatcher, and loads them back. What the platform's C convention makes a function
//! preserve, the dispatcher preserves, so callee-saved registers are saved only where the record
//! names them: they survive whether or not the runtime vouches for live-outs that list them.
//!
//! A plan is refused, and the site gets an exit stub, where it is not known what is live
//! (`anyregcc`, and the record has no live-outs: it may be that LLVM's pass did not run, which is
//! off where it crashes) or where a live register is one that no plain store can save (masks, x87,
//! parts that LLVM does not number). Sites other than patchpoints get exit stubs too: only where
//! LLVM itself placed a call is the stack ready for one.
//!
//! Invariants: what the site needs afterwards is as it was, but for what the handler wrote; nothing
//! is ever kept below the stack pointer. Flags, and conditions that no live-out names, are lost, as
//! in LLVM's own call. The handler runs with the code's floating-point settings, as any function
//! that it calls.
//!
//! Cost: two instructions for each saved register, and a call.

#![allow(unsafe_code)]

mod code;
mod machine;
mod plan;
mod registers;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

pub(super) use plan::Plan;
pub(super) use registers::Registers;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::panic::{AssertUnwindSafe, catch_unwind};

use registers::Live;

use super::{ExitStubSite, Frame};
use crate::addr::{CodeAddr, Len};
use crate::arch::SiteContext;
use crate::deopt::Result;
use crate::engine::{Role, StackAt};

/// What a live-register exit stub hands to the dispatcher. The exit stub holds its address.
pub(super) struct LiveRegistersContext(Arc<LiveRegisters>);

struct LiveRegisters {
    site: Arc<dyn ExitStubSite>,
    plan: Plan,
}

impl LiveRegistersContext {
    /// The context of one live-register exit stub, if its site can have one. It has to stay where
    /// it is until no thread can be in the exit stub any more, or reach it.
    ///
    /// # Safety
    /// As of [`ExitStubContext::new`](super::ExitStubContext::new).
    pub(super) unsafe fn new(site: Arc<dyn ExitStubSite>) -> Option<Box<Self>> {
        let plan = Plan::new(&site.site())?;
        Some(Box::new(Self(Arc::new(LiveRegisters { site, plan }))))
    }

    /// The bytes of the live-register exit stub at `at`. They call with this context.
    ///
    /// # Errors
    /// The end of the site is out of reach.
    pub(super) fn encode(&self, at: CodeAddr) -> Result<Vec<u8>> {
        let (context, live_registers) = (&raw const *self as u64, &self.0);
        code::assemble(
            &live_registers.site.site(),
            &live_registers.plan,
            at,
            context,
            dispatcher(),
        )
    }

    /// How the stack differs from that at the site, by ascending offsets, up to the jump at its
    /// end.
    pub(super) fn stack(&self) -> Vec<StackAt> {
        code::stack(self.0.site.site().arch, &self.0.plan)
    }
}

/// A length that the live-register exit stub of the site does not exceed, if it can have one.
///
/// # Errors
/// As of [`LiveRegistersContext::encode`].
pub(super) fn max_len(site: &SiteContext<'_>) -> Result<Option<Len>> {
    let plan = Plan::new(site);
    plan.map(|plan| code::max_len(site, &plan, dispatcher()))
        .transpose()
}

/// The dispatcher, as a function pointer.
fn dispatcher() -> u64 {
    dispatch as *const () as u64
}

/// Called by live-register exit stubs, with the first of the saved registers.
extern "C" fn dispatch(context: *const LiveRegistersContext, slots: *mut u8) {
    // SAFETY: the exit stub passes the address of its context, which outlives it.
    let context = unsafe { &*context };
    // The handler may retire this exit stub; what it is called through must outlive the call.
    let live_registers = Arc::clone(&context.0);
    // SAFETY: the exit stub stored what its plan says, and loads it when this function has returned.
    let live = unsafe { Live::new(&live_registers.plan, slots) };
    let context = live_registers.site.site();
    let site = (&*live_registers.site, &context);
    let mut frame = Frame::new(Registers::Live(live), site, Role::Miss);
    let handled = catch_unwind(AssertUnwindSafe(|| live_registers.site.handle(&mut frame)));
    // A frame of which not all is known makes no answer but to resume.
    if let Err(panic) = handled {
        super::abort(&frame, &*panic);
    }
}
