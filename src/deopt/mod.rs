//! Exit stubs: ways out of compiled code, with every register captured.
//!
//! Problem: at an inline cache miss, and at a site whose code has been invalidated, the runtime
//! must see the frame as it was at the site's first byte and decide how to go on, and the code must
//! not notice unless it is meant to. Approach: each site gets an [exit stub](encode), a few dozen
//! bytes of code in stub memory near it, to which the patched site jumps. Most lie in blocks, where
//! each has only what is its own (see `exit_table.rs`). The exit stub skips the
//! red zone and calls one routine that all exit stubs share. It saves all general registers, the
//! flags and the vector registers in the width that the machine has, and calls
//! [`ExitStubSite::handle`] with a [`Frame`], in which every location of the site's record can be
//! read and written. The handler's [`Answer`] is made by that frame: [resume](Frame::resume),
//! [continue at another address](Frame::continue_at), [return to the
//! caller](Frame::return_to_caller) of the compiled function, or [replace](Frame::replace) the
//! frame by others, or by a call.
//!
//! Not saved are registers of a length that the machine chooses: those of AArch64's SVE and SME
//! beyond the low 16 bytes of each vector, and of RISC-V's V; nor are AMX tiles of x86-64.
//! Registration refuses what is known to hold values there:
//! [records](crate::site::Error::RegisterNotKept) that name such a register, and
//! [sites](crate::site::Error::ScalableVectors) of which no record tells what is live, in functions
//! with such instructions. A function that merely keeps such registers for its caller (the vector
//! variants of a calling convention) must not hold shadows or entry sites: that is not known of it.
//!
//! Invariants: an exit stub changes nothing that the code can see but what the handler wrote;
//! nothing is ever kept below the stack pointer; an answer that cannot be carried out is an error
//! when it is asked for, while the handler can still choose another.
//!
//! The handler may run compiled code, reach other exit stubs, and patch sites, this one too. A
//! panic in it ends the process, whichever handler and exit stub it is, with a message on the
//! standard error that names the site: compiled code cannot be unwound, since what it holds would
//! be lost and its unwind information, where there is any, says nothing of the places where sites
//! are.
//!
//! # What an invalidation guarantees
//!
//! When [`Engine::invalidate`](crate::engine::Engine::invalidate) returns, no thread begins to
//! execute what a site of the function held. Where its frames are then decides where each is
//! left:
//!
//! ```text
//!            f:  entry site -- code -- call g -- shadow -- code -- patchpoint -- code -- return
//!                    ^           ^        ^                  ^         ^           ^
//! about to enter ----+           |        |                  |         |           |
//! between sites -----------------+        |                  |         |           |
//! in a callee ----------------------------+                  |         |           |
//! between sites ---------------------------------------------+         |           |
//! in the patchpoint's stub --------------------------------------------+           |
//! behind the last site ------------------------------------------------------------+
//! ```
//!
//! - About to enter: leaves at the entry site; without one, at the first site on its way. Where the function was
//!   [redirected](crate::engine::Engine::redirect), it is not entered.
//! - Between sites: runs on to the next site on its way, and leaves there.
//! - In a callee, however deep: leaves when the callee returns, if a shadow follows the call; else at the next site.
//! - In a stub: goes through to the end of its site, and leaves at the next one. The stub stays until then.
//! - Behind the last site: returns as ever. Nothing can stop it.
//!
//! So an assumption may be relied on from one site to the next and no further: code has to pass a
//! site between whatever can break the assumption and the next time that it relies on it. A call
//! without a shadow behind it is such a place where it fails, and a loop that can run long needs a
//! site on its back edge.
//!
//! With a shadow stack (CET) an exit stub can be resumed; the other answers are refused.
//!
//! Cost: an exit stub saves and restores up to 3 KiB of registers on the stack: a signal handler that
//! executes compiled code needs an alternate stack with room for that and for the runtime's handler
//! (64 KiB are enough; the 8 KiB that std gives its threads are not, with AVX-512). In a block it takes
//! 16 bytes of code on x86-64, 32 on AArch64, 40 on PowerPC64, 48 on RISC-V and 56 on SystemZ, and an
//! entry of 24 bytes in its block's table. It is longer where instructions of the site are moved into
//! it (24, 32 or 56 bytes on x86-64); and on its own where these are too many, where the site's end is out
//! of its reach, and in mirrors.

#![allow(unsafe_code)]

mod aarch64;
mod answer;
mod assumptions;
mod c_function;
mod conventions;
mod error;
mod exit_stub;
mod exit_stubs;
mod exit_table;
mod forward;
mod frame;
mod host;
mod lay;
mod live_registers;
mod mirrored;
mod new_frame;
mod powerpc64;
mod replace;
mod riscv64;
mod stack;
mod systemz;
mod unwind;
#[cfg(feature = "backtrace")]
mod unwind_entry;
mod unwinds;
mod value;
mod walk;
mod x86_64;

#[cfg(test)]
#[cfg(unix)]
mod compiled_tests;
#[cfg(test)]
#[cfg(unix)]
mod tests;

pub use answer::{Answer, ReturnValue};
pub use assumptions::{Assumption, Assumptions};
pub use c_function::{CCall, CFunction};
pub use error::{Error, Result};
pub use exit_stub::{Resume, encode, max_len};
pub use exit_stubs::ExitStubs;
pub use forward::{Capture, ForwardExit, forward_exits};
pub use frame::{Frame, Values};
pub use new_frame::NewFrame;
pub use replace::{Arg, Replacement};
pub use unwind::UnwindInfo;
#[cfg(feature = "backtrace")]
pub(crate) use unwind_entry::{of_capture, unwind_entry};
pub use value::Value;
pub use walk::{Caller, Callers, Walker};

use answer::Step;
use exit_table::EnteredExit;
use host::state;
use live_registers::Registers;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::arch::{Arch, SiteContext};
use crate::engine::Role;
use crate::site::Site;

/// What an exit stub needs to know of its site, and whom it calls.
pub trait ExitStubSite: Send + Sync {
    /// The site.
    fn site(&self) -> SiteContext<'_>;

    /// The unwind information of the site's function, which [`Frame::return_to_caller`] needs; `None` where
    /// there is none.
    ///
    /// # Errors
    /// It cannot be read.
    fn unwind(&self) -> Result<Option<&UnwindInfo>> {
        Ok(None)
    }

    /// The registered site, which [`Frame::site`] hands on; `None` where an exit stub is made by
    /// hand, for code that no engine knows.
    fn registered(&self) -> Option<&Site> {
        None
    }

    /// What the runtime says of the site, which [`Frame::description`] hands on.
    fn description(&self) -> Option<&(dyn Any + Send + Sync)> {
        None
    }

    /// Decides how to go on. A panic in it ends the process.
    fn handle<'f>(&self, frame: &mut Frame<'f>) -> Answer<'f>;
}

/// What an exit stub hands to the dispatcher. The exit stub holds its address.
pub struct ExitStubContext {
    role: Role,
    site: Arc<dyn ExitStubSite>,
}

impl ExitStubContext {
    /// The context of one exit stub. It has to stay where it is until no thread can be in the exit
    /// stub any more, or reach it.
    ///
    /// # Safety
    /// [`ExitStubSite::site`] describes the site from which the exit stub will be reached, its record included, and
    /// [`ExitStubSite::unwind`] the code there. What the handler writes into the frame, and the address at which it
    /// continues, are right for that code.
    ///
    /// # Errors
    /// There are no exit stubs for the site's architecture, or this host is of another one.
    pub unsafe fn new(role: Role, site: Arc<dyn ExitStubSite>) -> Result<Box<Self>> {
        let arch = site.site().arch;
        if Arch::host() != Some(arch) {
            return Err(Error::ExitStubArch { arch });
        }
        state::prepare();
        Ok(Box::new(Self { role, site }))
    }

    /// Why its exit stub is entered.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The site.
    #[must_use]
    pub fn site(&self) -> &Arc<dyn ExitStubSite> {
        &self.site
    }
}

impl fmt::Debug for ExitStubContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExitStubContext")
            .field("role", &self.role)
            .field("site", &self.site.site())
            .finish()
    }
}

/// Called by the capture routine; returns what it is to do, see there.
#[allow(dead_code, reason = "nothing is captured on hosts without exit stubs")]
extern "C" fn dispatch(raw: *mut state::RawState, save: *mut u8) -> u64 {
    // SAFETY: the capture routine passes its own stack.
    let context = unsafe { (*raw).context };
    if let Some(word) = forward::forwarded([context, raw as u64, save as u64]) {
        return word;
    }
    // SAFETY: as above; the thread is in its exit stub until this function returns.
    let entered = unsafe { EnteredExit::new(&*raw) };
    let (role, site) = entered.get();
    // SAFETY: as above; the stack stays until this function returns.
    let captured = Registers::All(unsafe { state::Captured::new(raw, save) });
    let context = site.site();
    let mut frame = Frame::new(captured, (site, &context), role);
    let answer = ask(site, &mut frame);
    // SAFETY: the answer was made by this frame, which its lifetime ensures.
    let step = unsafe { frame.carry_out(answer) };
    drop(entered);
    match step {
        Step::Answer(word) => word,
        // SAFETY: this is the dispatcher, and all that it had is gone.
        Step::Lay(laying) => unsafe { laying.enter(raw, save) },
    }
}

/// What the handler answers.
#[allow(dead_code, reason = "nothing is captured on hosts without exit stubs")]
fn ask<'f>(site: &dyn ExitStubSite, frame: &mut Frame<'f>) -> Answer<'f> {
    let handled = catch_unwind(AssertUnwindSafe(|| site.handle(frame)));
    match handled {
        Ok(answer) => answer,
        Err(panic) => abort(frame, &*panic),
    }
}

/// After a panic the handler's promise is broken, and compiled code has no way to go on.
#[allow(dead_code, reason = "nothing is captured on hosts without exit stubs")]
fn abort(frame: &Frame<'_>, panic: &(dyn Any + Send)) -> ! {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("the panic has no text");
    // Not by a macro for printing: what those print can be kept back, and would be lost with the
    // process.
    let _ = writeln!(
        std::io::stderr(),
        "patchpoint: the handler panicked in {frame:?}: {text}; compiled code cannot be unwound"
    );
    std::process::abort();
}
