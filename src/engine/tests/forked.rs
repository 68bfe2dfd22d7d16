//! Forks: what a child executes of the code that it has inherited, and that it changes none of it.

use std::sync::Mutex as StdMutex;
use std::sync::mpsc;

use super::*;
use crate::memory::testing::objects::LIVE_STRESS as OBJECT;
use crate::memory::testing::process::{End, end_of_child, end_of_child_after, in_child};
use crate::sequence::Target;

/// `result = 7` for 7, and otherwise to the handler of misses.
fn seven_or_miss() -> Sequence {
    Sequence::new()
        .guard_eq(arg(0), 7u64, Target::Miss)
        .mov(result(), arg(0))
}

/// The child has its own heap, so it must have its own code: what the parent's code refers to later
/// is not there.
#[test]
fn a_child_never_executes_its_parents_later_patches() {
    let lab = Lab::new();
    let functions = [identity(1), identity(2), identity(3)];
    let text = Text::new(&functions);
    let _module = lab.register(&text, &functions);
    let [one, two, three] = [1_u64, 2, 3].map(|id| lab.engine.sites(id).unwrap()[0].clone());
    lab.engine.patch_site(&one, &plus(5)).unwrap();
    lab.engine.patch_site(&two, &plus_in_stub(10)).unwrap();
    let before = [call(&one, 1), call(&two, 1)];
    let patch = || {
        lab.engine.patch_site(&one, &plus(6)).unwrap();
        lab.engine.patch_site(&two, &seven_or_miss()).unwrap();
        lab.engine.patch_site(&three, &seven_or_miss()).unwrap();
        lab.engine.invalidate_site(&one).unwrap();
    };
    let end = end_of_child_after(patch, || {
        // The child's own heap goes its own way.
        let noise: Vec<Vec<u8>> = (0..4096).map(|n| vec![0x5a; 16 + n % 256]).collect();
        let found = [call(&one, 1), call(&two, 1)];
        found == before && bytes(&three) == nops() && noise.len() == 4096
    });
    assert_eq!(end, End::Returned(true));
    // And the parent does.
    let deopts = lab.deopts.load(Ordering::Relaxed);
    let _ = call(&one, 1);
    assert_eq!(lab.deopts.load(Ordering::Relaxed), deopts + 1);
    assert_eq!(call(&two, 7), 7);
}

/// Handlers of misses and of deoptimization run in the child, on its own heap.
#[test]
fn a_childs_handlers_are_its_own() {
    let lab = Lab::new();
    let functions = [identity(1), identity(2)];
    let text = Text::new(&functions);
    let _module = lab.register(&text, &functions);
    let [one, two] = [1_u64, 2].map(|id| lab.engine.sites(id).unwrap()[0].clone());
    lab.engine.patch_site(&one, &plus(5)).unwrap();
    lab.engine.invalidate_site(&one).unwrap();
    lab.engine.patch_site(&two, &seven_or_miss()).unwrap();
    let before = lab.deopts.load(Ordering::Relaxed);
    // The parent forgets what the child's code refers to.
    let forget = || {
        let restored = lab.engine.restore_site(&two);
        // SAFETY: no thread of this process is in a stub.
        let grace_period = unsafe { GracePeriod::promise() };
        restored.and_then(|_| lab.engine.reclaim(&grace_period)).unwrap();
    };
    let end = end_of_child_after(forget, || {
        let first = call(&one, 1);
        let deopts = lab.deopts.load(Ordering::Relaxed) - before;
        (first, deopts, call(&two, 7)) == (6, 1, 7) && in_child(|| call(&one, 1) == 6)
    });
    assert_eq!(end, End::Returned(true));
    assert_eq!(lab.deopts.load(Ordering::Relaxed), before);
}

/// An engine whose lock is held by a thread of the parent's, in an observer, when the child is
/// forked.
#[test]
fn a_child_is_refused_at_once_where_its_parent_held_the_lock() {
    let (held, is_held) = mpsc::channel();
    let (let_go, gone) = mpsc::channel::<()>();
    let (held, gone) = (StdMutex::new(held), StdMutex::new(gone));
    let slow = Arc::new(AtomicBool::new(false));
    let is_slow = Arc::clone(&slow);
    let engine = Engine::builder()
        .world(Shared(Arc::new(Moody::default())))
        .observer(move |_: &Event<'_>| {
            if is_slow.swap(false, Ordering::Relaxed) {
                held.lock().unwrap().send(()).unwrap();
                let _ = gone.lock().unwrap().recv();
            }
        })
        .build()
        .unwrap();
    let functions = [identity(1), identity(2)];
    let text = Text::new(&functions);
    let code = engine
        .adopt_with(text.adopted(&functions), &text.shared())
        .unwrap();
    let shapes = |id: RecordId| {
        functions
            .iter()
            .find(|f| f.record.id == id.get())
            .map(|f| f.shape)
    };
    // SAFETY: what is told is true of the code that this test wrote.
    let module = unsafe { engine.register(code, |record| shapes(record.id())) }.unwrap();
    let one = engine.sites(1).unwrap()[0].clone();
    let function = module.function("f0").unwrap();
    slow.store(true, Ordering::Relaxed);
    let ends = std::thread::scope(|scope| {
        scope.spawn(|| engine.patch_site(&one, &plus(5)).unwrap());
        is_held.recv().unwrap();
        let refused = |work: &dyn Fn() -> bool| {
            end_of_child(|| {
                // SAFETY: a child that hangs is ended.
                unsafe { libc::alarm(10) };
                work()
            })
        };
        let forked = |done: Result<()>| done == Err(Error::Memory(crate::memory::Error::EngineForked));
        // SAFETY: nothing is freed.
        let grace_period = || unsafe { GracePeriod::promise() };
        let changes: [(&str, &dyn Fn() -> bool); 15] = [
            ("patch", &|| forked(engine.patch(1, &plus(6)).map(drop))),
            ("patch_site", &|| {
                forked(engine.patch_site(&one, &plus(6)).map(drop))
            }),
            ("plan", &|| forked(engine.plan(1, &plus(6)).map(drop))),
            ("restore", &|| forked(engine.restore(1).map(drop))),
            ("restore_site", &|| forked(engine.restore_site(&one).map(drop))),
            ("invalidate", &|| forked(engine.invalidate(&function).map(drop))),
            ("invalidate_site", &|| {
                forked(engine.invalidate_site(&one).map(drop))
            }),
            ("commit", &|| {
                let mut transaction = engine.transaction();
                transaction.patch(1, &plus(6)).unwrap();
                forked(transaction.commit().map(drop))
            }),
            ("publish_stub", &|| {
                forked(engine.publish_stub(&one, &plus(6)).map(drop))
            }),
            ("reclaim", &|| forked(engine.reclaim(&grace_period()).map(drop))),
            ("reclaim_passed", &|| {
                let thread = engine.attach_thread();
                // SAFETY: no thread of the child executes code now.
                let attached = unsafe { crate::publish::Attached::promise() };
                drop(thread);
                forked(engine.reclaim_passed(&attached).map(drop))
            }),
            ("unregister", &|| {
                forked(engine.unregister(module.clone(), &grace_period()))
            }),
            ("load", &|| forked(engine.load(OBJECT, |_| None).map(drop))),
            ("adopt_with", &|| {
                let code = engine.adopt_with(text.adopted(&functions), &text.shared());
                forked(code.map(drop))
            }),
            // What is asked is answered, and where that is not known it says so.
            ("questions", &|| {
                let found = engine.sites(1).unwrap()[0].key() == one.key()
                    && engine
                        .site_at(one.addr())
                        .is_some_and(|site| site.key() == one.key())
                    && engine.module_at(one.addr()).is_some()
                    && engine.modules().len() == 1;
                let unknown = engine.status(&one) == Status::Lost
                    && engine.journal().is_empty()
                    && engine.retired().is_empty()
                    && (engine.stub_bytes(&one), engine.reclaimed_bytes(&one)) == (0, 0)
                    && engine.site_of_stub(one.addr()).is_none();
                let _ = (engine.stub_stats(), format!("{engine:?}"));
                found && unknown
            }),
        ];
        let ends = changes.map(|(what, change)| (what, refused(change)));
        drop(let_go);
        ends
    });
    let wrong: Vec<_> = ends
        .iter()
        .filter(|(_, end)| *end != End::Returned(true))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    // Where nobody holds the lock the child knows what its parent knew; dropping it all is nothing
    // to the parent.
    let end = end_of_child(|| {
        let known = engine.status(&one) == Status::Patched && engine.journal().len() == 1;
        let refused = engine.restore_site(&one) == Err(Error::Memory(crate::memory::Error::EngineForked));
        let value = call(&one, 1);
        drop((engine.clone(), module.clone()));
        known && refused && value == 6
    });
    assert_eq!(end, End::Returned(true));
    engine.patch_site(&one, &plus(7)).unwrap();
    assert_eq!(call(&one, 1), 8);
}

/// A child of a process that patches all the time: both sites are as one transaction has left them,
/// and stay so. The thread that forks is one of those that are stopped.
#[test]
fn children_are_made_between_transactions() {
    assert!(in_child(|| {
        // SAFETY: every thread that executes the code is attached while it does, on its own stack.
        let world = unsafe { crate::publish::SignalWorld::new() }.unwrap();
        let engine = Engine::builder().world(world.clone()).build().unwrap();
        let functions = [identity(1), identity(2)];
        let text = Text::new(&functions);
        let memory: Arc<dyn CodeMemory> = Arc::new(text.placed.memory());
        let code = engine.adopt_with(text.adopted(&functions), &memory).unwrap();
        let shape = |id: RecordId| {
            functions
                .iter()
                .find(|f| f.record.id == id.get())
                .map(|f| f.shape)
        };
        // SAFETY: what is told is true of the object's code.
        let _module = unsafe { engine.register(code, |record| shape(record.id())) }.unwrap();
        let [one, two] = [1_u64, 2].map(|id| engine.sites(id).unwrap()[0].clone());
        let both = |by| {
            let mut transaction = engine.transaction();
            transaction.quiescent();
            let transaction = transaction.patch_site(&one, &plus(by)).unwrap();
            transaction.patch_site(&two, &plus_in_stub(by)).unwrap().commit()
        };
        both(5).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut by = 5;
                while !stop.load(Ordering::Relaxed) {
                    by += 1;
                    both(by).unwrap();
                    // SAFETY: the commit has found that no thread is in a stub, and nothing branches there.
                    engine.reclaim(&unsafe { GracePeriod::promise() }).unwrap();
                }
            });
            let attached = world.attach().unwrap();
            let mut right = true;
            for _ in 0..200 {
                right &= end_of_child(|| {
                    let first = call(&one, 1);
                    (0..100).all(|_| (call(&one, 1), call(&two, 1)) == (first, first))
                }) == End::Returned(true);
            }
            drop(attached);
            stop.store(true, Ordering::Relaxed);
            right
        })
    }));
}

/// The decoder makes its tables when it is first used. A child that is forked meanwhile has no thread that
/// goes on with that, and waits for nobody.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_child_that_is_forked_while_the_first_engine_is_made_can_make_its_own() {
    const NAME: &str =
        "engine::tests::forked::a_child_that_is_forked_while_the_first_engine_is_made_can_make_its_own";
    const FRESH: &str = "PATCHPOINT_FIRST_ENGINE";
    if std::env::var_os(FRESH).is_none() {
        // Only in a process of its own is nothing made yet.
        for _ in 0..20 {
            let mut program = std::process::Command::new(std::env::current_exe().unwrap());
            let output = program
                .args(["--exact", NAME, "--nocapture"])
                .env(FRESH, "1")
                .output();
            let output = output.unwrap();
            assert!(output.status.success(), "{output:?}");
            assert!(std::string::String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        }
        return;
    }
    let make = || {
        use crate::verify;
        let _lab = Lab::new();
        let host = Arch::host().unwrap();
        let original = verify::original(host, CodeAddr::new(0), HOST.five);
        assert!(original.is_ok_and(|original| original != verify::Original::Nops));
        assert!(!verify::disassemble(host, CodeAddr::new(0), HOST.five).is_empty());
    };
    // From now on forks are waited for.
    let _ = crate::memory::fork::Birth::here();
    std::thread::scope(|scope| {
        let first = scope.spawn(make);
        while !first.is_finished() {
            // SAFETY: the child does what works after a fork, and leaves without running what is its parent's.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: a child that hangs is ended.
                unsafe { libc::alarm(10) };
                make();
                // SAFETY: as above.
                unsafe { libc::_exit(0) };
            }
            let mut status = 0;
            // SAFETY: the status is a variable of this function's.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child hung, or panicked");
        }
    });
}
