//! What needs a process of its own.

use std::process::{Command, Output};

use super::probe::width;
use crate::deopt::state::NO_XSAVE;

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
