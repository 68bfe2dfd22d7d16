use super::*;

#[test]
fn a_landing_is_followed_by_nops_only() {
    let case = || any_reg().landings(&[5]);
    case().check(&asm!(mov r11, rdi; nop; nop)).unwrap();
    let result = case().check(&asm!(mov r11, rdi; nop; nop; mov r11, rdi));
    refused!(result.clone(), LandingTail);
    is(
        &result.unwrap_err(),
        &[
            "return to byte 5 of the site",
            "`mov r11, rdi` at byte 5 of the site",
        ],
    );
    refused!(
        case().check(&asm!(mov r11, rdi; nop; nop; jmp extern END)),
        LandingTail
    );
    refused!(
        case().check(&asm!(mov r11, rdi; nop; nop; nop; nop; test edi, edi)),
        LandingTail
    );
}

#[test]
fn a_landing_is_a_boundary() {
    let result = any_reg().landings(&[5]).check(&asm!(mov r11, QWORD 1));
    refused!(result.clone(), Landing);
    is(&result.unwrap_err(), &["return to byte 5"]);
    any_reg().landings(&[10]).check(&asm!(mov r11, QWORD 1)).unwrap();
}

#[test]
fn every_landing_counts() {
    any_reg().landings(&[5, 10]).check(&asm!(mov r11, rdi)).unwrap();
    refused!(
        any_reg()
            .landings(&[11, 12])
            .check(&asm!(mov r11, QWORD 1; test rdi, rdi)),
        Landing
    );
    let tail = asm!(jmp extern END; nop; nop; nop; nop; nop; test rdi, rdi);
    refused!(any_reg().landings(&[30, 5]).check(&tail), LandingTail);
}

#[test]
fn a_landing_outside_the_site_is_refused() {
    refused!(any_reg().landings(&[LEN]).check(&[]), Landing);
    refused!(any_reg().landings(&[LEN + 100]).check(&[]), Landing);
    refused!(any_reg().landings(&[u32::MAX]).check(&[]), Landing);
}

#[test]
fn a_landing_beyond_the_site_is_not_looked_up_in_a_stub() {
    let code = asm!(at END; nop; jmp extern END);
    let case = any_reg().landings(&[LEN]);
    refused!(case.check_with(&[], &[stub(END, &code)]), Landing);
}

#[test]
fn a_shadow_into_which_a_call_returns_is_refused() {
    refused!(
        shadow().landings(&[8]).check(&asm!(jmp extern RAMP)),
        ShadowLanding
    );
    let marked = Case::new(CallShape::marked(LEN), None);
    refused!(marked.landings(&[8]).check(&asm!(jmp extern RAMP)), ShadowLanding);
}

#[test]
fn calls_of_the_sequence_make_landings() {
    let checked = any_reg()
        .check(&asm!(call extern HELPER; nop; call extern HELPER))
        .unwrap();
    assert_eq!(checked.landings, [5, 11]);
}

#[test]
fn calls_in_stubs_at_the_end_and_out_of_reach_make_none() {
    let code = asm!(at STUB; call extern HELPER; jmp extern END);
    assert_eq!(any_reg().check_stub(&code).unwrap().landings, []);
    let mut last = nops(LEN - 5);
    last.extend(asm!(at END - 5; call extern HELPER));
    assert_eq!(any_reg().check(&last).unwrap().landings, []);
    let unreached = any_reg()
        .check(&asm!(jmp extern END; call extern HELPER))
        .unwrap();
    assert_eq!(unreached.landings, []);
}

#[test]
fn a_sequence_with_calls_can_follow_one_with_calls() {
    // Both end in a call whose return address is the end, or in nops.
    let first = asm!(mov r11, QWORD HELPER as i64; call r11);
    assert_eq!(any_reg().check(&first).unwrap().landings, [13]);
    any_reg().landings(&[13]).check(&first).unwrap();
}
