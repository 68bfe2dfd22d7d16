//! Code memory that fails on demand, for tests of transactions.

#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
pub(crate) mod process;

pub(crate) mod host_code;
#[path = "../../../examples/objects/mod.rs"]
pub(crate) mod objects;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{CodeMemory, LiveMemory, PageRun, Strategy};
use crate::addr::{CodeAddr, CodeRange};
use crate::error::Errno;
use crate::memory::{Error, Result};
use crate::quiescence::Stopped;

/// A call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Begin,
    Write,
    End,
    Exchange,
    Read,
}

/// Memory that passes every call on, but for those that are to fail.
///
/// A failing `write` has written the first half of its bytes, as a write through a file may; a
/// failing `end` has done its work; the other failing calls have done nothing.
#[derive(Debug)]
pub(crate) struct FailingMemory<M> {
    inner: M,
    counts: [AtomicU64; 5],
    rules: [AtomicU64; 5],
    loses_writes: AtomicBool,
    /// How many calls of `begin` have not been followed by one of `end`.
    open: AtomicU64,
}

/// No call of the kind fails; otherwise a rule is the number of calls that still succeed, and
/// `FOR_GOOD` or not.
const NEVER: u64 = u64::MAX;
const FOR_GOOD: u64 = 1 << 62;

impl<M: CodeMemory> FailingMemory<M> {
    pub(crate) fn new(inner: M) -> Self {
        Self {
            inner,
            counts: Default::default(),
            rules: [const { AtomicU64::new(NEVER) }; 5],
            loses_writes: AtomicBool::new(false),
            open: AtomicU64::new(0),
        }
    }

    /// Lets the call fail that comes after `after` successful ones of its kind, once.
    pub(crate) fn fail_after(&self, call: Call, after: u32) {
        self.rules[call as usize].store(u64::from(after), Ordering::Relaxed);
    }

    /// Lets every call fail that comes after `after` successful ones of its kind, until
    /// [`heal`](Self::heal).
    pub(crate) fn fail_from(&self, call: Call, after: u32) {
        self.rules[call as usize].store(FOR_GOOD | u64::from(after), Ordering::Relaxed);
    }

    /// Lets writes and exchanges succeed and change nothing.
    pub(crate) fn lose_writes(&self, lose: bool) {
        self.loses_writes.store(lose, Ordering::Relaxed);
    }

    /// Lets no call fail any more.
    pub(crate) fn heal(&self) {
        self.rules
            .iter()
            .for_each(|rule| rule.store(NEVER, Ordering::Relaxed));
    }

    /// How many calls of a kind there were, failed ones included.
    pub(crate) fn count(&self, call: Call) -> u64 {
        self.counts[call as usize].load(Ordering::Relaxed)
    }

    /// Whether every failure that was asked for has happened, or none was.
    pub(crate) fn has_failed(&self) -> bool {
        let rules = self.rules.iter().map(|rule| rule.load(Ordering::Relaxed));
        rules.into_iter().all(|rule| rule == NEVER || rule == FOR_GOOD)
    }
    /// Whether what was begun has not been ended.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) != 0
    }

    fn pass(&self, call: Call, at: CodeAddr) -> Result<()> {
        self.counts[call as usize].fetch_add(1, Ordering::Relaxed);
        let rule = &self.rules[call as usize];
        match rule.load(Ordering::Relaxed) {
            NEVER => return Ok(()),
            FOR_GOOD => {}
            0 => rule.store(NEVER, Ordering::Relaxed),
            left => {
                rule.store(left - 1, Ordering::Relaxed);
                return Ok(());
            }
        }
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
        self.inner.begin(runs, stopped)?;
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn write(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        let passed = self.pass(Call::Write, at);
        if self.loses_writes.load(Ordering::Relaxed) {
            return passed;
        }
        let written = if passed.is_ok() {
            bytes
        } else {
            &bytes[..bytes.len() / 2]
        };
        self.inner.write(at, written)?;
        passed
    }

    fn read(&self, at: CodeAddr, into: &mut [u8]) -> Result<()> {
        self.pass(Call::Read, at)?;
        self.inner.read(at, into)
    }

    fn end(&self, runs: &[PageRun]) -> Result<()> {
        self.inner.end(runs)?;
        self.open.fetch_sub(1, Ordering::Relaxed);
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
        if self.loses_writes.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.inner.live() {
            Some(live) => live.exchange(word, old, new),
            None => unreachable!("live() answers only where the inner memory is live"),
        }
    }
}
