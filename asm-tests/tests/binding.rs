//! Symbols of every binding and visibility, in real objects of several architectures: who sees
//! them, which count, and what is undefined.
#![allow(unsafe_code, reason = "the point is to run the code")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::cell::RefCell;
use std::collections::BTreeSet;

use asm_tests::files::{self, Files};
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::image::{Graph, LinkedImage};

const FOLDER: &str = "link/symbols";

fn graph(set: &Files) -> Graph<'_> {
    let file = |name| (name, set.file(name));
    files::graph(&[file("define.o"), file("use.o")]).unwrap()
}

/// The image, and the names that were asked for.
fn link(graph: Graph<'_>) -> patchpoint::Result<(LinkedImage, BTreeSet<String>)> {
    let layout = graph.layout()?;
    let (addrs, _) = layout
        .contiguous(CodeAddr::new(0x1000_0000), Len::new(4096))
        .unwrap();
    let asked = RefCell::new(BTreeSet::new());
    let linked = layout.link(&addrs, &|name| {
        asked.borrow_mut().insert(name.to_owned());
        name.starts_with("outside").then(|| CodeAddr::new(0x1100_0000))
    })?;
    Ok((linked, asked.into_inner()))
}

#[test]
fn who_sees_what() {
    let sets = files::sets(FOLDER);
    for set in &sets {
        let (linked, asked) = link(graph(set)).unwrap();
        // A name with a version is a name like others.
        let expected = ["no_variable", "nowhere", "outside@OLD_1.0"].map(str::to_owned);
        assert_eq!(asked, expected.into(), "{}", set.name);
        for seen in [
            "by_default",
            "by_protected",
            "by_weak",
            "overridden",
            "unique",
            "versioned@V1",
            "versioned@@V2",
            "run",
        ] {
            assert!(linked.symbol(seen).is_some(), "{}: {seen}", set.name);
        }
        for unseen in ["by_hidden", "by_internal", "nowhere", "versioned"] {
            assert_eq!(linked.symbol(unseen), None, "{}: {unseen}", set.name);
        }
        assert_eq!(
            linked.symbol("absolute"),
            Some(CodeAddr::new(0x1234)),
            "{}",
            set.name
        );
        // The strong one is in the other file, which comes behind the first.
        assert!(
            linked.symbol("overridden") > linked.symbol("by_weak"),
            "{}",
            set.name
        );
    }
    assert_eq!(sets.len(), 10);
}

/// What must be run to be known is refused, where it is used.
#[test]
fn indirect_functions_are_refused() {
    let mut refused = 0;
    for set in files::sets(FOLDER) {
        if set.files.iter().any(|(name, _)| name == "indirect.o") {
            let graph = files::graph(&[("indirect.o", set.file("indirect.o"))]).unwrap();
            let error = link(graph).unwrap_err().to_string();
            let expected = "symbol `indirect` cannot be linked to: it is an indirect function, whose resolver must run first: \
                            load the resolver by itself, call it, and let your own resolver give its answer";
            assert_eq!(error, expected, "{}", set.name);
            refused += 1;
        }
    }
    assert_eq!(refused, 6);
}

#[cfg(target_os = "linux")]
#[test]
fn programs_find_what_counts() {
    use patchpoint::Engine;
    use patchpoint::publish::SingleThreaded;

    extern "C" fn outside(x: i64) -> i64 {
        x + 5
    }

    let mut programs = 0;
    for set in files::sets(FOLDER).iter().filter(|set| set.is_native()) {
        // SAFETY: the engine is used by this thread alone.
        let world = unsafe { SingleThreaded::promise() };
        let engine = Engine::builder().world(world).build().unwrap();
        let addr = CodeAddr::new(outside as extern "C" fn(i64) -> i64 as usize as u64);
        let resolve = |name: &str| (name == "outside@OLD_1.0").then_some(addr);
        let code = engine.load_graph(graph(set), resolve).unwrap();
        let call = |name: &str, x| {
            let function = code.symbol(name).unwrap().get() as usize;
            // SAFETY: it is a C function of that type, loaded and not unloaded before the call.
            let function = unsafe { core::mem::transmute::<usize, extern "C" fn(i64) -> i64>(function) };
            function(x)
        };
        assert_eq!(call("run", 0), 9_654_321, "{}", set.name);
        assert_eq!(call("versioned_reference", 1), 6, "{}", set.name);
        assert_eq!(
            [call("versioned@V1", 0), call("versioned@@V2", 0)],
            [7, 8],
            "{}",
            set.name
        );
        programs += 1;
    }
    println!("{programs} programs");
    assert!(programs >= 1, "{programs}");
}
