//! The decoder against LLVM's assembler, and the rules on code of this architecture.
//!
//! Code is written in the assembler's notation and found in the list of `arch/systemz`, all bytes
//! of which are LLVM's, or in the list here, which `llvm-mc -triple=s390x-linux-gnu -mcpu=z13` has
//! assembled.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, RecordId};
use llvm_stackmaps::testing::{RecordSpec, indirect, map, record, reg as location};
use patchpoint_isa::{Arch, CallShape, Declared, DeclaredTarget, OnReturn, SiteContext};

use super::*;
use crate::{
    Checked, Chunk, Error, Original, Result, boundaries, check, check_exchange, check_trap, disassemble,
    original, patchpoint_prefix,
};

const ENCODINGS: &str = include_str!("../../encodings/systemz.txt");

/// More of what compiled code and runtimes have.
const MORE: &[(&str, &str)] = &[
    ("adbr %f1, %f2", "b31a0012"),
    ("aghi %r15, -160", "a7fbff60"),
    ("aghi %r15, 160", "a7fb00a0"),
    ("basr %r1, %r0", "0d10"),
    ("bcr 15, 0", "07f0"),
    ("bcr 8, %r14", "078e"),
    ("br %r1", "07f1"),
    ("brctg %r6, .+8", "a7670004"),
    ("cgij %r2, 5, 8, .+8", "ec280004057c"),
    ("cgrjhe %r2, %r3, .+8", "ec230004a064"),
    ("cs %r1, %r14, 1(%r1)", "ba1e1001"),
    ("dlgr %r6, %r2", "b9870062"),
    ("ex %r1, 0(%r2)", "44102000"),
    ("exrl %r1, .+16", "c61000000008"),
    ("iihf %r1, 19088743", "c01801234567"),
    ("laag %r6, %r2, 0(%r3)", "eb62300000e8"),
    ("larl %r1, .+16", "c01000000008"),
    ("larl %r1, .+4096", "c01000000800"),
    ("lay %r15, -160(%r15)", "e3f0ff60ff71"),
    ("lgr %r15, %r2", "b90400f2"),
    ("llilf %r1, 2309737966", "c01f89abcdee"),
    ("lmg %r6, %r7, 0(%r2)", "eb6720000004"),
    ("sar %a2, %r1", "b24e0021"),
    ("sfpc %r1", "b3840010"),
    ("stg %r1, -8(%r15)", "e310fff8ff24"),
    ("stg %r1, 0(%r14,%r2)", "e31e20000024"),
    ("stg %r1, 0(%r2,%r15)", "e312f0000024"),
    ("stg %r1, 152(%r15)", "e310f0980024"),
    ("stmg %r6, %r15, 48(%r15)", "eb6ff0300024"),
    ("svc 1", "0a01"),
    ("vlr %v6, %v8", "e76800000056"),
];

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]);
    digits.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// One or more instructions, separated by `; `.
fn asm(text: &str) -> Vec<u8> {
    let listed = |text: &str| {
        let theirs = ENCODINGS.lines().filter_map(|line| line.split_once('\t'));
        let all = MORE.iter().copied().chain(theirs);
        let found = all.into_iter().find(|(known, _)| *known == text);
        bytes_of(found.unwrap_or_else(|| panic!("{text} is in no list")).1)
    };
    text.split("; ").flat_map(listed).collect()
}

/// `brcl` or `brasl` at `from`, written without the decoder's help.
fn branch(op: [u8; 2], from: u64, to: u64) -> Vec<u8> {
    let halfwords = (to.wrapping_sub(from) as i64 / 2) as i32;
    [&op[..], &halfwords.to_be_bytes()].concat()
}

const JUMP: [u8; 2] = [0xc0, 0xf4];
const CALL: [u8; 2] = [0xc0, 0xe5];

fn one(bytes: &[u8]) -> Facts {
    let mut code = DecodedCode::new();
    decode(SITE, bytes, &mut code).unwrap();
    assert_eq!(code.len(), 1, "{bytes:02x?}");
    code[0]
}

fn of(text: &str) -> Facts {
    one(&asm(text))
}

fn set(registers: &[u16]) -> RegSet {
    registers.iter().map(|number| reg(*number)).collect()
}

/// What the assembler's text is here: branches have addresses as targets, and `br` is a `bcr`.
fn expected_text(text: &str, at: u64) -> String {
    let text = match text.strip_prefix("br ") {
        Some(register) => format!("bcr 15, {register}"),
        None => text.into(),
    };
    match text.split_once(", .") {
        None => text,
        Some((before, distance)) => {
            let distance = if distance.is_empty() {
                0
            } else {
                distance.parse().unwrap()
            };
            format!("{before}, {:#x}", at.wrapping_add_signed(distance))
        }
    }
}

#[test]
fn every_instruction_is_decoded_as_the_assembler_wrote_it() {
    let mut count = 0;
    for (texts, hex) in ENCODINGS.lines().filter_map(|line| line.split_once('\t')) {
        let code = bytes_of(hex);
        let (mut rest, mut at) = (&code[..], 0x10_0000_0000);
        for expected in texts.split("; ") {
            let mut found = String::new();
            let len = text(at, rest, &mut found).unwrap();
            assert_eq!(found, expected_text(expected, at), "{hex}");
            let facts = one(&rest[..len]);
            // Some of the list link or return as no sequence may.
            let odd = matches!(
                expected.split_once(' '),
                Some(("bras" | "brasl" | "basr" | "bcr", _))
            );
            assert!(odd || facts.refused.is_none(), "{expected}: {facts:?}");
            rest = &rest[len..];
            at += len as u64;
            count += 1;
        }
        assert!(rest.is_empty());
    }
    assert!(count > 5000);
}

#[test]
fn registers_have_their_names() {
    for n in 0..16u8 {
        assert_eq!(register(reg(n.into())).unwrap(), format!("r{n}"));
        assert_eq!(register(float(n)).unwrap(), format!("f{n}"));
    }
    for number in 0..=128 {
        let known = ISA.abi.known.contains(reg(number));
        assert_eq!(register(reg(number)).is_some(), known, "{number}");
        let name = patchpoint_isa::registers::register_name(Arch::SystemZ, reg(number));
        if let (true, Some(name)) = (known, name) {
            assert_eq!(register(reg(number)).unwrap(), format!("{name}"));
        }
    }
}

#[test]
fn what_is_written() {
    for (text, written) in [
        ("lgr %r2, %r13", &[2][..]),
        ("cgr %r2, %r13", &[]),
        ("ldr %f9, %f6", &[28]),
        ("ldgr %f2, %r13", &[17]),
        ("lgdr %r2, %f13", &[2]),
        ("lzdr %f3", &[21]),
        ("lmg %r6, %r7, 0(%r2)", &[6, 7]),
        ("stmg %r6, %r15, 48(%r15)", &[]),
        ("laag %r6, %r2, 0(%r3)", &[6]),
        ("cs %r1, %r14, 1(%r1)", &[1]),
        ("brctg %r6, .+8", &[6]),
        ("bras %r14, .+0", &[14]),
        ("aghi %r15, -160", &[]),
        ("nilf %r2, 0", &[2]),
        ("mvghi 1(%r1), 0", &[]),
    ] {
        assert_eq!(of(text).writes, set(written), "{text}");
    }
}

#[test]
fn where_control_goes() {
    let r1 = Dest::Register(reg(1));
    let near = |distance: i64| Dest::Address(SITE.wrapping_add_signed(distance));
    for (text, flow) in [
        ("br %r14", Flow::Return { plain: true }),
        ("br %r1", Flow::Jump(r1)),
        ("bcr 7, %r1", Flow::Branch(r1)),
        ("basr %r14, %r1", Flow::Call(r1)),
        ("brc 15, .+65534", Flow::Jump(near(65_534))),
        ("brc 4, .-65536", Flow::Branch(near(-65_536))),
        ("brcl 15, .+4294967294", Flow::Jump(near(4_294_967_294))),
        ("bras %r14, .-65536", Flow::Call(near(-65_536))),
        ("cgrjhe %r2, %r3, .+8", Flow::Branch(near(8))),
        ("cgij %r2, 5, 8, .+8", Flow::Branch(near(8))),
        ("brctg %r6, .+8", Flow::Branch(near(8))),
        ("bcr 15, 0", Flow::Next),
    ] {
        let facts = of(text);
        assert_eq!(facts.flow, flow, "{text}");
        assert!(!facts.nop, "{text}");
    }
    assert_eq!(one(&[0x47, 0xf0, 0x10, 0x00]).flow, Flow::Jump(Dest::Unknown));
    assert_eq!(one(&[0, 1]).flow, Flow::Trap);
    for nop in ["brcl 0, .", "bc 0, 0", "bcr 0, %r0", "bcr 0, %r1", "brc 0, .+2"] {
        assert!(of(nop).nop && of(nop).flow == Flow::Next, "{nop}");
    }
}

#[test]
fn what_no_sequence_may_execute_is_refused_but_decodes() {
    for text in [
        "svc 1",
        "sar %a2, %r1",
        "sfpc %r1",
        "adbr %f1, %f2",
        "ex %r1, 0(%r2)",
        "exrl %r1, .+16",
        "dlgr %r6, %r2",
        "vlr %v6, %v8",
        "bcr 8, %r14",
        "basr %r1, %r0",
        "bras %r1, .+2",
    ] {
        assert!(of(text).refused.is_some(), "{text}");
    }
}

#[test]
fn bytes_that_are_no_instructions_do_not_decode() {
    let fault = |addr, bytes: &[u8]| decode(addr, bytes, &mut DecodedCode::new()).unwrap_err();
    assert_eq!(
        fault(0x1000, &[0, 0]),
        Undecodable {
            addr: 0x1000,
            cut_off: false
        }
    );
    assert_eq!(fault(0x1000, &[7, 0, 0, 2]).addr, 0x1002);
    assert!(fault(0x1000, &[0xc0, 0x04, 0, 0, 0]).cut_off);
    assert!(fault(0x1000, &[7, 0, 7]).cut_off);
    assert!(!fault(0x1001, &[7, 0]).cut_off, "an odd address");
}

#[test]
fn the_stack_pointer_is_followed() {
    for (text, stack) in [
        ("aghi %r15, -160", StackPointer::Add(-160)),
        ("lay %r15, -160(%r15)", StackPointer::Add(-160)),
        ("lgr %r15, %r2", StackPointer::Lost),
        ("lgr %r2, %r15", StackPointer::Keep),
    ] {
        assert_eq!(of(text).stack, stack, "{text}");
    }
    let indexed = |index, disp, size| {
        let index = reg(index);
        StackStore::Indexed { index, disp, size }
    };
    for (text, store) in [
        ("stg %r1, -8(%r15)", StackStore::Range(-8, 0)),
        ("stmg %r6, %r15, 48(%r15)", StackStore::Range(48, 128)),
        ("stg %r1, 0(%r2,%r15)", indexed(2, 0, 8)),
        ("sthy %r9, -524288(%r15,%r1)", indexed(1, -524288, 2)),
        ("stg %r1, 0(%r14,%r2)", StackStore::None),
    ] {
        assert_eq!(of(text).store, store, "{text}");
    }
}

const SITE: u64 = 0x10_0000_0002;
const STUB: u64 = 0x10_0001_0000;
const LEN: u32 = 48;
const END: u64 = SITE + LEN as u64;
const EXIT_STUB: u64 = 0x10_0010_0000;
const HELPER: u64 = 0x10_0011_0000;
const C_FUNCTION: u64 = 0x10_0012_0000;
const FAR: u64 = 0x0123_4567_89ab_cdee;

struct Case {
    site: SiteContext<'static>,
    declared: Declared,
}

impl Case {
    fn new(shape: CallShape, spec: Option<RecordSpec>) -> Self {
        let (record, constants) = map()
            .function(0x1000, 160, [spec.clone().unwrap_or_else(|| record(7))])
            .leak();
        let target = |addr, on_return| DeclaredTarget {
            addr: CodeAddr::new(addr),
            on_return,
        };
        Self {
            site: SiteContext {
                arch: Arch::SystemZ,
                id: RecordId::new(7),
                function: Some("get"),
                offset: 4.into(),
                addr: CodeAddr::new(SITE),
                shape,
                record: spec.map(|_| record),
                constants,
                return_offsets: &[],
                trust_live_outs: false,
            },
            declared: Declared {
                targets: [
                    target(EXIT_STUB, OnReturn::Never),
                    target(HELPER, OnReturn::PreservesAll),
                    target(C_FUNCTION, OnReturn::FollowsC),
                    target(FAR, OnReturn::Never),
                ]
                .to_vec(),
                outputs: RegSet::EMPTY,
                vouched: Vec::new(),
            },
        }
    }

    fn outputs(mut self, registers: &[u16]) -> Self {
        self.declared.outputs = set(registers);
        self
    }

    fn check(&self, code: &[u8]) -> Result<Checked> {
        self.check_with(code, &[])
    }

    /// Filled up with nops of two bytes.
    fn check_with(&self, code: &[u8], stubs: &[Chunk<'_>]) -> Result<Checked> {
        let mut code = code.to_vec();
        while code.len() < LEN as usize {
            code.extend([7, 0]);
        }
        check(&self.site, &code, stubs, &self.declared)
    }
}

/// Result in r2, an argument in r3, live values in r6 and in memory.
fn any_reg() -> Case {
    let locations = [
        location(2, 8),
        location(3, 8),
        location(6, 8),
        indirect(15, 160, 8),
    ];
    Case::new(
        CallShape::any_reg(LEN).result().args(1),
        Some(record(7).locations(locations)),
    )
}

/// A live value in f2; r4, and something without a number, live out.
fn c() -> Case {
    let spec = record(7)
        .location(location(17, 8))
        .live_out(4, 8)
        .live_out(u16::MAX, 16);
    Case::new(CallShape::c(LEN).result().args(2), Some(spec))
}

fn plain_c() -> Case {
    Case::new(CallShape::c(LEN).result(), Some(record(7)))
}

fn shadow() -> Case {
    Case::new(CallShape::shadow(LEN), Some(record(7).location(location(2, 8))))
}

fn entry() -> Case {
    Case::new(CallShape::entry(LEN), None)
}

macro_rules! refused {
    ($result:expr, $variant:ident $(, $name:literal)?) => {{
        let result = $result;
        match &result {
            Err(Error::$variant { $(register: $name,)? .. }) => {}
            _ => panic!("expected {}, got {result:#?}", stringify!($variant)),
        }
    }};
}

#[test]
fn an_any_reg_site_may_lose_its_scratch_registers_and_a_declared_result() {
    let code = asm("llgcr %r2, %r3; lgr %r0, %r15; lghi %r1, 1; lghi %r14, 0");
    let checked = any_reg().outputs(&[2]).check(&code).unwrap();
    assert_eq!(checked.clobbers, set(&[0, 1, 2, 14]));
    refused!(any_reg().check(&code), Clobber, "r2");
    for (text, name) in [
        ("lgr %r3, %r12", "r3"),
        ("lgr %r6, %r9", "r6"),
        ("lgr %r13, %r2", "r13"),
        ("lzdr %f0", "f0"),
        ("lzdr %f15", "f15"),
    ] {
        match any_reg().outputs(&[2]).check(&asm(text)) {
            Err(Error::Clobber { register, .. }) => assert_eq!(register, name),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_c_site_keeps_what_is_recorded_live_out_or_callee_saved() {
    let free = asm("lgr %r2, %r13; lgr %r3, %r12; lgr %r5, %r10; lzdr %f0; lzdr %f7");
    c().outputs(&[2, 16]).check(&free).unwrap();
    for (text, name) in [
        ("lgr %r4, %r11", "r4"),
        ("lzdr %f2", "f2"),
        ("lgr %r6, %r9", "r6"),
        ("lgr %r13, %r2", "r13"),
        ("lzdr %f8", "f8"),
        ("lzdr %f15", "f15"),
    ] {
        match c().check(&asm(text)) {
            Err(Error::Clobber { register, .. }) => assert_eq!(register, name),
            other => panic!("{text}: {other:?}"),
        }
    }
    let mut trusting = c();
    trusting.site.trust_live_outs = true;
    trusting.check(&asm("lgr %r6, %r9; lzdr %f8")).unwrap();
    refused!(trusting.check(&asm("lgr %r11, %r4")), Clobber, "r11");
}

#[test]
fn a_location_without_a_number_is_refused() {
    let spec = record(7).location(location(u16::MAX, 16));
    refused!(Case::new(CallShape::c(LEN), Some(spec)).check(&[]), Register);
}

#[test]
fn calls_lose_what_their_contracts_leave_open() {
    let helper = branch(CALL, SITE, HELPER);
    let checked = any_reg().check(&helper).unwrap();
    assert_eq!(checked.clobbers, set(&[0, 1, 14]));
    assert_eq!(checked.return_offsets, [6]);
    let c_function = branch(CALL, SITE, C_FUNCTION);
    refused!(any_reg().check(&c_function), Clobber);
    let checked = plain_c().check(&c_function).unwrap();
    for lost in [0, 1, 2, 3, 4, 5, 14, 16, 19, 20, 23, 68, 83] {
        assert!(checked.clobbers.contains(reg(lost)), "{lost}");
    }
    for kept in [6, 7, 11, 13, 15, 24, 27, 28, 31] {
        assert!(!checked.clobbers.contains(reg(kept)), "{kept}");
    }
    refused!(entry().check(&helper), Clobber, "r14");
    refused!(shadow().check(&branch(CALL, SITE, HELPER + 2)), Undeclared);
}

#[test]
fn far_branches_go_where_their_constant_says() {
    let load = "llilf %r1, 2309737966; iihf %r1, 19088743";
    any_reg().check(&asm(&format!("{load}; br %r1"))).unwrap();
    let through_copy = [asm(load), bytes_of("b90400e1")].concat();
    // r14 is no way to jump: that returns.
    refused!(any_reg().check(&[&through_copy[..], &[7, 0xfe]].concat()), Return);
    any_reg()
        .check(&[&through_copy[..], &[0xb9, 0x04, 0, 0x1e], &[7, 0xf1]].concat())
        .unwrap();
    let overwritten = [asm(load), asm("lgr %r1, %r14; br %r1")].concat();
    refused!(any_reg().check(&overwritten), Indirect);
    refused!(any_reg().check(&asm("br %r1")), Indirect);
    // larl, and a target nobody declared.
    refused!(any_reg().check(&asm("larl %r1, .+4096; br %r1")), Undeclared);
    any_reg().check(&asm("larl %r1, .+16; br %r1")).unwrap();
}

#[test]
fn branches_and_ends() {
    any_reg().check(&branch(JUMP, SITE, EXIT_STUB)).unwrap();
    any_reg().check(&branch(JUMP, SITE, END)).unwrap();
    refused!(any_reg().check(&branch(JUMP, SITE, SITE + 2)), BranchInside);
    refused!(any_reg().check(&branch(JUMP, SITE, HELPER)), JumpReturns);
    refused!(any_reg().check(&branch(CALL, SITE, EXIT_STUB)), CallNever);
    refused!(shadow().check(&[]), ShadowEnd);
    shadow().check(&branch(JUMP, SITE, EXIT_STUB)).unwrap();
    shadow().check(&[0, 1]).unwrap();
    let stub = [asm("llgcr %r2, %r3"), branch(JUMP, STUB + 4, END)].concat();
    let chunk = |bytes| Chunk {
        addr: CodeAddr::new(STUB),
        bytes,
    };
    let jump = branch(JUMP, SITE, STUB);
    let case = any_reg().outputs(&[2]);
    case.check_with(&jump, &[chunk(&stub)]).unwrap();
    refused!(case.check_with(&jump, &[chunk(&stub[..4])]), StubEnd);
    refused!(any_reg().check(&asm("svc 1")), Refused);
}

#[test]
fn entries_return_and_keep_the_return_address() {
    let code = asm("lghi %r2, 0; br %r14");
    entry().outputs(&[2]).check(&code).unwrap();
    refused!(any_reg().outputs(&[2]).check(&code), Return);
    refused!(entry().check(&asm("lghi %r14, 0")), Clobber, "r14");
    entry().check(&asm("lghi %r0, 0; lghi %r1, 0")).unwrap();
    // What was lowered must be raised again.
    refused!(entry().check(&asm("aghi %r15, -160; br %r14")), StackExit);
    entry()
        .check(&asm("aghi %r15, -160; aghi %r15, 160; br %r14"))
        .unwrap();
    refused!(entry().check(&asm("aghi %r15, 160")), StackPopped);
    // The callee may use what its caller left above the stack pointer.
    entry().check(&asm("stg %r1, 152(%r15)")).unwrap();
}

#[test]
fn return_offsets_are_followed_by_nops_only() {
    let mut case = any_reg();
    case.site.return_offsets = &[12];
    case.check(&asm("lghi %r0, 0; lghi %r1, 0; lghi %r14, 0"))
        .unwrap();
    refused!(case.check(&asm("brcl 0, .; bc 0, 0; bc 0, 0")), ReturnOffset);
    let late = asm("lghi %r0, 0; lghi %r1, 0; lghi %r14, 0; lghi %r1, 1");
    refused!(case.check(&late), ReturnOffsetTail);
}

#[test]
fn what_llvm_leaves_in_a_patchpoint() {
    let addr = CodeAddr::new(SITE);
    let of = |text: &str| original(Arch::SystemZ, addr, &asm(text)).unwrap();
    assert_eq!(of("brcl 0, .; bc 0, 0; bcr 0, %r0"), Original::Nops);
    let far = "llilf %r1, 2309737966; iihf %r1, 19088743; basr %r14, %r1";
    let call = Original::LlvmCall {
        target: CodeAddr::new(FAR),
        returns_at: 14,
    };
    assert_eq!(of(&format!("{far}; brcl 0, .")), call);
    // A symbol is called directly.
    let direct = [branch(CALL, SITE, HELPER), asm("brcl 0, .")].concat();
    let symbol = Original::LlvmCall {
        target: CodeAddr::new(HELPER),
        returns_at: 6,
    };
    assert_eq!(original(Arch::SystemZ, addr, &direct).unwrap(), symbol);
    let near = Original::LlvmCall {
        target: CodeAddr::new(1),
        returns_at: 8,
    };
    assert_eq!(of("llilf %r1, 1; basr %r14, %r1; bcr 0, %r0"), near);
    let code = asm(&format!("{far}; brcl 0, .; lgr %r2, %r13"));
    assert_eq!(patchpoint_prefix(Arch::SystemZ, addr, &code).get(), 20);
    // Instructions that sequences may not have are in shadows nevertheless.
    let shadow = of("adbr %f1, %f2; bras %r14, .+0; vlr %v6, %v8");
    assert_eq!(shadow, Original::Instructions { calls: [8].to_vec() });
    assert_eq!(
        boundaries(Arch::SystemZ, addr, &asm("adbr %f1, %f2; svc 1")),
        [4, 6]
    );
    let cut = original(Arch::SystemZ, addr, &asm("brcl 0, .")[..4]);
    assert!(matches!(cut, Err(Error::Original { .. })));
}

#[test]
fn listings() {
    let lines = disassemble(Arch::SystemZ, CodeAddr::new(SITE), &asm("lgr %r2, %r13; svc 1"));
    let texts: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts, ["lgr %r2, %r13", ".insn 0a 01"]);
    let lines = disassemble(Arch::SystemZ, CodeAddr::new(SITE), &[0, 1, 0, 0]);
    let texts: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts, ["trap", "(bad)", "(bad)"]);
}

// ---- exchanges ----

fn exchanged(addr: u64, old: &[u8], new: &[u8]) -> bool {
    let mut case = Case::new(CallShape::entry(old.len() as u32), None);
    case.site.addr = CodeAddr::new(addr);
    check_exchange(&case.site, old, new).is_ok()
}

#[test]
fn one_part_of_a_branch_may_change() {
    let brcl = |mask: u8, distance: u8| [0xc0, mask, 0, 0, 0, distance];
    let (jump, other, nop) = (brcl(0xf4, 3), brcl(0xf4, 9), brcl(0x04, 3));
    // The distance is an aligned word.
    for addr in [0x1002, 0x1006, 0x100a] {
        assert!(exchanged(addr, &jump, &other) && exchanged(addr, &nop, &brcl(0x04, 9)));
    }
    for addr in [0x1000, 0x1004] {
        assert!(!exchanged(addr, &jump, &other), "{addr:#x}");
    }
    // The mask is one byte wherever it is.
    for addr in [0x1000, 0x1002, 0x1004, 0x1006] {
        assert!(exchanged(addr, &jump, &nop) && exchanged(addr, &nop, &jump));
        assert!(!exchanged(addr, &nop, &other) && !exchanged(addr, &other, &nop));
    }
    // Other conditions, calls, other instructions.
    for strange in [
        brcl(0x84, 3),
        brcl(0xe5, 3),
        [7, 0, 7, 0, 7, 0],
        [0x47, 0, 0, 0, 7, 0],
    ] {
        assert!(!exchanged(0x1002, &jump, &strange) && !exchanged(0x1002, &strange, &jump));
    }
    // What is around it stays.
    let with = |head: [u8; 6], tail: [u8; 2]| [&head[..], &tail].concat();
    assert!(exchanged(0x1002, &with(jump, [7, 0]), &with(other, [7, 0])));
    assert!(!exchanged(0x1002, &with(jump, [7, 0]), &with(other, [7, 1])));
}

#[test]
fn the_first_two_bytes_of_a_shadow_may_become_a_trap() {
    let trapped = |old: &str, new: &[u8]| check_trap(&shadow().site, &asm(old), new).is_ok();
    let old = "lgr %r2, %r13; svc 1";
    assert!(trapped(old, &[0x00, 0x01, 0x00, 0x2d, 0x0a, 0x01]));
    assert!(!trapped(old, &[0x00, 0x02, 0x00, 0x2d, 0x0a, 0x01]));
    assert!(!trapped(old, &[0x00, 0x01, 0x00, 0x2e, 0x0a, 0x01]));
}

#[test]
fn the_condition_code_is_kept_by_what_only_stores() {
    // stg %r3, 0(%r2); mvghi 0(%r2), 1
    for bytes in [[0xe3, 0x30, 0x20, 0, 0, 0x24], [0xe5, 0x48, 0x20, 0, 0, 1]] {
        assert!(!one(&bytes).flags, "{bytes:02x?}");
    }
    // agsi 0(%r2), 1; oiy 0(%r2), 1; cg %r3, 0(%r2)
    for bytes in [
        [0xeb, 1, 0x20, 0, 0, 0x7a],
        [0xeb, 1, 0x20, 0, 0, 0x56],
        [0xe3, 0x30, 0x20, 0, 0, 0x20],
    ] {
        assert!(one(&bytes).flags, "{bytes:02x?}");
    }
}
