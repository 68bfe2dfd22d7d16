//! Every instruction, over registers and boundary values, and operations as sequences of
//! instructions, against LLVM's assembler.
//!
//! `encodings/systemz.txt` holds what LLVM's assembler makes of each text. It is written by `cargo
//! test -p patchpoint-asm --lib systemz::tests::write_encodings -- --ignored`, which takes all
//! bytes from `llvm-mc` and none from here.

mod operations;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use object::{Object, ObjectSection};

use llvm_stackmaps::addr::CodeAddr;
use patchpoint_isa::{Arch, nops};

use super::branch;
use super::insn::{self, Mem, Ri, Ril, Rr, Rre, Rs, Rx, Si, Sil};
use super::regs::{Gpr, R1};
use crate::backend::{Branch, BranchForm, BranchKind};
use crate::op::{Cond, Dest};

const ENCODINGS: &str = include_str!("../../encodings/systemz.txt");

const DISPS: [i32; 8] = [0, 1, 4095, 4096, -1, -4096, 524_287, -524_288];

/// Instructions as text and as they are encoded here.
#[derive(Default)]
struct Cases(BTreeMap<String, Vec<u8>>);

fn numbers() -> impl Iterator<Item = u8> {
    0..16
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

/// Each base with some displacements, each displacement, none at all, and an index.
fn mems(index: bool) -> Vec<Mem> {
    let bases = (1..16).map(|n| Mem::base(Gpr(n), DISPS[usize::from(n) % DISPS.len()]));
    let disps = DISPS.map(|disp| Mem::base(Gpr(5), disp));
    let fixed = [0, 4095, -1, 4096].map(|disp| Mem {
        base: None,
        index: None,
        disp,
    });
    let indexed = (1..16).filter(|_| index).map(|n| Mem {
        index: Some(Gpr(n)),
        ..Mem::base(Gpr(16 - n), DISPS[usize::from(n) % DISPS.len()])
    });
    bases.chain(disps).chain(fixed).chain(indexed).collect()
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

impl Cases {
    fn add(&mut self, text: String, bytes: impl IntoIterator<Item = u8>) {
        self.0.insert(text, bytes.into_iter().collect());
    }

    fn put(&mut self, text: String, put: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        put(&mut bytes);
        self.add(text, bytes);
    }

    fn registers(&mut self) {
        for (name, insn) in Rr::ALL {
            for (r1, r2) in numbers().flat_map(|n| [(n, 15 - n), (n, n), (n, 1)]) {
                let lower = name.to_lowercase();
                let text = match *name {
                    "LDR" => format!("ldr %f{r1}, %f{r2}"),
                    "BCR" => format!("bcr {r1}, %r{r2}"),
                    _ => format!("{lower} %r{r1}, %r{r2}"),
                };
                self.add(text, insn.of(r1, r2));
            }
        }
        for (name, insn) in Rre::ALL {
            for (r1, r2) in numbers().flat_map(|n| [(n, 15 - n), (n, n), (n, 1)]) {
                let lower = name.to_lowercase();
                let (text, r2) = match *name {
                    "LDGR" => (format!("ldgr %f{r1}, %r{r2}"), r2),
                    "LGDR" => (format!("lgdr %r{r1}, %f{r2}"), r2),
                    "LZDR" => (format!("lzdr %f{r1}"), 0),
                    _ => (format!("{lower} %r{r1}, %r{r2}"), r2),
                };
                self.add(text, insn.numbers(r1, r2));
            }
        }
    }

    fn immediates(&mut self) {
        for (name, insn) in Ri::ALL {
            let lower = name.to_lowercase();
            for (r1, imm) in numbers().flat_map(|n| [0, 1, 0x7fff, 0x8000, 0xffff].map(|imm| (n, imm))) {
                let text = match *name {
                    "BRC" => format!("brc {r1}, .{:+}", i32::from(imm as i16) * 2),
                    "BRAS" => format!("bras %r{r1}, .{:+}", i32::from(imm as i16) * 2),
                    "LGHI" | "AHI" | "AGHI" | "CHI" | "CGHI" => format!("{lower} %r{r1}, {}", imm as i16),
                    _ => format!("{lower} %r{r1}, {imm}"),
                };
                self.add(text, insn.of(r1, imm));
            }
        }
        for (name, insn) in Ril::ALL {
            let lower = name.to_lowercase();
            let values = [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX];
            for (r1, imm) in numbers().flat_map(|n| values.map(|imm| (n, imm))) {
                let text = match *name {
                    "BRCL" => format!("brcl {r1}, .{:+}", i64::from(imm as i32) * 2),
                    "BRASL" => format!("brasl %r{r1}, .{:+}", i64::from(imm as i32) * 2),
                    "LGFI" | "AGFI" | "AFI" | "CGFI" | "CFI" => format!("{lower} %r{r1}, {}", imm as i32),
                    _ => format!("{lower} %r{r1}, {imm}"),
                };
                self.add(text, insn.of(r1, imm));
            }
        }
        for (reg, mask) in numbers().flat_map(|n| runs().map(move |mask| (Gpr(n), mask))) {
            let (n, first, last) = (reg.0, mask.leading_zeros(), 63 - mask.trailing_zeros() + 128);
            let text = format!("risbg %r{n}, %r{n}, {first}, {last}, 0");
            self.add(text, insn::select_bits(reg, mask).unwrap());
        }
    }

    fn memory(&mut self) {
        for (name, insn) in Rx::ALL {
            let file = if is_float(name) { 'f' } else { 'r' };
            for (n, mem) in mems(true).into_iter().enumerate() {
                let r1 = n as u8 % 16;
                let text = format!(
                    "{} %{file}{r1}, {}",
                    mnemonic(name, insn.0.is_some(), mem),
                    address(mem)
                );
                self.put(text, |out| insn.put(r1, mem, out));
            }
        }
        for (name, insn) in Rs::ALL {
            for (n, mem) in mems(false).into_iter().enumerate() {
                let (r1, r3) = (n as u8 % 16, 15 - n as u8 % 16);
                let text = format!(
                    "{} %r{r1}, %r{r3}, {}",
                    mnemonic(name, insn.0.is_some(), mem),
                    address(mem)
                );
                self.put(text, |out| insn.put(r1, r3, mem, out));
            }
        }
        for (name, insn) in Si::ALL {
            for (n, mem) in mems(false).into_iter().enumerate() {
                let imm = [0u8, 1, 127, 128, 255][n % 5];
                let text = match *name {
                    "ASI" | "AGSI" => format!("{} {}, {}", name.to_lowercase(), address(mem), imm as i8),
                    _ => format!("{} {}, {imm}", mnemonic(name, true, mem), address(mem)),
                };
                self.put(text, |out| insn.put(mem, imm, out));
            }
        }
        for (name, insn) in Sil::ALL {
            let short = mems(false).into_iter().filter(|mem| mem.is_short());
            for (mem, imm) in short.flat_map(|mem| [0, 1, 0x7fff, 0x8000, 0xffff].map(|imm| (mem, imm))) {
                let lower = name.to_lowercase();
                let imm_text = match name.starts_with("CL") {
                    true => imm.to_string(),
                    false => (imm as i16).to_string(),
                };
                self.add(format!("{lower} {}, {imm_text}", address(mem)), insn.of(mem, imm));
            }
        }
    }

    fn constants(&mut self) {
        for value in constants() {
            for reg in [0, 1, 14, 15].map(Gpr) {
                let (n, signed) = (reg.0, value as i64);
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
                self.put(text, |out| reg.put_constant(value, out));
            }
        }
    }

    fn fixed(&mut self) {
        self.add("br %r14".into(), insn::RETURN);
        for (len, text) in [(6, "brcl 0, ."), (4, "bc 0, 0"), (2, "bcr 0, %r0")] {
            self.put(text.into(), |out| nops::put(Arch::SystemZ, len, out));
        }
        for (text, insn) in [("sllg", insn::SLLG), ("srlg", insn::SRLG), ("srag", insn::SRAG)] {
            for (n, by) in numbers().zip([0, 1, 31, 32, 63].into_iter().cycle()) {
                let line = format!("{text} %r{n}, %r{}, {by}", 15 - n);
                self.put(line, |out| insn::shift(insn, Gpr(n), Gpr(15 - n), by, out));
            }
        }
    }

    fn branches(&mut self) {
        let conds = [
            (Cond::Eq, 8),
            (Cond::Ne, 6),
            (Cond::Below, 4),
            (Cond::BelowOrEqual, 12),
            (Cond::Above, 2),
            (Cond::AboveOrEqual, 10),
            (Cond::Less, 4),
            (Cond::LessOrEqual, 12),
            (Cond::Greater, 2),
            (Cond::GreaterOrEqual, 10),
        ];
        for (short, distance) in [
            (true, 65_534),
            (true, -65_536),
            (false, 65_536),
            (false, 4_294_967_294),
        ] {
            let l = if short { "" } else { "l" };
            let form = if short {
                BranchForm::Short
            } else {
                BranchForm::Near
            };
            self.branch(
                BranchKind::Jump,
                form,
                distance,
                format!("brc{l} 15, .{distance:+}"),
            );
            self.branch(
                BranchKind::Call,
                form,
                distance,
                format!("bras{l} %r14, .{distance:+}"),
            );
            for (cond, mask) in conds {
                self.branch(
                    BranchKind::JumpIf(cond),
                    form,
                    distance,
                    format!("brc{l} {mask}, .{distance:+}"),
                );
            }
        }
        let far = 0x0123_4567_89ab_cdee;
        let load = format!("llilf %r1, {}; iihf %r1, {}", far as u32, far >> 32);
        self.branch(BranchKind::Jump, BranchForm::Far, far, format!("{load}; br %r1"));
        self.branch(
            BranchKind::Call,
            BranchForm::Far,
            far,
            format!("{load}; basr %r14, %r1"),
        );
        let text = format!("brc 6, .+18; {load}; br %r1");
        self.branch(BranchKind::JumpIf(Cond::Eq), BranchForm::Far, far, text);
    }

    /// A branch from address 0.
    fn branch(&mut self, kind: BranchKind, form: BranchForm, distance: i64, text: String) {
        let branch = branch_to(kind, form, distance as u64);
        assert!(branch::reaches(&branch, form, 0, distance as u64), "{text}");
        self.put(text, |out| {
            branch::put(&branch, 0, distance as u64, out);
            assert_eq!(out.len(), branch::len(&branch, form) as usize);
        });
    }
}

/// Masks whose ones are in one run.
fn runs() -> impl Iterator<Item = u64> {
    [
        1,
        1 << 63,
        7,
        u64::MAX << 3,
        0xff00,
        0x7fff_ffff_ffff_fff8,
        u64::MAX,
    ]
    .into_iter()
}

/// Around every boundary at which the form changes.
fn constants() -> impl Iterator<Item = u64> {
    let signed = [0i64, 1, -1, 0x7fff, 0x8000, -0x8000, -0x8001, i64::MIN, i64::MAX];
    let words = [
        0x7fff_ffff,
        0x8000_0000,
        -0x8000_0000,
        -0x8000_0001,
        0xffff_ffff,
        1 << 32,
    ];
    let parts = [
        0xffff,
        0x1_0000,
        0xffff_0000,
        0x1_0001,
        0xffff << 32,
        0xffff << 48 | 1,
    ];
    let all = signed.into_iter().chain(words).map(|value: i64| value as u64);
    all.chain(parts)
        .chain([0xffff << 48, 0x1_0000_0001, 0x1_0001 << 32, u64::MAX << 32])
}

fn branch_to(kind: BranchKind, form: BranchForm, to: u64) -> Branch {
    Branch {
        at: 0,
        kind,
        dest: Dest::Addr(CodeAddr::new(to)),
        scratch: Some(R1),
        form,
        detail: 0,
        op: 0,
    }
}

fn cases() -> BTreeMap<String, Vec<u8>> {
    let mut cases = Cases::default();
    cases.registers();
    cases.immediates();
    cases.memory();
    cases.constants();
    cases.fixed();
    cases.branches();
    cases.operations();
    cases.0
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn encodings_are_those_of_llvm() {
    let ours = cases();
    let theirs: BTreeMap<_, _> = ENCODINGS
        .lines()
        .filter(|l| !l.starts_with('#'))
        .filter_map(|l| l.split_once('\t'))
        .collect();
    let mut wrong = Vec::new();
    for (text, bytes) in &ours {
        let expected = theirs
            .get(text.as_str())
            .copied()
            .unwrap_or("not in encodings/systemz.txt");
        if hex(bytes) != expected {
            wrong.push(format!("{text}: {} instead of {expected}", hex(bytes)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}: {:#?}",
        wrong.len(),
        ours.len(),
        &wrong[..wrong.len().min(20)]
    );
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.len() > 3000);
}

/// What llvm-mc makes of the texts; `None` where it is not installed.
fn assemble_with_llvm(texts: &[&str]) -> Option<Vec<String>> {
    let start = |program: &str| {
        let mut command = Command::new(program);
        command.args(["-triple=s390x-linux-gnu", "-mcpu=z10", "-filetype=obj"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()
    };
    let mut child = start("llvm-mc-19").or_else(|| start("llvm-mc"))?;
    let mut stdin = child.stdin.take().unwrap();
    let input: String = texts
        .iter()
        .map(|text| format!("{}\n", text.replace("; ", "\n")))
        .collect();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let object = object::File::parse(&*output.stdout).unwrap();
    let text = object.section_by_name(".text").unwrap();
    assert_eq!(text.relocations().count(), 0);
    let mut code = text.data().unwrap();
    let mut instruction = || {
        // The two leftmost bits tell the length (Principles of Operation, chapter 5, "Instruction
        // Length").
        let len = [2, 4, 4, 6][usize::from(code[0] >> 6)];
        let (instruction, rest) = code.split_at(len);
        code = rest;
        hex(instruction)
    };
    let bytes = texts
        .iter()
        .map(|text| text.split("; ").map(|_| instruction()).collect())
        .collect();
    assert!(code.is_empty());
    Some(bytes)
}

#[test]
fn recorded_encodings_are_current() {
    let lines: Vec<_> = ENCODINGS
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let texts: Vec<_> = lines.iter().map(|(text, _)| *text).collect();
    let Some(bytes) = assemble_with_llvm(&texts) else {
        return;
    };
    for ((text, recorded), bytes) in lines.iter().zip(bytes) {
        assert_eq!(*recorded, bytes, "{text}");
    }
}

#[test]
#[ignore = "writes the file that the other tests read"]
fn write_encodings() {
    let cases = cases();
    let texts: Vec<_> = cases.keys().map(String::as_str).collect();
    let bytes = assemble_with_llvm(&texts).expect("llvm-mc");
    let mut file = String::from(
        "# What llvm-mc -triple=s390x-linux-gnu -mcpu=z10 makes of each text; written by tests.rs beside it.\n",
    );
    for (text, bytes) in texts.iter().zip(bytes) {
        file.push_str(&format!("{text}\t{bytes}\n"));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/encodings/systemz.txt");
    std::fs::write(path, file).unwrap();
}

#[test]
fn nops_fill_every_even_length_with_as_few_as_there_can_be() {
    for len in (0..=64).step_by(2) {
        let mut bytes = Vec::new();
        nops::put(Arch::SystemZ, len, &mut bytes);
        assert_eq!(bytes.len(), len as usize);
        let mut count = 0;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let len = match rest {
                [0xc0, 0x04, 0, 0, 0, 0, ..] => 6,
                [0x47, 0, 0, 0, ..] => 4,
                [0x07, 0, ..] => 2,
                _ => panic!("{rest:x?}"),
            };
            rest = &rest[len..];
            count += 1;
        }
        assert_eq!(count, len.div_ceil(6));
    }
}

#[test]
fn lengths_of_constants_are_told_right() {
    for value in constants() {
        let mut bytes = Vec::new();
        Gpr(3).put_constant(value, &mut bytes);
        assert_eq!(bytes.len(), Gpr::constant_len(value) as usize, "{value:#x}");
    }
}

#[test]
fn each_form_of_a_branch_reaches_its_boundaries_and_not_one_beyond() {
    let from = 0x7f_0000_0000_0000;
    for kind in [BranchKind::Jump, BranchKind::Call, BranchKind::JumpIf(Cond::Ne)] {
        for (form, first, last) in [
            (BranchForm::Short, -0x1_0000, 0xfffe),
            (BranchForm::Near, -0x1_0000_0000, 0xffff_fffe),
        ] {
            let reaches = |distance: i64| {
                let to = from + distance;
                branch::reaches(&branch_to(kind, form, to as u64), form, from as u64, to as u64)
            };
            assert!(reaches(first) && reaches(last) && reaches(0));
            assert!(!reaches(first - 2) && !reaches(last + 2));
            assert!(!reaches(first + 1) && !reaches(1), "odd addresses");
        }
        let far = branch_to(kind, BranchForm::Far, 0x10);
        assert!(branch::reaches(&far, BranchForm::Far, from as u64, 0x10));
        assert!(
            !branch::reaches(&far, BranchForm::Far, from as u64, 0x11),
            "an odd address"
        );
        for scratch in [
            None,
            Some(patchpoint_isa::systemz::R0),
            Some(patchpoint_isa::systemz::F0),
        ] {
            let far = Branch { scratch, ..far };
            assert!(
                !branch::reaches(&far, BranchForm::Far, from as u64, 0x10),
                "{scratch:?}"
            );
        }
    }
}
