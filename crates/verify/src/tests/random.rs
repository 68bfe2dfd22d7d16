use super::*;
use crate::{disassemble, original};

/// Numbers that look random and are the same in every run (xorshift, Marsaglia 2003).
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 32) as u8).collect()
    }
}

/// Instructions that the rules accept somewhere, so that random sequences of them reach deep.
fn fragments() -> Vec<Vec<u8>> {
    [
        asm!(nop),
        asm!(mov r11, [rdi]),
        asm!(mov eax, 1),
        asm!(push rdi),
        asm!(pop r11),
        asm!(sub rsp, 16),
        asm!(add rsp, 16),
        asm!(call extern HELPER),
        asm!(mov r11, QWORD EXIT_STUB as i64),
        asm!(jmp r11),
        asm!(test edi, edi),
        asm!(ud2),
        asm!(ret),
        [0x74, 0x05].to_vec(),
        [0x75, 0xf8].to_vec(),
        [0xeb, 0x03].to_vec(),
        [0xe3, 0x01].to_vec(),
    ]
    .to_vec()
}

fn cases() -> [Case; 5] {
    [any_reg().outputs(&[RAX]), c(), plain_c(), shadow(), entry()]
}

#[test]
fn no_bytes_make_the_checker_panic() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let cases = cases();
    for round in 0..60_000 {
        let case = &cases[round % cases.len()];
        let code = numbers.bytes(LEN as usize);
        let stub_len = (numbers.next() % 24) as usize;
        let stub_bytes = numbers.bytes(stub_len);
        let addr = match numbers.next() % 8 {
            0 => numbers.next() as usize,
            1 => SITE + (numbers.next() % 100) as usize,
            _ => STUB,
        };
        let _ = check(&case.site, &code, &[stub(addr, &stub_bytes)], &case.declared);
        let _ = original(Arch::X86_64, CodeAddr::new(numbers.next()), &code);
        if round % 16 == 0 {
            let _ = disassemble(Arch::X86_64, CodeAddr::new(numbers.next()), &code);
        }
    }
}

#[test]
fn no_order_of_instructions_makes_the_checker_panic() {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let fragments = fragments();
    let cases = cases();
    let mut accepted = 0;
    for round in 0..60_000 {
        let mut code = Vec::new();
        for _ in 0..numbers.next() % 6 {
            let pick = numbers.next() as usize % fragments.len();
            code.extend(&fragments[pick]);
        }
        code.truncate(LEN as usize);
        accepted += usize::from(cases[round % cases.len()].check(&code).is_ok());
    }
    // Otherwise the fragments test nothing.
    assert!(accepted > 1_000, "{accepted}");
}

#[test]
fn one_flipped_bit_in_each_place_is_survived() {
    let code = asm!(cmp DWORD [rdi + 8], 0x17; jne extern EXIT_STUB; mov rax, [rdi + 24]; jmp extern END);
    let mut code = [code, nops(LEN)].concat();
    code.truncate(LEN as usize);
    let case = any_reg().outputs(&[RAX]);
    check(&case.site, &code, &[], &case.declared).unwrap();
    for bit in 0..code.len() * 8 {
        let mut flipped = code.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let _ = check(&case.site, &flipped, &[], &case.declared);
    }
}
