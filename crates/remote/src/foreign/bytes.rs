//! The memory of a foreign process, as code memory of an engine.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use patchpoint::addr::{CodeAddr, CodeRange};
use patchpoint::memory::{CodeMemory, PageRun, Strategy};
use patchpoint::publish::Stopped;

use super::Shared;
use crate::error::{Error, Result};
use crate::system::errno;

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

impl ForeignMemory {
    fn check_within(&self, at: CodeAddr, len: usize) -> patchpoint::memory::Result<()> {
        let (len, memory) = (len as u64, self.range);
        match memory.contains_bytes(at, len) {
            true => Ok(()),
            false => Err(patchpoint::memory::Error::OutsideMemory { at, len, memory }),
        }
    }
}

// SAFETY: the range was mapped when this was made, and everything is asked of the kernel: what is not mapped any more is an
// error. `begin` tries a write to each run that changes nothing. Writes are checked against the range. No protection is
// ever changed.
unsafe impl CodeMemory for ForeignMemory {
    fn strategy(&self) -> Strategy {
        Strategy::Runtime
    }

    fn range(&self) -> CodeRange {
        self.range
    }

    fn begin(&self, runs: &[PageRun], _: &Stopped) -> patchpoint::memory::Result<()> {
        for run in runs {
            let at = run.range().start().max(self.range.start());
            let mut same = [0];
            self.process.read(at, &mut same)?;
            self.process.write(at, &same)?;
        }
        Ok(())
    }

    fn write(&self, at: CodeAddr, bytes: &[u8]) -> patchpoint::memory::Result<()> {
        self.check_within(at, bytes.len())?;
        Ok(self.process.write(at, bytes)?)
    }

    fn read(&self, at: CodeAddr, into: &mut [u8]) -> patchpoint::memory::Result<()> {
        self.check_within(at, into.len())?;
        Ok(self.process.read(at, into)?)
    }

    fn end(&self, _: &[PageRun]) -> patchpoint::memory::Result<()> {
        Ok(())
    }
}
