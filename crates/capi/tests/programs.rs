//! Programs in C, each compiled with the header, linked with the library, and run.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that finds nothing fails"
)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod tools;

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use tools::{compile, has, object, root, run};

/// Compiles a program as C99 and runs it with the object of the inline cache; returns what it prints.
fn program(name: &str) -> String {
    let source = root().join("tests/c").join(name).with_extension("c");
    let binary = compile("cc", &["-std=gnu99"], &source, name);
    run(Command::new(binary).arg(object()))
}

#[test]
fn an_inline_cache_learns_and_code_is_discarded_in_its_loop() {
    let told = program("cache");
    assert!(told.contains("1 deoptimization"), "{told}");
}

#[test]
fn handlers_read_and_write_frames_and_give_each_answer() {
    assert_eq!(program("frames"), "frames: every answer\n");
}

#[test]
fn code_of_ones_own_is_told_redirected_and_changed_in_transactions() {
    let told = program("code");
    assert!(
        told.ends_with("code: told, redirected, in transactions\n"),
        "{told}"
    );
}

#[test]
fn code_that_others_placed_is_adopted_left_and_its_calls_are_retargeted() {
    let folder = root().join("tests/c");
    let binary = compile("cc", &["-std=gnu99"], &folder.join("adopted.c"), "adopted");
    let calls = binary.with_extension("calls.o");
    let compile = ["-c", "-O2", "-fPIC", "-o"];
    run(Command::new("cc")
        .args(compile)
        .arg(&calls)
        .arg(folder.join("calls.c")));
    let told = run(Command::new(binary).arg(object()).arg(calls));
    assert_eq!(told, "adopted: patched, left, retargeted\n");
}

#[test]
fn threads_execute_code_that_is_patched() {
    assert_eq!(program("threads"), "threads: live, by signal, by callbacks\n");
}

/// Runs a program that is to be ended with a message.
fn ended(binary: &std::path::Path, with: &str) {
    let output = Command::new(binary).arg(object()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "{errors}");
    assert!(errors.contains(with), "{errors}");
}

#[test]
fn a_handler_that_jumps_out_ends_the_process() {
    let source = root().join("tests/c/leave.c");
    let binary = compile("cc", &["-std=gnu99"], &source, "leave");
    ended(&binary, "patchpoint: a handler was left by longjmp");
}

#[test]
fn a_handler_that_throws_ends_the_process() {
    if !has("c++") {
        return;
    }
    let source = root().join("tests/c/throw.cc");
    let binary = compile("c++", &["-std=c++11"], &source, "throw");
    ended(&binary, "patchpoint: a handler was left by an exception");
}
