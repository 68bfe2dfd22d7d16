//! Patching a process that knows nothing of this library: for tools. Linux, x86-64.
//!
//! **Problem.** The code of a running process is to be changed by another one, a profiler or a
//! tracer, with what an engine promises: checked sequences, all sites or none, no thread in the
//! midst of what changes.
//!
//! **Approach.** An engine of this process, whose world and memory are the other's. To write, the
//! world stops every thread of that process by `ptrace`, also those that are started meanwhile, and
//! looks where each one is: its program counter, its registers, and every word of its stack from
//! the stack pointer to the end of the mapping. If one is in what changes, or may return there, all
//! go on and are stopped again a little later, until none is or the patience ends. The bytes are
//! compared, written and read back through `/proc/PID/mem`, which writes pages that the process
//! itself cannot. Then all threads are let go, whatever happened.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use patchpoint::CallShape;
//! use patchpoint_remote::Error;
//! use patchpoint_remote::foreign::Process;
//! # use patchpoint::image::AdoptedCode;
//! # use patchpoint::sequence::Sequence;
//! # fn adopted() -> AdoptedCode { unimplemented!() }
//! # fn sequence() -> Sequence { Sequence::new() }
//!
//! // SAFETY: nobody else changes its code, and its threads have no stacks but their own.
//! let process = unsafe { Process::open(4711, Duration::from_secs(1)) }?;
//! let engine = process.engine()?;
//! let code = process.adopt(&engine, adopted())?;
//! // SAFETY: all its patchpoints reserve 32 bytes and take an argument, and the sequence suits them.
//! unsafe { engine.register(code, |_| CallShape::any_reg(32).result().args(1)) }?;
//! engine.patch(78, &sequence())?;
//! # Ok::<(), Error>(())
//! ```
//!
//! **Why threads execute the new bytes.** A stopped thread is in the kernel, and goes on only when
//! it is let go, after the write. The write itself goes through the kernel, which makes the
//! instruction cache agree with what is written as executable (`copy_to_user_page`; "The Linux
//! Kernel", core-api/cachetlb). On x86-64, instruction caches snoop on stores; what a core had
//! fetched of the old bytes is gone with the return from the kernel that follows. It is what every
//! debugger that sets a breakpoint relies on. On other architectures the same is documented, but
//! where a thread is cannot be read yet: they are refused.
//!
//! **Invariants.** Every thread that was stopped is let go when the stop ends, also by an error or
//! a panic. If this process dies in between, the kernel lets them go; sites that were not all
//! written then stay so, which is the one way to have some of a transaction.
//!
//! **Limits.** A thread that is inside is waited for by trying again, ever more seldom: one that is
//! hardly ever outside may never be found there, and is an error that names it. Sites are changed
//! in place, by sequences that fit: no memory of the process is allocated, so there are no stubs,
//! no exit stubs and no live modules; each is refused by type. A system call in which a thread
//! waits may return `EINTR` when it is stopped (ptrace(2), signal(7)). Who waits for all children
//! of this process by another thread may take the news that a thread has stopped.
//!
//! **Cost.** Some ten microseconds per thread of the process and stop.

#![allow(unsafe_code)]

mod bytes;
mod code;
mod engine;
mod look;
mod maps;
mod system;
mod threads;
mod world;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use patchpoint::error::Errno;

use crate::engines::Engines;
use crate::error::{Error, Result};
use crate::system::errno;

/// A process whose code this one changes. Clones name the same.
#[derive(Clone, Debug)]
pub struct Process(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    id: u32,
    /// The process, and no other that gets its number later.
    handle: OwnedFd,
    /// Its memory, which stays that of the program that it runs now.
    memory: File,
    patience: Duration,
    /// One stop at a time: a thread has one tracer.
    turn: Mutex<()>,
    /// Those of its code.
    engines: Arc<Engines>,
}

impl Process {
    /// Names a process, and how long its threads may take to stop, and again to be found outside of
    /// what is changed.
    ///
    /// # Safety
    /// As long as this, its engine and its memories exist: nobody else changes the code that is adopted of the process;
    /// a thread of it returns to a site only from where its stack pointer is, up to the end of the mapping, or by a register;
    /// and for what else it may do with changed code its owner has agreed.
    ///
    /// # Errors
    /// [`Error::ProcessRefused`]: there is none, this one may not trace it (one's own, without Yama's restriction, or
    /// `CAP_SYS_PTRACE`), or this machine is none on which that works.
    pub unsafe fn open(id: u32, patience: Duration) -> Result<Self> {
        let refused = |during, errno| refused(id, during, errno);
        if !cfg!(target_arch = "x86_64") {
            return Err(refused(
                "the registers of its threads were to be read",
                Errno(libc::ENOSYS),
            ));
        }
        if id == std::process::id() {
            return Err(refused("it was to be another process", Errno(libc::EINVAL)));
        }
        let handle = system::open_process(id).map_err(|errno| refused("it was looked for", errno))?;
        let mut options = File::options();
        let memory = options
            .read(true)
            .write(true)
            .open(format!("/proc/{id}/mem"))
            .map_err(|error| refused("its memory was opened", errno(&error)))?;
        let process = Self(Arc::new(Shared {
            id,
            handle,
            memory,
            patience,
            turn: Mutex::new(()),
            engines: Arc::default(),
        }));
        // What was opened is of the process that the handle names: the number was its own until
        // now.
        process.0.check_alive()?;
        Ok(process)
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id
    }
}

impl Shared {
    /// Fails if the process has ended.
    fn check_alive(&self) -> Result<()> {
        match system::has_ended(&self.handle) {
            false => Ok(()),
            true => Err(Error::ProcessGone { process: self.id }),
        }
    }

    fn refused(&self, during: &'static str, errno: Errno) -> Error {
        refused(self.id, during, errno)
    }
}

fn refused(process: u32, during: &'static str, errno: Errno) -> Error {
    Error::ProcessRefused {
        process,
        during,
        errno,
    }
}
