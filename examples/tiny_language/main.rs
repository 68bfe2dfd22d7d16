//! A small dynamic language that starts in an interpreter and becomes fast by patching.
//!
//! A function that is called often gets the version that LLVM compiled (`examples/objects/tiny`): its property accesses and
//! method calls are patchpoints, which become inline caches. One of them takes a global for granted; a method that it
//! calls in a loop sets that global, so its code is invalidated while it is on the stack, and the interpreter goes on in the
//! middle of the loop. Then it tiers up again. The same program is run once more by several threads, which share code,
//! caches and assumptions.
//!
//!     cargo run --release --example tiny_language
//!
//! With the feature `remote` and `--remote`, another process executes the compiled code, and cannot write it. The
//! interpreter and the runtime stay here: misses and deoptimizations come here and go back.
//!
//!     cargo run --release --features remote --example tiny_language -- --remote
//!
//! The language is in `language/`; begin with its `mod.rs`.
#![allow(unsafe_code, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[path = "../elsewhere/mod.rs"]
mod elsewhere;
mod language;
mod story;

use std::process::ExitCode;
use std::sync::Arc;

use elsewhere::Host;
use language::figures::Events;
use language::isolate::Isolate;
use language::runtime::Runtime;
use language::tier::Options;
use patchpoint::ic::Counting;
use story::{Done, STEPS};

const THREADS: u32 = 4;

fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        None => run(&Host::Here),
        Some("--remote") => elsewhere::spawn().and_then(|executor| run(&Host::There(executor))),
        Some(elsewhere::AS_EXECUTOR) => elsewhere::serve(&[]).map(|()| true),
        Some(other) => Err(format!("{other} is no option\nusage: tiny_language [--remote]")),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("a result is not the interpreter's");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(host: &Host) -> Result<bool, String> {
    tell(host).map_err(|error| error.to_string())
}

/// Runs and reports. Returns whether all results are right.
fn tell(host: &Host) -> patchpoint::Result<bool> {
    let (expected, heap) = story::run(&Isolate::new(&Runtime::plain(), 0));
    let is_right = |(done, end): &(Vec<Done>, Vec<String>)| {
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
fn together(runtime: &Arc<Runtime>) -> Vec<(Vec<Done>, Vec<String>)> {
    std::thread::scope(|scope| {
        let start = |number| scope.spawn(move || story::run(&Isolate::new(runtime, number)));
        let running: Vec<_> = (0..THREADS).map(start).collect();
        let done = running
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"));
        done.collect()
    })
}

fn steps(done: &[Done], plain: &[Done]) {
    println!(
        "{:>9} {:>8} {:>8} {:>11} {:>11} {:>7}",
        "ns/turn", "(plain)", "compiled", "interpreted", "left inside", "misses"
    );
    for ((step, done), plain) in STEPS.iter().zip(done).zip(plain) {
        let nanos = |done: &Done| done.time.as_nanos() as f64 / done.turns as f64;
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
    line("functions given up for other reasons", &figures.retired);
    line("times a class changed", &figures.retractions);
    println!("  {:>6} frames left in the middle", figures.counts().left);
    if let Some(tiers) = runtime.tiers() {
        let caches = tiers.caches();
        println!(
            "  {} hits, {} misses, {} entries installed, {} taken back; {} bytes of stubs",
            caches.hits,
            caches.misses,
            caches.installed,
            caches.retracted,
            tiers.stub_bytes()
        );
    }
}
