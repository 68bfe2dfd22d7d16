//! What is wrong with a record that has been found to be wrong.

use super::{HEADER, location_size, tail};
use crate::addr::ByteOffset;
use crate::bytes::{self, Bytes};
use crate::error::{Error, Result};
use crate::version::Version;

/// Looks for what is wrong with the record at `at`, part by part.
#[cold]
pub(super) fn of_record(bytes: Bytes<'_>, version: Version, at: usize, constants: u32) -> Error {
    let found = find(bytes, version, at, constants).err();
    // One was found before.
    found.unwrap_or_else(|| bytes::truncated("a record", at, HEADER as u64, bytes.data.len()))
}

fn find(bytes: Bytes<'_>, version: Version, at: usize, constants: u32) -> Result<()> {
    let data = bytes.data;
    let locations_at = bytes::span(data, "a record's header", at, 1, HEADER as u64)?;
    let (count, size) = (bytes.u16(at + 14).unwrap_or(0), location_size(version));
    let after = bytes::span(
        data,
        "a record's locations",
        locations_at,
        count.into(),
        size as u64,
    )?;
    let tail = at + tail(version, count);
    let padded = (tail - after) as u64 + 4;
    let live_outs_at = bytes::span(data, "a record's live-out count", after, 1, padded)?;
    let live_outs = bytes.u16(tail + 2).unwrap_or(0);
    bytes::span(data, "a record's live-outs", live_outs_at, live_outs.into(), 4)?;
    let mut locations = (0..usize::from(count)).map(|index| locations_at + index * size);
    locations.try_for_each(|at| check_location(bytes, at, size, constants))
}

/// The location at `at` is of a kind that is known, and its constant exists.
pub(crate) fn check_location(bytes: Bytes<'_>, at: usize, size: usize, constants: u32) -> Result<()> {
    let kind = bytes.u8(at).unwrap_or(0);
    let offset_at = at + size - 4;
    match kind {
        1..=4 => Ok(()),
        5 => {
            let index = bytes.u32(offset_at).unwrap_or(u32::MAX);
            if index < constants {
                return Ok(());
            }
            Err(Error::StackMapConstantIndex {
                at: ByteOffset::new(offset_at as u64),
                index,
                constants,
            })
        }
        _ => Err(Error::StackMapLocationKind {
            at: ByteOffset::new(at as u64),
            kind,
        }),
    }
}
