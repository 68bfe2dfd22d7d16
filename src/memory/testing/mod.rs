//! Code memory that fails on demand, for tests of transactions.

#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
pub(crate) mod process;

use std::sync::atomic::{AtomicU64, Ordering};

use super::{CodeMemory, LiveMemory, PageRun, Strategy};
use crate::addr::{CodeAddr, CodeRange};
use crate::error::{Errno, Error, Result};
use crate::publish::Stopped;

/// A call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Begin,
    Write,
    End,
    Exchange,
}

/// Memory that passes every call on, until the n-th call of one kind.
///
/// A failing `write` has written the first half of its bytes, as a write through a file may; the other
/// failing calls have done nothing.
#[derive(Debug)]
pub(crate) struct FailingMemory<M> {
    inner: M,
    counts: [AtomicU64; 4],
    /// `kind << 32 | calls left`, or `NEVER`.
    fail: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl<M: CodeMemory> FailingMemory<M> {
    pub(crate) fn new(inner: M) -> Self {
        Self {
            inner,
            counts: Default::default(),
            fail: AtomicU64::new(NEVER),
        }
    }

    /// Lets the call fail that comes after `after` successful ones of its kind, once.
    pub(crate) fn fail_after(&self, call: Call, after: u32) {
        self.fail
            .store(((call as u64) << 32) | u64::from(after), Ordering::Relaxed);
    }

    /// How many calls of a kind there were, failed ones included.
    pub(crate) fn count(&self, call: Call) -> u64 {
        self.counts[call as usize].load(Ordering::Relaxed)
    }

    /// Whether the failure that was asked for has happened, or none was.
    pub(crate) fn has_failed(&self) -> bool {
        self.fail.load(Ordering::Relaxed) == NEVER
    }

    fn pass(&self, call: Call, at: CodeAddr) -> Result<()> {
        self.counts[call as usize].fetch_add(1, Ordering::Relaxed);
        let fail = self.fail.load(Ordering::Relaxed);
        if fail == NEVER || fail >> 32 != call as u64 {
            return Ok(());
        }
        if fail & 0xffff_ffff != 0 {
            self.fail.store(fail - 1, Ordering::Relaxed);
            return Ok(());
        }
        self.fail.store(NEVER, Ordering::Relaxed);
        Err(Error::SystemCall {
            call: "injected fault",
            at,
            len: 0,
            errno: Errno(libc::EIO),
            mend: "none",
        })
    }
}

// SAFETY: as the inner memory; a failing write leaves a prefix, which the contract allows.
unsafe impl<M: CodeMemory> CodeMemory for FailingMemory<M> {
    fn strategy(&self) -> Strategy {
        self.inner.strategy()
    }

    fn range(&self) -> CodeRange {
        self.inner.range()
    }

    fn begin(&self, runs: &[PageRun], stopped: &Stopped) -> Result<()> {
        self.pass(Call::Begin, self.range().start())?;
        self.inner.begin(runs, stopped)
    }

    fn write(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        let passed = self.pass(Call::Write, at);
        let written = if passed.is_ok() {
            bytes
        } else {
            &bytes[..bytes.len() / 2]
        };
        self.inner.write(at, written)?;
        passed
    }

    fn read(&self, at: CodeAddr, into: &mut [u8]) -> Result<()> {
        self.inner.read(at, into)
    }

    fn end(&self, runs: &[PageRun]) -> Result<()> {
        self.inner.end(runs)?;
        self.pass(Call::End, self.range().start())
            .map_err(|_| Error::ProtectionLost {
                runs: runs.iter().map(|run| run.range()).collect(),
                errno: Errno(libc::EIO),
            })
    }

    fn live(&self) -> Option<&dyn LiveMemory> {
        self.inner.live().map(|_| self as &dyn LiveMemory)
    }
}

// SAFETY: as the inner memory.
unsafe impl<M: CodeMemory> LiveMemory for FailingMemory<M> {
    fn write_unexecuted(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        self.write(at, bytes)
    }

    fn exchange(&self, word: CodeAddr, old: [u8; 8], new: [u8; 8]) -> Result<()> {
        self.pass(Call::Exchange, word)?;
        match self.inner.live() {
            Some(live) => live.exchange(word, old, new),
            None => unreachable!("live() answers only where the inner memory is live"),
        }
    }
}
