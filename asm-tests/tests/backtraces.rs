//! Backtraces go through stubs and ramps into the callers of compiled code: those that a handler or callee takes, and
//! those of the real GDB, where it is installed.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::backtrace::Backtrace;
use std::process::Command;
use std::sync::Mutex;

use patchpoint::addr::CodeAddr;
use patchpoint::arch::OnReturn;
use patchpoint::deopt::Ramps;
use patchpoint::observe::{Gdb, Unwinder};
use patchpoint::publish::NeverStopped;
use patchpoint::sequence::{Sequence, Target, arg, result};
use patchpoint::site::Module;
use patchpoint::{CallShape, Engine};

#[path = "../../examples/objects/mod.rs"]
mod objects;

static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Where GDB stops.
// SAFETY: nothing else has the name.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn patchpoint_looks_back(x: u64) -> u64 {
    SEEN.lock().unwrap().push(Backtrace::force_capture().to_string());
    x + 1
}

fn engine(lean: bool) -> Engine {
    let ramps = Ramps::new().on_deopt(|frame| {
        patchpoint_looks_back(0);
        frame.resume()
    });
    let ramps = match lean {
        true => ramps.on_lean_miss(|frame| {
            patchpoint_looks_back(0);
            frame.resume()
        }),
        false => ramps.on_miss(|frame| {
            patchpoint_looks_back(0);
            frame.resume()
        }),
    };
    let builder = Engine::builder().world(NeverStopped).exits(ramps);
    builder
        .observer(Unwinder::new())
        .observer(Gdb::new())
        .build()
        .unwrap()
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
        201 => Some(CallShape::c(objects::call_reserved(1)).result().args(1)),
        _ => None,
    };
    registration.register(|record| shape(record.id().get())).unwrap()
}

fn call(module: &Module, name: &str) -> u64 {
    let entry = module.function(name).unwrap().entry().get() as usize;
    // SAFETY: the functions of the object take a word and return one.
    let function: extern "C" fn(u64) -> u64 =
        unsafe { std::mem::transmute(std::ptr::with_exposed_provenance::<u8>(entry)) };
    function(100)
}

/// A function that GDB and backtraces name, which calls compiled code.
#[inline(never)]
fn patchpoint_calls_compiled(module: &Module, name: &str) -> u64 {
    std::hint::black_box(call(module, name))
}

/// What is seen when a function of the object is called whose code leads somewhere.
fn seen(module: &Module, name: &str) -> Vec<String> {
    SEEN.lock().unwrap().clear();
    patchpoint_calls_compiled(module, name);
    std::mem::take(&mut SEEN.lock().unwrap())
}

/// One test, as what is seen is in one place.
#[test]
fn what_compiled_code_calls_sees_who_called_it() {
    for lean in [false, true] {
        let engine = engine(lean);
        let module = register(&engine);
        let missing = Sequence::new()
            .guard_eq(arg(0), 1u64, Target::Miss)
            .mov(result(), 5u64);
        let through = |what: &str, name: &str| {
            let seen = seen(&module, name);
            // A thread that resumes from an invalidated site misses again.
            assert!(!seen.is_empty(), "{what}");
            for trace in seen {
                let caller = trace.contains("patchpoint_calls_compiled");
                assert!(caller, "{what}, lean {lean}: {trace}");
            }
        };
        // LLVM's own call, in the stub that arming has made of it.
        through("an armed stub", "call_1");
        engine.patch(101, &missing).unwrap();
        through("a miss", "any_1");
        engine.invalidate(&module.function("any_1").unwrap()).unwrap();
        through("an invalidation", "any_1");
        let calling = Sequence::new().call(callee(), OnReturn::FollowsC);
        engine.patch(201, &calling).unwrap();
        through("a stub with a call", "call_1");
    }
}

/// What GDB runs: `any_1`, which misses.
#[test]
fn debugged() {
    if std::env::var_os(DEBUGGED).is_none() {
        return;
    }
    let engine = engine(false);
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
fn gdb_names_stubs_and_ramps_and_goes_through_them() {
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
