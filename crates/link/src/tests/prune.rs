//! What keeps a section, beyond what real objects have.

use super::build::{OUTSIDE, Section, Symbol, code, object};
use super::*;

const R_X86_64_PC32: u32 = 2;
const LINK_ORDER: u64 = 0x80;
const RETAIN: u64 = 0x20_0000;

fn section(name: &'static str, flags: u64, relas: Vec<super::build::Rela>) -> Section {
    Section {
        name,
        flags,
        ..code(vec![0; 32], relas)
    }
}

fn at(name: &'static str, section: u16) -> Symbol {
    Symbol {
        name,
        section,
        ..OUTSIDE
    }
}

/// The names of the sections that are left, of an object whose first section is the root.
fn left(sections: &[Section], symbols: &[Symbol]) -> Vec<alloc::string::String> {
    let bytes = object(Arch::X86_64, sections, symbols);
    let mut graph = Graph::new("it", Object::parse(&bytes).unwrap());
    graph.prune(["root"]).unwrap();
    let left = graph.sections().iter();
    left.filter(|section| section.role() != SectionRole::Ignored)
        .map(|section| section.name().to_string())
        .collect()
}

const ROOT: &str = ".text.root";

#[test]
fn sections_about_others_stay_with_those() {
    let sections = |about: u64| {
        [
            section(ROOT, build::CODE, Vec::new()),
            section("about", build::READ_ONLY | about, vec![(0, R_X86_64_PC32, 2, 0)]),
            section("needed", build::CODE, Vec::new()),
        ]
    };
    let symbols = [at("root", 1), at("needed", 3)];
    assert_eq!(left(&sections(LINK_ORDER), &symbols), [ROOT, "about", "needed"]);
    assert_eq!(left(&sections(0), &symbols), [ROOT]);
    // With the section that it is about, it goes.
    let symbols = [at("root", 3), at("other", 1)];
    assert_eq!(left(&sections(LINK_ORDER), &symbols), ["needed"]);
}

#[test]
fn sections_that_say_so_are_kept() {
    let sections = |retain: u64| {
        [
            section(ROOT, build::CODE, Vec::new()),
            section("kept", build::DATA | retain, vec![(0, R_X86_64_PC32, 2, 0)]),
            section("needed", build::CODE, Vec::new()),
        ]
    };
    let symbols = [at("root", 1), at("needed", 3)];
    assert_eq!(left(&sections(RETAIN), &symbols), [ROOT, "kept", "needed"]);
    assert_eq!(left(&sections(0), &symbols), [ROOT]);
}

/// Unwind information that is not understood stays, and all functions that it speaks of: lengths
/// that are too large, too small, or 64-bit; entries whose other half or function is not there.
#[test]
fn tables_that_are_not_understood_are_kept_whole() {
    let common = |len: u32| [len, 0, 0, 0, 0].map(u32::to_le_bytes).concat();
    let entry = |back: u32| [8, back, 0].map(u32::to_le_bytes).concat();
    let frames = |bytes: Vec<u8>, function: u64| {
        let frame = Section {
            name: ".eh_frame",
            flags: build::READ_ONLY,
            align: 8,
            relas: vec![(function, R_X86_64_PC32, 2, 0)],
            bytes,
        };
        let sections = [
            section(ROOT, build::CODE, Vec::new()),
            frame,
            section("other", build::CODE, Vec::new()),
        ];
        left(&sections, &[at("root", 1), at("other", 3)])
    };
    let good = [common(16), entry(24)].concat();
    assert_eq!(frames(good.clone(), 28), [ROOT]);
    let kept = [ROOT, ".eh_frame", "other"];
    for len in [0xffff, u32::MAX, 2] {
        assert_eq!(frames([common(len), entry(24)].concat(), 28), kept, "{len}");
    }
    assert_eq!(frames([common(16), entry(20)].concat(), 28), kept);
    assert_eq!(frames([common(16), entry(28)].concat(), 28), kept);
    assert_eq!(frames(good, 12), kept);
}

#[test]
fn stack_maps_that_are_not_understood_are_kept_whole() {
    let map = |version: u8, functions: u8| {
        let mut bytes = vec![version, 0, 0, 0, functions, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let size = if version == 1 { 16 } else { 24 };
        bytes.resize(16 + size * usize::from(functions), 0);
        let maps = Section {
            name: ".llvm_stackmaps",
            flags: build::READ_ONLY,
            align: 8,
            relas: vec![(16, 1, 2, 0)],
            bytes,
        };
        let sections = [
            section(ROOT, build::CODE, Vec::new()),
            maps,
            section("other", build::CODE, Vec::new()),
        ];
        left(&sections, &[at("root", 1), at("other", 3)])
    };
    assert_eq!(map(3, 1), [ROOT]);
    let kept = [ROOT, ".llvm_stackmaps", "other"];
    // An old one does not say which records are whose, of the second function nothing says where it
    // is, and of the last version nothing is known.
    assert_eq!(map(1, 1), kept);
    assert_eq!(map(3, 2), kept);
    assert_eq!(map(9, 1), kept);
}

/// Of any kind: the specification lets nobody keep a part of one.
#[test]
fn groups_stay_or_go_as_a_whole() {
    let sections = [
        section(ROOT, build::CODE, vec![(0, R_X86_64_PC32, 2, 0)]),
        section("first", build::CODE, Vec::new()),
        section("second", build::READ_ONLY, vec![(0, R_X86_64_PC32, 3, 0)]),
        section("third", build::CODE, Vec::new()),
        section("fourth", build::DATA, Vec::new()),
    ];
    let symbols = [at("root", 1), at("second", 3), at("third", 4)];
    for flags in [0, 1] {
        let groups: [build::GroupSpec<'_>; 2] = [(flags, 2, &[2, 3]), (flags, 3, &[4, 5])];
        for (groups, kept) in [
            (&groups[..0], &[ROOT, "second", "third"][..]),
            (&groups[..1], &[ROOT, "first", "second", "third"]),
            (&groups[..], &[ROOT, "first", "second", "third", "fourth"]),
        ] {
            let bytes = build::grouped(Arch::X86_64, &sections, &symbols, groups);
            let mut graph = Graph::new("it", Object::parse(&bytes).unwrap());
            graph.prune(["root"]).unwrap();
            let left = graph.sections().iter();
            let left = left.filter(|section| section.role() != SectionRole::Ignored);
            assert_eq!(left.map(|section| section.name()).collect::<Vec<_>>(), kept);
        }
    }
}
