//! The forms of a branch (Intel SDM volume 2, JMP, Jcc, CALL).
//!
//! Which form is needed is known only when everything is placed, so relative ones are not left to
//! dynasm's labels.

use alloc::vec::Vec;

use super::encode::Gpr;
use super::insn;
use super::regs::{Hw, hw};
use crate::backend::{Branch, BranchForm, BranchKind, Distance};
use crate::hole::BitField;
use crate::op::{Cond, Dest};

/// The condition code of Jcc (Intel SDM volume 1, appendix B).
fn code(cond: Cond) -> u8 {
    match cond {
        Cond::Below => 0x2,
        Cond::AboveOrEqual => 0x3,
        Cond::Eq => 0x4,
        Cond::Ne => 0x5,
        Cond::BelowOrEqual => 0x6,
        Cond::Above => 0x7,
        Cond::Less => 0xc,
        Cond::GreaterOrEqual => 0xd,
        Cond::LessOrEqual => 0xe,
        Cond::Greater => 0xf,
    }
}

fn scratch(branch: &Branch) -> Option<Gpr> {
    match branch.scratch.and_then(hw) {
        Some(Hw::Gpr(n)) => Some(Gpr(n)),
        _ => None,
    }
}

/// The length of `mov scratch, to; jmp scratch`, or the same with a call.
fn far_len(branch: &Branch) -> u32 {
    let to = match branch.dest {
        Dest::Addr(addr) => addr.get(),
        _ => u64::MAX,
    };
    let scratch = scratch(branch).unwrap_or(Gpr(0));
    scratch.constant_len(to) + 2 + u32::from(scratch.0 >> 3)
}

pub(super) fn len(branch: &Branch, form: BranchForm) -> u32 {
    match (branch.kind, form) {
        (BranchKind::Call, BranchForm::Short | BranchForm::Near) | (BranchKind::Jump, BranchForm::Near) => 5,
        (_, BranchForm::Short) => 2,
        (BranchKind::JumpIf(_), BranchForm::Near) => 6,
        (BranchKind::JumpIf(_), BranchForm::Far) => 2 + far_len(branch),
        (_, BranchForm::Far) => far_len(branch),
    }
}

fn distance(branch: &Branch, form: BranchForm, from: u64, to: u64) -> i64 {
    to.wrapping_sub(from).wrapping_sub(u64::from(len(branch, form))) as i64
}

pub(super) fn reaches(branch: &Branch, form: BranchForm, from: u64, to: u64) -> bool {
    let distance = distance(branch, form, from, to);
    match form {
        BranchForm::Short => branch.kind != BranchKind::Call && i8::try_from(distance).is_ok(),
        BranchForm::Near => i32::try_from(distance).is_ok(),
        BranchForm::Far => scratch(branch).is_some(),
    }
}

/// Its distance, where that is one of 32 bits. One of 8 bits does for few sites.
pub(super) fn hole(branch: &Branch) -> Option<Distance> {
    let len = len(branch, branch.form);
    let longer = i64::from(len) - 2;
    let shorter = match (branch.kind, branch.form) {
        (BranchKind::Call, BranchForm::Short | BranchForm::Near) => None,
        (_, BranchForm::Near) => Some((-0x80 - longer, 0x7f - longer)),
        (_, BranchForm::Short | BranchForm::Far) => return None,
    };
    Some(Distance {
        at: len - 4,
        field: BitField::whole(4),
        from: len,
        within: (i32::MIN.into(), i32::MAX.into()),
        shorter,
        unit: 1,
    })
}

pub(super) fn put(branch: &Branch, from: u64, to: u64, out: &mut Vec<u8>) {
    let distance = distance(branch, branch.form, from, to);
    // `reaches` has said yes, so these casts lose nothing.
    let (rel8, rel32) = ((distance as i8).to_le_bytes(), (distance as i32).to_le_bytes());
    match (branch.kind, branch.form) {
        (BranchKind::Jump, BranchForm::Short) => out.extend_from_slice(&[0xeb, rel8[0]]),
        (BranchKind::JumpIf(cond), BranchForm::Short) => out.extend_from_slice(&[0x70 | code(cond), rel8[0]]),
        (BranchKind::Jump, BranchForm::Near) => {
            out.push(0xe9);
            out.extend_from_slice(&rel32);
        }
        (BranchKind::JumpIf(cond), BranchForm::Near) => {
            out.extend_from_slice(&[0x0f, 0x80 | code(cond)]);
            out.extend_from_slice(&rel32);
        }
        (BranchKind::Call, BranchForm::Short | BranchForm::Near) => {
            out.push(0xe8);
            out.extend_from_slice(&rel32);
        }
        (kind, BranchForm::Far) => put_far(kind, branch, to, out),
    }
}

fn put_far(kind: BranchKind, branch: &Branch, to: u64, out: &mut Vec<u8>) {
    // protection: a-branch-that-cannot-be-is-not-left-out
    let scratch = scratch(branch).expect("`reaches` has found the register of a far branch");
    if let BranchKind::JumpIf(cond) = kind {
        out.extend_from_slice(&[0x70 | code(cond.negated()), far_len(branch) as u8]);
    }
    scratch.put_constant(to, out);
    match kind {
        BranchKind::Call => insn::call_to(scratch, out),
        BranchKind::Jump | BranchKind::JumpIf(_) => insn::jump_to(scratch, out),
    }
}
