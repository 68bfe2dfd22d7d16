//! Functions that depend on assumptions, in two modules.

use super::super::{Assumptions, ExitStubs};
use crate::arch::CallShape;
use crate::deopt::Error;
use crate::engine::{Engine, Status};
use crate::memory::testing::objects as compiled;
use crate::publish::{GracePeriod, SingleThreaded};
use crate::site::{Function, Module};

fn engine() -> Engine {
    // SAFETY: no code is run.
    let world = unsafe { SingleThreaded::promise() };
    let exit_stubs = ExitStubs::new().on_deopt(|frame| frame.resume());
    Engine::builder().world(world).exits(exit_stubs).build().unwrap()
}

fn module(engine: &Engine) -> Module {
    let code = engine.load(compiled::INLINE_CACHE, |_| None).unwrap();
    let shape = |id| (id == 78).then(|| CallShape::any_reg(32).result().args(1));
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { engine.register(code, |record| shape(record.id().get())) }.unwrap()
}

fn invalidated(engine: &Engine, function: &Function) -> bool {
    let mut sites = function.sites();
    sites.all(|site| engine.status(&site) == Status::Invalidated)
}

#[test]
fn breaking_one_invalidates_all_its_functions_in_one_transaction() {
    let engine = engine();
    let (first, second) = (module(&engine), module(&engine));
    let [get, sum] = ["get", "sum_fields"].map(|name| first.function(name).unwrap());
    let other = second.function("get").unwrap();
    let assumptions = Assumptions::new();
    assumptions.depend(&get, ["no subclass", "pi is 3"]).unwrap();
    assumptions.depend(&get, ["no subclass"]).unwrap();
    assumptions.depend(&other, ["no subclass"]).unwrap();
    assumptions.depend(&sum, [5]).unwrap();
    let before = engine.journal().len();
    assert_eq!(assumptions.break_one(&engine, "no subclass").unwrap().sites, 2);
    assert!(invalidated(&engine, &get) && invalidated(&engine, &other));
    assert!(!invalidated(&engine, &sum));
    assert_eq!(engine.journal().len() - before, 2);
    assert!(assumptions.is_broken("no subclass") && !assumptions.is_broken("pi is 3"));
    // Again, and another on which an invalidated function depends: nothing is left to do.
    assert_eq!(assumptions.break_one(&engine, "no subclass").unwrap().sites, 0);
    assert_eq!(assumptions.break_one(&engine, "pi is 3").unwrap().sites, 0);
    assert_eq!(assumptions.break_one(&engine, 5).unwrap().sites, 1);
}

#[test]
fn code_compiled_under_a_broken_assumption_is_refused() {
    let engine = engine();
    let module = module(&engine);
    let get = module.function("get").unwrap();
    let assumptions = Assumptions::new();
    // Nobody depends on it yet; it is broken all the same.
    assert_eq!(assumptions.break_one(&engine, 1).unwrap().sites, 0);
    let refused = assumptions.depend(&get, [2, 1]).unwrap_err();
    assert!(matches!(&refused, Error::AssumptionBroken { assumption, .. } if assumption == "1"));
    assert_eq!(
        assumptions.break_one(&engine, 2).unwrap().sites,
        0,
        "it depends on neither"
    );
    assumptions.renew(1);
    assumptions.depend(&get, [1]).unwrap();
    assert_eq!(assumptions.break_one(&engine, 1).unwrap().sites, 1);
}

#[test]
fn a_break_that_fails_can_be_tried_again() {
    // SAFETY: no code is run.
    let world = unsafe { SingleThreaded::promise() };
    let without_handler = Engine::builder().world(world).build().unwrap();
    let module = module(&without_handler);
    let get = module.function("get").unwrap();
    let assumptions = Assumptions::new();
    assumptions.depend(&get, [1]).unwrap();
    for _ in 0..2 {
        let failed = assumptions.break_one(&without_handler, 1);
        assert!(matches!(failed, Err(crate::Error::NoHandler { .. })));
        assert!(!assumptions.is_broken(1));
    }
}

/// Modules of two engines may have one name.
#[test]
fn functions_of_another_engine_are_refused() {
    let (first, second) = (engine(), engine());
    let [own, other] = [module(&first), module(&second)];
    assert_eq!(own.id(), other.id());
    let [get, sum] =
        [(&own, "get"), (&other, "sum_fields")].map(|(module, name)| module.function(name).unwrap());
    let assumptions = Assumptions::new();
    assumptions.depend(&get, [1]).unwrap();
    assumptions.depend(&sum, [1]).unwrap();
    let refused = assumptions.break_one(&first, 1);
    assert!(
        matches!(
            &refused,
            Err(crate::Error::Site(crate::site::Error::SiteForeign { .. }))
        ),
        "{refused:?}"
    );
    assert!(!assumptions.is_broken(1) && !invalidated(&first, &get) && !invalidated(&second, &sum));
}

#[test]
fn modules_that_go_are_forgotten() {
    let engine = engine();
    let module = module(&engine);
    let assumptions = Assumptions::new();
    assumptions.depend(&module.function("get").unwrap(), [1]).unwrap();
    assumptions.forget(module.id());
    // SAFETY: no thread is in the code, which has never run.
    let grace_period = unsafe { GracePeriod::promise() };
    engine.unregister(module, &grace_period).unwrap();
    assert_eq!(assumptions.break_one(&engine, 1).unwrap().sites, 0);
}
