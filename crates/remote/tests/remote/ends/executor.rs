//! Executors that are killed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use patchpoint_remote::Error;

use crate::moments::{Counts, MOMENTS, Marker, Moment, life};
use crate::{Random, SOON, TURN, descriptors, kills, left_of_memory, shared_memory, views};

/// The children of this process.
fn children() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("children")).ok()
    };
    let listed: Vec<String> = tasks.filter_map(of).collect();
    let numbers = listed.iter().flat_map(|list| list.split_ascii_whitespace());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// Kills the child that there is; not one that gets its number later.
fn kill_child(wanted: impl Fn() -> bool) -> bool {
    while wanted() {
        for child in children() {
            // SAFETY: a number for a number.
            let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, child, 0) };
            if handle < 0 {
                continue;
            }
            // Whoever the handle is of, it is the child if that is still one.
            let killed = children().contains(&child) && {
                let null = std::ptr::null::<libc::siginfo_t>();
                // SAFETY: a handle of a child of this process.
                unsafe { libc::syscall(libc::SYS_pidfd_send_signal, handle, libc::SIGKILL, null, 0) == 0 }
            };
            // SAFETY: opened above.
            unsafe { libc::close(handle as i32) };
            if killed {
                return true;
            }
        }
    }
    false
}

/// Lives until the executor is killed, some time after that moment has come. When that was, and how
/// it ended.
fn killed_at(
    target: Moment,
    then: Duration,
    marker: &'static Marker,
) -> (Option<Moment>, patchpoint_remote::Result<()>) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let wanted = || !over.load(Ordering::SeqCst);
            marker.wait_for(target, then, wanted);
            let at = marker.moment();
            kill_child(wanted).then_some(at).flatten()
        });
        let until = Instant::now() + SOON;
        let lived = loop {
            let lived = life(2);
            assert!(Instant::now() < until, "it was not noticed");
            if lived.is_err() || killer.is_finished() {
                break lived;
            }
        };
        over.store(true, Ordering::SeqCst);
        (killer.join().unwrap(), lived)
    })
}

#[test]
fn a_killed_executor_is_a_typed_error_and_leaves_nothing() {
    let _turn = TURN.lock();
    let mut random = Random(0x1234_5678_9abc_def1);
    let marker = Marker::here().install();
    life(1).unwrap();
    let (before, memory) = ((descriptors(), views()), shared_memory());
    assert_eq!(before.1, 0);
    let (mut killed, mut found, mut longest) = (Counts::default(), Counts::default(), Duration::ZERO);
    for round in 0..kills() {
        let target = MOMENTS[round as usize % MOMENTS.len()];
        let began = Instant::now();
        let (at, ended) = killed_at(target, Duration::from_micros(random.below(200)), marker);
        let Some(at) = at else {
            panic!("nobody was killed, and {ended:?}");
        };
        killed.count(format!("{at:?}"));
        match ended {
            Err(Error::ExecutorGone { during }) => found.count(during),
            // All had been said and done.
            Ok(()) => found.count("never: it had ended"),
            other => panic!("killed when {at:?}: {other:?}"),
        }
        longest = longest.max(began.elapsed());
        assert_eq!((descriptors(), views()), before, "killed when {at:?}");
        assert_eq!(children(), [0; 0], "killed when {at:?}");
    }
    killed.print("executors killed when the controller was at");
    found.print("found by the controller when");
    eprintln!("the longest of these lives took {longest:?}");
    killed.check();
    let left = left_of_memory(memory);
    assert!(left < 64, "{left} kB of memory files are left");
}
