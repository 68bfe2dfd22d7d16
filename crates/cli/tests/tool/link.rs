//! `link` without a run: the checks of the sources under `asm-tests/objects/jitlink`, and what it
//! says of what is wrong.

use std::path::{Path, PathBuf};

use super::*;

const FOLDER: &str = "asm-tests/objects/jitlink";

/// The sources with checks, by architecture; each has its object beside it.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for arch in ["x86_64", "aarch64"] {
        let folder = root().join(FOLDER).join(arch);
        let entries = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        found.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "s")));
    }
    found.sort();
    found
}

/// The arguments for linking a source's object: what its lines `# link:` say, and where nothing
/// runs.
fn arguments(source: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(source).unwrap();
    let said = text.lines().filter_map(|line| line.strip_prefix("# link: "));
    let said = said.flat_map(str::split_whitespace).map(str::to_owned);
    let object = source.with_extension("o").to_str().unwrap().to_owned();
    ["link".to_owned(), object, "--noexec".to_owned()]
        .into_iter()
        .chain(said)
        .collect()
}

/// The checks of a file, where the tool ends with this status.
fn checks(source: &Path, file: &Path, status: i32) -> Vec<Value> {
    let arguments = arguments(source);
    let mut all: Vec<&str> = arguments.iter().map(String::as_str).collect();
    all.extend(["--check", file.to_str().unwrap()]);
    let value = json(&all, status);
    list(&value["checks"]).to_vec()
}

/// A file of this process's own.
fn scratch(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("patchpoint-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn all_checks_of_the_sources_hold() {
    let mut count = 0;
    for source in sources() {
        let text = std::fs::read_to_string(&source).unwrap();
        // A backslash joins a line with the next.
        let lines = text
            .lines()
            .filter(|line| line.starts_with("# jitlink-check:") && !line.ends_with('\\'));
        let checks = checks(&source, &source, 0);
        assert_eq!(checks.len(), lines.count(), "{}", source.display());
        assert!(checks.iter().all(|check| check["outcome"] == "holds"));
        count += checks.len();
    }
    println!("{count} checks of {} sources", sources().len());
    assert!(count >= 250, "{count}");
}

/// What linkers define by themselves, for every format: the sources of a folder of their own, as
/// LLVM's jitlink does not know some of it.
#[test]
fn checks_of_what_linkers_define_hold() {
    let folder = root().join("asm-tests/objects/linker");
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut count = 0;
    for source in entries.filter(|path| path.extension().is_some_and(|extension| extension == "s")) {
        let checks = checks(&source, &source, 0);
        assert!(
            checks.iter().all(|check| check["outcome"] == "holds"),
            "{}",
            source.display()
        );
        count += checks.len();
    }
    assert_eq!(count, 35);
}

/// What an object includes has to be somewhere.
#[test]
fn what_is_included_is_looked_up() {
    let arguments = ["link", "asm-tests/objects/linker/coff_directives.o", "--noexec"];
    let error = refusal(&arguments, 1);
    assert!(error.contains("`wanted` (for /include)"), "{error}");
    // As long as there is such a limit, and no longer.
    let limited = [&arguments[..], &["--define", "wanted=1", "--limit", "8"]].concat();
    let error = refusal(&limited, 1);
    assert!(error.contains("more than the limit of 8"), "{error}");
}

/// What is told of a symbol that is defined would not count.
#[test]
fn a_definition_that_would_not_count_is_refused() {
    let object = "asm-tests/objects/linker/toc.o";
    let arguments = [
        "link",
        object,
        "--noexec",
        "--define",
        "absolute=0x10",
        "--define",
        "entry=1",
    ];
    let error = refusal(&arguments, 1);
    assert!(error.contains("entry is told by --define"), "{error}");
}

/// Every check compares: with another number on its right it fails, and says both values.
#[test]
fn no_check_of_the_sources_holds_with_another_number() {
    for source in sources() {
        let right = checks(&source, &source, 0);
        let spoilt = |check: &Value| {
            let (left, right) = check["text"].as_str().unwrap().split_once('=').unwrap();
            format!("# jitlink-check: {left} = ({right}) + 1\n")
        };
        let name = format!("{}.check", source.file_name().unwrap().to_str().unwrap());
        let file = scratch(&name, &right.iter().map(spoilt).collect::<String>());
        let wrong = checks(&source, &file, 1);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(wrong.len(), right.len());
        for (right, wrong) in right.iter().zip(&wrong) {
            assert_eq!(wrong["outcome"], "differs", "{wrong}");
            assert_eq!(wrong["left"], right["left"]);
            let more = right["right"].as_u64().unwrap().wrapping_add(1);
            assert_eq!(wrong["right"], more, "{wrong}");
        }
    }
}

const OBJECT: &str = "asm-tests/objects/jitlink/x86_64/relative.o";
const DEFINED: [&str; 6] = [
    "--define",
    "far=0x7fff12345678",
    "--define",
    "ahead=0x57fff0000",
    "--define",
    "behind=0x480010000",
];

/// Links an object with checks of this text.
fn with_checks(name: &str, text: &str) -> (PathBuf, Output) {
    let file = scratch(name, text);
    let base = [
        "link",
        OBJECT,
        "--noexec",
        "--base",
        "0x500000000",
        "--check",
        file.to_str().unwrap(),
    ];
    let output = tool(&[&base[..], &DEFINED].concat());
    std::fs::remove_file(&file).unwrap();
    (file, output)
}

#[test]
fn failing_checks_are_said_with_file_line_and_values() {
    let text = "\
# jitlink-check: main = 0x500000000
# jitlink-check: *{4}near_8 = main \\
# jitlink-check:   & nothing
# rtdyld-check: next_pc(main) = main
";
    let (file, output) = with_checks("failing", text);
    let file = file.display();
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = printed.lines().rev().take(3).collect();
    assert_eq!(lines[0], "3 checks: 2 failed");
    let expected = format!("{file}:4: `next_pc(main) = main` is false: 0x500000001 is not 0x500000000");
    assert_eq!(lines[1], expected);
    let expected =
        format!("{file}:3:22: `*{{4}}near_8 = main & nothing`: no symbol `nothing` has an address");
    assert_eq!(lines[2], expected);
}

#[test]
fn a_section_that_is_not_placed_has_no_address() {
    let object = "examples/objects/inline_cache.o";
    let text = "# jitlink-check: section_addr(inline_cache.o, .llvm_stackmaps) = section_addr(inline_cache.o, .text)\n";
    let file = scratch("unplaced", text);
    let output = stdout(
        &["link", object, "--noexec", "--check", file.to_str().unwrap()],
        1,
    );
    std::fs::remove_file(&file).unwrap();
    let expected = ":1:18: `section_addr(inline_cache.o, .llvm_stackmaps) = section_addr(inline_cache.o, .text)`: section \
                    `.llvm_stackmaps` of `inline_cache.o` has no address: ";
    assert!(output.contains(expected), "{output}");
}

#[test]
fn a_file_without_checks_is_refused() {
    let file = scratch("none", "# jitlink-chek: main = 1\n");
    let name = file.to_str().unwrap();
    let base = [
        &[
            "link",
            OBJECT,
            "--noexec",
            "--base",
            "0x500000000",
            "--check",
            name,
        ],
        &DEFINED[..],
    ]
    .concat();
    let line = refusal(&base, 1);
    assert!(
        line.starts_with(&format!(
            "patchpoint: {name}: has no check: write one in a line such as # jitlink-check or rtdyld-check: "
        )),
        "{line}"
    );
    // The name is the user's, if there is one.
    let named = [&base[..], &["--check-name", "jitlink-chek"]].concat();
    let output = stdout(&named, 1);
    assert!(
        output.contains(":1: `main = 1` is false: 0x500000000 is not 0x1"),
        "{output}"
    );
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn files_are_named_by_their_path_where_names_are_not_enough() {
    let (one, two) = (
        "asm-tests/objects/jitlink/x86_64/got.o",
        "asm-tests/objects/jitlink/aarch64/got.o",
    );
    let line = refusal(&["link", one, two, "--noexec"], 1);
    assert!(
        line.contains(&format!(
            "{two} is for AArch64, but {one} is for X86_64: link them apart"
        )),
        "{line}"
    );
    let file = scratch(
        "names",
        &format!("# jitlink-check: got_addr({OBJECT}, far) = got_addr(relative.o, far)\n"),
    );
    let base = [
        "link",
        OBJECT,
        "--noexec",
        "--base",
        "0x500000000",
        "--check",
        file.to_str().unwrap(),
    ];
    let output = stdout(&[&base[..], &DEFINED].concat(), 0);
    std::fs::remove_file(&file).unwrap();
    assert!(output.ends_with("1 check: all hold\n"), "{output}");
}

#[test]
fn what_cannot_be_linked_is_said_with_its_file_and_a_mend() {
    for (args, expected) in [
        (&["missing.o"][..], "patchpoint: missing.o: cannot be read: "),
        (&[OBJECT, "missing.o"], "patchpoint: missing.o: cannot be read: "),
        (&[OBJECT, "Cargo.toml"], "patchpoint: Cargo.toml: "),
        (
            &[OBJECT, "--check", "missing.s"],
            "patchpoint: missing.s: cannot be read: ",
        ),
        (&[OBJECT, OBJECT], "is defined by both"),
        (
            &[OBJECT, "--define", "far=1", "--define", "ahead=1"],
            "does not define `behind` (for .text+0xc): give --define NAME=ADDRESS\n",
        ),
        (
            &[OBJECT, "--base", "0x1001"],
            "the address is not a multiple of the segment's alignment",
        ),
        (
            &[OBJECT, "--base", "0xffffffffffffff00"],
            "there is no room behind the others: give a lower base",
        ),
        (
            &[
                "asm-tests/objects/jitlink/x86_64/absolute.o",
                "--base",
                "0x500000000",
            ],
            "place it below 2 GiB",
        ),
    ] {
        let status = match args
            .iter()
            .any(|arg| arg.starts_with("missing") || *arg == "Cargo.toml")
        {
            true => 2,
            false => 1,
        };
        let line = refusal(&[&["link"], args, &["--noexec"]].concat(), status);
        assert!(line.contains(expected), "{line}");
    }
    for (args, expected) in [
        (&["--noexec"][..], "<FILES>"),
        (&[OBJECT, "--noexec", "--entry", "f"], "cannot be used with"),
        (&[OBJECT, "--base", "0x1000"], "--noexec"),
        (
            &[OBJECT, "--noexec", "--base", "x"],
            "expected an address, such as 0x10000000",
        ),
        (&[OBJECT, "--define", "x"], "expected NAME=ADDRESS"),
    ] {
        let line = refusal(&[&["link"], args].concat(), 2);
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn relaxation_is_done_where_it_is_asked_for() {
    // In reach of 0x10000000.
    let object = "asm-tests/objects/jitlink/x86_64/got.o";
    let near = [
        "link",
        object,
        "--noexec",
        "--define",
        "far=0x20000000",
        "--define",
        "data=0x30000000",
    ];
    let text = "# jitlink-check: decode_operand(load, 4) = far - next_pc(load)\n";
    let file = scratch("relax", text);
    let near = [&near[..], &["--check", file.to_str().unwrap()]].concat();
    stdout(&near, 1);
    stdout(&[&near[..], &["--relax"]].concat(), 0);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn the_help_says_what_the_json_is() {
    let source = sources().into_iter().next().unwrap();
    let text = "# jitlink-check: main = main\n# jitlink-check: main = 1\n# jitlink-check: main\n";
    let file = scratch("json", text);
    let arguments = arguments(&source);
    let mut all: Vec<&str> = arguments.iter().map(String::as_str).collect();
    all.extend(["--check", file.to_str().unwrap()]);
    let value = json(&all, 1);
    std::fs::remove_file(&file).unwrap();
    assert_documented("link", &value);
    let outcomes: Vec<&Value> = list(&value["checks"])
        .iter()
        .map(|check| &check["outcome"])
        .collect();
    assert_eq!(outcomes, ["holds", "differs", "wrong"]);
    assert_eq!(value["checks"][2]["column"], 22);
}
