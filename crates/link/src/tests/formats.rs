//! Damaged objects of Mach-O and COFF: refused, or linked without harm.
//! `PATCHPOINT_FUZZ_EXECUTIONS` says how many.

use core::cell::Cell;

use llvm_stackmaps::fuzzing::{executions, mutate_and_run};

use super::*;

/// The seeds of the fuzz target that are of these formats.
fn seeds() -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/image");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let is_one = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("macho.") || name.starts_with("coff.")
    };
    let mut paths: Vec<_> = files.filter(is_one).collect();
    paths.sort();
    assert_eq!(paths.len(), 6);
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn undamaged_they_link() {
    for bytes in seeds() {
        let layout = Object::parse(&bytes).unwrap().layout().unwrap();
        let (addrs, _) = layout.contiguous(CodeAddr::new(0x1000_0000), PAGE).unwrap();
        let linked = layout.link(&addrs, &|_| Some(CodeAddr::new(0x1080_0000)));
        assert!(linked.is_ok(), "{linked:?}");
        fuzz_body(&bytes);
    }
}

#[test]
fn no_truncation_panics() {
    for bytes in seeds() {
        for len in (0..bytes.len()).step_by(3) {
            fuzz_body(&bytes[..len]);
        }
    }
}

#[test]
fn no_mutation_panics() {
    let loaded = Cell::new(0_u64);
    let count = executions(12_000);
    let body = |bytes: &[u8]| {
        fuzz_body(bytes);
        loaded.set(loaded.get() + u64::from(Object::parse(bytes).is_ok()));
    };
    mutate_and_run(&seeds(), body, count, 0x0bca);
    // Many get past the header.
    assert!(loaded.get() > count / 20, "{}", loaded.get());
}

/// Sizes that are in no file are refused before anything of that size is allocated.
#[test]
fn sizes_are_bounded() {
    for mut bytes in seeds() {
        let original = bytes.clone();
        for at in (0..bytes.len().min(1200) - 4).step_by(2) {
            bytes[at..at + 4].copy_from_slice(&[0xf0, 0xff, 0xff, 0x7f]);
            if let Ok(layout) = Object::parse(&bytes).and_then(Object::layout) {
                assert!(
                    layout
                        .segments()
                        .iter()
                        .all(|s| u64::from(s.size.get()) <= MAX_SIZE)
                );
            }
            bytes[at..at + 4].copy_from_slice(&original[at..at + 4]);
        }
    }
}

#[test]
fn other_files_are_named() {
    for (bytes, expected) in [
        (&[0xca, 0xfe, 0xba, 0xbe][..], "a universal file"),
        (&[0xce, 0xfa, 0xed, 0xfe], "a 32-bit Mach-O file"),
        (&[0xfe, 0xed, 0xfa, 0xcf], "a big-endian Mach-O file"),
        (b"MZ\x90\0", "a linked Windows file"),
        (&[0x64, 0xaa, 0, 0], "a COFF object for arm64"),
    ] {
        let error = Object::parse(bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// A symbol that others may name has a name.
#[test]
fn an_external_symbol_of_mach_o_without_a_name_is_refused() {
    use object::read::macho::{LoadCommandVariant, MachHeader};
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/image/macho.x86_64.o");
    let mut bytes = std::fs::read(path).unwrap();
    let header = object::macho::MachHeader64::<object::LittleEndian>::parse(&*bytes, 0).unwrap();
    let mut commands = header.load_commands(object::LittleEndian, &*bytes, 0).unwrap();
    let mut symbols = None;
    while let Some(command) = commands.next().unwrap() {
        if let LoadCommandVariant::Symtab(table) = command.variant().unwrap() {
            let [at, count] =
                [table.symoff, table.nsyms].map(|value| value.get(object::LittleEndian) as usize);
            symbols = Some((at, count));
        }
    }
    let (at, count) = symbols.unwrap();
    let entries = (0..count).map(|index| at + 16 * index);
    // N_EXT, of no debugger's.
    let external = entries
        .filter(|at| bytes[at + 4] & 1 != 0 && bytes[at + 4] & 0xe0 == 0)
        .collect::<Vec<_>>();
    assert!(!external.is_empty());
    for at in external {
        let name = core::mem::replace(&mut bytes[at], 0);
        let rest = [1, 2, 3].map(|byte| core::mem::replace(&mut bytes[at + byte], 0));
        let error = Object::parse(&bytes).unwrap_err().to_string();
        assert!(error.starts_with("malformed object: a symbol's name"), "{error}");
        bytes[at] = name;
        bytes[at + 1..at + 4].copy_from_slice(&rest);
    }
    assert!(Object::parse(&bytes).is_ok());
}

/// Of the numbers that 16 bits have for a section, those from 0xff00 on say something else (winnt.h,
/// `IMAGE_SYM_SECTION_MAX`).
#[test]
fn the_last_numbers_of_coff_sections_are_reserved() {
    use object::read::coff::{CoffHeader, Symbol as _};
    let mut bytes = include_bytes!("../../../../asm-tests/objects/linker/coff_directives.o").to_vec();
    let header = object::pe::ImageFileHeader::parse(&*bytes, &mut 0).unwrap();
    let symbols = header.symbols(&*bytes).unwrap();
    let (index, raw) = symbols
        .iter()
        .find(|(_, raw)| {
            raw.storage_class() == object::pe::IMAGE_SYM_CLASS_EXTERNAL && raw.section().is_some()
        })
        .unwrap();
    let name = raw.name(symbols.strings()).unwrap().to_vec();
    // Its number is behind the name and the value.
    let at = header.pointer_to_symbol_table() as usize + 18 * index.0 + 12;
    for number in [0xff00_u16, 0xfffe] {
        bytes[at..at + 2].copy_from_slice(&number.to_le_bytes());
        let object = Object::parse(&bytes).unwrap();
        let mut symbols = object.graph.symbols().iter();
        let symbol = symbols.find(|symbol| symbol.name().as_bytes() == name).unwrap();
        assert_eq!(
            symbol.definition(),
            Definition::Refused("it is debug information"),
            "{number:#x}"
        );
    }
    bytes[at..at + 2].copy_from_slice(&0xfeff_u16.to_le_bytes());
    let error = Object::parse(&bytes).unwrap_err().to_string();
    assert!(
        error.starts_with("malformed object: a symbol's section"),
        "{error}"
    );
}

/// What an object includes is kept where others are pruned, and a name stands for what its object
/// says unless another one defines it.
#[test]
fn directives_of_coff_count() {
    let bytes = include_bytes!("../../../../asm-tests/objects/linker/coff_directives.o");
    for defines in [false, true] {
        let mut graph = Graph::new("it.o", Object::parse(bytes).unwrap());
        let section = |name: &'static str| Section::new(name, SectionRole::Data, vec![1; 4]);
        let kept = graph.add_section(section("kept")).unwrap();
        graph
            .add_symbol(Symbol::new("wanted", Definition::Section(kept, 0)))
            .unwrap();
        let gone = graph.add_section(section("gone")).unwrap();
        graph
            .add_symbol(Symbol::new("other", Definition::Section(gone, 0)))
            .unwrap();
        if defines {
            graph
                .add_symbol(Symbol::new("missing", Definition::Absolute(0x77)))
                .unwrap();
        }
        graph.prune(["places"]).unwrap();
        let sizes = [kept, gone].map(|id| graph.sections()[id.index()].size());
        assert_eq!(sizes, [4, 0]);
        let layout = graph.layout().unwrap();
        let (addrs, _) = layout.contiguous(CodeAddr::new(0x1000_0000), PAGE).unwrap();
        let linked = layout.link(&addrs, &|_| None).unwrap();
        let places = linked.symbol("places").unwrap();
        let data = linked
            .segments
            .iter()
            .find(|segment| segment.kind == SegmentKind::Data);
        let word = data.unwrap().read(places, 8).unwrap();
        let fallback = linked.symbol("fallback").unwrap().get();
        let expected = if defines { 0x77 } else { fallback };
        assert_eq!(u64::from_le_bytes(word.try_into().unwrap()), expected);
    }
}

/// Names of one format mean other things in another.
#[test]
fn objects_of_two_formats_are_not_linked_together() {
    let seeds = seeds();
    let [coff, macho] = [&seeds[0], &seeds[5]].map(|bytes| Object::parse(bytes).unwrap());
    assert_ne!(coff.format(), macho.format());
    let mut graph = Graph::new("coff", coff);
    let error = graph.add("macho", macho).unwrap_err();
    assert!(matches!(error, Error::ObjectFormatsDiffer { .. }), "{error}");
}
