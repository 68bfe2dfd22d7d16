//! Reaches: each boundary, and one instruction beyond it.

use alloc::format;
use alloc::vec::Vec;

use llvm_stackmaps::addr::CodeAddr;

use patchpoint_isa::aarch64::X17;

use crate::aarch64::insn::Gpr;
use crate::aarch64::{AArch64, branch};
use crate::backend::{Backend, Branch, BranchForm, BranchKind};
use crate::encodings::Cases;
use crate::op::{Cond, Dest};

const FROM: u64 = 0x7000_0000_0000;
const MIB: i64 = 1 << 20;
const CONDS: [(Cond, &str); 10] = [
    (Cond::Eq, "eq"),
    (Cond::Ne, "ne"),
    (Cond::Below, "lo"),
    (Cond::BelowOrEqual, "ls"),
    (Cond::Above, "hi"),
    (Cond::AboveOrEqual, "hs"),
    (Cond::Less, "lt"),
    (Cond::LessOrEqual, "le"),
    (Cond::Greater, "gt"),
    (Cond::GreaterOrEqual, "ge"),
];

fn branch(kind: BranchKind, distance: i64, form: BranchForm) -> (Branch, u64) {
    let to = FROM.wrapping_add_signed(distance);
    let branch = Branch {
        at: 0,
        kind,
        dest: Dest::Addr(CodeAddr::new(to)),
        scratch: Some(X17),
        form,
        detail: 0,
        op: 0,
    };
    (branch, to)
}

fn reaches(kind: BranchKind, distance: i64, form: BranchForm) -> bool {
    let (branch, to) = branch(kind, distance, form);
    AArch64.reaches(&branch, form, FROM, to)
}

fn words(kind: BranchKind, distance: i64, form: BranchForm) -> Vec<u32> {
    let (branch, to) = branch(kind, distance, form);
    let mut out = Vec::new();
    AArch64.put_branch(&branch, FROM, to, &mut out);
    assert_eq!(out.len(), AArch64.branch_len(&branch, form) as usize);
    out.chunks(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

/// The branch of one instruction, by that distance.
fn short(kind: BranchKind, distance: i64) -> impl FnOnce(&mut Vec<u8>) {
    move |out| {
        assert!(reaches(kind, distance, BranchForm::Short));
        let (branch, to) = branch(kind, distance, BranchForm::Short);
        AArch64.put_branch(&branch, FROM, to, out);
    }
}

/// Branches, for the comparison with LLVM.
pub(super) fn cases(cases: &mut Cases) {
    let scaled = |field: Vec<i64>| -> Vec<i64> { field.into_iter().map(|n| n * 4).collect() };
    for distance in scaled(cases.signed(26, 0x12_3456)) {
        cases.add(format!("b #{distance}"), short(BranchKind::Jump, distance));
        cases.add(format!("bl #{distance}"), short(BranchKind::Call, distance));
    }
    for ((cond, name), distance) in cases.vary(&CONDS, &scaled(cases.signed(19, 0x1_2345))) {
        let text = format!("b.{name} #{distance}");
        cases.add(text, short(BranchKind::JumpIf(cond), distance));
    }
    let backs = cases.values(&[3, 1, 1 << 18], (0..19).map(|bit| 1 << bit));
    for (reg, back) in cases.vary(&cases.registers(9, 30), &backs) {
        let text = format!("cbnz w{reg}, #-{}", back * 4);
        cases.add(text, |out| branch::back_if_not_zero(Gpr(reg), back, out));
    }
}

#[test]
fn jumps_and_calls_reach_128_mib() {
    for kind in [BranchKind::Jump, BranchKind::Call] {
        for form in [BranchForm::Short, BranchForm::Near] {
            for distance in [0, 4, 128 * MIB - 4, -128 * MIB] {
                assert!(reaches(kind, distance, form));
                assert_eq!(words(kind, distance, form).len(), 1);
            }
            for distance in [128 * MIB, -128 * MIB - 4, 1, 2, -3, i64::MAX, i64::MIN] {
                assert!(!reaches(kind, distance, form), "{distance:#x}");
            }
        }
    }
}

#[test]
fn conditional_branches_reach_1_mib_and_over_a_jump_128() {
    let kind = BranchKind::JumpIf(Cond::Less);
    for distance in [0, MIB - 4, -MIB] {
        assert!(reaches(kind, distance, BranchForm::Short));
        assert_eq!(words(kind, distance, BranchForm::Short).len(), 1);
    }
    for distance in [MIB, -MIB - 4, 2] {
        assert!(!reaches(kind, distance, BranchForm::Short));
    }
    // The jump is one instruction later.
    for distance in [MIB, -MIB - 4, 128 * MIB, -128 * MIB + 4] {
        assert!(reaches(kind, distance, BranchForm::Near));
        // b.ge over it: 8 bytes on.
        let [over, jump] = words(kind, distance, BranchForm::Near)[..] else {
            panic!("{distance:#x}");
        };
        assert_eq!(over, 0x5400_004a);
        assert_eq!(i64::from((jump << 6) as i32 >> 4), distance - 4);
        assert_eq!(jump >> 26, 0b00_0101);
    }
    for distance in [128 * MIB + 4, -128 * MIB, 6] {
        assert!(!reaches(kind, distance, BranchForm::Near));
    }
}

#[test]
fn far_branches_load_the_whole_address() {
    let distance = 0x1234_5678_9abc - FROM as i64;
    // movz x17, #0x9abc; movk x17, #0x5678, lsl #16; movk x17, #0x1234, lsl #32
    let target = [0xd293_5791, 0xf2aa_cf11, 0xf2c2_4691];
    let (br, blr) = (0xd61f_0220, 0xd63f_0220);
    let far = |kind| words(kind, distance, BranchForm::Far);
    assert_eq!(far(BranchKind::Jump), [&target[..], &[br]].concat());
    assert_eq!(far(BranchKind::Call), [&target[..], &[blr]].concat());
    // b.ne over four instructions and itself.
    let over = 0x5400_00a1;
    let expected = [&[over], &target[..], &[br]].concat();
    assert_eq!(far(BranchKind::JumpIf(Cond::Eq)), expected);
}

#[test]
fn far_branches_need_a_register_and_an_address() {
    let (mut far, to) = branch(BranchKind::Jump, 1 << 40, BranchForm::Far);
    assert!(AArch64.reaches(&far, BranchForm::Far, FROM, to));
    far.scratch = None;
    assert!(!AArch64.reaches(&far, BranchForm::Far, FROM, to));
    far.scratch = Some(X17);
    far.dest = Dest::End;
    assert!(!AArch64.reaches(&far, BranchForm::Far, FROM, to));
}
