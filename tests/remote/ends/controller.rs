//! Controllers that are killed: a process of its own each, whose executor becomes a child of this one.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{self, Handlers, hit, setup_in};
use crate::{Random, SOON, TURN, kill, kills, shared_memory};

const CONTROLLER: &str = "PATCHPOINT_TEST_CONTROLLER";

/// No test: the controller that is killed. It says the number of its executor and works until then.
#[test]
fn controller_process() {
    if std::env::var_os(CONTROLLER).is_none() {
        return;
    }
    let executor = common::executor();
    println!("executor {}", executor.id().unwrap());
    let handlers = Handlers {
        // So that it is often killed while the executor waits for an answer.
        miss: Some(Box::new(|_, frame| {
            std::thread::sleep(Duration::from_millis(1));
            frame.set_result(7).unwrap();
            frame.resume()
        })),
        ..Handlers::default()
    };
    let mut setup = setup_in(executor, handlers, true);
    let objects = [0x17, 0x18].map(|shape| setup.objects.put(&[0, shape, 111, 1234]));
    for round in 0.. {
        setup.engine.patch(78, &hit(0x17, 16 + round % 2 * 8)).unwrap();
        for at in objects {
            setup.get(at).unwrap();
        }
    }
}

/// The executor's status when it ends by itself; `None` if it does not in time.
fn end_of(executor: i32) -> Option<i32> {
    let until = Instant::now() + SOON;
    while Instant::now() < until {
        let mut status = 0;
        // SAFETY: writes one number. The process becomes a child of this one when its parent ends.
        let found = unsafe { libc::waitpid(executor, &raw mut status, libc::WNOHANG) };
        if found == executor {
            return libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

#[test]
fn a_killed_controller_is_a_typed_error_and_leaves_nothing() {
    let _turn = TURN.lock();
    // SAFETY: orphans below this process become its children.
    let set = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    assert_eq!(set, 0);
    let mut random = Random(0xfeed_5678_9abc_def1);
    let memory = shared_memory();
    for round in 0..kills() {
        let mut controller = Command::new(std::env::current_exe().unwrap())
            .args([
                "controller::controller_process",
                "--exact",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CONTROLLER, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(controller.stdout.take().unwrap()).lines();
        let executor = lines
            .map_while(Result::ok)
            .find_map(|line| line.split("executor ").nth(1)?.trim().parse().ok())
            .unwrap();
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        kill(controller.id());
        controller.wait().unwrap();
        assert_eq!(
            end_of(executor),
            Some(3),
            "the executor of round {round} did not find its controller gone"
        );
    }
    let grown = shared_memory().saturating_sub(memory);
    assert!(grown < 64 << 10, "{grown} kB of memory files are left");
}
