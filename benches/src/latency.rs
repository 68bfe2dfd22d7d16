//! Where the time of one patch goes: the middle of many, stage by stage, without what the clock
//! takes itself.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use patchpoint::engine::Engine;
use patchpoint::latency::{Latency, Stage, measured};
use patchpoint::memory::StrategyChoice;
use patchpoint::sequence::{Field, Sequence, Target, arg, result};
use patchpoint::site::Site;
use serde_json::{Value, json};

use crate::made::SyntheticModules;
use crate::many::hundreds;
use crate::report;
use crate::subject::{self, Copies};

/// How many patches of each kind.
const PATCHES: usize = 1001;

/// One kind of patch.
pub struct Split {
    what: &'static str,
    /// Nanoseconds of each stage, in the order of [`Stage::ALL`].
    stages: Vec<f64>,
}

/// All kinds.
pub fn all() -> Vec<Split> {
    let copies = |ask| {
        let engine = subject::engine();
        let code = Copies::new(&engine, 1, 0).adopt(&engine, ask).unwrap();
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe { engine.register(code, subject::shape) }.unwrap();
        let site = subject::reads(&module).remove(0);
        move |number| engine.patch_site(&site, &hit(number)).unwrap().sites
    };
    vec![
        split("patch(id, sequence), shape seen before, Alias", {
            let (engine, made) = made();
            move |number| patch(&engine, &made, &hit(number))
        }),
        split("patch(id, sequence), shape never seen, Alias", {
            let (engine, made) = made();
            move |number| patch(&engine, &made, &shaped(number))
        }),
        split(
            "patch_site, shape seen before, ProcMem",
            copies(StrategyChoice::ProcMem),
        ),
        split(
            "patch_site, shape seen before, Toggle",
            copies(StrategyChoice::Toggle),
        ),
        split("patch_site, live, Eventual", {
            let engine = subject::engine();
            let modules = hundreds(&engine, 1, true);
            let sites: Vec<Site> = modules.iter().flat_map(subject::reads).collect();
            move |number| engine.patch_site(&sites[0], &hit(number)).unwrap().sites
        }),
    ]
}

/// An engine with one site.
fn made() -> (Engine, SyntheticModules) {
    let (engine, made) = (subject::engine(), SyntheticModules::new(1, 1));
    made.register(&engine);
    (engine, made)
}

/// Patches the one site, whose code is there as long as what was made.
fn patch(engine: &Engine, _: &SyntheticModules, sequence: &Sequence) -> usize {
    engine.patch(0, sequence).unwrap().sites
}

fn hit(number: usize) -> Sequence {
    let field = 256 + 8 * (number % 1024) as i32;
    Sequence::new()
        .guard_eq(u32::at(arg(0), 0), 0x1000 + number as u32, Target::Miss)
        .load(result(), u64::at(arg(0), field))
}

/// Another shape for each number: as many shifts as bits differ.
fn shaped(number: usize) -> Sequence {
    let hit = Sequence::new()
        .guard_eq(u32::at(arg(0), 0), 7u32, Target::Miss)
        .load(result(), u64::at(arg(0), 8));
    hit.shift_left(result(), (number % 63) as u8)
        .shift_right(result(), (number / 63 % 63) as u8)
}

/// What one reading of the clock takes.
fn clock() -> f64 {
    let start = Instant::now();
    (0..1000).for_each(|_| _ = black_box(Instant::now()));
    start.elapsed().as_nanos() as f64 / 1000.0
}

fn split(what: &'static str, mut patch: impl FnMut(usize) -> usize) -> Split {
    let measure = |number| {
        let (sites, latency) = measured(|| patch(number));
        assert_eq!(sites, 1);
        latency
    };
    let all: Vec<Latency> = (0..PATCHES).map(measure).collect();
    let clock = clock();
    let middle = |stage: Stage| {
        let spent = |latency: &Latency| {
            let clock = clock * f64::from(latency.turns(stage));
            latency.spent(stage).as_nanos() as f64 - clock
        };
        // The first ones warm up.
        let mut all: Vec<f64> = all[PATCHES / 10..].iter().map(spent).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2].max(0.0)
    };
    Split {
        what,
        stages: Stage::ALL.map(middle).to_vec(),
    }
}

/// A line for each kind, a column for each stage.
pub fn table(splits: &[Split]) -> String {
    let mut out = format!("{:<50}", "");
    let names = Stage::ALL.map(Stage::name);
    for name in names.iter().chain(&["together"]) {
        let _ = write!(out, "{name:>12}");
    }
    out.push('\n');
    for split in splits {
        let _ = write!(out, "{:<50}", split.what);
        let together = split.stages.iter().sum();
        for ns in split.stages.iter().chain([&together]) {
            let _ = write!(out, "{:>12}", report::time(*ns));
        }
        out.push('\n');
    }
    out
}

/// A list of objects: `what`, and `stages`, each with its nanoseconds.
pub fn json(splits: &[Split]) -> String {
    let one = |split: &Split| {
        let stages = Stage::ALL.into_iter().zip(&split.stages);
        let stages: Value = stages
            .map(|(stage, ns)| (stage.name().to_owned(), json!(ns)))
            .collect();
        json!({"what": split.what, "stages": stages})
    };
    let list: Vec<Value> = splits.iter().map(one).collect();
    format!("{:#}\n", Value::from(list))
}
