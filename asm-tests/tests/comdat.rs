//! Inline functions that several objects have a copy of: linked together, one is left, with its
//! unwind information and its stack map records; and programs made of such objects do what the
//! system's linker makes of them.
#![allow(unsafe_code, reason = "the point is to run the code")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::BTreeMap;

use asm_tests::files::{self, Files};
use asm_tests::frames;
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::deopt::UnwindInfo;
use patchpoint::image::{Graph, Image, LinkedImage, Object, Scope, Selection};
use patchpoint::stackmap::StackMaps;

const FOLDER: &str = "link/comdat";
const BASE: CodeAddr = CodeAddr::new(0x1000_0000);

fn link(graph: Graph<'_>) -> LinkedImage {
    let layout = graph.layout().unwrap();
    let (addrs, _) = layout.contiguous(BASE, Len::new(4096)).unwrap();
    let outside = |_: &str| Some(CodeAddr::new(0x1100_0000));
    layout.link(&addrs, &outside).unwrap()
}

/// The functions that unwind information is for, by their addresses; the number of entries they
/// have.
fn unwound(image: &Image) -> (usize, Vec<&str>) {
    let infos: Vec<_> = image
        .eh_frames
        .iter()
        .map(|frame| UnwindInfo::for_arch(image.arch, frame.addr, &frame.bytes).unwrap())
        .collect();
    let functions = image.functions.iter();
    let unwound = functions
        .filter(|function| infos.iter().any(|info| info.can_return(function.addr).is_ok()))
        .map(|function| function.name.as_str());
    (frames::entries(image), unwound.collect())
}

/// How often each function is defined, over all files by themselves, and whether its frames can be
/// left.
fn copies(set: &Files) -> BTreeMap<String, (usize, bool)> {
    let mut copies = BTreeMap::new();
    for (_, bytes) in &set.files {
        let linked = link(Graph::new("alone", Object::parse(bytes).unwrap()));
        let (_, unwound) = unwound(&linked.image);
        for function in &linked.image.functions {
            let copy = copies.entry(function.name.clone()).or_insert((0, true));
            copy.0 += 1;
            copy.1 = unwound.contains(&function.name.as_str());
        }
    }
    copies
}

#[test]
fn one_copy_is_left_with_its_unwind_information() {
    let (mut sets, mut shared, mut left) = (0, 0, 0);
    for set in files::sets(FOLDER) {
        let copies = copies(&set);
        for backwards in [false, true] {
            let linked = link(set.graph(backwards));
            let functions = &linked.image.functions;
            let (entries, unwound) = unwound(&linked.image);
            for (name, (count, unwinds)) in &copies {
                let found = functions.iter().filter(|function| function.name == *name).count();
                assert_eq!(found, 1, "{}: {name}, of {count}", set.name);
                assert_eq!(unwound.contains(&name.as_str()), *unwinds, "{}: {name}", set.name);
                shared += count - 1;
            }
            assert_eq!(functions.len(), copies.len(), "{}", set.name);
            // Several names may stand for one function.
            let mut places: Vec<_> = functions.iter().map(|function| function.addr).collect();
            places.dedup();
            assert_eq!(entries, places.len(), "{}", set.name);
            left += unwound.len();
        }
        sets += 1;
    }
    println!("{sets} sets, {shared} copies left out, {left} unwind");
    assert!(
        sets >= 18 && shared >= 100 && left >= 200,
        "{sets} {shared} {left}"
    );
}

#[test]
fn records_are_those_of_the_copy_that_is_left() {
    let mut sets = 0;
    for set in files::sets(FOLDER) {
        if !set.name.starts_with("sites-") {
            continue;
        }
        let linked = link(set.graph(false));
        let image = &linked.image;
        let maps = StackMaps::parse(&image.stack_maps, image.endian).unwrap();
        let mut found = BTreeMap::new();
        for function in maps.maps().iter().flat_map(|map| map.functions()) {
            let at = image.function_at(CodeAddr::new(function.address())).unwrap();
            let ids: Vec<_> = function
                .records()
                .unwrap()
                .map(|record| record.id().get())
                .collect();
            assert_eq!(found.insert(at.name.as_str(), ids), None, "{}", set.name);
        }
        let expected = [("one", vec![3]), ("shared", vec![1, 2]), ("two", vec![3])];
        assert_eq!(found, expected.into(), "{}", set.name);
        sets += 1;
    }
    assert_eq!(sets, 5);
}

/// What is not needed goes, a group as a whole.
#[test]
fn groups_are_pruned_as_a_whole() {
    let sets = files::sets(FOLDER);
    let set = sets.iter().find(|set| set.name == "x86_64-gcc-O2").unwrap();
    let mut graph = set.graph(false);
    let of = |graph: &Graph<'_>, name: &str| {
        let group = graph.groups().iter().find(|group| group.name() == name).unwrap();
        assert_eq!((group.file(), group.selection()), (0, Some(Selection::Any)));
        let sections = group.sections().iter();
        sections
            .map(|id| graph.sections()[id.index()].size())
            .collect::<Vec<_>>()
    };
    let [guarded, area] = [of(&graph, "_Z7guardedl"), of(&graph, "_ZN6Square4areaEl")];
    assert!(guarded.len() == 2 && !guarded.contains(&0), "{guarded:?}");
    graph.prune(["_Z7guardedl"]).unwrap();
    assert_eq!(of(&graph, "_Z7guardedl"), guarded);
    assert_ne!(of(&graph, "_ZN6Square4areaEl"), area);
    let linked = link(graph);
    let names: Vec<_> = linked.image.functions.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["_ZN5GuardD1Ev", "_ZN5GuardD2Ev", "_Z7guardedl"]);
}

/// Nothing that was left out can be named any more, nor is it seen.
#[test]
fn what_is_left_out_is_a_reference() {
    let sets = files::sets(FOLDER);
    let set = sets.iter().find(|set| set.name == "x86_64-clang-O2").unwrap();
    let graph = set.graph(false);
    let shared = graph
        .symbols()
        .iter()
        .filter(|symbol| symbol.name() == "_Z7guardedl");
    let seen: Vec<_> = shared.map(|symbol| (symbol.file(), symbol.scope())).collect();
    assert_eq!(seen, [(0, Scope::Exported), (1, Scope::Local)]);
    assert!(
        graph
            .groups()
            .iter()
            .all(|group| group.file() == 0 || group.name() != "_Z7guardedl")
    );
}

#[cfg(target_os = "linux")]
extern "C" fn outside(x: i64) -> i64 {
    x + 1
}

#[cfg(target_os = "linux")]
#[test]
fn programs_with_inline_functions_run() {
    use patchpoint::Engine;
    use patchpoint::publish::SingleThreaded;

    let (mut programs, expected) = (0, files::expected(FOLDER));
    for set in files::sets(FOLDER).iter().filter(|set| set.is_native()) {
        for backwards in [false, true] {
            // SAFETY: the engine is used by this thread alone.
            let world = unsafe { SingleThreaded::promise() };
            let engine = Engine::builder().world(world).build().unwrap();
            let resolve = |name: &str| {
                let outside = outside as extern "C" fn(i64) -> i64 as usize as u64;
                // Nothing is thrown: nobody calls the unwinder's functions.
                let addr = if name == "outside" { outside } else { 0x1000 };
                Some(CodeAddr::new(addr))
            };
            let code = engine.load_graph(set.graph(backwards), resolve).unwrap();
            let run = code.symbol("run").unwrap().get() as usize;
            // SAFETY: it is a C function of that type, loaded and not unloaded before the last call.
            let run = unsafe { core::mem::transmute::<usize, extern "C" fn(i64) -> i64>(run) };
            let found: Vec<_> = (0..10).map(|x| run(x)).collect();
            assert_eq!(found, expected, "{}", set.name);
            programs += 1;
        }
    }
    println!("{programs} programs");
    assert!(programs >= 4, "{programs}");
}
