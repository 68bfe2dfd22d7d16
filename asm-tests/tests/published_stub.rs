//! A stub that the runtime publishes for a site is a target of the site's sequences.
use asm_tests::live::objects::INLINE_CACHE;
use patchpoint::CallShape;
use patchpoint::engine::Engine;
use patchpoint::publish::{GracePeriod, SingleThreaded};
use patchpoint::sequence::{Field, Sequence, Target, arg, result};
use patchpoint::site::Site;

fn engine() -> Engine {
    // SAFETY: each test calls its code on one thread.
    let world = unsafe { SingleThreaded::promise() };
    Engine::builder().world(world).build().unwrap()
}

/// The property read of the example's function `get`.
fn get(engine: &Engine) -> Site {
    let code = engine.load(INLINE_CACHE, |_| None).unwrap();
    let shape = CallShape::any_reg(32).result().args(1);
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { engine.register(code, |record| (record.id().get() == 78).then_some(shape)) };
    module.unwrap().function("get").unwrap().sites().next().unwrap()
}

#[test]
fn a_guard_branches_to_it_and_it_continues_after_the_site() {
    let engine = engine();
    let site = get(&engine);
    let slow = Sequence::new()
        .load(result(), u64::at(arg(0), 8))
        .add(result(), 1000);
    let stub = engine.publish_stub(&site, &slow).unwrap();
    // SAFETY: the stub is of this site.
    let stub = unsafe { Target::addr(stub) };
    let fast = Sequence::new()
        .guard_eq(u64::at(arg(0), 0), 7, stub)
        .load(result(), u64::at(arg(0), 16));
    engine.patch_site(&site, &fast).unwrap();
    site.module().release();
    // SAFETY: the IR gives the function this signature, and the site keeps its module.
    let call = unsafe { site.function().typed::<extern "C" fn(&[u64; 3]) -> u64>() }.unwrap();
    assert_eq!((call(&[7, 1, 2]), call(&[8, 1, 2])), (2, 1001));

    let in_use = engine.stub_stats().in_use;
    let module = site.module().clone();
    // SAFETY: nothing runs it any more.
    engine
        .unregister(module, &unsafe { GracePeriod::promise() })
        .unwrap();
    assert!(in_use > 0 && engine.stub_stats().in_use == 0);
}

#[test]
fn what_it_may_not_do_is_refused_and_leaves_nothing() {
    let engine = engine();
    let site = get(&engine);
    let refused = engine.publish_stub(&site, &Sequence::new().raw(asm_tests::SETS_PRESERVED));
    assert!(
        matches!(
            refused,
            Err(patchpoint::Error::Check(
                patchpoint::verify::Error::Clobber { .. }
            ))
        ),
        "{refused:?}"
    );
    assert_eq!(engine.stub_stats().in_use, 0);
}
