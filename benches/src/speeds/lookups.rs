//! Finding one of a million sites, and the memory that they take.

use std::collections::HashMap;
use std::hint::black_box;

use patchpoint::addr::CodeAddr;
use patchpoint::engine::Engine;
use patchpoint::site::Module;

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
        ours: Figure {
            min: bytes,
            median: bytes,
            p90: bytes,
            max: bytes,
        },
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
    let mut by_addr = || {
        let chosen: Vec<CodeAddr> = choose.borrow_mut()().into_iter().map(|at| addrs[at]).collect();
        time(|| {
            for addr in &chosen {
                assert_eq!(engine.site_at(black_box(*addr)).unwrap().addr(), *addr);
            }
        })
    };
    let mut by_id = || {
        let chosen = choose.borrow_mut()();
        time(|| {
            for id in &chosen {
                black_box(engine.sites(black_box(*id as u64)).unwrap());
            }
        })
    };
    let mut in_map = || {
        let chosen: Vec<u64> = choose.borrow_mut()().into_iter().map(|at| keys[at]).collect();
        time(|| {
            for key in &chosen {
                black_box(map[black_box(key)]);
            }
        })
    };
    let [addr, id, map] = interleave(EFFORT, [&mut by_addr, &mut by_id, &mut in_map]);
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
    ]
}
