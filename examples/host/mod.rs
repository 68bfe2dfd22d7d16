//! Where an example's code is executed: in this process, or [there](Host::There).
//!
//! The examples are the same in both: they ask a [`Host`] for their engine's builder, for memory
//! that compiled code sees, for the address of a function that it calls, and for threads that call
//! it. Here it is this process; the same stories with another process are the examples of
//! `crates/remote`.
#![allow(dead_code, unused_imports, reason = "each example and test uses a part")]

use std::fmt::Debug;
use std::marker::PhantomData;
use std::mem::{needs_drop, size_of};
use std::ops::Deref;
use std::sync::Arc;

use patchpoint::addr::CodeAddr;
use patchpoint::engine::EngineBuilder;
use patchpoint::memory::PlacedSegments;
use patchpoint::{Engine, Result};

/// A function that code, or who calls it, knows by name.
pub(crate) type Symbol = (&'static str, usize);

/// Who executes the code, if not this process.
pub(crate) trait There: Debug + Send + Sync {
    /// Starts to describe an engine.
    fn engine(&self) -> EngineBuilder;
    /// The address there of a function of that name.
    fn symbol(&self, name: &str) -> Result<CodeAddr>;
    /// Memory that is writable here and there.
    fn share(&self, len: u64) -> Result<PlacedSegments>;
    /// A thread there.
    fn caller(&self) -> Result<Box<dyn Call>>;
}

/// A thread there.
pub(crate) trait Call: Send {
    /// Calls a function of three integers.
    fn call(&mut self, function: CodeAddr, args: [u64; 3]) -> Result<u64>;
}

/// Who executes the code.
#[derive(Clone, Debug)]
pub(crate) enum Host {
    Here,
    There(Arc<dyn There>),
}

impl Host {
    /// Starts to describe an engine.
    pub(crate) fn engine(&self) -> EngineBuilder {
        match self {
            Self::Here => Engine::builder(),
            Self::There(there) => there.engine(),
        }
    }

    /// The address of a function of this process's, or of the one of that name there.
    pub(crate) fn symbol(&self, (name, here): Symbol) -> Result<CodeAddr> {
        match self {
            Self::Here => Ok(CodeAddr::new(here as u64)),
            Self::There(there) => there.symbol(name),
        }
    }

    /// Puts a value where compiled code sees it.
    pub(crate) fn place<T>(&self, value: T) -> Result<SharedValue<T>> {
        Ok(SharedValue(match self {
            Self::Here => Memory::Own(Box::new(value)),
            Self::There(there) => Memory::Shared(Shared::new(&**there, value)?),
        }))
    }

    /// A thread that calls functions.
    pub(crate) fn caller(&self) -> Result<Caller> {
        Ok(match self {
            Self::Here => Caller::Here,
            Self::There(there) => Caller::There(there.caller()?),
        })
    }
}

/// Calls functions of three integers.
pub(crate) enum Caller {
    Here,
    There(Box<dyn Call>),
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
            Self::There(thread) => thread.call(function, args),
        }
    }
}

/// A value that compiled code sees, at an address that does not change.
pub(crate) struct SharedValue<T>(Memory<T>);

enum Memory<T> {
    Own(Box<T>),
    Shared(Shared<T>),
}

impl<T> SharedValue<T> {
    pub(crate) fn addr(&self) -> u64 {
        std::ptr::from_ref(&**self) as u64
    }
}

impl<T> Deref for SharedValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Memory::Own(value) => value,
            Memory::Shared(value) => value,
        }
    }
}

/// A value in memory that is writable here and there.
struct Shared<T> {
    memory: PlacedSegments,
    value: PhantomData<T>,
}

// SAFETY: like a box of it.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: likewise.
unsafe impl<T: Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Puts it there. It can be written there at any time: it must be of words that may have any
    /// value.
    fn new(there: &dyn There, value: T) -> Result<Self> {
        const { assert!(!needs_drop::<T>() && align_of::<T>() <= 16) };
        let memory = there.share(size_of::<T>() as u64)?;
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
        // SAFETY: written when this was made; the type is such that whatever is written there is a value.
        unsafe { &*self.at() }
    }
}
