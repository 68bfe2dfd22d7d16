//! C++ exceptions that pass through linked code and are caught in it, and what the unwinder knows
//! before and after: the objects are C and C++ by gcc and clang, linked to the C++ library of the
//! process.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "the point is to run the code")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};
#[cfg(not(emulated))]
use std::process::Command;

use patchpoint::addr::CodeAddr;
use patchpoint::image::{Graph, Linked, MemoryManager, Object, Passes, at_once, link};
use patchpoint::memory::Arena;
use patchpoint::observe::Unwound;

const FILES: [&str; 3] = ["throws", "passes", "catches"];

unsafe extern "C" {
    /// Of libgcc: the entry of the function at an address, or null (`unwind-dw2-fde.h`).
    fn _Unwind_Find_FDE(pc: *const c_void, bases: *mut [*mut c_void; 3]) -> *const c_void;
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("objects/exceptions")
}

/// The folders with objects for this machine.
fn sets() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries.filter(|path| file(path, FILES[0]).exists()).collect();
    found.sort();
    found
}

fn file(set: &Path, name: &str) -> PathBuf {
    set.join(format!("{name}.{}.o", std::env::consts::ARCH))
}

/// A function that finds what the C++ library defines, if there is one.
fn library() -> Option<impl Fn(&str) -> Option<CodeAddr>> {
    let name: &CStr = c"libstdc++.so.6";
    // SAFETY: its constructors are those of the C++ library.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    (!handle.is_null()).then_some(move |symbol: &str| {
        let symbol = CString::new(symbol).unwrap();
        // SAFETY: the handle is never closed.
        let addr = unsafe { libc::dlsym(handle, symbol.as_ptr()) } as usize;
        (addr != 0).then(|| CodeAddr::new(addr as u64))
    })
}

fn linked<M: MemoryManager<Error = patchpoint::memory::Error>>(
    set: &Path,
    memory: &M,
    library: impl Fn(&str) -> Option<CodeAddr>,
) -> Linked<M::Finalized> {
    let files: Vec<_> = FILES
        .iter()
        .map(|name| std::fs::read(file(set, name)).unwrap())
        .collect();
    let mut graph = Graph::new(FILES[0], Object::parse(&files[0]).unwrap());
    for (name, bytes) in FILES.iter().zip(&files).skip(1) {
        graph.add(*name, Object::parse(bytes).unwrap()).unwrap();
    }
    let linked = at_once(link(graph, &mut Passes::new(), memory, &library));
    linked.unwrap_or_else(|error| panic!("{}: {error}", set.display()))
}

fn function<F>(linked: &Linked<F>, name: &str) -> extern "C-unwind" fn(i32) -> i32 {
    let addr = linked.image.symbol(name).unwrap().get() as usize;
    // SAFETY: it is a C function of that type; whoever calls it keeps the memory.
    unsafe { core::mem::transmute(addr) }
}

fn number<F>(linked: &Linked<F>, name: &str) -> i32 {
    let addr = linked.image.symbol(name).unwrap().get() as usize;
    let place: *const i32 = std::ptr::with_exposed_provenance(addr);
    // SAFETY: it is an `int` of the linked data, and no other thread is there.
    unsafe { place.read_volatile() }
}

fn is_known<F>(linked: &Linked<F>, name: &str) -> bool {
    let inside = linked.image.symbol(name).unwrap().get() as usize + 1;
    is_known_at(inside)
}

fn is_known_at(addr: usize) -> bool {
    let mut bases = [std::ptr::null_mut(); 3];
    // SAFETY: it reads what is registered, and writes the three pointers.
    !unsafe { _Unwind_Find_FDE(std::ptr::without_provenance(addr), &raw mut bases) }.is_null()
}

/// Every way out of the functions, with what has been destroyed and cleaned up on it.
fn exceptions_are_caught(set: &Path, library: &impl Fn(&str) -> Option<CodeAddr>) {
    // SAFETY: the arena's memory is this process's and stays until it is deallocated; the objects are compilers'.
    let memory = unsafe { Unwound::new(Arena::new(1 << 20)) };
    let code = linked(set, &memory, library);
    assert!(code.memory.sections() >= 1);
    assert!(
        ["attempt", "passes", "may_throw"]
            .iter()
            .all(|name| is_known(&code, name))
    );
    let (attempt, again) = (function(&code, "attempt"), function(&code, "again"));
    let mut before = (0, 0);
    let mut ways_out = |result: i32, expected: i32, destroyed: i32, cleaned: i32| {
        let after = (number(&code, "destroyed"), number(&code, "cleaned"));
        assert_eq!(result, expected, "{}", set.display());
        assert_eq!(
            (after.0 - before.0, after.1 - before.1),
            (destroyed, cleaned),
            "{}",
            set.display()
        );
        before = after;
    };
    for _ in 0..100 {
        ways_out(attempt(7), 15, 3, 7);
        ways_out(attempt(101), 1101, 3, 101);
        ways_out(attempt(60), 2060, 3, 60);
        ways_out(again(7), 14, 0, 7);
        ways_out(again(200), 3200, 4, 200);
        ways_out(again(51), 4051, 4, 51);
    }
    let inside = code.image.symbol("attempt").unwrap().get() as usize + 1;
    memory.deallocate(code.memory).unwrap();
    assert!(!is_known_at(inside), "{}: it is deregistered", set.display());
}

#[test]
fn exceptions_through_linked_code_are_caught() {
    let Some(library) = library() else {
        println!("skipped: no libstdc++.so.6");
        return;
    };
    let sets = sets();
    for set in &sets {
        exceptions_are_caught(set, &library);
    }
    println!("{} sets of objects", sets.len());
    assert!(!cfg!(target_arch = "x86_64") || sets.len() >= 4);
}

/// Two links at once, and memory that is dropped rather than deallocated.
#[test]
fn dropped_memory_is_not_known_any_more() {
    let Some(library) = library() else { return };
    let Some(set) = sets().into_iter().next() else {
        return;
    };
    // SAFETY: as above.
    let memory = unsafe { Unwound::new(Arena::new(1 << 20)) };
    let (one, other) = (linked(&set, &memory, &library), linked(&set, &memory, &library));
    assert!(is_known(&one, "attempt") && is_known(&other, "attempt"));
    let gone = one.image.symbol("attempt").unwrap().get() as usize + 1;
    drop(one);
    assert!(!is_known_at(gone) && is_known(&other, "attempt"));
    assert_eq!(function(&other, "attempt")(101), 1101);
}

/// Without it the exception ends the process, which is another one here; one that the emulator
/// would not emulate.
#[cfg(not(emulated))]
#[test]
fn without_registration_the_process_ends() {
    let Some(library) = library() else { return };
    let Some(set) = sets().into_iter().next() else {
        return;
    };
    const CHILD: &str = "PATCHPOINT_UNKNOWN_FRAMES";
    if std::env::var_os(CHILD).is_some() {
        let code = linked(&set, &Arena::new(1 << 20), &library);
        assert!(!is_known(&code, "attempt"));
        function(&code, "attempt")(101);
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "without_registration_the_process_ends", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(!child.status.success());
    assert!(
        String::from_utf8_lossy(&child.stderr).contains("terminate called"),
        "{child:?}"
    );
}
