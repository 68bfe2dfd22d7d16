use super::*;

#[test]
fn an_any_reg_site_may_lose_the_scratch_register_and_a_declared_result() {
    let checked = any_reg()
        .outputs(&[RAX])
        .check(&asm!(mov r11, [rdi]; mov rax, r11))
        .unwrap();
    assert_eq!(checked.clobbers, [RAX, R11].map(Into::into).into_iter().collect());
    refused_register!(any_reg().check(&asm!(mov rax, r11)), Clobber, "rax");
}

#[test]
fn an_any_reg_site_keeps_everything_else() {
    let case = || any_reg().outputs(&[RAX]);
    // An argument, a live value, the base of a spilled one, and registers that nobody names.
    refused_register!(case().check(&asm!(mov rdi, 1)), Clobber, "rdi");
    refused_register!(case().check(&asm!(mov rbx, 1)), Clobber, "rbx");
    refused_register!(case().check(&asm!(mov rbp, 1)), Clobber, "rbp");
    refused_register!(case().check(&asm!(mov rcx, 1)), Clobber, "rcx");
    refused_register!(case().check(&asm!(mov r10, 1)), Clobber, "r10");
    refused_register!(case().check(&asm!(pxor xmm0, xmm0)), Clobber, "xmm0");
    refused_register!(case().check(&asm!(pxor xmm15, xmm15)), Clobber, "xmm15");
}

#[test]
fn a_vector_result_is_a_result() {
    let shape = CallShape::any_reg(LEN).result();
    let case = || Case::new(shape, Some(record(7).location(reg(XMM1, 8)))).outputs(&[XMM1]);
    case().check(&asm!(movsd xmm1, [rdi])).unwrap();
    refused_register!(case().check(&asm!(movsd xmm0, [rdi])), Clobber, "xmm0");
}

#[test]
fn a_first_location_without_result_is_a_live_value() {
    let case = Case::new(
        CallShape::any_reg(LEN).args(1),
        Some(record(7).location(reg(RAX, 8))),
    );
    refused_register!(case.outputs(&[RAX]).check(&[]), Output, "rax");
}

#[test]
fn partial_and_implicit_writes_count() {
    let case = || any_reg().outputs(&[RAX]);
    refused_register!(case().check(&asm!(mov bl, 1)), Clobber, "rbx");
    refused_register!(case().check(&asm!(mov bh, 1)), Clobber, "rbx");
    refused_register!(case().check(&asm!(mov bx, 1)), Clobber, "rbx");
    refused_register!(case().check(&asm!(mov ebx, ebx)), Clobber, "rbx");
    refused_register!(case().check(&asm!(cmovz rcx, rdi)), Clobber, "rcx");
    refused_register!(case().check(&asm!(setz cl)), Clobber, "rcx");
    refused_register!(case().check(&asm!(xchg rax, rdx)), Clobber, "rdx");
    refused_register!(case().check(&asm!(xadd rax, rdx)), Clobber, "rdx");
    refused_register!(case().check(&asm!(mul rdi)), Clobber, "rdx");
    refused_register!(case().check(&asm!(cqo)), Clobber, "rdx");
    refused_register!(case().check(&asm!(l: ; loop <l)), Clobber, "rcx");
    refused_register!(any_reg().check(&asm!(lock cmpxchg [rdi], r11)), Clobber, "rax");
    refused_register!(any_reg().check(&asm!(lahf)), Clobber, "rax");
    refused_register!(any_reg().check(&asm!(pop rcx; push rcx)), Clobber, "rcx");
}

#[test]
fn writing_any_width_of_a_vector_register_writes_it() {
    refused_register!(any_reg().check(&asm!(vmovaps xmm3, xmm4)), Clobber, "xmm3");
    refused_register!(any_reg().check(&asm!(vmovaps ymm3, ymm4)), Clobber, "xmm3");
    refused_register!(any_reg().check(&asm!(pinsrb xmm3, edi, 1)), Clobber, "xmm3");
    // vmovaps zmm3, zmm4; vmovaps zmm19, zmm4; kxnorw k1, k1, k1
    refused_register!(
        any_reg().check(&[0x62, 0xf1, 0x7c, 0x48, 0x28, 0xdc]),
        Clobber,
        "xmm3"
    );
    refused_register!(
        any_reg().check(&[0x62, 0xe1, 0x7c, 0x48, 0x28, 0xdc]),
        Clobber,
        "xmm19"
    );
    refused_register!(any_reg().check(&[0xc5, 0xf4, 0x46, 0xc9]), Clobber, "k1");
    refused!(any_reg().check(&asm!(vzeroupper)), Clobber);
    refused!(any_reg().check(&asm!(vzeroall)), Clobber);
}

#[test]
fn string_instructions_write_their_registers() {
    refused!(any_reg().check(&asm!(rep movsq)), Clobber);
    refused!(any_reg().check(&asm!(stosb)), Clobber);
    plain_c().check(&asm!(rep stosb)).unwrap();
    // A live value is in rcx.
    refused_register!(c().check(&asm!(rep stosb)), Clobber, "rcx");
}

#[test]
fn writes_in_stubs_and_on_every_path_count() {
    let code = asm!(at STUB; test edi, edi; jz extern END; mov rbx, 1; jmp extern END);
    refused_register!(any_reg().check_stub(&code), Clobber, "rbx");
    // Where control never comes, nothing is written.
    any_reg().check(&asm!(jmp extern END; mov rbx, 1)).unwrap();
}

#[test]
fn only_the_result_can_be_an_output() {
    for register in [RDI, RBX, RBP, RCX, 7, XMM0] {
        refused!(any_reg().outputs(&[RAX, register]).check(&[]), Output);
    }
    any_reg().outputs(&[RAX, R11]).check(&[]).unwrap();
    for register in [RCX, 8, RBX, XMM1] {
        refused!(c().outputs(&[register]).check(&[]), Output);
    }
    // What is free anyway may be declared.
    c().outputs(&[RAX, RDX, XMM0]).check(&[]).unwrap();
    refused_register!(shadow().outputs(&[RAX]).check(&asm!(ud2)), Output, "rax");
}

#[test]
fn a_c_site_may_lose_what_no_one_needs() {
    let code = asm!(mov rax, 1; mov rdx, 1; mov rsi, 1; mov rdi, 1; mov r9, r10; pxor xmm0, xmm0);
    c().check(&code).unwrap();
    c().check(&asm!(mov r11, 1; mov r10, 1; pxor xmm15, xmm15))
        .unwrap();
}

#[test]
fn a_c_site_keeps_what_is_recorded_or_live_out() {
    refused_register!(c().check(&asm!(mov rcx, 1)), Clobber, "rcx");
    refused_register!(c().check(&asm!(pxor xmm1, xmm1)), Clobber, "xmm1");
    refused_register!(c().check(&asm!(mov r8, 1)), Clobber, "r8");
    let base = Case::new(CallShape::c(LEN), Some(record(7).location(indirect(RSI, 8, 8))));
    refused_register!(base.check(&asm!(mov rsi, 1)), Clobber, "rsi");
}

#[test]
fn callee_saved_registers_are_live_out_unless_the_list_is_trusted() {
    for code in [
        asm!(mov rbx, 1),
        asm!(mov r12, 1),
        asm!(mov r13, 1),
        asm!(mov r14, 1),
        asm!(mov r15, 1),
    ] {
        refused!(c().check(&code), Clobber);
        c().trusting().check(&code).unwrap();
    }
    refused_register!(c().trusting().check(&asm!(mov rbp, 1)), Clobber, "rbp");
    refused_register!(c().trusting().check(&asm!(mov r8, 1)), Clobber, "r8");
    let listed = Case::new(CallShape::c(LEN), Some(record(7).live_out(RBX, 8))).trusting();
    refused_register!(listed.check(&asm!(mov rbx, 1)), Clobber, "rbx");
    // The convention keeps them, whatever the list says.
    refused_register!(any_reg().trusting().check(&asm!(mov r12, 1)), Clobber, "r12");
}

#[test]
fn a_live_out_result_can_be_an_output() {
    let spec = record(7).live_out(RAX, 8);
    let with = || Case::new(CallShape::c(LEN).result(), Some(spec.clone()));
    with().outputs(&[RAX]).check(&asm!(mov rax, 1)).unwrap();
    refused_register!(with().check(&asm!(mov rax, 1)), Clobber, "rax");
    let without = Case::new(CallShape::c(LEN), Some(spec.clone())).outputs(&[RAX]);
    refused_register!(without.check(&[]), Output, "rax");
}

#[test]
fn a_call_loses_what_its_contract_leaves_open() {
    let checked = any_reg().check(&asm!(call extern HELPER)).unwrap();
    assert_eq!(checked.clobbers, RegSet::of(&[R11.into()]));
    refused!(any_reg().check(&asm!(call extern C_FUNCTION)), Clobber);
    refused!(
        entry().check(&asm!(sub rsp, 136; call extern C_FUNCTION; add rsp, 136)),
        Clobber
    );
    let checked = plain_c().check(&asm!(call extern C_FUNCTION)).unwrap();
    for register in [RAX, RCX, RDX, RSI, RDI, 8, 9, 10, R11, XMM0, 32, 67, 118] {
        assert!(checked.clobbers.contains(register.into()), "{register}");
    }
    for register in [RBX, RBP, 7, 12, 13, 14, 15] {
        assert!(!checked.clobbers.contains(register.into()), "{register}");
    }
}

#[test]
fn a_call_of_a_c_function_needs_the_caller_saved_registers_free() {
    refused_register!(c().check(&asm!(call extern C_FUNCTION)), Clobber, "rcx");
    let kept = |r| Case::new(CallShape::c(LEN).result(), Some(record(7).location(reg(r, 8))));
    refused_register!(kept(XMM1).check(&asm!(call extern C_FUNCTION)), Clobber, "xmm1");
    kept(RBX).check(&asm!(call extern C_FUNCTION)).unwrap();
    // The result is what the call is for, even where the old value was recorded.
    kept(RAX).check(&asm!(call extern C_FUNCTION)).unwrap();
    let live_out = Case::new(CallShape::c(LEN), Some(record(7).live_out(RAX, 8)));
    refused_register!(live_out.check(&asm!(call extern C_FUNCTION)), Clobber, "rax");
}

#[test]
fn a_record_in_the_scratch_register_protects_it() {
    let case = Case::new(
        CallShape::any_reg(LEN).args(1),
        Some(record(7).location(reg(R11, 8))),
    );
    refused_register!(case.check(&asm!(mov r11, 1)), Clobber, "r11");
    refused_register!(case.check(&asm!(call extern HELPER)), Clobber, "r11");
}

#[test]
fn no_recorded_value_is_lost_before_an_exit_stub() {
    // The register allocator may give the result the register of an argument.
    let spec = record(7).locations([reg(RAX, 8), reg(RAX, 8)]);
    let case = || Case::new(CallShape::any_reg(LEN).result().args(1), Some(spec.clone())).outputs(&[RAX]);
    case()
        .check(&asm!(cmp QWORD [rax], 1; jne extern EXIT_STUB; mov rax, [rax + 8]))
        .unwrap();
    let late = asm!(mov rax, [rax + 8]; cmp rax, 1; jne extern EXIT_STUB);
    refused_register!(case().check(&late), Lost, "rax");
    // On one of two paths is enough.
    let one = asm!(test eax, eax; jz >l; mov rax, 1; l: ; jmp extern EXIT_STUB);
    refused_register!(case().check(&one), Lost, "rax");
    // A result register of its own may be written before.
    any_reg()
        .outputs(&[RAX])
        .check(&asm!(mov rax, [rdi]; test eax, eax; jz extern EXIT_STUB))
        .unwrap();
}

#[test]
fn a_call_loses_recorded_values_for_exit_stubs_too() {
    let case = Case::new(CallShape::c(LEN).result(), Some(record(7).location(reg(RAX, 8))));
    let code = asm!(call extern C_FUNCTION; test eax, eax; jz extern EXIT_STUB);
    refused_register!(case.check(&code), Lost, "rax");
}

#[test]
fn a_shadow_may_lose_the_scratch_register_only() {
    shadow()
        .check(&asm!(mov r11, QWORD EXIT_STUB as i64; jmp r11))
        .unwrap();
    refused_register!(
        shadow().check(&asm!(mov rax, 1; jmp extern EXIT_STUB)),
        Clobber,
        "rax"
    );
    refused_register!(
        shadow().check(&asm!(mov r10, 1; jmp extern EXIT_STUB)),
        Clobber,
        "r10"
    );
}

#[test]
fn an_entry_keeps_arguments_callee_saved_and_static_chain() {
    entry().check(&asm!(mov r11, 1)).unwrap();
    let codes = [
        asm!(mov rdi, 1),
        asm!(mov r9, 1),
        asm!(mov r10, 1),
        asm!(mov rbx, 1),
        asm!(mov al, 1),
        asm!(pxor xmm7, xmm7),
    ];
    for code in codes {
        refused!(entry().check(&code), Clobber);
    }
}

#[test]
fn a_record_of_an_entry_protects_the_scratch_register() {
    let case = Case::new(CallShape::entry(LEN), Some(record(7).location(reg(R11, 8))));
    refused_register!(case.check(&asm!(mov r11, 1)), Clobber, "r11");
}

#[test]
fn an_entry_writes_return_registers_only_to_return() {
    let case = || entry().outputs(&[RAX, XMM0]);
    case().check(&asm!(mov eax, 1; ret)).unwrap();
    refused_register!(case().check(&asm!(mov eax, 1)), Lost, "rax");
    refused_register!(
        case().check(&asm!(mov eax, 1; jmp extern C_FUNCTION)),
        Lost,
        "rax"
    );
    refused_register!(case().check(&asm!(mov eax, 1; jmp extern EXIT_STUB)), Lost, "rax");
    refused_register!(case().check(&asm!(pxor xmm0, xmm0; jmp extern END)), Lost, "xmm0");
    let two = asm!(cmp QWORD [rdi], 1; jne extern END; mov eax, 1; ret);
    case().check(&two).unwrap();
    refused!(entry().outputs(&[RCX]).check(&[]), Output);
}

#[test]
fn a_site_without_record_is_refused_but_an_entry() {
    let shapes = [CallShape::any_reg(LEN), CallShape::c(LEN), CallShape::shadow(LEN)];
    for shape in shapes {
        refused!(Case::new(shape, None).check(&asm!(ud2)), NoRecord);
    }
    Case::new(CallShape::entry(LEN), None).check(&[]).unwrap();
}

#[test]
fn a_record_that_names_no_register_is_refused() {
    for number in [16, 33, 41, 49, 66, 83, 126, 500] {
        let located = Case::new(CallShape::any_reg(LEN), Some(record(7).location(reg(number, 8))));
        refused!(located.check(&[]), Register);
        let live = Case::new(CallShape::c(LEN), Some(record(7).live_out(number, 8)));
        refused!(live.check(&[]), Register);
    }
}

#[test]
fn errors_name_site_instruction_and_remedy() {
    let code = asm!(at STUB; nop; mov rbx, r11; jmp extern END);
    let error = any_reg().check_stub(&code).unwrap_err();
    let needles = [
        "patchpoint 7 at get+0x4 (0x400000)",
        "`mov rbx, r11`",
        "byte 1 of stub 0 (0x410001)",
        "rbx",
    ];
    is(&error, &needles);
    is(&error, &["use the scratch register"]);
}

/// Nobody tells what is live at a marked site, so all of it is: registers, vectors, flags. Its end
/// may be reached.
#[test]
fn at_a_marked_site_nothing_may_be_written() {
    let marked = Case::new(CallShape::marked(LEN), None);
    marked.check(&asm!(mov[rdi], rax)).unwrap();
    marked.check(&asm!(movups[rdi], xmm3)).unwrap();
    marked.check(&asm!(jmp extern EXIT_STUB)).unwrap();
    refused_register!(marked.check(&asm!(mov r11, rax)), Clobber, "r11");
    refused_register!(marked.check(&asm!(movaps xmm1, xmm2)), Clobber, "xmm1");
    refused!(marked.check(&asm!(add QWORD [rdi], 1)), Flags);
    refused!(marked.check(&asm!(cmp rdi, rsi)), Flags);
    refused!(marked.check(&asm!(call extern HELPER)), RedZone);
    // The function's own red zone.
    refused!(marked.check(&asm!(mov[rsp - 8], rax)), RedZone);
    // What changes no flags never does.
    shadow()
        .check(&asm!(add QWORD [rdi], 1; jmp extern EXIT_STUB))
        .unwrap();
}
