//! Offsets to which a call may return: kept as long as one may, and no longer.

use super::*;
use crate::verify;

/// A site that LLVM filled with a call to nobody and nops, then `ret`.
fn called(id: u64) -> Written {
    let mut bytes = vec![0x49, 0xbb];
    bytes.extend(0x1234_5678_9abc_u64.to_le_bytes());
    bytes.extend([0x41, 0xff, 0xd3]);
    bytes.resize(32, 0x90);
    bytes.push(0xc3);
    Written {
        bytes,
        record: record(id)
            .at(0)
            .location(reg(RESULT, 8))
            .location(reg(ARGUMENT, 8)),
        shape: CallShape::any_reg(32).result().args(1),
    }
}

/// The landing of the call.
const LANDING: usize = 13;

/// 23 bytes without a call: more than stand before the landing.
fn long() -> Sequence {
    (0..5).fold(plus(1), |sequence, _| {
        sequence.add(result(), 1u64).in_place_only()
    })
}

fn one() -> (Lab, Text, Site) {
    let lab = Lab::new();
    let text = Text::new(&[called(1)]);
    let site = lab.register(&text, &[called(1)]).sites().next().unwrap();
    (lab, text, site)
}

/// The bytes from the landing on are nops, from there on.
fn keeps(site: &Site) -> bool {
    let found = bytes(site);
    let boundary = verify::boundaries(Arch::X86_64, site.addr(), &found).contains(&(LANDING as u32));
    let tail = verify::original(Arch::X86_64, site.addr(), &found[LANDING..]);
    boundary && tail == Ok(verify::Original::Nops)
}

#[test]
fn code_that_has_not_run_has_no_landings() {
    let (lab, _text, site) = one();
    lab.engine.patch(1, &long()).unwrap();
    assert!(!keeps(&site));
    assert_eq!(call(&site, 1), 7);
}

#[test]
fn code_that_may_have_run_keeps_its_landing_through_every_change() {
    let (lab, _text, site) = one();
    let _ = site.function().entry();
    refused!(lab.engine.patch(1, &long()), SequenceTooLong);
    lab.engine.patch(1, &plus(1)).unwrap();
    assert!(keeps(&site) && call(&site, 1) == 2);
    lab.engine.patch(1, &plus_in_stub(9)).unwrap();
    assert!(keeps(&site) && call(&site, 1) == 10);
    refused!(lab.engine.patch(1, &long()), SequenceTooLong);
    lab.engine.restore(1).unwrap();
    assert_eq!(bytes(&site), called(1).bytes[..32]);
    lab.engine.patch(1, &plus(1)).unwrap();
    lab.engine.invalidate(&site.function()).unwrap();
    assert!(keeps(&site) && call(&site, 1) == 2);
}

#[test]
fn what_was_prepared_before_the_code_was_let_run_is_refused_after() {
    let (lab, _text, site) = one();
    let early = lab.engine.plan(1, &long()).unwrap();
    let _ = site.function().entry();
    refused!(early.commit(), SiteChanged);
    assert_eq!(bytes(&site), called(1).bytes[..32]);
    // A plan that keeps the landing anyway is made for it.
    lab.engine.plan(1, &plus(1)).unwrap().commit().unwrap();
}

#[test]
fn after_a_drain_the_whole_site_is_free_again() {
    let (lab, _text, site) = one();
    let _ = site.function().entry();
    lab.engine.patch(1, &plus(1)).unwrap();
    // SAFETY: the only thread is here.
    let drained = unsafe { Drained::promise() };
    let transaction = lab.engine.transaction().patch(1, &long()).unwrap();
    transaction.drained(drained).commit().unwrap();
    assert!(!keeps(&site) && call(&site, 1) == 7);
    // And stays free: nothing has returned there since.
    lab.engine.patch(1, &plus(2)).unwrap();
    lab.engine.patch(1, &long()).unwrap();
}

/// A C function that is called by sequences.
extern "C" fn twice(a: u64) -> u64 {
    a * 2
}

#[test]
fn a_call_in_a_sequence_leaves_a_landing_too_unless_it_ends_there() {
    let mut written = called(1);
    written.shape = CallShape::c(32).result().args(1);
    written.record = record(1).at(0);
    let lab = Lab::new();
    // The same bytes as nops: no landing of LLVM's.
    written.bytes[..32].fill(0x90);
    let functions = [written];
    let text = Text::new(&functions);
    let site = lab.register(&text, &functions).sites().next().unwrap();
    let _ = site.function().entry();
    let target = CodeAddr::new(twice as extern "C" fn(u64) -> u64 as usize as u64);
    let last = Sequence::new().call(target, crate::arch::OnReturn::FollowsC);
    let inner = last.clone().add(result(), 1u64);
    let long = Sequence::new()
        .raw(&[0x48, 0x89, 0xf8].repeat(10))
        .in_place_only();

    lab.engine.patch(1, &last).unwrap();
    assert_eq!(
        bytes(&site).last(),
        Some(&0xd3),
        "the call is not the last instruction"
    );
    lab.engine.patch(1, &long).unwrap();
    lab.engine.patch(1, &inner).unwrap();
    refused!(lab.engine.patch(1, &long), SequenceTooLong);
}

#[test]
fn original_bytes_come_back_only_where_they_keep_the_landings_of_what_was_there() {
    let lab = Lab::new();
    let mut bytes = [0x0f, 0x1f, 0x80, 0, 0, 0, 0].repeat(4);
    bytes.push(0xc3);
    let functions = [Written {
        bytes,
        record: record(1).at(0),
        shape: CallShape::c(28).result().args(1),
    }];
    let text = Text::new(&functions);
    let site = lab.register(&text, &functions).sites().next().unwrap();
    let _ = site.function().entry();
    let target = CodeAddr::new(twice as extern "C" fn(u64) -> u64 as usize as u64);
    let called = Sequence::new().call(target, crate::arch::OnReturn::FollowsC);
    lab.engine.patch(1, &called.add(result(), 1u64)).unwrap();
    // The call returns into the middle of one of the original nops.
    refused!(lab.engine.restore(1), LandingLost);
    assert_eq!(lab.engine.status(&site), Status::Patched);
    // SAFETY: the only thread is here.
    let drained = unsafe { Drained::promise() };
    let restore = lab.engine.transaction().restore(&site).unwrap();
    restore.drained(drained).commit().unwrap();
    assert_eq!(super::bytes(&site), functions[0].bytes[..28]);
}
