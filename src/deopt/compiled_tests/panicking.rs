//! Handlers that panic: the process ends, with a message that says where and why.

use super::object;
use crate::arch::CallShape;
use crate::deopt::{Answer, ExitStubs, Frame};
use crate::engine::Engine;
use crate::memory::testing::process::{End, end_and_message};
use crate::publish::SingleThreaded;
use crate::sequence::{Sequence, Target};

/// Ways to a handler.
#[derive(Clone, Copy, Debug)]
enum HandlerRoute {
    Invalidated,
    Deopt,
    Miss,
    LeanMiss,
}

fn handler<'f>(_: &mut Frame<'f>) -> Answer<'f> {
    panic!("for the {}th time", 3 + 4)
}

/// Calls `fast`, whose site gets to the handler that way.
fn reach_the_handler(way: HandlerRoute) -> bool {
    let exit_stubs = match way {
        HandlerRoute::Invalidated | HandlerRoute::Deopt => ExitStubs::new().on_deopt(handler),
        HandlerRoute::Miss => ExitStubs::new().on_miss(handler),
        HandlerRoute::LeanMiss => ExitStubs::new().on_live_register_miss(handler),
    };
    // SAFETY: the test runs its code on its own thread alone.
    let alone = unsafe { SingleThreaded::promise() };
    let engine = Engine::builder().world(alone).exits(exit_stubs).build().unwrap();
    let code = engine.load(object!("replace"), |_| None).unwrap();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { engine.register(code, |_| CallShape::c(48).result()) }.unwrap();
    let function = module.function("fast").unwrap();
    let to = |target| engine.patch(1, &Sequence::new().jump(target)).unwrap();
    _ = match way {
        HandlerRoute::Invalidated => engine.invalidate(&function).unwrap(),
        HandlerRoute::Deopt => to(Target::Deopt),
        HandlerRoute::Miss | HandlerRoute::LeanMiss => to(Target::Miss),
    };
    module.release();
    // SAFETY: that is the function's signature in the IR; the module stays registered.
    let fast: extern "C" fn(u64, u64) -> u64 =
        unsafe { std::mem::transmute(function.entry().unwrap().get() as usize) };
    fast(1, 2);
    true
}

#[test]
fn a_panic_in_a_handler_ends_the_process() {
    for way in [
        HandlerRoute::Invalidated,
        HandlerRoute::Deopt,
        HandlerRoute::Miss,
        HandlerRoute::LeanMiss,
    ] {
        let (end, text) = end_and_message(|| reach_the_handler(way));
        assert_eq!(end, End::Killed(libc::SIGABRT), "{way:?}: {text}");
        let role = match way {
            HandlerRoute::Invalidated | HandlerRoute::Deopt => "role: Deopt",
            HandlerRoute::Miss | HandlerRoute::LeanMiss => "role: Miss",
        };
        let parts = [
            "patchpoint: the handler panicked in Frame { id: 1, pc: 0x",
            role,
            ": for the 7th time; compiled code cannot be unwound",
        ];
        assert!(parts.iter().all(|part| text.contains(part)), "{way:?}: {text}");
    }
}
