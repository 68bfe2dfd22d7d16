//! Guards of SanitizerCoverage, which a constructor finds by the symbols where their sections begin
//! and end: as many as the system's linkers leave, and each of them the one that it is there.
#![allow(unsafe_code, reason = "the point is to run the code")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use asm_tests::files::{self, Files};
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::image::{Graph, Resolved};

const FOLDER: &str = "link/guards";

/// How many guards GNU ld leaves of these objects.
fn expected(set: &Files) -> u64 {
    let path = format!(
        "{}/objects/{FOLDER}/{}/guards.txt",
        env!("CARGO_MANIFEST_DIR"),
        set.name
    );
    let text = std::fs::read_to_string(path).unwrap();
    text.trim().parse().unwrap()
}

/// The address of a symbol that the linker defines.
fn addr(resolved: &Resolved<'_>, name: &str) -> u64 {
    let graph = resolved.graph();
    let id = graph.find(name).unwrap_or_else(|| panic!("no {name}"));
    resolved
        .symbol_addr(id)
        .unwrap_or_else(|| panic!("{name} is undefined"))
        .get()
}

/// How many guards there are between the symbols.
fn guards(graph: Graph<'_>) -> u64 {
    let layout = graph.layout().unwrap();
    let base = CodeAddr::new(0x1000_0000);
    let (addrs, _) = layout.contiguous(base, Len::new(4096)).unwrap();
    let allocated = layout.allocate(addrs).unwrap();
    let resolved = allocated.resolve(|_| Some(CodeAddr::new(0x1100_0000))).unwrap();
    let [start, stop] =
        ["__start___sancov_guards", "__stop___sancov_guards"].map(|name| addr(&resolved, name));
    assert!(start < stop && (stop - start) % 4 == 0, "{start:#x} to {stop:#x}");
    (stop - start) / 4
}

/// Of the group that both files have, one is kept, with its guard; the constructor is in such a
/// group, too.
#[test]
fn there_are_as_many_as_the_systems_linkers_leave() {
    let sets = files::sets(FOLDER);
    for set in &sets {
        for backwards in [false, true] {
            assert_eq!(guards(set.graph(backwards)), expected(set), "{}", set.name);
        }
    }
    assert_eq!(sets.len(), 8);
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

    #[test]
    fn the_program_passes_the_guards_that_the_linked_one_passes() {
        let mut programs = 0;
        for set in files::sets(FOLDER).iter().filter(|set| set.is_native()) {
            // SAFETY: the engine is used by this thread alone.
            let world = unsafe { SingleThreaded::promise() };
            let engine = Engine::builder().world(world).build().unwrap();
            let addr = CodeAddr::new(note as extern "C" fn(i64) as usize as u64);
            let resolve = |name: &str| (name == "note").then_some(addr);
            let code = engine.load_graph(set.graph(false), resolve).unwrap();
            assert_eq!(code.constructors().len(), 1, "{}: of all files", set.name);
            for constructor in code.constructors() {
                // SAFETY: it is a C function of that type, loaded and not unloaded before the call.
                let constructor =
                    unsafe { core::mem::transmute::<usize, extern "C" fn()>(constructor.get() as usize) };
                constructor();
            }
            let run = code.symbol("run").unwrap().get() as usize;
            // SAFETY: as above.
            let run = unsafe { core::mem::transmute::<usize, extern "C" fn() -> i64>(run) };
            let returned = run();
            note(returned);
            assert_eq!(returned / 1000, expected(set) as i64, "{}", set.name);
            let noted = std::mem::take(&mut *NOTED.lock().unwrap());
            assert!(noted.len() > 10, "{noted:?}");
            // Only x86-64 has what its linker made of them.
            if cfg!(target_arch = "x86_64") {
                assert_eq!(
                    noted,
                    files::expected(&format!("{FOLDER}/{}", set.name)),
                    "{}",
                    set.name
                );
            }
            programs += 1;
        }
        println!("{programs} programs");
        assert!(programs >= 1, "{programs}");
    }
}
