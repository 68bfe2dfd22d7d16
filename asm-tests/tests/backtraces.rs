//! Backtraces go through stubs and exit stubs into the callers of compiled code: those that a
//! handler or callee takes, and those of the real GDB, where it is installed.

#![cfg(target_os = "linux")]

use std::ffi::c_void;
use std::process::Command;
use std::sync::Mutex;

use patchpoint::addr::CodeAddr;
use patchpoint::arch::OnReturn;
use patchpoint::deopt::ExitStubs;
#[cfg(not(all(target_arch = "powerpc64", target_endian = "big")))]
use patchpoint::observe::Gdb;
use patchpoint::observe::Unwinder;
use patchpoint::publish::{NeverStopped, SingleThreaded, World};
use patchpoint::sequence::{Sequence, Target, arg, result};
use patchpoint::site::{EntrySpec, Module};
use patchpoint::{CallShape, Engine};

#[path = "../../examples/objects/mod.rs"]
mod objects;

unsafe extern "C" {
    /// Of libgcc: calls the function with each frame, from that of the caller on (`unwind.h`).
    fn _Unwind_Backtrace(each: extern "C" fn(*mut c_void, *mut c_void) -> i32, found: *mut c_void) -> i32;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

extern "C" fn note(frame: *mut c_void, found: *mut c_void) -> i32 {
    // SAFETY: it is what `frames` passes, whose alone it is.
    let found = unsafe { &mut *found.cast::<Vec<usize>>() };
    // SAFETY: it is what the unwinder calls with.
    found.push(unsafe { _Unwind_GetIP(frame) });
    // An endless one is ended.
    if found.len() < 500 { 0 } else { 5 }
}

/// Where the frames are from this one on, and whoever called it. Without names: on big-endian
/// PowerPC the symbols of functions are not where their code is.
#[inline(never)]
fn frames() -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    // SAFETY: the function takes what is passed, and does not unwind.
    unsafe { _Unwind_Backtrace(note, (&raw mut found).cast()) };
    std::hint::black_box(found)
}

static SEEN: Mutex<Vec<Vec<usize>>> = Mutex::new(Vec::new());

/// Where GDB stops.
// SAFETY: nothing else has the name.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn patchpoint_looks_back(x: u64) -> u64 {
    SEEN.lock().unwrap().push(frames());
    x + 1
}

fn engine(live_registers: bool, world: impl World + 'static) -> Engine {
    let exit_stubs = ExitStubs::new().on_deopt(|frame| {
        patchpoint_looks_back(0);
        frame.resume()
    });
    let exit_stubs = match live_registers {
        true => exit_stubs.on_live_register_miss(|frame| {
            patchpoint_looks_back(0);
            frame.resume()
        }),
        false => exit_stubs.on_miss(|frame| {
            patchpoint_looks_back(0);
            frame.resume()
        }),
    };
    let builder = Engine::builder().world(world).exits(exit_stubs);
    let builder = builder.observer(Unwinder::new());
    #[cfg(not(all(target_arch = "powerpc64", target_endian = "big")))]
    let builder = builder.observer(Gdb::new());
    builder.build().unwrap()
}

fn callee() -> CodeAddr {
    CodeAddr::new(patchpoint_looks_back as *const () as u64)
}

fn register(engine: &Engine) -> Module {
    let code = engine
        .load(objects::LIVE_STRESS, |name| (name == "callee").then(callee))
        .unwrap();
    let registration = engine.registration(code).live();
    let shape = |id| match id {
        101 => Some(CallShape::any_reg(objects::any_reserved(1)).result().args(1)),
        102 => Some(CallShape::any_reg(objects::any_reserved(2)).result().args(1)),
        201 => Some(CallShape::c(objects::call_reserved(1)).result().args(1)),
        _ => None,
    };
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { registration.register(|record| shape(record.id().get())) }.unwrap()
}

/// `entered`, which begins with a site and has saved nothing there; `leaf` with a shadow; `framed`
/// with a shadow where its frame is found by another register than the stack pointer.
const LEAVES: &[u8] = if cfg!(target_arch = "x86_64") {
    include_bytes!("../objects/leaves/leaves.x86_64.o")
} else if cfg!(target_arch = "aarch64") {
    include_bytes!("../objects/leaves/leaves.aarch64.o")
} else if cfg!(all(target_arch = "powerpc64", target_endian = "little")) {
    include_bytes!("../objects/leaves/leaves.powerpc64le.o")
} else if cfg!(target_arch = "powerpc64") {
    include_bytes!("../objects/leaves/leaves.powerpc64.o")
} else if cfg!(target_arch = "s390x") {
    include_bytes!("../objects/leaves/leaves.s390x.o")
} else {
    include_bytes!("../objects/leaves/leaves.riscv64.o")
};

fn register_leaves(engine: &Engine) -> Module {
    let code = engine.load(LEAVES, |_| Some(callee())).unwrap();
    let registration = engine.registration(code);
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe {
        registration
            .entry(EntrySpec::new("entered", 100, 16).args(1).result())
            .register(|_| Some(CallShape::shadow(16)))
    }
    .unwrap()
}

fn call(module: &Module, name: &str) -> u64 {
    module.release();
    let entry = module.function(name).unwrap().entry().unwrap().get() as usize;
    // SAFETY: the functions of the object take a word and return one.
    let function: extern "C" fn(u64) -> u64 =
        unsafe { std::mem::transmute(std::ptr::with_exposed_provenance::<u8>(entry)) };
    function(100)
}

/// A function that GDB names, which calls compiled code. Returns what can be seen from here.
#[inline(never)]
fn patchpoint_calls_compiled(module: &Module, name: &str) -> Vec<usize> {
    let from_here = frames();
    std::hint::black_box(call(module, name));
    from_here
}

/// Whether what is seen, when the function is called, ends with who called it.
fn goes_through(what: &str, module: &Module, name: &str) {
    SEEN.lock().unwrap().clear();
    let from_here = patchpoint_calls_compiled(module, name);
    let seen = std::mem::take(&mut *SEEN.lock().unwrap());
    // A thread that resumes from an invalidated site misses again.
    assert!(!seen.is_empty(), "{what}");
    let [_, here, callers @ ..] = &from_here[..] else {
        panic!("{from_here:x?}");
    };
    assert!(callers.len() > 3, "{from_here:x?}");
    for seen in seen {
        // The functions between, and compiled code, which is called a few instructions further on.
        let between = seen.strip_suffix(callers).and_then(|seen| seen.split_last());
        let right = between.is_some_and(|(last, inner)| inner.len() > 1 && last.abs_diff(*here) < 512);
        assert!(right, "{what}: {seen:x?} of {from_here:x?}");
    }
}

/// One test, as what is seen is in one place.
#[test]
fn what_compiled_code_calls_sees_who_called_it() {
    for live_registers in [false, true] {
        let kind = if live_registers {
            "a live-register exit stub"
        } else {
            "an exit stub"
        };
        let engine = engine(live_registers, NeverStopped);
        let module = register(&engine);
        let missing = Sequence::new()
            .guard_eq(arg(0), 1u64, Target::Miss)
            .mov(result(), 5u64);
        if objects::HAS_CALLEE {
            goes_through("LLVM's own call, in the stub of an armed site", &module, "call_1");
        }
        for id in [101, 201] {
            engine.patch(id, &missing).unwrap();
        }
        goes_through(kind, &module, "any_1");
        let site = engine.sites(102).unwrap()[0].clone();
        let published = engine.publish_stub(&site, &missing).unwrap();
        // SAFETY: the stub is of that site.
        let published = unsafe { Target::addr(published) };
        engine.patch(102, &Sequence::new().jump(published)).unwrap();
        goes_through("an exit stub of a published stub", &module, "any_2");
        goes_through(kind, &module, "call_1");
        engine.invalidate(&module.function("any_1").unwrap()).unwrap();
        goes_through(
            "an exit stub of an invalidated site, and then a miss",
            &module,
            "any_1",
        );
        // SAFETY: the function can be called from the site.
        let calling = unsafe { Sequence::new().call(callee(), OnReturn::FollowsC) };
        match engine.patch(201, &calling) {
            Ok(_) => goes_through("a stub with a call", &module, "call_1"),
            // LLVM does not save the return address there around a patchpoint.
            Err(_) if cfg!(target_arch = "riscv64") => {}
            Err(error) => panic!("{error}"),
        }
    }
    // SAFETY: no other thread executes the code.
    let engine = engine(false, unsafe { SingleThreaded::promise() });
    let leaves = register_leaves(&engine);
    for name in ["leaf", "framed"] {
        engine.invalidate(&leaves.function(name).unwrap()).unwrap();
    }
    let entry = engine.sites(100).unwrap()[0].clone();
    engine.invalidate_site(&entry).unwrap();
    goes_through("an exit stub of a shadow", &leaves, "leaf");
    goes_through("an exit stub in a frame of its own register", &leaves, "framed");
    goes_through("an exit stub at the start of a function", &leaves, "entered");
}

/// What GDB runs: `any_1`, which misses.
#[test]
fn debugged() {
    if std::env::var_os(DEBUGGED).is_none() {
        return;
    }
    let engine = engine(false, NeverStopped);
    let module = register(&engine);
    patchpoint_calls_compiled(&module, "call_1");
    let missing = Sequence::new()
        .guard_eq(arg(0), 1u64, Target::Miss)
        .mov(result(), 5u64);
    engine.patch(101, &missing).unwrap();
    patchpoint_calls_compiled(&module, "any_1");
}

const DEBUGGED: &str = "PATCHPOINT_DEBUGGED";

#[test]
fn gdb_names_stubs_and_exit_stubs_and_goes_through_them() {
    if std::env::var_os(DEBUGGED).is_some() {
        return;
    }
    let commands = [
        "set confirm off",
        "set pagination off",
        "break patchpoint_looks_back",
        "run",
        "bt",
        "continue",
        "bt",
        "kill",
    ];
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-batch", "-nx"]);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    let program = std::env::current_exe().unwrap();
    gdb.arg("--args")
        .arg(program)
        .args(["--exact", "debugged", "--test-threads=1"]);
    let Ok(output) = gdb.env(DEBUGGED, "1").output() else {
        println!("not shown: gdb is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let stops: Vec<&str> = text.split("\n#0 ").skip(1).collect();
    if stops.is_empty() && text.contains("ptrace") {
        println!("not shown: gdb may not trace: {text}");
        return;
    }
    assert_eq!(
        stops.len(),
        2,
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for (stop, code) in stops.iter().zip(["call_1+0x", "any_1+0x"]) {
        let named = stop.find(code).unwrap_or_else(|| panic!("{code}: {stop}"));
        let caller = stop.find("patchpoint_calls_compiled");
        assert!(caller.is_some_and(|caller| named < caller), "{stop}");
    }
}
