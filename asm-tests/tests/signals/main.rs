//! Sites of real objects, patched while the threads that execute them are stopped by signals,
//! wherever they are.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use asm_tests::NATIVE;
use patchpoint::Error;
use patchpoint::addr::CodeAddr;
use patchpoint::deopt::ExitStubs;
use patchpoint::engine::Engine;
use patchpoint::publish::{SignalWorld, WhenInside};
use patchpoint::sequence::{Sequence, Target, arg, result};
use patchpoint::site::{Module, Site};

#[cfg(target_arch = "x86_64")]
mod stepping;

/// Longer than a thread waits for its turn on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// Each test asks the threads of all.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While set, the function that site 600 calls as LLVM left it does not return.
static HOLD: AtomicBool = AtomicBool::new(false);
static HELD: AtomicBool = AtomicBool::new(false);

extern "C" fn blocks(a: u64, b: u64) -> u64 {
    HELD.store(true, Ordering::SeqCst);
    while HOLD.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    a + b
}

fn resolve(name: &str) -> Option<CodeAddr> {
    match name {
        "callee_600" => Some(CodeAddr::new(
            blocks as extern "C" fn(u64, u64) -> u64 as usize as u64,
        )),
        _ => asm_tests::resolve(name).map(CodeAddr::new),
    }
}

/// Lets threads go when the test ends, also where it fails: its threads are joined before that is
/// told.
struct Release<F: Fn()>(F);

impl<F: Fn()> Drop for Release<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(not(target_arch = "riscv64"))]
/// Waits until the function that site 600 calls is held, by a thread that still runs.
fn wait_until_held<T>(thread: &std::thread::ScopedJoinHandle<'_, T>) {
    while !HELD.load(Ordering::SeqCst) {
        assert!(!thread.is_finished(), "the thread ended before it called");
        std::thread::yield_now();
    }
}

struct Lab {
    world: SignalWorld,
    engine: Engine,
    _module: Module,
    site: Site,
    entry: u64,
}

impl Lab {
    /// The function with site 600, whose result is multiplied with the second parameter.
    fn new(when_inside: WhenInside) -> Self {
        // SAFETY: every thread that calls the code attaches, and does so on its own stack.
        let world = unsafe { SignalWorld::new() }.unwrap();
        let world = world.when_inside(when_inside).patience(PATIENCE);
        let exit_stubs = ExitStubs::new()
            .on_miss(|frame| frame.resume())
            .on_deopt(|frame| frame.resume());
        let engine = Engine::builder()
            .world(world.clone())
            .exits(exit_stubs)
            .build()
            .unwrap();
        let object = NATIVE[0].object_of("calls", 19, 2);
        let source = NATIVE[0].source("calls");
        let code = engine.load(&object.bytes, resolve).unwrap();
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe {
            engine.register(code, |r| {
                source.shape(r.id().get()).filter(|s| s.reserved().get() > 0)
            })
        }
        .unwrap();
        let site = engine.sites(600).unwrap()[0].clone();
        let name = &source.sites.iter().find(|s| s.id == 600).unwrap().function;
        module.release();
        let entry = module.function(name).unwrap().entry().unwrap().get();
        Self {
            world,
            engine,
            _module: module,
            site,
            entry,
        }
    }

    fn call(&self, a: u64, b: u64) -> u64 {
        // SAFETY: a function of two words.
        let function: extern "C" fn(u64, u64) -> u64 = unsafe { std::mem::transmute(self.entry as usize) };
        function(a, b)
    }

    fn patch(&self, by: u64, operations: u64) -> Result<(), Error> {
        let sequence = plus(by, operations);
        let mut transaction = self.engine.transaction();
        transaction.patch_site(&self.site, &sequence)?;
        transaction.quiescent().commit().map(drop)
    }
}

/// `result = argument + by`, in so many additions.
fn plus(by: u64, operations: u64) -> Sequence {
    let first = Sequence::new()
        .mov(result(), arg(0))
        .add(result(), by - (operations - 1));
    (1..operations).fold(first, |sequence, _| sequence.add(result(), 1u64))
}

#[test]
fn readers_see_the_old_or_the_new_sequence_while_the_writer_stops_them_anywhere() {
    let _alone = alone();
    let lab = Lab::new(WhenInside::Wait(Duration::from_secs(10)));
    lab.patch(1000, 1).unwrap();
    assert_eq!(lab.call(7, 1), 1007);
    let (stop, old, new, calls) = (
        AtomicBool::new(false),
        AtomicU64::new(1000),
        AtomicU64::new(1000),
        AtomicU64::new(0),
    );
    let mut patches = 0;
    std::thread::scope(|scope| {
        let read = || {
            let _attached = lab.world.attach().unwrap();
            while !stop.load(Ordering::Relaxed) {
                let from = old.load(Ordering::SeqCst);
                let by = lab.call(7, 1) - 7;
                let to = new.load(Ordering::SeqCst);
                assert!((from..=to).contains(&by), "{by} is neither of {from}..={to}");
                calls.fetch_add(1, Ordering::Relaxed);
            }
        };
        let readers = [scope.spawn(read), scope.spawn(read)];
        let release = Release(|| stop.store(true, Ordering::Relaxed));
        let start = std::time::Instant::now();
        let mut failed = None;
        let enough = |patches| patches > 20 && calls.load(Ordering::Relaxed) > 1000;
        let goes_on = || !readers.iter().any(ScopedJoinHandle::is_finished);
        while (start.elapsed() < Duration::from_secs(3) || !enough(patches)) && failed.is_none() && goes_on()
        {
            let by = new.load(Ordering::SeqCst) + 1;
            new.store(by, Ordering::SeqCst);
            failed = lab.patch(by, 1 + by % 4).err();
            old.store(by, Ordering::SeqCst);
            patches += 1;
        }
        drop(release);
        assert_eq!(failed, None);
    });
    println!("{} calls, {patches} patches, 0 failures", calls.into_inner());
}

/// What copies or compares code leaves addresses of it in registers and on stacks: no call returns
/// there.
#[test]
fn addresses_in_a_site_that_are_no_return_offsets_keep_nobody_from_patching_it() {
    let _alone = alone();
    let lab = Lab::new(WhenInside::Fail);
    // The site holds no call any more.
    lab.patch(1000, 1).unwrap();
    let (start, end) = (lab.site.addr().get(), lab.site.end().get());
    let (ready, done) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _attached = lab.world.attach().unwrap();
            let words: [u64; 128] = std::array::from_fn(|n| (start + n as u64).min(end));
            std::hint::black_box(&words);
            ready.store(true, Ordering::SeqCst);
            while !done.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            std::hint::black_box(&words);
        });
        let release = Release(|| done.store(true, Ordering::SeqCst));
        while !ready.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let patched = lab.patch(2000, 1);
        drop(release);
        assert_eq!(patched, Ok(()));
    });
    assert_eq!(lab.call(7, 1), 2007);
}

/// Where LLVM's call returns to in site 600.
#[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64")))]
const RETURN_OFFSET: u32 = if cfg!(target_arch = "x86_64") {
    13
} else if cfg!(target_arch = "s390x") {
    6
} else {
    4
};

/// Not on AArch64 and RISC-V, where LLVM does not call symbols.
#[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64")))]
#[test]
fn a_callee_that_blocks_inside_a_call_keeps_its_site_until_it_returns() {
    let _alone = alone();
    let lab = Lab::new(WhenInside::Fail);
    HOLD.store(true, Ordering::SeqCst);
    HELD.store(false, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _attached = lab.world.attach().unwrap();
            lab.call(5, 6)
        });
        let release = Release(|| HOLD.store(false, Ordering::SeqCst));
        wait_until_held(&thread);
        let refused = lab.patch(1000, 4).unwrap_err();
        drop(release);
        assert!(
            matches!(&refused, Error::ThreadInSite { site, offset, returns: true, .. }
                if site.id.get() == 600 && offset.get() == RETURN_OFFSET),
            "{refused}"
        );
        println!("{refused}");
        // What it returned to was still LLVM's call.
        assert_eq!(thread.join().unwrap(), 11 * 6);
        assert_eq!(lab.engine.status(&lab.site), patchpoint::engine::Status::Original);
        lab.patch(1000, 4).unwrap();
        assert_eq!(lab.call(5, 6), 1005 * 6);
    });
}

/// Not on RISC-V, where LLVM leaves the return address in its register, which a call would lose.
#[cfg(not(target_arch = "riscv64"))]
#[test]
fn retired_stubs_are_freed_when_asking_shows_that_nobody_returns_there() {
    let _alone = alone();
    let lab = Lab::new(WhenInside::Fail);
    let call = |target: u64| {
        let callee = CodeAddr::new(blocks as extern "C" fn(u64, u64) -> u64 as usize as u64);
        // SAFETY: the function can be called from the site.
        let sequence = unsafe { Sequence::new().call(callee, patchpoint::arch::OnReturn::FollowsC) }
            .add(result(), target);
        (0..12).fold(sequence, |sequence, _| sequence.add(result(), 0x1_0000_0000_u64))
    };
    HOLD.store(true, Ordering::SeqCst);
    HELD.store(false, Ordering::SeqCst);
    lab.engine.patch_site(&lab.site, &call(1)).unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _attached = lab.world.attach().unwrap();
            lab.call(5, 6)
        });
        let release = Release(|| HOLD.store(false, Ordering::SeqCst));
        wait_until_held(&thread);
        lab.engine.patch_site(&lab.site, &call(2)).unwrap();
        let retired = lab.engine.retired();
        assert_eq!(retired.len(), 1, "the callee is in the stub's call");
        let refused = lab.world.grace_period(&retired).unwrap_err();
        let early = lab.world.grace_period(&[]).unwrap();
        let kept = lab.engine.reclaim(&early).unwrap();
        drop(release);
        thread.join().unwrap();
        assert!(
            matches!(
                refused,
                patchpoint::publish::Error::ThreadInside { returns: true, .. }
            ),
            "{refused}"
        );
        assert_eq!(kept, 0);
        let grace_period = lab.world.grace_period(&retired).unwrap();
        assert_eq!(lab.engine.reclaim(&grace_period).unwrap(), 1);
        // The same proof is no good for what is retired later.
        lab.engine.patch_site(&lab.site, &plus(9, 1)).unwrap();
        assert_eq!(lab.engine.retired().len(), 1);
        assert_eq!(lab.engine.reclaim(&grace_period).unwrap(), 0);
    });
}

#[test]
fn a_miss_patches_its_own_site_and_a_child_of_a_fork_cannot() {
    let _alone = alone();
    let lab = Lab::new(WhenInside::Fail);
    // SAFETY: as for the lab's.
    let world = unsafe { SignalWorld::new() }.unwrap().patience(PATIENCE);
    let own: std::sync::Arc<std::sync::OnceLock<patchpoint::engine::WeakEngine>> = std::sync::Arc::default();
    let weak = own.clone();
    let exit_stubs = ExitStubs::new().on_miss(move |frame| {
        let engine = weak.get().unwrap().upgrade().unwrap();
        engine.patch(600, &plus(40, 2)).unwrap();
        frame.resume()
    });
    // A second engine in the process, with the same signal.
    let engine = Engine::builder()
        .world(world.clone())
        .exits(exit_stubs)
        .build()
        .unwrap();
    own.set(engine.downgrade()).ok().unwrap();
    let source = NATIVE[0].source("calls");
    let object = NATIVE[0].object_of("calls", 19, 2);
    let code = engine.load(&object.bytes, resolve).unwrap();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe {
        engine.register(code, |r| {
            source.shape(r.id().get()).filter(|s| s.reserved().get() > 0)
        })
    }
    .unwrap();
    let name = &source.sites.iter().find(|s| s.id == 600).unwrap().function;
    module.release();
    let entry = module.function(name).unwrap().entry().unwrap().get();
    // SAFETY: a function of two words.
    let function: extern "C" fn(u64, u64) -> u64 = unsafe { std::mem::transmute(entry as usize) };
    engine.patch(600, &Sequence::new().jump(Target::Miss)).unwrap();
    let _attached = world.attach().unwrap();
    function(5, 6);
    lab.patch(40, 1).unwrap();
    assert_eq!(function(5, 6), lab.call(5, 6), "both now add 40");

    if cfg!(emulated) {
        // There, madvise(MADV_WIPEONFORK) succeeds and wipes nothing.
        return;
    }
    // SAFETY: the child only tries to patch, and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            matches!(
                engine.patch(600, &plus(50, 1)),
                Err(Error::Memory(patchpoint::memory::Error::EngineForked))
            ) && function(5, 6) == lab.call(5, 6)
        }));
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!tried.unwrap_or(false))) };
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
}
