//! The boundary: what a transaction asks of code memory.

#![allow(unsafe_code)]

use std::fmt;

use crate::addr::{CodeAddr, CodeRange};
use crate::invariant::OrAbort;
use crate::memory::{Error, Result};
use crate::quiescence::Stopped;

use super::{Alias, PageRun};

/// How bytes get into code memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// Stores through a second mapping.
    Alias,
    /// The same, for pages of somebody else's that were mapped anew.
    Remap,
    /// Writes to the process's memory as a file.
    ProcMem,
    /// Protection changed before and after.
    Toggle,
    /// The runtime's own [`CodeMemory`].
    Runtime,
}

impl Strategy {
    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alias => "Alias",
            Self::Remap => "Remap",
            Self::ProcMem => "ProcMem",
            Self::Toggle => "Toggle",
            Self::Runtime => "the runtime's own memory",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Code memory that the engine can change: how a transaction writes.
///
/// A transaction calls, on one thread, [`begin`](Self::begin) with every run of pages it will
/// write, then any number of [`write`](Self::write) and [`read`](Self::read), then
/// [`end`](Self::end) with the same runs. Calls of several transactions on the same memory do not
/// overlap in time: the engine holds a lock. `read` may be called at any time.
///
/// # Safety
///
/// The engine's guarantees rest on the implementation:
///
/// - [`range`](Self::range) is mapped and readable as long as the value exists, and is code whose owner has
///   agreed to its being changed.
/// - When `begin` fails, everything is as it was before the call, except for what [`Error::ProtectionLost`]
///   names. What can be known to keep a `write` from succeeding makes `begin` fail.
/// - `write` changes exactly the bytes asked for, and they are in memory as executed when it returns. It
///   never touches a byte outside `range`. A `write` that fails may have changed some of these bytes and no
///   others; the transaction then writes the old ones back.
/// - No page is at any moment writable and executable through the same mapping.
/// - After `end` has returned `Ok` the runs are executable, with all the protection flags that they had
///   before.
/// - Nothing panics.
pub unsafe trait CodeMemory: Send + Sync + fmt::Debug {
    /// How this memory is written.
    fn strategy(&self) -> Strategy;

    /// The executed addresses that can be written.
    fn range(&self) -> CodeRange;

    /// Makes the runs writable. The token says that no thread executes the engine's code until the
    /// world resumes.
    ///
    /// # Errors
    ///
    /// Whatever keeps the runs from being written; everything is as before then. Only when taking
    /// back what was already done fails as well, [`Error::ProtectionLost`] names the runs
    /// concerned.
    fn begin(&self, runs: &[PageRun], stopped: &Stopped) -> Result<()>;

    /// Writes bytes at an executed address.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideMemory`], or [`Error::PageNotOpen`] for bytes in no run that was begun. A
    /// strategy without such a notion accepts them.
    fn write(&self, at: CodeAddr, bytes: &[u8]) -> Result<()>;

    /// Reads bytes as they would be executed.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideMemory`].
    fn read(&self, at: CodeAddr, into: &mut [u8]) -> Result<()>;

    /// Whether the bytes at an executed address are these. A comparison in place saves copying
    /// them.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    fn holds(&self, at: CodeAddr, expected: &[u8]) -> Result<bool> {
        let mut buffer = [0; 64];
        let mut offset = 0;
        for expected in expected.chunks(buffer.len()) {
            // Memories compare while the world is stopped.
            let found = buffer.get_mut(..expected.len());
            let found = found.or_abort("no chunk is longer than the buffer");
            // An address that does not exist is none of the memory's.
            let from = at
                .get()
                .checked_add(offset)
                .map_or(CodeAddr::new(u64::MAX), CodeAddr::new);
            self.read(from, found)?;
            if *found != *expected {
                return Ok(false);
            }
            offset += expected.len() as u64;
        }
        Ok(true)
    }

    /// Makes room for what `begin` and `end` note of that many runs. Called before the world is
    /// stopped: a stopped thread may hold the allocator's lock, so the calls while it is must not
    /// allocate where they succeed.
    fn make_room(&self, _runs: usize) {}

    /// Restores the runs' protection. All runs are tried, also after one has failed.
    ///
    /// # Errors
    ///
    /// [`Error::ProtectionLost`] with exactly those runs that could not be restored. They hold what
    /// was written.
    fn end(&self, runs: &[PageRun]) -> Result<()>;

    /// The same memory as the engine's own, where it is no other. A transaction that is only in
    /// such memory calls it directly, which takes a fifth off a commit. Others need not implement
    /// it, and one that does something else in its calls must not.
    fn as_alias(&self) -> Option<&Alias> {
        None
    }

    /// The same memory as one that can be written while threads execute on its pages, where that is
    /// so.
    fn live(&self) -> Option<&dyn LiveMemory> {
        None
    }
}

/// Code memory whose bytes can be changed while other threads execute on the same page.
///
/// Which bytes may be changed then is the caller's concern: bytes that no thread executes or will
/// execute before they are published, or a word for which the architecture allows the exchange.
///
/// # Safety
///
/// As for [`CodeMemory`], and: no call ever makes a page of the range unreadable or not executable,
/// not for an instant. `exchange` makes its change with one store that other cores observe whole.
pub unsafe trait LiveMemory: CodeMemory {
    /// Writes bytes that no thread is executing, without `begin` and `end`.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideMemory`], or the strategy's refusal; nothing has been written then.
    fn write_unexecuted(&self, at: CodeAddr, bytes: &[u8]) -> Result<()>;

    /// Exchanges the 8 bytes at `word`, a multiple of 8, by one store; bytes are in memory order.
    ///
    /// Code begins and ends at any address: where a part of the word is not of the range, that part
    /// is the same in `old` and `new`, and [`read`](CodeMemory::read) reads it too.
    ///
    /// # Errors
    ///
    /// [`Error::WordChanged`] when the word is not `old`; [`Error::NoAtomicStore`] where the
    /// strategy or the address does not allow it; [`Error::OutsideMemory`]. Nothing has been
    /// written then.
    fn exchange(&self, word: CodeAddr, old: [u8; 8], new: [u8; 8]) -> Result<()>;
}

/// The quadwords that memory lies in: what an exchange at its ends reads. They are on its pages.
pub(super) fn quadwords(memory: CodeRange) -> CodeRange {
    let start = memory.start().get() & !7;
    let len = (memory.end().get() - start).next_multiple_of(8);
    CodeRange::new(CodeAddr::new(start), len).or_abort("a page has addresses")
}

/// Refuses bytes that are not within the memory.
#[inline]
pub(super) fn check_within(memory: CodeRange, at: CodeAddr, len: usize) -> Result<()> {
    match memory.contains_bytes(at, len as u64) {
        true => Ok(()),
        false => Err(outside(memory, at, len)),
    }
}

#[cold]
fn outside(memory: CodeRange, at: CodeAddr, len: usize) -> Error {
    let len = len as u64;
    Error::OutsideMemory { at, len, memory }
}
