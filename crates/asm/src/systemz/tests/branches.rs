//! The forms of branches, and how far each reaches.

use alloc::format;
use alloc::string::String;

use llvm_stackmaps::addr::CodeAddr;

use crate::backend::{Branch, BranchForm, BranchKind};
use crate::encodings::Cases;
use crate::op::{Cond, Dest};
use crate::systemz::branch;
use crate::systemz::regs::R1;

fn branch_to(kind: BranchKind, form: BranchForm, to: u64) -> Branch {
    Branch {
        at: 0,
        kind,
        dest: Dest::Addr(CodeAddr::new(to)),
        scratch: Some(R1),
        form,
        detail: 0,
        op: 0,
    }
}

/// Branches, for the comparison with LLVM.
pub(super) fn cases(cases: &mut Cases) {
    let conds = [
        (Cond::Eq, 8),
        (Cond::Ne, 6),
        (Cond::Below, 4),
        (Cond::BelowOrEqual, 12),
        (Cond::Above, 2),
        (Cond::AboveOrEqual, 10),
        (Cond::Less, 4),
        (Cond::LessOrEqual, 12),
        (Cond::Greater, 2),
        (Cond::GreaterOrEqual, 10),
    ];
    for (short, distance) in [
        (true, 65_534),
        (true, -65_536),
        (false, 65_536),
        (false, -65_538),
        (false, 4_294_967_294),
        (false, -4_294_967_296),
    ] {
        let l = if short { "" } else { "l" };
        let form = if short {
            BranchForm::Short
        } else {
            BranchForm::Near
        };
        add(
            cases,
            BranchKind::Jump,
            form,
            distance,
            format!("brc{l} 15, .{distance:+}"),
        );
        add(
            cases,
            BranchKind::Call,
            form,
            distance,
            format!("bras{l} %r14, .{distance:+}"),
        );
        for (cond, mask) in conds {
            add(
                cases,
                BranchKind::JumpIf(cond),
                form,
                distance,
                format!("brc{l} {mask}, .{distance:+}"),
            );
        }
    }
    let far = 0x0123_4567_89ab_cdee;
    let load = format!("llilf %r1, {}; iihf %r1, {}", far as u32, far >> 32);
    add(
        cases,
        BranchKind::Jump,
        BranchForm::Far,
        far,
        format!("{load}; br %r1"),
    );
    add(
        cases,
        BranchKind::Call,
        BranchForm::Far,
        far,
        format!("{load}; basr %r14, %r1"),
    );
    let text = format!("brc 6, .+18; {load}; br %r1");
    add(cases, BranchKind::JumpIf(Cond::Eq), BranchForm::Far, far, text);
}

/// A branch from address 0.
fn add(cases: &mut Cases, kind: BranchKind, form: BranchForm, distance: i64, text: String) {
    let branch = branch_to(kind, form, distance as u64);
    assert!(branch::reaches(&branch, form, 0, distance as u64), "{text}");
    cases.add(text.clone(), |out| {
        branch::put(&branch, 0, distance as u64, out);
        assert_eq!(out.len(), branch::len(&branch, form) as usize);
    });
}

#[test]
fn each_form_of_a_branch_reaches_its_boundaries_and_not_one_beyond() {
    let from = 0x7f_0000_0000_0000;
    for kind in [BranchKind::Jump, BranchKind::Call, BranchKind::JumpIf(Cond::Ne)] {
        for (form, first, last) in [
            (BranchForm::Short, -0x1_0000, 0xfffe),
            (BranchForm::Near, -0x1_0000_0000, 0xffff_fffe),
        ] {
            let reaches = |distance: i64| {
                let to = from + distance;
                branch::reaches(&branch_to(kind, form, to as u64), form, from as u64, to as u64)
            };
            assert!(reaches(first) && reaches(last) && reaches(0));
            assert!(!reaches(first - 2) && !reaches(last + 2));
            assert!(!reaches(first + 1) && !reaches(1), "odd addresses");
        }
        let far = branch_to(kind, BranchForm::Far, 0x10);
        assert!(branch::reaches(&far, BranchForm::Far, from as u64, 0x10));
        assert!(
            !branch::reaches(&far, BranchForm::Far, from as u64, 0x11),
            "an odd address"
        );
        for scratch in [
            None,
            Some(patchpoint_isa::systemz::R0),
            Some(patchpoint_isa::systemz::F0),
        ] {
            let far = Branch { scratch, ..far };
            assert!(
                !branch::reaches(&far, BranchForm::Far, from as u64, 0x10),
                "{scratch:?}"
            );
        }
    }
}
