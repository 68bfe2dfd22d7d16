//! Places in the source, and names as it has them.

use crate::{assert_documented, json, list, stdout};

const FOLDER: &str = "crates/cli/tests/tool/ir";

/// The same source for each format, with the sections and relocations of its architecture.
const OBJECTS: [&str; 10] = [
    "lines.o",
    "lines.zlib.o",
    "lines.zstd.o",
    "lines.zdebug.o",
    "lines.aarch64.o",
    "lines.powerpc64le.o",
    "lines.s390x.o",
    "lines.riscv64.o",
    "lines.macho.o",
    "lines.coff.o",
];

/// The lines and columns of a record, what was inlined first.
fn places(record: &serde_json::Value) -> Vec<(u64, u64)> {
    let place = |line: &serde_json::Value| {
        assert_eq!(line["file"], "/src/lines.cc");
        (line["line"].as_u64().unwrap(), line["column"].as_u64().unwrap())
    };
    list(&record["source"]).iter().map(place).collect()
}

#[test]
fn records_have_the_places_of_their_calls() {
    let expected = [
        (1, vec![(12, 7)]),
        (2, vec![(4, 3), (13, 9)]),
        (1, vec![(15, 9)]),
        (3, vec![(30, 5)]),
    ];
    for object in OBJECTS {
        let file = format!("{FOLDER}/{object}");
        let sites = json(&["sites", &file, "--lines"], 0);
        let found = list(&sites["sites"])
            .iter()
            .map(|site| (site["id"].as_u64().unwrap(), places(site)));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{object}");
        assert_documented("sites", &sites);
        let report = json(&["inspect", &file, "--lines"], 0);
        let functions = list(&report["maps"][0]["functions"]);
        let records = functions.iter().flat_map(|function| list(&function["records"]));
        let found = records.map(|record| (record["id"].as_u64().unwrap(), places(record)));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{object}");
        assert_documented("inspect", &report);
        // Nobody asked.
        let sites = json(&["sites", &file], 0);
        assert!(list(&sites["sites"]).iter().all(|site| site["source"].is_null()));
    }
}

#[test]
fn every_command_says_them() {
    let file = format!("{FOLDER}/lines.o");
    let sites = stdout(&["sites", &file, "--lines"], 0);
    let inlined = "    source     /src/lines.cc:4:3, inlined at /src/lines.cc:13:9\n";
    assert!(sites.contains(inlined), "{sites}");
    let report = stdout(&["inspect", &file, "--lines"], 0);
    assert!(
        report.contains("    source         /src/lines.cc:12:7\n"),
        "{report}"
    );
    let check = stdout(&["check", &file, "--lines", "--shape", "3=28"], 1);
    assert!(check.contains(" (/src/lines.cc:30:5)\n"), "{check}");
    let plan = stdout(&["plan", &file, "--lines", "--id", "2", "--seq", "trap"], 0);
    assert!(
        plan.contains(" (/src/lines.cc:4:3, inlined at /src/lines.cc:13:9): 32 bytes reserved"),
        "{plan}"
    );
    // There is no debug information.
    let none = stdout(&["sites", "examples/objects/inline_cache.o", "--lines"], 0);
    assert_eq!(none, stdout(&["sites", "examples/objects/inline_cache.o"], 0));
}

#[test]
fn names_are_those_of_the_source_where_that_is_wanted() {
    let file = format!("{FOLDER}/lines.o");
    for command in ["inspect", "sites", "check"] {
        // Nothing tells one of the lengths.
        let status = i32::from(command == "check");
        let text = stdout(&[command, &file, "--demangle"], status);
        assert!(!text.contains("_ZN") && !text.contains("_RNv"), "{text}");
        assert!(text.contains(&file), "{text}");
        if command != "check" {
            assert!(
                text.contains("shape::area(int*)") && text.contains("lines::get"),
                "{text}"
            );
        }
        let plain = stdout(&[command, &file], status);
        assert_eq!(plain.lines().count(), text.lines().count());
        assert!(
            command == "check" || plain.contains("_ZN5shape4areaEPi"),
            "{plain}"
        );
    }
    let sites = json(&["sites", &file, "--demangle"], 0);
    assert_eq!(sites["sites"][0]["function"], "shape::area(int*)");
    // In messages, too.
    let refused = stdout(&["check", &file, "--demangle", "--shape", "3=28"], 1);
    assert!(refused.contains("record 3 at lines::get+"), "{refused}");
    // With the sign of Mach-O.
    let sites = json(&["--demangle", "sites", &format!("{FOLDER}/lines.macho.o")], 0);
    assert_eq!(sites["sites"][0]["function"], "shape::area(int*)");
}
