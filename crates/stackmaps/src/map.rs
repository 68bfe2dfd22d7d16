use alloc::vec::Vec;
use core::fmt;

use crate::addr::{ByteOffset, RecordId};
use crate::arrays::{self, ArrayOffsets, Arrays, FlatFrame};
use crate::bytes::{self, Bytes, Endian};
use crate::error::{Error, Result};
use crate::record::{self, Record};
use crate::records::Records;
use crate::version::{Dialect, StackSize, Version, VersionTwo};

const HEADER: usize = 16;

/// The maps of one section, one after another as a linker concatenates them.
#[derive(Clone, Debug)]
pub struct StackMaps<'a> {
    maps: Vec<StackMap<'a>>,
}

impl<'a> StackMaps<'a> {
    /// Reads a section that holds any number of maps, each aligned to 8 bytes from the start of the
    /// section, with zeros between and after them. What version 2 means is
    /// [detected](VersionTwo::Detected).
    ///
    /// # Errors
    /// [`Error::StackMapTruncated`], [`Error::StackMapVersion`], [`Error::StackMapRecordCount`],
    /// [`Error::StackMapLocationKind`] and [`Error::StackMapConstantIndex`], each with the offset and what was
    /// expected there; of flat maps those whose names begin with `FlatMap`, too.
    pub fn parse(section: &'a [u8], endian: Endian) -> Result<Self> {
        Self::parse_with(section, endian, VersionTwo::Detected)
    }

    /// The same, where version 2 means what is said.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_with(section: &'a [u8], endian: Endian, two: VersionTwo) -> Result<Self> {
        let bytes = Bytes {
            data: section,
            endian,
        };
        let mut maps = Vec::new();
        let mut at = 0;
        while at < section.len() {
            let map = StackMap::checked(bytes, at, two)?;
            at = skip_zeros(section, map.end);
            maps.push(map);
        }
        Ok(Self { maps })
    }

    /// The maps, in order.
    #[must_use]
    pub fn maps(&self) -> &[StackMap<'a>] {
        &self.maps
    }

    /// All records of all maps.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> + '_ {
        self.maps.iter().flat_map(StackMap::records)
    }

    /// All records that have `id`: inlining copies IDs, so there may be several.
    pub fn by_id(&self, id: RecordId) -> impl Iterator<Item = Record<'a>> + '_ {
        self.records().filter(move |record| record.id() == id)
    }
}

/// The next multiple of 8 from `at` where not all of the 8 bytes (or those that are left) are zero:
/// a map does not start with a zero, so zeros are what a linker put between maps and after the
/// last.
fn skip_zeros(section: &[u8], at: usize) -> usize {
    let start = at.next_multiple_of(8);
    let zeros = section
        .get(start..)
        // The last map may end less than 8 bytes before the section does.
        .unwrap_or(&[])
        .chunks(8)
        .take_while(|word| word.iter().all(|byte| *byte == 0))
        .count();
    start + zeros * 8
}

/// One stack map.
#[derive(Clone, Copy)]
pub struct StackMap<'a> {
    bytes: Bytes<'a>,
    version: Version,
    at: usize,
    functions: u32,
    constants: u32,
    records: u32,
    records_at: usize,
    end: usize,
}

impl<'a> StackMap<'a> {
    fn checked(bytes: Bytes<'a>, at: usize, two: VersionTwo) -> Result<Self> {
        bytes::span(bytes.data, "a map's header", at, 1, HEADER as u64)?;
        let version = match bytes.u8(at) {
            Some(1) => Version::V1,
            Some(3) => Version::V3,
            Some(2) => return Self::checked_two(bytes.data, bytes.endian, at, two),
            other => {
                return Err(Error::StackMapVersion {
                    at: ByteOffset::new(at as u64),
                    found: other.unwrap_or(0),
                });
            }
        };
        Self::checked_nested(bytes, version, at)
    }

    /// Takes the bytes in parts, see [`flat_header`].
    #[cold]
    #[inline(never)]
    fn checked_two(data: &'a [u8], endian: Endian, at: usize, two: VersionTwo) -> Result<Self> {
        let bytes = Bytes { data, endian };
        match two {
            VersionTwo::Detected => Self::detected(bytes, at),
            VersionTwo::Llvm => Self::checked_nested(bytes, Version::V2, at),
            VersionTwo::Flat(dialect) => Self::checked_flat(bytes, dialect, at),
        }
    }

    /// A map whose version byte is 2: the one that all of it is right as.
    fn detected(bytes: Bytes<'a>, at: usize) -> Result<Self> {
        let flat = [Dialect::Proposal, Dialect::Fork];
        let nested = Self::checked_nested(bytes, Version::V2, at);
        let [proposal, fork] = flat.map(|dialect| Self::checked_flat(bytes, dialect, at));
        let right = [nested.is_ok(), proposal.is_ok(), fork.is_ok()];
        if right.into_iter().filter(|right| *right).count() > 1 {
            let at = ByteOffset::new(at as u64);
            return Err(Error::StackMapAmbiguous { at });
        }
        // Where it is right as none, what is wrong is told of the one that it looks like.
        let [is_proposal, is_fork] = flat.map(|dialect| arrays::is_header(bytes, dialect, at));
        match (nested, proposal, fork) {
            (Ok(map), _, _) | (_, Ok(map), _) | (_, _, Ok(map)) => Ok(map),
            (_, Err(error), _) if is_proposal => Err(error),
            (_, _, Err(error)) if is_fork => Err(error),
            (Err(error), _, _) => Err(error),
        }
    }

    fn checked_flat(bytes: Bytes<'a>, dialect: Dialect, at: usize) -> Result<Self> {
        let checked = arrays::check(bytes, dialect, at)?;
        Ok(Self {
            bytes,
            version: Version::Flat(dialect),
            at,
            functions: checked.frames,
            constants: checked.constants,
            records: checked.records,
            records_at: checked.arrays.records,
            end: checked.end,
        })
    }

    /// A map whose records hold their locations.
    #[inline(always)]
    fn checked_nested(bytes: Bytes<'a>, version: Version, at: usize) -> Result<Self> {
        let data = bytes.data;
        let word = |offset| bytes.u32(at + offset).unwrap_or(0);
        let (functions, constants, records) = (word(4), word(8), word(12));
        let constants_at = bytes::span(
            data,
            "the functions",
            at + HEADER,
            u64::from(functions),
            function_size(version) as u64,
        )?;
        let records_at = bytes::span(data, "the constants", constants_at, u64::from(constants), 8)?;
        bytes::span(
            data,
            "the records",
            records_at,
            u64::from(records),
            record::SMALLEST as u64,
        )?;
        let mut map = Self {
            bytes,
            version,
            at,
            functions,
            constants,
            records,
            records_at,
            end: records_at,
        };
        map.check_record_counts()?;
        map.end = match (version, bytes.endian) {
            (Version::V3, Endian::Little) => map.check_most()?,
            _ => map.check_others()?,
        };
        Ok(map)
    }

    /// Checks the records of most maps, in a loop that does not ask for their layout and byte order
    /// at each field.
    #[inline(never)]
    fn check_most(&self) -> Result<usize> {
        let bytes = Bytes {
            data: self.bytes.data,
            endian: Endian::Little,
        };
        self.check_records(bytes, Version::V3)
    }

    #[inline(never)]
    fn check_others(&self) -> Result<usize> {
        self.check_records(self.bytes, self.version)
    }

    /// Checks every record, and returns where the last one ends.
    #[inline(always)]
    fn check_records(&self, bytes: Bytes<'a>, version: Version) -> Result<usize> {
        let mut at = self.records_at;
        for _ in 0..self.records {
            at = Record::check(bytes, version, at, self.constants)?;
        }
        Ok(at)
    }

    /// Functions own records in order, so the counts must add up.
    fn check_record_counts(&self) -> Result<()> {
        if self.version == Version::V1 {
            return Ok(());
        }
        let sum = (0..self.functions).try_fold(0u64, |sum, i| {
            sum.checked_add(self.nested_header(i).record_count?)
        });
        if sum == Some(u64::from(self.records)) {
            return Ok(());
        }
        Err(Error::StackMapRecordCount {
            at: ByteOffset::new(self.at as u64 + 12),
            counted: sum.unwrap_or(u64::MAX),
            header: self.records,
        })
    }

    pub(super) fn frame_count(&self) -> u32 {
        match self.version {
            Version::Flat(_) => self.functions,
            _ => 0,
        }
    }

    pub(super) fn frame(&self, index: u32) -> Option<FlatFrame<'a>> {
        let Version::Flat(dialect) = self.version else {
            return None;
        };
        let Bytes { data, endian } = self.bytes;
        (index < self.functions).then(|| FlatFrame::read(data, endian, dialect, self.at, index))
    }

    #[inline]
    fn header(&self, index: u32) -> FunctionHeader {
        match self.version {
            Version::Flat(dialect) => {
                flat_header(self.bytes.data, self.bytes.endian, dialect, self.at, index)
            }
            _ => self.nested_header(index),
        }
    }

    #[inline(always)]
    fn nested_header(&self, index: u32) -> FunctionHeader {
        let at = self.at + HEADER + index as usize * function_size(self.version);
        let Bytes { data, endian } = self.bytes;
        let from = data.get(at..).expect("the functions of a map lie in its bytes");
        let field = |number: usize| {
            let raw = from.get(8 * number..).and_then(<[u8]>::first_chunk);
            endian.u64(*raw.expect("the functions of a map lie in its bytes"))
        };
        FunctionHeader {
            at,
            address: field(0),
            stack_size: match field(1) {
                u64::MAX => StackSize::Unknown,
                known => StackSize::Known(known),
            },
            record_count: (self.version != Version::V1).then(|| field(2)),
        }
    }

    /// The version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Where in the section the map starts.
    #[must_use]
    pub fn byte_offset(&self) -> ByteOffset {
        ByteOffset::new(self.at as u64)
    }

    /// The byte order.
    #[must_use]
    pub fn endian(&self) -> Endian {
        self.bytes.endian
    }

    /// What a flat map says of its functions, in the order of [`functions`](Self::functions); of
    /// another map nothing.
    #[must_use]
    pub fn frames(&self) -> FlatFrames<'a> {
        FlatFrames { map: *self, index: 0 }
    }

    /// The functions without their records, in order. Takes no time in records.
    #[inline]
    pub fn headers(&self) -> impl ExactSizeIterator<Item = FunctionHeader> + use<'a> {
        let map = *self;
        (0..self.functions as usize).map(move |index| map.header(index as u32))
    }

    /// The functions with their records, in order. To find the records of a function those before
    /// are walked over.
    #[must_use]
    pub fn functions(&self) -> Functions<'a> {
        Functions {
            map: *self,
            index: 0,
            before: self.records_from(self.records_at, 0),
        }
    }

    /// The large constants.
    #[must_use]
    #[inline]
    pub fn constants(&self) -> Constants<'a> {
        let at = match self.version {
            Version::Flat(dialect) => {
                Arrays::read(self.bytes.data, self.bytes.endian, dialect, self.at).constants
            }
            _ => self.at + HEADER + self.functions as usize * function_size(self.version),
        };
        Constants {
            bytes: self.bytes,
            at,
            count: self.constants,
        }
    }

    /// The records of all functions, in order.
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        self.records_from(self.records_at, u64::from(self.records))
    }

    /// This map without its bytes.
    pub(super) fn detached(&self) -> StackMap<'static> {
        StackMap {
            bytes: Bytes {
                data: &[],
                endian: self.bytes.endian,
            },
            ..*self
        }
    }

    /// This map with `data` for its bytes: those it was detached from.
    #[inline]
    pub(super) fn attached<'b>(&self, data: &'b [u8], endian: Endian) -> StackMap<'b> {
        StackMap {
            bytes: Bytes { data, endian },
            ..*self
        }
    }

    /// The record that starts at `at`, which came from this map; `None` where none of its records
    /// can be.
    #[inline]
    pub(super) fn record_at(&self, at: usize) -> Option<Record<'a>> {
        let range = self.records_at..self.end;
        if !range.contains(&at) {
            return None;
        }
        match self.version {
            Version::Flat(_) => self.records_from(at, 1).read(),
            version => Record::read(self.bytes, version, at).map(|(record, _)| record),
        }
    }

    /// The ID of that record: it comes first, so that no more of the record has to be fetched from
    /// memory.
    pub(super) fn id_at(&self, at: usize) -> Option<RecordId> {
        match self.version {
            Version::Flat(_) => Some(self.record_at(at)?.id()),
            _ if (self.records_at..self.end).contains(&at) => self.bytes.u64(at).map(RecordId::new),
            _ => None,
        }
    }

    /// Whether the record that starts at `at` of the bytes from which this map was detached says what
    /// one of that version with so many locations says that has these
    /// [bytes](Record::live_bytes).
    pub(super) fn is_alike_at(
        &self,
        data: &[u8],
        at: usize,
        (version, locations, live): (Version, u16, &[u8]),
    ) -> bool {
        match self.version {
            _ if self.version != version => false,
            Version::Flat(_) => {
                let record = self.attached(data, self.bytes.endian).record_at(at);
                let is_alike = |record: Record<'_>| {
                    record.locations().len() == locations.into() && record.live_bytes() == live
                };
                record.is_some_and(is_alike)
            }
            // Its length follows from what is compared.
            _ => {
                let header = data.get(at..).and_then(<[u8]>::first_chunk::<{ record::HEADER }>);
                let count = header.map(|[.., n0, n1]| self.bytes.endian.u16([*n0, *n1]));
                let from = at + record::HEADER;
                count == Some(locations) && data.get(from..from + live.len()) == Some(live)
            }
        }
    }

    fn records_from(&self, at: usize, count: u64) -> Records<'a> {
        let parts = match self.version {
            Version::Flat(dialect) => {
                ArrayOffsets::read(self.bytes.data, self.bytes.endian, dialect, self.at)
            }
            _ => ArrayOffsets::default(),
        };
        Records::new(self.bytes, self.version, parts, at, count)
    }
}

impl fmt::Debug for StackMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackMap")
            .field("version", &self.version)
            .field("at", &self.byte_offset())
            .field("functions", &self.functions)
            .field("constants", &self.constants)
            .field("records", &self.records)
            .finish()
    }
}

/// A function of the flat map at `map`. Like everything that looks whether a map is flat, it takes
/// the parts of what it needs: a map whose address is taken has to be in memory, on the way of
/// the others, too.
#[cold]
#[inline(never)]
fn flat_header(data: &[u8], endian: Endian, dialect: Dialect, map: usize, index: u32) -> FunctionHeader {
    let frame = FlatFrame::read(data, endian, dialect, map, index);
    FunctionHeader {
        at: frame.at,
        address: frame.address(),
        stack_size: frame.stack_size(),
        record_count: Some(frame.records.into()),
    }
}

const fn function_size(version: Version) -> usize {
    match version {
        Version::V1 => 16,
        // A flat map has them in another table.
        Version::V2 | Version::V3 | Version::Flat(_) => 24,
    }
}

/// Iterates over the frames of a map.
#[derive(Clone)]
pub struct FlatFrames<'a> {
    map: StackMap<'a>,
    index: u32,
}

impl<'a> Iterator for FlatFrames<'a> {
    type Item = FlatFrame<'a>;

    fn next(&mut self) -> Option<FlatFrame<'a>> {
        let frame = self.map.frame(self.index)?;
        self.index += 1;
        Some(frame)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.map.frame_count().saturating_sub(self.index) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for FlatFrames<'_> {}

/// A function of a stack map, as the map lists it: without its records, which are in another table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionHeader {
    at: usize,
    address: u64,
    stack_size: StackSize,
    record_count: Option<u64>,
}

impl FunctionHeader {
    /// The address field as it is in the bytes: 0 where it has not been relocated; on PowerPC
    /// ELFv1 the address of a function descriptor.
    #[must_use]
    #[inline]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Where in the section the function is; its address field is there.
    #[must_use]
    pub fn byte_offset(&self) -> ByteOffset {
        ByteOffset::new(self.at as u64)
    }

    /// The stack size.
    #[must_use]
    #[inline]
    pub fn stack_size(&self) -> StackSize {
        self.stack_size
    }

    /// How many records the function has; `None` in version 1, which does not say.
    #[must_use]
    #[inline]
    pub fn record_count(&self) -> Option<u64> {
        self.record_count
    }
}

/// A function of a stack map, with its records.
#[derive(Clone, Debug)]
pub struct FunctionRecord<'a> {
    header: FunctionHeader,
    records: Option<Records<'a>>,
}

impl<'a> FunctionRecord<'a> {
    /// As [`FunctionHeader::address`].
    #[must_use]
    pub fn address(&self) -> u64 {
        self.header.address
    }

    /// As [`FunctionHeader::byte_offset`].
    #[must_use]
    pub fn byte_offset(&self) -> ByteOffset {
        self.header.byte_offset()
    }

    /// The stack size.
    #[must_use]
    pub fn stack_size(&self) -> StackSize {
        self.header.stack_size
    }

    /// The function's records, in order; `None` in version 1, which does not say.
    #[must_use]
    pub fn records(&self) -> Option<Records<'a>> {
        self.records.clone()
    }
}

/// Iterates over the functions of a map.
#[derive(Clone, Debug)]
pub struct Functions<'a> {
    map: StackMap<'a>,
    index: u32,
    /// The records of the function before, which end where the next one's begin.
    before: Records<'a>,
}

impl<'a> Iterator for Functions<'a> {
    type Item = FunctionRecord<'a>;

    fn next(&mut self) -> Option<FunctionRecord<'a>> {
        if self.index >= self.map.functions {
            return None;
        }
        let header = self.map.header(self.index);
        self.index += 1;
        let records = header.record_count.map(|count| {
            // Not before: whoever reads the records has them at hand then.
            let at = self.before.clone().rest_at();
            self.before = self.map.records_from(at, count);
            self.before.clone()
        });
        Some(FunctionRecord { header, records })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.map.functions - self.index) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Functions<'_> {}

/// The large constants of a map.
#[derive(Clone, Copy)]
pub struct Constants<'a> {
    bytes: Bytes<'a>,
    at: usize,
    count: u32,
}

impl Constants<'_> {
    /// No constants, for sites without a record.
    pub const NONE: Constants<'static> = Constants {
        bytes: Bytes {
            data: &[],
            endian: Endian::Little,
        },
        at: 0,
        count: 0,
    };

    /// The constant at `index`.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<u64> {
        if index >= self.count {
            return None;
        }
        self.bytes.u64(self.at + index as usize * 8)
    }

    /// The number of constants.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The constants, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.count).filter_map(|index| self.get(index))
    }
}

impl fmt::Debug for Constants<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
