//! Without the feature `remote` no other process executes the code of an arena: a value that cannot be.

use crate::addr::CodeRange;
use crate::error::Result;

/// The process that executes the code of an arena.
#[derive(Clone, Debug)]
pub(crate) enum Elsewhere {}

/// What may be done with pages of data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    /// They can be read.
    Read,
}

impl Elsewhere {
    pub(super) fn map_chunk(&self, _: CodeRange, _: CodeRange) -> Result<Option<u64>> {
        match *self {}
    }

    pub(super) fn protect(&self, _: CodeRange, _: Access) -> Result<()> {
        match *self {}
    }

    pub(super) fn renew(&self, _: CodeRange) -> Result<()> {
        match *self {}
    }

    pub(super) fn unmap(&self, _: CodeRange) {
        match *self {}
    }
}
