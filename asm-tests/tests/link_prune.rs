//! Taking out what no root refers to, from objects of every architecture that have each function in
//! a section of its own: what is left is what the root's relocations reach, with the unwind
//! information and stack map records that it had before.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use asm_tests::frames;
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::deopt::UnwindInfo;
use patchpoint::image::{Definition, Graph, LinkedImage, Object, SectionRole};
use patchpoint::stackmap::StackMaps;

const BASE: CodeAddr = CodeAddr::new(0x1000_0000);

fn objects() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("objects/link/functions");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap();
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}

fn link(graph: Graph<'_>) -> LinkedImage {
    let layout = graph.layout().unwrap();
    let (addrs, _) = layout.contiguous(BASE, Len::new(4096)).unwrap();
    let outside = |_: &str| Some(CodeAddr::new(0x1100_0000));
    layout.link(&addrs, &outside).unwrap()
}

/// The functions in the sections of code that a function refers to, without what tables say.
fn reached(graph: &Graph<'_>, root: &str) -> BTreeSet<String> {
    let section_of = |index: usize| match graph.symbols()[index].definition() {
        Definition::Section(id, _) => Some(id.index()),
        _ => None,
    };
    let root = (0..graph.symbols().len()).find(|index| graph.symbols()[*index].name() == root);
    let (mut seen, mut waiting) = (BTreeSet::new(), vec![section_of(root.unwrap()).unwrap()]);
    while let Some(section) = waiting.pop() {
        let role = graph.sections()[section].role();
        if matches!(role, SectionRole::EhFrame | SectionRole::StackMaps) || !seen.insert(section) {
            continue;
        }
        let edges = graph.sections()[section].edges().iter();
        waiting.extend(edges.filter_map(|edge| section_of(edge.target().index())));
    }
    let code = |index: &usize| graph.sections()[*index].role() == SectionRole::Code;
    let names = seen
        .iter()
        .filter(|index| code(index))
        .map(|index| graph.sections()[*index].name().trim_start_matches(".text."));
    names.map(str::to_owned).collect()
}

/// What is known of a function that does not depend on where it is.
#[derive(Debug, PartialEq)]
struct FunctionFacts {
    records: Vec<(u64, u32, String)>,
    unwinds: bool,
}

fn known(linked: &LinkedImage, name: &str) -> FunctionFacts {
    let image = &linked.image;
    let function = image.functions.iter().find(|function| function.name == name);
    let function = function.unwrap_or_else(|| panic!("{name}"));
    let maps = StackMaps::parse(&image.stack_maps, image.endian).unwrap();
    let mut records = Vec::new();
    let mut constants = Vec::new();
    for map in maps.maps() {
        constants.extend(map.constants().iter());
        for found in map.functions() {
            if found.address() == function.addr.get() {
                records.extend(found.records().unwrap().map(|record| {
                    let locations: Vec<_> = record.locations().collect();
                    (
                        record.id().get(),
                        record.offset().get(),
                        format!("{locations:?} {constants:?}"),
                    )
                }));
            }
        }
    }
    let infos = image.eh_frames.iter();
    let unwinds = infos
        .map(|frame| UnwindInfo::for_arch(image.arch, frame.addr, &frame.bytes).unwrap())
        .any(|info| info.can_return(function.addr).is_ok());
    FunctionFacts { records, unwinds }
}

#[test]
fn what_is_left_is_what_the_root_refers_to() {
    let (mut all, mut left) = (0, 0);
    for (path, bytes) in objects() {
        let graph = || Graph::new("it", Object::parse(&bytes).unwrap());
        let whole = link(graph());
        for function in whole
            .image
            .functions
            .iter()
            .filter(|f| whole.symbol(&f.name).is_some())
        {
            let expected = reached(&graph(), &function.name);
            let mut pruned = graph();
            pruned.prune([function.name.as_str()]).unwrap();
            let pruned = link(pruned);
            let name = format!("{}, {}", path.display(), function.name);
            let found: BTreeSet<_> = pruned
                .image
                .functions
                .iter()
                .map(|function| function.name.clone())
                .collect();
            assert_eq!(found, expected, "{name}");
            let mut unwinding = 0;
            for live in &found {
                assert_eq!(known(&pruned, live), known(&whole, live), "{name}: {live}");
                unwinding += usize::from(known(&pruned, live).unwinds);
            }
            assert_eq!(frames::entries(&pruned.image), unwinding, "{name}");
            let maps = StackMaps::parse(&pruned.image.stack_maps, pruned.image.endian).unwrap();
            for function in maps.maps().iter().flat_map(|map| map.functions()) {
                let addr = CodeAddr::new(function.address());
                assert!(
                    pruned.image.functions.iter().any(|live| live.addr == addr),
                    "{name}: {addr}"
                );
            }
            all += whole.image.functions.len();
            left += found.len();
        }
    }
    println!("{left} of {all} functions are left");
    assert!(left * 2 < all, "{left} {all}");
}

/// The code of a file by itself is that of the graph of several when nothing of the others is
/// needed.
#[test]
fn other_files_go() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("objects/link/c/x86_64-gcc-O2-functions");
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let files = ["first.o", "second.o", "third.o"].map(|name| (name, read(name)));
    let mut graph = Graph::new(files[0].0, Object::parse(&files[0].1).unwrap());
    for (name, bytes) in &files[1..] {
        graph.add(*name, Object::parse(bytes).unwrap()).unwrap();
    }
    graph.prune(["length"]).unwrap();
    let linked = link(graph);
    let names: Vec<_> = linked.image.functions.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["length"]);
    assert_eq!(
        linked.symbols().map(|(name, _)| name).collect::<Vec<_>>(),
        ["length"]
    );
    assert_eq!(frames::entries(&linked.image), 1);
    assert!(
        linked
            .segments
            .iter()
            .map(|segment| segment.size.as_usize())
            .sum::<usize>()
            < 200
    );
}

/// What is taken out need not be resolved, and cannot be named.
#[test]
fn a_root_must_be_defined() {
    let (_, bytes) = objects().remove(0);
    let mut graph = Graph::new("it", Object::parse(&bytes).unwrap());
    let error = graph.prune(["nowhere"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`nowhere` is to be kept with all it needs, but no object defines it"
    );
}
