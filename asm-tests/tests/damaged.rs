//! Damaged objects and far targets: each refused with its place or harmless, and the engine works on.
#![cfg(target_arch = "x86_64")]

use patchpoint::addr::{CodeAddr, CodeRange};
use patchpoint::deopt::Ramps;
use patchpoint::engine::{Engine, Receipt};
use patchpoint::publish::{Drained, SingleThreaded};
use patchpoint::sequence::{Field, Sequence, Target, arg, result};
use patchpoint::{CallShape, Error};

const TRAPS: &[u8] = include_bytes!("../objects/traps/traps.o");

fn engine() -> Engine {
    // SAFETY: each test has its own engine and calls its code on one thread.
    let world = unsafe { SingleThreaded::promise() };
    let ramps = Ramps::new().on_miss(|frame| frame.resume());
    Engine::builder().world(world).exits(ramps).build().unwrap()
}

/// Loads, registers and patches what can be of an object, then unregisters it. Says how far it came: refused, loaded,
/// registered.
fn try_object(engine: &Engine, bytes: &[u8]) -> usize {
    let resolve = |_: &str| Some(CodeAddr::new(0x1234_5678_9000));
    let code = match engine.load(bytes, resolve) {
        Ok(code) => code,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return 0;
        }
    };
    let registered = engine.register(code, |record| match record.id().get() {
        4 => Some(CallShape::any_reg(24).result().args(1)),
        5 => Some(CallShape::any_reg(32).result().args(1)),
        3 => Some(CallShape::shadow(16)),
        _ => None,
    });
    let module = match registered {
        Ok(module) => module,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return 1;
        }
    };
    for site in module.sites() {
        let _ = engine.patch_site(&site, &Sequence::new().mov(result(), arg(0)));
    }
    // SAFETY: none of the damaged code is ever executed.
    let drained = unsafe { Drained::promise() };
    engine.unregister(module, &drained).unwrap();
    2
}

/// An undamaged object still goes all the way.
fn still_works(engine: &Engine) {
    assert_eq!(try_object(engine, TRAPS), 2);
    assert_eq!((engine.modules().len(), engine.stub_stats().slots), (0, 0));
}

#[test]
fn an_object_cut_off_anywhere_is_refused() {
    let engine = engine();
    let mut reached = [0; 3];
    for len in 0..TRAPS.len() {
        reached[try_object(&engine, &TRAPS[..len])] += 1;
    }
    println!("refused, loaded, registered: {reached:?}");
    still_works(&engine);
}

#[test]
fn an_object_with_a_flipped_bit_is_refused_or_harms_nothing() {
    let engine = engine();
    let (mut reached, mut bytes) = ([0; 3], TRAPS.to_vec());
    // Every bit of the headers of file and sections and of the stack map would take long: one of each byte.
    for at in 0..bytes.len() {
        let bit = 1 << (at % 8);
        bytes[at] ^= bit;
        reached[try_object(&engine, &bytes)] += 1;
        bytes[at] ^= bit;
    }
    println!("refused, loaded, registered: {reached:?}");
    assert!(reached.iter().all(|count| *count > 50), "{reached:?}");
    still_works(&engine);
}

#[test]
fn words_of_other_values_are_refused_or_harm_nothing() {
    let engine = engine();
    let mut reached = [0; 3];
    for value in [0u32, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        for at in (0..TRAPS.len() - 4).step_by(4) {
            let mut bytes = TRAPS.to_vec();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            reached[try_object(&engine, &bytes)] += 1;
        }
    }
    println!("refused, loaded, registered: {reached:?}");
    assert!(reached.iter().all(|count| *count > 50), "{reached:?}");
    still_works(&engine);
}

#[test]
fn a_target_out_of_reach_is_refused_where_no_register_is_free_to_go_further() {
    let engine = engine();
    let code = engine.load(TRAPS, |_| Some(CodeAddr::new(0x1000))).unwrap();
    let shape = CallShape::any_reg(24).result().args(1);
    engine
        .register(code, |record| (record.id().get() == 4).then_some(shape))
        .unwrap();
    let far = CodeAddr::new(0x1234_5678_9000);
    // A jump goes through the scratch register; a conditional one around it.
    engine.patch(4, &Sequence::new().jump(far)).unwrap();
    engine
        .patch(4, &Sequence::new().guard_eq(arg(0), 1u64, far))
        .unwrap();
    // A counter that no displacement reaches: through the scratch register too, but then nothing is left for the
    // constant.
    let counter = Sequence::new().add_to_memory(u64::at(far, 0), u64::MAX >> 1);
    match engine.patch(4, &counter) {
        Err(Error::NoScratch { site, .. }) => assert_eq!(site.id.get(), 4),
        other => panic!("{other:?}"),
    }
    refused_without_a_handler(&engine);
}

fn refused_without_a_handler(engine: &Engine) {
    let refused = engine.patch(4, &Sequence::new().jump(Target::Deopt));
    assert!(matches!(refused, Err(Error::NoHandler { .. })), "{refused:?}");
}

#[test]
fn what_does_not_fit_goes_to_a_stub_unless_that_is_forbidden() {
    let engine = engine();
    let code = engine.load(TRAPS, |_| Some(CodeAddr::new(0x1000))).unwrap();
    let area: CodeRange = code.areas()[0].range();
    let shape = CallShape::any_reg(24).result().args(1);
    engine
        .register(code, |record| (record.id().get() == 4).then_some(shape))
        .unwrap();
    let long = (0..40).fold(Sequence::new().mov(result(), 1u64), |s, _| s.add(result(), 1u64));
    assert_eq!(engine.patch(4, &long).unwrap(), Receipt { sites: 1 });
    let refused = engine.patch(4, &long.clone().in_place_only());
    match refused {
        Err(Error::SequenceTooLong {
            site,
            needed,
            reserved,
            stub_would_fit: true,
            ..
        }) => {
            assert!(needed > reserved && area.contains(site.addr));
        }
        other => panic!("{other:?}"),
    }
}
