//! How many barriers a commit of live sites costs, counted by tracing it.

use super::{adding, engine, live_module};
use crate::engine::{Engine, Transaction};
use crate::memory::testing::process::{in_child, system_calls};
use crate::publish::{Attached, Publisher};
use crate::site::{Module, Site};

/// Without it threads are asked by signals, and there is nothing to count.
pub(super) fn has_membarrier() -> bool {
    in_child(|| Publisher::new().to_string().contains("serialize by membarrier"))
}

/// How many times a commit of what `add` asks for each of so many sites calls membarrier.
fn barriers(sites: usize, add: impl Fn(&mut Transaction<'_>, &Site)) -> usize {
    let prepare = || {
        let engine = engine();
        let module = live_module(&engine);
        engine.patch(100, &adding(1)).unwrap();
        (engine, module)
    };
    let calls = system_calls(prepare, |(engine, module): (Engine, Module)| {
        let mut transaction = engine.transaction();
        for site in module.sites().take(sites) {
            add(&mut transaction, &site);
        }
        assert_eq!(transaction.commit().unwrap().sites, sites);
    });
    calls.iter().filter(|call| **call == libc::SYS_membarrier).count()
}

#[test]
fn an_immediate_transaction_has_one_barrier_however_many_sites_and_an_eventual_one_none() {
    if !has_membarrier() {
        println!("no membarrier here");
        return;
    }
    for sites in [1, 2, 8, 16] {
        let invalidated = barriers(sites, |transaction, site| {
            transaction.invalidate_site(site).unwrap();
        });
        let patched = barriers(sites, |transaction, site| {
            transaction.patch_site(site, &adding(9)).unwrap();
        });
        println!("{sites} sites: {invalidated} barriers to invalidate, {patched} to patch");
        assert_eq!((invalidated, patched), (1, 0), "{sites} sites");
    }
}

#[test]
fn a_transaction_that_also_invalidates_has_one_barrier() {
    fn mixed(transaction: &mut Transaction<'_>, site: &Site) {
        let _ = match site.id().get() % 2 {
            0 => transaction.invalidate_site(site).unwrap(),
            _ => transaction.patch_site(site, &adding(9)).unwrap(),
        };
    }
    if has_membarrier() {
        assert_eq!(barriers(16, mixed), 1);
    }
}

/// One for however many sites, between their rewriting and the opening of the first; and one for
/// the sites that are patched since, so that whoever reports from then on is not behind their gates.
#[test]
fn settling_has_one_barrier_however_many_sites() {
    if !has_membarrier() {
        return;
    }
    // The system calls of a call that begins the grace period of that many sites, or settles them.
    let barriers = |sites: u64, begins: bool| {
        let prepare = || {
            let engine = engine();
            let module = live_module(&engine);
            (8 - sites..8).for_each(|site| _ = engine.patch(100 + site, &adding(1)).unwrap());
            // SAFETY: the child has one thread, which executes none of the code.
            let attached = unsafe { Attached::promise() };
            if !begins {
                engine.settle(&attached).unwrap();
            }
            (engine, module, attached)
        };
        let settle = |(engine, _module, attached): (Engine, Module, Attached)| {
            let done = engine.settle(&attached).unwrap();
            let expected = if begins { (0, sites) } else { (sites, 0) };
            assert_eq!((done.settled as u64, done.waiting as u64), expected);
        };
        let calls = system_calls(prepare, settle);
        calls.iter().filter(|call| **call == libc::SYS_membarrier).count()
    };
    for sites in [0, 1, 2, 4] {
        let some = usize::from(sites > 0);
        assert_eq!(
            (barriers(sites, true), barriers(sites, false)),
            (some, some),
            "{sites}"
        );
    }
}

/// Before an epoch begins after which a stub is freed, every core serializes: one could go on with
/// the old patchable jump.
#[test]
fn giving_back_stubs_has_one_barrier_if_some_were_retired_since_the_last() {
    if !has_membarrier() {
        return;
    }
    let prepare = |patches: u64| {
        move || {
            let engine = engine();
            let module = live_module(&engine);
            (1..=patches).for_each(|by| _ = engine.patch(100, &adding(by)).unwrap());
            (engine, module)
        }
    };
    let barriers = |patches, calls: usize| {
        let calls = system_calls(prepare(patches), |(engine, _module): (Engine, Module)| {
            // SAFETY: the child has one thread, which executes none of the code.
            let attached = unsafe { Attached::promise() };
            let given = (0..calls).map(|_| engine.reclaim_passed(&attached).unwrap());
            assert_eq!(given.sum::<usize>() as u64, patches.saturating_sub(1));
        });
        calls.iter().filter(|call| **call == libc::SYS_membarrier).count()
    };
    assert_eq!([barriers(1, 1), barriers(2, 1), barriers(3, 2)], [0, 1, 1]);
}
