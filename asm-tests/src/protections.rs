//! The list of the engine's protections: what each is, how to take it out, and which test then fails.
//!
//! The list stands in `protections/`, one text file per topic. An entry:
//!
//! ```text
//! == compare-before
//! What is protected, in a sentence or two.
//! test: -p patchpoint --lib engine::tests::faults
//! within: 60
//! file: src/engine/write.rs
//!  a line that stays
//! -a line that goes
//! +a line that comes
//! ```
//!
//! Every line after `file:` up to the next empty line begins with one character that says what becomes of it, as in
//! a diff: blank, `-` or `+`. The lines that stay and go together must be in the file exactly once. An entry
//! may change several places: more lines of `file:`. Without `within:` a test that runs longer than
//! [`PATIENCE`] counts as hung. Lines that begin with `#` between entries are remarks.

use std::fmt;
use std::path::{Path, PathBuf};

/// Seconds after which a test that still runs counts as hung, unless the entry says otherwise.
pub const PATIENCE: u64 = 60;

/// One protection.
#[derive(Clone, Debug, Default)]
pub struct Protection {
    /// Its name, unique in the list.
    pub name: String,
    /// The file of the list in which it stands.
    pub listed_in: String,
    /// What is protected.
    pub what: String,
    /// The test that notices when it is missing.
    pub test: Test,
    /// Seconds after which the test counts as hung.
    pub within: u64,
    /// What takes it out.
    pub edits: Vec<Edit>,
}

/// Which tests are run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Test {
    /// The package and kind of target, as cargo wants them: `-p patchpoint --lib`, `-p patchpoint --features cli --bin patchpoint`.
    pub target: Vec<String>,
    /// What the names of the tests contain.
    pub filters: Vec<String>,
}

/// A change to one file.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    /// The file, from the root of the repository.
    pub file: String,
    /// Whole lines that are there, exactly once.
    pub old: String,
    /// The lines that take their place.
    pub new: String,
}

/// What is wrong with the list.
#[derive(Clone, Debug)]
pub struct Problem(String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Problem {}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self
            .target
            .iter()
            .chain(&self.filters)
            .map(String::as_str)
            .collect();
        f.write_str(&words.join(" "))
    }
}

impl Test {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace().map(String::from).peekable();
        let mut target: Vec<String> = words.by_ref().take(2).collect();
        if words.peek().is_some_and(|word| word == "--features") {
            target.extend(words.by_ref().take(2));
        }
        let kind = words.next()?;
        let known =
            target.first()? == "-p" && matches!(kind.as_str(), "--lib" | "--doc" | "--test" | "--bin");
        let is_named = matches!(kind.as_str(), "--test" | "--bin");
        let is_small = kind == "--test";
        target.push(kind);
        if is_named {
            target.push(words.next()?);
        }
        let filters: Vec<String> = words.collect();
        // All tests of a library or of the tool are too many.
        let narrow = is_small || !filters.is_empty();
        (known && narrow).then_some(Self { target, filters })
    }

    /// Whether it is a test in documentation, which has no program of its own.
    #[must_use]
    pub fn is_doc(&self) -> bool {
        self.target.iter().any(|word| word == "--doc")
    }
}

impl Edit {
    /// The file's text with this change.
    ///
    /// # Errors
    ///
    /// When the old lines are not there exactly once.
    pub fn apply(&self, text: &str) -> Result<String, Problem> {
        // Whole lines: from one line's end to another's.
        let (text, old) = (format!("\n{text}"), format!("\n{}", self.old));
        let times = text.match_indices(&old).count();
        if times != 1 || self.old.is_empty() {
            let (file, old) = (&self.file, &self.old);
            return Err(Problem(format!("{file} has these lines {times} times:\n{old}")));
        }
        let changed = text.replacen(&old, &format!("\n{}", self.new), 1);
        Ok(changed.strip_prefix('\n').unwrap_or(&changed).to_owned())
    }
}

/// Where the list is.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("protections")
}

/// The whole list, in the order of the files' names.
///
/// # Errors
///
/// The place and what is wrong there.
pub fn read_all() -> Result<Vec<Protection>, Problem> {
    let cannot = |error: std::io::Error| Problem(format!("{}: {error}", folder().display()));
    let files = std::fs::read_dir(folder()).map_err(cannot)?;
    let mut files: Vec<PathBuf> = files.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "txt"));
    files.sort();
    let mut all: Vec<Protection> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(cannot)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        all.extend(read(&name, &text)?);
    }
    for (at, one) in all.iter().enumerate() {
        if all.iter().take(at).any(|other| other.name == one.name) {
            return Err(Problem(format!("{} is there twice", one.name)));
        }
    }
    Ok(all)
}

/// The entries of one file of the list.
///
/// # Errors
///
/// The line and what is wrong there.
pub fn read(file: &str, text: &str) -> Result<Vec<Protection>, Problem> {
    let mut all: Vec<Protection> = Vec::new();
    let mut in_edit = false;
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &str| Problem(format!("{file}:{}: {what}: {line}", number + 1));
        if let Some(name) = line.strip_prefix("== ") {
            in_edit = false;
            all.push(Protection {
                name: name.to_owned(),
                listed_in: file.to_owned(),
                within: PATIENCE,
                ..Protection::default()
            });
        } else if line.is_empty() {
            in_edit = false;
        } else if !in_edit && line.starts_with('#') {
        } else if let Some(file) = line.strip_prefix("file: ") {
            let one = all.last_mut().ok_or_else(|| wrong("no entry has begun"))?;
            one.edits.push(Edit {
                file: file.to_owned(),
                ..Edit::default()
            });
            in_edit = true;
        } else {
            let one = all.last_mut().ok_or_else(|| wrong("no entry has begun"))?;
            let edit = one.edits.last_mut().filter(|_| in_edit);
            match edit {
                Some(edit) => edit
                    .add(line)
                    .ok_or_else(|| wrong("neither ' ' nor '-' nor '+'"))?,
                None => one.add(line).ok_or_else(|| wrong("not understood"))?,
            }
        }
    }
    let incomplete = |one: &&Protection| {
        let changes = |edit: &Edit| !edit.old.is_empty() && edit.old != edit.new;
        one.test.target.is_empty() || one.edits.is_empty() || !one.edits.iter().all(changes)
    };
    match all.iter().find(incomplete) {
        Some(one) => Err(Problem(format!("{file}: {} lacks a test or a change", one.name))),
        None => Ok(all),
    }
}

impl Protection {
    fn add(&mut self, line: &str) -> Option<()> {
        if let Some(test) = line.strip_prefix("test: ") {
            self.test = Test::read(test)?;
        } else if let Some(seconds) = line.strip_prefix("within: ") {
            self.within = seconds.parse().ok()?;
        } else {
            let gap = if self.what.is_empty() { "" } else { " " };
            self.what.push_str(gap);
            self.what.push_str(line);
        }
        Some(())
    }
}

impl Edit {
    fn add(&mut self, line: &str) -> Option<()> {
        let (sides, text) = match (line.get(..1)?, line.get(1..)?) {
            (" ", text) => ([true, true], text),
            ("-", text) => ([true, false], text),
            ("+", text) => ([false, true], text),
            _ => return None,
        };
        for (side, takes) in [&mut self.old, &mut self.new].into_iter().zip(sides) {
            if takes {
                side.push_str(text);
                side.push('\n');
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
# A remark.

== one
It says
what.
test: -p patchpoint --test name some filter
within: 5
file: a
 stays
-    goes
+    comes

== two
test: -p patchpoint --lib some
file: b
-goes
file: c
-goes
+
";

    #[test]
    fn entries_are_read() {
        let all = read("list", LIST).unwrap();
        let [one, two] = all.as_slice() else {
            panic!("{all:?}")
        };
        assert_eq!(
            (one.name.as_str(), one.what.as_str(), one.within),
            ("one", "It says what.", 5)
        );
        assert_eq!(one.test.target, ["-p", "patchpoint", "--test", "name"]);
        let test = Test::read("-p patchpoint --features cli --bin patchpoint some").unwrap();
        assert_eq!(
            test.target.join(" "),
            "-p patchpoint --features cli --bin patchpoint"
        );
        assert_eq!(test.filters, ["some"]);
        assert_eq!(one.test.filters, ["some", "filter"]);
        assert_eq!(one.edits[0].old, "stays\n    goes\n");
        assert_eq!(one.edits[0].new, "stays\n    comes\n");
        assert_eq!((two.edits.len(), two.within), (2, PATIENCE));
        assert_eq!(two.edits[1].new, "\n");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for wrong in [
            "words before an entry",
            "== no-test\nfile: a\n-x",
            "== no-change\ntest: -p patchpoint --lib some",
            "== nothing-changes\ntest: -p patchpoint --lib some\nfile: a\n x",
            "== no-filter\ntest: -p patchpoint --lib\nfile: a\n-x",
            "== no-mark\ntest: -p patchpoint --lib some\nfile: a\nx",
        ] {
            assert!(read("list", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_change_is_of_whole_lines_that_are_there_once() {
        let edit = |old: &str| Edit {
            old: old.into(),
            new: "new\n".into(),
            ..Edit::default()
        };
        assert_eq!(edit("a\n").apply("a\nb\n").unwrap(), "new\nb\n");
        assert_eq!(edit("b\n").apply("a\nb\nab\n").unwrap(), "a\nnew\nab\n");
        assert!(edit("a\n").apply("a\nb\na\n").is_err());
        assert!(edit("c\n").apply("a\nb\n").is_err());
        assert!(edit("").apply("a\n").is_err());
    }
}
