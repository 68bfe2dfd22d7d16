//! The examples `live_stress`, `tiny_language` and `differential` in short, with code of another
//! process.

use crate::common::{self, compiled};
use crate::compare::{self, compare};
use crate::there::{self, Watched};
use crate::told;

#[path = "../../../../examples/live_stress/stress.rs"]
mod stress;

pub(crate) use stress::symbols;

/// All the time somebody looks for a writable view of the executor's code.
#[test]
fn readers_there_get_the_old_answer_or_the_new_one() {
    let config = stress::Config {
        seconds: 3.0,
        readers: 2,
        seed: 1,
        executions: 0,
        disturbed: false,
        sites: vec![stress::SiteKind::Loaded],
        settles: true,
    };
    let executor = common::executor();
    let watched = Watched::start(&executor);
    let totals = stress::run(&config, &there::host(executor)).unwrap();
    let seen = watched.end();
    println!("{config:?}\n{totals:#?}\n{seen}");
    assert!(seen.is_right(), "{seen}");
    assert_eq!(totals.failures, 0);
    for exercised in [
        totals.executions,
        totals.patches(),
        totals.restores(),
        totals.invalidations,
        totals.reclaimed,
        totals.deoptimized,
    ] {
        assert!(exercised > 0, "{totals:?}");
    }
    let disturbed = [
        totals.signals,
        totals.children,
        totals.threads,
        totals.patches_by_handlers,
    ];
    assert_eq!(disturbed, [0; 4]);
}

#[test]
fn the_language_does_the_same_there() {
    let host = there::host(common::executor());
    told::by_one_thread(&host);
    told::by_threads(&host);
}

#[test]
fn random_programs_do_the_same_there() {
    let config = compare::Config {
        programs: 256,
        threads: 2,
        seed: 3_000_000,
    };
    let found = compare(config, &there::host(common::executor()), |_| {}).unwrap();
    println!("seeds {} and on: {found:#?}", config.seed);
    assert_eq!(found.differences, [""; 0]);
    for tally in [found.single, found.shared] {
        assert_eq!(tally.refused, 0);
        assert!(tally.installed > 0 && tally.retracted > 0, "{tally:?}");
    }
    let counts = found.single.counts.plus(found.shared.counts);
    assert!(counts.breaks > 0 && counts.left > 0, "{counts:?}");
}
