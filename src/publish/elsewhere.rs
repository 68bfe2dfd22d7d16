//! Publishing code that another process executes.

use std::fmt;
use std::sync::Arc;

use super::Level;
use crate::addr::{CodeAddr, CodeRange};
use crate::error::Result;

/// What a publisher asks of the process that executes the code. Its threads serialize whenever they go on after a
/// message of this process.
pub(crate) trait OtherProcess: Send + Sync + fmt::Debug {
    /// Whether a level can be had.
    ///
    /// # Errors
    /// The process is gone.
    fn check(&self, level: Level) -> Result<()>;

    /// Whether it is known to execute nothing any more.
    fn has_ended(&self) -> bool;

    /// Where the trap at that address leads.
    fn trap(&self, at: CodeAddr) -> Option<CodeAddr>;

    /// Notes that the trap at that address leads to a ramp, or nowhere any more.
    ///
    /// # Errors
    /// The process is gone, or refuses.
    fn set_trap(&self, at: CodeAddr, ramp: Option<CodeAddr>) -> Result<()>;

    /// Maintains its instruction caches.
    ///
    /// # Errors
    /// The process is gone, or refuses.
    fn maintain(&self, ranges: &[CodeRange]) -> Result<()>;

    /// Publishes to its threads.
    ///
    /// # Errors
    /// The process is gone, or refuses.
    fn publish(&self, ranges: &[CodeRange], level: Level) -> Result<()>;
}

/// The process that executes the code.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere(pub(crate) Arc<dyn OtherProcess>);

impl Elsewhere {
    pub(super) fn check(&self, level: Level) -> Result<()> {
        self.0.check(level)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    pub(crate) fn trap(&self, at: CodeAddr) -> Option<CodeAddr> {
        self.0.trap(at)
    }

    pub(crate) fn set_trap(&self, at: CodeAddr, ramp: Option<CodeAddr>) -> Result<()> {
        self.0.set_trap(at, ramp)
    }

    pub(super) fn maintain(&self, ranges: &[CodeRange]) -> Result<()> {
        self.0.maintain(ranges)
    }

    pub(super) fn publish(&self, ranges: &[CodeRange], level: Level) -> Result<()> {
        self.0.publish(ranges, level)
    }
}
