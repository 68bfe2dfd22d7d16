//! The decoder against LLVM's assembler, and the rules on sequences that must be refused beside
//! neighbours that must be accepted.

mod rules;

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use std::collections::BTreeMap;

use llvm_stackmaps::addr::CodeAddr;
use patchpoint_isa::Arch;

use super::*;
use crate::facts::Facts;
use crate::{Original, original, patchpoint_prefix};

/// What LLVM's assembler makes of each text.
const ENCODINGS: &str = include_str!("../../encodings/aarch64.txt");

pub(super) const NOP: u32 = 0xd503_201f;

pub(super) fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn one(word: u32) -> Facts {
    let mut code = DecodedCode::new();
    decode(0x1000, &bytes(&[word]), &mut code).unwrap();
    code[0]
}

fn text_of(addr: u64, word: u32) -> String {
    let mut out = String::new();
    assert_eq!(text(addr, &bytes(&[word]), &mut out), Some(4));
    out
}

/// A text with its numbers in one notation, and without what says nothing.
fn normal(text: &str) -> String {
    let mut out = String::new();
    for token in text.replace(", lsl #0", "").split_inclusive([' ', ',', ']']) {
        let end = token.len() - usize::from(token.ends_with([' ', ',', ']']));
        let (token, separator) = token.split_at(end);
        let number = token.strip_prefix('#').unwrap_or(token);
        let parsed = match number.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => number.parse::<i64>().map(|n| n as u64).ok(),
        };
        match parsed {
            Some(value) => out.push_str(&alloc::format!("{value:#x}{separator}")),
            None => out.push_str(&alloc::format!("{token}{separator}")),
        }
    }
    out.replace(", 0x0]", "]")
}

#[test]
fn every_encoding_of_the_assembler_is_decoded_as_llvm_wrote_it() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (text, hex) in ENCODINGS.lines().filter_map(|line| line.split_once('\t')) {
        let word = u32::from_str_radix(hex, 16).unwrap().swap_bytes();
        let ours = text_of(0, word);
        count += 1;
        // The same word is also a shift to the right by 0.
        let ambiguous = text.starts_with("lsl") && text.ends_with("#0");
        if normal(&ours) != normal(text) && !ambiguous {
            wrong.push((text.to_string(), ours));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count}: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(20)]
    );
    assert!(count > 9000);
}

#[test]
fn what_the_assembler_emits_is_never_refused() {
    for (text, hex) in ENCODINGS.lines().filter_map(|line| line.split_once('\t')) {
        // These move the stack pointer.
        if text.starts_with("add sp") || text.starts_with("sub sp") {
            continue;
        }
        let word = u32::from_str_radix(hex, 16).unwrap().swap_bytes();
        assert_eq!(one(word).refused, None, "{text}");
    }
}

fn writes(word: u32) -> Vec<u16> {
    one(word).writes.iter().map(DwarfReg::get).collect()
}

#[test]
fn destinations_are_found() {
    let expected: [(u32, &[u16]); 22] = [
        (0xd280_0010, &[16]),     // movz x16, #0
        (0xd280_001f, &[]),       // movz xzr, #0
        (0x9100_03e3, &[3]),      // add x3, sp, #0
        (0xab02_0023, &[3]),      // adds x3, x1, x2
        (0xf100_043f, &[]),       // cmp x1, #1
        (0xaa02_03e1, &[1]),      // mov x1, x2
        (0x9240_0041, &[1]),      // and x1, x2, #1
        (0xf240_005f, &[]),       // tst x2, #1
        (0xd341_fc20, &[0]),      // lsr x0, x1, #1
        (0xf940_0441, &[1]),      // ldr x1, [x2, #8]
        (0xf900_0441, &[]),       // str x1, [x2, #8]
        (0xf840_8c41, &[1, 2]),   // ldr x1, [x2, #8]!
        (0xf800_8441, &[2]),      // str x1, [x2], #8
        (0xa940_0861, &[1, 2]),   // ldp x1, x2, [x3]
        (0xad40_0861, &[65, 66]), // ldp q1, q2, [x3]
        (0x5800_0041, &[1]),      // ldr x1, 8
        (0x5c00_0041, &[65]),     // ldr d1, 8
        (0xc85f_fc41, &[1]),      // ldaxr x1, [x2]
        (0xc803_fc41, &[3]),      // stlxr w3, x1, [x2]
        (0x9e67_0025, &[69]),     // fmov d5, x1
        (0x9e66_00a1, &[1]),      // fmov x1, d5
        (0x9400_0001, &[30]),     // bl 4
    ];
    for (word, regs) in expected {
        assert_eq!(writes(word), regs, "{}", text_of(0, word));
    }
}

#[test]
fn control_goes_where_branches_say() {
    use crate::facts::{Dest, Flow};
    let at = |to| Dest::Address(to);
    let expected = [
        (0x1400_0001, Flow::Jump(at(0x1004))),
        (0x17ff_ffff, Flow::Jump(at(0x0ffc))),
        (0x9400_0002, Flow::Call(at(0x1008))),
        (0x5400_0040, Flow::Branch(at(0x1008))),
        (0x54ff_ffe1, Flow::Branch(at(0x0ffc))),
        (0xb400_0045, Flow::Branch(at(0x1008))),
        (0x3707_ffe0, Flow::Branch(at(0x0ffc))),
        (0xd61f_0200, Flow::Jump(Dest::Register(DwarfReg::new(16)))),
        (0xd63f_0200, Flow::Call(Dest::Register(DwarfReg::new(16)))),
        (0xd65f_03c0, Flow::Return { plain: true }),
        (0xd65f_0200, Flow::Return { plain: false }),
        (0x0000_0000, Flow::Trap),
        (0xd420_0000, Flow::Next),
        // braaz x16, blraaz x16, retaa
        (0xd61f_0a1f, Flow::Jump(Dest::Unknown)),
        (0xd63f_0a1f, Flow::Call(Dest::Unknown)),
        (0xd65f_0bff, Flow::Return { plain: false }),
    ];
    for (word, flow) in expected {
        assert_eq!(one(word).flow, flow, "{}", text_of(0x1000, word));
    }
}

#[test]
fn what_is_unknown_or_changes_the_system_is_refused() {
    let refused = [
        0xd400_0001, // svc #0
        0xd440_0000, // hlt #0
        0xd503_233f, // paciasp
        0xd503_205f, // wfe
        0xd51b_4200, // msr nzcv, x0
        0xd53b_4200, // mrs x0, nzcv
        0xd61f_0a1f, // braaz x16
        0x04a0_0000, // SVE
        0x4ea1_8400, // add v0.4s, v0.4s, v1.4s
        0xffff_ffff,
        0x9100_23ff, // add sp, sp, #8
        0xf840_8c42, // ldr x2, [x2, #8]!
        0xf800_8442, // str x2, [x2], #8
        0xa940_0461, // ldp x1, x1, [x3]
        0xc801_fc41, // stlxr w1, x1, [x2]
        0xc802_fc41, // stlxr w2, x1, [x2]
        0xf800_8fe0, // str x0, [sp, #8]!
    ];
    for word in refused {
        assert!(one(word).refused.is_some(), "{}", text_of(0, word));
    }
    for word in [
        NOP,
        0xd503_245f,
        0xd503_203f,
        0xd503_3bbf,
        0xd503_3fdf,
        0x9100_43ff,
    ] {
        assert_eq!(one(word).refused, None, "{}", text_of(0, word));
    }
}

#[test]
fn instructions_are_at_multiples_of_four_and_have_four_bytes() {
    let mut code = DecodedCode::new();
    let misaligned = decode(0x1002, &bytes(&[NOP]), &mut code);
    assert_eq!(
        misaligned,
        Err(Undecodable {
            addr: 0x1002,
            cut_off: false
        })
    );
    let cut_off = decode(0x1000, &bytes(&[NOP, NOP])[..6], &mut code);
    assert_eq!(
        cut_off,
        Err(Undecodable {
            addr: 0x1004,
            cut_off: true
        })
    );
}

#[test]
fn llvms_call_is_found() {
    // As llc 14 and 19 emit it for 0x1234_5678_9abc.
    let call = [0xd2c2_4690, 0xf2aa_cf10, 0xf293_5790, 0xd63f_0200];
    let site = bytes(&[&call[..], &[NOP, NOP]].concat());
    let expected = Original::LlvmCall {
        target: CodeAddr::new(0x1234_5678_9abc),
        returns_at: 16,
    };
    let addr = CodeAddr::new(0x1000);
    assert_eq!(original(Arch::AArch64, addr, &site), Ok(expected));
    let more = [&site[..], &bytes(&[0xd65f_03c0])].concat();
    let prefix = patchpoint_prefix(Arch::AArch64, addr, &more);
    assert_eq!(prefix.get(), 24);
    // Another register, another order, a part less, another branch.
    let neighbours = [
        [0xd2c2_4691, 0xf2aa_cf11, 0xf293_5791, 0xd63f_0220],
        [0xd293_5790, 0xf2aa_cf10, 0xf2c2_4690, 0xd63f_0200],
        [0xd2aa_cf10, 0xf293_5790, 0xd63f_0200, NOP],
        [0xd2c2_4690, 0xf2aa_cf10, 0xf293_5790, 0xd61f_0200],
        [0xd2c2_4690, 0xd2aa_cf10, 0xf293_5790, 0xd63f_0200],
        [0x92c2_4690, 0xf2aa_cf10, 0xf293_5790, 0xd63f_0200],
    ];
    for words in neighbours {
        let found = original(Arch::AArch64, addr, &bytes(&words)).unwrap();
        assert!(matches!(found, Original::Instructions { .. }), "{words:x?}");
    }
    assert_eq!(
        original(Arch::AArch64, addr, &bytes(&[NOP; 5])),
        Ok(Original::Nops)
    );
}

#[test]
fn calls_in_original_code_are_return_offsets() {
    let words = [0xa9bf_7bfd, 0x9400_0010, 0xd63f_0100, 0xd63f_0a1f, NOP];
    let found = original(Arch::AArch64, CodeAddr::new(0x1000), &bytes(&words));
    assert_eq!(
        found,
        Ok(Original::Instructions {
            calls: vec![8, 12, 16]
        })
    );
}

#[test]
fn only_branches_traps_and_nops_are_exchanged() {
    let may = [
        NOP,
        0x1400_0001,
        0x17ff_fffe,
        0x9400_0007,
        0xd420_0000,
        0xd43f_ffe0,
    ];
    let may_not = [
        0x5400_0000, // b.eq
        0xb400_0000, // cbz
        0x3600_0000, // tbz
        0xd61f_0200, // br
        0xd65f_03c0, // ret
        0xd280_0000, // movz
        0xf940_0000, // ldr
        0xd503_245f, // bti c
        0x0000_0000, // udf
        0xd400_0001, // svc
    ];
    let mut pairs = BTreeMap::new();
    for (old, new) in may
        .iter()
        .chain(&may_not)
        .flat_map(|old| may.iter().chain(&may_not).map(move |new| (*old, *new)))
    {
        let (before, after) = (one(old), one(new));
        let exchange = Exchange {
            before: &before,
            after: &after,
            old: &bytes(&[old]),
            new: &bytes(&[new]),
            differing: 0x1000..=0x1003,
        };
        let allowed = super::exchange(&exchange).is_ok();
        assert_eq!(
            allowed,
            may.contains(&old) && may.contains(&new),
            "{old:x} {new:x}"
        );
        pairs.insert((old, new), allowed);
    }
    assert_eq!(pairs.len(), 256);
}
