//! Graphs that passes read and change, at every phase, and what is refused of the changes.

use core::cell::RefCell;

use super::merge::{addresses, at, needed};
use super::*;
use crate::error::{Error, Result};

const CODE: CodeAddr = CodeAddr::new(0x7000_0000_0000);
const OUTSIDE: u64 = 0x1234_0000;

/// Memory at one address.
struct At;

impl MemoryManager for At {
    type Memory = ();
    type Finalized = ();
    type Error = Error;

    async fn allocate(&self, segments: &[SegmentRequest; 3], _: ImageReach) -> Result<((), SegmentAddrs)> {
        let page = |index: u64| CodeAddr::new(CODE.get() + 0x1000 * index);
        assert!(segments.iter().all(|segment| segment.size.get() <= 0x1000));
        let addrs = SegmentAddrs {
            code: page(0),
            read_only: page(1),
            data: page(2),
        };
        Ok(((), addrs))
    }

    async fn finalize(&self, (): (), _: &LinkedImage) -> Result<()> {
        Ok(())
    }

    fn abandon(&self, (): ()) {}

    fn deallocate(&self, (): ()) -> Result<()> {
        Ok(())
    }
}

fn graph() -> Graph<'static> {
    let bytes = addresses(&[at("a", 0, 2), needed("out"), at("b", 2, 2)]).leak();
    Graph::new("it.o", Object::parse(bytes).unwrap())
}

fn run(passes: Passes<'_>) -> Result<LinkedImage> {
    let mut passes = passes;
    let resolve = |_: &str| Some(CodeAddr::new(OUTSIDE));
    at_once(link(graph(), &mut passes, &At, &resolve)).map(|linked| linked.image)
}

fn word(linked: &LinkedImage, addr: CodeAddr) -> u64 {
    let holds = |segment: &&Segment| addr.is_within(segment.addr, Len::of(&segment.bytes).unwrap());
    let segment = linked.segments.iter().find(holds).unwrap();
    let start = (addr.get() - segment.addr.get()) as usize;
    u64::from_le_bytes(segment.bytes[start..start + 8].try_into().unwrap())
}

fn slot(linked: &LinkedImage, index: u64) -> u64 {
    word(linked, CodeAddr::new(CODE.get() + 8 * index))
}

fn absolute() -> Relocation {
    Relocation::from_elf(Arch::X86_64, 1).unwrap()
}

fn text(graph: &Graph<'_>) -> SectionId {
    graph
        .section_ids()
        .find(|id| graph.sections()[id.index()].name() == ".text")
        .unwrap()
}

#[test]
fn phases_come_in_order() {
    let seen = RefCell::new(Vec::new());
    let note = |phase: &'static str| {
        seen.borrow_mut().push(phase);
        Ok(())
    };
    let passes = Passes::new()
        .after_fix_ups(|_| note("after fix-ups"))
        .before_fix_ups(|_| note("before fix-ups"))
        .after_allocation(|_| note("after allocation"))
        .after_pruning(|_| note("after pruning"))
        .before_pruning(|_| note("before pruning"));
    run(passes).unwrap();
    let order = [
        "before pruning",
        "after pruning",
        "after allocation",
        "before fix-ups",
        "after fix-ups",
    ];
    assert_eq!(*seen.borrow(), order);
}

/// Blocks, symbols and edges: a table of the two functions, and a word of the code that refers to
/// it.
#[test]
fn a_pass_adds_blocks_symbols_and_edges() {
    let add = |graph: &mut Graph<'_>| {
        let [a, b] = ["a", "b"].map(|name| graph.find(name).unwrap());
        let mut table = Section::new("table", SectionRole::ReadOnly, vec![0; 16]);
        table.edges_mut().push(Edge::new(0, absolute(), a, 0));
        table.edges_mut().push(Edge::new(8, absolute(), b, 4));
        let table = graph.add_section(table)?;
        let symbol = graph.add_symbol(Symbol::new("table", Definition::Section(table, 0)))?;
        let text = text(graph);
        for edge in graph.section_mut(text).unwrap().edges_mut() {
            if edge.target() == a {
                *edge = edge.to(symbol, 8);
            }
        }
        Ok(())
    };
    for passes in [
        Passes::new().before_pruning(add),
        Passes::new().after_pruning(add),
        Passes::new().prune(["a"]).after_pruning(add),
    ] {
        let linked = run(passes).unwrap();
        let table = linked.symbol("table").unwrap();
        assert_eq!(word(&linked, table), CODE.get());
        assert_eq!(
            word(&linked, table.plus(Len::new(8)).unwrap()),
            CODE.get() + 16 + 4
        );
        assert_eq!(slot(&linked, 0), table.get() + 8);
    }
}

#[test]
fn what_a_pass_adds_is_pruned_if_nothing_refers_to_it_or_kept_if_it_says_so() {
    let add = |retain: bool| {
        move |graph: &mut Graph<'_>| {
            let mut data = Section::new("extra", SectionRole::Data, vec![7; 4]);
            if retain {
                data.retain();
            }
            graph.add_section(data).map(|_| ())
        }
    };
    let data = |passes: Passes<'_>| {
        let linked = run(passes).unwrap();
        let mut segments = linked.segments.into_iter();
        segments
            .find(|segment| segment.kind == SegmentKind::Data)
            .map(|segment| segment.bytes)
    };
    assert_eq!(data(Passes::new().prune(["a"]).before_pruning(add(false))), None);
    assert_eq!(
        data(Passes::new().prune(["a"]).before_pruning(add(true))),
        Some(vec![7; 4])
    );
    assert_eq!(
        data(Passes::new().prune(["a"]).after_pruning(add(false))),
        Some(vec![7; 4])
    );
}

#[test]
fn a_symbol_of_a_pass_counts_as_one_of_an_object() {
    let twice = |graph: &mut Graph<'_>| {
        let symbol = Symbol::new("a", Definition::Absolute(0x77));
        graph.add_symbol(symbol).map(|_| ())
    };
    let error = run(Passes::new().before_pruning(twice)).unwrap_err();
    assert_eq!(
        error,
        Error::SymbolDuplicate {
            symbol: "a".into(),
            first: "it.o".into(),
            second: "a pass".into(),
        }
    );
    let define = |graph: &mut Graph<'_>| {
        let symbol = Symbol::new("out", Definition::Absolute(0x77));
        graph.add_symbol(symbol).map(|_| ())
    };
    assert_eq!(slot(&run(Passes::new().before_pruning(define)).unwrap(), 1), 0x77);
}

/// Bytes and edges after allocation, with addresses; sizes cannot be changed there.
#[test]
fn bytes_and_edges_change_after_allocation() {
    let passes = Passes::new().after_allocation(|allocated| {
        let text = text(allocated.graph());
        assert_eq!(allocated.section_addr(text), Some(CODE));
        assert_eq!(allocated.wanted(), ["out"]);
        let fixed = allocated.add_absolute("fixed", CodeAddr::new(0x99));
        let mut section = allocated.section_mut(text).unwrap();
        section.bytes_mut()[16] = 5;
        let edges = section.edges_mut();
        edges.pop();
        edges[1] = edges[1].to(fixed, 1);
        Ok(())
    });
    let linked = run(passes).unwrap();
    assert_eq!([0, 1, 2].map(|index| slot(&linked, index)), [CODE.get(), 0x9a, 5]);
}

#[test]
fn symbols_move_before_fix_ups() {
    let passes = Passes::new().before_fix_ups(|resolved| {
        let [a, out] = ["a", "out"].map(|name| resolved.graph().find(name).unwrap());
        assert_eq!(resolved.symbol_addr(a), Some(CODE));
        assert_eq!(resolved.symbol_addr(out), Some(CodeAddr::new(OUTSIDE)));
        assert!(resolved.set_symbol_addr(a, CodeAddr::new(0x55)));
        Ok(())
    });
    let linked = run(passes).unwrap();
    assert_eq!([0, 1].map(|index| slot(&linked, index)), [0x55, OUTSIDE]);
}

#[test]
fn bytes_change_after_fix_ups() {
    let passes = Passes::new().after_fix_ups(|fixed| {
        let text = text(fixed.resolved().graph());
        let bytes = fixed.bytes_mut(text).unwrap();
        assert_eq!(bytes[..8], CODE.get().to_le_bytes());
        bytes[0] = 0xee;
        Ok(())
    });
    assert_eq!(slot(&run(passes).unwrap(), 0), CODE.get() | 0xee);
}

#[test]
fn a_pass_that_fails_ends_the_link() {
    let fail = || Error::RootUndefined { symbol: "x".into() };
    for passes in [
        Passes::new().before_pruning(|_| Err(fail())),
        Passes::new().after_pruning(|_| Err(fail())),
        Passes::new().after_allocation(|_| Err(fail())),
        Passes::new().before_fix_ups(|_| Err(fail())),
        Passes::new().after_fix_ups(|_| Err(fail())),
    ] {
        assert_eq!(run(passes).unwrap_err(), fail());
    }
}

fn outside(at: u32) -> Edge {
    Edge::new(at, absolute(), SymbolId(1), 0)
}

/// An edge that does not lie in its section is refused at each phase in which one can be added.
#[test]
fn an_edge_outside_its_section_is_refused() {
    let on_graph = |graph: &mut Graph<'_>| {
        let text = text(graph);
        graph.section_mut(text).unwrap().edges_mut().push(outside(17));
        Ok(())
    };
    let shorten = |graph: &mut Graph<'_>| {
        let text = text(graph);
        graph.section_mut(text).unwrap().set_bytes(vec![0; 23]);
        Ok(())
    };
    for (passes, offset, size) in [
        (Passes::new().before_pruning(on_graph), 17, 24),
        (Passes::new().after_pruning(on_graph), 17, 24),
        (Passes::new().prune(["a"]).before_pruning(on_graph), 17, 24),
        (Passes::new().before_pruning(shorten), 16, 23),
        (
            Passes::new().after_allocation(|allocated| {
                let text = text(allocated.graph());
                allocated.section_mut(text).unwrap().edges_mut().push(outside(20));
                Ok(())
            }),
            20,
            24,
        ),
        (
            Passes::new().before_fix_ups(|resolved| {
                let text = text(resolved.graph());
                resolved
                    .section_mut(text)
                    .unwrap()
                    .edges_mut()
                    .push(outside(u32::MAX));
                Ok(())
            }),
            u64::from(u32::MAX),
            24,
        ),
    ] {
        let expected = Error::RelocationOutsideSection {
            relocation: "R_X86_64_64",
            section: ".text".into(),
            offset: llvm_stackmaps::addr::ByteOffset::new(offset),
            size,
        };
        assert_eq!(run(passes).unwrap_err(), expected);
    }
}

/// Without passes, too: what is laid out has been checked.
#[test]
fn a_changed_graph_is_checked_when_it_is_laid_out() {
    let mut graph = graph();
    let text = text(&graph);
    graph.section_mut(text).unwrap().edges_mut().push(outside(17));
    let error = graph.layout().unwrap_err();
    assert!(matches!(error, Error::RelocationOutsideSection { .. }), "{error}");
}

#[test]
fn other_changes_that_do_not_hold_together_are_refused() {
    let change = |change: fn(&mut Graph<'_>)| {
        let pass = move |graph: &mut Graph<'_>| {
            change(graph);
            Ok(())
        };
        run(Passes::new().before_pruning(pass)).unwrap_err().to_string()
    };
    let no_section = change(|graph| {
        let text = text(graph);
        let edge = Edge::new(0, absolute(), SymbolId(99), 0);
        graph.section_mut(text).unwrap().edges_mut().push(edge);
    });
    assert_eq!(
        no_section,
        "malformed object: a relocation's symbol: symbol 99 of .text at 0x0 is not there"
    );
    let foreign = change(|graph| {
        let text = text(graph);
        let relocation = Relocation::from_elf(Arch::AArch64, 257).unwrap();
        let edge = Edge::new(0, relocation, SymbolId(1), 0);
        graph.section_mut(text).unwrap().edges_mut().push(edge);
    });
    assert_eq!(
        foreign,
        "R_AARCH64_ABS64 at .text+0x0 cannot be applied: it is of another architecture"
    );
    let align = change(|graph| {
        let text = text(graph);
        graph.section_mut(text).unwrap().set_align(3);
    });
    assert!(align.contains("3 of .text is no power of two"), "{align}");
    let place = change(|graph| {
        let (a, text) = (graph.find("a").unwrap(), text(graph));
        let symbol = graph.symbol_mut(a).unwrap();
        symbol.set_definition(Definition::Section(text, 25));
    });
    assert!(place.contains("`a` is at Section(SectionId(1), 25)"), "{place}");
}

/// After allocation there is no room for more entries and stubs.
#[test]
fn an_edge_that_needs_an_entry_that_is_not_there_is_refused() {
    let got = Relocation::from_elf(Arch::X86_64, 9).unwrap();
    let passes = Passes::new().after_allocation(move |allocated| {
        let (text, out) = (text(allocated.graph()), allocated.graph().find("out").unwrap());
        let mut section = allocated.section_mut(text).unwrap();
        section.edges_mut().push(Edge::new(0, got, out, -4));
        Ok(())
    });
    let error = run(passes).unwrap_err().to_string();
    assert_eq!(
        error,
        "R_X86_64_GOTPCREL at .text+0x0 cannot be applied: its symbol has no entry"
    );
}

/// On PowerPC a call out of the graph saves the TOC pointer in a stub; without one it would come
/// back with another's.
#[test]
fn a_call_that_needs_a_stub_that_is_not_there_is_refused() {
    let call_and_nop = super::build::hex("0100004800000060");
    let object = super::build::object(
        Arch::PowerPc64Le,
        &[super::build::code(call_and_nop, Vec::new())],
        &[super::build::OUTSIDE],
    );
    let rel24 = Relocation::from_elf(Arch::PowerPc64Le, 10).unwrap();
    let addrs = SegmentAddrs {
        code: CODE,
        read_only: CODE,
        data: CODE,
    };
    let layout = Object::parse(&object).unwrap().layout().unwrap();
    let mut allocated = layout.allocate(addrs).unwrap();
    let text = text(allocated.graph());
    let edge = Edge::new(0, rel24, SymbolId(1), 0);
    allocated.section_mut(text).unwrap().edges_mut().push(edge);
    let near = CodeAddr::new(CODE.get() + 0x1000);
    let error = allocated.resolve(|_| Some(near)).unwrap().link().unwrap_err();
    assert_eq!(
        error.to_string(),
        "R_PPC64_REL24 at .text+0x0 cannot be applied: its symbol has no stub"
    );
}
