//! Instructions that load from the global offset table, and what they become.

use super::build::{OUTSIDE, Rela, Symbol as Made, code, hex, object};
use super::*;

const BASE: u64 = 0x7000_0000_0000;
const GOTPCREL: u32 = 9;
const GOTPCRELX: u32 = 41;
const REX_GOTPCRELX: u32 = 42;

fn addrs() -> SegmentAddrs {
    SegmentAddrs {
        code: CodeAddr::new(BASE),
        read_only: CodeAddr::new(BASE + 0x1000),
        data: CodeAddr::new(BASE + 0x2000),
    }
}

/// The code when the symbol is at `target`, relaxed or not.
fn linked(bytes: &str, rela: Rela, target: u64, relaxed: bool) -> alloc::string::String {
    let bytes = object(Arch::X86_64, &[code(hex(bytes), vec![rela])], &[OUTSIDE]);
    let layout = Object::parse(&bytes).unwrap().layout().unwrap();
    let mut resolved = layout
        .allocate(addrs())
        .unwrap()
        .resolve(|_| Some(CodeAddr::new(target)))
        .unwrap();
    if relaxed {
        relax(&mut resolved).unwrap();
    }
    let linked = resolved.link().unwrap();
    let code = linked.segments[0].bytes.iter().take(8);
    code.map(|byte| alloc::format!("{byte:02x}")).collect()
}

/// Before and after as llvm-mc 19 encodes them, for a target 0x12345678 behind the start. The
/// number is the field's offset.
#[rustfmt::skip]
const FORMS: &[(&str, u64, u32, &str)] = &[
    // mov/lea to rax, to r9, to edi; call; jmp.
    ("488b0500000000cc", 3, REX_GOTPCRELX, "488d0571563412cc"),
    ("4c8b0d00000000cc", 3, REX_GOTPCRELX, "4c8d0d71563412cc"),
    ("8b3d00000000cccc", 2, GOTPCRELX,     "8d3d72563412cccc"),
    ("ff1500000000cccc", 2, GOTPCRELX,     "67e872563412cccc"),
    ("ff2500000000cccc", 2, GOTPCRELX,     "e97356341290cccc"),
];

#[test]
fn forms_become_what_the_assembler_makes() {
    for (before, field, number, after) in FORMS {
        let rela = (*field, *number, 1, -4);
        let target = BASE + 0x1234_5678;
        assert_eq!(linked(before, rela, target, true), *after);
        // Without the pass the table is used, and nothing but the field changes.
        let (start, end) = (2 * *field as usize, 2 * *field as usize + 8);
        let kept = linked(before, rela, target, false);
        assert_eq!((&kept[..start], &kept[end..]), (&before[..start], &before[end..]));
    }
}

/// To the last byte in reach, and not beyond.
#[test]
fn what_is_out_of_reach_stays() {
    for (before, field, number, after) in FORMS {
        let rela = (*field, *number, 1, -4);
        let length = if *after == "e97356341290cccc" {
            5
        } else {
            field + 4
        };
        let next = BASE + length;
        for (target, reached) in [
            (next + 0x7fff_ffff, true),
            (next + 0x8000_0000, false),
            (next - 0x8000_0000, true),
            (next - 0x8000_0001, false),
        ] {
            let opcode = 2 * *field as usize - 4;
            let found = linked(before, rela, target, true);
            let same = found[opcode..opcode + 2] == before[opcode..opcode + 2];
            assert_eq!(!same, reached, "{before} {target:#x}: {found}");
            if !reached {
                assert_eq!(found, linked(before, rela, target, false));
            }
        }
    }
}

/// Another instruction, another relocation, or another addend: as it was.
#[test]
fn what_may_not_be_rewritten_stays() {
    let target = BASE + 0x1234_5678;
    for (bytes, rela) in [
        // add rax, [rip + x]; mov rax, [rcx + x]; mov without the relocation that allows it; the
        // word after the address.
        ("48030500000000cc", (3, REX_GOTPCRELX, 1, -4)),
        ("488b8100000000cc", (3, REX_GOTPCRELX, 1, -4)),
        ("488b0500000000cc", (3, GOTPCREL, 1, -4)),
        ("488b0500000000cc", (3, REX_GOTPCRELX, 1, 0)),
        // At the start of the section there is no instruction.
        ("00000000cccccccc", (0, GOTPCRELX, 1, -4)),
        ("8b00000000cccccc", (1, GOTPCRELX, 1, -4)),
    ] {
        assert_eq!(
            linked(bytes, rela, target, true),
            linked(bytes, rela, target, false)
        );
    }
}

/// Before and after as llvm-mc 19 encodes them, for an address of 32 bits out of reach of the code.
#[rustfmt::skip]
const IMMEDIATES: &[(&str, u64, u32, &str)] = &[
    // test rax; test r15; cmp r9; add eax; sub r10d; mov r10; mov esi.
    ("48850500000000cc", 3, REX_GOTPCRELX, "48f7c078563412cc"),
    ("4c853d00000000cc", 3, REX_GOTPCRELX, "49f7c778563412cc"),
    ("4c3b0d00000000cc", 3, REX_GOTPCRELX, "4981f978563412cc"),
    ("030500000000cccc", 2, GOTPCRELX,     "81c078563412cccc"),
    ("442b1500000000cc", 3, REX_GOTPCRELX, "4181ea78563412cc"),
    ("4c8b1500000000cc", 3, REX_GOTPCRELX, "49c7c278563412cc"),
    ("8b3500000000cccc", 2, GOTPCRELX,     "c7c678563412cccc"),
];

#[test]
fn operands_of_32_bits_hold_the_address() {
    for (before, field, number, after) in IMMEDIATES {
        let rela = (*field, *number, 1, -4);
        assert_eq!(linked(before, rela, 0x1234_5678, true), *after);
        // Extended with its sign in an operand of 64 bits, with zeros in one of 32.
        let wide = *number == REX_GOTPCRELX && &before[..2] != "44";
        for (target, fits) in [
            (0x7fff_ffff, true),
            (0x8000_0000, !wide),
            (0xffff_ffff, !wide),
            (0x1_0000_0000, false),
            (0xffff_ffff_8000_0000, wide),
            (0xffff_ffff_7fff_ffff, false),
        ] {
            let found = linked(before, rela, target, true);
            assert_eq!(
                found != linked(before, rela, target, false),
                fits,
                "{before} {target:#x}"
            );
        }
    }
    // A call has no such form, and what is within 2 GiB has a better one.
    let call = ("ff1500000000cccc", (2, GOTPCRELX, 1, -4));
    assert_eq!(
        linked(call.0, call.1, 0x1234, true),
        linked(call.0, call.1, 0x1234, false)
    );
}

/// An entry that a pass has redirected, or that can be written, is read.
#[test]
fn entries_that_passes_have_changed_are_read() {
    let text = hex("488b0500000000cc");
    let bytes = object(
        Arch::X86_64,
        &[code(text, vec![(3, REX_GOTPCRELX, 1, -4)])],
        &[OUTSIDE],
    );
    type GraphChange = fn(&mut Graph<'_>, SectionId);
    let changes: [(bool, GraphChange); 5] = [
        (true, |_, _| {}),
        (false, |graph, got| {
            let other = graph
                .add_symbol(Symbol::new("other", Definition::Absolute(5)))
                .unwrap();
            let edges = graph.section_mut(got).unwrap().edges_mut();
            edges[0] = edges[0].to(other, 0);
        }),
        (false, |graph, got| {
            let edges = graph.section_mut(got).unwrap().edges_mut();
            edges[0] = edges[0].to(edges[0].target(), 8);
        }),
        (false, |graph, got| {
            graph.section_mut(got).unwrap().edges_mut().clear()
        }),
        (false, |graph, got| {
            graph.section_mut(got).unwrap().set_role(SectionRole::Data)
        }),
    ];
    for (index, (relaxed, change)) in changes.into_iter().enumerate() {
        let mut graph = Graph::new("it", Object::parse(&bytes).unwrap());
        graph.build_tables().unwrap();
        let symbol = graph.find("outside").unwrap();
        let (got, _) = graph.got_entry(symbol).unwrap();
        change(&mut graph, got);
        let allocated = graph.layout().unwrap().allocate(addrs()).unwrap();
        let mut resolved = allocated.resolve(|_| Some(CodeAddr::new(BASE + 64))).unwrap();
        relax(&mut resolved).unwrap();
        let linked = resolved.link().unwrap();
        assert_eq!(linked.segments[0].bytes[1] == 0x8d, relaxed, "{index}");
    }
}

fn words(arch: Arch, text: &str, relas: Vec<Rela>, target: u64, relaxed: bool) -> Vec<u32> {
    let symbols = [
        OUTSIDE,
        Made {
            name: "label",
            section: 1,
            kind: super::build::LOCAL,
            ..OUTSIDE
        },
    ];
    let bytes = object(arch, &[code(hex(text), relas)], &symbols);
    let layout = Object::parse(&bytes).unwrap().layout().unwrap();
    let allocated = layout.allocate(addrs()).unwrap();
    let mut resolved = allocated.resolve(|_| Some(CodeAddr::new(target))).unwrap();
    if relaxed {
        relax(&mut resolved).unwrap();
    }
    let linked = resolved.link().unwrap();
    let words = linked.segments[0].bytes.chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

/// `adrp x3; ldr x3, [x3]`
const ADRP_LDR: &str = "03000090630040f9";
const PAIR: [Rela; 2] = [(0, 311, 1, 0), (4, 312, 1, 0)];

#[test]
fn aarch64_computes_addresses_in_reach() {
    let relaxed = |target| words(Arch::AArch64, ADRP_LDR, PAIR.to_vec(), target, true);
    let kept = |target| words(Arch::AArch64, ADRP_LDR, PAIR.to_vec(), target, false);
    // nop; adr x3: as far as 1 MiB from the second instruction.
    let second = BASE + 4;
    assert_eq!(relaxed(second + 0xf_ffff)[..2], [0xd503_201f, 0x707f_ffe3]);
    assert_eq!(relaxed(second - 0x10_0000)[..2], [0xd503_201f, 0x1080_0003]);
    // adrp x3; add x3, x3: as far as 4 GiB from the page.
    assert_eq!(relaxed(BASE + 0x1234_5678)[..2], [0xb009_1a23, 0x9119_e063]);
    for (target, reached) in [
        (second + 0x10_0000, true),
        (BASE + 0xffff_ffff, true),
        (BASE + 0x1_0000_0000, false),
        (BASE - 0x1_0000_0000, true),
        (BASE - 0x1_0000_0001, false),
    ] {
        let found = relaxed(target);
        assert_eq!(found[1] & 0xffc0_03ff == 0x9100_0063, reached, "{target:#x}");
        assert_eq!(found[..2] == kept(target)[..2], !reached, "{target:#x}");
    }
}

#[test]
fn aarch64_pairs_that_are_none_stay() {
    let target = BASE + 0x100;
    for (text, relas) in [
        // Another register loaded; loaded by another; a load of 32 bits; to the stack pointer's
        // number.
        ("03000090640040f9", PAIR.to_vec()),
        ("03000090830040f9", PAIR.to_vec()),
        ("03000090630040b9", vec![PAIR[0], (4, 312, 1, 0)]),
        ("1f000090ff0340f9", PAIR.to_vec()),
        // Something between them; the other way round; another addend.
        ("030000901f2003d5630040f9", vec![PAIR[0], (8, 312, 1, 0)]),
        ("630040f903000090", vec![(4, 311, 1, 0), (0, 312, 1, 0)]),
        (ADRP_LDR, vec![PAIR[0], (4, 312, 1, 8)]),
        (ADRP_LDR, vec![(0, 311, 1, 8), PAIR[1]]),
    ] {
        let kept = words(Arch::AArch64, text, relas.clone(), target, false);
        assert_eq!(words(Arch::AArch64, text, relas, target, true), kept, "{text}");
    }
}

/// `auipc a0; ld a1, (a0)`, both marked.
const AUIPC_LD: &str = "1705000083350500";
const MARKED: [Rela; 4] = [(0, 20, 1, 0), (0, 51, 0, 0), (4, 24, 2, 0), (4, 51, 0, 0)];

#[test]
fn riscv_computes_addresses_in_reach() {
    let relaxed = |target| words(Arch::RiscV64, AUIPC_LD, MARKED.to_vec(), target, true);
    // auipc a0, 0x12345; addi a1, a0, 0x678
    assert_eq!(relaxed(BASE + 0x1234_5678)[..2], [0x1234_5517, 0x6785_0593]);
    for (target, reached) in [
        (BASE + 0x7fff_f7ff, true),
        (BASE + 0x7fff_f800, false),
        (BASE - 0x8000_0800, true),
        (BASE - 0x8000_0801, false),
    ] {
        assert_eq!(relaxed(target)[1] & 0x707f == 0x13, reached, "{target:#x}");
    }
}

#[test]
fn riscv_loads_that_may_not_be_rewritten_stay() {
    let target = BASE + 0x100;
    let without = |index: usize| {
        let mut relas = MARKED.to_vec();
        relas.remove(index);
        relas
    };
    let with = |more: &[Rela]| [&MARKED[..], more].concat();
    for (text, relas) in [
        (AUIPC_LD, without(1)),
        (AUIPC_LD, without(3)),
        // A word loaded; loaded by another register.
        ("1705000083250500", MARKED.to_vec()),
        ("1705000083b50500", MARKED.to_vec()),
        // A second user, not marked; one that stores.
        ("17050000833505000336050013000000", with(&[(8, 24, 2, 0)])),
        ("170500008335050023300500", with(&[(8, 25, 2, 0), (8, 51, 0, 0)])),
    ] {
        let kept = words(Arch::RiscV64, text, relas.clone(), target, false);
        assert_eq!(words(Arch::RiscV64, text, relas, target, true), kept, "{text}");
    }
    // Of two that may, both are.
    let both = "17050000833505000336050013000000";
    let relas = with(&[(8, 24, 2, 0), (8, 51, 0, 0)]);
    let found = words(Arch::RiscV64, both, relas, target, true);
    assert_eq!([found[1] & 0x707f, found[2] & 0x707f], [0x13, 0x13]);
}

/// A load of the same half in another section would not know.
#[test]
fn riscv_loads_shared_with_another_section_stay() {
    let far = super::build::Section {
        name: ".text.far",
        ..code(hex("83350500"), vec![(0, 24, 2, 0), (0, 51, 0, 0)])
    };
    let near = code(hex(AUIPC_LD), MARKED.to_vec());
    let symbols = [
        OUTSIDE,
        Made {
            name: "label",
            section: 1,
            kind: super::build::LOCAL,
            ..OUTSIDE
        },
    ];
    let bytes = object(Arch::RiscV64, &[near, far], &symbols);
    let allocated = Object::parse(&bytes)
        .unwrap()
        .layout()
        .unwrap()
        .allocate(addrs())
        .unwrap();
    let mut resolved = allocated.resolve(|_| Some(CodeAddr::new(BASE + 0x100))).unwrap();
    relax(&mut resolved).unwrap();
    let linked = resolved.link().unwrap();
    assert_eq!(linked.segments[0].bytes[4] & 0x7f, 0x03);
}

/// Stubs whose branches reach, and entries that are not read any more.
#[test]
fn what_is_not_used_is_reported() {
    let other = Made {
        name: "other",
        ..OUTSIDE
    };
    // mov rax, [rip + entry]; call, of both.
    let text = hex("488b0500000000e800000000488b0500000000e800000000");
    let relas = vec![
        (3, REX_GOTPCRELX, 1, -4),
        (8, 4, 1, -4),
        (15, REX_GOTPCRELX, 2, -4),
        (20, 4, 2, -4),
    ];
    let bytes = object(Arch::X86_64, &[code(text, relas)], &[OUTSIDE, other]);
    let unused = |far: u64, relaxed: bool| {
        let allocated = Object::parse(&bytes)
            .unwrap()
            .layout()
            .unwrap()
            .allocate(addrs())
            .unwrap();
        let addr = |name: &str| CodeAddr::new(if name == "other" { far } else { BASE + 0x100 });
        let mut resolved = allocated.resolve(|name| Some(addr(name))).unwrap();
        if relaxed {
            relax(&mut resolved).unwrap();
        }
        resolved.unused_tables().unwrap()
    };
    let [near, other] = [1, 2].map(SymbolId);
    let tables = |entries: &[SymbolId], stubs: &[SymbolId]| UnusedTables {
        entries: entries.to_vec(),
        stubs: stubs.to_vec(),
    };
    let far = 0x1234_5678_9abc_def0;
    assert_eq!(unused(far, false), tables(&[], &[near]));
    assert_eq!(unused(far, true), tables(&[near], &[near]));
    assert_eq!(unused(BASE + 0x200, false), tables(&[], &[near, other]));
    assert_eq!(unused(BASE + 0x200, true), tables(&[near, other], &[near, other]));
}
