//! The engine's protections: where each is, how to take it out, and which test then fails.
//!
//! A protection is marked in place, by a comment with its name above its first line:
//!
//! ```text
//!     // protection: compare-before
//!     self.compare(Side::Old)?;
//! ```
//!
//! What it protects and how it is taken out is in `protections/`, one text file per topic. An
//! entry:
//!
//! ```text
//! == compare-before
//! What is protected, in a sentence or two.
//! test: -p patchpoint --lib engine::tests::faults
//! within: 60
//! lines: 1
//! +    let _ = Self::compare;
//! ```
//!
//! `lines` says how many lines behind the mark go, other marks not counted; those that begin with
//! `+` come in their place. Where a protection is in several places, `lines` is there once for
//! each, and the marks of the second, the third ... are `compare-before (2)`, `compare-before (3)`.
//! Without `within:` a test that runs longer than [`PATIENCE`] counts as hung. Lines that begin
//! with `#` between entries are remarks.
//!
//! A test of every run compares the marks with the list, and shows that what goes and what comes
//! open and close the same brackets: so it notices most changes of the code that want a change of
//! the list.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Seconds after which a test that still runs counts as hung, unless the entry says otherwise.
pub const PATIENCE: u64 = 60;

/// One protection.
#[derive(Clone, Debug, Default)]
pub struct Protection {
    /// Its name, unique in the list.
    pub name: String,
    /// The file of the list that it is in.
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
    /// The package and kind of target, as cargo wants them: `-p patchpoint --lib`, `-p
    /// patchpoint-cli --bin patchpoint`.
    pub target: Vec<String>,
    /// What the names of the tests contain.
    pub filters: Vec<String>,
}

/// A change at one mark.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    /// What the mark says.
    pub mark: String,
    /// How many lines behind it go.
    pub lines: usize,
    /// The lines that take their place.
    pub new: String,
}

/// What comes before the name in a mark.
const MARK: &str = "// protection: ";

/// What a line marks, if it is a mark.
fn marked(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix(MARK)
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
    /// The mark is not in the text, or fewer lines are behind it; or what goes and what comes have
    /// not the same brackets.
    pub fn apply(&self, text: &str) -> Result<String, Problem> {
        let wrong = |what: &str| Problem(format!("{}: {what}", self.mark));
        let mut lines = text.split_inclusive('\n');
        let mut changed = String::new();
        let is_mark = |line: &str| marked(line).map(str::trim_end) == Some(&self.mark);
        loop {
            let line = lines.next().ok_or_else(|| wrong("there is no such mark"))?;
            changed.push_str(line);
            if is_mark(line) {
                break;
            }
        }
        // Other marks may come between this one and the code, and in the code.
        let mut gone = String::new();
        let mut code = lines.clone().filter(|line| marked(line).is_none());
        for _ in 0..self.lines {
            gone.push_str(
                code.next()
                    .ok_or_else(|| wrong("too few lines are behind the mark"))?,
            );
        }
        if brackets(&gone) != brackets(&self.new) {
            return Err(wrong(&format!(
                "what goes and what comes have not the same brackets:\n{gone}--\n{}",
                self.new
            )));
        }
        changed.push_str(&self.new);
        let mut left = self.lines;
        for line in lines {
            let goes = left > 0 && marked(line).is_none();
            left -= usize::from(goes);
            if !goes {
                changed.push_str(line);
            }
        }
        Ok(changed)
    }
}

/// How many brackets of each kind are opened beyond those that are closed.
fn brackets(text: &str) -> [isize; 3] {
    let count = |bracket| text.matches(bracket).count() as isize;
    [('(', ')'), ('[', ']'), ('{', '}')].map(|(open, close)| count(open) - count(close))
}

/// Every mark in the sources under a root, with its file.
///
/// # Errors
///
/// A folder or a file cannot be read, or a mark is there twice.
pub fn marks(root: &Path) -> Result<BTreeMap<String, PathBuf>, Problem> {
    let mut marks = BTreeMap::new();
    for folder in ["src", "crates"] {
        marks_under(&root.join(folder), &mut marks)?;
    }
    Ok(marks)
}

fn marks_under(folder: &Path, marks: &mut BTreeMap<String, PathBuf>) -> Result<(), Problem> {
    let cannot = |error: std::io::Error| Problem(format!("{}: {error}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.is_dir() {
            marks_under(&path, marks)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).map_err(cannot)?;
            for mark in text.lines().filter_map(marked) {
                if let Some(other) = marks.insert(mark.to_owned(), path.clone()) {
                    let (one, other) = (path.display(), other.display());
                    return Err(Problem(format!("{mark} is marked in {other} and in {one}")));
                }
            }
        }
    }
    Ok(())
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
        } else if let Some(lines) = line.strip_prefix("lines: ") {
            let one = all.last_mut().ok_or_else(|| wrong("no entry has begun"))?;
            let mark = match one.edits.len() {
                0 => one.name.clone(),
                before => format!("{} ({})", one.name, before + 1),
            };
            one.edits.push(Edit {
                mark,
                lines: lines.parse().map_err(|_| wrong("no number"))?,
                new: String::new(),
            });
            in_edit = true;
        } else {
            let one = all.last_mut().ok_or_else(|| wrong("no entry has begun"))?;
            let edit = one.edits.last_mut().filter(|_| in_edit);
            match edit {
                Some(edit) => {
                    let new = line.strip_prefix('+').ok_or_else(|| wrong("no '+'"))?;
                    edit.new.push_str(new);
                    edit.new.push('\n');
                }
                None => one.add(line).ok_or_else(|| wrong("not understood"))?,
            }
        }
    }
    let incomplete = |one: &&Protection| {
        let changes = |edit: &Edit| edit.lines > 0 || !edit.new.is_empty();
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
lines: 1
+    comes

== two
test: -p patchpoint --lib some
lines: 2
lines: 0
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
        let test = Test::read("-p patchpoint-cli --bin patchpoint some").unwrap();
        assert_eq!(test.target.join(" "), "-p patchpoint-cli --bin patchpoint");
        assert_eq!(test.filters, ["some"]);
        assert_eq!(one.test.filters, ["some", "filter"]);
        let edits = [&one.edits[0], &two.edits[0], &two.edits[1]];
        let edits = edits.map(|edit| (&*edit.mark, edit.lines, &*edit.new));
        assert_eq!(
            edits,
            [("one", 1, "    comes\n"), ("two", 2, ""), ("two (2)", 0, "\n")]
        );
        assert_eq!((two.edits.len(), two.within), (2, PATIENCE));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for wrong in [
            "words before an entry",
            "== no-test\nlines: 1",
            "== no-change\ntest: -p patchpoint --lib some",
            "== nothing-changes\ntest: -p patchpoint --lib some\nlines: 0",
            "== no-filter\ntest: -p patchpoint --lib\nlines: 1",
            "== no-plus\ntest: -p patchpoint --lib some\nlines: 1\nx",
            "== no-number\ntest: -p patchpoint --lib some\nlines: one",
        ] {
            assert!(read("list", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_change_is_of_the_lines_behind_its_mark() {
        let edit = |mark: &str, lines, new: &str| Edit {
            mark: mark.into(),
            lines,
            new: new.into(),
        };
        let text = "a\n  // protection: one\n  // protection: two\n  b(\n  // protection: three\n  c)\nd\n";
        let gone = edit("one", 2, "  new\n").apply(text).unwrap();
        let marks = "  // protection: two\n  // protection: three\n";
        assert_eq!(gone, format!("a\n  // protection: one\n  new\n{marks}d\n"));
        let added = edit("three", 0, "  e()\n").apply(text).unwrap();
        assert!(
            added.ends_with("  // protection: three\n  e()\n  c)\nd\n"),
            "{added}"
        );
        assert!(edit("two", 3, "").apply(text).is_ok());
        for wrong in [
            edit("two", 1, "  new\n"),
            edit("two", 1, ""),
            edit("two", 4, ""),
            edit("tw", 2, ""),
            edit("four", 1, ""),
        ] {
            assert!(wrong.apply(text).is_err(), "{wrong:?}");
        }
    }
}
