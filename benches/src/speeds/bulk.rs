//! Many sites at once: invalidated, patched in one transaction, settled.

use std::hint::black_box;
use std::time::Duration;

use patchpoint::engine::{Engine, Receipt};
use patchpoint::publish::{GracePeriod, Level, Publisher};
use patchpoint::site::{Module, Site};

use super::{Goal, Speed};
use crate::caches;
use crate::limits::{self, FirstChanges};
use crate::made::SyntheticModules;
use crate::many;
use crate::measure::{Effort, Figure, interleave, time};
use crate::memory;
use crate::pages;
use crate::subject;

/// The functions that are invalidated in one transaction, of five sites each.
const FUNCTIONS: usize = 1000;
/// The sites of the large transaction.
const SITES: usize = 100_000;

const LEAST: &str = "the memory that this reads and writes at least the first time, and a membarrier";

/// All rows.
pub(super) fn all() -> Vec<Speed> {
    memory::keep_freed();
    let alone = |what, [ours, least]: [Figure; 2], goal| Speed {
        what,
        ours,
        theirs: Some((LEAST, Ok(least))),
        goal: Goal::Time(goal),
    };
    let (settling, bare) = many::settling_figures();
    vec![
        one_function(),
        alone(
            "invalidate 1000 functions of 5 sites in one transaction, per function",
            functions(),
            300.0,
        ),
        alone(
            "invalidate 1000 functions of 500 modules, which an assumption breaks, per function",
            of_modules(),
            300.0,
        ),
        alone(
            "100,000 sites patched in one transaction, per site, the first time",
            large(false, 1),
            300.0,
        ),
        alone("the same again, with other values", large(true, 1), 300.0),
        Speed {
            goal: Goal::None,
            ..alone(
                "the first time, each site with other values than the one before",
                large(false, 64),
                300.0,
            )
        },
        Speed::against(
            "settle 1000 sites after their grace period, per site",
            [settling, bare],
            "bare store of 8 bytes, serialize; twice for each, and a membarrier for all",
            // Three bare stores; two are measured beside it.
            Goal::AtMost(1.5),
        ),
    ]
}

/// A function of 100 sites that were never changed.
fn one_function() -> Speed {
    let engine = subject::engine();
    let effort = Effort {
        batches: 101,
        operations: 1,
    };
    let mut ours = || {
        let module = many::hundreds(&engine, 1, false).remove(0);
        let function = module.function("hundred").unwrap();
        let took = time(|| _ = black_box(engine.invalidate(&function).unwrap()));
        drop(function);
        unload(&engine, module);
        took
    };
    let (view, publisher) = (pages::writable_view_of_code(pages::PAGE), Publisher::new());
    let mut bare = || {
        time(|| {
            limits::stores(view, 400);
            (0..2).for_each(|_| publisher.serialize(Level::Immediate).unwrap());
        })
    };
    let figures = interleave(effort, [&mut ours, &mut bare]);
    Speed::against(
        "invalidate a function of 100 sites, the first time",
        figures,
        "400 bare stores, each with serialize, and two bare membarriers",
        Goal::AtMost(1.0),
    )
}

fn unload(engine: &Engine, module: Module) {
    // SAFETY: no thread executes it.
    let grace_period = unsafe { GracePeriod::promise() };
    engine.unregister(module, &grace_period).unwrap();
}

fn functions() -> [Figure; 2] {
    let made = SyntheticModules::new(5 * FUNCTIONS, 1);
    let effort = Effort {
        batches: 21,
        operations: FUNCTIONS,
    };
    let mut ours = || {
        let engine = subject::engine();
        let module = made.register(&engine).remove(0);
        let took = time(|| {
            let mut transaction = engine.transaction();
            for function in module.functions() {
                transaction.invalidate(&function).unwrap();
            }
            black_box(transaction.commit().unwrap());
        });
        made.rewrite();
        took
    };
    interleave(effort, [&mut ours, &mut least(5 * FUNCTIONS)])
}

/// Functions that a compiler has made, of one site and of two, each two in memory of their own.
fn of_modules() -> [Figure; 2] {
    let effort = Effort {
        batches: 21,
        operations: FUNCTIONS,
    };
    let mut ours = || caches::break_assumption(FUNCTIONS);
    interleave(effort, [&mut ours, &mut least(FUNCTIONS / 2 * 3)])
}

/// The least that so many sites take which are changed for the first time.
fn least(sites: usize) -> impl FnMut() -> Duration {
    let (changes, publisher) = (FirstChanges::new(sites), Publisher::new());
    move || {
        let mut changed = None;
        let took = time(|| changed = Some(black_box(changes.make(&publisher))));
        drop(changed);
        took
    }
}

/// A transaction over all sites of a large module, which were never changed, or once before. They get so many
/// sequences in turn.
fn large(again: bool, sequences: i32) -> [Figure; 2] {
    let made = SyntheticModules::new(SITES, 1);
    let effort = Effort {
        batches: 5,
        operations: SITES,
    };
    let patch = |engine: &Engine, sites: &[Site], at| -> Receipt {
        let sequences: Vec<_> = (0..sequences)
            .map(|number| subject::hit(at + 8 * number))
            .collect();
        let mut transaction = engine.transaction();
        for (site, sequence) in sites.iter().zip(sequences.iter().cycle()) {
            transaction.patch_site(site, sequence).unwrap();
        }
        transaction.commit().unwrap()
    };
    let mut ours = || {
        let engine = subject::engine();
        let modules = made.register(&engine);
        let sites: Vec<Site> = modules.iter().flat_map(Module::sites).collect();
        if again {
            patch(&engine, &sites, 256);
        }
        let took = time(|| _ = black_box(patch(&engine, &sites, 264)));
        made.rewrite();
        took
    };
    interleave(effort, [&mut ours, &mut least(SITES)])
}
