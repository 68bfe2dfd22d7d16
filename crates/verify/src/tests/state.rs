use super::*;

/// Refused at the most permissive site.
fn refuses(code: &[u8]) {
    let result = plain_c().check(code);
    let refused = matches!(result, Err(Error::Refused { .. }));
    assert!(refused, "{code:x?}: {result:?}");
}

#[test]
fn the_direction_and_system_flags_stay() {
    refuses(&asm!(std));
    refuses(&asm!(push 0; popfq));
    refuses(&asm!(sti));
    refuses(&asm!(cli));
    plain_c().check(&asm!(cld; stc; cmc; clc; sahf)).unwrap();
    plain_c().check(&asm!(pushfq; pop rax)).unwrap();
}

#[test]
fn the_kernel_is_not_entered() {
    refuses(&asm!(syscall));
    refuses(&[0x0f, 0x34]);
    refuses(&asm!(int - 128));
    // int 3 in two bytes; int1; iretq
    refuses(&[0xcd, 0x03]);
    refuses(&[0xf1]);
    plain_c().check(&[0x48, 0xcf]).unwrap_err();
}

#[test]
fn privileged_instructions_are_refused() {
    refuses(&asm!(hlt));
    refuses(&asm!(mov cr3, rax));
    refuses(&asm!(wrmsr));
    refuses(&asm!(invd));
    // in al, dx; out dx, al; rep insb; outsb
    refuses(&[0xec]);
    refuses(&[0xee]);
    refuses(&[0xf3, 0x6c]);
    refuses(&[0x6e]);
}

#[test]
fn segments_stay() {
    // mov ds, eax; mov fs, eax; pop fs; lss rax, [rdi]; wrfsbase rax; wrgsbase rax; swapgs
    refuses(&[0x8e, 0xd8]);
    refuses(&[0x8e, 0xe0]);
    refuses(&[0x6a, 0x00, 0x0f, 0xa1]);
    refuses(&[0x48, 0x0f, 0xb2, 0x07]);
    refuses(&[0xf3, 0x48, 0x0f, 0xae, 0xd0]);
    refuses(&[0xf3, 0x48, 0x0f, 0xae, 0xd8]);
    refuses(&[0x0f, 0x01, 0xf8]);
    // Reading one, or through one, is fine.
    plain_c().check(&[0x8c, 0xd8]).unwrap();
    plain_c()
        .check(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0])
        .unwrap();
}

#[test]
fn floating_point_modes_stay() {
    // ldmxcsr [rdi]; vldmxcsr [rdi]; fldcw [rdi]; fninit; fnclex; emms; xrstor [rdi]; fxrstor [rdi]
    refuses(&[0x0f, 0xae, 0x17]);
    refuses(&[0xc5, 0xf8, 0xae, 0x17]);
    refuses(&[0xd9, 0x2f]);
    refuses(&[0xdb, 0xe3]);
    refuses(&[0xdb, 0xe2]);
    refuses(&[0x0f, 0x77]);
    refuses(&[0x0f, 0xae, 0x2f]);
    refuses(&[0x0f, 0xae, 0x0f]);
    // stmxcsr [rdi]
    plain_c().check(&[0x0f, 0xae, 0x1f]).unwrap();
}

#[test]
fn x87_and_mmx_are_refused() {
    // fld1; fstp [rdi]; fisttp [rdi]; movd mm0, eax; movq2dq xmm0, mm0; cvtpi2ps xmm0, [rdi];
    // cvtpi2pd xmm0, mm0; pshufw mm0, mm0, 0; movntq [rdi], mm0
    refuses(&[0xd9, 0xe8]);
    refuses(&[0xd9, 0x1f]);
    refuses(&[0xdb, 0x0f]);
    refuses(&[0x0f, 0x6e, 0xc0]);
    refuses(&[0xf3, 0x0f, 0xd6, 0xc0]);
    refuses(&[0x0f, 0x2a, 0x07]);
    refuses(&[0x66, 0x0f, 0x2a, 0xc0]);
    refuses(&[0x0f, 0x70, 0xc0, 0x00]);
    refuses(&[0x0f, 0xe7, 0x07]);
}

#[test]
fn transactions_shadow_stacks_keys_and_the_unknown_are_refused() {
    // xbegin +0; xend; xabort 0; incsspq rax; rstorssp [rdi]; wrpkru; ldtilecfg [rdi]; monitor;
    // enqcmd
    refuses(&[0xc7, 0xf8, 0, 0, 0, 0]);
    refuses(&[0x0f, 0x01, 0xd5]);
    refuses(&[0xc6, 0xf8, 0x00]);
    refuses(&[0xf3, 0x48, 0x0f, 0xae, 0xe8]);
    refuses(&[0xf3, 0x0f, 0x01, 0x2f]);
    refuses(&[0x0f, 0x01, 0xef]);
    refuses(&[0xc4, 0xe2, 0x78, 0x49, 0x07]);
    refuses(&[0x0f, 0x01, 0xc8]);
    refuses(&[0xf2, 0x0f, 0x38, 0xf8, 0x07]);
}

#[test]
fn what_is_never_executed_may_be_anything_that_decodes() {
    plain_c().check(&asm!(jmp extern END; hlt; std)).unwrap();
    refuses(&asm!(test edi, edi; jz extern END; hlt));
}

#[test]
fn traps_are_accepted() {
    plain_c().check(&asm!(ud2)).unwrap();
    plain_c().check(&asm!(int3)).unwrap();
    // ud1 eax, [rdi]
    plain_c().check(&[0x0f, 0xb9, 0x07]).unwrap();
}

#[test]
fn ordinary_code_is_accepted() {
    let codes = [
        asm!(cmp DWORD [rdi + 8], 0x17; jne extern EXIT_STUB; mov rax, [rdi + 24]),
        asm!(lock inc QWORD [rdi]),
        asm!(movzx eax, BYTE [rdi]; imul eax, eax, 3; shl eax, 2; bswap eax),
        asm!(popcnt rax, rdi; lzcnt rdx, rdi; tzcnt rsi, rdi; andn rdi, rax, rdx),
        asm!(cvtsi2sd xmm0, rdi; mulsd xmm0, [rsi]; sqrtsd xmm0, xmm0; ucomisd xmm0, xmm1),
        asm!(vaddpd ymm0, ymm1, ymm2; vfmadd231sd xmm0, xmm1, xmm2; vpermq ymm0, ymm1, 1; vzeroupper),
        asm!(mfence; pause; prefetcht0 [rdi]; crc32 eax, edi; rdtsc),
        asm!(lock cmpxchg16b [rdi]),
    ];
    for code in codes {
        plain_c().check(&code).unwrap();
    }
    // endbr64, which every indirect branch target starts with under CET.
    plain_c().check(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap();
}
