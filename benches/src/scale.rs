//! How times and memory grow with the number of sites, from one to a million, in up to 20,000
//! modules.
//!
//! Nothing may grow faster than n log n. That is judged from one number of sites to the next, as
//! what it takes more against what n log n is more; what takes a time for each site of many is
//! judged by the time of all. A step may take `ALLOWED` times that, for what does not fit into the
//! next cache any more: n to the power of 1.5 would take 2.6 times in a step by ten. A lookup,
//! which does little but wait for memory, may grow besides as one in std's `HashMap` does in the
//! same step. Below `JUDGED` sites, times are of the clock and of what is done once.

use std::collections::HashMap;
use std::fmt::Write;
use std::hint::black_box;
use std::time::Duration;

use patchpoint::engine::Engine;
use patchpoint::publish::GracePeriod;
use patchpoint::site::{Module, Site};
use serde_json::{Value, json};

use crate::made::{SyntheticModules, shape};
use crate::measure::time;
use crate::memory;
use crate::report;
use crate::subject;

const STEPS: [usize; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
const MODULES: usize = 20_000;
/// The sites of a module, as long as there are no more modules than that.
const SITES_OF_MODULE: usize = 50;
/// The most sites of a transaction.
const TRANSACTION: usize = 100_000;
const LOOKUPS: usize = 10_000;

/// How many times more than n log n a step may take.
const ALLOWED: f64 = 2.0;
/// From how many sites on a step is judged.
const JUDGED: usize = 1_000;

/// How something grows.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What it is.
    pub what: &'static str,
    unit: Unit,
    /// For so many sites, so much each.
    points: Vec<(usize, f64)>,
    /// The same of a lookup in std's map, if that is what it is compared with.
    beside: Vec<(usize, f64)>,
}

/// What each step takes more, and to how many sites it goes.
fn growth(points: &[(usize, f64)]) -> impl Iterator<Item = (usize, f64)> {
    let pairs = points.iter().zip(points.iter().skip(1));
    pairs.map(|((_, before), (sites, after))| (*sites, after / before))
}

impl Curve {
    /// Whether no step takes more than it may.
    pub fn is_good(&self) -> bool {
        let beside = growth(&self.beside).map(|(_, more)| more.max(1.0));
        let allowed = beside.chain(std::iter::repeat(1.0)).map(|more| ALLOWED * more);
        self.steps()
            .zip(allowed)
            .all(|((n, _, against), allowed)| n <= JUDGED || against <= allowed)
    }

    /// For each step, the number of sites to which it goes, and what it takes more: against n, and
    /// against n log n.
    fn steps(&self) -> impl Iterator<Item = (usize, f64, f64)> {
        let growth = growth(&self.points).zip(&self.points);
        growth.map(|((next, more), (n, _))| {
            let logs = (next as f64).ln() / (*n.max(&2) as f64).ln();
            (next, more, more / logs)
        })
    }
}

/// What is measured for one number of sites.
struct Step {
    sites: usize,
    made: SyntheticModules,
    engine: Engine,
}

/// The number of the map's curve, with which the lookups before it are compared, among these.
const MAP: usize = 4;

/// How a number is written.
type Unit = fn(f64) -> String;

const WHAT: [(&str, Unit); 7] = [
    ("registering, per site", report::time),
    ("memory beyond the map, per site", bytes),
    ("sites(id)", report::time),
    ("site_at(address)", report::time),
    ("std's HashMap<u64, u32>, for comparison", report::time),
    ("a transaction of all, at most 100,000, per site", report::time),
    ("unloading, per site", report::time),
];

fn bytes(count: f64) -> String {
    format!("{count:.1} B")
}

/// Measures everything.
pub fn all() -> Vec<Curve> {
    let mut curves: Vec<Curve> = WHAT
        .into_iter()
        .map(|(what, unit)| Curve {
            what,
            unit,
            points: Vec::new(),
            beside: Vec::new(),
        })
        .collect();
    for sites in STEPS {
        // Small ones take little, so the middle of several.
        let times = (100_000 / sites).clamp(1, 11);
        let measured: Vec<[f64; 7]> = (0..times).map(|_| Step::new(sites).measure()).collect();
        for (number, curve) in curves.iter_mut().enumerate() {
            let mut all: Vec<f64> = measured.iter().map(|one| one[number]).collect();
            all.sort_by(f64::total_cmp);
            curve.points.push((sites, all[times / 2]));
        }
    }
    let beside = curves[MAP].points.clone();
    for curve in &mut curves[MAP - 2..=MAP] {
        curve.beside.clone_from(&beside);
    }
    curves
}

fn per(took: Duration, count: usize) -> f64 {
    took.as_nanos() as f64 / count as f64
}

impl Step {
    fn new(sites: usize) -> Self {
        let modules = (sites / SITES_OF_MODULE).clamp(1, MODULES);
        Self {
            sites,
            made: SyntheticModules::new(sites, modules),
            engine: subject::engine(),
        }
    }

    fn measure(self) -> [f64; 7] {
        let (modules, registering, bytes) = self.register();
        let sites: Vec<Site> = modules.iter().flat_map(Module::sites).collect();
        let chosen: Vec<usize> = (0..LOOKUPS)
            .map(|number| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16) % self.sites)
            .collect();
        let addrs: Vec<_> = chosen.iter().map(|at| sites[*at].addr()).collect();
        let by_id = time(|| {
            let find = |id: &usize| _ = black_box(self.engine.sites(*id as u64).unwrap());
            chosen.iter().for_each(find);
        });
        let by_addr = time(|| {
            let find = |addr: &_| _ = black_box(self.engine.site_at(*addr).unwrap());
            addrs.iter().for_each(find);
        });
        let transaction = self.transact(&sites);
        drop(sites);
        [
            registering,
            bytes,
            per(by_id, LOOKUPS),
            per(by_addr, LOOKUPS),
            self.in_map(&chosen),
            transaction,
            self.unload(modules),
        ]
    }

    /// The modules, the time and the memory per site.
    fn register(&self) -> (Vec<Module>, f64, f64) {
        let (mut modules, mut took) = (Vec::with_capacity(self.made.len()), Duration::ZERO);
        let mut bytes = 0;
        for (number, map) in self.made.maps().into_iter().enumerate() {
            let len = map.len() as i64;
            let before = memory::in_use();
            let code = self.made.code(&self.engine, number, map);
            // SAFETY: what is told is true of the object's code, or refused.
            took += time(|| modules.push(unsafe { self.engine.register(code, shape) }.unwrap()));
            bytes += memory::in_use() - before + memory::of_block(len) - len;
        }
        (modules, per(took, self.sites), bytes as f64 / self.sites as f64)
    }

    fn in_map(&self, chosen: &[usize]) -> f64 {
        let key = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let map: HashMap<u64, u32> = (0..self.sites).map(key).zip(0..).collect();
        let took = time(|| chosen.iter().for_each(|at| _ = black_box(map[&key(*at)])));
        per(took, LOOKUPS)
    }

    fn transact(&self, sites: &[Site]) -> f64 {
        let sites = &sites[..sites.len().min(TRANSACTION)];
        let sequence = subject::hit(8);
        let took = time(|| {
            let mut transaction = self.engine.transaction();
            for site in sites {
                transaction.patch_site(site, &sequence).unwrap();
            }
            black_box(transaction.commit().unwrap());
        });
        per(took, sites.len())
    }

    fn unload(&self, modules: Vec<Module>) -> f64 {
        let took = time(|| {
            for module in modules {
                // SAFETY: nothing runs there.
                let grace_period = unsafe { GracePeriod::promise() };
                self.engine.unregister(module, &grace_period).unwrap();
            }
        });
        per(took, self.sites)
    }
}

/// A block for each curve: for each number of sites, how much, and how the step to it grew.
pub fn table(curves: &[Curve]) -> String {
    let mut out = String::from(
        "all the steps: times ten in sites; what they take more, against n and against n log n\n",
    );
    for curve in curves {
        let verdict = if curve.is_good() {
            ""
        } else {
            "  FASTER THAN n log n"
        };
        let _ = writeln!(out, "\n{}{verdict}", curve.what);
        let mut steps = curve.steps();
        for (number, (n, each)) in curve.points.iter().enumerate() {
            let _ = write!(out, "  {n:>9} sites {:>12}", (curve.unit)(*each));
            if let Some((_, n, n_log_n)) = (number > 0).then(|| steps.next()).flatten() {
                let _ = write!(out, "   n x {n:.2}   n log n x {n_log_n:.2}");
            }
            out.push('\n');
        }
    }
    out
}

/// A list of objects: `what`, `points` with `sites`, `each` (nanoseconds or bytes), and how the
/// step there grew.
pub fn json(curves: &[Curve]) -> String {
    let one = |curve: &Curve| {
        let mut steps = curve.steps();
        let points = curve.points.iter().enumerate().map(|(number, (sites, each))| {
            let mut point = json!({"sites": sites, "each": each});
            if let Some((_, n, n_log_n)) = (number > 0).then(|| steps.next()).flatten() {
                point["against_n"] = json!(n);
                point["against_n_log_n"] = json!(n_log_n);
            }
            point
        });
        json!({"what": curve.what, "good": curve.is_good(), "points": points.collect::<Vec<_>>()})
    };
    let list: Vec<Value> = curves.iter().map(one).collect();
    format!("{:#}\n", Value::from(list))
}
