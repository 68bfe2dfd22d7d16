//! The example `live_stress` with another process: it executes the sites, which it cannot write,
//! and is looked at all the time for a writable view of its code.
//!
//!     cargo run --release -p patchpoint-remote --example remote_live_stress -- --seconds 60 --readers 1 --seed 1
//!
//! Prints what was exercised; the exit status says whether every result was that of a version that
//! was current.
#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[cfg(target_os = "linux")]
#[path = "../../../examples/objects/mod.rs"]
mod compiled;
#[cfg(target_os = "linux")]
#[path = "../../../examples/host/mod.rs"]
mod host;
#[cfg(target_os = "linux")]
#[path = "../../../examples/live_stress/options.rs"]
mod options;
#[cfg(target_os = "linux")]
#[path = "../../../examples/live_stress/stress.rs"]
mod stress;
#[cfg(target_os = "linux")]
mod there;

use std::process::ExitCode;

/// What the workload is without, and why.
#[cfg(target_os = "linux")]
const NOT_THERE: &str = "\
not done with code of another process:
  - a checkpoint between two executions: a thread of the executor is outside of all code when its call has returned, so
    a reader reports that once per call of 16384 executions, and stubs are reclaimed later";

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some(there::AS_EXECUTOR) => there::serve(&stress::symbols()).map(|()| true),
        _ => tell(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!(
                "{problem}\nusage: remote_live_stress [--seconds S] [--readers N] [--seed X] [--executions N] \
                 [--sites loaded,settled]"
            );
            ExitCode::from(2)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("only on Linux a process can execute what another one writes");
    ExitCode::from(2)
}

/// Runs and reports. Returns whether all was right, and the executor never had, nor could have got,
/// a writable view of its code.
#[cfg(target_os = "linux")]
fn tell() -> Result<bool, String> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let config = options::options(cores)?;
    if config.disturbed {
        return Err("--disturbed is for code of this process".into());
    }
    if config.sites != [stress::SiteKind::Loaded] {
        return Err("--sites: only loaded ones can be another process's".into());
    }
    println!("{cores} cores, {config:?}\n{NOT_THERE}");
    let executor = there::spawn()?;
    let watched = there::Watched::start(&executor);
    let totals = stress::run(&config, &there::host(executor));
    let seen = watched.end();
    println!("{seen}");
    match totals {
        Ok(totals) => {
            options::print(&config, &totals);
            Ok(seen.is_right() && totals.failures == 0)
        }
        Err(error) => {
            eprintln!("error: {error}");
            Ok(false)
        }
    }
}
