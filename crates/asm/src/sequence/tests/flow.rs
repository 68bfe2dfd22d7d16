//! Values that a sequence has overwritten are not taken for those of the site.

use patchpoint_isa::x86_64 as x86;

use super::*;

/// The result is in the register of the first argument, as LLVM often has it.
fn shared() -> SiteContext<'static> {
    let locations = [reg(RDI, 8), reg(RDI, 8), reg(RSI, 8), reg(RBX, 8)];
    site(
        CallShape::any_reg(64).result().args(2),
        record(7).locations(locations),
    )
}

#[track_caller]
fn lost(sequence: &Sequence, expected: u32) {
    match refused(sequence, &shared()) {
        Error::ReadsLost {
            op, reg: x86::RDI, ..
        } => assert_eq!(op, expected),
        other => panic!("{other}"),
    }
    // Where the result has a register of its own the same is fine.
    in_place(sequence, &any_reg(64));
}

#[test]
fn an_argument_is_gone_when_the_result_is_written_over_it() {
    lost(&seq().mov(result(), 1).add(result(), arg(0)), 1);
    lost(&seq().mov(result(), 1).add(result(), u64::at(arg(0), 8)), 1);
    lost(&seq().mov(result(), 1).store(u64::at(arg(1), 0), location(1)), 1);
    // Reading it in the operation that writes it is fine.
    in_place(
        &seq().load(result(), u64::at(arg(0), 8)).add(result(), 1),
        &shared(),
    );
}

#[test]
fn an_exit_stub_finds_every_value_in_place() {
    lost(&seq().mov(result(), 1).guard_eq(arg(1), 1, Target::Miss), 1);
    lost(&seq().mov(result(), 1).guard_eq(arg(1), 1, Target::Deopt), 1);
    lost(&seq().mov(result(), 1).jump(Target::to(HELPER)), 1);
    in_place(
        &seq()
            .mov(result(), 1)
            .jump_if(Cond::Eq, arg(1), 1, Target::End)
            .add(result(), 1),
        &shared(),
    );
}

#[test]
fn each_arm_of_a_chain_starts_with_what_its_branches_leave() {
    // A polymorphic cache: the second arm does not come behind the first.
    let chain = seq()
        .guard_eq(u32::at(arg(0), 8), 1, label(1))
        .load(result(), u64::at(arg(0), 16))
        .jump(Target::End)
        .bind(label(1))
        .guard_eq(u32::at(arg(0), 8), 2, Target::Miss)
        .load(result(), u64::at(arg(0), 24));
    in_place(&chain, &shared());
    in_place(&chain, &any_reg(64));
    // Without the jump it does.
    let through = seq()
        .guard_eq(u32::at(arg(0), 8), 1, label(1))
        .load(result(), u64::at(arg(0), 16))
        .bind(label(1))
        .guard_eq(u32::at(arg(0), 8), 2, Target::Miss);
    lost(&through, 3);
}

#[test]
fn a_loop_starts_with_all_that_it_writes() {
    let body = |again| {
        seq()
            .bind(label(0))
            .jump_if(Cond::Eq, u32::at(arg(0), 8), 2, label(1))
            .mov(result(), 1)
            .jump_if(Cond::Ne, arg(1), 1, again)
            .bind(label(1))
    };
    lost(&body(Target::Label(label(0))), 1);
    in_place(&body(Target::Label(label(1))), &shared());
}

#[test]
fn an_entry_changes_result_registers_only_on_the_way_back() {
    let error = refused(&seq().mov(result(), 1), &entry(32));
    assert!(matches!(error, Error::ReadsLost { reg: x86::RAX, .. }), "{error}");
    let error = refused(&seq().mov(result(), 1).jump(Target::to(HELPER)), &entry(32));
    assert!(matches!(error, Error::ReadsLost { reg: x86::RAX, .. }), "{error}");
    let returns = seq().guard_eq(arg(0), 0, Target::End).mov(result(), 1).ret();
    expect(
        &returns,
        &entry(32),
        &["test rdi, rdi", "jne short 0x400020", "mov eax, 0x1", "ret"],
    );
}
