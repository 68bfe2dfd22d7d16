//! Misses whose handler is a C function.

use core::ffi::c_void;

use parking_lot::Mutex;

use super::object;
use crate::addr::CodeAddr;
use crate::arch::CallShape;
use crate::deopt::{CCall, CFunction, ExitStubs};
use crate::engine::Engine;
use crate::publish::SingleThreaded;
use crate::sequence::{Sequence, Target};

/// The sites and arguments that the function has seen.
type SeenCalls = Mutex<Vec<(u64, u64, Vec<u64>)>>;

unsafe extern "C" fn handler(data: *mut c_void, call: *mut CCall) {
    // SAFETY: the test and the exit stub pass both.
    let (seen, call) = unsafe { (&*data.cast::<SeenCalls>(), &mut *call) };
    // SAFETY: so many are there.
    let args = unsafe { core::slice::from_raw_parts(call.args, call.arg_count) };
    seen.lock().push((call.site, call.id, args.to_vec()));
    call.result = 0x1234_5678_9abc_def0;
}

#[test]
fn a_c_function_computes_the_result_of_a_miss() {
    let seen: &'static SeenCalls = Box::leak(Box::default());
    let data = std::ptr::from_ref(seen).cast_mut().cast();
    // SAFETY: the function takes such data, which stays and is shared.
    let exit_stubs = ExitStubs::new().on_miss_c(unsafe { CFunction::new(handler, data) });
    // SAFETY: the test runs its code on its own thread alone.
    let alone = unsafe { SingleThreaded::promise() };
    let engine = Engine::builder().world(alone).exits(exit_stubs).build().unwrap();
    let code = engine.load(object!("replace"), |_| None).unwrap();
    // It passes no arguments, but the registers of two have its own.
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { engine.register(code, |_| CallShape::c(48).result().args(2)) }.unwrap();
    let site: CodeAddr = engine.sites(1u64).unwrap()[0].clone().addr();
    engine.patch(1, &Sequence::new().jump(Target::Miss)).unwrap();
    module.release();
    let entry = module.function("fast").unwrap().entry().unwrap().get();
    // SAFETY: that is the function's signature in the IR; the module stays registered.
    let fast: extern "C" fn(u64, u64) -> u64 = unsafe { std::mem::transmute(entry as usize) };
    let (x, y) = (3_u64, 5_u64);
    let (a, p, q) = (x * 3, x + y, y ^ 85);
    let v = 0x1234_5678_9abc_def0_u64.wrapping_add(p * q);
    assert_eq!(fast(x, y), v.wrapping_add(x).wrapping_mul(y) ^ a);
    let seen = seen.lock();
    let [(at, 1, args)] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert_eq!((*at, args.len()), (site.get(), 2));
}
