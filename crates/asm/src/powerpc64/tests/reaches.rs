//! Every form of a branch up to its reach and one beyond; every constant.

use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};

use patchpoint_isa::powerpc64::{CTR, R3, R12};

use super::super::insn::Gpr;
use super::super::{BIG_V1, LITTLE, branch, constant};
use crate::backend::{Backend, Branch, BranchForm, BranchKind};
use crate::op::{Cond, Dest};

const FROM: u64 = 0x10_0000_0000;

fn branch_to(kind: BranchKind, to: u64, form: BranchForm, scratch: Option<DwarfReg>, detail: u8) -> Branch {
    Branch {
        at: 0,
        kind,
        dest: Dest::Addr(CodeAddr::new(to)),
        scratch,
        form,
        detail: detail.into(),
        op: 0,
    }
}

fn put(branch: &Branch, to: u64) -> Vec<u32> {
    let mut bytes = Vec::new();
    LITTLE.put_branch(branch, FROM, to, &mut bytes);
    assert_eq!(bytes.len() as u32, LITTLE.branch_len(branch, branch.form));
    let mut swapped = Vec::new();
    BIG_V1.put_branch(branch, FROM, to, &mut swapped);
    let words = |bytes: &[u8], read: fn([u8; 4]) -> u32| -> Vec<u32> {
        bytes
            .chunks_exact(4)
            .map(|word| read(word.try_into().unwrap()))
            .collect()
    };
    assert_eq!(
        words(&bytes, u32::from_le_bytes),
        words(&swapped, u32::from_be_bytes)
    );
    words(&bytes, u32::from_le_bytes)
}

/// The target of the words that a thread at `FROM` executes whose condition holds, by a decoder of
/// its own.
fn followed(words: &[u32]) -> u64 {
    let near = |word: u32, at: u64| match word >> 26 {
        18 => at.wrapping_add_signed(i64::from(((word & 0x03ff_fffc) << 6) as i32 >> 6)),
        _ => at.wrapping_add_signed(i64::from((word & 0xfffc) as u16 as i16)),
    };
    match words {
        [one] => near(*one, FROM),
        [over, jump] => {
            assert_eq!(near(*over, FROM), FROM + 8);
            near(*jump, FROM + 4)
        }
        [over, load @ .., mtctr, bctr] if over >> 26 == 16 => {
            assert_eq!(near(*over, FROM), FROM + 4 * words.len() as u64);
            assert_eq!((*mtctr, *bctr), (0x7d89_03a6, 0x4e80_0420));
            evaluate(load)
        }
        [load @ .., mtctr, bctr] => {
            assert_eq!((*mtctr, *bctr), (0x7d89_03a6, 0x4e80_0420));
            evaluate(load)
        }
        [] => panic!("nothing"),
    }
}

/// What a load of a constant leaves in its register.
fn evaluate(words: &[u32]) -> u64 {
    let mut value = 0u64;
    for word in words {
        let low = u64::from(word & 0xffff);
        value = match word >> 26 {
            14 => low as u16 as i16 as u64,
            15 => ((low as u16 as i16 as i64) << 16) as u64,
            24 => value | low,
            25 => value | low << 16,
            // rldicr by 32 with the mask up to bit 31
            30 => value.rotate_left(32) & 0xffff_ffff_0000_0000,
            other => panic!("opcode {other}"),
        };
    }
    value
}

#[test]
fn every_form_reaches_as_far_as_it_says_and_no_further() {
    let near = [-(1 << 25), (1 << 25) - 4];
    let jump_if = BranchKind::JumpIf(Cond::Eq);
    let limits = [
        (BranchKind::Jump, BranchForm::Short, near),
        (BranchKind::Jump, BranchForm::Near, near),
        (jump_if, BranchForm::Short, [-(1 << 15), (1 << 15) - 4]),
        // The branch is the second instruction.
        (jump_if, BranchForm::Near, [4 - (1 << 25), 1 << 25]),
    ];
    for (kind, form, [lowest, highest]) in limits {
        for (distance, reaches) in [
            (lowest, true),
            (highest, true),
            (lowest - 4, false),
            (highest + 4, false),
        ] {
            let to = FROM.wrapping_add_signed(distance);
            let branch = branch_to(kind, to, form, None, 0);
            assert_eq!(
                LITTLE.reaches(&branch, form, FROM, to),
                reaches,
                "{kind:?} {form:?} {distance:#x}"
            );
            assert!(
                !LITTLE.reaches(&branch, BranchForm::Far, FROM, to),
                "without a scratch register"
            );
            if reaches {
                assert_eq!(followed(&put(&branch, to)), to);
            }
        }
        assert!(!LITTLE.reaches(&branch_to(kind, FROM + 2, form, None, 0), form, FROM, FROM + 2));
    }
}

#[test]
fn far_forms_reach_everything_that_is_aligned() {
    let targets = [
        0,
        0x7ffc,
        0x8000,
        0x7fff_fffc,
        0x8000_0000,
        0x1_0000_0000,
        1 << 63,
        u64::MAX - 3,
    ];
    for kind in [BranchKind::Jump, BranchKind::JumpIf(Cond::Less)] {
        for to in targets {
            let branch = branch_to(kind, to, BranchForm::Far, Some(R12), 3);
            assert!(LITTLE.reaches(&branch, BranchForm::Far, FROM, to));
            assert_eq!(followed(&put(&branch, to)), to);
            assert!(!LITTLE.reaches(&branch, BranchForm::Far, FROM, to | 2));
        }
    }
    let through = branch_to(BranchKind::Jump, 0, BranchForm::Far, Some(CTR), 0);
    assert!(
        !LITTLE.reaches(&through, BranchForm::Far, FROM, 0),
        "{CTR} is no general register"
    );
}

#[test]
fn conditions_and_their_opposites() {
    // BO and BI for each condition in field 5, of which bit 20 is less, 21 greater, 22 equal.
    let expected = [
        (Cond::Eq, 12, 22),
        (Cond::Ne, 4, 22),
        (Cond::Below, 12, 20),
        (Cond::Less, 12, 20),
        (Cond::AboveOrEqual, 4, 20),
        (Cond::GreaterOrEqual, 4, 20),
        (Cond::Above, 12, 21),
        (Cond::Greater, 12, 21),
        (Cond::BelowOrEqual, 4, 21),
        (Cond::LessOrEqual, 4, 21),
    ];
    let fields = |word: u32| (word >> 21 & 31, word >> 16 & 31);
    for (cond, bo, bi) in expected {
        let to = FROM + 64;
        let short = branch_to(BranchKind::JumpIf(cond), to, BranchForm::Short, None, 5);
        assert_eq!(fields(put(&short, to)[0]), (bo, bi), "{cond:?}");
        let near = branch_to(BranchKind::JumpIf(cond), to, BranchForm::Near, None, 5);
        assert_eq!(fields(put(&near, to)[0]), (16 - bo, bi), "{cond:?}");
    }
    for (cond, bo) in [(Cond::Eq, 18), (Cond::Ne, 16)] {
        let to = FROM + 64;
        let short = branch_to(
            BranchKind::JumpIf(cond),
            to,
            BranchForm::Short,
            None,
            branch::COUNT,
        );
        assert_eq!(fields(put(&short, to)[0]), (bo, 0));
        let near = branch_to(
            BranchKind::JumpIf(cond),
            to,
            BranchForm::Near,
            None,
            branch::COUNT,
        );
        assert_eq!(fields(put(&near, to)[0]), (34 - bo, 0));
    }
}

#[test]
fn every_constant_is_what_it_should_be() {
    let mut values: Vec<u64> = (0..64)
        .flat_map(|bit| [1 << bit, !(1 << bit), (1 << bit) - 1])
        .collect();
    for half in [0, 1, 0x7fff, 0x8000, 0xffff] {
        for shift in [0, 16, 32, 48] {
            values.extend([
                half << shift,
                half << shift | 0x1234,
                (half << shift) ^ 0xdead_beef_cafe_f00d,
            ]);
        }
    }
    for value in values {
        let words = constant::load(Gpr(12), value);
        let mut bytes = Vec::new();
        words.put(super::super::BIG_V1.0, &mut bytes);
        assert_eq!(bytes.len() as u32, words.len());
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|w| u32::from_be_bytes(w.try_into().unwrap()))
            .collect();
        assert_eq!(evaluate(&words), value, "{value:#x}");
        assert!(words.len() <= 5);
    }
    assert_eq!(R3, DwarfReg::new(3));
}

#[test]
fn sums_are_split_where_they_can_be() {
    for (value, expected) in [
        (0, Some((0, 0))),
        (0x7fff, Some((0, 0x7fff))),
        (0x8000, Some((1, -0x8000))),
        (-0x8001, Some((-1, 0x7fff))),
        (0x7fff_7fff, Some((0x7fff, 0x7fff))),
        (0x7fff_8000, None),
        (-0x8000_8000, Some((-0x8000, -0x8000))),
        (-0x8000_8001, None),
        (i64::MIN, None),
        (i64::MAX, None),
    ] {
        assert_eq!(constant::split(value), expected, "{value:#x}");
    }
}
