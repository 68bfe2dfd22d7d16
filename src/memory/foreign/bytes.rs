//! The memory of a foreign process, as code memory of an engine.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::{Shared, errno};
use crate::addr::{CodeAddr, CodeRange};
use crate::error::{Error, Result};
use crate::memory::{CodeMemory, PageRun, Strategy, check_within};
use crate::publish::Stopped;

impl Shared {
    /// Copies bytes of the process.
    pub(super) fn read(&self, at: CodeAddr, into: &mut [u8]) -> Result<()> {
        let read = self.memory.read_exact_at(into, at.get());
        self.done(read, "its memory was read")
    }

    fn write(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        let written = self.memory.write_all_at(bytes, at.get());
        self.done(written, "its memory was written")
    }

    /// The memory of a program that has ended, or was replaced by another, reads as empty.
    fn done(&self, done: io::Result<()>, during: &'static str) -> Result<()> {
        done.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero => {
                Error::ProcessGone { process: self.id }
            }
            _ => self.refused(during, errno(&error)),
        })
    }
}

/// Code of a foreign process.
#[derive(Debug)]
pub(super) struct ForeignMemory {
    pub(super) process: Arc<Shared>,
    pub(super) range: CodeRange,
}

// SAFETY: the range was mapped when this was made, and everything is asked of the kernel: what is not mapped any more is an
// error. `begin` tries a write to each run that changes nothing. Writes are checked against the range. No protection is
// ever changed.
unsafe impl CodeMemory for ForeignMemory {
    fn strategy(&self) -> Strategy {
        Strategy::Foreign
    }

    fn range(&self) -> CodeRange {
        self.range
    }

    fn begin(&self, runs: &[PageRun], _: &Stopped) -> Result<()> {
        for run in runs {
            let at = run.range().start().max(self.range.start());
            let mut same = [0];
            self.process.read(at, &mut same)?;
            self.process.write(at, &same)?;
        }
        Ok(())
    }

    fn write(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        check_within(self.range, at, bytes.len())?;
        self.process.write(at, bytes)
    }

    fn read(&self, at: CodeAddr, into: &mut [u8]) -> Result<()> {
        check_within(self.range, at, into.len())?;
        self.process.read(at, into)
    }

    fn end(&self, _: &[PageRun]) -> Result<()> {
        Ok(())
    }
}
