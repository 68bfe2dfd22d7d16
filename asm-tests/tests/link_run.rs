//! Programs of several C files, linked together and run: the results are those of the program that
//! the system's compiler and linker made of them.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "the point is to run the code")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use asm_tests::files;
use patchpoint::Engine;
use patchpoint::addr::CodeAddr;
use patchpoint::image::{Passes, relax};
use patchpoint::publish::SingleThreaded;

const FOLDER: &str = "link/c";

extern "C" fn outside(x: i64) -> i64 {
    x + 1
}

#[test]
fn programs_of_several_files_run() {
    let (mut programs, expected) = (0, files::expected(FOLDER));
    for set in files::sets(FOLDER).iter().filter(|set| set.is_native()) {
        for backwards in [false, true] {
            // SAFETY: the engine is used by this thread alone.
            let world = unsafe { SingleThreaded::promise() };
            let engine = Engine::builder().world(world).build().unwrap();
            let resolve = |name: &str| {
                let addr = (outside as extern "C" fn(i64) -> i64) as usize as u64;
                (name == "outside").then(|| CodeAddr::new(addr))
            };
            // Those that are linked backwards are relaxed, too.
            let mut passes = if backwards {
                Passes::new().before_fix_ups(relax)
            } else {
                Passes::new()
            };
            let code = engine
                .load_with(set.graph(backwards), &mut passes, resolve)
                .unwrap_or_else(|error| panic!("{}: {error}", set.name));
            let run = code.symbol("run").unwrap().get() as usize;
            // SAFETY: it is a C function of that type, loaded and not unloaded before the last call.
            let run = unsafe { core::mem::transmute::<usize, extern "C" fn(i64) -> i64>(run) };
            let found: Vec<_> = (0..10).map(|x| run(x)).collect();
            assert_eq!(found, expected, "{}", set.name);
            assert_eq!(code.symbol("inner"), None, "it is hidden");
            programs += 1;
        }
    }
    println!("{programs} programs");
    assert!(programs >= 4, "{programs}");
}
