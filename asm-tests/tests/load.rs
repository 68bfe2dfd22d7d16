//! The loader, relocation by relocation: handmade assembly whose every value is calculated here
//! from the ABI's formulas, and objects that must be refused.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use patchpoint::addr::{CodeAddr, Len};
use patchpoint::image::{self, ImageReach, LinkedImage, Object, SegmentAddrs, SegmentKind};
use patchpoint::stackmap::StackMaps;

/// The addresses of the image: segments apart from each other, as nothing should depend on their
/// order.
const ADDRS: SegmentAddrs = SegmentAddrs {
    code: CodeAddr::new(0x4000_1000),
    read_only: CodeAddr::new(0x3fff_0000),
    data: CodeAddr::new(0x4200_0000),
};
const FAR: u64 = 0x7fff_1234_5678;
const LOW: u64 = 0x1234_5678;
const NEAR: u64 = 0x4300_0040;
const BYTE: u64 = 0x21;

fn object(name: &str) -> Vec<u8> {
    let path = asm_tests::folder().join("asm").join(format!("{name}.o"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn resolve(name: &str) -> Option<CodeAddr> {
    let addr = match name {
        "far" => FAR,
        "low" => LOW,
        "near" => NEAR,
        "byte" => BYTE,
        _ => return None,
    };
    Some(CodeAddr::new(addr))
}

/// A linked image as a debugger sees it.
struct Memory(LinkedImage);

impl Memory {
    fn load() -> Self {
        let bytes = object("relocations");
        Self(
            Object::parse(&bytes)
                .unwrap()
                .layout()
                .unwrap()
                .link(&ADDRS, &resolve)
                .unwrap(),
        )
    }

    fn symbol(&self, name: &str) -> u64 {
        self.0
            .symbol(name)
            .unwrap_or_else(|| panic!("no symbol {name}"))
            .get()
    }

    fn read(&self, addr: u64, len: usize) -> u64 {
        let at = CodeAddr::new(addr);
        let mut segments = self.0.segments.iter();
        let found = segments.find_map(|segment| segment.read(at, len));
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&found.unwrap_or_else(|| panic!("nothing at {addr:#x}")));
        u64::from_le_bytes(bytes)
    }

    fn signed32(&self, addr: u64) -> u64 {
        i64::from(self.read(addr, 4) as u32 as i32) as u64
    }

    fn at(&self, name: &str, len: usize) -> u64 {
        self.read(self.symbol(&format!("at_{name}")), len)
    }
}

#[test]
fn absolute_fields() {
    let memory = Memory::load();
    assert_eq!(memory.at("64", 8), FAR + 1);
    assert_eq!(memory.at("32", 4), LOW + 2);
    assert_eq!(memory.at("32S", 4), LOW + 3);
    assert_eq!(memory.at("16", 2), BYTE + 4);
    assert_eq!(memory.at("8", 1), BYTE + 5);
    assert_eq!(
        (memory.at("SIZE32", 4), memory.at("SIZE64", 8)),
        (40 + 18, 40 + 19)
    );
}

#[test]
fn relative_fields() {
    let memory = Memory::load();
    let at = |name: &str| memory.symbol(&format!("at_{name}"));
    assert_eq!(memory.at("PC64", 8), FAR + 6 - at("PC64"));
    assert_eq!(memory.at("PC32", 4), NEAR + 7 - at("PC32"));
    assert_eq!(
        memory.at("PC16", 2),
        (memory.symbol("there") + 8).wrapping_sub(at("PC16")) & 0xffff
    );
    assert_eq!(memory.at("PC8", 1), 9);
    assert_eq!(memory.at("PLT32", 4), NEAR + 10 - at("PLT32"));
}

/// The global offset table's address follows from GOTPC64, and everything relative to it must
/// agree.
#[test]
fn fields_relative_to_the_global_offset_table() {
    let memory = Memory::load();
    let at = |name: &str| memory.symbol(&format!("at_{name}"));
    let got = memory.at("GOTPC64", 8).wrapping_add(at("GOTPC64")) - 16;
    assert_eq!(got, ADDRS.read_only.get());
    assert_eq!(
        memory.signed32(at("GOTPC32")).wrapping_add(at("GOTPC32")) + 4,
        got
    );
    assert_eq!(memory.at("GOTOFF64", 8), memory.symbol("there") + 17 - got);
    assert_eq!(memory.at("PLTOFF64", 8), FAR + 11 - got);

    let entry = got + memory.at("GOT64", 8) - 13;
    assert_eq!(memory.read(entry, 8), FAR);
    assert_eq!(got + memory.at("GOT32", 4) - 12, entry);
    assert_eq!(got + memory.at("GOTPLT64", 8) - 14, entry);
    assert_eq!(
        memory.at("GOTPCREL64", 8).wrapping_add(at("GOTPCREL64")) - 15,
        entry
    );
    for name in ["GOTPCREL", "GOTPCRELX", "REX_GOTPCRELX"] {
        assert_eq!(
            memory.signed32(at(name)).wrapping_add(at(name)) + 4,
            entry,
            "{name}"
        );
    }
}

#[test]
fn branches_go_directly_where_they_can_and_through_a_stub_where_not() {
    let memory = Memory::load();
    let target = |name: &str| {
        let at = memory.symbol(&format!("at_PLT32_{name}"));
        memory.signed32(at).wrapping_add(at + 4)
    };
    assert_eq!(target("here"), memory.symbol("here"));
    assert_eq!(target("near"), NEAR);
    // Address 0 is within 2 GiB of this code.
    assert_eq!(target("absent"), 0);
    let stub = target("far");
    assert_eq!(memory.read(stub, 2), 0x25ff, "jmp *[rip + distance]");
    let entry = memory.signed32(stub + 2).wrapping_add(stub + 6);
    assert_eq!(memory.read(entry, 8), FAR);
}

#[test]
fn sections_symbols_and_functions() {
    let memory = Memory::load();
    assert_eq!(memory.symbol("here"), ADDRS.code.get());
    assert_eq!(memory.symbol("there"), ADDRS.data.get());
    assert_eq!(memory.symbol("shared") % 32, 0);
    assert_eq!(memory.read(memory.symbol("shared") + 16, 8), 0);
    assert_eq!(memory.read(memory.symbol("zeroed") + 92, 8), 0);
    let functions: Vec<_> = memory
        .0
        .image
        .functions
        .iter()
        .map(|f| (f.name.as_str(), f.addr.get(), f.len.get()))
        .collect();
    assert_eq!(
        functions,
        [
            ("here", ADDRS.code.get(), 2),
            ("branches", ADDRS.code.get() + 2, 20)
        ]
    );
    for name in ["at_PC8", "absent", "far"] {
        assert_eq!(memory.0.symbol(name).is_some(), name == "at_PC8");
    }
}

#[test]
fn what_cannot_be_reached_is_an_error_with_the_place() {
    let bytes = object("relocations");
    let layout = Object::parse(&bytes).unwrap().layout().unwrap();
    assert_eq!(
        layout.reach(),
        ImageReach::Anywhere,
        "its 32-bit addresses are those of others"
    );
    let with = |far_name: &'static str, far: u64| {
        let resolve = move |name: &str| {
            if name == far_name {
                Some(CodeAddr::new(far))
            } else {
                resolve(name)
            }
        };
        layout.link(&ADDRS, &resolve).unwrap_err()
    };
    let cases = [
        ("low", 0x1_0000_0000 - 2, "R_X86_64_32", "+0x30"),
        ("low", 0x8000_0000 - 3, "R_X86_64_32S", "+0x34"),
        ("byte", 0x1_0000, "R_X86_64_16", "+0x38"),
        ("byte", 0x100, "R_X86_64_8", "+0x3a"),
        (
            "near",
            ADDRS.data.get() + 0x43 + 0x8000_0000 - 7,
            "R_X86_64_PC32",
            "+0x43",
        ),
    ];
    for (symbol, addr, relocation, place) in cases {
        let error = with(symbol, addr);
        let text = error.to_string();
        assert!(
            matches!(error, image::Error::RelocationOutOfReach { .. }),
            "{text}"
        );
        assert!(
            text.starts_with(&format!("{relocation} at .data{place} ")),
            "{text}"
        );
        assert!(text.contains(&format!("`{symbol}` ({addr:#x})")), "{text}");
    }
    // One byte less is in reach.
    let resolve = |name: &str| match name {
        "low" => Some(CodeAddr::new(0x8000_0000 - 4)),
        "byte" => Some(CodeAddr::new(0xff - 5)),
        _ => resolve(name),
    };
    layout.link(&ADDRS, &resolve).unwrap();
}

#[test]
fn undefined_symbols_are_named_with_their_places() {
    let bytes = object("relocations");
    let layout = Object::parse(&bytes).unwrap().layout().unwrap();
    let error = layout.link(&ADDRS, &|_| None).unwrap_err();
    let text = error.to_string();
    for expected in [
        "`far` (for .text+0x3)",
        "`near` (for .text+0x8)",
        "`low` (for .data+0x30)",
        "`byte`",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    assert!(!text.contains("absent"), "weak: {text}");
}

#[test]
fn segments_that_cannot_be_there() {
    let bytes = object("relocations");
    let layout = Object::parse(&bytes).unwrap().layout().unwrap();
    let refused = |change: &dyn Fn(&mut SegmentAddrs), segment| {
        let mut addrs = ADDRS;
        change(&mut addrs);
        match layout.link(&addrs, &resolve) {
            Err(image::Error::SegmentMisplaced { segment: found, .. }) => assert_eq!(found, segment),
            other => panic!("{other:?}"),
        }
    };
    refused(
        &|addrs| addrs.data = CodeAddr::new(ADDRS.data.get() + 8),
        SegmentKind::Data,
    );
    refused(&|addrs| addrs.data = addrs.code, SegmentKind::Data);
    refused(
        &|addrs| addrs.data = CodeAddr::new(0x3fff_0000 + 0x8000_0000),
        SegmentKind::Data,
    );
    refused(
        &|addrs| addrs.code = CodeAddr::new(u64::MAX - 15),
        SegmentKind::Code,
    );
}

#[test]
fn static_code_must_be_low() {
    let objects = asm_tests::objects();
    let of = |llc, variant: &str| {
        objects
            .iter()
            .find(|o| o.source == "relocs" && o.llc == llc && o.level == 2 && o.variant == variant)
            .unwrap()
    };
    for (llc, variant, reach) in [
        (14, "", ImageReach::Low2GiB),
        (19, "", ImageReach::Low2GiB),
        (19, "pic-small", ImageReach::Anywhere),
        (14, "pic-large", ImageReach::Anywhere),
        (19, "static-large", ImageReach::Anywhere),
    ] {
        let layout = Object::parse(&of(llc, variant).bytes).unwrap().layout().unwrap();
        assert_eq!(layout.reach(), reach, "{llc} {variant}");
        let (addrs, _) = layout
            .contiguous(CodeAddr::new(0x7f00_0000_0000), Len::new(4096))
            .unwrap();
        let linked = layout.link(&addrs, &|_| Some(CodeAddr::new(0x7f00_1000_0000)));
        match linked {
            Ok(_) => assert_eq!(reach, ImageReach::Anywhere, "{llc} {variant}"),
            Err(image::Error::SegmentMisplaced { .. }) => {
                assert_eq!(reach, ImageReach::Low2GiB, "{llc} {variant}")
            }
            Err(error) => panic!("{llc} {variant}: {error}"),
        }
    }
}

#[test]
fn refusals_say_why() {
    let cases = [
        (
            "refuse_tls_access",
            "`variable` (R_X86_64_TPOFF32 at .text+0xc) is thread-local",
        ),
        (
            "refuse_ifunc",
            "symbol `choose` cannot be linked to: it is an indirect function",
        ),
        (
            "refuse_writable_code",
            "section .wx cannot be loaded: it would be writable and executable",
        ),
        (
            "refuse_huge",
            "the image needs at least 68719476736 bytes, more than the limit of 1073741824",
        ),
        (
            "refuse_huge_sum",
            "the image needs at least 805306368 bytes, more than the limit of 268435456",
        ),
        (
            "refuse_unloaded",
            "symbol `.comment` cannot be linked to: its section is not loaded",
        ),
        (
            "refuse_map_relative",
            "R_X86_64_PC32 at .llvm_stackmaps+0x0 cannot be applied: it is relative",
        ),
        (
            "refuse_dynamic",
            "R_X86_64_RELATIVE at .data+0x0 cannot be applied: it belongs into linked files",
        ),
    ];
    for (name, expected) in cases {
        let bytes = object(name);
        let linked = Object::parse(&bytes)
            .and_then(Object::layout)
            .and_then(|layout| layout.link(&ADDRS, &resolve));
        let text = linked.expect_err(name).to_string();
        assert!(text.starts_with(expected), "{name}: {text}");
    }
}

#[test]
fn every_object_links_and_its_stack_map_knows_the_functions() {
    for object in asm_tests::objects() {
        let layout = Object::parse(&object.bytes).unwrap().layout().unwrap();
        let (addrs, _) = layout
            .contiguous(CodeAddr::new(0x1000_0000), Len::new(4096))
            .unwrap();
        let linked = layout.link(&addrs, &|name| {
            (!name.contains("missing")).then_some(CodeAddr::new(0x2000_0000))
        });
        let image = linked
            .unwrap_or_else(|error| panic!("{}: {error}", object.name))
            .image;
        let maps = StackMaps::parse(&image.stack_maps, image.endian).unwrap();
        let mut records = 0;
        for function in maps.maps().iter().flat_map(|map| map.functions()) {
            let addr = CodeAddr::new(function.address());
            let found = image
                .function_at(addr)
                .unwrap_or_else(|| panic!("{}: {addr}", object.name));
            assert_eq!(found.addr, addr, "{}", object.name);
            for record in function.records().unwrap() {
                assert!(record.offset().get() <= found.len.get(), "{}", object.name);
                records += 1;
            }
        }
        assert!(records > 0 && !image.eh_frames.is_empty(), "{}", object.name);
    }
}

/// A partial link leaves two stack maps in one section, and both know their functions.
#[test]
fn concatenated_maps() {
    let bytes = object("partial");
    let layout = Object::parse(&bytes).unwrap().layout().unwrap();
    let (addrs, _) = layout
        .contiguous(CodeAddr::new(0x1000_0000), Len::new(4096))
        .unwrap();
    let linked = layout.link(&addrs, &resolve).unwrap();
    let maps = StackMaps::parse(&linked.image.stack_maps, linked.image.endian).unwrap();
    assert_eq!(maps.maps().len(), 2);
    let functions: Vec<_> = maps.maps().iter().flat_map(|map| map.functions()).collect();
    assert_eq!(functions.len(), linked.image.functions.len());
    for function in functions {
        let addr = CodeAddr::new(function.address());
        assert!(linked.image.functions.iter().any(|known| known.addr == addr));
    }
    assert_eq!(linked.image.functions.len(), 11);
}

/// A function without a size reaches to the next function's address or its section's end.
#[test]
fn functions_without_a_size() {
    let bytes = object("sizes");
    let layout = Object::parse(&bytes).unwrap().layout().unwrap();
    let image = layout.link(&ADDRS, &resolve).unwrap().image;
    let functions: Vec<_> = image
        .functions
        .iter()
        .map(|f| (f.name.as_str(), f.addr.get() - ADDRS.code.get(), f.len.get()))
        .collect();
    let expected = [
        ("first", 0, 3),
        ("second", 3, 2),
        ("second_alias", 3, 13),
        ("last", 16, 2),
        ("other", 18, 1),
    ];
    assert_eq!(functions, expected);
}
