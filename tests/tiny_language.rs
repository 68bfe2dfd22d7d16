//! The example `tiny_language` does what its output says, with the results of its interpreter.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

#[path = "../examples/tiny_language/language/mod.rs"]
mod language;
#[allow(dead_code, reason = "the times are for the example")]
#[path = "../examples/tiny_language/story.rs"]
mod story;

use language::isolate::Isolate;
use language::runtime::Runtime;
use language::tier::Options;
use patchpoint::ic::Counting;
use story::{Done, STEPS};

const OPTIONS: Options = Options {
    threads: false,
    hot: 3,
    patience: 10,
    counting: Counting::Plain,
};

fn expected() -> (Vec<Done>, Vec<String>) {
    story::run(&Isolate::new(&Runtime::plain(), 0))
}

fn assert_same(found: &(Vec<Done>, Vec<String>), expected: &(Vec<Done>, Vec<String>)) {
    for ((step, found), expected) in STEPS.iter().zip(&found.0).zip(&expected.0) {
        assert_eq!(found.results, expected.results, "{}", step.title);
    }
    assert_eq!(found.1, expected.1);
}

#[test]
fn one_thread_tiers_up_deoptimizes_in_the_loop_and_tiers_up_again() {
    let runtime = Runtime::tiered(OPTIONS).unwrap();
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

#[test]
#[cfg_attr(emulated, ignore = "an emulator shows nothing of live patching")]
fn threads_share_code_and_have_the_same_results() {
    let runtime = Runtime::tiered(Options {
        threads: true,
        counting: Counting::Atomic,
        ..OPTIONS
    })
    .unwrap();
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
