//! Thread-local variables: those of ELF are refused by name, in each model and on each
//! architecture; emulated ones work, each thread with its own.
#![allow(unsafe_code, reason = "the point is to run the code")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::BTreeSet;

use asm_tests::files;
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::image::{self, Object};

const MEND: &str = "is thread-local, which only the system's loader can lay out: compile with clang's -femulated-tls or \
                    llc's -emulated-tls, and resolve __emutls_get_address, which they call, by \
                    patchpoint's image::emulated_tls or the compiler's library; or keep it in memory that the \
                    runtime hands to each thread";

/// The relocation that is named first for each model, of a variable of another file. Without a
/// local variable, compilers take the local-dynamic model for the general one where they like.
#[test]
fn variables_of_elf_are_refused_by_name() {
    let mut relocations = BTreeSet::new();
    let sets = files::sets("tls/native");
    for set in &sets {
        let refused = |file| match Object::parse(set.file(file)).unwrap_err() {
            error @ image::Error::ThreadLocal { .. } => {
                assert!(error.to_string().ends_with(MEND), "{error}");
                let image::Error::ThreadLocal { symbol, place } = error else {
                    unreachable!()
                };
                (symbol, place)
            }
            error => panic!("{}: {error}", set.name),
        };
        let (symbol, place) = refused("define.o");
        let expected = match symbol.as_str() {
            "counter" | "aligned" => ".tdata",
            "zero" | "large" => ".tbss",
            other => panic!("{other}"),
        };
        assert_eq!(place, expected, "{}", set.name);
        let (symbol, place) = refused("use.o");
        assert_eq!(symbol, "counter", "{}", set.name);
        let (relocation, at) = place.split_once(" at ").unwrap();
        let (section, offset) = at.split_once("+0x").unwrap();
        // On SystemZ the distance to the variable is in the constants of the code.
        assert!(
            [".text", ".data.rel.ro"].contains(&section),
            "{}: {place}",
            set.name
        );
        assert!(
            u32::from_str_radix(offset, 16).unwrap() < 64,
            "{}: {place}",
            set.name
        );
        relocations.insert(relocation.to_owned());
    }
    println!("{relocations:?}");
    assert_eq!(sets.len(), 32);
    // Of x86-64 one for each model.
    for name in ["TLSGD", "TLSLD", "GOTTPOFF", "TPOFF32"] {
        assert!(relocations.contains(&format!("R_X86_64_{name}")), "{name}");
    }
    assert!(relocations.len() >= 12, "{}", relocations.len());
}

#[test]
fn emulated_ones_are_ordinary_data() {
    let sets = files::sets("tls/emulated");
    for set in &sets {
        let layout = set.graph(false).layout().unwrap();
        let (addrs, _) = layout
            .contiguous(CodeAddr::new(0x1000_0000), Len::new(4096))
            .unwrap();
        let asked = std::cell::RefCell::new(BTreeSet::new());
        let linked = layout.link(&addrs, &|name| {
            asked.borrow_mut().insert(name.to_owned());
            Some(CodeAddr::new(0x1100_0000))
        });
        assert!(linked.is_ok(), "{}: {linked:?}", set.name);
        assert_eq!(
            asked.into_inner(),
            ["__emutls_get_address".to_owned()].into(),
            "{}",
            set.name
        );
    }
    assert_eq!(sets.len(), 8);
}

#[cfg(target_os = "linux")]
mod run {
    use patchpoint::Engine;
    use patchpoint::engine::LoadedCode;
    use patchpoint::image::emulated_tls;
    use patchpoint::publish::SingleThreaded;

    use super::*;

    fn load(set: &files::Files) -> (Engine, LoadedCode) {
        // SAFETY: nothing is patched.
        let world = unsafe { SingleThreaded::promise() };
        let engine = Engine::builder().world(world).build().unwrap();
        let code = engine.load_graph(set.graph(false), emulated_tls).unwrap();
        (engine, code)
    }

    fn function(code: &LoadedCode, name: &str) -> extern "C" fn(i64) -> i64 {
        let addr = code.symbol(name).unwrap().get() as usize;
        // SAFETY: it is a C function of that type, called only while it is loaded.
        unsafe { core::mem::transmute::<usize, extern "C" fn(i64) -> i64>(addr) }
    }

    #[test]
    fn each_thread_has_its_own() {
        let mut programs = 0;
        for set in files::sets("tls/emulated").iter().filter(|set| set.is_native()) {
            // Loaded anew, they start anew.
            for _ in 0..3 {
                let (_engine, code) = load(set);
                let [add, is_aligned, place] =
                    ["add", "is_aligned", "where"].map(|name| function(&code, name));
                let thread = || {
                    assert_eq!(
                        add(2),
                        42 + 1000 * 2 + 1_000_000 * 4 + 1_000_000_000,
                        "{}",
                        set.name
                    );
                    assert_eq!(
                        add(3),
                        45 + 1000 * 5 + 1_000_000 * 7 + 1_000_000_000,
                        "{}",
                        set.name
                    );
                    assert_eq!(is_aligned(0), 1, "{}", set.name);
                    place(0)
                };
                let here = thread();
                let places: Vec<_> = std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..4).map(|_| scope.spawn(thread)).collect();
                    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
                });
                assert!(!places.contains(&here), "{}", set.name);
                assert_eq!(place(0), here, "{}", set.name);
            }
            programs += 1;
        }
        println!("{programs} programs");
        assert!(programs >= 1, "{programs}");
    }
}
