//! The program that the example runs: steps, each of which changes something and then calls
//! `total`.

use std::time::{Duration, Instant};

use crate::language::bytecode::{FunctionId, Method};
use crate::language::figures::Counts;
use crate::language::isolate::Isolate;
use crate::language::object::Name;
use crate::language::value::Word;

/// What an isolate's story is about: an object of class 0, whose `step` is `plus`, and one of class
/// 1, whose is `put`.
struct Cast {
    first: Word,
    second: Word,
}

/// A step.
pub(crate) struct Step {
    pub(crate) title: &'static str,
    /// What changes before.
    before: fn(&Isolate),
    /// Whether `total` is of the second object.
    second: bool,
    calls: u64,
    /// Turns of the loop in each call.
    turns: i64,
}

fn nothing(_: &Isolate) {}

/// The steps, in order.
pub(crate) const STEPS: [Step; 8] = [
    Step {
        title: "interpreted",
        before: nothing,
        second: false,
        calls: 2,
        turns: 1,
    },
    Step {
        title: "hot: compiled, caches learn",
        before: nothing,
        second: false,
        calls: 1,
        turns: 10,
    },
    Step {
        title: "on inline caches",
        before: nothing,
        second: false,
        calls: 100,
        turns: 1000,
    },
    Step {
        title: "another class",
        before: nothing,
        second: true,
        calls: 1,
        turns: 10,
    },
    Step {
        title: "a method is replaced; it sets `scale` in the third turn: out of the loop",
        before: |isolate| isolate.set_method(0, Method::Step, FunctionId::Scaler),
        second: false,
        calls: 1,
        turns: 1000,
    },
    Step {
        title: "the method is back; compiled again, with `scale`",
        before: |isolate| isolate.set_method(0, Method::Step, FunctionId::Plus),
        second: false,
        calls: 4,
        turns: 1000,
    },
    Step {
        title: "on inline caches",
        before: nothing,
        second: false,
        calls: 100,
        turns: 1000,
    },
    Step {
        title: "`scale` is 1 again: compiled without it",
        before: |isolate| isolate.set_scale(Word::ONE),
        second: false,
        calls: 100,
        turns: 1000,
    },
];

/// What a step did.
#[derive(Clone, Debug)]
pub(crate) struct StepResult {
    /// The result of each call.
    pub(crate) results: Vec<String>,
    pub(crate) turns: u64,
    pub(crate) time: Duration,
    /// What happened in the whole runtime meanwhile.
    pub(crate) counts: Counts,
    pub(crate) misses: u64,
}

/// Runs the story in an isolate. Returns what each step did, and the heap at the end.
pub(crate) fn run(isolate: &Isolate) -> (Vec<StepResult>, Vec<String>) {
    let cast = Cast {
        first: isolate.create(0),
        second: isolate.create(1),
    };
    isolate.set(cast.first, Name::Base, Word::integer(10));
    let done = STEPS.iter().map(|step| step.run(isolate, &cast)).collect();
    (done, isolate.dump())
}

impl Step {
    fn run(&self, isolate: &Isolate, cast: &Cast) -> StepResult {
        let runtime = isolate.runtime();
        let misses = || runtime.tiers().map_or(0, |tiers| tiers.caches().misses);
        let (counts, missed) = (runtime.figures.counts(), misses());
        let object = if self.second { cast.second } else { cast.first };
        let args = [object, Word::integer(self.turns)];
        let start = Instant::now();
        (self.before)(isolate);
        let results: Vec<Word> = (0..self.calls)
            .map(|_| isolate.invoke(FunctionId::Total, args))
            .collect();
        let time = start.elapsed();
        StepResult {
            results: results.into_iter().map(|word| isolate.show(word)).collect(),
            turns: self.calls * self.turns.unsigned_abs(),
            time,
            counts: runtime.figures.counts().since(counts),
            misses: misses() - missed,
        }
    }
}
