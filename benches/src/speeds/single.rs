//! One patch against b, alone and beside a thread that executes patched code, and what others that
//! patch code take for one: all in turn, as `compare` does it.

use super::{Goal, Speed};
use crate::compare::{self, B, Entry, Job};

const BARE: &str = "bare store of 8 bytes, serialize";

/// Who does it, and what that is, alone and beside a thread.
const WAYS: [(&str, [&str; 2], Goal); 7] = [
    (
        "alias",
        [
            "commit of a prepared patch, alone",
            "commit of a prepared patch, beside a thread",
        ],
        Goal::AtMost(2.0),
    ),
    (
        "alias-patch",
        [
            "patch(id, sequence) of a shape that was seen, alone",
            "patch(id, sequence) of a shape that was seen, beside a thread",
        ],
        Goal::None,
    ),
    (
        "xray",
        [
            "XRay's patch of one function, of two sleds, alone",
            "XRay's patch of one function, of two sleds, beside a thread",
        ],
        Goal::None,
    ),
    (
        "retour",
        ["retour's detour, alone", "retour's detour, beside a thread"],
        Goal::None,
    ),
    (
        "static-keys",
        [
            "static-keys' branch, alone",
            "static-keys' branch, beside a thread",
        ],
        Goal::None,
    ),
    (
        "asmkit",
        [
            "asmkit's rewrite of a region, not serialized, alone",
            "asmkit's rewrite of a region, not serialized, beside a thread",
        ],
        Goal::None,
    ),
    (
        "region",
        [
            "region's protection and a copy, alone",
            "region's protection and a copy, beside a thread",
        ],
        Goal::None,
    ),
];

/// One patch by each, and a batch against XRay's.
pub(super) fn all() -> Vec<Speed> {
    let mut who = WAYS.map(|(who, ..)| who).to_vec();
    who.push(B);
    let beside = [0, 1].map(|threads| compare::some(Job::Single, threads, &who));
    let row = |(who, what, goal): (&str, [&'static str; 2], Goal), threads: usize| {
        let entries = &beside[threads];
        let Ok(ours) = outcome(entries, who) else {
            println!("{}: - it is not here", what[threads]);
            return None;
        };
        Some(Speed {
            what: what[threads],
            ours,
            theirs: Some((BARE, outcome(entries, B))),
            goal,
        })
    };
    let both = |way| [row(way, 0), row(way, 1)];
    let mut rows: Vec<Speed> = WAYS.into_iter().flat_map(both).flatten().collect();
    rows.push(batch());
    rows
}

fn batch() -> Speed {
    let entries = compare::some(Job::Batch, 0, &["alias", "xray"]);
    Speed {
        what: "batch, per site, compared and read back",
        ours: outcome(&entries, "alias").unwrap(),
        theirs: Some((
            "XRay's patch of all its sleds, per sled",
            outcome(&entries, "xray"),
        )),
        goal: Goal::AtMost(1.0),
    }
}

fn outcome(entries: &[Entry], who: &str) -> Result<crate::measure::Figure, &'static str> {
    let mut all = entries.iter();
    let entry = all.find(|entry| entry.who == who).unwrap();
    entry.outcome.clone()
}
