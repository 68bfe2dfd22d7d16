//! A program whose code has traps of the engine's, under the real GDB, where it is installed: by the
//! recipe on the page of `publish::trap`, which is run as it stands there.
//!
//! GDB is told of a SIGTRAP before the program is, and takes it for its own. Here two threads trap
//! again and again while GDB has breakpoints of both kinds; the program has to end with the right
//! results, and to have stopped where it was told to, no more and no less often.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use asm_tests::live::objects::INLINE_CACHE;
use patchpoint::deopt::ExitStubs;
use patchpoint::publish::NeverStopped;
use patchpoint::sequence::{Field, Sequence, arg, result};
use patchpoint::{CallShape, Engine};

const GET: u64 = 78;
const LOOP: u64 = 90;

/// How many turns the loop takes, in each of which there is a trap once it has been invalidated.
const TURNS: u64 = 100;
const THREADS: u64 = 2;
/// How often each thread calls the function of the loop.
const CALLS: u64 = 2;

/// Where GDB stops: once before there are traps, and then after each call.
// SAFETY: nothing else has the name.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn patchpoint_is_between(entry: u64) -> u64 {
    std::hint::black_box(entry)
}

/// What GDB runs.
#[test]
fn debugged() {
    if std::env::var_os(DEBUGGED).is_none() {
        return;
    }
    let entered = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&entered);
    let exit_stubs = ExitStubs::new()
        .on_miss(|frame| frame.resume())
        .on_deopt(move |frame| {
            let is_trap = frame.context().id.get() == LOOP;
            count.fetch_add(u64::from(is_trap), Ordering::Relaxed);
            frame.resume()
        });
    let builder = Engine::builder().world(NeverStopped).exits(exit_stubs);
    let engine = builder.build().unwrap();
    let code = engine.load(INLINE_CACHE, |_| None).unwrap();
    let shape = |id| match id {
        GET => Some(CallShape::any_reg(32).result().args(1)),
        LOOP => Some(CallShape::shadow(24)),
        _ => None,
    };
    let registration = engine.registration(code).live();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { registration.register(|record| shape(record.id().get())) }.unwrap();
    let hit = Sequence::new().load(result(), u64::at(arg(0), 24));
    engine.patch(GET, &hit).unwrap();
    module.release();
    let function = module.function("sum_fields").unwrap();
    // SAFETY: the IR gives the function this signature; the module outlives its calls.
    let sum: extern "C" fn(*const &[u64; 4], u64) -> u64 = unsafe { function.typed() }.unwrap();
    let objects: Vec<[u64; 4]> = (0..TURNS).map(|n| [0, 0, 0, n]).collect();
    let list: Vec<&[u64; 4]> = objects.iter().collect();
    let expected = (0..TURNS).sum::<u64>() + TURNS + TURNS / 2;
    let call = || assert_eq!(sum(list.as_ptr(), TURNS), expected);
    call();
    assert_eq!(entered.load(Ordering::Relaxed), 0);
    let entry = function.entry().unwrap().get();
    patchpoint_is_between(entry);
    engine.invalidate(&function).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..CALLS {
                    call();
                    patchpoint_is_between(entry);
                }
            });
        }
    });
    println!("right, after {} traps", entered.load(Ordering::Relaxed));
}

const DEBUGGED: &str = "PATCHPOINT_DEBUGGED";

/// What GDB says when it runs the recipe and then these commands; `None` where it cannot.
fn under_gdb(commands: &[&str]) -> Option<String> {
    let recipe = concat!(env!("CARGO_MANIFEST_DIR"), "/../src/publish/trap/x86_64.gdb");
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-batch", "-nx", "-ex", "set pagination off", "-x", recipe]);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    gdb.arg("--args").arg(std::env::current_exe().unwrap());
    gdb.args(["--exact", "debugged", "--test-threads=1", "--nocapture"]);
    let Ok(output) = gdb.env(DEBUGGED, "1").output() else {
        println!("not shown: gdb is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("ptrace") || text.contains("ptrace") {
        println!("not shown: gdb may not trace: {errors}");
        return None;
    }
    if errors.contains("hardware breakpoint") {
        println!("not shown: there are no hardware breakpoints here: {errors}");
        return None;
    }
    Some(format!("{text}{errors}"))
}

/// That a program took all its traps, and ended as it should.
fn assert_ended_well(text: &str) {
    let traps = format!("right, after {} traps", THREADS * CALLS * TURNS);
    assert!(
        text.contains(&traps) && text.contains("exited normally"),
        "{text}"
    );
}

#[test]
fn a_program_with_traps_runs_under_gdb() {
    if std::env::var_os(DEBUGGED).is_some() {
        return;
    }
    if let Some(text) = under_gdb(&["continue"]) {
        assert_ended_well(&text);
    }
}

/// One of its own in the program, and one in the function that traps.
#[test]
fn breakpoints_of_gdb_work_beside_traps() {
    if std::env::var_os(DEBUGGED).is_some() {
        return;
    }
    let stops = 1 + 2 * (THREADS * CALLS) as usize;
    let mut commands = vec!["break patchpoint_is_between", "continue", "hbreak *$rdi"];
    commands.extend(vec!["continue"; stops]);
    if let Some(text) = under_gdb(&commands) {
        assert_ended_well(&text);
        let hit = |number: u32| text.matches(&format!("hit Breakpoint {number}, ")).count();
        assert_eq!([hit(2), hit(3)], [stops / 2 + 1, stops / 2], "{text}");
    }
}
