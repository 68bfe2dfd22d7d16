//! The library beside others that patch code, in one run: what each takes for the same job,
//! alternately, alone and beside threads that execute patched code.
//!
//! Every way changes bytes of executable memory each time, between two states, and is timed around
//! what its users call: whatever can be made ready before is. Ours are commits of prepared
//! transactions, compared and read back, and whole patches. Some of the others do less than that and
//! some more, so the limits are beside, measured as `ratios` does: the bare stores and system calls.

mod limits;
mod ours;
mod peers;
mod report;
mod single;
mod xray;

use std::time::Duration;

pub(crate) use report::B;
pub use report::{json, table};

use crate::busy::Busy;
use crate::commits::{Way, in_turn};
use crate::measure::Figure;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// One place is changed.
    Single,
    /// A thousand places are changed as one.
    Batch,
    /// One place is changed that threads may execute, who see it soon.
    Eventual,
    /// The same, and every thread sees it before the call returns.
    Immediate,
    /// A function with a hundred places is made to be left.
    Invalidate,
}

impl Job {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Single,
        Self::Batch,
        Self::Eventual,
        Self::Immediate,
        Self::Invalidate,
    ];

    /// Its name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Batch => "batch-1000",
            Self::Eventual => "live-eventual",
            Self::Immediate => "live-immediate",
            Self::Invalidate => "invalidate-100",
        }
    }

    /// What one time is of.
    pub const fn per(self) -> &'static str {
        match self {
            Self::Batch => "site",
            _ => "patch",
        }
    }

    const fn batches(self) -> usize {
        match self {
            Self::Invalidate | Self::Batch => 31,
            _ => 101,
        }
    }
}

/// One way to do a job.
struct Contender {
    /// Whose.
    who: &'static str,
    /// How many times the job is done in a batch.
    operations: usize,
    /// Does a batch and returns the time that counts.
    batch: Box<dyn FnMut() -> Duration>,
    /// Whether each operation is timed by itself.
    one_by_one: bool,
    /// Does it in a process with busy threads of its own, while ours rest.
    in_another_process: bool,
}

impl Contender {
    fn new(who: &'static str, operations: usize, batch: impl FnMut() -> Duration + 'static) -> Self {
        Self {
            who,
            operations,
            batch: Box::new(batch),
            one_by_one: false,
            in_another_process: false,
        }
    }
}

impl Contender {
    /// The way beside those threads.
    fn beside(mut self, busy: &Busy) -> Way<'_> {
        let batch = move || {
            let took = match self.in_another_process {
                true => busy.while_paused(&mut self.batch),
                false => (self.batch)(),
            };
            took.as_nanos() as f64 / self.operations as f64
        };
        Way {
            one_by_one: self.one_by_one,
            batch: Box::new(batch),
        }
    }
}

/// A way, or why there is none.
type Offer = Result<Contender, Cannot>;

/// Who cannot do a job, and why.
#[derive(Clone, Copy, Debug)]
struct Cannot {
    who: &'static str,
    why: &'static str,
}

const fn cannot(who: &'static str, why: &'static str) -> Offer {
    Err(Cannot { who, why })
}

/// What came of one way to do a job.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The job.
    pub job: Job,
    /// Whose way.
    pub who: &'static str,
    /// How many threads were executing meanwhile.
    pub threads: usize,
    /// Nanoseconds, or why it cannot be done.
    pub outcome: Result<Figure, &'static str>,
}

/// Measures everything, beside so many threads.
pub fn all(threads: usize) -> Vec<Entry> {
    let busy = Busy::start(threads);
    let entries = Job::ALL
        .into_iter()
        .flat_map(|job| measured(job, &busy, |_| true))
        .collect();
    busy.stop();
    entries
}

/// Measures one job as some do it, beside so many threads.
pub(crate) fn some(job: Job, threads: usize, who: &[&str]) -> Vec<Entry> {
    let busy = Busy::start(threads);
    let entries = measured(job, &busy, |one| who.contains(&one));
    busy.stop();
    entries
}

fn measured(job: Job, busy: &Busy, who: impl Fn(&str) -> bool) -> Vec<Entry> {
    let offers = [
        single::offers(job),
        ours::offers(job),
        limits::offers(job),
        peers::offers(job),
        xray::offers(job, busy.threads()),
    ];
    let (mut ways, mut refused) = (Vec::new(), Vec::new());
    for offer in offers.into_iter().flatten() {
        match offer {
            Ok(way) if who(way.who) => ways.push(way),
            Err(cannot) if who(cannot.who) => refused.push(cannot),
            _ => {}
        }
    }
    let names: Vec<_> = ways.iter().map(|way| way.who).collect();
    let figures = in_turn(
        job.batches(),
        ways.into_iter().map(|way| way.beside(busy)).collect(),
    );
    let entry = |who, outcome| Entry {
        job,
        who,
        threads: busy.threads(),
        outcome,
    };
    let measured = names
        .into_iter()
        .zip(figures)
        .map(|(who, figure)| entry(who, Ok(figure)));
    let refused = refused.iter().map(|cannot| entry(cannot.who, Err(cannot.why)));
    measured.chain(refused).collect()
}
