//! What the runtime says of a site reaches the handler.

use std::sync::Arc;

use parking_lot::Mutex;

use super::object;
use crate::arch::CallShape;
use crate::deopt::ExitStubs;
use crate::deopt::host::state;
use crate::engine::Engine;
use crate::publish::SingleThreaded;
use crate::sequence::{Sequence, Target, result};

/// The functions that were inlined at a site, by the indexes of their live values.
#[derive(Debug, PartialEq)]
struct Inlined(Vec<(&'static str, Vec<usize>)>);

#[test]
fn a_description_is_handed_over_by_its_type() {
    type SeenFrames = Vec<(String, bool)>;
    let seen: Arc<Mutex<SeenFrames>> = Arc::default();
    let sees = Arc::clone(&seen);
    let exit_stubs = ExitStubs::new().on_deopt(move |frame| {
        let other = frame.description::<String>().is_some();
        let inlined = frame.description::<Inlined>();
        sees.lock().push((format!("{inlined:?}"), other));
        // SAFETY: the code of the test can go on with it.
        unsafe { frame.set_register(state::RESULT, 0u64.into()) }.unwrap();
        frame.resume()
    });
    // SAFETY: the test runs its code on its own thread alone.
    let alone = unsafe { SingleThreaded::promise() };
    let engine = Engine::builder().world(alone).exits(exit_stubs).build().unwrap();
    let code = engine.load(object!("replace"), |_| None).unwrap();
    let inlined = || Inlined(vec![("outer", vec![0, 1, 2]), ("inner", vec![3, 4])]);
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe {
        engine
            .registration(code)
            .describe(|site| (site.id().get() == 1).then(inlined))
            .register(|_| CallShape::c(48).result())
    }
    .unwrap();
    for name in ["fast", "outer"] {
        engine.invalidate(&module.function(name).unwrap()).unwrap();
    }
    let [fast, outer] = [1u64, 11].map(|id| engine.sites(id).unwrap()[0].clone());
    assert_eq!(fast.description(), Some(&inlined()));
    assert!(matches!(
        fast.describe(5u8),
        Err(crate::site::Error::SiteDescribed { .. })
    ));
    assert_eq!(outer.description::<Inlined>(), None);
    module.release();
    let call = |name| {
        let entry = module.function(name).unwrap().entry().unwrap().get();
        // SAFETY: that is the signature of both functions in the IR; the module stays registered.
        let function: extern "C" fn(u64, u64) -> u64 = unsafe { std::mem::transmute(entry as usize) };
        function(1, 2);
    };
    call("fast");
    call("outer");
    // Later, too.
    outer.describe(String::from("outer")).unwrap();
    call("outer");
    let some = format!("{:?}", Some(inlined()));
    let none = String::from("None");
    assert_eq!(*seen.lock(), [(some, false), (none.clone(), false), (none, true)]);
}

/// A handler needs nothing but its frame to patch the site that it came from.
#[test]
fn a_frame_knows_its_engine_and_its_site() {
    type SeenFrames = Vec<(bool, u64)>;
    let seen: Arc<Mutex<SeenFrames>> = Arc::default();
    let sees = Arc::clone(&seen);
    let exit_stubs = ExitStubs::new().on_miss(move |frame| {
        let (engine, site) = (frame.engine(), frame.site());
        let is_found = engine.site_at(frame.pc()).as_ref() == Some(site);
        let live = frame.live_u64(0).unwrap();
        sees.lock()
            .push((is_found && frame.context().id == site.id(), live));
        assert!(frame.live_u64(1000).is_err() && frame.arg_u64(1000).is_err());
        site.patch(&Sequence::new().mov(result(), 7u64)).unwrap();
        frame.set_result(5u64).unwrap();
        frame.resume()
    });
    // SAFETY: the test runs its code on its own thread alone.
    let alone = unsafe { SingleThreaded::promise() };
    let engine = Engine::builder().world(alone).exits(exit_stubs).build().unwrap();
    let code = engine.load(object!("replace"), |_| None).unwrap();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe {
        engine.register(code, |record| {
            (record.id().get() == 1).then(|| CallShape::c(48).result())
        })
    };
    let module = module.unwrap();
    let site = module.sites().next().unwrap();
    site.patch(&Sequence::new().jump(Target::Miss)).unwrap();
    module.release();
    // SAFETY: that is the function's signature in the IR; the module stays registered.
    let fast = unsafe {
        module
            .function("fast")
            .unwrap()
            .typed::<extern "C" fn(u64, u64) -> u64>()
            .unwrap()
    };
    let with = |r: u64| ((r + 3 * 87 + 1) * 2) ^ 3;
    assert_eq!([fast(1, 2), fast(1, 2)], [with(5), with(7)]);
    // One miss, in which the first live value was the argument.
    assert_eq!(*seen.lock(), [(true, 1)]);
}
