//! The shared cache: what megamorphic sites find by themselves, and what they do not.

use super::*;
use crate::publish::{Attached, GracePeriod};
use crate::sequence::{Sequence, live, result};

/// Caches whose sites are megamorphic from the first miss on, and stay so.
fn megamorphic() -> CachesBuilder {
    Caches::builder().policy(Chain {
        limit: 0,
        back_off: 0,
        cool_down: 0,
    })
}

fn probe(selector: u64) -> Probe {
    Probe::load::<u64>(selector, u32::at(arg(0), SHAPE), arg(0))
}

fn lab(entries: usize) -> Lab {
    Lab::new(megamorphic().shared_cache(entries, |site| Some(probe(site.id().get()))))
}

fn shared(lab: &Lab) -> SharedStats {
    lab.caches.shared_stats().unwrap()
}

/// Defines as many shapes.
fn define(lab: &Lab, shapes: u32) {
    for shape in 0..shapes {
        lab.runtime.define(shape, shape as usize % 4);
    }
}

#[test]
fn a_megamorphic_site_finds_what_was_looked_up_once() {
    const SHAPES: u32 = 500;
    let lab = lab(4096);
    define(&lab, SHAPES);
    (0..SHAPES).for_each(|shape| lab.read(shape));
    assert_eq!(lab.cache.state(), CacheState::Megamorphic);
    assert_eq!(lab.lookups(), u64::from(SHAPES));
    for _ in 0..3 {
        (0..SHAPES).for_each(|shape| lab.read(shape));
    }
    assert_eq!(lab.lookups(), u64::from(SHAPES), "all were found");
    assert_eq!(lab.cache.last_refusal(), None);
    let stats = shared(&lab);
    assert_eq!((stats.entries, stats.found), (500, 500));
    assert_eq!((stats.displaced, stats.retracted, stats.retired), (0, 0, 0));
}

#[test]
fn the_entries_of_a_chain_move_to_the_shared_cache() {
    let policy = Chain {
        limit: 3,
        ..Chain::default()
    };
    let builder = Caches::builder().policy(policy);
    let lab = Lab::new(builder.shared_cache(64, |site| Some(probe(site.id().get()))));
    (0..4).for_each(|shape| lab.read(shape));
    assert_eq!((lab.cache.state(), lab.lookups()), (CacheState::Megamorphic, 4));
    (0..4).for_each(|shape| lab.read(shape));
    assert_eq!(lab.lookups(), 4);
    lab.caches.reset_one(&lab.cache).unwrap();
    lab.read(0);
    assert_eq!((lab.cache.state(), lab.lookups()), (CacheState::Monomorphic, 5));
}

/// As many shapes as slots and more: whoever is displaced misses, and none gets another's word.
#[test]
fn who_is_displaced_misses_and_nobody_gets_anothers_word() {
    const SHAPES: u32 = 300;
    let lab = lab(16);
    define(&lab, SHAPES);
    for _ in 0..2 {
        (0..SHAPES).for_each(|shape| lab.read(shape));
    }
    let stats = shared(&lab);
    assert_eq!(stats.entries, 300);
    assert!(stats.found <= 32 && stats.displaced > 300, "{stats:?}");
    assert_eq!(stats.retired, 0, "who takes turns needs no memory");
}

/// Sites with other selectors have other properties of the same shapes. The second site's number is
/// such that its entries are in the slots of the first one's.
#[test]
fn selectors_do_not_get_each_others_words() {
    let selectors = AtomicU64::new(1);
    let builder = megamorphic().shared_cache(16, move |site| {
        let is_first = site.function().sites().next()?.addr() == site.addr();
        Some(probe(match is_first {
            true => 0,
            false => selectors.fetch_add(1, Ordering::Relaxed),
        }))
    });
    let caches = builder.lookup(|miss| {
        let at = miss.arg(0).unwrap().u64().unwrap() as *const Object;
        let site = miss.site().unwrap();
        let is_first = site.function().sites().next().unwrap().addr() == site.addr();
        let place = usize::from(!is_first);
        // SAFETY: the test passes an object.
        let object = unsafe { &*at };
        miss.set_result(object.values[place]).unwrap();
        Learn::Entry(entry(object.shape, place))
    });
    let lab = Lab::with(Arc::default(), caches, false);
    let function = lab.module.function("get_twice").unwrap();
    let sites = function.sites().map(|site| lab.caches.attach(&lab.engine, &site));
    let attached: Vec<Cache> = sites.collect::<crate::Result<_>>().unwrap();
    // SAFETY: that is the function's signature in the IR; the module stays registered.
    let twice: extern "C" fn(&Object) -> u64 = unsafe { std::mem::transmute(lab.function("get_twice")) };
    for round in 0..40 {
        for shape in 0..50 {
            let object = Object::new(shape, [7, 100 + u64::from(shape), 0, 0]);
            assert_eq!(
                twice(&object),
                7 + 3 * object.values[1],
                "{shape} in round {round}"
            );
        }
        // It gets the next number; the one of round 26 has the first site's slots.
        lab.caches.reset_one(&attached[1]).unwrap();
    }
    let refusals: Vec<_> = attached.iter().filter_map(Cache::last_refusal).collect();
    assert!(refusals.is_empty(), "{refusals:?}");
}

#[test]
fn retraction_reaches_the_shared_cache() {
    let lab = lab(64);
    (0..4).for_each(|shape| lab.read(shape));
    lab.runtime.define(1, 3);
    let retracted = lab.caches.retract(&[Key::new(1)]).unwrap();
    assert_eq!((retracted.caches, retracted.shared), (0, 1));
    let before = lab.lookups();
    [0, 2, 3].into_iter().for_each(|shape| lab.read(shape));
    assert_eq!(lab.lookups(), before, "the others stay");
    lab.read(1);
    lab.read(1);
    assert_eq!(lab.lookups(), before + 1);
    assert_eq!(lab.caches.retract(&[Key::new(9)]).unwrap(), Retracted::default());
    assert_eq!((shared(&lab).retracted, shared(&lab).entries), (1, 4));
    let all = lab.caches.reset().unwrap();
    assert_eq!((all.caches, all.shared, shared(&lab).entries), (1, 4, 0));
    lab.read(1);
    assert_eq!(lab.lookups(), before + 2);
}

/// The lookup has its answer when the class changes.
#[test]
fn what_was_looked_up_before_a_retraction_is_not_shared_after_it() {
    let runtime = Arc::new(Runtime::default());
    let lookup = Arc::clone(&runtime);
    let slot: Arc<Mutex<Option<Caches>>> = Arc::default();
    let retract = Arc::clone(&slot);
    let builder = megamorphic().shared_cache(64, |site| Some(probe(site.id().get())));
    let caches = builder.lookup(move |miss| {
        let learnt = lookup.lookup(miss);
        if let Some(caches) = &*retract.lock() {
            lookup.define(1, 3);
            caches.retract(&[Key::new(1)]).unwrap();
        }
        learnt
    });
    let lab = Lab::with(runtime, caches, false);
    lab.read(2);
    *slot.lock() = Some(lab.caches.clone());
    let object = Object::new(1, [10, 20, 30, 40]);
    assert_eq!(lab.call_word(&raw const object as u64), 20);
    *slot.lock() = None;
    lab.read(1);
    assert_eq!(lab.lookups(), 3, "what it had found was old");
    lab.read(1);
    assert_eq!(lab.lookups(), 3);
}

#[test]
fn what_says_something_else_than_the_probe_is_not_shared() {
    let (object, shape) = (Pointer::plain(arg(0)), u32::at(arg(0), SHAPE));
    let load = |disp| Action::load::<u64>(object, disp);
    let fits = |probe: &Probe, entry: Entry| probe.keeps(&entry).map(|kept| (kept.class, kept.word));
    let plain = probe(1);
    assert_eq!(fits(&plain, entry(5, 1)), Some((5, 24)));
    let by_field = Entry::new(load(32)).guard(Guard::field::<u32>(object, SHAPE, 5));
    assert_eq!(fits(&plain, by_field), Some((5, 32)));
    let tagged = Entry::new(Action::load::<u64>(Pointer::tagged(arg(0), 1), 8)).guard(Guard::field::<u32>(
        Pointer::tagged(arg(0), 1),
        SHAPE + 1,
        5,
    ));
    assert_eq!(fits(&plain, tagged), Some((5, 7)));
    // A class of 32 bits is read without a sign.
    let negative = Entry::new(load(0)).guard(Guard::equal(shape, u64::MAX));
    assert_eq!(fits(&plain, negative), Some((u64::from(u32::MAX), 0)));
    let others = [
        Entry::new(load(24)),
        entry(5, 1).guard(Guard::equal(u64::at(arg(0), 0), 1)),
        Entry::new(load(24)).guard(Guard::equal(u64::at(arg(0), SHAPE), 5)),
        Entry::new(load(24)).guard(Guard::equal(u32::at(arg(0), 0), 5)),
        Entry::new(load(24)).guard(Guard::equal(shape, 1 << 32)),
        Entry::new(Action::load::<u32>(object, 24)).guard(Guard::equal(shape, 5)),
        Entry::new(Action::load::<u64>(Pointer::plain(arg(1)), 24)).guard(Guard::equal(shape, 5)),
        Entry::new(Action::load::<u64>(Pointer::boxed(arg(0), 48), 24)).guard(Guard::equal(shape, 5)),
        Entry::new(Action::constant(24)).guard(Guard::equal(shape, 5)),
        Entry::new(load(24)).guard(Guard::field::<u32>(Pointer::boxed(arg(0), 48), SHAPE, 5)),
    ];
    for other in others {
        assert_eq!(fits(&plain, other.clone()), None, "{other:?}");
    }
    // What has to hold before the class is read.
    let is_object = Guard::masked(arg(0), 7, 0);
    let guarded = probe(1).guard(is_object.clone());
    let with = Entry::new(load(24))
        .guard(is_object)
        .guard(Guard::equal(shape, 5));
    assert_eq!(fits(&guarded, with.clone()), Some((5, 24)));
    assert_eq!((fits(&plain, with), fits(&guarded, entry(5, 1))), (None, None));
    let constant = Probe::constant(1_u64, shape);
    let eight = Entry::new(Action::constant(8)).guard(Guard::equal(shape, 5));
    assert_eq!(fits(&constant, eight), Some((5, 8)));
    assert_eq!(fits(&constant, entry(5, 1)), None);
    // With a sign, the class is what a register has after the load.
    let signed = Probe::constant(1_u64, i8::at(arg(0), SHAPE));
    let minus_one = Entry::new(Action::constant(8)).guard(Guard::equal(i8::at(arg(0), SHAPE), 0xff));
    assert_eq!(fits(&signed, minus_one), Some((u64::MAX, 8)));
}

/// What is not shared is looked up each time, as without a shared cache.
#[test]
fn an_entry_that_cannot_be_shared_is_looked_up_each_time() {
    let builder = megamorphic().shared_cache(64, |_| Some(Probe::constant(1_u64, u32::at(arg(0), SHAPE))));
    let lab = Lab::new(builder);
    (0..3).for_each(|_| lab.read(1));
    assert_eq!((lab.lookups(), shared(&lab).entries), (3, 0));
}

/// Every kind of class, at the site whose live values are in the stack, and at a C site.
#[test]
fn classes_of_each_width_and_in_registers() {
    fn with(
        builder: CachesBuilder,
        function: &str,
        id: u64,
        class: impl Fn(u64) -> Guard + Send + Sync + 'static,
    ) {
        let caches = builder.lookup(move |miss| {
            let at = miss.arg(0).unwrap().u64().unwrap() as *const Object;
            // SAFETY: the test passes an object.
            let object = unsafe { &*at };
            miss.set_result(1000 + u64::from(object.shape)).unwrap();
            let action = Action::constant(1000 + u64::from(object.shape));
            Learn::Entry(Entry::new(action).guard(class(u64::from(object.shape))))
        });
        let lab = Lab::with(Arc::default(), caches, false);
        let cache = lab.caches.attach_all(&lab.engine, id).unwrap().remove(0);
        // SAFETY: that is the function's signature in the IR; the module stays registered.
        let call: extern "C" fn(&Object, u64, u64) -> u64 =
            unsafe { std::mem::transmute(lab.function(function)) };
        for _ in 0..3 {
            for shape in 0..100 {
                let object = Object::new(shape, [0; 4]);
                assert_eq!(call(&object, u64::from(shape), 0), 1000 + u64::from(shape));
            }
        }
        assert_eq!(cache.last_refusal(), None);
        assert_eq!(lab.caches.stats(&cache).misses, 100, "{function}: all are found");
    }
    let method = |class: crate::sequence::Source| {
        let probe = Probe::constant(1_u64, class);
        let builder = megamorphic().shared_cache(256, move |_| Some(probe.clone()));
        with(builder, "method", METHOD, move |to| Guard::equal(class, to));
    };
    let low = low_at_shape(1);
    method(u8::at(arg(0), low).into());
    method(i8::at(arg(0), low).into());
    method(u16::at(arg(0), low_at_shape(2)).into());
    method(u32::at(arg(0), SHAPE).into());
    method(u8::of(arg(1)).into());
    method(u32::of(arg(1)).into());
    method(arg(1).into());
}

/// The displacement of the shape's low bytes.
fn low_at_shape(size: i32) -> i32 {
    SHAPE + if cfg!(target_endian = "big") { 4 - size } else { 0 }
}

/// A site that refuses what it is to look up takes the generic path, and says why.
#[test]
fn a_site_that_refuses_its_probe_does_without() {
    let generic = Sequence::new().mov(result(), 77u64);
    let builder = megamorphic().megamorphic(generic).shared_cache(64, |_| {
        Some(Probe::load::<u64>(1_u64, u32::at(live(7), SHAPE), arg(0)))
    });
    let lab = Lab::new(builder);
    lab.read(1);
    assert_eq!(lab.cache.state(), CacheState::Megamorphic);
    let object = Object::new(1, [1, 2, 3, 4]);
    assert_eq!(lab.call_word(&raw const object as u64), 77, "the generic path");
    assert!(lab.cache.last_refusal().is_some());
    assert_eq!((lab.lookups(), shared(&lab).entries), (1, 0));
}

#[test]
fn retired_records_are_freed_after_every_thread_has_reported() {
    let runtime = Arc::new(Runtime::default());
    let lookup = Arc::clone(&runtime);
    let builder = megamorphic().shared_cache(64, |site| Some(probe(site.id().get())));
    let caches = builder.lookup(move |miss| lookup.lookup(miss));
    let lab = Lab::with(runtime, caches, true);
    let thread = lab.engine.attach_thread();
    // SAFETY: this thread alone executes, and is outside of all code when it reports.
    let attached = unsafe { Attached::promise() };
    (0..4).for_each(|shape| lab.read(shape));
    lab.caches.retract(&[Key::new(1), Key::new(2)]).unwrap();
    assert_eq!(shared(&lab).retired, 2);
    assert_eq!(lab.caches.reclaim_passed(&attached).unwrap(), 0);
    assert_eq!(
        lab.caches.reclaim_passed(&attached).unwrap(),
        0,
        "the thread has not reported"
    );
    thread.checkpoint();
    assert_eq!(lab.caches.reclaim_passed(&attached).unwrap(), 2);
    assert_eq!((shared(&lab).retired, shared(&lab).retracted), (0, 2));
    (0..4).for_each(|shape| lab.read(shape));
}

/// Threads that execute quiescent modules need not report, so reports prove nothing there.
#[test]
fn records_that_threads_may_read_that_do_not_report_need_a_promise() {
    let lab = lab(64);
    (0..4).for_each(|shape| lab.read(shape));
    lab.caches.retract(&[Key::new(1)]).unwrap();
    // SAFETY: this thread alone executes, and is outside of all code.
    let (attached, promised) = unsafe { (Attached::promise(), GracePeriod::promise()) };
    for _ in 0..3 {
        assert_eq!(lab.caches.reclaim_passed(&attached).unwrap(), 0);
    }
    let found = GracePeriod::found(&[], crate::publish::Moment::now());
    assert!(lab.caches.reclaim(&found).is_err());
    assert_eq!(shared(&lab).retired, 1);
    assert_eq!(lab.caches.reclaim(&promised).unwrap(), 1);
}
