//! COFF objects of clang, llc and llvm-mc 19 for x86-64: every relocation, against llvm-jitlink 19
//! byte for byte; COMDAT sections of several objects; unwind tables; the large form of the header.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::BTreeSet;

#[path = "formats/mod.rs"]
mod formats;

use formats::{Folder, objects};
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::image::{Definition, Graph, LinkedImage, Object, SegmentKind, Symbol};

const FOLDER: Folder = Folder {
    path: "coff/x86_64",
    bytes_at_least: 8_000,
    fields_at_least: 400,
    // CodeView, weak symbols that may be undefined, and imports, whose places it wants defined.
    without: &[
        "debug.O0.o",
        "debug.O2.o",
        "weak.o",
        "imports.O0.o",
        "imports.O2.o",
        "relocs.O0.o",
        "relocs.O2.o",
    ],
};

fn read(name: &str) -> Vec<u8> {
    std::fs::read(FOLDER.path().join(name)).unwrap()
}

#[test]
fn bytes_are_those_of_jitlink() {
    formats::compare(&FOLDER);
}

#[test]
fn bytes_are_those_recorded_of_jitlink() {
    formats::compare_with_record(&FOLDER);
}

#[test]
fn a_wrong_byte_is_noticed() {
    formats::check_comparison(&FOLDER);
}

/// The numbers of all relocations of an object, as the file has them.
fn numbers(object: &[u8]) -> BTreeSet<u16> {
    let half = |at: usize| u16::from_le_bytes(object[at..at + 2].try_into().unwrap());
    let word = |at: usize| u32::from_le_bytes(object[at..at + 4].try_into().unwrap()) as usize;
    let sections = (0..usize::from(half(2))).map(|index| 20 + 40 * index);
    let relocations =
        sections.flat_map(|at| (0..usize::from(half(at + 32))).map(move |index| word(at + 24) + 10 * index));
    relocations.map(|at| half(at + 8)).collect()
}

#[test]
fn every_relocation_type_occurs() {
    let objects = objects(&FOLDER);
    let found: BTreeSet<u16> = objects.iter().flat_map(|(_, bytes)| numbers(bytes)).collect();
    // IMAGE_REL_AMD64_ADDR64 to _REL32_5, _SECTION (in debug information only) and _SECREL.
    assert_eq!(found, (1..=11).collect());
}

fn link(graph: Graph<'_>) -> LinkedImage {
    let layout = graph.layout().unwrap();
    let base = CodeAddr::new(0x1000_0000);
    let (addrs, _) = layout.contiguous(base, Len::new(4096)).unwrap();
    layout
        .link(&addrs, &|_| Some(CodeAddr::new(0x1800_0000)))
        .unwrap()
}

/// Each of the two objects has a copy of the inline functions, the template, the table of virtual
/// functions and the chosen variable; together they have one.
#[test]
fn copies_of_several_objects_become_one() {
    for level in ["O0", "O2"] {
        let (first, second) = (
            read(&format!("first.{level}.o")),
            read(&format!("second.{level}.o")),
        );
        let groups = |bytes| Object::parse(bytes).unwrap().graph().groups().len();
        assert!(groups(&first) >= 4 && groups(&second) >= 4, "{level}");
        let alone: usize = [&first, &second]
            .into_iter()
            .map(|bytes| {
                link(Graph::new("alone", Object::parse(bytes).unwrap()))
                    .image
                    .functions
                    .len()
            })
            .sum();
        let mut graph = Graph::new("first", Object::parse(&first).unwrap());
        graph.add("second", Object::parse(&second).unwrap()).unwrap();
        let linked = link(graph);
        let shared = linked.image.functions.len();
        println!("{level}: {alone} functions apart, {shared} together");
        assert!(shared + 2 <= alone, "{level}: {shared} of {alone}");
        let names: BTreeSet<_> = linked.image.functions.iter().map(|f| &f.name).collect();
        assert_eq!(names.len(), shared, "{level}");
        // The unwind tables of what was dropped went with it.
        let covered = unwind_starts(&linked);
        let starts: BTreeSet<u64> = linked.image.functions.iter().map(|f| f.addr.get()).collect();
        assert!(!covered.is_empty() && covered.is_subset(&starts), "{level}");
    }
}

/// Where the functions start that the unwind tables speak of.
fn unwind_starts(linked: &LinkedImage) -> BTreeSet<u64> {
    let tables = linked
        .image
        .code_tables
        .iter()
        .filter(|table| table.name == ".pdata");
    let entries = tables.flat_map(|table| table.bytes.chunks_exact(12));
    let starts = entries.map(|entry| u32::from_le_bytes(*entry.first_chunk().unwrap()));
    starts
        .map(|start| linked.image_base().get() + u64::from(start))
        .collect()
}

#[test]
fn unwind_tables_count_from_the_image_base() {
    for name in [
        "program.O0.small.o",
        "program.O2.small.o",
        "first.O0.o",
        "c_args.O2.o",
    ] {
        let bytes = read(name);
        let linked = link(Graph::new(name, Object::parse(&bytes).unwrap()));
        let starts: BTreeSet<u64> = linked.image.functions.iter().map(|f| f.addr.get()).collect();
        let covered = unwind_starts(&linked);
        assert!(
            !covered.is_empty() && covered.is_subset(&starts),
            "{name}: {covered:x?} {starts:x?}"
        );
    }
}

/// Offsets in sections (SECREL) are those of the symbols there.
#[test]
fn offsets_in_sections_do_not_depend_on_places() {
    let bytes = read("relocations.o");
    let linked = link(Graph::new("it", Object::parse(&bytes).unwrap()));
    let symbol = |name| linked.symbol(name).unwrap().get();
    let data = linked
        .segments
        .iter()
        .find(|segment| segment.kind == SegmentKind::Data)
        .unwrap();
    // Behind four addresses of 64 bits and four from the image base.
    let at = (symbol("pointers") - data.addr.get()) as usize + 4 * 8 + 4 * 4;
    let word = |at: usize| u64::from(u32::from_le_bytes(*data.bytes[at..].first_chunk().unwrap()));
    assert_eq!(word(at), 16, "`value` in .data");
    assert_eq!(word(at + 4), symbol("near") - symbol("start"), "`near` in .text");
    assert_eq!(word(at - 4), symbol("near") - linked.image_base().get() + 1);
}

/// A weak symbol is its default, or another object's definition, or nothing.
#[test]
fn weak_symbols_give_way() {
    let bytes = read("weak.o");
    let pointers = |linked: &LinkedImage| -> Vec<u64> {
        let at = linked.symbol("pointers").unwrap();
        let data = linked.segments.iter().find(|segment| segment.addr == at).unwrap();
        let words = data.bytes.chunks_exact(8);
        words
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect()
    };
    let object = || Graph::new("weak", Object::parse(&bytes).unwrap());
    let layout = object().layout().unwrap();
    let (addrs, _) = layout
        .contiguous(CodeAddr::new(0x1000_0000), Len::new(4096))
        .unwrap();
    let low = |name: &str| (name == "low").then_some(CodeAddr::new(0x7654_3210));
    let alone = layout.link(&addrs, &low).unwrap();
    let own = alone.symbol("own").unwrap().get();
    // The last two have 32 bits: ADDR32.
    assert_eq!(pointers(&alone), [0, own, own, 0x7654_3220_7654_3210]);
    let linked = layout
        .link(&addrs, &|_| Some(CodeAddr::new(0x1234_5678)))
        .unwrap();
    assert_eq!(pointers(&linked)[0], 0x1234_5678);
    let mut graph = object();
    let other = Symbol::new("replaceable", Definition::Absolute(0x4567_89ab));
    graph.add_symbol(other).unwrap();
    let linked = link(graph);
    assert_eq!(pointers(&linked)[1..3], [0x4567_89ab, own]);
}

/// What no root needs goes, with its unwind tables, where functions have sections of their own.
#[test]
fn pruning_takes_unwind_tables_along() {
    let bytes = read("debug.O0.o");
    let whole = link(Graph::new("it", Object::parse(&bytes).unwrap()));
    let mut graph = Graph::new("it", Object::parse(&bytes).unwrap());
    graph.prune(["through"]).unwrap();
    let linked = link(graph);
    let covered = unwind_starts(&linked);
    let starts: BTreeSet<u64> = linked.image.functions.iter().map(|f| f.addr.get()).collect();
    assert!(linked.symbol("scale").is_none() && whole.symbol("scale").is_some());
    assert!(!covered.is_empty() && covered.is_subset(&starts));
    assert!(covered.len() < unwind_starts(&whole).len());
}

/// The same object with the header that objects of more than 65,279 sections have (`/bigobj`): 56
/// bytes instead of 20, and two bytes more for each symbol.
fn large(object: &[u8]) -> Vec<u8> {
    let half = |at: usize| u16::from_le_bytes(object[at..at + 2].try_into().unwrap());
    let word = |at: usize| u32::from_le_bytes(object[at..at + 4].try_into().unwrap());
    let (sections, table, symbols) = (usize::from(half(2)), word(8) as usize, word(12) as usize);
    let moved = 56 - 20;
    let mut new = Vec::new();
    new.extend([0, 0, 0xff, 0xff, 2, 0, 0x64, 0x86, 0, 0, 0, 0]);
    // The class that says what it is (`ANON_OBJECT_HEADER_BIGOBJ`).
    new.extend([
        0xc7, 0xa1, 0xba, 0xd1, 0xee, 0xba, 0xa9, 0x4b, 0xaf, 0x20, 0xfa, 0xf6, 0x6a, 0xa4, 0xdc, 0xb8,
    ]);
    new.extend([0; 16]);
    new.extend((sections as u32).to_le_bytes());
    new.extend((table as u32 + moved).to_le_bytes());
    new.extend((symbols as u32).to_le_bytes());
    for header in object[20..20 + 40 * sections].chunks(40) {
        let mut header = header.to_vec();
        for at in [20, 24] {
            let place = u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
            if place != 0 {
                header[at..at + 4].copy_from_slice(&(place + moved).to_le_bytes());
            }
        }
        new.extend(header);
    }
    new.extend(&object[20 + 40 * sections..table]);
    let mut parts = 0;
    for entry in object[table..table + 18 * symbols].chunks(18) {
        if parts > 0 {
            parts -= 1;
            new.extend(entry);
            new.extend([0, 0]);
            continue;
        }
        parts = entry[17];
        new.extend(&entry[..12]);
        new.extend(i32::from(i16::from_le_bytes([entry[12], entry[13]])).to_le_bytes());
        new.extend(&entry[14..]);
    }
    new.extend(&object[table + 18 * symbols..]);
    new
}

#[test]
fn large_objects_are_the_same() {
    for (path, bytes) in objects(&FOLDER) {
        let large = large(&bytes);
        let [a, b] = [&bytes, &large].map(|bytes| link(Graph::new("it", Object::parse(bytes).unwrap())));
        assert_eq!(a.image.functions, b.image.functions, "{}", path.display());
        for (a, b) in a.segments.iter().zip(&b.segments) {
            assert_eq!((a.addr, &a.bytes), (b.addr, &b.bytes), "{}", path.display());
        }
    }
}
