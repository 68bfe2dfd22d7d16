//! Sites at the start of a function, before its frame is set up.

use super::*;
use patchpoint::addr::FnOffset;
use patchpoint::engine::Status;
use patchpoint::sequence::{Sequence, Target, arg, result};

fn entry_module(engine: &Engine) -> Module {
    let registration = engine.registration(load(engine, nobody));
    let registration = registration
        .entry(EntrySpec::new("entered", 100, 16).args(2).result())
        .entry(EntrySpec::new("redirected", 101, 16))
        .entry(EntrySpec::new("entry_then_site", 102, 16));
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { registration.register(|record| shape(record.id())) }.unwrap()
}

#[test]
fn an_entry_returns_jumps_away_and_falls_through() {
    let (engine, _) = engine();
    let module = entry_module(&engine);
    assert_eq!(call(&module, "entered", [4, 0]), 9);
    engine
        .patch(100, &Sequence::new().mov(result(), arg(0)).ret())
        .unwrap();
    assert_eq!(call(&module, "entered", [4, 0]), 4);
    let redirected = module.function("redirected").unwrap().addr();
    // SAFETY: the two functions take and return the same.
    let jump = Sequence::new().jump(unsafe { Target::addr(redirected) });
    engine.patch(100, &jump).unwrap();
    assert_eq!(call(&module, "entered", [4, 0]), 44);
    count(&engine, &module);
    engine.restore(100).unwrap();
    assert_eq!(call(&module, "entered", [4, 0]), 9);
}

/// The entry counts its calls.
fn count(engine: &Engine, module: &Module) {
    let mut counter = Box::new(0u64);
    let at = CodeAddr::new(std::ptr::from_mut(&mut *counter).expose_provenance() as u64);
    let counted = engine.patch(100, &Sequence::new().count(at));
    if !HOST.counts_at_entry {
        refused!(counted, Assemble(NoScratch), 100);
        return;
    }
    counted.unwrap();
    assert_eq!(
        [call(module, "entered", [4, 0]), call(module, "entered", [5, 0])],
        [9, 10]
    );
    // SAFETY: the counter lives; compiled code has written it.
    assert_eq!(unsafe { std::ptr::from_ref(&*counter).read_volatile() }, 2);
}

#[test]
fn an_entry_can_be_invalidated_by_itself_and_is_left_alone_otherwise() {
    let (engine, deopts) = engine();
    let module = entry_module(&engine);
    let function = module.function("entry_then_site").unwrap();
    engine.invalidate(&function).unwrap();
    assert_eq!(engine.status(&the_site(&engine, 102)), Status::Original);
    assert_eq!(engine.status(&the_site(&engine, 4)), Status::Invalidated);
    engine
        .transaction()
        .invalidate_site(&the_site(&engine, 100))
        .unwrap()
        .commit()
        .unwrap();
    assert_eq!(call(&module, "entered", [4, 0]), 9);
    assert_eq!(deopts.load(Ordering::Relaxed), 1);
}

#[test]
fn what_an_entry_must_not_do_is_refused() {
    let (engine, _) = engine();
    let _module = entry_module(&engine);
    refused!(
        engine.patch(100, &Sequence::new().mov(HOST.preserved, 1u64)),
        Assemble(OverwritesLive),
        100
    );
    refused!(
        engine.patch(100, &Sequence::new().mov(HOST.argument, 1u64)),
        Assemble(OverwritesLive),
        100
    );
    let target = address(nobody);
    // SAFETY: the function can be called from the site.
    let called = unsafe { Sequence::new().call(target, patchpoint::arch::OnReturn::FollowsC) };
    refused!(engine.patch(100, &called), Assemble(CallNotAllowed), 100);
    // What lies below the stack pointer may be the caller's, and what x86-64 pushes overwrites it.
    if let Some(bytes) = HOST.writes_red_zone {
        refused!(
            engine.patch(100, &Sequence::new().raw(bytes)),
            Check(RedZone),
            100
        );
    }
    refused!(
        engine.patch(100, &Sequence::new().jump(Target::Miss)),
        NoHandler,
        100
    );
    assert_eq!(engine.status(&the_site(&engine, 100)), Status::Original);
}

#[test]
fn a_wrong_entry_is_refused() {
    let entry = |name, reserved| with_entry(EntrySpec::new(name, 100, reserved));
    refused!(entry("entered", 0), Site(SiteEmpty), 100);
    let (engine, _) = engine();
    let module = registered(&engine, nobody);
    let len = module.function("entered").unwrap().len().get();
    // More than the nops, less than one, and what is no nop.
    for reserved in 17..=len {
        refused!(entry("entered", reserved), Site(EntryNotNops), 100);
    }
    refused!(entry("entered", 15), Site(EntryNotNops), 100);
    refused!(entry("entered", len + 1), Site(SiteOutsideFunction), 100);
    refused!(entry("entered", u32::MAX), Site(SiteOutsideFunction), 100);
    for reserved in 4..9 {
        refused!(entry("calls", reserved), Site(EntryNotNops), 100);
    }
    assert!(matches!(
        entry("not there", 16),
        Err(Error::Site(patchpoint::site::Error::NoSuchFunction { .. }))
    ));
    let (second, len) = match ARCH {
        Arch::X86_64 => (10, 6),
        _ => (8, 8),
    };
    let inside = EntrySpec::new("entered", 100, len).at(FnOffset::new(second));
    assert_eq!(
        with_entry(inside)
            .unwrap()
            .sites()
            .filter(|site| site.id().get() == 100)
            .count(),
        1
    );
    let far = EntrySpec::new("entered", 100, 6).at(FnOffset::new(u32::MAX));
    refused!(with_entry(far), Site(SiteOutsideFunction), 100);
}
