//! Sequences that are filled in from templates.

use super::*;
use crate::arch::{Cond, OnReturn, SiteContext};
use crate::engine::exit_stub::ExitStubKind;
use crate::engine::templates::Templates;
use crate::sequence::{self, Environment, Field, Fit, Holds, Hole, Target};
use crate::verify;

/// A function whose site has room for an inline cache, and a record.
fn roomy(id: u64, record: RecordSpec) -> Written {
    Written {
        bytes: [&HOST.nop.repeat(48), HOST.ret].concat(),
        record: record.at(0),
        shape: CallShape::any_reg(48).result().args(1),
    }
    .with_id(id)
}

impl Written {
    fn with_id(mut self, id: u64) -> Self {
        self.record.id = id;
        self
    }
}

/// The result in rax, the argument in rdi.
fn usual() -> RecordSpec {
    record(0).location(reg(RESULT, 8)).location(reg(ARGUMENT, 8))
}

struct Sites {
    lab: Lab,
    text: Text,
    sites: Vec<Site>,
}

fn sites(records: &[RecordSpec]) -> Sites {
    let lab = Lab::new();
    let functions: Vec<Written> = (0..).zip(records).map(|(id, r)| roomy(id, r.clone())).collect();
    let text = Text::new(&functions);
    let sites = lab.register(&text, &functions).sites().collect();
    Sites { lab, text, sites }
}

/// Numbers around the sizes of immediates, and between.
fn number(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let bits = [0, 1, 2, 7, 8, 9, 15, 16, 17, 30, 31, 32, 33, 63][(*random >> 32) as usize % 14];
    let near = (1u64 << bits).wrapping_add(*random % 5).wrapping_sub(2);
    match *random >> 60 & 3 {
        0 => near,
        1 => near.wrapping_neg(),
        2 => *random & ((1 << bits) - 1),
        _ => (*random & ((1 << bits) - 1)).wrapping_neg(),
    }
}

/// One of a few sequences with these numbers.
fn sequence(kind: usize, [a, b, c]: [u64; 3]) -> Sequence {
    let (at, to) = (a as i32, b as i32);
    match kind {
        0 => Sequence::new()
            .guard_eq(u32::at(arg(0), at), c, Target::Miss)
            .load(result(), u64::at(arg(0), to)),
        1 => Sequence::new()
            .guard(Cond::Below, u16::at(arg(0), at), c, Target::Miss)
            .guard_ne(u8::at(arg(0), to), a, Target::Deopt)
            .load(result(), i8::at(arg(0), 3)),
        2 => Sequence::new().mov(result(), a).add(result(), b).and(result(), c),
        3 => Sequence::new()
            .store(u32::at(arg(0), at), b)
            .add_to_memory(u64::at(arg(0), to), c)
            .mov(result(), 0u64),
        4 => Sequence::new()
            .mov(result(), arg(0))
            .shift_left(result(), (a % 64) as u8)
            .jump_if(Cond::Less, u64::of(result()), b, Target::End)
            .jump(unmapped(c & 0x7fff_ffff)),
        _ => Sequence::new()
            .guard_eq(u64::of(arg(0)), a, Target::Deopt)
            .store(u8::at(arg(0), at), b)
            .store(u16::at(arg(0), to), c)
            .mov(result(), arg(0)),
    }
}

/// Where no code is.
fn unmapped(addr: u64) -> Target {
    // SAFETY: nobody executes these sites.
    unsafe { Target::addr(CodeAddr::new(addr)) }
}

fn exit_stub(engine: &Engine, site: &Site, kind: ExitStubKind) -> Option<CodeAddr> {
    let mut states = engine.shared.states.lock();
    states.of(site)?.exit_stub(kind)
}

fn environment(engine: &Engine, site: &Site) -> Environment {
    Environment {
        miss: exit_stub(engine, site, ExitStubKind::Miss),
        deopt: exit_stub(engine, site, ExitStubKind::Deopt),
    }
}

/// The sequence that the engine remembers of a site.
fn installed(engine: &Engine, site: &Site) -> Sequence {
    let mut states = engine.shared.states.lock();
    let installed = &states.of(site).unwrap().installed;
    installed.sequence.clone().unwrap()
}

#[test]
fn what_is_filled_is_what_would_be_assembled() {
    let Sites {
        lab,
        sites,
        text: _text,
    } = sites(&[usual(), usual()]);
    let mut random = 0x9e37_79b9_7f4a_7c15;
    let mut written = 0;
    let (mut kind, mut numbers) = (0, [0; 3]);
    for round in 0..5_000 {
        // Most are as the one before, with numbers that are near.
        if round % 10 == 0 {
            kind = round / 10 % 6;
            numbers = numbers.map(|_| number(&mut random));
        }
        numbers = numbers.map(|near| near.wrapping_add(number(&mut random) % 5).wrapping_sub(2));
        let sequence = sequence(kind, numbers);
        let site = &sites[round % 2];
        let patched = lab.engine.patch_site(site, &sequence);
        let context: SiteContext<'_> = site.context(&[]);
        match sequence::assemble(&sequence, &context, &environment(&lab.engine, site)) {
            Ok(Fit::InPlace(fresh)) if patched.is_ok() => {
                assert_eq!(bytes(site), fresh.code, "{sequence:?}");
                assert_eq!(installed(&lab.engine, site), sequence);
                written += 1;
            }
            Ok(Fit::OutOfLine { .. }) => {}
            other => assert_eq!(other.is_ok(), patched.is_ok(), "{other:?} {patched:?}"),
        }
    }
    let filled = lab.engine.shared.states.lock().templates.borrow().filled();
    assert!(
        filled > 1_000 && written > filled,
        "{filled} of {written} were filled"
    );
}

/// Exit stubs of small modules are near their sites.
#[test]
fn a_near_target_is_filled_where_the_assembler_takes_a_long_branch() {
    let all = sites(&[usual()]);
    let (lab, site) = (&all.lab, &all.sites[0]);
    let jump_over = |distance: i64| {
        let to = site.end().get().wrapping_add_signed(distance);
        Sequence::new()
            .guard_eq(u32::at(arg(0), 0), 0x1234, unmapped(to))
            .load(result(), u64::at(arg(0), 0x100))
    };
    // What is near first does not keep what is far from having a template.
    for distance in [3, 4, 5, 1000] {
        lab.engine.patch_site(site, &jump_over(distance)).unwrap();
    }
    let reserved = i64::from(site.reserved().get());
    for distance in (-400..-reserved).chain(1..400) {
        let before = filled(&lab.engine);
        lab.engine.patch_site(site, &jump_over(distance)).unwrap();
        let context = site.context(&[]);
        let fresh = sequence::assemble(&jump_over(distance), &context, &Environment::default());
        let Ok(Fit::InPlace(fresh)) = fresh else { panic!() };
        assert_eq!(bytes(site), fresh.code, "{distance}");
        let is_filled = filled(&lab.engine) > before;
        assert!(is_filled || distance < 128, "{distance} bytes behind the site");
    }
}

fn hit(shape: u32, at: i32) -> Sequence {
    Sequence::new()
        .guard_eq(u32::at(arg(0), 0), shape, Target::Miss)
        .load(result(), u64::at(arg(0), at))
}

#[test]
fn what_the_checker_keeps_closed_is_no_hole() {
    let all = sites(&[usual()]);
    let (lab, site) = (&all.lab, &all.sites[0]);
    lab.engine.patch_site(site, &hit(0x1234, 0x140)).unwrap();
    let (context, environment) = (site.context(&[]), environment(&lab.engine, site));
    let made = |change: fn(&mut Vec<Hole>)| {
        let sequence = hit(0x1234, 0x140);
        let assembled = sequence::assemble_template(&sequence, &context, &environment);
        let Ok(Fit::InPlace(mut assembled)) = assembled else {
            panic!()
        };
        change(&mut assembled.holes.as_mut().unwrap().holes);
        let mut templates = Templates::default();
        let kind = templates.kinds.of(site, None).unwrap();
        assert!(!templates.note(kind, sequence.outline()) && templates.note(kind, sequence.outline()));
        templates.keep((kind, &sequence), (site, &context), &environment, &assembled);
        templates.made()
    };
    assert_eq!(made(|_| {}), 1);
    // An opcode.
    assert_eq!(made(|holes| holes.push(Hole::whole(0, 1, Holds::Value(1)))), 0);
    assert_eq!(made(|holes| holes.push(Hole::whole(0, 1, Holds::Target(0)))), 0);
    // A value and a target without a hole.
    assert_eq!(
        made(|holes| holes.retain(|hole| hole.holds != Holds::Value(1))),
        0
    );
    assert_eq!(
        made(|holes| holes.retain(|hole| hole.holds != Holds::Target(0))),
        0
    );
}

fn filled(engine: &Engine) -> usize {
    engine.shared.states.lock().templates.borrow().filled()
}

#[test]
fn the_third_of_a_shape_is_filled_at_any_site_of_the_same_kind() {
    let Sites {
        lab,
        sites,
        text: _text,
    } = sites(&[usual(), usual(), usual().location(reg(KEPT, 8))]);
    for (number, site) in [0, 1, 0, 1].into_iter().enumerate() {
        let hit = hit(0x1234 + number as u32, 0x40 + 8 * number as i32);
        lab.engine.patch_site(&sites[site], &hit).unwrap();
        assert_eq!(filled(&lab.engine), number.saturating_sub(1));
    }
    // Another record: what is free there has to be asked anew.
    lab.engine.patch_site(&sites[2], &hit(0x1234, 0x40)).unwrap();
    assert_eq!(filled(&lab.engine), 2);
}

/// A way to an exit stub uses nothing of a site: there it is the record that does not matter.
#[test]
fn the_third_site_that_is_invalidated_is_filled_whatever_its_record_says() {
    let others = [usual().location(reg(KEPT, 8)), usual().location(reg(RESULT, 4))];
    let all = sites(&[usual(), others[0].clone(), others[1].clone()]);
    for (number, site) in all.sites.iter().enumerate() {
        all.lab.engine.invalidate_site(site).unwrap();
        assert_eq!(filled(&all.lab.engine), number.saturating_sub(1));
    }
}

/// The kind of a site, which is patched.
fn kind(engine: &Engine, site: &Site) -> u32 {
    engine.patch_site(site, &hit(1, 8)).unwrap();
    let mut states = engine.shared.states.lock();
    let lasting = states.of(site).unwrap().lasting;
    lasting.kind.get().unwrap().unwrap()
}

/// After two of one kind the next is known by its record, which has as many bytes where it is of
/// another.
#[test]
fn sites_whose_values_are_in_other_registers_are_of_different_kinds() {
    let other = record(0).location(reg(RESULT, 8)).location(reg(KEPT, 8));
    let all = sites(&[usual(), usual(), usual(), other, usual()]);
    let kinds: Vec<u32> = all.sites.iter().map(|site| kind(&all.lab.engine, site)).collect();
    assert!(kinds[..3] == [kinds[4]; 3] && kinds[3] != kinds[4], "{kinds:?}");
}

/// Constants of two maps may have the same index: records that are the same, byte for byte, are then
/// not of the same kind.
#[test]
fn sites_whose_constants_differ_are_of_different_kinds() {
    let lab = Lab::new();
    let record = usual().location(crate::stackmap::testing::constant_index(0));
    let functions = [roomy(0, record.clone()), roomy(1, record)];
    let texts: Vec<Text> = (0..3).map(|_| Text::new(&functions)).collect();
    let kinds = texts
        .iter()
        .zip([1 << 40, 1 << 41, 1 << 41])
        .map(|(text, constant)| {
            let code = text.adopted_with(&functions, &[constant]);
            let code = lab.engine.adopt_with(code, &text.shared()).unwrap();
            // SAFETY: what is told is true of the code.
            let module = unsafe { lab.engine.register(code, |_| Some(functions[0].shape)) }.unwrap();
            module.sites().map(|site| kind(&lab.engine, &site)).collect()
        });
    let kinds: Vec<Vec<u32>> = kinds.collect();
    assert!(kinds.iter().all(|kinds| kinds[0] == kinds[1]), "{kinds:?}");
    assert!(kinds[0] != kinds[1] && kinds[1] == kinds[2], "{kinds:?}");
}

#[test]
fn what_was_filled_wrong_is_refused_and_nothing_is_written() {
    const DAMAGES: [fn(&mut [u8]); 4] = [
        // The kind of the comparison, its immediate, the distance of the branch, the displacement.
        |code| code[0] ^= 2,
        |code| code[2] ^= 1,
        |code| code[8] ^= 0x10,
        |code| code[15] ^= 8,
    ];
    for damage in DAMAGES {
        let Sites {
            lab,
            sites,
            text: _text,
        } = sites(&[usual()]);
        let site = &sites[0];
        lab.engine.patch_site(site, &hit(0x1234, 0x140)).unwrap();
        lab.engine.patch_site(site, &hit(0x1235, 0x148)).unwrap();
        let before = bytes(site);
        lab.engine
            .shared
            .states
            .lock()
            .templates
            .borrow()
            .set_damage(Some(damage));
        refused!(lab.engine.patch_site(site, &hit(0x1236, 0x150)), Check(Filled));
        assert_eq!(bytes(site), before);
        lab.engine
            .shared
            .states
            .lock()
            .templates
            .borrow()
            .set_damage(None);
        lab.engine.patch_site(site, &hit(0x1236, 0x150)).unwrap();
    }
}

#[test]
fn return_offsets_are_kept_by_templates_of_their_own() {
    let all = sites(&[usual()]);
    let (lab, site) = (&all.lab, &all.sites[0]);
    for number in 0..3 {
        lab.engine.patch_site(site, &hit(0x1234 + number, 0x140)).unwrap();
    }
    assert_eq!(filled(&lab.engine), 1);
    let callee = CodeAddr::new(site.addr().get() + 0x1000);
    // SAFETY: nobody executes the site.
    let call = unsafe { Sequence::new().call(callee, OnReturn::PreservesAll) };
    let call = call.mov(result(), 0u64);
    lab.engine.patch_site(site, &call).unwrap();
    // Now threads may return into the site: behind the call.
    let returns = returns(&lab.engine, site);
    assert_eq!(returns.len(), 1);
    site.module().release();
    let keeps = || {
        let at = returns[0] as usize;
        let boundaries = verify::boundaries(site.module().arch(), site.addr(), &bytes(site));
        let behind = verify::original(site.module().arch(), site.addr(), &bytes(site)[at..]);
        boundaries.contains(&returns[0]) && behind == Ok(verify::Original::Nops)
    };
    // What was filled at sites that keep none would lie across it.
    lab.engine.patch_site(site, &hit(0x1234, 0x140)).unwrap();
    assert!(keeps() && filled(&lab.engine) == 1);
    for number in 0..5_u64 {
        let short = Sequence::new().mov(result(), 0x1234_5678_u64 + number);
        lab.engine.patch_site(site, &short).unwrap();
        assert_eq!(filled(&lab.engine), 1 + (number as usize).saturating_sub(1));
        assert!(keeps());
    }
}

fn returns(engine: &Engine, site: &Site) -> Vec<u32> {
    let mut states = engine.shared.states.lock();
    states.of(site).unwrap().installed.returns.to_vec()
}

#[test]
fn no_more_are_known_than_there_is_room_for() {
    let Sites {
        lab,
        sites,
        text: _text,
    } = sites(&[usual()]);
    for number in 0..3000 {
        let operations = (0..12).fold(Sequence::new().mov(result(), 0u64), |sequence, bit| {
            match number >> bit & 1 {
                0 => sequence.shift_left(result(), 1),
                _ => sequence.shift_right(result(), 1),
            }
        });
        lab.engine.patch_site(&sites[0], &operations).unwrap();
        assert!(lab.engine.shared.states.lock().templates.borrow_mut().len() <= 1024);
    }
}
