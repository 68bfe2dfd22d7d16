//! The forms of a branch (Instruction Set Manual, volume I, 2.5).
//!
//! | form | jump, call | conditional |
//! |---|---|---|
//! | short | +-1 MiB | +-4 KiB |
//! | near | the same | over a jump: +-1 MiB |
//! | far | through a register: everywhere | over a far jump: everywhere |
//!
//! A conditional branch compares two registers, which [`Branch::detail`] names. Which form is
//! needed is known only when everything is placed, so relative ones are not left to dynasm's
//! labels.

use alloc::vec::Vec;

use super::constant;
use super::insn::{self, Gpr, LEN, UNIT};
use super::regs::{Hw, hw};
use crate::backend::{Branch, BranchForm, BranchKind, Distance};
use crate::hole::{BitField, Run};
use crate::op::{Cond, Dest};

/// `jal`.
const JAL: u32 = 0x6f;
/// `beq`, whose third field says which branch it is.
const BRANCH: u32 = 0x63;

/// The two registers that a conditional branch compares, in [`Branch::detail`].
pub(super) fn compared(lhs: Gpr, rhs: Gpr) -> u16 {
    u16::from(lhs.0) | u16::from(rhs.0) << 5
}

fn registers(branch: &Branch) -> (u32, u32) {
    let detail = u32::from(branch.detail);
    (detail & 31, detail >> 5 & 31)
}

/// The condition as the third field of the instruction, and whether the registers change places.
fn code(cond: Cond) -> (u32, bool) {
    match cond {
        Cond::Eq => (0, false),
        Cond::Ne => (1, false),
        Cond::Less => (4, false),
        Cond::GreaterOrEqual => (5, false),
        Cond::Below => (6, false),
        Cond::AboveOrEqual => (7, false),
        Cond::Greater => (4, true),
        Cond::LessOrEqual => (5, true),
        Cond::Above => (6, true),
        Cond::BelowOrEqual => (7, true),
    }
}

/// An even distance that fits so many bits, sign included.
fn distance(from: u64, to: u64, bits: u32) -> Option<u32> {
    let distance = to.wrapping_sub(from) as i64;
    let limit = 1 << (bits - 1);
    let fits = distance % 2 == 0 && (-limit..limit).contains(&distance);
    fits.then_some(distance as u32)
}

/// The bits `first` to `last` of a number, moved to bit `to`.
const fn bits(of: u32, last: u32, first: u32, to: u32) -> u32 {
    (of >> first & ((1 << (last - first + 1)) - 1)) << to
}

/// `jal link, to`, if it reaches.
fn jump_and_link(link: Gpr, from: u64, to: u64) -> Option<u32> {
    let by = distance(from, to, 21)?;
    let field = bits(by, 20, 20, 31) | bits(by, 10, 1, 21) | bits(by, 11, 11, 20) | bits(by, 19, 12, 12);
    Some(JAL | u32::from(link.0) << 7 | field)
}

/// `j` from one address to another, if it reaches.
pub(super) fn jump(from: u64, to: u64) -> Option<u32> {
    jump_and_link(Gpr::ZERO, from, to)
}

fn jump_if(branch: &Branch, cond: Cond, from: u64, to: u64) -> Option<u32> {
    let by = distance(from, to, 13)?;
    let field = bits(by, 12, 12, 31) | bits(by, 10, 5, 25) | bits(by, 4, 1, 8) | bits(by, 11, 11, 7);
    let (code, swapped) = code(cond);
    let (lhs, rhs) = match (registers(branch), swapped) {
        ((lhs, rhs), false) => (lhs, rhs),
        ((lhs, rhs), true) => (rhs, lhs),
    };
    Some(BRANCH | code << 12 | lhs << 15 | rhs << 20 | field)
}

/// The register that the far form goes through.
fn scratch(branch: &Branch) -> Option<Gpr> {
    if branch.kind == BranchKind::Call {
        // The call writes it anyway.
        return Some(Gpr::RA);
    }
    match branch.scratch.and_then(hw) {
        Some(Hw::Gpr(n)) => Some(Gpr(n)),
        _ => None,
    }
}

/// The length of the constant and the jump through its register.
fn far_len(branch: &Branch) -> u32 {
    match branch.dest {
        Dest::Addr(addr) => constant::len(addr.get()) + LEN,
        // More than any constant takes.
        _ => 9 * LEN,
    }
}

pub(super) fn len(branch: &Branch, form: BranchForm) -> u32 {
    match (branch.kind, form) {
        (_, BranchForm::Short) | (BranchKind::Jump | BranchKind::Call, BranchForm::Near) => LEN,
        (BranchKind::JumpIf(_), BranchForm::Near) => 2 * LEN,
        (BranchKind::JumpIf(_), BranchForm::Far) => LEN + far_len(branch),
        (_, BranchForm::Far) => far_len(branch),
    }
}

/// The near branch of a kind; `from` is the first instruction of the form.
fn near(kind: BranchKind, from: u64, to: u64) -> Option<u32> {
    match kind {
        BranchKind::Jump => jump(from, to),
        BranchKind::Call => jump_and_link(Gpr::RA, from, to),
        BranchKind::JumpIf(_) => jump(from.wrapping_add(u64::from(LEN)), to),
    }
}

pub(super) fn reaches(branch: &Branch, form: BranchForm, from: u64, to: u64) -> bool {
    match (form, branch.kind) {
        (BranchForm::Short, BranchKind::JumpIf(cond)) => jump_if(branch, cond, from, to).is_some(),
        (BranchForm::Short | BranchForm::Near, kind) => near(kind, from, to).is_some(),
        (BranchForm::Far, _) => scratch(branch).is_some() && matches!(branch.dest, Dest::Addr(_)),
    }
}

/// Of `jal`, and of conditional branches.
const FIELD_J: BitField = BitField::little(&[
    Run::new(20, 1, 31),
    Run::new(1, 10, 21),
    Run::new(11, 1, 20),
    Run::new(12, 8, 12),
]);
const FIELD_B: BitField = BitField::little(&[
    Run::new(12, 1, 31),
    Run::new(5, 6, 25),
    Run::new(1, 4, 8),
    Run::new(11, 1, 7),
]);
/// How far they reach.
const REACH_J: (i64, i64) = (-(1 << 20), (1 << 20) - 2);
const REACH_B: (i64, i64) = (-(1 << 12), (1 << 12) - 2);

/// Its distance, if it goes through no register.
pub(super) fn hole(branch: &Branch) -> Option<Distance> {
    let far = Distance {
        at: 0,
        field: FIELD_J,
        from: 0,
        within: REACH_J,
        shorter: None,
        unit: UNIT,
    };
    match (branch.kind, branch.form) {
        (_, BranchForm::Far) => None,
        (BranchKind::JumpIf(_), BranchForm::Short) => Some(Distance {
            field: FIELD_B,
            within: REACH_B,
            ..far
        }),
        // Behind the branch over it.
        (BranchKind::JumpIf(_), BranchForm::Near) => Some(Distance {
            at: LEN,
            from: LEN,
            shorter: Some((REACH_B.0 - i64::from(LEN), REACH_B.1 - i64::from(LEN))),
            ..far
        }),
        _ => Some(far),
    }
}

pub(super) fn put(branch: &Branch, from: u64, to: u64, out: &mut Vec<u8>) {
    match (branch.kind, branch.form) {
        (BranchKind::JumpIf(cond), BranchForm::Short) => put_word(jump_if(branch, cond, from, to), out),
        (BranchKind::JumpIf(cond), form) => {
            let over = from.wrapping_add(u64::from(len(branch, form)));
            put_word(jump_if(branch, cond.negated(), from, over), out);
            match form {
                BranchForm::Far => put_far(branch, to, out),
                _ => put_word(near(branch.kind, from, to), out),
            }
        }
        (_, BranchForm::Far) => put_far(branch, to, out),
        (kind, _) => put_word(near(kind, from, to), out),
    }
}

/// Appends a branch of which [`reaches`] has said that there is one.
fn put_word(word: Option<u32>, out: &mut Vec<u8>) {
    let word = word.expect("`reaches` has found the branch to reach");
    out.extend_from_slice(&word.to_le_bytes());
}

fn put_far(branch: &Branch, to: u64, out: &mut Vec<u8>) {
    let scratch = scratch(branch).expect("`reaches` has found the register of a far branch");
    constant::put(scratch, to, out);
    let link = match branch.kind {
        BranchKind::Call => Gpr::RA,
        BranchKind::Jump | BranchKind::JumpIf(_) => Gpr::ZERO,
    };
    insn::jump_register(link, scratch, out);
}
