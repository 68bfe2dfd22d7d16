//! That the house has the shape that the design gives it: no crate depends on one above it, and the
//! top modules of a crate depend on each other in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The packages of the workspace from below, each with those that it may depend on.
const MAY_DEPEND_ON: [(&str, &str, &[&str]); 10] = [
    ("crates/stackmaps", "llvm-stackmaps", &[]),
    ("crates/isa", "patchpoint-isa", &["llvm-stackmaps"]),
    // It models what the engine does, and is not told by it.
    ("crates/live-model", "patchpoint-live-model", &[]),
    (
        "crates/verify",
        "patchpoint-verify",
        &["llvm-stackmaps", "patchpoint-isa"],
    ),
    (
        "crates/link",
        "patchpoint-link",
        &["llvm-stackmaps", "patchpoint-isa"],
    ),
    (
        "crates/asm",
        "patchpoint-asm",
        &["llvm-stackmaps", "patchpoint-isa"],
    ),
    (
        ".",
        "patchpoint",
        &[
            "llvm-stackmaps",
            "patchpoint-asm",
            "patchpoint-isa",
            "patchpoint-link",
            "patchpoint-verify",
        ],
    ),
    ("crates/capi", "patchpoint-capi", &["patchpoint"]),
    ("crates/cli", "patchpoint-cli", &["patchpoint"]),
    ("crates/remote", "patchpoint-remote", &["patchpoint"]),
];

/// Crates whose modules form no cycle.
const WITHOUT_CYCLES: [&str; 9] = [
    ".",
    "crates/stackmaps",
    "crates/isa",
    "crates/asm",
    "crates/verify",
    "crates/link",
    "crates/live-model",
    "crates/cli",
    "crates/remote",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names in `[dependencies]`, and those for some targets only; what only tests need binds
/// nobody.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut counts = false;
    let mut names = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            counts = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        } else if let Some((name, _)) = line.split_once('=').filter(|_| counts) {
            let name = name.trim().trim_end_matches(".workspace");
            names.insert(name.to_owned());
        }
    }
    names
}

#[test]
fn no_crate_depends_on_one_above_it() {
    let ours: BTreeSet<&str> = MAY_DEPEND_ON.map(|(_, name, _)| name).into();
    for (folder, name, allowed) in MAY_DEPEND_ON {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{folder}");
        let all = dependencies(&manifest);
        let found: Vec<&str> = all
            .iter()
            .map(String::as_str)
            .filter(|name| ours.contains(name))
            .collect();
        assert_eq!(found, allowed, "{name}");
        if allowed.is_empty() {
            assert_eq!(all, BTreeSet::new(), "{name} depends on nothing at all");
        }
    }
    let mut folders: BTreeSet<String> = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name();
        folders.insert(format!("crates/{}", name.to_str().unwrap()));
    }
    let known: BTreeSet<String> = MAY_DEPEND_ON
        .iter()
        .map(|(folder, ..)| folder.to_string())
        .collect();
    folders.retain(|folder| !known.contains(folder));
    assert!(folders.is_empty(), "what may these depend on? {folders:?}");
}

/// Which top modules of a crate name which others.
#[derive(Default)]
struct Modules {
    /// What the crate's root takes from its modules, by name.
    reexported: BTreeMap<String, String>,
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Modules {
    fn of(source: &Path) -> Self {
        let mut files: BTreeMap<String, Vec<(PathBuf, usize)>> = BTreeMap::new();
        let root = if source.join("lib.rs").exists() {
            "lib"
        } else {
            "main"
        };
        for entry in fs::read_dir(source).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if name != root && !is_of_tests(&name) {
                collect(&path, 1, files.entry(name).or_default());
            }
        }
        let names: BTreeSet<String> = files.keys().cloned().collect();
        let mut modules = Self::default();
        let root = source.join(root).with_extension("rs");
        let root = without_tests(&fs::read_to_string(root).unwrap());
        for name in &names {
            for prefix in ["", "crate::", "self::"] {
                for inner in taken(&root, &format!("pub use {prefix}{name}::")) {
                    modules.reexported.insert(inner, name.clone());
                }
            }
        }
        for (module, files) in files {
            let edges = modules.edges.entry(module.clone()).or_default();
            for (file, depth) in files {
                let text = without_tests(&fs::read_to_string(file).unwrap());
                let root = format!("{}::", vec!["super"; depth].join("::"));
                for name in named(&text, "crate::").into_iter().chain(named(&text, &root)) {
                    let target = modules.reexported.get(&name).unwrap_or(&name);
                    if names.contains(target) && *target != module {
                        edges.insert(target.clone());
                    }
                }
            }
        }
        modules
    }

    /// A way from a module back to itself, if there is one.
    fn cycle(&self) -> Option<Vec<&str>> {
        let mut done = BTreeSet::new();
        self.edges
            .keys()
            .find_map(|start| self.cycle_from(start, &mut Vec::new(), &mut done))
    }

    fn cycle_from<'a>(
        &'a self,
        module: &'a str,
        way: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Option<Vec<&'a str>> {
        if let Some(at) = way.iter().position(|before| *before == module) {
            let mut cycle = way[at..].to_vec();
            cycle.push(module);
            return Some(cycle);
        }
        if !done.insert(module) {
            return None;
        }
        way.push(module);
        let targets = self.edges.get(module).into_iter().flatten();
        let found = targets
            .into_iter()
            .find_map(|target| self.cycle_from(target, way, done));
        way.pop();
        found
    }
}

fn is_of_tests(name: &str) -> bool {
    matches!(name, "tests" | "testing" | "fuzzing")
}

/// The sources of a module, each with how many `super` it takes from there to the crate's root.
fn collect(path: &Path, depth: usize, files: &mut Vec<(PathBuf, usize)>) {
    if !path.is_dir() {
        files.push((path.to_owned(), depth));
        return;
    }
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_source = path.is_dir() || path.extension().is_some_and(|extension| extension == "rs");
        if is_source && !is_of_tests(name) {
            collect(&path, depth + usize::from(name != "mod"), files);
        }
    }
}

/// The code of a file without comments and without the modules of tests, which come last in their
/// files.
fn without_tests(text: &str) -> String {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or(""));
    let begins = |line: &str| line.starts_with("mod tests {") || line.starts_with("pub(crate) mod tests {");
    let code = code.take_while(|line| !begins(line));
    code.collect::<Vec<_>>().join("\n")
}

/// What follows a path in the code: one name, or those of a group.
fn named(code: &str, path: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(path) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|before| before.is_alphanumeric() || before == '_' || before == ':') {
            continue;
        }
        let rest = &code[at + path.len()..];
        match rest.strip_prefix('{') {
            Some(group) => group_of(group, &mut names),
            None => names.push(identifier(rest)),
        }
    }
    names
}

/// What is taken from a path, however deep below it: the last names.
fn taken(code: &str, path: &str) -> Vec<String> {
    let rests = code.split(path).skip(1);
    let lists = rests.filter_map(|rest| rest.split(';').next());
    let members = lists.flat_map(|list| list.split([',', '{', '}']));
    let last = |member: &str| identifier(member.rsplit([':', ' ']).next().unwrap_or(member));
    let names = members.map(str::trim).map(last);
    names.filter(|name| !name.is_empty()).collect()
}

/// The first names of a group's members.
fn group_of(group: &str, names: &mut Vec<String>) {
    let (mut depth, mut starts) = (0_u32, true);
    for (at, character) in group.char_indices() {
        match character {
            '}' if depth == 0 => return,
            '}' => depth -= 1,
            '{' => depth += 1,
            ',' if depth == 0 => starts = true,
            _ if starts && depth == 0 && !character.is_whitespace() => {
                names.push(identifier(&group[at..]));
                starts = false;
            }
            _ => {}
        }
    }
}

fn identifier(text: &str) -> String {
    let is_of_it = |character: &char| character.is_alphanumeric() || *character == '_';
    text.chars().take_while(is_of_it).collect()
}

#[test]
fn modules_depend_in_one_direction() {
    for folder in WITHOUT_CYCLES {
        let modules = Modules::of(&root().join(folder).join("src"));
        let edges: usize = modules.edges.values().map(BTreeSet::len).sum();
        println!("{folder}: {} modules, {edges} edges", modules.edges.len());
        assert!(edges > 0, "{folder}: nothing was understood");
        assert_eq!(modules.cycle(), None, "{folder}");
    }
}

#[test]
fn a_cycle_is_found() {
    let code = "use crate::{a::X, b::{c, d}, e};\nlet x = super::super::f::g(); // crate::no\nmod tests {\ncrate::never";
    let code = without_tests(code);
    assert_eq!(named(&code, "crate::"), ["a", "b", "e"]);
    assert_eq!(named(&code, "super::super::"), ["f"]);
    assert_eq!(named(&code, "super::"), ["super"]);
    let root = "pub use a::X;\npub use a::b::{Y, c::Z as W};\nuse a::V;";
    assert_eq!(taken(root, "pub use a::"), ["X", "Y", "W"]);
    let edge = |from: &str, to: &[&str]| (from.to_owned(), to.iter().map(|to| (*to).to_owned()).collect());
    let modules = |edges: &[(&str, &[&str])]| Modules {
        edges: edges.iter().map(|(from, to)| edge(from, to)).collect(),
        ..Modules::default()
    };
    assert_eq!(
        modules(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]).cycle(),
        None
    );
    let cycle = modules(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]);
    assert_eq!(cycle.cycle().unwrap(), ["b", "c", "b"]);
}

/// Public names that several rooms define, and why that is one meaning.
const PER_ROOM: [(&str, &str); 4] = [
    ("Error", "what can go wrong in a crate or a room of the engine"),
    ("ErrorKind", "the coarse kinds of a crate's errors"),
    ("Result", "a result with the room's own error"),
    (
        "MemoryFile",
        "one per operating system, of which one is compiled: `src/memory/sys`",
    ),
];

/// The public types, traits and aliases that a file defines. Fields and functions are no such
/// names: those belong to their types.
fn public_names(code: &str) -> Vec<String> {
    let name_of = |line: &str| {
        let item = line.trim_start().strip_prefix("pub ")?;
        let item = item.strip_prefix("unsafe ").unwrap_or(item);
        let (kind, name) = item.split_once(' ')?;
        let is_named = matches!(kind, "struct" | "enum" | "trait" | "type" | "union");
        // What a macro names has none here.
        (is_named && !name.starts_with('$')).then(|| identifier(name))
    };
    code.lines().filter_map(name_of).collect()
}

/// By name, the files that define it publicly.
fn names_of(folder: &Path, found: &mut BTreeMap<String, Vec<String>>) {
    let mut files = Vec::new();
    collect(folder, 0, &mut files);
    for (file, _) in files {
        let code = without_tests(&fs::read_to_string(&file).unwrap());
        for name in public_names(&code) {
            let file = file.strip_prefix(root()).unwrap();
            found
                .entry(name)
                .or_default()
                .push(file.to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn no_public_name_means_two_things() {
    let mut found = BTreeMap::new();
    names_of(&root().join("src"), &mut found);
    for member in fs::read_dir(root().join("crates")).unwrap() {
        names_of(&member.unwrap().path().join("src"), &mut found);
    }
    println!("{} public names", found.len());
    assert!(found.len() > 300, "nothing was understood");
    for (name, why) in PER_ROOM {
        let places = found.remove(name).unwrap_or_default().len();
        assert!(
            places > 1,
            "`{name}` is defined once: it needs no exception ({why})"
        );
    }
    found.retain(|_, files| files.len() > 1);
    assert!(found.is_empty(), "defined more than once: {found:#?}");
}

#[test]
fn public_names_are_found() {
    let code = "pub struct A<T>(T);\npub(crate) struct B;\n    pub unsafe trait C: D {\npub type E = F;\n\
        pub fn g() {\n    pub field: H,\nenum I {\npub use j::K;\npub union L {";
    assert_eq!(public_names(code), ["A", "C", "E", "L"]);
}

/// What an architecture is called in code, each by all of its names.
const ARCHITECTURES: [&[&str]; 5] = [
    &["X86_64", "\"x86_64\""],
    &["AArch64", "Aarch64", "\"aarch64\""],
    &["PowerPc64", "\"powerpc64\""],
    &["SystemZ", "\"s390x\""],
    &["RiscV64", "\"riscv64\""],
];

/// The files outside of architectures' own that name nearly all of them: where another is to be
/// named, too.
fn that_name_architectures(folder: &Path, found: &mut BTreeSet<String>) {
    const OWN: [&str; 5] = ["x86_64", "aarch64", "powerpc64", "systemz", "riscv64"];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if OWN.contains(&name) || is_of_tests(name) || name.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            that_name_architectures(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let code = without_tests(&fs::read_to_string(&path).unwrap());
            let named = ARCHITECTURES
                .iter()
                .filter(|names| names.iter().any(|name| code.contains(name)));
            if named.count() >= 4 {
                let path = path.strip_prefix(root()).unwrap();
                found.insert(path.to_str().unwrap().to_owned());
            }
        }
    }
}

/// The files that the page names: those of a table's row, in the room named in it or above
/// it.
fn on_the_page(page: &str) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    let mut room = String::new();
    for row in page.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let quoted = |cell: &str| cell.strip_prefix('`')?.strip_suffix('`').map(str::to_owned);
        match *cells {
            [head, _, named, _] => {
                if let Some(head) = quoted(head) {
                    room = head + "/";
                }
                files.extend(quoted(named).map(|file| format!("{room}{file}")));
            }
            [named, _] => files.extend(quoted(named)),
            _ => {}
        }
    }
    files
}

#[test]
fn the_page_for_another_architecture_names_its_places() {
    let page = fs::read_to_string(root().join("guide/src/adding-an-architecture.md")).unwrap();
    let mut found = BTreeSet::new();
    for folder in ["src", "crates", "asm-tests/src"] {
        that_name_architectures(&root().join(folder), &mut found);
    }
    let listed = on_the_page(&page);
    let missing: Vec<&String> = found.difference(&listed).collect();
    let stale: Vec<&String> = listed.difference(&found).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "not on the page: {missing:?}; on the page, but naming no architectures: {stale:?}"
    );
    println!("{} files name all architectures", found.len());
    assert!(found.len() > 10, "{found:?}");
}

/// The names of all tests below a folder: functions right behind their attribute, other attributes
/// and comments between.
fn tests_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") {
                tests_below(&path, found);
            }
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for behind in text.split("#[test]\n").skip(1) {
            let function = behind.lines().map(str::trim).find(|line| {
                !line.is_empty() && !line.starts_with("#[") && !line.starts_with("//") && *line != ")]"
            });
            let name = function.and_then(|line| line.strip_prefix("fn ")?.split('(').next());
            found.extend(name.map(str::to_owned));
        }
    }
}

/// What stands in backquotes and looks like a test's name: a sentence of at least four words.
fn sentences(page: &str) -> impl Iterator<Item = &str> {
    let is_sentence = |word: &&str| {
        let of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        word.bytes().all(of_name) && word.matches('_').count() >= 3
    };
    page.split('`').skip(1).step_by(2).filter(is_sentence)
}

#[test]
fn every_test_that_is_named_for_a_promise_is_there() {
    let page = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let mut tests = BTreeSet::new();
    for folder in ["src", "crates", "tests", "asm-tests"] {
        tests_below(&root().join(folder), &mut tests);
    }
    let named: BTreeSet<&str> = sentences(&page).collect();
    let missing: Vec<&&str> = named.iter().filter(|name| !tests.contains(**name)).collect();
    println!("{} tests are named, of {}", named.len(), tests.len());
    assert!(missing.is_empty(), "no test has these names: {missing:?}");
    assert!(named.len() > 60 && tests.len() > 1000);
}
