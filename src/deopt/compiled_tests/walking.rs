//! The callers of a frame, found in every way, and their values.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::object;
use crate::arch::CallShape;
use crate::deopt::{Caller, Error, ExitStubs, Frame, Value, Walker};
use crate::engine::Engine;
use crate::publish::SingleThreaded;
use crate::site::{Module, Saves, UnwindBy};
use crate::stackmap::Location;

/// What `outer` returns: 7 times the slot, and what was 3 x.
fn outer(triple: u64, slot: u64) -> u64 {
    slot.wrapping_mul(7).wrapping_add(triple)
}

/// The locations of the record of `outer`: a register, a slot, a constant.
fn locations(caller: &Caller<'_>) -> [Location; 3] {
    let (record, _) = caller.record().unwrap();
    std::array::from_fn(|index| record.locations().get(index).unwrap())
}

fn number(caller: &Caller<'_>, location: Location) -> Result<u64, Error> {
    Ok(caller.read(location)?.u64().unwrap())
}

/// Code whose `inner` calls a handler with the callers of its frame, nearest first.
struct Lab {
    _engine: Engine,
    module: Module,
}

impl Lab {
    fn new(object: &[u8], by: UnwindBy, look: impl Fn(&[Caller<'_>]) + Send + Sync + 'static) -> Self {
        let walker: Arc<OnceLock<Walker>> = Arc::default();
        let walks = Arc::clone(&walker);
        let exit_stubs = ExitStubs::new().on_deopt(move |frame: &mut Frame<'_>| {
            let mut callers = walks.get().unwrap().callers(frame);
            let found: Vec<_> = callers.by_ref().map(Result::unwrap).collect();
            assert!(
                callers.outside().is_some(),
                "the test itself is no registered code"
            );
            look(&found);
            frame.resume()
        });
        // SAFETY: every test runs its code on its own thread alone.
        let alone = unsafe { SingleThreaded::promise() };
        let engine = Engine::builder().world(alone).exits(exit_stubs).build().unwrap();
        let code = engine.load(object, |_| None).unwrap();
        let registration = engine.registration(code).unwind_by(by);
        let shape = |id: u64| (id == 1).then(|| CallShape::c(48));
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe { registration.register(|record| shape(record.id().get())) }.unwrap();
        assert!(walker.set(Walker::new(&engine)).is_ok());
        engine.invalidate(&module.function("inner").unwrap()).unwrap();
        module.release();
        Self {
            _engine: engine,
            module,
        }
    }

    fn outer(&self, x: u64) -> u64 {
        let entry = self.module.function("outer").unwrap().entry().unwrap().get();
        // SAFETY: that is the function's signature in the IR; the module stays registered.
        let outer: extern "C" fn(u64, &mut [u64; 20]) -> u64 = unsafe { std::mem::transmute(entry as usize) };
        let mut words = std::array::from_fn(|n| n as u64);
        let result = outer(x, &mut words);
        assert_eq!(words, std::array::from_fn(|n| n as u64));
        result
    }
}

/// A register that a callee of the frame saved is found where it was saved, and written there.
#[test]
fn values_in_registers_that_a_callee_saved_are_read_and_written() {
    let lab = Lab::new(object!("walk"), UnwindBy::EhFrame, |callers| {
        let [_, outer] = callers else {
            panic!("{callers:?}")
        };
        let [triple, slot, constant] = locations(outer);
        assert_eq!(number(outer, triple).unwrap(), 30);
        let slot = number(outer, slot).unwrap();
        // SAFETY: the record says that the frame has a slot there.
        assert_eq!(unsafe { *(slot as *const u64) }, 30);
        assert_eq!(outer.read(constant).unwrap().i64(), Some(-5));
        outer.write(triple, Value::from(1_000_000u64)).unwrap();
        assert_eq!(number(outer, triple).unwrap(), 1_000_000);
        let narrow = Value::from_bytes(&[0; 4]).unwrap();
        assert!(matches!(
            outer.write(triple, narrow),
            Err(Error::CallerValue { .. })
        ));
    });
    assert_eq!(lab.outer(10), outer(1_000_000, 30));
}

/// The names of the callers, and their stack pointers from that of the nearest.
fn shape(callers: &[Caller<'_>]) -> Vec<(String, u64)> {
    let first = callers.first().unwrap().stack_pointer();
    let seen = |caller: &Caller<'_>| {
        (
            caller.function().name().to_owned(),
            caller.stack_pointer() - first,
        )
    };
    callers.iter().map(seen).collect()
}

fn shape_of(object: &[u8], by: UnwindBy) -> Vec<(String, u64)> {
    let seen: Arc<Mutex<Vec<(String, u64)>>> = Arc::default();
    let sees = Arc::clone(&seen);
    let lab = Lab::new(object, by, move |callers| {
        *sees.lock() = shape(callers);
        for caller in callers {
            let id = caller.record().unwrap().0.id().get();
            assert_eq!(id, if caller.function().name() == "outer" { 2 } else { 3 });
        }
        let [_, outer] = callers else {
            panic!("{callers:?}")
        };
        let [triple, slot, constant] = locations(outer);
        assert_eq!(outer.read(constant).unwrap().i64(), Some(-5));
        match by {
            UnwindBy::EhFrame => assert_eq!(number(outer, triple), Ok(30)),
            // Who saved it, and where, nobody says.
            _ => assert!(matches!(number(outer, triple), Err(Error::CallerValue { .. }))),
        }
        if matches!(by, UnwindBy::FramePointers(_)) {
            let slot = number(outer, slot).unwrap();
            // SAFETY: the record says that the frame has a slot there.
            assert_eq!(unsafe { *(slot as *const u64) }, 30);
        }
    });
    assert_eq!(lab.outer(10), outer(30, 30));
    seen.lock().clone()
}

#[test]
fn every_way_finds_the_same_frames() {
    let names = |shape: &[(String, u64)]| shape.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let with_tables = shape_of(object!("walk"), UnwindBy::EhFrame);
    assert_eq!(names(&with_tables), ["middle", "outer"]);
    assert_eq!(shape_of(object!("walk"), UnwindBy::StackSizes), with_tables);
    let chained = shape_of(object!("walk", ".chain"), UnwindBy::FramePointers(Saves::Unknown));
    assert_eq!(shape_of(object!("walk", ".chain"), UnwindBy::StackSizes), chained);
    assert_eq!(names(&chained), ["middle", "outer"]);
}
