use super::patchable_jumps::ALL;
use super::*;
use crate::facts::DecodedCode;
use crate::{Original, disassemble, original, prepare_decoder};

fn at_site(bytes: &[u8]) -> Result<Original> {
    original(Arch::X86_64, CodeAddr::new(SITE as u64), bytes)
}

/// Every decoder knows its architecture's trap.
#[test]
fn decoders_are_prepared() {
    ALL.into_iter().for_each(prepare_decoder);
}

#[test]
fn nops_of_any_form_are_nops() {
    assert_eq!(at_site(&nops(5)), Ok(Original::Nops));
    let long = [
        0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0, 0x66, 0x90,
    ];
    assert_eq!(at_site(&long), Ok(Original::Nops));
}

/// Of bytes that nops consist of, those that are nops without being decoded are nops when they are.
#[test]
fn what_is_not_decoded_is_nops() {
    const BYTES: [u8; 12] = [
        0x66, 0x2e, 0x90, 0x0f, 0x1f, 0x00, 0x40, 0x44, 0x80, 0x84, 0xf3, 0x7f,
    ];
    let (mut state, mut found) = (0x9e37_79b9_7f4a_7c15_u64, 0);
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as usize % below
    };
    for _ in 0..300_000 {
        let len = 1 + random(9);
        let bytes: Vec<u8> = (0..len).map(|_| BYTES[random(BYTES.len())]).collect();
        let bytes = [&[0x66].repeat(random(9)), &bytes[..]].concat();
        if crate::nops::are_nops(Arch::X86_64, &bytes) {
            let mut code = DecodedCode::new();
            let decoded = (crate::dispatch::isa(Arch::X86_64).decode)(SITE as u64, &bytes, &mut code);
            assert!(
                decoded.is_ok() && code.iter().all(|facts| facts.nop),
                "{bytes:02x?}"
            );
            found += 1;
        }
    }
    assert!(found > 1000, "{found}");
}

/// As llc 14 and 19 fill a patchpoint: the longest nop of their default tuning.
const LONG_NOP: [u8; 10] = [0x2e, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00];

#[test]
fn what_llc_emits_for_patchpoints_is_recognised() {
    let empty = [&LONG_NOP[..], &LONG_NOP, &LONG_NOP, &[0x66, 0x90]].concat();
    assert_eq!(at_site(&empty), Ok(Original::Nops));
    let call = [
        0x49, 0xbb, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 0x41, 0xff, 0xd3,
    ];
    let full = [&call[..], &LONG_NOP, &[0x90]].concat();
    let expected = Original::LlvmCall {
        target: CodeAddr::new(0x0123_4567_89ab_cdef),
        returns_at: 13,
    };
    assert_eq!(at_site(&full), Ok(expected.clone()));
    assert_eq!(at_site(&call), Ok(expected));
    // A reserved length one byte too short or too long for the function it is in.
    refused!(at_site(&call[..12]), Original);
    let beyond = [&call[..], &[0x5b]].concat();
    assert!(matches!(at_site(&beyond), Ok(Original::Instructions { .. })));
}

#[test]
fn the_call_that_llvm_emits_is_recognised() {
    let mut code = asm!(mov r11, QWORD 0x1234_5678_9abc; call r11);
    for _ in 0..3 {
        let call = Original::LlvmCall {
            target: CodeAddr::new(0x1234_5678_9abc),
            returns_at: 13,
        };
        assert_eq!(at_site(&code), Ok(call));
        code.push(0x90);
    }
}

#[test]
fn what_only_resembles_the_call_is_not_it() {
    let codes = [
        asm!(mov r10, QWORD 0x1234_5678_9abc; call r10; nop),
        asm!(mov r11, QWORD 0x1234_5678_9abc; call r10; nop),
        asm!(mov r11, QWORD 0x1234_5678_9abc; nop; call r11; nop),
        asm!(mov r11, QWORD 0x1234_5678_9abc; call r11; mov r11, r11; nop),
        asm!(nop; mov r11, QWORD 0x1234_5678_9abc; call r11; nop),
    ];
    for code in codes {
        let calls = code.len() as u32 - 1;
        match at_site(&code).unwrap() {
            Original::Instructions { calls: found } => {
                assert!(found == [calls] || found == [13], "{code:x?} {found:?}");
            }
            other => panic!("{code:x?} {other:?}"),
        }
    }
}

#[test]
fn instructions_tell_where_calls_return() {
    let code = asm!(push rbp; mov rbp, rsp; call extern EXIT_STUB; call rax; call QWORD [rax]; ret; call rax);
    assert_eq!(
        at_site(&code),
        Ok(Original::Instructions {
            calls: [9, 11, 13].to_vec()
        })
    );
    assert_eq!(
        at_site(&asm!(jmp rax)),
        Ok(Original::Instructions { calls: Vec::new() })
    );
    // Instructions that no sequence may contain do occur in functions.
    assert_eq!(at_site(&asm!(syscall; hlt; fld1)).map(|_| ()), Ok(()));
}

#[test]
fn an_instruction_across_the_end_is_refused() {
    let code = asm!(push rbp; mov rbp, rsp; mov eax, 1);
    at_site(&code).unwrap();
    for len in 5..code.len() {
        let result = at_site(&code[..len]);
        refused!(result.clone(), Original);
        is(
            &result.unwrap_err(),
            &["at byte 4", "cut off by the end", "reserved length"],
        );
    }
}

#[test]
fn bytes_that_are_no_instruction_are_refused_with_their_place() {
    let result = at_site(&[0x90, 0x90, 0x06, 0x90]);
    refused!(result.clone(), Original);
    is(&result.unwrap_err(), &["at byte 2", "does not decode"]);
    refused!(
        original(Arch::X86_64, CodeAddr::new(u64::MAX - 1), &nops(4)),
        Original
    );
}

#[test]
fn disassembly_covers_every_byte() {
    let mut code = asm!(mov r11, QWORD EXIT_STUB as i64; jmp >l; l: ; mov eax, [rdi + 16]);
    code.extend([0x06, 0x90, 0xe9]);
    let lines = disassemble(Arch::X86_64, CodeAddr::new(SITE as u64), &code);
    let text: Vec<_> = lines.iter().map(|l| l.text.as_str()).collect();
    let expected = [
        "mov r11, 0x500000",
        "jmp 0x40000f",
        "mov eax, [rdi+0x10]",
        "(bad)",
        "nop",
        "(bad)",
    ];
    assert_eq!(text, expected);
    assert_eq!(
        lines.iter().flat_map(|l| l.bytes.clone()).collect::<Vec<_>>(),
        code
    );
    let mut next = SITE as u64;
    for line in &lines {
        assert_eq!((line.addr.get(), line.len.as_usize()), (next, line.bytes.len()));
        next += u64::from(line.len.get());
    }
}

#[test]
fn disassembly_of_what_does_not_decode_lists_bytes() {
    let lines = disassemble(Arch::SystemZ, CodeAddr::new(u64::MAX), &[0, 0]);
    assert!(lines.iter().all(|l| l.text == "(bad)"));
    assert_eq!(lines.len(), 2);
}
