//! Programs that others' libraries are compiled into, to be measured in a process of their own:
//! told by lines what to do, they answer each with a line.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program that is running. It ends when this is dropped.
pub(crate) struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts it.
    pub(crate) fn start(program: &Path, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Option<Self> {
        let mut child = Command::new(program)
            .args(args)
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

    /// Asks, and waits for the answer: numbers.
    pub(crate) fn ask(&mut self, line: &str) -> Vec<u64> {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        let numbers = answer.split_whitespace();
        numbers.map(|number| number.parse().unwrap()).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A file of this process in the folder for temporary ones.
pub(crate) fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("patchpoint-{name}-{}", std::process::id()))
}

/// The program that clang makes of a source in this package; `None` if there is no clang that can.
pub(crate) fn compiled(name: &str, source: &str, args: &[&str]) -> Option<PathBuf> {
    let to = temporary(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let compiles = |clang: &&str| {
        let mut command = Command::new(clang);
        command.args(args).arg(&source).arg("-o").arg(&to);
        let done = command.stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    };
    ["clang++-19", "clang++"].iter().find(|clang| compiles(clang))?;
    Some(to)
}
