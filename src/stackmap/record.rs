use core::fmt;

use super::bytes::{self, Bytes};
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
        let locations_at = bytes::span(bytes.data, "a record's header", at, 1, HEADER as u64)?;
        let count = record.location_count();
        bytes::span(
            bytes.data,
            "a record's locations",
            locations_at,
            u64::from(count),
            location_size(version) as u64,
        )?;
        let parts = record.parts()?;
        for index in 0..usize::from(count) {
            record.check_location(locations_at + index * location_size(version))?;
        }
        Ok((record, parts.end))
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

    fn parts(&self) -> Result<Parts> {
        let data = self.bytes.data;
        let locations = self.location_count();
        let after = self.at + HEADER + usize::from(locations) * location_size(self.version);
        let tail = if self.version == Version::V3 {
            align8(self.at, after)
        } else {
            after
        };
        let padded = (tail - after) as u64 + 4;
        let live_outs_at = bytes::span(data, "a record's live-out count", after, 1, padded)?;
        let live_outs = self.bytes.u16(tail + 2).unwrap_or(0);
        let after = bytes::span(
            data,
            "a record's live-outs",
            live_outs_at,
            u64::from(live_outs),
            4,
        )?;
        let end = align8(self.at, after);
        // Whoever trims the section may cut off the padding of the last record.
        Ok(Parts {
            live_outs_at,
            live_outs,
            end: end.min(data.len()),
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

    fn location_count(&self) -> u16 {
        self.bytes.u16(self.at + 14).unwrap_or(0)
    }

    /// The ID that the IR gave it.
    #[must_use]
    pub fn id(&self) -> RecordId {
        RecordId::new(self.bytes.u64(self.at).unwrap_or(u64::MAX))
    }

    /// The offset from the start of the function. Of a stackmap: the start of its shadow. Of a
    /// patchpoint: the start of its reserved bytes. Of a statepoint: the return address.
    #[must_use]
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
    pub fn locations(&self) -> Locations<'a> {
        Locations {
            bytes: self.bytes,
            at: self.at + HEADER,
            size: location_size(self.version),
            left: self.location_count(),
        }
    }

    /// The registers that are live after the patchpoint. See the crate's documentation before trusting it.
    #[must_use]
    pub fn live_outs(&self) -> LiveOuts<'a> {
        let parts = self.parts().ok();
        LiveOuts {
            bytes: self.bytes,
            at: parts.as_ref().map_or(0, |p| p.live_outs_at),
            left: parts.map_or(0, |p| p.live_outs),
        }
    }

    /// Where the next record starts; `None` cannot happen for a record that was checked.
    fn end(&self) -> Option<usize> {
        self.parts().ok().map(|parts| parts.end)
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
    bytes: Bytes<'a>,
    at: usize,
    size: usize,
    left: u16,
}

impl Locations<'_> {
    /// The location at `index`, in constant time.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Location> {
        if index >= usize::from(self.left) {
            return None;
        }
        let at = self.at.checked_add(index.checked_mul(self.size)?)?;
        let kind = self.bytes.u8(at)?;
        let (size, reg_at) = match self.size {
            8 => (u16::from(self.bytes.u8(at + 1)?), at + 2),
            _ => (self.bytes.u16(at + 2)?, at + 4),
        };
        let reg = DwarfReg::new(self.bytes.u16(reg_at)?);
        let offset = self.bytes.i32(at + self.size - 4)?;
        let place = match kind {
            1 => Place::Register {
                reg,
                bit_offset: offset,
            },
            2 => Place::Direct { reg, offset },
            3 => Place::Indirect { reg, offset },
            4 => Place::Constant { value: offset },
            _ => Place::ConstantIndex {
                index: self.bytes.u32(at + self.size - 4)?,
            },
        };
        Some(Location { place, size })
    }
}

impl Iterator for Locations<'_> {
    type Item = Location;

    fn next(&mut self) -> Option<Location> {
        let location = self.get(0)?;
        self.at += self.size;
        self.left -= 1;
        Some(location)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
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
    bytes: Bytes<'a>,
    at: usize,
    left: u16,
}

impl Iterator for LiveOuts<'_> {
    type Item = LiveOut;

    fn next(&mut self) -> Option<LiveOut> {
        self.left = self.left.checked_sub(1)?;
        let reg = DwarfReg::new(self.bytes.u16(self.at)?);
        let size = self.bytes.u8(self.at + 3)?;
        self.at += 4;
        Some(LiveOut { reg, size })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
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
