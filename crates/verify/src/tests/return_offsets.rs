use super::*;

#[test]
fn a_return_offset_is_followed_by_nops_only() {
    let case = || any_reg().return_offsets(&[5]);
    case().check(&asm!(mov r11, rdi; nop; nop)).unwrap();
    let result = case().check(&asm!(mov r11, rdi; nop; nop; mov r11, rdi));
    refused!(result.clone(), ReturnOffsetTail);
    is(
        &result.unwrap_err(),
        &[
            "return to byte 5 of the site",
            "`mov r11, rdi` at byte 5 of the site",
        ],
    );
    refused!(
        case().check(&asm!(mov r11, rdi; nop; nop; jmp extern END)),
        ReturnOffsetTail
    );
    refused!(
        case().check(&asm!(mov r11, rdi; nop; nop; nop; nop; test edi, edi)),
        ReturnOffsetTail
    );
}

#[test]
fn a_return_offset_is_a_boundary() {
    let result = any_reg().return_offsets(&[5]).check(&asm!(mov r11, QWORD 1));
    refused!(result.clone(), ReturnOffset);
    is(&result.unwrap_err(), &["return to byte 5"]);
    any_reg()
        .return_offsets(&[10])
        .check(&asm!(mov r11, QWORD 1))
        .unwrap();
}

#[test]
fn every_return_offset_counts() {
    any_reg()
        .return_offsets(&[5, 10])
        .check(&asm!(mov r11, rdi))
        .unwrap();
    refused!(
        any_reg()
            .return_offsets(&[11, 12])
            .check(&asm!(mov r11, QWORD 1; test rdi, rdi)),
        ReturnOffset
    );
    let tail = asm!(jmp extern END; nop; nop; nop; nop; nop; test rdi, rdi);
    refused!(any_reg().return_offsets(&[30, 5]).check(&tail), ReturnOffsetTail);
}

#[test]
fn a_return_offset_outside_the_site_is_refused() {
    refused!(any_reg().return_offsets(&[LEN]).check(&[]), ReturnOffset);
    refused!(any_reg().return_offsets(&[LEN + 100]).check(&[]), ReturnOffset);
    refused!(any_reg().return_offsets(&[u32::MAX]).check(&[]), ReturnOffset);
}

#[test]
fn a_return_offset_beyond_the_site_is_not_looked_up_in_a_stub() {
    let code = asm!(at END; nop; jmp extern END);
    let case = any_reg().return_offsets(&[LEN]);
    refused!(case.check_with(&[], &[stub(END, &code)]), ReturnOffset);
}

#[test]
fn a_shadow_into_which_a_call_returns_is_refused() {
    refused!(
        shadow().return_offsets(&[8]).check(&asm!(jmp extern EXIT_STUB)),
        ShadowReturnOffset
    );
    let marked = Case::new(CallShape::marked(LEN), None);
    refused!(
        marked.return_offsets(&[8]).check(&asm!(jmp extern EXIT_STUB)),
        ShadowReturnOffset
    );
}

#[test]
fn calls_of_the_sequence_make_return_offsets() {
    let checked = any_reg()
        .check(&asm!(call extern HELPER; nop; call extern HELPER))
        .unwrap();
    assert_eq!(checked.return_offsets, [5, 11]);
}

#[test]
fn calls_in_stubs_at_the_end_and_out_of_reach_make_none() {
    let code = asm!(at STUB; call extern HELPER; jmp extern END);
    assert_eq!(any_reg().check_stub(&code).unwrap().return_offsets, []);
    let mut last = nops(LEN - 5);
    last.extend(asm!(at END - 5; call extern HELPER));
    assert_eq!(any_reg().check(&last).unwrap().return_offsets, []);
    let unreached = any_reg()
        .check(&asm!(jmp extern END; call extern HELPER))
        .unwrap();
    assert_eq!(unreached.return_offsets, []);
}

#[test]
fn a_sequence_with_calls_can_follow_one_with_calls() {
    // Both end in a call whose return address is the end, or in nops.
    let first = asm!(mov r11, QWORD HELPER as i64; call r11);
    assert_eq!(any_reg().check(&first).unwrap().return_offsets, [13]);
    any_reg().return_offsets(&[13]).check(&first).unwrap();
}
