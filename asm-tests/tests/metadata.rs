//! PC sections of objects that LLVM 19 made for every architecture, linked on this machine whatever
//! it is.
//!
//! What an entry says is compared with what the object says in another way: the marked instruction
//! stores to a symbol with the number that is its first constant, and has that relocation; a
//! function has its symbol's address and size.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::Arch;
use patchpoint::image::{ImageReach, LinkedImage, Object, SegmentAddrs};
use patchpoint::metadata::{Covered, IntegerSize, PcSection, PcSectionShape};
use patchpoint::stackmap::Endian;

const BASES: [CodeAddr; 2] = [CodeAddr::new(0x1000_0000), CodeAddr::new(0x7f12_3450_0000)];

struct Linked {
    image: LinkedImage,
    /// Name, address and size of each section that has been placed.
    sections: Vec<(String, CodeAddr, usize)>,
    /// The addresses of relocations, with their symbols.
    relocations: Vec<(CodeAddr, String)>,
}

fn link(bytes: &[u8], base: CodeAddr) -> Linked {
    let layout = Object::parse(bytes).unwrap().layout().unwrap();
    // RISC-V's static code reaches its symbols there only, too.
    let low = layout.reach() == ImageReach::Low2GiB || layout.graph().arch() == Arch::RiscV64;
    let base = if low { BASES[0] } else { base };
    let (addrs, _) = layout.contiguous(base, Len::new(1 << 16)).unwrap();
    let (mut sections, mut relocations) = (Vec::new(), Vec::new());
    for (index, section) in layout.graph().sections().iter().enumerate() {
        let Some(addr) = layout.section_addr(index, &addrs) else {
            continue;
        };
        sections.push((section.name().to_owned(), addr, section.size() as usize));
        for edge in section.edges() {
            let symbol = &layout.graph().symbols()[edge.target().index()];
            let at = addr.plus(Len::new(edge.offset())).unwrap();
            relocations.push((at, symbol.name().to_owned()));
        }
    }
    let near = |addrs: &SegmentAddrs| CodeAddr::new(addrs.data.get() + 0x8_0000);
    let resolve = |_: &str| Some(near(&addrs));
    let image = layout.link(&addrs, &resolve).unwrap();
    Linked {
        image,
        sections,
        relocations,
    }
}

impl Linked {
    fn section(&self, name: &str) -> (CodeAddr, &[u8]) {
        let (_, addr, size) = self.sections.iter().find(|section| section.0 == name).unwrap();
        let holds = |start: CodeAddr, len: usize| addr.is_within(start, Len::new(len as u32));
        let segment = self
            .image
            .segments
            .iter()
            .find(|segment| holds(segment.addr, segment.bytes.len()));
        let segment = segment.unwrap();
        let at = addr.distance_from(segment.addr) as usize;
        (*addr, &segment.bytes[at..at + size])
    }

    fn endian(&self) -> Endian {
        self.image.image.endian
    }

    /// The number of the symbol to which the instruction at `pc` stores: its relocation is in it,
    /// or, where it stores through an address that was loaded whole just before, ends where it
    /// begins.
    fn marked(&self, pc: CodeAddr, whole: bool) -> u64 {
        let at = |(addr, name): &(CodeAddr, String)| {
            let distance = addr.distance_from(pc);
            let here = if whole {
                distance == -8
            } else {
                (0..4).contains(&distance)
            };
            here.then(|| name.strip_prefix("mark_")?.parse().ok()).flatten()
        };
        let mut found = self.relocations.iter().filter_map(at);
        let number = found
            .next()
            .unwrap_or_else(|| panic!("nothing is marked at {pc}"));
        assert_eq!(found.next(), None);
        number
    }

    fn function(&self, name: &str) -> (CodeAddr, u64) {
        let functions = &self.image.image.functions;
        let function = functions.iter().find(|function| function.name == name).unwrap();
        (function.addr, u64::from(function.len.get()))
    }
}

/// Every object, at two addresses.
fn for_all(mut check: impl FnMut(&str, &Linked)) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("objects/metadata");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "o"))
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("pc_sections.")
        })
        .collect();
    names.sort();
    assert_eq!(names.len(), 8);
    for path in names {
        let name = path.file_name().unwrap().to_str().unwrap();
        for base in BASES {
            check(name, &link(&std::fs::read(&path).unwrap(), base));
        }
    }
}

/// The large model's store is of an address in a register.
fn whole(name: &str) -> bool {
    name.contains("large")
}

/// Whether addresses have pointer size.
fn shape(name: &str, linked: &Linked, shape: PcSectionShape) -> PcSectionShape {
    let power = linked.image.image.arch.is_powerpc64();
    if whole(name) || power { shape.wide() } else { shape }
}

/// Of each entry: its marked numbers, and its constants.
fn entries(name: &str, linked: &Linked, section: &str, shape: &PcSectionShape) -> Vec<(Vec<u64>, Vec<u64>)> {
    let (base, bytes) = linked.section(section);
    let parsed = PcSection::parse(bytes, base, linked.endian(), shape).unwrap();
    let entries = parsed.entries();
    assert_eq!(entries.len(), entries.clone().count());
    entries
        .map(|entry| {
            let numbers = entry.pcs().map(|pc| linked.marked(pc, whole(name)));
            (numbers.collect(), entry.constants().collect())
        })
        .collect()
}

fn four(shape: PcSectionShape) -> PcSectionShape {
    let shape = shape.constant(IntegerSize::Eight).constant(IntegerSize::Four);
    shape.constant(IntegerSize::One).constant(IntegerSize::Two)
}

#[test]
fn instructions_are_where_the_relocations_are() {
    for_all(|name, linked| {
        let plain = shape(name, linked, four(PcSectionShape::instructions()));
        let mut found = entries(name, linked, "pp_calls", &plain);
        found.sort();
        let expected = [
            (vec![1], vec![1, 300, 5, 258]),
            (vec![2], vec![2, 0xffff_ffff, 255, 127]),
        ];
        assert_eq!(found, expected, "{name}");
        let bare = shape(name, linked, PcSectionShape::instructions());
        assert_eq!(
            entries(name, linked, "pp_pcs", &bare),
            [(vec![1], vec![])],
            "{name}"
        );
    });
}

#[test]
fn compressed_constants() {
    for_all(|name, linked| {
        let compressed = shape(name, linked, four(PcSectionShape::instructions()).compressed());
        let expected = [
            (vec![2], vec![2, 0xffff_ffff, 255, 127]),
            (vec![3], vec![3, 128, 128, 0xffff]),
        ];
        assert_eq!(
            entries(name, linked, "pp_calls_c", &compressed),
            expected,
            "{name}"
        );
    });
}

#[test]
fn instructions_that_share_a_node_make_one_entry() {
    for_all(|name, linked| {
        let shared = PcSectionShape::instructions()
            .sharing(2)
            .constant(IntegerSize::Eight);
        let shared = shape(name, linked, shared);
        assert_eq!(
            entries(name, linked, "pp_shared", &shared),
            [(vec![4, 5], vec![4])],
            "{name}"
        );
    });
}

#[test]
fn functions_have_their_symbols_address_and_size() {
    for_all(|name, linked| {
        let plain = PcSectionShape::functions()
            .constant(IntegerSize::Four)
            .constant(IntegerSize::One);
        let widths = [IntegerSize::Eight, IntegerSize::One, IntegerSize::Four];
        let compressed = widths
            .into_iter()
            .fold(PcSectionShape::functions().compressed(), PcSectionShape::constant);
        for (section, of, constants, function) in [
            ("pp_functions", plain, vec![7, 9], "plain"),
            ("pp_functions_c", compressed, vec![70_000, 200, 128], "compressed"),
        ] {
            let of = shape(name, linked, of);
            let (base, bytes) = linked.section(section);
            let parsed = PcSection::parse(bytes, base, linked.endian(), &of).unwrap();
            let entries: Vec<_> = parsed.entries().collect();
            assert_eq!(entries.len(), 1, "{name}");
            let found = (entries[0].pc().unwrap(), entries[0].function_size().unwrap());
            // The size of a symbol may count the nops that follow; LLVM's does not.
            assert_eq!(found, linked.function(function), "{name}");
            assert_eq!(entries[0].constants().collect::<Vec<_>>(), constants, "{name}");
        }
    });
}

#[test]
fn the_sanitizers_tables() {
    let object = include_bytes!("../objects/metadata/covered.x86_64.o");
    let linked = link(object, BASES[1]);
    let (base, bytes) = linked.section("sanmd_covered2");
    let covered = Covered::parse(bytes, base, Endian::Little, false).unwrap();
    let found: Vec<_> = covered
        .functions()
        .map(|function| {
            let features = (
                function.features.has_atomics(),
                function.features.has_use_after_return(),
            );
            (
                (function.entry, function.size),
                features,
                function.stack_arguments,
            )
        })
        .collect();
    // clang's assembly has the features 0, 1 and 7, and 64 bytes of arguments.
    let expected = [
        (linked.function("plain"), (false, false), None),
        (linked.function("atomic"), (true, false), None),
        (linked.function("on_the_stack"), (true, true), Some(64)),
    ];
    assert_eq!(found, expected);

    let (base, bytes) = linked.section("sanmd_atomics2");
    let shape = PcSectionShape::instructions();
    let atomics = PcSection::parse(bytes, base, Endian::Little, &shape).unwrap();
    let (entry, size) = linked.function("atomic");
    let inside = |pc: CodeAddr| pc.is_within(entry, Len::new(size as u32));
    let pcs: Vec<_> = atomics.entries().filter_map(|entry| entry.pc()).collect();
    assert_eq!(pcs.len(), 2);
    assert!(pcs.iter().copied().all(inside), "{pcs:?}");
}
