//! Live told sites, patched while other threads execute them: each result is that of the old or of
//! the new code. So it is for threads that never attached, and in signal handlers.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use patchpoint::publish::Attached;
use patchpoint::sequence::{Sequence, result};

use crate::contents::{Case, cases};
use crate::{Emitted, function, live_engine};

const PATCHES: u64 = 400;

#[test]
fn every_content_is_patched_under_threads() {
    for case in cases() {
        let (engine, emitted) = (live_engine(), Emitted::new(&case.code));
        let module = emitted.register_live(&engine, [case.site.clone()]).unwrap();
        let f = function(&module);
        let (done, executed) = (AtomicBool::new(false), AtomicU64::new(0));
        let seen = [const { AtomicU64::new(0) }; 3];
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let handle = engine.attach_thread();
                    let mut count = 0_u64;
                    while !done.load(Ordering::Relaxed) || count < 1000 {
                        let found = match f(1000) {
                            value if value == case.before => 0,
                            value if value == case.after => 1,
                            5_000_000 => 2,
                            other => panic!("{}: {other}", case.name),
                        };
                        seen[found].fetch_add(1, Ordering::Relaxed);
                        count += 1;
                        handle.checkpoint();
                        if count % 64 == 0 {
                            handle.quiescent();
                        }
                    }
                    executed.fetch_add(count, Ordering::Relaxed);
                });
            }
            let third = Sequence::new().mov(result(), 5_000_000);
            for patch in 0..PATCHES {
                match patch % 4 {
                    0 => engine.patch(78_u64, &case.sequence).map(|_| ()),
                    1 => engine.patch(78_u64, &third).map(|_| ()),
                    2 => engine.restore(78_u64).map(|_| ()),
                    _ => {
                        // SAFETY: the threads that execute are attached, and report what is true.
                        let attached = unsafe { Attached::promise() };
                        engine.reclaim_passed(&attached).map(|_| ())
                    }
                }
                .unwrap();
                let before = seen
                    .iter()
                    .map(|count| count.load(Ordering::Relaxed))
                    .sum::<u64>();
                // Until some were executed since.
                while seen
                    .iter()
                    .map(|count| count.load(Ordering::Relaxed))
                    .sum::<u64>()
                    < before + 3
                {
                    thread::yield_now();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        let seen = seen.map(|count| count.load(Ordering::Relaxed));
        let [before, after, third] = seen;
        // Behind a jump that was taken out the result is set again.
        let is_jump = case.name == "a jump";
        assert!(
            before > 0 && after > 0 && (third > 0 || is_jump),
            "{}: {seen:?}",
            case.name
        );
        engine.restore(78_u64).unwrap();
        assert_eq!(f(1000), case.before, "{}", case.name);
    }
}

/// Changes a site that another thread executes by `execute`, which returns what the function did;
/// nobody has attached. How often each result was found: the old one, and the new one.
fn changed_beside(case: &Case, execute: impl Fn(extern "C" fn(u64) -> u64) -> u64 + Sync) -> [u64; 2] {
    let (engine, emitted) = (live_engine(), Emitted::new(&case.code));
    let module = emitted.register_live(&engine, [case.site.clone()]).unwrap();
    let f = function(&module);
    let (done, seen) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 2]);
    let count = || seen.iter().map(|seen| seen.load(Ordering::Relaxed)).sum::<u64>();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let found = match execute(f) {
                    value if value == case.before => 0,
                    value if value == case.after => 1,
                    other => panic!("{}: {other}", case.name),
                };
                seen[found].fetch_add(1, Ordering::Relaxed);
            }
        });
        let until_executed = || {
            let before = count();
            while count() < before + 3 {
                assert!(!reader.is_finished(), "{}: it has panicked", case.name);
                thread::yield_now();
            }
        };
        for _ in 0..100 {
            engine.patch(78_u64, &case.sequence).unwrap();
            until_executed();
            engine.restore(78_u64).unwrap();
            until_executed();
        }
        // From then on it goes through the exit stub, which resumes with what was there.
        engine.invalidate(&module.function("f").unwrap()).unwrap();
        let new = seen[1].load(Ordering::Relaxed);
        until_executed();
        assert!(seen[1].load(Ordering::Relaxed) <= new + 1, "{}", case.name);
        done.store(true, Ordering::Relaxed);
    });
    seen.map(AtomicU64::into_inner)
}

#[test]
fn a_thread_that_never_attached_executes_what_is_patched() {
    for case in cases() {
        let seen = changed_beside(&case, |f| f(1000));
        println!("{}: {seen:?}", case.name);
        assert!(seen.iter().all(|seen| *seen > 0), "{}: {seen:?}", case.name);
    }
}

/// What the handler calls, and what that returned.
static CALLED: AtomicUsize = AtomicUsize::new(0);
static RETURNED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_signal: libc::c_int) {
    let f = CALLED.load(Ordering::Relaxed);
    // SAFETY: a function that takes a word and returns one, whose module is registered.
    let f: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(f) };
    RETURNED.store(f(1000), Ordering::Relaxed);
}

thread_local! {
    /// The stack of this thread's signal handlers, as long as the process. The frame of a signal, the
    /// registers that an exit stub saves, and a handler that is not optimized take some 10 KiB with
    /// AVX-512: std's stack of 8 KiB is for handlers that execute no such code.
    static SIGNAL_STACK: () = {
        let room = Box::leak(vec![0_u8; 64 << 10].into_boxed_slice());
        let stack = libc::stack_t {
            ss_sp: room.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: room.len(),
        };
        // SAFETY: this thread is on no such stack now, and the room is never freed.
        assert_eq!(unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) }, 0);
    };
}

#[test]
fn a_signal_handler_executes_what_is_patched() {
    // SAFETY: all zeros is a valid action; the handler lives as long as the process.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
        let done = libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
        assert_eq!(done, 0);
    }
    for case in cases() {
        let seen = changed_beside(&case, |f| {
            SIGNAL_STACK.with(|()| {});
            CALLED.store(f as *const () as usize, Ordering::Relaxed);
            // SAFETY: sends a signal to this thread, which has handled it when this returns.
            unsafe { libc::raise(libc::SIGUSR1) };
            RETURNED.load(Ordering::Relaxed)
        });
        assert!(seen.iter().all(|seen| *seen > 0), "{}: {seen:?}", case.name);
    }
}
