//! The forms of a branch (Principles of Operation, chapter 7, BRANCH RELATIVE ON CONDITION and its
//! kin).
//!
//! Distances count halfwords from the branch's own start: 16 bits reach 64 KiB, 32 bits 4 GiB.
//! Beyond, the address goes through a register, which is not r0: as a target that means not to
//! branch.

use alloc::vec::Vec;

use super::insn::{BASR, BCR, BRAS, BRASL, BRC, BRCL};
use super::regs::{Gpr, Hw, hw};
use crate::backend::{Branch, BranchForm, BranchKind, Distance};
use crate::hole::{BitField, ByteOrder, Run};
use crate::op::{Cond, Dest};

/// Always.
const ALWAYS: u8 = 15;
/// The register that keeps the return address.
const LINK: u8 = 14;

/// The mask of a condition: one bit per condition code, from 8 for code 0. A comparison sets 0 for
/// equal, 1 for a low first operand, 2 for a high one.
pub(super) fn mask(cond: Cond) -> u8 {
    match cond {
        Cond::Eq => 8,
        Cond::Ne => 6,
        Cond::Below | Cond::Less => 4,
        Cond::BelowOrEqual | Cond::LessOrEqual => 12,
        Cond::Above | Cond::Greater => 2,
        Cond::AboveOrEqual | Cond::GreaterOrEqual => 10,
    }
}

fn scratch(branch: &Branch) -> Option<Gpr> {
    match branch.scratch.and_then(hw) {
        Some(Hw::Gpr(reg)) if reg != Gpr(0) => Some(reg),
        _ => None,
    }
}

/// The length of a constant and a branch through its register.
fn far_len(branch: &Branch) -> u32 {
    let to = match branch.dest {
        Dest::Addr(addr) => addr.get(),
        _ => u64::MAX,
    };
    Gpr::constant_len(to) + 2
}

pub(super) fn len(branch: &Branch, form: BranchForm) -> u32 {
    match (branch.kind, form) {
        (_, BranchForm::Short) => 4,
        (_, BranchForm::Near) => 6,
        (BranchKind::JumpIf(_), BranchForm::Far) => 4 + far_len(branch),
        (_, BranchForm::Far) => far_len(branch),
    }
}

/// The distance in halfwords, if it is whole.
fn halfwords(from: u64, to: u64) -> Option<i64> {
    let distance = to.wrapping_sub(from) as i64;
    (distance % 2 == 0).then_some(distance / 2)
}

pub(super) fn reaches(branch: &Branch, form: BranchForm, from: u64, to: u64) -> bool {
    let Some(distance) = halfwords(from, to) else {
        return false;
    };
    match form {
        BranchForm::Short => i16::try_from(distance).is_ok(),
        BranchForm::Near => i32::try_from(distance).is_ok(),
        BranchForm::Far => scratch(branch).is_some(),
    }
}

/// The distance of an instruction of 4 bytes, and of one of 6.
const FIELD_16: BitField = BitField {
    len: 2,
    order: ByteOrder::Big,
    runs: &[Run::new(1, 16, 0)],
};
const FIELD_32: BitField = BitField {
    len: 4,
    order: ByteOrder::Big,
    runs: &[Run::new(1, 32, 0)],
};
/// How far they reach.
const REACH_16: (i64, i64) = (-(1 << 16), (1 << 16) - 2);
const REACH_32: (i64, i64) = (-(1 << 32), (1 << 32) - 2);

/// Its distance, if it goes through no register.
pub(super) fn hole(branch: &Branch) -> Option<Distance> {
    let short = Distance {
        at: 2,
        field: FIELD_16,
        from: 0,
        within: REACH_16,
        shorter: None,
        unit: 2,
    };
    match branch.form {
        BranchForm::Short => Some(short),
        BranchForm::Near => Some(Distance {
            field: FIELD_32,
            within: REACH_32,
            shorter: Some(REACH_16),
            ..short
        }),
        BranchForm::Far => None,
    }
}

pub(super) fn put(branch: &Branch, from: u64, to: u64, out: &mut Vec<u8>) {
    let distance = halfwords(from, to).expect("`reaches` has found the distance to be even");
    // And small enough, so these casts lose nothing.
    let (short, near) = (distance as u16, distance as u32);
    match (branch.kind, branch.form) {
        (BranchKind::Jump, BranchForm::Short) => out.extend(BRC.of(ALWAYS, short)),
        (BranchKind::Jump, BranchForm::Near) => out.extend(BRCL.of(ALWAYS, near)),
        (BranchKind::JumpIf(cond), BranchForm::Short) => out.extend(BRC.of(mask(cond), short)),
        (BranchKind::JumpIf(cond), BranchForm::Near) => out.extend(BRCL.of(mask(cond), near)),
        (BranchKind::Call, BranchForm::Short) => out.extend(BRAS.of(LINK, short)),
        (BranchKind::Call, BranchForm::Near) => out.extend(BRASL.of(LINK, near)),
        (kind, BranchForm::Far) => put_far(kind, branch, to, out),
    }
}

fn put_far(kind: BranchKind, branch: &Branch, to: u64, out: &mut Vec<u8>) {
    let scratch = scratch(branch).expect("`reaches` has found the register of a far branch");
    if let BranchKind::JumpIf(cond) = kind {
        let over = (4 + far_len(branch)) / 2;
        out.extend(BRC.of(mask(cond.negated()), over as u16));
    }
    scratch.put_constant(to, out);
    match kind {
        BranchKind::Call => out.extend(BASR.of(LINK, scratch.0)),
        BranchKind::Jump | BranchKind::JumpIf(_) => out.extend(BCR.of(ALWAYS, scratch.0)),
    }
}
