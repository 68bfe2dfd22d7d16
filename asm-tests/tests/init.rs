//! Constructors and destructors of real objects: given in the order in which the program that the
//! system's linker makes of the same objects calls them.
#![allow(unsafe_code, reason = "the point is to run the code")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use asm_tests::files::{self, Files};
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::image::{Graph, LinkedImage, Object};

const FOLDER: &str = "link/init";

fn link(graph: Graph<'_>) -> LinkedImage {
    let layout = graph.layout().unwrap();
    let (addrs, _) = layout
        .contiguous(CodeAddr::new(0x1000_0000), Len::new(4096))
        .unwrap();
    layout
        .link(&addrs, &|_| Some(CodeAddr::new(0x1100_0000)))
        .unwrap()
}

/// The names of the functions that these are pointers to.
fn names(linked: &LinkedImage, pointers: &[CodeAddr]) -> Vec<String> {
    let name = |pointer: &CodeAddr| {
        let mut functions = linked.image.functions.iter();
        let function = functions.find(|function| function.pointer == *pointer);
        function.unwrap_or_else(|| panic!("{pointer}")).name.clone()
    };
    pointers.iter().map(name).collect()
}

fn set<'a>(sets: &'a [Files], name: &str) -> &'a Files {
    sets.iter().find(|set| set.name == name).unwrap()
}

/// Of every architecture, those of one compiler are the same.
#[test]
fn they_are_given_in_order() {
    let sets = files::sets(FOLDER);
    let order = |set: &Files| {
        let linked = link(set.graph(false));
        let constructors = names(&linked, &linked.constructors);
        (constructors, names(&linked, &linked.destructors))
    };
    let (constructors, destructors) = order(set(&sets, "x86_64-clang-O2"));
    assert_eq!(
        constructors,
        [
            "before_102",
            "_ZL10before_104v",
            "_GLOBAL__I_000150",
            "_ZL10before_200v",
            "before_300",
            "before_103",
            "before_1",
            "before_2",
            "before_65535",
            "__cxx_global_var_init",
            "_ZL9before_11v",
            "_ZL9before_12v",
            "_GLOBAL__sub_I_second.cc",
        ]
    );
    assert_eq!(
        destructors,
        [
            "_ZL8after_11v",
            "after_2",
            "after_1",
            "after_300",
            "_ZL9after_200v",
            "_ZL9after_104v",
            "after_102",
        ]
    );
    let mut others = 0;
    for set in &sets {
        if !set.name.starts_with("x86_64") {
            let found = order(set);
            assert_eq!(found, (constructors.clone(), destructors.clone()), "{}", set.name);
            others += 1;
        }
    }
    assert_eq!(others, 5);
}

/// Nothing refers to them, and they stay when others go.
#[test]
fn they_are_kept() {
    let sets = files::sets(FOLDER);
    let set = set(&sets, "x86_64-gcc-O2");
    let whole = link(set.graph(false));
    let mut graph = set.graph(false);
    graph.prune(["third"]).unwrap();
    let pruned = link(graph);
    assert_eq!(
        names(&pruned, &pruned.constructors),
        names(&whole, &whole.constructors)
    );
    assert_eq!(
        names(&pruned, &pruned.destructors),
        names(&whole, &whole.destructors)
    );
    assert!(pruned.constructors.len() == 13 && pruned.destructors.len() == 7);
}

/// An object without any has none.
#[test]
fn of_others_there_are_none() {
    let sets = files::sets("link/c");
    let linked = link(set(&sets, "x86_64-gcc-O2").graph(false));
    assert!(linked.constructors.is_empty() && linked.destructors.is_empty());
}

/// What is to be put together by the linker of a whole program is refused, and told.
#[test]
fn parts_of_functions_are_refused() {
    let sets = files::sets(FOLDER);
    let mut bytes = set(&sets, "x86_64-gcc-O2").file("first.o").to_vec();
    let at = bytes
        .windows(12)
        .position(|name| name == b".init_array\0")
        .unwrap();
    bytes[at..at + 12].copy_from_slice(b".init\0.fini\0");
    let error = Object::parse(&bytes).unwrap_err().to_string();
    let expected = "section .init cannot be loaded: it is a part of a function that the linker of a whole program \
                    completes: write a constructor";
    assert_eq!(error, expected);
}

#[cfg(target_os = "linux")]
mod run {
    use std::sync::Mutex;

    use patchpoint::Engine;
    use patchpoint::publish::SingleThreaded;

    use super::*;

    static NOTED: Mutex<Vec<i64>> = Mutex::new(Vec::new());

    extern "C" fn note(n: i64) {
        NOTED.lock().unwrap().push(n);
    }

    fn call(function: CodeAddr) {
        // SAFETY: it is a C function of that type, loaded and not unloaded before the call.
        let function = unsafe { core::mem::transmute::<usize, extern "C" fn()>(function.get() as usize) };
        function();
    }

    #[test]
    fn called_in_order_they_do_what_the_linked_program_does() {
        let mut programs = 0;
        for set in files::sets(FOLDER).iter().filter(|set| set.is_native()) {
            // SAFETY: the engine is used by this thread alone.
            let world = unsafe { SingleThreaded::promise() };
            let engine = Engine::builder().world(world).build().unwrap();
            let addr = CodeAddr::new(note as extern "C" fn(i64) as usize as u64);
            let resolve = |name: &str| (name == "note").then_some(addr);
            let code = engine.load_graph(set.graph(false), resolve).unwrap();
            assert_eq!(*NOTED.lock().unwrap(), [], "loading calls nothing");
            code.constructors().iter().copied().for_each(call);
            let run = code.symbol("run").unwrap().get() as usize;
            // SAFETY: it is a C function of that type, loaded and not unloaded before the call.
            let run = unsafe { core::mem::transmute::<usize, extern "C" fn() -> i64>(run) };
            note(1_000_000 + run());
            code.destructors().iter().copied().for_each(call);
            let noted = std::mem::take(&mut *NOTED.lock().unwrap());
            // Those of other architectures were compared by name; only x86-64 has what its linker
            // made of them.
            let like = set.name.replace(files::NATIVE_PREFIX, "x86_64-");
            assert_eq!(
                noted,
                files::expected(&format!("{FOLDER}/{like}")),
                "{}",
                set.name
            );
            programs += 1;
        }
        println!("{programs} programs");
        assert!(programs >= 1, "{programs}");
    }
}
