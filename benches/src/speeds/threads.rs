//! Threads that patch modules of their own at the same time: what they take together, and how often
//! one waits for another.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use patchpoint::engine::LockStats;
use patchpoint::sequence::{Field, Sequence, arg, result};
use patchpoint::site::Site;

use super::patching::hit;
use super::{Goal, Speed};
use crate::made::SyntheticModules;
use crate::measure::{Effort, Figure, interleave};
use crate::subject;

/// The most threads, each with a module.
const THREADS: usize = 4;
/// The sites of a module, each of which is patched once: long enough that threads run side by side.
const SITES: usize = 4096;

/// One shape of 16,384.
fn shaped(number: usize) -> Sequence {
    let of = |step: usize| number / step % 4;
    let add = |sequence: Sequence, kind| match kind {
        0 => sequence.add(result(), 3_u8),
        1 => sequence.and(result(), 0x7f),
        2 => sequence.shift_left(result(), 3),
        _ => sequence.shift_right(result(), 3),
    };
    let from = match of(4096) {
        0 => u8::at(arg(0), 8),
        1 => u16::at(arg(0), 8),
        2 => u32::at(arg(0), 8),
        _ => u64::at(arg(0), 8),
    };
    let sequence = Sequence::new().load(result(), from);
    [1, 4, 16, 64, 256, 1024].into_iter().map(of).fold(sequence, add)
}

/// All rows.
pub(super) fn all() -> Vec<Speed> {
    let mut rows = Vec::new();
    for (what, counted, shape) in [
        (
            [
                "by 2 threads, each in its module, shapes never seen, per patch",
                "the same by 3 threads",
                "the same by 4 threads",
            ],
            "of a thousand patches by 2 threads, that waited for another's lowering",
            Shape::New,
        ),
        (
            [
                "by 2 threads, each in its module, a shape that was seen, per patch",
                "the same by 3 threads",
                "the same by 4 threads",
            ],
            "of a thousand patches by 2 threads, that waited for the lock",
            Shape::Seen,
        ),
    ] {
        let (figures, waits) = figures(shape);
        let [one, others @ ..] = figures;
        let against = |(what, ours)| Speed::against(what, [ours, one.clone()], "by one thread", Goal::None);
        rows.extend(what.into_iter().zip(others).map(against));
        rows.push(Speed {
            what: counted,
            ours: Figure::exactly(waits),
            theirs: None,
            goal: Goal::Counted,
        });
    }
    rows
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Each patch has one of its own.
    New,
    /// They are all alike.
    Seen,
}

/// The time for one patch by 1, 2, 3 and 4 threads, and how many waits two threads have had in a
/// thousand patches.
fn figures(shape: Shape) -> ([Figure; THREADS], f64) {
    let mut stats = Vec::new();
    let figures = {
        let effort = Effort {
            batches: 15,
            operations: SITES,
        };
        let (mut one, mut two, mut three, mut four) = (
            || together(1, shape).0 / 1,
            || {
                let (took, seen) = together(2, shape);
                stats.push(seen);
                took / 2
            },
            || together(3, shape).0 / 3,
            || together(4, shape).0 / 4,
        );
        interleave(effort, [&mut one, &mut two, &mut three, &mut four])
    };
    let waits: u64 = stats.iter().map(|stats| waits(stats, shape)).sum();
    (figures, 1000.0 * waits as f64 / (2 * SITES * stats.len()) as f64)
}

fn waits(stats: &LockStats, shape: Shape) -> u64 {
    match shape {
        Shape::New => stats.waits_for_lowering,
        Shape::Seen => stats.waits,
    }
}

/// Keeps this thread on a core of its own, as far as there are so many: they live for milliseconds,
/// and are often left on one.
fn pin(number: usize) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // SAFETY: a set of cores is made of zeros, and the number of one of them is set in it.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        libc::CPU_SET(number % cores, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// How long so many threads take, each for all sites of its module.
fn together(threads: usize, shape: Shape) -> (Duration, LockStats) {
    let made = SyntheticModules::new(THREADS * SITES, THREADS);
    let engine = subject::engine();
    let modules = made.register(&engine);
    let sites: Vec<Vec<Site>> = modules.iter().map(|module| module.sites().collect()).collect();
    for (number, site) in (0..).zip(sites.iter().flatten()) {
        engine.patch_site(site, &hit(number)).unwrap();
    }
    let before = engine.lock_stats();
    let start = Barrier::new(threads);
    let mut spans: Vec<(Instant, Instant)> = Vec::new();
    thread::scope(|scope| {
        let (engine, start) = (&engine, &start);
        let one = |(number, sites): (usize, &'_ Vec<Site>)| {
            let first = number * SITES;
            let sequences: Vec<_> = match shape {
                Shape::New => (first..first + SITES).map(shaped).collect(),
                Shape::Seen => (first as u32 + 7..).take(SITES).map(hit).collect(),
            };
            let sites = sites.clone();
            scope.spawn(move || {
                pin(number);
                start.wait();
                let began = Instant::now();
                for (site, sequence) in sites.iter().zip(&sequences) {
                    engine.patch_site(site, sequence).unwrap();
                }
                (began, Instant::now())
            })
        };
        let running: Vec<_> = sites.iter().take(threads).enumerate().map(one).collect();
        spans.extend(running.into_iter().map(|thread| thread.join().unwrap()));
    });
    let began = spans.iter().map(|(began, _)| *began).min().unwrap();
    let ended = spans.iter().map(|(_, ended)| *ended).max().unwrap();
    let after = engine.lock_stats();
    let mut stats = LockStats::default();
    stats.waits = after.waits - before.waits;
    stats.waits_for_lowering = after.waits_for_lowering - before.waits_for_lowering;
    (ended - began, stats)
}
