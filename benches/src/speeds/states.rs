//! The memory that sites take which were changed: beyond what every site takes, without the code of
//! their stubs.

use patchpoint::engine::Engine;
use patchpoint::publish::{Attached, GracePeriod};
use patchpoint::site::Site;

use super::{Goal, Speed};
use crate::made::SyntheticModules;
use crate::measure::Figure;
use crate::{memory, subject};

const SITES: usize = 20_000;

/// All rows: bytes of a site, of so many.
pub(super) fn all() -> Vec<Speed> {
    let row = |what, bytes: i64| {
        let bytes = bytes as f64 / SITES as f64;
        Speed {
            what,
            ours: Figure::exactly(bytes),
            theirs: None,
            goal: Goal::Stated,
        }
    };
    let patch = |engine: &Engine, sites: &[Site]| {
        for (number, site) in (1..).zip(sites) {
            engine.patch_site(site, &subject::hit(8 * number)).unwrap();
        }
    };
    let patch_all = |engine: &Engine, sites: &[Site]| {
        let (sequence, mut transaction) = (subject::hit(8), engine.transaction());
        for site in sites {
            transaction.patch_site(site, &sequence).unwrap();
        }
        transaction.commit().unwrap();
    };
    let invalidate = |engine: &Engine, sites: &[Site]| {
        let mut functions = sites.to_vec();
        functions.dedup_by_key(|site| site.function().addr());
        for site in functions {
            engine.invalidate(&site.function()).unwrap();
        }
    };
    let settle = |engine: &Engine, sites: &[Site]| {
        patch(engine, sites);
        let thread = engine.attach_thread();
        // SAFETY: this thread alone could execute them, and is outside of all code.
        let attached = unsafe { Attached::promise() };
        engine.settle(&attached).unwrap();
        thread.checkpoint();
        engine.reclaim_passed(&attached).unwrap();
        assert_eq!(engine.settle(&attached).unwrap().settled, sites.len());
        drop(thread);
        // SAFETY: no thread executes them.
        engine.reclaim(&unsafe { GracePeriod::promise() }).unwrap();
    };
    vec![
        row(
            "memory of a site that is patched in place, more",
            taken(false, patch),
        ),
        row(
            "the same, of all sites in one transaction",
            taken(false, patch_all),
        ),
        row(
            "memory of a site that is invalidated, more",
            taken(false, invalidate),
        ),
        row("memory of a live site, more", taken(true, |_, _| {})),
        row("memory of a live site that is patched, more", taken(true, patch)),
        row("memory of a live site that is settled, more", taken(true, settle)),
    ]
}

/// The bytes that sites take more once something was done with them, or with those that were
/// registered live.
fn taken(live: bool, change: impl Fn(&Engine, &[Site])) -> i64 {
    let made = SyntheticModules::new(SITES, 1);
    let engine = subject::engine();
    let quiescent = {
        let engine = subject::engine();
        let before = memory::in_use();
        let modules = made.register_as(&engine, false);
        let taken = memory::in_use() - before;
        drop(modules);
        taken
    };
    let before = memory::in_use();
    let modules = made.register_as(&engine, live);
    let sites: Vec<Site> = modules.iter().flat_map(|module| module.sites()).collect();
    let own = memory::of_block((size_of::<Site>() * sites.capacity()) as i64);
    change(&engine, &sites);
    memory::in_use() - before - own - quiescent
}
