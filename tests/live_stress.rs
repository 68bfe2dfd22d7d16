//! The stress of the example, for a short time.
#![cfg(target_os = "linux")]
#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "../examples/objects/mod.rs"]
mod compiled;
#[path = "../examples/host/mod.rs"]
mod host;
#[path = "../examples/live_stress/stress.rs"]
mod stress;

#[test]
fn readers_get_the_old_answer_or_the_new_one() {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let config = stress::Config {
        seconds: 3.0,
        readers: cores.saturating_sub(1).max(2),
        seed: 1,
        executions: 0,
        disturbed: false,
        settles: false,
    };
    let totals = stress::run(config, &host::Host::Here).unwrap();
    println!("{config:?}\n{totals:#?}");
    assert_eq!(totals.failures, 0);
    for exercised in [
        totals.executions,
        totals.patches,
        totals.restores,
        totals.invalidations,
        totals.reclaimed,
        totals.deoptimized,
    ] {
        assert!(exercised > 0, "{totals:?}");
    }
}

/// The short form of what the example does with `--disturbed`.
#[test]
fn beside_profilers_forks_threads_that_come_and_go_and_handlers_that_patch() {
    let config = stress::Config {
        seconds: 4.0,
        readers: 2,
        seed: 2,
        executions: 100_000,
        disturbed: true,
        settles: true,
    };
    let totals = stress::run(config, &host::Host::Here).unwrap();
    println!("{config:?}\n{totals:#?}");
    assert_eq!(totals.failures, 0);
    for exercised in [
        totals.executions,
        totals.patches,
        totals.invalidations,
        totals.signals,
        totals.children,
        totals.threads,
        totals.patches_by_handlers,
        totals.opens,
    ] {
        assert!(exercised > 0, "{totals:?}");
    }
}
