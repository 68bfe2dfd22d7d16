//! Threads execute live sites without pause while one patches, restores and invalidates them.
//!
//!     cargo run --release --example live_stress -- --seconds 60 --readers 1 --seed 1
//!
//! Prints what was exercised; the exit status says whether every result was that of a version that was current.
#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "objects/mod.rs"]
mod compiled;
#[path = "live_stress/stress.rs"]
mod stress;

use std::process::ExitCode;

use stress::{Config, Totals};

fn main() -> ExitCode {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let mut config = Config {
        seconds: 10.0,
        readers: cores.saturating_sub(1).max(1),
        seed: 1,
    };
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let Some(value) = args.next() else {
            return usage(&format!("{option} needs a value"));
        };
        let parsed = match option.as_str() {
            "--seconds" => value.parse().map(|seconds| config.seconds = seconds).is_ok(),
            "--readers" => value.parse().map(|readers| config.readers = readers).is_ok(),
            "--seed" => value.parse().map(|seed| config.seed = seed).is_ok(),
            _ => return usage(&format!("{option} is no option")),
        };
        if !parsed {
            return usage(&format!("{option}: {value} is no number"));
        }
    }
    match stress::run(config) {
        Ok(totals) => {
            println!("{cores} cores, {config:?}");
            print(&totals);
            match totals.failures {
                0 => ExitCode::SUCCESS,
                _ => ExitCode::FAILURE,
            }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
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
        ("failures", totals.failures),
    ] {
        println!("{count:>14} {what}");
    }
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("{problem}\nusage: live_stress [--seconds S] [--readers N] [--seed X]");
    ExitCode::from(2)
}
