//! The global offset table and the stubs as sections that passes see, change, replace and add to.

use core::cell::RefCell;

use super::build::{OUTSIDE, Symbol as Made, code, hex, object};
use super::*;
use crate::error::Result;

const CODE: u64 = 0x7000_0000_0000;
const TARGET: u64 = 0x1234_5678_9abc_def0;
const GOTPCREL: u32 = 9;
const PLT32: u32 = 4;

const ADDRS: SegmentAddrs = SegmentAddrs {
    code: CodeAddr::new(CODE),
    read_only: CodeAddr::new(CODE + 0x1000),
    data: CodeAddr::new(CODE + 0x2000),
};

/// `mov rax, [rip + entry of outside]; call outside`, and the same of `other`, which is not there.
fn graph() -> Graph<'static> {
    let text = hex("488b0500000000e800000000488b0500000000e800000000");
    let relas = vec![
        (3, GOTPCREL, 1, -4),
        (8, PLT32, 1, -4),
        (15, GOTPCREL, 2, -4),
        (20, PLT32, 2, -4),
    ];
    let other = Made {
        name: "other",
        ..OUTSIDE
    };
    let bytes = object(Arch::X86_64, &[code(text, relas)], &[OUTSIDE, other]).leak();
    Graph::new("it.o", Object::parse(bytes).unwrap())
}

/// Memory at one place.
struct Here;

impl MemoryManager for Here {
    type Memory = ();
    type Finalized = ();
    type Error = Error;

    async fn allocate(&self, _: &[SegmentRequest; 3], _: ImageReach) -> Result<((), SegmentAddrs)> {
        Ok(((), ADDRS))
    }

    async fn finalize(&self, (): (), _: &LinkedImage) -> Result<()> {
        Ok(())
    }

    fn abandon(&self, (): ()) {}

    fn deallocate(&self, (): ()) -> Result<()> {
        Ok(())
    }
}

fn run(mut passes: Passes<'_>) -> Result<LinkedImage> {
    let resolve = |_: &str| Some(CodeAddr::new(TARGET));
    at_once(super::super::link(graph(), &mut passes, &Here, &resolve)).map(|linked| linked.image)
}

fn bytes_at(image: &LinkedImage, addr: u64, len: usize) -> &[u8] {
    let holds =
        |segment: &&Segment| CodeAddr::new(addr).is_within(segment.addr, Len::of(&segment.bytes).unwrap());
    let segment = image.segments.iter().find(holds).unwrap();
    &segment.bytes[(addr - segment.addr.get()) as usize..][..len]
}

/// The target of a 32-bit distance at `at`.
fn target_at(image: &LinkedImage, at: u64) -> u64 {
    let distance = i32::from_le_bytes(bytes_at(image, at, 4).try_into().unwrap());
    (at + 4).wrapping_add_signed(i64::from(distance))
}

fn double(image: &LinkedImage, addr: u64) -> u64 {
    u64::from_le_bytes(bytes_at(image, addr, 8).try_into().unwrap())
}

fn absolute() -> Relocation {
    Relocation::from_elf(Arch::X86_64, 1).unwrap()
}

fn outside(graph: &Graph<'_>) -> SymbolId {
    graph.find("outside").unwrap()
}

#[test]
fn a_pass_sees_entries_and_stubs_and_redirects_them() {
    let seen = RefCell::new(Vec::new());
    let passes = Passes::new()
        .after_pruning(|graph| {
            let id = outside(graph);
            let ((got, entry), (stubs, stub)) = (graph.got_entry(id).unwrap(), graph.stub(id).unwrap());
            let name = |id: SectionId| graph.sections()[id.index()].name().to_string();
            seen.borrow_mut().push((name(got), entry, name(stubs), stub));
            let hook = Symbol::new("hook", Definition::Absolute(0x77));
            let hook = graph.add_symbol(hook)?;
            let edges = graph.section_mut(got).unwrap().edges_mut();
            let edge = edges.iter_mut().find(|edge| edge.offset() == entry).unwrap();
            assert_eq!((edge.target(), edge.relocation()), (id, absolute()));
            *edge = edge.to(hook, 1);
            Ok(())
        })
        .after_allocation(|allocated| {
            let id = outside(allocated.graph());
            assert_eq!(allocated.got_entry_addr(id), Some(CodeAddr::new(CODE + 0x1000)));
            assert_eq!(allocated.stub_addr(id), Some(CodeAddr::new(CODE + 0x20)));
            Ok(())
        })
        .before_fix_ups(|resolved| {
            let id = outside(resolved.graph());
            assert_eq!(resolved.got_entry_addr(id), Some(CodeAddr::new(CODE + 0x1000)));
            assert_eq!(resolved.stub_addr(id), Some(CodeAddr::new(CODE + 0x20)));
            Ok(())
        });
    let image = run(passes).unwrap();
    assert_eq!(*seen.borrow(), [(".got".into(), 0, ".stubs".into(), 0)]);
    // The code reads the entry that the pass has changed, and so does the stub.
    let entry = target_at(&image, CODE + 3);
    assert_eq!((entry, double(&image, entry)), (CODE + 0x1000, 0x78));
    let stub = target_at(&image, CODE + 8);
    assert_eq!((stub, target_at(&image, stub + 2)), (CODE + 0x20, entry));
    assert_eq!(image.got_entry("outside"), Some(CodeAddr::new(entry)));
    assert_eq!(image.stub("outside"), Some(CodeAddr::new(stub)));
    assert_eq!(image.got_entry("nobody"), None);
    assert_eq!(double(&image, target_at(&image, CODE + 15)), TARGET);
}

/// One symbol's entry and stub are a pass's own; the other's the built-in pass makes.
#[test]
fn a_pass_replaces_what_the_built_in_one_would_add() {
    let passes = Passes::new().build_tables_with(|graph| {
        let id = outside(graph);
        let mut table = Section::new("my table", SectionRole::Data, vec![0; 24]);
        table.edges_mut().push(Edge::new(16, absolute(), id, 0));
        let table = graph.add_section(table)?;
        graph.set_got_entry(id, table, 16);
        // mov rax, imm64; jmp rax
        let mut stub = Section::new("my stub", SectionRole::Code, hex("cc48b80000000000000000ffe0"));
        stub.edges_mut().push(Edge::new(3, absolute(), id, 0));
        let stub = graph.add_section(stub)?;
        graph.set_stub(id, stub, 1);
        Ok(())
    });
    let image = run(passes).unwrap();
    let entry = target_at(&image, CODE + 3);
    assert_eq!((entry, double(&image, entry)), (CODE + 0x2010, TARGET));
    let stub = target_at(&image, CODE + 8);
    assert_eq!(stub, CODE + 0x21);
    assert_eq!(double(&image, stub + 2), TARGET);
    assert_eq!(image.got_entry("outside"), Some(CodeAddr::new(entry)));
    assert_eq!(image.stub("outside"), Some(CodeAddr::new(stub)));
    let others = target_at(&image, CODE + 15);
    assert_eq!((others, double(&image, others)), (CODE + 0x1000, TARGET));
    assert_ne!(target_at(&image, CODE + 20), stub);
}

/// What a pass adds behind the built-in one gets what it needs in the sections that are there.
#[test]
fn what_a_later_pass_adds_gets_entries_and_stubs_too() {
    let passes = Passes::new().after_pruning(|graph| {
        let late = graph.add_symbol(Symbol::new("late", Definition::Undefined { weak: false }))?;
        let mut more = Section::new("more", SectionRole::Code, hex("488b0500000000e800000000"));
        let of = |number| Relocation::from_elf(Arch::X86_64, number).unwrap();
        more.edges_mut().push(Edge::new(3, of(GOTPCREL), late, -4));
        more.edges_mut().push(Edge::new(8, of(PLT32), late, -4));
        graph.add_section(more).map(|_| ())
    });
    let image = run(passes).unwrap();
    assert_eq!(image.got_entry("late"), Some(CodeAddr::new(CODE + 0x1010)));
    assert_eq!(image.stub("late"), Some(CodeAddr::new(CODE + 0x30)));
    assert_eq!(double(&image, CODE + 0x1010), TARGET);
    assert_eq!(target_at(&image, CODE + 0x32), CODE + 0x1010);
    assert_eq!(double(&image, CODE + 0x1000), TARGET);
}

#[test]
fn an_entry_or_stub_that_is_not_in_its_section_is_refused() {
    let text = || graph().section_ids().nth(1).unwrap();
    for (set, room) in [
        (
            (|graph, id, section, at| graph.set_got_entry(id, section, at))
                as fn(&mut Graph<'_>, SymbolId, SectionId, u32),
            24 - 8,
        ),
        (|graph, id, section, at| graph.set_stub(id, section, at), 24 - 1),
    ] {
        for (at, refused) in [(room, false), (room + 1, true), (u32::MAX, true)] {
            let passes = Passes::new().after_pruning(move |graph| {
                let id = outside(graph);
                set(graph, id, text(), at);
                Ok(())
            });
            let found = run(passes);
            assert_eq!(found.is_err(), refused, "{at}: {found:?}");
            if let Err(error) = found {
                assert!(error.to_string().contains("of `outside` is at"), "{error}");
            }
        }
    }
}

/// When it is pruned afterwards, what is left keeps its entries, and what is gone can get new ones.
#[test]
fn pruning_keeps_the_tables_that_are_needed() {
    let pruned = |passes: Passes<'_>| run(passes).unwrap();
    let start = |graph: &mut Graph<'_>| {
        let text = graph.section_ids().nth(1).unwrap();
        graph.add_symbol(Symbol::new("start", Definition::Section(text, 0)))
    };
    let kept = pruned(Passes::new().after_pruning(|graph| {
        start(graph)?;
        graph.prune(["start"])?;
        // That very one: it may be a pass's own.
        assert!(graph.got_entry(outside(graph)).is_some());
        Ok(())
    }));
    assert_eq!(double(&kept, target_at(&kept, CODE + 3)), TARGET);
    let again = pruned(Passes::new().after_pruning(|graph| {
        let lone = graph.add_symbol(Symbol::new("lone", Definition::Absolute(0)))?;
        graph.prune(["lone"])?;
        assert_eq!(graph.got_entry(outside(graph)), None);
        let mut more = Section::new("more", SectionRole::Code, hex("488b0500000000"));
        let got = Relocation::from_elf(Arch::X86_64, GOTPCREL).unwrap();
        more.edges_mut().push(Edge::new(3, got, lone, -4));
        graph.add_section(more).map(|_| ())
    }));
    assert_eq!(target_at(&again, CODE + 3), CODE + 0x1000);
    assert_eq!(again.got_entry("outside"), None);
}
