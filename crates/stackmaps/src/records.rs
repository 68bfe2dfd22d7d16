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

    /// The next one and its end; `None` where there can be none, which is not so in the order of a
    /// map.
    #[inline(always)]
    fn read_next(&self) -> Option<(Record<'a>, usize)> {
        match self.version {
            Version::Flat(dialect) => {
                let Bytes { data, endian } = self.bytes;
                // Taken apart: passed on as it is, it has all records made in memory and copied from there.
                let (record, end) = arrays::read_record(data, endian, dialect, self.parts, self.at)?;
                Some((record, end))
            }
            version => Record::read(self.bytes, version, self.at),
        }
    }

    /// The next one, of a place that somebody else names.
    pub(super) fn read(&self) -> Option<Record<'a>> {
        self.read_next().map(|(record, _)| record)
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
        let (record, end) = self.read_next().expect("each record of a map was checked");
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
