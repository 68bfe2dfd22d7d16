//! Where the arrays of a flat map are, and the check of all of it.

mod frame;

use crate::addr::ByteOffset;
use crate::bytes::{self, Bytes, Endian};
use crate::error::{Error, Result};
use crate::record::{Record, check_location};
use crate::version::Dialect;
pub use frame::{FlatFrame, FrameRegister, FrameRegisters};

/// The version and the offsets, or the number of frames and the offsets.
const HEADER: usize = 28;
/// The header, padded to the alignment of the constants.
pub(crate) const FIRST: usize = 32;
const CONSTANT: usize = 8;
pub(super) const FRAME_REGISTER: usize = 8;
pub(super) const RECORD: usize = 24;
const LOCATION: usize = 8;
const LIVE_OUT: usize = 4;

impl Dialect {
    /// The bytes of a frame.
    pub(crate) const fn frame_size(self) -> usize {
        match self {
            Self::Proposal => 32,
            Self::Fork => 24,
        }
    }

    /// A number and an index, in the order of the dialect.
    pub(super) const fn number_and_index(self, first: u16, second: u16) -> (usize, usize) {
        match self {
            Self::Proposal => (first as usize, second as usize),
            Self::Fork => (second as usize, first as usize),
        }
    }
}

/// Where the arrays begin, from the start of the section. Each ends where the next one begins.
#[derive(Clone, Copy)]
pub(crate) struct Arrays {
    pub(crate) constants: usize,
    pub(crate) frames: usize,
    pub(super) registers: usize,
    pub(crate) records: usize,
    pub(crate) parts: ArrayOffsets,
}

/// Where a flat map has what its records refer to; of another map it says nothing.
#[derive(Clone, Copy, Default)]
pub(crate) struct ArrayOffsets {
    locations: usize,
    live_outs: usize,
}

impl ArrayOffsets {
    /// What the header at `at` says.
    #[cold]
    #[inline(never)]
    pub(crate) fn read(data: &[u8], endian: Endian, dialect: Dialect, at: usize) -> Self {
        Arrays::read(data, endian, dialect, at).parts
    }
}

/// What the check of a map found.
pub(crate) struct Checked {
    pub(crate) arrays: Arrays,
    pub(crate) frames: u32,
    pub(crate) constants: u32,
    pub(crate) records: u32,
    pub(crate) end: usize,
}

impl Arrays {
    /// What the header at `at` says. Not on the way of other maps.
    #[cold]
    #[inline(never)]
    pub(crate) fn read(data: &[u8], endian: Endian, dialect: Dialect, at: usize) -> Self {
        let bytes = Bytes { data, endian };
        let word = |number: usize| bytes.u32(at + 4 * number).unwrap_or(0) as usize;
        let array = |number| at.saturating_add(word(number));
        let has_registers = usize::from(dialect == Dialect::Proposal);
        let first = 2 - has_registers;
        Self {
            constants: array(first),
            frames: array(first + 1),
            registers: array(first + 2),
            records: array(first + 2 + has_registers),
            parts: ArrayOffsets {
                locations: array(first + 3 + has_registers),
                live_outs: array(first + 4 + has_registers),
            },
        }
    }

    /// Each array begins where a whole number of the entries before it ends.
    fn check(&self, bytes: Bytes<'_>, dialect: Dialect, at: usize) -> Result<()> {
        let arrays = [
            // The header may be longer than is known.
            ("the constants", CONSTANT, self.constants),
            ("the frames", CONSTANT, self.frames),
            ("the frame registers", dialect.frame_size(), self.registers),
            ("the records", FRAME_REGISTER, self.records),
            ("the locations", RECORD, self.parts.locations),
            ("the live-outs", LOCATION, self.parts.live_outs),
        ];
        let mut before = at + FIRST;
        for (what, unit, start) in arrays {
            let len = start.checked_sub(before);
            if len.is_none_or(|len| len % unit != 0) {
                return Err(Error::FlatMapArray {
                    what,
                    map: ByteOffset::new(at as u64),
                    start: ByteOffset::new(start as u64),
                    before: ByteOffset::new(before as u64),
                    unit: unit as u64,
                });
            }
            before = start;
        }
        let (frames, have) = (self.frames_len(dialect), bytes.u32(at + 4).unwrap_or(0));
        if dialect == Dialect::Fork && frames != have as usize {
            return Err(Error::FlatMapFrames {
                at: ByteOffset::new(at as u64 + 4),
                header: have,
                have: frames as u64,
            });
        }
        Ok(())
    }

    fn frames_len(&self, dialect: Dialect) -> usize {
        (self.registers - self.frames) / dialect.frame_size()
    }

    pub(super) fn registers_len(&self) -> usize {
        (self.records - self.registers) / FRAME_REGISTER
    }

    fn locations_len(&self) -> usize {
        (self.parts.live_outs - self.parts.locations) / LOCATION
    }
}

/// Whether a header of that dialect may be at `at`, by its offsets alone.
pub(crate) fn is_header(bytes: Bytes<'_>, dialect: Dialect, at: usize) -> bool {
    let has_it = bytes.data.len().saturating_sub(at) >= HEADER;
    has_it
        && Arrays::read(bytes.data, bytes.endian, dialect, at)
            .check(bytes, dialect, at)
            .is_ok()
}

/// Checks the map at `at`, all of it.
pub(crate) fn check(bytes: Bytes<'_>, dialect: Dialect, at: usize) -> Result<Checked> {
    bytes::span(bytes.data, "a flat map's header", at, 1, HEADER as u64)?;
    let arrays = Arrays::read(bytes.data, bytes.endian, dialect, at);
    arrays.check(bytes, dialect, at)?;
    // All others end before these begin.
    bytes::span(
        bytes.data,
        "the arrays before the live-outs",
        at,
        1,
        (arrays.parts.live_outs - at) as u64,
    )?;
    let map = Map {
        bytes,
        dialect,
        arrays,
    };
    let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    let constants = count((arrays.frames - arrays.constants) / CONSTANT);
    map.check_locations(constants)?;
    map.check_frames()?;
    Ok(Checked {
        arrays,
        frames: count(arrays.frames_len(dialect)),
        constants,
        records: count(map.records_len()),
        end: map.check_records()?,
    })
}

/// A map whose arrays are where its header says.
struct Map<'a> {
    bytes: Bytes<'a>,
    dialect: Dialect,
    arrays: Arrays,
}

impl Map<'_> {
    fn records_len(&self) -> usize {
        (self.arrays.parts.locations - self.arrays.records) / RECORD
    }

    /// Also those that no record has: each is looked at once, however many records share it.
    fn check_locations(&self, constants: u32) -> Result<()> {
        let mut starts = (self.arrays.parts.locations..self.arrays.parts.live_outs).step_by(LOCATION);
        starts.try_for_each(|at| check_location(self.bytes, at, LOCATION, constants))
    }

    /// Frame registers are there, and each frame's records begin where those of the frame before
    /// end.
    fn check_frames(&self) -> Result<()> {
        let Arrays {
            frames, registers, ..
        } = self.arrays;
        let mut next = 0;
        for at in (frames..registers).step_by(self.dialect.frame_size()) {
            let field = match self.dialect {
                Dialect::Proposal => at + 24,
                Dialect::Fork => at + 20,
            };
            if self.dialect == Dialect::Proposal {
                self.range("frame registers", at + 20, self.arrays.registers_len())?;
            }
            let (count, index) = self.range("records", field, self.records_len())?;
            if count > 0 && index != next {
                return Err(Error::FlatMapOwner {
                    at: ByteOffset::new(field as u64),
                    index: index as u64,
                    expected: next as u64,
                });
            }
            next += count;
        }
        if next != self.records_len() {
            return Err(Error::FlatMapUnowned {
                at: ByteOffset::new(self.arrays.records as u64),
                owned: next as u64,
                records: self.records_len() as u64,
            });
        }
        Ok(())
    }

    /// Locations and live-outs are there. Returns where the last live-out ends.
    fn check_records(&self) -> Result<usize> {
        let Arrays { records, parts, .. } = self.arrays;
        let ArrayOffsets { locations, live_outs } = parts;
        let mut end = live_outs;
        for at in (records..locations).step_by(RECORD) {
            self.range("locations", at + 14, self.arrays.locations_len())?;
            let left = self.bytes.data.len().saturating_sub(live_outs);
            let (count, index) = self.range("live-outs", at + 18, left / LIVE_OUT)?;
            if count > 0 {
                end = end.max(live_outs + (index + count) * LIVE_OUT);
            }
        }
        Ok(end)
    }

    /// The number and the index at `at`; an index without a number says nothing.
    fn range(&self, what: &'static str, at: usize, have: usize) -> Result<(usize, usize)> {
        let field = |at| self.bytes.u16(at).unwrap_or(0);
        let (count, index) = self.dialect.number_and_index(field(at), field(at + 2));
        if count > 0 && index + count > have {
            return Err(Error::FlatMapRange {
                what,
                at: ByteOffset::new(at as u64),
                index: index as u64,
                count: count as u64,
                have: have as u64,
            });
        }
        Ok((count, index))
    }
}

/// The record at `at` and its end, if it and what it refers to lie in the bytes.
#[cold]
#[inline(never)]
pub(crate) fn read_record<'a>(
    data: &'a [u8],
    endian: Endian,
    dialect: Dialect,
    parts: ArrayOffsets,
    at: usize,
) -> Option<(Record<'a>, usize)> {
    let bytes = Bytes { data, endian };
    let entry: &[u8; RECORD] = bytes.data.get(at..)?.first_chunk()?;
    let field = |from: usize| {
        let pair = entry.get(from..)?.first_chunk()?;
        Some(bytes.endian.u16(*pair))
    };
    let (locations, location) = dialect.number_and_index(field(14)?, field(16)?);
    let (live_outs, live_out) = dialect.number_and_index(field(18)?, field(20)?);
    // From its first location to its last live-out, with those of others between them.
    let start = match locations {
        0 => parts.locations,
        _ => parts.locations.checked_add(location * LOCATION)?,
    };
    let end = match live_outs {
        0 => parts.live_outs,
        _ => parts.live_outs.checked_add((live_out + live_outs) * LIVE_OUT)?,
    };
    let raw = bytes.data.get(start..end)?;
    // Of an entry that was checked it is so; others may be read, too, see `OwnedMaps::get`.
    // protection: entry-holds-its-parts
    if raw.len() < (locations * LOCATION).max(live_outs * LIVE_OUT) {
        return None;
    }
    let record = Record::of_flat(
        bytes.endian,
        dialect,
        at,
        entry,
        raw,
        locations as u16,
        live_outs as u16,
    );
    Some((record, at + RECORD))
}
