//! Any bytes as a PC section, a sanitizer's table and a GC map.

use super::Choices;
use crate::Endian;
use crate::addr::CodeAddr;
use crate::error::Error;
use crate::metadata::{Covered, GcMap, IntegerSize, PcSection, PcSectionShape, Safepoints};

/// Takes a shape and a place from the first bytes, reads the rest as each kind of table in both
/// byte orders, and visits every field.
///
/// # Panics
/// When something that must hold for any bytes does not.
pub fn metadata(data: &[u8]) {
    let (choices, table) = data.split_at(data.len().min(16));
    let mut choices = Choices::new(choices);
    let base = CodeAddr::new(choices.word());
    let shape = shape(&mut choices);
    for endian in [Endian::Little, Endian::Big] {
        pc_section(table, base, endian, &shape);
        covered(table, base, endian);
        gc_map(table, endian);
    }
}

fn shape(choices: &mut Choices<'_>) -> PcSectionShape {
    let mut shape = if choices.flag() {
        PcSectionShape::functions()
    } else {
        PcSectionShape::instructions().sharing(u16::from(choices.below(4)))
    };
    if choices.flag() {
        shape = shape.wide();
    }
    if choices.flag() {
        shape = shape.compressed();
    }
    for _ in 0..choices.below(4) {
        let widths = [
            IntegerSize::One,
            IntegerSize::Two,
            IntegerSize::Four,
            IntegerSize::Eight,
        ];
        shape = shape.constant(choices.pick(&widths, IntegerSize::One));
    }
    shape
}

fn pc_section(table: &[u8], base: CodeAddr, endian: Endian, shape: &PcSectionShape) {
    let section = match PcSection::parse(table, base, endian, shape) {
        Ok(section) => section,
        Err(error) => return refused(&error, table),
    };
    let (mut last, mut count) = (None, 0);
    for entry in section.entries() {
        let at = entry.byte_offset().get();
        assert!(last < Some(at) && at < table.len() as u64, "entry at {at}");
        last = Some(at);
        count += 1;
        assert!(entry.pc().is_some());
        assert_eq!(entry.pcs().next(), entry.pc());
        // Read again, they are the same.
        assert!(entry.constants().eq(entry.constants()));
    }
    assert_eq!(section.entries().len(), count);
}

fn covered(table: &[u8], base: CodeAddr, endian: Endian) {
    for wide in [false, true] {
        match Covered::parse(table, base, endian, wide) {
            Ok(covered) => {
                let offsets = covered.functions().map(|function| function.byte_offset);
                assert!(offsets.is_sorted());
                assert_eq!(covered.functions().next().is_none(), table.is_empty());
            }
            Err(error) => refused(&error, table),
        }
    }
}

fn gc_map(table: &[u8], endian: Endian) {
    let map = match GcMap::parse(table, endian) {
        Ok(map) => map,
        Err(error) => return refused(&error, table),
    };
    assert!(map.byte_len() <= table.len());
    let mut safepoints = 0;
    for function in map.functions() {
        safepoints += function.safepoints().len();
        assert_eq!(function.roots().len(), function.roots().count());
    }
    assert_eq!(map.functions().len(), map.functions().count());
    match Safepoints::from_gc_map(&map) {
        Ok(all) => {
            assert_eq!(all.len(), safepoints);
            let mut pcs = map.functions().flat_map(|function| function.safepoints());
            assert!(pcs.all(|pc| all.at(pc).is_some()));
        }
        Err(error) => assert!(matches!(error, Error::SafepointTwice { .. }), "{error}"),
    }
}

/// An error's place lies in the bytes.
fn refused(error: &Error, table: &[u8]) {
    let at = if let Error::TableTruncated { at, needed, have, .. } = error {
        assert!(needed > have, "{error}");
        at
    } else if let Error::TableNumber { at, .. }
    | Error::TableCount { at, .. }
    | Error::TableAddress { at, .. }
    | Error::GcMapVersion { at, .. }
    | Error::GcMapRootKind { at, .. } = error
    {
        at
    } else {
        unreachable!("not an error of the readers: {error}")
    };
    // An alignment may go up to 7 bytes beyond the end before what is missing is found missing.
    assert!(at.get() < table.len() as u64 + 8, "{error}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// The corpus: the tables of the checked-in objects, and a GC map, each behind 16 bytes of
    /// choices.
    fn corpus() -> Vec<Vec<u8>> {
        crate::fuzzing::corpus("metadata")
    }

    #[test]
    fn the_corpus_holds_every_table() {
        let corpus = corpus();
        let maps = corpus.iter().filter(|data| {
            let parsed = GcMap::parse(&data[16..], Endian::Little);
            parsed.is_ok_and(|map| map.functions().len() > 1)
        });
        assert!(maps.count() >= 1);
        let sections = corpus.iter().filter(|data| {
            let mut choices = Choices(&data[..16]);
            let base = CodeAddr::new(choices.word());
            let shape = shape(&mut choices);
            let parsed = PcSection::parse(&data[16..], base, Endian::Little, &shape);
            parsed.is_ok_and(|section| section.entries().len() > 0)
        });
        assert!(sections.count() >= 5);
    }

    #[test]
    fn nothing_panics_on_the_corpus_and_its_mutations() {
        let executions = crate::fuzzing::executions(20_000);
        crate::fuzzing::mutate_and_run(&corpus(), metadata, executions, 0xdada);
    }
}
