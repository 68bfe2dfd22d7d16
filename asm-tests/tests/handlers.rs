//! Handlers that change sites: a miss that patches its own, a deoptimization that invalidates its
//! own function again and another one. In every world, and beside a second thread that executes the
//! same code where the world allows that.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use asm_tests::live::{self, adding};
use patchpoint::deopt::ExitStubs;
use patchpoint::engine::{Receipt, Status, WeakEngine};
use patchpoint::publish::{NeverStopped, SignalWorld, SingleThreaded, WhenInside, World};
use patchpoint::sequence::{Sequence, Target, arg, result};
use patchpoint::site::Module;
use patchpoint::{Engine, Error};

/// Signals are for all threads of the process.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Patched by its own misses.
const OWN: u64 = 103;
/// Deoptimizes.
const FALLS: u64 = 104;
/// Invalidated by the deoptimization of the other.
const OTHER: u64 = 203;
/// What the sequences of the last two add.
const FALLS_ADDS: u64 = 30;
const OTHER_ADDS: u64 = 40;

/// What the handlers have seen and done.
#[derive(Default)]
struct HandlerCounts {
    misses: AtomicU64,
    deopts: AtomicU64,
    /// How many sites the handlers' invalidations changed: of the own function, and of the other.
    own: AtomicU64,
    other: AtomicU64,
}

struct Lab {
    engine: Engine,
    module: Module,
    done: Arc<HandlerCounts>,
}

impl Lab {
    fn new(world: impl World + 'static, is_live: bool) -> Self {
        let name: Arc<OnceLock<WeakEngine>> = Arc::default();
        let done: Arc<HandlerCounts> = Arc::default();
        let (on_miss, on_deopt) = ((name.clone(), done.clone()), (name.clone(), done.clone()));
        let exit_stubs = ExitStubs::new()
            .on_miss(move |frame| {
                let (name, done) = &on_miss;
                let engine = name.get().unwrap().upgrade().unwrap();
                let site = engine.site_at(frame.context().addr).unwrap();
                // Another number each time, and so another stub where it has one.
                let number = 1 + done.misses.fetch_add(1, Ordering::SeqCst);
                retried(|| engine.patch_site(&site, &again(number)));
                let x = frame.arg(0).unwrap().u64().unwrap();
                frame.set_result(x + OWN_ADDS).unwrap();
                frame.resume()
            })
            .on_deopt(move |frame| {
                let (name, done) = &on_deopt;
                let engine = name.get().unwrap().upgrade().unwrap();
                let module = engine.site_at(frame.context().addr).unwrap().module().clone();
                done.deopts.fetch_add(1, Ordering::SeqCst);
                for (id, changed) in [(FALLS, &done.own), (OTHER, &done.other)] {
                    let function = module.function(&live::name(id)).unwrap();
                    let receipt = retried(|| engine.invalidate(&function));
                    changed.fetch_add(receipt.sites as u64, Ordering::SeqCst);
                }
                frame.resume()
            });
        let engine = Engine::builder().world(world).exits(exit_stubs).build().unwrap();
        name.set(engine.downgrade()).ok().unwrap();
        let module = live::register(&engine, is_live);
        engine.patch(OWN, &Sequence::new().jump(Target::Miss)).unwrap();
        engine.patch(FALLS, &adding(FALLS_ADDS)).unwrap();
        engine.patch(OTHER, &adding(OTHER_ADDS)).unwrap();
        Self { engine, module, done }
    }
}

/// Until no other thread's handler changes the site between preparation and commit.
fn retried(change: impl Fn() -> patchpoint::Result<Receipt>) -> Receipt {
    loop {
        match change() {
            Err(Error::SiteChanged { .. }) => {}
            other => return other.unwrap(),
        }
    }
}

/// What every version of the site adds.
const OWN_ADDS: u64 = 20;

/// Adds, but misses for one number in eight: another one in each version.
fn again(version: u64) -> Sequence {
    let start = Sequence::new().guard_ne(arg(0), version % 8, Target::Miss);
    let parts = version % 3;
    let start = start.mov(result(), arg(0));
    (0..parts)
        .fold(start, |sequence, _| sequence.add(result(), 1u64))
        .add(result(), OWN_ADDS - parts)
}

impl Lab {
    fn call(&self, id: u64, x: u64) -> u64 {
        // SAFETY: a function of a word that returns one; the module outlives its calls.
        let function: extern "C" fn(u64) -> u64 =
            unsafe { std::mem::transmute(live::entry(&self.module, id) as usize) };
        function(x)
    }

    fn misses(&self) -> u64 {
        self.done.misses.load(Ordering::SeqCst)
    }

    /// Calls until this thread's and others' calls have missed so often.
    fn miss(&self, times: u64) {
        let end = Instant::now() + LIMIT;
        for x in 0.. {
            if self.misses() >= times {
                return;
            }
            assert_eq!(self.call(OWN, x % 8), x % 8 + OWN_ADDS);
            assert!(Instant::now() < end, "{} misses", self.misses());
        }
    }

    fn status(&self, id: u64) -> Status {
        self.engine.status(&live::site(&self.module, id))
    }

    /// A deoptimization of a function that is invalidated.
    fn fall(&self) {
        let function = self.module.function(&live::name(FALLS)).unwrap();
        assert_eq!(self.engine.invalidate(&function).unwrap().sites, 1);
        assert_eq!(
            (self.status(OTHER), self.call(OTHER, 5)),
            (Status::Patched, 5 + OTHER_ADDS)
        );
        // Resumed with the instructions that were there.
        assert_eq!(self.call(FALLS, 5), 5 + FALLS_ADDS);
        let done = &self.done;
        let count = |count: &AtomicU64| count.load(Ordering::SeqCst);
        assert!(count(&done.deopts) >= 1);
        assert_eq!((count(&done.own), count(&done.other)), (0, 1));
        assert_eq!([FALLS, OTHER].map(|id| self.status(id)), [Status::Invalidated; 2]);
        // The other's handler invalidates both again: nothing to do.
        assert_eq!(self.call(OTHER, 5), 5 + OTHER_ADDS);
        assert!(count(&done.deopts) >= 2);
        assert_eq!((count(&done.own), count(&done.other)), (0, 1));
        assert!(self.engine.restore(OTHER).is_err());
    }

    /// A deoptimization that a sequence asks for: the handler then invalidates the function of the
    /// site it came from.
    fn fall_by_a_sequence(&self) {
        self.engine
            .patch(FALLS, &Sequence::new().jump(Target::Deopt))
            .unwrap();
        self.call(FALLS, 5);
        let count = |count: &AtomicU64| count.load(Ordering::SeqCst);
        assert_eq!((count(&self.done.own), count(&self.done.other)), (1, 1));
        assert_eq!([FALLS, OTHER].map(|id| self.status(id)), [Status::Invalidated; 2]);
        assert_eq!(self.call(OTHER, 5), 5 + OTHER_ADDS);
    }
}

const LIMIT: Duration = Duration::from_secs(60);
const MISSES: u64 = 200;

/// While this thread does `work`, another executes the sites that are not to be undefined; `attach`
/// makes it known. Returns how many calls that thread made.
fn beside<A>(lab: &Lab, attach: impl Fn() -> A + Sync, work: impl FnOnce()) -> u64 {
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _attached = attach();
            for x in 0.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                assert_eq!(lab.call(OWN, x % 8), x % 8 + OWN_ADDS);
                assert_eq!(lab.call(OTHER, x), x + OTHER_ADDS);
                calls.fetch_add(1, Ordering::SeqCst);
            }
        });
        let stop = Stop(&stop);
        let end = Instant::now() + LIMIT;
        while calls.load(Ordering::SeqCst) < 10 && Instant::now() < end {
            std::thread::yield_now();
        }
        work();
        drop(stop);
    });
    calls.into_inner()
}

#[test]
fn handlers_change_sites_in_a_world_of_one_thread() {
    let _alone = alone();
    for is_live in [false, true] {
        for by_sequence in [false, true] {
            // SAFETY: this thread alone executes and patches; the other of the test only counts.
            let lab = Lab::new(unsafe { SingleThreaded::promise() }, is_live);
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                });
                lab.miss(MISSES);
                if by_sequence {
                    lab.fall_by_a_sequence()
                } else {
                    lab.fall()
                }
                stop.store(true, Ordering::SeqCst);
            });
            println!("live: {is_live}, {} misses", lab.misses());
        }
    }
}

#[test]
fn handlers_change_sites_while_signals_stop_a_thread_in_the_same_code() {
    let _alone = alone();
    for is_live in [false, true] {
        for by_sequence in [false, true] {
            // SAFETY: every thread that calls the code attaches, and does so on its own stack.
            let world = unsafe { SignalWorld::new() }.unwrap();
            let world = world.when_inside(WhenInside::Wait(LIMIT)).patience(LIMIT);
            let lab = Lab::new(world.clone(), is_live);
            let _attached = world.attach().unwrap();
            lab.miss(1);
            let calls = beside(
                &lab,
                || world.attach().unwrap(),
                || {
                    lab.miss(MISSES);
                    match by_sequence {
                        true => lab.fall_by_a_sequence(),
                        false => lab.fall(),
                    }
                },
            );
            println!("live: {is_live}, {} misses, {calls} calls beside", lab.misses());
        }
    }
}

#[test]
fn handlers_change_live_sites_beside_a_thread_that_never_stops() {
    let _alone = alone();
    for by_sequence in [false, true] {
        let lab = Lab::new(NeverStopped, true);
        lab.miss(1);
        let calls = beside(
            &lab,
            || lab.engine.attach_thread(),
            || {
                lab.miss(MISSES);
                match by_sequence {
                    true => lab.fall_by_a_sequence(),
                    false => lab.fall(),
                }
            },
        );
        println!("{} misses, {calls} calls beside", lab.misses());
    }
}
