//! Controllers that are killed: a process of its own each, whose executor becomes a child of this
//! one.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::moments::{Counts, MOMENTS, Marker, Moment, life};
use crate::{Random, SOON, TURN, kill, kills, left_of_memory, shared_memory};

/// Where the controller marks what it does.
const CONTROLLER: &str = "PATCHPOINT_TEST_CONTROLLER";

/// No test: the controller that is killed. It works until then.
#[test]
fn controller_process() {
    let Some(path) = std::env::var_os(CONTROLLER) else {
        return;
    };
    Marker::in_file(Path::new(&path)).install();
    loop {
        life(2).unwrap();
    }
}

/// A file that is gone with this.
struct MarkerFile(PathBuf);

impl Drop for MarkerFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn start(mark: &MarkerFile) -> Child {
    let name = "controller::controller_process";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CONTROLLER, &mark.0)
        .stdout(Stdio::null());
    command.spawn().unwrap()
}

/// Waits for the end of all children, which have become those of this process; how each ended.
fn ends_of_all() -> Vec<i32> {
    let until = Instant::now() + SOON;
    let mut ends = Vec::new();
    loop {
        let mut status = 0;
        // SAFETY: writes one number. No other test of this program has children now.
        match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } {
            0 => assert!(
                Instant::now() < until,
                "an executor did not find its controller gone"
            ),
            1.. => ends.push(status),
            _ => return ends,
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn a_killed_controller_is_a_typed_error_and_leaves_nothing() {
    let _turn = TURN.lock();
    // SAFETY: orphans below this process become its children.
    let set = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    assert_eq!(set, 0);
    let mark = MarkerFile(std::env::temp_dir().join(format!("patchpoint-ends-{}", std::process::id())));
    let marker = Marker::in_file(&mark.0);
    let mut random = Random(0xfeed_5678_9abc_def1);
    let memory = shared_memory();
    let (mut killed, mut ended) = (Counts::default(), Counts::default());
    for round in 0..kills() {
        let target = MOMENTS[round as usize % MOMENTS.len()];
        let until = Instant::now() + SOON;
        marker.reset();
        let mut controller = start(&mark);
        let then = Duration::from_micros(random.below(200));
        marker.wait_for(target, then, || Instant::now() < until);
        let at = marker.moment().expect("the controller has come to it in time");
        kill(controller.id());
        controller.wait().unwrap();
        killed.count(format!("{at:?}"));
        for status in ends_of_all() {
            // It found its controller gone; or, in the end, was told that this was all.
            let is_right = libc::WIFEXITED(status)
                && (libc::WEXITSTATUS(status) == 3 || at == Moment::Ending && libc::WEXITSTATUS(status) == 0);
            assert!(
                is_right,
                "killed when {at:?}: the executor ended with {status:#x}"
            );
            ended.count(format!("status {}", libc::WEXITSTATUS(status)));
        }
    }
    killed.print("controllers killed at");
    ended.print("their executors ended with (3: the controller is gone)");
    killed.check();
    let left = left_of_memory(memory);
    assert!(left < 64, "{left} kB of memory files are left");
}
