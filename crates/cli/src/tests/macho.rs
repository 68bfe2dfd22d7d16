//! What is not said in Mach-O files, and not guessed.

use object::{Object, ObjectSection, ObjectSymbol, RelocationKind, RelocationTarget, SymbolKind};

use super::*;
use crate::object_file::ObjectFile;
use crate::relocate::relocate;

fn object() -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tool/ir");
    fs::read(folder.join("lines.macho.o")).unwrap()
}

/// Where these bytes are, once.
fn find(data: &[u8], bytes: &[u8]) -> usize {
    let mut found = (0..data.len()).filter(|at| data[*at..].starts_with(bytes));
    let at = found.next().unwrap();
    assert_eq!(found.next(), None);
    at
}

/// Functions are in the section that compilers have for them, and symbols of sections with other
/// names may be anything.
#[test]
fn names_tell_what_sections_of_macho_hold() {
    let kinds = |data: &[u8]| {
        let file = ObjectFile::parse(data).unwrap();
        let is_code = file.file.sections().any(|section| file.is_code(&section));
        let kinds: Vec<_> = file
            .file
            .symbols()
            .filter(|symbol| symbol.section_index().is_some_and(|section| section.0 == 1))
            .map(|symbol| file.symbol_kind(&symbol))
            .collect();
        (is_code, kinds)
    };
    let mut data = object();
    let (is_code, all) = kinds(&data);
    assert!(is_code && !all.is_empty());
    assert!(all.iter().all(|kind| *kind == SymbolKind::Text), "{all:?}");
    let at = find(&data, b"__text\0\0\0\0\0\0\0\0\0\0__TEXT\0");
    for (name, expected) in [
        (&b"__hot\0"[..], SymbolKind::Unknown),
        (b"__const\0", SymbolKind::Data),
    ] {
        data[at..at + name.len()].copy_from_slice(name);
        let (is_code, all) = kinds(&data);
        assert!(!is_code);
        assert!(all.iter().all(|kind| *kind == expected), "{all:?}");
    }
}

/// An absolute address is that of no section, also where it has the value of one.
#[test]
fn absolute_addresses_of_macho_are_in_no_section() {
    let mut data = object();
    let (offset, at, first, addr) = {
        let file = ObjectFile::parse(&data).unwrap();
        let section = file.map_sections().unwrap().remove(0);
        let in_file = file.file.section_by_index(section.index).unwrap();
        let (offset, relocation) = in_file.relocations().next().unwrap();
        assert_eq!(
            (relocation.kind(), relocation.size()),
            (RelocationKind::Absolute, 64)
        );
        assert!(matches!(relocation.target(), RelocationTarget::Symbol(_)));
        let header = find(&data, b"__llvm_stackmaps__LLVM_STACKMAPS");
        // Its field `reloff`.
        let reloff = data[header + 56..header + 60].try_into().unwrap();
        (
            offset,
            section.at,
            u32::from_le_bytes(reloff) as usize,
            in_file.address(),
        )
    };
    assert_ne!(addr, 0);
    data[first..first + 4].copy_from_slice(&u32::try_from(offset).unwrap().to_le_bytes());
    // No symbol of number 0, not relative, eight bytes.
    data[first + 4..first + 8].copy_from_slice(&[0, 0, 0, 0x06]);
    let field = (at + offset) as usize;
    data[field..field + 8].copy_from_slice(&addr.to_le_bytes());
    let file = ObjectFile::parse(&data).unwrap();
    let section = file.map_sections().unwrap().remove(0);
    let in_file = file.file.section_by_index(section.index).unwrap();
    let (_, relocation) = in_file.relocations().next().unwrap();
    assert_eq!(relocation.target(), RelocationTarget::Absolute);
    let target = relocate(&file, &section).target(&file, offset);
    assert_eq!((target.name, target.place), (None, None));
}
