//! A range of code with the memory through which it is written.

#![allow(unsafe_code, reason = "who is handed code memory can write code")]

use std::fmt;
use std::sync::Arc;

use super::{CodeMemory, Strategy};
use crate::addr::{CodeAddr, CodeRange};
use crate::memory::{Error, Result};

/// A range of code with the memory through which it is written.
#[derive(Clone)]
pub struct CodeArea {
    range: CodeRange,
    memory: Arc<dyn CodeMemory>,
}

impl CodeArea {
    /// A range that lies in a memory.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideMemory`] when it does not.
    pub fn new(range: CodeRange, memory: &Arc<dyn CodeMemory>) -> Result<Self> {
        let (at, len, whole) = (range.start(), range.len(), memory.range());
        // protection: functions-lie-in-their-memory
        if !whole.contains_bytes(at, len) {
            return Err(Error::OutsideMemory {
                at,
                len,
                memory: whole,
            });
        }
        Ok(Self {
            range,
            memory: Arc::clone(memory),
        })
    }

    /// The area of a sorted list that contains an address.
    #[inline]
    pub(crate) fn containing(areas: &[Self], addr: CodeAddr) -> Option<&Self> {
        // Most modules have one.
        if let [only] = areas {
            return Some(only).filter(|area| area.range.contains(addr));
        }
        let index = areas
            .partition_point(|area| area.range.start() <= addr)
            .checked_sub(1)?;
        areas.get(index).filter(|area| area.range.contains(addr))
    }

    /// The addresses.
    #[must_use]
    pub const fn range(&self) -> CodeRange {
        self.range
    }

    /// How it is written.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.memory.strategy()
    }

    /// Reads bytes as they would be executed.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideMemory`], for bytes outside of the area too.
    pub fn read(&self, at: CodeAddr, into: &mut [u8]) -> Result<()> {
        let len = into.len() as u64;
        match self.range.contains_bytes(at, len) {
            true => self.memory.read(at, into),
            false => Err(Error::OutsideMemory {
                at,
                len,
                memory: self.range,
            }),
        }
    }

    /// The memory, which writes whatever it is told to.
    ///
    /// # Safety
    ///
    /// What is written through it is code that may be executed there, whole at every moment at
    /// which a thread can execute it. No site of a registered module is written but to be put back
    /// as it was, before a thread executes it and before the engine changes it.
    #[must_use]
    pub const unsafe fn writable(&self) -> &Arc<dyn CodeMemory> {
        &self.memory
    }

    /// The memory, for who writes what has been checked.
    // protection: code-memory-is-not-handed-out
    pub(crate) const fn memory(&self) -> &Arc<dyn CodeMemory> {
        &self.memory
    }
}

impl fmt::Debug for CodeArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.range, self.memory.strategy())
    }
}
