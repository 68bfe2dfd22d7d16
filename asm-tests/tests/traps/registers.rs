//! Lists of live-outs that omit callee-saved registers.

use super::*;
use patchpoint::engine::Status;
use patchpoint::sequence::Sequence;

#[test]
fn callee_saved_registers_are_live_out_whatever_the_list_says() {
    let (engine, _) = engine();
    registered(&engine, nobody);
    let site = the_site(&engine, 1);
    assert_eq!(site.record().unwrap().0.live_outs().len(), 0);
    let before = bytes(&site);
    refused!(
        engine.patch(1, &Sequence::new().mov(HOST.preserved, 1u64)),
        Assemble(OverwritesLive),
        1
    );
    // The same as bytes, past the assembler.
    refused!(
        engine.patch(1, &Sequence::new().raw(asm_tests::SETS_PRESERVED)),
        Check(Clobber),
        1
    );
    assert_eq!((bytes(&site), engine.status(&site)), (before, Status::Original));
    // What the convention clobbers is free.
    engine
        .patch(
            1,
            &Sequence::new().mov(HOST.free[0], 1u64).mov(HOST.free[1], 1u64),
        )
        .unwrap();
}

#[test]
fn whoever_vouches_for_the_list_gets_them() {
    let (engine, _) = engine();
    let registration = engine.registration(load(&engine, nobody)).trust_live_outs();
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { registration.register(|record| shape(record.id())) }.unwrap();
    engine
        .patch(1, &Sequence::new().raw(asm_tests::SETS_PRESERVED))
        .unwrap();
}

#[test]
fn a_function_that_keeps_a_value_there_is_not_broken() {
    let (engine, _) = engine();
    let module = registered(&engine, nobody);
    // `recurses` keeps its argument across the site.
    refused!(
        engine.patch(2, &Sequence::new().raw(asm_tests::SETS_PRESERVED)),
        Check(Clobber),
        2
    );
    assert_eq!(call(&module, "recurses", [21, 0]), 42);
}
