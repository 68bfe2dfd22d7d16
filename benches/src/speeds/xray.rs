//! Patching against LLVM XRay, as `compare` does it.

use super::{Goal, Speed};
use crate::compare::{self, Entry, Job};

/// Single patches alone and beside a thread that executes patched code, and a batch.
pub(super) fn all() -> Vec<Speed> {
    vec![
        one(Job::Single, 0, "single patch, alone", Goal::Faster(25.0)),
        one(
            Job::Single,
            1,
            "single patch, another thread running",
            Goal::Faster(300.0),
        ),
        one(
            Job::Batch,
            0,
            "batch, per site, compared and read back",
            Goal::AtMost(1.0),
        ),
    ]
}

fn one(job: Job, threads: usize, what: &'static str, goal: Goal) -> Speed {
    let entries = compare::some(job, threads, &["alias", "xray"]);
    let outcome = |who| {
        let mut all = entries.iter();
        all.find(|entry: &&Entry| entry.who == who)
            .unwrap()
            .outcome
            .clone()
    };
    Speed {
        what,
        ours: outcome("alias").unwrap(),
        theirs: Some((
            match job {
                Job::Batch => "XRay's patch of all its sleds, per sled",
                _ => "XRay's patch of one function",
            },
            outcome("xray"),
        )),
        goal,
    }
}
