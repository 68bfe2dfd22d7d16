//! Stubs and gates that are filled in from templates.

use super::*;
use crate::arch::OnReturn;
use crate::engine::installed::Stub;
use crate::engine::live::{LiveRoom, check_gate};
use crate::engine::observe::CodeOwner;
use crate::engine::prepare::Preparation;
use crate::publish::GracePeriod;
use crate::sequence::Field;

fn filled(engine: &Engine) -> usize {
    engine.shared.states.lock().templates.borrow().filled()
}

/// What is true of the stub of a site.
fn of_stub<T>(engine: &Engine, site: &Site, of: impl FnOnce(&Stub) -> T) -> T {
    let mut states = engine.shared.states.lock();
    let state = states.of(site).unwrap();
    of(state.installed.stub.as_ref().unwrap())
}

/// The code of the stub of a site.
fn stub(engine: &Engine, site: &Site) -> Vec<u8> {
    let code = of_stub(engine, site, Stub::code);
    engine.shared.stubs.read(code).unwrap()
}

fn set_damage(engine: &Engine, damage: Option<fn(&mut [u8])>) {
    engine.shared.states.lock().templates.borrow().set_damage(damage);
}

#[test]
fn the_third_of_a_shape_is_filled_at_a_live_site() {
    let engine = engine();
    let module = live_module(&engine);
    let site = site(&engine, 100);
    for turn in 0..20_u64 {
        let by = 0x1000 + 0x111 * turn;
        engine.patch_site(&site, &adding(by)).unwrap();
        assert_eq!(filled(&engine) as u64, turn.saturating_sub(1));
        assert_eq!(call(&module, "any_0", 5), 5 + by);
    }
    // Another shape is assembled; the first is still known.
    engine
        .patch_site(&site, &adding(3).add(result(), 0x7777_u64))
        .unwrap();
    assert_eq!((filled(&engine), call(&module, "any_0", 5)), (18, 5 + 3 + 0x7777));
    engine.patch_site(&site, &adding(0x4321)).unwrap();
    assert_eq!((filled(&engine), call(&module, "any_0", 5)), (19, 5 + 0x4321));
}

/// What is filled is what is assembled, wherever the stub is: branches that leave it are as long
/// everywhere.
#[test]
fn a_filled_stub_is_that_which_is_assembled() {
    let leaves = |number: u64| {
        adding(number).jump_if(
            crate::arch::Cond::Eq,
            u64::of(result()),
            0x1234_5678_u64,
            Target::Deopt,
        )
    };
    let (seen, fresh) = (engine(), engine());
    let (module, other) = (live_module(&seen), live_module(&fresh));
    let (first, second) = (site(&seen, 101), site(&fresh, 101));
    for number in [0x1111, 0x2222, 0x3333, 0x4444] {
        seen.patch_site(&first, &leaves(number)).unwrap();
    }
    assert_eq!(filled(&seen), 2);
    fresh.patch_site(&second, &leaves(0x4444)).unwrap();
    assert_eq!(filled(&fresh), 0);
    let (filled, assembled) = (stub(&seen, &first), stub(&fresh, &second));
    assert_eq!(filled.len(), assembled.len());
    // But for the distances of its two branches.
    let differing = filled.iter().zip(&assembled).filter(|(a, b)| a != b).count();
    assert!(differing <= 8, "{filled:x?} {assembled:x?}");
    assert_eq!(
        (call(&module, "any_1", 5), call(&other, "any_1", 5)),
        (0x4449, 0x4449)
    );
}

#[test]
fn what_was_filled_wrong_into_a_stub_is_refused_and_frees_it() {
    let engine = engine();
    let module = live_module(&engine);
    let site = site(&engine, 102);
    (0..3).for_each(|turn| _ = engine.patch_site(&site, &adding(0x1000 + turn)).unwrap());
    let (before, slots) = (site.read().unwrap(), engine.stub_stats().slots);
    // Its first instruction, and the distance of its jump back.
    for damage in [(|code| code[0] ^= 1) as fn(&mut [u8]), |code| {
        *code.last_mut().unwrap() ^= 0x40
    }] {
        set_damage(&engine, Some(damage));
        let refused = engine.patch_site(&site, &adding(0x2000)).unwrap_err();
        assert!(
            matches!(&refused, Error::Check(crate::verify::Error::Filled { .. })),
            "{refused}"
        );
        assert_eq!(
            (site.read().unwrap(), engine.stub_stats().slots),
            (before.clone(), slots)
        );
    }
    set_damage(&engine, None);
    engine.patch_site(&site, &adding(0x2000)).unwrap();
    assert_eq!(call(&module, "any_2", 5), 0x2005);
}

/// Sites are of one kind only if their patchable jumps lie alike.
#[test]
fn sites_whose_jumps_lie_at_other_offsets_are_of_other_kinds() {
    let engine = engine();
    let module = live_module(&engine);
    let kinds = |id| {
        let site = site(&engine, id);
        let mut states = engine.shared.states.lock();
        let lasting = &states.of(&site).unwrap().lasting;
        let jump = lasting.live.as_ref().unwrap().patchable_jump;
        (jump.offset, site.shape(), lasting.armed_kind().unwrap())
    };
    let all: Vec<_> = (100..=107).chain(200..=207).map(kinds).collect();
    for (offset, _, kind) in &all {
        for (other, _, _) in all.iter().filter(|(_, _, other)| other == kind) {
            assert_eq!(offset, other, "{all:?}");
        }
    }
    assert!(
        all.iter().any(|(offset, ..)| *offset != all[0].0),
        "all jumps lie alike"
    );
    // A shape that was seen at one is filled at another right when that is at another offset, too.
    for turn in 0..4 {
        for id in 0..8 {
            let by = 0x1000 * (turn + 1) + id;
            engine.patch(100 + id, &adding(by)).unwrap();
            assert_eq!(call(&module, &format!("any_{id}"), 7), 7 + by);
        }
    }
    assert!(filled(&engine) >= 8);
}

#[test]
fn a_filled_stub_that_calls_waits_for_quiescence() {
    let engine = engine();
    let module = live_module(&engine);
    let site = site(&engine, 200);
    // Code of the same module, which branches reach: an address in a register has no template.
    let callees = ["any_1", "any_2", "any_3", "any_4"].map(|name| module.function(name).unwrap().addr());
    let calling = |turn: usize| {
        // SAFETY: those are such functions, and nobody executes the site.
        unsafe { Sequence::new().call(callees[turn], OnReturn::FollowsC) }
    };
    let calls = |engine: &Engine| of_stub(engine, &site, |stub| stub.calls);
    for turn in 0..callees.len() {
        engine.patch_site(&site, &calling(turn)).unwrap();
        assert!(calls(&engine), "{turn}");
        engine.patch_site(&site, &adding(0x1000 + turn as u64)).unwrap();
        assert!(!calls(&engine), "{turn}");
    }
    assert_eq!(filled(&engine), 4, "the third and the fourth of each");
    // SAFETY: nobody executes the sites.
    engine.reclaim(&unsafe { GracePeriod::promise() }).unwrap();
}

/// The code of its stub, and nothing behind that, which traps.
#[test]
fn a_plan_shows_the_stub_that_was_made() {
    let engine = engine();
    let _module = live_module(&engine);
    let site = site(&engine, 100);
    for turn in 0..4 {
        let mut plan = engine.transaction();
        let plan = plan
            .patch_site(&site, &adding(0x1000 + turn))
            .unwrap()
            .prepare()
            .unwrap();
        let shown = plan.to_string();
        plan.commit().unwrap();
        let at = of_stub(&engine, &site, Stub::code).start();
        let listed = crate::verify::disassemble(site.module().arch(), at, &stub(&engine, &site));
        let (_, of_stub) = shown.split_once("  stub\n").unwrap();
        let starts = of_stub
            .lines()
            .map(|line| line.split_whitespace().next().unwrap().to_owned());
        let expected: Vec<String> = listed
            .iter()
            .map(|line| format!("{:x}", line.addr.get()))
            .collect();
        assert_eq!(starts.collect::<Vec<_>>(), expected, "{shown}");
        assert!(expected.len() > 1);
    }
}

/// A gate that was checked once is closed again and again, and what is behind it stays as it is.
#[test]
fn a_gate_whose_site_was_written_by_others_is_refused() {
    let engine = engine();
    let module = live_module(&engine);
    let site = site(&engine, 103);
    (0..4).for_each(|turn| _ = engine.patch_site(&site, &adding(0x1000 + turn)).unwrap());
    let held = site.read().unwrap();
    let memory = site.memory().unwrap();
    let mut damaged = held.clone();
    *damaged.last_mut().unwrap() ^= 0xff;
    memory
        .live()
        .unwrap()
        .write_unexecuted(site.addr(), &damaged)
        .unwrap();
    let refused = engine.patch_site(&site, &adding(0x2000)).unwrap_err();
    assert!(matches!(refused, Error::BytesChanged { .. }), "{refused}");
    memory
        .live()
        .unwrap()
        .write_unexecuted(site.addr(), &held)
        .unwrap();
    engine.patch_site(&site, &adding(0x2000)).unwrap();
    assert_eq!(call(&module, "any_3", 1), 0x2001);
}

/// Where its gate is known, a stub is checked without its site; and refused for what it does.
#[test]
fn a_stub_is_checked_also_where_its_gate_is_known() {
    let engine = engine();
    let module = live_module(&engine);
    let site = site(&engine, 104);
    engine.patch_site(&site, &adding(0x1000)).unwrap();
    let slots = engine.stub_stats().slots;
    // hlt
    let refused = engine
        .patch_site(&site, &Sequence::new().raw(&[0xf4]))
        .unwrap_err();
    assert!(
        matches!(&refused, Error::Check(crate::verify::Error::Refused { at, .. }) if at.stub == Some(0)),
        "{refused}"
    );
    assert_eq!(engine.stub_stats().slots, slots);
    engine
        .patch_site(&site, &adding(3).add(result(), 0x7777_u64))
        .unwrap();
    assert_eq!(call(&module, "any_4", 5), 0x777f);
}

#[test]
fn a_gate_that_goes_past_its_stub_is_refused() {
    let engine = engine();
    let _module = live_module(&engine);
    let site = site(&engine, 105);
    engine.patch_site(&site, &adding(0x1000)).unwrap();
    let mut states = engine.shared.states.lock();
    let index = states.index_of(&site, || panic!("it is registered")).unwrap();
    let room = states.installed_room.take();
    let preparation = Preparation::new(&engine.shared, &states, index, &site, false, room);
    let installed = preparation.old.bytes.clone();
    let stub = preparation.old.stub.as_ref().unwrap().slot.addr();
    check_gate(&preparation, stub, &installed).unwrap();
    for to in [stub.get() + 1, site.addr().get()] {
        let refused = check_gate(&preparation, CodeAddr::new(to), &installed).unwrap_err();
        assert!(
            matches!(&refused, Error::Check(crate::verify::Error::Filled { .. })),
            "{refused}"
        );
    }
    preparation.release();
}

#[test]
fn room_of_a_stub_has_nothing_of_it() {
    let engine = engine();
    let _module = live_module(&engine);
    let site = site(&engine, 100);
    let owner = |generation| CodeOwner {
        site: site.key(),
        generation,
    };
    let slot = || engine.shared.stubs.alloc(Len::new(16), site.range()).unwrap();
    let mut first = Stub::new(slot(), owner(1), Len::new(8));
    first.calls = false;
    let exit = first.reference();
    let (mut room, before) = (LiveRoom::default(), &raw const *first);
    engine.shared.stubs.discard(room.slot_of(first));
    let next = room.stub(slot(), owner(2), Len::new(12));
    assert_eq!(&raw const *next, before, "its room is used");
    assert_eq!(
        (next.owner.generation, next.len, next.calls),
        (2, Len::new(12), true)
    );
    assert!(!next.is_referenced());
    drop(exit);
    engine.shared.stubs.discard(next.slot);
}
