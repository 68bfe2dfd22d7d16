//! The forms of a branch (DDI 0487, C6.2: B, B.cond, BL, BR, BLR, CBNZ).
//!
//! | form | jump, call | conditional |
//! |---|---|---|
//! | short | +-128 MiB | +-1 MiB |
//! | near | the same | over a jump: +-128 MiB |
//! | far | through a register: everywhere | over a far jump: everywhere |
//!
//! Which form is needed is known only when everything is placed, so relative ones are not left to
//! dynasm's labels.

use alloc::vec::Vec;

use super::insn::{self, Gpr, LEN};
use super::regs::{Hw, hw};
use super::{constant, imm::Halfword};
use crate::backend::{Branch, BranchForm, BranchKind, Distance};
use crate::hole::{BitField, Run};
use crate::op::{Cond, Dest};

/// `b`.
const B: u32 = 0x1400_0000;
/// `bl`.
const BL: u32 = 0x9400_0000;
/// `b.cond`.
const B_COND: u32 = 0x5400_0000;
/// `cbnz` of 4 bytes.
const CBNZ: u32 = 0x3500_0000;

/// The condition field (DDI 0487, C1.2.4) after a comparison.
fn code(cond: Cond) -> u32 {
    match cond {
        Cond::Eq => 0x0,
        Cond::Ne => 0x1,
        Cond::AboveOrEqual => 0x2,
        Cond::Below => 0x3,
        Cond::Above => 0x8,
        Cond::BelowOrEqual => 0x9,
        Cond::GreaterOrEqual => 0xa,
        Cond::Less => 0xb,
        Cond::Greater => 0xc,
        Cond::LessOrEqual => 0xd,
    }
}

/// A distance in instructions that fits `bits`, sign included, cut to them.
fn field(from: u64, to: u64, bits: u32) -> Option<u32> {
    let distance = to.wrapping_sub(from) as i64;
    let limit = 1 << (bits - 1);
    let words = distance / i64::from(LEN);
    let fits = distance % i64::from(LEN) == 0 && (-limit..limit).contains(&words);
    fits.then_some(words as u32 & ((1 << bits) - 1))
}

/// `b` from one address to another, if it reaches.
pub(super) fn jump(from: u64, to: u64) -> Option<u32> {
    field(from, to, 26).map(|distance| B | distance)
}

fn call(from: u64, to: u64) -> Option<u32> {
    field(from, to, 26).map(|distance| BL | distance)
}

fn jump_if(cond: Cond, from: u64, to: u64) -> Option<u32> {
    field(from, to, 19).map(|distance| B_COND | distance << 5 | code(cond))
}

/// `cbnz` to the instruction so many before it.
pub(super) fn back_if_not_zero(reg: Gpr, instructions: u32, out: &mut Vec<u8>) {
    let distance = instructions.wrapping_neg() & 0x7_ffff;
    put_word(CBNZ | distance << 5 | u32::from(reg.0), out);
}

fn put_word(word: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&word.to_le_bytes());
}

fn scratch(branch: &Branch) -> Option<Gpr> {
    match branch.scratch.and_then(hw) {
        Some(Hw::Gpr(n)) => Some(Gpr(n)),
        _ => None,
    }
}

/// The length of the constant and the branch through its register.
fn far_len(branch: &Branch) -> u32 {
    match branch.dest {
        Dest::Addr(addr) => constant::len(addr.get()) + LEN,
        _ => Halfword::all(0).len() as u32 * LEN + LEN,
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
        BranchKind::Call => call(from, to),
        BranchKind::JumpIf(_) => jump(from.wrapping_add(u64::from(LEN)), to),
    }
}

pub(super) fn reaches(branch: &Branch, form: BranchForm, from: u64, to: u64) -> bool {
    match (form, branch.kind) {
        (BranchForm::Short, BranchKind::JumpIf(cond)) => jump_if(cond, from, to).is_some(),
        (BranchForm::Short | BranchForm::Near, kind) => near(kind, from, to).is_some(),
        (BranchForm::Far, _) => scratch(branch).is_some() && matches!(branch.dest, Dest::Addr(_)),
    }
}

/// Of `b` and `bl`, and of `b.cond`.
const FIELD_26: BitField = BitField::little(&[Run::new(2, 26, 0)]);
const FIELD_19: BitField = BitField::little(&[Run::new(2, 19, 5)]);
/// How far they reach.
const REACH_26: (i64, i64) = (-(1 << 27), (1 << 27) - 4);
const REACH_19: (i64, i64) = (-(1 << 20), (1 << 20) - 4);

/// Its distance, if it goes through no register.
pub(super) fn hole(branch: &Branch) -> Option<Distance> {
    let far = Distance {
        at: 0,
        field: FIELD_26,
        from: 0,
        within: REACH_26,
        shorter: None,
        unit: LEN,
    };
    match (branch.kind, branch.form) {
        (_, BranchForm::Far) => None,
        (BranchKind::JumpIf(_), BranchForm::Short) => Some(Distance {
            field: FIELD_19,
            within: REACH_19,
            ..far
        }),
        // Behind the branch over it.
        (BranchKind::JumpIf(_), BranchForm::Near) => Some(Distance {
            at: LEN,
            from: LEN,
            shorter: Some((REACH_19.0 - i64::from(LEN), REACH_19.1 - i64::from(LEN))),
            ..far
        }),
        _ => Some(far),
    }
}

pub(super) fn put(branch: &Branch, from: u64, to: u64, out: &mut Vec<u8>) {
    match (branch.kind, branch.form) {
        (BranchKind::JumpIf(cond), BranchForm::Short) => put_all(jump_if(cond, from, to), out),
        (BranchKind::JumpIf(cond), BranchForm::Near | BranchForm::Far) => {
            let over = from.wrapping_add(u64::from(len(branch, branch.form)));
            put_all(jump_if(cond.negated(), from, over), out);
            match branch.form {
                BranchForm::Far => put_far(branch, to, out),
                _ => put_all(near(branch.kind, from, to), out),
            }
        }
        (_, BranchForm::Far) => put_far(branch, to, out),
        (kind, _) => put_all(near(kind, from, to), out),
    }
}

/// Appends a branch of which [`reaches`] has said that there is one.
fn put_all(word: Option<u32>, out: &mut Vec<u8>) {
    let word = word.expect("`reaches` has found the branch to reach");
    put_word(word, out);
}

fn put_far(branch: &Branch, to: u64, out: &mut Vec<u8>) {
    let scratch = scratch(branch).expect("`reaches` has found the register of a far branch");
    constant::put(scratch, to, out);
    match branch.kind {
        BranchKind::Call => insn::blr(scratch, out),
        BranchKind::Jump | BranchKind::JumpIf(_) => insn::br(scratch, out),
    }
}
