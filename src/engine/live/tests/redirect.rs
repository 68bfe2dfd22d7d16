//! Functions that nobody enters any more, live and with the world stopped.

use super::{Entries, call, engine, engine_in, live_module, to};
use crate::Error;
use crate::arch::CallShape;
use crate::engine::{Engine, Status};
use crate::publish::SingleThreaded;
use crate::sequence::{Sequence, temp};
use crate::site::Module;

fn redirected_for_good(engine: &Engine, module: &Module) {
    let function = module.function("f0").unwrap();
    let site = function.sites().next().unwrap();
    assert_eq!(call(module, "f0", 0), 7);
    assert_eq!(
        // SAFETY: what is there can be entered as the function can.
        unsafe { engine.redirect(&function, to::<21>()) }.unwrap().sites,
        1
    );
    assert_eq!((call(module, "f0", 0), call(module, "f1", 0)), (21, 7));
    assert_eq!(engine.status(&site), Status::Redirected);
    assert_eq!(
        // SAFETY: as above.
        unsafe { engine.redirect(&function, to::<21>()) }.unwrap().sites,
        0
    );
    // A newer version of the function.
    assert_eq!(
        // SAFETY: as above.
        unsafe { engine.redirect(&function, to::<22>()) }.unwrap().sites,
        1
    );
    assert_eq!(call(module, "f0", 0), 22);
    let refused = |done: Result<_, Error>| assert!(matches!(done, Err(Error::SiteRedirected { .. })));
    refused(engine.patch_site(&site, &Sequence::new()));
    refused(engine.restore_site(&site));
    refused(engine.invalidate_site(&site));
    assert_eq!(call(module, "f0", 0), 22);
}

#[test]
fn a_live_function_is_redirected_for_good() {
    let entries = Entries::new(2);
    let engine = engine();
    redirected_for_good(&engine, &entries.live(&engine));
}

#[test]
fn a_quiescent_function_is_redirected_for_good() {
    let entries = Entries::new(2);
    // SAFETY: the code runs on this thread alone.
    let (engine, _) = engine_in(unsafe { SingleThreaded::promise() });
    let registration = entries.registration(&engine, true, 16);
    // SAFETY: what is told is true of the object's code, or refused.
    redirected_for_good(
        &engine,
        &unsafe { registration.register(|_| None::<CallShape>) }.unwrap(),
    );
}

#[test]
fn a_function_is_invalidated_and_redirected_in_one_transaction_or_neither() {
    let entries = Entries::new(1);
    let engine = engine();
    let (old, other) = (entries.live(&engine), live_module(&engine));
    let function = old.function("f0").unwrap();
    let sites = |name| other.function(name).unwrap();
    let mut twice = engine.transaction();
    // The second change of one site is refused, and so is the whole transaction.
    // SAFETY: what is there can be entered as the function can, or is not called.
    unsafe { twice.redirect(&function, to::<3>()) }.unwrap();
    assert!(matches!(
        // SAFETY: what is there can be entered as the function can, or is not called.
        unsafe { twice.redirect(&function, to::<4>()) },
        Err(Error::SiteTwice { .. })
    ));
    let mut both = engine.transaction();
    // SAFETY: what is there can be entered as the function can, or is not called.
    unsafe { both.redirect(&function, to::<3>()) }.unwrap();
    assert_eq!(
        both.invalidate(&sites("any_7")).unwrap().commit().unwrap().sites,
        2
    );
    assert_eq!(call(&old, "f0", 0), 3);
}

#[test]
fn a_function_without_an_entry_site_is_refused() {
    let engine = engine();
    let module = live_module(&engine);
    let function = module.function("any_0").unwrap();
    assert!(matches!(
        // SAFETY: what is there can be entered as the function can, or is not called.
        unsafe { engine.redirect(&function, to::<1>()) },
        Err(Error::NoEntrySite { .. })
    ));
}

#[test]
fn an_entry_site_that_was_patched_is_redirected_too() {
    let entries = Entries::new(1);
    let engine = engine();
    let module = entries.live(&engine);
    let function = module.function("f0").unwrap();
    let site = function.sites().next().unwrap();
    engine.patch_site(&site, &Sequence::new().mov(temp(), 5)).unwrap();
    assert_eq!(call(&module, "f0", 0), 7);
    // SAFETY: what is there can be entered as the function can, or is not called.
    unsafe { engine.redirect(&function, to::<9>()) }.unwrap();
    assert_eq!(call(&module, "f0", 0), 9);
}
