//! The differential test of the example `differential`, in short, and what it must have met to mean
//! anything.
#![allow(unsafe_code, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[path = "../examples/differential/compare.rs"]
mod compare;
#[path = "../examples/host/mod.rs"]
mod host;
#[path = "../examples/tiny_language/language/mod.rs"]
mod language;
#[path = "../examples/differential/program.rs"]
mod program;
#[path = "../examples/differential/random.rs"]
mod random;

use compare::{Config, compare};

/// Emulators are slow, and show nothing of threads.
const PROGRAMS: u64 = if cfg!(emulated) { 128 } else { 2000 };
const THREADS: usize = if cfg!(emulated) { 0 } else { 2 };

#[test]
fn random_programs_do_the_same_on_patched_code() {
    let config = Config {
        programs: PROGRAMS,
        threads: THREADS,
        seed: 1_000_000,
    };
    let found = compare(config, &host::Host::Here, |_| {}).unwrap();
    println!("seeds {} and on: {found:#?}", config.seed);
    assert_eq!(found.differences, [""; 0]);
    let shared = (THREADS > 0).then_some(found.shared);
    for tally in [Some(found.single), shared].into_iter().flatten() {
        assert_eq!(tally.refused, 0);
        assert!(tally.installed > 0 && tally.retracted > 0, "{tally:?}");
        let counts = tally.counts;
        assert!(
            counts.breaks > 0 && counts.left > 0 && counts.rare_exits > 0,
            "{counts:?}"
        );
    }
}
