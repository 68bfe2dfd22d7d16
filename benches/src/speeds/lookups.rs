//! Finding one of a million sites, and the memory that they take.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use patchpoint::addr::CodeAddr;
use patchpoint::engine::Engine;
use patchpoint::site::{Module, Site};

use super::{Goal, Speed};
use crate::made::{SyntheticModules, shape};
use crate::measure::{Effort, Figure, interleave, time};
use crate::memory;
use crate::subject;

const SITES: usize = 1_000_000;
const MODULES: usize = 20_000;
/// Lookups in a batch.
const LOOKUPS: usize = 10_000;

const EFFORT: Effort = Effort {
    batches: 51,
    operations: LOOKUPS,
};

/// All rows.
pub(super) fn all() -> Vec<Speed> {
    let made = SyntheticModules::new(SITES, MODULES);
    let engine = subject::engine();
    let (modules, bytes) = registered(&made, &engine);
    let addrs: Vec<CodeAddr> = modules
        .iter()
        .flat_map(Module::sites)
        .map(|site| site.addr())
        .collect();
    let mut rows = lookups(&engine, &addrs);
    let bytes = bytes as f64 / SITES as f64;
    rows.push(Speed {
        what: "memory of a site beyond the map, of a million in 20,000 modules",
        ours: Figure::exactly(bytes),
        theirs: None,
        goal: Goal::Bytes(64.0),
    });
    rows
}

/// Registers everything; returns the bytes that it took besides the maps.
fn registered(made: &SyntheticModules, engine: &Engine) -> (Vec<Module>, i64) {
    let (mut modules, mut bytes) = (Vec::with_capacity(made.len()), 0);
    for (number, map) in made.maps().into_iter().enumerate() {
        let map_len = map.len() as i64;
        let before = memory::in_use();
        // SAFETY: what is told is true of the object's code, or refused.
        modules.push(unsafe { engine.register(made.code(engine, number, map), shape) }.unwrap());
        // The map that was given is in the balance, and gone.
        bytes += memory::in_use() - before + memory::of_block(map_len) - map_len;
    }
    (modules, bytes)
}

/// Numbers that look random, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

fn lookups(engine: &Engine, addrs: &[CodeAddr]) -> Vec<Speed> {
    let mut numbers = Numbers(88_172_645_463_325_252);
    let keys: Vec<u64> = (0..SITES).map(|_| numbers.below(usize::MAX) as u64).collect();
    let map: HashMap<u64, u32> = keys.iter().copied().zip(0..).collect();
    let mut chosen: Vec<usize> = Vec::with_capacity(LOOKUPS);
    let mut choose = || {
        chosen.clear();
        chosen.extend((0..LOOKUPS).map(|_| numbers.below(SITES)));
        chosen.clone()
    };
    let choose = std::cell::RefCell::new(&mut choose);
    let by_addr = || {
        let chosen: Vec<CodeAddr> = choose.borrow_mut()().into_iter().map(|at| addrs[at]).collect();
        time(|| {
            for addr in &chosen {
                assert_eq!(engine.site_at(black_box(*addr)).unwrap().addr(), *addr);
            }
        })
    };
    let by_id = || {
        let chosen = choose.borrow_mut()();
        time(|| {
            for id in &chosen {
                black_box(engine.sites(black_box(*id as u64)).unwrap());
            }
        })
    };
    let in_map = || {
        let chosen: Vec<u64> = choose.borrow_mut()().into_iter().map(|at| keys[at]).collect();
        time(|| {
            for key in &chosen {
                black_box(map[black_box(key)]);
            }
        })
    };
    let committing = Committing::default();
    let beside = |lookups: &dyn Fn() -> Duration| committing.beside(lookups);
    let [addr, id, map, addr_beside, id_beside, map_beside] = std::thread::scope(|scope| {
        scope.spawn(|| committing.run(engine));
        let figures = interleave(
            EFFORT,
            [
                &mut || by_addr(),
                &mut || by_id(),
                &mut || in_map(),
                &mut || beside(&by_addr),
                &mut || beside(&by_id),
                &mut || beside(&in_map),
            ],
        );
        committing.stop.store(true, Ordering::Relaxed);
        figures
    });
    println!(
        "{} lookups beside {} transactions of {COMMITTED} sites",
        3 * LOOKUPS * EFFORT.batches,
        committing.count.load(Ordering::Relaxed)
    );
    let with = "std's HashMap<u64, u32> of a million random keys";
    vec![
        Speed::against(
            "site_at(address) among a million sites",
            [addr, map.clone()],
            with,
            Goal::AtMost(1.5),
        ),
        Speed::against(
            "sites(id) among a million sites",
            [id, map],
            with,
            Goal::AtMost(1.5),
        ),
        Speed::against(
            "site_at(address), beside a thread that commits",
            [addr_beside, map_beside.clone()],
            "the same map beside that thread",
            Goal::AtMost(1.5),
        ),
        Speed::against(
            "sites(id), beside a thread that commits",
            [id_beside, map_beside],
            "the same map beside that thread",
            Goal::AtMost(1.5),
        ),
    ]
}

/// The sites of a transaction of the thread that commits.
const COMMITTED: usize = 1000;

/// What is told to a thread that commits, and what it tells.
#[derive(Default)]
struct Committing {
    wanted: AtomicBool,
    stop: AtomicBool,
    /// The transactions that it has committed.
    count: AtomicUsize,
}

impl Committing {
    /// Commits transactions over some of the sites that are looked up, while that is wanted.
    fn run(&self, engine: &Engine) {
        let sites: Vec<Site> = (0..COMMITTED as u64)
            .flat_map(|id| engine.sites(id * 997).unwrap())
            .collect();
        let mut turn = 0;
        while !self.stop.load(Ordering::Relaxed) {
            if !self.wanted.load(Ordering::Relaxed) {
                std::thread::yield_now();
                continue;
            }
            turn += 1;
            let sequence = subject::hit(256 + 8 * (turn % 2));
            let mut transaction = engine.transaction();
            for site in &sites {
                transaction.patch_site(site, &sequence).unwrap();
            }
            black_box(transaction.commit().unwrap());
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Measures lookups from when a transaction has been committed, and more follow.
    fn beside(&self, lookups: &dyn Fn() -> Duration) -> Duration {
        let before = self.count.load(Ordering::Relaxed);
        self.wanted.store(true, Ordering::Relaxed);
        while self.count.load(Ordering::Relaxed) == before {
            std::thread::yield_now();
        }
        let took = lookups();
        self.wanted.store(false, Ordering::Relaxed);
        took
    }
}
