use super::*;

#[test]
fn a_balanced_stack_is_accepted() {
    any_reg()
        .check(&asm!(push rdi; push 1; pop r11; pop r11))
        .unwrap();
    any_reg()
        .check(&asm!(sub rsp, 24; mov [rsp + 8], rdi; add rsp, 24))
        .unwrap();
    any_reg()
        .check(&asm!(lea rsp, [rsp - 256]; lea rsp, [rsp + 256]))
        .unwrap();
    any_reg().check(&asm!(pushfq; lea rsp, [rsp + 8])).unwrap();
    any_reg().check(&asm!(push di; add rsp, BYTE 2)).unwrap();
}

#[test]
fn leaving_with_the_stack_moved_is_refused() {
    refused!(any_reg().check(&asm!(push rdi)), StackExit);
    refused!(any_reg().check(&asm!(push rdi; jmp extern END)), StackExit);
    refused!(any_reg().check(&asm!(push rdi; jmp extern EXIT_STUB)), StackExit);
    refused!(
        any_reg().check(&asm!(push rdi; test edi, edi; jz extern EXIT_STUB; pop r11)),
        StackExit
    );
    refused!(entry().check(&asm!(sub rsp, 128; ret)), StackExit);
    // A trap has no way out.
    any_reg().check(&asm!(push rdi; ud2)).unwrap();
}

#[test]
fn popping_the_frame_is_refused() {
    let result = any_reg().check(&asm!(pop r11; push r11));
    refused!(result.clone(), StackPopped);
    is(&result.unwrap_err(), &["pops 8 bytes"]);
    refused!(any_reg().check(&asm!(add rsp, 8; sub rsp, 8)), StackPopped);
    refused!(
        any_reg().check(&asm!(push rdi; lea rsp, [rsp + 16]; push rdi)),
        StackPopped
    );
}

#[test]
fn paths_must_agree_on_the_depth() {
    let code = asm!(test edi, edi; jz >l; push rdi; l: ; pop r11);
    refused!(any_reg().check(&code), StackJoin);
    let both = asm!(test edi, edi; jz >l; push rdi; pop r11; l: ; nop);
    any_reg().check(&both).unwrap();
}

#[test]
fn a_stack_pointer_that_cannot_be_followed_is_refused() {
    let codes = [
        asm!(mov rsp, rdi),
        asm!(and rsp, -16),
        asm!(add rsp, rdi),
        asm!(sub rsp, [rdi]),
        asm!(lea rsp, [rdi - 8]),
        asm!(lea rsp, [rsp + rdi]),
        asm!(sub esp, 8),
        asm!(lea esp, [rsp - 8]),
        asm!(xchg rsp, r11),
        asm!(dec rsp),
        asm!(push rdi; pop rsp),
        asm!(mov spl, 0),
    ];
    for code in codes {
        refused!(any_reg().check(&code), StackLost);
    }
    // These write rbp as well.
    any_reg().check(&asm!(leave)).unwrap_err();
    any_reg().check(&asm!(enter 8, 0)).unwrap_err();
}

#[test]
fn the_red_zone_of_a_shadow_is_not_written() {
    let out = |code: Vec<u8>| {
        let jump = asm!(at SITE + code.len(); jmp extern EXIT_STUB);
        shadow().check(&[code, jump].concat())
    };
    let codes = [
        asm!(push rdi; pop r11),
        asm!(pushfq; pop r11),
        asm!(call extern HELPER),
        asm!(mov[rsp - 8], rdi),
        asm!(mov BYTE [rsp - 1], 0),
        asm!(mov[rsp - 128], rdi),
        asm!(mov[rsp - 132], rdi),
        asm!(mov[rsp - 4], rdi),
        asm!(movups[rsp - 16], xmm0),
        asm!(inc QWORD [rsp - 8]),
        asm!(lock add [rsp - 8], r11),
        asm!(lea rsp, [rsp - 120]; push rdi; lea rsp, [rsp + 128]),
        asm!(lea rsp, [rsp - 128]; mov [rsp + 120], rdi; lea rsp, [rsp + 128]),
        asm!(lea rsp, [rsp - 136]; pop QWORD [rsp + 8]; lea rsp, [rsp + 128]),
        asm!(mov[rsp + rdi], rdi),
    ];
    for code in codes {
        refused!(out(code), RedZone);
    }
}

#[test]
fn below_the_red_zone_and_in_the_frame_a_shadow_may_write() {
    let codes = [
        asm!(lea rsp, [rsp - 128]; push rdi; pop r11; lea rsp, [rsp + 128]; jmp extern EXIT_STUB),
        asm!(lea rsp, [rsp - 128]; call extern HELPER; lea rsp, [rsp + 128]; jmp extern EXIT_STUB),
        asm!(mov [rsp - 136], rdi; jmp extern EXIT_STUB),
        asm!(mov [rsp], rdi; jmp extern EXIT_STUB),
        asm!(mov r11, [rsp - 8]; jmp extern EXIT_STUB),
        asm!(cmp QWORD [rsp - 8], 1; jmp extern EXIT_STUB),
        asm!(lea rsp, [rsp - 144]; mov QWORD [rsp], 1; pop QWORD [rsp]; lea rsp, [rsp + 136]; jmp extern EXIT_STUB),
    ];
    for code in codes {
        shadow().check(&code).unwrap();
    }
}

#[test]
fn an_entry_keeps_the_red_zone_and_the_return_address() {
    refused!(entry().check(&asm!(push rdi; pop r11)), RedZone);
    refused!(entry().check(&asm!(call extern HELPER)), RedZone);
    refused!(entry().check(&asm!(mov[rsp], rdi)), RedZone);
    refused!(entry().check(&asm!(mov BYTE [rsp + 7], 0)), RedZone);
    entry().check(&asm!(mov[rsp + 8], rdi)).unwrap();
    entry()
        .check(&asm!(sub rsp, 128; call extern HELPER; add rsp, DWORD 128))
        .unwrap();
}

#[test]
fn below_a_patchpoint_the_stack_is_free() {
    any_reg()
        .check(&asm!(mov [rsp - 8], rdi; call extern HELPER))
        .unwrap();
}

#[test]
fn c_functions_find_the_stack_aligned() {
    refused!(
        plain_c().check(&asm!(push rdi; call extern C_FUNCTION; pop rdi)),
        StackAlign
    );
    plain_c()
        .check(&asm!(push rdi; push rdi; call extern C_FUNCTION; pop rdi; pop rdi))
        .unwrap();
    // A target that preserves everything brings its own frame.
    plain_c()
        .check(&asm!(push rdi; call extern HELPER; pop rdi))
        .unwrap();
}
