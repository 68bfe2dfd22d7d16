//! When observers are told, and what one that panics or calls the engine does to it: nothing.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::OnceLock;

use parking_lot::Mutex;

use super::*;
use crate::engine::Event;
use crate::memory::testing::process::{End, end_of_child, in_child};
use crate::sequence::Target;

/// The kinds of events, in the order in which they were told.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Observer for Log {
    fn observe(&self, event: &Event<'_>) {
        self.0.lock().push(name(event));
    }
}

fn name(event: &Event<'_>) -> &'static str {
    match event {
        Event::Registered { .. } => "registered",
        Event::Unregistered { .. } => "unregistered",
        Event::Placed(_) => "placed",
        Event::Changed(_) => "changed",
        Event::Refused(_) => "refused",
        Event::Reclaimed(_) => "reclaimed",
        Event::Settled { .. } => "settled",
        Event::Preparing { .. } => "preparing",
    }
}

/// An engine of one thread whose misses have the result 99.
fn builder() -> EngineBuilder {
    let exit_stubs = ExitStubs::new()
        .on_deopt(|frame| frame.resume())
        .on_miss(|frame| {
            frame.set_result(99).unwrap();
            frame.resume()
        });
    // SAFETY: every test calls its code on one thread, which is the one that patches.
    let world = unsafe { SingleThreaded::promise() };
    Engine::builder().world(world).exits(exit_stubs)
}

fn register(engine: &Engine, text: &Text, functions: &[Written]) -> Result<Module> {
    let code = engine.adopt_with(text.adopted(functions), &text.shared())?;
    let shape = |id: RecordId| functions.iter().find(|f| f.record.id == id.get());
    // SAFETY: what is told is true of the code that this test wrote.
    unsafe { engine.register(code, |record| shape(record.id()).map(|f| f.shape)) }
}

/// `result = argument` where that is 7.
fn only_seven() -> Sequence {
    let guarded = Sequence::new().guard_eq(arg(0), 7u64, Target::Miss);
    guarded.mov(result(), arg(0))
}

fn grace_period() -> GracePeriod {
    // SAFETY: the only thread is here, in no code of a test.
    unsafe { GracePeriod::promise() }
}

/// What observers are told while a transaction's own stubs are between two owners frees none of
/// them.
#[test]
fn what_sites_branch_to_outlives_a_panic_about_a_neighbour() {
    assert!(in_child(|| {
        let panics = Arc::new(AtomicBool::new(false));
        let armed = Arc::clone(&panics);
        let observer = move |event: &Event<'_>| {
            if matches!(event, Event::Reclaimed(_)) && armed.swap(false, Ordering::Relaxed) {
                panic_any("an observer's");
            }
        };
        let engine = builder().observer(observer).build().unwrap();
        let functions = [identity(1), identity(2)];
        let text = Text::new(&functions);
        let _module = register(&engine, &text, &functions).unwrap();
        let [one, two] = [1, 2].map(|id| engine.sites(id).unwrap()[0].clone());
        engine.patch_site(&one, &plus_in_stub(10)).unwrap();
        panics.store(true, Ordering::Relaxed);
        let mut transaction = engine.transaction();
        transaction.patch_site(&one, &plus(5)).unwrap();
        let transaction = transaction.patch_site(&two, &only_seven()).unwrap();
        let committed = catch_unwind(AssertUnwindSafe(|| transaction.commit()));
        // The stub that was replaced is gone, and nothing else.
        assert!(committed.is_err() && engine.stub_bytes(&one) == 0 && engine.stub_bytes(&two) > 0);
        assert_eq!(
            (engine.status(&two), engine.journal().len()),
            (Status::Patched, 3)
        );
        (call(&one, 1), call(&two, 7), call(&two, 8)) == (6, 7, 99)
    }));
}

/// What a test does with an engine, a step at a time.
type Step<'a> = (&'static str, &'a dyn Fn() -> bool, &'a [&'static str]);

/// Whatever it is told of: the change is whole, the other observers are told, and the panic goes on
/// in the caller, with the engine's lock free.
#[test]
fn a_panic_of_an_observer_harms_nobody() {
    let (panics, log) = (Arc::new(AtomicBool::new(true)), Log::default());
    let told = Arc::clone(&panics);
    let observer = move |event: &Event<'_>| {
        if told.load(Ordering::Relaxed) {
            panic_any(name(event));
        }
    };
    let engine = builder()
        .observer(observer)
        .observer(log.clone())
        .build()
        .unwrap();
    let functions = [identity(1), identity(2)];
    let text = Text::new(&functions);
    let site = |id: u64| engine.sites(id).unwrap()[0].clone();
    let retired = || engine.retired().len();
    let kept = crate::sequence::reg(crate::addr::DwarfReg::new(KEPT));
    let impossible = Sequence::new().mov(kept, 1u64);
    let steps: [Step<'_>; 8] = [
        (
            "register",
            &|| register(&engine, &text, &functions).is_ok(),
            &["registered"],
        ),
        (
            "patch",
            &|| engine.patch(1, &plus_in_stub(9)).is_ok(),
            &["placed", "changed"],
        ),
        ("refuse", &|| engine.patch(1, &impossible).is_err(), &["refused"]),
        (
            "patch in place",
            &|| engine.patch(1, &plus(5)).is_ok(),
            &["reclaimed", "changed"],
        ),
        (
            "publish",
            &|| engine.publish_stub(&site(2), &only_seven()).is_ok(),
            &["placed", "placed"],
        ),
        (
            "fail",
            &|| {
                text.memory.fail_after(crate::memory::testing::Call::Write, 0);
                engine.patch(1, &plus_in_stub(7)).is_err()
            },
            &["placed", "reclaimed", "refused"],
        ),
        (
            "invalidate",
            &|| engine.invalidate_site(&site(2)).is_ok(),
            &["placed", "changed"],
        ),
        (
            "unregister",
            &|| {
                engine
                    .unregister(engine.modules().remove(0), &grace_period())
                    .is_ok()
            },
            &["reclaimed", "reclaimed", "reclaimed", "unregistered"],
        ),
    ];
    for (what, step, expected) in steps {
        let payload = catch_unwind(AssertUnwindSafe(step)).unwrap_err();
        assert_eq!(log.take(), expected, "{what}");
        assert_eq!(payload.downcast_ref(), expected.first(), "{what}");
        match what {
            "patch" => assert_eq!(call(&site(1), 10), 19),
            "patch in place" | "fail" => assert_eq!(call(&site(1), 10), 15, "{what}"),
            _ => {}
        }
        assert_eq!(retired(), 0);
    }
    let left = engine.stub_stats();
    assert_eq!((left.in_use, left.slots, engine.modules().len()), (0, 0, 0));
    panics.store(false, Ordering::Relaxed);
    register(&engine, &Text::new(&functions), &functions).unwrap();
}

/// An observer that changes the engine that tells it would wait for itself.
#[test]
fn an_observer_that_changes_its_engine_panics_and_does_not_hang() {
    type EngineUse = fn(&Engine);
    let uses: [EngineUse; 4] = [
        |engine| drop(engine.patch(1, &plus(4))),
        |engine| drop(engine.retired()),
        |engine| drop(engine.journal()),
        |engine| drop(engine.reclaim(&grace_period())),
    ];
    for used in uses {
        let end = end_of_child(|| {
            let known = Arc::new(OnceLock::<WeakEngine>::new());
            let own = Arc::clone(&known);
            let observer = move |event: &Event<'_>| {
                if let (Event::Changed(_), Some(engine)) = (event, own.get()) {
                    used(&engine.upgrade().unwrap());
                }
            };
            let engine = builder().observer(observer).build().unwrap();
            known.set(engine.downgrade()).unwrap();
            let functions = [identity(1)];
            let text = Text::new(&functions);
            let _module = register(&engine, &text, &functions).unwrap();
            let changed = catch_unwind(AssertUnwindSafe(|| engine.patch(1, &plus(5))));
            let payload = changed.unwrap_err();
            let message = payload.downcast_ref::<&str>().copied().unwrap_or_default();
            let site = engine.sites(1).unwrap()[0].clone();
            message.contains("observer") && call(&site, 10) == 15
        });
        assert_eq!(end, End::Returned(true));
    }
}

/// Another engine's lock is another one.
#[test]
fn an_observer_may_use_another_engine() {
    let functions = [identity(1)];
    let (text, others) = (Text::new(&functions), Text::new(&functions));
    let other = builder().build().unwrap();
    let _other_module = register(&other, &others, &functions).unwrap();
    let patched = other.clone();
    let observer = move |event: &Event<'_>| {
        if matches!(event, Event::Changed(_)) {
            patched.patch(1, &plus(3)).unwrap();
        }
    };
    let engine = builder().observer(observer).build().unwrap();
    let _module = register(&engine, &text, &functions).unwrap();
    engine.patch(1, &plus(5)).unwrap();
    assert_eq!(call(&other.sites(1).unwrap()[0], 10), 13);
}

/// A world that panics when its work is done.
#[derive(Debug)]
struct Panicking(Arc<AtomicBool>);

// SAFETY: the test calls its code on one thread, which is the one that patches.
unsafe impl World for Panicking {
    fn while_stopped(
        &self,
        vacated: &[crate::publish::Vacated],
        work: &mut dyn FnMut(&Stopped),
    ) -> crate::publish::Result<()> {
        // SAFETY: as above.
        let stopped = unsafe { SingleThreaded::promise() }.while_stopped(vacated, work);
        assert!(!self.0.load(Ordering::Relaxed), "as it was told");
        stopped
    }
}

/// What unwinds through a commit that has written leaves in place what the sites branch to now.
#[test]
fn what_was_written_outlives_a_panic_in_the_commit() {
    assert!(in_child(|| {
        let panics = Arc::new(AtomicBool::new(false));
        let exit_stubs = ExitStubs::new().on_miss(|frame| {
            frame.set_result(99).unwrap();
            frame.resume()
        });
        let world = Panicking(Arc::clone(&panics));
        let engine = Engine::builder().world(world).exits(exit_stubs).build().unwrap();
        let functions = [identity(1)];
        let text = Text::new(&functions);
        let _module = register(&engine, &text, &functions).unwrap();
        let site = engine.sites(1).unwrap()[0].clone();
        panics.store(true, Ordering::Relaxed);
        let committed = catch_unwind(AssertUnwindSafe(|| engine.patch_site(&site, &only_seven())));
        committed.is_err() && (call(&site, 7), call(&site, 8)) == (7, 99)
    }));
}

/// Profilers, debuggers and unwinders know code before a thread can be in it.
#[test]
fn stubs_are_told_before_a_site_branches_there() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let observer = move |event: &Event<'_>| match event {
        Event::Placed(placed) => {
            assert!(!placed.code().unwrap().is_empty());
            told.lock().push((name(event), bytes(placed.site)));
        }
        Event::Changed(changed) => told.lock().push((name(event), bytes(changed.site))),
        _ => {}
    };
    let engine = builder().observer(observer).build().unwrap();
    let functions = [identity(1)];
    let text = Text::new(&functions);
    let _module = register(&engine, &text, &functions).unwrap();
    let site = engine.sites(1).unwrap()[0].clone();
    let before = bytes(&site);
    engine.patch_site(&site, &only_seven()).unwrap();
    let after = bytes(&site);
    assert_ne!(before, after);
    let (last, placed) = seen
        .lock()
        .split_last()
        .map(|(a, b)| (a.clone(), b.to_vec()))
        .unwrap();
    assert!(!placed.is_empty() && placed.iter().all(|told| *told == ("placed", before.clone())));
    assert_eq!(last, ("changed", after));
}
