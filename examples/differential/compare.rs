//! Runs programs three times: plainly interpreted, on patched code, and on patched code that
//! several threads share.

use std::sync::Arc;

use patchpoint::Result;
use patchpoint::ic::Counting;

use crate::language::figures::Counts;
use crate::language::isolate::Isolate;
use crate::language::runtime::Runtime;
use crate::language::tier::Options;

use super::program::{Outcome, Program};
use crate::host::Host;

/// How many programs follow each other in one runtime: its code and caches are those that the
/// programs before left.
const PER_RUNTIME: u64 = 64;

/// What is to be compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) programs: u64,
    /// How many run each program in one runtime; 0 for no such runtime.
    pub(crate) threads: usize,
    /// The seed of the first program; each further one has the next.
    pub(crate) seed: u64,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) programs: u64,
    pub(crate) instructions: u64,
    pub(crate) differences: Vec<String>,
    /// What happened with one thread, and with several.
    pub(crate) single: Tally,
    pub(crate) shared: Tally,
}

/// What happened in runtimes of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    pub(crate) misses: u64,
    pub(crate) installed: u64,
    pub(crate) retracted: u64,
    pub(crate) refused: u64,
    pub(crate) shared: u64,
}

impl Tally {
    fn add(&mut self, runtime: &Runtime) {
        self.counts = self.counts.plus(runtime.figures.counts());
        if let Some(tiers) = runtime.tiers() {
            let caches = tiers.caches();
            self.misses += caches.misses;
            self.installed += caches.installed;
            self.retracted += caches.retracted;
            self.refused += caches.refused;
            self.shared += tiers.shared();
        }
    }
}

/// Compares, and tells how far it is.
///
/// # Errors
/// An engine cannot be built here.
pub(crate) fn compare(config: Config, host: &Host, mut progress: impl FnMut(&Findings)) -> Result<Findings> {
    let mut found = Findings::default();
    let end = config.seed + config.programs;
    let mut seed = config.seed;
    while seed < end {
        let seeds = seed..end.min(seed + PER_RUNTIME);
        seed = seeds.end;
        let programs: Vec<Program> = seeds.map(Program::new).collect();
        some(&programs, config.threads, host, &mut found)?;
        progress(&found);
    }
    Ok(found)
}

/// The programs of one runtime.
fn some(programs: &[Program], threads: usize, host: &Host, found: &mut Findings) -> Result<()> {
    let plain = Runtime::plain();
    let isolate = Isolate::new(&plain, 0);
    let expected: Vec<Outcome> = programs.iter().map(|program| program.run(&isolate)).collect();
    found.programs += programs.len() as u64;
    found.instructions += programs
        .iter()
        .map(|program| program.ops.len() as u64)
        .sum::<u64>();

    let counting = [Counting::Off, Counting::Plain, Counting::Atomic];
    let options = Options {
        threads: false,
        hot: 3,
        patience: 10,
        counting: counting[(programs[0].seed / PER_RUNTIME % 3) as usize],
    };
    let runtime = Runtime::tiered(options, host)?;
    found
        .differences
        .extend(on_patched(&runtime, 0, programs, &expected, 0));
    found.single.add(&runtime);

    if threads == 0 {
        return Ok(());
    }
    let shared = Options {
        threads: true,
        ..options
    };
    let runtime = Runtime::tiered(shared, host)?;
    let differences = std::thread::scope(|scope| {
        let start = |thread: usize| {
            let (runtime, expected) = (&runtime, &expected);
            // Each thread begins at another one.
            let first = thread * programs.len() / threads;
            scope.spawn(move || on_patched(runtime, thread as u32, programs, expected, first))
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        let done = running
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"));
        done.flatten().collect::<Vec<String>>()
    });
    found.differences.extend(differences);
    found.shared.add(&runtime);
    Ok(())
}

/// Runs the programs in one isolate, the one at `first` first. Returns the differences.
fn on_patched(
    runtime: &Arc<Runtime>,
    isolate: u32,
    programs: &[Program],
    expected: &[Outcome],
    first: usize,
) -> Vec<String> {
    let isolate = Isolate::new(runtime, isolate);
    let all = programs.iter().zip(expected);
    let rotated = all.clone().skip(first).chain(all.take(first));
    rotated
        .filter_map(|(program, expected)| difference(program, expected, &program.run(&isolate)))
        .collect()
}

/// Where a program went another way.
fn difference(program: &Program, expected: &Outcome, found: &Outcome) -> Option<String> {
    if expected == found {
        return None;
    }
    let mut results = expected.results.iter().zip(&found.results).enumerate();
    let what = match results.find(|(_, (expected, found))| expected != found) {
        Some((at, (expected, found))) => {
            let op = program.ops[at];
            format!("{found} instead of {expected} by instruction {at}, {op:?}")
        }
        None => {
            let mut heap = expected.heap.iter().zip(&found.heap);
            let object = heap.find(|(expected, found)| expected != found);
            format!("in the heap at the end: {object:?}")
        }
    };
    Some(format!("program of seed {}: {what}", program.seed))
}
