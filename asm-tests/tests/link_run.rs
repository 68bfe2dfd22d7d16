//! Programs of several C files, linked together and run: the results are those of the program that the system's compiler and
//! linker made of them.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "the point is to run the code")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::path::{Path, PathBuf};

use patchpoint::Engine;
use patchpoint::addr::CodeAddr;
use patchpoint::image::{Graph, Object, Passes, relax};
use patchpoint::publish::SingleThreaded;

/// The start of the names of the folders of objects for the machine.
const NATIVE: &str = if cfg!(target_arch = "x86_64") {
    "x86_64-"
} else if cfg!(target_arch = "aarch64") {
    "aarch64-"
} else if cfg!(target_arch = "s390x") {
    "s390x-"
} else if cfg!(target_arch = "riscv64") {
    "riscv64-"
} else if cfg!(target_endian = "little") {
    "powerpc64le-"
} else {
    "powerpc64-"
};

extern "C" fn outside(x: i64) -> i64 {
    x + 1
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("objects/link/c")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    found.sort();
    found
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn expected() -> Vec<i64> {
    let text = std::fs::read_to_string(folder().join("expected.txt")).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// The files of a folder, forwards or backwards: the result does not depend on it.
fn graph(files: &[(String, Vec<u8>)], backwards: bool) -> Graph<'_> {
    let mut files: Vec<_> = files.iter().collect();
    if backwards {
        files.reverse();
    }
    let (first, bytes) = files[0];
    let mut graph = Graph::new(first.as_str(), Object::parse(bytes).unwrap());
    for (name, bytes) in &files[1..] {
        graph.add(name.as_str(), Object::parse(bytes).unwrap()).unwrap();
    }
    graph
}

#[test]
fn programs_of_several_files_run() {
    let mut programs = 0;
    for set in entries(&folder()) {
        if !name(&set).starts_with(NATIVE) {
            continue;
        }
        let files: Vec<_> = entries(&set)
            .into_iter()
            .map(|path| (name(&path).to_owned(), std::fs::read(&path).unwrap()))
            .collect();
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
                .load_with(graph(&files, backwards), &mut passes, resolve)
                .unwrap_or_else(|error| panic!("{}: {error}", set.display()));
            let run = code.symbol("run").unwrap().get() as usize;
            // SAFETY: it is a C function of that type, loaded and not unloaded before the last call.
            let run = unsafe { core::mem::transmute::<usize, extern "C" fn(i64) -> i64>(run) };
            let found: Vec<_> = (0..10).map(|x| run(x)).collect();
            assert_eq!(found, expected(), "{}", set.display());
            assert_eq!(code.symbol("inner"), None, "it is hidden");
            programs += 1;
        }
    }
    println!("{programs} programs");
    assert!(programs >= 4, "{programs}");
}
