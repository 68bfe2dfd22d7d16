//! `link` with a run: a program of several files that uses the C library does what it does when the
//! system's linker has linked it.

use std::path::PathBuf;

use super::*;

const PROGRAM: &str = "asm-tests/objects/program";
const SOURCES: [&str; 3] = ["main", "words", "numbers"];
const ARGUMENTS: [&str; 9] = [
    "-5",
    "7",
    "x",
    "7",
    "99999999999999999999",
    "--format",
    "0x10",
    "-5",
    "7",
];

/// A folder of this process's own.
fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("patchpoint-link-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn in_folder(folder: &Path) -> Vec<String> {
    SOURCES
        .iter()
        .map(|name| folder.join(format!("{name}.o")).to_str().unwrap().to_owned())
        .collect()
}

/// Runs the system's compiler.
fn cc(args: &[&str]) {
    let output = Command::new("cc")
        .current_dir(root())
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
}

/// Whether the program's output and status are the same, linked by the system's linker and by the
/// tool.
fn assert_same(name: &str, objects: &[String], arguments: &[&str]) {
    let folder = scratch(&format!("{name}-linked"));
    let program = folder.join("program");
    let mut link: Vec<&str> = vec!["-no-pie", "-o", program.to_str().unwrap()];
    link.extend(objects.iter().map(String::as_str));
    cc(&link);
    let expected = Command::new(&program).args(arguments).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let mut args = vec!["link"];
    args.extend(objects.iter().map(String::as_str));
    args.extend(["--entry", "main", "--args"]);
    args.extend(arguments);
    let found = tool(&args);
    assert_eq!(found, expected, "{name}");
    assert!(expected.stdout.len() > 100 && expected.stderr.is_empty());
}

#[test]
fn a_program_runs_as_the_systems_linker_links_it() {
    let mut programs = 0;
    for relocation in ["-fPIC", "-fno-pic", "-fPIE"] {
        for level in ["-O0", "-O2"] {
            let name = format!("cc{level}{relocation}");
            let folder = scratch(&name);
            for (source, object) in SOURCES.iter().zip(in_folder(&folder)) {
                let source = format!("{PROGRAM}/{source}.c");
                cc(&[relocation, level, "-c", &source, "-o", &object]);
            }
            assert_same(&name, &in_folder(&folder), &ARGUMENTS);
            // It ends in the middle, and what it has registered is called.
            assert_same(&name, &in_folder(&folder), &["7", "--exit"]);
            std::fs::remove_dir_all(&folder).unwrap();
            programs += 1;
        }
    }
    for folder in std::fs::read_dir(root().join(PROGRAM)).unwrap() {
        let folder = folder.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap();
        if name.starts_with("clang") {
            assert_same(name, &in_folder(&folder), &ARGUMENTS);
            programs += 1;
        }
    }
    println!("{programs} programs");
    assert!(programs >= 10, "{programs}");
}

fn objects() -> Vec<String> {
    in_folder(&Path::new(PROGRAM).join("clang19-O2-PIC"))
}

#[test]
fn the_status_and_the_program_s_output_are_in_the_report() {
    let objects = objects();
    let mut args: Vec<&str> = vec!["link", "--format", "json"];
    args.extend(objects.iter().map(String::as_str));
    args.extend(["--args", "3"]);
    let printed = stdout(&args, 41);
    // What the program prints, the report, and what it prints when the process ends.
    let (before, report) = printed.split_once("{\n").unwrap();
    assert!(
        before.starts_with("constructors 123\n") && before.contains("1 words, mean 3.000"),
        "{before}"
    );
    let (report, after) = report.rsplit_once("}\n").unwrap();
    assert_eq!(after, "goodbye, 0\ndestructor, 0 allocations\n");
    let value: Value = serde_json::from_str(&format!("{{{report}}}")).unwrap();
    assert_eq!(
        (value["entry"].as_str(), value["status"].as_u64()),
        (Some("main"), Some(41))
    );
    assert_documented("link", &value);
}

#[test]
fn a_program_with_a_failing_check_does_not_run() {
    let file = scratch("check").join("check.s");
    let objects = objects();
    let mut args: Vec<&str> = vec!["link"];
    args.extend(objects.iter().map(String::as_str));
    args.extend(["--check", file.to_str().unwrap()]);
    std::fs::write(&file, "# jitlink-check: main = main + 1\n").unwrap();
    let printed = stdout(&args, 1);
    assert!(
        printed.contains(":1: `main = main + 1` is false: 0x"),
        "{printed}"
    );
    assert!(printed.ends_with("1 check: 1 failed\n"), "{printed}");
    // Nothing is said where everything holds.
    std::fs::write(&file, "# jitlink-check: main = main\n").unwrap();
    args.push("--args");
    let printed = stdout(&args, 40);
    assert!(printed.contains("\n0 words, mean -1.000"), "{printed}");
    std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
}

#[test]
fn what_cannot_run_is_said() {
    let objects = objects();
    let all: Vec<&str> = objects.iter().map(String::as_str).collect();
    let line = refusal(&[&["link"], &all[..], &["--entry", "start"]].concat(), 1);
    assert!(
        line.contains("has no function `start` that others may call: give --entry "),
        "{line}"
    );
    assert!(line.contains("count_words") && line.contains("main"), "{line}");
    let line = refusal(&["link", &objects[0]], 1);
    assert!(
        line.contains("does not define `count_words` (for .text"),
        "{line}"
    );
    assert!(
        line.ends_with("give --define NAME=ADDRESS, or the object that defines it\n"),
        "{line}"
    );
    let line = refusal(&["link", "asm-tests/objects/jitlink/aarch64/data.o"], 1);
    assert!(
        line.ends_with(
            "is for aarch64, and this machine executes x86_64: give --noexec to link without executing\n"
        ),
        "{line}"
    );
}

/// An object with a destructor, a shared library, the handle under which the destructor is
/// registered, and exceptions.
#[test]
fn a_program_in_cpp_uses_shared_libraries() {
    let folder = scratch("cpp");
    let source = folder.join("shapes.cpp");
    std::fs::write(
        &source,
        r#"
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

struct Log {
    std::string name;
    explicit Log(const char *text) : name(text) { std::printf("begin %s\n", name.c_str()); }
    ~Log() { std::printf("end %s\n", name.c_str()); }
};

static double root(const std::string &text) {
    Log frame("frame");
    double value = std::stod(text);
    if (value < 0)
        throw std::domain_error("below zero");
    return std::cbrt(value);
}

static Log global("a name that is too long for the string itself");

int main(int argc, char **argv) {
    static Log local("local");
    std::vector<std::string> all(argv + 1, argv + argc);
    double sum = 0;
    for (const std::string &text : all) {
        try {
            sum += root(text) + std::lgamma(argc);
        } catch (const std::invalid_argument &problem) {
            std::printf("%s is no number\n", text.c_str());
        } catch (const std::exception &problem) {
            std::printf("%s\n", problem.what());
        }
    }
    std::printf("%zu %.6f\n", all.size(), sum);
    return argc;
}
"#,
    )
    .unwrap();
    let object = folder.join("shapes.o");
    let (source, object) = (source.to_str().unwrap(), object.to_str().unwrap());
    let program = folder.join("program");
    let program = program.to_str().unwrap();
    for args in [
        &["-c", "-O1", "-fPIC", source, "-o", object][..],
        &["-no-pie", object, "-o", program],
    ] {
        match Command::new("c++").current_dir(root()).args(args).output() {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(error) => return println!("skipped: no c++: {error}"),
        }
    }
    // Exceptions of the library's and of the program's own.
    let arguments = ["8", "x", "27", "-1"];
    let expected = Command::new(program).args(arguments).output().unwrap();
    let libraries = ["--library", "libstdc++.so.6", "--library", "libm.so.6"];
    let found = tool(&[&["link", object], &libraries[..], &["--args"], &arguments].concat());
    assert_eq!(found, expected);
    assert_eq!(expected.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&expected.stdout).contains("x is no number\nbegin frame\n"));
    let line = refusal(&["link", object, "--library", "libmissing.so"], 2);
    assert!(
        line.starts_with("patchpoint: libmissing.so: cannot be loaded: "),
        "{line}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn names_that_are_not_enough_are_refused() {
    let folder = scratch("names");
    let mut objects = Vec::new();
    for (place, function) in [("a", "main"), ("b", "other")] {
        let place = folder.join(place);
        std::fs::create_dir_all(&place).unwrap();
        let (source, object) = (place.join("same.c"), place.join("same.o"));
        let text = format!("static int hidden = 5; int {function}(void) {{ return hidden++; }}\n");
        std::fs::write(&source, text).unwrap();
        cc(&[
            "-O0",
            "-c",
            source.to_str().unwrap(),
            "-o",
            object.to_str().unwrap(),
        ]);
        objects.push(object.to_str().unwrap().to_owned());
    }
    let checks = format!(
        "# jitlink-check: *{{4}}hidden = 5\n# jitlink-check: section_addr(same.o, .text) = main\n\
         # jitlink-check: section_addr({}, .text) = main\n",
        objects[0]
    );
    let file = folder.join("check.s");
    std::fs::write(&file, checks).unwrap();
    let printed = stdout(
        &[
            "link",
            &objects[0],
            &objects[1],
            "--check",
            file.to_str().unwrap(),
        ],
        1,
    );
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(
        printed.contains(":1:22: `*{4}hidden = 5`: several files have a symbol `hidden` of their own"),
        "{printed}"
    );
    assert!(
        printed.contains("several files are named `same.o`: give the path"),
        "{printed}"
    );
    assert!(printed.ends_with("3 checks: 2 failed\n"), "{printed}");
}

/// Of an archive those members are linked that something asks for, and the entry is asked for, too.
#[test]
fn members_of_archives_are_linked_that_are_asked_for() {
    let folder = scratch("archive");
    let objects = in_folder(&root().join(PROGRAM).join("clang19-O2-no-pic"));
    let archive = folder.join("liball.a");
    let archive = archive.to_str().unwrap();
    let unwanted = root().join("examples/objects/inline_cache.o");
    let mut ar = Command::new("ar");
    // The main object last: it asks for those before it.
    ar.arg("rcs")
        .arg(archive)
        .arg(unwanted)
        .args(objects.iter().rev());
    if ar.status().is_err() {
        println!("not shown: there is no `ar`");
        return;
    }
    let arguments = |files: &[&str]| {
        let args = [&["link"][..], files, &["--args"], &ARGUMENTS].concat();
        tool(&args)
    };
    let all: Vec<&str> = objects.iter().map(String::as_str).collect();
    let expected = arguments(&all);
    assert!(!expected.stdout.is_empty(), "{expected:?}");
    for files in [&[archive][..], &[archive, all[0]], &[all[0], archive]] {
        let found = arguments(files);
        assert_eq!(
            (&found.stdout, found.status),
            (&expected.stdout, expected.status),
            "{files:?}: {found:?}"
        );
    }
    // What the C library has is asked for, and the member that nobody wants is left out.
    let line = refusal(&["link", all[0], archive, "--noexec"], 1);
    let (_, undefined) = line.split_once("does not define ").unwrap();
    let names = undefined.split('`').skip(1).step_by(2);
    let defines: Vec<String> = names.map(|name| format!("--define={name}=0x1000")).collect();
    let args = ["link", all[0], archive, "--noexec"].into_iter();
    let args: Vec<&str> = args.chain(defines.iter().map(String::as_str)).collect();
    let linked = json(&args, 0);
    let symbols = list(&linked["symbols"]).iter();
    let names: Vec<&str> = symbols.map(|symbol| symbol["name"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"main") && !names.contains(&"sum_fields"),
        "{names:?}"
    );
    let line = refusal(&["link", archive, "--noexec"], 1);
    assert!(line.contains("nothing asks for a member"), "{line}");
    std::fs::remove_dir_all(folder).unwrap();
}
