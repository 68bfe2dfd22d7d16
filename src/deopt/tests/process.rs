//! What needs a process of its own.

use std::process::{Command, Output};
use std::sync::atomic::Ordering;

use super::probe::width;
use crate::Engine;
use crate::deopt::ExitStubs;
use crate::deopt::state::{NO_XSAVE, SAVE_SIZE};
use crate::publish::SingleThreaded;

/// Runs tests of this program in a process of their own.
fn run_tests(filter: &str, variable: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args([filter, "--nocapture", "--test-threads=1"])
        .env(variable, "1")
        .output()
        .unwrap()
}

#[test]
fn without_xsave_the_first_16_bytes_of_vectors_survive() {
    if std::env::var_os(NO_XSAVE).is_some() {
        assert_eq!(width(), 16);
        return;
    }
    let output = run_tests("deopt::tests::", NO_XSAVE);
    let text = std::string::String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("what_the_handler_writes_is_what_the_code_finds ... ok"),
        "{text}"
    );
}

/// Which registers are saved, and where, is found when no fork comes in between.
#[test]
fn exit_stubs_are_ready_when_their_first_engine_is_made() {
    const NAME: &str = "deopt::tests::process::exit_stubs_are_ready_when_their_first_engine_is_made";
    const FRESH: &str = "PATCHPOINT_FIRST_EXITS";
    if std::env::var_os(FRESH).is_some() {
        let found = || SAVE_SIZE.load(Ordering::Relaxed) > 512;
        assert!(!found());
        // SAFETY: no code is executed.
        let world = unsafe { SingleThreaded::promise() };
        let _engine = Engine::builder()
            .world(world)
            .exits(ExitStubs::new())
            .build()
            .unwrap();
        let without = std::env::var_os(NO_XSAVE).is_some();
        assert_eq!(found(), !without && std::arch::is_x86_feature_detected!("xsave"));
        return;
    }
    let output = run_tests(NAME, FRESH);
    let text = std::string::String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
