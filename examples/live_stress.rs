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
//! With `--sites` other sites than LLVM's patchpoints in loaded code are stressed, one kind or
//! several at once: told and unaligned ones, code that others placed, this program's own text; and
//! with `settled` among them their code is moved from stubs in place all the time. `--help` says
//! what each is.
//!
//!     cargo run --release --example live_stress -- --disturbed --readers 2 --sites all,settled
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
#[path = "live_stress/options.rs"]
mod options;
#[path = "live_stress/stress.rs"]
mod stress;

use std::process::ExitCode;

use host::Host;

/// What can be said.
const USAGE: &str = "\
[--disturbed] [--seconds S] [--readers N] [--seed X] [--executions N] [--sites KIND,...]
  --sites       which sites there are; `loaded` if nothing is said, `all` for all that this machine has:
      loaded    LLVM's patchpoints, in an object that the engine loads
      told      nops, calls and jumps that no stack map tells of (x86-64)
      unaligned the same in five bytes that cross a quadword or a cache line (x86-64)
      remapped  LLVM's patchpoints, placed by another linker in memory of its own
      own-text  functions of this program, with the nops of patchable entries (x86-64)
      settled   whichever there are, moved from their stubs in place all the time";

fn main() -> ExitCode {
    if std::env::args().any(|option| option == "--help") {
        println!("live_stress {USAGE}");
        return ExitCode::SUCCESS;
    }
    match tell() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}\nusage: live_stress {USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Runs and reports. Returns whether all was right.
fn tell() -> Result<bool, String> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let config = options::options(cores)?;
    println!("{cores} cores, {config:?}");
    match stress::run(&config, &Host::Here) {
        Ok(totals) => {
            options::print(&config, &totals);
            Ok(totals.failures == 0)
        }
        Err(error) => {
            eprintln!("error: {error}");
            Ok(false)
        }
    }
}
