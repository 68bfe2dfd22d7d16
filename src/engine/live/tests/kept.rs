//! What stays as long as a thread can come back to it, and what is told before one can come.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock};

use super::hooked::Hooked;
use super::{Entries, call, entry, returning, site};
use crate::Error;
use crate::addr::CodeAddr;
use crate::arch::CallShape;
use crate::deopt::ExitStubs;
use crate::engine::{Engine, Event, Status, WeakEngine};
use crate::error::Errno;
use crate::memory::CodeMemory;
use crate::memory::testing::Call;
use crate::memory::testing::process::in_child;
use crate::publish::{Attached, GracePeriod, NeverStopped, ThreadHandle};
use crate::site::{Module, Site};

fn injected(at: CodeAddr) -> crate::memory::Error {
    crate::memory::Error::SystemCall {
        call: "injected",
        at,
        len: 8,
        errno: Errno(libc::EIO),
        mend: "none",
    }
}

/// The functions, live, in memory with a hook.
fn live_in(entries: &Entries, memory: &Arc<Hooked>, engine: &Engine) -> crate::Result<Module> {
    let memory: Arc<dyn CodeMemory> = memory.clone();
    let code = engine.adopt_with(entries.adopted(true), &memory)?;
    let registration = entries.entries(engine.registration(code), 16);
    // SAFETY: what is told is true of the code that this test wrote.
    unsafe { registration.live().register(|_| None::<CallShape>) }
}

thread_local! {
    static HANDLE: RefCell<Option<ThreadHandle>> = const { RefCell::new(None) };
}

/// A thread enters the exit of an invalidation that is then rolled back, and reports a checkpoint
/// in the handler. What the site held before, to which it resumes, is replaced meanwhile.
fn resume_from_an_exit_that_was_rolled_back() -> bool {
    let steps = Arc::new(Barrier::new(2));
    let in_handler = Arc::clone(&steps);
    let exit_stubs = ExitStubs::new().on_deopt(move |frame| {
        for report in [false, false, true, false] {
            if report {
                HANDLE.with_borrow(|handle| handle.as_ref().unwrap().checkpoint());
            }
            in_handler.wait();
        }
        frame.resume()
    });
    let engine = Engine::builder()
        .world(NeverStopped)
        .exits(exit_stubs)
        .build()
        .unwrap();
    let entries = Entries::new(2);
    let memory = Arc::new(Hooked::new(entries._placed.memory()));
    let module = live_in(&entries, &memory, &engine).unwrap();
    let [zero, one] = [0, 1].map(|id| site(&engine, id));
    for site in [&zero, &one] {
        engine.patch_site(site, &returning::<40>()).unwrap();
    }
    // SAFETY: the thread that executes is attached, and reports what is true.
    let attached = unsafe { Attached::promise() };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            HANDLE.set(Some(engine.attach_thread()));
            steps.wait();
            let found = entry(&module, "f0")(0);
            HANDLE.take();
            found
        });
        let enter = Arc::clone(&steps);
        let at = zero.addr();
        memory.hook(move |before| {
            if before != 1 {
                return Ok(());
            }
            // It calls the function, and is in the handler.
            enter.wait();
            enter.wait();
            Err(injected(at))
        });
        let mut invalidation = engine.transaction();
        invalidation.invalidate_site(&zero).unwrap();
        let refused = invalidation.invalidate_site(&one).unwrap().commit();
        memory.unhook();
        // A failure is found at the end: the thread waits for this one.
        let is_patched = engine.status(&zero) == Status::Patched;
        engine.patch_site(&zero, &returning::<41>()).unwrap();
        let stamped = engine.reclaim_passed(&attached).unwrap();
        // A checkpoint is reported from here on.
        steps.wait();
        steps.wait();
        let freed = engine.reclaim_passed(&attached).unwrap();
        steps.wait();
        let found = thread.join().unwrap();
        assert!(
            matches!(
                refused,
                Err(Error::Memory(crate::memory::Error::SystemCall { .. }))
            ),
            "{refused:?}"
        );
        assert!(is_patched && (stamped, freed) == (0, 0));
        // With the thread gone everything goes, the exit and what it refers to.
        assert!(engine.reclaim_passed(&attached).unwrap() >= 3);
        assert_eq!(engine.retired(), []);
        (found, call(&module, "f0", 0), call(&module, "f1", 0)) == (40, 41, 40)
    })
}

#[test]
fn what_an_exit_resumes_to_lives_as_long_as_the_exit() {
    assert!(in_child(resume_from_an_exit_that_was_rolled_back));
}

/// Unregistering the module does not free it either, and a grace period of both frees both.
#[test]
fn what_a_retired_exit_resumes_to_outlives_its_module() {
    let exit_stubs = ExitStubs::new().on_deopt(|frame| frame.resume());
    let engine = Engine::builder()
        .world(NeverStopped)
        .exits(exit_stubs)
        .build()
        .unwrap();
    let entries = Entries::new(2);
    let module = entries.live(&engine);
    let sites: Vec<Site> = module.sites().collect();
    engine.patch_site(&sites[0], &returning::<40>()).unwrap();
    entries.memory.fail_after(Call::Exchange, 1);
    let mut invalidation = engine.transaction();
    invalidation.invalidate_site(&sites[0]).unwrap();
    let refused = invalidation.invalidate_site(&sites[1]).unwrap().commit();
    assert!(
        matches!(
            refused,
            Err(Error::Memory(crate::memory::Error::SystemCall { .. }))
        ),
        "{refused:?}"
    );
    // Two exits; that of the first refers to its stub.
    assert_eq!((engine.retired().len(), engine.stub_stats().slots), (2, 3));
    // SAFETY: no thread executes the code.
    let grace_period = unsafe { GracePeriod::promise() };
    engine.unregister(module, &grace_period).unwrap();
    assert_eq!((engine.retired().len(), engine.stub_stats().slots), (3, 3));
    assert_eq!(engine.reclaim(&grace_period).unwrap(), 3);
    assert_eq!(engine.stub_stats().slots, 0);
}

#[cfg(target_arch = "x86_64")]
mod quiescent {
    use super::*;
    use crate::arch::OnReturn;
    use crate::engine::live::tests::{adding, engine_in, registration, shape};
    use crate::publish::SingleThreaded;
    use crate::sequence::{Sequence, result};

    static ENGINE: OnceLock<Engine> = OnceLock::new();
    static FREED: AtomicU64 = AtomicU64::new(u64::MAX);

    /// Replaces the stub that calls it, and reclaims what `Attached` says something of.
    extern "C" fn replaces_its_caller(x: u64) -> u64 {
        let engine = ENGINE.get().unwrap();
        engine.patch(200, &adding(7)).unwrap();
        // SAFETY: no thread executes code of a live module: there is none.
        let attached = unsafe { Attached::promise() };
        FREED.store(
            engine.reclaim_passed(&attached).unwrap() as u64,
            Ordering::Relaxed,
        );
        x
    }

    /// Threads that execute code of quiescent modules need not be attached, and report nothing.
    #[test]
    fn reports_free_no_stub_of_a_quiescent_module() {
        assert!(in_child(|| {
            // SAFETY: one thread executes and patches.
            let engine = engine_in(unsafe { SingleThreaded::promise() }).0;
            let told = registration(&engine);
            // SAFETY: what is told is true of the code that this test wrote.
            let module = unsafe { told.register(|record| shape(record.id())) }.unwrap();
            assert!(ENGINE.set(engine.clone()).is_ok());
            let callee = CodeAddr::new(replaces_its_caller as *const () as u64);
            // SAFETY: a C function of one argument, as the site's call has.
            let calling = unsafe { Sequence::new().call(callee, OnReturn::FollowsC) };
            let calling = (0..8).fold(calling, |sequence, _| sequence.add(result(), 1u64));
            engine.patch(200, &calling).unwrap();
            let found = call(&module, "call_0", 100);
            let kept = engine.retired().len();
            // SAFETY: the only thread is here.
            let freed = engine.reclaim(&unsafe { GracePeriod::promise() }).unwrap();
            (found, FREED.load(Ordering::Relaxed), kept, freed) == (108, 0, 1, 1)
        }));
    }
}

/// Whoever finds a live module, and may run it, finds it armed; and its stubs are known by then.
#[test]
fn a_live_module_is_found_only_when_it_is_armed() {
    let known = Arc::new(OnceLock::<WeakEngine>::new());
    let found = |engine: &OnceLock<WeakEngine>| engine.get().unwrap().upgrade().unwrap().modules().len();
    let told = Arc::new(Mutex::new(Vec::new()));
    let (in_observer, telling) = (Arc::clone(&known), Arc::clone(&told));
    let observer = move |event: &Event<'_>| {
        if matches!(event, Event::Registered { .. } | Event::Placed(_)) {
            telling.lock().unwrap().push(found(&in_observer));
        }
    };
    let builder = Engine::builder().world(NeverStopped).observer(observer);
    let engine = builder.build().unwrap();
    known.set(engine.downgrade()).unwrap();
    let entries = Entries::new(3);
    let memory = Arc::new(Hooked::new(entries._placed.memory()));
    let written = Arc::new(Mutex::new(Vec::new()));
    let (in_memory, writing) = (Arc::clone(&known), Arc::clone(&written));
    memory.hook(move |_| {
        writing.lock().unwrap().push(found(&in_memory));
        Ok(())
    });
    let _module = live_in(&entries, &memory, &engine).unwrap();
    let writes = std::mem::take(&mut *written.lock().unwrap());
    assert!(
        writes.len() >= 3 && writes.iter().all(|modules| *modules == 0),
        "{writes:?}"
    );
    assert_eq!(std::mem::take(&mut *told.lock().unwrap()), [0]);
    // What is registered already is not armed again. Where arming put more than nops, that is
    // noticed before.
    let refused = live_in(&entries, &memory, &engine);
    assert!(
        matches!(
            refused,
            Err(Error::Site(crate::site::Error::CodeAlreadyRegistered { .. })
                | Error::Site(crate::site::Error::EntryNotNops { .. }))
        ),
        "{refused:?}"
    );
    assert!(written.lock().unwrap().is_empty() && engine.modules().len() == 1);
    // LLVM's calls are moved into stubs.
    let stress = Engine::builder().world(NeverStopped).build().unwrap();
    drop(super::live_module(&stress));
    let _stress = super::live_module(&engine);
    assert!(told.lock().unwrap().iter().all(|modules| *modules == 1));
}

/// Of live sites too, and of transactions that fail: what was told as placed is told as reclaimed,
/// once.
#[test]
fn live_stubs_are_told_before_a_patchable_jump_leads_there_and_until_they_are_gone() {
    let entries = Entries::new(3);
    let placed = Arc::new(Mutex::new(HashSet::new()));
    let exchanges = Arc::new(AtomicU64::new(u64::MAX));
    let (books, expected, memory) = (
        Arc::clone(&placed),
        Arc::clone(&exchanges),
        entries.memory.clone(),
    );
    let observer = move |event: &Event<'_>| match event {
        Event::Placed(code) => {
            assert_eq!(memory.count(Call::Exchange), expected.load(Ordering::Relaxed));
            assert!(books.lock().unwrap().insert(code.range), "{event:?}");
        }
        Event::Reclaimed(code) => assert!(books.lock().unwrap().remove(&code.range), "{event:?}"),
        _ => {}
    };
    let exit_stubs = ExitStubs::new().on_deopt(|frame| frame.resume());
    let builder = Engine::builder().world(NeverStopped).exits(exit_stubs);
    let engine = builder.observer(observer).build().unwrap();
    let module = entries.live(&engine);
    let sites: Vec<Site> = module.sites().collect();
    // SAFETY: no thread executes the code.
    let grace_period = unsafe { GracePeriod::promise() };
    for (call, after) in [
        (Call::Read, 0),
        (Call::Exchange, 0),
        (Call::Exchange, 2),
        (Call::Read, 7),
    ] {
        let mut start = engine.transaction();
        start.patch_site(&sites[0], &returning::<50>()).unwrap();
        start.patch_site(&sites[1], &returning::<51>()).unwrap();
        let prepared = start.invalidate_site(&sites[2]).unwrap().prepare().unwrap();
        assert!(
            placed.lock().unwrap().is_empty(),
            "nothing can be told to be gone when it is dropped"
        );
        exchanges.store(entries.memory.count(Call::Exchange), Ordering::Relaxed);
        entries.memory.fail_after(call, after);
        let failed = prepared.commit();
        assert!(failed.is_err() && entries.memory.has_failed(), "{call:?} {after}");
        let kept: HashSet<_> = engine.retired().into_iter().collect();
        assert_eq!(*placed.lock().unwrap(), kept, "{call:?} {after}");
        engine.reclaim(&grace_period).unwrap();
        assert!(placed.lock().unwrap().is_empty());
    }
    exchanges.store(entries.memory.count(Call::Exchange), Ordering::Relaxed);
    engine.patch_site(&sites[0], &returning::<50>()).unwrap();
    exchanges.store(entries.memory.count(Call::Exchange), Ordering::Relaxed);
    engine.invalidate_site(&sites[0]).unwrap();
    assert_eq!(placed.lock().unwrap().len(), 2);
    engine.unregister(module, &grace_period).unwrap();
    assert!(placed.lock().unwrap().is_empty());
}
