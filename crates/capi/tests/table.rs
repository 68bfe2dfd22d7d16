//! `FUNCTIONS.md`: all functions of the interface, each with the programs that test it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that finds nothing fails"
)]
#![cfg(target_os = "linux")]

mod tools;

use std::fmt::Write;
use std::fs;

use tools::header::declared;
use tools::root;

/// The programs that look at what functions do. The fuzzer calls all of them.
const PROGRAMS: [&str; 5] = ["cache", "frames", "code", "adopted", "threads"];

/// Whether that text calls the function and expects that it does its work: calls that are to be refused do
/// not count.
fn calls(text: &str, function: &str) -> bool {
    let mut places = text.match_indices(function);
    places.any(|(at, _)| {
        let line = text[..at].rsplit(['\n', ';']).next().unwrap();
        let before = line.chars().next_back();
        let after = text[at + function.len()..].chars().next();
        let is_call = before.is_none_or(|c| !c.is_alphanumeric() && c != '_') && after == Some('(');
        is_call && !line.contains("REFUSED(") && !line.ends_with("error = ")
    })
}

fn table() -> String {
    let texts: Vec<(&str, String)> = PROGRAMS
        .iter()
        .map(|program| {
            let path = root().join("tests/c").join(program).with_extension("c");
            let shared = fs::read_to_string(root().join("tests/c/check.h")).unwrap();
            (*program, fs::read_to_string(path).unwrap() + &shared)
        })
        .collect();
    let mut table = String::from(
        "# The functions of `patchpoint.h`\n\n\
         Each with the programs in `tests/c` in which it does its work; calls that are refused do not count. Besides,\n\
         `tests/c/fuzz.c` calls every one with what it must refuse. Written by\n\
         `PATCHPOINT_TABLE=write cargo test -p patchpoint-capi --test table`.\n\n\
         | function | tested by |\n|---|---|\n",
    );
    for function in declared() {
        let tested: Vec<&str> = texts
            .iter()
            .filter(|(_, text)| calls(text, &function.name))
            .map(|(program, _)| *program)
            .collect();
        assert!(!tested.is_empty(), "no program tests what {} does", function.name);
        writeln!(table, "| `{}` | {} |", function.name, tested.join(", ")).unwrap();
    }
    table
}

#[test]
fn every_function_has_a_test_and_the_table_names_it() {
    let path = root().join("FUNCTIONS.md");
    let table = table();
    if std::env::var_os("PATCHPOINT_TABLE").is_some_and(|value| value == "write") {
        fs::write(&path, &table).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == table,
        "FUNCTIONS.md is not what the programs test: PATCHPOINT_TABLE=write cargo test -p patchpoint-capi --test table"
    );
}
