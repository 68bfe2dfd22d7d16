//! One record, its locations and its live-outs.

mod fault;

use core::fmt;
use core::slice::ChunksExact;

use crate::addr::{ByteOffset, DwarfReg, FnOffset, Len, RecordId};
use crate::bytes::{Bytes, Endian};
use crate::error::Result;
use crate::location::{LiveOut, Location, LocationKind};
use crate::version::{Dialect, Version};
pub(crate) use fault::check_location;

pub(super) const HEADER: usize = 16;

/// One record: what is known at one patchpoint, stackmap or statepoint.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// From its header up to its last live-out; in a flat map from its first location.
    raw: &'a [u8],
    endian: Endian,
    version: Version,
    at: usize,
    id: u64,
    offset: u32,
    locations: u16,
    live_outs: u16,
    /// Call size and flags of a flat map.
    told: [u8; 2],
}

/// The bytes of the smallest record: no locations, no live-outs, and the padding after them, which
/// may be missing at the end of the section.
pub(super) const SMALLEST: usize = HEADER + 4;

pub(super) const fn location_size(version: Version) -> usize {
    match version {
        Version::V1 | Version::V2 | Version::Flat(_) => 8,
        Version::V3 => 12,
    }
}

/// The kind of a location.
#[inline(always)]
fn kind(location: &[u8]) -> u8 {
    location.first().copied().unwrap_or(0)
}

/// The next multiple of 8. Of numbers of bytes that are there, or of parts of a record, which are
/// far from overflowing.
#[inline(always)]
const fn align8(len: usize) -> usize {
    (len + 7) & !7
}

/// Where the padding and the number of live-outs start, from the start of a record with so many
/// locations. Every part of a map before a record has a size that is a multiple of 8, so padding
/// may be counted from the record.
#[inline(always)]
pub(super) const fn tail(version: Version, locations: u16) -> usize {
    let locations = locations as usize;
    match version {
        Version::V3 => align8(HEADER + 12 * locations),
        // A flat map has its locations in an array of their own.
        Version::V1 | Version::V2 | Version::Flat(_) => HEADER + 8 * locations,
    }
}

impl<'a> Record<'a> {
    /// Checks the record at `at`, and returns its end.
    #[inline(always)]
    pub(super) fn check(bytes: Bytes<'a>, version: Version, at: usize, constants: u32) -> Result<usize> {
        match Self::read(bytes, version, at) {
            Some((record, end)) if record.has_known_locations(constants) => Ok(end),
            _ => Err(fault::of_record(bytes, version, at, constants)),
        }
    }

    /// The record at `at` and its end, if they lie in the bytes. Everything that says where its
    /// parts are is read here, once.
    #[inline(always)]
    pub(super) fn read(bytes: Bytes<'a>, version: Version, at: usize) -> Option<(Self, usize)> {
        let Bytes { data, endian } = bytes;
        let from = data.get(at..)?;
        let [id @ .., o0, o1, o2, o3, _, _, n0, n1] = *from.first_chunk::<HEADER>()?;
        let locations = endian.u16([n0, n1]);
        let tail = tail(version, locations);
        let [_, _, l0, l1] = *from.get(tail..)?.first_chunk()?;
        let live_outs = endian.u16([l0, l1]);
        let len = tail + 4 + 4 * usize::from(live_outs);
        let record = Self {
            raw: from.get(..len)?,
            endian,
            version,
            at,
            id: endian.u64(id),
            offset: endian.u32([o0, o1, o2, o3]),
            locations,
            live_outs,
            told: [0; 2],
        };
        // Whoever trims the section may cut off the padding of the last record.
        Some((record, at + align8(len).min(from.len())))
    }

    /// A record of a flat map whose entry is `entry` and whose locations and live-outs are the
    /// first and the last of `raw`, which is long enough for them.
    pub(super) fn of_flat(
        endian: Endian,
        dialect: Dialect,
        at: usize,
        entry: &[u8; 24],
        raw: &'a [u8],
        locations: u16,
        live_outs: u16,
    ) -> Self {
        let [
            id @ ..,
            o0,
            o1,
            o2,
            o3,
            call_size,
            flags,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
        ] = *entry;
        Self {
            raw,
            endian,
            version: Version::Flat(dialect),
            at,
            id: endian.u64(id),
            offset: endian.u32([o0, o1, o2, o3]),
            locations,
            live_outs,
            told: [call_size, flags],
        }
    }

    /// Whether each location is of a kind that is known, and its constant exists.
    #[inline(always)]
    fn has_known_locations(&self, constants: u32) -> bool {
        let raw = self.locations().raw;
        // Of a constant size, the chunks need no checks.
        match self.version {
            Version::V3 => self.are_known(raw.chunks_exact(12), constants),
            Version::V1 | Version::V2 | Version::Flat(_) => self.are_known(raw.chunks_exact(8), constants),
        }
    }

    #[inline(always)]
    fn are_known(&self, locations: ChunksExact<'_, u8>, constants: u32) -> bool {
        // Mostly all are of the kinds 1 to 4: one loop without a way out, and a question behind it.
        let mut kinds = 0;
        for location in locations.clone() {
            kinds |= kind(location).wrapping_sub(1);
        }
        kinds < 4 || self.are_known_one_by_one(locations, constants)
    }

    #[inline(never)]
    fn are_known_one_by_one(&self, mut locations: ChunksExact<'_, u8>, constants: u32) -> bool {
        let exists = |index: &[u8; 4]| self.endian.u32(*index) < constants;
        locations.all(|location| match kind(location) {
            1..=4 => true,
            5 => location.last_chunk().is_some_and(exists),
            _ => false,
        })
    }

    /// The ID that the IR gave it.
    #[must_use]
    #[inline]
    pub fn id(&self) -> RecordId {
        RecordId::new(self.id)
    }

    /// The offset from the start of the function. Of a stackmap: the start of its shadow. Of a
    /// patchpoint: the start of its reserved bytes. Of a statepoint: the return address.
    #[must_use]
    #[inline]
    pub fn offset(&self) -> FnOffset {
        FnOffset::new(self.offset)
    }

    /// Where in the section the record starts.
    #[must_use]
    pub fn byte_offset(&self) -> ByteOffset {
        ByteOffset::new(self.at as u64)
    }

    /// Whether this may stand for a record that LLVM could not encode (more than 65,535 locations
    /// or live-outs): the ID is `u64::MAX` and nothing else is there. A legal record can look the
    /// same.
    #[must_use]
    pub fn may_be_overflow(&self) -> bool {
        (self.id, self.locations, self.live_outs) == (u64::MAX, 0, 0)
    }

    /// The locations, in the order of the call's operands.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
    pub fn locations(&self) -> Locations<'a> {
        let size = location_size(self.version);
        let end = usize::from(self.locations) * size;
        Locations {
            raw: self
                .live_bytes()
                .get(..end)
                .expect("a record that was read holds its locations"),
            endian: self.endian,
            size,
        }
    }

    /// The registers that are live after the patchpoint. See the crate's documentation before
    /// trusting it.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
    pub fn live_outs(&self) -> LiveOuts<'a> {
        let start = match self.version {
            Version::Flat(_) => self.raw.len().wrapping_sub(4 * usize::from(self.live_outs)),
            version => tail(version, self.locations) + 4,
        };
        LiveOuts {
            raw: self
                .raw
                .get(start..)
                .expect("a record that was read holds its live-outs"),
            endian: self.endian,
        }
    }

    /// The bytes that say what is live: its locations and live-outs, as they lie in its map. If they are
    /// the same in two records of one version and byte order that have as many locations, those say the
    /// same, but for the constants to which a location may refer by an index.
    #[must_use]
    #[inline]
    #[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
    pub fn live_bytes(&self) -> &'a [u8] {
        let start = match self.version {
            Version::Flat(_) => 0,
            _ => HEADER,
        };
        let bytes = self.raw.get(start..);
        bytes.expect("a record that was read begins with its header")
    }

    /// The version of its map.
    #[must_use]
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// How many bytes are reserved at the record, where its map tells it: a flat one may, the
    /// others do not. Of a statepoint: the bytes of its call, which end at its offset.
    #[must_use]
    pub fn reserved(&self) -> Option<Len> {
        let [call_size, _] = self.told;
        (call_size > 0).then(|| Len::new(call_size.into()))
    }

    /// Whether live-outs were looked for at this record: without that, that none are listed says
    /// nothing. `None` where its map does not tell, as only a flat one does.
    #[must_use]
    pub fn has_live_out_info(&self) -> Option<bool> {
        let [_, flags] = self.told;
        matches!(self.version, Version::Flat(_)).then_some(flags & 1 != 0)
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
    #[inline(always)] // Called, it takes 250 instructions more of a shape never seen, and 50 of a miss.
    pub fn get(&self, index: usize) -> Option<Location> {
        let (first, _) = first(
            self.raw.get(index.checked_mul(self.size)?..)?,
            self.size,
            self.endian,
        )?;
        Some(first)
    }
}

/// The first of locations of that size, and the bytes behind it.
#[inline(always)]
fn first(raw: &[u8], size: usize, endian: Endian) -> Option<(Location, &[u8])> {
    if size == 12 {
        let (raw, rest) = raw.split_first_chunk()?;
        return Some((location(raw, endian), rest));
    }
    let (raw, rest) = raw.split_first_chunk()?;
    Some((location(&widened(*raw, endian), endian), rest))
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
    let kind = match kind {
        1 => LocationKind::Register {
            reg,
            bit_offset: offset,
        },
        2 => LocationKind::Direct { reg, offset },
        3 => LocationKind::Indirect { reg, offset },
        4 => LocationKind::Constant { value: offset },
        _ => LocationKind::ConstantIndex { index },
    };
    Location { kind, size }
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
        let (next, rest) = first(self.raw, self.size, self.endian)?;
        self.raw = rest;
        Some(next)
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
