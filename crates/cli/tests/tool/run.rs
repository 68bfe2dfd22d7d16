//! What is executed is this machine's: x86-64.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{assert_documented, json, list, refusal, root, stdout};

const CACHE: [&str; 4] = [
    "run",
    "examples/objects/inline_cache.o",
    "--ir",
    "examples/objects/inline_cache.ll",
];
const HIT: &str = "78=guard u32[arg(0)+8] == 0x17 else miss; result = u64[arg(0)+24]";

fn cache(more: &[&str]) -> Value {
    let report = json(&[&CACHE[..], more].concat(), 0);
    assert_documented("run", &report);
    report
}

#[test]
fn a_patched_cache_hits_and_misses() {
    let hit = cache(&["--call", "get", "--args", "[0,0x17,0,1234]", "--patch", HIT]);
    assert_eq!(hit["calls"][0]["when"], "before");
    assert_eq!(hit["calls"][1]["when"], "after");
    assert_eq!(hit["calls"][1]["result"], 1234);
    assert!(list(&hit["calls"][1]["events"]).is_empty());
    assert_eq!(hit["changes"][0]["sites"], 2);
    let status: Vec<_> = list(&hit["sites"]).iter().map(|site| &site["status"]).collect();
    assert_eq!(status, ["patched", "patched", "original"]);
    let jump = &hit["sites"][0]["listing"][1];
    assert_eq!(jump["refers_to"], "a stub or exit stub of record 78", "{jump}");

    let miss = cache(&["--call", "get", "--args", "[0,0x18,0,1234]", "--patch", HIT]);
    assert_eq!(miss["calls"][1]["result"], 0);
    let event = &miss["calls"][1]["events"][0];
    assert_eq!(
        (&event["what"], &event["id"], &event["function"]),
        (&"miss".into(), &78.into(), &"get".into())
    );
    assert_eq!(list(&event["values"]).len(), 2);
}

#[test]
fn sites_of_functions_that_nobody_called_or_changed_are_left_out() {
    let called = cache(&["--call", "get", "--args", "[0,0x17,0,1234]"]);
    assert_eq!(list(&called["sites"]).len(), 1, "{called}");
    assert_eq!(called["sites"][0]["function"], "get");
}

#[test]
fn stores_into_an_array_are_shown() {
    let args = [
        "--call",
        "get",
        "--args",
        "[1,2]",
        "--patch",
        "78=u64[arg(0)+8] = 77; result = 5",
    ];
    let report = cache(&args);
    let after = &report["calls"][1];
    assert_eq!(
        (&after["result"], &after["arrays"]),
        (&5.into(), &serde_json::json!([[1, 77]]))
    );
    let text = stdout(&[&CACHE[..], &args].concat(), 0);
    for line in [
        "get([1, 2]) = 5",
        "  argument 0 is then [1, 77]",
        "patched 78 with u64[arg(0)+8] = 0x4d; result = 5 (2 sites)",
        "record 78 at get+0x4, 32 bytes: patched",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

/// The sum of two fields, in quiescent code and in live code, patched and then invalidated: what
/// deoptimizes goes on with what the sequence did.
#[test]
fn an_invalidated_function_tells_and_goes_on() {
    for live in [&[][..], &["--live"]] {
        let args = [
            "--call",
            "get",
            "--args",
            "[0,0x17,0,99]",
            "--patch",
            HIT,
            "--invalidate",
            "get",
        ];
        let report = cache(&[&args[..], live].concat());
        let after = &report["calls"][1];
        assert_eq!(after["result"], 99, "{live:?}");
        assert_eq!(after["events"][0]["what"], "deopt", "{live:?}");
        assert_eq!(report["sites"][0]["status"], "invalidated");
        assert_eq!(report["sites"][1]["status"], "patched");
        assert_eq!(report["changes"][1]["what"], "invalidated get");
    }
}

#[test]
fn without_changes_it_is_called_once() {
    let args = [
        "run",
        "asm-tests/objects/inspect/x86_64-19.o",
        "--symbol",
        "escape=0x10000",
        "--shape",
        "*=none",
        "--call",
        "twice",
    ];
    let report = json(&[&args[..], &["--args", "5"]].concat(), 0);
    assert_eq!(list(&report["calls"]).len(), 1);
    assert!(list(&report["sites"]).is_empty());
}

#[test]
fn it_is_called_after_the_patches_only_where_that_is_asked() {
    let patched = cache(&[
        "--call",
        "get",
        "--args",
        "[0]",
        "--patch",
        "78=result = 6",
        "--only-after",
    ]);
    assert_eq!(list(&patched["calls"]).len(), 1);
    assert_eq!(patched["calls"][0]["when"], "after");
    assert_eq!(patched["calls"][0]["result"], 6);
    // Without a change there is nothing that it could be after.
    let whole = cache(&["--call", "get", "--args", "[0]", "--only-after"]);
    assert_eq!(whole["calls"][0]["when"], "before");
}

/// LLVM's call of a number has no target, unless somebody says otherwise or it is patched before it
/// is executed.
#[test]
fn a_call_to_unknown_code_is_not_executed() {
    let args = [
        "run",
        "asm-tests/objects/inspect/x86_64-19.o",
        "--symbol",
        "escape=0x10000",
        "--call",
        "call_c",
        "--args",
        "1",
    ];
    let line = refusal(&args, 1);
    assert!(
        line.contains("record 8 at call_c+0x4 holds LLVM's call of 0x123456789abcdef")
            && line.contains("--trust-calls"),
        "{line}"
    );
    let report = json(
        &[
            &args[..],
            &["--shape", "8=c,48,result", "--patch", "8=result = 6"],
        ]
        .concat(),
        0,
    );
    assert!(
        report["calls"][0]["why"]
            .as_str()
            .unwrap()
            .contains("0x123456789abcdef")
    );
    assert_eq!(report["calls"][1]["result"], 6);
    let text = stdout(
        &[
            &args[..],
            &["--shape", "8=c,48,result", "--patch", "8=result = 6"],
        ]
        .concat(),
        0,
    );
    assert!(text.starts_with("call_c(1) not called: record 8"), "{text}");
}

#[test]
fn missing_symbols_are_named_and_found_where_it_is_asked() {
    let stress = [
        "run",
        "examples/objects/live_stress.o",
        "--call",
        "any_7",
        "--args",
        "5",
    ];
    let line = refusal(&stress, 1);
    assert!(
        line.contains("does not define `callee`") && line.contains("--symbol NAME=ADDRESS, or --libc"),
        "{line}"
    );
    let more = ["--symbol", "callee=0x10000", "--shape", "*=none"];
    stdout(&[&stress[..], &more].concat(), 0);
    // No function of the C library has that name either.
    refusal(&[&stress[..], &["--libc"]].concat(), 1);
}

/// The same object with the name of a function of the C library in place of `callee`.
#[test]
fn the_c_library_is_called_where_it_is_asked() {
    let mut object = fs::read(root().join("examples/objects/live_stress.o")).unwrap();
    let name = b"\0callee\0";
    let at = object
        .windows(name.len())
        .position(|bytes| bytes == name)
        .unwrap();
    object[at..at + name.len()].copy_from_slice(b"\0llabs\0\0");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("llabs.o");
    fs::write(&path, object).unwrap();
    let path = path.to_str().unwrap();
    let ir = "examples/objects/live_stress.ll";
    let args = ["run", path, "--ir", ir, "--call", "call_0", "--args", "-5"];
    let line = refusal(&args, 1);
    assert!(line.contains("does not define `llabs`"), "{line}");
    let report = json(&[&args[..], &["--libc"]].concat(), 0);
    assert_eq!(report["calls"][0]["result"], 5);
    let call = list(&report["sites"])
        .iter()
        .find(|site| site["id"] == 200)
        .unwrap();
    assert_eq!(call["listing"][0]["refers_to"], "llabs", "{call}");
}

#[test]
fn what_cannot_be_run_is_said() {
    let line = refusal(&[&CACHE[..], &["--call", "got"]].concat(), 1);
    assert!(
        line.contains("no function named \"got\"") && line.contains("it has get, sum_fields"),
        "{line}"
    );
    let foreign = ["run", "examples/objects/inline_cache.s390x.o", "--call", "get"];
    let line = refusal(&foreign, 1);
    assert!(line.contains("s390x") && line.contains("x86_64"), "{line}");
    let line = refusal(
        &[&CACHE[..], &["--call", "get", "--patch", "79=trap"]].concat(),
        1,
    );
    assert!(line.contains("79"), "{line}");
    let line = refusal(&[&CACHE[..], &["--call", "get", "--invalidate", "x"]].concat(), 1);
    assert!(line.contains("\"x\""), "{line}");
    let message = refusal(
        &[&CACHE[..], &["--call", "get", "--args", "1,2,3,4,5,6,7"]].concat(),
        2,
    );
    assert!(message.contains("at most six"), "{message}");
}
