//! The command-line tool as a user meets it: arguments, output, exit status.
#![expect(
    clippy::unwrap_used,
    reason = "the lint knows tests by their attribute, and these helpers serve only tests"
)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn inspect(args: &[&str]) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../asm-tests/objects/inspect");
    Command::new(env!("CARGO_BIN_EXE_patchpoint"))
        .arg("inspect")
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The one line on the standard error stream of a run that must end with `status`.
fn refusal(args: &[&str], status: i32) -> String {
    let output = inspect(args);
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn text_goes_to_a_pipe_without_colours() {
    let text = stdout(&inspect(&["x86_64-19.o"]));
    assert!(text.starts_with("x86_64-19.o: elf64-x86-64, x86_64\n"), "{text}");
    assert!(text.contains("get at .text+0x0"));
    assert!(!text.contains('\x1b'));
    assert!(!text.lines().any(|line| line.ends_with(' ')));
}

#[test]
fn the_format_llvm_is_what_readobj_prints() {
    let text = stdout(&inspect(&["--format", "llvm", "s390x-14.o"]));
    let expected = include_str!("../../../asm-tests/objects/inspect/s390x-14.o.txt");
    assert_eq!(text, expected);
}

#[test]
fn every_object_for_x86_64_prints_as_readobj_does() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../asm-tests/objects/x86_64");
    let mut compared = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(stem) = name.strip_suffix(".readobj.txt") else {
            continue;
        };
        let output = Command::new(env!("CARGO_BIN_EXE_patchpoint"))
            .current_dir(folder)
            .args(["inspect", "--format", "llvm", &format!("{stem}.o")])
            .output()
            .unwrap();
        let expected = std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{stem}");
        compared += 1;
    }
    println!("{compared} objects of llc 14 and 19");
    assert!(compared >= 100);
}

#[test]
fn json_parses_and_reserved_bytes_can_be_given() {
    let text = stdout(&inspect(&[
        "--format=json",
        "--reserved",
        "9=8",
        "--reserved",
        "0xa=4",
        "macho-arm64-19.o",
    ]));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let functions = &json["maps"][0]["functions"];
    assert_eq!(functions[0]["name"], "_get");
    assert_eq!(functions[2]["records"][0]["site"]["reserved"], 8);
    assert_eq!(functions[2]["records"][0]["site"]["reserved_source"], "given");
    assert_eq!(functions[3]["records"][0]["site"]["reserved"], 4);
}

#[test]
fn problems_are_one_line_with_the_file_and_exit_status_2() {
    let line = refusal(&["missing.o"], 2);
    assert!(
        line.starts_with("patchpoint: missing.o: cannot be read: "),
        "{line}"
    );
    let line = refusal(&["sites.ll"], 2);
    assert!(
        line.starts_with("patchpoint: sites.ll: is no object file"),
        "{line}"
    );
    let line = refusal(&["empty-x86_64.o"], 2);
    assert!(
        line.starts_with("patchpoint: empty-x86_64.o: has no stack map"),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1);
}

/// As `llvm-readobj` does.
#[test]
fn the_format_llvm_of_a_file_without_maps_is_its_header() {
    let text = stdout(&inspect(&["--format", "llvm", "empty-x86_64.o"]));
    let expected = include_str!("../../../asm-tests/objects/inspect/empty-x86_64.o.txt");
    assert_eq!(text, expected);
}

#[test]
fn a_length_for_an_id_that_is_not_there_is_refused() {
    let line = refusal(&["x86_64-19.o", "--reserved", "7=40", "--reserved", "77=8"], 1);
    assert_eq!(line, "patchpoint: x86_64-19.o: --reserved: no record has ID 77\n");
}

#[test]
fn misuse_has_exit_status_2() {
    for args in [
        &["--format", "yaml", "x86_64-19.o"][..],
        &["--reserved", "7", "x86_64-19.o"],
        &["--reserved", "7=-1", "x86_64-19.o"],
        &["--reserved", "7=4294967296", "x86_64-19.o"],
        &[],
    ] {
        let message = refusal(args, 2);
        assert!(message.contains("error:"), "{message}");
    }
}

#[test]
fn help_has_examples() {
    let text = stdout(&inspect(&["--help"]));
    assert!(text.contains("--reserved 7=40"), "{text}");
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../asm-tests/objects/inspect");
    let mut child = Command::new(env!("CARGO_BIN_EXE_patchpoint"))
        .args(["inspect", "--format", "json", "powerpc64-19.o"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
