//! Loads from the global offset table in real objects of AArch64 and RISC-V, before and after
//! relaxation: what the instructions give, by a decoder of this file's own, is the same address,
//! and they are rewritten wherever that is in reach and the ABI allows it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::path::{Path, PathBuf};

use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::Arch;
use patchpoint::image::{Graph, Layout, LinkedImage, Object, Section, SectionRole, SegmentAddrs, relax};

const BASE: u64 = 0x1000_0000;

/// By the folders' first letters; of those with thread-local storage none is loaded.
fn objects(folder: &str, prefix: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("objects").join(folder);
    let entries = |path: &Path| {
        std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let mut found = Vec::new();
    for path in entries(&root) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name.starts_with(prefix) {
            found.extend(entries(&path));
        } else if name.starts_with(prefix) {
            found.push(path);
        }
    }
    found.retain(|path| path.extension().is_some_and(|it| it == "o") && !path.ends_with("tls.o"));
    found.sort();
    found
}

/// Half of all names are out of reach.
fn outside(name: &str) -> u64 {
    let sum: u64 = name.bytes().map(u64::from).sum();
    if sum % 2 == 0 {
        BASE + 0x40_0000 + sum * 16
    } else {
        0x1234_5678_0000 + sum * 16
    }
}

struct Linked<'l> {
    layout: Layout<'l>,
    addrs: SegmentAddrs,
    kept: LinkedImage,
    relaxed: LinkedImage,
}

fn linked(bytes: &[u8]) -> Linked<'_> {
    let layout = Graph::new("it", Object::parse(bytes).unwrap()).layout().unwrap();
    let (addrs, _) = layout.contiguous(CodeAddr::new(BASE), Len::new(4096)).unwrap();
    let resolve = |name: &str| Some(CodeAddr::new(outside(name)));
    let kept = layout.link(&addrs, &resolve).unwrap();
    let mut resolved = layout.clone().allocate(addrs).unwrap().resolve(resolve).unwrap();
    relax(&mut resolved).unwrap();
    let relaxed = resolved.link().unwrap();
    Linked {
        layout,
        addrs,
        kept,
        relaxed,
    }
}

fn bytes<const N: usize>(image: &LinkedImage, addr: u64) -> [u8; N] {
    let holds = |start: u64, len: usize| (start..start + len as u64).contains(&addr);
    let segment = image
        .segments
        .iter()
        .find(|segment| holds(segment.addr.get(), segment.bytes.len()));
    let segment = segment.unwrap_or_else(|| panic!("nothing at {addr:#x}"));
    *segment.bytes[(addr - segment.addr.get()) as usize..]
        .first_chunk()
        .unwrap()
}

fn word(image: &LinkedImage, addr: u64) -> u32 {
    u32::from_le_bytes(bytes(image, addr))
}

fn sign(value: u64, bits: u32) -> u64 {
    ((value << (64 - bits)) as i64 >> (64 - bits)) as u64
}

/// What `adrp` at the address and the instruction behind it leave in their register.
fn aarch64(image: &LinkedImage, at: u64) -> u64 {
    let (first, second) = (word(image, at), word(image, at + 4));
    let distance = |word: u32| sign(u64::from((word >> 5 & 0x7_ffff) << 2 | word >> 29 & 3), 21);
    let page = (at & !0xfff).wrapping_add(distance(first) << 12);
    let number = u64::from(second >> 10 & 0xfff);
    match (first >> 24 & 0x9f, second >> 22) {
        (0x90, 0x3e5) => u64::from_le_bytes(bytes(image, page + 8 * number)),
        (0x90, 0x244) => page + number,
        _ if first == 0xd503_201f && second >> 24 & 0x9f == 0x10 => (at + 4).wrapping_add(distance(second)),
        _ => panic!("{first:#x}, {second:#x} at {at:#x}"),
    }
}

/// What `auipc` at one address and the instruction at the other leave in the register of that.
fn riscv64(image: &LinkedImage, upper: u64, lower: u64) -> u64 {
    let (first, second) = (word(image, upper), word(image, lower));
    assert_eq!((first & 0x7f, first >> 7 & 0x1f), (0x17, second >> 15 & 0x1f));
    let addr = upper
        .wrapping_add(sign(u64::from(first & !0xfff), 32))
        .wrapping_add(sign(u64::from(second >> 20), 12));
    match second & 0x707f {
        0x3003 => u64::from_le_bytes(bytes(image, addr)),
        0x13 => addr,
        _ => panic!("{second:#x} at {lower:#x}"),
    }
}

/// The places of the loads of a section: both instructions.
fn loads(arch: Arch, layout: &Layout<'_>, section: &Section<'_>) -> Vec<(u32, u32)> {
    let of = |number| {
        section
            .edges()
            .iter()
            .filter(move |edge| edge.relocation().number() == number)
    };
    if arch == Arch::AArch64 {
        // Those that the compiler has put next to each other.
        let low = |at: u32, target| of(312).any(|edge| edge.offset() == at + 4 && edge.target() == target);
        let pages = of(311).filter(|edge| low(edge.offset(), edge.target()));
        return pages.map(|edge| (edge.offset(), edge.offset() + 4)).collect();
    }
    let uppers: Vec<u32> = of(20).map(|edge| edge.offset()).collect();
    let lows = of(24).filter_map(
        |edge| match layout.graph().symbols()[edge.target().index()].definition() {
            patchpoint::image::Definition::Section(_, upper) => Some((upper, edge.offset())),
            _ => None,
        },
    );
    lows.filter(|(upper, _)| uppers.contains(upper)).collect()
}

/// Whether the compiler allows a linker of RISC-V code to rewrite the instruction.
fn is_marked(section: &Section<'_>, at: u64) -> bool {
    let mut edges = section.edges().iter();
    edges.any(|edge| edge.relocation().number() == 51 && u64::from(edge.offset()) == at)
}

/// How many loads of an object are rewritten, and how many not.
fn compare(path: &Path) -> (usize, usize) {
    let file = std::fs::read(path).unwrap();
    let Linked {
        layout,
        addrs,
        kept,
        relaxed,
    } = linked(&file);
    let graph = layout.graph();
    let (mut rewritten, mut left) = (0, 0);
    for (id, section) in graph.section_ids().zip(graph.sections()) {
        let Some(start) = layout.section_addr(id.index(), &addrs) else {
            continue;
        };
        if section.role() != SectionRole::Code || section.name() == ".stubs" {
            continue;
        }
        for (first, second) in loads(graph.arch(), &layout, section) {
            let (first, second) = (start.get() + u64::from(first), start.get() + u64::from(second));
            let gives = |image| match graph.arch() {
                Arch::AArch64 => aarch64(image, first),
                _ => riscv64(image, first, second),
            };
            let addr = gives(&kept);
            assert_eq!(gives(&relaxed), addr, "{} at {first:#x}", path.display());
            let changed = bytes::<4>(&kept, second) != bytes::<4>(&relaxed, second);
            let (page, load) = (word(&kept, first) & 0x1f, word(&kept, second));
            let may_be = match graph.arch() {
                Arch::AArch64 => load & 0x3ff == page << 5 | page,
                _ => [first, second]
                    .iter()
                    .all(|at| is_marked(section, at - start.get())),
            };
            let reached = may_be && addr.abs_diff(first) < 1 << 30;
            assert_eq!(changed, reached, "{} at {first:#x}: {addr:#x}", path.display());
            if changed { rewritten += 1 } else { left += 1 }
        }
    }
    (rewritten, left)
}

#[test]
fn relaxed_code_gives_the_same_addresses() {
    for (folder, prefix, at_least) in [
        ("jitlink_c", "aarch64-clang-pic", (40, 5)),
        ("jitlink_c", "aarch64-gcc-pic", (20, 5)),
        // LLVM 19 marks only the second of both instructions.
        ("link/riscv64", "", (0, 5)),
    ] {
        let counts = objects(folder, prefix).into_iter().map(|path| compare(&path));
        let (rewritten, left) = counts.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
        println!("{folder}/{prefix}: {rewritten} loads rewritten, {left} left");
        assert!(
            rewritten >= at_least.0 && left >= at_least.1,
            "{folder}: {rewritten} {left}"
        );
    }
}
