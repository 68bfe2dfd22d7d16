//! What an engine promises, for code of another process.

use std::sync::atomic::Ordering;

use patchpoint::addr::CodeAddr;
use patchpoint::arch::Arch;
use patchpoint::deopt::ReturnValue;
use patchpoint::engine::Status;
use patchpoint::image::Adoption;
use patchpoint::memory::StrategyChoice;
use patchpoint::publish::SignalWorld;
use patchpoint::stackmap::Endian;

use patchpoint_remote::Error;

use crate::common::{Handlers, Setup, hit, setup, setup_in};

/// An object of that shape with these in its words 2 and 3.
fn object(setup: &Setup, shape: u64, second: u64, third: u64) -> u64 {
    setup.objects.put(&[0, shape, second, third])
}

fn calls_patches_misses_and_restores(live: bool) {
    let mut setup = setup(Handlers::default(), live);
    let (one, two) = (object(&setup, 0x17, 111, 1234), object(&setup, 0x18, 5, 6));
    setup.engine.patch(78, &hit(0x17, 24)).unwrap();
    assert_eq!(setup.get(one), Ok(1234));
    assert_eq!(setup.misses.load(Ordering::Relaxed), 0);
    assert_eq!(setup.get(two), Ok(7), "the handler's result");
    assert_eq!(setup.misses.load(Ordering::Relaxed), 1);
    setup.engine.patch(78, &hit(0x17, 16)).unwrap();
    assert_eq!(setup.get(one), Ok(111));
    let site = setup.engine.sites(78).unwrap().into_iter().next().unwrap();
    assert_eq!(setup.engine.status(&site), Status::Patched);
    setup.engine.restore(78).unwrap();
    assert_eq!(setup.engine.status(&site), Status::Original);
}

#[test]
fn a_quiescent_module_is_changed_and_leaves_for_its_handlers() {
    calls_patches_misses_and_restores(false);
}

#[test]
fn a_live_module_is_changed_and_leaves_for_its_handlers() {
    calls_patches_misses_and_restores(true);
}

/// Whatever is patched, the next call executes it: the thread that runs it has serialized.
#[test]
fn every_patch_is_seen_by_the_next_call() {
    for (live, immediate) in [(false, false), (true, false), (false, true), (true, true)] {
        let handlers = Handlers {
            immediate,
            ..Handlers::default()
        };
        let mut setup = setup(handlers, live);
        let one = object(&setup, 0x17, 111, 1234);
        for _ in 0..500 {
            for (at, value) in [(24, 1234), (16, 111)] {
                setup.engine.patch(78, &hit(0x17, at)).unwrap();
                assert_eq!(setup.get(one), Ok(value));
            }
        }
    }
}

/// A handler patches the very site that it comes from.
#[test]
fn a_handler_changes_its_own_site() {
    let handlers = Handlers {
        miss: Some(Box::new(|engine, frame| {
            let object = frame.arg(0).unwrap().u64().unwrap();
            // SAFETY: a pointer to an object that both processes see.
            let [_, shape, _, value] = unsafe { *(object as *const [u64; 4]) };
            engine.patch(78, &hit(shape as u32, 24)).unwrap();
            frame.set_result(value).unwrap();
            frame.resume()
        })),
        ..Handlers::default()
    };
    let mut setup = setup(handlers, false);
    setup.engine.patch(78, &hit(0x99, 24)).unwrap();
    let objects = [0x17, 0x23, 0x31].map(|shape| object(&setup, shape, 1, shape * 2));
    for (number, at) in objects.into_iter().enumerate() {
        for _ in 0..3 {
            assert_eq!(setup.get(at), Ok([0x17, 0x23, 0x31][number] * 2));
        }
    }
    assert_eq!(setup.misses.load(Ordering::Relaxed), 3);
}

/// The loop is invalidated in its middle; at its stackmap the handler reads the live values, those
/// on the stack too, and leaves the frame.
#[test]
fn an_invalidated_loop_is_left_with_its_values() {
    let handlers = Handlers {
        miss: Some(Box::new(|engine, frame| {
            let module = engine.modules().remove(0);
            engine
                .invalidate(&module.function("sum_fields").unwrap())
                .unwrap();
            frame.set_result(1000).unwrap();
            frame.resume()
        })),
        deopt: Some(Box::new(|_, frame| {
            let word = |index| frame.live_value(index).unwrap().u64().unwrap();
            let (count, index, sum) = (word(1), word(2), word(3));
            assert_eq!((count, index), (3, 1));
            assert_eq!(word(6), 81_985_529_216_486_895);
            frame.return_to_caller(ReturnValue::Int(sum + 1)).unwrap()
        })),
        ..Handlers::default()
    };
    let mut setup = setup(handlers, false);
    setup.engine.patch(78, &hit(0x17, 24)).unwrap();
    let objects = [0x17, 0x18, 0x17].map(|shape| object(&setup, shape, 1, 50));
    let list = setup.objects.put(&objects);
    let sum = setup.entry("sum_fields");
    assert_eq!(setup.thread.call(sum, &[list, 3]), Ok(50 + 1000 + 1));
    let site = setup.engine.sites(90).unwrap().into_iter().next().unwrap();
    assert_eq!(setup.engine.status(&site), Status::Invalidated);
    // The thread is as good as before.
    let one = object(&setup, 0x17, 1, 2);
    setup
        .engine
        .patch_site(
            &setup.engine.sites(78).unwrap().into_iter().next().unwrap(),
            &hit(0x17, 24),
        )
        .unwrap();
    assert_eq!(setup.get(one), Ok(2));
}

/// Readers execute a live site in as many threads while it is changed: each call returns what one
/// of the sequences finds.
#[test]
fn live_sites_change_under_execution() {
    let mut setup = setup(Handlers::default(), true);
    let one = object(&setup, 0x17, 111, 1234);
    setup.engine.patch(78, &hit(0x17, 24)).unwrap();
    let get = setup.entry("get");
    let rounds = if cfg!(debug_assertions) { 2_000 } else { 20_000 };
    let mut threads: Vec<_> = (0..2).map(|_| setup.executor.thread(64 << 10).unwrap()).collect();
    std::thread::scope(|scope| {
        let readers: Vec<_> = threads
            .iter_mut()
            .map(|thread| {
                scope.spawn(move || {
                    (0..rounds)
                        .map(|_| thread.call(get, &[one]).unwrap())
                        .filter(|value| *value != 1234 && *value != 111)
                        .count()
                })
            })
            .collect();
        let mut patches = 0;
        while readers.iter().any(|reader| !reader.is_finished()) {
            for at in [16, 24] {
                setup.engine.patch(78, &hit(0x17, at)).unwrap();
                patches += 1;
            }
        }
        assert!(patches > 100, "{patches} patches");
        for reader in readers {
            assert_eq!(reader.join().unwrap(), 0);
        }
    });
    assert_eq!(setup.get(one), Ok(1234));
}

#[test]
fn what_belongs_to_this_process_is_refused() {
    let setup = setup(Handlers::default(), true);
    let not_mirrored = |what: patchpoint::Result<()>| {
        assert!(
            matches!(
                what,
                Err(patchpoint::Error::Memory(
                    patchpoint::memory::Error::NotMirrored { .. }
                ))
            ),
            "{what:?}"
        );
    };
    // SAFETY: no engine is built with it.
    let world = unsafe { SignalWorld::new() }.unwrap();
    not_mirrored(setup.executor.engine().world(world).build().map(drop));
    let endian = if cfg!(target_endian = "big") {
        Endian::Big
    } else {
        Endian::Little
    };
    let adoption = Adoption::new(Arch::host().unwrap(), endian, Vec::new());
    // SAFETY: it is code of no bytes.
    let adopted = unsafe { adoption.promise() }.unwrap();
    not_mirrored(setup.engine.adopt(adopted, StrategyChoice::Auto).map(drop));
    let mut thread = setup.executor.thread(64 << 10).unwrap();
    let refused = thread.call(CodeAddr::new(0x1000), &[]);
    assert!(
        matches!(refused, Err(Error::ExecutorRefused { .. })),
        "{refused:?}"
    );
    let refused = thread.call(setup.entry("get"), &[0; 7]);
    assert_eq!(refused, Err(Error::ExecutorArgs { given: 7, most: 6 }));
    assert_eq!(setup.executor.check(), Ok(()));
}

/// Modules and threads come and go; their memory is used again.
#[test]
fn what_is_freed_is_used_again() {
    let setup = setup(Handlers::default(), false);
    let chunks = setup.executor.arena().chunks().len();
    for _ in 0..40 {
        drop(setup.executor.thread(512 << 10).unwrap());
    }
    assert_eq!(setup.executor.arena().chunks().len(), chunks);
    let data = setup.executor.share(4096).unwrap();
    let at = data.segments()[0].range.start().get() as *mut u64;
    // SAFETY: shared data, of this test.
    unsafe { at.write_volatile(77) };
    drop(data);
    let again = setup.executor.share(4096).unwrap();
    assert_eq!(again.segments()[0].range.start().get() as *mut u64, at);
    // SAFETY: as above.
    assert_eq!(unsafe { at.read_volatile() }, 0, "it is new again");
}

/// The program that comes with the crate.
#[test]
fn the_program_is_an_executor() {
    let program = std::process::Command::new(env!("CARGO_BIN_EXE_patchpoint-executor"));
    let executor = patchpoint_remote::Executor::spawn(program).unwrap();
    let mut setup = setup_in(executor, Handlers::default(), false);
    let one = object(&setup, 0x17, 111, 1234);
    setup.engine.patch(78, &hit(0x17, 24)).unwrap();
    assert_eq!(setup.get(one), Ok(1234));
}

/// The shadow of a live module gets a trap; the thread that runs into it comes here with its
/// values.
#[test]
fn a_shadow_of_a_live_module_is_invalidated_while_it_runs() {
    let handlers = Handlers {
        miss: Some(Box::new(|engine, frame| {
            let module = engine.modules().remove(0);
            let shadow = module.sites().find(|site| site.id().get() == 90).unwrap();
            engine.invalidate_site(&shadow).unwrap();
            frame.set_result(1000).unwrap();
            frame.resume()
        })),
        deopt: Some(Box::new(|_, frame| {
            let sum = frame.live_value(3).unwrap().u64().unwrap();
            frame.return_to_caller(ReturnValue::Int(sum + 1)).unwrap()
        })),
        ..Handlers::default()
    };
    let mut setup = setup(handlers, true);
    setup.engine.patch(78, &hit(0x17, 24)).unwrap();
    let objects = [0x17, 0x18, 0x17].map(|shape| object(&setup, shape, 1, 50));
    let list = setup.objects.put(&objects);
    let sum = setup.entry("sum_fields");
    assert_eq!(setup.thread.call(sum, &[list, 3]), Ok(50 + 1000 + 1));
    assert_eq!(setup.thread.call(sum, &[list + 8, 2]), Ok(1000 + 1));
    // The thread is as good as before.
    let one = object(&setup, 0x17, 1, 2);
    assert_eq!(setup.get(one), Ok(2));
}
