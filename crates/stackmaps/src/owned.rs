use alloc::boxed::Box;

use super::bytes::Endian;
use super::map::{Constants, StackMap, StackMaps};
use super::record::Record;
use super::version::Version;
use crate::addr::RecordId;
use crate::error::{Error, Result};

/// A section that owns its bytes and hands out views by small references, so that what keeps many
/// records (a table of sites) pays eight bytes for each.
#[derive(Clone, Debug)]
pub struct OwnedMaps {
    bytes: Box<[u8]>,
    endian: Endian,
    maps: Box<[StackMap<'static>]>,
}

/// Names a record of an [`OwnedMaps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef {
    map: u32,
    at: u32,
}

impl OwnedMaps {
    /// Takes a section over, after reading all of it. One that is given as a vector is not copied.
    ///
    /// # Errors
    /// As [`StackMaps::parse`]; and a section of 4 GiB or more is refused.
    pub fn new(section: impl Into<Box<[u8]>>, endian: Endian) -> Result<Self> {
        let bytes = section.into();
        if u32::try_from(bytes.len()).is_err() {
            return Err(Error::StackMapTooLong {
                len: bytes.len() as u64,
            });
        }
        let maps = StackMaps::parse(&bytes, endian)?
            .maps()
            .iter()
            .map(StackMap::detached)
            .collect();
        Ok(Self { bytes, endian, maps })
    }

    /// The maps, in order, each with the number by which [`Self::reference`] knows it.
    pub fn maps(&self) -> impl Iterator<Item = (u32, StackMap<'_>)> {
        (0..).zip(self.maps.iter().map(|map| map.attached(&self.bytes, self.endian)))
    }

    /// A reference to a record of the map with that number.
    #[must_use]
    pub fn reference(&self, map: u32, record: &Record<'_>) -> RecordRef {
        // Lossless: the section is shorter than 4 GiB.
        RecordRef {
            map,
            at: record.byte_offset().get() as u32,
        }
    }

    /// The record that starts at an offset that a reference [had](RecordRef::offset), with its
    /// map's constants.
    #[must_use]
    pub fn at(&self, at: u32) -> Option<(Record<'_>, Constants<'_>)> {
        let map = self.map_before(at)?;
        self.in_map(RecordRef { map, at })
    }

    /// The ID of the record that starts at such an offset.
    #[must_use]
    pub fn id_at(&self, at: u32) -> Option<RecordId> {
        let map = self.maps.get(self.map_before(at)? as usize)?;
        map.attached(&self.bytes, self.endian).id_at(at as usize)
    }

    /// Whether the record that starts at such an offset says the same is live as a record of that
    /// version does that has so many locations and these [bytes](Record::live_bytes): half of what
    /// reading it takes.
    #[must_use]
    pub fn is_alike_at(&self, at: u32, version: Version, locations: u16, live: &[u8]) -> bool {
        let map = self.map_before(at).and_then(|map| self.maps.get(map as usize));
        map.is_some_and(|map| map.is_alike_at(&self.bytes, at as usize, (version, locations, live)))
    }

    /// The number of the last map that starts at an offset or before it.
    fn map_before(&self, at: u32) -> Option<u32> {
        let starts_before = |map: &StackMap<'_>| map.byte_offset().get() <= u64::from(at);
        let map = self.maps.partition_point(starts_before).checked_sub(1)?;
        Some(map as u32)
    }

    /// The record of a reference with its map's constants; `None` where this section cannot have
    /// given it. A reference from another section may give a record of nonsense.
    #[must_use]
    pub fn get(&self, reference: RecordRef) -> Option<(Record<'_>, Constants<'_>)> {
        self.in_map(reference)
    }

    #[inline(always)] // Called, it takes 40 instructions of the 400 in which a handler learns of its site.
    fn in_map(&self, reference: RecordRef) -> Option<(Record<'_>, Constants<'_>)> {
        let map = self
            .maps
            .get(reference.map as usize)?
            .attached(&self.bytes, self.endian);
        Some((map.record_at(reference.at as usize)?, map.constants()))
    }
}

impl RecordRef {
    /// Where in the section the record starts, in bytes.
    #[must_use]
    pub const fn offset(self) -> u32 {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{constant_index, map, record, reg};
    use super::*;
    use alloc::vec::Vec;

    fn two_maps() -> Vec<u8> {
        let first = map().function(0, 8, [record(1).location(reg(0, 8)), record(2)]);
        let second = map()
            .constant(5)
            .function(0, 8, [record(3).location(constant_index(0))]);
        [first.bytes(), second.bytes()].concat()
    }

    #[test]
    fn a_reference_finds_its_record() {
        let owned = OwnedMaps::new(two_maps(), Endian::Little).unwrap();
        let mut seen = Vec::new();
        for (number, map) in owned.maps() {
            for record in map.records() {
                let (found, constants) = owned.get(owned.reference(number, &record)).unwrap();
                assert_eq!(found.byte_offset(), record.byte_offset());
                let (same, same_constants) = owned.at(owned.reference(number, &record).offset()).unwrap();
                assert_eq!(same.byte_offset(), record.byte_offset());
                assert_eq!(owned.id_at(same.byte_offset().get() as u32), Some(record.id()));
                assert_eq!(same_constants.len(), constants.len());
                let at = same.byte_offset().get() as u32;
                let count = same.locations().len() as u16;
                let alike = |count, live| owned.is_alike_at(at, same.version(), count, live);
                assert!(alike(count, same.live_bytes()));
                assert!(!alike(count + 1, same.live_bytes()));
                assert!(!alike(count, &[1; 12]));
                assert!(found.locations().eq(record.locations()));
                seen.push((found.id().get(), constants.len()));
            }
        }
        assert_eq!(seen, [(1, 0), (2, 0), (3, 1)]);
    }

    #[test]
    fn a_reference_of_another_section_is_refused_or_harmless() {
        let short = OwnedMaps::new(map().bytes(), Endian::Little).unwrap();
        for reference in [(0, 0), (0, 16), (0, u32::MAX), (1, 40)] {
            let (map, at) = reference;
            assert!(short.get(RecordRef { map, at }).is_none());
            assert!(map > 0 || short.id_at(at).is_none());
        }
        let long = OwnedMaps::new(two_maps(), Endian::Little).unwrap();
        for at in 0..=two_maps().len() as u32 {
            if let Some((record, _)) = long.get(RecordRef { map: 0, at }) {
                assert!(record.locations().count() + record.live_outs().count() < 200_000);
            }
        }
    }
}
