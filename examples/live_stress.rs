//! Threads execute live sites without pause while one patches, restores and invalidates them.
//!
//!     cargo run --release --example live_stress -- --seconds 60 --readers 1 --seed 1
//!
//! With `--disturbed`, profilers' signals come 1000 times a second each by two timers, on the alternate stacks that the
//! standard library gives every thread; children are forked, which execute what they have inherited while this process goes
//! on to patch; threads come and go; and handlers of invalidated sites patch. `--executions` says how many there are at
//! least:
//!
//!     cargo run --release --example live_stress -- --disturbed --readers 2 --executions 1000000000
//!
//! With the feature `remote` and `--remote`, another process executes the sites, which cannot write them, and is looked at
//! all the time for a writable view of its code:
//!
//!     cargo run --release --features remote --example live_stress -- --remote --seconds 60 --readers 1 --seed 1
//!
//! Prints what was exercised; the exit status says whether every result was that of a version that was current.
#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "objects/mod.rs"]
mod compiled;
#[path = "elsewhere/mod.rs"]
mod elsewhere;
#[path = "live_stress/stress.rs"]
mod stress;

use std::process::ExitCode;

use elsewhere::Host;
use stress::{Config, Totals};

/// What the workload is without, where another process executes the code, and why.
const NOT_THERE: &str = "\
not done with code of another process:
  - a checkpoint between two executions: a thread of the executor is outside of all code when its call has returned, so
    a reader reports that once per call of 16384 executions, and stubs are reclaimed later";

fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some(elsewhere::AS_EXECUTOR) => elsewhere::serve(&stress::symbols()).map(|()| true),
        _ => tell(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!(
                "{problem}\nusage: live_stress [--remote | --disturbed] [--seconds S] [--readers N] [--seed X] [--executions N]"
            );
            ExitCode::from(2)
        }
    }
}

/// Runs and reports. Returns whether all was right.
fn tell() -> Result<bool, String> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let (config, remote) = options(cores)?;
    println!("{cores} cores, {config:?}");
    let here = || stress::run(config, &Host::Here).map(|totals| (totals, true));
    let done = if remote { there(config)? } else { here() };
    match done {
        Ok((totals, is_right)) => {
            print(&totals);
            Ok(is_right && totals.failures == 0)
        }
        Err(error) => {
            eprintln!("error: {error}");
            Ok(false)
        }
    }
}

fn options(cores: usize) -> Result<(Config, bool), String> {
    let mut config = Config {
        seconds: 10.0,
        readers: cores.saturating_sub(1).max(1),
        seed: 1,
        executions: 0,
        disturbed: false,
    };
    let mut remote = false;
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        match option.as_str() {
            "--remote" => remote = true,
            "--disturbed" => config.disturbed = true,
            _ => {}
        }
        if remote && config.disturbed {
            return Err("--disturbed is for code of this process".into());
        }
        if matches!(option.as_str(), "--remote" | "--disturbed") {
            continue;
        }
        let value = args.next().ok_or(format!("{option} needs a value"))?;
        let parsed = match option.as_str() {
            "--seconds" => value.parse().map(|seconds| config.seconds = seconds).is_ok(),
            "--readers" => value.parse().map(|readers| config.readers = readers).is_ok(),
            "--executions" => value.parse().map(|least| config.executions = least).is_ok(),
            "--seed" => value.parse().map(|seed| config.seed = seed).is_ok(),
            _ => return Err(format!("{option} is no option")),
        };
        if !parsed {
            return Err(format!("{option}: {value} is no number"));
        }
    }
    Ok((config, remote))
}

/// With code of another process. Whether that never had, nor could have got, a writable view of it.
fn there(config: Config) -> Result<patchpoint::Result<(Totals, bool)>, String> {
    let executor = elsewhere::spawn()?;
    println!("{NOT_THERE}");
    let watched = elsewhere::Watched::start(&executor);
    let totals = stress::run(config, &Host::There(executor));
    let seen = watched.end();
    println!("{seen}");
    Ok(totals.map(|totals| (totals, seen.is_right())))
}

fn print(totals: &Totals) {
    for (what, count) in [
        ("executions", totals.executions),
        ("patches", totals.patches),
        ("restores", totals.restores),
        ("sites invalidated", totals.invalidations),
        ("executions through ramps", totals.deoptimized),
        ("modules", totals.modules),
        ("stubs reclaimed", totals.reclaimed),
        ("profilers' signals", totals.signals),
        ("children, each with all sites", totals.children),
        ("threads that came and went", totals.threads),
        ("patches by handlers", totals.patches_by_handlers),
        ("failures", totals.failures),
    ] {
        println!("{count:>14} {what}");
    }
}
