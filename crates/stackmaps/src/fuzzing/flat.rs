//! Stack maps of any version, written as flat ones and read back.

use super::random::Random;
use super::stackmap::TWO;
use crate::addr::{DwarfReg, Len};
use crate::error::Error;
use crate::flat::{Dialect, FlatFrame, FlatFunction, FlatRecord, FlatWriter, FrameRegister};
use crate::{Endian, StackMap, StackMaps, StackSize, VersionTwo};

/// Reads `data` as a section of stack maps, writes each as a flat map in both dialects, with what
/// follows from the bytes for what is known beyond a map, and compares what is read back with what
/// was put in.
///
/// # Panics
/// When they differ, or something is refused that fits.
pub fn flat(data: &[u8]) {
    let mix = |seed: u64, byte: &u8| seed.rotate_left(5) ^ u64::from(*byte);
    let seed = data.iter().fold(0, mix);
    for endian in [Endian::Little, Endian::Big] {
        for two in TWO {
            let Ok(maps) = StackMaps::parse_with(data, endian, two) else {
                continue;
            };
            for map in maps.maps() {
                round_trip(map, &RuntimeFacts::about(map, seed));
            }
        }
    }
}

/// What a runtime tells of the functions and records of a map.
pub(super) struct RuntimeFacts {
    pub(super) functions: alloc::vec::Vec<FlatFunction>,
    pub(super) records: alloc::vec::Vec<FlatRecord>,
}

impl RuntimeFacts {
    pub(super) fn about(map: &StackMap<'_>, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let functions = map.headers().map(|_| function(&mut random)).collect();
        // Rarely too long.
        let record = |random: &mut Random| {
            let limit = if random.below(100) == 0 { 300 } else { 256 };
            FlatRecord {
                reserved: Len::new(random.below(limit) as u32),
                has_live_out_info: random.below(2) == 1,
            }
        };
        let records = map.records().map(|_| record(&mut random)).collect();
        Self { functions, records }
    }
}

fn function(random: &mut Random) -> FlatFunction {
    let registers = (0..random.below(4)).map(|_| FrameRegister {
        reg: DwarfReg::new(random.next() as u16),
        offset: random.next() as i16,
        size: random.next() as u8,
        is_spilled: random.below(2) == 1,
    });
    FlatFunction {
        registers: registers.collect(),
        size: Len::new(random.next() as u32),
        base: DwarfReg::new(random.next() as u16),
        has_frame_pointer: random.below(2) == 1,
        has_variable_size: random.below(8) == 0,
        is_realigned: random.below(8) == 0,
    }
}

/// Writes the map in both dialects and compares. Returns in how many it could be written.
pub(super) fn round_trip(map: &StackMap<'_>, told: &RuntimeFacts) -> usize {
    let written = [Dialect::Proposal, Dialect::Fork].map(|dialect| {
        let (mut functions, mut records) = (told.functions.iter(), told.records.iter());
        let mut function = || functions.next().cloned();
        let written = FlatWriter::new(dialect).write(
            map,
            |_| {
                let mut told =
                    function().unwrap_or_else(|| FlatFunction::new(Len::default(), DwarfReg::default()));
                if dialect == Dialect::Fork {
                    told.registers.clear();
                }
                told
            },
            |_| records.next().copied().unwrap_or_else(FlatRecord::default),
        );
        match written {
            Ok(bytes) => {
                assert_eq!(bytes.len() % 8, 0);
                let two = VersionTwo::Flat(dialect);
                let read = StackMaps::parse_with(&bytes, map.endian(), two);
                let read = read.unwrap_or_else(|error| unreachable!("what was written is refused: {error}"));
                let [read] = read.maps() else {
                    unreachable!("{} maps were written", read.maps().len());
                };
                compare(map, told, dialect, read);
                true
            }
            Err(error) => {
                refused(map, &error);
                false
            }
        }
    });
    written.into_iter().filter(|written| *written).count()
}

fn refused(map: &StackMap<'_>, error: &Error) {
    match error {
        Error::FlatMapFunctionFits { value, limit, .. } | Error::FlatMapRecordFits { value, limit, .. } => {
            assert!(value > limit, "{error}");
        }
        Error::RecordsWithoutFunction { .. } => assert_ne!(map.functions().len(), 1),
        other => unreachable!("not an error of the writer: {other}"),
    }
}

fn compare(map: &StackMap<'_>, told: &RuntimeFacts, dialect: Dialect, read: &StackMap<'_>) {
    assert!(read.constants().iter().eq(map.constants().iter()));
    assert_eq!(read.frames().len(), map.headers().len());
    let mut of_records = told.records.iter();
    for ((function, told), frame) in map.functions().zip(&told.functions).zip(read.frames()) {
        assert_eq!(frame.address(), function.address());
        let count = function
            .records()
            .map_or(map.records().len(), |records| records.len());
        let mut records = of_records.by_ref().take(count);
        let has_live_out_info = records.any(|record| record.has_live_out_info);
        // The others of the function.
        records.for_each(drop);
        compare_frame(told, dialect, &frame, function.stack_size());
        assert_eq!(frame.has_live_out_info(), has_live_out_info);
    }
    let counts = |map: &StackMap<'_>| -> alloc::vec::Vec<_> {
        let count = |function: crate::FunctionRecord<'_>| Some(function.records()?.len());
        map.functions().filter_map(count).collect()
    };
    if map.version() != crate::Version::V1 {
        assert_eq!(counts(read), counts(map));
    }
    assert_eq!(read.records().len(), map.records().len());
    for ((one, told), read) in map.records().zip(&told.records).zip(read.records()) {
        assert_eq!((read.id(), read.offset()), (one.id(), one.offset()));
        assert_eq!(read.reserved().unwrap_or(Len::new(0)), told.reserved);
        assert_eq!(read.has_live_out_info(), Some(told.has_live_out_info));
        assert!(read.locations().eq(one.locations()));
        assert!(read.live_outs().eq(one.live_outs()));
    }
}

fn compare_frame(told: &FlatFunction, dialect: Dialect, frame: &FlatFrame<'_>, stack_size: StackSize) {
    let mut expected = told.clone();
    if dialect == Dialect::Fork {
        expected.registers.clear();
    }
    assert_eq!(FlatFunction::from(*frame), expected);
    let fixed = !told.has_variable_size && !told.is_realigned;
    let expected = if fixed { stack_size } else { StackSize::Unknown };
    assert_eq!(frame.stack_size(), expected);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        MapSpec, RecordSpec, constant, constant_index, direct, indirect, map, record, sub_reg,
    };
    use crate::{Location, Version};
    use std::vec::Vec;

    fn corpus() -> Vec<Vec<u8>> {
        crate::fuzzing::corpus("stackmap")
    }

    #[test]
    fn nothing_panics_on_the_corpus_and_its_mutations() {
        let executions = crate::fuzzing::executions(20_000);
        crate::fuzzing::mutate_and_run(&corpus(), flat, executions, 0xf1a7);
    }

    fn any_location(random: &mut Random, constants: usize) -> Location {
        let (reg, offset) = (random.next() as u16, random.next() as i32);
        let size = [1, 4, 8, 16, 255].get(random.below(5)).copied().unwrap_or(8);
        match random.below(5) {
            0 => sub_reg(reg, [0, 32][random.below(2)], size),
            1 => direct(reg, offset),
            2 => indirect(reg, offset, size),
            3 if constants > 0 => constant_index(random.below(constants) as u32),
            _ => constant(offset),
        }
    }

    fn any_record(random: &mut Random, constants: usize) -> RecordSpec {
        let id = if random.below(4) == 0 {
            u64::MAX
        } else {
            random.next()
        };
        let mut spec = record(id).at(random.next() as u32);
        for _ in 0..random.below(6) {
            spec = spec.location(any_location(random, constants));
        }
        for _ in 0..random.below(4) {
            spec = spec.live_out(random.next() as u16, random.next() as u8);
        }
        spec
    }

    fn any_map(random: &mut Random, version: Version, endian: Endian) -> MapSpec {
        let constants = random.below(4);
        let mut spec = (0..constants).fold(map(), |spec, _| spec.constant(random.next()));
        let functions = if version == Version::V1 {
            1
        } else {
            random.below(5)
        };
        for _ in 0..functions {
            let size = match random.below(3) {
                0 => u64::MAX,
                _ => random.next() >> 40,
            };
            let records: Vec<_> = (0..random.below(5))
                .map(|_| any_record(random, constants))
                .collect();
            spec = spec.function(random.next(), size, records);
        }
        spec.version(version).endian(endian)
    }

    #[test]
    fn random_maps_of_every_version_come_back() {
        let mut random = Random::new(0x1e57);
        let mut written = 0;
        for round in 0..3_000 {
            let version = [Version::V1, Version::V2, Version::V3][round % 3];
            let endian = [Endian::Little, Endian::Big][round / 3 % 2];
            let bytes = any_map(&mut random, version, endian).bytes();
            let maps = StackMaps::parse(&bytes, endian).unwrap();
            let map = &maps.maps()[0];
            assert_eq!(map.version(), version);
            written += round_trip(map, &RuntimeFacts::about(map, random.next()));
        }
        // The others have a reserved length of more than 255, once in a few hundred records.
        assert!(written > 5_900, "{written}");
    }
}
