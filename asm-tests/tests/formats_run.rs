//! Mach-O and COFF objects for x86-64 run here: macOS has the calling convention of this system,
//! and functions of Windows are called by `extern "win64"`. Functions with sites are patched and
//! must return what the references do; those of a C program what the program says.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(unsafe_code, reason = "the point is to run the code")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::path::{Path, PathBuf};

use asm_tests::{Folder, Param, Source};
use patchpoint::addr::CodeAddr;
use patchpoint::engine::{Engine, LoadedCode};
use patchpoint::image::{Definition, Graph, Object, ObjectFormat, Section, SectionRole, Symbol};
use patchpoint::memory::Arena;
use patchpoint::publish::SingleThreaded;
use patchpoint::sequence::{Sequence, arg, result};
use patchpoint::site::Site;

/// How the code of a format is called.
#[derive(Clone, Copy)]
struct Format {
    format: ObjectFormat,
    windows: bool,
    folder: &'static str,
    /// The objects with sites that are run, and how many calls there are at least.
    sources: &'static [&'static str],
    calls: usize,
}

const MACHO: Format = Format {
    format: ObjectFormat::MachO,
    windows: false,
    folder: "macho/x86_64",
    sources: &["property", "anyreg_mixed", "c_args", "repeat"],
    calls: 300,
};

/// Sites of the C convention are not registered there.
const COFF: Format = Format {
    format: ObjectFormat::Coff,
    windows: true,
    folder: "coff/x86_64",
    sources: &["property", "anyreg_mixed"],
    calls: 150,
};

impl Format {
    fn path(self, name: &str) -> PathBuf {
        let objects = Path::new(env!("CARGO_MANIFEST_DIR")).join("objects");
        objects.join(self.folder).join(name)
    }

    fn read(self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    fn call(self, addr: CodeAddr, args: [u64; 6]) -> u64 {
        let [a, b, c, d, e, f] = args;
        type Here = extern "sysv64" fn(u64, u64, u64, u64, u64, u64) -> u64;
        type Windows = extern "win64" fn(u64, u64, u64, u64, u64, u64) -> u64;
        // SAFETY: it is a function of up to six words, in the convention of the format.
        unsafe {
            if self.windows {
                core::mem::transmute::<usize, Windows>(addr.get() as usize)(a, b, c, d, e, f)
            } else {
                core::mem::transmute::<usize, Here>(addr.get() as usize)(a, b, c, d, e, f)
            }
        }
    }
}

fn engine() -> Engine {
    // SAFETY: each test has its own engine and calls its code on one thread.
    let world = unsafe { SingleThreaded::promise() };
    Engine::builder()
        .world(world)
        .arena(Arena::default())
        .build()
        .unwrap()
}

/// What the contract of the sources says that a site is patched with.
fn contract(site: &Site) -> Sequence {
    let id = site.id().get();
    match (site.shape().has_result(), site.shape().arg_count()) {
        (false, _) => Sequence::new(),
        (true, 0) => Sequence::new().mov(result(), id),
        (true, _) => Sequence::new().mov(result(), arg(0)).add(result(), id),
    }
}

static mut WORDS: [[u64; 16]; 6] = [[0; 16]; 6];

fn arguments(params: &[Param], seed: u64) -> [u64; 6] {
    let mut args = [0; 6];
    for (index, (arg, param)) in args.iter_mut().zip(params).enumerate() {
        // SAFETY: the tests that use them hold the lock.
        let words = unsafe { &raw mut WORDS[index] };
        // SAFETY: as above.
        unsafe { *words = std::array::from_fn(|word| seed * 31 + word as u64) };
        *arg = match param {
            Param::Int => seed * 7 + index as u64,
            Param::Pointer => words as u64,
        };
    }
    args
}

static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn run_source(format: Format, source: &Source, level: u32) -> usize {
    let engine = engine();
    let object = format.read(&format!("{}.O{level}.o", source.name));
    let resolve = |name: &str| asm_tests::resolve(format.format.c_name(name)?).map(CodeAddr::new);
    let code = engine.load(&object, resolve).unwrap();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { engine.register(code, |record| source.shape(record.id().get())) }.unwrap();
    let sites: Vec<Site> = module.sites().collect();
    assert!(!sites.is_empty());
    for site in &sites {
        engine.patch_site(site, &contract(site)).unwrap();
    }
    let reference = engine
        .load(&Folder::X86_64.reference(&source.name), |name| {
            asm_tests::resolve(name).map(CodeAddr::new)
        })
        .unwrap();
    module.release();
    let mut calls = 0;
    let here = Format {
        windows: false,
        ..format
    };
    for function in source
        .functions
        .iter()
        .filter(|function| !function.avx || asm_tests::has_avx())
    {
        let name = format.format.symbol(&function.name);
        let entry = module.function(&name).unwrap().entry().unwrap();
        for seed in 1..8 {
            let found = format.call(entry, arguments(&function.params, seed));
            let expected = reference.symbol(&function.name).unwrap();
            let expected = here.call(expected, arguments(&function.params, seed));
            assert_eq!(found, expected, "{}.O{level}: {name} {seed}", source.name);
            calls += 1;
        }
    }
    calls
}

fn run_sources(format: Format) {
    let _guard = LOCK.lock().unwrap();
    let mut calls = 0;
    for source in format.sources {
        for level in [0, 2] {
            calls += run_source(format, &asm_tests::source(source), level);
        }
    }
    println!("{:?}: {calls} calls of patched functions", format.format);
    assert!(calls >= format.calls, "{calls}");
}

#[test]
fn patched_functions_of_macho_return_what_they_should() {
    run_sources(MACHO);
}

extern "sysv64" fn outside(a: i32) -> i32 {
    a * 100
}

static OUTSIDE_DATA: i32 = 23;

/// `program.c` by hand: what `choose` returns from one call to the next.
struct Program {
    counter: i32,
    once: i32,
    common: i32,
}

impl Program {
    fn choose(&mut self, a: i32) -> i32 {
        match a {
            0 => {
                self.counter += 1;
                3 + self.counter - 1 + self.once
            }
            1 => 3,
            2 => 3 + self.common,
            3 => i32::from(b'e'),
            4 => {
                self.once -= 2;
                self.once
            }
            5 => 77,
            _ => -a,
        }
    }

    fn guarded(&mut self, a: i32) -> i32 {
        let result = self.choose(a) + a + 1 + a;
        self.common += a;
        result
    }
}

/// Defines a symbol in a section of its own.
fn near(graph: &mut Graph<'_>, name: &'static str, role: SectionRole, bytes: &[u8]) {
    let section = Section::new(".near", role, bytes.to_vec());
    let section = graph.add_section(section).unwrap();
    let symbol = Symbol::new(name, Definition::Section(section, 0));
    graph.add_symbol(symbol).unwrap();
}

fn run_program(format: Format, name: &str, outside: u64) {
    let engine = engine();
    let resolve = |symbol: &str| match format.format.c_name(symbol)? {
        "outside" => Some(CodeAddr::new(outside)),
        "outside_data" => Some(CodeAddr::new(&raw const OUTSIDE_DATA as u64)),
        // Nothing is thrown.
        "__gcc_personality_v0" | "_Unwind_Resume" | "abort" => Some(CodeAddr::new(outside)),
        _ => None,
    };
    let object = format.read(name);
    let mut graph = Graph::new(name, Object::parse(&object).unwrap());
    if format.windows {
        // Code of Windows reads data of others directly, if it is not imported: it must be near.
        near(
            &mut graph,
            "outside_data",
            SectionRole::Data,
            &OUTSIDE_DATA.to_le_bytes(),
        );
    }
    let code: LoadedCode = engine.load_graph(graph, resolve).unwrap();
    let call = |function: &str, a: i32| {
        let addr = code.symbol(&format.format.symbol(function)).unwrap();
        format.call(addr, [a as u64, 0, 0, 0, 0, 0]) as i32
    };
    let mut program = Program {
        counter: 0,
        once: 7,
        common: 0,
    };
    for a in (0..8).chain(0..8) {
        assert_eq!(call("choose", a), program.choose(a), "{name}: {a}");
        assert_eq!(call("guarded", a), program.guarded(a), "{name}: {a}");
        assert_eq!(call("calls_out", a), a * 100 + 23, "{name}: {a}");
    }
}

#[test]
fn a_program_of_macho_runs() {
    for level in [0, 2] {
        for model in ["pic", "no-pic"] {
            let name = format!("program.O{level}.{model}.o");
            run_program(MACHO, &name, outside as *const () as u64);
        }
        run_program(MACHO, &format!("debug.O{level}.o"), outside as *const () as u64);
    }
}

#[test]
fn patched_functions_of_coff_return_what_they_should() {
    run_sources(COFF);
}

extern "win64" fn outside_windows(a: i32) -> i32 {
    a * 100
}

#[test]
fn a_program_of_coff_runs() {
    for level in [0, 2] {
        for model in ["small", "large"] {
            let name = format!("program.O{level}.{model}.o");
            run_program(COFF, &name, outside_windows as *const () as u64);
        }
        run_program(
            COFF,
            &format!("debug.O{level}.o"),
            outside_windows as *const () as u64,
        );
    }
}

#[test]
fn imports_are_read_from_the_table() {
    let outside = outside_windows as *const () as u64;
    for level in [0, 2] {
        let engine = engine();
        let resolve = |symbol: &str| match symbol {
            "outside" => Some(CodeAddr::new(outside)),
            "outside_data" => Some(CodeAddr::new(&raw const OUTSIDE_DATA as u64)),
            _ => None,
        };
        let code = engine
            .load(&COFF.read(&format!("imports.O{level}.o")), resolve)
            .unwrap();
        let call = |name: &str, a| COFF.call(code.symbol(name).unwrap(), [a, 0, 0, 0, 0, 0]);
        assert_eq!(call("imported", 7), 723);
        assert_eq!(call("pointer", 0), outside);
    }
}

#[test]
fn copies_in_several_objects_are_one() {
    for level in ["O0", "O2"] {
        let [first, second] = ["first", "second"].map(|name| COFF.read(&format!("{name}.{level}.o")));
        let mut graph = Graph::new("first", Object::parse(&first).unwrap());
        graph.add("second", Object::parse(&second).unwrap()).unwrap();
        // Nothing is thrown, so nobody calls it: ret.
        near(&mut graph, "__CxxFrameHandler3", SectionRole::Code, &[0xc3]);
        let engine = engine();
        let code = engine.load_graph(graph, |_| {
            Some(CodeAddr::new(outside_windows as *const () as u64))
        });
        let code = code.unwrap();
        let call = |name: &str, a| COFF.call(code.symbol(name).unwrap(), [a, 0, 0, 0, 0, 0]);
        assert_eq!(call("where_first", 0), call("where_second", 0), "{level}");
        // twice(7) + larger(7, 3) + 41 + second(7)
        assert_eq!(call("first", 7) as i32, 14 + 7 + 41 + 1400 + 7 + 41, "{level}");
    }
}

/// The registers of the C convention are others there than the engine takes them for.
#[test]
fn sites_of_the_c_convention_are_refused_in_coff() {
    let engine = engine();
    let code = engine.load(&COFF.read("c_args.O2.o"), |_| None).unwrap();
    let source = asm_tests::source("c_args");
    // SAFETY: what is told is true of the object's code, or refused.
    let refused = unsafe { engine.register(code, |record| source.shape(record.id().get())) };
    let error = refused.unwrap_err();
    assert!(
        matches!(
            error,
            patchpoint::Error::Site(patchpoint::site::Error::SiteConvention { .. })
        ),
        "{error}"
    );
}
