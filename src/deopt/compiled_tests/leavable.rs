//! Frames without unwind information: refused when their module is registered, or left in another
//! way.

use std::sync::atomic::{AtomicU32, Ordering};

use ::object::{Object, ObjectSection};

use super::object;
use crate::arch::CallShape;
use crate::deopt::{self, ExitStubs, ReturnValue};
use crate::engine::Engine;
use crate::publish::SingleThreaded;
use crate::site::{Module, Saves, UnwindBy};
use crate::{Error, Result};

fn engine() -> Engine {
    let exit_stubs = ExitStubs::new().on_deopt(|frame| {
        // What `middle` finds when `inner` returns decides whether this was right.
        frame.return_to_caller(ReturnValue::Void).unwrap()
    });
    // SAFETY: every test runs its code on its own thread alone.
    let alone = unsafe { SingleThreaded::promise() };
    Engine::builder().world(alone).exits(exit_stubs).build().unwrap()
}

fn register(engine: &Engine, object: &[u8], by: UnwindBy) -> Result<Module> {
    let code = engine.load(object, |_| None)?;
    let shape = |id: u64| (id == 1).then(|| CallShape::c(48));
    let registration = engine.registration(code).unwind_by(by).leavable();
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { registration.register(|record| shape(record.id().get())) }
}

#[test]
fn a_module_whose_frames_cannot_be_left_is_refused() {
    let engine = engine();
    for (object, by) in [
        (object!("walk", ".chain"), UnwindBy::EhFrame),
        (object!("walk", ".chain"), UnwindBy::FramePointers(Saves::Unknown)),
        (object!("walk"), UnwindBy::StackSizes),
    ] {
        let refused = register(&engine, object, by).unwrap_err();
        assert!(
            matches!(&refused, Error::SiteNotLeavable { site, .. } if site.id.get() == 1),
            "{refused}"
        );
        assert!(engine.modules().is_empty());
    }
    register(&engine, object!("walk"), UnwindBy::EhFrame).unwrap();
    // SAFETY: as above.
    let alone = unsafe { SingleThreaded::promise() };
    let without_exit_stubs = Engine::builder().world(alone).build().unwrap();
    let refused = register(&without_exit_stubs, object!("walk"), UnwindBy::EhFrame).unwrap_err();
    assert!(matches!(refused, Error::SiteNotLeavable { .. }));
}

/// The same object, but for the version of the first entry of its unwind information.
fn with_damaged_frames(object: &[u8]) -> Vec<u8> {
    let file = ::object::File::parse(object).unwrap();
    let frames = file.section_by_name(".eh_frame").unwrap();
    let (start, _) = frames.file_range().unwrap();
    let mut damaged = object.to_vec();
    // Behind a length and a number, of four bytes each.
    damaged[start as usize + 8] = 99;
    damaged
}

#[test]
fn damaged_unwind_information_is_told_to_whoever_needs_it() {
    static REFUSED: AtomicU32 = AtomicU32::new(0);
    let exit_stubs = ExitStubs::new().on_deopt(|frame| {
        let refused = frame.return_to_caller(ReturnValue::Void).unwrap_err();
        assert!(matches!(refused, deopt::Error::UnwindFormat { .. }), "{refused}");
        REFUSED.fetch_add(1, Ordering::Relaxed);
        frame.resume()
    });
    // SAFETY: as above.
    let alone = unsafe { SingleThreaded::promise() };
    let resuming = Engine::builder().world(alone).exits(exit_stubs).build().unwrap();
    let damaged = with_damaged_frames(object!("walk"));
    let leavable = register(&engine(), &damaged, UnwindBy::EhFrame).unwrap_err();
    assert!(
        matches!(&leavable, Error::SiteNotLeavable { reason, .. } if reason.contains("unwind information at")),
        "{leavable}"
    );
    let code = resuming.load(&damaged, |_| None).unwrap();
    let shape = |id: u64| (id == 1).then(|| CallShape::c(48));
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { resuming.register(code, |record| shape(record.id().get())) }.unwrap();
    // Whoever resumes needs none.
    resuming.invalidate(&module.function("inner").unwrap()).unwrap();
    module.release();
    let entry = module.function("outer").unwrap().entry().unwrap().get();
    // SAFETY: as below.
    let outer: extern "C" fn(u64, &mut [u64; 20]) -> u64 = unsafe { std::mem::transmute(entry as usize) };
    let mut words = std::array::from_fn(|n| n as u64);
    outer(10, &mut words);
    assert!(REFUSED.load(Ordering::Relaxed) > 0);
}

/// `inner` saves no register but those that the conventions place.
#[test]
fn a_frame_is_left_by_its_frame_pointer() {
    let engine = engine();
    let by = UnwindBy::FramePointers(Saves::Nothing);
    let module = register(&engine, object!("walk", ".chain"), by).unwrap();
    engine.invalidate(&module.function("inner").unwrap()).unwrap();
    module.release();
    let entry = module.function("outer").unwrap().entry().unwrap().get();
    // SAFETY: that is the function's signature in the IR; the module stays registered.
    let outer: extern "C" fn(u64, &mut [u64; 20]) -> u64 = unsafe { std::mem::transmute(entry as usize) };
    let mut words = std::array::from_fn(|n| n as u64);
    assert_eq!(outer(10, &mut words), 30 * 7 + 30);
    assert_eq!(words, std::array::from_fn(|n| n as u64));
}
