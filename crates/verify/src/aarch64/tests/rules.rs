//! Sequences at sites.

use llvm_stackmaps::addr::{CodeAddr, RecordId};
use llvm_stackmaps::testing::{RecordSpec, map, record, reg};
use patchpoint_isa::{Arch, CallShape, Declared, DeclaredTarget, OnReturn, RegSet, SiteContext};

use super::{NOP, bytes};
use crate::{Checked, Error, Result, check, check_trap};

const SITE: u64 = 0x1234_5678_0000;
const EXIT_STUB: u64 = SITE + 0x1000;
const HELPER: u64 = 0x7fff_1234_5678;
const C_FUNCTION: u64 = SITE + 0x3000;

/// `movz`, `movk`, `movk` of x16 for the helper.
const LOAD_HELPER: [u32; 3] = [0xd28a_cf10, 0xf2a2_4690, 0xf2cf_fff0];
const BLR: u32 = 0xd63f_0200;
const BR: u32 = 0xd61f_0200;
const RET: u32 = 0xd65f_03c0;

fn site(shape: CallShape, spec: Option<RecordSpec>) -> SiteContext<'static> {
    let (record, constants) = map()
        .function(0x1000, 24, [spec.clone().unwrap_or_else(|| record(7))])
        .leak();
    SiteContext {
        arch: Arch::AArch64,
        id: RecordId::new(7),
        function: Some("get"),
        offset: 4.into(),
        addr: CodeAddr::new(SITE),
        shape,
        record: spec.map(|_| record),
        constants,
        return_offsets: &[],
        trust_live_outs: false,
    }
}

fn any_reg() -> SiteContext<'static> {
    let locations = [reg(0, 8), reg(1, 8), reg(20, 8)];
    site(
        CallShape::any_reg(32).result().args(1),
        Some(record(7).locations(locations)),
    )
}

fn run(site: &SiteContext<'static>, words: &[u32]) -> Result<Checked> {
    let target = |addr, on_return| DeclaredTarget {
        addr: CodeAddr::new(addr),
        on_return,
    };
    let declared = Declared {
        targets: [
            target(EXIT_STUB, OnReturn::Never),
            target(HELPER, OnReturn::PreservesAll),
            target(C_FUNCTION, OnReturn::FollowsC),
        ]
        .to_vec(),
        outputs: RegSet::EMPTY,
        vouched: Vec::new(),
    };
    let mut words = words.to_vec();
    words.resize(8, NOP);
    check(site, &bytes(&words), &[], &declared)
}

/// `b` or `bl` from the instruction at that index.
fn branch(opcode: u32, index: u64, to: u64) -> u32 {
    let words = to.wrapping_sub(SITE + index * 4) >> 2;
    opcode | words as u32 & 0x03ff_ffff
}

const B: u32 = 0x1400_0000;
const BL: u32 = 0x9400_0000;

#[test]
fn far_calls_through_a_register_are_followed() {
    let call = [&LOAD_HELPER[..], &[BLR]].concat();
    let checked = run(&any_reg(), &call).unwrap();
    let lost = [16, 17, 30].map(llvm_stackmaps::addr::DwarfReg::new);
    assert_eq!(checked.clobbers, RegSet::of(&lost));
    assert_eq!(checked.return_offsets, [16]);
    // A part that is missing or wrong makes another address.
    for wrong in [0, 1, 2] {
        let mut call = call.clone();
        call[wrong] = NOP;
        assert!(run(&any_reg(), &call).is_err());
        call[wrong] = LOAD_HELPER[wrong] ^ 1 << 5;
        assert!(matches!(run(&any_reg(), &call), Err(Error::Undeclared { .. })));
    }
    // What is loaded through memory is not known.
    let loaded = [0xf940_0290, BLR];
    assert!(matches!(run(&any_reg(), &loaded), Err(Error::Indirect { .. })));
    // A branch into the middle of the constant.
    let skipping = [0xb400_0054, LOAD_HELPER[0], LOAD_HELPER[1], LOAD_HELPER[2], BLR];
    assert!(run(&any_reg(), &skipping).is_err());
    // x17 may hold it, too, but a jump needs a target that never returns.
    let jump = [&LOAD_HELPER[..], &[BR]].concat();
    assert!(matches!(run(&any_reg(), &jump), Err(Error::JumpReturns { .. })));
}

#[test]
fn only_scratch_registers_are_written() {
    let mov = |reg: u32| 0xd280_0000 | reg;
    for reg in 0..31 {
        let allowed = matches!(reg, 16 | 17 | 30);
        let result = run(&any_reg(), &[mov(reg)]);
        assert_eq!(result.is_ok(), allowed, "x{reg}: {result:?}");
    }
    let shadow = site(CallShape::shadow(32), Some(record(7).locations([reg(20, 8)])));
    let entry = site(CallShape::entry(32), None);
    for reg in 0..31 {
        let leave = [mov(reg), branch(B, 1, EXIT_STUB)];
        assert_eq!(run(&shadow, &leave).is_ok(), matches!(reg, 16 | 17), "x{reg}");
        assert_eq!(run(&entry, &[mov(reg)]).is_ok(), matches!(reg, 16 | 17), "x{reg}");
    }
    let c = site(
        CallShape::c(32),
        Some(record(7).locations([reg(9, 8), reg(20, 8)])),
    );
    for reg in 0..31 {
        let allowed = !matches!(reg, 9 | 19..=29);
        assert_eq!(run(&c, &[mov(reg)]).is_ok(), allowed, "x{reg}");
    }
    // fmov d7, x0 and d8, whose low half a callee preserves.
    assert!(run(&c, &[0x9e67_0007]).is_ok());
    assert!(run(&c, &[0x9e67_0008]).is_err());
}

#[test]
fn a_recorded_link_register_is_not_lost() {
    let locations = [reg(0, 8), reg(1, 8), reg(30, 8)];
    let site = site(
        CallShape::any_reg(32).result().args(1),
        Some(record(7).locations(locations)),
    );
    let call = [&LOAD_HELPER[..], &[BLR]].concat();
    let refused = run(&site, &call);
    assert!(matches!(refused, Err(Error::Clobber { register: "x30", .. })));
}

#[test]
fn c_functions_are_called_only_at_c_patchpoints() {
    let call = [branch(BL, 0, C_FUNCTION)];
    assert!(matches!(run(&any_reg(), &call), Err(Error::Clobber { .. })));
    let c = site(CallShape::c(32).result(), Some(record(7)));
    assert!(run(&c, &call).is_ok());
    // sub sp, sp, #16; bl; add sp, sp, #16
    let around = [0xd100_43ff, branch(BL, 1, C_FUNCTION), 0x9100_43ff];
    assert!(run(&c, &around).is_ok());
    let unbalanced = [0xd100_43ff, branch(BL, 1, C_FUNCTION)];
    assert!(matches!(run(&c, &unbalanced), Err(Error::StackExit { .. })));
}

#[test]
fn functions_return_through_the_link_register() {
    let entry = site(CallShape::entry(32), None);
    assert!(run(&entry, &[RET]).is_ok());
    // ret x16; mov sp, x16; ldr x30, [x20]
    for words in [[0xd65f_0200, NOP], [0x9100_021f, RET], [0xf940_029e, RET]] {
        assert!(run(&entry, &words).is_err(), "{words:x?}");
    }
    assert!(matches!(run(&any_reg(), &[RET]), Err(Error::Return { .. })));
}

#[test]
fn without_a_red_zone_stores_below_the_stack_pointer_are_free() {
    let shadow = site(CallShape::shadow(32), Some(record(7)));
    let exit_stub = |index| branch(B, index, EXIT_STUB);
    // str x16, [sp, #-16]!; ldr x16, [sp], #16
    let below = [0xf81f_0ff0, 0xf841_07f0, exit_stub(2)];
    assert!(run(&shadow, &below).is_ok());
    // stur x16, [sp, #-8]; stp x16, x17, [sp, #-16]
    assert!(run(&shadow, &[0xf81f_83f0, 0xa93f_47f0, exit_stub(2)]).is_ok());
    // str x16, [sp, x17], and one that straddles the stack pointer.
    let entry = site(CallShape::entry(32), None);
    for word in [0xf831_6bf0, 0xf81f_c3f0] {
        for (site, words) in [(&shadow, &[word, exit_stub(1)][..]), (&entry, &[word])] {
            assert!(matches!(run(site, words), Err(Error::RedZone { .. })));
        }
    }
}

/// Far from the stack pointer, a distance is in an index register.
#[test]
fn a_store_by_an_index_that_is_a_constant_is_where_it_is() {
    let entry = site(CallShape::entry(32), None);
    // movz x17, #16; movn x17, #7; movn x17, #6; movn x17, #15; then str x16, [sp, x17]
    for (constant, accepted) in [
        (0xd280_0211, true),
        (0x9280_00f1, true),
        (0x9280_00d1, false),
        (0x9280_01f1, true),
    ] {
        let found = run(&entry, &[constant, 0xf831_6bf0]);
        assert_eq!(found.is_ok(), accepted, "{constant:#x}: {found:?}");
    }
    // Another register is the constant; the index is shifted; or it is a word's sign extended.
    for (constant, store) in [
        (0xd280_0210_u32, 0xf831_6bf1_u32),
        (0xd280_0211, 0xf831_7bf0),
        (0xd280_0211, 0xf831_cbf0),
    ] {
        let found = run(&entry, &[constant, store]);
        assert!(
            matches!(found, Err(Error::RedZone { .. })),
            "{store:#x}: {found:?}"
        );
    }
}

#[test]
fn a_trap_replaces_only_what_may_be_exchanged() {
    let shadow = site(CallShape::shadow(8), Some(record(7)));
    let brk = 0xd420_0000;
    let over = |first: u32| check_trap(&shadow, &bytes(&[first, NOP]), &bytes(&[brk, NOP]));
    for first in [NOP, 0x1400_0001, 0x9400_0001, brk] {
        over(first).unwrap();
    }
    // ldr, add, b.eq, cbz, ret, bti c
    for first in [
        0xf940_0041,
        0x9100_0400,
        0x5400_0040,
        0xb400_0040,
        RET,
        0xd503_245f,
    ] {
        assert!(matches!(over(first), Err(Error::Exchange { .. })), "{first:x}");
    }
    let more = check_trap(&shadow, &bytes(&[NOP, NOP]), &bytes(&[brk, brk]));
    assert!(more.is_err());
}

#[test]
fn at_a_marked_site_flags_stay() {
    use llvm_stackmaps::Constants;
    use patchpoint_isa::{CallShape, Declared, SiteContext};
    let site = SiteContext {
        arch: patchpoint_isa::Arch::AArch64,
        id: Default::default(),
        function: None,
        offset: Default::default(),
        addr: llvm_stackmaps::addr::CodeAddr::new(0x40_0000),
        shape: CallShape::marked(4),
        record: None,
        constants: Constants::NONE,
        return_offsets: &[],
        trust_live_outs: false,
    };
    let check = |word: u32| crate::check(&site, &word.to_le_bytes(), &[], &Declared::default());
    // str x1, [x0]
    check(0xf900_0001).unwrap();
    // cmp x0, #1; tst x0, #1
    for word in [0xf100_041f, 0xf240_001f] {
        let refused = check(word);
        assert!(matches!(refused, Err(crate::Error::Flags { .. })), "{refused:?}");
    }
}
