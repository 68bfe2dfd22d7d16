//! Symbols that linkers define where sections of one name begin and end.

use super::build::{DATA, LOCAL, OUTSIDE, READ_ONLY, Section as Made, Symbol as Named, WEAK, code, object};
use super::*;
use crate::error::Error;

const R_X86_64_64: u32 = 1;
const ADDRS: SegmentAddrs = SegmentAddrs {
    code: CodeAddr::new(0x10_0000),
    read_only: CodeAddr::new(0x20_0000),
    data: CodeAddr::new(0x30_0000),
};
const HIDDEN: u8 = 2;
const PROTECTED: u8 = 3;

fn part(name: &'static str, flags: u64, align: u64, bytes: &[u8]) -> Made {
    Made {
        name,
        flags,
        align,
        bytes: bytes.to_vec(),
        relas: Vec::new(),
    }
}

fn undefined(name: &'static str, kind: u8, other: u8) -> Named {
    Named {
        name,
        kind,
        other,
        ..OUTSIDE
    }
}

/// An object with the addresses of these symbols, from the start of its code on, behind which these
/// sections are.
fn user(main: &'static str, symbols: &[Named], sections: Vec<Made>) -> Vec<u8> {
    let relas = (0..symbols.len() as u64)
        .map(|index| (8 * index, R_X86_64_64, index as u32 + 1, 0))
        .collect();
    let text = code(vec![0; 8 * symbols.len().max(1)], relas);
    let all: Vec<Made> = [text].into_iter().chain(sections).collect();
    let main = Named {
        name: main,
        section: 1,
        ..OUTSIDE
    };
    object(Arch::X86_64, &all, &[symbols, &[main]].concat())
}

fn graph(objects: &[Vec<u8>]) -> Graph<'_> {
    let mut graph = Graph::empty(Arch::X86_64);
    for (index, bytes) in objects.iter().enumerate() {
        graph
            .add(alloc::format!("{index}.o"), Object::parse(bytes).unwrap())
            .unwrap();
    }
    graph
}

fn link(graph: Graph<'_>) -> crate::error::Result<LinkedImage> {
    graph.layout()?.link(&ADDRS, &|_| None)
}

/// The addresses at a function.
fn addresses(linked: &LinkedImage, main: &str, count: usize) -> Vec<u64> {
    let at = linked.symbol(main).unwrap();
    let bytes = linked.segments[0].read(at, 8 * count).unwrap();
    let words = bytes
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    words.collect()
}

fn both(kind: u8, other: u8) -> [Named; 2] {
    [
        undefined("__start_array", kind, other),
        undefined("__stop_array", kind, other),
    ]
}

/// Objects with other data before and behind their parts of the array, which are aligned in
/// different ways.
#[test]
fn they_bound_what_all_objects_have() {
    let parts = |first: &[u8], align| {
        vec![
            part(".data", DATA, 1, &[0xee; 3]),
            part("array", DATA, align, first),
            part(".data.more", DATA, 1, &[0xee; 5]),
        ]
    };
    for (kind, other) in [(0, 0), (WEAK, 0), (0, HIDDEN), (0, PROTECTED), (WEAK, HIDDEN)] {
        let objects = [
            user("one", &[], parts(&[1; 8], 4)),
            user("two", &both(kind, other), parts(&[2; 16], 8)),
            user("three", &both(kind, other), parts(&[3; 4], 4)),
        ];
        let linked = link(graph(&objects)).unwrap();
        let [start, stop] = addresses(&linked, "two", 2)[..] else {
            panic!()
        };
        assert_eq!(addresses(&linked, "three", 2), [start, stop]);
        assert_eq!(start % 8, 0, "as aligned as the strictest");
        let data = linked
            .segments
            .iter()
            .find(|segment| segment.kind == SegmentKind::Data);
        let array = data
            .unwrap()
            .read(CodeAddr::new(start), (stop - start) as usize)
            .unwrap();
        assert_eq!(array, [&[1; 8][..], &[2; 16], &[3; 4]].concat(), "no holes");
        // As visible as the references say.
        let found = linked.symbol("__start_array").map(CodeAddr::get);
        assert_eq!(found, (other != HIDDEN).then_some(start));
    }
}

/// A part that some object may write makes the array writable; where it is code in another, it is
/// refused.
#[test]
fn parts_of_several_protections_are_brought_together() {
    let objects = [
        user("one", &both(0, 0), vec![part("array", READ_ONLY, 8, &[1; 8])]),
        user("two", &[], vec![part("array", DATA, 8, &[2; 8])]),
    ];
    let linked = link(graph(&objects)).unwrap();
    let [start, stop] = addresses(&linked, "one", 2)[..] else {
        panic!()
    };
    assert_eq!((start, stop), (ADDRS.data.get(), ADDRS.data.get() + 16));
    let objects = [
        user("one", &both(0, 0), vec![part("array", READ_ONLY, 8, &[1; 8])]),
        user("two", &[], vec![part("array", build::CODE, 8, &[0x90; 8])]),
    ];
    let error = link(graph(&objects)).unwrap_err();
    assert!(
        matches!(error, Error::SectionRefused { ref section, .. } if section == "array"),
        "{error}"
    );
}

#[test]
fn a_definition_counts_before_them() {
    let own = Named {
        name: "__start_array",
        section: 2,
        value: 4,
        ..OUTSIDE
    };
    let array = || vec![part("array", DATA, 8, &[1; 8])];
    let objects = [
        user("one", &[own, both(0, 0)[1]], array()),
        user("two", &both(0, 0), Vec::new()),
    ];
    let linked = link(graph(&objects)).unwrap();
    let [start, stop] = addresses(&linked, "two", 2)[..] else {
        panic!()
    };
    assert_eq!((start, stop), (ADDRS.data.get() + 4, ADDRS.data.get() + 8));
    // Of a pass.
    let objects = [user("one", &both(0, 0), array())];
    let mut graph = graph(&objects);
    graph
        .add_symbol(Symbol::new("__stop_array", Definition::Absolute(0x77)))
        .unwrap();
    let linked = link(graph).unwrap();
    assert_eq!(addresses(&linked, "one", 2)[1], 0x77);
}

/// Without a section of the name, the symbols are as others are: so are names that C cannot name.
#[test]
fn without_a_section_they_are_not_defined() {
    let objects = [user("one", &both(WEAK, 0), vec![part("other", DATA, 8, &[1; 8])])];
    assert_eq!(addresses(&link(graph(&objects)).unwrap(), "one", 2), [0, 0]);
    let objects = [user("one", &both(0, 0), Vec::new())];
    let error = link(graph(&objects)).unwrap_err();
    assert!(
        matches!(error, Error::SymbolsUnresolved { ref symbols } if symbols.len() == 2),
        "{error}"
    );
    let dotted = [undefined("__start_.array", WEAK, 0)];
    let objects = [user("one", &dotted, vec![part(".array", DATA, 8, &[1; 8])])];
    assert_eq!(addresses(&link(graph(&objects)).unwrap(), "one", 1), [0]);
}

/// What is pruned: a use keeps all parts, whichever of the two is used; without one they go.
#[test]
fn a_use_keeps_all_parts() {
    let objects = [
        user("one", &[], vec![part("array", DATA, 8, &[1; 8])]),
        user("two", &[both(0, 0)[1]], vec![part("array", DATA, 8, &[2; 8])]),
        user("three", &[], vec![part("array", DATA, 8, &[3; 8])]),
    ];
    let mut used = graph(&objects);
    used.prune(["two"]).unwrap();
    let linked = link(used).unwrap();
    assert_eq!(addresses(&linked, "two", 1), [ADDRS.data.get() + 24]);
    let mut unused = graph(&objects);
    unused.prune(["one"]).unwrap();
    assert_eq!(unused.layout().unwrap().segments()[2].size.get(), 0);
}

/// A section of zeros that are in no file can be bounded, too; and a local symbol of such a name is
/// its file's own.
#[test]
fn local_symbols_of_such_names_are_no_bounds() {
    let own = Named {
        name: "__start_array",
        section: 2,
        value: 2,
        kind: LOCAL,
        ..OUTSIDE
    };
    let objects = [
        user("one", &[own], vec![part("array", DATA, 8, &[1; 8])]),
        user("two", &both(0, 0), Vec::new()),
    ];
    let linked = link(graph(&objects)).unwrap();
    assert_eq!(addresses(&linked, "one", 1), [ADDRS.data.get() + 2]);
    assert_eq!(addresses(&linked, "two", 1), [ADDRS.data.get()]);
}
