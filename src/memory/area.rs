//! A range of code with the memory through which it is written.

use std::fmt;
use std::sync::Arc;

use super::CodeMemory;
use crate::addr::{CodeAddr, CodeRange};
use crate::error::{Error, Result};

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

    /// The memory.
    #[must_use]
    pub const fn memory(&self) -> &Arc<dyn CodeMemory> {
        &self.memory
    }
}

impl fmt::Debug for CodeArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.range, self.memory.strategy())
    }
}
