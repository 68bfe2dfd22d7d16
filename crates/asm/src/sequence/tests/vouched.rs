//! Bytes that the checker does not know, and for which the runtime vouches.

use patchpoint_isa::{Declared, RegSet, Vouched};

use super::*;

/// An instruction that no decoder here knows, and the one register that it writes, which is free at
/// an entry.
fn unknown(arch: Arch) -> (&'static [u8], u16) {
    match arch {
        // rdfsbase r11
        Arch::X86_64 => (&[0xf3, 0x49, 0x0f, 0xae, 0xc3], 11),
        // mrs x16, tpidr_el0
        Arch::AArch64 => (&[0x50, 0xd0, 0x3b, 0xd5], 16),
        // mftb 11
        Arch::PowerPc64 | Arch::PowerPc64ElfV2 => (&[0x7d, 0x6c, 0x42, 0xe6], 11),
        Arch::PowerPc64Le => (&[0xe6, 0x42, 0x6c, 0x7d], 11),
        // popcnt %r1, %r1
        Arch::SystemZ => (&[0xb9, 0xe1, 0x00, 0x11], 1),
        // rdtime t1
        Arch::RiscV64 => (&[0x73, 0x23, 0x10, 0xc0], 6),
    }
}

/// The first argument of a function that is entered.
fn argument(arch: Arch) -> DwarfReg {
    DwarfReg::new(match arch {
        Arch::X86_64 => 5,
        Arch::AArch64 => 0,
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => 3,
        Arch::SystemZ => 2,
        Arch::RiscV64 => 10,
    })
}

const ALL: [Arch; 7] = [
    Arch::X86_64,
    Arch::AArch64,
    Arch::PowerPc64,
    Arch::PowerPc64Le,
    Arch::PowerPc64ElfV2,
    Arch::SystemZ,
    Arch::RiscV64,
];

fn entry(arch: Arch, reserved: u32) -> SiteContext<'static> {
    let mut site = site(CallShape::entry(reserved), record(7));
    site.arch = arch;
    site.record = None;
    site
}

fn vouched(arch: Arch, times: usize) -> Sequence {
    let (bytes, reg) = unknown(arch);
    Sequence::new().vouched_for(&bytes.repeat(times), &[DwarfReg::new(reg)])
}

fn in_place(sequence: &Sequence, site: &SiteContext<'_>) -> Assembled {
    match assemble(sequence, site, &ENV).unwrap() {
        Fit::InPlace(assembled) => assembled,
        Fit::OutOfLine { .. } => panic!("{}: does not fit", site.arch),
    }
}

fn check(
    site: &SiteContext<'_>,
    assembled: &Assembled,
    declared: &Declared,
) -> Result<verify::Checked, verify::Error> {
    let stub = assembled.stub.as_ref().map(|stub| Chunk {
        addr: stub.addr,
        bytes: &stub.bytes,
    });
    verify::check(site, &assembled.code, stub.as_slice(), declared)
}

#[test]
fn unknown_instructions_are_refused_unless_vouched_for() {
    for arch in ALL {
        let (bytes, reg) = unknown(arch);
        let site = entry(arch, 64);
        let raw = in_place(&Sequence::new().raw(bytes), &site);
        let refused = check(&site, &raw, &raw.declared).unwrap_err();
        assert!(
            matches!(
                refused,
                verify::Error::Undecodable { .. } | verify::Error::Refused { .. }
            ),
            "{arch}: {refused}"
        );
        let assembled = in_place(&vouched(arch, 1), &site);
        assert!(assembled.code.starts_with(bytes), "{arch}");
        let checked = check(&site, &assembled, &assembled.declared).unwrap();
        assert_eq!(checked.clobbers, RegSet::of(&[DwarfReg::new(reg)]), "{arch}");
        assert_eq!(assembled.clobbers, checked.clobbers, "{arch}");
    }
}

#[test]
fn what_they_write_must_be_free() {
    for arch in ALL {
        let site = entry(arch, 64);
        let (bytes, _) = unknown(arch);
        let argument = argument(arch);
        let refused = assemble(&Sequence::new().vouched_for(bytes, &[argument]), &site, &ENV).unwrap_err();
        assert!(
            matches!(refused, Error::OverwritesLive { .. }),
            "{arch}: {refused}"
        );
        // The checker does not rely on that.
        let mut assembled = in_place(&vouched(arch, 1), &site);
        assembled.declared.vouched[0].writes = RegSet::of(&[argument]);
        let refused = check(&site, &assembled, &assembled.declared).unwrap_err();
        assert!(
            matches!(refused, verify::Error::Clobber { .. }),
            "{arch}: {refused}"
        );
    }
}

#[test]
fn they_are_where_they_are_declared_between_what_is_checked() {
    for arch in ALL {
        let (bytes, reg) = unknown(arch);
        let site = entry(arch, 1024);
        // More bytes than one piece holds, behind a branch and before a jump.
        let around = |times: usize| {
            let skip = Label::new(0);
            Sequence::new()
                .jump_if(Cond::Eq, argument(arch), 1_u64, skip)
                .vouched_for(&bytes.repeat(times), &[DwarfReg::new(reg)])
                .bind(skip)
                .jump(Target::Deopt)
        };
        let assembled = in_place(&around(80), &site);
        let [Vouched { range, .. }] = assembled.declared.vouched[..] else {
            panic!("{:?}", assembled.declared.vouched);
        };
        let at = (range.start().get() - site.addr.get()) as usize;
        assert_eq!(range.len() as usize, bytes.len() * 80);
        assert_eq!(assembled.code[at..at + range.len() as usize], bytes.repeat(80));
        check(&site, &assembled, &assembled.declared).unwrap();
        for shift in [-1_i64, 1] {
            let mut moved = assembled.declared.clone();
            let start = CodeAddr::new(range.start().get().wrapping_add_signed(shift));
            moved.vouched[0].range = llvm_stackmaps::addr::CodeRange::new(start, range.len()).unwrap();
            check(&site, &assembled, &moved).unwrap_err();
        }
        let out_of_line = assemble_out_of_line(&around(2), &site, &ENV, STUB).unwrap();
        let stub = out_of_line.stub.as_ref().unwrap();
        let range = out_of_line.declared.vouched[0].range;
        let at = (range.start().get() - stub.addr.get()) as usize;
        assert_eq!(
            stub.bytes[at..at + range.len() as usize],
            bytes.repeat(2),
            "{arch}"
        );
        check(&site, &out_of_line, &out_of_line.declared).unwrap();
    }
}

#[test]
fn nothing_branches_into_them() {
    // jmp over one byte of ten nops, which are vouched for: not to their start, and not to their
    // end.
    let site = entry(Arch::X86_64, 12);
    let code = [&[0xeb, 0x01][..], &[0x90; 10]].concat();
    verify::check(&site, &code, &[], &Declared::default()).unwrap();
    let declared = Declared {
        vouched: [Vouched {
            range: llvm_stackmaps::addr::CodeRange::new(CodeAddr::new(site.addr.get() + 2), 10).unwrap(),
            writes: RegSet::EMPTY,
        }]
        .to_vec(),
        ..Declared::default()
    };
    let refused = verify::check(&site, &code, &[], &declared).unwrap_err();
    assert!(matches!(refused, verify::Error::BranchInside { .. }), "{refused}");
}

#[test]
fn nothing_branches_between_their_pieces() {
    let site = entry(Arch::X86_64, 5 + 400);
    let jump = |by: i32| {
        let mut code = [0x90; 405];
        code[0] = 0xe9;
        code[1..5].copy_from_slice(&by.to_le_bytes());
        code
    };
    let declared = Declared {
        vouched: [Vouched {
            range: llvm_stackmaps::addr::CodeRange::new(CodeAddr::new(site.addr.get() + 5), 400).unwrap(),
            writes: RegSet::EMPTY,
        }]
        .to_vec(),
        ..Declared::default()
    };
    for by in 0..=400 {
        let allowed = verify::check(&site, &jump(by), &[], &declared).is_ok();
        assert_eq!(allowed, by == 0 || by == 400, "{by}");
    }
}

#[test]
fn the_nops_before_a_final_call_do_not_belong_to_them() {
    let site = any_reg(64);
    let (bytes, reg) = unknown(Arch::X86_64);
    let sequence = Sequence::new()
        .vouched_for(bytes, &[DwarfReg::new(reg)])
        .call_to(HELPER, OnReturn::PreservesAll);
    let assembled = in_place(&sequence, &site);
    assert_eq!(assembled.declared.vouched[0].range.len() as usize, bytes.len());
    check(&site, &assembled, &assembled.declared).unwrap();
}
