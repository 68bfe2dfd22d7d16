//! Reaches: each boundary, and one instruction beyond it.

use alloc::format;
use alloc::vec::Vec;

use llvm_stackmaps::addr::CodeAddr;

use patchpoint_isa::riscv64::T1;

use crate::backend::{Backend, Branch, BranchForm, BranchKind};
use crate::encodings::Cases;
use crate::op::{Cond, Dest};
use crate::riscv64::insn::Gpr;
use crate::riscv64::{RiscV64, branch};

const FROM: u64 = 0x7000_0000_0000;
const KIB: i64 = 1 << 10;
const MIB: i64 = 1 << 20;
/// The conditions with their instruction; where it has the registers the other way round.
const CONDS: [(Cond, &str, bool); 10] = [
    (Cond::Eq, "beq", false),
    (Cond::Ne, "bne", false),
    (Cond::Below, "bltu", false),
    (Cond::BelowOrEqual, "bgeu", true),
    (Cond::Above, "bltu", true),
    (Cond::AboveOrEqual, "bgeu", false),
    (Cond::Less, "blt", false),
    (Cond::LessOrEqual, "bge", true),
    (Cond::Greater, "blt", true),
    (Cond::GreaterOrEqual, "bge", false),
];

fn branch(kind: BranchKind, distance: i64, form: BranchForm) -> (Branch, u64) {
    let to = FROM.wrapping_add_signed(distance);
    let branch = Branch {
        at: 0,
        kind,
        dest: Dest::Addr(CodeAddr::new(to)),
        scratch: Some(T1),
        form,
        detail: branch::compared(Gpr(10), Gpr(29)),
        op: 0,
    };
    (branch, to)
}

fn reaches(kind: BranchKind, distance: i64, form: BranchForm) -> bool {
    let (branch, to) = branch(kind, distance, form);
    RiscV64.reaches(&branch, form, FROM, to)
}

fn words(kind: BranchKind, distance: i64, form: BranchForm) -> Vec<u32> {
    let (branch, to) = branch(kind, distance, form);
    let mut out = Vec::new();
    RiscV64.put_branch(&branch, FROM, to, &mut out);
    assert_eq!(out.len(), RiscV64.branch_len(&branch, form) as usize);
    out.chunks(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

/// The branch of one instruction, by that distance.
fn short(kind: BranchKind, distance: i64) -> impl FnOnce(&mut Vec<u8>) {
    move |out| {
        assert!(reaches(kind, distance, BranchForm::Short));
        let (branch, to) = branch(kind, distance, BranchForm::Short);
        RiscV64.put_branch(&branch, FROM, to, out);
    }
}

/// Branches, for the comparison with LLVM. The bits of their distances are scattered over the
/// instruction, so each is looked at.
pub(super) fn cases(cases: &mut Cases) {
    let distances = |bits: u32| -> Vec<i64> {
        let edge = 1 << (bits - 1);
        let ends = [-edge, edge - 2, -2, 0];
        let each_bit = (1..bits - 1).map(|bit| 1 << bit);
        [ends.into_iter().collect::<Vec<_>>(), each_bit.collect()].concat()
    };
    for distance in distances(21) {
        cases.add(format!("jal x0, {distance}"), short(BranchKind::Jump, distance));
        cases.add(format!("jal x1, {distance}"), short(BranchKind::Call, distance));
    }
    for ((cond, name, swapped), distance) in cases.vary(&CONDS, &distances(13)) {
        let regs = if swapped { "x29, x10" } else { "x10, x29" };
        let text = format!("{name} {regs}, {distance}");
        cases.add(text, short(BranchKind::JumpIf(cond), distance));
    }
}

#[test]
fn jumps_and_calls_reach_1_mib() {
    for kind in [BranchKind::Jump, BranchKind::Call] {
        for form in [BranchForm::Short, BranchForm::Near] {
            for distance in [0, 2, MIB - 2, -MIB] {
                assert!(reaches(kind, distance, form));
                assert_eq!(words(kind, distance, form).len(), 1);
            }
            for distance in [MIB, -MIB - 2, 1, -3, i64::MAX, i64::MIN] {
                assert!(!reaches(kind, distance, form), "{distance:#x}");
            }
        }
    }
}

#[test]
fn conditional_branches_reach_4_kib_and_over_a_jump_1_mib() {
    let kind = BranchKind::JumpIf(Cond::Less);
    for distance in [0, 4 * KIB - 2, -4 * KIB] {
        assert!(reaches(kind, distance, BranchForm::Short));
        assert_eq!(words(kind, distance, BranchForm::Short).len(), 1);
    }
    for distance in [4 * KIB, -4 * KIB - 2, 1] {
        assert!(!reaches(kind, distance, BranchForm::Short));
    }
    // The jump is one instruction later.
    for distance in [4 * KIB, MIB, -MIB + 4] {
        assert!(reaches(kind, distance, BranchForm::Near));
        // bge x10, x29 over it: 8 bytes on.
        assert_eq!(words(kind, distance, BranchForm::Near)[0], 0x01d5_5463);
    }
    for distance in [MIB + 4, -MIB, 5] {
        assert!(!reaches(kind, distance, BranchForm::Near));
    }
}

#[test]
fn far_branches_go_through_a_register_and_calls_through_ra() {
    let distance = 0x1234_5000 - FROM as i64;
    // lui t1, 0x12345; jalr x0, 0(t1); lui ra, 0x12345; jalr ra, 0(ra)
    assert_eq!(
        words(BranchKind::Jump, distance, BranchForm::Far),
        [0x1234_5337, 0x0003_0067]
    );
    assert_eq!(
        words(BranchKind::Call, distance, BranchForm::Far),
        [0x1234_50b7, 0x0000_80e7]
    );
    // bne x10, x29 over two instructions and itself.
    let conditional = words(BranchKind::JumpIf(Cond::Eq), distance, BranchForm::Far);
    assert_eq!(conditional, [0x01d5_1663, 0x1234_5337, 0x0003_0067]);
    let (mut far, to) = branch(BranchKind::Jump, 1 << 40, BranchForm::Far);
    assert!(RiscV64.reaches(&far, BranchForm::Far, FROM, to));
    far.scratch = None;
    assert!(!RiscV64.reaches(&far, BranchForm::Far, FROM, to));
    far.kind = BranchKind::Call;
    assert!(RiscV64.reaches(&far, BranchForm::Far, FROM, to));
    far.dest = Dest::End;
    assert!(!RiscV64.reaches(&far, BranchForm::Far, FROM, to));
}
