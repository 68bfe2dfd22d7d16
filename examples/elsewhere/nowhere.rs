//! Without the feature `remote` there is no other process.

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use patchpoint::Result;
use patchpoint::addr::CodeAddr;
use patchpoint::engine::Builder;

use super::Symbol;

pub(crate) type Executor = Infallible;
pub(crate) type Thread = Infallible;

/// Nobody is watched.
pub(crate) struct Watched(Infallible);

impl Watched {
    pub(crate) fn start(executor: &Executor) -> Self {
        match *executor {}
    }

    pub(crate) fn end(self) -> Seen {
        match self.0 {}
    }
}

/// Nothing was seen.
#[derive(Debug)]
pub(crate) struct Seen(Infallible);

impl Seen {
    pub(crate) fn is_right(&self) -> bool {
        match self.0 {}
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

/// No value.
pub(crate) struct Shared<T>(Infallible, PhantomData<T>);

impl<T> Shared<T> {
    pub(crate) fn new(executor: &Executor, _: T) -> Result<Self> {
        match *executor {}
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self.0 {}
    }
}

/// Says why there is none.
pub(crate) fn spawn() -> std::result::Result<Executor, String> {
    Err("--remote needs Linux and the feature: cargo run --features remote".to_owned())
}

/// Does not serve.
pub(crate) fn serve(_: &[Symbol]) -> std::result::Result<(), String> {
    Err("this program was built without the feature `remote`".to_owned())
}

pub(crate) fn engine(executor: &Executor) -> Builder {
    match *executor {}
}

pub(crate) fn symbol(executor: &Executor, _: &str) -> Result<CodeAddr> {
    match *executor {}
}

pub(crate) fn thread(executor: &Executor) -> Result<Thread> {
    match *executor {}
}

pub(crate) fn call(thread: &mut Thread, _: CodeAddr, _: [u64; 3]) -> Result<u64> {
    match *thread {}
}
