//! Times by themselves, for comparing one version with the next. For what they mean against the
//! bare calls see `cargo run --release -p benches -- ratios`.

#![expect(
    missing_docs,
    reason = "criterion_group makes an undocumented public function"
)]

use std::hint::black_box;
use std::time::Duration;

use benches::measure::time;
use benches::ratios::{self, Loops};
use benches::subject::{self, Copies, RESERVED};
use benches::times::{self, COPIES};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use patchpoint::engine::Engine;
use patchpoint::memory::StrategyChoice;
use patchpoint::publish::GracePeriod;
use patchpoint::site::{Module, Site};
use patchpoint::verify;

fn whole_modules(c: &mut Criterion) {
    let engine = subject::engine();
    let copies = Copies::new(&engine, COPIES, 0);
    let mut group = c.benchmark_group("20,001 records");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(3 * COPIES as u64));
    group.bench_function("parse", |b| {
        b.iter(|| times::parse(black_box(&copies.stack_maps)))
    });
    group.bench_function("register", |b| {
        b.iter_custom(|rounds| {
            let round = |_| {
                let code = copies.adopt(&engine, StrategyChoice::ProcMem).unwrap();
                let mut module = None;
                // SAFETY: what is told is true of the object's code, or refused.
                let took = time(|| module = Some(unsafe { engine.register(code, subject::shape) }.unwrap()));
                forget(&engine, module.unwrap());
                took
            };
            (0..rounds).map(round).sum()
        });
    });
}

fn forget(engine: &Engine, module: Module) {
    // SAFETY: nothing runs there.
    engine
        .unregister(module, &unsafe { GracePeriod::promise() })
        .unwrap();
}

fn sequences(c: &mut Criterion) {
    let engine = subject::engine();
    let module = subject::module(&engine);
    let site = subject::reads(&module).remove(0);
    let (context, exit_stub) = (site.context(&[]), subject::a_exit_stub(&site));
    let hit = subject::hit(8);
    let assembled = subject::assemble(&hit, &context, exit_stub);
    c.bench_function("assemble", |b| {
        b.iter(|| subject::assemble(black_box(&hit), &context, exit_stub))
    });
    c.bench_function("verify", |b| {
        b.iter(|| verify::check(&context, black_box(&assembled.code), &[], &assembled.declared).unwrap());
    });
}

/// A module in memory that is written by one of the strategies.
fn module(engine: &Engine, ask: Option<StrategyChoice>) -> Module {
    let Some(ask) = ask else {
        return subject::module(engine);
    };
    let code = Copies::new(engine, 1, 0).adopt(engine, ask).unwrap();
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { engine.register(code, subject::shape) }.unwrap()
}

fn changes(c: &mut Criterion) {
    for (strategy, ask) in [
        ("Alias", None),
        ("ProcMem", Some(StrategyChoice::ProcMem)),
        ("Toggle", Some(StrategyChoice::Toggle)),
    ] {
        let engine = subject::engine();
        let module = module(&engine, ask);
        let site = subject::reads(&module).remove(0);
        let mut group = c.benchmark_group(strategy);
        group.throughput(Throughput::Bytes(RESERVED as u64));
        group.bench_function("patch, whole", |b| {
            b.iter_custom(|rounds| patches(&engine, &site, rounds))
        });
        group.bench_function("commit", |b| {
            b.iter_custom(|rounds| commits(&engine, &site, rounds))
        });
        group.bench_function("restore", |b| {
            b.iter_custom(|rounds| restores(&engine, &site, rounds))
        });
    }
}

fn patches(engine: &Engine, site: &Site, rounds: u64) -> Duration {
    let sequences = [subject::hit(8), subject::hit(16)];
    let patch = |round| time(|| _ = engine.patch_site(site, &sequences[round as usize % 2]).unwrap());
    (0..rounds).map(patch).sum()
}

fn commits(engine: &Engine, site: &Site, rounds: u64) -> Duration {
    let sequences = [subject::hit(8), subject::hit(16)];
    let commit = |round| {
        let mut transaction = engine.transaction();
        transaction
            .patch_site(site, &sequences[round as usize % 2])
            .unwrap();
        let prepared = transaction.prepare().unwrap();
        time(|| _ = prepared.commit().unwrap())
    };
    (0..rounds).map(commit).sum()
}

fn restores(engine: &Engine, site: &Site, rounds: u64) -> Duration {
    let hit = subject::hit(8);
    let restore = |_| {
        engine.patch_site(site, &hit).unwrap();
        time(|| _ = engine.restore_site(site).unwrap())
    };
    (0..rounds).map(restore).sum()
}

fn invalidate(c: &mut Criterion) {
    let engine = subject::engine();
    c.bench_function("Alias/invalidate", |b| {
        b.iter_custom(|rounds| {
            let round = |_| {
                let module = subject::module(&engine);
                let function = module.function("sum_fields").unwrap();
                let took = time(|| _ = engine.invalidate(&function).unwrap());
                drop(function);
                forget(&engine, module);
                took
            };
            (0..rounds).map(round).sum()
        });
    });
}

fn hits(c: &mut Criterion) {
    let loops = Loops::new();
    let (objects, sum) = ratios::objects();
    let pointers: Vec<_> = objects.iter().map(std::ptr::from_ref).collect();
    let mut group = c.benchmark_group("hit");
    group.throughput(Throughput::Elements(pointers.len() as u64));
    let names = [
        "patched",
        "written by hand",
        "inline assembly",
        "slower on purpose",
    ];
    for (name, function) in names.into_iter().zip(loops.functions()) {
        group.bench_function(name, |b| {
            b.iter(|| assert_eq!(function(black_box(pointers.as_ptr()), pointers.len() as u64), sum));
        });
    }
}

criterion_group! {
    name = all;
    config = Criterion::default()
        .sample_size(50)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = whole_modules, sequences, changes, invalidate, hits
}
criterion_main!(all);
