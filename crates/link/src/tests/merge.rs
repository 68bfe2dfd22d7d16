//! Several objects as one graph: whose definition counts, and who sees it.

use super::build::{ABSOLUTE, COMMON, LOCAL, OUTSIDE, Section, Symbol, WEAK, code, data, object};
use super::*;
use crate::error::Error;

const R_X86_64_64: u32 = 1;
const CODE: CodeAddr = CodeAddr::new(0x7000_0000_0000);
const HIDDEN: u8 = 2;

/// A symbol of the code, 8 bytes per slot.
pub(super) fn at(name: &'static str, slot: u64, kind: u8) -> Symbol {
    Symbol {
        name,
        section: 1,
        value: 8 * slot,
        size: 8,
        kind,
        other: 0,
    }
}

pub(super) fn needed(name: &'static str) -> Symbol {
    Symbol { name, ..OUTSIDE }
}

fn common(name: &'static str, size: u64, align: u64) -> Symbol {
    Symbol {
        section: COMMON,
        value: align,
        size,
        ..needed(name)
    }
}

/// An object whose code holds the address of each of its symbols, slot by slot.
pub(super) fn addresses(symbols: &[Symbol]) -> Vec<u8> {
    let relas = (0..symbols.len()).map(|index| (8 * index as u64, R_X86_64_64, index as u32 + 1, 0));
    let text = Section {
        align: 8,
        ..code(vec![0; 8 * symbols.len()], relas.collect())
    };
    object(Arch::X86_64, &[text, data()], symbols)
}

fn join(files: &[&[u8]]) -> crate::error::Result<Graph<'static>> {
    let mut graph: Option<Graph<'static>> = None;
    for (index, bytes) in files.iter().enumerate() {
        let object = Object::parse(bytes.to_vec().leak())?;
        let name = alloc::format!("{index}.o");
        match &mut graph {
            None => graph = Some(Graph::new(name, object)),
            Some(graph) => graph.add(name, object)?,
        }
    }
    Ok(graph.unwrap())
}

struct Joined {
    linked: LinkedImage,
    asked: Vec<alloc::string::String>,
}

fn link(graph: Graph<'_>) -> Joined {
    let layout = graph.layout().unwrap();
    let (addrs, _) = layout.contiguous(CODE, PAGE).unwrap();
    let asked = core::cell::RefCell::new(Vec::new());
    let linked = layout.link(&addrs, &|name| {
        asked.borrow_mut().push(name.to_string());
        Some(CodeAddr::new(0x1234_0000))
    });
    Joined {
        linked: linked.unwrap(),
        asked: asked.into_inner(),
    }
}

impl Joined {
    /// The addresses in the code, as distances from its start where they are in the image.
    fn slots(&self) -> Vec<u64> {
        let code = &self.linked.segments[0].bytes;
        let slots = code.chunks_exact(8).map(|slot| slot.try_into().unwrap());
        slots
            .map(|slot| u64::from_le_bytes(slot).wrapping_sub(CODE.get()))
            .collect()
    }

    fn exported(&self, name: &str) -> Option<u64> {
        self.linked.symbol(name).map(|addr| addr.get() - CODE.get())
    }
}

#[test]
fn objects_find_each_others_definitions() {
    let first = addresses(&[at("a", 0, 0), needed("b")]);
    let second = addresses(&[needed("a"), at("b", 1, 0)]);
    for files in [[&first[..], &second], [&second, &first]] {
        let joined = link(join(&files).unwrap());
        assert!(joined.asked.is_empty(), "{:?}", joined.asked);
        let [a, b] = [joined.exported("a").unwrap(), joined.exported("b").unwrap()];
        assert_eq!(joined.slots(), [a, b, a, b]);
        assert_eq!(a % 16 + b % 16, 8, "each has its own object's");
    }
}

#[test]
fn what_nobody_defines_is_asked_for_once() {
    let file = addresses(&[needed("out")]);
    let joined = link(join(&[&file, &file, &file]).unwrap());
    assert_eq!(joined.asked, ["out"]);
    let out = 0x1234_0000_u64.wrapping_sub(CODE.get());
    assert_eq!(joined.slots(), [out; 3]);
}

#[test]
fn two_strong_definitions_are_refused_and_named() {
    let file = addresses(&[at("twice", 0, 0)]);
    let other = addresses(&[at("fine", 0, 0), at("twice", 1, 0)]);
    let mut graph = join(&[&addresses(&[needed("twice")]), &file]).unwrap();
    let error = graph.add("2.o", Object::parse(&other).unwrap()).unwrap_err();
    let expected = Error::SymbolDuplicate {
        symbol: "twice".into(),
        first: "1.o".into(),
        second: "2.o".into(),
    };
    assert_eq!(error, expected);
    // Nothing of it is there.
    assert_eq!(graph.files(), ["0.o", "1.o"]);
    assert_eq!(link(graph).exported("fine"), None);
}

#[test]
fn a_strong_definition_counts_before_a_weak_one_in_either_order() {
    let weak = addresses(&[at("a", 0, WEAK), needed("pad")]);
    let strong = addresses(&[needed("pad"), at("a", 1, 0)]);
    for (files, place) in [([&weak[..], &strong], 24), ([&strong, &weak], 8)] {
        let joined = link(join(&files).unwrap());
        assert_eq!(joined.exported("a"), Some(place));
        let slots = joined.slots();
        assert_eq!(
            slots.iter().filter(|slot| **slot == place).count(),
            2,
            "{slots:?}"
        );
    }
    // Of two weak ones the first.
    assert_eq!(link(join(&[&weak, &weak]).unwrap()).slots(), {
        let pad = 0x1234_0000_u64.wrapping_sub(CODE.get());
        [0, pad, 0, pad]
    });
}

#[test]
fn common_symbols_are_united_to_the_larger_and_stricter() {
    let [small, large] = [
        addresses(&[common("c", 8, 64)]),
        addresses(&[common("c", 100, 8)]),
    ];
    for files in [[&small[..], &large], [&large, &small]] {
        let graph = join(&files).unwrap();
        let layout = graph.layout().unwrap();
        let [_, _, data] = layout.segments();
        // The section before it has one byte.
        assert_eq!((data.size.get(), data.align.get()), (64 + 100, 64));
        let joined = link(join(&files).unwrap());
        let place = joined.exported("c").unwrap();
        assert_eq!(joined.slots(), [place; 2]);
    }
    // A strong definition replaces it, a weak one does not.
    let strong = addresses(&[at("c", 0, 0)]);
    for files in [[&small[..], &strong], [&strong, &small]] {
        let joined = link(join(&files).unwrap());
        assert_eq!(joined.linked.segments[1].bytes.len(), 2, "no room for it");
        assert!(joined.exported("c").unwrap() < 16);
    }
    let weak = addresses(&[at("c", 0, WEAK)]);
    for files in [[&small[..], &weak], [&weak, &small]] {
        assert!(link(join(&files).unwrap()).exported("c").unwrap() > 16);
    }
}

#[test]
fn local_symbols_are_their_files() {
    let file = addresses(&[at("mine", 0, LOCAL)]);
    let user = addresses(&[needed("mine")]);
    let joined = link(join(&[&file, &file, &user]).unwrap());
    assert_eq!(joined.slots()[..2], [0, 8]);
    assert_eq!(joined.asked, ["mine"]);
    assert_eq!(joined.exported("mine"), None);
}

#[test]
fn hidden_symbols_are_seen_within_the_graph_only() {
    let hidden = addresses(&[Symbol {
        other: HIDDEN,
        ..at("h", 0, 0)
    }]);
    let user = addresses(&[needed("h")]);
    let joined = link(join(&[&hidden, &user]).unwrap());
    assert_eq!((joined.slots(), joined.exported("h")), (vec![0, 0], None));
    // It suffices that a file that uses it says so.
    let hiding = addresses(&[Symbol {
        other: HIDDEN,
        ..needed("h")
    }]);
    for files in [
        [&addresses(&[at("h", 0, 0)])[..], &hiding],
        [&hiding, &addresses(&[at("h", 0, 0)])],
    ] {
        let joined = link(join(&files).unwrap());
        assert!(joined.asked.is_empty());
        assert_eq!(joined.exported("h"), None);
    }
}

#[test]
fn absolute_symbols_are_found() {
    let absolute = addresses(&[Symbol {
        section: ABSOLUTE,
        value: 0x4444,
        ..needed("abs")
    }]);
    let user = addresses(&[needed("abs")]);
    let joined = link(join(&[&user, &absolute]).unwrap());
    assert_eq!(joined.slots(), [0x4444_u64.wrapping_sub(CODE.get()); 2]);
}

/// A weak reference to what a later file needs is asked for as that file needs it.
#[test]
fn a_reference_counts_before_a_weak_one() {
    let weak = addresses(&[Symbol {
        kind: WEAK,
        ..needed("w")
    }]);
    let strict = addresses(&[needed("w")]);
    let layout = |files: &[&[u8]]| join(files).unwrap().layout().unwrap();
    let linked = |layout: Layout<'_>| {
        let (addrs, _) = layout.contiguous(CODE, PAGE).unwrap();
        layout.link(&addrs, &|_| None).map(|_| ())
    };
    assert_eq!(linked(layout(&[&weak, &weak])), Ok(()));
    for files in [[&weak[..], &strict], [&strict, &weak]] {
        let error = linked(layout(&files)).unwrap_err().to_string();
        assert_eq!(
            error,
            "undefined: `w` (for 0.o:.text+0x0): define them in the resolver"
        );
    }
}

#[test]
fn objects_of_two_architectures_are_refused() {
    let other = object(Arch::AArch64, &[code(vec![0; 4], Vec::new())], &[]);
    let error = join(&[&addresses(&[at("a", 0, 0)]), &other]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1.o is for AArch64, but 0.o is for X86_64: link them apart"
    );
}

/// They differ in a flag only. One without a version is of ELFv1.
#[test]
fn objects_of_two_conventions_are_refused() {
    let of = |arch| object(arch, &[code(vec![0; 4], Vec::new())], &[]);
    let (v1, v2) = (of(Arch::PowerPc64), of(Arch::PowerPc64ElfV2));
    let mut without = v1.clone();
    without[48..52].fill(0);
    for first in [&v1, &without] {
        let error = join(&[first, &v2]).unwrap_err().to_string();
        assert_eq!(
            error,
            "1.o is for PowerPc64ElfV2, but 0.o is for PowerPc64: link them apart"
        );
        let error = join(&[&v2, first]).unwrap_err().to_string();
        assert_eq!(
            error,
            "1.o is for PowerPc64, but 0.o is for PowerPc64ElfV2: link them apart"
        );
    }
    join(&[&v1, &without]).unwrap();
    join(&[&v2, &v2]).unwrap();
}

/// A stack map speaks of the function of its own file, whichever of that name counts.
#[test]
fn stack_maps_stay_with_their_own_functions() {
    let file = |kind, value| {
        let mut map = vec![3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        map.resize(40, 0);
        let maps = Section {
            name: ".llvm_stackmaps",
            flags: super::build::READ_ONLY,
            align: 8,
            relas: vec![(16, R_X86_64_64, 1, 0)],
            bytes: map,
        };
        let code = code(vec![0x90; 16], vec![(0, R_X86_64_64, 1, 0)]);
        object(Arch::X86_64, &[code, maps], &[at("f", value, kind | 2)])
    };
    let [weak, strong] = [file(WEAK, 0), file(0, 1)];
    for (files, counts) in [([&weak[..], &strong], 24), ([&strong, &weak], 8)] {
        let joined = link(join(&files).unwrap());
        assert_eq!(joined.exported("f"), Some(counts));
        // What is no table refers to the one that counts.
        assert_eq!([joined.slots()[0], joined.slots()[2]], [counts; 2]);
        let image = &joined.linked.image;
        let maps = llvm_stackmaps::StackMaps::parse(&image.stack_maps, image.endian).unwrap();
        let functions = maps.maps().iter().flat_map(|map| map.functions());
        let found: Vec<_> = functions
            .map(|function| function.address() - CODE.get())
            .collect();
        assert_eq!(found, if counts == 24 { [0, 24] } else { [8, 16] });
    }
}
