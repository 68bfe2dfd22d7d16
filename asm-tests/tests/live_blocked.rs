//! Callees that block inside calls of live sites, while the sites are patched, restored and
//! invalidated: the stubs to which they return stay until their threads have reported, and then
//! they go.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use asm_tests::live::objects::HAS_CALLEE;
use asm_tests::live::{self, KINDS, adding};
use patchpoint::Engine;
use patchpoint::addr::CodeAddr;
use patchpoint::arch::OnReturn;
use patchpoint::deopt::ExitStubs;
use patchpoint::publish::{Attached, GracePeriod, NeverStopped};
use patchpoint::sequence::{Sequence, result};
use patchpoint::site::Module;

/// The callers, by argument, that are in the callee, and those that may leave it.
#[derive(Default)]
struct Door {
    inside: BTreeSet<u64>,
    released: BTreeSet<u64>,
}

static DOOR: Mutex<Door> = Mutex::new(Door {
    inside: BTreeSet::new(),
    released: BTreeSet::new(),
});
static MOVED: Condvar = Condvar::new();

/// What the sites add as LLVM left them: on AArch64 they are nops.
const CALLED: u64 = if HAS_CALLEE { live::CALLEE } else { 0 };

const LIMIT: Duration = Duration::from_secs(60);

/// Changes the door and tells everybody.
fn change<T>(change: impl FnOnce(&mut Door) -> T) {
    change(&mut DOOR.lock().unwrap());
    MOVED.notify_all();
}

/// Waits for what is seen at the door; false after a minute.
fn wait(until: impl Fn(&Door) -> bool) -> bool {
    let door = DOOR.lock().unwrap();
    let (_door, waited) = MOVED
        .wait_timeout_while(door, LIMIT, |door| !until(door))
        .unwrap();
    !waited.timed_out()
}

/// Blocks its caller. Late is better than never: the test then fails by its results.
extern "C" fn blocks(x: u64) -> u64 {
    change(|door| door.inside.insert(x));
    let released = wait(|door| door.released.contains(&x));
    change(|door| door.inside.remove(&x));
    x + if released { 0 } else { 1 << 50 }
}

fn blocking(number: u64) -> Sequence {
    let callee = CodeAddr::new(blocks as *const () as u64);
    // SAFETY: the function can be called from the site.
    unsafe { Sequence::new().call(callee, OnReturn::FollowsC) }.add(result(), number)
}

fn call(module: &Module, id: u64, x: u64) -> u64 {
    // SAFETY: a function of a word that returns one; the module outlives its calls.
    let function: extern "C" fn(u64) -> u64 =
        unsafe { std::mem::transmute(live::entry(module, id) as usize) };
    function(x)
}

/// Releases everybody when it is dropped, also by a panic.
struct Release;

impl Drop for Release {
    fn drop(&mut self) {
        change(|door| door.released.extend(0..1000));
    }
}

/// Sites, and threads that block in each: every one in another stub of it.
const SITES: u64 = 4;
const THREADS: u64 = 3;
const ROUNDS: u64 = 100;
/// How many modules there are, one after the other, of which every site is invalidated at last.
const LIVES: usize = 5;

fn id_of(thread: u64) -> u64 {
    200 + 2 * (thread % SITES)
}

/// Patches and restores every site many times. Returns how many of the commits there were, and
/// stubs freed.
fn churn(engine: &Engine, module: &Module, attached: &Attached) -> (u64, usize) {
    let (mut commits, mut freed) = (0, 0);
    for round in 0..ROUNDS {
        for id in 200..200 + KINDS {
            let site = live::site(module, id);
            let x = 10_000 + round;
            match round % 3 {
                0 => drop(engine.restore_site(&site).unwrap()),
                // Reaches where a stub was freed too early, and would be written over it.
                1 => drop(engine.patch_site(&site, &Sequence::new().trap()).unwrap()),
                _ => drop(engine.patch_site(&site, &adding(round)).unwrap()),
            }
            commits += 1;
            match round % 3 {
                0 => assert_eq!(call(module, id, x), x + CALLED),
                1 => {}
                _ => assert_eq!(call(module, id, x), x + round),
            }
            freed += engine.reclaim_passed(attached).unwrap();
        }
    }
    (commits, freed)
}

/// From the registration of a module to its end.
fn life(engine: &Engine) {
    change(|door| door.released.clear());
    let module = live::register(engine, true);
    // SAFETY: the threads that block are attached and report when their calls have returned; this one is in no call
    // when it frees.
    let attached = unsafe { Attached::promise() };
    let threads = SITES * THREADS;
    let armed = engine.stub_stats().slots;
    std::thread::scope(|scope| {
        let _release = Release;
        let mut blocked = Vec::new();
        for thread in 0..threads {
            let site = live::site(&module, id_of(thread));
            engine.patch_site(&site, &blocking(thread << 20)).unwrap();
            let module = &module;
            blocked.push(scope.spawn(move || {
                let handle = engine.attach_thread();
                let value = call(module, id_of(thread), thread);
                handle.quiescent();
                value
            }));
            assert!(wait(|door| door.inside.contains(&thread)), "thread {thread}");
        }
        // Each stub that a thread will return to has been replaced, but those of the last patches.
        assert_eq!(engine.retired().len() as u64, threads - SITES);
        let (commits, freed) = churn(engine, &module, &attached);
        assert_eq!(freed, 0, "nobody has reported");
        let functions: Vec<_> = module.functions().collect();
        for function in &functions {
            engine.invalidate(function).unwrap();
        }
        for thread in 0..threads {
            let last = thread + 1 == threads;
            assert_eq!(
                engine.reclaim_passed(&attached).unwrap(),
                0,
                "before thread {thread}"
            );
            change(|door| door.released.insert(thread));
            let value = blocked.remove(0).join().unwrap();
            // What the thread's own stub adds, whatever the site became.
            assert_eq!(value, thread + (thread << 20), "thread {thread}");
            assert!(last || !engine.retired().is_empty());
        }
        let mut freed = 0;
        while !engine.retired().is_empty() {
            freed += engine.reclaim_passed(&attached).unwrap();
        }
        println!(
            "{threads} threads blocked in {SITES} sites, {commits} commits meanwhile, {freed} stubs freed at last"
        );
        assert!(freed as u64 >= threads);
    });
    // Invalidated sites keep their exit stubs, and what resumes by them.
    for id in 200..200 + KINDS {
        assert_eq!(call(&module, id, 7), 7 + CALLED);
    }
    let in_use = engine.stub_stats().slots;
    assert!(
        in_use <= armed + 2 * 2 * KINDS,
        "{in_use} slots, {armed} as armed"
    );
    // SAFETY: the threads that blocked are gone, and this one is in no call.
    engine
        .unregister(module, &unsafe { GracePeriod::promise() })
        .unwrap();
    assert_eq!(engine.stub_stats().slots, 0);
}

#[test]
fn stubs_with_threads_blocked_in_their_callees_stay_until_all_have_reported() {
    let exit_stubs = ExitStubs::new().on_deopt(|frame| frame.resume());
    let engine = Engine::builder()
        .world(NeverStopped)
        .exits(exit_stubs)
        .build()
        .unwrap();
    (0..LIVES).for_each(|_| life(&engine));
}
