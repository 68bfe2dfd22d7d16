//! LLVM XRay, which patches the entries and exits of its own process's functions: in a program of its own, which is
//! compiled by clang where there is one.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use super::{Job, Offer, Way, cannot};

/// Single patches in a batch of the program.
const SINGLES: usize = 16;
/// Its functions have two sleds each, besides those of `main`.
const SLEDS: usize = 1024;

/// Patching one function, of two sleds, and all.
pub(super) fn offers(job: Job, threads: usize) -> Vec<Offer> {
    let way = |letter, operations| match Program::start(threads) {
        Some(mut program) => Ok(Way {
            elsewhere: true,
            ..Way::new("xray", operations, move || program.batch(letter))
        }),
        None => cannot("xray", "there is no clang with XRay's runtime here"),
    };
    vec![match job {
        Job::Single => way("s", SINGLES),
        Job::Batch => way("b", SLEDS),
        Job::Eventual | Job::Immediate => cannot("xray", "only its own sleds, to its own trampolines"),
        Job::Invalidate => return Vec::new(),
    }]
}

struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Where the program is; `None` if it cannot be compiled.
fn compiled() -> Option<&'static Path> {
    static COMPILED: OnceLock<Option<PathBuf>> = OnceLock::new();
    COMPILED
        .get_or_init(|| {
            let to = std::env::temp_dir().join(format!("patchpoint-xray-{}", std::process::id()));
            ["clang++-19", "clang++"]
                .into_iter()
                .find_map(|clang| compile(clang, &to))
        })
        .as_deref()
}

fn compile(clang: &str, to: &Path) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/xray/main.cc");
    let done = Command::new(clang)
        .args(["-O2", "-pthread", "-fxray-instrument", "-o"])
        .arg(to)
        .arg(source)
        .stderr(Stdio::null())
        .status();
    done.ok()?.success().then(|| to.to_path_buf())
}

impl Program {
    fn start(threads: usize) -> Option<Self> {
        let mut child = Command::new(compiled()?)
            .arg(threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        Some(Self {
            input: child.stdin.take()?,
            output: BufReader::new(child.stdout.take()?),
            child,
        })
    }

    fn batch(&mut self, letter: &str) -> Duration {
        writeln!(self.input, "{letter}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        Duration::from_nanos(line.trim().parse().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
