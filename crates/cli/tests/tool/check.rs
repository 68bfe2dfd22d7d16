use serde_json::Value;

use crate::corpus::{FOLDERS, objects};
use crate::{assert_documented, json, list, stdout};

const DEFECTS: &str = "asm-tests/objects/defects";

fn words(report: &Value, counts: bool) -> Vec<&str> {
    list(&report["findings"])
        .iter()
        .filter(|finding| finding["counts"] == counts)
        .map(|finding| finding["what"].as_str().unwrap())
        .collect()
}

#[test]
fn the_text_is_this() {
    let text = stdout(
        &[
            "check",
            &format!("{DEFECTS}/cfi.aarch64.o"),
            "--ir",
            &format!("{DEFECTS}/cfi.ll"),
        ],
        1,
    );
    let expected = "asm-tests/objects/defects/cfi.aarch64.o: elf64-littleaarch64, aarch64\n\
                    [short-shadow] record 1 at cfi_shadow+0xc (0x1000000c) reserves 32 bytes, beyond the end of its function \
                    of 28: LLVM emitted fewer bytes, or the reserved length is wrong\n\
                    1 record, 0 sites: 1 finding\n";
    assert_eq!(text, expected);
    let object = "asm-tests/objects/x86_64/property.llc14.O2.o";
    let text = stdout(&["check", object, "--ir", "asm-tests/objects/ir/property.ll"], 0);
    let notes = text
        .lines()
        .filter(|line| line.starts_with("note [live-outs] record "));
    assert!(notes.count() > 3, "{text}");
    assert!(text.ends_with(": nothing found\n"), "{text}");
}

/// The defects of LLVM's that are known, each in an object that shows it.
#[test]
fn each_known_defect_is_found() {
    for (object, shape, expected) in [
        ("cfi.aarch64.o", "1=shadow,32", "short-shadow"),
        ("cfi.aarch64.o", "1=shadow,16", ""),
        ("compressed.riscv64c.o", "1=shadow,32", "short-shadow"),
        ("compressed.riscv64c.o", "1=shadow,24", ""),
        ("tight.powerpc64le.o", "1=c,28,result,args=1", "not-patchpoint"),
        ("tight.powerpc64le.o", "1=c,32,result,args=1", ""),
        (
            "tight.powerpc64-elfv2.o",
            "1=c,28,result,args=1",
            "not-patchpoint",
        ),
        ("tight.powerpc64-elfv2.o", "1=c,32,result,args=1", ""),
        ("tight.powerpc64.o", "1=c,36,result,args=1", "not-patchpoint"),
        ("tight.powerpc64.o", "1=c,40,result,args=1", ""),
        ("short.aarch64.o", "1=c,4,result,args=1", "not-patchpoint"),
        ("short.powerpc64.o", "1=c,4,result,args=1", "not-patchpoint"),
        ("short.powerpc64le.o", "1=c,4,result,args=1", "not-patchpoint"),
        ("short.powerpc64-elfv2.o", "1=c,4,result,args=1", "not-patchpoint"),
        ("short.s390x.o", "1=c,4,result,args=1", "not-patchpoint"),
        ("symbol.aarch64.o", "600=c,32,result,args=2", ""),
        ("link.riscv64.o", "1=anyreg,32,result,args=1", ""),
    ] {
        let status = i32::from(!expected.is_empty());
        let report = json(
            &["check", &format!("{DEFECTS}/{object}"), "--shape", shape],
            status,
        );
        let expected: Vec<&str> = Some(expected)
            .filter(|what| !what.is_empty())
            .into_iter()
            .collect();
        assert_eq!(words(&report, true), expected, "{object} {shape}");
        assert_documented("check", &report);
    }
}

/// LLVM's shadows that are too short, in the rest of the corpus: next to call frame information on
/// AArch64, to other instructions that emit nothing on PowerPC, and everywhere with compressed
/// instructions.
const SHORT: [(&str, &[u64]); 22] = [
    ("aarch64/shadow.llc19.O0", &[503]),
    ("aarch64/shadow.llc19.O2", &[503]),
    ("powerpc64le/random_1.llc14.O0", &[1019]),
    ("powerpc64le/random_1.llc19.O0", &[1019]),
    ("riscv64c/random_1.llc19.O0", &[1003, 1019]),
    ("riscv64c/random_1.llc19.O2", &[1019]),
    // The bytes behind the last whole instruction of these are a jump's, and the next block, to
    // which it jumps.
    ("riscv64c/random_2.llc19.O0", &[1013, 1019]),
    ("riscv64c/random_3.llc19.O0", &[1016, 1024]),
    ("riscv64c/random_4.llc19.O0", &[1012]),
    ("riscv64c/random_4.llc19.O2", &[1012]),
    ("riscv64c/relocs.llc19.O0", &[904]),
    ("riscv64c/relocs.llc19.O0.pic-medium", &[904]),
    ("riscv64c/relocs.llc19.O0.pic-small", &[904]),
    ("riscv64c/relocs.llc19.O0.static-medium", &[904]),
    ("riscv64c/relocs.llc19.O2", &[904]),
    ("riscv64c/relocs.llc19.O2.pic-medium", &[904]),
    ("riscv64c/relocs.llc19.O2.pic-small", &[904]),
    ("riscv64c/relocs.llc19.O2.static-medium", &[904]),
    ("riscv64c/shadow.llc19.O0", &[500, 502, 503, 507]),
    ("riscv64c/shadow.llc19.O2", &[500, 502, 503]),
    // Nothing else.
    ("x86_64/shadow.llc19.O2", &[]),
    ("s390x/shadow.llc19.O2", &[]),
];

/// In all other objects nothing is found, and every patchpoint can be patched live.
#[test]
fn nothing_but_the_known_defects_is_found_in_the_corpus() {
    let (mut checked, mut others) = (0, Vec::new());
    for object in FOLDERS.iter().flat_map(|folder| objects(folder)) {
        let short = SHORT
            .iter()
            .find(|(name, _)| object.path == format!("asm-tests/objects/{name}.o"));
        let expected = short.map_or(&[][..], |(_, ids)| ids);
        let shapes = object.shapes.to_str().unwrap();
        let report = json(
            &["check", &object.path, "--shapes", shapes, "--live"],
            i32::from(!expected.is_empty()),
        );
        let found: Vec<u64> = list(&report["findings"])
            .iter()
            .filter(|finding| finding["counts"] == true)
            .map(|finding| {
                // Where the bytes that are not the shadow's are the head of a loop, they are
                // refused for that.
                let message = finding["message"].as_str().unwrap_or_default();
                let is_entered = finding["what"] == "refused" && message.starts_with("the branch at ");
                let is_short = finding["what"] == "short-shadow";
                assert!(is_short || is_entered, "{}: {finding}", object.path);
                finding["id"].as_u64().unwrap()
            })
            .collect();
        if found != expected {
            others.push((object.path, found));
        }
        checked += 1;
    }
    assert_eq!(others, [], "not what is known");
    println!("{checked} objects");
    assert!(checked > 500, "{checked}");
}

/// LLVM 14 leaves out the registers that a function keeps for its caller, LLVM 19 does not.
#[test]
fn live_outs_that_leave_registers_out_are_found_where_they_are_trusted() {
    for folder in FOLDERS {
        for object in objects(folder)
            .iter()
            .filter(|object| object.source == "property")
        {
            let shapes = object.shapes.to_str().unwrap();
            let old = object.path.contains("llc14");
            let args = ["check", &object.path, "--shapes", shapes, "--trust-live-outs"];
            let report = json(&args, i32::from(old));
            let expected = if old { "live-outs" } else { "" };
            assert!(
                words(&report, true).iter().all(|what| *what == expected),
                "{}",
                object.path
            );
            let without = json(&args[..4], 0);
            assert_eq!(!words(&without, false).is_empty(), old, "{}", object.path);
        }
    }
}

#[test]
fn a_site_without_a_patchable_jump_counts_where_it_is_to_be_live() {
    let args = [
        "check",
        "examples/objects/live_stress.o",
        "--shape",
        "*=none",
        "--shape",
        "call_4:900=c,4",
        "--live",
    ];
    let live = json(&args, 1);
    assert_eq!(words(&live, true), ["no-patchable-jump"], "{live}");
    let quiescent = json(&args[..6], 0);
    assert_eq!(words(&quiescent, false), ["no-patchable-jump"], "{quiescent}");
    let message = list(&live["findings"])[0]["message"].as_str().unwrap();
    assert!(message.contains("raise numBytes"), "{message}");
}

#[test]
fn what_cannot_become_a_site_is_found_by_its_word() {
    for (object, shapes, expected) in [
        ("x86_64-19.o", &["*=none"][..], &[][..]),
        ("x86_64-19.o", &["*=none", "9=shadow,17"], &["short-shadow"]),
        (
            "x86_64-19.o",
            &["*=none", "10=shadow,20"],
            &["short-shadow", "short-shadow"],
        ),
        ("x86_64-19.o", &["*=none", "8=c,60"], &["overlap"]),
        (
            "x86_64-19.o",
            &["*=none", "7=anyreg,40,result,args=9"],
            &["shape"],
        ),
        ("x86_64-19.o", &["*=none", "7=c,2147483647"], &["overlap"]),
        (
            "x86_64-19.o",
            &["*=none", "18446744073709551615=2"],
            &["record-overflow"],
        ),
        ("riscv64-19.o", &["*=none", "8=c,48"], &["link-register"]),
        ("old-x86_64.o", &[], &["function"]),
    ] {
        let file = format!("asm-tests/objects/inspect/{object}");
        let mut args = vec!["check", &file];
        for shape in shapes {
            args.extend(["--shape", shape]);
        }
        let report = json(&args, i32::from(!expected.is_empty()));
        assert_eq!(words(&report, true), expected, "{object} {shapes:?}: {report}");
    }
    let report = json(
        &[
            "check",
            "examples/objects/live_stress.o",
            "--ir",
            "examples/objects/live_stress.ll",
        ],
        0,
    );
    assert_eq!(report["sites"], 30, "one ID has several lengths: {report}");
    let report = json(&["check", "examples/objects/inline_cache.o"], 1);
    // One of each, whatever the number of records.
    assert_eq!(words(&report, false), ["inferred"]);
    assert_eq!(words(&report, true), ["no-length"]);
    let last = list(&report["findings"]).last().unwrap();
    assert_eq!(
        last["message"],
        "nothing tells the length of 1 of 3 records: give --ir FILE, the IR that the file was compiled from, or --shape ID=SHAPE"
    );
}
