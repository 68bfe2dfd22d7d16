//! A collector that moves objects finds and updates the references of the frames above its handler.

use std::sync::{Arc, OnceLock};

use super::object;
use crate::arch::CallShape;
use crate::deopt::{ExitStubs, Frame, Walker};
use crate::engine::Engine;
use crate::publish::SingleThreaded;

/// Where the objects are moved to.
static MOVED: [[u64; 4]; 2] = [[1, 2, 3, 4], [5, 6, 7, 8]];

#[test]
fn references_and_what_is_derived_from_them_follow_a_move() {
    static OBJECTS: [[u64; 4]; 2] = [[100; 4]; 2];
    let moved = |base: u64| {
        let from = OBJECTS.iter().position(|object| object.as_ptr() as u64 == base);
        from.map_or(base, |index| MOVED[index].as_ptr() as u64)
    };
    let walker: Arc<OnceLock<Walker>> = Arc::default();
    let walks = Arc::clone(&walker);
    let exit_stubs = ExitStubs::new().on_deopt(move |frame: &mut Frame<'_>| {
        let mut count = 0;
        for caller in walks.get().unwrap().callers(frame) {
            let caller = caller.unwrap();
            assert_eq!(caller.function().name(), "collects");
            count += caller.move_references(moved).unwrap();
            // Nothing is there any more that would move.
            for reference in caller.statepoint().unwrap().references() {
                let base = caller.read(reference.base).unwrap().u64().unwrap();
                assert_eq!(moved(base), base);
            }
        }
        assert_eq!(count, 3, "two objects, and an address in one");
        frame.resume()
    });
    // SAFETY: the test runs its code on its own thread alone.
    let alone = unsafe { SingleThreaded::promise() };
    let engine = Engine::builder().world(alone).exits(exit_stubs).build().unwrap();
    let code = engine.load(object!("roots"), |_| None).unwrap();
    let shape = |id: u64| (id == 1).then(|| CallShape::c(48));
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { engine.register(code, |record| shape(record.id().get())) }.unwrap();
    assert!(walker.set(Walker::new(&engine)).is_ok());
    engine.invalidate(&module.function("safepoint").unwrap()).unwrap();
    module.release();
    let entry = module.function("collects").unwrap().entry().unwrap().get();
    // SAFETY: that is the function's signature in the IR; the module stays registered.
    let collects: extern "C" fn(&u64, u64, &u64) -> u64 = unsafe { std::mem::transmute(entry as usize) };
    assert_eq!(collects(&OBJECTS[0][0], 2, &OBJECTS[1][0]), 1 + 10 * 3 + 100 * 5);
}
