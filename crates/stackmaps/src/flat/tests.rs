//! The flat reader against bytes assembled by hand, field by field, and against damaged ones; the
//! writer against the reader.

use alloc::vec;
use alloc::vec::Vec;

use super::super::testing::{MapSpec, RecordSpec, constant, constant_index, indirect, map, record, reg};
use super::super::{
    Endian, LiveOut, Location, LocationKind, OwnedMaps, StackMap, StackMaps, StackSize, Version, VersionTwo,
};
use super::{Dialect, FlatFunction, FlatRecord, FlatWriter, FrameRegister};
use crate::addr::{ByteOffset, DwarfReg, FnOffset, Len, RecordId};
use crate::error::Error;

const DIALECTS: [Dialect; 2] = [Dialect::Proposal, Dialect::Fork];
const ENDIANS: [Endian; 2] = [Endian::Little, Endian::Big];

/// Fields, each a number of so many bytes, as bytes of an order.
fn fields(endian: Endian, fields: &[(u8, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (len, value) in fields {
        let len = usize::from(*len);
        match endian {
            Endian::Little => bytes.extend(&value.to_le_bytes()[..len]),
            Endian::Big => bytes.extend(&value.to_be_bytes()[8 - len..]),
        }
    }
    bytes
}

/// A word of four bytes for each number.
fn words(numbers: &[u64]) -> Vec<(u8, u64)> {
    numbers.iter().map(|number| (4, *number)).collect()
}

/// Two functions. The first has two records, a constant, three frame registers; the second nothing,
/// and no fixed frame.
fn by_hand(dialect: Dialect, endian: Endian) -> Vec<u8> {
    let is_proposal = dialect == Dialect::Proposal;
    let pair = |number, index| match dialect {
        Dialect::Proposal => [(2, number), (2, index)],
        Dialect::Fork => [(2, index), (2, number)],
    };
    let mut all = vec![(1, 2), (1, 0), (2, 0)];
    all.extend(words(match dialect {
        Dialect::Proposal => &[32, 40, 104, 128, 176, 200],
        Dialect::Fork => &[2, 32, 40, 88, 136, 160],
    }));
    all.extend([(4, 0), (8, 1 << 40)]);
    for (address, size, stack, flags, base, registers, records) in [
        (0x1000, 0x44, 40, 1 | 8, 6, (3, 0), (2, 0)),
        (0x2000, 0x10, 0xffff_ffff, 2, 7, (0, 3), (0, 2)),
    ] {
        all.extend([(8, address), (4, size), (4, stack), (2, flags), (2, base)]);
        if is_proposal {
            all.extend([(2, registers.0), (2, registers.1)]);
        }
        all.extend(pair(records.0, records.1));
        if is_proposal {
            all.push((4, 0));
        }
    }
    if is_proposal {
        for (reg, offset, flags) in [(3, -24_i16, 1), (12, 16, 1), (13, 0, 0)] {
            all.extend([(2, reg), (2, offset as u16 as u64), (1, 8), (1, flags), (2, 0)]);
        }
    }
    for (id, offset, size, flags, locations, live_outs) in [
        (7, 0x10, 13, 1, (2, 0), (2, 0)),
        (u64::MAX, 0x30, 0, 0, (1, 2), (0, 2)),
    ] {
        all.extend([(8, id), (4, offset), (1, size), (1, flags)]);
        all.extend(pair(locations.0, locations.1));
        all.extend(pair(live_outs.0, live_outs.1));
        all.push((2, 0));
    }
    for (kind, size, reg, value) in [(1, 8, 0, 0), (5, 8, 0, 0), (3, 4, 6, -16_i32)] {
        all.extend([(1, kind), (1, size), (2, reg), (4, value as u32 as u64)]);
    }
    all.extend([(2, 3), (1, 0), (1, 8), (2, 17), (1, 0), (1, 16)]);
    fields(endian, &all)
}

/// Where what a test damages is.
struct Offsets {
    frames: usize,
    /// Of the first frame's numbers of records.
    owned: usize,
    records: usize,
    locations: usize,
}

fn offsets(dialect: Dialect) -> Offsets {
    match dialect {
        Dialect::Proposal => Offsets {
            frames: 40,
            owned: 40 + 24,
            records: 128,
            locations: 176,
        },
        Dialect::Fork => Offsets {
            frames: 40,
            owned: 40 + 20,
            records: 88,
            locations: 136,
        },
    }
}

fn cases() -> impl Iterator<Item = (Dialect, Endian, Vec<u8>)> {
    let of = |dialect| ENDIANS.map(|endian| (dialect, endian, by_hand(dialect, endian)));
    DIALECTS.into_iter().flat_map(of)
}

#[test]
fn both_dialects_read_field_by_field() {
    for (dialect, endian, bytes) in cases() {
        for two in [VersionTwo::Detected, VersionTwo::Flat(dialect)] {
            let maps = StackMaps::parse_with(&bytes, endian, two).unwrap();
            let [map] = maps.maps() else {
                panic!("{dialect:?} {endian:?}: not one map");
            };
            assert_eq!((map.version(), map.endian()), (Version::Flat(dialect), endian));
            assert_eq!(map.version().number(), 2);
            assert_eq!(map.constants().iter().collect::<Vec<_>>(), [1 << 40]);
            check_frames(dialect, map);
            check_records(map);
        }
    }
}

fn check_frames(dialect: Dialect, map: &StackMap<'_>) {
    let at = offsets(dialect).frames as u64;
    let stride = if dialect == Dialect::Proposal { 32 } else { 24 };
    let headers: Vec<_> = map.headers().collect();
    let seen: Vec<_> = headers
        .iter()
        .map(|h| {
            (
                h.address(),
                h.byte_offset().get(),
                h.stack_size(),
                h.record_count(),
            )
        })
        .collect();
    let expected = [
        (0x1000, at, StackSize::Known(40), Some(2)),
        (0x2000, at + stride, StackSize::Unknown, Some(0)),
    ];
    assert_eq!(seen, expected);
    let counts: Vec<_> = map.functions().map(|f| f.records().unwrap().len()).collect();
    assert_eq!(counts, [2, 0]);

    assert_eq!(map.frames().len(), 2);
    let [first, second] = map.frames().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!((first.address(), first.byte_offset().get()), (0x1000, at));
    assert_eq!(
        (first.function_size(), first.stack_size()),
        (Len::new(0x44), StackSize::Known(40))
    );
    assert_eq!(first.base(), DwarfReg::new(6));
    assert!(first.has_frame_pointer() && first.has_live_out_info());
    assert!(!first.has_variable_size() && !first.is_realigned());
    let register = |reg, offset, is_spilled| FrameRegister {
        reg: DwarfReg::new(reg),
        offset,
        size: 8,
        is_spilled,
    };
    let expected = match dialect {
        Dialect::Proposal => vec![
            register(3, -24, true),
            register(12, 16, true),
            register(13, 0, false),
        ],
        Dialect::Fork => vec![],
    };
    assert!(first.registers().eq(expected));
    assert_eq!(first.lists_registers(), dialect == Dialect::Proposal);
    assert_eq!(second.stack_size(), StackSize::Unknown);
    assert_eq!(second.function_size(), Len::new(0x10));
    assert!(second.has_variable_size() && !second.has_frame_pointer() && !second.has_live_out_info());
    assert_eq!((second.base(), second.registers().len()), (DwarfReg::new(7), 0));
}

fn check_records(map: &StackMap<'_>) {
    let [first, second] = map.records().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!((first.id().get(), first.offset().get()), (7, 0x10));
    assert_eq!(first.reserved(), Some(Len::new(13)));
    assert_eq!(first.has_live_out_info(), Some(true));
    assert!(first.locations().eq([reg(0, 8), constant_index(0)]));
    assert_eq!(first.locations().get(1), Some(constant_index(0)));
    let live_outs = [(3, 8), (17, 16)].map(|(reg, size)| LiveOut {
        reg: DwarfReg::new(reg),
        size,
    });
    assert!(first.live_outs().eq(live_outs));
    assert_eq!((second.id().get(), second.offset().get()), (u64::MAX, 0x30));
    assert_eq!(
        (second.reserved(), second.has_live_out_info()),
        (None, Some(false))
    );
    assert!(second.locations().eq([indirect(6, -16, 4)]));
    assert_eq!(second.live_outs().len(), 0);
    assert!(!second.may_be_overflow());
}

#[test]
fn other_versions_tell_nothing_of_this() {
    for version in [Version::V1, Version::V2, Version::V3] {
        let spec = map().version(version).function(0, 0, [record(1).live_out(3, 8)]);
        let (record, _) = spec.leak();
        assert_eq!((record.reserved(), record.has_live_out_info()), (None, None));
        let bytes = spec.bytes();
        let maps = StackMaps::parse(&bytes, Endian::Little).unwrap();
        assert_eq!(maps.maps()[0].frames().len(), 0);
        assert!(maps.maps()[0].frames().next().is_none());
    }
}

#[test]
fn a_size_that_the_flags_contradict_is_unknown() {
    for flag in [2, 4] {
        let mut bytes = by_hand(Dialect::Proposal, Endian::Little);
        bytes[40 + 16] |= flag;
        let maps = StackMaps::parse(&bytes, Endian::Little).unwrap();
        let frame = maps.maps()[0].frames().next().unwrap();
        assert_eq!(frame.stack_size(), StackSize::Unknown);
        assert_eq!(
            maps.maps()[0].headers().next().unwrap().stack_size(),
            StackSize::Unknown
        );
    }
}

#[test]
fn what_version_two_means_is_decided_by_the_bytes_or_said() {
    let llvm = map()
        .version(Version::V2)
        .function(0x10, 8, [record(1).location(reg(0, 8))])
        .bytes();
    let version = |bytes: &[u8], two| {
        let maps = StackMaps::parse_with(bytes, Endian::Little, two)?;
        Ok::<_, Error>(maps.maps()[0].version())
    };
    let all = [
        (llvm, VersionTwo::Llvm, Version::V2),
        (
            by_hand(Dialect::Proposal, Endian::Little),
            VersionTwo::Flat(Dialect::Proposal),
            Version::Flat(Dialect::Proposal),
        ),
        (
            by_hand(Dialect::Fork, Endian::Little),
            VersionTwo::Flat(Dialect::Fork),
            Version::Flat(Dialect::Fork),
        ),
    ];
    for (bytes, _, is) in &all {
        assert_eq!(version(bytes, VersionTwo::Detected).unwrap(), *is);
        for (_, said, means) in &all {
            let read = version(bytes, *said);
            assert_eq!(read.is_ok(), means == is, "{is:?} as {said:?}: {read:?}");
        }
    }
}

/// Without records, and with so many frame registers that they are as many frames as the fork's
/// header would count.
fn both_dialects() -> Vec<u8> {
    let register = FrameRegister {
        reg: DwarfReg::new(3),
        offset: 0,
        size: 8,
        is_spilled: true,
    };
    let spec = map().function(0x1000, 8, []).bytes();
    let maps = StackMaps::parse(&spec, Endian::Little).unwrap();
    let told = FlatFunction {
        registers: vec![register; 96],
        ..FlatFunction::new(Len::new(1), DwarfReg::new(7))
    };
    let writer = FlatWriter::new(Dialect::Proposal);
    writer
        .write(&maps.maps()[0], |_| told.clone(), |record| record.into())
        .unwrap()
}

#[test]
fn a_map_that_is_right_in_two_ways_is_refused_until_it_is_said() {
    let bytes = both_dialects();
    let at = ByteOffset::new(0);
    let error = StackMaps::parse(&bytes, Endian::Little).unwrap_err();
    assert_eq!(error, Error::StackMapAmbiguous { at });
    for (dialect, frames) in [(Dialect::Proposal, 1), (Dialect::Fork, 32)] {
        let maps = StackMaps::parse_with(&bytes, Endian::Little, VersionTwo::Flat(dialect)).unwrap();
        assert_eq!(maps.maps()[0].frames().len(), frames);
    }
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

/// What is wrong with a little-endian map of that dialect after `damage`: the same whether the
/// dialect is said or not.
fn damaged(dialect: Dialect, damage: impl Fn(&mut Vec<u8>)) -> Error {
    let mut bytes = by_hand(dialect, Endian::Little);
    damage(&mut bytes);
    StackMaps::parse_with(&bytes, Endian::Little, VersionTwo::Flat(dialect)).unwrap_err()
}

#[test]
fn an_array_begins_where_the_one_before_ends() {
    let arrays = [
        ("the constants", "the constants", 8),
        ("the frames", "the frames", 8),
        ("the frame registers", "the frame registers", 32),
        ("the records", "the records", 8),
        ("the locations", "the locations", 24),
        ("the live-outs", "the live-outs", 8),
    ];
    for (number, (what, _, unit)) in arrays.into_iter().enumerate() {
        let field = 4 + 4 * number;
        for wrong in [|old: u32| old + 4, |_: u32| 24] {
            let error = damaged(Dialect::Proposal, |bytes| {
                let old = u32::from_le_bytes(bytes[field..field + 4].try_into().unwrap());
                bytes[field..field + 4].copy_from_slice(&wrong(old).to_le_bytes());
            });
            let Error::FlatMapArray {
                what: found,
                unit: of,
                ..
            } = error
            else {
                panic!("{error}");
            };
            assert_eq!((found, of), (what, unit), "{error}");
        }
    }
    // The fork's header counts its frames.
    let error = damaged(Dialect::Fork, |bytes| bytes[4] = 3);
    let at = ByteOffset::new(4);
    assert_eq!(
        error,
        Error::FlatMapFrames {
            at,
            header: 3,
            have: 2
        }
    );
}

#[test]
fn what_is_referred_to_must_be_there() {
    let proposal = offsets(Dialect::Proposal);
    let refused = |what, at: usize, count, have| Error::FlatMapRange {
        what,
        at: ByteOffset::new(at as u64),
        index: 0,
        count,
        have,
    };
    for (what, at, have) in [
        ("frame registers", proposal.frames + 20, 3),
        ("records", proposal.owned, 2),
        ("locations", proposal.records + 14, 3),
        ("live-outs", proposal.records + 18, 2),
    ] {
        let error = damaged(Dialect::Proposal, |bytes| put(bytes, at, have as u16 + 1));
        assert_eq!(error, refused(what, at, have + 1, have));
        // The largest of both.
        let error = damaged(Dialect::Proposal, |bytes| bytes[at..at + 4].fill(0xff));
        assert!(matches!(error, Error::FlatMapRange { .. }), "{error}");
    }
    let fork = offsets(Dialect::Fork);
    for (what, at, have) in [
        ("records", fork.owned, 2),
        ("locations", fork.records + 14, 3),
        ("live-outs", fork.records + 18, 2),
    ] {
        let error = damaged(Dialect::Fork, |bytes| put(bytes, at + 2, have as u16 + 1));
        assert_eq!(error, refused(what, at, have + 1, have));
    }
}

#[test]
fn functions_own_all_records_in_order() {
    for dialect in DIALECTS {
        let at = offsets(dialect).owned;
        let (number, index) = match dialect {
            Dialect::Proposal => (at, at + 2),
            Dialect::Fork => (at + 2, at),
        };
        let error = damaged(dialect, |bytes| {
            put(bytes, number, 1);
            put(bytes, index, 1);
        });
        let expected = Error::FlatMapOwner {
            at: ByteOffset::new(at as u64),
            index: 1,
            expected: 0,
        };
        assert_eq!(error, expected);
        let error = damaged(dialect, |bytes| put(bytes, number, 1));
        let records = offsets(dialect).records as u64;
        let expected = Error::FlatMapUnowned {
            at: ByteOffset::new(records),
            owned: 1,
            records: 2,
        };
        assert_eq!(error, expected);
    }
}

#[test]
fn kinds_and_constants_are_checked() {
    for dialect in DIALECTS {
        let at = offsets(dialect).locations;
        let error = damaged(dialect, |bytes| bytes[at] = 6);
        let place = ByteOffset::new(at as u64);
        assert_eq!(error, Error::StackMapLocationKind { at: place, kind: 6 });
        let error = damaged(dialect, |bytes| bytes[at + 8 + 4] = 1);
        let expected = Error::StackMapConstantIndex {
            at: ByteOffset::new(at as u64 + 12),
            index: 1,
            constants: 1,
        };
        assert_eq!(error, expected);
    }
}

#[test]
fn what_is_wrong_is_told_of_what_the_map_looks_like() {
    for dialect in DIALECTS {
        let mut bytes = by_hand(dialect, Endian::Little);
        bytes[offsets(dialect).locations] = 9;
        let error = StackMaps::parse(&bytes, Endian::Little).unwrap_err();
        assert!(matches!(error, Error::StackMapLocationKind { .. }), "{error}");
    }
}

#[test]
fn every_truncation_is_an_error() {
    for (dialect, endian, bytes) in cases() {
        for len in 1..bytes.len() {
            let two = VersionTwo::Flat(dialect);
            let error = StackMaps::parse_with(&bytes[..len], endian, two).unwrap_err();
            match error {
                Error::StackMapTruncated { at, needed, have, .. } => {
                    assert!(needed > have && at.get() + have == len as u64);
                }
                Error::FlatMapRange {
                    what: "live-outs", ..
                } => assert!(len >= bytes.len() - 8),
                other => panic!("{dialect:?} cut at {len}: {other}"),
            }
            assert!(StackMaps::parse(&bytes[..len], endian).is_err());
        }
    }
}

#[test]
fn every_flipped_bit_is_read_or_refused() {
    for (_, endian, mut bytes) in cases() {
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            crate::fuzzing::stackmap(&bytes);
            let _ = StackMaps::parse(&bytes, endian).map(|maps| alloc::format!("{maps:?}"));
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn flat_maps_come_in_a_row_with_others_and_are_kept() {
    let v3 = map().function(0x10, 8, [record(1).location(reg(0, 8))]).bytes();
    let section = [
        by_hand(Dialect::Proposal, Endian::Little),
        vec![0; 8],
        v3,
        by_hand(Dialect::Fork, Endian::Little),
    ]
    .concat();
    let maps = StackMaps::parse(&section, Endian::Little).unwrap();
    let versions: Vec<_> = maps.maps().iter().map(StackMap::version).collect();
    let expected = [
        Version::Flat(Dialect::Proposal),
        Version::V3,
        Version::Flat(Dialect::Fork),
    ];
    assert_eq!(versions, expected);
    assert_eq!(maps.records().count(), 5);

    let owned = OwnedMaps::new(section, Endian::Little).unwrap();
    for (number, map) in owned.maps() {
        for record in map.records() {
            let reference = owned.reference(number, &record);
            let (found, constants) = owned.get(reference).unwrap();
            assert_eq!(found.byte_offset(), record.byte_offset());
            assert_eq!((found.id(), found.reserved()), (record.id(), record.reserved()));
            assert!(found.locations().eq(record.locations()));
            assert!(found.live_outs().eq(record.live_outs()));
            assert_eq!(constants.len(), map.constants().len());
            let (same, _) = owned.at(reference.offset()).unwrap();
            assert_eq!(same.byte_offset(), record.byte_offset());
        }
    }
}

/// What is read where no entry is has numbers and indices that nobody has checked.
#[test]
fn an_entry_anywhere_is_refused_or_harmless() {
    let mut read = 0;
    for (_, endian, bytes) in cases() {
        let owned = OwnedMaps::new(bytes.clone(), endian).unwrap();
        let records: Vec<_> = owned.maps().flat_map(|(_, map)| map.records()).collect();
        for at in 0..bytes.len() as u32 {
            let Some((record, _)) = owned.at(at) else { continue };
            assert!(record.locations().count() + record.live_outs().count() < 200_000);
            read += usize::from(
                records
                    .iter()
                    .all(|known| known.byte_offset() != record.byte_offset()),
            );
        }
    }
    assert!(read > 0, "no entry of nonsense was read");
}

/// What writing a map gives, with nothing told.
fn write(spec: &MapSpec, dialect: Dialect) -> Result<Vec<u8>, Error> {
    let bytes = spec.bytes();
    let maps = StackMaps::parse(&bytes, spec.endian).unwrap();
    FlatWriter::new(dialect).write(
        &maps.maps()[0],
        |_| FlatFunction::new(Len::new(1), DwarfReg::new(7)),
        |record| record.into(),
    )
}

#[test]
fn the_writer_writes_the_bytes_that_were_assembled_by_hand() {
    for (dialect, endian, bytes) in cases() {
        let spec = map()
            .endian(endian)
            .constant(1 << 40)
            .function(
                0x1000,
                40,
                [
                    record(7)
                        .at(0x10)
                        .locations([reg(0, 8), constant_index(0)])
                        .live_out(3, 8)
                        .live_out(17, 16),
                    record(u64::MAX).at(0x30).location(indirect(6, -16, 4)),
                ],
            )
            .function(0x2000, u64::MAX, [])
            .bytes();
        let maps = StackMaps::parse(&spec, endian).unwrap();
        let read = StackMaps::parse(&bytes, endian).unwrap();
        let mut frames = read.maps()[0].frames();
        let reserved = |id| match id {
            7 => Len::new(13),
            _ => Len::default(),
        };
        let written = FlatWriter::new(dialect).write(
            &maps.maps()[0],
            |_| frames.next().unwrap().into(),
            |record| FlatRecord {
                reserved: reserved(record.id().get()),
                ..record.into()
            },
        );
        // An index without a number says nothing: by hand it counts on.
        let second = offsets(dialect).frames + if dialect == Dialect::Proposal { 32 } else { 24 };
        let mut expected = bytes.clone();
        expected[second + 20..second + 24].fill(0);
        if dialect == Dialect::Proposal {
            expected[second + 24..second + 28].fill(0);
        }
        let record = offsets(dialect).records + 24 + 18;
        expected[record..record + 4].fill(0);
        assert_eq!(written.unwrap(), expected, "{dialect:?} {endian:?}");
    }
}

fn record_refused(spec: &MapSpec, what: &'static str, value: u64, limit: u64, id: u64) {
    for dialect in DIALECTS {
        let error = write(spec, dialect).unwrap_err();
        let expected = Error::FlatMapRecordFits {
            what,
            id: RecordId::new(id),
            offset: FnOffset::new(0),
            value,
            limit,
        };
        assert_eq!(error, expected);
    }
}

fn function_refused(spec: &MapSpec, what: &'static str, value: u64, limit: u64) {
    for dialect in DIALECTS {
        let error = write(spec, dialect).unwrap_err();
        let expected = Error::FlatMapFunctionFits {
            what,
            function: 0x1000,
            value,
            limit,
        };
        assert_eq!(error, expected);
    }
}

fn many(count: u32) -> impl Iterator<Item = RecordSpec> {
    (0..count).map(|_| record(1))
}

#[test]
fn what_does_not_fit_is_refused_and_what_just_fits_is_not() {
    let half = u64::from(u16::MAX);
    let one = |spec: RecordSpec| map().function(0x1000, 0, [spec]);
    assert!(write(&one(record(1).location(reg(0, 255))), Dialect::Proposal).is_ok());
    record_refused(
        &one(record(1).location(reg(0, 256))),
        "a location's size",
        256,
        255,
        1,
    );

    // 65,535 locations, and the next one's number is 65,535; then one more.
    let full = record(1).locations((0..u16::MAX).map(|_| constant(0)));
    let spec = one(full.clone());
    assert!(write(&spec, Dialect::Fork).is_ok());
    let two = |more| map().function(0x1000, 0, [full.clone(), more, record(9).location(constant(0))]);
    assert!(write(&two(record(2)), Dialect::Fork).is_ok());
    let spec = two(record(2).location(constant(0)));
    record_refused(&spec, "a number of locations before", half + 1, half, 9);

    let full = (0..u16::MAX).fold(record(1), |spec, _| spec.live_out(3, 8));
    let two = |more| map().function(0x1000, 0, [full.clone(), more, record(9).live_out(3, 8)]);
    assert!(write(&two(record(2)), Dialect::Proposal).is_ok());
    let spec = two(record(2).live_out(3, 8));
    record_refused(&spec, "a number of live-outs before", half + 1, half, 9);

    let fixed = |size| map().function(0x1000, size, []);
    assert!(write(&fixed(0xffff_fffe), Dialect::Proposal).is_ok());
    function_refused(&fixed(0xffff_ffff), "a stack size", 0xffff_ffff, 0xffff_fffe);

    assert!(write(&map().function(0x1000, 0, many(0xffff)), Dialect::Fork).is_ok());
    let spec = map().function(0x1000, 0, many(0x1_0000));
    function_refused(&spec, "a number of records", half + 1, half);
    let spec = |count| map().function(0, 0, many(count)).function(0x1000, 0, many(1));
    assert!(write(&spec(0xffff), Dialect::Fork).is_ok());
    let spec = map()
        .function(0, 0, many(0x8000))
        .function(0, 0, many(0x8000))
        .function(0x1000, 0, many(1));
    function_refused(&spec, "a number of records before", half + 1, half);
    // Without records an index is not needed.
    let spec = map()
        .function(0, 0, many(0x8000))
        .function(0, 0, many(0x8000))
        .function(0x1000, 0, []);
    assert!(write(&spec, Dialect::Proposal).is_ok());
}

#[test]
fn what_is_told_must_fit_too() {
    let spec = map().function(0x1000, 0, [record(1).at(4)]).bytes();
    let maps = StackMaps::parse(&spec, Endian::Little).unwrap();
    let write = |dialect, reserved, registers: usize| {
        let register = FrameRegister {
            reg: DwarfReg::new(3),
            offset: -8,
            size: 8,
            is_spilled: true,
        };
        FlatWriter::new(dialect).write(
            &maps.maps()[0],
            |_| FlatFunction {
                registers: vec![register; registers],
                ..FlatFunction::new(Len::new(1), DwarfReg::new(7))
            },
            |record| FlatRecord {
                reserved: Len::new(reserved),
                ..record.into()
            },
        )
    };
    assert!(write(Dialect::Proposal, 255, 0xffff).is_ok());
    assert_eq!(
        write(Dialect::Fork, 256, 0).unwrap_err(),
        Error::FlatMapRecordFits {
            what: "a reserved length",
            id: RecordId::new(1),
            offset: FnOffset::new(4),
            value: 256,
            limit: 255
        }
    );
    let refused = |value, limit| Error::FlatMapFunctionFits {
        what: "a number of frame registers",
        function: 0x1000,
        value,
        limit,
    };
    assert_eq!(
        write(Dialect::Proposal, 0, 0x1_0000).unwrap_err(),
        refused(0x1_0000, 0xffff)
    );
    assert_eq!(write(Dialect::Fork, 0, 1).unwrap_err(), refused(1, 0));
}

#[test]
fn a_function_whose_frame_registers_begin_too_late_is_refused() {
    let spec = map()
        .function(0, 0, [])
        .function(0, 0, [])
        .function(0x1000, 0, [])
        .bytes();
    let maps = StackMaps::parse(&spec, Endian::Little).unwrap();
    let register = FrameRegister {
        reg: DwarfReg::new(3),
        offset: -8,
        size: 8,
        is_spilled: true,
    };
    let error = FlatWriter::new(Dialect::Proposal).write(
        &maps.maps()[0],
        |_| FlatFunction {
            registers: vec![register; 0x8000],
            ..FlatFunction::new(Len::new(1), DwarfReg::new(7))
        },
        |record| record.into(),
    );
    let expected = Error::FlatMapFunctionFits {
        what: "a number of frame registers before",
        function: 0x1000,
        value: 0x1_0000,
        limit: 0xffff,
    };
    assert_eq!(error.unwrap_err(), expected);
}

#[test]
fn records_of_no_function_are_not_written() {
    let spec = |functions: u64| {
        let start = map().version(Version::V1);
        (0..functions).fold(start, |spec, at| spec.function(at, 0, [record(1)]))
    };
    assert!(write(&spec(1), Dialect::Proposal).is_ok());
    let error = write(&spec(2), Dialect::Proposal).unwrap_err();
    assert_eq!(error, Error::RecordsWithoutFunction { functions: 2 });
    // Version 1 without a function, but with a record.
    let mut bytes = vec![0; 40];
    (bytes[0], bytes[12]) = (1, 1);
    let maps = StackMaps::parse(&bytes, Endian::Little).unwrap();
    let written = FlatWriter::new(Dialect::Fork).write(
        &maps.maps()[0],
        |_| FlatFunction::new(Len::new(1), DwarfReg::new(7)),
        |record| record.into(),
    );
    assert_eq!(
        written.unwrap_err(),
        Error::RecordsWithoutFunction { functions: 0 }
    );
}

#[test]
fn a_location_that_says_no_size_has_none() {
    let mut bytes = by_hand(Dialect::Proposal, Endian::Little);
    bytes[offsets(Dialect::Proposal).locations + 1] = 0;
    let maps = StackMaps::parse(&bytes, Endian::Little).unwrap();
    let first: Location = maps.records().next().unwrap().locations().next().unwrap();
    assert_eq!(first.size, 0);
    assert!(matches!(first.kind, LocationKind::Register { .. }));
}
