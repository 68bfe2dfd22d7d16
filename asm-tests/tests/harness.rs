//! Functions of built objects, tested with other callees than they were built with: C objects of
//! several compilers, with harnesses in C and in Rust.
#![allow(unsafe_code, reason = "the point is to run the code")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use asm_tests::files::{self, Files};
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::image::{Graph, Interposed, LinkedImage, Object, Replaced, bypasses};

const FOLDER: &str = "harness";

fn tested(set: &Files) -> Graph<'_> {
    let file = |name| (name, set.file(name));
    files::graph(&[file("parser.o"), file("blocks.o")]).unwrap()
}

fn harness<'a>(set: &'a Files, name: &str) -> Graph<'a> {
    Graph::new(name, Object::parse(set.file(name)).unwrap())
}

fn joined<'a>(set: &'a Files, name: &str) -> (Graph<'a>, Interposed) {
    let mut graph = tested(set);
    let done = graph.add_harness(harness(set, name));
    let done = done.unwrap_or_else(|error| panic!("{}: {error}", set.name));
    (graph, done)
}

fn link(graph: Graph<'_>) -> LinkedImage {
    let layout = graph.layout().unwrap();
    let (addrs, _) = layout
        .contiguous(CodeAddr::new(0x1000_0000), Len::new(4096))
        .unwrap();
    let outside = |_: &str| Some(CodeAddr::new(0x1100_0000));
    layout.link(&addrs, &outside).unwrap()
}

fn replaced(done: &Interposed) -> Vec<(&str, &str, bool)> {
    let of = |one: &'_ Replaced| (one.local, one.uses > 0);
    done.replaced
        .iter()
        .map(|one| (one.symbol.as_str(), one.file.as_str(), of(one)))
        .map(|(symbol, file, (local, _))| (symbol, file, local))
        .collect()
}

#[test]
fn what_is_replaced_supplied_and_reached_is_told() {
    let mut sets = 0;
    for set in files::sets(FOLDER) {
        let (graph, done) = joined(&set, "mocks.o");
        let mut found = replaced(&done);
        found.sort_unstable();
        let expected = [("read_block", "blocks.o", false), ("weight", "parser.o", false)];
        assert_eq!(found, expected, "{}", set.name);
        assert!(
            done.replaced.iter().all(|one| one.uses == 1),
            "{}: {done:?}",
            set.name
        );
        let (mut supplied, mut reached) = (done.supplied.clone(), done.reached.clone());
        supplied.sort_unstable();
        reached.sort_unstable();
        assert_eq!(supplied, ["free", "malloc"], "{}", set.name);
        assert_eq!(reached, ["checksum", "failures"], "{}", set.name);
        // Compilers leave an edge for each use of what is not local.
        assert_eq!(bypasses(&graph, &done), [], "{}", set.name);
        assert_eq!(graph.files(), ["parser.o", "blocks.o", "mocks.o"]);
        let linked = link(graph);
        assert!(linked.symbol("checksum").is_some() && linked.symbol("failures").is_some());
        assert_eq!(linked.symbol("fail"), None, "nobody asked for it");
        sets += 1;
    }
    println!("{sets} sets");
    assert!(sets >= 20, "{sets}");
}

/// A use of a local function has an edge, or is reported.
#[test]
fn uses_of_local_functions_are_redirected_or_reported() {
    let (mut redirected, mut reported) = (0, 0);
    for set in files::sets(FOLDER) {
        let (graph, done) = joined(&set, "local.o");
        let all = bypasses(&graph, &done);
        let mut found = replaced(&done);
        found.sort_unstable();
        let expected = [("checksum", "parser.o", true), ("too_large", "parser.o", true)];
        assert_eq!(found, expected, "{}", set.name);
        for one in &done.replaced {
            let bypasses = all.iter().filter(|bypass| bypass.symbol == one.symbol);
            let bypasses: Vec<_> = bypasses.collect();
            match one.symbol.as_str() {
                // Its address is in a table.
                "too_large" => assert_eq!((one.uses, bypasses.len()), (1, 0), "{}", set.name),
                _ => assert_eq!(one.uses + bypasses.len(), 1, "{}: {done:?}", set.name),
            }
            for bypass in bypasses {
                let place = (
                    bypass.caller.as_str(),
                    bypass.file.as_str(),
                    bypass.section.as_str(),
                );
                assert_eq!(place, ("parse", "parser.o", ".text"), "{}", set.name);
                reported += 1;
            }
            redirected += one.uses;
        }
        if set.name.ends_with("-functions") {
            assert_eq!(all, [], "{}", set.name);
        }
    }
    println!("{redirected} uses are redirected, {reported} are reported");
    assert!(redirected >= 30 && reported >= 4, "{redirected} {reported}");
}

/// Unwind information goes on speaking of the function that it was made for.
#[test]
fn tables_stay_with_what_is_replaced() {
    for set in files::sets(FOLDER) {
        let before = link(tested(&set)).image;
        let functions = |image: &patchpoint::image::Image| -> usize {
            let unwinds = |addr| {
                let infos = image.eh_frames.iter().map(|frame| {
                    patchpoint::deopt::UnwindInfo::for_arch(image.arch, frame.addr, &frame.bytes).unwrap()
                });
                infos.filter(|info| info.can_return(addr).is_ok()).count()
            };
            let tested = image
                .functions
                .iter()
                .filter(|function| before.functions.iter().any(|old| old.name == function.name));
            tested.map(|function| unwinds(function.addr)).sum()
        };
        let harness = link(harness(&set, "local.o")).image;
        let after = link(joined(&set, "local.o").0).image;
        assert_eq!(
            functions(&after),
            functions(&before) + functions(&harness),
            "{}",
            set.name
        );
    }
}

/// What counts no more is taken out like all that nobody needs.
#[test]
fn pruning_takes_out_what_was_replaced() {
    let sets = files::sets(FOLDER);
    let set = sets
        .iter()
        .find(|set| set.name == "x86_64-gcc-O2-functions")
        .unwrap();
    let (mut graph, _) = joined(set, "mocks.o");
    graph.prune(["test"]).unwrap();
    let linked = link(graph);
    let mut names: Vec<_> = linked.image.functions.iter().map(|f| f.name.as_str()).collect();
    names.sort_unstable();
    let expected = [
        "checksum",
        "fail",
        "free",
        "malloc",
        "no_memory",
        "parse",
        "read_block",
        "test",
        "too_large",
        "weight",
    ];
    assert_eq!(names, expected);
}

#[test]
fn what_cannot_be_told_apart_is_refused() {
    let sets = files::sets(FOLDER);
    let error = |set: &str, name: &str| {
        let set = sets.iter().find(|one| one.name == set).unwrap();
        let mut graph = tested(set);
        let before = format!("{:?} {:?}", graph.symbols(), graph.sections());
        let error = graph.add_harness(harness(set, name)).unwrap_err().to_string();
        assert_eq!(format!("{:?} {:?}", graph.symbols(), graph.sections()), before);
        assert_eq!(graph.files().len(), 2);
        error
    };
    assert_eq!(
        error("x86_64-gcc-O0", "clash.o"),
        "`fail` is local to both parser.o and blocks.o: test them in graphs of their own, or rename one"
    );
    // In -O2, and with sections of their own, there is no other variable beside it.
    let set = sets.iter().find(|set| set.name == "x86_64-gcc-O2").unwrap();
    assert_eq!(joined(set, "variable.o").1.replaced[0].uses, 2);
}

#[cfg(target_os = "linux")]
mod run {
    use std::cell::Cell;

    use patchpoint::Engine;
    use patchpoint::engine::LoadedCode;
    use patchpoint::image::{Definition, Symbol};
    use patchpoint::publish::SingleThreaded;

    use super::*;

    fn engine() -> Engine {
        // SAFETY: the engine is used by this thread alone.
        let world = unsafe { SingleThreaded::promise() };
        Engine::builder().world(world).build().unwrap()
    }

    fn call(code: &LoadedCode, name: &str, x: i64) -> i64 {
        let function = code.symbol(name).unwrap().get() as usize;
        // SAFETY: it is a C function of that type, loaded and not unloaded before the call.
        let function = unsafe { core::mem::transmute::<usize, extern "C" fn(i64) -> i64>(function) };
        function(x)
    }

    fn native() -> Vec<Files> {
        let mut sets = files::sets(FOLDER);
        sets.retain(Files::is_native);
        assert!(sets.len() >= 2, "{}", sets.len());
        sets
    }

    fn libc(name: &str) -> Option<CodeAddr> {
        let addr = match name {
            "malloc" => libc::malloc as *const () as u64,
            "free" => libc::free as *const () as u64,
            _ => return None,
        };
        Some(CodeAddr::new(addr))
    }

    /// What `checksum` of the source returns.
    fn checksum(bytes: &[u8]) -> i64 {
        bytes.iter().fold(7_i64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(i64::from(*byte))
        })
    }

    #[test]
    fn without_a_harness_they_are_themselves() {
        for set in native() {
            let code = engine().load_graph(tested(&set), libc).unwrap();
            let bytes: Vec<u8> = (0..9).map(|i| 11 * i).collect();
            assert_eq!(
                call(&code, "parse", 9),
                checksum(&bytes).wrapping_mul(28),
                "{}",
                set.name
            );
            assert_eq!(call(&code, "parse", 101), -1101);
            assert_eq!(call(&code, "count_failures", 0), 6);
        }
    }

    #[test]
    fn callees_are_replaced_and_local_symbols_reached() {
        for set in native() {
            let (graph, _) = joined(&set, "mocks.o");
            // Nothing comes from outside.
            let code = engine().load_graph(graph, |_| None).unwrap();
            assert_eq!(
                call(&code, "test", 0),
                0,
                "the first check that fails, {}",
                set.name
            );
            assert_eq!(call(&code, "count_failures", 0), 41);
        }
    }

    #[test]
    fn local_functions_are_replaced_but_where_it_is_reported() {
        let (mut replaced, mut there) = (0, 0);
        for set in native() {
            let (graph, done) = joined(&set, "local.o");
            let all_redirected = bypasses(&graph, &done).is_empty();
            let code = engine().load_graph(graph, libc).unwrap();
            assert_eq!(call(&code, "parse", 101), 101, "by a table, {}", set.name);
            let bytes: Vec<u8> = (0..9).map(|i| 11 * i).collect();
            let sum = if all_redirected {
                replaced += 1;
                1009
            } else {
                there += 1;
                checksum(&bytes)
            };
            assert_eq!(call(&code, "parse", 9), sum.wrapping_mul(28), "{}", set.name);
        }
        println!("{replaced} replaced, {there} not, and reported");
        assert!(replaced >= 1);
        // Other assemblers leave a relocation for each call.
        if cfg!(target_arch = "x86_64") {
            assert!(there >= 1);
        }
    }

    #[test]
    fn local_variables_are_replaced() {
        for set in native().iter().filter(|set| set.name.ends_with("functions")) {
            let (graph, done) = joined(set, "variable.o");
            assert!(done.replaced[0].uses >= 2, "{done:?}");
            let code = engine().load_graph(graph, libc).unwrap();
            assert_eq!(call(&code, "count_failures", 0), 77, "{}", set.name);
            call(&code, "parse", 1000);
            assert_eq!(call(&code, "count_failures", 0), 78, "{}", set.name);
        }
    }

    thread_local! {
        static ASKED: Cell<i64> = const { Cell::new(0) };
    }

    extern "C" fn read_block(to: *mut u8, size: i64) -> i64 {
        ASKED.set(size);
        // SAFETY: the caller has allocated more than a byte.
        unsafe { to.write(200) };
        1
    }

    /// Functions of this process, without an object of their own.
    #[test]
    fn a_harness_in_rust_needs_no_object() {
        for set in native() {
            let mut graph = tested(&set);
            let mut harness = Graph::empty(graph.arch());
            let addr = read_block as extern "C" fn(*mut u8, i64) -> i64 as usize as u64;
            for symbol in [
                Symbol::new("read_block", Definition::Absolute(addr)),
                Symbol::new("checksum", Definition::Undefined { weak: false }),
            ] {
                harness.add_symbol(symbol).unwrap();
            }
            let done = graph.add_harness(harness).unwrap();
            assert_eq!((done.replaced.len(), done.reached.len()), (1, 1));
            let code = engine().load_graph(graph, libc).unwrap();
            assert_eq!(call(&code, "parse", 33), 4 * checksum(&[200]), "{}", set.name);
            assert_eq!(ASKED.get(), 33);
            let reached = code.symbol("checksum").unwrap().get() as usize;
            // SAFETY: it is a C function of that type, loaded and not unloaded before the call.
            let reached =
                unsafe { core::mem::transmute::<usize, extern "C" fn(*const u8, i64) -> i64>(reached) };
            assert_eq!(reached([1, 2, 3].as_ptr(), 3), checksum(&[1, 2, 3]));
        }
    }
}
