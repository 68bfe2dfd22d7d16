//! The decoder against LLVM's assembler, LLVM's calls, and the rules on code of RISC-V.

use alloc::string::String;
use alloc::vec::Vec;

use llvm_stackmaps::Record;
use llvm_stackmaps::addr::CodeAddr;
use llvm_stackmaps::testing::{record, reg as in_reg};
use patchpoint_isa::{
    Arch, CallShape, Convention, Declared, DeclaredTarget, OnReturn, SiteContext, SiteKind,
};

use super::*;
use crate::facts::DecodedCode;
use crate::{Checked, Error, Original, Result, check, check_exchange, original};

/// What LLVM's assembler makes of each text.
const ENCODINGS: &str = include_str!("../../encodings/riscv64.txt");
const NOP: u32 = 0x13;

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn unhex(hex: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// LLVM's text with our names of registers, and addresses in place of distances.
fn expected(text: &str) -> String {
    let (name, operands) = text.split_once(' ').unwrap_or((text, ""));
    let split = |operand: &str| {
        let mut out = String::new();
        for token in operand.split_inclusive(['(', ')', ' ', ',']) {
            let end = token.len() - usize::from(token.ends_with(['(', ')', ' ', ',']));
            let (token, separator) = token.split_at(end);
            let number = |prefix| {
                token
                    .strip_prefix(prefix)
                    .and_then(|n: &str| n.parse::<usize>().ok())
            };
            match (number('x'), number('f')) {
                (Some(n), _) => out.push_str(NAMES[n]),
                (_, Some(n)) => out.push_str(NAMES[32 + n]),
                _ => out.push_str(token),
            }
            out.push_str(separator);
        }
        out
    };
    alloc::format!("{name} {}", split(operands)).trim_end().into()
}

#[test]
fn every_encoding_of_the_assembler_is_decoded() {
    let (mut count, mut compared) = (0, 0);
    for (text, hex) in ENCODINGS.lines().filter_map(|line| line.split_once('\t')) {
        let code = unhex(hex);
        let mut facts = DecodedCode::new();
        decode::all(0x1000, &code, &mut facts).unwrap();
        assert_eq!(facts.len(), 1, "{text}");
        assert_eq!(
            facts[0].refused.is_some(),
            text.starts_with("jalr") && !text.starts_with("jalr x0") && !text.starts_with("jalr x1,"),
            "{text}"
        );
        let mut ours = String::new();
        assert_eq!((ISA.text)(0, &code, &mut ours), Some(code.len()));
        count += 1;
        let same_notation = [
            "addi", "andi", "s", "l", "f", "amo", "add ", "and ", "nop", "c.nop", "unimp", "jalr",
        ];
        let aliases = ["sext.w", "fmv.d f", "lui", "ret"];
        let starts = |all: &[&str]| all.iter().any(|start| text.starts_with(start));
        if starts(&same_notation) && !starts(&aliases) && text != "addi x0, x0, 0" {
            compared += 1;
            assert_eq!(ours, expected(text));
        }
    }
    assert!(count > 5000 && compared > 4500, "{count} {compared}");
}

#[test]
fn branches_have_the_targets_that_llvm_says() {
    for (text, hex) in ENCODINGS.lines().filter_map(|line| line.split_once('\t')) {
        let is_branch = text.starts_with('b') || text.starts_with("jal ");
        let Some(distance) = text
            .rsplit(", ")
            .next()
            .and_then(|d| d.parse::<i64>().ok())
            .filter(|_| is_branch)
        else {
            continue;
        };
        let mut facts = DecodedCode::new();
        decode::all(0x4000_0000, &unhex(hex), &mut facts).unwrap();
        let to = Dest::Address(0x4000_0000u64.wrapping_add_signed(distance));
        let expected = match text {
            _ if text.starts_with("jal x0") => Flow::Jump(to),
            _ if text.starts_with("jal") => Flow::Call(to),
            _ => Flow::Branch(to),
        };
        assert_eq!(facts[0].flow, expected, "{text}");
    }
}

#[test]
fn llvms_calls_are_recognized() {
    // What llc 19 emits for targets of different lengths, then nops.
    let calls: [(&[u32], u64); 3] = [
        (&[0xfff0_0093, 0x0100_d093, 0x0000_80e7, NOP], 0xffff_ffff_ffff),
        (&[0x1234_50b7, 0x6780_809b, 0x0000_80e7], 0x1234_5678),
        (
            &[0x0010_0093, 0x0210_9093, 0x0010_8093, 0x0000_80e7],
            (1 << 33) + 1,
        ),
    ];
    for (code, target) in calls {
        let found = original(Arch::RiscV64, CodeAddr::new(0x1000), &bytes(code)).unwrap();
        let nops = code.iter().filter(|word| **word == NOP).count();
        let returns_at = 4 * (code.len() - nops) as u32;
        assert_eq!(
            found,
            Original::LlvmCall {
                target: CodeAddr::new(target),
                returns_at
            }
        );
    }
    // c.slli ra, 12; c.addi ra, -1; c.jalr ra; c.nop, behind c.li ra, 5.
    let short = [0x4095u16, 0x00b2, 0x10fd, 0x9082, 0x0001];
    let short: Vec<u8> = short.iter().flat_map(|half| half.to_le_bytes()).collect();
    let found = original(Arch::RiscV64, CodeAddr::new(0x1002), &short).unwrap();
    let target = CodeAddr::new((5 << 12) - 1);
    assert_eq!(
        found,
        Original::LlvmCall {
            target,
            returns_at: 8
        }
    );
    let nops = original(Arch::RiscV64, CodeAddr::new(0x1002), &[1, 0, 0x13, 0, 0, 0]).unwrap();
    assert_eq!(nops, Original::Nops);
    for other in [
        [NOP, 0x0000_80e7],
        [0x0000_0097, 0x0000_80e7],
        [0x0010_0113, 0x0000_80e7],
    ] {
        let found = original(Arch::RiscV64, CodeAddr::new(0x1000), &bytes(&other)).unwrap();
        assert!(matches!(found, Original::Instructions { .. }), "{found:?}");
    }
}

#[test]
fn what_does_not_decode() {
    let fault = |code: &[u8]| {
        decode::all(0x1000, code, &mut DecodedCode::new()).map_err(|fault| (fault.addr, fault.cut_off))
    };
    assert_eq!(fault(&[0x13, 0, 0]), Err((0x1000, true)));
    assert_eq!(fault(&[1, 0, 0x13]), Err((0x1002, true)));
    assert_eq!(fault(&[0, 0]), Err((0x1000, false)));
    // 6 bytes and more.
    assert_eq!(fault(&[0x1f, 0, 0, 0, 0, 0]), Err((0x1000, false)));
    assert!(decode::all(0x1001, &[1, 0], &mut DecodedCode::new()).is_err());
}

/// A site at 0x1000.
fn site(shape: CallShape, record: Option<Record<'static>>) -> SiteContext<'static> {
    SiteContext {
        arch: Arch::RiscV64,
        id: Default::default(),
        function: None,
        offset: Default::default(),
        addr: CodeAddr::new(0x1000),
        shape,
        record,
        constants: llvm_stackmaps::Constants::NONE,
        return_offsets: &[],
        trust_live_outs: false,
    }
}

fn anyreg() -> SiteContext<'static> {
    let record = record(1).location(in_reg(9, 8)).location(in_reg(10, 8)).leak();
    site(CallShape::any_reg(8).result().args(1), Some(record))
}

fn c(trusted: bool, live_out: Option<u16>) -> SiteContext<'static> {
    let mut spec = record(1).location(in_reg(18, 8));
    if let Some(reg) = live_out {
        spec = spec.live_out(reg, 8);
    }
    SiteContext {
        trust_live_outs: trusted,
        ..site(CallShape::c(12).result().args(1), Some(spec.leak()))
    }
}

fn checked(site: &SiteContext<'_>, code: &[u32], on_return: OnReturn) -> Result<Checked> {
    let declared = Declared {
        targets: alloc::vec![DeclaredTarget {
            addr: CodeAddr::new(0x2000),
            on_return
        }],
        outputs: match (site.shape.kind(), site.shape.convention()) {
            (SiteKind::Shadow | SiteKind::Entry | SiteKind::Marked | SiteKind::Call, _) => RegSet::EMPTY,
            (SiteKind::Patchpoint | SiteKind::Told, Convention::AnyReg) => RegSet::of(&[reg(9)]),
            (SiteKind::Patchpoint | SiteKind::Told, Convention::C) => RegSet::of(&[reg(10)]),
        },
        vouched: Vec::new(),
    };
    check(site, &bytes(code), &[], &declared)
}

macro_rules! refused {
    ($result:expr, $variant:ident) => {{
        let result = $result;
        assert!(matches!(result, Err(Error::$variant { .. })), "{result:?}");
    }};
}

/// `ld s1, 8(a0)` and so on: the same instruction with another destination.
const fn load(rd: u32) -> u32 {
    0x0085_3003 | rd << 7
}

#[test]
fn registers() {
    let any = OnReturn::PreservesAll;
    // t0, and the result s1.
    checked(&anyreg(), &[load(5), load(9)], any).unwrap();
    // a0 is recorded; s2 is the caller's; gp is the platform's; ra may be live.
    for rd in [10, 18, 3, 1] {
        refused!(checked(&anyreg(), &[load(rd), NOP], any), Clobber);
    }
    let shadow = site(CallShape::shadow(8), Some(record(1).leak()));
    refused!(checked(&shadow, &[load(5), 0x0ff0_006f + 0x1000], any), Clobber);
}

/// The result is s1, an argument is in a0; t0 and s2 are free.
#[test]
fn told_registers() {
    let record = record(1).location(in_reg(9, 8)).location(in_reg(10, 8));
    let told = |free: &[u16]| {
        let free = free.iter().map(|number| reg(*number)).collect();
        let shape = CallShape::told(Convention::AnyReg, 8).result().args(1);
        site(shape.free(free), Some(record.clone().leak()))
    };
    let any = OnReturn::PreservesAll;
    checked(&told(&[5, 18]), &[load(5), load(18)], any).unwrap();
    checked(&told(&[]), &[load(9), NOP], any).unwrap();
    for (free, rd) in [(&[][..], 5), (&[5], 18), (&[5, 10], 10), (&[5], 3)] {
        refused!(checked(&told(free), &[load(rd), NOP], any), Clobber);
    }
    let without = site(CallShape::told(Convention::AnyReg, 8), None);
    refused!(checked(&without, &[NOP, NOP], any), NoRecord);
    // Two stores below the stack pointer are no call; a call needs to be said.
    refused!(checked(&told(&[1, 5]), &[CALL, NOP], any), StackNotFree);
}

/// `jal ra, 0x2000` at 0x1000.
const CALL: u32 = 0x0000_10ef;

#[test]
fn calls_lose_ra_and_are_refused_unless_it_is_known_to_be_dead() {
    let call = [CALL, NOP, NOP];
    refused!(checked(&c(false, None), &call, OnReturn::FollowsC), Clobber);
    refused!(checked(&c(false, Some(9)), &call, OnReturn::FollowsC), Clobber);
    refused!(checked(&c(true, Some(1)), &call, OnReturn::FollowsC), Clobber);
    let done = checked(&c(true, Some(9)), &call, OnReturn::FollowsC).unwrap();
    assert_eq!(done.return_offsets, [4]);
    // lui ra, 2; jalr ra, 0(ra): the target is read before the link is written.
    let far = [0x0000_20b7, 0x0000_80e7, NOP];
    checked(&c(true, Some(9)), &far, OnReturn::FollowsC).unwrap();
    let wrong = [0x0000_30b7, 0x0000_80e7, NOP];
    refused!(checked(&c(true, Some(9)), &wrong, OnReturn::FollowsC), Undeclared);
    let unknown = [NOP, 0x0000_80e7, NOP];
    refused!(checked(&c(true, Some(9)), &unknown, OnReturn::FollowsC), Indirect);
}

#[test]
fn stack_and_what_is_not_known() {
    let any = OnReturn::PreservesAll;
    // addi sp, sp, -16; addi sp, sp, 16.
    checked(&anyreg(), &[0xff01_0113, 0x0101_0113], any).unwrap();
    refused!(checked(&anyreg(), &[0xff01_0113, NOP], any), StackExit);
    refused!(checked(&anyreg(), &[0x0101_0113, 0xff01_0113], any), StackPopped);
    // mv sp, a0.
    refused!(checked(&anyreg(), &[0x0005_0113, NOP], any), StackLost);
    // ecall; fence; fadd.d; csrr; ret; compressed.
    for word in [0x0000_0073, 0x0ff0_000f, 0x0200_7053, 0x0000_22f3] {
        refused!(checked(&anyreg(), &[word, NOP], any), Refused);
    }
    refused!(checked(&anyreg(), &[0x0000_8067, NOP], any), Return);
    refused!(checked(&anyreg(), &[0x8522_8522, NOP], any), Refused);
}

#[test]
fn heads_that_may_be_exchanged() {
    let allowed = |addr: u64, old: &[u32], new: &[u32]| {
        let site = SiteContext {
            addr: CodeAddr::new(addr),
            ..anyreg()
        };
        check_exchange(&site, &bytes(old), &bytes(new)).is_ok()
    };
    let (jump, other, call, load) = (0x0100_006f, 0x0200_006f, CALL, load(5));
    for (old, new) in [(NOP, jump), (jump, NOP), (jump, other)] {
        assert!(allowed(0x1000, &[old, NOP], &[new, NOP]));
        assert!(allowed(0x1004, &[old, NOP], &[new, NOP]));
        assert!(
            !allowed(0x1002, &[old, NOP], &[new, NOP]),
            "not at a multiple of 4"
        );
    }
    for (old, new) in [(NOP, call), (load, jump), (jump, load)] {
        assert!(!allowed(0x1000, &[old, NOP], &[new, NOP]));
    }
    assert!(!allowed(0x1000, &[NOP, NOP], &[jump, jump]));
    // Two compressed nops are not one instruction.
    assert!(!allowed(0x1000, &[0x0001_0001, NOP], &[jump, NOP]));
}
