//! `check --baseline`: two builds side by side.

use serde_json::{Value, json as value};

use crate::files::Folder;
use crate::{assert_documented, json, list, root, stdout, tool};

const CORPUS: &str = "asm-tests/objects";

fn property(version: &str) -> String {
    format!("{CORPUS}/x86_64/property.{version}.o")
}

#[test]
fn what_has_changed_is_said_of_each_site() {
    let (new, old) = (property("llc19.O2"), property("llc19.O0"));
    let ir = format!("{CORPUS}/ir/property.ll");
    let args = ["check", &new, "--baseline", &old, "--ir", &ir];
    let report = json(&args, 0);
    assert_documented("check", &report);
    let file = &report["files"][0];
    assert_eq!((&file["file"], &file["baseline"]), (&value!(new), &value!(old)));
    assert_eq!((&file["records"], &file["sites"]), (&value!(6), &value!(6)));
    assert_eq!((list(&file["new"]).len(), list(&file["gone"]).len()), (0, 0));
    assert_eq!(file["same"], 3);
    let changed = list(&file["changed"]);
    assert_eq!(changed.len(), 3);
    assert_eq!(changed[0]["id"], 80);
    assert_eq!(
        (&changed[0]["offset"], &changed[0]["was"]["offset"]),
        (&value!(0xb), &value!(0xe))
    );
    let values = value!({
        "what": "values",
        "before": "rax, rdi, rax, rdx, rsi",
        "after": "rax, rdi, rsi, rdx, rcx",
    });
    assert!(list(&changed[0]["changes"]).contains(&values), "{changed:?}");
    let text = stdout(&args, 0);
    assert!(text.starts_with(&format!("{new} against {old}\n")), "{text}");
    assert!(
        text.contains("values: rax, rdi, rax, rdx, rsi -> rax, rdi, rsi, rdx, rcx\n"),
        "{text}"
    );
    let last = "6 records: 0 new, 0 gone, 3 changed, 0 moved, 3 the same; no new finding, 0 gone\n";
    assert!(text.ends_with(last), "{text}");
}

#[test]
fn a_build_is_the_same_as_itself() {
    let file = property("llc19.O2");
    let text = stdout(&["check", &file, "--baseline", &file], 0);
    assert!(
        text.contains(" 0 new, 0 gone, 0 changed, 0 moved, 6 the same; no new finding"),
        "{text}"
    );
    // A finding that was there before counts no more.
    stdout(&["check", &file], 1);
}

/// The same shapes are told of both builds, and a record of which they say something else is none of them.
#[test]
fn shapes_need_not_be_of_the_build_before() {
    let (new, old) = (property("llc19.O2"), "examples/objects/live_stress.o");
    let report = json(&["check", &new, "--baseline", old, "--shape", "81=none"], 1);
    let file = &report["files"][0];
    assert_eq!((list(&file["new"]).len(), list(&file["gone"]).len()), (6, 30));
    let text = stdout(&["check", &new, "--baseline", old, "--shape", "81=none"], 1);
    assert!(
        text.contains("  new     record 81 at set+0x7: no site\n"),
        "{text}"
    );
}

/// The same object twice, of which the IR of one build promises a longer shadow than LLVM made.
#[test]
fn only_findings_that_are_new_count() {
    let folder = Folder::new("baseline");
    let object = format!("{CORPUS}/defects/cfi.aarch64.o");
    let long = format!("{CORPUS}/defects/cfi.ll");
    let text = std::fs::read_to_string(root().join(&long)).unwrap();
    let (short, cut) = (folder.file("short.ll"), text.replace("i32 32", "i32 16"));
    assert_ne!(text, cut);
    std::fs::write(&short, cut).unwrap();
    let run = |new: &str, old: &str, status| {
        let args = [
            "check",
            &object,
            "--ir",
            new,
            "--baseline",
            &object,
            "--baseline-ir",
            old,
        ];
        let report = json(&args, status);
        assert_documented("check", &report);
        let findings = &report["files"][0]["findings"];
        let words = |which: &str| {
            let words = list(&findings[which])
                .iter()
                .map(|finding| finding["what"].as_str().unwrap().to_owned());
            words.collect::<Vec<_>>()
        };
        let changed = list(&report["files"][0]["changed"]);
        let states = changed
            .iter()
            .map(|site| site["changes"][0]["after"].as_str().unwrap().to_owned());
        (
            words("new"),
            words("gone"),
            findings["same"].as_u64().unwrap(),
            states.collect::<Vec<_>>(),
        )
    };
    let finding = || vec!["short-shadow".to_owned()];
    assert_eq!(
        run(&long, &short, 1),
        (finding(), vec![], 0, vec!["refused".to_owned()])
    );
    assert_eq!(
        run(&short, &long, 0),
        (vec![], finding(), 0, vec!["registered".to_owned()])
    );
    assert_eq!(run(&long, &long, 0), (vec![], vec![], 1, vec![]));
}

#[test]
fn files_are_compared_with_those_of_their_names() {
    let folder = Folder::new("builds");
    for build in ["old", "new"] {
        std::fs::create_dir_all(folder.0.join(build)).unwrap();
    }
    let copy = |from: &str, to: &str| {
        std::fs::copy(root().join(from), folder.0.join(to)).unwrap();
        folder.file(to)
    };
    let (old_a, new_a) = (
        copy(&property("llc19.O0"), "old/a.o"),
        copy(&property("llc19.O2"), "new/a.o"),
    );
    let old_b = copy("examples/objects/live_stress.o", "old/b.o");
    let new_c = copy("examples/objects/inline_cache.o", "new/c.o");
    let args = [
        "check",
        &new_c,
        &new_a,
        "--baseline",
        &old_b,
        "--baseline",
        &old_a,
    ];
    // What c.o lacks is new.
    let report = json(&args, 1);
    let pairs: Vec<_> = list(&report["files"])
        .iter()
        .map(|file| (&file["file"], &file["baseline"]))
        .collect();
    let expected = [
        (value!(new_c), Value::Null),
        (value!(new_a), value!(old_a)),
        (Value::Null, value!(old_b)),
    ];
    let expected: Vec<_> = expected.iter().map(|(new, old)| (new, old)).collect();
    assert_eq!(pairs, expected);
    assert_eq!(list(&report["files"][0]["new"]).len(), 3);
    assert_eq!(list(&report["files"][2]["gone"]).len(), 30);
    let text = stdout(&args, 1);
    assert!(text.contains("c.o, which the build before has not\n"), "{text}");
    assert!(text.contains("b.o, which this build has not\n"), "{text}");
}

#[test]
fn a_build_that_cannot_be_read_is_not_compared() {
    let file = property("llc19.O2");
    for args in [
        ["check", &file, "--baseline", "missing.o"],
        ["check", "missing.o", "--baseline", &file],
    ] {
        let output = tool(&args);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty(), "{output:?}");
        assert!(
            String::from_utf8(output.stderr)
                .unwrap()
                .starts_with("patchpoint: missing.o: cannot be read")
        );
    }
}
