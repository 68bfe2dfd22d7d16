//! Every instruction, over registers and boundary values, and operations as sequences of
//! instructions, against LLVM's assembler.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use patchpoint_isa::{Arch, nops};

use super::{branches, operations};
use crate::encodings::{Cases, Corpus, tests_of};
use crate::systemz::insn::{self, Mem, Ri, Ril, Rr, Rre, Rs, Rx, Si, Sil};
use crate::systemz::regs::Gpr;

tests_of!(CORPUS);

const CORPUS: Corpus = Corpus {
    name: "systemz",
    recorded: include_str!("../../../encodings/systemz.txt"),
    options: &["-triple=s390x-linux-gnu", "-mcpu=z10"],
    directive: |_| "",
    enumerate: |cases| {
        registers(cases);
        immediates(cases);
        memory(cases);
        constants(cases);
        fixed(cases);
        branches::cases(cases);
        operations::cases(cases);
    },
};

fn regs(cases: &Cases, plain: u8) -> Vec<u8> {
    cases.registers(plain, 15)
}

/// `disp(index,base)`, as the assembler writes it.
fn address(mem: Mem) -> String {
    let reg = |reg: Option<Gpr>| reg.map(|Gpr(n)| format!("%r{n}"));
    match (reg(mem.index), reg(mem.base)) {
        (None, None) => mem.disp.to_string(),
        (None, Some(base)) => format!("{}({base})", mem.disp),
        (Some(index), Some(base)) => format!("{}({index},{base})", mem.disp),
        (Some(index), None) => format!("{}({index})", mem.disp),
    }
}

/// A register or none: where an address names r0, it names none.
fn base_or_none(cases: &Cases, plain: u8) -> Vec<Option<Gpr>> {
    let named = |n| (n != 0).then_some(Gpr(n));
    cases
        .values(&[plain, 0, 1, 15], 1..16)
        .into_iter()
        .map(named)
        .collect()
}

/// Displacements of 12 and of 20 bits, of which the high 8 are apart; bases and indexes with
/// either, indexes only where the format has one.
fn mems(cases: &Cases, has_index: bool) -> Vec<Mem> {
    const SHORT: i32 = 0x155;
    const LONG: i32 = 0x1_2345;
    let short = cases.unsigned(12, SHORT as u64).into_iter();
    let long = cases.signed(20, LONG.into()).into_iter();
    let disps: Vec<_> = short
        .map(|disp| disp as i32)
        .chain(long.map(|disp| disp as i32))
        .chain([4096])
        .collect();
    let bases = base_or_none(cases, 6);
    let indexes = match has_index {
        true => [&[None][..], &base_or_none(cases, 12)].concat(),
        false => Vec::from([None]),
    };
    let all = [
        cases.vary(&indexes, &cases.vary(&bases, &disps)),
        cases.vary(&indexes, &cases.vary(&bases, &[LONG])),
    ]
    .concat();
    // An index alone is written as a base.
    all.into_iter()
        .filter(|(index, (base, _))| index.is_none() || base.is_some())
        .map(|(index, (base, disp))| Mem {
            base,
            index,
            disp,
            number: None,
        })
        .collect()
}

/// The mnemonic of a long form: the same with a y, where there is a short form too.
fn mnemonic(name: &str, has_short: bool, mem: Mem) -> String {
    match has_short && !mem.is_short() {
        true => format!("{}y", name.to_lowercase()),
        false => name.to_lowercase(),
    }
}

fn is_float(name: &str) -> bool {
    matches!(name, "LD" | "LE" | "STD" | "STE")
}

fn registers(cases: &mut Cases) {
    let pairs = cases.vary(&regs(cases, 9), &regs(cases, 6));
    for (name, insn) in Rr::ALL {
        for (r1, r2) in &pairs {
            let lower = name.to_lowercase();
            let text = match *name {
                "LDR" => format!("ldr %f{r1}, %f{r2}"),
                "BCR" => format!("bcr {r1}, %r{r2}"),
                _ => format!("{lower} %r{r1}, %r{r2}"),
            };
            cases.add(text, |out| out.extend(insn.of(*r1, *r2)));
        }
    }
    for (name, insn) in Rre::ALL {
        for (r1, r2) in &pairs {
            let lower = name.to_lowercase();
            let (text, r2) = match *name {
                "LDGR" => (format!("ldgr %f{r1}, %r{r2}"), *r2),
                "LGDR" => (format!("lgdr %r{r1}, %f{r2}"), *r2),
                "LZDR" => (format!("lzdr %f{r1}"), 0),
                _ => (format!("{lower} %r{r1}, %r{r2}"), *r2),
            };
            cases.add(text, |out| out.extend(insn.numbers(*r1, r2)));
        }
    }
}

fn immediates(cases: &mut Cases) {
    for (name, insn) in Ri::ALL {
        let lower = name.to_lowercase();
        for (r1, imm) in cases.vary(&regs(cases, 9), &halfwords(cases)) {
            let text = match *name {
                "BRC" => format!("brc {r1}, .{:+}", i32::from(imm as i16) * 2),
                "BRAS" => format!("bras %r{r1}, .{:+}", i32::from(imm as i16) * 2),
                "LGHI" | "AHI" | "AGHI" | "CHI" | "CGHI" => format!("{lower} %r{r1}, {}", imm as i16),
                _ => format!("{lower} %r{r1}, {imm}"),
            };
            cases.add(text, |out| out.extend(insn.of(r1, imm)));
        }
    }
    let words = cases.values(
        &[0x1234_5678, 0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX],
        (0..32).map(|bit| 1 << bit),
    );
    for (name, insn) in Ril::ALL {
        let lower = name.to_lowercase();
        for (r1, imm) in cases.vary(&regs(cases, 9), &words) {
            let text = match *name {
                "BRCL" => format!("brcl {r1}, .{:+}", i64::from(imm as i32) * 2),
                "BRASL" => format!("brasl %r{r1}, .{:+}", i64::from(imm as i32) * 2),
                "LGFI" | "AGFI" | "AFI" | "CGFI" | "CFI" => format!("{lower} %r{r1}, {}", imm as i32),
                _ => format!("{lower} %r{r1}, {imm}"),
            };
            cases.add(text, |out| out.extend(insn.of(r1, imm)));
        }
    }
    for (n, mask) in cases.vary(&regs(cases, 9), &runs()) {
        let (first, last) = (mask.leading_zeros(), 63 - mask.trailing_zeros() + 128);
        let text = format!("risbg %r{n}, %r{n}, {first}, {last}, 0");
        cases.add(text, |out| out.extend(insn::select_bits(Gpr(n), mask).unwrap()));
    }
}

fn halfwords(cases: &Cases) -> Vec<u16> {
    cases.values(
        &[0x1234, 0, 1, 0x7fff, 0x8000, 0xffff],
        (0..16).map(|bit| 1 << bit),
    )
}

fn memory(cases: &mut Cases) {
    for (name, insn) in Rx::ALL {
        let file = if is_float(name) { 'f' } else { 'r' };
        for (r1, mem) in cases.vary(&regs(cases, 9), &mems(cases, true)) {
            let name = mnemonic(name, insn.0.is_some(), mem);
            let text = format!("{name} %{file}{r1}, {}", address(mem));
            cases.add(text, |out| insn.put(r1, mem, out));
        }
    }
    let pairs = cases.vary(&regs(cases, 9), &regs(cases, 10));
    for (name, insn) in Rs::ALL {
        for ((r1, r3), mem) in cases.vary(&pairs, &mems(cases, false)) {
            let name = mnemonic(name, insn.0.is_some(), mem);
            let text = format!("{name} %r{r1}, %r{r3}, {}", address(mem));
            cases.add(text, |out| insn.put(r1, r3, mem, out));
        }
    }
    let bytes = cases.values(&[0x12, 0, 1, 127, 128, 255], (0..8).map(|bit| 1 << bit));
    for (name, insn) in Si::ALL {
        for (imm, mem) in cases.vary(&bytes, &mems(cases, false)) {
            let text = match *name {
                "ASI" | "AGSI" => format!("{} {}, {}", name.to_lowercase(), address(mem), imm as i8),
                _ => format!("{} {}, {imm}", mnemonic(name, true, mem), address(mem)),
            };
            cases.add(text, |out| insn.put(mem, imm, out));
        }
    }
    let short: Vec<_> = mems(cases, false)
        .into_iter()
        .filter(|mem| mem.is_short())
        .collect();
    for (name, insn) in Sil::ALL {
        for (imm, mem) in cases.vary(&halfwords(cases), &short) {
            let lower = name.to_lowercase();
            let imm_text = match name.starts_with("CL") {
                true => imm.to_string(),
                false => (imm as i16).to_string(),
            };
            cases.add(format!("{lower} {}, {imm_text}", address(mem)), |out| {
                out.extend(insn.of(mem, imm))
            });
        }
    }
}

fn constants(cases: &mut Cases) {
    let values: Vec<_> = super::constants().collect();
    for (n, value) in cases.vary(&regs(cases, 9), &values) {
        let signed = value as i64;
        let quarter = [("llill", 0), ("llilh", 16), ("llihl", 32), ("llihh", 48)]
            .into_iter()
            .find(|(_, shift)| value & !(0xffff << shift) == 0);
        let (low, high) = (value as u32, value >> 32);
        let text = match (i16::try_from(signed), quarter) {
            (Ok(_), _) => format!("lghi %r{n}, {signed}"),
            (_, Some((insn, shift))) => format!("{insn} %r{n}, {}", value >> shift),
            _ if i32::try_from(signed).is_ok() => format!("lgfi %r{n}, {signed}"),
            _ if high == 0 => format!("llilf %r{n}, {low}"),
            _ if low == 0 => format!("llihf %r{n}, {high}"),
            _ => format!("llilf %r{n}, {low}; iihf %r{n}, {high}"),
        };
        cases.add(text, |out| Gpr(n).put_constant(value, out));
    }
}

fn fixed(cases: &mut Cases) {
    cases.add("br %r14", |out| out.extend(insn::RETURN));
    for (len, text) in [(6, "brcl 0, ."), (4, "bc 0, 0"), (2, "bcr 0, %r0")] {
        cases.add(text, |out| nops::put(Arch::SystemZ, len, out));
    }
    let pairs = cases.vary(&regs(cases, 9), &regs(cases, 6));
    let distances = cases.values(&[5, 0, 1, 31, 32, 63], 0..64);
    for (name, insn) in [("sllg", insn::SLLG), ("srlg", insn::SRLG), ("srag", insn::SRAG)] {
        for ((dst, src), by) in cases.vary(&pairs, &distances) {
            let text = format!("{name} %r{dst}, %r{src}, {by}");
            cases.add(text, |out| insn::shift(insn, Gpr(dst), Gpr(src), by, out));
        }
    }
}

/// Masks whose ones are in one run.
fn runs() -> [u64; 7] {
    [
        0xff00,
        1,
        1 << 63,
        7,
        u64::MAX << 3,
        0x7fff_ffff_ffff_fff8,
        u64::MAX,
    ]
}

#[test]
fn what_is_not_one_run_is_refused() {
    for mask in [0, 5, 1 | 1 << 63, !(1 << 32)] {
        assert_eq!(insn::select_bits(Gpr(9), mask), None, "{mask:#x}");
    }
}
