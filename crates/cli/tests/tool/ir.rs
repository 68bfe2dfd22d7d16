//! What `--ir` tells of records: on objects that try to mislead it, see
//! `ir/README.md`, and on random ones.

use asm_tests::random_ir::{Tally, Workspace, llvms, module};
use serde_json::Value;

use crate::{json, list, refusal, root, stdout, tool};

const IR: &str = "crates/cli/tests/tool/ir";

/// Each record: its function, its ID and what is said of it.
fn said(object: &str, more: &[&str]) -> Vec<(String, u64, String)> {
    let object = format!("{IR}/{object}.o");
    let report = json(&[&["sites", &object], more].concat(), 0);
    let shape = |site: &Value| match site["state"].as_str().unwrap() {
        "registered" => {
            let reserved = &site["reserved"];
            match site["kind"].as_str().unwrap() {
                "patchpoint" if site["convention"].is_string() => {
                    let result = if site["result"] == true { ",result" } else { "" };
                    let convention = site["convention"].as_str().unwrap();
                    format!("{convention},{reserved}{result},args={}", site["args"])
                }
                kind => format!("{kind},{reserved}"),
            }
        }
        "refused" => format!("refused: {}", site["why"].as_str().unwrap()),
        "no_site" => site["why"].as_str().unwrap().to_owned(),
        state => state.to_owned(),
    };
    list(&report["sites"])
        .iter()
        .map(|site| {
            let function = site["function"].as_str().unwrap().to_owned();
            (function, site["id"].as_u64().unwrap(), shape(site))
        })
        .collect()
}

/// What is said must begin like this.
fn assert_said(found: &[(String, u64, String)], expected: &[(&str, u64, &str)]) {
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((function, id, said), (name, number, start)) in found.iter().zip(expected) {
        let same = function == name && id == number && said.starts_with(start);
        assert!(same, "{function} {id} {said}: expected {name} {number} {start}");
    }
}

#[test]
fn records_of_one_id_are_told_apart_or_refused() {
    let ir = format!("{IR}/twice.ll");
    let several = "refused: the IR has several calls that the record may be of: a shadow of 8 bytes (line ";
    let none = "reserves no bytes";
    assert_said(
        &said("twice", &["--ir", &ir]),
        &[
            ("order", 7, none),
            ("order", 7, "shadow,16"),
            ("elsewhere", 7, "shadow,24"),
            ("kinds", 8, "anyreg,8,result,args=1"),
            ("kinds", 8, "c,16,result,args=2"),
            ("constants", 9, "shadow,16"),
            ("constants", 9, "shadow,8"),
            ("nothing", 10, several),
            ("nothing", 10, several),
            ("inlined", 11, "shadow,8"),
            ("caller", 11, several),
            ("kept", 12, "shadow,8"),
            ("keeper", 12, "shadow,16"),
            ("beside", 13, none),
            ("beside", 14, "anyreg,18,result,args=1"),
        ],
    );
    let object = format!("{IR}/twice.o");
    let report = json(&["check", &object, "--ir", &ir], 1);
    let words = list(&report["findings"])
        .iter()
        .filter(|finding| finding["counts"] == true);
    let words: Vec<_> = words.map(|finding| finding["what"].as_str().unwrap()).collect();
    assert_eq!(words, ["unmatched"; 3], "{report}");
    // Nothing is written over code of which nobody knows whether it may be.
    let line = refusal(&["plan", &object, "--ir", &ir, "--id", "10", "--seq", "trap"], 1);
    assert!(line.contains("several calls"), "{line}");
}

/// Without IR, the nops of a patchpoint are not those of the stackmap of no bytes beside it, too.
#[test]
fn of_two_records_at_one_address_nothing_is_inferred() {
    let found = said("twice", &[]);
    let beside: Vec<_> = found
        .iter()
        .filter(|(function, ..)| function == "beside")
        .collect();
    assert!(
        beside.iter().all(|(_, _, said)| said == "no_length"),
        "{beside:?}"
    );
    assert_eq!(beside.len(), 2);
    let told = said(
        "twice",
        &["--shape", "13=none", "--shape", "14=18", "--shape", "*=none"],
    );
    assert_eq!(told.last().unwrap().2, "patchpoint,18");
}

#[test]
fn names_are_those_of_symbols_however_they_are_written() {
    for (object, sign) in [("names", ""), ("names.macho", "_")] {
        let found = said(object, &["--ir", &format!("{IR}/names.ll")]);
        let (one, two) = (format!("{sign}one"), format!("{sign}t\"w o"));
        assert_said(
            &found,
            &[
                (&one, 7, "shadow,8"),
                (&two, 7, "shadow,24"),
                ("three", 7, "anyreg,40,result,args=1"),
            ],
        );
    }
    // A shape may be told with the sign of Mach-O, or without.
    for name in ["one", "_one"] {
        let shape = format!("{name}:7=shadow,4");
        let found = said("names.macho", &["--shape", &shape, "--shape", "*=none"]);
        assert_eq!(found[0].2, "shadow,4", "{found:?}");
        assert_eq!(found[1].2, "no site, as told", "{found:?}");
    }
}

/// The shape of another function is none of this one's.
#[test]
fn a_function_that_the_ir_has_not_takes_no_shape_of_another() {
    let text = std::fs::read_to_string(root().join(IR).join("names.ll")).unwrap();
    let start = text.find("define i64 @one").unwrap();
    let end = text.find("define i64 @\"t").unwrap();
    let part = text[..start].to_owned() + &text[end..];
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("names.part.ll");
    std::fs::write(&path, part).unwrap();
    for object in ["names", "names.macho"] {
        let found = said(object, &["--ir", path.to_str().unwrap()]);
        assert!(
            found[0].2.starts_with("refused: the IR has no function for "),
            "{found:?}"
        );
        assert_eq!(found[1].2, "shadow,24");
    }
}

#[test]
fn other_conventions_are_refused_by_name() {
    let ir = format!("{IR}/conventions.ll");
    let refused = |name: &str| format!("refused: the IR calls it with the convention {name} (line ");
    assert_said(
        &said("conventions", &["--ir", &ir]),
        &[
            ("most", 1, &refused("preserve_mostcc")),
            ("ghc", 2, &refused("cc 10")),
            ("windows", 3, &refused("win64cc")),
            ("any", 4, "anyreg,32,result,args=2"),
            ("c", 5, "c,32,result,args=2"),
        ],
    );
    let object = format!("{IR}/conventions.o");
    let seq = ["--seq", "result = arg(0)"];
    let line = refusal(
        &[&["plan", &object, "--ir", &ir, "--id", "3"], &seq[..]].concat(),
        1,
    );
    assert!(line.contains("win64cc"), "{line}");
    let planned = stdout(
        &[&["plan", &object, "--ir", &ir, "--id", "4"], &seq[..]].concat(),
        0,
    );
    assert!(planned.contains("anyregcc patchpoint 4"), "{planned}");
}

#[test]
fn statepoints_are_shown_as_such() {
    let ir = format!("{IR}/statepoints.ll");
    for object in ["statepoints", "statepoints.coff", "statepoints.aarch64"] {
        let with_ir = said(object, &["--ir", &ir]);
        let expected = [
            ("calls", 2, "statepoint"),
            ("ends", 2_882_400_000, "statepoint"),
            ("reserves", 3, "statepoint"),
            ("shadow", 4, "shadow,8"),
            ("any", 5, "anyreg,20,result,args=1"),
        ];
        assert_said(&with_ir, &expected);
        // Without it, they are known by their numbers and the call.
        let without = said(object, &[]);
        let expected = [
            ("calls", 2, "statepoint"),
            ("ends", 2_882_400_000, "statepoint"),
            ("reserves", 3, "statepoint"),
            ("shadow", 4, "no_length"),
            ("any", 5, "patchpoint or shadow,20"),
        ];
        assert_said(&without, &expected);
        let file = format!("{IR}/{object}.o");
        json(&["check", &file, "--ir", &ir], 0);
        let report = json(&["inspect", &file], 0);
        let functions = list(&report["maps"][0]["functions"]);
        let records: Vec<&Value> = functions.iter().map(|function| &function["records"][0]).collect();
        let kinds: Vec<_> = records
            .iter()
            .map(|record| record["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds[..4], ["statepoint", "statepoint", "statepoint", "shadow"]);
        assert_eq!(records[0]["statepoint"]["deopt_values"], 2);
        let line = refusal(&["plan", &file, "--ir", &ir, "--id", "2", "--seq", "trap"], 1);
        assert!(line.contains("a statepoint is no site"), "{line}");
    }
}

/// A runtime that lets lengths be inferred is told, too, that a nop behind a call is no
/// patchpoint's.
#[test]
fn of_a_statepoint_no_length_is_inferred() {
    use patchpoint::addr::{CodeAddr, Len};
    use patchpoint::image::Object;
    for object in ["statepoints", "statepoints.coff", "statepoints.aarch64"] {
        let bytes = std::fs::read(root().join(format!("{IR}/{object}.o"))).unwrap();
        let layout = Object::parse(&bytes).unwrap().layout().unwrap();
        let base = CodeAddr::new(0x1000_0000);
        let (addrs, _) = layout.contiguous(base, Len::new(4096)).unwrap();
        let linked = layout.link(&addrs, &|_symbol| Some(base)).unwrap();
        let mut found = Vec::new();
        patchpoint::site::survey(linked.image, linked.segments, |record| {
            let inferred = record.infer_reserved().map_err(|error| error.to_string());
            found.push((record.id().get(), record.is_statepoint(), inferred));
            None
        })
        .unwrap();
        found.sort_by_key(|(id, ..)| *id);
        let ids: Vec<_> = found.iter().map(|(id, is_one, _)| (*id, *is_one)).collect();
        let expected = [
            (2, true),
            (3, true),
            (4, false),
            (5, false),
            (2_882_400_000, true),
        ];
        assert_eq!(ids, expected, "{object}");
        for (_, _, inferred) in found.iter().filter(|(_, is_one, _)| *is_one) {
            let error = inferred.as_ref().unwrap_err();
            assert!(error.contains("one of a statepoint"), "{error}");
        }
        assert_eq!(found[3].2, Ok(Len::new(20)), "{object}");
    }
}

#[test]
fn a_shape_that_nothing_has_is_refused() {
    let object = "examples/objects/inline_cache.o";
    for (shape, why) in [
        ("77=c,8", "--shape: no record has ID 77"),
        (
            "nowhere:78=c,32",
            "--shape: no record of a function nowhere has ID 78",
        ),
        ("get:90=c,32", "--shape: no record of a function get has ID 90"),
    ] {
        for command in [
            &["sites"][..],
            &["check"],
            &["plan", "--id", "78", "--seq", "trap"],
        ] {
            let args = [command, &[object, "--shape", shape]].concat();
            let line = refusal(&args, 1);
            assert_eq!(line, format!("patchpoint: {object}: {why}\n"), "{args:?}");
        }
    }
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("nothing.shapes");
    let write = |text: &str| {
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap()
    };
    let text = stdout(&["check", object, "--shapes", write("78=32\n90=24\n77=24\n")], 0);
    assert!(text.contains("note [unused] "), "{text}");
    assert!(
        text.contains("nothing.shapes, line 3: no record has ID 77"),
        "{text}"
    );
    let line = refusal(&["sites", object, "--shapes", write("77=24\n")], 1);
    assert!(
        line.contains("nothing.shapes: none of its shapes is of a record"),
        "{line}"
    );
    for shape in ["78=shadow,8,args=1", "78=c,2147483648", "78=c,8,result,result"] {
        assert!(refusal(&["sites", object, "--shape", shape], 2).contains("error: invalid value"));
    }
    let object = format!("{IR}/statepoints.aarch64.o");
    let line = refusal(&["sites", &object, "--shape", "5=18"], 1);
    assert!(line.contains("no site has 18 bytes"), "{line}");
}

#[test]
fn bitcode_and_what_is_no_ir_are_said_to_be_so() {
    let object = "examples/objects/inline_cache.o";
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, bytes, why) in [
        (
            "bare.bc",
            &b"BC\xc0\xde\x35\x14"[..],
            "is LLVM bitcode: give the IR as text, which `llvm-dis ",
        ),
        ("wrapped.bc", &[0xde, 0xc0, 0x17, 0x0b, 0], "is LLVM bitcode"),
        (
            "cut.ll",
            b"define void @f() {\n",
            "line 1, is no LLVM IR: what opens here is not closed",
        ),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap();
        let line = refusal(&["sites", object, "--ir", path], 2);
        assert!(line.contains(why), "{line}");
        if name.ends_with("bc") {
            let line = refusal(&["inspect", path], 2);
            assert!(line.contains("compile it with `llc -filetype=obj`"), "{line}");
        }
    }
}

#[test]
fn messages_count_and_name_values_as_people_do() {
    let object = "examples/objects/inline_cache.o";
    let text = stdout(&["sites", object, "--shape", "78=1", "--shape", "90=shadow,1"], 0);
    assert!(!text.contains("1 bytes"), "{text}");
    // The second location of the stackmap is a register, that of the other a constant.
    let objects = format!("{IR}/statepoints.o");
    let text = stdout(
        &[
            "sites",
            &objects,
            "--shape",
            "4=anyreg,8,result",
            "--shape",
            "*=none",
        ],
        0,
    );
    assert!(
        text.contains("its first location is the constant 0: does it have a result?"),
        "{text}"
    );
}

/// What random IR is, and what is said of it: a small part of what `random_ir` of the workspace's
/// tests compares.
#[test]
fn of_random_ir_nothing_wrong_is_said() {
    let llvms = llvms();
    if llvms.is_empty() {
        println!("not compared: neither llc-19 and opt-19 nor llc-14 and opt-14 are on the path");
        return;
    }
    assert!(tool(&["--version"]).status.success());
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("random_ir");
    std::fs::create_dir_all(&folder).unwrap();
    let place = Workspace {
        folder,
        tool: env!("CARGO_BIN_EXE_patchpoint").into(),
    };
    let mut all = Tally::default();
    for seed in 0..40 {
        all.add(module(&place, &llvms, seed).1);
    }
    println!("{all}");
    assert!(all.wrong.is_empty(), "{:#?}", all.wrong);
    assert!(all.modules > 15 && all.right > 300 && all.ambiguous > 0, "{all}");
}
