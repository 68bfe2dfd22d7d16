//! Callers of a frame: a patchpoint whose sequence calls, a statepoint, and a function of the test
//! above them.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::addr::CodeAddr;
use crate::arch::{CallShape, OnReturn};
use crate::deopt::host::state;
use crate::deopt::{Error, ExitStubs, Frame, Value, Walker};
use crate::engine::Engine;
use crate::publish::{NeverStopped, SingleThreaded};
use crate::sequence::{Sequence, Target};
use crate::site::Module;
use crate::stackmap::{Location, LocationKind};

/// What a handler saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SeenFrames {
    functions: Vec<String>,
    /// The live values of `outer`: three times the argument, the address of a slot, a constant.
    triple: u64,
    in_slot: u64,
    constant: i64,
    /// The argument and the reference of `collects`.
    deopt: u64,
    reference: u64,
    outside: bool,
}

struct Lab {
    _engine: Engine,
    module: Module,
    seen: Arc<Mutex<SeenFrames>>,
}

/// Where the reference of `collects` points when a handler has moved it.
static MOVED: u64 = 1_000_000;

fn look(walker: &Walker, frame: &Frame<'_>) -> SeenFrames {
    let mut seen = SeenFrames::default();
    let mut callers = walker.callers(frame);
    for caller in callers.by_ref() {
        let caller = caller.unwrap();
        seen.functions.push(caller.function().name().to_string());
        if caller.site().is_some() {
            let (record, _) = caller.record().unwrap();
            let locations: Vec<_> = record.locations().collect();
            seen.triple = caller.read(locations[0]).unwrap().u64().unwrap();
            let slot = caller.read(locations[1]).unwrap().u64().unwrap();
            // SAFETY: the record says that the frame has a slot there.
            seen.in_slot = unsafe { *(slot as *const u64) };
            seen.constant = caller.read(locations[2]).unwrap().i64().unwrap();
        } else {
            let statepoint = caller.statepoint().unwrap();
            let value = statepoint.deopt_values().next().unwrap();
            seen.deopt = caller.read(value).unwrap().u64().unwrap();
            let reference = statepoint.references().next().unwrap();
            assert_eq!(reference.base, reference.derived);
            seen.reference = caller.read(reference.base).unwrap().u64().unwrap();
            let moved = Value::from(&raw const MOVED as u64);
            caller.write(reference.base, moved).unwrap();
            // Anything could be at a place of which the record does not speak.
            for unreadable in [
                LocationKind::Indirect {
                    reg: state::STACK_POINTER,
                    offset: -(1 << 30),
                },
                LocationKind::Register {
                    reg: state::STACK_POINTER,
                    bit_offset: 0,
                },
            ] {
                let unreadable = Location {
                    kind: unreadable,
                    size: 8,
                };
                assert!(matches!(caller.read(unreadable), Err(Error::CallerValue { .. })));
                assert!(matches!(
                    caller.write(unreadable, moved),
                    Err(Error::CallerValue { .. })
                ));
            }
            let narrow = Value::from_bytes(&[0; 4]).unwrap();
            assert!(matches!(
                caller.write(reference.base, narrow),
                Err(Error::CallerValue { .. })
            ));
        }
    }
    let outside = callers.outside().unwrap();
    seen.outside = walker_engine_has_no(&outside, frame);
    assert!(callers.next().is_none());
    seen
}

/// The return address that ended the walk is the test's.
fn walker_engine_has_no(outside: &CodeAddr, frame: &Frame<'_>) -> bool {
    outside.distance_from(frame.pc()).unsigned_abs() > 0x1000
}

impl Lab {
    fn new(live: bool) -> Self {
        let seen: Arc<Mutex<SeenFrames>> = Arc::default();
        let walker: Arc<OnceLock<Walker>> = Arc::default();
        let (sees, walks) = (Arc::clone(&seen), Arc::clone(&walker));
        let exit_stubs = ExitStubs::new().on_miss(move |frame| {
            *sees.lock() = look(walks.get().unwrap(), frame);
            frame.set_result(5).unwrap();
            frame.resume()
        });
        // SAFETY: every test runs its code on its own thread alone.
        let alone = unsafe { SingleThreaded::promise() };
        let builder = match live {
            true => Engine::builder().world(NeverStopped),
            false => Engine::builder().world(alone),
        };
        let engine = builder.exits(exit_stubs).build().unwrap();
        let code = engine
            .load(include_bytes!("../testdata/walk.o"), |_| None)
            .unwrap();
        let registration = engine.registration(code);
        let registration = match live {
            true => registration.live(),
            false => registration,
        };
        let shape = |id: u64| match id {
            1 => Some(CallShape::any_reg(32).result().args(1)),
            2 => Some(CallShape::c(32).result().args(1)),
            _ => None,
        };
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe { registration.register(|record| shape(record.id().get())) }.unwrap();
        engine.patch(1, &Sequence::new().jump(Target::Miss)).unwrap();
        module.release();
        let inner = module.function("inner").unwrap().entry().unwrap();
        // SAFETY: it takes the site's argument.
        let calling = unsafe { Sequence::new().call(inner, OnReturn::FollowsC) };
        engine.patch(2, &calling).unwrap();
        assert!(walker.set(Walker::new(&engine)).is_ok());
        Self {
            _engine: engine,
            module,
            seen,
        }
    }

    fn collects(&self, x: u64, object: &u64) -> u64 {
        let entry = self.module.function("collects").unwrap().entry().unwrap().get();
        // SAFETY: that is the function's signature in the IR; the module stays registered.
        let collects: extern "C" fn(u64, &u64) -> u64 = unsafe { std::mem::transmute(entry as usize) };
        collects(x, object)
    }
}

#[test]
fn callers_values_and_references_are_found_and_written() {
    for live in [false, true] {
        let lab = Lab::new(live);
        let object = 7;
        let expected = ((5 + 30) ^ 30) + MOVED;
        assert_eq!(lab.collects(10, &object), expected, "the reference was moved");
        let seen = lab.seen.lock().clone();
        assert_eq!(
            seen,
            SeenFrames {
                functions: vec!["outer".into(), "collects".into()],
                triple: 30,
                in_slot: 30,
                constant: -5,
                deopt: 10,
                reference: &raw const object as u64,
                outside: true,
            }
        );
    }
}
