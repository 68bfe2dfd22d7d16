//! The stress of the example, for a short time.
#![cfg(target_os = "linux")]
#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "../examples/objects/mod.rs"]
mod compiled;
#[path = "../examples/elsewhere/mod.rs"]
mod elsewhere;
#[path = "../examples/live_stress/stress.rs"]
mod stress;

#[test]
fn readers_get_the_old_answer_or_the_new_one() {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let config = stress::Config {
        seconds: 3.0,
        readers: cores.saturating_sub(1).max(2),
        seed: 1,
    };
    let totals = stress::run(config, &elsewhere::Host::Here).unwrap();
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
