//! The commands `sites`, `plan`, `check`, `run` and `completions` as a user meets them, on the objects that are checked in,
//! for every architecture. `inspect` has its own file.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the lints know tests by their attribute, and most of this serves only tests"
)]

mod check;
mod corpus;
mod plan;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod run;
mod sites;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the tool in the crate's folder.
fn tool(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_patchpoint"))
        .args(args)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap()
}

/// What it printed, where it ended with this status and had nothing else to say.
fn stdout(args: &[&str], status: i32) -> String {
    let output = tool(args);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
    assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(args: &[&str], status: i32) -> Value {
    let args = [args, &["--format", "json"]].concat();
    serde_json::from_str(&stdout(&args, status)).unwrap()
}

/// The one line on the standard error stream of a run that ends with this status and prints nothing else.
fn refusal(args: &[&str], status: i32) -> String {
    let output = tool(args);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
    let line = String::from_utf8(output.stderr).unwrap();
    if status != 2 {
        assert_eq!(line.lines().count(), 1, "{line}");
    }
    line
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

const COMMANDS: [&str; 6] = ["inspect", "sites", "plan", "check", "run", "completions"];

#[test]
fn every_command_has_help_with_examples() {
    for command in COMMANDS {
        let help = stdout(&[command, "--help"], 0);
        assert!(help.contains("Examples:\n"), "{help}");
        assert!(help.contains(&format!("  patchpoint {command} ")), "{help}");
    }
    assert!(stdout(&["--help"], 0).contains("NO_COLOR"));
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&["completions", shell], 0);
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    refusal(&["completions", "cmd"], 2);
}

/// Every key of what is printed as JSON stands in the help of the command.
fn assert_documented(command: &str, value: &Value) {
    let help = stdout(&[command, "--help"], 0);
    let (_, documented) = help.split_once("JSON:").unwrap();
    let words: Vec<&str> = documented
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        left.extend(list(value));
        for (key, value) in value.as_object().into_iter().flatten() {
            assert!(words.contains(&key.as_str()), "{command}: {key}");
            // These are documented with `inspect`.
            if !["locations", "live_outs"].contains(&key.as_str()) {
                left.push(value);
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_said_with_the_file() {
    for command in ["sites", "check"] {
        let status = if command == "check" { 2 } else { 1 };
        for (file, what) in [
            ("missing.o", "cannot be read: "),
            ("Cargo.toml", "is no object file"),
            ("asm-tests/objects/x86_64/shadow.ref.o", "has no stack map"),
        ] {
            let line = refusal(&[command, file], status);
            let start = format!("patchpoint: {file}: {what}");
            assert!(line.starts_with(&start), "{line}");
        }
        let object = "examples/objects/inline_cache.o";
        let line = refusal(&[command, object, "--ir", "missing.ll"], status);
        assert!(line.contains("missing.ll cannot be read"), "{line}");
        let line = refusal(&[command, object, "--shapes", "LICENSE-MIT"], status);
        assert!(
            line.contains("LICENSE-MIT, line 1: expected ID=SHAPE, such as"),
            "{line}"
        );
        let message = refusal(&[command, object, "--shape", "7=x"], 2);
        assert!(message.contains("such as 7=anyreg,32"), "{message}");
    }
}
