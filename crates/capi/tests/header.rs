//! The header: that it is what the crate says, that C and C++ compilers take it, that it says of each
//! function where it may be called, and that the library exports what it declares.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that finds nothing fails"
)]
#![cfg(target_os = "linux")]

mod tools;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tools::header::{declared, growing, text};
use tools::{has, library, root, run};

/// What cbindgen makes of the crate.
fn made() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_crate(root())
        .with_config(config)
        .generate()
        .unwrap();
    let mut bytes = Vec::new();
    bindings.write(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_header_is_what_the_crate_says() {
    let path = root().join("include/patchpoint.h");
    let made = made();
    if std::env::var_os("PATCHPOINT_HEADER").is_some_and(|value| value == "write") {
        fs::write(&path, &made).unwrap();
    }
    assert!(
        text() == made,
        "include/patchpoint.h is not what cbindgen makes: PATCHPOINT_HEADER=write cargo test -p patchpoint-capi --test header"
    );
}

#[test]
fn compilers_of_each_standard_take_the_header() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let unit = "#include <patchpoint.h>\nint main(void) { return pp_arg(0).kind != PP_OPERAND_ARG; }\n";
    let mut tried = 0;
    for (compiler, extension, standards) in [
        ("cc", "c", &["c99", "c11"][..]),
        ("gcc", "c", &["c99", "c11", "c17"]),
        ("clang-14", "c", &["c99", "c11", "c17"]),
        ("clang-19", "c", &["c99", "c11", "c23"]),
        ("g++", "cc", &["c++11", "c++20"]),
        ("clang++-14", "cc", &["c++11", "c++20"]),
        ("clang++-19", "cc", &["c++11", "c++23"]),
    ] {
        if !has(compiler) {
            continue;
        }
        let source = folder.join(format!("unit-{compiler}.{extension}"));
        fs::write(&source, unit).unwrap();
        for standard in standards {
            run(Command::new(compiler)
                .arg(format!("-std={standard}"))
                .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"])
                .arg(root().join("include"))
                .arg(&source));
            tried += 1;
        }
    }
    assert!(tried >= 2, "a C compiler is needed");
}

/// The symbols that a shared library exports, without their versions.
fn exported(path: &std::path::Path) -> BTreeSet<String> {
    let told = run(Command::new("nm").args(["-D", "--defined-only"]).arg(path));
    let names = told.lines().filter_map(|line| line.split_whitespace().nth(2));
    let names = names.map(|name| name.split('@').next().unwrap().to_owned());
    // The version itself is a symbol too.
    names.filter(|name| !name.starts_with("PATCHPOINT_")).collect()
}

#[test]
fn the_library_exports_what_the_header_declares() {
    let names: BTreeSet<String> = declared().into_iter().map(|function| function.name).collect();
    assert_eq!(exported(&library("libpatchpoint_c.so")), names);
}

/// Each says it in the same words, so that none is forgotten.
#[test]
fn every_function_says_where_it_may_be_called() {
    for function in declared() {
        let said = function.comment.split_whitespace().collect::<Vec<_>>().join(" ");
        let (what, safety) = said
            .split_once("# Safety")
            .unwrap_or_else(|| panic!("{}", function.name));
        assert!(what.len() > 10, "{}: {what:?}", function.name);
        let mut rest = safety;
        for what in ["Threads: ", "Handlers: ", "Stopped world: ", "Signal handlers: "] {
            let (_, after) = rest
                .split_once(what)
                .unwrap_or_else(|| panic!("{}: {what}", function.name));
            rest = after;
        }
        // What makes a handle says how it is freed.
        let makes = function
            .parameters
            .iter()
            .find(|parameter| parameter.contains("**"));
        let makes = makes.filter(|parameter| !parameter.starts_with("void"));
        if makes.is_some() && function.comment.contains("To be freed by") {
            assert!(function.comment.contains("_free()"), "{}", function.name);
        }
    }
}

#[test]
fn functions_return_errors_but_for_those_that_cannot_fail() {
    let others: Vec<String> = declared()
        .into_iter()
        .filter(|function| function.returns != "pp_error *")
        .map(|function| function.name)
        .collect();
    let expected = [
        "pp_version",
        "pp_version_text",
        "pp_error_kind",
        "pp_error_message",
        "pp_error_site",
        "pp_error_free",
        "pp_serialize",
    ];
    assert_eq!(others, expected);
}

/// The versions that the header, Cargo and the linker script say.
#[test]
fn the_versions_are_one() {
    let text = text();
    let number = |what: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("#define PP_VERSION_{what} ")));
        line.unwrap().to_owned()
    };
    let version = [number("MAJOR"), number("MINOR"), number("PATCH")];
    assert_eq!(version.join("."), env!("CARGO_PKG_VERSION"));
    let script = fs::read_to_string(root().join("patchpoint.map")).unwrap();
    assert!(script.starts_with(&format!("PATCHPOINT_{}.{} {{", version[0], version[1])));
}

#[test]
fn structures_that_grow_are_told_from_those_that_do_not() {
    let growing = growing();
    for name in ["pp_shape", "pp_receipt", "pp_world", "pp_told_site", "pp_event"] {
        assert!(growing.contains(name), "{name}: {growing:?}");
    }
    for name in ["pp_str", "pp_bytes", "pp_operand", "pp_source", "pp_value"] {
        assert!(!growing.contains(name), "{name}");
    }
}
