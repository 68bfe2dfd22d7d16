//! Code that another process executes: on the engine of [`patchpoint`], through its public traits.
//! Linux; on other systems this crate is empty.
//!
//! **Problem.** Whoever can write code can do anything. A process that executes untrusted or
//! compiled code, and could be made to write anywhere, should not be able to write its own code,
//! nor ever have had a view through which it could.
//!
//! **Approach.** Two processes: the *controller* has the [engine](patchpoint::Engine), the only
//! writable views, and all decisions; the *executor* ([`Service`]) maps code read-execute only,
//! from memory files that were sealed before it got them, and runs it. Everything that an engine
//! promises holds across both: a transaction writes in the controller and publishes in the
//! executor, where the instruction caches are; misses and deoptimizations go to the handlers in the
//! controller and back.
//!
//! ```text
//!     controller                                          executor
//!     Executor::spawn        ---- Hello, Host ------->    Service::run
//!     Arena, Placement       ---- Map (descriptor) -->    code r-x, data rw-, at the same addresses
//!     Engine::patch          ---- Publish ----------->    caches, membarrier
//!     Thread::call           ---- Call -------------->    a thread on a shared stack calls the function
//!     handler of the exit_stub    <--- Exit ---------------    exit_stub, registers saved on the shared stack
//!                            ---- Go ---------------->    resume, continue, or return
//!                            <--- Returned -----------
//! ```
//!
//! ```standalone_crate
//! use std::process::Command;
//!
//! use patchpoint::CallShape;
//! use patchpoint::sequence::{Sequence, result};
//! use patchpoint_remote::{Executor, Service};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // The executor is this program, started once more. The crate has one of its own, too: patchpoint-executor.
//!     if std::env::args().nth(1).as_deref() == Some("executor") {
//!         // SAFETY: the controller is the process that has started this one.
//!         return Ok(unsafe { Service::new().run_stdin() }?);
//!     }
//!     let mut command = Command::new(std::env::current_exe()?);
//!     command.arg("executor");
//!     let executor = Executor::spawn(command)?;
//!     let engine = executor.engine().build()?;
//!
//! # if !cfg!(target_arch = "x86_64") { return Ok(()) } // the object is for it
//!     let object = include_bytes!("../../../examples/objects/inline_cache.o");
//!     let code = engine.load(object, |_symbol| None)?;
//!     let shape = |id| (id == 78).then(|| CallShape::any_reg(32).result().args(1));
//!     // SAFETY: that is what the object's IR says.
//!     let module = unsafe { engine.register(code, |record| shape(record.id().get())) }?;
//!     module.release();
//!     let get = module.function("get")?.entry()?;
//!
//!     let mut thread = executor.thread(256 << 10)?;
//!     for value in [12_u64, 34] {
//!         engine.patch(78, &Sequence::new().mov(result(), value))?;
//!         assert_eq!(thread.call(get, &[0])?, value); // executed there
//!     }
//!     Ok(())
//! }
//! ```
//!
//! An address means the same in both processes. Data segments, what the arena places as
//! [data](patchpoint::memory::SegmentKind::Data), and the stacks of the executor's
//! [threads](Thread) are shared, so a handler can follow the pointers that compiled code has.
//!
//! **Threads.** A call by [`Thread::call`] is a call of the controller's thread: as long as it
//! lasts, that thread counts as executing code, for a [`World`](patchpoint::publish::World) as for
//! a [`ThreadHandle`](patchpoint::publish::ThreadHandle), and handlers run on it. Every thread of
//! the executor serializes whenever it goes on after a message.
//!
//! **Stopping them.** An [engine](Executor::engine) that is given no world has one that stops the
//! executor's threads between messages: no call begins, no handler's answer is sent, and those
//! under way are waited for until they return or leave by an exit stub. Of a thread that waits for
//! its handler the stack is looked through, so that nothing changes into which it returns. That is
//! enough to change quiescent modules in place with any number of threads; code that loops for long
//! without an exit stub on its way keeps a stop from coming about, and wants live modules.
//!
//! **When one ends.** The end of a process ends its connections. Every call on the other side then
//! fails, by [`Error::ExecutorGone`] or [`Error::ControllerGone`]; a transaction that was about to
//! be published is rolled back. An executor that does not answer in time, or not in the protocol's
//! words, is abandoned: its connections are cut, and it is killed if it was started by
//! [`Executor::spawn`]. Memory files have no name and go with the last process that maps them.
//!
//! **Who is who.** [`Executor::spawn`] gives the executor its end of the connection. An executor
//! that somebody else starts connects to a [`Listener`], a socket that only this user can reach;
//! there each side asks the system for the other's user, and has it prove that it knows the
//! [`Token`], before it obeys or is obeyed. The token is never sent.
//!
//! **A process that knows nothing of this** is patched by a tool through [`foreign`].
//!
//! **What it is built on.** The engine knows no processes. It has a
//! [`Mirror`](patchpoint::memory::Mirror) of its memory, a
//! [`Publication`](patchpoint::publish::Publication), a [`World`](patchpoint::publish::World), and
//! [exits](patchpoint::deopt::ForwardExit) that are handled somewhere else than where they are
//! taken; here is what these are between two processes.
//!
//! **Limits.** Worlds that stop threads of this process at any instruction, live-register exit
//! stubs, replaced frames and walks to callers are for code of this process; each is refused by
//! type, but for live-register exit stubs, in whose place whole ones are made. The live
//! invalidation of a shadow installs the handler of traps in the executor. Both processes are of
//! one machine, one user and one version of this crate.
#![cfg(target_os = "linux")]
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        reason = "a default in place of what cannot be missing hides a broken invariant"
    )
)]

mod calls;
mod channel;
mod connection;
mod controller;
#[cfg(test)]
mod descriptors;
mod engines;
mod error;
pub mod foreign;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod handshake;
mod listen;
#[cfg(doctest)]
mod promises;
mod protocol;
mod service;
mod stack;
#[cfg(test)]
mod strangers;
mod system;
#[cfg(test)]
mod tests;
mod thread;
mod token;

pub use controller::{Executor, Options};
pub use error::{Error, ErrorKind, Result};
pub use listen::Listener;
pub use service::Service;
pub use thread::Thread;
pub use token::Token;
