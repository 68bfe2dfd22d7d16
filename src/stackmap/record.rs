use core::fmt;

use super::bytes::{self, Bytes, Endian};
use super::map::Version;
use crate::addr::{ByteOffset, DwarfReg, FnOffset, RecordId};
use crate::error::{Error, Result};

const HEADER: usize = 16;

/// Where the value of a location is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In a register, `bit_offset` bits from its least significant bit (0 but for sub-registers, such as
    /// SystemZ's high halves).
    Register {
        /// The register.
        reg: DwarfReg,
        /// Bits from the least significant bit of the register.
        bit_offset: i32,
    },
    /// The value is the address `reg + offset` itself, a stack slot.
    Direct {
        /// The base register.
        reg: DwarfReg,
        /// Bytes added to it.
        offset: i32,
    },
    /// In memory at `reg + offset`, spilled.
    Indirect {
        /// The base register.
        reg: DwarfReg,
        /// Bytes added to it.
        offset: i32,
    },
    /// A small constant, sign-extended.
    Constant {
        /// The constant.
        value: i32,
    },
    /// A large constant: an index into the map's [`Constants`](super::Constants).
    ConstantIndex {
        /// The index, which is less than the number of constants.
        index: u32,
    },
}

/// One location of a record: where a live value is and how many bytes it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// Where.
    pub place: Place,
    /// The size of the value in bytes.
    pub size: u16,
}

/// A register that is live after a patchpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LiveOut {
    /// The register. 65,535 stands for one that has no DWARF number, such as a control register of SystemZ.
    pub reg: DwarfReg,
    /// How many of its low bytes are live.
    pub size: u8,
}

/// One record: what is known at one patchpoint, stackmap or statepoint.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    bytes: Bytes<'a>,
    version: Version,
    at: usize,
    constants: u32,
}

/// Offsets of the parts of a record, all checked to lie in the bytes.
struct Parts {
    live_outs_at: usize,
    live_outs: u16,
    end: usize,
}

/// The bytes of the smallest record: no locations, no live-outs, and the padding after them, which may be
/// missing at the end of the section.
pub(super) const SMALLEST: usize = HEADER + 4;

const fn location_size(version: Version) -> usize {
    match version {
        Version::V1 | Version::V2 => 8,
        Version::V3 => 12,
    }
}

/// The first multiple of 8 bytes from `start` that is not before `at`. Every part of a map before a record
/// has a size that is a multiple of 8, so padding may be counted from the record itself.
const fn align8(start: usize, at: usize) -> usize {
    at + (start.wrapping_sub(at) & 7)
}

impl<'a> Record<'a> {
    /// Reads the record at `at`, checks it, and returns it with its end.
    #[inline]
    pub(super) fn checked(
        bytes: Bytes<'a>,
        version: Version,
        at: usize,
        constants: u32,
    ) -> Result<(Self, usize)> {
        let record = Self {
            bytes,
            version,
            at,
            constants,
        };
        let end = record.parts().map(|parts| parts.end);
        match end.filter(|_| record.has_known_locations()) {
            Some(end) => Ok((record, end)),
            None => Err(record.fault()),
        }
    }

    /// Whether each location is of a kind that is known, and its constant exists.
    #[inline]
    fn has_known_locations(&self) -> bool {
        let known = |location: &[u8]| match location.first() {
            Some(1..=4) => true,
            Some(5) => self.constant_exists(location),
            _ => false,
        };
        let raw = self.locations().raw;
        // Of a constant size, the chunks need no checks.
        match self.version {
            Version::V3 => raw.chunks_exact(12).all(known),
            Version::V1 | Version::V2 => raw.chunks_exact(8).all(known),
        }
    }

    fn constant_exists(&self, location: &[u8]) -> bool {
        let bytes = Bytes {
            data: location,
            endian: self.bytes.endian,
        };
        bytes
            .u32(location.len() - 4)
            .is_some_and(|index| index < self.constants)
    }

    /// What is wrong with a record that has been found to be wrong.
    #[cold]
    fn fault(&self) -> Error {
        let found = self.find_fault().err();
        // One was found before.
        found.unwrap_or_else(|| bytes::truncated("a record", self.at, HEADER as u64, self.bytes.data.len()))
    }

    fn find_fault(&self) -> Result<()> {
        let data = self.bytes.data;
        let locations_at = bytes::span(data, "a record's header", self.at, 1, HEADER as u64)?;
        let (count, size) = (self.location_count(), location_size(self.version));
        let after = bytes::span(
            data,
            "a record's locations",
            locations_at,
            count.into(),
            size as u64,
        )?;
        let tail = self.tail(after);
        let padded = (tail - after) as u64 + 4;
        let live_outs_at = bytes::span(data, "a record's live-out count", after, 1, padded)?;
        let live_outs = self.bytes.u16(tail + 2).unwrap_or(0);
        bytes::span(data, "a record's live-outs", live_outs_at, live_outs.into(), 4)?;
        (0..usize::from(count)).try_for_each(|index| self.check_location(locations_at + index * size))
    }

    /// Where the padding and the number of live-outs start, behind the locations.
    #[inline]
    fn tail(&self, after: usize) -> usize {
        match self.version {
            Version::V3 => align8(self.at, after),
            Version::V1 | Version::V2 => after,
        }
    }

    /// The record at `at`, which has been checked before.
    pub(super) fn view(bytes: Bytes<'a>, version: Version, at: usize, constants: u32) -> Self {
        Self {
            bytes,
            version,
            at,
            constants,
        }
    }

    /// The parts; `None` where they do not lie in the bytes, which cannot be of a record that was checked.
    #[inline]
    fn parts(&self) -> Option<Parts> {
        let locations = usize::from(self.bytes.u16(self.at + 14)?);
        let tail = self.tail(self.at + HEADER + locations * location_size(self.version));
        let live_outs = self.bytes.u16(tail + 2)?;
        let live_outs_at = tail + 4;
        let after = live_outs_at + usize::from(live_outs) * 4;
        let len = self.bytes.data.len();
        // Whoever trims the section may cut off the padding of the last record.
        (after <= len).then(|| Parts {
            live_outs_at,
            live_outs,
            end: align8(self.at, after).min(len),
        })
    }

    fn check_location(&self, at: usize) -> Result<()> {
        let kind = self.bytes.u8(at).unwrap_or(0);
        let offset_at = at + location_size(self.version) - 4;
        match kind {
            1..=4 => Ok(()),
            5 => {
                let index = self.bytes.u32(offset_at).unwrap_or(u32::MAX);
                if index < self.constants {
                    return Ok(());
                }
                Err(Error::StackMapConstantIndex {
                    at: ByteOffset::new(offset_at as u64),
                    index,
                    constants: self.constants,
                })
            }
            _ => Err(Error::StackMapLocationKind {
                at: ByteOffset::new(at as u64),
                kind,
            }),
        }
    }

    #[inline]
    fn location_count(&self) -> u16 {
        self.bytes.u16(self.at + 14).unwrap_or(0)
    }

    /// The ID that the IR gave it.
    #[must_use]
    #[inline]
    pub fn id(&self) -> RecordId {
        RecordId::new(self.bytes.u64(self.at).unwrap_or(u64::MAX))
    }

    /// The offset from the start of the function. Of a stackmap: the start of its shadow. Of a
    /// patchpoint: the start of its reserved bytes. Of a statepoint: the return address.
    #[must_use]
    #[inline]
    pub fn offset(&self) -> FnOffset {
        FnOffset::new(self.bytes.u32(self.at + 8).unwrap_or(0))
    }

    /// Where in the section the record starts.
    #[must_use]
    pub fn byte_offset(&self) -> ByteOffset {
        ByteOffset::new(self.at as u64)
    }

    /// Whether this may stand for a record that LLVM could not encode (more than 65,535 locations or
    /// live-outs): the ID is `u64::MAX` and nothing else is there. A legal record can look the same.
    #[must_use]
    pub fn may_be_overflow(&self) -> bool {
        self.id().get() == u64::MAX && self.location_count() == 0 && self.live_outs().len() == 0
    }

    /// The locations, in the order of the call's operands.
    #[must_use]
    #[inline]
    pub fn locations(&self) -> Locations<'a> {
        let (start, size) = (self.at + HEADER, location_size(self.version));
        let end = start + usize::from(self.location_count()) * size;
        Locations {
            raw: self.bytes.data.get(start..end).unwrap_or_default(),
            endian: self.bytes.endian,
            size,
        }
    }

    /// The registers that are live after the patchpoint. See the crate's documentation before trusting it.
    #[must_use]
    #[inline]
    pub fn live_outs(&self) -> LiveOuts<'a> {
        let raw = self.parts().and_then(|parts| {
            let end = parts.live_outs_at + usize::from(parts.live_outs) * 4;
            self.bytes.data.get(parts.live_outs_at..end)
        });
        LiveOuts {
            raw: raw.unwrap_or_default(),
            endian: self.bytes.endian,
        }
    }

    /// Where the next record starts; `None` cannot happen for a record that was checked.
    #[inline]
    fn end(&self) -> Option<usize> {
        self.parts().map(|parts| parts.end)
    }
}

/// Iterates over the records of a map or of a function.
#[derive(Clone)]
pub struct Records<'a> {
    next: Record<'a>,
    left: u64,
}

impl<'a> Records<'a> {
    pub(super) fn new(bytes: Bytes<'a>, version: Version, at: usize, constants: u32, left: u64) -> Self {
        Self {
            next: Record {
                bytes,
                version,
                at,
                constants,
            },
            left,
        }
    }

    /// Where the record after these starts.
    pub(super) fn rest_at(mut self) -> usize {
        while self.next().is_some() {}
        self.next.at
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        self.left = self.left.checked_sub(1)?;
        let record = self.next;
        match record.end() {
            Some(end) => self.next.at = end,
            None => self.left = 0,
        }
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

/// Iterates over the locations of a record.
#[derive(Clone, Copy)]
pub struct Locations<'a> {
    raw: &'a [u8],
    endian: Endian,
    /// The bytes of one.
    size: usize,
}

impl Locations<'_> {
    /// The location at `index`, in constant time.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> Option<Location> {
        let raw = self.raw.get(index.checked_mul(self.size)?..)?;
        Locations { raw, ..*self }.next()
    }
}

/// A location of version 3.
#[inline(always)]
fn location(raw: &[u8; 12], endian: Endian) -> Location {
    let [a, b, c, d, e, f, g, h, offset @ ..] = *raw;
    // The fields of one word: kind, a byte, size, register.
    let (kind, size, reg, offset) = match endian {
        Endian::Little => {
            let word = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
            let (size, reg) = ((word >> 16) as u16, (word >> 32) as u16);
            (word as u8, size, reg, u32::from_le_bytes(offset))
        }
        Endian::Big => {
            let word = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
            let (size, reg) = ((word >> 32) as u16, (word >> 16) as u16);
            ((word >> 56) as u8, size, reg, u32::from_be_bytes(offset))
        }
    };
    let (reg, index, offset) = (DwarfReg::new(reg), offset, offset as i32);
    let place = match kind {
        1 => Place::Register {
            reg,
            bit_offset: offset,
        },
        2 => Place::Direct { reg, offset },
        3 => Place::Indirect { reg, offset },
        4 => Place::Constant { value: offset },
        _ => Place::ConstantIndex { index },
    };
    Location { place, size }
}

/// A location of versions 1 and 2, with a smaller size field, as one of version 3.
#[inline]
fn widened(raw: [u8; 8], endian: Endian) -> [u8; 12] {
    let [kind, size, r0, r1, v0, v1, v2, v3] = raw;
    let [s0, s1] = match endian {
        Endian::Little => [size, 0],
        Endian::Big => [0, size],
    };
    [kind, 0, s0, s1, r0, r1, 0, 0, v0, v1, v2, v3]
}

impl Iterator for Locations<'_> {
    type Item = Location;

    #[inline]
    fn next(&mut self) -> Option<Location> {
        if self.size == 12 {
            let (raw, rest) = self.raw.split_first_chunk()?;
            self.raw = rest;
            return Some(location(raw, self.endian));
        }
        let (raw, rest) = self.raw.split_first_chunk()?;
        self.raw = rest;
        Some(location(&widened(*raw, self.endian), self.endian))
    }

    /// As one loop for each layout and byte order, which are not asked for again at each location.
    #[inline]
    fn fold<B, F: FnMut(B, Location) -> B>(self, start: B, mut add: F) -> B {
        let v3 = self.raw.chunks_exact(12).filter_map(<[u8]>::first_chunk);
        match (self.size, self.endian) {
            (12, Endian::Little) => v3.fold(start, |sum, raw| add(sum, location(raw, Endian::Little))),
            (12, Endian::Big) => v3.fold(start, |sum, raw| add(sum, location(raw, Endian::Big))),
            _ => {
                let mut sum = start;
                for location in self {
                    sum = add(sum, location);
                }
                sum
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.raw.len() / self.size;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Locations<'_> {}

impl fmt::Debug for Locations<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

/// Iterates over the live-outs of a record.
#[derive(Clone, Copy)]
pub struct LiveOuts<'a> {
    raw: &'a [u8],
    endian: Endian,
}

impl Iterator for LiveOuts<'_> {
    type Item = LiveOut;

    #[inline]
    fn next(&mut self) -> Option<LiveOut> {
        let ([r0, r1, _, size], rest) = self.raw.split_first_chunk()?;
        self.raw = rest;
        let reg = DwarfReg::new(self.endian.u16([*r0, *r1]));
        Some(LiveOut { reg, size: *size })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.raw.len() / 4;
        (left, Some(left))
    }
}

impl ExactSizeIterator for LiveOuts<'_> {}

impl fmt::Debug for LiveOuts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("id", &self.id())
            .field("offset", &self.offset())
            .field("locations", &self.locations())
            .field("live_outs", &self.live_outs())
            .finish()
    }
}
