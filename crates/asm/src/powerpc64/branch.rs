//! The forms of a branch (Power ISA, book I, 2.4).
//!
//! | | reach | |
//! |---|---|---|
//! | short | 32 KiB if there is a condition, 32 MiB if not | `bc`, `b` |
//! | near | 32 MiB | the opposite `bc` over a `b` |
//! | far | everywhere | the opposite `bc` over a load of CTR and `bctr` |

use alloc::vec::Vec;

use super::Flavor;
use super::constant;
use super::insn::{self, Gpr};
use super::regs::{Hw, hw};
use crate::backend::{Branch, BranchForm, BranchKind, Distance};
use crate::hole::Run;
use crate::op::{Cond, Dest};

/// The bits of [`Branch::detail`] for a condition that is whether CTR has become 0.
pub(super) const COUNT: u8 = 0x80;

/// BO and BI of the instruction that branches if the condition holds. The comparison has seen to
/// signs.
const fn condition(cond: Cond, detail: u8) -> (u8, u8) {
    if detail & COUNT != 0 {
        // bdz for equality, else bdnz.
        return match cond {
            Cond::Eq => (18, 0),
            _ => (16, 0),
        };
    }
    let first = (detail & 7) * 4;
    match cond {
        Cond::Below | Cond::Less => (12, first),
        Cond::AboveOrEqual | Cond::GreaterOrEqual => (4, first),
        Cond::Above | Cond::Greater => (12, first + 1),
        Cond::BelowOrEqual | Cond::LessOrEqual => (4, first + 1),
        Cond::Eq => (12, first + 2),
        Cond::Ne => (4, first + 2),
    }
}

fn scratch(branch: &Branch) -> Option<Gpr> {
    match branch.scratch.and_then(hw) {
        Some(Hw::Gpr(n)) => Some(Gpr(n)),
        _ => None,
    }
}

/// The length of the load of the target, `mtctr` and `bctr`.
fn far_len(branch: &Branch) -> u32 {
    let to = match branch.dest {
        Dest::Addr(addr) => addr.get(),
        _ => 0x7fff_ffff_ffff_fffc,
    };
    constant::load(Gpr(12), to).len() + 8
}

pub(super) fn len(branch: &Branch, form: BranchForm) -> u32 {
    match (branch.kind, form) {
        (BranchKind::JumpIf(_), BranchForm::Near) => 8,
        (BranchKind::JumpIf(_), BranchForm::Far) => 4 + far_len(branch),
        (_, BranchForm::Far) => far_len(branch),
        _ => 4,
    }
}

/// The distance from the branch that is to reach the target.
fn distance(branch: &Branch, form: BranchForm, from: u64, to: u64) -> i64 {
    let skip = match (branch.kind, form) {
        (BranchKind::JumpIf(_), BranchForm::Near) => 4,
        _ => 0,
    };
    to.wrapping_sub(from).wrapping_sub(skip) as i64
}

pub(super) fn reaches(branch: &Branch, form: BranchForm, from: u64, to: u64) -> bool {
    let distance = distance(branch, form, from, to);
    let limit = match (branch.kind, form) {
        (BranchKind::JumpIf(_), BranchForm::Short) => 1 << 15,
        (_, BranchForm::Far) => return scratch(branch).is_some() && to % 4 == 0,
        _ => 1 << 25,
    };
    (-limit..limit).contains(&distance) && distance % 4 == 0
}

/// Of `b`, and of `bc`.
const RUN_24: &[Run] = &[Run::new(2, 24, 2)];
const RUN_14: &[Run] = &[Run::new(2, 14, 2)];
/// How far they reach.
const REACH_24: (i64, i64) = (-(1 << 25), (1 << 25) - 4);
const REACH_14: (i64, i64) = (-(1 << 15), (1 << 15) - 4);

/// Its distance, if it goes through no register.
pub(super) fn hole(flavor: Flavor, branch: &Branch) -> Option<Distance> {
    let far = Distance {
        at: 0,
        field: flavor.field(RUN_24),
        from: 0,
        within: REACH_24,
        shorter: None,
        unit: 4,
    };
    match (branch.kind, branch.form) {
        (_, BranchForm::Far) => None,
        (BranchKind::JumpIf(_), BranchForm::Short) => Some(Distance {
            field: flavor.field(RUN_14),
            within: REACH_14,
            ..far
        }),
        // Behind the branch over it.
        (BranchKind::JumpIf(_), BranchForm::Near) => Some(Distance {
            at: 4,
            from: 4,
            shorter: Some((REACH_14.0 - 4, REACH_14.1 - 4)),
            ..far
        }),
        _ => Some(far),
    }
}

pub(super) fn put(flavor: Flavor, branch: &Branch, from: u64, to: u64, out: &mut Vec<u8>) {
    // `reaches` has said yes, so these casts lose nothing.
    let distance = distance(branch, branch.form, from, to) as i32;
    if let BranchKind::JumpIf(cond) = branch.kind {
        if branch.form == BranchForm::Short {
            let (bo, bi) = condition(cond, branch.detail as u8);
            flavor.put(insn::bc(bo, bi, distance as i16), out);
            return;
        }
        let (bo, bi) = condition(cond.negated(), branch.detail as u8);
        let over = len(branch, branch.form) as i16;
        flavor.put(insn::bc(bo, bi, over), out);
    }
    if branch.form != BranchForm::Far {
        flavor.put(insn::b(distance), out);
        return;
    }
    let scratch = scratch(branch).expect("`reaches` has found the register of a far branch");
    constant::load(scratch, to).put(flavor, out);
    flavor.put(insn::mtctr(scratch), out);
    flavor.put(insn::BCTR, out);
}
