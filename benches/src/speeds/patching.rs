//! `patch(id, sequence)` as a whole: assembled, checked, compared, written, published, read back.

use std::hint::black_box;

use patchpoint::engine::Engine;
use patchpoint::sequence::{Cond, Field, Mem, Sequence, Target, arg, result};

use super::{Goal, Speed};
use crate::made::SyntheticModules;
use crate::measure::{Effort, Figure, interleave, time};
use crate::pages;
use crate::subject;
use patchpoint::publish::serialize;

/// The sites that are patched in a batch, one after the other.
const SITES: usize = 64;

const EFFORT: Effort = Effort {
    batches: 201,
    operations: SITES,
};

const BARE: &str = "bare store of 8 bytes, serialize";

/// All rows.
pub(super) fn all() -> Vec<Speed> {
    let [seen, fresh, first, first_seen, bare] = figures();
    let row = |what, ours, goal| Speed::against(what, [ours, bare.clone()], BARE, goal);
    vec![
        row(
            "patch(id, sequence) of a shape that was seen before",
            seen,
            Goal::AtMost(8.0),
        ),
        row(
            "patch(id, sequence) of a shape that was never seen",
            fresh,
            Goal::AtMost(60.0),
        ),
        row(
            "the same, the site's first, its exit stub included",
            first,
            Goal::None,
        ),
        row(
            "a site's first patch, of a shape that was seen before, its exit stub included",
            first_seen,
            Goal::None,
        ),
    ]
}

/// An inline cache of which only the constants are new each time.
fn hit(number: u32) -> Sequence {
    let field = 256 + 8 * (number % 1024) as i32;
    Sequence::new()
        .guard_eq(u32::at(arg(0), 0), 0x1000 + number, Target::Miss)
        .load(result(), u64::at(arg(0), field))
}

/// An inline cache that has a shape of its own, of 960.
fn shaped(number: usize) -> Sequence {
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

fn engine_with_sites(made: &SyntheticModules, warm: bool) -> Engine {
    let engine = subject::engine();
    made.register(&engine);
    if warm {
        // Afterwards the sites have their exit stubs.
        (0..SITES as u64).for_each(|id| _ = engine.patch(id, &hit(0)).unwrap());
    }
    engine
}

fn figures() -> [Figure; 5] {
    let made = SyntheticModules::new(SITES, 1);
    let patch_all = |engine: &Engine, sequences: &[Sequence]| {
        time(|| {
            for (id, sequence) in sequences.iter().enumerate() {
                black_box(engine.patch(id as u64, black_box(sequence)).unwrap());
            }
        })
    };
    let other = SyntheticModules::new(SITES, 1);
    let (warm, mut number) = (engine_with_sites(&other, true), 1);
    let mut seen = || {
        let sequences: Vec<Sequence> = (number..).take(2 * SITES).map(hit).collect();
        number += 2 * SITES as u32;
        let (before, timed) = sequences.split_at(SITES);
        // What the other measurements have left in the caches is no part of it.
        patch_all(&warm, before);
        patch_all(&warm, timed)
    };
    let mut turn = 0;
    let mut fresh = || {
        // A new engine has seen nothing; what the sites got to have their exit stubs is none of the
        // shapes.
        let engine = engine_with_sites(&made, true);
        turn += 1;
        let sequences: Vec<Sequence> = (0..SITES).map(|n| shaped((turn + n * 7) % 960)).collect();
        let took = patch_all(&engine, &sequences);
        (0..SITES as u64).for_each(|id| _ = engine.restore(id).unwrap());
        took
    };
    let third = SyntheticModules::new(SITES, 1);
    let mut first = || {
        let engine = engine_with_sites(&third, false);
        let sequences: Vec<Sequence> = (0..SITES).map(|n| shaped(n * 7)).collect();
        let took = patch_all(&engine, &sequences);
        (0..SITES as u64).for_each(|id| _ = engine.restore(id).unwrap());
        took
    };
    // The engine has its memory for stubs, and the shape its template, from a few sites more.
    let fourth = SyntheticModules::new(SITES + 4, 1);
    let mut first_seen = || {
        let engine = engine_with_sites(&fourth, false);
        for id in SITES..SITES + 4 {
            _ = engine.patch(id as u64, &hit(id as u32)).unwrap();
        }
        let sequences: Vec<Sequence> = (0..SITES as u32).map(hit).collect();
        let took = patch_all(&engine, &sequences);
        (0..SITES as u64 + 4).for_each(|id| _ = engine.restore(id).unwrap());
        took
    };
    let view = pages::writable_view_of_code(pages::PAGE);
    let mut bare = || {
        time(|| {
            for at in 0..SITES as u64 {
                // SAFETY: in the view, aligned.
                unsafe { pages::store(view + 8 * at, black_box(at)) };
                serialize();
            }
        })
    };
    let all: [&mut dyn FnMut() -> _; 5] = [&mut seen, &mut fresh, &mut first, &mut first_seen, &mut bare];
    interleave(EFFORT, all)
}
