//! The TOC pointer, local entries and function descriptors.

use super::build::{DATA, OUTSIDE, Section as Made, Symbol, code, object};
use super::*;

const BASE: u64 = 0x7000_0000_0000;
const READ_ONLY: u64 = BASE + 0x10_0000;
const FAR: u64 = 0x1234_5678_9abc_def0;
const ADDRS: SegmentAddrs = SegmentAddrs {
    code: CodeAddr::new(BASE),
    read_only: CodeAddr::new(READ_ONLY),
    data: CodeAddr::new(BASE + 0x20_0000),
};
const REL24: u32 = 10;
const ADDR64: u32 = 38;
const TOC: u32 = 51;
const TOC16_DS: u32 = 63;
const REL24_NOTOC: u32 = 116;
const BL: u32 = 0x4800_0001;
const B: u32 = 0x4800_0000;
const NOP: u32 = 0x6000_0000;
const V2: [Arch; 2] = [Arch::PowerPc64Le, Arch::PowerPc64ElfV2];
const ALL: [Arch; 3] = [Arch::PowerPc64, Arch::PowerPc64Le, Arch::PowerPc64ElfV2];

fn bytes_of(arch: Arch, words: &[u32]) -> Vec<u8> {
    let bytes = |word: &u32| match arch.is_big_endian() {
        true => word.to_be_bytes(),
        false => word.to_le_bytes(),
    };
    words.iter().flat_map(bytes).collect()
}

fn words_of(arch: Arch, bytes: &[u8]) -> Vec<u32> {
    let word = |bytes: &[u8]| match arch.is_big_endian() {
        true => u32::from_be_bytes(bytes.try_into().unwrap()),
        false => u32::from_le_bytes(bytes.try_into().unwrap()),
    };
    bytes.chunks_exact(4).map(word).collect()
}

fn link(arch: Arch, sections: &[Made], symbols: &[Symbol]) -> crate::error::Result<LinkedImage> {
    let bytes = object(arch, sections, symbols);
    Object::parse(&bytes)?
        .layout()?
        .link(&ADDRS, &|_| Some(CodeAddr::new(FAR)))
}

fn call(arch: Arch, words: &[u32], number: u32, symbol: Symbol) -> crate::error::Result<Vec<u32>> {
    let text = code(bytes_of(arch, words), vec![(0, number, 1, 0)]);
    let linked = link(arch, &[text], &[symbol])?;
    Ok(words_of(arch, &linked.segments[0].bytes))
}

#[test]
fn a_call_out_restores_the_toc_pointer_behind_it() {
    for arch in ALL {
        let restore = if arch.has_descriptors() {
            0xe841_0028
        } else {
            0xe841_0018
        };
        for room in [NOP, 0x4def_7b82, 0x4fff_fb82] {
            let words = call(arch, &[BL, room], REL24, OUTSIDE).unwrap();
            assert_eq!(words[..2], [BL | 16, restore], "{arch}");
            let stub = bytes_of(arch, &words[4..]);
            assert_eq!(
                stub[..4],
                stubs::of(arch).bytes[..4],
                "{arch}: it saves the TOC pointer"
            );
        }
    }
}

#[test]
fn a_call_out_without_room_to_restore_the_toc_pointer_is_refused() {
    for arch in ALL {
        for words in [&[BL][..], &[BL, 0x3860_0000], &[B, NOP]] {
            let error = call(arch, words, REL24, OUTSIDE).unwrap_err().to_string();
            assert!(
                error.starts_with("R_PPC64_REL24 at .text+0x0 cannot be applied: it leaves the graph"),
                "{error}"
            );
        }
    }
}

/// Its caller has no TOC pointer to save or restore, so it enters the stub behind that.
#[test]
fn a_call_out_from_code_without_a_toc_pointer() {
    for arch in V2 {
        let words = call(arch, &[BL, 0x3860_0000], REL24_NOTOC, OUTSIDE).unwrap();
        assert_eq!(words[..2], [BL | 20, 0x3860_0000]);
        assert_eq!(words[5] >> 16, 0x3d80, "lis r12");
    }
}

/// The three bits of `st_other`: where callers with the same TOC pointer enter, and who may not
/// enter directly.
#[test]
fn local_entries() {
    V2.into_iter().for_each(local_entries_of);
}

fn local_entries_of(arch: Arch) {
    let inside = |bits: u8| Symbol {
        section: 1,
        value: 8,
        other: bits << 5,
        kind: 2,
        ..OUTSIDE
    };
    let words = [BL, NOP, NOP, NOP];
    let linked = |number, bits| call(arch, &words, number, inside(bits)).unwrap();
    for (bits, offset) in [(0, 0), (2, 4), (3, 8), (4, 16), (5, 32), (6, 64)] {
        let found = linked(REL24, bits);
        assert_eq!(found[..2], [BL | (8 + offset), NOP], "{bits}");
    }
    // A callee that may change r2: its caller's is saved and restored.
    assert_eq!(linked(REL24, 1)[..2], [BL | 16, 0xe841_0018]);
    // A caller without a TOC pointer reaches those that need none directly, the others with r12 set
    // up.
    for bits in [0, 1] {
        assert_eq!(linked(REL24_NOTOC, bits)[..2], [BL | 8, NOP]);
    }
    for bits in 2..7 {
        let found = linked(REL24_NOTOC, bits);
        assert_eq!(found[..2], [BL | 20, NOP]);
        let address = found[5] & 0xffff;
        assert_eq!(u64::from(address), (BASE + 8) >> 48, "the global entry");
        assert_eq!(
            u64::from(found[9] & 0xffff),
            (BASE + 8) & 0xffff,
            "the global entry"
        );
    }
    let error = call(arch, &words, REL24, inside(7)).unwrap_err();
    assert!(matches!(error, Error::SymbolRefused { .. }), "{error}");
    // ELFv1 has none.
    assert_eq!(
        call(Arch::PowerPc64, &words, REL24, inside(3)).unwrap()[0],
        BL | 8
    );
}

fn toc(len: usize) -> Made {
    Made {
        name: ".toc",
        flags: DATA,
        align: 8,
        bytes: vec![0; len],
        relas: vec![(0, ADDR64, 1, 0)],
    }
}

/// The object's own table is read-only, starts the global one, and is reached by 16 bits up to its
/// last word.
#[test]
fn the_table_of_contents() {
    for arch in ALL {
        let field = if arch.is_big_endian() { 2 } else { 0 };
        let load = 0xe862_0000; // ld r3, 0(r2)
        let in_toc = |at: u64| {
            let symbol = Symbol {
                section: 2,
                value: at,
                ..OUTSIDE
            };
            let text = code(bytes_of(arch, &[load]), vec![(field, TOC16_DS, 2, 0)]);
            link(arch, &[text, toc(0x1_0010)], &[OUTSIDE, symbol])
        };
        for at in [0, 8, 0xfff8] {
            let linked = in_toc(at).unwrap();
            let pointer = linked.got().unwrap().get();
            let word = words_of(arch, &linked.segments[0].bytes)[0];
            let displacement = i64::from(word as i16);
            let entry = pointer.wrapping_add_signed(displacement);
            assert_eq!(entry, READ_ONLY + at, "{arch}");
            assert_eq!(pointer, READ_ONLY + 0x8000);
            let table = &linked.segments[1];
            assert_eq!((table.kind, table.addr.get()), (SegmentKind::ReadOnly, READ_ONLY));
            let first = if arch.is_big_endian() {
                FAR.to_be_bytes()
            } else {
                FAR.to_le_bytes()
            };
            assert_eq!(table.bytes[..8], first);
        }
        let error = in_toc(0x1_0000).unwrap_err();
        match &error {
            Error::RelocationOutOfReach {
                value: 0x8000, mend, ..
            } => {
                assert!(mend.contains("code-model=medium"), "{mend}");
            }
            _ => panic!("{error}"),
        }
    }
}

/// As `ld.lld -r` marks what it joins.
#[test]
fn descriptors_in_a_file_that_says_elf_v2_are_refused() {
    for arch in ALL {
        for (name, refused) in [(".opd", true), (".opd.f", true), (".opdx", false)] {
            let mut section = toc(24);
            section.name = name;
            let text = code(bytes_of(arch, &[NOP]), vec![]);
            match link(arch, &[text, section], &[OUTSIDE]).map(drop) {
                Err(Error::SectionRefused { section, reason }) if refused && !arch.has_descriptors() => {
                    assert_eq!(section, name);
                    assert!(reason.contains("-mabi=elfv1 or elfv2"), "{reason}");
                }
                other => {
                    other.unwrap();
                    assert!(!refused || arch.has_descriptors(), "{arch} {name}");
                }
            }
        }
    }
}

/// Two functions with descriptors, a call from the first to the second, and a stack map of both.
#[test]
fn descriptors_represent_their_code() {
    let arch = Arch::PowerPc64;
    let text = code(bytes_of(arch, &[BL, NOP, NOP, NOP]), vec![(0, REL24, 4, 24)]);
    let section = |name, flags, len, relas| Made {
        name,
        flags,
        align: 8,
        bytes: vec![0; len],
        relas,
    };
    let relas = vec![
        (0, ADDR64, 3, 0),
        (8, TOC, 0, 0),
        (24, ADDR64, 3, 8),
        (32, TOC, 0, 0),
    ];
    let descriptors = section(".opd", DATA, 48, relas);
    let maps = section(
        ".llvm_stackmaps",
        2,
        16,
        vec![(0, ADDR64, 4, 24), (8, ADDR64, 1, 0)],
    );
    let pointers = section(".data", DATA, 8, vec![(0, ADDR64, 2, 0)]);
    let function = |name, value| Symbol {
        name,
        section: 2,
        value,
        size: 8,
        kind: 2,
        other: 0,
    };
    let of_section = |section| Symbol {
        section,
        kind: 3,
        ..OUTSIDE
    };
    let symbols = [
        function("first", 0),
        function("second", 24),
        of_section(1),
        of_section(2),
    ];
    let linked = link(arch, &[text, descriptors, maps, pointers], &symbols).unwrap();

    let described = |name: &str| linked.symbol(name).unwrap().get();
    assert_eq!(
        (described("first"), described("second")),
        (READ_ONLY, READ_ONLY + 24)
    );
    let functions: Vec<_> = linked
        .image
        .functions
        .iter()
        .map(|f| (&f.name[..], f.addr.get(), f.pointer.get()))
        .collect();
    let expected = [("first", BASE, READ_ONLY), ("second", BASE + 8, READ_ONLY + 24)];
    assert_eq!(functions, expected, "code, and what is called");

    let double = |bytes: &[u8], at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    let read_only = &linked.segments[1].bytes;
    let pointer = linked.got().unwrap().get();
    let found: Vec<_> = [0, 8, 24, 32].iter().map(|at| double(read_only, *at)).collect();
    assert_eq!(found, [BASE, pointer, BASE + 8, pointer]);
    // Stack maps speak of code, data of descriptors, calls within the object go to code.
    assert_eq!(double(&linked.image.stack_maps, 0), BASE + 8);
    assert_eq!(double(&linked.image.stack_maps, 8), BASE);
    assert_eq!(double(&linked.segments[2].bytes, 0), READ_ONLY + 24);
    assert_eq!(words_of(arch, &linked.segments[0].bytes)[..2], [BL | 8, NOP]);
}

/// Calls that are recorded keep the TOC pointer, also those of a function of the same object;
/// others do not.
#[test]
fn recorded_calls_leave_by_stubs() {
    const OBJECTS: [&[u8]; 3] = [
        include_bytes!("../../../../asm-tests/objects/calls/inside.powerpc64.o"),
        include_bytes!("../../../../asm-tests/objects/calls/inside.powerpc64le.o"),
        include_bytes!("../../../../asm-tests/objects/calls/inside.powerpc64-elfv2.o"),
    ];
    for (object, wanted) in OBJECTS
        .into_iter()
        .flat_map(|object| [(object, true), (object, false)])
    {
        let mut graph = Graph::new("inside", Object::parse(object).unwrap());
        let by_stub = graph.call_by_stubs(|name| wanted && name == "inside").unwrap();
        let layout = graph.layout().unwrap();
        let (addrs, _) = layout
            .contiguous(CodeAddr::new(0x1000_0000), Len::new(1 << 16))
            .unwrap();
        let mut resolved = layout.allocate(addrs).unwrap().resolve(|_| None).unwrap();
        by_stub.resolve(&mut resolved);
        let calls = resolved.calls(|name| name == "inside");
        let image = resolved.link().unwrap();
        assert_eq!(calls.len(), 1);
        let (arch, code) = (image.image.arch, &image.segments[0]);
        let at = (calls[0].addr.get() - code.addr.get()) as usize;
        let (call, behind) = (&code.bytes[at..at + 4], &code.bytes[at + 4..at + 8]);
        assert_eq!(
            wanted,
            stubs::restore_behind_leaving(arch).unwrap() == *behind,
            "{arch}"
        );
        let target = patchpoint_isa::calls::target(arch, calls[0].addr, call).unwrap();
        assert_eq!(wanted, image.stub("inside") == Some(target), "{arch}");
        if wanted {
            let start = (target.get() - code.addr.get()) as usize;
            let to = image.symbol("inside").unwrap();
            let stub = stubs::leaving(arch, to).unwrap();
            assert_eq!(code.bytes[start..start + stub.len()], stub, "{arch}");
        }
    }
}
