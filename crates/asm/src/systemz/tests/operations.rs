//! Operations over every class of operand.

use alloc::format;

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::RegSet;

use crate::backend::{Backend, BranchKind, EncodedCode, EncodingRefusal, Origin};
use crate::encodings::Cases;
use crate::op::{Address, Base, Bits, Cond, Dest, Extension, Op, OpValue, Width};
use crate::systemz::SystemZ;
use patchpoint_isa::systemz::*;

const ALL_FREE: RegSet = RegSet::of(&[R0, R1, R14]);
const TWO_FREE: RegSet = RegSet::of(&[R0, R1]);

fn mem(base: DwarfReg, disp: i32) -> Address {
    Address {
        base: Base::Reg(base),
        disp,
        number: None,
    }
}

fn slot(disp: i32) -> Address {
    Address {
        base: Base::Slot { reg: R15, disp: 160 },
        disp,
        number: None,
    }
}

fn fixed(addr: u64) -> Address {
    Address {
        base: Base::Absolute(addr),
        disp: 0,
        number: None,
    }
}

fn emit(op: &Op<'_>, free: RegSet) -> Result<EncodedCode, EncodingRefusal> {
    let mut code = EncodedCode::new(Origin::At(CodeAddr::new(0)));
    SystemZ.emit(op, free, &mut code)?;
    Ok(code)
}

fn mov(dst: DwarfReg, src: OpValue, width: Width, extension: Extension) -> Op<'static> {
    Op::Move {
        dst,
        src,
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
        dest: Dest::End,
    }
}

use Extension::{Sign, Zero};
use OpValue::{Mem as InMem, Reg};
use Width::{B1, B2, B4, B8};

fn expect(cases: &mut Cases, op: Op<'_>, text: &str) {
    let code = emit(&op, ALL_FREE).unwrap_or_else(|refusal| panic!("{text}: {refusal:?}"));
    cases.add(text, |out| out.extend(code.bytes));
}

/// Operations, for the comparison with LLVM.
pub(super) fn cases(cases: &mut Cases) {
    moves(cases);
    addresses(cases);
    stores(cases);
    additions(cases);
    atomics(cases);
    masks(cases);
    comparisons(cases);
}

fn moves(cases: &mut Cases) {
    for (width, extension, text) in [
        (B1, Zero, "llgcr %r2, %r3"),
        (B1, Sign, "lgbr %r2, %r3"),
        (B2, Zero, "llghr %r2, %r3"),
        (B2, Sign, "lghr %r2, %r3"),
        (B4, Zero, "llgfr %r2, %r3"),
        (B4, Sign, "lgfr %r2, %r3"),
        (B8, Zero, "lgr %r2, %r3"),
    ] {
        expect(cases, mov(R2, Reg(R3), width, extension), text);
    }
    for (width, extension, text) in [
        (B1, Zero, "llgc"),
        (B1, Sign, "lgb"),
        (B2, Zero, "llgh"),
        (B2, Sign, "lgh"),
        (B4, Zero, "llgf"),
        (B4, Sign, "lgf"),
        (B8, Zero, "lg"),
    ] {
        expect(
            cases,
            mov(R2, InMem(mem(R3, 8)), width, extension),
            &format!("{text} %r2, 8(%r3)"),
        );
    }
    expect(cases, mov(R2, OpValue::imm(0xff), B1, Zero), "lghi %r2, 255");
    expect(cases, mov(R2, OpValue::imm(0xff), B1, Sign), "lghi %r2, -1");
    expect(
        cases,
        mov(R2, OpValue::imm(u64::MAX), B4, Zero),
        "llilf %r2, 4294967295",
    );
    expect(cases, mov(R2, Reg(F9), B8, Zero), "lgdr %r2, %f9");
    // A short number is in the left half.
    expect(
        cases,
        mov(R2, Reg(F9), B4, Zero),
        "lgdr %r2, %f9; srlg %r2, %r2, 32",
    );
    expect(
        cases,
        mov(R2, Reg(F9), B4, Sign),
        "lgdr %r2, %f9; srag %r2, %r2, 32",
    );
    expect(cases, mov(F2, Reg(F15), B8, Zero), "ldr %f2, %f15");
    expect(cases, mov(F2, Reg(R3), B8, Zero), "ldgr %f2, %r3");
    expect(
        cases,
        mov(F2, Reg(R3), B4, Zero),
        "sllg %r0, %r3, 32; ldgr %f2, %r0",
    );
    expect(cases, mov(F2, OpValue::imm(0), B4, Zero), "lzdr %f2");
    expect(
        cases,
        mov(F2, OpValue::imm(0x3f80_0000), B4, Zero),
        "llihh %r0, 16256; ldgr %f2, %r0",
    );
    expect(
        cases,
        mov(F2, OpValue::imm(0x7), B8, Zero),
        "lghi %r0, 7; ldgr %f2, %r0",
    );
    expect(
        cases,
        mov(F2, InMem(mem(R3, 4095)), B8, Zero),
        "ld %f2, 4095(%r3)",
    );
    expect(
        cases,
        mov(F2, InMem(mem(R3, 4096)), B4, Zero),
        "ley %f2, 4096(%r3)",
    );
    let frame = |disp| OpValue::Frame { reg: R15, disp };
    expect(cases, mov(R2, frame(0), B8, Zero), "lgr %r2, %r15");
    expect(cases, mov(R2, frame(160), B8, Zero), "la %r2, 160(%r15)");
    expect(cases, mov(R2, frame(524_287), B8, Zero), "lay %r2, 524287(%r15)");
    expect(
        cases,
        mov(R2, frame(524_288), B8, Zero),
        "llilh %r2, 8; agr %r2, %r15",
    );
}

fn addresses(cases: &mut Cases) {
    let load = |address| mov(R2, InMem(address), B8, Zero);
    expect(cases, load(mem(R3, 524_287)), "lg %r2, 524287(%r3)");
    expect(cases, load(mem(R3, -524_288)), "lg %r2, -524288(%r3)");
    expect(cases, load(mem(R3, 524_288)), "llilh %r1, 8; lg %r2, 0(%r3,%r1)");
    expect(
        cases,
        load(mem(R3, -524_289)),
        "lgfi %r1, -524289; lg %r2, 0(%r3,%r1)",
    );
    expect(
        cases,
        load(mem(R3, i32::MIN)),
        "lgfi %r1, -2147483648; lg %r2, 0(%r3,%r1)",
    );
    expect(cases, load(mem(R0, 8)), "lgr %r1, %r0; lg %r2, 8(%r1)");
    expect(cases, load(slot(24)), "lg %r1, 160(%r15); lg %r2, 24(%r1)");
    expect(
        cases,
        load(slot(524_288)),
        "lg %r1, 160(%r15); agfi %r1, 524288; lg %r2, 0(%r1)",
    );
    let far_slot = Address {
        base: Base::Slot {
            reg: R15,
            disp: 1 << 20,
        },
        disp: 8,
        number: None,
    };
    expect(
        cases,
        load(far_slot),
        "llilh %r1, 16; lg %r1, 0(%r15,%r1); lg %r2, 8(%r1)",
    );
    expect(cases, load(fixed(0x7_ffff)), "lg %r2, 524287");
    expect(cases, load(fixed(0x8_0000)), "llilh %r1, 8; lg %r2, 0(%r1)");
    expect(cases, load(fixed(u64::MAX)), "lg %r2, -1");
    expect(
        cases,
        load(fixed(0x7fff_1234_5678)),
        "llilf %r1, 305419896; iihf %r1, 32767; lg %r2, 0(%r1)",
    );
}

fn stores(cases: &mut Cases) {
    let store = |to, src, width| Op::Store { to, src, width };
    for (width, text) in [(B1, "stc"), (B2, "sth"), (B4, "st"), (B8, "stg")] {
        expect(
            cases,
            store(mem(R3, 8), Reg(R2), width),
            &format!("{text} %r2, 8(%r3)"),
        );
    }
    expect(cases, store(mem(R3, 8), Reg(F2), B8), "std %f2, 8(%r3)");
    expect(cases, store(mem(R3, 8), Reg(F2), B4), "ste %f2, 8(%r3)");
    expect(cases, store(mem(R3, 8), OpValue::imm(255), B1), "mvi 8(%r3), 255");
    expect(
        cases,
        store(mem(R3, -1), OpValue::imm(255), B1),
        "mviy -1(%r3), 255",
    );
    expect(
        cases,
        store(mem(R3, 4095), OpValue::imm(0xffff), B2),
        "mvhhi 4095(%r3), -1",
    );
    expect(
        cases,
        store(mem(R3, 8), OpValue::imm(0x7fff), B4),
        "mvhi 8(%r3), 32767",
    );
    expect(
        cases,
        store(mem(R3, 8), OpValue::imm(u64::MAX), B8),
        "mvghi 8(%r3), -1",
    );
    expect(
        cases,
        store(mem(R3, 8), OpValue::imm(0x8000), B8),
        "llill %r0, 32768; stg %r0, 8(%r3)",
    );
    expect(
        cases,
        store(mem(R3, 4096), OpValue::imm(1), B4),
        "lghi %r0, 1; sty %r0, 4096(%r3)",
    );
    expect(
        cases,
        store(mem(R3, 4096), OpValue::imm(0xffff), B2),
        "lghi %r0, -1; sthy %r0, 4096(%r3)",
    );
    expect(
        cases,
        store(mem(R3, 1 << 20), OpValue::imm(1), B8),
        "llilh %r1, 16; lghi %r0, 1; stg %r0, 0(%r3,%r1)",
    );
    expect(
        cases,
        store(slot(8), InMem(slot(16)), B8),
        "lg %r1, 160(%r15); lg %r14, 160(%r15); lg %r0, 16(%r14); stg %r0, 8(%r1)",
    );
    let frame = OpValue::Frame { reg: R15, disp: 160 };
    expect(
        cases,
        store(mem(R3, 8), frame, B8),
        "la %r0, 160(%r15); stg %r0, 8(%r3)",
    );
}

fn additions(cases: &mut Cases) {
    let add = |src, width, extension| Op::AddToReg {
        dst: R2,
        src,
        width,
        extension,
    };
    for (value, text) in [
        (32_767i64, "aghi %r2, 32767"),
        (-32_768, "aghi %r2, -32768"),
        (32_768, "agfi %r2, 32768"),
        (-32_769, "agfi %r2, -32769"),
        (0x7fff_ffff, "agfi %r2, 2147483647"),
        (0x8000_0000, "algfi %r2, 2147483648"),
        (-0x8000_0000, "agfi %r2, -2147483648"),
        (-0x8000_0001, "slgfi %r2, 2147483649"),
        (0xffff_ffff, "algfi %r2, 4294967295"),
        (-0xffff_ffff, "slgfi %r2, 4294967295"),
        (0x1_0000_0000, "llihl %r0, 1; agr %r2, %r0"),
        (-0x1_0000_0000, "llihf %r0, 4294967295; agr %r2, %r0"),
    ] {
        expect(cases, add(OpValue::imm(value as u64), B8, Zero), text);
    }
    expect(cases, add(Reg(R3), B8, Zero), "agr %r2, %r3");
    expect(cases, add(Reg(R3), B4, Sign), "agfr %r2, %r3");
    expect(cases, add(Reg(R3), B4, Zero), "algfr %r2, %r3");
    expect(cases, add(Reg(R3), B2, Sign), "lghr %r0, %r3; agr %r2, %r0");
    expect(cases, add(InMem(mem(R3, 8)), B8, Zero), "ag %r2, 8(%r3)");
    expect(cases, add(InMem(mem(R3, 8)), B4, Sign), "agf %r2, 8(%r3)");
    expect(cases, add(InMem(mem(R3, 8)), B4, Zero), "algf %r2, 8(%r3)");
    expect(
        cases,
        add(InMem(mem(R3, 8)), B1, Zero),
        "llgc %r0, 8(%r3); agr %r2, %r0",
    );
    let frame = OpValue::Frame { reg: R15, disp: 160 };
    expect(cases, add(frame, B8, Zero), "la %r0, 160(%r15); agr %r2, %r0");

    let add = |to, src, width| Op::AddToMem {
        to,
        src,
        width,
        atomic: false,
    };
    expect(
        cases,
        add(mem(R3, -1), OpValue::imm(127), B8),
        "agsi -1(%r3), 127",
    );
    expect(
        cases,
        add(mem(R3, 8), OpValue::imm(0xffff_ff80), B4),
        "asi 8(%r3), -128",
    );
    expect(
        cases,
        add(mem(R3, 8), OpValue::imm(128), B8),
        "lghi %r0, 128; ag %r0, 8(%r3); stg %r0, 8(%r3)",
    );
    expect(
        cases,
        add(mem(R3, 8), Reg(R2), B4),
        "lgfr %r0, %r2; a %r0, 8(%r3); st %r0, 8(%r3)",
    );
    expect(
        cases,
        add(mem(R3, 8), OpValue::imm(1), B2),
        "lghi %r0, 1; ah %r0, 8(%r3); sth %r0, 8(%r3)",
    );
    expect(
        cases,
        add(mem(R3, 8), OpValue::imm(255), B1),
        "llgc %r0, 8(%r3); ahi %r0, -1; stc %r0, 8(%r3)",
    );
    expect(
        cases,
        add(mem(R3, 8), Reg(R2), B1),
        "llgc %r0, 8(%r3); ar %r0, %r2; stc %r0, 8(%r3)",
    );
    expect(
        cases,
        add(mem(R3, 8), InMem(mem(R4, 8)), B1),
        "llgc %r0, 8(%r4); llgc %r14, 8(%r3); ar %r14, %r0; stc %r14, 8(%r3)",
    );
    expect(
        cases,
        add(mem(R3, 1 << 20), OpValue::imm(1), B8),
        "llilh %r1, 16; la %r1, 0(%r3,%r1); agsi 0(%r1), 1",
    );
}

fn atomics(cases: &mut Cases) {
    let add = |to, src, width| Op::AddToMem {
        to,
        src,
        width,
        atomic: true,
    };
    expect(cases, add(mem(R3, 8), OpValue::imm(1), B8), "agsi 8(%r3), 1");
    expect(
        cases,
        add(mem(R3, 8), OpValue::imm(0xffff_ffff), B4),
        "asi 8(%r3), -1",
    );
    expect(
        cases,
        add(mem(R3, 8), OpValue::imm(128), B8),
        "lg %r0, 8(%r3); lgr %r14, %r0; aghi %r14, 128; csg %r0, %r14, 8(%r3); brc 4, .-14",
    );
    expect(
        cases,
        add(mem(R3, 8), OpValue::imm(0xffff_ff00), B4),
        "l %r0, 8(%r3); lr %r14, %r0; ahi %r14, -256; cs %r0, %r14, 8(%r3); brc 4, .-10",
    );
    expect(
        cases,
        add(mem(R3, 4096), OpValue::imm(32_768), B4),
        "ly %r0, 4096(%r3); lr %r14, %r0; afi %r14, 32768; csy %r0, %r14, 4096(%r3); brc 4, .-14",
    );
    expect(
        cases,
        add(fixed(0x1_0000_0000), Reg(R2), B8),
        "llihl %r1, 1; lg %r0, 0(%r1); lgr %r14, %r0; agr %r14, %r2; csg %r0, %r14, 0(%r1); brc 4, .-14",
    );
    expect(
        cases,
        add(slot(8), OpValue::imm(1 << 32), B8),
        "lg %r1, 160(%r15); lg %r0, 8(%r1); llihl %r14, 1; agr %r14, %r0; csg %r0, %r14, 8(%r1); brc 4, .-14",
    );
    expect(
        cases,
        add(slot(8), InMem(mem(R2, 4)), B4),
        "lg %r1, 160(%r15); l %r0, 8(%r1); lr %r14, %r0; a %r14, 4(%r2); cs %r0, %r14, 8(%r1); brc 4, .-10",
    );
    expect(
        cases,
        add(mem(R3, 1 << 20), OpValue::Frame { reg: R15, disp: 160 }, B8),
        "llilh %r1, 16; la %r1, 0(%r3,%r1); lg %r0, 0(%r1); lgr %r14, %r0; agr %r14, %r15; \
         agfi %r14, 160; csg %r0, %r14, 0(%r1); brc 4, .-20",
    );
    expect(
        cases,
        add(mem(R3, 8), InMem(slot(16)), B8),
        "lg %r1, 160(%r15); lg %r0, 16(%r1); lg %r14, 8(%r3); lgr %r1, %r14; agr %r1, %r0; \
         csg %r14, %r1, 8(%r3); brc 4, .-14",
    );
}

fn masks(cases: &mut Cases) {
    let and = |mask| Op::Bits {
        dst: R2,
        what: Bits::And(mask),
        number: None,
    };
    for (mask, text) in [
        (0, "lghi %r2, 0"),
        (0xff, "llgcr %r2, %r2"),
        (0xffff, "llghr %r2, %r2"),
        (0xffff_ffff, "llgfr %r2, %r2"),
        (!7, "nill %r2, 65528"),
        (!(1 << 16), "nilh %r2, 65534"),
        (!(1 << 32), "nihl %r2, 65534"),
        (!(1 << 63), "nihh %r2, 32767"),
        (7, "risbg %r2, %r2, 61, 191, 0"),
        (0x1_fffe, "risbg %r2, %r2, 47, 190, 0"),
        (0x5, "nilf %r2, 5; nihf %r2, 0"),
        (0xffff_ffff_1234_5678, "nilf %r2, 305419896"),
        (0x1234_5678_ffff_ffff, "nihf %r2, 305419896"),
    ] {
        expect(cases, and(mask), text);
    }
    let bits = |what| Op::Bits {
        dst: R2,
        what,
        number: None,
    };
    expect(cases, bits(Bits::Left(63)), "sllg %r2, %r2, 63");
    expect(cases, bits(Bits::Right(0)), "srlg %r2, %r2, 0");
    expect(cases, bits(Bits::RightSigned(32)), "srag %r2, %r2, 32");
}

fn comparisons(cases: &mut Cases) {
    let (eq, below, less) = (Cond::Eq, Cond::Below, Cond::Less);
    let (r2, r3, m) = (Reg(R2), Reg(R3), InMem(mem(R3, 8)));
    for (cond, rhs, width, text) in [
        (eq, r3, B8, "clgr %r2, %r3"),
        (less, r3, B8, "cgr %r2, %r3"),
        (below, r3, B8, "clgr %r2, %r3"),
        (eq, r3, B4, "clr %r2, %r3"),
        (less, r3, B4, "cr %r2, %r3"),
        (eq, r3, B2, "llghr %r0, %r2; llghr %r14, %r3; clr %r0, %r14"),
        (less, r3, B1, "lgbr %r0, %r2; lgbr %r14, %r3; cr %r0, %r14"),
        (less, m, B8, "cg %r2, 8(%r3)"),
        (below, m, B8, "clg %r2, 8(%r3)"),
        (less, m, B4, "c %r2, 8(%r3)"),
        (below, m, B4, "cl %r2, 8(%r3)"),
        (less, m, B2, "lghr %r0, %r2; lgh %r14, 8(%r3); cr %r0, %r14"),
        (eq, OpValue::imm(0x7fff), B8, "cghi %r2, 32767"),
        (eq, OpValue::imm(0x8000), B8, "cgfi %r2, 32768"),
        (eq, OpValue::imm(0x8000_0000), B8, "clgfi %r2, 2147483648"),
        (eq, OpValue::imm(1 << 32), B8, "llihl %r0, 1; clgr %r2, %r0"),
        (
            eq,
            OpValue::imm(-0x8000_0000i64 as u64),
            B8,
            "cgfi %r2, -2147483648",
        ),
        (
            less,
            OpValue::imm(0x8000_0000),
            B8,
            "llilh %r0, 32768; cgr %r2, %r0",
        ),
        (below, OpValue::imm(0), B8, "clgfi %r2, 0"),
        (below, OpValue::imm(u64::MAX), B8, "lghi %r0, -1; clgr %r2, %r0"),
        (eq, OpValue::imm(0xffff_8000), B4, "chi %r2, -32768"),
        (eq, OpValue::imm(0x8000), B4, "clfi %r2, 32768"),
        (less, OpValue::imm(0x8000), B4, "cfi %r2, 32768"),
        (below, OpValue::imm(0xffff_ffff), B4, "clfi %r2, 4294967295"),
        (eq, OpValue::imm(0xffff), B2, "llghr %r0, %r2; clfi %r0, 65535"),
        (less, OpValue::imm(0xffff), B2, "lghr %r0, %r2; chi %r0, -1"),
        (eq, OpValue::imm(0xff), B1, "llgcr %r0, %r2; chi %r0, 255"),
        (below, OpValue::imm(0x80), B1, "llgcr %r0, %r2; clfi %r0, 128"),
    ] {
        expect(cases, branch(cond, r2, rhs, width), text);
    }
    for (cond, address, imm, width, text) in [
        (eq, mem(R3, 4095), 0x7fff, B8, "cghsi 4095(%r3), 32767"),
        (eq, mem(R3, 8), 0xffff, B8, "clghsi 8(%r3), 65535"),
        (below, mem(R3, 8), 5, B8, "clghsi 8(%r3), 5"),
        (less, mem(R3, 8), 5, B4, "chsi 8(%r3), 5"),
        (below, mem(R3, 8), 0xffff, B4, "clfhsi 8(%r3), 65535"),
        (eq, mem(R3, 8), 0xffff, B2, "chhsi 8(%r3), -1"),
        (below, mem(R3, 8), 0xffff, B2, "clhhsi 8(%r3), 65535"),
        (eq, mem(R3, -8), 0xff, B1, "cliy -8(%r3), 255"),
        (less, mem(R3, 8), 0xff, B1, "lgb %r0, 8(%r3); chi %r0, -1"),
        (eq, mem(R3, 4096), 5, B4, "llgf %r0, 4096(%r3); chi %r0, 5"),
        (eq, mem(R3, 8), 0x1_0000, B4, "llgf %r0, 8(%r3); clfi %r0, 65536"),
        (eq, slot(8), 23, B4, "lg %r1, 160(%r15); chsi 8(%r1), 23"),
        (
            eq,
            slot(8),
            1 << 20,
            B4,
            "lg %r1, 160(%r15); llgf %r0, 8(%r1); clfi %r0, 1048576",
        ),
        (
            less,
            mem(R3, 1 << 20),
            7,
            B8,
            "llilh %r1, 16; lg %r0, 0(%r3,%r1); cghi %r0, 7",
        ),
    ] {
        expect(
            cases,
            branch(cond, InMem(address), OpValue::imm(imm), width),
            text,
        );
    }
    // The right one is a constant, whichever it was.
    let swapped = emit(&branch(Cond::Greater, OpValue::imm(5), r2, B8), ALL_FREE).unwrap();
    assert_eq!(swapped.branches[0].kind, BranchKind::JumpIf(less));
    expect(
        cases,
        branch(Cond::Greater, OpValue::imm(5), r2, B8),
        "cghi %r2, 5",
    );
    expect(
        cases,
        branch(eq, m, InMem(mem(R4, 8)), B8),
        "lg %r0, 8(%r3); clg %r0, 8(%r4)",
    );
}

fn refused(op: &Op<'_>, free: RegSet) -> EncodingRefusal {
    match emit(op, free) {
        Err(refusal) => refusal,
        Ok(code) => panic!("{op:?}: {:02x?}", code.bytes),
    }
}

#[test]
fn what_cannot_be_encoded_is_refused() {
    let unusable = |op: Op<'_>| match refused(&op, ALL_FREE) {
        EncodingRefusal::Unusable(_) => {}
        other => panic!("{op:?}: {other:?}"),
    };
    let control = DwarfReg::new(32);
    let upper = DwarfReg::new(68);
    for reg in [control, DwarfReg::new(48), DwarfReg::new(u16::MAX), upper] {
        unusable(mov(R2, Reg(reg), B8, Zero));
        unusable(mov(reg, Reg(R2), B8, Zero));
        unusable(Op::Store {
            to: mem(R3, 0),
            src: Reg(reg),
            width: B8,
        });
        unusable(branch(Cond::Eq, Reg(reg), OpValue::imm(0), B8));
    }
    unusable(mov(R2, InMem(mem(F0, 0)), B8, Zero));
    unusable(mov(R2, Reg(F0), B2, Zero));
    unusable(mov(F0, Reg(R2), B1, Zero));
    unusable(mov(F0, Reg(R2), B4, Sign));
    unusable(mov(R2, OpValue::Frame { reg: R15, disp: 0 }, B4, Zero));
    unusable(Op::Raw(&[7, 0, 7]));
    for width in [B1, B2] {
        unusable(Op::AddToMem {
            to: mem(R3, 0),
            src: OpValue::imm(1),
            width,
            atomic: true,
        });
    }
    for (value, width) in [(256, B1), (0x1_0000, B2), (1 << 32, B4), (-129i64 as u64, B1)] {
        let op = mov(R2, OpValue::imm(value), width, Zero);
        assert_eq!(
            refused(&op, ALL_FREE),
            EncodingRefusal::Immediate { value, width }
        );
    }
}

#[test]
fn without_free_registers_what_needs_one_is_refused() {
    let no_scratch = |op: Op<'_>, free: RegSet| match refused(&op, free) {
        EncodingRefusal::NoScratch(_) => {}
        other => panic!("{op:?}: {other:?}"),
    };
    let none = RegSet::EMPTY;
    no_scratch(branch(Cond::Eq, Reg(R2), OpValue::imm(1 << 32), B8), none);
    no_scratch(branch(Cond::Eq, Reg(R2), Reg(R3), B1), none);
    no_scratch(
        Op::Store {
            to: slot(8),
            src: Reg(R2),
            width: B8,
        },
        none,
    );
    // r0 holds values, but no addresses.
    let only_r0 = RegSet::of(&[R0]);
    let store = |src| Op::Store {
        to: slot(8),
        src,
        width: B8,
    };
    no_scratch(store(Reg(R2)), only_r0);
    emit(&store(Reg(R2)), RegSet::of(&[R1])).unwrap();
    let atomic = |to, number| Op::AddToMem {
        to,
        src: OpValue::imm(number),
        width: B8,
        atomic: true,
    };
    no_scratch(atomic(slot(8), 128), TWO_FREE);
    emit(&atomic(mem(R2, 8), 128), TWO_FREE).unwrap();
    // What counters add.
    emit(&atomic(fixed(1 << 40), 1), RegSet::of(&[R1])).unwrap();
    // A load needs none: the destination may hold the address until then.
    emit(&mov(R2, InMem(slot(8)), B8, Zero), none).unwrap();
    emit(&mov(R2, InMem(fixed(1 << 40)), B8, Zero), none).unwrap();
    no_scratch(mov(R2, InMem(mem(R2, 1 << 20)), B8, Zero), none);
    no_scratch(mov(R0, InMem(slot(8)), B8, Zero), none);
}

#[test]
fn only_free_registers_and_the_destination_are_written() {
    let values = [
        Reg(R3),
        OpValue::imm(0x1234_5678_9abc_def0),
        InMem(mem(R4, 8)),
        InMem(slot(8)),
        InMem(fixed(1 << 40)),
        OpValue::Frame { reg: R15, disp: 160 },
    ];
    for src in values {
        let op = mov(R2, src, B8, Zero);
        let code = emit(&op, ALL_FREE).unwrap();
        assert!(code.clobbers.contains(R2), "{op:?}");
        assert!(code.clobbers.difference(ALL_FREE.with(R2)).is_empty(), "{op:?}");
        let op = branch(Cond::Eq, src, InMem(slot(16)), B8);
        let code = emit(&op, ALL_FREE).unwrap();
        assert!(code.clobbers.difference(ALL_FREE).is_empty(), "{op:?}");
        assert!(!code.clobbers.is_empty());
    }
}
