//! The audit of told sites and what sequences may do there, on all architectures: nothing is
//! executed.

#![allow(unsafe_code, reason = "a target of a call is a promise")]

use std::slice::from_ref;
use std::sync::Arc;

use super::SiteSpec;
use crate::addr::{CodeAddr, CodeRange, DwarfReg, FnOffset, Len, RecordId};
use crate::arch::{Arch, Convention, RegSet, conventions, x86_64};
use crate::image::FunctionRange;
use crate::memory::{CodeArea, CodeMemory, Snapshot};
use crate::sequence::{self, Environment, Field, Fit, Sequence, arg, live, result, temp};
use crate::site::{Error, Functions, Module, ModuleId, ModuleParts, Owner, Result, Unrecorded, UnwindBy};
use crate::site::{Site, register};
use crate::stackmap::OwnedMaps;
use crate::stackmap::testing::{map, record};
use crate::verify;

const START: u64 = 0x1000_0000;

const ALL: [Arch; 7] = [
    Arch::X86_64,
    Arch::AArch64,
    Arch::PowerPc64,
    Arch::PowerPc64Le,
    Arch::PowerPc64ElfV2,
    Arch::SystemZ,
    Arch::RiscV64,
];

/// Functions `f` and `g`, of these bytes each, with a stack map.
fn module_with(arch: Arch, code: [&[u8]; 2], maps: Vec<u8>, specs: &[SiteSpec]) -> Result<Module> {
    let addr = CodeAddr::new(START);
    let mut bytes = code.concat();
    bytes.resize(4096, 0);
    let memory: Arc<dyn CodeMemory> = Arc::new(Snapshot::new(addr, bytes).unwrap());
    let function = |name: &str, offset: usize, code: &[u8]| {
        let addr = CodeAddr::new(START + offset as u64);
        FunctionRange {
            name: name.into(),
            addr,
            len: Len::of(code).unwrap(),
            pointer: addr,
        }
    };
    let functions = [function("f", 0, code[0]), function("g", code[0].len(), code[1])];
    let functions = functions.into_iter().filter(|function| function.len.get() > 0);
    let parts = ModuleParts {
        id: ModuleId(0),
        arch,
        windows: false,
        functions: Functions::new(&functions.collect::<Vec<_>>())?,
        maps: OwnedMaps::new(maps, arch.endian())?,
        areas: [CodeArea::new(CodeRange::new(addr, 4096).unwrap(), &memory)?].into(),
        eh_frames: Box::default(),
        unwind_by: UnwindBy::EhFrame,
        trust_live_outs: false,
        may_have_run: false,
        live: true,
        owner: Owner::nobody(),
        _placed: None,
    };
    let unrecorded = Unrecorded {
        told: specs,
        ..Unrecorded::default()
    };
    Ok(register(parts, &unrecorded, &mut |_| Ok(None))?.module)
}

fn module(arch: Arch, code: &[u8], specs: &[SiteSpec]) -> Result<Module> {
    module_with(arch, [code, &[]], Vec::new(), specs)
}

/// Nops, with boundaries of instructions at 48 and 144.
fn around(arch: Arch) -> Vec<u8> {
    [48, 96, 48].map(|len| nops(arch, len)).concat()
}

fn nops(arch: Arch, len: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    patchpoint_isa::nops::put(arch, len, &mut bytes);
    bytes
}

/// A site of 96 bytes of nops in a function of 192.
fn spec() -> SiteSpec {
    SiteSpec::nops("f", 48, 96).id(7_u64)
}

fn site_of(arch: Arch, spec: SiteSpec) -> Site {
    let module = module(arch, &around(arch), &[spec]).unwrap();
    module.sites().next().unwrap()
}

/// Why a spec for x86-64 is refused, in a function of these bytes.
fn refused(code: &[u8], spec: SiteSpec) -> Error {
    let error = module(Arch::X86_64, code, &[spec]).unwrap_err();
    let name = error.site().expect("it names the site");
    assert_eq!((name.id, name.function.as_deref()), (RecordId::new(7), Some("f")));
    error
}

#[test]
fn operands_are_found_where_they_were_told_to_be() {
    for arch in ALL {
        let registers = conventions::of(arch);
        let (args, free) = (registers.int_args, registers.int_args[3]);
        let spec = spec()
            .arg(args[0])
            .arg(args[1])
            .result(registers.int_result)
            .value(args[2])
            .free(RegSet::of(&[free]))
            .free_flags();
        let site = site_of(arch, spec);
        assert_eq!((site.id().get(), site.offset()), (7, FnOffset::new(48)));
        assert!(site.is_recorded());
        let (record, _) = site.record().unwrap();
        assert_eq!(
            (record.locations().len(), record.id().get(), record.offset().get()),
            (4, 7, 48)
        );
        // The result is set last: on most architectures it is where the first argument is.
        let sequence = Sequence::new()
            .mov(temp(), arg(0))
            .add(temp(), arg(1))
            .add(temp(), live(0))
            .mov(result(), temp());
        let context = site.context(&[]);
        let Fit::InPlace(assembled) =
            sequence::assemble(&sequence, &context, &Environment::default()).unwrap()
        else {
            panic!("{arch}: it fits");
        };
        let checked = verify::check(&context, &assembled.code, &[], &assembled.declared).unwrap();
        let may = RegSet::of(&[free, registers.int_result]);
        assert_eq!(checked.clobbers.difference(may), RegSet::EMPTY, "{arch}");
    }
}

#[test]
fn what_was_not_said_to_be_free_is_no_scratch() {
    for arch in ALL {
        let registers = conventions::of(arch);
        let free = RegSet::of(&[registers.int_args[2]]);
        let sequence = Sequence::new()
            .mov(temp(), arg(0))
            .store(u64::at(arg(1), 8), temp());
        let told = spec().arg(registers.int_args[0]).arg(registers.int_args[1]);
        let assemble = |site: &Site| {
            let context = site.context(&[]);
            sequence::assemble(&sequence, &context, &Environment::default())
        };
        let none = site_of(arch, told.clone());
        let error = assemble(&none).unwrap_err();
        assert!(
            matches!(error, sequence::Error::NoScratch { .. }),
            "{arch}: {error}"
        );
        let some = site_of(arch, told.clone().free(free));
        let Ok(Fit::InPlace(assembled)) = assemble(&some) else {
            panic!("{arch}: it fits");
        };
        // The checker knows it from the site, not from the assembler.
        let declared = &assembled.declared;
        assert!(
            verify::check(&some.context(&[]), &assembled.code, &[], declared).is_ok(),
            "{arch}"
        );
        let found = verify::check(&none.context(&[]), &assembled.code, &[], declared).unwrap_err();
        assert!(matches!(found, verify::Error::Clobber { .. }), "{arch}: {found}");
        // Also where the register is needed behind the site, or is an argument.
        let other = told.arg(registers.int_args[2]).free(free);
        let found = verify::check(&site_of(arch, other).context(&[]), &assembled.code, &[], declared);
        assert!(matches!(found, Err(verify::Error::Clobber { .. })), "{arch}");
    }
}

#[test]
fn flags_and_the_stack_are_kept_if_nothing_is_said() {
    let check = |spec: SiteSpec, code: &[u8]| {
        let site = site_of(Arch::X86_64, spec);
        let mut code = code.to_vec();
        code.extend(nops(Arch::X86_64, 96 - code.len() as u32));
        verify::check(&site.context(&[]), &code, &[], &crate::arch::Declared::default())
    };
    // add rcx, 1; push rcx and pop rcx
    let (add, push) = ([0x48, 0x83, 0xc1, 0x01], [0x51, 0x59]);
    let rcx = spec().free(RegSet::of(&[x86_64::RCX]));
    let error = check(rcx.clone(), &add).unwrap_err();
    assert!(matches!(error, verify::Error::Flags { .. }), "{error}");
    assert!(check(rcx.clone().free_flags(), &add).is_ok());
    let error = check(rcx.clone().free_flags(), &push).unwrap_err();
    assert!(matches!(error, verify::Error::RedZone { .. }), "{error}");
    assert!(check(rcx.free_stack(), &push).is_ok());
    // The C convention says all of it.
    assert!(check(spec().convention(Convention::C), &add).is_ok());
    assert!(check(spec().convention(Convention::C), &push).is_ok());
    let live = spec().convention(Convention::C).live(RegSet::of(&[x86_64::RCX]));
    assert!(matches!(check(live, &add), Err(verify::Error::Clobber { .. })));
}

#[test]
fn calls_are_made_where_they_may_be() {
    for arch in ALL {
        let registers = conventions::of(arch);
        let lost = registers
            .lost_in_c_call
            .intersection(verify::kept_registers(arch));
        // SAFETY: nothing is executed.
        let sequence =
            unsafe { Sequence::new().call(CodeAddr::new(START + 0x800), crate::arch::OnReturn::FollowsC) };
        let assemble = |spec: SiteSpec| {
            let site = site_of(arch, spec);
            let context = site.context(&[]);
            let fit = sequence::assemble(&sequence, &context, &Environment::default())?;
            let Fit::InPlace(assembled) = fit else {
                panic!("{arch}: it fits");
            };
            verify::check(&context, &assembled.code, &[], &assembled.declared)
                .map(|_| ())
                .map_err(crate::Error::from)
        };
        let is_refused = |spec: SiteSpec| {
            let error = assemble(spec).unwrap_err();
            let crate::Error::Assemble(error) = error else {
                panic!("{arch}: {error}");
            };
            matches!(
                error,
                sequence::Error::CallNotAllowed { .. } | sequence::Error::OverwritesLive { .. }
            )
        };
        assert!(is_refused(spec().free(lost)), "{arch}");
        assert!(is_refused(spec().free(lost).free_flags()), "{arch}");
        assert!(is_refused(spec().free(lost).free_stack()), "{arch}");
        assert!(is_refused(spec().free_flags().free_stack()), "{arch}");
        let all = spec().free(lost).free_flags().free_stack();
        assert!(assemble(all).is_ok(), "{arch}");
        // RISC-V: nobody has said that the function has saved its return address.
        let c = spec().convention(Convention::C).free(lost);
        assert!(assemble(c).is_ok(), "{arch}");
    }
    // The checker, without the assembler: call rel32 to a declared target.
    let declared = crate::arch::Declared {
        targets: vec![crate::arch::DeclaredTarget {
            addr: CodeAddr::new(START + 0x800),
            on_return: crate::arch::OnReturn::PreservesAll,
        }],
        ..crate::arch::Declared::default()
    };
    let check = |spec: SiteSpec| {
        let site = site_of(Arch::X86_64, spec.free(RegSet::of(&[x86_64::R11])));
        let mut code = vec![0xe8];
        code.extend((0x800 - 48 - 5_i32).to_le_bytes());
        code.extend(nops(Arch::X86_64, 91));
        verify::check(&site.context(&[]), &code, &[], &declared)
    };
    assert!(check(spec().free_stack().free_flags()).is_ok());
    let error = check(spec().free_stack()).unwrap_err();
    assert!(matches!(error, verify::Error::Flags { .. }), "{error}");
    // On x86-64 the return address is a store already.
    let error = check(spec().free_flags()).unwrap_err();
    assert!(matches!(error, verify::Error::RedZone { .. }), "{error}");
    let site = site_of(
        Arch::AArch64,
        spec().free(RegSet::of(&[16, 17, 30].map(DwarfReg::new))),
    );
    let bl = 0x9400_0000_u32 | ((0x800 - 48) / 4);
    let code = [&bl.to_le_bytes()[..], &nops(Arch::AArch64, 92)].concat();
    let error = verify::check(&site.context(&[]), &code, &[], &declared).unwrap_err();
    assert!(matches!(error, verify::Error::StackNotFree { .. }), "{error}");
}

#[test]
fn each_content_is_looked_for() {
    // Each at offset 8, between nops; a call and a jump of five bytes go to their ends.
    let contents: [(&str, &[u8], SiteSpec); 6] = [
        ("nops", &[0x0f, 0x1f, 0x44, 0, 0], SiteSpec::nops("f", 8, 5)),
        ("call", &[0xe8, 0, 0, 0, 0], SiteSpec::call("f", 8, 5)),
        ("call", &[0xff, 0x57, 0x08, 0x66, 0x90], SiteSpec::call("f", 8, 5)), // call [rdi+8]
        ("jump", &[0xe9, 0, 0, 0, 0], SiteSpec::jump("f", 8, 5)),
        ("jump", &[0xeb, 0x03, 0x0f, 0x1f, 0x00], SiteSpec::jump("f", 8, 5)),
        (
            "instructions",
            &[0x48, 0x8d, 0x47, 0x01, 0x90], // lea rax, [rdi+1]
            SiteSpec::instructions("f", 8, [0x48, 0x8d, 0x47, 0x01, 0x90]),
        ),
    ];
    let code = |bytes: &[u8]| [&nops(Arch::X86_64, 8), bytes, &[0x90; 19]].concat();
    for (name, bytes, spec) in &contents {
        let spec = spec.clone().id(7_u64);
        let module = module(Arch::X86_64, &code(bytes), from_ref(&spec)).unwrap();
        assert_eq!(module.sites().next().unwrap().reserved().get(), 5);
        for (other, bytes, _) in contents.iter().filter(|(other, ..)| other != name) {
            let error = refused(&code(bytes), spec.clone());
            assert!(
                matches!(error, Error::NotAsTold { .. }),
                "{name}, {other}: {error}"
            );
        }
    }
    let text = refused(&code(&[0xe9, 0, 0, 0, 0]), SiteSpec::nops("f", 8, 5).id(7_u64)).to_string();
    assert_eq!(
        text,
        "told site 7 at f+0x8 (0x10000008) was told to hold nops, and holds `jmp 0x1000000d`: tell what is there, or where the \
         site is"
    );
    // A conditional jump is none, and two calls are not one.
    for bytes in [[0x74, 0x00, 0x0f, 0x1f, 0x00], [0xff, 0xd0, 0xff, 0xd0, 0x90]] {
        for spec in [SiteSpec::jump("f", 8, 5), SiteSpec::call("f", 8, 5)] {
            let error = refused(&code(&bytes), spec.id(7_u64));
            assert!(matches!(error, Error::NotAsTold { .. }), "{error}");
        }
    }
}

#[test]
fn calls_and_jumps_of_all_architectures_are_known() {
    // A call and a jump to 64 bytes behind.
    let words: [(Arch, &[u8], &[u8]); 6] = [
        (Arch::AArch64, &[0x10, 0, 0, 0x94], &[0x10, 0, 0, 0x14]),
        (Arch::PowerPc64Le, &[0x41, 0, 0, 0x48], &[0x40, 0, 0, 0x48]),
        (Arch::PowerPc64, &[0x48, 0, 0, 0x41], &[0x48, 0, 0, 0x40]),
        (
            Arch::SystemZ,
            &[0xc0, 0xe5, 0, 0, 0, 32],
            &[0xc0, 0xf4, 0, 0, 0, 32],
        ),
        (Arch::RiscV64, &[0xef, 0, 0, 0x04], &[0x6f, 0, 0, 0x04]),
        // auipc ra, 0; jalr ra, 64(ra)
        (
            Arch::RiscV64,
            &[0x97, 0, 0, 0, 0xe7, 0x80, 0, 0x04],
            &[0x6f, 0, 0, 0x04],
        ),
    ];
    for (arch, call, jump) in words {
        let code = |bytes: &[u8]| [&nops(arch, 16), bytes, &nops(arch, 48)].concat();
        let (call_len, jump_len) = (call.len() as u32, jump.len() as u32);
        let is_call = SiteSpec::call("f", 16, call_len).id(7_u64);
        let is_jump = SiteSpec::jump("f", 16, jump_len).id(7_u64);
        assert!(module(arch, &code(call), from_ref(&is_call)).is_ok(), "{arch}");
        assert!(module(arch, &code(jump), from_ref(&is_jump)).is_ok(), "{arch}");
        let nops = SiteSpec::nops("f", 0, 16).id(7_u64);
        assert!(module(arch, &code(call), &[nops]).is_ok(), "{arch}");
        for (bytes, spec) in [
            (call, is_jump),
            (jump, SiteSpec::call("f", 16, jump_len).id(7_u64)),
        ] {
            let error = module(arch, &code(bytes), &[spec]).unwrap_err();
            let found = matches!(error, Error::NotAsTold { .. } | Error::SiteUndecodable { .. });
            assert!(found, "{arch}: {error}");
        }
    }
}

#[test]
fn wrong_places_are_refused() {
    let code = nops(Arch::X86_64, 32);
    let at = |offset: u32, reserved: u32| SiteSpec::nops("f", offset, reserved).id(7_u64);
    assert!(matches!(refused(&code, at(0, 0)), Error::SiteEmpty { .. }));
    for (offset, reserved) in [(27, 6), (32, 1), (33, 1), (u32::MAX, 5), (0, u32::MAX)] {
        let error = refused(&code, at(offset, reserved));
        assert!(matches!(error, Error::SiteOutsideFunction { .. }), "{error}");
    }
    // Inside of an instruction, and up to the inside of one; bytes of the first decode as nops, too.
    let long = [0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x90, 0x90];
    for (offset, reserved) in [(1, 8), (0, 8), (0, 5)] {
        let error = refused(&long, at(offset, reserved));
        assert!(matches!(error, Error::SiteUndecodable { .. }), "{error}");
    }
    assert!(module(Arch::X86_64, &long, &[at(0, 9)]).is_ok());
    let Error::NoSuchFunction { name } =
        module(Arch::X86_64, &code, &[SiteSpec::nops("h", 0, 5).id(7_u64)]).unwrap_err()
    else {
        panic!("it was refused for something else");
    };
    assert_eq!(name, "h");
    let error = module(Arch::X86_64, &code, &[SiteSpec::nops("f", 0, 9)]).unwrap_err();
    assert!(matches!(error, Error::ToldInconsistent { why, .. } if why.contains("no ID")));
}

#[test]
fn other_sites_records_and_branches_are_found() {
    let code = nops(Arch::X86_64, 9).repeat(4);
    let at = |offset: u32, reserved: u32| SiteSpec::nops("f", offset, reserved).id(7_u64);
    let error = module(Arch::X86_64, &code, &[at(0, 18), at(9, 9)]).unwrap_err();
    assert!(matches!(error, Error::SitesOverlap { .. }), "{error}");
    assert!(module(Arch::X86_64, &code, &[at(0, 9), at(9, 9)]).is_ok());
    // A record inside, and one at the start or the end.
    let with_record = |offset| {
        let maps = map().function(START, 8, [record(3).at(offset)]).bytes();
        module_with(Arch::X86_64, [&code, &[]], maps, &[at(9, 18)])
    };
    let error = with_record(18).unwrap_err();
    assert!(matches!(error, Error::SiteOverlapsRecord { .. }), "{error}");
    assert!(with_record(9).is_ok() && with_record(27).is_ok());
    // jmp to byte 9 of this function, and to byte 18, where an instruction of the site starts.
    for (to, is_inside) in [(9_i8, false), (18, true), (27, false)] {
        let mut own = code.clone();
        own[27] = 0xeb;
        own[28] = (to - 29) as u8;
        own[29..].fill(0x90);
        let other = [0xeb, (to - 38) as u8, 0xc3];
        for code in [[&own[..], &[]], [&code[..], &other[..]]] {
            let registered = module_with(Arch::X86_64, code, Vec::new(), &[at(9, 18)]);
            let into = matches!(registered, Err(Error::BranchIntoSite { .. }));
            assert!(into == is_inside && (is_inside || registered.is_ok()), "{to}");
        }
    }
}

#[test]
fn registers_that_cannot_be_are_refused() {
    let code = around(Arch::X86_64);
    let set = |reg: DwarfReg| RegSet::of(&[reg]);
    let (rax, rcx) = (x86_64::RAX, x86_64::RCX);
    for (spec, text) in [
        (spec().free(set(x86_64::RSP)), "is the stack pointer"),
        (spec().result(x86_64::RSP), "is the stack pointer"),
        (
            spec().free(set(rax)).live(set(rax)),
            "is told to be free, and to be live",
        ),
        (
            spec().free(set(rax)).value(rax),
            "is told to be free, and to be live",
        ),
        (
            spec().result(rax).live(set(rax)),
            "is told to be live and the result",
        ),
        (
            spec().arg(DwarfReg::new(140)),
            "in which patches and exits keep a value",
        ),
        (
            spec().result(DwarfReg::new(33)),
            "in which patches and exits keep a value",
        ),
        (
            spec().free(set(DwarfReg::new(49))),
            "in which patches and exits keep a value",
        ),
        (
            spec().live(set(DwarfReg::new(33))),
            "in which patches and exits keep a value",
        ),
        (
            spec().value(DwarfReg::new(16)),
            "in which patches and exits keep a value",
        ),
    ] {
        let error = refused(&code, spec);
        let is_it = matches!(&error, Error::ToldRegister { why, .. } if why.contains(text));
        assert!(is_it, "{error}");
    }
    for spec in [
        spec().convention(Convention::C).arg(rax),
        spec().convention(Convention::C).result(rax),
        spec().args(1),
        spec().returns(),
    ] {
        let error = refused(&code, spec);
        assert!(matches!(error, Error::ToldInconsistent { .. }), "{error}");
    }
    // An argument may be told to be free, and the result may be where one is.
    let spec = spec().arg(rcx).arg(rax).result(rax).free(set(rcx));
    assert!(module(Arch::X86_64, &code, &[spec]).is_ok());
}

#[test]
fn return_offsets_are_followed_by_nops() {
    // call rax; nop of 3 | call rax; lea rax, [rdi]
    let (padded, followed) = ([0xff, 0xd0, 0x0f, 0x1f, 0x00], [0xff, 0xd0, 0x48, 0x8d, 0x07]);
    let returns = |module: Module| -> Vec<u32> {
        let site = module.sites().next().unwrap();
        site.told_return_offsets().collect()
    };
    assert!(module(Arch::X86_64, &padded, &[SiteSpec::call("f", 0, 5).id(7_u64)]).is_ok());
    let error = refused(&followed, SiteSpec::instructions("f", 0, followed).id(7_u64));
    let is_it =
        matches!(&error, Error::ToldReturnOffset { return_offset: 2, why, .. } if why.contains("followed"));
    assert!(is_it, "{error}");
    assert!(module(Arch::X86_64, &followed, &[SiteSpec::call("f", 0, 2).id(7_u64)]).is_ok());
    // bl and nop: nobody has saved the TOC pointer that patched code would restore there.
    let (bl, nop) = ([0x01, 0x08, 0, 0x48], [0, 0, 0, 0x60]);
    let local = [bl, nop, nop].concat();
    let error = module(Arch::PowerPc64Le, &local, &[SiteSpec::call("f", 0, 8).id(7_u64)]).unwrap_err();
    assert!(matches!(&error, Error::ToldReturnOffset { why, .. } if why.contains("TOC")));
    assert!(module(Arch::PowerPc64Le, &local, &[SiteSpec::call("f", 0, 4).id(7_u64)]).is_ok());
    // Told ones.
    let code = nops(Arch::X86_64, 9).repeat(3);
    let at = |offset: u32| SiteSpec::nops("f", 0, 18).id(7_u64).returns_to(offset);
    assert_eq!(returns(module(Arch::X86_64, &code, &[at(9)]).unwrap()), [9]);
    let two = [at(9), SiteSpec::nops("f", 18, 9).id(7_u64)];
    let module = module(Arch::X86_64, &code, &two).unwrap();
    let sites: Vec<Site> = module.sites().collect();
    assert_eq!(sites[1].told_return_offsets().count(), 0);
    for offset in [0, 4, 18, 27] {
        let error = refused(&code, at(offset));
        assert!(matches!(error, Error::ToldReturnOffset { .. }), "{error}");
    }
}
