//! What the tests that compile programs share.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod header;

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where Cargo has put the libraries for this test.
pub(crate) fn library(name: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let folder = exe.parent().unwrap();
    let found = [folder, folder.parent().unwrap()].map(|folder| folder.join(name));
    let found = found.into_iter().find(|path| path.exists());
    found.unwrap_or_else(|| panic!("Cargo has built no {name} for this test"))
}

/// The object of the inline cache.
pub(crate) fn object() -> PathBuf {
    root().join("../../examples/objects/inline_cache.o")
}

/// Runs a command, which succeeds, and returns what it prints.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{told}{errors}",
        output.status
    );
    told
}

/// Whether there is such a tool; prints that it is skipped if not.
pub(crate) fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        println!("skipped: there is no {tool}");
    }
    found
}

/// Compiles a program and links it with the static library.
pub(crate) fn compile(compiler: &str, options: &[&str], source: &Path, name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let binary = folder.join(format!("{name}-{compiler}"));
    run(Command::new(compiler)
        .args(options)
        .args(["-g", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .arg("-I")
        .arg(root().join("include"))
        .arg("-o")
        .arg(&binary)
        .arg(source)
        .arg(library("libpatchpoint_c.a"))
        .args(["-ldl", "-lm"]));
    binary
}
