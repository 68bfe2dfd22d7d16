//! Every object loads, every site registers, is patched, runs with the right result, and gets its
//! bytes back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use asm_tests::{Folder, Param, Source, Target as Original, TestObject, resolve_for};
use patchpoint::Error;
use patchpoint::addr::CodeAddr;
use patchpoint::arch::SiteKind;
use patchpoint::deopt::ExitStubs;
use patchpoint::engine::{Engine, Status};
use patchpoint::memory::Arena;
use patchpoint::publish::SingleThreaded;
use patchpoint::sequence::{Sequence, Target, arg, result};
use patchpoint::site::{Module, Site};

/// Memory for an object: the tiny code model reaches 1 MiB, which the engine's own chunks are
/// larger than.
fn arena(object: &TestObject) -> Arena {
    match object.variant.as_str() {
        "pic-tiny" => Arena::new(1 << 18),
        _ => Arena::default(),
    }
}

/// An engine whose sites, where they deoptimize, count and go on as if nothing had happened.
fn engine(arena: Arena) -> (Engine, Arc<AtomicUsize>) {
    let entered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&entered);
    let exit_stubs = ExitStubs::new().on_deopt(move |frame| {
        count.fetch_add(1, Ordering::Relaxed);
        for (_, value) in frame.live_values() {
            value.expect("every live value can be read");
        }
        frame.resume()
    });
    // SAFETY: each test has its own engine and calls its code on one thread.
    let world = unsafe { SingleThreaded::promise() };
    let engine = Engine::builder().world(world).exits(exit_stubs).arena(arena);
    (engine.build().unwrap(), entered)
}

/// Whether LLVM makes shadows shorter than promised there: it counts 4 bytes for an instruction
/// that has 2, or none.
fn has_short_shadows(folder: Folder) -> bool {
    !matches!(folder, Folder::X86_64 | Folder::S390x | Folder::Riscv64)
}

/// Registers all sites but the shadows that LLVM made too short, and says how many of those there
/// are.
fn register(engine: &Engine, object: &TestObject, source: &Source) -> (Module, usize) {
    let mut short = BTreeSet::new();
    loop {
        let code = engine
            .load(&object.bytes, resolve_for(&object.bytes))
            .unwrap_or_else(|e| panic!("{}: {e}", object.name));
        let wanted = |id| {
            source
                .shape(id)
                .filter(|shape| shape.reserved().get() > 0 && !short.contains(&id))
        };
        // SAFETY: what is told is true of the object's code, or refused.
        match unsafe { engine.register(code, |record| wanted(record.id().get())) } {
            Ok(module) => return (module, short.len()),
            // After a shadow that is too short comes another block, and the function jumps to its
            // begin.
            Err(
                Error::Site(patchpoint::site::Error::SiteOutsideFunction { site, .. })
                | Error::Site(patchpoint::site::Error::SiteOverlapsRecord { site, .. })
                | Error::Site(patchpoint::site::Error::BranchIntoSite { site, .. }),
            ) if has_short_shadows(object.folder) => {
                let id = site.id.get();
                assert_eq!(
                    wanted(id).unwrap().kind(),
                    SiteKind::Shadow,
                    "{}: {id}",
                    object.name
                );
                short.insert(id);
            }
            Err(error) => panic!("{}: {error}", object.name),
        }
    }
}

/// What the contract of the sources says that a site with a result is patched with.
fn contract(site: &Site) -> Sequence {
    let id = site.id().get();
    match (
        site.shape().kind(),
        site.shape().has_result(),
        site.shape().arg_count(),
    ) {
        (SiteKind::Shadow, ..) => Sequence::new().jump(Target::Deopt),
        (_, false, _) => Sequence::new(),
        (_, true, 0) => Sequence::new().mov(result(), id),
        (_, true, _) => Sequence::new().mov(result(), arg(0)).add(result(), id),
    }
}

/// Calls a function of at most six parameters with numbers and pointers that depend on `seed` only.
///
/// Pointers point into `memory`, so that two calls with the same memory get the same numbers.
fn call(addr: CodeAddr, params: &[Param], seed: u64, memory: &mut Memory) -> (u64, Memory) {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    memory
        .as_flattened_mut()
        .iter_mut()
        .for_each(|word| *word = next() % 1000);
    let mut args = [0u64; 6];
    for ((arg, param), words) in args.iter_mut().zip(params).zip(memory.iter_mut()) {
        *arg = match param {
            Param::Int => next() % 50,
            Param::Pointer => words.as_mut_ptr() as u64,
        };
    }
    type F = extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64;
    // SAFETY: the address is that of a function of the objects' contract, which takes up to six words.
    let function: F = unsafe { std::mem::transmute(addr.get() as usize) };
    let [a, b, c, d, e, f] = args;
    (function(a, b, c, d, e, f), *memory)
}

/// 16 words for each of up to six pointers.
type Memory = [[u64; 16]; 6];

fn runnable(function: &asm_tests::Function) -> bool {
    !function.avx || asm_tests::has_avx()
}

/// Runs every function of `which` and compares with the reference.
fn compare(
    module: &Module,
    reference: &patchpoint::engine::LoadedCode,
    source: &Source,
    what: &str,
    which: impl Fn(&str) -> bool,
) -> usize {
    let (mut calls, mut memory) = (0, Memory::default());
    module.release();
    for function in source.functions.iter().filter(|f| runnable(f) && which(&f.name)) {
        let expected = reference
            .symbol(&function.name)
            .expect("the reference has every function");
        let addr = module.function(&function.name).unwrap().entry().unwrap();
        for seed in 1..8 {
            let found = call(addr, &function.params, seed, &mut memory);
            let expected = call(expected, &function.params, seed, &mut memory);
            assert_eq!(found, expected, "{what}: {} {seed}", function.name);
            calls += 1;
        }
    }
    calls
}

fn bytes(site: &Site) -> Vec<u8> {
    // SAFETY: the site's module keeps its code mapped and readable.
    unsafe { std::slice::from_raw_parts(site.addr().get() as *const u8, site.reserved().as_usize()) }.to_vec()
}

fn run_object(object: &TestObject) -> [usize; 4] {
    let source = object.folder.source(&object.source);
    let (engine, entered) = engine(arena(object));
    let (module, short) = register(&engine, object, &source);
    let reference = object.folder.reference(&object.source);
    let reference = engine.load(&reference, resolve_for(&reference)).unwrap();
    let sites: Vec<Site> = module.sites().collect();
    let original: Vec<Vec<u8>> = sites.iter().map(bytes).collect();
    let mut calls = 0;

    let unpatched = |name: &str| {
        let own = || source.sites.iter().filter(|site| site.function == name);
        // A function without sites of its own may call one that has some.
        own().next().is_some()
            && own().all(|site| matches!(site.target, Original::Symbol(_)) || !site.shape.has_result())
            && own().all(|site| site.target != Original::Constant)
    };
    calls += compare(&module, &reference, &source, &object.name, unpatched);

    let mut patched = 0;
    for site in &sites {
        match engine.patch_site(site, &contract(site)) {
            Ok(_) => patched += 1,
            Err(error) => {
                let short = site.reserved().get() < 5;
                assert!(short, "{}: {site:?}: {error}", object.name);
                assert_eq!(engine.status(site), Status::Original);
            }
        }
    }
    let kept = |name: &str| !object.loses_arguments(&source, name);
    calls += compare(&module, &reference, &source, &object.name, kept);
    let shadows = sites
        .iter()
        .any(|site| engine.status(site) == Status::Patched && site.shape().kind() == SiteKind::Shadow);
    if shadows && source.functions.iter().any(runnable) {
        assert!(
            entered.load(Ordering::Relaxed) > 0,
            "{}: no shadow was entered",
            object.name
        );
    }

    for site in &sites {
        engine.restore_site(site).unwrap();
    }
    assert!(
        sites.iter().map(bytes).eq(original),
        "{}: bytes differ after restore",
        object.name
    );
    calls += compare(&module, &reference, &source, &object.name, unpatched);

    for function in module.functions() {
        match engine.invalidate(&function) {
            Ok(_) => assert!(
                function
                    .sites()
                    .all(|site| engine.status(&site) == Status::Invalidated)
            ),
            Err(Error::NothingToInvalidate { .. }) => assert_eq!(function.sites().count(), 0),
            Err(error) => assert!(
                function.sites().any(|s| s.reserved().get() < 5),
                "{}: {error}",
                object.name
            ),
        }
    }
    calls += compare(&module, &reference, &source, &object.name, unpatched);
    [sites.len(), patched, short, calls]
}

#[test]
fn every_object_runs_patched_restored_and_invalidated() {
    let objects = asm_tests::native_objects();
    let mut sums = [0; 4];
    for object in &objects {
        for (sum, count) in sums.iter_mut().zip(run_object(object)) {
            *sum += count;
        }
    }
    let ([sites, patched, short, calls], objects) = (sums, objects.len());
    println!(
        "{objects} objects, {sites} sites, {patched} patched, {short} too short, {calls} calls compared"
    );
    assert!(objects >= 40 && sites >= 500 && patched * 10 >= sites * 9 && short * 20 <= sites);
}
