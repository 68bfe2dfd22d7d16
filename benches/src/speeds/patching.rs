//! `patch(id, sequence)` as a whole: assembled, checked, compared, written, published, read back.

use std::hint::black_box;
use std::time::Duration;

use patchpoint::engine::Engine;
use patchpoint::sequence::{Cond, Field, Mem, Sequence, Target, arg, result};

use super::{Goal, Speed};
use crate::limits;
use crate::made::SyntheticModules;
use crate::measure::{Effort, Figure, interleave, time};
use crate::misses;
use crate::pages;
use crate::subject;
use patchpoint::publish::GracePeriod;

/// The sites that are patched in a batch, one after the other.
const SITES: usize = 64;

const EFFORT: Effort = Effort {
    batches: 201,
    operations: SITES,
};

const BARE: &str = "bare store of 8 bytes, serialize";

/// All rows.
pub(super) fn all() -> Vec<Speed> {
    let [seen, fresh, first, live, live_fresh, live_first, bare] = figures();
    let [miss, live_miss, back] = misses::figures();
    let row = |what, ours, goal| Speed::against(what, [ours, bare.clone()], BARE, goal);
    let missed = |what, ours| Speed {
        what,
        ours,
        theirs: Some((
            "the way back to the code that missed, behind it",
            Ok(back.clone()),
        )),
        goal: Goal::Time(1000.0),
    };
    vec![
        row(
            "patch(id, sequence) of a shape that was seen before",
            seen,
            Goal::AtMost(6.0),
        ),
        row("the same, of a live site", live, Goal::AtMost(8.0)),
        row(
            "patch(id, sequence) of a shape that was never seen",
            fresh,
            Goal::AtMost(45.0),
        ),
        row("the same, of a live site", live_fresh, Goal::AtMost(45.0)),
        row(
            "a site's first patch, of a shape that was seen, its exit stub included",
            first,
            Goal::AtMost(10.0),
        ),
        row("the same, of a live site", live_first, Goal::AtMost(10.0)),
        missed(
            "a miss handled: from the lookup's result to the installed entry",
            miss,
        ),
        missed("the same, of a live site", live_miss),
    ]
}

/// An inline cache of which only the constants are new each time.
pub(super) fn hit(number: u32) -> Sequence {
    let field = 256 + 8 * (number % 1024) as i32;
    Sequence::new()
        .guard_eq(u32::at(arg(0), 0), 0x1000 + number, Target::Miss)
        .load(result(), u64::at(arg(0), field))
}

/// An inline cache that has a shape of its own, of 960.
pub(super) fn shaped(number: usize) -> Sequence {
    const CONDS: [Cond; 10] = [
        Cond::Eq,
        Cond::Ne,
        Cond::Below,
        Cond::BelowOrEqual,
        Cond::Above,
        Cond::AboveOrEqual,
        Cond::Less,
        Cond::LessOrEqual,
        Cond::Greater,
        Cond::GreaterOrEqual,
    ];
    let (cond, rest) = (CONDS[number % 10], number / 10);
    let widths: [fn(i32) -> Mem; 4] = [
        |at| u8::at(arg(0), at),
        |at| u16::at(arg(0), at),
        |at| u32::at(arg(0), at),
        |at| u64::at(arg(0), at),
    ];
    let (compared, rest) = (widths[rest % 4], rest / 4);
    let (loaded, rest) = (widths[rest % 4], rest / 4);
    let sequence = Sequence::new()
        .guard(cond, compared(0), 7u8, Target::Miss)
        .load(result(), loaded(8));
    match rest % 6 {
        0 => sequence,
        1 => sequence.add(result(), 3u8),
        2 => sequence.and(result(), 0x7f),
        3 => sequence.shift_left(result(), 3),
        4 => sequence.shift_right(result(), 3),
        _ => sequence.shift_right_signed(result(), 3),
    }
}

/// How the sites of an engine are, before they are measured.
#[derive(Clone, Copy)]
enum Start {
    /// As they were registered; the engine has seen shapes at others.
    New,
    /// Patched, so that they have their exit stubs.
    Patched,
}

/// An engine with sites, in one module; another of its modules has one of the same kinds of sites, at
/// which the shape of [`hit`] was seen.
fn engine_with_sites(made: &SyntheticModules, live: bool, start: Start) -> Engine {
    let engine = subject::engine();
    made.register_as(&engine, live);
    let (first, second) = (SITES as u64, SITES as u64 + KINDS as u64);
    let warm = |id| _ = engine.patch(id, &hit(id as u32)).unwrap();
    (first..second).for_each(warm);
    (first..second).for_each(warm);
    if matches!(start, Start::Patched) {
        (0..first).for_each(warm);
    }
    engine
}

/// A module whose sites are measured, and one whose sites are of the same kinds: live sites are told
/// apart by where their patchable jumps lie.
const KINDS: usize = SITES;

fn made() -> SyntheticModules {
    SyntheticModules::new(SITES + KINDS, 2)
}

/// Patches the sites in their order, one after the other.
fn patch_all(engine: &Engine, sequences: &[Sequence]) -> Duration {
    let took = time(|| {
        for (id, sequence) in sequences.iter().enumerate() {
            black_box(engine.patch(id as u64, black_box(sequence)).unwrap());
        }
    });
    // SAFETY: no thread executes the sites.
    engine.reclaim(&unsafe { GracePeriod::promise() }).unwrap();
    took
}

/// Patches of sites by sequences of a shape that was seen before, with new constants.
pub(crate) struct Patches {
    engine: Engine,
    /// Has the code.
    _made: SyntheticModules,
    /// What the sites hold.
    kept: Vec<Sequence>,
    number: u32,
}

impl Patches {
    /// How many there are in a batch.
    pub(crate) const COUNT: usize = SITES;

    pub(crate) fn new(live: bool) -> Self {
        let made = made();
        Self {
            engine: engine_with_sites(&made, live, Start::Patched),
            _made: made,
            kept: Vec::new(),
            number: 1,
        }
    }

    /// A batch of patches.
    pub(crate) fn batch(&mut self) -> Duration {
        let sequences: Vec<Sequence> = (self.number..).take(2 * SITES).map(hit).collect();
        self.number += 2 * SITES as u32;
        let (before, timed) = sequences.split_at(SITES);
        // What the other measurements have left in the caches is no part of it.
        patch_all(&self.engine, before);
        let took = patch_all(&self.engine, timed);
        // A site holds its sequence: to free what it held before is no part of it.
        drop(std::mem::replace(&mut self.kept, sequences));
        took
    }
}

fn figures() -> [Figure; 7] {
    let mut in_place = Patches::new(false);
    let mut live = Patches::new(true);
    // A new engine has seen nothing but the shape of `hit`.
    let once = |live, start, sequences: Vec<Sequence>| {
        let made = made();
        patch_all(&engine_with_sites(&made, live, start), &sequences)
    };
    let turn = std::cell::Cell::new(0);
    let fresh = |live| {
        turn.set(turn.get() + 1);
        let sequences = (0..SITES).map(|n| shaped((turn.get() + n * 7) % 960)).collect();
        once(live, Start::Patched, sequences)
    };
    let (mut fresh_in_place, mut fresh_live) = (|| fresh(false), || fresh(true));
    let hits = || (1..).take(SITES).map(hit).collect();
    let mut first_in_place = || once(false, Start::New, hits());
    let mut first_live = || once(true, Start::New, hits());
    let view = pages::writable_view_of_code(pages::PAGE);
    let mut bare = || time(|| limits::stores(view, SITES));
    interleave(
        EFFORT,
        [
            &mut || in_place.batch(),
            &mut fresh_in_place,
            &mut first_in_place,
            &mut || live.batch(),
            &mut fresh_live,
            &mut first_live,
            &mut bare,
        ],
    )
}
