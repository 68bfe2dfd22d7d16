//! The object of the stress in an engine: functions `any_k` with `anyregcc` sites 100 + k, and
//! `call_k` with C sites 200 + k that call `callee`, for k below 8, each at another distance from a
//! multiple of 8.

use patchpoint::addr::{CodeAddr, RecordId};
use patchpoint::sequence::{Sequence, arg, result};
use patchpoint::site::{Module, Site};
use patchpoint::{CallShape, Engine};

#[path = "../../examples/objects/mod.rs"]
pub mod objects;

/// How many functions of either kind there are.
pub const KINDS: u64 = 8;
/// What LLVM's callee adds to its argument.
pub const CALLEE: u64 = 1 << 40;

extern "C" fn callee(x: u64) -> u64 {
    x + CALLEE
}

fn shape(id: RecordId) -> Option<CallShape> {
    let id = u32::try_from(id.get()).ok()?;
    match id {
        100..=107 => Some(
            CallShape::any_reg(objects::any_reserved(id - 100))
                .result()
                .args(1),
        ),
        200..=207 => Some(CallShape::c(objects::call_reserved(id - 200)).result().args(1)),
        _ => None,
    }
}

/// Loads and registers it, live or to be changed while threads are stopped.
///
/// # Panics
///
/// If that is refused.
#[must_use]
pub fn register(engine: &Engine, live: bool) -> Module {
    let resolve = |name: &str| (name == "callee").then_some(CodeAddr::new(callee as *const () as u64));
    let code = engine
        .load(objects::LIVE_STRESS, resolve)
        .expect("the object loads");
    let registration = engine.registration(code);
    let registration = if live { registration.live() } else { registration };
    // There only they tell that the return address was saved, so that the register is free for
    // calls.
    let registration = match cfg!(target_arch = "riscv64") {
        true => registration.trust_live_outs(),
        false => registration,
    };
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { registration.register(|record| shape(record.id())) };
    module.expect("the object's records are sites")
}

/// The function that holds the site with that ID.
#[must_use]
pub fn name(id: u64) -> String {
    match id {
        200.. => format!("call_{}", id - 200),
        _ => format!("any_{}", id.saturating_sub(100)),
    }
}

/// The site of that ID.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn site(module: &Module, id: u64) -> Site {
    let found = module.sites().find(|site| site.id().get() == id);
    found.expect("the module has the site")
}

/// The entry of the function with that site, whose module is released.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn entry(module: &Module, id: u64) -> u64 {
    let function = module.function(&name(id));
    module.release();
    let entry = function.and_then(|function| function.entry());
    entry.expect("the module has the function, and it may run").get()
}

/// `result = argument + number`.
#[must_use]
pub fn adding(number: u64) -> Sequence {
    Sequence::new().mov(result(), arg(0)).add(result(), number)
}
