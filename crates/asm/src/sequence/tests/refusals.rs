//! What cannot be had, and how that is said.

use alloc::string::ToString;

use llvm_stackmaps::addr::FnOffset;

use super::*;

macro_rules! refuses {
    ($sequence:expr, $site:expr, $pattern:pat) => {
        let error = refused(&$sequence, &$site);
        assert!(matches!(error, $pattern), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("get+0x4") && text.contains("(0x400000)") && text.contains('7'),
            "{text}"
        );
    };
}

#[test]
fn operands_that_the_site_does_not_have() {
    use Error::NoSuchOperand as No;
    refuses!(
        seq().mov(result(), arg(2)),
        any_reg(16),
        No {
            operand: "argument",
            index: 2,
            count: 2,
            op: 0,
            ..
        }
    );
    refuses!(
        seq().mov(result(), live(2)),
        any_reg(16),
        No {
            operand: "live value",
            index: 2,
            count: 2,
            ..
        }
    );
    refuses!(
        seq().mov(result(), live(u32::MAX)),
        any_reg(16),
        No { index: u32::MAX, .. }
    );
    refuses!(
        seq().mov(result(), location(5)),
        any_reg(16),
        No {
            operand: "location",
            index: 5,
            count: 5,
            ..
        }
    );
    refuses!(
        seq().mov(result(), arg(2)),
        c(16),
        No {
            operand: "argument",
            count: 2,
            ..
        }
    );
    refuses!(
        seq().mov(result(), 1).jump(Target::Miss),
        shadow(16),
        No {
            operand: "result",
            ..
        }
    );
    refuses!(
        seq().mov(result(), live(0)),
        entry(16),
        No {
            operand: "live value",
            count: 0,
            ..
        }
    );
}

#[test]
fn a_shadow_has_no_result() {
    let site = SiteContext {
        shape: CallShape::shadow(48).result(),
        ..shadow(32)
    };
    let writes = seq().mov(result(), 1).jump(Target::Deopt);
    refuses!(
        writes,
        site,
        Error::NoSuchOperand {
            operand: "result",
            ..
        }
    );
    in_place(
        &seq()
            .guard_eq(u64::at(FAR, 0), 1, Target::Miss)
            .jump(Target::to(FAR)),
        &site,
    );
}

#[test]
fn operands_of_the_wrong_kind() {
    let vector = site(
        CallShape::any_reg(32).result(),
        record(7).locations([reg(RAX, 8), reg(XMM0, 16)]),
    );
    let unusable = |sequence: Sequence| {
        refuses!(sequence, vector, Error::OperandUnusable { op: 0, .. });
    };
    unusable(seq().guard_eq(live(0), 1, Target::Miss));
    unusable(seq().load(result(), u64::at(live(0), 0)));
    unusable(seq().mov(result(), u8::of(live(0))));
    unusable(seq().store(u16::at(result(), 0), live(0)));
    unusable(seq().mov(1, 2));
    let half = site(
        CallShape::any_reg(32).result(),
        record(7).locations([reg(RAX, 8), llvm_stackmaps::testing::sub_reg(RBX, 32, 4)]),
    );
    refuses!(
        seq().mov(result(), u32::of(live(0))),
        half,
        Error::OperandUnusable { .. }
    );
    let frame = site(
        CallShape::any_reg(32).result(),
        record(7).locations([reg(RAX, 8), direct(RBP, -8)]),
    );
    refuses!(
        seq().mov(result(), u32::of(live(0))),
        frame,
        Error::OperandUnusable { .. }
    );
    refuses!(
        seq().load(result(), u32::at(live(0), i32::MIN)),
        frame,
        Error::OperandUnusable { .. }
    );
    let spilled = site(
        CallShape::any_reg(32),
        record(7).locations([indirect(RBP, -8, 8)]),
    );
    refuses!(seq().mov(result(), 1), spilled, Error::NoSuchOperand { .. });
    let result_in_memory = SiteContext {
        shape: CallShape::any_reg(32).result(),
        ..spilled
    };
    refuses!(
        seq().mov(result(), 1),
        result_in_memory,
        Error::OperandUnusable { .. }
    );
    let rip = site(
        CallShape::any_reg(32).result(),
        record(7).locations([reg(RAX, 8), reg(16, 8)]),
    );
    refuses!(seq().mov(result(), live(0)), rip, Error::OperandUnusable { .. });
}

#[test]
fn widths_that_do_not_fit() {
    let small = site(
        CallShape::any_reg(32).result(),
        record(7).locations([reg(RAX, 8), reg(RDI, 4), indirect(RBP, -8, 4)]),
    );
    let width = |sequence: Sequence| {
        refuses!(
            sequence,
            small,
            Error::OperandWidth {
                needed: 8,
                have: 4,
                op: 0,
                ..
            }
        );
    };
    width(seq().mov(result(), live(0)));
    width(seq().mov(result(), live(1)));
    width(seq().load(result(), u64::at(live(0), 0)));
    width(seq().load(result(), u64::at(live(1), 0)));
    width(seq().store(u64::at(result(), 0), live(0)));
    width(seq().guard_eq(u64::at(result(), 0), u32::of(live(0)), Target::Miss));
    in_place(
        &seq()
            .mov(result(), i32::of(live(0)))
            .guard_eq(live(0), 1, Target::Miss),
        &small,
    );
    let too_wide = |mem, value: u64| {
        refuses!(
            seq().guard_eq(mem, value, Target::Miss),
            any_reg(32),
            Error::ImmediateTooWide { op: 0, .. }
        );
    };
    too_wide(u8::at(arg(0), 0), 256);
    too_wide(i16::at(arg(0), 0), 0x1_0000);
    too_wide(u32::at(arg(0), 0), 1 << 32);
    too_wide(u8::at(arg(0), 0), (-129i64) as u64);
    refuses!(
        seq().store(u8::at(arg(0), 0), 256),
        any_reg(32),
        Error::ImmediateTooWide {
            value: 256,
            width: 1,
            ..
        }
    );
}

#[test]
fn too_long_for_the_site() {
    let sequence = seq()
        .guard_eq(u32::at(arg(0), 8), 0x17, Target::Miss)
        .load(result(), u64::at(arg(0), 24));
    let error = refused(&sequence.clone().in_place_only(), &any_reg(13));
    let text = "needs 14 bytes in place and has 13 of the 13 reserved: raise numBytes, or allow a stub";
    assert!(error.to_string().ends_with(text), "{error}");
    let error = refused(&sequence, &any_reg(4));
    let text = "needs 5 bytes in place and has 4 of the 4 reserved: raise numBytes";
    assert!(error.to_string().ends_with(text), "{error}");
    let return_offset = SiteContext {
        return_offsets: &[4],
        ..any_reg(32)
    };
    refuses!(
        sequence,
        return_offset,
        Error::SequenceTooLong {
            stub_would_fit: false,
            ..
        }
    );
    let error = assemble_out_of_line(&sequence, &return_offset, &ENV, STUB).unwrap_err();
    assert!(matches!(error, Error::SequenceTooLong { .. }));
    let forbidden = sequence.in_place_only();
    let error = assemble_out_of_line(&forbidden, &any_reg(13), &ENV, STUB).unwrap_err();
    assert!(matches!(error, Error::SequenceTooLong { .. }));
    refuses!(seq().mov(result(), 1), any_reg(0), Error::SequenceTooLong { .. });
    in_place(&seq().jump_if(Cond::Eq, arg(0), arg(1), Target::End), &any_reg(5));
}

#[test]
fn shadows_must_not_fall_through() {
    let falls = |sequence: Sequence| {
        refuses!(sequence, shadow(32), Error::ShadowFallsThrough { .. });
    };
    falls(seq());
    falls(seq().jump(Target::End));
    falls(
        seq()
            .jump_if(Cond::Eq, live(0), 0, Target::End)
            .jump(Target::Deopt),
    );
    falls(seq().guard_eq(live(0), 0, Target::Deopt));
    falls(seq().jump(Target::Deopt).bind(label(1)));
    falls(seq().jump(Target::Deopt).raw(&[0x90]));
    in_place(&seq().trap(), &shadow(32));
    in_place(
        &seq().guard_eq(live(0), 0, Target::Deopt).jump(Target::to(HELPER)),
        &shadow(32),
    );
}

#[test]
fn calls_and_returns_where_they_may_not_be() {
    let call = || seq().call_to(HELPER, OnReturn::PreservesAll);
    refuses!(
        call().jump(Target::Deopt),
        shadow(32),
        Error::CallNotAllowed { op: 0, .. }
    );
    refuses!(call(), entry(32), Error::CallNotAllowed { op: 0, .. });
    refuses!(
        seq().call_to(HELPER, OnReturn::Never),
        any_reg(32),
        Error::OperandUnusable { op: 0, .. }
    );
    refuses!(
        seq().mov(result(), 1).ret(),
        any_reg(32),
        Error::ReturnNotAllowed { op: 1, .. }
    );
    refuses!(seq().ret(), shadow(32), Error::ReturnNotAllowed { op: 0, .. });
    in_place(&seq().mov(result(), 1).ret(), &entry(32));
}

#[test]
fn labels_and_exit_stubs_that_are_missing() {
    refuses!(
        seq().jump(label(3)),
        any_reg(32),
        Error::LabelUnbound { op: 0, label: 3, .. }
    );
    let twice = seq().bind(label(3)).trap().bind(label(3));
    refuses!(twice, any_reg(32), Error::LabelBoundTwice { op: 2, label: 3, .. });
    let none = Environment::default();
    for (target, expected) in [(Target::Miss, "miss"), (Target::Deopt, "deoptimization")] {
        let error = assemble(&seq().jump(target), &any_reg(32), &none).unwrap_err();
        assert!(
            matches!(error, Error::NoExitStub { op: 0, role, .. } if role == expected),
            "{error}"
        );
    }
}

#[test]
fn errors_name_the_site() {
    let Error::NoSuchOperand { site, .. } = refused(&seq().mov(result(), arg(9)), &any_reg(32)) else {
        panic!()
    };
    assert_eq!(
        (site.id, site.offset, site.addr),
        (RecordId::new(7), FnOffset::new(4), SITE)
    );
}
