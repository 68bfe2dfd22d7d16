//! What the strategies cost, against the bare calls and stores that they need. Ignored, as it
//! measures: run it with `cargo test --release --lib memory::tests::figures -- --ignored
//! --nocapture`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use std::vec::Vec;

use super::*;
use crate::publish::{Level, Publisher, Serializer};

/// Nanoseconds for one call of each of two functions: medians of interleaved rounds.
fn compare(calls: u32, mut ours: impl FnMut(u32), mut bare: impl FnMut(u32)) -> (f64, f64) {
    let round = |f: &mut dyn FnMut(u32)| {
        let start = Instant::now();
        (0..calls).for_each(f);
        start.elapsed().as_nanos() as f64 / f64::from(calls)
    };
    let mut times: Vec<(f64, f64)> = (0..31).map(|_| (round(&mut ours), round(&mut bare))).collect();
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ours = times[15].0;
    times.sort_by(|a, b| a.1.total_cmp(&b.1));
    (ours, times[15].1)
}

fn report(what: &str, (ours, bare): (f64, f64)) {
    std::eprintln!(
        "{what:44} {ours:9.1} ns, bare {bare:9.1} ns, ratio {:.2}",
        ours / bare
    );
}

fn mprotect(range: CodeRange, prot: i32) {
    let at = std::ptr::with_exposed_provenance_mut(range.start().get() as usize);
    // SAFETY: pages of the test's.
    assert_eq!(unsafe { libc::mprotect(at, range.len() as usize, prot) }, 0);
}

fn copy(at: u64, bytes: &[u8]) {
    let at = std::ptr::with_exposed_provenance_mut::<u8>(at as usize);
    // SAFETY: writable memory of the test's.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
}

fn measure(with: &str) {
    let bytes = |i: u32| [i as u8; 32];
    let (placed, range) = aliased(4096);
    let alias = placed.memory();
    let rw = alias.writable(range.start(), 32).unwrap();
    let memory: &dyn CodeMemory = std::hint::black_box(&alias);
    let publisher = Publisher::new();
    let figures = compare(
        100_000,
        |i| {
            memory.write(range.start(), &bytes(i)).unwrap();
            serialize();
        },
        |i| {
            copy(rw, std::hint::black_box(&bytes(i)));
            serialize();
        },
    );
    report(&std::format!("Alias, 32 bytes and serialize, {with}"), figures);
    let figures = compare(
        100_000,
        |i| {
            let mut old = [0; 32];
            memory.read(range.start(), &mut old).unwrap();
            memory.write(range.start(), &bytes(i)).unwrap();
            memory.read(range.start(), &mut old).unwrap();
            assert_eq!(old, bytes(i));
        },
        |i| {
            copy(rw, std::hint::black_box(&bytes(i)));
            serialize();
        },
    );
    report(&std::format!("Alias, read, write, read back, {with}"), figures);

    let foreign = Foreign::new(1);
    let at = foreign.range.start();
    let mut site = [CodeRange::new(at, 32).unwrap()];
    let runs = PageRun::covering(&mut site).unwrap();
    // SAFETY: the pages are the test's.
    let toggle = unsafe { Toggle::register(foreign.range) }.unwrap();
    stopped(|token| {
        let figures = compare(
            2000,
            |i| {
                toggle.begin(&runs, token).unwrap();
                toggle.write(at, &bytes(i)).unwrap();
                toggle.end(&runs).unwrap();
                serialize();
            },
            |i| {
                mprotect(foreign.range, libc::PROT_READ | libc::PROT_WRITE);
                copy(at.get(), &bytes(i));
                mprotect(foreign.range, libc::PROT_READ | libc::PROT_EXEC);
                serialize();
            },
        );
        report(&std::format!("Toggle, 32 bytes and serialize, {with}"), figures);
    });

    // SAFETY: the pages are the test's.
    let proc_mem = unsafe { ProcMem::register(foreign.range) }.unwrap();
    let file = std::fs::File::options()
        .write(true)
        .open("/proc/self/mem")
        .unwrap();
    let figures = compare(
        10_000,
        |i| {
            proc_mem.write(at, &bytes(i)).unwrap();
            serialize();
        },
        |i| {
            std::os::unix::fs::FileExt::write_all_at(&file, &bytes(i), at.get()).unwrap();
            serialize();
        },
    );
    report(&std::format!("ProcMem, 32 bytes and serialize, {with}"), figures);

    let figures = compare(
        if with == "alone" { 20_000 } else { 1000 },
        |_| publisher.publish(&[range], Level::Immediate).unwrap(),
        |_| publisher.publish(&[range], Level::Eventual).unwrap(),
    );
    report(
        &std::format!("publish Immediate (bare: Eventual), {with}"),
        figures,
    );
}

#[test]
#[ignore = "measures; takes some seconds"]
fn costs() {
    std::eprintln!("serialized by {}", Serializer::of_this_machine());
    measure("alone");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        measure("with a thread");
        stop.store(true, Ordering::Relaxed);
    });
}
