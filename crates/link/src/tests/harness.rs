//! Harnesses, beyond what real objects have.

use alloc::format;

use super::build::{LOCAL, OUTSIDE, Section, Symbol, code, object};
use super::merge::{at, needed};
use super::*;
use crate::error::Error;

const R_X86_64_PC32: u32 = 2;

fn graph(name: &str, bytes: Vec<u8>) -> Graph<'static> {
    Graph::new(name, Object::parse(bytes.leak()).unwrap())
}

/// `caller`, a call and a nop, at 0; `callee` at 8. The call's bytes have `callee` as their target.
fn calling(relas: Vec<build::Rela>, kind: u8) -> Vec<u8> {
    let bytes = [0xe8, 3, 0, 0, 0, 0x90, 0x90, 0x90, 0xc3, 0x90, 0x90, 0x90];
    object(
        Arch::X86_64,
        &[code(bytes.to_vec(), relas)],
        &[at("caller", 0, 2), at("callee", 1, kind | 2), needed("outside")],
    )
}

fn harness(name: &'static str) -> Graph<'static> {
    let bytes = object(Arch::X86_64, &[code(vec![0xc3], Vec::new())], &[at(name, 0, 2)]);
    graph("harness.o", bytes)
}

#[test]
fn variables_are_replaced_if_they_can_be_told_apart() {
    let with = |size: u64, whole: usize| {
        let data = Section {
            name: ".data",
            flags: build::DATA,
            align: 8,
            bytes: vec![0; whole],
            relas: Vec::new(),
        };
        let variable = Symbol {
            name: "variable",
            section: 2,
            size,
            kind: LOCAL | 1,
            ..OUTSIDE
        };
        let mut graph = graph(
            "tested.o",
            object(Arch::X86_64, &[code(vec![0xc3], Vec::new()), data], &[variable]),
        );
        graph.add_harness(harness("variable"))
    };
    assert_eq!(with(8, 8).unwrap().replaced.len(), 1);
    for (size, whole) in [(8, 16), (0, 8), (16, 8)] {
        let error = with(size, whole).unwrap_err();
        let Error::LocalNotReplaceable { symbol, file } = error else {
            panic!("{error}");
        };
        assert_eq!((symbol.as_str(), file.as_str()), ("variable", "tested.o"));
    }
}

/// A name means what is not local, where there is such a definition.
#[test]
fn what_is_not_local_comes_first() {
    let mut tested = graph("a.o", calling(vec![(1, R_X86_64_PC32, 2, -4)], LOCAL));
    let other = object(
        Arch::X86_64,
        &[code(vec![0xc3], Vec::new())],
        &[at("callee", 0, 2)],
    );
    tested.add("b.o", Object::parse(other.leak()).unwrap()).unwrap();
    let done = tested.clone().add_harness(harness("callee")).unwrap();
    let [one] = &done.replaced[..] else {
        panic!("{done:?}")
    };
    assert_eq!((one.file.as_str(), one.local, one.uses), ("b.o", false, 0));
    // Nor is what is local reached.
    let needs = object(
        Arch::X86_64,
        &[code(vec![0; 8], vec![(0, 1, 1, 0)])],
        &[needed("callee")],
    );
    let done = tested.add_harness(graph("harness.o", needs)).unwrap();
    assert_eq!(done, Interposed::default());
}

/// Another object's reference to a name goes on meaning what is not local.
#[test]
fn what_is_local_is_reached_by_the_harness_alone() {
    let mut tested = graph("a.o", calling(Vec::new(), LOCAL));
    let refers = |name| {
        let symbols = [at(name, 0, 2), needed("callee")];
        object(Arch::X86_64, &[code(vec![0; 8], vec![(0, 1, 2, 0)])], &symbols)
    };
    tested
        .add("b.o", Object::parse(refers("b").leak()).unwrap())
        .unwrap();
    let done = tested.add_harness(graph("harness.o", refers("test"))).unwrap();
    assert_eq!(done.reached, ["callee"]);
    let layout = tested.layout().unwrap();
    let (addrs, _) = layout.contiguous(BASE, PAGE).unwrap();
    let outside = CodeAddr::new(0x1234_0000);
    let linked = layout
        .link(&addrs, &|name| (name == "callee").then_some(outside))
        .unwrap();
    let address_at = |name| {
        let at = (linked.symbol(name).unwrap().get() - BASE.get()) as usize;
        let bytes = linked.segments[0].bytes[at..at + 8].try_into().unwrap();
        u64::from_le_bytes(bytes)
    };
    assert_eq!(address_at("b"), outside.get());
    assert_eq!(address_at("test"), BASE.get() + 8);
}

#[test]
fn a_harness_is_for_the_same_architecture() {
    let mut tested = graph("tested.o", calling(Vec::new(), 0));
    let error = tested.add_harness(Graph::empty(Arch::AArch64)).unwrap_err();
    assert!(matches!(error, Error::ObjectsDiffer { .. }), "{error}");
    assert_eq!(format!("{:?}", tested.files()), r#"["tested.o"]"#);
}

/// A stack map names functions by their symbols, and speaks of the one that is replaced.
#[test]
fn stack_maps_stay_with_what_is_replaced() {
    let mut map = vec![3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    map.resize(40, 0);
    let maps = Section {
        name: ".llvm_stackmaps",
        flags: build::READ_ONLY,
        align: 8,
        relas: vec![(16, 1, 1, 0)],
        bytes: map,
    };
    let sections = [code(vec![0xc3; 16], Vec::new()), maps];
    for kind in [0, LOCAL] {
        let mut tested = graph(
            "tested.o",
            object(Arch::X86_64, &sections, &[at("callee", 1, kind | 2)]),
        );
        let done = tested.add_harness(harness("callee")).unwrap();
        assert_eq!((done.replaced.len(), done.replaced[0].uses), (1, 0));
        let layout = tested.layout().unwrap();
        let (addrs, _) = layout.contiguous(BASE, PAGE).unwrap();
        let image = layout.link(&addrs, &|_| None).unwrap().image;
        let maps = StackMaps::parse(&image.stack_maps, image.endian).unwrap();
        let mut functions = maps.maps().iter().flat_map(|map| map.functions());
        let address = functions.next().map(|function| function.address());
        assert_eq!(address, Some(BASE.get() + 8));
    }
}
