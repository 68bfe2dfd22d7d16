use super::*;

#[test]
fn nops_are_accepted_everywhere_but_in_a_shadow() {
    for case in [any_reg(), c(), entry()] {
        let checked = case.check(&[]).unwrap();
        assert!(checked.clobbers.is_empty() && checked.return_offsets.is_empty());
    }
}

#[test]
fn every_multi_byte_nop_is_a_nop() {
    let forms: [&[u8]; 11] = [
        &[0x90],
        &[0x66, 0x90],
        &[0x0f, 0x1f, 0x00],
        &[0x0f, 0x1f, 0x40, 0x08],
        &[0x0f, 0x1f, 0x44, 0x00, 0x08],
        &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x08],
        &[0x0f, 0x1f, 0x80, 0x00, 0x02, 0, 0],
        &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0, 0],
        &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0, 0],
        &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0, 0],
        &[
            0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0, 0,
        ],
    ];
    for form in forms {
        // Behind a return offset only nops are accepted.
        any_reg().return_offsets(&[0]).check(form).unwrap();
    }
}

#[test]
fn code_shorter_or_longer_than_reserved_is_refused() {
    let case = any_reg();
    for len in [0, LEN - 1, LEN + 1] {
        let result = check(&case.site, &nops(len), &[], &case.declared);
        refused!(result.clone(), Length);
        is(
            &result.unwrap_err(),
            &["patchpoint 7 at get+0x4 (0x400000) reserves 48 bytes", "pad it"],
        );
    }
    check(&case.site, &nops(LEN), &[], &case.declared).unwrap();
}

#[test]
fn a_site_without_bytes_is_refused() {
    let mut case = any_reg();
    case.site.shape = CallShape::any_reg(0);
    refused!(check(&case.site, &[], &[], &case.declared), Length);
}

#[test]
fn bytes_that_are_no_instruction_are_refused() {
    // 06 was push es.
    let result = any_reg().check(&[0x90, 0x06]);
    refused!(result.clone(), Undecodable);
    is(&result.unwrap_err(), &["byte 1 of the site", "(bad)"]);
}

#[test]
fn bytes_that_are_no_instruction_are_refused_behind_a_jump_too() {
    let mut code = asm!(jmp extern END);
    code.push(0x06);
    refused!(any_reg().check(&code), Undecodable);
}

#[test]
fn an_instruction_cut_off_by_the_end_is_refused() {
    let mut code = nops(LEN - 1);
    code.push(0xe9);
    refused!(any_reg().check(&code), CutOff);
}

#[test]
fn a_stub_is_decoded_like_the_site() {
    let mut code = asm!(at STUB; jmp extern END);
    any_reg().check_stub(&code).unwrap();
    code.extend([0x06, 0x90]);
    let result = any_reg().check_stub(&code);
    refused!(result.clone(), Undecodable);
    is(&result.unwrap_err(), &["byte 5 of stub 0 (0x410005)"]);
    code.truncate(5);
    code.push(0xe9);
    refused!(any_reg().check_stub(&code), CutOff);
}

#[test]
fn stubs_that_overlap_the_site_or_each_other_are_refused() {
    let code = asm!(at STUB; jmp extern END);
    let case = any_reg();
    let with = |a, b| case.check_with(&[], &[stub(a, &code), stub(b, &code)]);
    with(STUB, STUB + code.len()).unwrap();
    with(SITE - code.len(), END).unwrap();
    refused!(with(STUB, STUB + code.len() - 1), Overlap);
    refused!(with(STUB, END - 1), Overlap);
    refused!(with(STUB, SITE + 1 - code.len()), Overlap);
}

#[test]
fn code_that_wraps_around_the_address_space_is_refused() {
    let code = asm!(at STUB; jmp extern END);
    refused!(any_reg().check_with(&[], &[stub(usize::MAX - 3, &code)]), Overlap);
    let mut case = any_reg();
    case.site.addr = CodeAddr::new(u64::MAX - 3);
    refused!(case.check(&[]), Overlap);
}
