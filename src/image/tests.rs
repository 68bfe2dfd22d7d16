//! Adopted code, and branches that no edge tells of.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::addr::{CodeAddr, Len};
use crate::arch::Arch;
use crate::stackmap::Endian;

/// The object of the example: two functions, three records.
const OBJECT: &[u8] = include_bytes!("../../examples/objects/inline_cache.o");
const BASE: CodeAddr = CodeAddr::new(0x7f00_0000_0000);

fn linked() -> LinkedImage {
    let layout = Object::parse(OBJECT).unwrap().layout().unwrap();
    let (addrs, _) = layout.contiguous(BASE, Len::new(4096)).unwrap();
    layout.link(&addrs, &|_| None).unwrap()
}

fn adoption(stack_maps: Vec<u8>) -> Adoption {
    Adoption::new(Arch::X86_64, Endian::Little, stack_maps)
}

fn promise(adoption: Adoption) -> core::result::Result<AdoptedCode, AdoptionError> {
    // SAFETY: nothing is registered, so nothing is promised.
    #[allow(unsafe_code, reason = "the constructor is what is tested")]
    unsafe {
        adoption.promise()
    }
}

#[test]
fn adopted_code_is_the_same_as_loaded_code() {
    let linked = linked().image;
    let mut adoption = adoption(linked.stack_maps.clone());
    for function in linked.functions.iter().rev() {
        adoption = adoption.function(function.name.clone(), function.addr, function.len);
    }
    let adopted = promise(adoption).unwrap().into_image();
    assert_eq!(adopted.functions, linked.functions);
    assert_eq!(adopted.stack_maps, linked.stack_maps);
    assert_eq!(adopted.code.len(), 2);
}

#[test]
fn addresses_can_be_given_separately() {
    let linked = linked().image;
    let mut unrelocated = linked.stack_maps.clone();
    unrelocated[16..24].fill(0);
    unrelocated[40..48].fill(0);
    let addrs: Vec<_> = linked.functions.iter().map(|function| function.addr).collect();
    let few = adoption(unrelocated.clone())
        .function_addresses(&addrs[..1])
        .unwrap_err();
    assert_eq!(few, AdoptionError::FunctionCount { needed: 2, found: 1 });
    let adoption = adoption(unrelocated).function_addresses(&addrs).unwrap();
    let adoption = linked.functions.iter().fold(adoption, |adoption, f| {
        adoption.function(f.name.clone(), f.addr, f.len)
    });
    assert_eq!(promise(adoption).unwrap().image().stack_maps, linked.stack_maps);
}

#[test]
fn adoption_refuses_what_cannot_be() {
    let linked = linked().image;
    let [get, sum] = &linked.functions[..] else {
        panic!()
    };
    let start = || adoption(linked.stack_maps.clone());
    let long = Len::new(get.len.get() + 0x100);
    let end = CodeAddr::new(u64::MAX - 3);
    let cases = [
        (
            start().function("get", get.addr, get.len),
            "function ? at 0x7f0000000030 cannot be adopted: the stack map",
        ),
        (
            start().function("get", get.addr, Len::new(0)),
            "function get at 0x7f0000000000 cannot be adopted: its length",
        ),
        (
            start().function("last", end, Len::new(8)),
            "function last at 0xfffffffffffffffc cannot be adopted: its end",
        ),
        (
            start()
                .function("get", get.addr, long)
                .function("sum", sum.addr, sum.len),
            "function sum at 0x7f0000000030 cannot be adopted: it overlaps",
        ),
        (adoption(vec![9; 16]), "no stack map at 0x0"),
    ];
    for (adoption, expected) in cases {
        let error = promise(adoption).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    // The same range twice is an alias.
    let alias = start()
        .function("get", get.addr, get.len)
        .function("alias", get.addr, get.len)
        .function("sum", sum.addr, sum.len);
    assert_eq!(promise(alias).unwrap().image().code.len(), 2);
}

/// `caller`, a call and a nop, at 0; `callee` at 8. The call's bytes have `callee` as their target.
fn calling(edge: Option<&str>, scope: Scope) -> Graph<'static> {
    let bytes = vec![0xe8, 3, 0, 0, 0, 0x90, 0x90, 0x90, 0xc3, 0x90, 0x90, 0x90];
    let mut graph = Graph::empty(Arch::X86_64);
    let text = graph
        .add_section(Section::new(".text", SectionRole::Code, bytes))
        .unwrap();
    let mut add = |name, offset, size, scope| {
        let symbol = Symbol::new(name, Definition::Section(text, offset));
        graph.add_symbol(symbol.function(size).with_scope(scope)).unwrap()
    };
    add("caller", 0, 8, Scope::Exported);
    let callee = add("callee", 8, 4, scope);
    let outside = Symbol::new("outside", Definition::Undefined { weak: false });
    let outside = graph.add_symbol(outside).unwrap();
    if let Some(name) = edge {
        let target = if name == "callee" { callee } else { outside };
        let relocation = Relocation::from_elf(Arch::X86_64, R_X86_64_PC32).unwrap();
        let section = graph.section_mut(text).unwrap();
        section.edges_mut().push(Edge::new(1, relocation, target, -4));
    }
    graph
}

const R_X86_64_PC32: u32 = 2;

#[test]
fn calls_without_an_edge_are_reported_and_only_those() {
    let found = |edge, scope| {
        let mut harness = Graph::empty(Arch::X86_64);
        let code = Section::new(".text", SectionRole::Code, vec![0xc3]);
        let code = harness.add_section(code).unwrap();
        let callee = Symbol::new("callee", Definition::Section(code, 0)).function(1);
        harness.add_symbol(callee).unwrap();
        let mut graph = calling(edge, scope);
        let done = graph.add_harness(harness).unwrap();
        (done.replaced[0].uses, bypasses(&graph, &done))
    };
    let expected = Bypass {
        symbol: "callee".into(),
        file: "a pass".into(),
        section: ".text".into(),
        offset: 0,
        caller: "caller".into(),
    };
    for scope in [Scope::Exported, Scope::Local] {
        assert_eq!(found(None, scope), (0, vec![expected.clone()]));
        assert_eq!(found(Some("callee"), scope), (1, vec![]));
        assert_eq!(found(Some("outside"), scope), (0, vec![]));
    }
}
