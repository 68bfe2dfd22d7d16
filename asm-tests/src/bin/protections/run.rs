//! Building and running a test, and what came of it.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use asm_tests::protections::Test;

use crate::Result;
use crate::tree::Tree;

/// What runs a test.
pub enum Program {
    /// This.
    Binary(PathBuf),
    /// Cargo, for each anew.
    Documentation,
}

/// What came of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// That many tests, all of which passed.
    Passed(usize),
    /// The tests that failed.
    Failed(Vec<String>),
    /// It was still running at its time limit.
    Hung,
    /// A signal ended it.
    Crashed(i32),
    /// The sources do not compile; the first error.
    NotCompiled(String),
    /// The test does not pass with nothing taken out, so that it shows nothing.
    NotTried,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(tests) => write!(f, "NOT NOTICED by {tests} tests"),
            Self::Failed(names) if names.is_empty() => {
                f.write_str("noticed: it failed without naming a test")
            }
            Self::Failed(names) => write!(f, "noticed: {} failed", names.join(", ")),
            Self::Hung => f.write_str("noticed: hung"),
            Self::Crashed(signal) => write!(f, "noticed: crashed, signal {signal}"),
            Self::NotCompiled(error) => write!(f, "DOES NOT COMPILE: {error}"),
            Self::NotTried => f.write_str("NOT TRIED: its test is wrong with nothing taken out"),
        }
    }
}

impl Outcome {
    /// The word under which it is counted.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Passed(_) => "NOT NOTICED",
            Self::Failed(_) => "noticed by a failed test",
            Self::Hung => "noticed by a hung one",
            Self::Crashed(_) => "noticed by a crash",
            Self::NotCompiled(_) => "NOT COMPILED",
            Self::NotTried => "NOT TRIED",
        }
    }

    /// Whether a test noticed.
    pub fn is_noticed(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Hung | Self::Crashed(_))
    }
}

/// Builds a test from the sources as they are now, and runs it.
pub fn run(tree: &Tree, test: &Test, within: u64) -> Result<Outcome> {
    match build(tree, test)? {
        Ok(program) => execute(tree, &program, test, within),
        Err(error) => Ok(Outcome::NotCompiled(error)),
    }
}

/// Runs a test of a program that was built.
pub fn execute(tree: &Tree, program: &Program, test: &Test, within: u64) -> Result<Outcome> {
    let mut command = match program {
        Program::Binary(path) => Command::new(path),
        Program::Documentation => {
            let mut command = cargo(tree);
            command.arg("test").args(&test.target).arg("--");
            command
        }
    };
    command
        .args(&test.filters)
        .current_dir(package_folder(tree, test));
    let output = tree.dir.join("output");
    // Not a pipe: a child that the test forked and that hangs would hold it open.
    let to = File::create(&output)?;
    command.stdout(to.try_clone()?).stderr(to);
    let ended = wait(command.process_group(0).spawn()?, Duration::from_secs(within))?;
    let said = String::from_utf8_lossy(&fs::read(&output)?).into_owned();
    Ok(outcome(ended, &said))
}

fn outcome(ended: Option<ExitStatus>, said: &str) -> Outcome {
    let Some(status) = ended else {
        return Outcome::Hung;
    };
    if let Some(signal) = status.signal() {
        return Outcome::Crashed(signal);
    }
    let results = || said.lines().filter_map(|line| line.strip_prefix("test "));
    if status.success() {
        return Outcome::Passed(results().filter(|line| line.ends_with(" ok")).count());
    }
    let failed = results().filter_map(|line| line.strip_suffix(" ... FAILED"));
    Outcome::Failed(failed.map(String::from).collect())
}

/// Waits for the end; ends the whole group of processes when time is up.
fn wait(mut child: Child, within: Duration) -> Result<Option<ExitStatus>> {
    let began = Instant::now();
    while began.elapsed() < within {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        sleep(Duration::from_millis(20));
    }
    let group = format!("-{}", child.id());
    Command::new("kill").args(["-KILL", "--", &group]).status()?;
    child.wait()?;
    Ok(None)
}

/// The program with the test, or the first error.
pub fn build(tree: &Tree, test: &Test) -> Result<std::result::Result<Program, String>> {
    let mut cargo = cargo(tree);
    match test.is_doc() {
        true => cargo
            .arg("build")
            .args(test.target.iter().filter(|word| *word != "--doc")),
        false => cargo.args(["test", "--no-run"]).args(&test.target),
    };
    let done = cargo.output()?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    if !done.status.success() {
        let error = said.lines().find(|line| line.starts_with("error"));
        return Ok(Err(error.unwrap_or("cargo failed").to_owned()));
    }
    if test.is_doc() {
        return Ok(Ok(Program::Documentation));
    }
    let program = said
        .lines()
        .find(|line| line.trim_start().starts_with("Executable"));
    let path = program.and_then(|line| Some(line.rsplit_once('(')?.1.trim_end_matches(')')));
    let path = path.ok_or_else(|| format!("cargo names no program:\n{said}"))?;
    Ok(Ok(Program::Binary(tree.root.join(path))))
}

fn cargo(tree: &Tree) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(&tree.root)
        .env("CARGO_TARGET_DIR", tree.dir.join("target"));
    // Nobody debugs what is built here.
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
    cargo
}

/// Where cargo runs the tests of the package.
fn package_folder(tree: &Tree, test: &Test) -> PathBuf {
    match test.target.get(1).map(String::as_str) {
        Some("patchpoint") | None => tree.root.clone(),
        // `patchpoint-isa` is in `crates/isa`.
        Some(package) => match package
            .strip_prefix("patchpoint-")
            .or(package.strip_prefix("llvm-"))
        {
            Some(name) => tree.root.join("crates").join(name),
            None => tree.root.join(package),
        },
    }
}
