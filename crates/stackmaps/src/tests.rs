//! The reader against bytes assembled by hand, field by field, and against damaged ones.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::testing::{MapSpec, constant, constant_index, direct, indirect, map, record, reg, sub_reg};
use super::{Endian, LiveOut, LocationKind, StackMaps, StackSize, Version};
use crate::addr::{ByteOffset, DwarfReg, RecordId};
use crate::error::Error;

/// The bytes of hexadecimal text; `|` and blanks only separate.
fn hex(lines: &[&str]) -> Vec<u8> {
    let digits: Vec<u8> = lines
        .iter()
        .flat_map(|line| line.bytes())
        .filter(u8::is_ascii_hexdigit)
        .collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Version 1 and 2 share all but the first byte and the functions' record counts.
fn old_little(version: &str, count: &str) -> Vec<u8> {
    hex(&[
        version,
        "00 | 0000 | 01000000 | 01000000 | 01000000",
        "0010000000000000 | 1800000000000000",
        count,
        "0000000000010000",
        // The record: id, offset, reserved, five locations.
        "0700000000000000 | 10000000 | 0000 | 0500",
        "01 08 0000 00000000",
        "02 08 0700 10000000",
        "03 04 0600 f0ffffff",
        "04 08 0000 ffffffff",
        "05 08 0000 00000000",
        // Padding, two live-outs: no alignment before them.
        "0000 | 0200 | 0300 00 08 | 1100 00 10",
        "00000000",
    ])
}

fn old_big(version: &str, count: &str) -> Vec<u8> {
    hex(&[
        version,
        "00 | 0000 | 00000001 | 00000001 | 00000001",
        "0000000000001000 | 0000000000000018",
        count,
        "0000010000000000",
        "0000000000000007 | 00000010 | 0000 | 0005",
        "01 08 0000 00000000",
        "02 08 0007 00000010",
        "03 04 0006 fffffff0",
        "04 08 0000 ffffffff",
        "05 08 0000 00000000",
        "0000 | 0002 | 0003 00 08 | 0011 00 10",
        "00000000",
    ])
}

fn new_little() -> Vec<u8> {
    hex(&[
        "03 00 0000 | 01000000 | 01000000 | 01000000",
        "0010000000000000 | 1800000000000000 | 0100000000000000",
        "0000000000010000",
        "0700000000000000 | 10000000 | 0000 | 0500",
        "01 00 0800 0000 0000 00000000",
        "02 00 0800 0700 0000 10000000",
        "03 00 0400 0600 0000 f0ffffff",
        "04 00 0800 0000 0000 ffffffff",
        "05 00 0800 0000 0000 00000000",
        // Five locations of 12 bytes: aligned to 8 before the live-outs.
        "00000000",
        "0000 | 0200 | 0300 00 08 | 1100 00 10",
        "00000000",
    ])
}

fn new_big() -> Vec<u8> {
    hex(&[
        "03 00 0000 | 00000001 | 00000001 | 00000001",
        "0000000000001000 | 0000000000000018 | 0000000000000001",
        "0000010000000000",
        "0000000000000007 | 00000010 | 0000 | 0005",
        "01 00 0008 0000 0000 00000000",
        "02 00 0008 0007 0000 00000010",
        "03 00 0004 0006 0000 fffffff0",
        "04 00 0008 0000 0000 ffffffff",
        "05 00 0008 0000 0000 00000000",
        "00000000",
        "0000 | 0002 | 0003 00 08 | 0011 00 10",
        "00000000",
    ])
}

/// What all six hold.
fn spec(version: Version, endian: Endian) -> MapSpec {
    map().version(version).endian(endian).constant(1 << 40).function(
        0x1000,
        24,
        [record(7)
            .at(0x10)
            .locations([reg(0, 8), direct(7, 16), indirect(6, -16, 4), constant(-1)])
            .location(constant_index(0))
            .live_out(3, 8)
            .live_out(17, 16)],
    )
}

fn all_layouts() -> [(Version, Endian, Vec<u8>); 6] {
    let little = "0100000000000000";
    let big = "0000000000000001";
    [
        (Version::V1, Endian::Little, old_little("01", "")),
        (Version::V1, Endian::Big, old_big("01", "")),
        (Version::V2, Endian::Little, old_little("02", little)),
        (Version::V2, Endian::Big, old_big("02", big)),
        (Version::V3, Endian::Little, new_little()),
        (Version::V3, Endian::Big, new_big()),
    ]
}

#[test]
fn every_layout_reads_field_by_field() {
    for (version, endian, bytes) in all_layouts() {
        let maps = StackMaps::parse(&bytes, endian).unwrap();
        let [map] = maps.maps() else {
            panic!("{version:?} {endian:?}: not one map");
        };
        assert_eq!(map.version(), version);
        assert_eq!(map.constants().iter().collect::<Vec<_>>(), [1 << 40]);

        let function = map.functions().next().unwrap();
        assert_eq!(function.address(), 0x1000);
        assert_eq!(function.byte_offset().get(), 16);
        assert_eq!(function.stack_size(), StackSize::Known(24));
        match function.records() {
            None => assert_eq!(version, Version::V1),
            Some(records) => assert_eq!(records.len(), 1),
        }

        let record = map.records().next().unwrap();
        assert_eq!((record.id().get(), record.offset().get()), (7, 16));
        let places: Vec<_> = record.locations().map(|l| (l.kind, l.size)).collect();
        let dwarf = DwarfReg::new;
        let expected = [
            (
                LocationKind::Register {
                    reg: dwarf(0),
                    bit_offset: 0,
                },
                8,
            ),
            (
                LocationKind::Direct {
                    reg: dwarf(7),
                    offset: 16,
                },
                8,
            ),
            (
                LocationKind::Indirect {
                    reg: dwarf(6),
                    offset: -16,
                },
                4,
            ),
            (LocationKind::Constant { value: -1 }, 8),
            (LocationKind::ConstantIndex { index: 0 }, 8),
        ];
        assert_eq!(places, expected, "{version:?} {endian:?}");
        let live_outs: Vec<_> = record.live_outs().collect();
        let expected = [(3, 8), (17, 16)].map(|(reg, size)| LiveOut {
            reg: dwarf(reg),
            size,
        });
        assert_eq!(live_outs, expected);
    }
}

#[test]
fn the_builder_of_the_tests_agrees_with_the_bytes() {
    for (version, endian, bytes) in all_layouts() {
        assert_eq!(spec(version, endian).bytes(), bytes, "{version:?} {endian:?}");
    }
}

#[test]
fn every_truncation_is_an_error_except_in_the_last_padding() {
    for (version, endian, bytes) in all_layouts() {
        for len in 1..bytes.len() {
            let parsed = StackMaps::parse(&bytes[..len], endian);
            if len >= bytes.len() - 4 {
                assert_eq!(parsed.unwrap().records().count(), 1);
                continue;
            }
            let Err(Error::StackMapTruncated { at, needed, have, .. }) = parsed else {
                panic!("{version:?} {endian:?} cut at {len}: {parsed:?}");
            };
            assert_eq!(at.get() + have, len as u64);
            assert!(needed > have);
        }
    }
}

#[test]
fn every_flipped_bit_is_read_or_refused() {
    for (_, endian, mut bytes) in all_layouts() {
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            crate::fuzzing::stackmap(&bytes);
            let _ = StackMaps::parse(&bytes, endian).map(|maps| format!("{maps:?}"));
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn concatenated_maps_of_any_version_and_zeros_between_them() {
    let mut section = Vec::new();
    for zeros in [0, 8, 48] {
        for version in [Version::V3, Version::V1, Version::V2] {
            section.extend(spec(version, Endian::Little).bytes());
            section.extend(vec![0; zeros]);
        }
    }
    section.extend([0; 5]);
    let maps = StackMaps::parse(&section, Endian::Little).unwrap();
    assert_eq!(maps.maps().len(), 9);
    assert_eq!(maps.records().count(), 9);
    assert_eq!(maps.by_id(RecordId::new(7)).count(), 9);
    assert_eq!(maps.by_id(RecordId::new(8)).count(), 0);
    let starts: Vec<_> = maps.maps().iter().map(|m| m.byte_offset().get()).collect();
    assert!(starts.iter().all(|at| at % 8 == 0), "{starts:?}");
}

#[test]
fn what_follows_a_map_and_is_no_map_is_refused() {
    let mut section = new_little();
    let at = ByteOffset::new(section.len() as u64);
    section.extend([9; 16]);
    let error = StackMaps::parse(&section, Endian::Little).unwrap_err();
    assert_eq!(error, Error::StackMapVersion { at, found: 9 });
    section.truncate(section.len() - 12);
    let error = StackMaps::parse(&section, Endian::Little).unwrap_err();
    let Error::StackMapTruncated { at: found, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(found, at);
}

#[test]
fn an_empty_section_has_no_map_and_zeros_are_none() {
    assert!(StackMaps::parse(&[], Endian::Big).unwrap().maps().is_empty());
    let error = StackMaps::parse(&[0; 64], Endian::Little).unwrap_err();
    let at = ByteOffset::new(0);
    assert_eq!(error, Error::StackMapVersion { at, found: 0 });
}

#[test]
fn huge_counts_are_refused_before_anything_is_read() {
    // Functions, constants, records; in turn four billion of them in 64 bytes.
    for (field, what) in [(4, "the functions"), (8, "the constants"), (12, "the records")] {
        for version in 1..=3 {
            let mut bytes = [0; 64];
            bytes[0] = version;
            bytes[field..field + 4].fill(0xff);
            let error = StackMaps::parse(&bytes, Endian::Little).unwrap_err();
            let expected = if field == 12 && version != 1 {
                matches!(error, Error::StackMapTruncated { .. })
            } else {
                matches!(error, Error::StackMapTruncated { what: found, .. } if found == what)
            };
            assert!(expected, "version {version}, {what}: {error}");
        }
    }
}

#[test]
fn record_counts_must_add_up() {
    let mut bytes = new_little();
    bytes[16 + 16] = 2;
    let error = StackMaps::parse(&bytes, Endian::Little).unwrap_err();
    let at = ByteOffset::new(12);
    let expected = Error::StackMapRecordCount {
        at,
        counted: 2,
        header: 1,
    };
    assert_eq!(error, expected);

    // Two functions whose counts overflow 64 bits to the header's 1.
    let two = map().function(0, 0, []).function(0, 0, [record(1)]);
    let mut bytes = two.bytes();
    bytes[16 + 16..][..8].fill(0xff);
    bytes[40 + 16..][..8].copy_from_slice(&2u64.to_le_bytes());
    let error = StackMaps::parse(&bytes, Endian::Little).unwrap_err();
    let expected = Error::StackMapRecordCount {
        at,
        counted: u64::MAX,
        header: 1,
    };
    assert_eq!(error, expected);
}

#[test]
fn kinds_and_constant_indices_are_checked() {
    for kind in [0, 6, 255] {
        let mut bytes = new_little();
        bytes[64] = kind;
        let error = StackMaps::parse(&bytes, Endian::Little).unwrap_err();
        let at = ByteOffset::new(64);
        assert_eq!(error, Error::StackMapLocationKind { at, kind });
    }
    let mut bytes = new_little();
    bytes[64 + 4 * 12 + 8] = 1;
    let error = StackMaps::parse(&bytes, Endian::Little).unwrap_err();
    let expected = Error::StackMapConstantIndex {
        at: ByteOffset::new(64 + 4 * 12 + 8),
        index: 1,
        constants: 1,
    };
    assert_eq!(error, expected);
}

#[test]
fn records_belong_to_functions_in_order() {
    for version in [Version::V2, Version::V3] {
        let bytes = map()
            .version(version)
            .function(0x10, 8, [record(1), record(2).location(reg(1, 8))])
            .function(0x20, u64::MAX, [])
            .function(0x30, 16, [record(1).at(4), record(u64::MAX)])
            .bytes();
        let maps = StackMaps::parse(&bytes, Endian::Little).unwrap();
        let map = maps.maps()[0];
        let ids: Vec<Vec<u64>> = map
            .functions()
            .map(|f| f.records().unwrap().map(|r| r.id().get()).collect())
            .collect();
        assert_eq!(ids, [vec![1, 2], vec![], vec![1, u64::MAX]]);
        let sizes: Vec<_> = map.functions().map(|f| f.stack_size()).collect();
        let counts: Vec<_> = map.headers().map(|header| header.record_count()).collect();
        assert_eq!(counts, [Some(2), Some(0), Some(2)]);
        assert!(map.headers().map(|header| header.stack_size()).eq(sizes.clone()));
        let known = StackSize::Known;
        assert_eq!(sizes, [known(8), StackSize::Unknown, known(16)]);
        assert_eq!(maps.by_id(RecordId::new(1)).count(), 2);
        let overflow: Vec<_> = map.records().map(|r| r.may_be_overflow()).collect();
        assert_eq!(overflow, [false, false, false, true]);
    }
}

#[test]
fn an_id_of_all_ones_with_content_is_no_overflow_record() {
    assert!(record(u64::MAX).leak().may_be_overflow());
    assert!(!record(u64::MAX).location(reg(0, 8)).leak().may_be_overflow());
    assert!(!record(u64::MAX).live_out(3, 8).leak().may_be_overflow());
    assert!(!record(1).leak().may_be_overflow());
}

#[test]
fn a_sub_register_keeps_its_bit_offset() {
    let record = record(1).location(sub_reg(6, 32, 4)).leak();
    assert_eq!(record.locations().next(), Some(sub_reg(6, 32, 4)));
}

#[test]
fn locations_can_be_picked_by_index() {
    for version in [Version::V1, Version::V2, Version::V3] {
        let locations: Vec<_> = (0..100).map(|n| indirect(n, -i32::from(n), 8)).collect();
        let spec = map()
            .version(version)
            .function(0, 0, [record(1).locations(locations.iter().copied())]);
        let (record, _) = spec.leak();
        let mut rest = record.locations();
        for (index, location) in locations.iter().enumerate() {
            assert_eq!(record.locations().get(index), Some(*location));
            assert_eq!(rest.get(0), Some(*location));
            assert_eq!(rest.len(), 100 - index);
            assert_eq!(rest.next(), Some(*location));
        }
        assert_eq!(record.locations().get(100), None);
        assert_eq!(record.locations().get(usize::MAX), None);
        assert_eq!(rest.next(), None);
    }
}

#[test]
fn the_largest_record_reads() {
    let full = record(1).locations((0..u16::MAX).map(|n| reg(n, 8)));
    let full = (0..u16::MAX).fold(full, |full, n| full.live_out(n, 8));
    let bytes = map().function(0, 0, [full, record(2)]).bytes();
    let maps = StackMaps::parse(&bytes, Endian::Little).unwrap();
    let mut records = maps.records();
    let first = records.next().unwrap();
    assert!(
        first
            .locations()
            .map(|l| l.kind)
            .eq((0..u16::MAX).map(|n| LocationKind::Register {
                reg: DwarfReg::new(n),
                bit_offset: 0
            }))
    );
    assert!(first.live_outs().map(|l| l.reg.get()).eq(0..u16::MAX));
    assert_eq!(records.next().map(|r| r.id().get()), Some(2));
}
