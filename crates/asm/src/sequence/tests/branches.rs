//! Targets, forms and distances of branches.

use super::*;

#[test]
fn a_far_target_is_reached_through_the_scratch_register() {
    let jump = seq().jump(Target::to(FAR));
    expect(&jump, &any_reg(16), &["mov r11, 0x7fff12345678", "jmp r11"]);
    assert_eq!(in_place(&jump, &any_reg(16)).used.get(), 13);
    let guard = seq().guard_eq(arg(0), arg(1), Target::to(FAR));
    let expected = [
        "cmp rdi, rsi",
        "je short 0x400012",
        "mov r11, 0x7fff12345678",
        "jmp r11",
    ];
    expect(&guard, &any_reg(32), &expected);
    let call = seq().call_to(FAR, OnReturn::PreservesAll);
    expect(&call, &any_reg(13), &["mov r11, 0x7fff12345678", "call r11"]);
}

#[test]
fn a_target_with_a_short_address_needs_a_short_constant() {
    let high = SiteContext {
        addr: CodeAddr::new(0x7f00_0000_0000),
        ..any_reg(16)
    };
    expect(
        &seq().jump(Target::to(CodeAddr::new(0x1000))),
        &high,
        &["mov r11d, 0x1000", "jmp r11"],
    );
    let kernel = CodeAddr::new(0xffff_ffff_8000_0000);
    expect(
        &seq().jump(Target::to(kernel)),
        &high,
        &["mov r11, 0xffffffff80000000", "jmp r11"],
    );
}

#[test]
fn the_reach_of_each_form_is_exact() {
    let used = |target: u64| {
        in_place(&seq().jump(Target::to(CodeAddr::new(target))), &any_reg(16))
            .used
            .get()
    };
    let start = 0x40_0000u64;
    assert_eq!(used(start + 2 + 127), 2);
    assert_eq!(used(start + 2 + 128), 5);
    assert_eq!(used(start + 2 - 128), 2);
    assert_eq!(used(start + 2 - 129), 5);
    assert_eq!(used(start + 5 + 0x7fff_ffff), 5);
    assert_eq!(used(start + 5 + 0x8000_0000), 9);
    let high = SiteContext {
        addr: CodeAddr::new(0x7f00_0000_0000),
        ..any_reg(16)
    };
    let used = |target: u64| {
        in_place(&seq().jump(Target::to(CodeAddr::new(target))), &high)
            .used
            .get()
    };
    assert_eq!(used(0x7f00_0000_0005 - 0x8000_0000), 5);
    assert_eq!(used(0x7f00_0000_0005 - 0x8000_0001), 13);
}

#[test]
fn labels_work_in_both_directions() {
    let forward = seq()
        .jump_if(Cond::Eq, arg(0), 1, label(9))
        .mov(result(), 2)
        .jump(Target::End)
        .bind(label(9))
        .mov(result(), 3);
    let expected = [
        "cmp rdi, 0x1",
        "je short 0x40000d",
        "mov eax, 0x2",
        "jmp short 0x400020",
        "mov eax, 0x3",
    ];
    expect(&forward, &any_reg(32), &expected);
    let backward = seq()
        .bind(label(0))
        .jump_if(Cond::Ne, u32::at(arg(0), 0), 0, label(0));
    expect(
        &backward,
        &any_reg(16),
        &["cmp dword ptr [rdi], 0x0", "jne short 0x400000"],
    );
}

#[test]
fn a_branch_over_much_code_grows() {
    let over = |bytes: usize| {
        seq()
            .jump_if(Cond::Eq, arg(0), arg(1), label(1))
            .raw(&[0x90].repeat(bytes))
            .bind(label(1))
    };
    assert_eq!(in_place(&over(127), &any_reg(256)).used.get(), 3 + 2 + 127);
    assert_eq!(in_place(&over(128), &any_reg(256)).used.get(), 3 + 6 + 128);
    // Growing one branch pushes the target of another out of its reach.
    let nested = seq()
        .jump(label(1))
        .raw(&[0x90].repeat(123))
        .jump(label(2))
        .bind(label(1))
        .raw(&[0x90].repeat(126))
        .raw(&[0x90].repeat(2))
        .bind(label(2));
    assert_eq!(in_place(&nested, &any_reg(512)).used.get(), 5 + 123 + 5 + 128);
}

#[test]
fn the_end_of_the_site_is_a_target() {
    let site = any_reg(32);
    let sequence = seq().jump_if(Cond::Eq, arg(0), 0, Target::End).mov(result(), 1);
    expect(
        &sequence,
        &site,
        &["test rdi, rdi", "je short 0x400020", "mov eax, 0x1"],
    );
    // At the end of the sequence the code goes on there anyway.
    expect(
        &seq().mov(result(), 1).jump(Target::End),
        &site,
        &["mov eax, 0x1"],
    );
}

#[test]
fn targets_are_declared_once_with_their_contract() {
    let sequence = seq()
        .guard_eq(arg(0), 1, Target::Miss)
        .guard_eq(arg(1), 1, Target::Miss)
        .guard_eq(arg(1), 1, Target::Deopt)
        .call_to(HELPER, OnReturn::PreservesAll);
    let declared = in_place(&sequence, &any_reg(64)).declared;
    let targets: Vec<_> = declared.targets.iter().map(|t| (t.addr, t.on_return)).collect();
    let expected = [
        (MISS, OnReturn::Never),
        (DEOPT, OnReturn::Never),
        (HELPER, OnReturn::PreservesAll),
    ];
    assert_eq!(targets, expected);
    assert!(declared.outputs.is_empty());
}

#[test]
fn distances_to_data_count_branches_and_immediates() {
    let high = SiteContext {
        addr: CodeAddr::new(0x7f00_0000_0000),
        ..any_reg(64)
    };
    let data = CodeAddr::new(0x7f00_0000_1000);
    let env = Environment {
        miss: Some(CodeAddr::new(0x7f00_0010_0000)),
        deopt: None,
    };
    let sequence = seq()
        .guard_eq(u32::at(data, 0), 0x12345, Target::Miss)
        .guard_eq(u8::at(data, 8), 1, Target::Miss)
        .store(u16::at(data, 16), 0x1234)
        .load(result(), u64::at(data, 24));
    let Fit::InPlace(assembled) = assemble(&sequence, &high, &env).unwrap() else {
        panic!()
    };
    check(&high, &assembled);
    let expected = [
        "cmp dword ptr [0x7f0000001000], 0x12345",
        "jne 0x7f0000100000",
        "cmp byte ptr [0x7f0000001008], 0x1",
        "jne 0x7f0000100000",
        "mov word ptr [0x7f0000001010], 0x1234",
        "mov rax, [0x7f0000001018]",
    ];
    assert_eq!(disassembly(high.addr, &assembled.code)[..6], expected);
}
