//! The sources with `jitlink-check` lines under `objects/jitlink`: that they have every relocation,
//! and that LLVM's own checker agrees with what they say. That ours does is in the tests of the
//! tool.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use patchpoint::arch::Arch;
use patchpoint::image::{Graph, Object, Relocation};

const TARGETS: [(&str, Arch); 2] = [("x86_64", Arch::X86_64), ("aarch64", Arch::AArch64)];

/// Numbers of relocations are below this.
const NUMBERS: u32 = 2048;

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("objects/jitlink")
        .join(target)
}

/// The sources of a target with their text.
fn sources(target: &str) -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(folder(target)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "s"))
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
        .collect();
    found.sort();
    found
}

/// The words of the lines of a source's head that begin so.
fn said<'t>(text: &'t str, what: &str) -> Vec<&'t str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(what));
    lines.flat_map(str::split_whitespace).collect()
}

/// How many edges of each type an object has.
fn types(object: &Path) -> BTreeMap<&'static str, usize> {
    let bytes = std::fs::read(object).unwrap();
    let graph = Graph::new("object", Object::parse(&bytes).unwrap());
    let mut found = BTreeMap::new();
    for edge in graph.sections().iter().flat_map(|section| section.edges()) {
        *found.entry(edge.relocation().name()).or_default() += 1;
    }
    found
}

#[test]
fn every_relocation_has_checks() {
    for (target, arch) in TARGETS {
        let supported = (0..NUMBERS).filter_map(|number| Relocation::from_elf(arch, number));
        let supported: BTreeSet<_> = supported.map(Relocation::name).collect();
        let mut tested = BTreeSet::new();
        for (source, text) in sources(target) {
            let object = types(&source.with_extension("o"));
            for name in said(&text, "# relocations:") {
                let count = object.get(name).copied().unwrap_or(0);
                // One that does nothing has no values to tell apart.
                let enough = if name.ends_with("_NONE") { 1 } else { 2 };
                assert!(count >= enough, "{}: {count} of {name}", source.display());
                assert!(tested.insert(name.to_owned()), "{name} is in two sources");
            }
        }
        let missing: Vec<_> = supported.iter().filter(|name| !tested.contains(**name)).collect();
        assert!(missing.is_empty(), "{target}: no checks of {missing:?}");
        println!("{target}: {} types", supported.len());
        assert!(supported.len() >= 24);
    }
}

fn llvm(tool: &str) -> Option<Command> {
    let found = asm_tests::tools::is_there(tool);
    if !found {
        println!("skipped: no {tool}");
    }
    found.then(|| Command::new(tool))
}

/// What llvm-jitlink says of a source's checks, or of those in another file.
fn jitlink(source: &Path, text: &str, checks: &Path) -> Option<Output> {
    let mut command = llvm("llvm-jitlink-19")?;
    command.args(["-noexec", "-slab-allocate=1Mb", "-slab-page-size=4096"]);
    let mut words = said(text, "# link:").into_iter();
    while let Some(word) = words.next() {
        match word {
            "--base" => command.arg(format!("-slab-address={}", words.next().unwrap())),
            "--define" => command.arg(format!("-abs={}", words.next().unwrap())),
            // It does so always.
            "--relax" => &mut command,
            other => panic!("{}: {other:?}", source.display()),
        };
    }
    command
        .arg(format!("-check={}", checks.display()))
        .arg(source.with_extension("o"));
    Some(command.output().unwrap())
}

#[test]
fn llvm_agrees_with_the_checks() {
    let (mut agreed, mut refused, mut different) = (0, 0, 0);
    for (source, text) in TARGETS.iter().flat_map(|(target, _)| sources(target)) {
        let Some(output) = jitlink(&source, &text, &source) else {
            return;
        };
        let errors = String::from_utf8_lossy(&output.stderr);
        let place = source.display();
        assert_eq!(output.status.success(), agrees(&text), "{place}: {errors}");
        match said(&text, "# llvm-jitlink:")[..] {
            [] => agreed += text.lines().filter(|line| line.starts_with(CHECK)).count(),
            ["refuses"] => {
                assert!(errors.contains("Unsupported"), "{place}: {errors}");
                refused += 1;
            }
            ["differs"] => {
                assert!(errors.contains("is false"), "{place}: {errors}");
                different += 1;
            }
            ref other => panic!("{place}: {other:?}"),
        }
    }
    println!(
        "{agreed} lines of checks hold, {refused} sources are refused, {different} is linked differently"
    );
    assert!(agreed >= 250 && refused == 2 && different == 1);
}

const CHECK: &str = "# jitlink-check:";

/// Whether llvm-jitlink is said to take a source's object, and to make of it what its checks say.
fn agrees(text: &str) -> bool {
    said(text, "# llvm-jitlink:").is_empty()
}

/// The agreement could be missing: LLVM notices every check that has another number.
#[test]
fn llvm_notices_wrong_checks() {
    for (source, text) in TARGETS.iter().flat_map(|(target, _)| sources(target)) {
        if !agrees(&text) {
            continue;
        }
        let joined = text.replace("\\\n# jitlink-check:", "");
        let checks = joined.lines().filter_map(|line| line.strip_prefix(CHECK));
        let wrong: Vec<String> = checks
            .map(|check| {
                let (left, right) = check.split_once('=').unwrap();
                format!("# jitlink-check:{left}= ({}) + 1\n", right.trim())
            })
            .collect();
        let name = format!(
            "patchpoint-{}-{}.s",
            std::process::id(),
            source.file_name().unwrap().to_str().unwrap()
        );
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, wrong.concat()).unwrap();
        let output = jitlink(&source, &text, &file);
        std::fs::remove_file(&file).unwrap();
        let Some(output) = output else { return };
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            errors.matches("is false").count(),
            wrong.len(),
            "{}: {errors}",
            source.display()
        );
    }
}

#[test]
fn the_objects_are_those_of_the_sources() {
    for (source, _) in TARGETS.iter().flat_map(|(target, _)| sources(target)) {
        let Some(mut assembler) = llvm("llvm-mc-19") else {
            return;
        };
        let target = source.parent().unwrap().file_name().unwrap().to_str().unwrap();
        assembler.args([
            &format!("-triple={target}-unknown-linux-gnu"),
            "-filetype=obj",
            "-o",
            "-",
        ]);
        let output = assembler.arg(&source).output().unwrap();
        assert!(output.status.success());
        let object = std::fs::read(source.with_extension("o")).unwrap();
        assert_eq!(output.stdout, object, "run make.sh for {}", source.display());
    }
}
