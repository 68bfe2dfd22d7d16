//! Takes out each protection of the list in turn, and shows that a test notices.
//!
//! `cargo run -p asm-tests --bin protections [-- [--only NAME]... [--list] [--dir DIR]]`
//!
//! The last commit is checked out into a folder of its own (`target/protections`, or DIR), which
//! keeps its builds, so that each protection costs one incremental build. `--only` takes the
//! entries whose names contain NAME. The exit status says whether every test passes as long as
//! nothing is taken out, and every protection is noticed when it is.

mod run;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use asm_tests::protections::{Protection, Test, read_all};
use run::{Outcome, build, execute, run};
use tree::Tree;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Default)]
struct Options {
    only: Vec<String>,
    list: bool,
    dir: Option<PathBuf>,
}

impl Options {
    fn read() -> Result<Self> {
        let mut options = Self::default();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--list" => options.list = true,
                "--only" => options.only.push(words.next().ok_or("--only wants a name")?),
                "--dir" => options.dir = Some(words.next().ok_or("--dir wants a folder")?.into()),
                other => return Err(format!("{other}? There are --only NAME, --list and --dir DIR").into()),
            }
        }
        Ok(options)
    }

    fn takes(&self, one: &Protection) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| one.name.contains(only))
    }
}

fn main() -> Result<ExitCode> {
    let options = Options::read()?;
    let mut all = read_all()?;
    all.retain(|one| options.takes(one));
    if all.is_empty() {
        return Err("no entry has such a name".into());
    }
    if options.list {
        for one in &all {
            println!("{}: {}\n    {}", one.name, one.what, one.test);
        }
        return Ok(ExitCode::SUCCESS);
    }
    // What is built from the same sources one after the other costs least.
    all.sort_by_key(|one| one.test.target.clone());
    let tree = Tree::check_out(options.dir)?;
    let began = Instant::now();
    let wrong = wrong_beforehand(&tree, &all)?;
    say(&format!("the tests themselves: {} s", began.elapsed().as_secs()));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unnoticed = 0;
    for one in &all {
        let began = Instant::now();
        let outcome = match wrong.contains(&one.test) {
            true => Outcome::NotTried,
            false => {
                let _taken = tree.take_out(one)?;
                run(&tree, &one.test, one.within)?
            }
        };
        let seconds = began.elapsed().as_secs();
        say(&format!("{}: {}: {outcome} ({seconds} s)", one.name, one.test));
        *counts.entry(outcome.kind()).or_default() += 1;
        unnoticed += usize::from(!outcome.is_noticed());
    }
    let counts: Vec<String> = counts.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    let (all, counts, seconds) = (all.len(), counts.join(", "), began.elapsed().as_secs());
    say(&format!("{all} protections: {counts}; {seconds} s"));
    Ok(match unnoticed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Runs each test once with nothing taken out: those that do not pass, or are not there, show
/// nothing.
fn wrong_beforehand<'a>(tree: &Tree, all: &'a [Protection]) -> Result<BTreeSet<&'a Test>> {
    let mut tests: BTreeMap<&Test, u64> = BTreeMap::new();
    for one in all {
        let within = tests.entry(&one.test).or_default();
        *within = one.within.max(*within);
    }
    let (mut wrong, mut built) = (BTreeSet::new(), None);
    // In the order of their targets, each of which is built once.
    for (test, within) in tests {
        let program = match built.take() {
            Some((target, program)) if target == &test.target => Ok(program),
            _ => build(tree, test)?,
        };
        let program = program.map_err(|error| format!("with nothing taken out: {error}"))?;
        let found = match execute(tree, &program, test, within)? {
            Outcome::Passed(0) => Some("no such test".to_owned()),
            Outcome::Passed(_) => None,
            other => Some(other.to_string()),
        };
        if let Some(found) = found {
            say(&format!("WITH NOTHING TAKEN OUT: {test}: {found}"));
            wrong.insert(test);
        }
        built = Some((&test.target, program));
    }
    Ok(wrong)
}

/// Prints a line at once, also into a file.
fn say(line: &str) {
    println!("{line}");
    let _ = std::io::stdout().flush();
}
