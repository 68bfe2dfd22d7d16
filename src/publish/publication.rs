//! Publishing code that is executed in a [mirror](crate::memory::Mirror) of this process's memory.

#![allow(unsafe_code, reason = "Publication is an unsafe trait")]

use std::fmt;

use super::Level;
use crate::addr::{CodeAddr, CodeRange};
use crate::publish::Result;

/// Publishes code where it is executed, if that is not in this process: what an engine asks of
/// whoever knows the threads and cores there.
///
/// # Safety
///
/// The engine's guarantees rest on the implementation:
///
/// - after a [`publish`](Self::publish) that succeeds, who executes the ranges executes what memory holds: at
///   [`Level::Immediate`] from now on, at [`Level::Eventual`] soon, and whoever begins to execute then does so at once;
/// - [`check`](Self::check) refuses whatever can be known to keep `publish` from succeeding;
/// - a thread that runs into a trap that was [set](Self::set_trap) goes on at the address that was given with it;
/// - nothing panics: these are called while sites are written.
pub unsafe trait Publication: Send + Sync + fmt::Debug {
    /// Fails if a level cannot be had, before anything is written.
    ///
    /// # Errors
    /// It cannot, or who executes the code is gone; in the implementation's words
    /// ([`Error::Provider`](crate::publish::Error::Provider)).
    fn check(&self, level: Level) -> Result<()>;

    /// Whether the code is known to be executed by nobody any more, for good: then what could not
    /// be published need not be.
    fn has_ended(&self) -> bool;

    /// Where the trap at that address goes.
    fn trap(&self, at: CodeAddr) -> Option<CodeAddr>;

    /// Notes that the trap at that address goes to an exit stub, or is none any more.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn set_trap(&self, at: CodeAddr, stub: Option<CodeAddr>) -> Result<()>;

    /// Maintains the instruction caches for code that no thread has executed, and that none will
    /// before a later publication of what branches to it.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn maintain(&self, ranges: &[CodeRange]) -> Result<()>;

    /// Maintains the instruction caches, and makes the threads serialize as the level says.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn publish(&self, ranges: &[CodeRange], level: Level) -> Result<()>;
}
