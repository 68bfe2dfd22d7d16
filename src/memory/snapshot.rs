//! Code that is looked at and not executed: bytes that stand in for memory.

#![allow(unsafe_code, reason = "CodeMemory is an unsafe trait")]

use super::{CodeMemory, PageRun, Strategy, check_within};
use crate::addr::{CodeAddr, CodeRange};
use crate::memory::{Error, Result};
use crate::quiescence::Stopped;

/// The bytes of code for some addresses, which nothing can write.
pub(crate) struct Snapshot {
    range: CodeRange,
    bytes: Vec<u8>,
}

impl Snapshot {
    /// The bytes from `at` on; `None` beyond the end of the address space.
    pub(crate) fn new(at: CodeAddr, bytes: Vec<u8>) -> Option<Self> {
        let range = CodeRange::new(at, bytes.len() as u64)?;
        Some(Self { range, bytes })
    }

    fn refused(&self) -> Result<()> {
        Err(Error::StrategyUnavailable {
            strategy: "a survey",
            range: self.range,
            why: "its code is in no memory that is executed",
            mend: "load the object by an engine",
        })
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({})", self.range)
    }
}

// SAFETY: nothing is ever written or executed, and `read` copies bytes that the value owns.
unsafe impl CodeMemory for Snapshot {
    fn strategy(&self) -> Strategy {
        Strategy::Runtime
    }

    fn range(&self) -> CodeRange {
        self.range
    }

    fn begin(&self, runs: &[PageRun], _: &Stopped) -> Result<()> {
        match runs.first() {
            Some(_) => self.refused(),
            None => Ok(()),
        }
    }

    fn write(&self, _: CodeAddr, _: &[u8]) -> Result<()> {
        self.refused()
    }

    fn read(&self, at: CodeAddr, into: &mut [u8]) -> Result<()> {
        check_within(self.range, at, into.len())?;
        let start = usize::try_from(at.distance_from(self.range.start())).ok();
        let from = start.and_then(|start| self.bytes.get(start..)?.get(..into.len()));
        into.copy_from_slice(from.expect("there is a byte for each of the range"));
        Ok(())
    }

    fn end(&self, _: &[PageRun]) -> Result<()> {
        Ok(())
    }
}
