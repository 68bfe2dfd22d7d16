//! Any bytes as a stack map section.

use crate::error::Error;
use crate::flat::Dialect;
use crate::{Endian, LocationKind, Record, StackMap, StackMaps, Version, VersionTwo};

/// What version 2 can be said to mean.
pub(super) const TWO: [VersionTwo; 4] = [
    VersionTwo::Detected,
    VersionTwo::Llvm,
    VersionTwo::Flat(Dialect::Proposal),
    VersionTwo::Flat(Dialect::Fork),
];

/// Reads `data` in both byte orders, with each meaning of version 2, and visits every field through
/// every iterator.
///
/// # Panics
/// When something that must hold for any bytes does not.
pub fn stackmap(data: &[u8]) {
    for endian in [Endian::Little, Endian::Big] {
        let read = TWO.map(|two| StackMaps::parse_with(data, endian, two));
        for maps in &read {
            match maps {
                Ok(maps) => visit(maps, data.len() as u64),
                Err(error) => refused(error, data.len() as u64),
            }
        }
        let [detected, said @ ..] = read;
        // With more than one map, each may be of another layout.
        if detected.is_ok_and(|maps| maps.maps().len() == 1) {
            assert!(said.iter().any(Result::is_ok));
        }
    }
}

/// An error's place lies in the bytes.
fn refused(error: &Error, len: u64) {
    let at = if let Error::StackMapTruncated { at, needed, have, .. } = error {
        assert!(needed > have, "{error}");
        assert_eq!(at.get() + have, len, "{error}");
        at
    } else if let Error::StackMapVersion { at, .. }
    | Error::StackMapRecordCount { at, .. }
    | Error::StackMapLocationKind { at, .. }
    | Error::StackMapConstantIndex { at, .. }
    | Error::StackMapAmbiguous { at }
    | Error::FlatMapArray { map: at, .. }
    | Error::FlatMapFrames { at, .. }
    | Error::FlatMapRange { at, .. }
    | Error::FlatMapOwner { at, .. }
    | Error::FlatMapUnowned { at, .. } = error
    {
        at
    } else {
        unreachable!("not an error of the reader: {error}")
    };
    assert!(at.get() <= len, "{error}");
}

fn visit(maps: &StackMaps<'_>, len: u64) {
    let mut last = None;
    for map in maps.maps() {
        let at = map.byte_offset().get();
        assert!(at % 8 == 0 && at < len && last < Some(at), "map at {at}");
        last = Some(at);
        last = visit_map(map, len).or(last);
    }
    let flat = maps.records().count();
    assert_eq!(
        flat,
        maps.maps().iter().map(|map| map.records().len()).sum::<usize>()
    );
    if let Some(first) = maps.records().next() {
        let found = maps.by_id(first.id()).next().map(|record| record.byte_offset());
        assert_eq!(found, Some(first.byte_offset()));
    }
}

/// Visits a map and returns where its last record starts.
fn visit_map(map: &StackMap<'_>, len: u64) -> Option<u64> {
    let constants = map.constants();
    assert_eq!(constants.iter().count(), constants.len() as usize);
    assert_eq!(constants.get(constants.len()), None);

    let mut count = 0;
    let mut last = None;
    for record in map.records() {
        let at = record.byte_offset().get();
        assert!(at % 8 == 0 && at < len && last < Some(at), "record at {at}");
        last = Some(at);
        count += 1;
        visit_record(&record, constants.len());
    }
    assert_eq!(count, map.records().len());
    by_function(map);
    frames(map);
    last
}

/// Function by function gives the same records as all of them in one go.
fn by_function(map: &StackMap<'_>) {
    let functions = map.functions();
    assert_eq!(functions.len(), functions.clone().count());
    let headers = map.headers().map(|header| {
        let size = header.stack_size();
        (
            header.address(),
            header.byte_offset(),
            size,
            header.record_count(),
        )
    });
    assert!(headers.eq(functions.clone().map(|function| {
        let count = function.records().map(|records| records.len() as u64);
        (
            function.address(),
            function.byte_offset(),
            function.stack_size(),
            count,
        )
    })));
    if map.version() == Version::V1 {
        assert!(functions.clone().all(|function| function.records().is_none()));
        return;
    }
    let grouped = functions.flat_map(|function| function.records().into_iter().flatten());
    let offsets = |record: Record<'_>| record.byte_offset();
    assert!(grouped.map(offsets).eq(map.records().map(offsets)));
}

/// What a flat map says of functions is what every map says, and more.
fn frames(map: &StackMap<'_>) {
    let frames = map.frames();
    let is_flat = matches!(map.version(), Version::Flat(_));
    assert_eq!(frames.len(), if is_flat { map.headers().len() } else { 0 });
    assert_eq!(frames.len(), frames.clone().count());
    for (frame, header) in frames.zip(map.headers()) {
        assert_eq!(frame.address(), header.address());
        assert_eq!(frame.byte_offset(), header.byte_offset());
        assert_eq!(frame.stack_size(), header.stack_size());
        assert_eq!(frame.registers().count(), frame.registers().len());
    }
}

fn visit_record(record: &Record<'_>, constants: u32) {
    let locations = record.locations();
    let mut count = 0;
    for (index, location) in locations.enumerate() {
        assert_eq!(locations.get(index), Some(location));
        if let LocationKind::ConstantIndex { index } = location.kind {
            assert!(index < constants);
        }
        count += 1;
    }
    assert_eq!(count, locations.len());
    assert_eq!(locations.get(count), None);
    assert_eq!(record.live_outs().count(), record.live_outs().len());
    if record.may_be_overflow() {
        assert_eq!(record.id().get(), u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn corpus() -> Vec<Vec<u8>> {
        crate::fuzzing::corpus("stackmap")
    }

    #[test]
    fn the_corpus_holds_sections_of_both_byte_orders() {
        let readable = |endian| {
            corpus()
                .iter()
                .filter(|data| StackMaps::parse(data, endian).is_ok())
                .count()
        };
        assert!(readable(Endian::Little) >= 8);
        assert!(readable(Endian::Big) >= 4);
        for dialect in [Dialect::Proposal, Dialect::Fork] {
            for endian in [Endian::Little, Endian::Big] {
                let is_it = |data: &Vec<u8>| {
                    let maps = StackMaps::parse(data, endian);
                    maps.is_ok_and(|maps| maps.maps()[0].version() == Version::Flat(dialect))
                };
                assert!(corpus().iter().any(is_it), "{dialect:?} {endian:?}");
            }
        }
    }

    #[test]
    fn nothing_panics_on_the_corpus_and_its_mutations() {
        let executions = crate::fuzzing::executions(20_000);
        crate::fuzzing::mutate_and_run(&corpus(), stackmap, executions, 0x5eed);
    }
}
