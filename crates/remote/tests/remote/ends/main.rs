//! What one side finds when the other ends, at whatever moment: a typed error, soon, and nothing is
//! left behind.
//!
//! The short form kills some dozen times on each side. `PATCHPOINT_REMOTE_KILLS=1000` in the
//! environment says how often instead:
//!
//!     PATCHPOINT_REMOTE_KILLS=1000 cargo test -p patchpoint-remote --test remote_ends killed -- --nocapture
#![cfg(target_os = "linux")]
#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "../common.rs"]
mod common;
mod controller;
mod executor;
mod moments;
mod silent;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use common::{Handlers, hit, setup_in};
use patchpoint_remote::Error;

/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(200);

/// The tests look at what this process has open and mapped: one after the other.
static TURN: Mutex<()> = Mutex::new(());

/// No test: the executor that the tests start, which is this program.
#[test]
fn executor_process() {
    common::be_executor(|service| service);
}

/// How often somebody is killed: three times at each moment, if nothing is said.
fn kills() -> u64 {
    let said = std::env::var("PATCHPOINT_REMOTE_KILLS").ok();
    let said = said.and_then(|text| text.parse().ok());
    said.unwrap_or(3 * moments::MOMENTS.len() as u64)
}

fn kill(process: u32) {
    // SAFETY: a child of this process that has not been waited for, or a child's.
    unsafe { libc::kill(process as i32, libc::SIGKILL) };
}

/// A number below a bound, as random as is needed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// How many descriptors this process has open.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// How many views of memory files of the library's this process has.
fn views() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|line| line.contains("memfd:patchpoint"))
        .count()
}

/// What all memory files of the machine take, in kilobytes.
fn shared_memory() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("Shmem:")).unwrap();
    line.trim().split(' ').next().unwrap().parse().unwrap()
}

/// Waits until memory files take no more than before, but for a few pages that others may use; how
/// much more they take.
fn left_of_memory(before: u64) -> u64 {
    let until = Instant::now() + SOON;
    loop {
        let grown = shared_memory().saturating_sub(before);
        if grown < 64 || Instant::now() > until {
            return grown;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What finds it out may be a patch for which nothing is asked of the executor.
#[test]
fn a_patch_finds_that_the_executor_is_gone() {
    let _turn = TURN.lock();
    for live in [false, true] {
        let executor = common::executor();
        let id = executor.id().unwrap();
        let setup = setup_in(executor, Handlers::default(), live);
        setup.engine.patch(78, &hit(0x17, 24)).unwrap();
        let site = setup.engine.sites(78).unwrap().into_iter().next().unwrap();
        let before = site.read().unwrap();
        kill(id);
        // Its connections are cut when the last of its threads has ended, soon after.
        let until = Instant::now() + SOON;
        let mut before = before;
        let error = loop {
            match setup.engine.patch(78, &hit(0x17, 16)) {
                Ok(_) => before = site.read().unwrap(),
                Err(error) => break Error::from(error),
            }
            assert!(Instant::now() < until, "it was not noticed");
            setup
                .engine
                .restore(78)
                .map(|_| before = site.read().unwrap())
                .ok();
        };
        assert!(matches!(error, Error::ExecutorGone { .. }), "{error:?}");
        assert_eq!(site.read().unwrap(), before, "it was rolled back");
    }
}

/// A fork's child has the connection too. It cannot use it, and what it drops does not end the
/// parent's executor.
#[test]
fn a_forked_child_leaves_the_executor_alone() {
    let _turn = TURN.lock();
    let mut setup = setup_in(common::executor(), Handlers::default(), false);
    let one = setup.objects.put(&[0, 0x17, 111, 1234]);
    setup.engine.patch(78, &hit(0x17, 24)).unwrap();
    // SAFETY: the child makes a few calls and leaves without running anything of the parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a child that hangs is ended.
        unsafe { libc::alarm(60) };
        let refused = setup.engine.patch(78, &hit(0x17, 16)).is_err()
            && setup.get(one).is_err()
            && matches!(setup.executor.check(), Err(Error::ExecutorGone { .. }));
        drop(setup);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = -1;
    // SAFETY: writes one number; the child is this process's.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child was refused");
    assert_eq!(setup.get(one), Ok(1234));
    setup.engine.patch(78, &hit(0x17, 16)).unwrap();
    assert_eq!(setup.get(one), Ok(111));
}

/// Before it has said anything.
#[test]
fn what_is_no_executor_is_refused() {
    let _turn = TURN.lock();
    let before = descriptors();
    for program in ["true", "false"] {
        let error = patchpoint_remote::Executor::spawn(std::process::Command::new(program)).unwrap_err();
        assert!(matches!(error, Error::ExecutorGone { .. }), "{error:?}");
    }
    let error =
        patchpoint_remote::Executor::spawn(std::process::Command::new("no/such/program")).unwrap_err();
    assert!(matches!(error, Error::ExecutorRefused { .. }), "{error:?}");
    assert_eq!(descriptors(), before);
}
