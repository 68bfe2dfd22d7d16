use super::*;

#[test]
fn branches_within_the_site_go_to_boundaries() {
    any_reg().check(&asm!(jmp >l; mov r11, 1; l: ; nop)).unwrap();
    any_reg()
        .check(&asm!(jmp extern SITE + 3; mov r11, 1))
        .unwrap_err();
    refused!(
        any_reg().check(&asm!(jmp BYTE extern SITE + 3; mov r11, 1)),
        BranchInside
    );
    refused!(
        any_reg().check(&asm!(test edi, edi; jz extern SITE + 1)),
        BranchInside
    );
}

#[test]
fn branches_between_site_and_stub_go_to_boundaries() {
    let back = asm!(at STUB; mov r11d, 1; jmp extern SITE + 5);
    any_reg().check_stub(&back).unwrap();
    let inside = asm!(at STUB; mov r11d, 1; jmp extern SITE + 2);
    refused!(any_reg().check_stub(&inside), BranchInside);
    let code = asm!(at STUB; mov r11d, 1; jmp extern END);
    refused!(
        any_reg().check_with(&asm!(jmp extern STUB + 1), &[stub(STUB, &code)]),
        BranchInside
    );
}

#[test]
fn the_end_of_the_site_can_be_branched_to_and_not_beyond() {
    any_reg().check(&asm!(jmp extern END)).unwrap();
    any_reg().check(&asm!(test edi, edi; jz extern END)).unwrap();
    refused!(any_reg().check(&asm!(jmp extern END + 1)), Undeclared);
    refused!(any_reg().check(&asm!(jmp extern SITE - 1)), Undeclared);
}

#[test]
fn jumps_out_go_to_declared_targets_only() {
    any_reg().check(&asm!(jmp extern EXIT_STUB)).unwrap();
    any_reg()
        .check(&asm!(test edi, edi; jnz extern EXIT_STUB))
        .unwrap();
    let result = any_reg().check(&asm!(jmp extern UNDECLARED));
    refused!(result.clone(), Undeclared);
    is(&result.unwrap_err(), &["branches to 0x530000", "declare"]);
    refused!(any_reg().check(&asm!(jmp extern EXIT_STUB + 1)), Undeclared);
    refused!(
        any_reg().check(&asm!(test edi, edi; jnz extern UNDECLARED)),
        Undeclared
    );
    refused!(
        any_reg().check(&asm!(jrcxz >l; l: ; call extern UNDECLARED)),
        Undeclared
    );
}

#[test]
fn a_jump_to_a_target_that_returns_is_refused() {
    refused!(any_reg().check(&asm!(jmp extern HELPER)), JumpReturns);
    refused!(plain_c().check(&asm!(jmp extern C_FUNCTION)), JumpReturns);
    refused!(
        plain_c().check(&asm!(test edi, edi; jz extern C_FUNCTION)),
        JumpReturns
    );
}

#[test]
fn an_entry_may_hand_the_function_over() {
    entry().check(&asm!(jmp extern C_FUNCTION)).unwrap();
    entry().check(&asm!(jmp extern EXIT_STUB)).unwrap();
}

#[test]
fn calls_go_to_declared_targets_that_return() {
    any_reg().check(&asm!(call extern HELPER)).unwrap();
    plain_c().check(&asm!(call extern C_FUNCTION)).unwrap();
    refused!(any_reg().check(&asm!(call extern EXIT_STUB)), CallNever);
    refused!(any_reg().check(&asm!(call extern UNDECLARED)), Undeclared);
}

#[test]
fn all_contracts_declared_of_a_target_bind() {
    let mut case = any_reg();
    let mut twice = case.declared.targets[1];
    twice.on_return = OnReturn::Never;
    case.declared.targets.push(twice);
    refused!(case.check(&asm!(call extern HELPER)), CallNever);
    refused!(case.check(&asm!(jmp extern HELPER)), JumpReturns);
    let mut case = any_reg();
    let mut twice = case.declared.targets[0];
    twice.on_return = OnReturn::PreservesAll;
    case.declared.targets.push(twice);
    refused!(case.check(&asm!(jmp extern EXIT_STUB)), JumpReturns);
}

#[test]
fn the_sequence_calls_nothing_of_its_own() {
    refused!(any_reg().check(&asm!(call extern SITE + 5)), BranchInside);
    let code = asm!(at STUB; ret);
    refused!(
        any_reg().check_with(&asm!(call extern STUB), &[stub(STUB, &code)]),
        BranchInside
    );
    refused!(any_reg().check(&asm!(call extern END)), Undeclared);
}

#[test]
fn a_branch_through_a_register_needs_a_certain_constant() {
    any_reg()
        .check(&asm!(mov r11, QWORD EXIT_STUB as i64; jmp r11))
        .unwrap();
    any_reg()
        .check(&asm!(mov r11d, EXIT_STUB as i32; jmp r11))
        .unwrap();
    any_reg()
        .check(&asm!(mov r11, QWORD HELPER as i64; call r11))
        .unwrap();
    any_reg()
        .check(&asm!(lea r11, [rip + (EXIT_STUB - SITE - 7) as i32]; jmp r11))
        .unwrap();
    refused!(any_reg().check(&asm!(jmp r11)), Indirect);
    refused!(any_reg().check(&asm!(mov r11, rdi; jmp r11)), Indirect);
    refused!(
        any_reg().check(&asm!(mov r11, QWORD EXIT_STUB as i64; jmp rdi)),
        Indirect
    );
    refused!(
        any_reg().check(&asm!(mov r11, QWORD UNDECLARED as i64; jmp r11)),
        Undeclared
    );
}

#[test]
fn a_constant_is_forgotten_when_its_register_changes() {
    refused!(
        any_reg().check(&asm!(mov r11, QWORD EXIT_STUB as i64; inc r11; jmp r11)),
        Indirect
    );
    refused!(
        any_reg().check(&asm!(mov r11, QWORD EXIT_STUB as i64; mov r11b, 0; jmp r11)),
        Indirect
    );
    refused!(
        any_reg().check(&asm!(mov r11, QWORD EXIT_STUB as i64; mov r11w, 0; jmp r11)),
        Indirect
    );
    let call = asm!(mov r11, QWORD HELPER as i64; call r11; call r11);
    refused!(any_reg().check(&call), Indirect);
}

#[test]
fn a_constant_is_forgotten_where_paths_disagree() {
    let same = asm!(mov r11d, EXIT_STUB as i32; test edi, edi; jz >l; nop; l: ; jmp r11);
    any_reg().check(&same).unwrap();
    let two =
        asm!(mov r11d, EXIT_STUB as i32; test edi, edi; jz >l; mov r11d, EXIT_STUB as i32 + 1; l: ; jmp r11);
    refused!(any_reg().check(&two), Indirect);
    let none = asm!(test edi, edi; jz >l; mov r11d, EXIT_STUB as i32; l: ; jmp r11);
    refused!(any_reg().check(&none), Indirect);
}

#[test]
fn a_constant_of_32_bits_is_extended_as_the_processor_does() {
    let mut case = any_reg();
    case.declared.targets[0].addr = CodeAddr::new(0xffff_ffff_8000_0000);
    case.check(&asm!(mov r11, DWORD 0x8000_0000u32 as i32; jmp r11))
        .unwrap();
    refused!(
        case.check(&asm!(mov r11d, 0x8000_0000u32 as i32; jmp r11)),
        Undeclared
    );
}

#[test]
fn branches_through_memory_and_far_branches_are_refused() {
    refused!(any_reg().check(&asm!(jmp QWORD [rip + 0])), Indirect);
    refused!(any_reg().check(&asm!(call QWORD [rdi])), Indirect);
    // jmp far [rdi]; call far [rdi]
    refused!(any_reg().check(&[0xff, 0x2f]), Indirect);
    refused!(any_reg().check(&[0xff, 0x1f]), Indirect);
}

#[test]
fn a_branch_that_processors_decode_differently_is_refused() {
    // jmp, jz, call with an operand size prefix.
    refused!(any_reg().check(&[0x66, 0xe9, 0, 0, 0, 0]), Refused);
    refused!(any_reg().check(&[0x66, 0x0f, 0x84, 0, 0, 0, 0]), Refused);
    refused!(any_reg().check(&[0x2e, 0x66, 0xe8, 0, 0, 0, 0]), Refused);
    any_reg().check(&[0x2e, 0xe9, 0, 0, 0, 0]).unwrap();
}

#[test]
fn a_stub_must_not_run_off_its_end() {
    any_reg()
        .check_stub(&asm!(at STUB; mov r11d, 1; jmp extern END))
        .unwrap();
    refused!(any_reg().check_stub(&asm!(at STUB; mov r11d, 1)), StubEnd);
    refused!(
        any_reg().check_stub(&asm!(at STUB; test edi, edi; jz extern END)),
        StubEnd
    );
    refused!(any_reg().check_stub(&asm!(at STUB; call extern HELPER)), StubEnd);
    any_reg().check_stub(&asm!(at STUB; ud2)).unwrap();
}

#[test]
fn a_stub_does_not_continue_in_what_is_next_to_it() {
    let (first, second) = (asm!(at STUB; nop), asm!(at STUB + 1; jmp extern END));
    let stubs = [stub(STUB, &first), stub(STUB + 1, &second)];
    refused!(any_reg().check_with(&asm!(jmp extern STUB), &stubs), StubEnd);
}

#[test]
fn a_shadow_must_not_reach_its_end() {
    shadow().check(&asm!(jmp extern EXIT_STUB)).unwrap();
    shadow().check(&asm!(ud2)).unwrap();
    refused!(shadow().check(&[]), ShadowEnd);
    refused!(shadow().check(&asm!(jmp extern END)), ShadowEnd);
    refused!(
        shadow().check(&asm!(test edi, edi; jz extern EXIT_STUB)),
        ShadowEnd
    );
    refused!(
        shadow().check(&asm!(test edi, edi; jz extern END; jmp extern EXIT_STUB)),
        ShadowEnd
    );
}

#[test]
fn a_debugger_may_continue_behind_int3() {
    refused!(shadow().check(&asm!(int3)), ShadowEnd);
    shadow().check(&asm!(int3; jmp extern EXIT_STUB)).unwrap();
}

#[test]
fn only_an_entry_returns_and_only_plainly() {
    entry().check(&asm!(ret)).unwrap();
    refused!(entry().check(&asm!(ret 8)), Return);
    // retf
    refused!(entry().check(&[0xcb]), Return);
    refused!(any_reg().check(&asm!(ret)), Return);
    refused!(plain_c().check(&asm!(ret)), Return);
    refused!(shadow().check(&asm!(ret)), Return);
}

#[test]
fn loops_are_walked_to_their_end() {
    any_reg().check(&asm!(l: ; test edi, edi; jz <l)).unwrap();
    refused!(
        any_reg().check(&asm!(l: ; push rdi; test edi, edi; jz <l; pop r11)),
        StackJoin
    );
}
