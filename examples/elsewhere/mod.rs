//! Where an example's code is executed: by this process, or with the feature `remote` and `--remote` by another one.
//!
//! The examples are the same in both: they ask a [`Host`] for their engine's builder, for memory that compiled code
//! sees, for the address of a function that it calls, and for threads that call it.
#![allow(dead_code, unused_imports, reason = "each example and test uses a part")]

#[cfg(all(feature = "remote", target_os = "linux"))]
pub(crate) mod scan;
#[cfg(all(feature = "remote", target_os = "linux"))]
mod there;
#[cfg(not(all(feature = "remote", target_os = "linux")))]
#[path = "nowhere.rs"]
mod there;

use std::ops::Deref;

use patchpoint::addr::CodeAddr;
use patchpoint::engine::Builder;
use patchpoint::{Engine, Result};

pub(crate) use there::{Executor, Watched, serve, spawn};

/// What an example's executor is started with.
pub(crate) const AS_EXECUTOR: &str = "--as-executor";

/// A function of the executor that code, or who calls it, knows by name.
pub(crate) type Symbol = (&'static str, usize);

/// Who executes the code.
#[derive(Clone, Debug)]
pub(crate) enum Host {
    Here,
    There(Executor),
}

impl Host {
    /// Starts to describe an engine.
    pub(crate) fn engine(&self) -> Builder {
        match self {
            Self::Here => Engine::builder(),
            Self::There(executor) => there::engine(executor),
        }
    }

    /// The address of a function of this process's, or of the one of that name in the other.
    pub(crate) fn symbol(&self, (name, here): Symbol) -> Result<CodeAddr> {
        match self {
            Self::Here => Ok(CodeAddr::new(here as u64)),
            Self::There(executor) => there::symbol(executor, name),
        }
    }

    /// Puts a value where compiled code sees it.
    pub(crate) fn place<T>(&self, value: T) -> Result<Seen<T>> {
        Ok(Seen(match self {
            Self::Here => Memory::Own(Box::new(value)),
            Self::There(executor) => Memory::Shared(there::Shared::new(executor, value)?),
        }))
    }

    /// A thread that calls functions.
    pub(crate) fn caller(&self) -> Result<Caller> {
        Ok(match self {
            Self::Here => Caller::Here,
            Self::There(executor) => Caller::There(there::thread(executor)?),
        })
    }
}

/// Calls functions of three integers.
pub(crate) enum Caller {
    Here,
    There(there::Thread),
}

impl Caller {
    /// Calls one.
    ///
    /// # Safety
    /// There is such a function as long as the call lasts, and it does with these arguments only what is sound.
    pub(crate) unsafe fn call(&mut self, function: CodeAddr, args: [u64; 3]) -> Result<u64> {
        match self {
            Self::Here => {
                // SAFETY: the caller's promise.
                let function: extern "C" fn(u64, u64, u64) -> u64 =
                    unsafe { std::mem::transmute(function.get() as usize) };
                Ok(function(args[0], args[1], args[2]))
            }
            Self::There(thread) => there::call(thread, function, args),
        }
    }
}

/// A value that compiled code sees, at an address that does not change.
pub(crate) struct Seen<T>(Memory<T>);

enum Memory<T> {
    Own(Box<T>),
    Shared(there::Shared<T>),
}

impl<T> Seen<T> {
    pub(crate) fn addr(&self) -> u64 {
        std::ptr::from_ref(&**self) as u64
    }
}

impl<T> Deref for Seen<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Memory::Own(value) => value,
            Memory::Shared(value) => value,
        }
    }
}
