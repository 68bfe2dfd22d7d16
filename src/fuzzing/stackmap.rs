//! Any bytes as a stack map section.

use crate::error::Error;
use crate::stackmap::{Endian, Place, Record, StackMap, StackMaps, Version};

/// Reads `data` in both byte orders and visits every field through every iterator.
///
/// # Panics
/// When something that must hold for any bytes does not.
pub fn stackmap(data: &[u8]) {
    for endian in [Endian::Little, Endian::Big] {
        match StackMaps::parse(data, endian) {
            Ok(maps) => visit(&maps, data.len() as u64),
            Err(error) => refused(&error, data.len() as u64),
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
    | Error::StackMapConstantIndex { at, .. } = error
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

fn visit_record(record: &Record<'_>, constants: u32) {
    let locations = record.locations();
    let mut count = 0;
    for (index, location) in locations.enumerate() {
        assert_eq!(locations.get(index), Some(location));
        if let Place::ConstantIndex { index } = location.place {
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
    use std::path::Path;
    use std::vec::Vec;

    fn corpus() -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/stackmap");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        files.iter().map(|path| std::fs::read(path).unwrap()).collect()
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
    }

    #[test]
    fn nothing_panics_on_the_corpus_and_its_mutations() {
        let executions = crate::fuzzing::executions(20_000);
        crate::fuzzing::mutate_and_run(&corpus(), stackmap, executions, 0x5eed);
    }
}
