//! Threads execute live sites without pause while one patches, restores and invalidates them.
//!
//!     cargo run --release --example live_stress -- --seconds 60 --readers 1 --seed 1
//!
//! With `--disturbed`, profilers' signals come 1000 times a second each by two timers, on the
//! alternate stacks that the standard library gives every thread; children are forked, which
//! execute what they have inherited while this process goes on to patch; threads come and go; and
//! handlers of invalidated sites patch. `--executions` says how many there are at least:
//!
//!     cargo run --release --example live_stress -- --disturbed --readers 2 --executions 1000000000
//!
//! With `--sites settled` the code of sites is moved from their stubs in place all the time.
//!
//! With `-p patchpoint-remote --example remote_live_stress` another process executes the sites,
//! which cannot write them, and is looked at all the time for a writable view of its code.
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

#[path = "objects/mod.rs"]
mod compiled;
mod host;
#[path = "live_stress/stress.rs"]
mod stress;
#[path = "live_stress/told.rs"]
mod told;

use std::process::ExitCode;

use host::Host;

fn main() -> ExitCode {
    match tell() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!(
                "{problem}\nusage: live_stress [--disturbed] [--seconds S] [--readers N] [--seed X] [--executions N] [--sites loaded,settled]"
            );
            ExitCode::from(2)
        }
    }
}

/// Runs and reports. Returns whether all was right.
fn tell() -> Result<bool, String> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let config = told::options(cores)?;
    println!("{cores} cores, {config:?}");
    match stress::run(config, &Host::Here) {
        Ok(totals) => {
            told::print(&totals);
            Ok(totals.failures == 0)
        }
        Err(error) => {
            eprintln!("error: {error}");
            Ok(false)
        }
    }
}
