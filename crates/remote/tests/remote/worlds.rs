//! Quiescent modules that several threads of the executor execute: the engine's own world stops
//! them between messages.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use patchpoint::addr::CodeAddr;
use patchpoint::arch::OnReturn;
use patchpoint::deopt::ExitStubs;
use patchpoint::engine::WeakEngine;
use patchpoint::sequence::{Sequence, Target, arg, result};
use patchpoint::site::{Module, Site};
use patchpoint::{CallShape, Engine};
use patchpoint_remote::{Error, Executor, Options};

use crate::common::{self, compiled};

/// What handlers do with the engine.
type Handler = Box<dyn Fn(&Engine) + Send>;

/// An engine to which no world was given, and a module of the stress's object.
struct Setup {
    executor: Executor,
    engine: Engine,
    module: Module,
    handler: Arc<Mutex<Option<Handler>>>,
}

fn setup(patience: Duration) -> Setup {
    let executor = Options::new()
        .deadline(Duration::from_secs(60))
        .patience(patience)
        .spawn(common::command())
        .unwrap();
    let weak: Arc<OnceLock<WeakEngine>> = Arc::default();
    let handler: Arc<Mutex<Option<Handler>>> = Arc::default();
    let (known, handlers) = (Arc::clone(&weak), Arc::clone(&handler));
    let exit_stubs = ExitStubs::new()
        .on_miss(move |frame| {
            let handler = handlers.lock().unwrap().take();
            if let Some(handler) = handler {
                handler(&known.get().unwrap().upgrade().unwrap());
                *handlers.lock().unwrap() = Some(handler);
            }
            frame.set_result(7).unwrap();
            frame.resume()
        })
        .on_deopt(|frame| frame.resume());
    let engine = executor.engine().exits(exit_stubs).build().unwrap();
    weak.set(engine.downgrade()).ok().unwrap();
    let callee = executor.symbol("callee").unwrap();
    let code = engine.load(compiled::LIVE_STRESS, |_| callee).unwrap();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe {
        engine.register(code, |record| match record.id().get() {
            107 => Some(CallShape::any_reg(compiled::any_reserved(7)).result().args(1)),
            207 => Some(CallShape::c(compiled::call_reserved(7)).result().args(1)),
            _ => None,
        })
    };
    Setup {
        module: module.unwrap(),
        executor,
        engine,
        handler,
    }
}

fn adds(value: u64) -> Sequence {
    Sequence::new().mov(result(), arg(0)).add(result(), value)
}

/// In place of what is there, whatever that is.
fn change(engine: &Engine, site: &Site, to: &Sequence) -> patchpoint::Result<()> {
    let mut change = engine.transaction();
    change.quiescent().patch_site(site, to)?;
    change.commit().map(drop)
}

impl Setup {
    fn change(&self, id: u64, to: &Sequence) -> patchpoint::Result<()> {
        change(&self.engine, &self.site(id), to)
    }

    fn entry(&self, name: &str) -> CodeAddr {
        self.module.release();
        self.module.function(name).unwrap().entry().unwrap()
    }

    fn site(&self, id: u64) -> Site {
        self.module.sites().find(|site| site.id().get() == id).unwrap()
    }

    /// `call_7` calls `any_7`, which goes to the handler, and adds 10: so the call returns into the
    /// midst of its site.
    fn nest(&self) {
        let any = self.entry("any_7");
        // SAFETY: the function can be called from the site.
        let calls = unsafe { Sequence::new().call(any, OnReturn::FollowsC) }.add(result(), 10u64);
        self.change(207, &calls).unwrap();
        let misses = Sequence::new().jump(Target::Miss);
        self.change(107, &misses).unwrap();
    }
}

/// Whole sites are rewritten, thousands of times, while two threads execute them: versions only
/// grow.
#[test]
fn sites_are_changed_between_the_calls_of_other_threads() {
    let setup = setup(Duration::from_secs(60));
    setup.change(107, &adds(1)).unwrap();
    let any = setup.entry("any_7");
    let (done, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let newest = AtomicU64::new(1);
    let versions = if cfg!(debug_assertions) { 1000 } else { 10_000 };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut thread = setup.executor.thread(64 << 10).unwrap();
            let (done, calls, newest) = (&done, &calls, &newest);
            scope.spawn(move || {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let found = thread.call(any, &[1 << 32]).unwrap() - (1 << 32);
                    let newest = newest.load(Ordering::Relaxed);
                    assert!((last..=newest).contains(&found), "{found} after {last}");
                    last = found;
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let patience = Instant::now() + Duration::from_secs(60);
        let enough = |version| version >= versions && calls.load(Ordering::Relaxed) > 100;
        let mut version = 1;
        // Where there is little time for the callers, some more.
        while !enough(version) && (version < versions || Instant::now() < patience) {
            version += 1;
            newest.store(version, Ordering::Relaxed);
            setup.change(107, &adds(version)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    let calls = calls.into_inner();
    println!("{calls} calls, {newest:?} versions");
    assert!(calls > 100, "{calls}");
}

/// Code that runs for long is waited for, and then the change fails; nothing has changed.
#[test]
fn a_call_that_does_not_end_is_an_error() {
    let setup = setup(Duration::from_millis(300));
    let nap = setup.executor.symbol("nap").unwrap().unwrap();
    let mut thread = setup.executor.thread(64 << 10).unwrap();
    let number = thread.number();
    std::thread::scope(|scope| {
        let napping = scope.spawn(move || thread.call(nap, &[3000]));
        // Until the call has begun every change succeeds.
        let (before, error) = loop {
            assert!(!napping.is_finished(), "nobody minded the call");
            for value in [1, 2] {
                setup.change(107, &adds(value)).ok();
            }
            let before = setup.site(107).read().unwrap();
            if let Err(error) = setup.change(107, &adds(3)) {
                break (before, Error::from(error));
            }
        };
        assert!(
            matches!(error, Error::CallNotOver { thread, waited_ms: 300.. } if thread == number),
            "{error:?}"
        );
        assert_eq!(setup.site(107).read().unwrap(), before);
        napping.join().unwrap().unwrap();
    });
    setup.change(107, &adds(4)).unwrap();
}

/// A handler changes the site that it comes from, and not the one into which its thread returns: at
/// once, as waiting would change nothing.
#[test]
fn a_handler_cannot_change_the_site_that_it_returns_to() {
    let setup = setup(Duration::from_secs(600));
    setup.nest();
    let [own, outer] = [107, 207].map(|id| setup.site(id));
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let said = Arc::clone(&outcomes);
    *setup.handler.lock().unwrap() = Some(Box::new(move |engine| {
        let began = Instant::now();
        let change = |site: &Site| {
            engine
                .transaction()
                .quiescent()
                .patch_site(site, &adds(5))?
                .commit()
        };
        let changed = [&own, &outer].map(|site| change(site).map(drop));
        said.lock().unwrap().push(changed);
        assert!(began.elapsed() < Duration::from_secs(200), "it has not waited");
    }));
    let mut thread = setup.executor.thread(64 << 10).unwrap();
    assert_eq!(thread.call(setup.entry("call_7"), &[1]), Ok(17));
    let outcomes = std::mem::take(&mut *outcomes.lock().unwrap());
    let [[own, outer]] = outcomes.as_slice() else {
        panic!("{outcomes:?}");
    };
    assert_eq!(*own, Ok(()));
    assert!(
        matches!(outer, Err(patchpoint::Error::ThreadInSite { returns: true, .. })),
        "{outer:?}"
    );
    assert_eq!(
        thread.call(setup.entry("call_7"), &[1]),
        Ok(16),
        "the handler's change"
    );
}

/// Another thread waits until the handler has answered and its thread has left.
#[test]
fn a_site_is_changed_when_the_thread_that_returns_to_it_has_left() {
    let setup = setup(Duration::from_secs(60));
    setup.nest();
    let inside = Arc::new(AtomicBool::new(false));
    let is_inside = Arc::clone(&inside);
    *setup.handler.lock().unwrap() = Some(Box::new(move |_| {
        is_inside.store(true, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(100));
        is_inside.store(false, Ordering::SeqCst);
    }));
    let mut thread = setup.executor.thread(64 << 10).unwrap();
    let call = setup.entry("call_7");
    std::thread::scope(|scope| {
        let calling = scope.spawn(move || thread.call(call, &[1]));
        while !inside.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        setup.change(207, &adds(9)).unwrap();
        assert!(!inside.load(Ordering::SeqCst), "the handler had answered");
        assert_eq!(calling.join().unwrap(), Ok(17));
    });
    let mut thread = setup.executor.thread(64 << 10).unwrap();
    assert_eq!(thread.call(call, &[1]), Ok(10));
}
