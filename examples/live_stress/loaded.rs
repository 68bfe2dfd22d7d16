//! Code that the engine loads: LLVM's patchpoints, with the stack map that tells of them.

use std::collections::HashMap;

use patchpoint::addr::CodeAddr;
use patchpoint::engine::LoadedCode;
use patchpoint::{CallShape, Engine, Result};

use super::super::compiled;
use super::parts::{AsLoaded, KnownSite, Part, SiteKind};
use super::running::{CALLEE, Scheme};

/// Functions per convention.
const FUNCTIONS: u32 = 8;

/// Loads a module. `callee` is the target of LLVM's calls, where it has left some.
pub(super) fn load(engine: &Engine, callee: CodeAddr) -> Result<Part> {
    let resolve = |name: &str| (name == "callee").then_some(callee);
    let code = engine.load(compiled::LIVE_STRESS, resolve)?;
    register(engine, SiteKind::Loaded, code)
}

/// Makes a part of the object's code, wherever that is.
pub(super) fn register(engine: &Engine, kind: SiteKind, code: LoadedCode) -> Result<Part> {
    let shapes: HashMap<_, _> = (0..FUNCTIONS)
        .flat_map(|k| {
            let any = CallShape::any_reg(compiled::any_reserved(k)).result().args(1);
            let call = CallShape::c(compiled::call_reserved(k)).result().args(1);
            [(100 + u64::from(k), any), (200 + u64::from(k), call)]
        })
        .map(|(id, shape)| (id.into(), shape))
        .collect();
    let mut registration = engine.registration(code).live();
    if cfg!(target_arch = "riscv64") {
        // There only they tell that the return address was saved, so that its register is free
        // for calls.
        registration = registration.trust_live_outs();
    }
    // SAFETY: the shapes are those of the object's IR; no thread is in the code yet.
    let (module, missing) = unsafe { registration.register_ids(&shapes) }?;
    assert!(missing.is_empty(), "{missing:?}");
    // Without code of its own `any_K` is one for the compiler to fill, and returns anything.
    let any = (0..FUNCTIONS).map(|k| KnownSite {
        function: format!("any_{k}"),
        scheme: Scheme::ADDS,
        as_loaded: AsLoaded::Nops,
    });
    let call = (0..FUNCTIONS).map(|k| KnownSite {
        function: format!("call_{k}"),
        scheme: Scheme::all(if compiled::HAS_CALLEE { CALLEE } else { 0 }),
        as_loaded: match compiled::HAS_CALLEE {
            true => AsLoaded::Stub,
            false => AsLoaded::Nops,
        },
    });
    Ok(Part::new(kind, module, any.chain(call).collect()))
}
