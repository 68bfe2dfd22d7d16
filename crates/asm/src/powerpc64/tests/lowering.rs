//! Operations to listings: with a condition field and without, with one free register and with
//! more.

use alloc::string::String;
use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::Arch;
use patchpoint_verify::disassemble;

use patchpoint_isa::powerpc64::*;

use super::super::*;
use crate::backend::Origin;
use crate::op::{Address, Base, Bits, Cond, Dest, Extension, Label, OpValue, Width};

const SHADOW: RegSet = RegSet::of(&[R12, LR, CTR]);
const ANY_REG: RegSet = RegSet::of(&[R11, R12, LR, CTR, XER]);
const C: RegSet = RegSet::of(&[R10, R11, R12, LR, CTR, XER, CR0, CR7]);

fn lower(backend: &PowerPc64, op: &Op<'_>, free: RegSet) -> Result<(Vec<String>, RegSet), EncodingRefusal> {
    let mut code = EncodedCode::new(Origin::At(CodeAddr::new(0x1000)));
    backend.emit(op, free, &mut code)?;
    for branch in &code.branches {
        let mut bytes = Vec::new();
        backend.put_branch(branch, 0x1000 + u64::from(code.at()), 0x1000, &mut bytes);
        assert_eq!(branch.at, code.at(), "last");
        code.bytes.extend(bytes);
    }
    let arch = match (backend.0.convention, backend.0.endian) {
        (Convention::V1, _) => Arch::PowerPc64,
        (Convention::V2, Endian::Big) => Arch::PowerPc64ElfV2,
        (Convention::V2, Endian::Little) => Arch::PowerPc64Le,
    };
    let lines = disassemble(arch, CodeAddr::new(0x1000), &code.bytes);
    Ok((lines.into_iter().map(|line| line.text).collect(), code.clobbers))
}

/// The listing, and that nothing but free registers and destinations is written.
#[track_caller]
fn check(op: &Op<'_>, free: RegSet, expected: &[&str]) {
    for backend in [&LITTLE, &BIG_V1, &BIG_V2] {
        let (listing, clobbers) = lower(backend, op, free).unwrap();
        assert_eq!(listing, expected);
        let dst = match op {
            Op::Move { dst, .. } | Op::AddToReg { dst, .. } | Op::Bits { dst, .. } => RegSet::of(&[*dst]),
            _ => RegSet::EMPTY,
        };
        assert!(clobbers.difference(free.union(dst)).is_empty(), "{clobbers:?}");
    }
}

#[track_caller]
fn refused(op: &Op<'_>, free: RegSet) {
    assert!(lower(&LITTLE, op, free).is_err());
}

fn at(base: DwarfReg, disp: i32) -> Address {
    Address {
        base: Base::Reg(base),
        disp,
        number: None,
    }
}

fn load(dst: DwarfReg, address: Address, width: Width, extension: Extension) -> Op<'static> {
    Op::Move {
        dst,
        src: OpValue::Mem(address),
        width,
        extension,
    }
}

fn branch(cond: Cond, lhs: OpValue, rhs: OpValue, width: Width) -> Op<'static> {
    Op::Branch {
        cond,
        lhs,
        rhs,
        width,
        dest: Dest::Label(Label::new(1)),
    }
}

#[test]
fn displacements() {
    let load = |disp, width, extension| load(R3, at(R4, disp), width, extension);
    let ld = |disp| load(disp, Width::B8, Extension::Zero);
    check(&ld(32764), RegSet::EMPTY, &["ld r3, 32764(r4)"]);
    check(&ld(32767), RegSet::EMPTY, &["addi r3, r4, 32767", "ld r3, 0(r3)"]);
    check(
        &ld(32768),
        RegSet::EMPTY,
        &["addis r3, r4, 1", "ld r3, -32768(r3)"],
    );
    check(&ld(-32768), RegSet::EMPTY, &["ld r3, -32768(r4)"]);
    check(
        &ld(-32772),
        RegSet::EMPTY,
        &["addis r3, r4, -1", "ld r3, 32764(r3)"],
    );
    check(
        &ld(0x1_0002),
        RegSet::EMPTY,
        &["addis r3, r4, 1", "addi r3, r3, 2", "ld r3, 0(r3)"],
    );
    check(
        &ld(0x7fff_7ffc),
        RegSet::EMPTY,
        &["addis r3, r4, 32767", "ld r3, 32764(r3)"],
    );
    let far = [
        "lis r3, 32767",
        "ori r3, r3, 32768",
        "add r3, r4, r3",
        "ld r3, 0(r3)",
    ];
    check(&ld(0x7fff_8000), RegSet::EMPTY, &far);
    check(
        &load(3, Width::B1, Extension::Sign),
        RegSet::EMPTY,
        &["lbz r3, 3(r4)", "extsb r3, r3"],
    );
    check(
        &load(3, Width::B2, Extension::Sign),
        RegSet::EMPTY,
        &["lha r3, 3(r4)"],
    );
    check(
        &load(3, Width::B4, Extension::Zero),
        RegSet::EMPTY,
        &["lwz r3, 3(r4)"],
    );
    check(
        &load(3, Width::B4, Extension::Sign),
        RegSet::EMPTY,
        &["addi r3, r4, 3", "lwa r3, 0(r3)"],
    );
}

#[test]
fn r0_is_no_base() {
    check(
        &load(R3, at(R0, 8), Width::B8, Extension::Zero),
        RegSet::EMPTY,
        &["mr r3, r0", "addi r3, r3, 8", "ld r3, 0(r3)"],
    );
    check(
        &load(R0, at(R4, 8), Width::B8, Extension::Zero),
        RegSet::EMPTY,
        &["ld r0, 8(r4)"],
    );
    refused(&load(R0, at(R0, 8), Width::B8, Extension::Zero), RegSet::EMPTY);
    let add = |dst, value| Op::AddToReg {
        dst,
        src: OpValue::imm(value),
        width: Width::B8,
        extension: Extension::Zero,
    };
    check(&add(R0, 1), ANY_REG, &["li r12, 1", "add r0, r0, r12"]);
    refused(&add(R0, 1), RegSet::EMPTY);
    check(
        &add(R3, 0x1_8000),
        RegSet::EMPTY,
        &["addis r3, r3, 2", "addi r3, r3, -32768"],
    );
    let equal = branch(Cond::Eq, OpValue::Reg(R0), OpValue::imm(0), Width::B8);
    check(
        &equal,
        SHADOW,
        &["mr r12, r0", "addi r12, r12, 1", "mtctr r12", "bdz 0x1000"],
    );
    let frame = Op::Move {
        dst: R0,
        src: OpValue::Frame {
            reg: R1,
            disp: 0x1_8000,
        },
        width: Width::B8,
        extension: Extension::Zero,
    };
    check(
        &frame,
        ANY_REG,
        &["addis r0, r1, 2", "li r12, -32768", "add r0, r0, r12"],
    );
}

#[test]
fn addresses() {
    let slot = Address {
        base: Base::Slot { reg: R31, disp: -8 },
        disp: 0x1_0004,
        number: None,
    };
    check(
        &load(R3, slot, Width::B8, Extension::Zero),
        RegSet::EMPTY,
        &["ld r3, -8(r31)", "addis r3, r3, 1", "ld r3, 4(r3)"],
    );
    let fixed = |base: u64| Address {
        base: Base::Absolute(base),
        disp: 0,
        number: None,
    };
    check(
        &Op::Store {
            to: fixed(0x1234_8000),
            src: OpValue::Reg(R3),
            width: Width::B4,
        },
        SHADOW,
        &["lis r12, 4661", "stw r3, -32768(r12)"],
    );
    check(
        &Op::Store {
            to: fixed(0x1234_5677),
            src: OpValue::imm(0),
            width: Width::B8,
        },
        ANY_REG,
        &[
            "li r12, 0",
            "lis r11, 4660",
            "ori r11, r11, 22135",
            "std r12, 0(r11)",
        ],
    );
    refused(
        &Op::Store {
            to: fixed(0x1234_5677),
            src: OpValue::imm(0),
            width: Width::B8,
        },
        SHADOW,
    );
    let slot = |disp| Address {
        base: Base::Slot { reg: R1, disp: 40 },
        disp,
        number: None,
    };
    check(
        &Op::Store {
            to: slot(8),
            src: OpValue::Reg(R3),
            width: Width::B1,
        },
        SHADOW,
        &["ld r12, 40(r1)", "stb r3, 8(r12)"],
    );
}

#[test]
fn comparisons_with_a_condition_field() {
    let reg = OpValue::Reg;
    check(
        &branch(Cond::Eq, reg(R3), reg(R4), Width::B8),
        C,
        &["cmpld cr0, r3, r4", "bt cr0.eq, 0x1000"],
    );
    check(
        &branch(Cond::Less, reg(R3), reg(R4), Width::B4),
        C,
        &["cmpw cr0, r3, r4", "bt cr0.lt, 0x1000"],
    );
    let free = C.without(CR0);
    check(
        &branch(Cond::Above, reg(R3), OpValue::imm(65535), Width::B8),
        free,
        &["cmpldi cr7, r3, 65535", "bt cr7.gt, 0x1000"],
    );
    check(
        &branch(Cond::Above, reg(R3), OpValue::imm(65536), Width::B8),
        free,
        &["lis r12, 1", "cmpld cr7, r3, r12", "bt cr7.gt, 0x1000"],
    );
    check(
        &branch(
            Cond::LessOrEqual,
            reg(R3),
            OpValue::imm(-32768i64 as u64),
            Width::B8,
        ),
        C,
        &["cmpdi cr0, r3, -32768", "bf cr0.gt, 0x1000"],
    );
    check(
        &branch(Cond::Ne, reg(R3), OpValue::imm(0xffff_ffff), Width::B4),
        C,
        &["cmpwi cr0, r3, -1", "bf cr0.eq, 0x1000"],
    );
    check(
        &branch(Cond::GreaterOrEqual, reg(R3), OpValue::imm(0xff), Width::B1),
        C,
        &["extsb r12, r3", "cmpwi cr0, r12, -1", "bf cr0.lt, 0x1000"],
    );
    check(
        &branch(Cond::Below, reg(R3), OpValue::imm(0xffff), Width::B2),
        C,
        &[
            "rldicl r12, r3, 0, 48",
            "cmplwi cr0, r12, 65535",
            "bt cr0.lt, 0x1000",
        ],
    );
    // A constant goes to the right.
    check(
        &branch(Cond::Below, OpValue::imm(7), reg(R3), Width::B8),
        C,
        &["cmpldi cr0, r3, 7", "bt cr0.gt, 0x1000"],
    );
}

#[test]
fn equality_without_a_condition_field() {
    let reg = OpValue::Reg;
    check(
        &branch(Cond::Eq, reg(R3), reg(R4), Width::B8),
        SHADOW,
        &["xor r12, r3, r4", "addi r12, r12, 1", "mtctr r12", "bdz 0x1000"],
    );
    check(
        &branch(Cond::Ne, reg(R3), OpValue::imm(7), Width::B8),
        SHADOW,
        &["addi r12, r3, -6", "mtctr r12", "bdnz 0x1000"],
    );
    check(
        &branch(
            Cond::Ne,
            OpValue::Mem(at(R3, 8)),
            OpValue::imm(0x8000_0017),
            Width::B4,
        ),
        SHADOW,
        &[
            "lwz r12, 8(r3)",
            "xoris r12, r12, 32768",
            "xori r12, r12, 23",
            "rldicl r12, r12, 0, 32",
            "addi r12, r12, 1",
            "mtctr r12",
            "bdnz 0x1000",
        ],
    );
    check(
        &branch(Cond::Eq, reg(R3), OpValue::imm(0x1_0000_0000), Width::B8),
        SHADOW,
        &[
            "li r12, 1",
            "rldicr r12, r12, 32, 31",
            "xor r12, r3, r12",
            "addi r12, r12, 1",
            "mtctr r12",
            "bdz 0x1000",
        ],
    );
    refused(
        &branch(
            Cond::Eq,
            OpValue::Mem(at(R3, 8)),
            OpValue::imm(1 << 32),
            Width::B8,
        ),
        SHADOW,
    );
    refused(
        &branch(Cond::Eq, reg(R3), OpValue::imm(7), Width::B8),
        SHADOW.without(CTR),
    );
}

#[test]
fn order_without_a_condition_field_puts_it_back() {
    let around = |middle: &[&'static str], bit: &'static str, jump: &'static str| -> Vec<&'static str> {
        let before = ["mfocrf r12, 128", "mtlr r12"];
        let after = [
            "mfocrf r12, 128",
            "mtctr r12",
            "mflr r12",
            "mtocrf 128, r12",
            "mfctr r12",
        ];
        [&before, middle, &after, &[bit, "mtctr r12", jump]].concat()
    };
    let reg = OpValue::Reg;
    let expected = around(&["cmpd cr0, r3, r4"], "rlwinm r12, r12, 1, 31, 31", "bdz 0x1000");
    check(
        &branch(Cond::Less, reg(R3), reg(R4), Width::B8),
        SHADOW,
        &expected,
    );
    let expected = around(
        &["cmpldi cr0, r3, 9"],
        "rlwinm r12, r12, 2, 31, 31",
        "bdnz 0x1000",
    );
    check(
        &branch(Cond::BelowOrEqual, reg(R3), OpValue::imm(9), Width::B8),
        SHADOW,
        &expected,
    );
    // No link register to keep the field in: at an entry, if nothing is free.
    refused(
        &branch(Cond::Less, reg(R3), reg(R4), Width::B8),
        SHADOW.without(LR),
    );
}

#[test]
fn additions_to_memory() {
    let to = Address {
        base: Base::Absolute(0x1000_0010),
        disp: 0,
        number: None,
    };
    let add = |atomic| Op::AddToMem {
        to,
        src: OpValue::imm(1),
        width: Width::B8,
        atomic,
    };
    check(
        &add(false),
        ANY_REG,
        &[
            "lis r12, 4096",
            "ld r11, 16(r12)",
            "addi r11, r11, 1",
            "std r11, 16(r12)",
        ],
    );
    refused(&add(false), SHADOW);
    let looped = ["ldarx r11, 0, r12", "addi r11, r11, 1", "stdcx. r11, 0, r12"];
    let address = ["lis r12, 4096", "addi r12, r12, 16"];
    let kept = [
        &address[..],
        &["mfocrf r11, 128", "mtlr r11"],
        &looped,
        &["bf cr0.eq, 0x1010", "mflr r11", "mtocrf 128, r11"],
    ];
    check(&add(true), ANY_REG, &kept.concat());
    let free = [&address[..], &looped, &["bf cr0.eq, 0x1008"]];
    check(&add(true), C, &free.concat());
    refused(&add(true), C.without(CR0).without(LR));
}

#[test]
fn old_processors_are_spared() {
    let byte = Op::AddToMem {
        to: at(R3, 0),
        src: OpValue::Reg(R4),
        width: Width::B1,
        atomic: true,
    };
    assert!(lower(&LITTLE, &byte, C).is_ok());
    assert!(lower(&BIG_V1, &byte, C).is_err() && lower(&BIG_V2, &byte, C).is_err());
    let float = Op::Move {
        dst: R3,
        src: OpValue::Reg(F1),
        width: Width::B8,
        extension: Extension::Zero,
    };
    assert!(lower(&LITTLE, &float, C).is_ok());
    assert!(lower(&BIG_V1, &float, C).is_err() && lower(&BIG_V2, &float, C).is_err());
}

#[test]
fn bits() {
    let bits = |what| Op::Bits {
        dst: R3,
        what,
        number: None,
    };
    check(&bits(Bits::And(0xffff)), RegSet::EMPTY, &["rldicl r3, r3, 0, 48"]);
    check(&bits(Bits::And(!7)), RegSet::EMPTY, &["rldicr r3, r3, 0, 60"]);
    check(&bits(Bits::And(0)), RegSet::EMPTY, &["li r3, 0"]);
    check(&bits(Bits::And(u64::MAX)), RegSet::EMPTY, &[]);
    check(&bits(Bits::And(1 << 63)), RegSet::EMPTY, &["rldicr r3, r3, 0, 0"]);
    check(&bits(Bits::And(0b101)), SHADOW, &["li r12, 5", "and r3, r3, r12"]);
    refused(&bits(Bits::And(0b101)), RegSet::EMPTY);
    check(&bits(Bits::Left(63)), RegSet::EMPTY, &["rldicr r3, r3, 63, 0"]);
    check(&bits(Bits::Right(1)), RegSet::EMPTY, &["rldicl r3, r3, 63, 1"]);
    check(&bits(Bits::RightSigned(63)), ANY_REG, &["sradi r3, r3, 63"]);
    refused(&bits(Bits::RightSigned(63)), SHADOW);
    check(&bits(Bits::Left(0)), RegSet::EMPTY, &[]);
}

#[test]
fn calls_keep_the_toc_pointer() {
    let call = Op::Call(CodeAddr::new(0x1234_5678_9abc));
    let load = [
        "li r12, 4660",
        "rldicr r12, r12, 32, 31",
        "oris r12, r12, 22136",
        "ori r12, r12, 39612",
    ];
    let (v2, _) = lower(&LITTLE, &call, C).unwrap();
    assert_eq!(v2[..4], load);
    assert_eq!(v2[4..], ["std r2, 24(r1)", "mtctr r12", "bctrl", "ld r2, 24(r1)"]);
    assert_eq!(lower(&BIG_V2, &call, C).unwrap().0, v2);
    let (v1, _) = lower(&BIG_V1, &call, C).unwrap();
    assert_eq!(v1[..4], load);
    let entered = [
        "std r2, 40(r1)",
        "ld r2, 8(r12)",
        "ld r12, 0(r12)",
        "mtctr r12",
        "bctrl",
        "ld r2, 40(r1)",
    ];
    assert_eq!(v1[4..], entered);
    for needed in [R12, CTR, LR] {
        refused(&call, C.without(needed));
    }
}

#[test]
fn floating_point_registers() {
    let store = |width| Op::Store {
        to: at(R3, 6),
        src: OpValue::Reg(F1),
        width,
    };
    check(&store(Width::B8), RegSet::EMPTY, &["stfd f1, 6(r3)"]);
    check(&store(Width::B4), RegSet::EMPTY, &["stfs f1, 6(r3)"]);
    refused(&store(Width::B2), C);
    check(
        &load(F2, at(R3, 6), Width::B4, Extension::Zero),
        RegSet::EMPTY,
        &["lfs f2, 6(r3)"],
    );
    let mov = |dst, src| Op::Move {
        dst,
        src,
        width: Width::B8,
        extension: Extension::Zero,
    };
    check(&mov(F2, OpValue::Reg(F1)), RegSet::EMPTY, &["fmr f2, f1"]);
    let v2 = DwarfReg::new(79);
    let (listing, _) = lower(&LITTLE, &mov(R3, OpValue::Reg(v2)), C).unwrap();
    assert_eq!(listing, ["mfvsrd r3, vs34"]);
    let (listing, _) = lower(&LITTLE, &mov(F1, OpValue::imm(0)), C).unwrap();
    assert_eq!(listing, ["li r12, 0", "mtvsrd vs1, r12"]);
}

#[test]
fn the_rest() {
    check(&Op::Return, RegSet::EMPTY, &["blr"]);
    check(&Op::Trap, RegSet::EMPTY, &[".long 0"]);
    refused(&Op::Raw(&[0; 3]), C);
    refused(
        &Op::Move {
            dst: LR,
            src: OpValue::imm(0),
            width: Width::B8,
            extension: Extension::Zero,
        },
        C,
    );
    refused(
        &branch(Cond::Eq, OpValue::Reg(R3), OpValue::imm(256), Width::B1),
        C,
    );
}
