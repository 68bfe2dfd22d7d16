//! Damaged objects and far targets: each refused with its place or harmless, and the engine works
//! on.
use asm_tests::{Folder, NATIVE, Source};
use patchpoint::Error;
use patchpoint::addr::CodeAddr;
use patchpoint::deopt::ExitStubs;
use patchpoint::engine::Engine;
use patchpoint::publish::{GracePeriod, SingleThreaded};
use patchpoint::sequence::{self, Field, Sequence, Target, arg, result};
use patchpoint::site::Site;

/// What is damaged: property reads and writes, with its shapes.
struct Subject {
    bytes: Vec<u8>,
    source: Source,
}

fn subject() -> Subject {
    Subject {
        bytes: NATIVE[0].object_of("property", 19, 2).bytes,
        source: NATIVE[0].source("property"),
    }
}

/// One in so many places is damaged.
const STRIDE: usize = if cfg!(emulated) { 9 } else { 1 };

fn engine() -> Engine {
    // SAFETY: each test has its own engine and calls its code on one thread.
    let world = unsafe { SingleThreaded::promise() };
    let exit_stubs = ExitStubs::new().on_miss(|frame| frame.resume());
    Engine::builder().world(world).exits(exit_stubs).build().unwrap()
}

/// Loads, registers and patches what can be of an object, then unregisters it. Says how far it
/// came: refused, loaded, registered.
fn try_object(engine: &Engine, source: &Source, bytes: &[u8]) -> usize {
    let resolve = |_: &str| Some(CodeAddr::new(0x1234_5678_9000));
    let code = match engine.load(bytes, resolve) {
        Ok(code) => code,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return 0;
        }
    };
    // SAFETY: what is told is true of the object's code, or refused.
    let registered = unsafe { engine.register(code, |record| source.shape(record.id().get())) };
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
    let grace_period = unsafe { GracePeriod::promise() };
    engine.unregister(module, &grace_period).unwrap();
    2
}

/// How many of the objects were refused, loaded, registered.
fn count(source: &Source, objects: impl Iterator<Item = Vec<u8>>) -> [usize; 3] {
    let engine = engine();
    let mut reached = [0; 3];
    for bytes in objects {
        reached[try_object(&engine, source, &bytes)] += 1;
    }
    println!("refused, loaded, registered: {reached:?}");
    // An undamaged one still goes all the way.
    assert_eq!(try_object(&engine, source, &subject().bytes), 2);
    assert_eq!((engine.modules().len(), engine.stub_stats().slots), (0, 0));
    reached
}

#[test]
fn an_object_cut_off_anywhere_is_refused() {
    let Subject { bytes, source } = subject();
    let cut = (0..bytes.len()).step_by(STRIDE).map(|len| bytes[..len].to_vec());
    assert!(count(&source, cut)[0] * STRIDE > bytes.len() / 2);
}

#[test]
fn an_object_with_a_flipped_bit_is_refused_or_harms_nothing() {
    let Subject { bytes, source } = subject();
    // Every bit of the headers of file and sections and of the stack map would take long: one of
    // each byte.
    let flipped = (0..bytes.len()).step_by(STRIDE).map(|at| {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        flipped
    });
    let reached = count(&source, flipped);
    assert!(reached.iter().all(|count| count * STRIDE > 50), "{reached:?}");
}

#[test]
fn words_of_other_values_are_refused_or_harm_nothing() {
    let Subject { bytes, source } = subject();
    let values = [0u32, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX];
    let places = || (0..bytes.len() - 4).step_by(4 * STRIDE);
    let set = values
        .iter()
        .flat_map(|value| places().map(move |at| (at, value)))
        .map(|(at, value)| {
            let mut set = bytes.clone();
            set[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            set
        });
    let reached = count(&source, set);
    assert!(reached.iter().all(|count| count * STRIDE > 50), "{reached:?}");
}

/// The object registered, and one of its sites.
fn registered(engine: &Engine) -> Site {
    let Subject { bytes, source } = subject();
    let code = engine.load(&bytes, |_| Some(CodeAddr::new(0x1000))).unwrap();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { engine.register(code, |record| source.shape(record.id().get())) }.unwrap();
    module
        .sites()
        .find(|site| site.shape().has_result() && site.shape().arg_count() > 0)
        .unwrap()
}

#[test]
fn a_target_out_of_reach_is_refused_where_no_register_is_free_to_go_further() {
    let engine = engine();
    let site = registered(&engine);
    let far = CodeAddr::new(0x1234_5678_9000);
    // A jump goes through the scratch register; a conditional one around it.
    // SAFETY: nothing executes the code.
    let there = unsafe { patchpoint::sequence::Target::addr(far) };
    engine.patch_site(&site, &Sequence::new().jump(there)).unwrap();
    let guard = Sequence::new().guard_eq(arg(0), 1u64, there).mov(result(), 1u64);
    engine.patch_site(&site, &guard).unwrap();
    // A counter that no displacement reaches: through the scratch register too, but then x86-64 has
    // nothing left for the constant.
    let counter = Sequence::new().add_to_memory(u64::at(far, 0), u64::MAX >> 1);
    match engine.patch_site(&site, &counter) {
        Err(Error::Assemble(sequence::Error::NoScratch { site: name, .. })) => assert_eq!(name.id, site.id()),
        Ok(_) if NATIVE[0] != Folder::X86_64 => {}
        other => panic!("{other:?}"),
    }
    let refused = engine.patch_site(&site, &Sequence::new().jump(Target::Deopt));
    assert!(matches!(refused, Err(Error::NoHandler { .. })), "{refused:?}");
}

#[test]
fn what_does_not_fit_goes_to_a_stub_unless_that_is_forbidden() {
    let engine = engine();
    let site = registered(&engine);
    let area = site.module().areas()[0].range();
    let long = (0..40).fold(Sequence::new().mov(result(), 1u64), |s, _| s.add(result(), 1u64));
    assert_eq!(engine.patch_site(&site, &long).unwrap().sites, 1);
    let refused = engine.patch_site(&site, &long.clone().in_place_only());
    match refused {
        Err(Error::Assemble(sequence::Error::SequenceTooLong {
            site,
            needed,
            reserved,
            stub_would_fit: true,
            ..
        })) => {
            assert!(needed > reserved && area.contains(site.addr));
        }
        other => panic!("{other:?}"),
    }
}
