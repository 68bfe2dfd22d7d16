//! A site of each content: it is patched, restored and invalidated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use patchpoint::arch::{Convention, RegSet, x86_64};
use patchpoint::deopt::ExitStubs;
use patchpoint::engine::Status;
use patchpoint::publish::{NeverStopped, SingleThreaded};
use patchpoint::sequence::{self, Field, Sequence, Target, arg, live, result, temp};
use patchpoint::site::{self, Module, SiteSpec};
use patchpoint::{Engine, Error};

use crate::{Emitted, RAX_ALONE, engine, function, live_engine};

/// A function of one argument with a site, what the function returns for 1000 as it is, and after
/// the site got `sequence`, and that.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) code: Vec<u8>,
    pub(crate) site: SiteSpec,
    pub(crate) before: u64,
    pub(crate) sequence: Sequence,
    pub(crate) after: u64,
}

const RDI: patchpoint::addr::DwarfReg = x86_64::RDI;
const RAX: patchpoint::addr::DwarfReg = x86_64::RAX;

/// The site of each is at byte 8 of 64-byte aligned code.
pub(crate) fn cases() -> Vec<Case> {
    let case = |name, parts: &[&[u8]], site: SiteSpec, before, sequence, after| Case {
        name,
        code: parts.concat(),
        site: site.id(78_u64),
        before,
        sequence,
        after,
    };
    let told = |site: SiteSpec| site.arg(RDI).result(RAX);
    let start: &[u8] = &[0x48, 0x8d, 0x47, 0x01, 0x0f, 0x1f, 0x40, 0x00]; // lea rax, [rdi+1]; nop
    vec![
        case(
            "nops",
            &[start, &[0x0f, 0x1f, 0x44, 0, 0], &[0xc3]],
            told(SiteSpec::nops("f", 8, 5)),
            1001,
            Sequence::new().mov(result(), arg(0)),
            1000,
        ),
        case(
            "a call",
            // sub rsp, 8; call +5; add rsp, 8; ret; lea rax, [rdi+7]; ret
            &[
                &[0x48, 0x83, 0xec, 0x08, 0x0f, 0x1f, 0x40, 0],
                &[0xe8, 5, 0, 0, 0],
                &[0x48, 0x83, 0xc4, 0x08, 0xc3],
                &[0x48, 0x8d, 0x47, 0x07, 0xc3],
            ],
            SiteSpec::call("f", 8, 5)
                .convention(Convention::C)
                .args(1)
                .returns(),
            1007,
            Sequence::new().mov(result(), arg(0)).add(result(), 77),
            1077,
        ),
        case(
            "a jump",
            // jmp over lea rax, [rdi+9]
            &[start, &[0xe9, 4, 0, 0, 0], &[0x48, 0x8d, 0x47, 0x09], &[0xc3]],
            told(SiteSpec::jump("f", 8, 5)),
            1001,
            Sequence::new(),
            1009,
        ),
        case(
            "instructions",
            // lea rax, [rdi+2]; lea rax, [rax+rax]
            &[start, &[0x48, 0x8d, 0x47, 0x02, 0x48, 0x8d, 0x04, 0x00], &[0xc3]],
            told(SiteSpec::instructions(
                "f",
                8,
                [0x48, 0x8d, 0x47, 0x02, 0x48, 0x8d, 0x04, 0x00],
            )),
            2004,
            Sequence::new().mov(result(), 5),
            5,
        ),
    ]
}

fn one_after_the_other(engine: &Engine, module: &Module, case: &Case) {
    let (name, f) = (case.name, function(module));
    let site = engine.sites(78_u64).unwrap()[0].clone();
    for _ in 0..3 {
        assert_eq!(f(1000), case.before, "{name}");
        engine.patch(78_u64, &case.sequence).unwrap();
        assert_eq!(
            (f(1000), engine.status(&site)),
            (case.after, Status::Patched),
            "{name}"
        );
        engine.restore(78_u64).unwrap();
        assert_eq!(
            (f(1000), engine.status(&site)),
            (case.before, Status::Original),
            "{name}"
        );
    }
    // A sequence of which a part is out of line: the exit resumes with what was there.
    engine
        .patch(78_u64, &Sequence::new().jump(Target::Deopt))
        .unwrap();
    assert_eq!(f(1000), case.before, "{name}");
    engine.invalidate(&module.function("f").unwrap()).unwrap();
    assert_eq!(
        (f(1000), engine.status(&site)),
        (case.before, Status::Invalidated),
        "{name}"
    );
    let refused = engine.patch(78_u64, &case.sequence);
    assert!(matches!(refused, Err(Error::SiteInvalidated { .. })), "{name}");
}

#[test]
fn every_content_is_patched_in_place() {
    for case in cases() {
        let (engine, emitted) = (engine(), Emitted::new(&case.code));
        let module = emitted.register(&engine, [case.site.clone()]).unwrap();
        one_after_the_other(&engine, &module, &case);
    }
}

#[test]
fn every_content_is_patched_live() {
    for case in cases() {
        let (engine, emitted) = (live_engine(), Emitted::new(&case.code));
        let module = emitted.register_live(&engine, [case.site.clone()]).unwrap();
        one_after_the_other(&engine, &module, &case);
    }
}

#[test]
fn restoring_puts_every_byte_back() {
    for case in cases() {
        let (engine, emitted) = (engine(), Emitted::new(&case.code));
        let module = emitted.register(&engine, [case.site.clone()]).unwrap();
        function(&module);
        engine.patch(78_u64, &case.sequence).unwrap();
        engine.restore(78_u64).unwrap();
        let mut code = vec![0; case.code.len()];
        emitted.memory.read(emitted.start, &mut code).unwrap();
        assert_eq!(code, case.code, "{}", case.name);
    }
}

/// Five bytes of nops across a multiple of 8.
#[test]
fn a_site_that_no_store_can_change_is_changed_behind_a_trap() {
    let code = [&[0x90; 5][..], &[0x0f, 0x1f, 0x44, 0, 0], &[0xc3]].concat();
    let (engine, emitted) = (live_engine(), Emitted::new(&code));
    let site = || SiteSpec::nops("f", 5, 5).id(1_u64).result(RAX);
    let module = emitted.register_live(&engine, [site()]).unwrap();
    let f = function(&module);
    for number in [3, 4] {
        engine
            .patch(1_u64, &Sequence::new().mov(result(), number))
            .unwrap();
        assert_eq!(f(0), number);
    }
    let refused = engine.patch(1_u64, &Sequence::new().mov(result(), 5).in_place_only());
    assert!(matches!(refused, Err(Error::LiveInPlace { .. })), "{refused:?}");
    engine.restore(1_u64).unwrap();
    let mut restored = vec![0; code.len()];
    emitted.memory.read(emitted.start, &mut restored).unwrap();
    assert_eq!(restored, code);
    // A shorter one has no room for a jump.
    let (engine, emitted) = (live_engine(), Emitted::new(&[0x0f, 0x1f, 0x40, 0, 0xc3]));
    let refused = emitted.register_live(&engine, [SiteSpec::nops("f", 0, 4).id(1_u64)]);
    let Err(Error::Site(site::Error::NoPatchableJump { site, reserved, .. })) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((site.offset.get(), reserved.get()), (0, 4));
}

/// Three bytes: no jump is so short.
#[test]
fn a_site_too_short_for_a_jump_takes_what_fits() {
    let code = [&[0x0f, 0x1f, 0x00][..], &[0xc3]].concat();
    let (engine, emitted) = (engine(), Emitted::new(&code));
    let site = SiteSpec::nops("f", 0, 3).id(1_u64).arg(RDI).result(RAX);
    let module = emitted.register(&engine, [site]).unwrap();
    let f = function(&module);
    let refused = engine.patch(1_u64, &Sequence::new().mov(result(), 1_u64 << 40));
    assert!(
        matches!(
            refused,
            Err(Error::Assemble(sequence::Error::SequenceTooLong {
                stub_would_fit: false,
                ..
            }))
        ),
        "{refused:?}"
    );
    engine
        .patch(1_u64, &Sequence::new().mov(result(), arg(0)))
        .unwrap();
    assert_eq!(f(8), 8);
}

/// What a handler reads and sets at a site that no stack map records.
#[test]
fn handlers_find_operands_and_values() {
    // mov rsi, rdi; add rsi, rsi; lea rax, [rdi+1]; nops; ret
    let code = [
        &[0x48, 0x89, 0xfe, 0x48, 0x01, 0xf6, 0x48, 0x8d, 0x47, 0x01][..],
        &[0x90; 6],
        &[
            0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x66, 0x0f, 0x1f, 0x44, 0, 0, 0x90,
        ],
        &[0xc3],
    ]
    .concat();
    let spec = || {
        SiteSpec::nops("f", 16, 16)
            .id(9_u64)
            .arg(RDI)
            .result(RAX)
            .value(x86_64::RSI)
            .free(RegSet::of(&[x86_64::R10]))
            .free_flags()
    };
    for is_live in [false, true] {
        let seen = Arc::new(AtomicU64::new(0));
        let note = Arc::clone(&seen);
        let exits = ExitStubs::new()
            .on_miss(move |frame| {
                let arg = frame.arg_u64(0).unwrap();
                let value = frame.live_u64(0).unwrap();
                note.store(arg << 32 | value, Ordering::Relaxed);
                frame.set_result(arg * 3).unwrap();
                frame.resume()
            })
            .on_deopt(|frame| frame.resume());
        // SAFETY: the test has one thread.
        let world = unsafe { SingleThreaded::promise() };
        let builder = Engine::builder().exits(exits);
        let builder = match is_live {
            true => builder.world(NeverStopped),
            false => builder.world(world),
        };
        let (engine, emitted) = (builder.build().unwrap(), Emitted::new(&code));
        let module = match is_live {
            true => emitted.register_live(&engine, [spec()]),
            false => emitted.register(&engine, [spec()]),
        }
        .unwrap();
        let f = function(&module);
        let guarded = Sequence::new()
            .guard_eq(arg(0), 100, Target::Miss)
            .mov(temp(), live(0))
            .mov(result(), temp());
        engine.patch(9_u64, &guarded).unwrap();
        assert_eq!(f(100), 200);
        assert_eq!((f(7), seen.load(Ordering::Relaxed)), (21, 7 << 32 | 14));
    }
}

/// What was assembled for one site is no template for another at which other registers are free.
#[test]
fn templates_tell_registers_apart() {
    // Two sites with the same bytes, which differ in what is free.
    let code = [&[0x0f, 0x1f, 0x44, 0, 0][..], &[0x66, 0x90], &[0x90; 9], &[0xc3]].concat();
    let code = [&code[..16], &code[..16], &[0xc3]].concat();
    let site = |offset: u32, id: u64| SiteSpec::nops("f", offset, 16).id(id).arg(RDI);
    let (engine, emitted) = (engine(), Emitted::new(&code));
    let free = RegSet::of(&[x86_64::RCX]);
    let sites = [site(0, 1).free(free), site(16, 2).free(RAX_ALONE)];
    let module = emitted.register(&engine, sites).unwrap();
    function(&module);
    let sequence = |value: u64| {
        Sequence::new()
            .mov(temp(), value)
            .store(u64::at(arg(0), 8), temp())
    };
    for value in [1 << 33, 1 << 34, 1 << 35, 1 << 36] {
        for id in [1_u64, 2] {
            engine.patch(id, &sequence(value)).unwrap();
        }
        let sites: Vec<_> = module.sites().collect();
        let text: Vec<String> = sites
            .iter()
            .map(|site| patchpoint::verify::disassemble(module.arch(), site.addr(), &site.read().unwrap()))
            .map(|lines| lines[0].text.clone())
            .collect();
        assert!(text[0].starts_with("mov rcx"), "{text:?}");
        assert!(text[1].starts_with("mov rax"), "{text:?}");
    }
}

/// A thread that waits in a callee of the site while it is patched.
#[test]
fn told_return_offsets_are_kept() {
    // nop of 3; then 13 bytes of nops, at the first of which a return address may point.
    let code = [&[0x0f, 0x1f, 0x00][..], &[0x90; 13], &[0xc3]].concat();
    let (engine, emitted) = (engine(), Emitted::new(&code));
    let site = SiteSpec::nops("f", 0, 16)
        .id(1_u64)
        .returns_to(3)
        .arg(RDI)
        .result(RAX);
    let module = emitted.register(&engine, [site]).unwrap();
    let f = function(&module);
    // It does not fit before the offset, nor does a jump to a stub.
    let refused = engine.patch(1_u64, &Sequence::new().mov(result(), 1_u64 << 40));
    assert!(matches!(refused, Err(Error::Assemble(_))), "{refused:?}");
    engine
        .patch(1_u64, &Sequence::new().mov(result(), arg(0)))
        .unwrap();
    assert_eq!(f(8), 8);
    let bytes = module.sites().next().unwrap().read().unwrap();
    let boundaries = patchpoint::verify::boundaries(module.arch(), emitted.start, &bytes);
    assert!(boundaries.contains(&3), "{bytes:02x?}");
}
