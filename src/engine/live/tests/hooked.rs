//! Memory that does something else before it is written, and after.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::addr::{CodeAddr, CodeRange};
use crate::memory::{Alias, CodeMemory, LiveMemory, PageRun, Result, Strategy};
use crate::publish::Stopped;

/// What is done before a write, with how many there were before; where it fails, nothing is
/// written.
type Hook = Box<dyn FnMut(u64) -> Result<()> + Send>;
/// What is done after a write, likewise.
type HookAfter = Box<dyn FnMut(u64) + Send>;

/// Memory that calls its hooks before and after each write and each exchange, with how many there
/// were since it was set.
pub(super) struct Hooked {
    inner: Alias,
    calls: AtomicU64,
    hook: Mutex<Option<Hook>>,
    hook_after: Mutex<Option<HookAfter>>,
}

impl Hooked {
    pub(super) fn new(inner: Alias) -> Self {
        Self {
            inner,
            calls: AtomicU64::new(0),
            hook: Mutex::new(None),
            hook_after: Mutex::new(None),
        }
    }

    /// Takes this hook from now on.
    pub(super) fn hook(&self, hook: impl FnMut(u64) -> Result<()> + Send + 'static) {
        self.calls.store(0, Ordering::Relaxed);
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    /// Takes this hook from now on, after what is written.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn hook_after(&self, hook: impl FnMut(u64) + Send + 'static) {
        self.calls.store(0, Ordering::Relaxed);
        *self.hook_after.lock().unwrap() = Some(Box::new(hook));
    }

    /// Writes without anything else from now on, and counts anew.
    pub(super) fn unhook(&self) {
        self.calls.store(0, Ordering::Relaxed);
        *self.hook.lock().unwrap() = None;
        *self.hook_after.lock().unwrap() = None;
    }

    /// How many writes and exchanges there were since a hook was set or taken away.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn call(&self, write: impl FnOnce() -> Result<()>) -> Result<()> {
        let before = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut hook = self.hook.lock().unwrap();
        hook.as_mut().map_or(Ok(()), |hook| hook(before))?;
        drop(hook);
        write()?;
        if let Some(hook) = self.hook_after.lock().unwrap().as_mut() {
            hook(before);
        }
        Ok(())
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

// SAFETY: as the inner memory.
unsafe impl CodeMemory for Hooked {
    fn strategy(&self) -> Strategy {
        self.inner.strategy()
    }

    fn range(&self) -> CodeRange {
        self.inner.range()
    }

    fn begin(&self, runs: &[PageRun], stopped: &Stopped) -> Result<()> {
        self.inner.begin(runs, stopped)
    }

    fn write(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        self.call(|| self.inner.write(at, bytes))
    }

    fn read(&self, at: CodeAddr, into: &mut [u8]) -> Result<()> {
        CodeMemory::read(&self.inner, at, into)
    }

    fn end(&self, runs: &[PageRun]) -> Result<()> {
        self.inner.end(runs)
    }

    fn live(&self) -> Option<&dyn LiveMemory> {
        Some(self)
    }
}

// SAFETY: as the inner memory.
unsafe impl LiveMemory for Hooked {
    fn write_unexecuted(&self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        self.write(at, bytes)
    }

    fn exchange(&self, word: CodeAddr, old: [u8; 8], new: [u8; 8]) -> Result<()> {
        self.call(|| match self.inner.live() {
            Some(live) => live.exchange(word, old, new),
            None => unreachable!("the engine's own memory can be exchanged"),
        })
    }
}
