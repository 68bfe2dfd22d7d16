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

use stress::{Config, SiteKind, Totals};

/// Runs the stress of some kinds of sites for a short time. Nothing is wrong, and all of it was
/// exercised.
fn run(config: Config) -> Totals {
    let totals = stress::run(&config, &host::Host::Here).unwrap();
    println!("{config:?}\n{totals:#?}");
    assert_eq!(totals.failures, 0);
    assert!(totals.executions > 0 && totals.reclaimed > 0 && totals.closes > 0);
    assert!(totals.patches() > totals.restores());
    for kind in config.sites {
        let done = totals.kind(kind);
        assert!(done.patches > done.calls && done.calls > 0, "{kind}: {done:?}");
        assert!(done.restores > 0, "{kind}: {done:?}");
        assert!(done.again > 0 || !kind.comes_again(), "{kind}: {done:?}");
        let by_traps = matches!(kind, SiteKind::Unaligned | SiteKind::OwnText);
        assert!(totals.traps > 0 || !by_traps, "{totals:?}");
        // Sites that are not given up come to no exit stubs.
        if !kind.is_running() {
            assert!(totals.invalidations > 0 && totals.deoptimized > 0, "{totals:?}");
        }
    }
    totals
}

/// One kind, or none where it is for another machine.
fn run_one(kind: SiteKind) {
    if !kind.is_available() {
        return;
    }
    run(Config {
        seconds: 1.0,
        readers: 2,
        seed: 1,
        executions: 0,
        disturbed: false,
        sites: vec![kind],
        settles: false,
    });
}

#[test]
fn readers_get_the_old_answer_or_the_new_one() {
    run_one(SiteKind::Loaded);
}

#[test]
fn at_sites_that_no_stack_map_tells_of() {
    run_one(SiteKind::Told);
}

#[test]
fn at_sites_that_no_store_can_change() {
    run_one(SiteKind::Unaligned);
}

#[test]
fn in_code_that_others_placed() {
    run_one(SiteKind::Remapped);
}

#[test]
fn in_functions_of_this_program() {
    run_one(SiteKind::OwnText);
}

/// The short form of what the example does with `--disturbed --sites all,settled`.
#[test]
fn beside_profilers_forks_threads_that_come_and_go_and_handlers_that_patch() {
    let available = SiteKind::ALL.into_iter().filter(|kind| kind.is_available());
    let totals = run(Config {
        seconds: 4.0,
        readers: 2,
        seed: 2,
        executions: 100_000,
        disturbed: true,
        sites: available.collect(),
        settles: true,
    });
    for exercised in [
        totals.signals,
        totals.children,
        totals.threads,
        totals.patches_by_handlers,
        totals.opens,
        totals.waits,
    ] {
        assert!(exercised > 0, "{totals:?}");
    }
}
