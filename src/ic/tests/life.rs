//! The states of a cache, and what takes it from one to another.

use super::*;
use crate::Error;
use crate::publish::{Attached, GracePeriod, Resumption, Stopped, Vacated, World};
use crate::sequence::{Sequence, Target, result};

#[test]
fn from_uninitialized_to_megamorphic_and_back() {
    let policy = Chain {
        limit: 3,
        back_off: 1,
        cool_down: 5,
    };
    let lab = Lab::new(Caches::builder().policy(policy));
    assert_eq!(lab.cache.state(), CacheState::Uninitialized);
    let states = [
        CacheState::Monomorphic,
        CacheState::Polymorphic,
        CacheState::Polymorphic,
    ];
    for (shape, state) in (0..).zip(states) {
        lab.read(shape);
        assert_eq!(lab.cache.state(), state);
        let lookups = lab.lookups();
        (0..=shape).for_each(|known| lab.read(known));
        assert_eq!(lab.lookups(), lookups, "what is known does not miss");
    }
    lab.read(3);
    assert_eq!((lab.cache.state(), lab.lookups()), (CacheState::Megamorphic, 4));
    for _ in 0..5 {
        lab.read(0);
        assert_eq!(lab.cache.state(), CacheState::Megamorphic);
    }
    lab.read(5);
    assert_eq!((lab.cache.state(), lab.lookups()), (CacheState::Monomorphic, 10));
    lab.read(5);
    let stats = lab.stats();
    assert_eq!((stats.misses, stats.installed, stats.transitions), (10, 4, 4));
    assert_eq!((stats.refused, stats.retracted, stats.hits), (0, 0, None));
    assert!(stats.stub_bytes > 0 && stats.entries == 1);
}

#[test]
fn sites_have_generic_paths_of_their_own() {
    let policy = Chain {
        limit: 0,
        cool_down: 0,
        ..Chain::default()
    };
    let builder = Caches::builder().policy(policy).megamorphic_by(|site| {
        let function = site.function();
        let is_first = function.sites().next()?.addr() == site.addr();
        match (function.name(), is_first) {
            ("get", _) => Some(Sequence::new().load(result(), u64::at(arg(0), value_at(1)))),
            ("get_twice", false) => Some(Sequence::new().mov(result(), 5u64)),
            _ => None,
        }
    });
    let lab = Lab::new(builder);
    let caches = lab.caches.attach_all(&lab.engine, GET).unwrap();
    lab.read(2);
    let object = Object::new(2, [5, 6, 7, 8]);
    assert_eq!(lab.call_word(&raw const object as u64), 6);
    // SAFETY: that is the function's signature in the IR; the module stays registered.
    let twice: extern "C" fn(&Object) -> u64 = unsafe { std::mem::transmute(lab.function("get_twice")) };
    assert_eq!(twice(&object), 4 * 7);
    assert!(
        caches
            .iter()
            .all(|cache| cache.state() == CacheState::Megamorphic)
    );
    assert_eq!(lab.lookups(), 3);
    assert_eq!(twice(&object), 7 + 3 * 5);
    assert_eq!(lab.lookups(), 4, "the first has none");
}

#[test]
fn a_generic_path_of_the_runtime() {
    let generic = Sequence::new().load(result(), u64::at(arg(0), value_at(1)));
    let policy = Chain {
        limit: 1,
        ..Chain::default()
    };
    let lab = Lab::new(Caches::builder().policy(policy).megamorphic(generic));
    lab.read(1);
    lab.read(2);
    assert_eq!(lab.cache.state(), CacheState::Megamorphic);
    lab.read(5);
    assert_eq!(lab.lookups(), 2, "the generic path does not miss");
    lab.caches.reset_one(&lab.cache).unwrap();
    assert_eq!(lab.cache.state(), CacheState::Uninitialized);
    lab.read(2);
    assert_eq!((lab.cache.state(), lab.lookups()), (CacheState::Monomorphic, 3));
}

#[test]
fn retraction_removes_what_depends_on_a_key_and_nothing_else() {
    let lab = Lab::new(Caches::builder());
    (0..3).for_each(|shape| lab.read(shape));
    assert_eq!(lab.caches.retract(&[Key::new(7)]).unwrap().caches, 0);
    // The class changes: the property is in another slot now. Without the retraction the next read
    // would be wrong.
    lab.runtime.define(1, 3);
    assert_eq!(lab.caches.retract(&[Key::new(1)]).unwrap().caches, 1);
    assert_eq!(lab.cache.entries().len(), 2);
    let before = lab.lookups();
    lab.read(0);
    lab.read(2);
    assert_eq!(lab.lookups(), before);
    lab.read(1);
    lab.read(1);
    assert_eq!(lab.lookups(), before + 1);
    let stats = lab.stats();
    assert_eq!((stats.retracted, stats.installed, stats.entries), (1, 4, 3));
    assert_eq!(lab.caches.reset().unwrap().caches, 1);
    assert_eq!(lab.cache.state(), CacheState::Uninitialized);
    assert_eq!(lab.caches.totals().caches, 1);
}

#[test]
fn what_was_looked_up_before_a_retraction_is_not_installed_after_it() {
    let runtime = Arc::new(Runtime::default());
    let caches: Arc<std::sync::OnceLock<Caches>> = Arc::default();
    let (lookup, retracts) = (Arc::clone(&runtime), Arc::clone(&caches));
    let made = Caches::builder().lookup(move |miss| {
        let learnt = lookup.lookup(miss);
        if lookup.lookups.load(Ordering::Relaxed) == 1 {
            // Another thread changes the class while this one still holds what it has found.
            lookup.define(1, 3);
            retracts.get().unwrap().retract(&[Key::new(1)]).unwrap();
        }
        learnt
    });
    assert!(caches.set(made.clone()).is_ok());
    let lab = Lab::with(runtime, made, false);
    let object = Object::new(1, [1, 2, 3, 4]);
    assert_eq!(
        lab.call_word(&raw const object as u64),
        2,
        "found before the change"
    );
    assert_eq!(lab.cache.state(), CacheState::Uninitialized);
    lab.read(1);
    assert_eq!((lab.cache.state(), lab.lookups()), (CacheState::Monomorphic, 2));
    lab.read(1);
}

#[test]
fn a_cache_that_keeps_losing_its_entries_backs_off() {
    let lab = Lab::new(Caches::builder());
    let mut lookups = Vec::new();
    for _ in 0..5 {
        let before = lab.lookups();
        while lab.cache.state() == CacheState::Uninitialized {
            lab.read(1);
        }
        lookups.push(lab.lookups() - before);
        lab.caches.retract(&[Key::new(1)]).unwrap();
    }
    assert_eq!(lookups, [1, 1, 2, 4, 8]);
}

/// A reset says nothing against what the cache knew.
#[test]
fn a_cache_that_is_reset_learns_at_once() {
    let lab = Lab::new(Caches::builder());
    for round in 1..=10 {
        lab.read(1);
        assert_eq!(
            (lab.lookups(), lab.cache.state()),
            (round, CacheState::Monomorphic)
        );
        lab.caches.reset().unwrap();
    }
    assert_eq!(lab.stats().retracted, 10);
}

#[test]
fn hits_are_counted_and_put_the_frequent_first() {
    for counting in [Counting::Plain, Counting::Atomic] {
        let builder = Caches::builder().counting(counting).order(Order::MostFrequent);
        let lab = Lab::new(builder);
        lab.read(0);
        lab.read(1);
        (0..3).for_each(|_| lab.read(0));
        (0..9).for_each(|_| lab.read(1));
        let hits = |lab: &Lab| {
            lab.cache
                .entries()
                .iter()
                .map(|(_, hits)| *hits)
                .collect::<Vec<_>>()
        };
        assert_eq!(hits(&lab), [Some(3), Some(9)]);
        lab.read(2);
        assert_eq!(hits(&lab), [Some(9), Some(3), Some(0)]);
        assert_eq!(lab.stats().hits, Some(12));
        // A counter that is free is used again, and begins at nothing.
        lab.caches.retract(&[Key::new(1)]).unwrap();
        (0..2).for_each(|_| lab.read(3));
        assert_eq!(hits(&lab), [Some(3), Some(0), Some(1)]);
        assert_eq!(lab.caches.totals().hits, 13);
    }
}

#[test]
fn the_most_recent_is_tested_first() {
    let lab = Lab::new(Caches::builder());
    (0..3).for_each(|shape| lab.read(shape));
    let keys: Vec<u64> = lab
        .cache
        .entries()
        .iter()
        .map(|(entry, _)| entry.keys()[0].get())
        .collect();
    assert_eq!(keys, [2, 1, 0]);
}

#[test]
fn an_invalidated_site_learns_nothing_any_more() {
    let lab = Lab::new(Caches::builder());
    lab.read(1);
    lab.engine
        .invalidate(&lab.module.function("get").unwrap())
        .unwrap();
    // The handler resumes, with what was there before.
    lab.read(1);
    lab.read(2);
    assert_eq!(lab.cache.state(), CacheState::Dead);
    assert!(matches!(
        lab.cache.last_refusal(),
        Some(Error::SiteInvalidated { .. })
    ));
    assert_eq!(lab.caches.retract(&[Key::new(1)]).unwrap().caches, 0);
    assert_eq!(lab.caches.reset().unwrap().caches, 0);
}

#[test]
fn a_retraction_goes_on_without_a_site_that_was_invalidated() {
    let lab = Lab::new(Caches::builder());
    let twice = lab.module.function("get_twice").unwrap();
    let other = twice.sites().next().unwrap();
    let other = lab.caches.attach(&lab.engine, &other).unwrap();
    lab.read(1);
    lab.engine.invalidate(&other.site().function()).unwrap();
    assert_eq!(lab.caches.reset().unwrap().caches, 1);
    assert_eq!(
        (lab.cache.state(), other.state()),
        (CacheState::Uninitialized, CacheState::Dead)
    );
}

#[test]
fn caches_go_with_their_module_and_belong_to_one_engine() {
    let lab = Lab::new(Caches::builder());
    let site = lab.cache.site().clone();
    assert_eq!(lab.caches.at(&site).unwrap().site().key(), site.key());
    let again = lab.caches.attach(&lab.engine, &site).unwrap();
    assert!(Arc::ptr_eq(&again.0, &lab.cache.0), "a site keeps its cache");
    let stranger = Lab::new(Caches::builder());
    let refused = lab.caches.attach(&stranger.engine, stranger.cache.site());
    assert!(matches!(refused, Err(Error::CacheEngine { .. })));
    // SAFETY: this is the only thread, and it is not in the code.
    let grace_period = unsafe { GracePeriod::promise() };
    lab.engine.unregister(lab.module.clone(), &grace_period).unwrap();
    assert!(lab.caches.at(&site).is_none());
    assert_eq!(lab.caches.totals().caches, 0);
}

#[test]
fn a_site_without_a_cache_misses_and_learns_nothing() {
    let lab = Lab::new(Caches::builder());
    let site = lab.cache.site().clone();
    let alone = Lab::new(Caches::builder());
    drop(site);
    let miss = Sequence::new().jump(Target::Miss);
    let twice = alone.module.function("get_twice").unwrap();
    for other in twice.sites() {
        alone.engine.patch_site(&other, &miss).unwrap();
    }
    let object = Object::new(1, [1, 2, 3, 4]);
    // SAFETY: that is the function's signature in the IR.
    let call: extern "C" fn(&Object) -> u64 = unsafe { std::mem::transmute(alone.function("get_twice")) };
    assert_eq!(call(&object), 2 + 3 * 2);
    assert_eq!((alone.lookups(), alone.caches.totals().misses), (2, 0));
}

/// In place where it fits and the site is quiescent; a patchable jump and a stub where it is live,
/// or does not fit.
#[test]
fn where_the_entries_are() {
    for live in [false, true] {
        let runtime = Arc::new(Runtime::default());
        let lookup = Arc::clone(&runtime);
        let caches = Caches::builder().lookup(move |miss| lookup.lookup(miss));
        let lab = Lab::with(runtime, caches, live);
        let of = |lab: &Lab| lab.stats().stub_bytes;
        let exit_stub = of(&lab);
        assert!(exit_stub > 0, "a site that misses has an exit stub");
        lab.read(1);
        assert_eq!(of(&lab) > exit_stub, live, "one entry fits into 32 bytes");
        (2..5).for_each(|shape| lab.read(shape));
        assert!(of(&lab) > exit_stub, "four do not");
        lab.caches.reset_one(&lab.cache).unwrap();
        assert_eq!(of(&lab), exit_stub);
        // SAFETY: this is the only thread, and it is not in the code.
        let grace_period = unsafe { GracePeriod::promise() };
        lab.engine.reclaim(&grace_period).unwrap();
        let totals = lab.caches.totals();
        assert_eq!(totals.stub_bytes, exit_stub);
        assert!(totals.reclaimed > 0);
    }
}

/// Each time that an entry's stub is replaced; by a grace period where the site is live, at once
/// where it is not.
#[test]
fn what_is_freed_is_counted_for_its_site() {
    for live in [false, true] {
        let runtime = Arc::new(Runtime::default());
        let lookup = Arc::clone(&runtime);
        let caches = Caches::builder().lookup(move |miss| lookup.lookup(miss));
        let lab = Lab::with(runtime, caches, live);
        let twice = lab.module.function("get_twice").unwrap();
        let other = lab
            .caches
            .attach(&lab.engine, &twice.sites().next().unwrap())
            .unwrap();
        (1..5).for_each(|shape| lab.read(shape));
        let stub = |lab: &Lab, exit_stub: u64| lab.stats().stub_bytes - exit_stub;
        let (before, at_first) = (lab.stats().stub_bytes, lab.stats().reclaimed);
        lab.caches.reset_one(&lab.cache).unwrap();
        let exit_stub = lab.stats().stub_bytes;
        assert_eq!(stub(&lab, exit_stub), 0);
        if live {
            assert_eq!(
                (at_first, lab.stats().reclaimed),
                (0, 0),
                "threads may be in them"
            );
            // SAFETY: this is the only thread, and it is not in the code.
            lab.engine.reclaim(&unsafe { GracePeriod::promise() }).unwrap();
            // Those of one, two and three entries too.
            assert!(lab.stats().reclaimed > before - exit_stub);
        } else {
            assert_eq!(lab.stats().reclaimed, at_first + before - exit_stub);
        }
        assert!(lab.stats().reclaimed <= lab.caches.totals().reclaimed);
        assert_eq!(lab.caches.stats(&other).reclaimed, 0);
        lab.read(1);
        // SAFETY: as above.
        lab.engine.reclaim(&unsafe { GracePeriod::promise() }).unwrap();
        let module = lab.module.clone();
        // SAFETY: as above.
        lab.engine
            .unregister(module, &unsafe { GracePeriod::promise() })
            .unwrap();
        assert_eq!(lab.stats().reclaimed, 0, "the site is gone");
    }
}

/// The same with an attached thread that reports instead of a grace period.
#[test]
fn what_is_freed_after_a_report_is_counted_too() {
    let runtime = Arc::new(Runtime::default());
    let lookup = Arc::clone(&runtime);
    let caches = Caches::builder().lookup(move |miss| lookup.lookup(miss));
    let lab = Lab::with(runtime, caches, true);
    // SAFETY: this is the only thread that executes the code, and it is attached.
    let attached = unsafe { Attached::promise() };
    let thread = lab.engine.attach_thread();
    lab.read(1);
    lab.caches.reset_one(&lab.cache).unwrap();
    lab.engine.reclaim_passed(&attached).unwrap();
    assert_eq!(lab.stats().reclaimed, 0);
    let in_use = lab.engine.stub_stats().in_use;
    thread.checkpoint();
    assert!(lab.engine.reclaim_passed(&attached).unwrap() > 0);
    assert_eq!(lab.stats().reclaimed, in_use - lab.engine.stub_stats().in_use);
}

/// A world of one thread that counts how often it is stopped.
#[derive(Debug)]
struct Counted(Arc<AtomicU64>);

// SAFETY: the test calls its code on one thread, which is the one that patches.
unsafe impl World for Counted {
    fn while_stopped(
        &self,
        vacated: &[Vacated],
        work: &mut dyn FnMut(&Stopped),
    ) -> crate::publish::Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { SingleThreaded::promise() }.while_stopped(vacated, work)
    }

    fn resumption(&self) -> Resumption {
        Resumption::Alone
    }
}

#[test]
fn all_caches_that_depend_on_a_key_are_reset_in_one_transaction() {
    let stops = Arc::new(AtomicU64::new(0));
    let runtime = Arc::new(Runtime::default());
    runtime.define(1, 2);
    let lookup = Arc::clone(&runtime);
    let caches = Caches::builder().lookup(move |miss| lookup.lookup(miss));
    let world = Counted(Arc::clone(&stops));
    let engine = Engine::builder()
        .world(world)
        .exits(caches.exit_stubs())
        .build()
        .unwrap();
    let code = engine.load(object(), |_| None).unwrap();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { engine.register(code, |record| shape(record.id().get())) }.unwrap();
    let attached = caches.attach_all(&engine, GET).unwrap();
    module.release();
    let object = Object::new(1, [1, 2, 3, 4]);
    for (name, value) in [("get", 3), ("get_twice", 3 + 3 * 3)] {
        let entry = module.function(name).unwrap().entry().unwrap().get() as usize;
        // SAFETY: that is the function's signature in the IR.
        let call: extern "C" fn(&Object) -> u64 = unsafe { std::mem::transmute(entry) };
        assert_eq!(call(&object), value);
    }
    assert!(
        attached
            .iter()
            .all(|cache| cache.state() == CacheState::Monomorphic)
    );
    let before = stops.load(Ordering::Relaxed);
    assert_eq!(caches.retract(&[Key::new(1)]).unwrap().caches, 3);
    assert_eq!(stops.load(Ordering::Relaxed), before + 1);
    assert!(
        attached
            .iter()
            .all(|cache| cache.state() == CacheState::Uninitialized)
    );
}

/// The entry with the most hits comes first, once that is known, by one patch of each site.
#[test]
fn chains_are_put_in_the_order_of_their_hits_where_that_pays() {
    let builder = Caches::builder().counting(Counting::Plain);
    let lab = Lab::new(builder);
    let caches = lab.caches.attach_all(&lab.engine, GET).unwrap();
    (0..3).for_each(|shape| lab.read_everywhere(shape));
    let shapes = |cache: &Cache| {
        let keys = cache
            .entries()
            .into_iter()
            .map(|(entry, _)| entry.keys()[0].get());
        keys.collect::<Vec<_>>()
    };
    assert_eq!(shapes(&caches[0]), [2, 1, 0], "the last one learnt first");
    (0..20).for_each(|_| lab.read_everywhere(0));
    assert_eq!(lab.caches.reorder().unwrap(), 0, "too few hits to say");
    (0..300).for_each(|_| lab.read_everywhere(0));
    (0..100).for_each(|_| lab.read_everywhere(1));
    let before = lab.engine.journal().len();
    assert_eq!(lab.caches.reorder().unwrap(), 3);
    assert!(caches.iter().all(|cache| shapes(cache) == [0, 1, 2]));
    assert_eq!(
        lab.engine.journal().len(),
        before + 3,
        "each site is patched once"
    );
    assert_eq!(lab.caches.reorder().unwrap(), 0, "they are in order");
    // The program turns to another shape: what was hit before does not count.
    (0..300).for_each(|_| lab.read_everywhere(2));
    assert_eq!(lab.caches.reorder().unwrap(), 3);
    assert_eq!(shapes(&lab.cache)[0], 2);
    let lookups = lab.lookups();
    (0..3).for_each(|shape| lab.read_everywhere(shape));
    assert_eq!(lab.lookups(), lookups, "nothing is lost");
    let stats = lab.stats();
    assert_eq!((stats.transitions, stats.installed, stats.retracted), (2, 3, 0));
}

#[test]
fn chains_that_do_not_count_stay_as_they_are() {
    let lab = Lab::new(Caches::builder());
    for _ in 0..300 {
        (0..3).for_each(|shape| lab.read(shape));
    }
    assert_eq!(lab.caches.reorder().unwrap(), 0);
}
