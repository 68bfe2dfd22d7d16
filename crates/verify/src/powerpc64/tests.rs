//! The decoder against LLVM's assembler, and the rules on code of both conventions.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, RecordId};
use llvm_stackmaps::testing::{RecordSpec, indirect, map, record, reg as location};
use patchpoint_isa::{Arch, CallShape, Declared, DeclaredTarget, OnReturn, RegSet, SiteContext};

use super::{BIG_V2, LITTLE, V1, V2, decode, reg};
use crate::facts::{DecodedCode, Facts, Flow};
use crate::{
    Checked, Error, Original, Result, boundaries, check, check_exchange, check_trap, disassemble, original,
    patchpoint_prefix,
};

const ENCODINGS: &str = include_str!("../../encodings/powerpc64.txt");

const SITE: u64 = 0x40_0000;
const LEN: u32 = 64;
const EXIT_STUB: u64 = 0x5000_0000_0000;
const HELPER: u64 = 0x5100_0000_0000;
const C_FUNCTION: u64 = 0x1234_5678_9abc;

const NOP: u32 = 0x6000_0000;
const BLR: u32 = 0x4e80_0020;
const BCTR: u32 = 0x4e80_0420;
const BCTRL: u32 = 0x4e80_0421;
const MTCTR_R12: u32 = 0x7d89_03a6;
/// li r12; rldic r12, r12, 32, 16; oris; ori.
const LOAD_C: [u32; 4] = [0x3980_1234, 0x798c_040a, 0x658c_5678, 0x618c_9abc];
/// li r12, 0x5100; rldicr r12, r12, 32, 31.
const LOAD_HELPER: [u32; 2] = [0x3980_5100, 0x798c_07c6];
const LOAD_EXIT_STUB: [u32; 2] = [0x3980_5000, 0x798c_07c6];
const CALL_V2: [u32; 4] = [0xf841_0018, MTCTR_R12, BCTRL, 0xe841_0018];
const CALL_V1: [u32; 6] = [
    0xf841_0028,
    0xe84c_0008,
    0xe98c_0000,
    MTCTR_R12,
    BCTRL,
    0xe841_0028,
];

struct Case {
    site: SiteContext<'static>,
    declared: Declared,
}

impl Case {
    fn new(arch: Arch, shape: CallShape, spec: Option<RecordSpec>) -> Self {
        let (record, constants) = map()
            .function(0x1000, 24, [spec.clone().unwrap_or_else(|| record(7))])
            .leak();
        let target = |addr, on_return| DeclaredTarget {
            addr: CodeAddr::new(addr),
            on_return,
        };
        Self {
            site: SiteContext {
                arch,
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
                ]
                .to_vec(),
                outputs: RegSet::EMPTY,
                vouched: Vec::new(),
            },
        }
    }

    fn bytes(&self, words: &[u32]) -> Vec<u8> {
        let big = self.site.arch.is_big_endian();
        let bytes = |word: &u32| {
            if big {
                word.to_be_bytes()
            } else {
                word.to_le_bytes()
            }
        };
        words.iter().flat_map(bytes).collect()
    }

    /// Checks the code, filled up with nops.
    fn check(&self, words: &[u32]) -> Result<Checked> {
        let mut words = words.to_vec();
        words.resize(self.site.shape.reserved().as_usize() / 4, NOP);
        check(&self.site, &self.bytes(&words), &[], &self.declared)
    }

    #[track_caller]
    fn accepts(&self, words: &[u32]) {
        if let Err(error) = self.check(words) {
            panic!("{error}");
        }
    }

    /// Refuses to write the register.
    #[track_caller]
    fn protects(&self, name: &str, words: &[u32]) {
        match self.check(words) {
            Err(Error::Clobber { register, .. }) if register == name => {}
            other => panic!("{name}: {other:#?}"),
        }
    }
}

macro_rules! refused {
    ($result:expr, $variant:ident) => {{
        let result = $result;
        assert!(matches!(result, Err(Error::$variant { .. })), "{result:#?}");
    }};
}

/// Result in r3, one argument in r3, live values in r14 and at [r31 - 8]; and 32 bits of r11 live
/// out.
fn any_reg() -> Case {
    let locations = [
        location(3, 8),
        location(3, 8),
        location(14, 8),
        indirect(31, -8, 8),
    ];
    let shape = CallShape::any_reg(LEN).result().args(1);
    Case::new(Arch::PowerPc64Le, shape, Some(record(7).locations(locations)))
}

fn c(arch: Arch) -> Case {
    let spec = record(7).locations([location(1204, 4)]).live_out(70, 4);
    Case::new(arch, CallShape::c(LEN).result().args(2), Some(spec))
}

fn shadow() -> Case {
    Case::new(Arch::PowerPc64Le, CallShape::shadow(LEN), Some(record(7)))
}

fn entry() -> Case {
    Case::new(Arch::PowerPc64Le, CallShape::entry(LEN), None)
}

fn one(word: u32) -> Facts {
    let mut code = DecodedCode::new();
    decode(&V2, SITE, &word.to_le_bytes(), &mut code).unwrap();
    assert_eq!(code.len(), 1);
    code[0]
}

/// `add 3, 4, 5` as it is written here: `add r3, r4, r5`.
fn with_registers(text: &str) -> String {
    let (mnemonic, operands) = text.split_once(' ').unwrap_or((text, ""));
    let operands: Vec<&str> = operands.split(", ").collect();
    let name = |index: usize, operand: &str| -> String {
        let (disp, base) = match operand.split_once('(') {
            Some((disp, base)) => (disp, base.trim_end_matches(')')),
            None => ("", operand),
        };
        let float = matches!(mnemonic, "lfs" | "lfd" | "stfs" | "stfd" | "fmr") && disp.is_empty();
        let vector = matches!((mnemonic, index), ("mfvsrd", 1) | ("mtvsrd", 0));
        let number = matches!(
            (mnemonic, index),
            ("li" | "lis", 1)
                | ("addi" | "addis" | "ori" | "oris" | "xori" | "xoris" | "sradi", 2)
                | ("cmpwi" | "cmpdi" | "cmplwi" | "cmpldi", 2)
                | ("rldicl" | "rldicr" | "rlwinm", 2..)
                | ("mfocrf", 1)
                | ("mtocrf", 0)
        );
        let zero =
            base == "0" && (!disp.is_empty() || mnemonic.ends_with("cx.") || mnemonic.ends_with("arx"));
        let zero = zero && (!disp.is_empty() || index == 1);
        let base = match () {
            () if number || zero => base.into(),
            () if float => format!("f{base}"),
            () if vector => format!("vs{base}"),
            () if mnemonic.starts_with("cmp") && index == 0 => format!("cr{base}"),
            () => format!("r{base}"),
        };
        match disp {
            "" => base,
            _ => format!("{disp}({base})"),
        }
    };
    if operands == [""] {
        return text.into();
    }
    let named: Vec<String> = operands
        .iter()
        .enumerate()
        .map(|(index, o)| name(index, o))
        .collect();
    format!("{mnemonic} {}", named.join(", "))
}

#[test]
fn every_instruction_is_decoded_as_the_assembler_wrote_it() {
    let mut count = 0;
    for (text, hex) in ENCODINGS.lines().filter_map(|line| line.split_once('\t')) {
        let word = u32::from_str_radix(hex, 16).unwrap();
        let facts = one(word);
        let known = facts.refused.is_none() || word == BCTRL;
        assert!(known, "{text}: {facts:?}");
        for (arch, bytes) in [
            (Arch::PowerPc64, word.to_be_bytes()),
            (Arch::PowerPc64ElfV2, word.to_be_bytes()),
            (Arch::PowerPc64Le, word.to_le_bytes()),
        ] {
            let line = &disassemble(arch, CodeAddr::new(SITE), &bytes)[0];
            let here = match text.split_once(' ') {
                // The same instruction by another name.
                Some(("addi" | "addis" | "clrldi" | "mr", _)) => continue,
                Some(("b", distance)) => {
                    let distance: i64 = distance.trim_matches(['(', ')']).parse().unwrap();
                    format!("b {:#x}", SITE.wrapping_add_signed(distance))
                }
                Some(("bc", operands)) => {
                    let distance: i64 = operands.rsplit_once(", ").unwrap().1.parse().unwrap();
                    assert!(
                        line.text
                            .ends_with(&format!(" {:#x}", SITE.wrapping_add_signed(distance)))
                    );
                    continue;
                }
                _ if text == ".long 0" => text.into(),
                _ if word == NOP => "nop".into(),
                _ => with_registers(text),
            };
            assert_eq!(line.text, here, "{word:08x}");
        }
        count += 1;
    }
    assert!(count > 12_000);
}

#[test]
fn what_is_written() {
    let set = |registers: &[u16]| -> RegSet { registers.iter().map(|number| reg(*number)).collect() };
    for (word, written) in [
        (NOP, &[][..]),
        // addi r5, r4, 1; ori r6, r5, 1; ld r7, 8(r3); std r7, 8(r3); lfd f1, 0(r3)
        (0x38a4_0001, &[5]),
        (0x60a6_0001, &[6]),
        (0xe8e3_0008, &[7]),
        (0xf8e3_0008, &[]),
        (0xc823_0000, &[33]),
        // cmpdi cr7, r3, 0; andi. r4, r3, 1; stdcx. r3, 0, r4; sradi r4, r3, 1
        (0x2fa3_0000, &[75]),
        (0x7064_0001, &[4, 68]),
        (0x7c60_21ad, &[68]),
        (0x7c64_0e74, &[4, 76]),
        // mtlr r3; mtctr r3; mtcrf 0x81, r3; bdnz; beq
        (0x7c68_03a6, &[65]),
        (0x7c69_03a6, &[66]),
        (0x7c68_1120, &[68, 75]),
        (0x4200_fff8, &[66]),
        (0x4182_fff8, &[]),
        // mtvsrd vs34, r3; mfvsrd r3, vs34; stdu r3, 8(r4)
        (0x7c43_0167, &[79]),
        (0x7c43_0067, &[3]),
        (0xf864_0009, &[4]),
    ] {
        assert_eq!(one(word).writes, set(written), "{word:08x}");
    }
}

#[test]
fn unknown_instructions_are_refused_where_they_are_executed() {
    // sc; mtspr 1 (XER); lq; mtmsrd; vaddubm; a prefix; addic; icbi; bclr with a condition; bcctr
    // with one
    for word in [
        0x4400_0002,
        0x7c61_03a6,
        0xe080_0000,
        0x7c60_0164,
        0x1064_2800,
        0x0600_0000,
        0x3063_0001,
        0x7c00_1fac,
        0x4d82_0020,
        0x4d82_0420,
    ] {
        refused!(any_reg().check(&[word]), Refused);
        // Not where nothing goes there.
        let site = any_reg();
        let over = 0x4800_0008;
        site.accepts(&[over, word]);
    }
}

#[test]
fn registers_of_an_any_reg_patchpoint() {
    let site = any_reg();
    // r11, r12, CTR, LR, XER
    site.accepts(&[0x3960_0001, 0x3980_0001, MTCTR_R12, 0x7d88_03a6, 0x7d8c_0e74]);
    site.protects("r0", &[0x3800_0001]);
    site.protects("r2", &[0x3840_0001]);
    site.protects("r13", &[0x39a0_0001]);
    site.protects("r3", &[0x3860_0001]);
    site.protects("cr0", &[0x2c23_0000]);
    site.protects("cr7", &[0x2fa3_0000]);
    site.protects("f1", &[0xfc20_1090]);
    site.protects("v2", &[0x7c43_0167]);
    let mut with_output = any_reg();
    with_output.declared.outputs = RegSet::of(&[reg(3)]);
    with_output.accepts(&[0x3860_0001]);
}

#[test]
fn registers_of_the_other_sites() {
    let shadow = shadow();
    let leave = |words: &[u32]| [words, &LOAD_EXIT_STUB, &[MTCTR_R12, BCTR]].concat();
    shadow.accepts(&leave(&[]));
    shadow.protects("r11", &leave(&[0x3960_0001]));
    shadow.protects("xer", &leave(&[0x7d8c_0e74]));
    let entry = entry();
    entry.accepts(&[0x3960_0001, 0x2c23_0000, 0x2fa3_0000, 0x7d69_03a6, 0x7d6b_0e74]);
    entry.protects("r12", &[0x3980_0001]);
    entry.protects("lr", &[0x7d68_03a6]);
    entry.protects("cr2", &[0x2d23_0000]);
    entry.accepts(&[BLR]);
    let c = c(Arch::PowerPc64Le);
    c.accepts(&[0x3800_0001, 0x38a0_0001, 0x2c23_0000]);
    c.protects("cr2", &[0x2d23_0000]);
    // The 32-bit view of r4 is recorded.
    c.protects("r4", &[0x3880_0001]);
    c.protects("r14", &[0x39c0_0001]);
}

#[test]
fn a_call_is_one_unit() {
    for (arch, unit) in [
        (Arch::PowerPc64Le, &CALL_V2[..]),
        (Arch::PowerPc64ElfV2, &CALL_V2),
        (Arch::PowerPc64, &CALL_V1),
    ] {
        let mut site = c(arch);
        site.declared.outputs = RegSet::of(&[reg(3), reg(33)]);
        // Nothing recorded or live out that a C function loses.
        let plain = Case::new(arch, CallShape::c(LEN).result().args(2), Some(record(7)));
        site.site.record = plain.site.record;
        let call = [&LOAD_C[..], unit].concat();
        let checked = site.check(&call).unwrap();
        assert_eq!(checked.return_offsets, [call.len() as u32 * 4 - 4]);
        // Each instruction of it left out or exchanged for a nop.
        for at in LOAD_C.len()..call.len() {
            let mut broken = call.clone();
            broken[at] = NOP;
            assert!(site.check(&broken).is_err(), "{at}");
            broken.remove(at);
            assert!(site.check(&broken).is_err(), "{at}");
        }
        // No branch into it.
        for at in 1..unit.len() {
            let distance = (1 + LOAD_C.len() + at) as u32 * 4;
            let broken = [&[0x4182_0000 | distance][..], &call].concat();
            refused!(site.check(&broken), BranchInside);
        }
        // bl
        refused!(site.check(&[0x4800_0101]), Refused);
        // The other convention's.
        let other = if arch == Arch::PowerPc64 {
            &CALL_V2[..]
        } else {
            &CALL_V1
        };
        assert!(site.check(&[&LOAD_C[..], other].concat()).is_err());
        // Another address.
        let mut other_call = call.clone();
        other_call[3] += 4;
        refused!(site.check(&other_call), Undeclared);
    }
    let any = any_reg();
    any.accepts(&[&LOAD_HELPER[..], &CALL_V2].concat());
    assert!(
        any.check(&[&LOAD_C[..], &CALL_V2].concat()).is_err(),
        "loses everything"
    );
}

#[test]
fn a_condition_field_is_put_back() {
    let site = any_reg();
    // mfocrf r12, 128; mtlr r12; cmpd cr0, r3, r4; mfocrf r12, 128; mtctr r12; mflr r12; mtocrf
    // 128, r12
    let order = [
        0x7d98_0026,
        0x7d88_03a6,
        0x7c23_2000,
        0x7d98_0026,
        MTCTR_R12,
        0x7d88_02a6,
        0x7d98_0120,
    ];
    site.accepts(&order);
    // Without saving, or putting back, or from another register.
    for (at, word) in [
        (0, NOP),
        (1, NOP),
        (5, NOP),
        (6, NOP),
        (0, 0x7d78_0026),
        (6, 0x7d78_0120),
        (0, 0x7d94_0026),
    ] {
        let mut broken = order;
        broken[at] = word;
        site.protects("cr0", &broken);
    }
    // What is in the link register is lost; another field is written; control leaves.
    let inside = |word: u32| {
        let mut broken = order;
        broken[3] = word;
        broken
    };
    site.protects("cr0", &inside(0x7d68_03a6));
    site.protects("cr1", &inside(0x2ca3_0000));
    site.protects("cr0", &inside(0x4182_0020));
    // An atomic addition: back into it, but not from outside, and not before its first instruction.
    let add = [
        0x7d78_0026,
        0x7d68_03a6,
        0x7d60_60a8,
        0x396b_0001,
        0x7d60_61ad,
        0x4082_fff4,
        0x7d68_02a6,
        0x7d78_0120,
    ];
    let add = [&LOAD_HELPER[..1], &add].concat();
    site.accepts(&add);
    for target in 2..9u32 {
        let broken = [&[0x4200_0000 | ((1 + target) * 4)][..], &add].concat();
        refused!(site.check(&broken), BranchInside);
    }
    let mut broken = add.clone();
    broken[6] = 0x4082_ffec;
    site.protects("cr0", &broken);
}

#[test]
fn return_offsets_restore_the_toc_pointer() {
    let mut site = any_reg();
    site.site.return_offsets = &[40];
    let words = |at: usize, with: &[u32]| {
        let mut words = [NOP; LEN as usize / 4];
        words[at..at + with.len()].copy_from_slice(with);
        words
    };
    let restored = [0x4800_0008, 0xe841_0018];
    site.accepts(&words(9, &restored));
    refused!(site.check(&words(9, &[])), ReturnOffset);
    refused!(site.check(&words(8, &restored)), ReturnOffset);
    // Behind a jump that does not come back here, nothing has to go over it.
    site.accepts(&words(9, &[0x4800_0000 | (LEN - 36), 0xe841_0018]));
    refused!(site.check(&words(9, &[NOP, 0xe841_0018])), ReturnOffset);
    // Executed from above, r2 would come from a slot that nobody filled.
    any_reg().protects("r2", &words(10, &restored[1..]));
    // ELFv1's slot.
    assert!(site.check(&words(9, &[0x4800_0008, 0xe841_0028])).is_err());
    let mut followed = words(9, &restored);
    followed[12] = 0x3960_0001;
    refused!(site.check(&followed), ReturnOffsetTail);
    // A call that returns there does, too.
    let call = [&LOAD_HELPER[..], &CALL_V2].concat();
    site.accepts(&words(10 - 5, &call));
}

#[test]
fn branches_through_ctr_go_where_a_constant_says() {
    let site = any_reg();
    let jump = [LOAD_EXIT_STUB[0], LOAD_EXIT_STUB[1], MTCTR_R12, BCTR];
    site.accepts(&jump);
    for at in 0..3 {
        let mut broken = jump;
        broken[at] = NOP;
        assert!(site.check(&broken).is_err(), "{at}");
    }
    // li r12, 1 behind mtctr changes nothing; bdnz does.
    refused!(
        site.check(&[jump[0], jump[1], MTCTR_R12, 0x4200_0004, BCTR]),
        Indirect
    );
    // b to the end, one beyond, and into another word.
    site.accepts(&[0x4800_0000 | LEN]);
    refused!(site.check(&[0x4800_0000 | (LEN + 4)]), Undeclared);
}

#[test]
fn the_stack() {
    let entry = entry();
    // std r11, -512(r1), -520(r1), 0(r1), 8(r1)
    entry.accepts(&[0xf961_fdf8]);
    refused!(entry.check(&[0xf961_fe00]), RedZone);
    refused!(entry.check(&[0xf961_0000]), RedZone);
    entry.accepts(&[0xf961_0008]);
    // stdu r1, -544(r1); std r11, 24(r1); addi r1, r1, 544
    entry.accepts(&[0xf821_fde1, 0xf961_0018, 0x3821_0220]);
    refused!(entry.check(&[0xf821_fde1]), StackExit);
    // mr r1, r11; stdx r11, r1, r12
    refused!(entry.check(&[0x7d61_5b78]), StackLost);
    refused!(entry.check(&[0x7d61_612a]), RedZone);
    // ELFv2 keeps 512 bytes in either order, ELFv1 288.
    let v2 = Case::new(Arch::PowerPc64ElfV2, CallShape::entry(LEN), None);
    refused!(v2.check(&[0xf961_fed8]), RedZone);
    let v1 = Case::new(Arch::PowerPc64, CallShape::entry(LEN), None);
    v1.accepts(&[0xf961_fed8]);
    refused!(v1.check(&[0xf961_fee0]), RedZone);
}

/// What the linker makes of LLVM's call to a symbol: `bl` to a stub that saves r2, and the restore.
#[test]
fn a_call_through_a_linkers_stub_is_llvms_and_no_sequences() {
    for (arch, restore) in [
        (Arch::PowerPc64Le, 0xe841_0018),
        (Arch::PowerPc64ElfV2, 0xe841_0018),
        (Arch::PowerPc64, 0xe841_0028),
    ] {
        let case = c(arch);
        for (word, distance) in [(0x4800_0801, 0x800), (0x4bff_f001, -0x1000)] {
            let bytes = case.bytes(&[word, restore, NOP, NOP]);
            let expected = Original::LlvmCall {
                target: CodeAddr::new(SITE.wrapping_add_signed(distance)),
                returns_at: 4,
            };
            assert_eq!(original(arch, case.site.addr, &bytes).unwrap(), expected);
            assert_eq!(patchpoint_prefix(arch, case.site.addr, &bytes).get(), 16);
            refused!(case.check(&[word, restore]), Refused);
        }
        // Not linked, to a function of the same module, a jump, an absolute call, another slot:
        // nobody saved r2 there.
        for words in [
            [0x4800_0801, NOP],
            [0x4800_0800, restore],
            [0x4800_0803, restore],
            [0x4800_0801, restore + 8],
        ] {
            let bytes = case.bytes(&words);
            let found = original(arch, case.site.addr, &bytes).unwrap();
            assert!(matches!(found, Original::Instructions { .. }), "{words:x?}");
        }
    }
}

#[test]
fn originals() {
    for (arch, unit, len) in [
        (Arch::PowerPc64Le, &CALL_V2[..], 32),
        (Arch::PowerPc64ElfV2, &CALL_V2, 32),
        (Arch::PowerPc64, &CALL_V1, 40),
    ] {
        let case = c(arch);
        let call = [&LOAD_C[..], unit].concat();
        let bytes = case.bytes(&[&call[..], &[NOP, NOP]].concat());
        let found = original(arch, case.site.addr, &bytes).unwrap();
        let expected = Original::LlvmCall {
            target: CodeAddr::new(C_FUNCTION),
            returns_at: len - 4,
        };
        assert_eq!(found, expected);
        assert_eq!(patchpoint_prefix(arch, case.site.addr, &bytes).get(), len + 8);
        let nops = case.bytes(&[NOP; 4]);
        assert_eq!(original(arch, case.site.addr, &nops).unwrap(), Original::Nops);
        // One instruction too few: LLVM's restore lies behind the reserved bytes.
        let tight = &bytes[..len as usize - 4];
        assert!(matches!(
            original(arch, case.site.addr, tight).unwrap(),
            Original::Instructions { .. }
        ));
        refused!(original(arch, case.site.addr, &bytes[..7]), Original);
        refused!(original(arch, CodeAddr::new(SITE + 2), &bytes), Original);
        assert_eq!(
            boundaries(arch, case.site.addr, &case.bytes(&[NOP, 0x4400_0002])),
            [4, 8]
        );
    }
}

#[test]
fn exchanges() {
    let site = any_reg();
    let bytes = |words: &[u32]| site.bytes(words);
    // nop, b, bl, ba, bc, trap, add
    let words = [
        NOP,
        0x4800_0040,
        0x4800_0041,
        0x4182_0008,
        0x7fe0_0008,
        0x7c64_2a14,
    ];
    for (a, old) in words.into_iter().enumerate() {
        for (b, new) in words.into_iter().enumerate() {
            let allowed = check_exchange(&site.site, &bytes(&[NOP, old]), &bytes(&[NOP, new]));
            assert_eq!(allowed.is_ok(), a == b || (a < 2 && b < 2), "{old:x} {new:x}");
        }
    }
    let twice = (bytes(&[NOP, NOP]), bytes(&[0x4800_0040, 0x4800_0040]));
    assert!(check_exchange(&site.site, &twice.0, &twice.1).is_err());
    let old = bytes(&[0x7c64_2a14, NOP]);
    assert!(check_trap(&site.site, &old, &bytes(&[0x7fe0_0008, NOP])).is_ok());
    assert!(check_trap(&site.site, &old, &bytes(&[0x7fe0_0008, 0x4800_0040])).is_err());
    assert!(check_trap(&site.site, &old, &bytes(&[0, NOP])).is_err());
    assert_eq!(LITTLE.trap, 0x7fe0_0008u32.to_le_bytes());
    assert_eq!(BIG_V2.trap, 0x7fe0_0008u32.to_be_bytes());
}

#[test]
fn names() {
    for number in (0..=63).chain([65, 66]).chain(68..=109) {
        assert!(super::register(reg(number)).is_some(), "{number}");
        assert!(super::ABI.known.contains(reg(number)));
    }
    assert_eq!(
        (super::register(reg(79)), super::register(reg(64))),
        (Some("v2"), None)
    );
    // A unit for ELFv1 begins as it should.
    assert_eq!((V1.call.len(), V1.slot, V2.slot), (6, 40, 24));
    assert!(matches!(one(BCTR).flow, Flow::Jump(_)));
}
