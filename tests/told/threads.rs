//! Live told sites, patched while other threads execute them: each result is that of the old or of
//! the new code.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use patchpoint::publish::Attached;
use patchpoint::sequence::{Sequence, result};

use crate::contents::cases;
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
