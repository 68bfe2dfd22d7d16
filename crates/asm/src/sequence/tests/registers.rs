//! What a sequence may write.

use patchpoint_isa::RegSet;

use patchpoint_isa::x86_64 as x86;

use super::*;

#[test]
fn only_the_scratch_register_and_the_result_are_written_at_an_anyreg_site() {
    let sequence = seq()
        .guard_eq(u64::at(arg(0), 0), u64::MAX >> 1, Target::to(FAR))
        .load(result(), u64::at(live(1), 0));
    let assembled = in_place(&sequence, &any_reg(64));
    assert_eq!(assembled.clobbers, RegSet::of(&[x86::R11, x86::RAX]));
    assert_eq!(assembled.declared.outputs, RegSet::of(&[x86::RAX]));
}

/// Of the two registers that the C convention has for a result, a function may need the other one.
#[test]
fn the_integer_result_is_no_scratch_where_only_the_other_is_written() {
    // The arguments take the registers of six, r10 is needed, and r11 is the temporary one.
    let sequence = seq().mov(float_result(), 185).mov(temp(), temp());
    let at = |live_outs: &[u16]| {
        let live_outs = live_outs.iter();
        let record = live_outs.fold(record(7), |record, reg| record.live_out(*reg, 8));
        SiteContext {
            trust_live_outs: true,
            ..site(CallShape::c(48).result().args(6), record)
        }
    };
    let assembled = in_place(&sequence, &at(&[R10]));
    assert_eq!(disassembly(SITE, &assembled.code)[0], "mov eax, 0xb9");
    let refused = refused(&sequence, &at(&[R10, RAX]));
    assert!(matches!(refused, Error::NoScratch { op: 0, .. }), "{refused}");
}

/// Who reads the integer result when only the other was written finds what was in its register.
#[test]
fn the_integer_result_is_no_scratch_where_it_is_read_behind_the_other() {
    let sequence = seq().mov(float_result(), 185).mov(temp(), temp());
    let site = SiteContext {
        trust_live_outs: true,
        ..site(CallShape::c(48).result().args(6), record(7).live_out(R10, 8))
    };
    in_place(&sequence, &site);
    let refused = refused(&sequence.mov(temp(), u64::at(result(), 88)), &site);
    assert!(matches!(refused, Error::NoScratch { op: 0, .. }), "{refused}");
}

#[test]
fn the_result_register_is_scratch_until_it_is_written() {
    // r11 has the base, the result register the immediate.
    let sequence = seq()
        .guard_eq(u64::at(live(1), 8), u64::MAX >> 1, Target::Miss)
        .mov(result(), 1);
    let expected = [
        "mov r11, [rbp-0x8]",
        "mov rax, 0x7fffffffffffffff",
        "cmp [r11+0x8], rax",
        "jne 0x500000",
        "mov eax, 0x1",
    ];
    expect(&sequence, &any_reg(48), &expected);
    // Afterwards it is not.
    let after = seq()
        .mov(result(), 1)
        .guard_eq(u64::at(live(1), 8), u64::MAX >> 1, Target::Miss);
    let halves = [
        "mov eax, 0x1",
        "mov r11, [rbp-0x8]",
        "cmp dword ptr [r11+0x8], 0xffffffff",
    ];
    let assembled = in_place(&after, &any_reg(48));
    assert_eq!(disassembly(SITE, &assembled.code)[..3], halves);
    let otherwise = seq()
        .mov(float_result(), 1)
        .guard_eq(u64::at(live(1), 8), u64::MAX >> 1, Target::Miss)
        .mov(result(), 2);
    assert_eq!(
        disassembly(SITE, &in_place(&otherwise, &any_reg(48)).code)[..3],
        halves
    );
    // Nor if an argument is there, or if it is read before, or if a label makes the order unknown.
    let locations = [reg(RAX, 8), reg(RAX, 8), indirect(RBP, -8, 8)];
    let shared = site(
        CallShape::any_reg(48).result().args(1),
        record(7).locations(locations),
    );
    let sequence = |operand| {
        seq()
            .guard_ne(u64::at(operand, 8), u64::MAX >> 1, Target::Miss)
            .mov(result(), 1)
    };
    assert!(matches!(
        refused(&sequence(live(0)), &shared),
        Error::NoScratch { op: 0, .. }
    ));
    let looped = sequence(live(1)).bind(label(0));
    assert!(matches!(
        refused(&looped, &any_reg(48)),
        Error::NoScratch { op: 0, .. }
    ));
    // By whatever name.
    for name in [result(), location(0)] {
        let read = seq()
            .guard_ne(u64::at(live(1), 8), u64::MAX >> 1, Target::Miss)
            .guard_eq(name, 1, Target::Miss)
            .mov(result(), 1);
        assert!(matches!(
            refused(&read, &any_reg(64)),
            Error::NoScratch { op: 0, .. }
        ));
    }
    let read = seq()
        .jump_if(Cond::Eq, result(), 1, Target::Miss)
        .mov(result(), live(1));
    assert_eq!(in_place(&read, &any_reg(48)).clobbers, RegSet::of(&[x86::RAX]));
}

#[test]
fn scratch_is_taken_in_order_and_never_from_arguments() {
    let sequence = seq().guard(Cond::Less, u64::at(live(0), 8), u64::at(arg(0), 3), Target::Miss);
    let text = |spec: RecordSpec, args| {
        let site = site(CallShape::c(48).args(args), spec.location(indirect(RBP, -8, 8)));
        disassembly(SITE, &in_place(&sequence, &site).code)[1].clone()
    };
    assert_eq!(text(record(7), 2), "mov r10, [rdi+0x3]");
    assert_eq!(text(record(7).live_out(10, 8), 2), "mov rax, [rdi+0x3]");
    assert_eq!(
        text(record(7).live_out(10, 8).live_out(RAX, 8), 2),
        "mov rcx, [rdi+0x3]"
    );
    // r11 is live out: r10 has the base.
    assert_eq!(text(record(7).live_out(11, 8), 2), "mov rax, [rdi+0x3]");
    // Four arguments take rcx and rdx; r9 comes next.
    assert_eq!(
        text(record(7).live_out(10, 8).live_out(RAX, 8), 4),
        "mov r9, [rdi+0x3]"
    );
}

#[test]
fn registers_that_the_sequence_names_are_left_to_it() {
    let sequence =
        seq()
            .mov(x86::R11, u64::at(arg(0), 0))
            .guard_eq(u64::at(x86::R11, 8), 1u64 << 40, Target::Miss);
    let expected = [
        "mov r11, [rdi]",
        "cmp dword ptr [r11+0x8], 0x0",
        "jne 0x500000",
        "cmp dword ptr [r11+0xc], 0x100",
        "jne 0x500000",
    ];
    expect(&sequence, &any_reg(48), &expected);
    let far = seq().mov(x86::R11, 1).jump(Target::to(FAR));
    assert!(matches!(
        refused(&far, &any_reg(48)),
        Error::TargetOutOfReach {
            op: 1,
            target: FAR,
            ..
        }
    ));
}

#[test]
fn only_free_registers_may_be_named_as_destinations() {
    let write = |reg| seq().mov(reg, 1);
    let overwrites = |reg: DwarfReg, site: &SiteContext<'_>| match refused(&write(reg), site) {
        Error::OverwritesLive {
            reg: found, op: 0, ..
        } => assert_eq!(found, reg),
        other => panic!("{other}"),
    };
    overwrites(x86::RDI, &any_reg(16));
    overwrites(x86::RCX, &any_reg(16));
    overwrites(x86::RBX, &any_reg(16));
    overwrites(x86::RBX, &c(16));
    overwrites(x86::R12, &c(16));
    overwrites(x86::R10, &entry(16));
    let leaves = seq().mov(x86::RDI, 1).jump(Target::Deopt);
    assert!(matches!(
        refused(&leaves, &shadow(16)),
        Error::OverwritesLive { reg: x86::RDI, .. }
    ));
    for reg in [x86::R11, x86::RAX] {
        in_place(&write(reg), &any_reg(16));
    }
    for reg in [x86::R11, x86::R8, x86::RCX, x86::XMM15] {
        in_place(&write(reg).mov(result(), 0), &c(48));
    }
    let error = refused(&seq().mov(arg(0), 1), &any_reg(16));
    assert!(matches!(error, Error::OperandUnusable { op: 0, .. }), "{error}");
}

#[test]
fn a_c_call_loses_what_the_convention_says() {
    let call = || seq().call_to(HELPER, OnReturn::FollowsC);
    let assembled = in_place(&call(), &c(16));
    assert!(assembled.clobbers.contains(x86::RDI) && assembled.clobbers.contains(x86::XMM15));
    assert!(!assembled.clobbers.contains(x86::RBX));
    assert_eq!(assembled.declared.outputs, RegSet::of(&[x86::RAX, x86::XMM0]));
    let error = refused(&call(), &any_reg(16));
    assert!(matches!(error, Error::OverwritesLive { .. }), "{error}");
    let recorded = site(CallShape::c(16), record(7).location(reg(RSI, 8)));
    assert!(matches!(
        refused(&call(), &recorded),
        Error::OverwritesLive { reg: x86::RSI, .. }
    ));
    let live_out = site(CallShape::c(16), record(7).live_out(RDX, 8));
    assert!(matches!(
        refused(&call(), &live_out),
        Error::OverwritesLive { reg: x86::RDX, .. }
    ));
    let after = call().mov(result(), arg(0));
    assert!(matches!(
        refused(&after, &c(32)),
        Error::ReadsLost {
            op: 1,
            reg: x86::RDI,
            ..
        }
    ));
    in_place(&call().add(result(), 1), &c(32));
    in_place(&call().mov(result(), live(0)), &c(32));
}

#[test]
fn the_result_of_a_c_call_is_not_scratch() {
    let site = site(CallShape::c(128).result().args(7), record(7));
    let others = [x86::R10, x86::RCX, x86::RDX, x86::R9, x86::R8, x86::RSI, x86::RDI];
    let call = seq().call_to(HELPER, OnReturn::FollowsC);
    let named = others
        .into_iter()
        .fold(call, |sequence, reg| sequence.mov(reg, 1));
    let sequence = named.guard_eq(u64::at(arg(6), 0), u64::MAX >> 1, Target::Deopt);
    // rax is all that is left, and it holds what the call returned.
    let text = disassembly(SITE, &in_place(&sequence, &site).code);
    assert_eq!(text[9], "cmp dword ptr [r11], 0xffffffff");
}

#[test]
fn arguments_of_a_call_can_be_given_but_are_then_no_longer_those_of_the_site() {
    let give = || seq().mov(x86::RDI, arg(1)).mov(x86::RSI, 5);
    expect(
        &give().call_to(HELPER, OnReturn::FollowsC),
        &c(13),
        &["mov rdi, rsi", "mov esi, 0x5", "call 0x700000"],
    );
    let reads = give().mov(result(), arg(1));
    assert!(matches!(
        refused(&reads, &c(32)),
        Error::ReadsLost {
            op: 2,
            reg: x86::RSI,
            ..
        }
    ));
    let misses = give().guard_eq(live(0), 1, Target::Miss);
    assert!(matches!(refused(&misses, &c(32)), Error::ReadsLost { op: 2, .. }));
    let after_call = seq()
        .call_to(HELPER, OnReturn::FollowsC)
        .guard_eq(live(0), 1, Target::Miss);
    assert!(matches!(
        refused(&after_call, &c(32)),
        Error::ReadsLost { op: 1, .. }
    ));
}
