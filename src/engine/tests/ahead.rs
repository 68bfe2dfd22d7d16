//! Code that is assembled without the engine's lock, as threads have been waiting for it.

use std::sync::atomic::AtomicUsize;

use super::*;
use crate::sequence::{Field, Target};

/// An engine whose changes all lower without the lock, with one site for each ID from 1.
fn ahead(count: u64) -> (Lab, Text, Vec<Site>) {
    let functions: Vec<Written> = (1..=count).map(identity).collect();
    let (lab, text) = (Lab::new(), Text::new(&functions));
    let sites = lab.register(&text, &functions).sites().collect();
    lab.engine.shared.contention.expect_forever();
    (lab, text, sites)
}

/// Does something between lowering and preparing, once.
fn meanwhile(engine: &Engine, work: impl FnOnce(&Engine) + Send + 'static) {
    let of_engine = engine.downgrade();
    let work = move || work(&of_engine.upgrade().unwrap());
    *engine.shared.when_ahead.lock() = Some(Box::new(work));
}

fn lowered(lab: &Lab) -> u64 {
    lab.engine.lock_stats().lowered_outside
}

/// One that goes to the site's exit stub if the argument is 0.
fn guarded(by: u64) -> Sequence {
    let guard = Sequence::new().guard_ne(u64::of(arg(0)), 0u64, Target::Miss);
    guard.mov(result(), arg(0)).add(result(), by)
}

#[test]
fn what_is_lowered_outside_is_installed() {
    let (lab, _text, sites) = ahead(3);
    lab.engine.patch(1, &plus(5)).unwrap();
    assert_eq!((lowered(&lab), call(&sites[0], 10)), (1, 15));
    // The second time it becomes a template, which the third is filled into.
    lab.engine.patch(2, &plus(6)).unwrap();
    lab.engine.patch(3, &plus(7)).unwrap();
    assert_eq!(lowered(&lab), 2);
    assert_eq!([call(&sites[1], 10), call(&sites[2], 10)], [16, 17]);
    lab.engine.patch(1, &plus_in_stub(9)).unwrap();
    assert_eq!((lowered(&lab), call(&sites[0], 10)), (3, 19));
    assert_eq!(lab.engine.stub_stats().slots, 1);
}

#[test]
fn transactions_lower_outside_too() {
    let (lab, _text, sites) = ahead(2);
    let mut both = lab.engine.transaction();
    both.patch(1, &guarded(5)).unwrap();
    both.patch(2, &plus_in_stub(6)).unwrap();
    both.commit().unwrap();
    assert_eq!([call(&sites[0], 10), call(&sites[1], 10)], [15, 16]);
    // A stub and an exit stub; on some architectures two stubs.
    let slots = || lab.engine.stub_stats().slots;
    let before = slots();
    assert!(lowered(&lab) == 2 && before >= 2, "{before}");

    let mut one = lab.engine.transaction();
    let prepared = one.patch(2, &guarded(7)).unwrap().prepare().unwrap();
    assert!(lowered(&lab) == 3 && slots() > before);
    drop(prepared);
    assert_eq!((call(&sites[1], 10), slots()), (16, before));
}

#[test]
fn what_has_changed_meanwhile_is_lowered_again() {
    let (lab, _text, sites) = ahead(1);
    // The site gets its exit stub meanwhile: what was lowered goes to another.
    meanwhile(&lab.engine, |engine| _ = engine.patch(1, &guarded(3)).unwrap());
    lab.engine.patch(1, &guarded(5).add(result(), 1u64)).unwrap();
    assert_eq!(lowered(&lab), 2);
    assert_eq!(call(&sites[0], 10), 16);
    // By the exit stub.
    call(&sites[0], 0);
    // Of a stub for the sequence and one exit stub.
    let stubs = |lab: &Lab| lab.engine.stub_stats().slots;
    let before = stubs(&lab);
    assert!(before <= 2, "{before}");

    meanwhile(&lab.engine, |engine| _ = engine.restore(1).unwrap());
    lab.engine.patch(1, &plus_in_stub(9)).unwrap();
    assert_eq!(call(&sites[0], 10), 19);
    assert_eq!(stubs(&lab), 2);
}

#[test]
fn what_was_lowered_for_an_earlier_change_is_not_used_for_a_later() {
    let (lab, _text, sites) = ahead(1);
    // Neither has an exit stub: what was lowered would do, but is said to be of the first change.
    meanwhile(&lab.engine, |engine| _ = engine.patch(1, &plus(3)).unwrap());
    lab.engine.patch(1, &plus_in_stub(9)).unwrap();
    assert_eq!((lowered(&lab), call(&sites[0], 10)), (2, 19));
    let mut states = lab.engine.shared.states.lock();
    let installed = &states.of(&sites[0]).unwrap().installed;
    let stub = installed.stub.as_ref().unwrap();
    assert_eq!((stub.owner.generation, installed.generation), (2, 2));
    drop(states);
    assert_eq!(lab.engine.stub_stats().slots, 1);
}

#[test]
fn a_module_that_goes_meanwhile_leaves_nothing() {
    let (lab, _text, sites) = ahead(2);
    let module = sites[0].module().clone();
    drop(sites);
    meanwhile(&lab.engine, move |engine| {
        // SAFETY: nobody executes it.
        let grace_period = unsafe { GracePeriod::promise() };
        engine.unregister(module, &grace_period).unwrap();
    });
    let mut both = lab.engine.transaction();
    both.patch(1, &guarded(5)).unwrap();
    refused!(
        both.patch(2, &plus_in_stub(6)).unwrap().commit(),
        Site(SiteForeign)
    );
    assert_eq!((lowered(&lab), lab.engine.stub_stats().slots), (2, 0));
}

#[test]
fn what_is_refused_outside_is_refused_as_ever() {
    let (lab, _text, sites) = ahead(1);
    let far = (0..40).fold(plus(9), |sequence, _| sequence.add(result(), 1u64));
    let here = lab.engine.patch(1, &far.in_place_only()).unwrap_err();
    assert!(here.to_string().contains("bytes"), "{here}");
    lab.engine.patch(1, &plus(5)).unwrap();
    assert_eq!((call(&sites[0], 1), lab.engine.stub_stats().slots), (6, 0));
    lab.engine.invalidate(&sites[0].function()).unwrap();
    refused!(lab.engine.patch_site(&sites[0], &plus(7)), SiteInvalidated);
}

/// A shape of its own for each number below 4096.
fn shaped(number: u64) -> Sequence {
    let of = |step: u64| number / step % 4;
    let sequence = Sequence::new().mov(result(), arg(0));
    [1, 4, 16, 64, 256, 1024]
        .into_iter()
        .fold(sequence, |sequence, step| match of(step) {
            0 => sequence.add(result(), 3_u8),
            1 => sequence.and(result(), 0x7f),
            2 => sequence.shift_left(result(), 3),
            _ => sequence.shift_right(result(), 3),
        })
}

#[test]
fn threads_that_meet_lower_side_by_side() {
    let functions: Vec<Written> = (1..=4).map(identity).collect();
    let (lab, text) = (Lab::new(), Text::new(&functions));
    let _module = lab.register(&text, &functions);
    let patched = AtomicUsize::new(0);
    let has_met = || lab.engine.lock_stats().lowered_outside > 100;
    // Until they have met; where they never do, for all shapes.
    std::thread::scope(|scope| {
        for id in 1..=4 {
            let (patched, engine) = (&patched, &lab.engine);
            scope.spawn(move || {
                for number in 0..4096 {
                    engine.patch(id, &shaped(number)).unwrap();
                    patched.fetch_add(1, Ordering::Relaxed);
                    if number > 256 && has_met() {
                        break;
                    }
                }
            });
        }
    });
    let stats = lab.engine.lock_stats();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{cores} cores, {} patches: {stats:?}", patched.into_inner());
    assert!(
        stats.lowered_outside > 0 && stats.waits_for_lowering <= stats.waits,
        "{stats:?}"
    );
}
