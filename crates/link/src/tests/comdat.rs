//! Groups of sections: which of two is kept, and what a damaged one is.

use alloc::format;

use super::build::{GroupSpec as Members, OUTSIDE, Section, Symbol, WEAK, code, grouped};
use super::*;
use crate::error::{Error, Result};

const COMDAT: u32 = 1;
const R_X86_64_64: u32 = 1;

/// `caller` in a section of its own, and `shared` in a group.
fn symbols(caller: &'static str) -> [Symbol; 2] {
    [
        Symbol {
            name: caller,
            section: 1,
            ..OUTSIDE
        },
        Symbol {
            name: "shared",
            section: 2,
            size: 8,
            kind: 2,
            ..OUTSIDE
        },
    ]
}

/// A section with the address of `shared`; `shared`, of these bytes.
fn sections(bytes: &[u8]) -> [Section; 2] {
    [
        code(vec![0; 8], vec![(0, R_X86_64_64, 2, 0)]),
        Section {
            name: ".text.shared",
            ..code(bytes.to_vec(), Vec::new())
        },
    ]
}

fn object(caller: &'static str, bytes: &[u8], groups: &[Members<'_>]) -> Vec<u8> {
    grouped(Arch::X86_64, &sections(bytes), &symbols(caller), groups)
}

/// An object whose group is chosen by this rule, as no object of ELF says.
fn chosen(caller: &'static str, bytes: &[u8], selection: Selection) -> Object<'static> {
    let bytes = object(caller, bytes, &[(COMDAT, 2, &[2])]);
    let mut object = Object::parse(bytes.leak()).unwrap();
    object.graph.groups[0].selection = Some(selection);
    object
}

fn join<'d>(first: Object<'d>, second: Object<'d>) -> Result<Graph<'d>> {
    let mut graph = Graph::new("first.o", first);
    graph.add("second.o", second)?;
    Ok(graph)
}

/// The size of `shared`, as all find it: both callers have its address.
fn found(graph: Graph<'_>) -> u32 {
    let kept: Vec<_> = graph.groups().iter().map(SectionGroup::sections).collect();
    assert_eq!((kept.len(), kept[0].len()), (1, 1));
    let size = graph.sections()[kept[0][0].index()].size();
    let layout = graph.layout().unwrap();
    let (addrs, _) = layout.contiguous(BASE, PAGE).unwrap();
    let linked = layout.link(&addrs, &|_| None).unwrap();
    let shared = linked.symbol("shared").unwrap();
    for caller in ["one", "two"] {
        let at = (linked.symbol(caller).unwrap().get() - BASE.get()) as usize;
        let address = &linked.segments[0].bytes[at..at + 8];
        assert_eq!(address, shared.get().to_le_bytes(), "{caller}");
    }
    size
}

#[test]
fn of_two_the_first_is_kept() {
    let [one, two] = [("one", [0x90; 8]), ("two", [0xcc; 8])]
        .map(|(caller, bytes)| object(caller, &bytes, &[(COMDAT, 2, &[2])]));
    let [one, two] = [&one, &two].map(|bytes| Object::parse(bytes).unwrap());
    assert_eq!(found(join(one, two).unwrap()), 8);
}

/// An object that has two groups of one name, of these bytes, and an address of each one's
/// `shared`.
fn with_two(bytes: [&[u8]; 2]) -> Vec<u8> {
    let [first, second] = bytes;
    let symbol = |section| Symbol {
        section,
        ..symbols("one")[1]
    };
    let named = |bytes: &[u8]| Section {
        name: ".text.shared",
        ..code(bytes.to_vec(), Vec::new())
    };
    let addresses = vec![(0, R_X86_64_64, 2, 0), (8, R_X86_64_64, 3, 0)];
    let sections = [code(vec![0; 16], addresses), named(first), named(second)];
    let symbols = [symbols("one")[0], symbol(2), symbol(3)];
    let groups: [Members<'_>; 2] = [(COMDAT, 2, &[2]), (COMDAT, 3, &[3])];
    grouped(Arch::X86_64, &sections, &symbols, &groups)
}

/// As `ld` and `lld` do.
#[test]
fn of_two_in_one_file_the_first_is_kept() {
    let bytes = with_two([&[0x90; 8], &[0xcc; 24]]);
    let graph = Graph::new("one.o", Object::parse(&bytes).unwrap());
    let mut twice = Graph::new("one.o", Object::parse(&bytes).unwrap());
    // `one` is in both.
    let error = twice.add("two.o", Object::parse(&bytes).unwrap()).unwrap_err();
    assert!(matches!(error, Error::SymbolDuplicate { symbol, .. } if symbol == "one"));
    assert_eq!(graph.groups().len(), 1);
    let layout = graph.layout().unwrap();
    let (addrs, _) = layout.contiguous(BASE, PAGE).unwrap();
    let linked = layout.link(&addrs, &|_| None).unwrap();
    let shared = linked.symbol("shared").unwrap();
    let (code, at) = (&linked.segments[0].bytes, (shared.get() - BASE.get()) as usize);
    assert_eq!(code[at..at + 8], [0x90; 8]);
    assert_eq!(code[..8], shared.get().to_le_bytes());
    assert_eq!(code[8..16], shared.get().to_le_bytes(), "the other's is this one");
    assert!(code.len() < at + 24, "the other one's bytes are not there");
}

/// An object of COFF, found by a fuzzer: it has a larger group behind a smaller one of its name, so
/// that linked with itself both files' groups stayed.
#[test]
fn of_two_in_one_file_the_larger_may_be_kept() {
    let bytes = include_bytes!("../../../../fuzz/corpus/image/group_twice.obj");
    super::fuzz_body(bytes);
    let graph = Graph::new("it.obj", Object::parse(bytes).unwrap());
    let mut names: Vec<_> = graph.groups().iter().map(SectionGroup::name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "{names:?}");
}

#[test]
fn groups_that_are_none_of_several_are_all_kept() {
    let [one, two] = ["one", "two"].map(|caller| object(caller, &[0x90; 8], &[(0, 2, &[2])]));
    let [one, two] = [&one, &two].map(|bytes| Object::parse(bytes).unwrap());
    let error = join(one, two).unwrap_err();
    assert!(matches!(error, Error::SymbolDuplicate { symbol, .. } if symbol == "shared"));
}

#[test]
fn each_rule_chooses() {
    use Selection::{Any, ExactMatch, Largest, NoDuplicates, SameSize};
    let (small, other, large): (&[u8], &[u8], &[u8]) = (&[0x90; 8], &[0xcc; 8], &[0x90; 24]);
    let join = |(first, a): (&[u8], _), (second, b): (&[u8], _)| {
        join(chosen("one", first, a), chosen("two", second, b))
    };
    let size = |first, second| join(first, second).map(found);
    assert_eq!(size((small, Any), (large, Any)), Ok(8));
    assert_eq!(size((small, SameSize), (other, SameSize)), Ok(8));
    assert_eq!(size((small, ExactMatch), (small, ExactMatch)), Ok(8));
    for first in [Any, Largest] {
        assert_eq!(size((small, first), (large, Largest)), Ok(24));
        assert_eq!(size((large, first), (small, Largest)), Ok(24));
    }
    assert_eq!(size((small, Largest), (large, Any)), Ok(24));
    let reason = |first, second| match join(first, second).unwrap_err() {
        Error::GroupsDiffer { reason, .. } => reason,
        error => panic!("{error}"),
    };
    let [sizes, bytes, rule] = [
        "their sizes are not the same",
        "their bytes are not the same",
        "each is to be chosen by another rule",
    ];
    assert_eq!(reason((small, SameSize), (large, SameSize)), sizes);
    assert_eq!(reason((small, ExactMatch), (other, ExactMatch)), bytes);
    assert_eq!(reason((small, SameSize), (small, Any)), rule);
    let error = join((small, NoDuplicates), (small, NoDuplicates)).unwrap_err();
    assert!(matches!(error, Error::SymbolDuplicate { symbol, .. } if symbol == "shared"));
}

/// What a group defined, the one that is kept must define, weak or not: nothing becomes 0 that
/// referred to code.
#[test]
fn what_the_kept_one_does_not_define_is_missing() {
    let with = |name| {
        let mut symbols = symbols("caller");
        symbols[0].kind = WEAK;
        (symbols[1].name, symbols[1].kind) = (name, WEAK | 2);
        let key = Symbol {
            name: "key",
            section: 2,
            kind: WEAK,
            ..OUTSIDE
        };
        let symbols = [&symbols[..], &[key]].concat();
        grouped(
            Arch::X86_64,
            &sections(&[0x90; 8]),
            &symbols,
            &[(COMDAT, 3, &[2])],
        )
    };
    let [first, second] = [with("here"), with("there")];
    let [first, second] = [&first, &second].map(|bytes| Object::parse(bytes).unwrap());
    let layout = join(first, second).unwrap().layout().unwrap();
    let (addrs, _) = layout.contiguous(BASE, PAGE).unwrap();
    let error = layout.link(&addrs, &|_| None).unwrap_err().to_string();
    let expected = "undefined: `there` (for second.o:.text+0x0): define them in the resolver";
    assert_eq!(error, expected);
}

/// What refers to a section that is left out by another way than a name that is shared cannot be
/// linked.
#[test]
fn local_symbols_of_what_is_left_out_are_refused() {
    let bytes = |caller| {
        let mut sections = sections(&[0x90; 8]);
        sections[0].relas = vec![(0, R_X86_64_64, 3, 0)];
        let local = Symbol {
            name: "inner",
            section: 2,
            kind: build::LOCAL,
            ..OUTSIDE
        };
        let symbols = [&symbols(caller)[..], &[local]].concat();
        grouped(Arch::X86_64, &sections, &symbols, &[(COMDAT, 2, &[2])])
    };
    let [one, two] = [bytes("one"), bytes("two")];
    let [one, two] = [&one, &two].map(|bytes| Object::parse(bytes).unwrap());
    let layout = join(one, two).unwrap().layout().unwrap();
    let (addrs, _) = layout.contiguous(BASE, PAGE).unwrap();
    let error = layout.link(&addrs, &|_| None).unwrap_err().to_string();
    let expected = "symbol `inner` cannot be linked to: its section is in a group for which that of another object is kept";
    assert_eq!(error, expected);
}

#[test]
fn damaged_groups_are_refused() {
    let parse = |groups: &[Members<'_>]| {
        let bytes = object("one", &[0x90; 8], groups);
        Object::parse(&bytes).map(|_| ()).unwrap_err().to_string()
    };
    let group = "malformed object: a section group: ";
    assert_eq!(
        parse(&[(COMDAT, 2, &[99])]),
        format!("{group}a section is not there, in `shared`")
    );
    assert_eq!(
        parse(&[(COMDAT, 2, &[2]), (COMDAT, 1, &[2])]),
        format!("{group}a section is in two groups, in `one`")
    );
    assert_eq!(
        parse(&[(COMDAT, 99, &[2])]),
        format!("{group}its symbol is not there")
    );
}

#[test]
fn no_damage_to_groups_panics() {
    let bytes = object("one", &[0x90; 8], &[(COMDAT, 2, &[2])]);
    super::fuzz_body(&bytes);
    let mut bytes = bytes;
    for index in 0..bytes.len() {
        for mask in [1, 2, 4, 0x80, 255] {
            bytes[index] ^= mask;
            super::fuzz_body(&bytes);
            bytes[index] ^= mask;
        }
    }
}
