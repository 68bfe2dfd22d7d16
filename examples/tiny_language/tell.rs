//! What the story's steps did, and what they took.

use std::sync::Arc;

use patchpoint::ic::Counting;

use crate::host::Host;
use crate::language::figures::Events;
use crate::language::isolate::Isolate;
use crate::language::runtime::Runtime;
use crate::language::tier::Options;
use crate::story::{self, STEPS, StepResult};

const THREADS: u32 = 4;

/// Runs and reports. Returns whether all results are right.
pub(crate) fn tell(host: &Host) -> patchpoint::Result<bool> {
    let (expected, heap) = story::run(&Isolate::new(&Runtime::plain(), 0));
    let is_right = |(done, end): &(Vec<StepResult>, Vec<String>)| {
        *end == heap
            && done
                .iter()
                .zip(&expected)
                .all(|(one, other)| one.results == other.results)
    };
    let options = Options {
        threads: false,
        hot: 3,
        patience: 10,
        counting: Counting::Plain,
    };

    println!("One thread: sites are patched in place");
    let runtime = Runtime::tiered(options, host)?;
    let isolate = Isolate::new(&runtime, 0);
    let single = story::run(&isolate);
    let mut right = is_right(&single);
    steps(&single.0, &expected);
    costs(&runtime);

    println!("\n{THREADS} threads: sites are live, and nobody is stopped");
    let shared = Options {
        threads: true,
        counting: Counting::Atomic,
        ..options
    };
    let runtime = Runtime::tiered(shared, host)?;
    right &= together(&runtime).iter().all(is_right);
    costs(&runtime);
    let verdict = if right {
        "All results are"
    } else {
        "NOT all results are"
    };
    println!("\n{verdict} those of the interpreter.");
    Ok(right)
}

/// The story, in as many isolates at once.
fn together(runtime: &Arc<Runtime>) -> Vec<(Vec<StepResult>, Vec<String>)> {
    std::thread::scope(|scope| {
        let start = |number| scope.spawn(move || story::run(&Isolate::new(runtime, number)));
        let running: Vec<_> = (0..THREADS).map(start).collect();
        let done = running
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"));
        done.collect()
    })
}

fn steps(done: &[StepResult], plain: &[StepResult]) {
    println!(
        "{:>9} {:>8} {:>8} {:>11} {:>11} {:>7}",
        "ns/turn", "(plain)", "compiled", "interpreted", "left inside", "misses"
    );
    for ((step, done), plain) in STEPS.iter().zip(done).zip(plain) {
        let nanos = |done: &StepResult| done.time.as_nanos() as f64 / done.turns as f64;
        println!(
            "{:>9.1} {:>8.1} {:>8} {:>11} {:>11} {:>7}   {}",
            nanos(done),
            nanos(plain),
            done.counts.tier_ups,
            done.counts.interpreted,
            done.counts.left,
            done.misses,
            step.title
        );
    }
}

fn costs(runtime: &Runtime) {
    let line = |what: &str, events: &Events| {
        let micros = events.time().as_nanos() as f64 / 1000.0 / events.count().max(1) as f64;
        println!("  {:>6} {what:<48} {micros:>9.1} us each", events.count());
    };
    let figures = &runtime.figures;
    line(
        "functions compiled: loaded, registered, caches",
        &figures.tier_ups,
    );
    line("times an assumption broke", &figures.breaks);
    line("functions retired for other reasons", &figures.retired);
    line("times a class changed", &figures.retractions);
    println!("  {:>6} frames left in the middle", figures.counts().left);
    if let Some(tiers) = runtime.tiers() {
        let caches = tiers.caches();
        println!(
            "  {} hits, {} misses, {} entries installed, {} shared, {} retracted; {} bytes of stubs",
            caches.hits,
            caches.misses,
            caches.installed,
            tiers.shared(),
            caches.retracted,
            tiers.stub_bytes()
        );
    }
}
