//! Threads that are stopped and asked, in code made by hand and in this file's own functions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::*;
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::memory::testing::host_code::{HOST, pointer};
use crate::memory::testing::process::in_child;
use crate::memory::{Arena, PlacedSegments, Reach, SegmentKind, SegmentNeed};
use crate::publish::Error;
use crate::publish::{Moment, Stopped, Vacated, World};

/// Worlds of one process take turns; so do these tests, as each asks the threads of all.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn world() -> SignalWorld {
    // SAFETY: threads of these tests that execute code made by hand attach.
    let world = unsafe { SignalWorld::new() }.unwrap();
    // Longer than a thread waits for its turn on a machine that does much else. What patience is
    // for has its own tests.
    world.patience(Duration::from_secs(60))
}

/// Where the code that calls back is, behind the code that spins.
const CALL: u32 = 64;

/// The length of the code that calls back.
const CALL_LEN: u64 = HOST.call.len() as u64;

struct TestCode {
    _placed: PlacedSegments,
    start: CodeAddr,
}

impl TestCode {
    fn new() -> Self {
        let need = SegmentNeed {
            kind: SegmentKind::Code,
            len: 128,
            align: 64,
        };
        let mut placement = Arena::default().place(&[need], Reach::Anywhere).unwrap();
        let start = placement.segments()[0].range.start();
        placement.fill(start, HOST.spin).unwrap();
        placement
            .fill(start.plus(Len::new(CALL)).unwrap(), HOST.call)
            .unwrap();
        Self {
            _placed: placement.finalize().unwrap(),
            start,
        }
    }

    fn range(&self, from: u32, len: u64) -> CodeRange {
        CodeRange::new(self.start.plus(Len::new(from)).unwrap(), len).unwrap()
    }

    /// Spins in the code until the flag is set.
    fn spin(&self, flag: &std::sync::atomic::AtomicU32) {
        // SAFETY: the code above.
        let function: extern "C" fn(*const u32) = unsafe { std::mem::transmute(pointer(self.start)) };
        function(flag.as_ptr());
    }

    /// Calls back from the code.
    fn call(&self, callee: extern "C" fn()) {
        // SAFETY: the code above.
        let function: extern "C" fn(u64, extern "C" fn()) =
            unsafe { std::mem::transmute(pointer(self.start.plus(Len::new(CALL)).unwrap())) };
        function(0, callee);
    }
}

/// Runs a thread that is attached, until `stop` is told.
fn with_thread(world: &SignalWorld, body: impl FnOnce(i32) + Send, test: impl FnOnce(i32)) {
    std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        scope.spawn(move || {
            let _attached = world.attach().unwrap();
            let tid = registry::this_thread();
            tell.send(tid).unwrap();
            body(tid);
        });
        test(told.recv().unwrap());
    });
}

fn stop(world: &SignalWorld, ranges: &[CodeRange], mut work: impl FnMut()) -> crate::publish::Result<()> {
    let vacated: Vec<Vacated> = ranges.iter().copied().map(Vacated::anywhere).collect();
    world.while_stopped(&vacated, &mut |_: &Stopped| work())
}

#[test]
fn stopped_threads_do_nothing_until_they_are_released() {
    let _alone = alone();
    let (world, count, end) = (world(), AtomicU64::new(0), AtomicBool::new(false));
    let body = |_| {
        while !end.load(Ordering::Relaxed) {
            count.fetch_add(1, Ordering::SeqCst);
        }
    };
    with_thread(&world, body, |_| {
        for _ in 0..200 {
            stop(&world, &[], || {
                let before = count.load(Ordering::SeqCst);
                for _ in 0..2000 {
                    core::hint::spin_loop();
                }
                assert_eq!(count.load(Ordering::SeqCst), before);
            })
            .unwrap();
            let before = count.load(Ordering::SeqCst);
            while count.load(Ordering::SeqCst) == before {
                std::thread::yield_now();
            }
        }
        end.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_thread_inside_makes_the_change_fail_or_wait() {
    let _alone = alone();
    let (world, code) = (world(), TestCode::new());
    let flag = std::sync::atomic::AtomicU32::new(0);
    let inside = code.range(0, HOST.spin.len() as u64);
    with_thread(
        &world,
        |_| code.spin(&flag),
        |tid| {
            let failing = world.clone().when_inside(WhenInside::Fail);
            // The thread is on its way there, or there.
            let failed = loop {
                match stop(&failing, &[inside], || ()) {
                    Ok(()) => std::thread::yield_now(),
                    Err(error) => break error,
                }
            };
            let Error::ThreadInside {
                thread,
                at,
                range,
                returns,
            } = failed
            else {
                panic!("{failed}")
            };
            assert!(thread == tid && inside.contains(at) && range == inside && !returns);
            let mut ran = false;
            // Nothing but its counter counts: new threads have registers of those that started
            // them.
            let behind = Vacated::return_offset_at(code.range(HOST.spin.len() as u32 + 1, 19), []);
            let mut run = |_: &Stopped| ran = true;
            failing.while_stopped(&[behind], &mut run).unwrap();
            assert!(ran, "outside of it nothing waits");

            let brief = world
                .clone()
                .when_inside(WhenInside::Wait(Duration::from_millis(30)));
            let start = Instant::now();
            assert!(matches!(
                stop(&brief, &[inside], || ran = false),
                Err(Error::ThreadInside { .. })
            ));
            assert!(ran && start.elapsed() >= Duration::from_millis(30));
            let long = world
                .clone()
                .when_inside(WhenInside::Wait(Duration::from_secs(20)));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(20));
                    flag.store(1, Ordering::Relaxed);
                });
                stop(&long, &[inside], || assert_eq!(flag.load(Ordering::Relaxed), 1)).unwrap();
            });
        },
    );
}

static HOLD: AtomicBool = AtomicBool::new(false);
static HELD: AtomicBool = AtomicBool::new(false);

extern "C" fn blocks() {
    HELD.store(true, Ordering::SeqCst);
    while HOLD.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_return_address_is_found_below_a_callee_that_blocks() {
    let _alone = alone();
    let (world, code) = (world(), TestCode::new());
    let world = world.when_inside(WhenInside::Fail);
    HOLD.store(true, Ordering::SeqCst);
    HELD.store(false, Ordering::SeqCst);
    let call = code.range(CALL, CALL_LEN);
    with_thread(
        &world,
        |_| code.call(blocks),
        |tid| {
            while !HELD.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let found = stop(&world, &[call], || ()).unwrap_err();
            let at = code.start.plus(Len::new(CALL + HOST.call_returns)).unwrap();
            let expected = Error::ThreadInside {
                thread: tid,
                at,
                range: call,
                returns: true,
            };
            assert_eq!(found, expected);
            assert_eq!(world.grace_period(&[call]).unwrap_err(), expected);
            // The call's own bytes without the place that it returns to.
            let before = code.range(CALL, HOST.call_returns.into());
            let behind = code.range(CALL + HOST.call_returns + 1, 4);
            stop(&world, &[before, behind], || ()).unwrap();
            HOLD.store(false, Ordering::SeqCst);
            let waiting = world
                .clone()
                .when_inside(WhenInside::Wait(Duration::from_secs(20)));
            waiting.grace_period(&[call]).unwrap();
        },
    );
}

/// What is retired while a grace period waits is not what the grace period is about.
#[test]
fn a_grace_period_is_about_what_was_retired_before_it_began() {
    let _alone = alone();
    let (world, code) = (world(), TestCode::new());
    let world = world.when_inside(WhenInside::Wait(Duration::from_secs(20)));
    let flag = std::sync::atomic::AtomicU32::new(0);
    let inside = code.range(0, HOST.spin.len() as u64);
    let before = Moment::now();
    with_thread(
        &world,
        |_| code.spin(&flag),
        |_| {
            let failing = world.clone().when_inside(WhenInside::Fail);
            while stop(&failing, &[inside], || ()).is_ok() {
                std::thread::yield_now();
            }
            let proof = std::thread::scope(|scope| {
                let grace_period = scope.spawn(|| world.grace_period(&[inside]).unwrap());
                std::thread::sleep(Duration::from_millis(100));
                assert!(!grace_period.is_finished());
                let meanwhile = Moment::now();
                flag.store(1, Ordering::Relaxed);
                let proof = grace_period.join().unwrap();
                assert!(!proof.covers(inside, Some(meanwhile)));
                proof
            });
            assert!(proof.covers(inside, Some(before)));
        },
    );
}

static OWN: AtomicU64 = AtomicU64::new(0);

extern "C" fn stops_from_inside() {
    let world = world();
    let at = CodeAddr::new(OWN.load(Ordering::SeqCst));
    let found = stop(&world, &[CodeRange::new(at, CALL_LEN).unwrap()], || {
        panic!("inside")
    });
    let own = registry::this_thread();
    assert!(matches!(found, Err(Error::ThreadInside { thread, returns: true, .. }) if thread == own));
    let found = world
        .when_inside(WhenInside::Fail)
        .grace_period(&[CodeRange::new(at, CALL_LEN).unwrap()]);
    assert!(matches!(found, Err(Error::ThreadInside { thread, returns: true, .. }) if thread == own));
    HELD.store(true, Ordering::SeqCst);
}

#[test]
fn the_callers_own_return_address_counts_too() {
    let _alone = alone();
    let code = TestCode::new();
    let _attached = world().attach().unwrap();
    OWN.store(code.start.get() + u64::from(CALL), Ordering::SeqCst);
    HELD.store(false, Ordering::SeqCst);
    code.call(stops_from_inside);
    assert!(HELD.load(Ordering::SeqCst));
}

#[test]
fn threads_that_come_and_go_while_they_are_asked_hang_nobody() {
    let _alone = alone();
    let (world, end) = (world(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    std::thread::scope(|inner| {
                        inner.spawn(|| drop(world.attach().unwrap()));
                        // Exits without a word.
                        inner.spawn(|| std::mem::forget(world.attach().unwrap()));
                    });
                }
            });
        }
        for _ in 0..300 {
            let done = stop(&world, &[], || ()).and_then(|()| world.serialize_all());
            if done.is_err() {
                end.store(true, Ordering::Relaxed);
            }
            done.unwrap();
        }
        end.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_thread_that_exits_while_it_is_asked_is_not_waited_for() {
    assert!(in_child(|| {
        let world = world();
        let (tell, told) = mpsc::channel();
        let other = world.clone();
        let thread = std::thread::spawn(move || {
            std::mem::forget(other.attach().unwrap());
            // It is sent the signal, and never handles it.
            block(libc::SIG_BLOCK);
            tell.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(200));
        });
        told.recv().unwrap();
        let stopped = stop(&world, &[], || ());
        thread.join().unwrap();
        stopped.is_ok()
    }));
}

/// What was published before was not published to this thread.
#[test]
fn who_attaches_serializes() {
    let _alone = alone();
    let before = crate::publish::serialize::count();
    let _attached = world().attach().unwrap();
    assert!(crate::publish::serialize::count() > before);
}

#[test]
fn nobody_attaches_while_the_world_is_stopped() {
    let _alone = alone();
    let world = world();
    let (begun, attached) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        stop(&world, &[], || {
            scope.spawn(|| {
                begun.store(true, Ordering::SeqCst);
                let _attached = world.attach().unwrap();
                attached.store(true, Ordering::SeqCst);
            });
            while !begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(20));
            assert!(!attached.load(Ordering::SeqCst));
        })
        .unwrap();
    });
    assert!(attached.load(Ordering::SeqCst));
}

#[test]
fn a_thread_that_blocks_the_signal_is_named() {
    assert!(in_child(|| {
        let world = world().patience(Duration::from_millis(50));
        let (tell, told) = mpsc::channel();
        let (finish, finished) = mpsc::channel::<()>();
        let other = world.clone();
        let thread = std::thread::spawn(move || {
            let _attached = other.attach().unwrap();
            block(libc::SIG_BLOCK);
            tell.send(registry::this_thread()).unwrap();
            finished.recv().unwrap();
            // The signals of questions that timed out come now, and find nothing asked.
            block(libc::SIG_UNBLOCK);
        });
        let tid = told.recv().unwrap();
        let silent = Err(Error::ThreadSilent {
            thread: tid,
            signal: world.signal(),
            waited_ms: 50,
        });
        let mut ran = false;
        let stopped = stop(&world, &[], || ran = true);
        let grace_period = world.grace_period(&[]).map(drop);
        finish.send(()).unwrap();
        thread.join().unwrap();
        stopped == silent && grace_period == silent && !ran && stop(&world, &[], || ()).is_ok()
    }));
}

#[test]
fn a_thread_that_has_detached_is_asked_no_more() {
    assert!(in_child(|| {
        let world = world().patience(Duration::from_millis(50));
        let (tell, told) = mpsc::channel();
        let (finish, finished) = mpsc::channel::<()>();
        let other = world.clone();
        let thread = std::thread::spawn(move || {
            let (outer, inner) = (other.attach().unwrap(), other.attach().unwrap());
            block(libc::SIG_BLOCK);
            drop(inner);
            tell.send(()).unwrap();
            finished.recv().unwrap();
            drop(outer);
            tell.send(()).unwrap();
            finished.recv().unwrap();
        });
        told.recv().unwrap();
        let attached = stop(&world, &[], || ());
        finish.send(()).unwrap();
        told.recv().unwrap();
        let detached = stop(&world, &[], || ());
        finish.send(()).unwrap();
        thread.join().unwrap();
        matches!(attached, Err(Error::ThreadSilent { .. })) && detached.is_ok()
    }));
}

fn block(how: libc::c_int) {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: fills the set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set was filled above.
    unsafe { libc::pthread_sigmask(how, all.as_ptr(), std::ptr::null_mut()) };
}

#[test]
fn a_forks_child_is_alone_even_if_its_parent_was_stopping_threads() {
    let _alone = alone();
    let (world, end) = (Arc::new(world()), AtomicBool::new(false));
    let _attached = world.attach().unwrap();
    with_thread(
        &world,
        |_| {
            while !end.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        },
        |_| {
            stop(&world, &[], || {
                assert!(in_child(|| {
                    let _own = world.attach().unwrap();
                    let (alone, mut ran) = (registry::slots().count() == 1, false);
                    stop(&world, &[], || ran = true).unwrap();
                    alone && ran
                }));
            })
            .unwrap();
            end.store(true, Ordering::Relaxed);
        },
    );
}

#[test]
fn a_signal_that_others_handle_is_not_taken() {
    assert!(in_child(|| {
        let taken = libc::SIGRTMIN() + 3;
        extern "C" fn ignore(_: libc::c_int) {}
        // SAFETY: the handler does nothing.
        unsafe { libc::signal(taken, ignore as *const () as libc::sighandler_t) };
        // SAFETY: no code is made here.
        let (refused, unreal) = unsafe {
            (
                SignalWorld::with_signal(Some(taken)),
                SignalWorld::with_signal(Some(libc::SIGUSR1)),
            )
        };
        // SAFETY: as above.
        let own = unsafe { SignalWorld::with_signal(Some(taken + 1)) };
        matches!(refused, Err(Error::SignalTaken { signal }) if signal == taken)
            && matches!(unreal, Err(Error::SignalTaken { .. }))
            && own.is_ok_and(|world| world.signal() == taken + 1)
    }));
}

#[test]
fn two_worlds_that_stop_at_once_take_turns() {
    let _alone = alone();
    let (one, two) = (world(), world());
    let stops = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for world in [&one, &two] {
            scope.spawn(|| {
                let _attached = world.attach().unwrap();
                for _ in 0..200 {
                    stop(world, &[], || {
                        let mine = stops.fetch_add(1, Ordering::SeqCst) + 1;
                        for _ in 0..500 {
                            core::hint::spin_loop();
                        }
                        assert_eq!(stops.load(Ordering::SeqCst), mine);
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(stops.into_inner(), 400);
}
