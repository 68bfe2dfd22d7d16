//! What observers are told, of quiescent and of live sites, and that one which panics does no harm.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::Mutex;

use super::*;
use crate::engine::{CodeKind, Event};
use crate::memory::testing::objects as compiled;
use crate::publish::NeverStopped;

/// The events, a line each.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Observer for Log {
    fn observe(&self, event: &Event<'_>) {
        self.0.lock().push(match event {
            Event::Registered { module } => format!("registered {}", module.sites().count()),
            Event::Unregistered { module } => format!("unregistered {}", module.sites().count()),
            Event::Placed(placed) => {
                assert!(!placed.range.is_empty() && !placed.site.range().contains(placed.range.start()));
                let (kind, id) = (placed.kind.name(), placed.site.id().get());
                format!("{kind} of {id} for {}", placed.generation)
            }
            Event::Changed(changed) => {
                assert!(changed.prepared > Duration::ZERO && changed.committed > Duration::ZERO);
                let (id, generation) = (changed.site.id().get(), changed.generation);
                format!("{id} {:?} {generation} of {}", changed.became, changed.sites)
            }
            Event::Settled { site } => format!("{} settled", site.id().get()),
            Event::Preparing { prepared, of } => format!("prepared {prepared} of {of}"),
            Event::Refused(refused) => {
                assert!(refused.after > Duration::ZERO);
                let error = format!("{:?}", refused.error);
                let at = refused
                    .site
                    .map(|site| (site.id().get(), refused.generation.unwrap()));
                let at = at.map_or(String::new(), |(id, generation)| format!(" of {id}/{generation}"));
                format!("refused {}{at}", error.split([' ', '(']).next().unwrap())
            }
            Event::Reclaimed(reclaimed) => {
                let waited = if reclaimed.waited.is_some() { " late" } else { "" };
                format!(
                    "reclaimed {}/{}{waited}",
                    reclaimed.site.index, reclaimed.generation
                )
            }
        });
    }
}

fn builder() -> EngineBuilder {
    let exit_stubs = ExitStubs::new()
        .on_miss(|frame| frame.resume())
        .on_deopt(|frame| frame.resume());
    // SAFETY: every test calls its code on one thread, which is the one that patches.
    let world = unsafe { SingleThreaded::promise() };
    Engine::builder().world(world).exits(exit_stubs)
}

fn watched() -> (Engine, Log) {
    let log = Log::default();
    (builder().observer(log.clone()).build().unwrap(), log)
}

fn register(engine: &Engine, text: &Text, functions: &[Written]) -> Module {
    let code = engine
        .adopt_with(text.adopted(functions), &text.shared())
        .unwrap();
    let shape = |id: RecordId| {
        functions
            .iter()
            .find(|f| f.record.id == id.get())
            .map(|f| f.shape)
    };
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { engine.register(code, |record| shape(record.id())) }.unwrap()
}

fn grace_period() -> GracePeriod {
    // SAFETY: the only thread is here, in no code of a test.
    unsafe { GracePeriod::promise() }
}

#[test]
fn every_change_of_a_quiescent_site_is_told_once_and_in_order() {
    let (engine, log) = watched();
    let functions = [identity(1), identity(2)];
    let text = Text::new(&functions);
    let module = register(&engine, &text, &functions);
    assert_eq!(log.take(), ["registered 2"]);

    engine.patch(1, &plus(5)).unwrap();
    assert_eq!(log.take(), ["1 Patched 1 of 1"]);
    engine.patch(1, &plus_in_stub(9)).unwrap();
    assert_eq!(log.take(), ["stub of 1 for 2", "1 Patched 2 of 1"]);
    engine.patch(1, &plus(5)).unwrap();
    assert_eq!(log.take(), ["reclaimed 0/2", "1 Patched 3 of 1"]);
    engine.restore(1).unwrap();
    assert_eq!(log.take(), ["1 Original 4 of 1"]);
    // It is already.
    engine.restore(1).unwrap();
    assert_eq!(log.take(), [""; 0]);

    let mut both = engine.transaction();
    both.patch(1, &plus(3)).unwrap();
    let sites: Vec<Site> = module.sites().collect();
    let receipt = both.invalidate_site(&sites[1]).unwrap().commit().unwrap();
    assert_eq!(receipt.sites, 2);
    assert_eq!(
        log.take(),
        [
            "deopt exit stub of 2 for 1",
            "1 Patched 5 of 2",
            "2 Invalidated 1 of 2"
        ]
    );
    refused!(engine.patch(2, &plus(3)), SiteInvalidated);
    assert_eq!(log.take(), ["refused SiteInvalidated of 2/1"]);
    text.poke(sites[0].addr(), HOST.ret);
    refused!(engine.restore(1), BytesChanged);
    assert_eq!(log.take(), ["refused BytesChanged of 1/5"]);

    engine.unregister(module, &grace_period()).unwrap();
    assert_eq!(log.take(), ["reclaimed 1/1", "unregistered 2"]);
}

#[test]
fn long_transactions_tell_how_far_they_are() {
    let (engine, log) = watched();
    let functions: Vec<Written> = (1..=9).map(identity).collect();
    let text = Text::new(&functions);
    let module = register(&engine, &text, &functions);
    log.take();
    let mut all = engine.transaction();
    for site in module.sites() {
        all.patch_site(&site, &plus(3)).unwrap();
    }
    all.commit().unwrap();
    let told = log.take();
    assert_eq!(told[..2], ["prepared 4 of 9", "prepared 8 of 9"]);
    assert_eq!((told.len(), &*told[2]), (11, "1 Patched 1 of 9"));
    engine.unregister(module, &grace_period()).unwrap();
}

#[test]
fn a_published_stub_is_told_with_its_exit_stub_and_not_again() {
    let (engine, log) = watched();
    let functions = [identity(1)];
    let text = Text::new(&functions);
    let module = register(&engine, &text, &functions);
    let site = module.sites().next().unwrap();
    log.take();
    let guarded = Sequence::new()
        .guard_eq(arg(0), 7u64, crate::sequence::Target::Miss)
        .mov(result(), 8u64);
    engine.publish_stub(&site, &guarded).unwrap();
    assert_eq!(log.take(), ["miss exit stub of 1 for 0", "published of 1 for 0"]);
    // It goes to the same exit stub.
    engine.patch(1, &guarded).unwrap();
    let told = log.take();
    assert!(!told.iter().any(|line| line.contains("exit stub")), "{told:?}");
    assert_eq!(told.last().unwrap(), "1 Patched 1 of 1");
    engine.unregister(module, &grace_period()).unwrap();
    let mut last = log.take();
    assert_eq!(last.pop().unwrap(), "unregistered 1");
    assert_eq!(last.iter().filter(|line| *line == "reclaimed 0/0").count(), 2);
}

extern "C" fn callee(x: u64) -> u64 {
    x
}

#[test]
fn stubs_of_live_sites_are_told_until_they_are_reclaimed() {
    let (log, ranges) = (Log::default(), Arc::new(Mutex::new(HashSet::new())));
    let placed = Arc::clone(&ranges);
    // What was placed and not reclaimed.
    let keep_books = move |event: &Event<'_>| match event {
        Event::Placed(code) => assert!(placed.lock().insert(code.range), "{event:?}"),
        Event::Reclaimed(code) => assert!(placed.lock().remove(&code.range), "{event:?}"),
        _ => {}
    };
    let builder = Engine::builder()
        .world(NeverStopped)
        .exits(ExitStubs::new().on_deopt(|frame| frame.resume()));
    let engine = builder
        .observer(log.clone())
        .observer(keep_books)
        .build()
        .unwrap();
    let resolve = |name: &str| (name == "callee").then_some(CodeAddr::new(callee as *const () as u64));
    let code = engine.load(compiled::LIVE_STRESS, resolve).unwrap();
    let reserved = compiled::any_reserved(1);
    let shape = CallShape::any_reg(reserved).result().args(1);
    let registration = engine.registration(code).live();
    // SAFETY: what is told is true of the object's code, or refused.
    let module =
        unsafe { registration.register(|record| (record.id().get() == 101).then_some(shape)) }.unwrap();
    assert_eq!(log.take().first().unwrap(), "registered 1");

    let thread = engine.attach_thread();
    let quick = |number: u64| Sequence::new().mov(result(), arg(0)).add(result(), number);
    engine.patch(101, &quick(5)).unwrap();
    engine.patch(101, &quick(6)).unwrap();
    assert_eq!(
        log.take(),
        [
            "stub of 101 for 1",
            "101 Patched 1 of 1",
            "stub of 101 for 2",
            "101 Patched 2 of 1"
        ]
    );
    // SAFETY: this thread is the only one, and is attached.
    let attached = unsafe { crate::publish::Attached::promise() };
    assert_eq!(engine.reclaim_passed(&attached).unwrap(), 0);
    thread.checkpoint();
    assert_eq!(engine.reclaim_passed(&attached).unwrap(), 1);
    assert_eq!(log.take(), ["reclaimed 0/1 late"]);
    drop(thread);
    engine
        .invalidate(&module.sites().next().unwrap().function())
        .unwrap();
    engine.unregister(module, &grace_period()).unwrap();
    assert_eq!(ranges.lock().len(), 0);
}

#[test]
fn an_observer_that_panics_leaves_what_was_done() {
    let panics = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&panics);
    let observer = move |event: &Event<'_>| {
        let is_change = matches!(event, Event::Changed(_) | Event::Refused(_));
        assert!(!is_change || !told.load(Ordering::Relaxed), "as it was told");
    };
    let engine = builder().observer(observer).build().unwrap();
    let functions = [identity(1)];
    let text = Text::new(&functions);
    let module = register(&engine, &text, &functions);
    let site = module.sites().next().unwrap();
    engine.patch(1, &plus_in_stub(5)).unwrap();
    panics.store(true, Ordering::Relaxed);
    let changed = catch_unwind(AssertUnwindSafe(|| engine.patch(1, &plus_in_stub(9))));
    assert!(changed.is_err());
    assert_eq!((engine.status(&site), call(&site, 10)), (Status::Patched, 19));
    assert_eq!(engine.stub_stats().slots, 1);
    assert_eq!(engine.journal().len(), 2);
    panics.store(false, Ordering::Relaxed);
    engine.restore(1).unwrap();
    assert_eq!((engine.journal().len(), engine.stub_stats().slots), (3, 0));
}

#[test]
fn kinds_of_code_have_names() {
    assert_eq!(CodeKind::ExitStub(Role::Miss).name(), "miss exit stub");
}
