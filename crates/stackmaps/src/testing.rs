//! Builds stack maps byte by byte, for tests. Written from the layout, not from the reader.
//!
//! ```ignore
//! let (record, constants) = map()
//!     .constant(1 << 40)
//!     .function(0x1000, 24, [record(7).at(0x10).location(reg(0, 8)).location(constant_index(0))])
//!     .leak();
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Constants, Record, StackMaps};
use super::{Endian, LiveOut, Location, LocationKind, Version};
use crate::addr::DwarfReg;

/// A value in a register, all of it.
pub fn reg(reg: u16, size: u16) -> Location {
    sub_reg(reg, 0, size)
}

/// A value in a part of a register.
pub fn sub_reg(reg: u16, bit_offset: i32, size: u16) -> Location {
    Location {
        kind: LocationKind::Register {
            reg: DwarfReg::new(reg),
            bit_offset,
        },
        size,
    }
}

/// The address of a stack slot.
pub fn direct(reg: u16, offset: i32) -> Location {
    Location {
        kind: LocationKind::Direct {
            reg: DwarfReg::new(reg),
            offset,
        },
        size: 8,
    }
}

/// A spilled value.
pub fn indirect(reg: u16, offset: i32, size: u16) -> Location {
    Location {
        kind: LocationKind::Indirect {
            reg: DwarfReg::new(reg),
            offset,
        },
        size,
    }
}

/// A small constant.
pub fn constant(value: i32) -> Location {
    Location {
        kind: LocationKind::Constant { value },
        size: 8,
    }
}

/// A large constant.
pub fn constant_index(index: u32) -> Location {
    Location {
        kind: LocationKind::ConstantIndex { index },
        size: 8,
    }
}

/// A record of this ID at offset 0, without locations and live-outs.
pub fn record(id: u64) -> RecordSpec {
    RecordSpec {
        id,
        offset: 0,
        locations: Vec::new(),
        live_outs: Vec::new(),
    }
}

/// What a record is to hold.
#[derive(Clone, Debug)]
pub struct RecordSpec {
    /// The number by which it is known.
    pub id: u64,
    /// Where in its function, in bytes.
    pub offset: u32,
    /// Where its values are.
    pub locations: Vec<Location>,
    /// What is live behind it.
    pub live_outs: Vec<LiveOut>,
}

impl RecordSpec {
    /// At this offset in the function.
    pub fn at(mut self, offset: u32) -> Self {
        self.offset = offset;
        self
    }

    /// With one more location.
    pub fn location(mut self, location: Location) -> Self {
        self.locations.push(location);
        self
    }

    /// With more locations.
    pub fn locations(mut self, locations: impl IntoIterator<Item = Location>) -> Self {
        self.locations.extend(locations);
        self
    }

    /// With one more live-out of `size` bytes.
    pub fn live_out(mut self, reg: u16, size: u8) -> Self {
        self.live_outs.push(LiveOut {
            reg: DwarfReg::new(reg),
            size,
        });
        self
    }

    /// The record alone, in a version 3 map of its own that lives until the process ends.
    pub fn leak(self) -> Record<'static> {
        map().function(0x1000, 24, [self]).leak().0
    }
}

/// A version 3 little endian map without functions.
pub fn map() -> MapSpec {
    MapSpec {
        version: Version::V3,
        endian: Endian::Little,
        functions: Vec::new(),
        constants: Vec::new(),
    }
}

/// What a function is to hold.
#[derive(Clone, Debug)]
pub struct FunctionSpec {
    /// The address of its first byte.
    pub address: u64,
    /// The size of its frame, in bytes.
    pub stack_size: u64,
    /// Its records, in order.
    pub records: Vec<RecordSpec>,
}

/// What a map is to hold.
#[derive(Clone, Debug)]
pub struct MapSpec {
    /// Its layout.
    pub version: Version,
    /// Its byte order.
    pub endian: Endian,
    /// Its functions, in order.
    pub functions: Vec<FunctionSpec>,
    /// Its large constants.
    pub constants: Vec<u64>,
}

impl MapSpec {
    /// In this version.
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// In this byte order.
    pub fn endian(mut self, endian: Endian) -> Self {
        self.endian = endian;
        self
    }

    /// With one more large constant.
    pub fn constant(mut self, value: u64) -> Self {
        self.constants.push(value);
        self
    }

    /// With one more function.
    pub fn function(
        mut self,
        address: u64,
        stack_size: u64,
        records: impl IntoIterator<Item = RecordSpec>,
    ) -> Self {
        self.functions.push(FunctionSpec {
            address,
            stack_size,
            records: records.into_iter().collect(),
        });
        self
    }

    /// The bytes of the map.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Out {
            bytes: Vec::new(),
            endian: self.endian,
        };
        let records: Vec<_> = self.functions.iter().flat_map(|f| &f.records).collect();
        out.u8(self.version.number());
        out.u8(0);
        out.u16(0);
        out.u32(self.functions.len() as u32);
        out.u32(self.constants.len() as u32);
        out.u32(records.len() as u32);
        for function in &self.functions {
            out.u64(function.address);
            out.u64(function.stack_size);
            if self.version != Version::V1 {
                out.u64(function.records.len() as u64);
            }
        }
        for constant in &self.constants {
            out.u64(*constant);
        }
        for record in records {
            out.record(self.version, record);
        }
        out.bytes
    }

    /// The first record and the constants, over bytes that live until the process ends.
    ///
    /// # Panics
    /// If it has no record, or is refused.
    #[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "for tests")]
    pub fn leak(&self) -> (Record<'static>, Constants<'static>) {
        let bytes: &'static [u8] = Box::leak(self.bytes().into_boxed_slice());
        let maps = StackMaps::parse(bytes, self.endian).unwrap();
        let map = &maps.maps()[0];
        (map.records().next().unwrap(), map.constants())
    }
}

struct Out {
    bytes: Vec<u8>,
    endian: Endian,
}

macro_rules! write {
    ($($name:ident: $int:ty),*) => {
        $(fn $name(&mut self, value: $int) {
            match self.endian {
                Endian::Little => self.bytes.extend(value.to_le_bytes()),
                Endian::Big => self.bytes.extend(value.to_be_bytes()),
            }
        })*
    };
}

impl Out {
    write!(u8: u8, u16: u16, u32: u32, u64: u64, i32: i32);

    fn align8(&mut self) {
        while self.bytes.len() % 8 != 0 {
            self.u8(0);
        }
    }

    fn record(&mut self, version: Version, record: &RecordSpec) {
        self.u64(record.id);
        self.u32(record.offset);
        self.u16(0);
        self.u16(record.locations.len() as u16);
        for location in &record.locations {
            self.location(version, *location);
        }
        if version == Version::V3 {
            self.align8();
        }
        self.u16(0);
        self.u16(record.live_outs.len() as u16);
        for live_out in &record.live_outs {
            self.u16(live_out.reg.get());
            self.u8(0);
            self.u8(live_out.size);
        }
        self.align8();
    }

    fn location(&mut self, version: Version, location: Location) {
        let (kind, reg, last) = match location.kind {
            LocationKind::Register { reg, bit_offset } => (1, reg.get(), bit_offset),
            LocationKind::Direct { reg, offset } => (2, reg.get(), offset),
            LocationKind::Indirect { reg, offset } => (3, reg.get(), offset),
            LocationKind::Constant { value } => (4, 0, value),
            LocationKind::ConstantIndex { index } => (5, 0, index as i32),
        };
        self.u8(kind);
        if version == Version::V3 {
            self.u8(0);
            self.u16(location.size);
            self.u16(reg);
            self.u16(0);
        } else {
            self.u8(location.size as u8);
            self.u16(reg);
        }
        self.i32(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_record_reads_back() {
        let (read, constants) = map()
            .constant(1 << 40)
            .function(
                0x1000,
                24,
                [record(7)
                    .at(0x10)
                    .locations([reg(0, 8), sub_reg(3, 32, 4), direct(7, 16)])
                    .location(indirect(6, -16, 8))
                    .locations([constant(-1), constant_index(0)])
                    .live_out(3, 8)],
            )
            .leak();
        assert_eq!((read.id().get(), read.offset().get()), (7, 0x10));
        let expected = [
            reg(0, 8),
            sub_reg(3, 32, 4),
            direct(7, 16),
            indirect(6, -16, 8),
            constant(-1),
            constant_index(0),
        ];
        assert!(read.locations().eq(expected));
        assert_eq!(read.live_outs().len(), 1);
        assert_eq!(constants.get(0), Some(1 << 40));
        assert_eq!(record(9).leak().id().get(), 9);
    }
}
