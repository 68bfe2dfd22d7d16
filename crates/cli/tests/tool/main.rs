//! The commands `sites`, `plan`, `check`, `run`, `link` and `completions` as a user meets them, on
//! the objects that are checked in, for every architecture. `inspect` has its own file.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the lints know tests by their attribute, and most of this serves only tests"
)]

mod baseline;
mod check;
mod corpus;
mod files;
mod ir;
mod lines;
mod link;
mod link_llvm;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod link_run;
mod page;
mod plan;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod programs;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod run;
mod sites;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The folder of the workspace, in which the tool is run: what files are called begins there.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Runs the tool in the workspace's folder.
fn tool(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_patchpoint"))
        .args(args)
        .current_dir(root())
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

/// The one line on the standard error stream of a run that ends with this status and prints nothing
/// else.
fn refusal(args: &[&str], status: i32) -> String {
    let output = tool(args);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
    let line = String::from_utf8(output.stderr).unwrap();
    // What is wrong with an argument is said in several.
    if !line.starts_with("error:") {
        assert_eq!(line.lines().count(), 1, "{line}");
    }
    line
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

const COMMANDS: [&str; 7] = ["inspect", "sites", "plan", "check", "run", "link", "completions"];

#[test]
fn every_command_has_help_with_examples() {
    for command in COMMANDS {
        let help = stdout(&[command, "--help"], 0);
        assert!(help.contains("Examples:\n"), "{help}");
        assert!(help.contains(&format!("  patchpoint {command} ")), "{help}");
        assert_not_wrapped(&help);
    }
    let help = stdout(&["--help"], 0);
    assert!(help.contains("NO_COLOR"));
    assert_not_wrapped(&help);
    for command in COMMANDS.iter().filter(|command| **command != "completions") {
        assert!(help.contains(&format!("  patchpoint {command} ")), "{help}");
    }
}

/// An example that is wrapped cannot be copied.
fn assert_not_wrapped(help: &str) {
    let (_, examples) = help.split_once("Examples:\n").unwrap();
    for line in examples.lines().take_while(|line| !line.is_empty()) {
        assert!(line.starts_with("  "), "{line}\n{help}");
    }
}

#[test]
fn what_goes_wrong_is_json_where_that_is_asked_for() {
    for command in COMMANDS.iter().filter(|command| **command != "completions") {
        let more: &[&str] = match *command {
            "plan" => &["--id", "1", "--seq", "trap"],
            "run" => &["--call", "f"],
            _ => &[],
        };
        let args = [&[*command, "missing.o", "--format", "json"], more].concat();
        let output = tool(&args);
        assert_eq!(output.status.code(), Some(2));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["file"], "missing.o");
        let error = value["error"].as_str().unwrap();
        let line = format!("patchpoint: missing.o: {error}\n");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), line);
    }
}

/// The object, with a stack map of version 9, and where the version is.
fn damaged(name: &str) -> (std::path::PathBuf, u64) {
    use object::{Object, ObjectSection};
    let mut data = std::fs::read(root().join("examples/objects/inline_cache.o")).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let section = file.section_by_name(".llvm_stackmaps").unwrap();
    let (at, _) = section.file_range().unwrap();
    data[at as usize] = 9;
    let path = std::env::temp_dir().join(format!("patchpoint-{name}-{}.o", std::process::id()));
    std::fs::write(&path, data).unwrap();
    (path, at)
}

#[test]
fn a_damaged_stack_map_is_said_with_file_section_and_offset() {
    let (path, at) = damaged("tool");
    let file = path.to_str().unwrap();
    let expected = format!(
        "patchpoint: {file}: section .llvm_stackmaps (at {at:#x} of the file): no stack map at 0x0: "
    );
    let mut commands = vec![
        vec!["inspect", file],
        vec!["inspect", file, "--format", "llvm"],
        vec!["sites", file],
        vec!["plan", file, "--id", "78", "--seq", "trap"],
        vec!["run", file, "--call", "get"],
    ];
    commands.push(vec!["check", file]);
    let lines: Vec<_> = commands.drain(..).map(|args| refusal(&args, 2)).collect();
    std::fs::remove_file(&path).unwrap();
    for line in &lines {
        assert!(line.starts_with(&expected), "{line}");
        assert!(line.contains("expected version 1, 2 or 3, found 9: give the section from its start"));
    }
}

#[test]
fn ir_of_another_file_is_refused() {
    let args = [
        "check",
        "examples/objects/inline_cache.o",
        "--ir",
        "examples/objects/live_stress.ll",
    ];
    let line = refusal(&args, 1);
    assert!(line.contains(
        "live_stress.ll has no call of a patchpoint, stackmap or statepoint that a record of this file is of"
    ));
}

/// How many escape sequences there are where the tool prints to a terminal, if there is a program
/// that makes one.
fn escapes(variable: (&str, &str)) -> Option<usize> {
    let tool = env!("CARGO_BIN_EXE_patchpoint");
    let command = format!("'{tool}' inspect examples/objects/inline_cache.o");
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]);
    script.env("TERM", "xterm").env_remove("NO_COLOR");
    let output = script.env(variable.0, variable.1).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success() && text.contains("sum_fields")).then(|| text.matches('\x1b').count())
}

#[test]
fn there_are_colours_on_a_terminal_that_has_some() {
    let Some(count) = escapes(("TERM", "xterm")) else {
        println!("not shown: there is no `script` that makes a terminal");
        return;
    };
    assert!(count > 10);
    assert_eq!(escapes(("TERM", "dumb")), Some(0));
    assert_eq!(escapes(("NO_COLOR", "1")), Some(0));
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

/// Every key of what is printed as JSON is in the help of the command.
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
            if command == "inspect" || !["locations", "live_outs"].contains(&key.as_str()) {
                left.push(value);
            }
        }
    }
}

#[test]
fn the_help_of_inspect_says_what_its_json_is() {
    for object in [
        "examples/objects/inline_cache.o",
        "examples/objects/live_stress.s390x.o",
    ] {
        assert_documented("inspect", &json(&["inspect", object], 0));
    }
}

#[test]
fn what_cannot_be_read_is_said_with_the_file() {
    for command in ["sites", "check"] {
        let status = 2;
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
