//! What the story must do wherever its code is executed: for the tests.

use patchpoint::ic::Counting;

use crate::host::Host;
use crate::language::isolate::Isolate;
use crate::language::runtime::Runtime;
use crate::language::tier::Options;
use crate::story::{self, STEPS, StepResult};

const OPTIONS: Options = Options {
    threads: false,
    hot: 3,
    patience: 10,
    counting: Counting::Plain,
};

fn expected() -> (Vec<StepResult>, Vec<String>) {
    story::run(&Isolate::new(&Runtime::plain(), 0))
}

fn assert_same(found: &(Vec<StepResult>, Vec<String>), expected: &(Vec<StepResult>, Vec<String>)) {
    for ((step, found), expected) in STEPS.iter().zip(&found.0).zip(&expected.0) {
        assert_eq!(found.results, expected.results, "{}", step.title);
    }
    assert_eq!(found.1, expected.1);
}

/// One thread tiers up, is deoptimized in the loop, and tiers up again.
pub(crate) fn by_one_thread(host: &Host) {
    let runtime = Runtime::tiered(OPTIONS, host).unwrap();
    let isolate = Isolate::new(&runtime, 0);
    let found = story::run(&isolate);
    assert_same(&found, &expected());
    let [plain, hot, cached, other, broken, again, careful, renewed] = found.0.as_slice() else {
        panic!("{} steps", found.0.len());
    };
    // Twice `total` and twice `plus`.
    assert_eq!((plain.counts.tier_ups, plain.counts.interpreted), (0, 4));
    assert_eq!(hot.counts.tier_ups, 2);
    for on_caches in [cached, careful] {
        assert_eq!((on_caches.misses, on_caches.counts.interpreted), (0, 0));
    }
    assert_eq!((other.counts.tier_ups, other.counts.left), (1, 0));
    assert!(other.misses > 0);
    assert_eq!((broken.counts.breaks, broken.counts.left), (1, 1));
    assert_eq!(broken.counts.tier_ups, 0);
    assert_eq!((again.counts.tier_ups, again.counts.left), (1, 0));
    assert_eq!((renewed.counts.retired, renewed.counts.tier_ups), (1, 1));
    let caches = runtime.tiers().unwrap().caches();
    assert!(caches.hits > 100_000, "{caches:?}");
    assert!(caches.retracted > 0, "{caches:?}");
}

/// Threads share code, and have the same results.
pub(crate) fn by_threads(host: &Host) {
    let options = Options {
        threads: true,
        counting: Counting::Atomic,
        ..OPTIONS
    };
    let runtime = Runtime::tiered(options, host).unwrap();
    let expected = expected();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (runtime, expected) = (&runtime, &expected);
            scope.spawn(move || assert_same(&story::run(&Isolate::new(runtime, number)), expected));
        }
    });
    let counts = runtime.figures.counts();
    assert!(counts.breaks > 0 && counts.left > 0, "{counts:?}");
}
