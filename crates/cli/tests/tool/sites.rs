use serde_json::Value;

use crate::corpus::{FOLDERS, objects};
use crate::{assert_documented, json, list, stdout};

const CACHE: &str = "examples/objects/inline_cache.o";

#[test]
fn the_text_is_this() {
    let text = stdout(&["sites", CACHE, "--ir", "examples/objects/inline_cache.ll"], 0);
    let expected = "\
examples/objects/inline_cache.o: elf64-x86-64, x86_64

get
  record 78 at +0x4: anyregcc patchpoint, 32 bytes, 32 slack
    holds      nops
    values     rax, rdi
    live       patchable jump at +0x8, 5 bytes

sum_fields
  record 78 at +0x27: anyregcc patchpoint, 32 bytes, 32 slack
    holds      nops
    values     rax, rax, rcx, rdx, &[rbp-8], xmm0, #81985529216486895 (large constant 0)
    live       patchable jump at +0x28, 5 bytes
  record 90 at +0x52: shadow, 24 bytes, 0 slack
    holds      the function's instructions
    values     rdi, rsi, rcx, rax, &[rbp-8], xmm0, #81985529216486895 (large constant 0), #-7
    live       can be invalidated, by a trap

3 records: 3 would be registered, 0 refused, 0 without a length
";
    assert_eq!(text, expected);
    let text = stdout(&["sites", "asm-tests/objects/inspect/x86_64-14.o"], 0);
    for line in [
        "  record 8 at +0x4: patchpoint, 48 bytes inferred, 35 slack",
        "    holds      LLVM's call of 0x123456789abcdef",
        "    live out   rax rsp",
        "               only 0 of 6 registers that a function keeps for its caller: the others count as live too",
        "    returns to +0x11, when the code has run",
        "  record 9 at +0x28: real instructions are there, as in a shadow: tell its length, by --ir, --shape \
         9=shadow,BYTES or 9=none",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let text = stdout(&["sites", CACHE, "--shape", "78=anyreg,60,result,args=1"], 0);
    assert!(
        text.contains("refused: record 78 at sum_fields+0x27 (0x10000057) reserves 60 bytes, but the next record is at +0x52"),
        "{text}"
    );
}

#[test]
fn a_symbol_that_is_called_has_its_name() {
    let object = "asm-tests/objects/x86_64/calls.llc19.O2.o";
    let text = stdout(&["sites", object], 0);
    assert!(
        text.contains("    holds      LLVM's call of callee_600\n"),
        "{text}"
    );
    let report = json(&["sites", object], 0);
    assert_documented("sites", &report);
    assert_eq!(list(&report["sites"])[0]["target_name"], "callee_600");
    assert_eq!(list(&report["sites"])[3]["target_name"], Value::Null);
    assert_eq!(list(&report["sites"])[3]["target"], 20_015_998_341_120_u64);
}

/// What holds of every site of every object. `inspect` is the oracle of which records there are.
#[test]
fn every_record_of_the_corpus_is_listed_and_sound() {
    let (mut registered, mut refused) = (0, 0);
    for object in FOLDERS.iter().flat_map(|folder| objects(folder)) {
        let report = json(
            &["sites", &object.path, "--shapes", object.shapes.to_str().unwrap()],
            0,
        );
        if object.source == "property" {
            assert_documented("sites", &report);
        }
        assert_eq!(report["how"], "loaded", "{}", object.path);
        assert!(list(&report["faults"]).is_empty(), "{}", object.path);
        let mut listed: Vec<_> = list(&report["sites"])
            .iter()
            .map(|site| (site["id"].as_u64().unwrap(), site["offset"].as_u64().unwrap()))
            .collect();
        listed.sort_unstable();
        assert_eq!(listed, inspected(&object.path), "{}", object.path);
        for site in list(&report["sites"]) {
            match site["state"].as_str().unwrap() {
                "registered" => registered += 1,
                "refused" => {
                    refused += 1;
                    assert!(site["why"].as_str().unwrap().len() > 20, "{site}");
                    continue;
                }
                "no_site" => {
                    assert_eq!(site["why"], "reserves no bytes", "{}: {site}", object.path);
                    continue;
                }
                other => panic!("{}: {other}: {site}", object.path),
            }
            let id = site["id"].as_u64().unwrap();
            sound(
                &object.path,
                site,
                object.reserved[&id],
                object.folder == "x86_64",
            );
        }
    }
    println!("{registered} registered, {refused} refused");
    assert!(registered > 4_900, "{registered}");
    assert_eq!(refused, 28);
}

fn inspected(path: &str) -> Vec<(u64, u64)> {
    let report = json(&["inspect", path], 0);
    let maps = list(&report["maps"]).iter();
    let functions = maps.flat_map(|map| list(&map["functions"]));
    let records = functions.flat_map(|function| list(&function["records"]));
    let mut found: Vec<_> = records
        .map(|record| (record["id"].as_u64().unwrap(), record["offset"].as_u64().unwrap()))
        .collect();
    found.sort_unstable();
    found
}

fn sound(path: &str, site: &Value, (shadow, bytes): (bool, u32), x86_64: bool) {
    let number = |key: &str| site[key].as_u64().unwrap();
    let reserved = number("reserved");
    assert_eq!(reserved, u64::from(bytes), "{path}: {site}");
    assert_eq!(site["kind"] == "shadow", shadow, "{path}: {site}");
    assert_eq!(site["reserved_source"], "told");
    match site["holds"].as_str().unwrap() {
        "nops" if !shadow => assert_eq!(number("slack"), reserved),
        "call" => {
            let call = reserved - number("slack");
            assert!(!shadow && (6..=40).contains(&call), "{path}: {site}");
            assert!(!x86_64 || call == 13, "{path}: {site}");
        }
        _ => assert!(shadow, "{path}: {site}"),
    }
    for return_offset in list(&site["return_offsets"]) {
        assert!(return_offset.as_u64().unwrap() < reserved, "{path}: {site}");
    }
    if shadow {
        assert!(site["no_patchable_jump"].is_string(), "{path}: {site}");
    } else if let Some(offset) = site["patchable_jump"]["offset"].as_u64() {
        let length = site["patchable_jump"]["length"].as_u64().unwrap();
        assert!(offset + length <= reserved, "{path}: {site}");
        let (first, last) = (
            number("address") + offset,
            number("address") + offset + length - 1,
        );
        assert_eq!(first / 8, last / 8, "{path}: {site}");
    }
}

/// Files that no engine loads are shown as they are.
#[test]
fn linked_and_foreign_files_are_shown_too() {
    for (file, how, first) in [
        ("linked-x86_64.so", "linked", "get"),
        ("linked-aarch64.so", "linked", "get"),
        ("linked-powerpc64.so", "linked", "get"),
        ("linked-powerpc64-elfv2.so", "linked", "get"),
        ("linked-riscv64.so", "linked", "get"),
        ("linked-coff.dll", "linked", "get"),
        ("linked-macho.dylib", "linked", "_get"),
        ("macho-arm64-19.o", "loaded", "_get"),
        ("coff-x86_64-19.o", "loaded", "get"),
        ("joined-x86_64.o", "loaded", "get"),
    ] {
        let path = format!("asm-tests/objects/inspect/{file}");
        let report = json(
            &[
                "sites", &path, "--shape", "7=40", "--shape", "8=48", "--shape", "*=none",
            ],
            0,
        );
        assert_eq!(report["how"], how, "{file}");
        assert!(list(&report["faults"]).is_empty(), "{file}: {}", report["faults"]);
        let sites = list(&report["sites"]);
        assert_eq!(sites[0]["function"], first, "{file}");
        let registered: Vec<_> = sites
            .iter()
            .filter(|site| site["state"] == "registered")
            .map(|site| site["id"].as_u64().unwrap())
            .collect();
        assert!(registered.starts_with(&[7, 8]), "{file}: {report}");
    }
}
