//! Memory for stubs cannot be had: what is asked for is refused by type, no site changes, and the
//! engine goes on.

use super::{OBJECT, adding, bytes, call, callee, live_module, shape, site};
use crate::addr::CodeAddr;
use crate::deopt::ExitStubs;
use crate::engine::{Engine, Prepared, Receipt, Status};
use crate::error::Errno;
use crate::memory::Arena;
use crate::memory::testing::process::{deny, in_child};
use crate::publish::{GracePeriod, NeverStopped};
use crate::sequence::{Sequence, Target, arg, result};
use crate::site::Module;
use crate::{Error, Result};

fn engine() -> Engine {
    Engine::builder()
        .world(NeverStopped)
        .exits(ExitStubs::new().on_deopt(|frame| frame.resume()))
        .arena(Arena::new(64 * 1024))
        .build()
        .unwrap()
}

/// A sequence whose stub takes about 2 KiB.
fn long() -> Sequence {
    let start = Sequence::new().mov(result(), arg(0));
    (0..150).fold(start, |sequence, _| sequence.add(result(), 0x1234_5678_9abc_u64))
}

/// Patches a site again and again, freeing nothing, until that is refused.
fn exhaust(engine: &Engine, id: u64, sequence: &Sequence) -> Error {
    for _ in 0..100_000 {
        if let Err(error) = engine.patch(id, sequence) {
            return error;
        }
    }
    panic!("memory without end");
}

/// Holds stubs of changes that are not made, until there is no memory for any more: the first are
/// large.
fn hold_all(engine: &Engine) -> Vec<Prepared<'_>> {
    let mut held = Vec::new();
    for sequence in [long(), adding(6)] {
        while let Ok(prepared) = engine.plan(107, &sequence) {
            held.push(prepared);
            assert!(held.len() < 100_000, "memory without end");
        }
    }
    held
}

/// Tries again and again, with room for one more small stub each time, until it is not refused.
/// Whatever is refused has freed what it took.
fn squeeze(engine: &Engine, module: &Module, attempt: impl Fn() -> Result<Receipt>) {
    let mut held = hold_all(engine);
    let before = bytes(module);
    for refused in 0.. {
        let slots = engine.stub_stats().slots;
        match attempt() {
            Ok(_) => return assert!(refused >= 3, "refused {refused} times"),
            Err(error) => assert!(is_no_memory(&error), "{error:?}"),
        }
        assert_eq!(engine.stub_stats().slots, slots, "refused {refused} times before");
        assert_eq!(bytes(module), before);
        assert!(held.pop().is_some());
    }
}

fn is_no_memory(error: &Error) -> bool {
    matches!(
        error,
        Error::Memory(crate::memory::Error::SystemCall {
            errno: Errno(libc::ENOMEM),
            ..
        }) | Error::Memory(crate::memory::Error::NoAddressSpace { .. })
    )
}

fn deny_memory() {
    deny(&[libc::SYS_mmap, libc::SYS_memfd_create], libc::ENOMEM);
}

#[test]
fn patches_and_invalidations_without_memory_change_nothing_and_work_when_there_is_some() {
    assert!(in_child(|| {
        let engine = engine();
        let module = live_module(&engine);
        engine.patch(100, &adding(1)).unwrap();
        deny_memory();
        // First in large pieces, then in small ones, until not even an exit stub has room.
        let large = exhaust(&engine, 107, &long());
        let small = exhaust(&engine, 106, &adding(6));
        assert!(is_no_memory(&large), "{large:?}");
        assert!(is_no_memory(&small), "{small:?}");
        let (before, retired) = (bytes(&module), engine.retired().len());
        let slots = engine.stub_stats().slots;
        let refused = [
            engine.patch(200, &adding(2)),
            // Of a transaction of several, none is changed.
            engine
                .transaction()
                .restore(&site(&engine, 106))
                .unwrap()
                .patch(201, &adding(1))
                .unwrap()
                .commit(),
            engine.invalidate(&module.function("any_0").unwrap()),
            engine.invalidate(&module.function("call_3").unwrap()),
        ];
        for refused in refused {
            let refused = refused.unwrap_err();
            assert!(is_no_memory(&refused), "{refused:?}");
        }
        assert_eq!(bytes(&module), before);
        assert_eq!(
            (engine.stub_stats().slots, engine.retired().len()),
            (slots, retired)
        );
        assert_eq!(engine.status(&site(&engine, 100)), Status::Patched);
        assert_eq!((call(&module, "any_0", 5), call(&module, "any_6", 5)), (6, 11));
        // What needs no memory is done.
        engine.restore(106).unwrap();
        // SAFETY: this is the only thread, and it is in no stub.
        let grace_period = unsafe { GracePeriod::promise() };
        assert!(engine.reclaim(&grace_period).unwrap() > 8);
        engine.patch(200, &adding(2)).unwrap();
        engine.invalidate(&module.function("any_0").unwrap()).unwrap();
        call(&module, "call_0", 5) == 7 && call(&module, "any_0", 5) == 6
    }));
}

#[test]
fn arming_without_memory_writes_nothing() {
    assert!(in_child(|| {
        let engine = engine();
        let resolve = |name: &str| (name == "callee").then_some(CodeAddr::new(callee as *const () as u64));
        let first = live_module(&engine);
        let before = bytes(&first);
        let code = engine.load(OBJECT, resolve).unwrap();
        let second = engine.load(OBJECT, resolve).unwrap();
        deny_memory();
        let large = exhaust(&engine, 107, &long());
        let small = exhaust(&engine, 107, &adding(6));
        assert!(is_no_memory(&large) && is_no_memory(&small));
        let slots = engine.stub_stats().slots;
        // SAFETY: what is told is true of the object's code, or refused.
        let refused = unsafe {
            engine
                .registration(code)
                .live()
                .register(|record| shape(record.id()))
        };
        let refused = refused.unwrap_err();
        assert!(is_no_memory(&refused), "{refused:?}");
        assert_eq!((engine.modules().len(), engine.stub_stats().slots), (1, slots));
        engine.restore(107).unwrap();
        assert_eq!(bytes(&first), before);
        // SAFETY: this is the only thread, and it is in no stub.
        engine.reclaim(&unsafe { GracePeriod::promise() }).unwrap();
        let second = engine.registration(second).live();
        // SAFETY: what is told is true of the object's code, or refused.
        let second = unsafe { second.register(|record| shape(record.id())) }.unwrap();
        call(&second, "call_3", 5) == callee(5)
    }));
}

#[test]
fn what_is_refused_half_way_gives_back_what_it_took() {
    assert!(in_child(|| {
        let engine = engine();
        let module = live_module(&engine);
        deny_memory();
        let leaves = long().jump(Target::Deopt);
        // An exit stub, and then a stub.
        squeeze(&engine, &module, || engine.patch(200, &leaves));
        // Stubs of several sites.
        squeeze(&engine, &module, || {
            let mut transaction = engine.transaction();
            transaction.patch(101, &adding(1))?;
            transaction.patch(102, &adding(2))?;
            transaction
                .patch(103, &adding(3))?
                .patch(104, &adding(4))?
                .patch(105, &adding(5))?
                .commit()
        });
        // Exit stubs of several sites.
        squeeze(&engine, &module, || {
            let functions = ["any_1", "any_2", "any_3"].map(|name| module.function(name).unwrap());
            let mut transaction = engine.transaction();
            for function in &functions {
                transaction.invalidate(function)?;
            }
            transaction.commit()
        });
        call(&module, "any_1", 5) == 6 && call(&module, "any_3", 5) == 8 && call(&module, "any_5", 5) == 10
    }));
}

#[test]
fn arming_that_is_refused_half_way_gives_back_its_stubs() {
    assert!(in_child(|| {
        let engine = engine();
        let resolve = |name: &str| (name == "callee").then_some(CodeAddr::new(callee as *const () as u64));
        let _first = live_module(&engine);
        let code = engine.load(OBJECT, resolve).unwrap();
        deny_memory();
        let mut held = hold_all(&engine);
        // Room for some of the eight stubs that arming needs.
        held.truncate(held.len() - 6);
        let slots = engine.stub_stats().slots;
        // SAFETY: what is told is true of the object's code, or refused.
        let refused = unsafe {
            engine
                .registration(code)
                .live()
                .register(|record| shape(record.id()))
        };
        is_no_memory(&refused.unwrap_err()) && engine.stub_stats().slots == slots
    }));
}
