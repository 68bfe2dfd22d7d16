//! Calls of C code, recorded while it is linked, and retargeted to other functions while threads
//! make them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::Arch;
use patchpoint::image::Object;

macro_rules! objects {
    ($($name:literal),*) => {
        [$(($name, include_bytes!(concat!("../objects/calls/", $name, ".o")).as_slice())),*]
    };
}

const OBJECTS: [(&str, &[u8]); 16] = objects!(
    "clang.x86_64.O0",
    "clang.x86_64.O2",
    "gcc.x86_64.O0",
    "gcc.x86_64.O2",
    "clang.aarch64.O0",
    "clang.aarch64.O2",
    "clang.powerpc64.O0",
    "clang.powerpc64.O2",
    "clang.powerpc64le.O0",
    "clang.powerpc64le.O2",
    "clang.powerpc64-elfv2.O0",
    "clang.powerpc64-elfv2.O2",
    "clang.s390x.O0",
    "clang.s390x.O2",
    "clang.riscv64.O0",
    "clang.riscv64.O2"
);

/// The functions that call `callee` once, or twice, as the source has them.
const CALLERS: [(&str, usize); 13] = [
    ("once", 1),
    ("twice", 2),
    ("both", 1),
    ("tail", 1),
    ("sometimes", 1),
    ("at_0", 1),
    ("at_1", 1),
    ("at_2", 1),
    ("at_3", 1),
    ("at_4", 1),
    ("at_5", 1),
    ("at_6", 1),
    ("at_7", 1),
];

#[test]
fn every_call_of_a_named_function_is_recorded() {
    for (name, object) in OBJECTS {
        let layout = Object::parse(object).unwrap().layout().unwrap();
        let base = CodeAddr::new(0x1000_0000);
        let (addrs, _) = layout.contiguous(base, Len::new(1 << 16)).unwrap();
        let linked = layout.link(&addrs, &|_| Some(CodeAddr::new(0x1010_0000)));
        let linked = linked.unwrap();
        let calls = |wanted: &dyn Fn(&str) -> bool| layout.calls(&addrs, wanted);
        let callers = |wanted: &dyn Fn(&str) -> bool| {
            let of = |call: patchpoint::image::RecordedCall| {
                linked.image.function_at(call.addr).unwrap().name.clone()
            };
            calls(wanted).into_iter().map(of).collect::<Vec<_>>()
        };
        let found = callers(&|callee| callee == "callee");
        for (caller, count) in CALLERS {
            let calls = found.iter().filter(|name| *name == caller).count();
            assert_eq!(calls, count, "{name}: {caller}");
        }
        let x86 = layout.graph().arch() == Arch::X86_64;
        assert_eq!(found.len(), if x86 { 15 } else { 14 }, "{name}: {found:?}");
        assert_eq!(x86, found.iter().any(|caller| caller == "jumps"));
        let near = callers(&|callee| callee == "near_one");
        assert_eq!(near, if x86 { vec!["relative"] } else { vec![] }, "{name}");
        assert_eq!(callers(&|callee| callee == "other"), ["both"], "{name}");
        assert_eq!(calls(&|_| true).len(), found.len() + 1 + near.len(), "{name}");
        assert_eq!(calls(&|_| false), [], "{name}");
    }
}

#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "powerpc64",
        target_arch = "s390x",
        target_arch = "riscv64"
    )
))]
mod running {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;
    use patchpoint::engine::Status;
    use patchpoint::image::Graph;
    use patchpoint::publish::{Attached, GracePeriod, NeverStopped, SingleThreaded, World};
    use patchpoint::sequence::{Sequence, Target};
    use patchpoint::site::Module;
    use patchpoint::{CallShape, Engine, Error};

    type Function = extern "C" fn(i64) -> i64;

    const SHIFT: u32 = 40;

    extern "C" fn first(x: i64) -> i64 {
        x
    }
    extern "C" fn second(x: i64) -> i64 {
        x + (1 << SHIFT)
    }
    extern "C" fn third(x: i64) -> i64 {
        x + (2 << SHIFT)
    }
    extern "C" fn fourth(x: i64) -> i64 {
        x + (3 << SHIFT)
    }
    extern "C" fn another(_: i64) -> i64 {
        7
    }

    const TARGETS: [Function; 4] = [first, second, third, fourth];
    const ID: u64 = 500;

    fn addr(function: Function) -> CodeAddr {
        CodeAddr::new(function as *const () as u64)
    }

    struct Fixture {
        engine: Engine,
        module: Module,
    }

    /// The objects of this machine.
    fn fixtures<W: World + 'static>(world: fn() -> W, live: bool) -> impl Iterator<Item = Fixture> {
        let arch = Arch::host().unwrap().to_string();
        let mine = OBJECTS
            .into_iter()
            .filter(move |(name, _)| name.split('.').nth(1) == Some(&arch));
        mine.map(move |(_, object)| {
            let engine = Engine::builder().world(world()).build().unwrap();
            let module = load(&engine, object, live);
            Fixture { engine, module }
        })
    }

    fn load(engine: &Engine, object: &[u8], live: bool) -> Module {
        let graph = Graph::new("calls", Object::parse(object).unwrap());
        let resolve = |name: &str| match name {
            "callee" => Some(addr(first)),
            "other" => Some(addr(another)),
            _ => None,
        };
        let id = |callee: &str| match callee {
            "callee" => Some(ID.into()),
            "near_one" => Some((ID + 1).into()),
            _ => None,
        };
        let code = engine.load_recording(graph, resolve, id).unwrap();
        let registration = engine.registration(code);
        let registration = if live { registration.live() } else { registration };
        // SAFETY: what is told is true of the object's code, or refused.
        unsafe { registration.register(|_| CallShape::shadow(0)) }.unwrap()
    }

    fn single() -> SingleThreaded {
        // SAFETY: the tests that use it change and run code on one thread.
        unsafe { SingleThreaded::promise() }
    }

    fn never() -> NeverStopped {
        NeverStopped
    }

    impl Fixture {
        fn function(&self, name: &str) -> Function {
            self.module.release();
            let entry = self.module.function(name).unwrap().entry().unwrap();
            // SAFETY: the C source gives all of them this signature; the module outlives its calls.
            unsafe { std::mem::transmute(entry.get() as usize) }
        }

        /// Every call goes to this target.
        fn check(&self, target: usize) {
            let target = (target as i64) << SHIFT;
            for x in [3, 1000] {
                assert_eq!(self.function("once")(x), x + target + 1);
                assert_eq!(self.function("twice")(x), 2 * x + 1 + 2 * target);
                assert_eq!(self.function("both")(x), x + target + 7);
                assert_eq!(self.function("tail")(x), x + target);
                assert_eq!(self.function("sometimes")(x), x + target);
                assert_eq!(self.function("sometimes")(0), -1);
                for n in 0..8 {
                    assert_eq!(self.function(&format!("at_{n}"))(x), x + target + n);
                }
                if cfg!(target_arch = "x86_64") {
                    assert_eq!(self.function("jumps")(x), x + target);
                    assert_eq!(self.function("jumps")(0), -1);
                }
            }
        }

        fn bytes(&self) -> Vec<Vec<u8>> {
            let sites = self.engine.calls_of("callee").unwrap();
            sites.iter().map(|site| site.read().unwrap()).collect()
        }
    }

    fn change_and_restore<W: World + 'static>(world: fn() -> W, live: bool) {
        let mut near_and_far = [0; 2];
        for fixture in fixtures(world, live) {
            let engine = &fixture.engine;
            let calls = engine.calls_of("callee").unwrap();
            assert_eq!(calls.len(), engine.sites(ID).unwrap().len());
            fixture.check(0);
            let before = (fixture.bytes(), engine.stub_stats().in_use);
            for round in 0..3 {
                for (number, target) in TARGETS.into_iter().enumerate().skip(1) {
                    // SAFETY: what is there can be entered as the function can, or is not called.
                    let receipt = unsafe { engine.retarget("callee", addr(target)) }.unwrap();
                    assert_eq!(receipt.sites, calls.len());
                    fixture.check(number);
                    assert!(calls.iter().all(|site| engine.status(site) == Status::Patched));
                    // It is so already.
                    // SAFETY: what is there can be entered as the function can, or is not called.
                    assert_eq!(
                        unsafe { engine.retarget("callee", addr(target)) }.unwrap().sites,
                        0
                    );
                    let stubs = calls.iter().filter(|site| engine.stub_bytes(site) > 0).count();
                    near_and_far[1] += usize::from(stubs > 0);
                }
                // In reach of the calls: the module's own.
                let near = fixture.module.function("near_one").unwrap().entry().unwrap();
                // SAFETY: what is there can be entered as the function can, or is not called.
                unsafe { engine.retarget("callee", near) }.unwrap();
                assert_eq!(fixture.function("tail")(5), 5000);
                assert_eq!(fixture.function("at_3")(5), 5003);
                near_and_far[0] += 1;
                let restored = engine.restore_calls("callee").unwrap();
                assert_eq!(restored.sites, calls.len());
                fixture.check(0);
                assert_eq!(fixture.bytes(), before.0, "round {round}");
                assert!(calls.iter().all(|site| engine.status(site) == Status::Original));
                assert_eq!(engine.restore_calls("callee").unwrap().sites, 0);
            }
            // One alone.
            // SAFETY: what is there can be entered as the function can, or is not called.
            unsafe { engine.retarget("callee", addr(second)) }.unwrap();
            let site = fixture.module.function("tail").unwrap().sites().next().unwrap();
            engine.restore_site(&site).unwrap();
            assert_eq!(fixture.function("tail")(5), 5);
            assert_eq!(fixture.function("sometimes")(5), 5 + (1 << SHIFT));
            if cfg!(target_arch = "x86_64") {
                let relative = fixture.function("relative");
                assert_eq!(relative(5), 5000);
                // SAFETY: what is there can be entered as the function can, or is not called.
                unsafe { engine.retarget("near_one", addr(second)) }.unwrap();
                assert_eq!(relative(5), 5 + (1 << SHIFT));
                engine.restore_calls("near_one").unwrap();
                assert_eq!(relative(5), 5000);
            }
            // What was not asked for keeps its target.
            assert!(matches!(
                // SAFETY: what is there can be entered as the function can, or is not called.
                unsafe { engine.retarget("other", addr(second)) },
                Err(Error::NoCallSite { .. })
            ));
            // SAFETY: nothing executes the module.
            let grace_period = unsafe { GracePeriod::promise() };
            engine.reclaim(&grace_period).unwrap();
            engine.unregister(fixture.module.clone(), &grace_period).unwrap();
            assert_eq!(engine.stub_stats().in_use, 0);
            assert!(matches!(
                // SAFETY: what is there can be entered as the function can, or is not called.
                unsafe { engine.retarget("callee", addr(second)) },
                Err(Error::NoCallSite { .. })
            ));
        }
        // On the others the test's own functions may be in reach, too.
        if cfg!(target_arch = "x86_64") {
            assert!(near_and_far.iter().all(|count| *count > 0), "{near_and_far:?}");
        }
    }

    #[test]
    fn calls_are_retargeted_and_restored() {
        change_and_restore(single, false);
    }

    #[test]
    fn live_calls_are_retargeted_and_restored() {
        change_and_restore(never, true);
    }

    #[test]
    fn a_call_site_is_for_nothing_else() {
        for live in [false, true] {
            let fixture = fixtures(single, live).next().unwrap();
            let (engine, site) = (
                &fixture.engine,
                fixture.engine.calls_of("callee").unwrap()[0].clone(),
            );
            let refused = |result: Result<_, Error>| {
                let error = result.unwrap_err();
                assert!(matches!(error, Error::CallSiteOnly { .. }), "{error}");
            };
            // SAFETY: the function takes and returns what the other does.
            let jump = Sequence::new().jump(unsafe { Target::addr(addr(second)) });
            refused(engine.patch_site(&site, &jump));
            refused(engine.patch(ID, &jump));
            refused(engine.invalidate_site(&site));
            refused(
                engine
                    .publish_stub(&site, &jump)
                    .map(|_| engine.restore_site(&site).unwrap()),
            );
            let function = fixture.module.function("once").unwrap();
            let nothing = engine.invalidate(&function);
            assert!(
                matches!(nothing, Err(Error::NothingToInvalidate { .. })),
                "{nothing:?}"
            );
            // SAFETY: what is there can be entered as the function can, or is not called.
            let entry = unsafe { engine.redirect(&function, addr(second)) };
            assert!(matches!(entry, Err(Error::NoEntrySite { .. })));
            fixture.check(0);
        }
    }

    /// All modules of an engine, in one transaction.
    #[test]
    fn the_calls_of_all_modules_change_at_once() {
        let fixture = fixtures(single, false).next().unwrap();
        let others: Vec<Module> = fixtures(single, false)
            .zip(
                OBJECTS
                    .iter()
                    .filter(|(name, _)| name.split('.').nth(1) == Some(&Arch::host().unwrap().to_string())),
            )
            .map(|(_, (_, object))| load(&fixture.engine, object, true))
            .collect();
        let count = fixture.engine.calls_of("callee").unwrap().len();
        assert!(others.len() > 1);
        // SAFETY: what is there can be entered as the function can, or is not called.
        let receipt = unsafe { fixture.engine.retarget("callee", addr(third)) }.unwrap();
        assert_eq!(receipt.sites, count);
        fixture.check(2);
        for module in others {
            let engine = fixture.engine.clone();
            Fixture { engine, module }.check(2);
        }
    }

    /// Somebody else has changed one of them: no call is retargeted.
    #[test]
    fn all_calls_change_or_none() {
        for live in [false, true] {
            let fixture = fixtures(single, live).next().unwrap();
            let engine = &fixture.engine;
            // SAFETY: what is there can be entered as the function can, or is not called.
            unsafe { engine.retarget("callee", addr(third)) }.unwrap();
            let (calls, before) = (engine.calls_of("callee").unwrap(), fixture.bytes());
            // Its own bytes are what changes, not those of a gate.
            let in_place = calls
                .iter()
                .rposition(|site| !live || site.patchable_jump().is_ok());
            let Some(number) = in_place else { continue };
            let (last, old) = (&calls[number], &before[number]);
            let mut changed = old.clone();
            *changed.last_mut().unwrap() ^= 0x40;
            // SAFETY: nothing executes the module, and what is written is rolled back.
            let memory = unsafe { fixture.module.areas()[0].writable() };
            memory.write(last.addr(), &changed).unwrap();
            // SAFETY: what is there can be entered as the function can, or is not called.
            let refused = unsafe { engine.retarget("callee", addr(second)) }.unwrap_err();
            assert!(matches!(refused, Error::BytesChanged { .. }), "{refused}");
            memory.write(last.addr(), old).unwrap();
            fixture.check(2);
            assert_eq!(fixture.bytes(), before);
            // SAFETY: what is there can be entered as the function can, or is not called.
            unsafe { engine.retarget("callee", addr(second)) }.unwrap();
            fixture.check(1);
        }
    }

    const INSIDE: [(&str, &[u8]); 6] = objects!(
        "inside.x86_64",
        "inside.aarch64",
        "inside.powerpc64",
        "inside.powerpc64le",
        "inside.s390x",
        "inside.riscv64"
    );

    /// On PowerPC these calls would keep the TOC pointer, if nobody had asked for them.
    #[test]
    fn calls_of_a_function_of_the_same_object_are_retargeted() {
        let arch = Arch::host().unwrap().to_string();
        let mut mine = INSIDE
            .into_iter()
            .filter(|(name, _)| name.split('.').nth(1) == Some(&arch));
        let object = mine.next().unwrap().1;
        for live in [false, true] {
            let engine = Engine::builder().world(single()).build().unwrap();
            let graph = Graph::new("inside", Object::parse(object).unwrap());
            let id = |callee: &str| (callee == "inside").then_some(ID.into());
            let code = engine.load_recording(graph, |_| None, id).unwrap();
            let registration = engine.registration(code);
            let registration = if live { registration.live() } else { registration };
            // SAFETY: what is told is true of the object's code, or refused.
            let module = unsafe { registration.register(|_| CallShape::shadow(0)) }.unwrap();
            let fixture = Fixture { engine, module };
            let call = fixture.function("calls_inside");
            assert_eq!(call(5), 16);
            for _ in 0..2 {
                // SAFETY: what is there can be entered as the function can, or is not called.
                assert_eq!(
                    unsafe { fixture.engine.retarget("inside", addr(second)) }
                        .unwrap()
                        .sites,
                    1
                );
                assert_eq!(call(5), 6 + (1 << SHIFT));
                fixture.engine.restore_calls("inside").unwrap();
                assert_eq!(call(5), 16);
            }
        }
    }

    /// Both ways of a live call: those whose distance is exchanged, and those that have a gate.
    #[test]
    fn live_calls_are_exchanged_in_place_or_at_a_gate() {
        let mut ways = [0; 2];
        for fixture in fixtures(never, true) {
            let calls = fixture.engine.calls_of("callee").unwrap();
            let before = fixture.bytes();
            // SAFETY: what is there can be entered as the function can, or is not called.
            unsafe { fixture.engine.retarget("callee", addr(second)) }.unwrap();
            for ((site, before), after) in calls.iter().zip(before).zip(fixture.bytes()) {
                let in_place = site.patchable_jump().is_ok();
                assert_eq!(in_place, before != after, "{site:?}");
                ways[usize::from(in_place)] += 1;
            }
            let journal = fixture.engine.journal();
            assert!(journal.iter().all(|entry| entry.before != entry.after));
        }
        println!("{} gates, {} in place", ways[0], ways[1]);
        match Arch::host().unwrap() {
            Arch::RiscV64 => assert!(ways[0] > 0 && ways[1] == 0),
            Arch::AArch64 | Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => {
                assert!(ways[0] == 0 && ways[1] > 0)
            }
            _ => assert!(ways[0] > 0 && ways[1] > 0),
        }
    }

    /// Threads call while all calls are retargeted from one function to the next. What a thread
    /// calls after an immediate commit has returned goes to that target, or a later one.
    #[test]
    fn threads_call_the_old_or_the_new_function_and_only_the_new_one_after() {
        for fixture in fixtures(never, true) {
            let engine = &fixture.engine;
            let names = CALLERS
                .iter()
                .map(|(name, _)| *name)
                .filter(|name| *name != "twice");
            let functions: Vec<(Function, i64)> = names
                .map(|name| {
                    let function = fixture.function(name);
                    (function, function(5) - 5)
                })
                .collect();
            let (committed, done, calls) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
            let reader = || {
                let thread = engine.attach_thread();
                while !done.load(Ordering::Relaxed) {
                    for (function, more) in &functions {
                        let from = committed.load(Ordering::SeqCst);
                        let result = function(5) - 5 - more;
                        let to = committed.load(Ordering::SeqCst) + 1;
                        assert_eq!(result & ((1 << SHIFT) - 1), 0, "{result:#x}");
                        let target = (result >> SHIFT) as u64;
                        assert!(target < 4, "{result:#x}");
                        let fits = (from..=to).any(|generation| generation % 4 == target);
                        assert!(fits, "target {target} at {from}..{to}");
                        calls.fetch_add(1, Ordering::Relaxed);
                    }
                    thread.checkpoint();
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(reader);
                scope.spawn(reader);
                // SAFETY: this thread is in no call, the others are attached.
                let attached = unsafe { Attached::promise() };
                let rounds = if cfg!(emulated) { 20 } else { 400 };
                let (mut round, mut most) = (0, 0);
                // Each change is seen by some call.
                while round < rounds || calls.load(Ordering::Relaxed) < 10_000 {
                    round += 1;
                    let target = addr(TARGETS[(round % 4) as usize]);
                    let mut change = engine.transaction();
                    // SAFETY: what is there can be entered as the function can, or is not called.
                    unsafe { change.retarget("callee", target) }.unwrap();
                    change.immediate().commit().unwrap();
                    committed.store(round, Ordering::SeqCst);
                    if round % 16 == 0 {
                        engine.reclaim_passed(&attached).unwrap();
                        most = most.max(engine.stub_stats().in_use);
                    }
                }
                done.store(true, Ordering::Relaxed);
                println!(
                    "{round} changes of {} calls, {} calls meanwhile, at most {most} bytes of stubs",
                    engine.calls_of("callee").unwrap().len(),
                    calls.load(Ordering::Relaxed)
                );
            });
        }
    }
}
