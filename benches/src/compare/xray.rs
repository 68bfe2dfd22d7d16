//! LLVM XRay, which patches the entries and exits of its own process's functions: in a program of
//! its own, which is compiled by clang where there is one.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use super::{Contender, Job, Offer, cannot};
use crate::program::{self, Program};

/// Single patches in a batch of the program.
const SINGLES: usize = 16;
/// Its functions have two sleds each, besides those of `main`.
const SLEDS: usize = 1024;

/// Patching one function, of two sleds, and all.
pub(super) fn offers(job: Job, threads: usize) -> Vec<Offer> {
    let way = |letter, operations| match start(threads) {
        Some(mut program) => Ok(Contender {
            in_another_process: true,
            ..Contender::new("xray", operations, move || {
                Duration::from_nanos(program.ask(letter)[0])
            })
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

/// Where the program is; `None` if it cannot be compiled.
fn compiled() -> Option<&'static Path> {
    static COMPILED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let compile = || {
        let args = ["-O2", "-pthread", "-fxray-instrument"];
        program::compiled("xray", "xray/main.cc", &args)
    };
    COMPILED.get_or_init(compile).as_deref()
}

fn start(threads: usize) -> Option<Program> {
    Program::start(compiled()?, [threads.to_string()])
}
