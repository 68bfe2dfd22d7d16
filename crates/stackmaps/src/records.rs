//! The records of a map, one after the other, whatever its layout.

use core::fmt;

use crate::arrays::{self, ArrayOffsets};
use crate::bytes::Bytes;
use crate::record::Record;
use crate::version::Version;

/// Iterates over the records of a map or of a function.
#[derive(Clone)]
pub struct Records<'a> {
    bytes: Bytes<'a>,
    version: Version,
    at: usize,
    left: u64,
    /// Where a flat map has what its records refer to.
    parts: ArrayOffsets,
}

impl<'a> Records<'a> {
    pub(super) fn new(bytes: Bytes<'a>, version: Version, parts: ArrayOffsets, at: usize, left: u64) -> Self {
        Self {
            bytes,
            version,
            at,
            left,
            parts,
        }
    }

    /// Where the record after these starts.
    pub(super) fn rest_at(mut self) -> usize {
        while self.next().is_some() {}
        self.at
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        self.left = self.left.checked_sub(1)?;
        // They were checked; should one be wrong all the same, it ends here.
        let read = match self.version {
            Version::Flat(dialect) => {
                let Bytes { data, endian } = self.bytes;
                arrays::read_record(data, endian, dialect, self.parts, self.at)
            }
            version => Record::read(self.bytes, version, self.at),
        };
        let Some((record, end)) = read else {
            self.left = 0;
            return None;
        };
        self.at = end;
        Some(record)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Records<'_> {}

impl fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
