//! The checker goes by nothing that the assembler goes by.

use alloc::string::String;
use alloc::vec::Vec;
use std::fs;
use std::path::Path;

/// What assembler and checker have in common: the names of things, and what is known of a site.
const COMMON: [&str; 11] = [
    "Arch",
    "CallShape",
    "Convention",
    "Declared",
    "DeclaredTarget",
    "OnReturn",
    "RegSet",
    "SiteContext",
    "SiteKind",
    "SiteName",
    "Vouched",
];

/// The code of a file, without comments and tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = shipped
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The code of a folder's files but those of tests, with their names.
fn shipped(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        match path.is_dir() {
            _ if name == "tests" || name == "tests.rs" => {}
            true => shipped(&path, found),
            false => found.push((path.display().to_string(), code(&path))),
        }
    }
}

/// The names behind `patchpoint_isa::`, one or a list.
fn named(code: &str) -> Vec<&str> {
    let mut all = Vec::new();
    for (at, place) in code.match_indices("patchpoint_isa::") {
        let rest = &code[at + place.len()..];
        let list = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap(),
            None => rest
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
                .unwrap(),
        };
        let names = list
            .split(',')
            .map(|name| name.trim().split("::").next().unwrap());
        all.extend(names.filter(|name| !name.is_empty()));
    }
    all
}

#[test]
fn nothing_that_the_assembler_goes_by_is_used() {
    let mut files = Vec::new();
    shipped(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let mut names = 0;
    for (file, code) in &files {
        for name in named(code) {
            assert!(COMMON.contains(&name), "{file} uses patchpoint_isa::{name}");
            names += 1;
        }
        assert!(!code.contains("use patchpoint_isa as"), "{file}");
    }
    assert!(
        files.len() > 25 && names > 40,
        "{} files, {names} names",
        files.len()
    );
    assert_eq!(
        named("use patchpoint_isa::{Arch, exchange::allowed}; patchpoint_isa::nops::put(arch)"),
        ["Arch", "exchange", "nops"]
    );
}
