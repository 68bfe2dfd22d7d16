//! Every instruction, over registers and boundary values, against LLVM's assembler.

use alloc::format;
use alloc::vec::Vec;

use patchpoint_isa::{Arch, exchange};

use super::super::insn::{self, Field, Gpr};
use crate::encodings::{Cases, Corpus, tests_of};
use crate::op::{Extension, Width};

tests_of!(CORPUS);

const CORPUS: Corpus = Corpus {
    name: "powerpc64",
    recorded: include_str!("../../../encodings/powerpc64.txt"),
    options: &["-triple=powerpc64-linux-gnu", "-mcpu=pwr10"],
    directive: |_| "",
    enumerate: |cases| {
        arithmetic(cases);
        logic(cases);
        rotations(cases);
        extensions(cases);
        memory(cases);
        reservations(cases);
        vectors(cases);
        comparisons(cases);
        special_registers(cases);
        control(cases);
    },
};

const WIDTHS: [Width; 4] = [Width::B1, Width::B2, Width::B4, Width::B8];

fn regs(cases: &Cases, plain: u8) -> Vec<u8> {
    cases.registers(plain, 31)
}

fn pairs(cases: &Cases) -> Vec<(u8, u8)> {
    cases.vary(&regs(cases, 9), &regs(cases, 21))
}

fn signed(cases: &Cases) -> Vec<i16> {
    let values = cases.signed(16, 0x1234).into_iter();
    values.map(|imm| imm as i16).collect()
}

fn unsigned(cases: &Cases) -> Vec<u16> {
    let values = cases.unsigned(16, 0x1234).into_iter();
    values.map(|imm| imm as u16).collect()
}

/// The distances of shifts and the bits of masks, of which the highest bit is apart from the
/// others.
fn shifts(cases: &Cases) -> Vec<u8> {
    cases.values(&[5, 0, 1, 31, 32, 33, 62, 63], 0..64)
}

/// The words of the instructions are the same in both orders of bytes; LLVM is asked for big-endian
/// ones.
fn add(cases: &mut Cases, text: impl Into<alloc::string::String>, word: u32) {
    cases.add(text, |out| out.extend(word.to_be_bytes()));
}

fn arithmetic(cases: &mut Cases) {
    for (a, imm) in cases.vary(&regs(cases, 9), &signed(cases)) {
        add(cases, format!("li {a}, {imm}"), insn::li(Gpr(a), imm));
        add(cases, format!("lis {a}, {imm}"), insn::lis(Gpr(a), imm));
    }
    for ((a, b), imm) in cases.vary(&pairs(cases), &signed(cases)) {
        let (ra, rb, operands) = (Gpr(a), Gpr(b), format!("{a}, {b}, {imm}"));
        add(cases, format!("addi {operands}"), insn::addi(ra, rb, imm));
        add(cases, format!("addis {operands}"), insn::addis(ra, rb, imm));
    }
}

fn logic(cases: &mut Cases) {
    for ((a, b), imm) in cases.vary(&pairs(cases), &unsigned(cases)) {
        let (ra, rb, operands) = (Gpr(a), Gpr(b), format!("{a}, {b}, {imm}"));
        add(cases, format!("ori {operands}"), insn::ori(ra, rb, imm));
        add(cases, format!("oris {operands}"), insn::oris(ra, rb, imm));
        add(cases, format!("xori {operands}"), insn::xori(ra, rb, imm));
        add(cases, format!("xoris {operands}"), insn::xoris(ra, rb, imm));
    }
    for ((a, b), c) in cases.vary(&pairs(cases), &regs(cases, 6)) {
        let (ra, rb, rc, operands) = (Gpr(a), Gpr(b), Gpr(c), format!("{a}, {b}, {c}"));
        add(cases, format!("add {operands}"), insn::add(ra, rb, rc));
        add(cases, format!("and {operands}"), insn::and(ra, rb, rc));
        add(cases, format!("xor {operands}"), insn::xor(ra, rb, rc));
    }
    for (a, b) in pairs(cases) {
        add(cases, format!("mr {a}, {b}"), insn::mr(Gpr(a), Gpr(b)));
    }
}

fn rotations(cases: &mut Cases) {
    let (pairs, shifts) = (pairs(cases), shifts(cases));
    for ((a, b), shift) in cases.vary(&pairs, &shifts) {
        let word = insn::sradi(Gpr(a), Gpr(b), shift);
        add(cases, format!("sradi {a}, {b}, {shift}"), word);
    }
    for ((a, b), (shift, mask)) in cases.vary(&pairs, &cases.vary(&shifts, &shifts)) {
        let (ra, rb, operands) = (Gpr(a), Gpr(b), format!("{a}, {b}, {shift}, {mask}"));
        add(
            cases,
            format!("rldicl {operands}"),
            insn::rldicl(ra, rb, shift, mask),
        );
        add(
            cases,
            format!("rldicr {operands}"),
            insn::rldicr(ra, rb, shift, mask),
        );
    }
    for ((a, b), bit) in cases.vary(&pairs, &cases.values(&[5, 0, 30, 31], 0..32)) {
        let word = insn::extract_bit(Gpr(a), Gpr(b), bit);
        add(
            cases,
            format!("rlwinm {a}, {b}, {}, 31, 31", (bit + 1) % 32),
            word,
        );
    }
}

fn extensions(cases: &mut Cases) {
    for (a, b) in pairs(cases) {
        let (ra, rb) = (Gpr(a), Gpr(b));
        for (mnemonic, width) in [("extsb", Width::B1), ("extsh", Width::B2), ("extsw", Width::B4)] {
            let word = insn::extend(ra, rb, width, Extension::Sign);
            add(cases, format!("{mnemonic} {a}, {b}"), word);
        }
        for (bits, width) in [(56, Width::B1), (48, Width::B2), (32, Width::B4)] {
            let word = insn::extend(ra, rb, width, Extension::Zero);
            add(cases, format!("clrldi {a}, {b}, {bits}"), word);
        }
    }
}

fn memory(cases: &mut Cases) {
    // The greatest that is a multiple of 4, and others that are none.
    let aligned = [0x1234, 0, 4, -4, 32764, -32768];
    let disps: Vec<i16> = [aligned.to_vec(), signed(cases)].concat();
    for ((a, b), disp) in cases.vary(&pairs(cases), &disps) {
        let (ra, rb, operands) = (Gpr(a), Gpr(b), format!("{a}, {disp}({b})"));
        for (index, width) in WIDTHS.into_iter().enumerate() {
            for (extension, loads) in [
                (Extension::Zero, ["lbz", "lhz", "lwz", "ld"]),
                (Extension::Sign, ["lbz", "lha", "lwa", "ld"]),
            ] {
                if disp % 4 == 0 || !insn::is_ds(width, extension) {
                    let word = insn::load(ra, rb, disp, width, extension);
                    add(cases, format!("{} {operands}", loads[index]), word);
                }
            }
            if disp % 4 == 0 || !insn::is_ds(width, Extension::Zero) {
                let store = ["stb", "sth", "stw", "std"][index];
                add(
                    cases,
                    format!("{store} {operands}"),
                    insn::store(ra, rb, disp, width),
                );
            }
        }
        for (load, store, width) in [("lfs", "stfs", Width::B4), ("lfd", "stfd", Width::B8)] {
            add(
                cases,
                format!("{load} {operands}"),
                insn::load_float(a, rb, disp, width),
            );
            add(
                cases,
                format!("{store} {operands}"),
                insn::store_float(a, rb, disp, width),
            );
        }
    }
}

fn reservations(cases: &mut Cases) {
    const NAMES: [(&str, &str, Width); 4] = [
        ("lbarx", "stbcx.", Width::B1),
        ("lharx", "sthcx.", Width::B2),
        ("lwarx", "stwcx.", Width::B4),
        ("ldarx", "stdcx.", Width::B8),
    ];
    for (a, b) in pairs(cases) {
        for (load, store, width) in NAMES {
            let (ra, rb, operands) = (Gpr(a), Gpr(b), format!("{a}, 0, {b}"));
            add(
                cases,
                format!("{load} {operands}"),
                insn::load_reserve(ra, rb, width),
            );
            add(
                cases,
                format!("{store} {operands}"),
                insn::store_conditional(ra, rb, width),
            );
        }
    }
}

fn vectors(cases: &mut Cases) {
    for (a, b) in pairs(cases) {
        add(cases, format!("fmr {a}, {b}"), insn::fmr(a, b));
    }
    // The bit that tells the upper half of the vector-scalar registers is apart from the others.
    for (vs, b) in cases.vary(&cases.values(&[9, 0, 31, 32, 63], 0..64), &regs(cases, 21)) {
        add(cases, format!("mfvsrd {b}, {vs}"), insn::mfvsrd(Gpr(b), vs));
        add(cases, format!("mtvsrd {vs}, {b}"), insn::mtvsrd(vs, Gpr(b)));
    }
}

fn comparisons(cases: &mut Cases) {
    let fields = cases.values(&[5, 0, 7], 0..8);
    let operands = cases.vary(&fields, &regs(cases, 9));
    for (suffix, doubleword) in [("w", false), ("d", true)] {
        let (signed_name, logical) = (format!("cmp{suffix}"), format!("cmpl{suffix}"));
        for ((f, a), b) in cases.vary(&operands, &regs(cases, 21)) {
            let compare = |signed| insn::compare(Field(f), Gpr(a), Gpr(b), doubleword, signed);
            add(cases, format!("{signed_name} {f}, {a}, {b}"), compare(true));
            add(cases, format!("{logical} {f}, {a}, {b}"), compare(false));
        }
        for ((f, a), imm) in cases.vary(&operands, &signed(cases)) {
            let word = insn::compare_signed(Field(f), Gpr(a), imm, doubleword);
            add(cases, format!("{signed_name}i {f}, {a}, {imm}"), word);
        }
        for ((f, a), imm) in cases.vary(&operands, &unsigned(cases)) {
            let word = insn::compare_unsigned(Field(f), Gpr(a), imm, doubleword);
            add(cases, format!("{logical}i {f}, {a}, {imm}"), word);
        }
    }
    for (f, a) in operands {
        let (field, mask) = (Field(f), 0x80 >> f);
        add(cases, format!("mfocrf {a}, {mask}"), insn::mfocrf(Gpr(a), field));
        add(cases, format!("mtocrf {mask}, {a}"), insn::mtocrf(field, Gpr(a)));
    }
}

fn special_registers(cases: &mut Cases) {
    for a in regs(cases, 9) {
        add(cases, format!("mtlr {a}"), insn::mtlr(Gpr(a)));
        add(cases, format!("mflr {a}"), insn::mflr(Gpr(a)));
        add(cases, format!("mtctr {a}"), insn::mtctr(Gpr(a)));
        add(cases, format!("mfctr {a}"), insn::mfctr(Gpr(a)));
    }
}

fn control(cases: &mut Cases) {
    let scaled = |field: Vec<i64>| field.into_iter().map(|n| n * 4).collect::<Vec<_>>();
    let bits = cases.values(&[21, 0, 31], 0..32);
    for ((bo, bi), disp) in cases.vary(
        &cases.vary(&[4, 12, 16, 18], &bits),
        &scaled(cases.signed(14, 0x456)),
    ) {
        let word = insn::bc(bo, bi, disp as i16);
        add(cases, format!("bc {bo}, {bi}, {disp}"), word);
    }
    for disp in scaled(cases.signed(24, 0x12_3456)) {
        // LLVM takes `b -` for a mnemonic.
        add(cases, format!("b ({disp})"), insn::b(disp as i32));
    }
    add(cases, "nop", insn::NOP);
    for arch in [Arch::PowerPc64, Arch::PowerPc64ElfV2, Arch::PowerPc64Le] {
        let trap = exchange::trap(arch).try_into().unwrap();
        let word = match arch.is_big_endian() {
            true => u32::from_be_bytes(trap),
            false => u32::from_le_bytes(trap),
        };
        add(cases, "trap", word);
    }
    add(cases, ".long 0", insn::ILLEGAL);
    add(cases, "blr", insn::BLR);
    add(cases, "bctr", insn::BCTR);
    add(cases, "bctrl", insn::BCTRL);
}

/// The other fields are cut to their width: whoever calls has checked that they fit.
#[test]
fn one_beyond_each_distance_is_refused() {
    for distance in [0, (1 << 25) - 4, -(1 << 25)] {
        assert_eq!(insn::b_to(distance), Some(insn::b(distance as i32)));
    }
    for distance in [1 << 25, -(1 << 25) - 4, 2, i64::MIN, i64::MAX] {
        assert_eq!(insn::b_to(distance), None, "{distance:#x}");
    }
}
