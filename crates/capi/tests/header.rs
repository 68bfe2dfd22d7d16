//! The header: that it is what the crate says, that C and C++ compilers take it, and that the library
//! exports what it declares.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

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
    let there = fs::read_to_string(&path).unwrap();
    assert!(
        there == made,
        "include/patchpoint.h is not what cbindgen makes: PATCHPOINT_HEADER=write cargo test -p patchpoint-capi --test header"
    );
}
