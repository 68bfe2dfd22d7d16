//! Many threads on one live site.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use super::*;
use crate::publish::Attached;

const THREADS: usize = 8;

fn live_lab() -> Lab {
    let runtime = Arc::new(Runtime::default());
    let lookup = Arc::clone(&runtime);
    let caches = Caches::builder().lookup(move |miss| lookup.lookup(miss));
    Lab::with(runtime, caches, true)
}

/// Every thread is in its lookup before any has its result.
#[test]
fn all_threads_miss_at_once_and_one_entry_is_installed() {
    for _ in 0..20 {
        let (runtime, barrier) = (Arc::new(Runtime::default()), Arc::new(Barrier::new(THREADS)));
        let (lookup, together) = (Arc::clone(&runtime), Arc::clone(&barrier));
        let caches = Caches::builder().lookup(move |miss| {
            let learnt = lookup.lookup(miss);
            together.wait();
            // One after the other, so that each finds what those before it have done.
            thread::sleep(Duration::from_micros(200 * thread_number()));
            learnt
        });
        let lab = Lab::with(runtime, caches, true);
        thread::scope(|scope| {
            for number in 0..THREADS {
                let lab = &lab;
                scope.spawn(move || {
                    THREAD.set(number as u64);
                    lab.read(5);
                });
            }
        });
        assert_eq!(lab.lookups(), THREADS as u64);
        assert_eq!((lab.stats().installed, lab.cache.entries().len()), (1, 1));
        lab.read(5);
        assert_eq!(lab.lookups(), THREADS as u64, "the next read hits");
    }
}

thread_local! {
    static THREAD: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

fn thread_number() -> u64 {
    THREAD.get()
}

/// The property moves between two places. A read that begins after a retraction has returned, and
/// ends before the next one begins, finds the new place; any other finds one of the two.
#[test]
#[cfg_attr(
    emulated,
    ignore = "an emulator that is told of changed code takes its page away for a moment"
)]
fn retraction_during_hits() {
    const VALUES: [u64; 2] = [100, 200];
    let lab = live_lab();
    lab.runtime.define(1, 0);
    let object = Object::new(1, [VALUES[0], VALUES[1], 0, 0]);
    let at = &raw const object as u64;
    let (begun, done, certain) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let before = done.load(Ordering::SeqCst);
                    let found = lab.call_word(at);
                    assert!(VALUES.contains(&found));
                    if begun.load(Ordering::SeqCst) == before {
                        assert_eq!(found, VALUES[before as usize % 2]);
                        certain.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for round in 1..300 {
            begun.store(round, Ordering::SeqCst);
            lab.runtime.define(1, round as usize % 2);
            lab.caches.retract(&[Key::new(1)]).unwrap();
            done.store(round, Ordering::SeqCst);
            for _ in 0..50 {
                assert_eq!(lab.call_word(at), VALUES[round as usize % 2], "round {round}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(certain.load(Ordering::Relaxed) > 0);
    assert!(lab.stats().retracted > 0, "{:?}", lab.stats());
}

#[test]
#[cfg_attr(
    emulated,
    ignore = "an emulator that is told of changed code takes its page away for a moment"
)]
fn invalidation_during_hits() {
    let lab = live_lab();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for shape in [1, 2] {
            let (lab, stop) = (&lab, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    lab.read(shape);
                }
            });
        }
        while lab.cache.state() != CacheState::Polymorphic {
            thread::yield_now();
        }
        lab.engine
            .invalidate(&lab.module.function("get").unwrap())
            .unwrap();
        lab.read(1);
        lab.read(6);
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(lab.cache.state(), CacheState::Dead);
}

/// Eight threads miss and hit on three sites while another takes entries back: every result is
/// right, and what was installed is there or has been retracted.
#[test]
#[cfg_attr(
    emulated,
    ignore = "an emulator that is told of changed code takes its page away for a moment"
)]
fn many_threads_on_many_sites_while_entries_come_and_go() {
    const SHAPES: u32 = 6;
    let runtime = Arc::new(Runtime::default());
    let lookup = Arc::clone(&runtime);
    let policy = Chain {
        limit: SHAPES as usize,
        back_off: 0,
        cool_down: 0,
    };
    let caches = Caches::builder()
        .policy(policy)
        .lookup(move |miss| lookup.lookup(miss));
    let lab = Lab::with(runtime, caches, true);
    let caches = lab.caches.attach_all(&lab.engine, GET).unwrap();
    assert_eq!(caches.len(), 3);
    let (begin, stop) = (Barrier::new(THREADS + 1), AtomicBool::new(false));
    let reads = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..THREADS as u32 {
            let (lab, begin, stop, reads) = (&lab, &begin, &stop, &reads);
            scope.spawn(move || {
                begin.wait();
                for round in 0.. {
                    lab.read_everywhere((number + round) % SHAPES);
                    reads.fetch_add(1, Ordering::Relaxed);
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        begin.wait();
        let enough = |cache: &Cache| lab.caches.stats(cache).retracted > 0;
        for round in 0.. {
            if round >= 200 && caches.iter().all(enough) {
                break;
            }
            let key = Key::new(round % u64::from(SHAPES));
            match round % 10 {
                9 => lab.caches.reset().unwrap(),
                _ => lab.caches.retract(&[key]).unwrap(),
            };
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(reads.load(Ordering::Relaxed) >= THREADS as u64);
    for cache in caches {
        let stats = lab.caches.stats(&cache);
        assert_eq!(
            stats.installed,
            stats.retracted + stats.entries as u64,
            "{stats:?}"
        );
        assert_eq!((stats.refused, cache.last_refusal()), (0, None));
        assert!(stats.entries <= SHAPES as usize);
    }
}

/// Threads probe a shared cache with far fewer slots than classes, so that each slot changes all the
/// time, while another takes entries back and frees what nobody has any more. Each class has its
/// property in another place than its neighbours have: who compared one entry's class and used
/// another's word would find another property.
#[test]
#[cfg_attr(
    emulated,
    ignore = "an emulator that is told of changed code takes its page away for a moment"
)]
fn nobody_gets_a_word_of_another_entry_while_slots_change() {
    const SHAPES: u32 = 150;
    let runtime = Arc::new(Runtime::default());
    let lookup = Arc::clone(&runtime);
    let policy = Chain {
        limit: 0,
        back_off: 0,
        cool_down: 0,
    };
    let probe = Probe::load::<u64>(GET, u32::at(arg(0), SHAPE), arg(0));
    let caches = Caches::builder()
        .policy(policy)
        .shared_cache(16, move |_| Some(probe.clone()))
        .lookup(move |miss| lookup.lookup(miss));
    let lab = Lab::with(runtime, caches, true);
    lab.caches.attach_all(&lab.engine, GET).unwrap();
    for shape in 0..SHAPES {
        lab.runtime.define(shape, shape as usize % 4);
    }
    let (stop, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut freed = 0;
    thread::scope(|scope| {
        for number in 0..THREADS as u32 {
            let (lab, stop, hits) = (&lab, &stop, &hits);
            scope.spawn(move || {
                let thread = lab.engine.attach_thread();
                let mut state = number;
                while !stop.load(Ordering::Relaxed) {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let shape = (state >> 16) % SHAPES;
                    // Some often, so that they are found, too.
                    let shape = if state & 0x300 == 0 { shape } else { shape % 8 };
                    lab.read_everywhere(shape);
                    hits.fetch_add(5, Ordering::Relaxed);
                    thread.checkpoint();
                }
            });
        }
        // SAFETY: the threads are attached, and report outside of all code; this one runs none.
        let attached = unsafe { Attached::promise() };
        for round in 0.. {
            lab.caches.retract(&[Key::new(round % 16)]).unwrap();
            freed += lab.caches.reclaim_passed(&attached).unwrap();
            if round >= 2000 && freed > 100 {
                break;
            }
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (stats, lookups) = (lab.caches.shared_stats().unwrap(), lab.lookups());
    assert!(
        hits.load(Ordering::Relaxed) > lookups,
        "some were found: {lookups} were not"
    );
    assert!(stats.displaced > 0 && stats.retracted > 0, "{stats:?}");
    // SAFETY: all threads are gone.
    let attached = unsafe { Attached::promise() };
    for _ in 0..2 {
        freed += lab.caches.reclaim_passed(&attached).unwrap();
    }
    assert_eq!(freed as u64, stats.retracted, "each is freed once");
}

/// After a retraction has returned, and until the next begins, a probe finds the new place.
#[test]
#[cfg_attr(
    emulated,
    ignore = "an emulator that is told of changed code takes its page away for a moment"
)]
fn retraction_from_the_shared_cache_during_hits() {
    const VALUES: [u64; 2] = [100, 200];
    let runtime = Arc::new(Runtime::default());
    let lookup = Arc::clone(&runtime);
    let policy = Chain {
        limit: 0,
        back_off: 0,
        cool_down: 0,
    };
    let probe = Probe::load::<u64>(GET, u32::at(arg(0), SHAPE), arg(0));
    let caches = Caches::builder()
        .policy(policy)
        .shared_cache(16, move |_| Some(probe.clone()))
        .lookup(move |miss| lookup.lookup(miss));
    let lab = Lab::with(runtime, caches, true);
    lab.runtime.define(1, 0);
    let object = Object::new(1, [VALUES[0], VALUES[1], 0, 0]);
    let at = &raw const object as u64;
    let (begun, done, certain) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let before = done.load(Ordering::SeqCst);
                    let found = lab.call_word(at);
                    assert!(VALUES.contains(&found));
                    if begun.load(Ordering::SeqCst) == before {
                        assert_eq!(found, VALUES[before as usize % 2]);
                        certain.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for round in 1..3000 {
            begun.store(round, Ordering::SeqCst);
            lab.runtime.define(1, round as usize % 2);
            lab.caches.retract(&[Key::new(1)]).unwrap();
            done.store(round, Ordering::SeqCst);
            for _ in 0..20 {
                assert_eq!(lab.call_word(at), VALUES[round as usize % 2], "round {round}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(certain.load(Ordering::Relaxed) > 0);
    assert!(lab.caches.shared_stats().unwrap().retracted > 100);
}
