//! The other process: this program, started once more.

use std::marker::PhantomData;
use std::mem::{needs_drop, size_of};
use std::ops::Deref;
use std::process::Command;

use patchpoint::Result;
use patchpoint::addr::CodeAddr;
use patchpoint::engine::Builder;
use patchpoint::memory::Placed;
use patchpoint::remote::Service;
pub(crate) use patchpoint::remote::{Executor, Thread};

pub(crate) use super::scan::Watched;
use super::{AS_EXECUTOR, Symbol};

const STACK: u64 = 256 << 10;

/// Starts this program as the executor.
pub(crate) fn spawn() -> std::result::Result<Executor, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg(AS_EXECUTOR);
    Executor::spawn(command).map_err(|error| error.to_string())
}

/// Is the executor, until its controller is done.
pub(crate) fn serve(symbols: &[Symbol]) -> std::result::Result<(), String> {
    // SAFETY: the controller is the process that has started this one.
    unsafe { service(symbols).run_stdin() }.map_err(|error| error.to_string())
}

/// With these symbols.
pub(crate) fn service(symbols: &[Symbol]) -> Service {
    let add = |service: Service, (name, at): &Symbol| service.symbol(*name, CodeAddr::new(*at as u64));
    symbols.iter().fold(Service::new(), add)
}

pub(crate) fn engine(executor: &Executor) -> Builder {
    executor.engine()
}

pub(crate) fn symbol(executor: &Executor, name: &str) -> Result<CodeAddr> {
    Ok(executor.symbol(name)?.expect("the executor is this program"))
}

pub(crate) fn thread(executor: &Executor) -> Result<Thread> {
    executor.thread(STACK)
}

pub(crate) fn call(thread: &mut Thread, function: CodeAddr, args: [u64; 3]) -> Result<u64> {
    thread.call(function, &args)
}

/// A value in memory that both processes map.
pub(crate) struct Shared<T> {
    memory: Placed,
    value: PhantomData<T>,
}

// SAFETY: like a box of it.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: likewise.
unsafe impl<T: Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Puts it there. The other process can write it at any time: it must be of words that may have any value.
    pub(crate) fn new(executor: &Executor, value: T) -> Result<Self> {
        const { assert!(!needs_drop::<T>() && align_of::<T>() <= 16) };
        let memory = executor.share(size_of::<T>() as u64)?;
        let shared = Self {
            memory,
            value: PhantomData,
        };
        // SAFETY: the memory is this value's, writable, aligned and large enough.
        unsafe { shared.at().write(value) };
        Ok(shared)
    }

    fn at(&self) -> *mut T {
        self.memory.segments()[0].range.start().get() as *mut T
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: written when this was made; the type is such that whatever the other process writes is a value.
        unsafe { &*self.at() }
    }
}
