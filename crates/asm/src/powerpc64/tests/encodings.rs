//! Every encoder, over registers and boundary values, against LLVM's assembler.
//!
//! `encodings/powerpc64.txt` holds what LLVM's assembler makes of each text. It is written by
//! `cargo test -p patchpoint-asm --lib powerpc64::tests::encodings::write_encodings -- --ignored`,
//! which takes all words from `llvm-mc` and none from here.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use patchpoint_isa::{Arch, exchange};

use super::super::insn::{self, Field, Gpr};
use crate::op::{Extension, Width};

const ENCODINGS: &str = include_str!("../../../encodings/powerpc64.txt");

const WIDTHS: [Width; 4] = [Width::B1, Width::B2, Width::B4, Width::B8];
const DISPS: [i16; 7] = [0, 4, -4, 32764, -32768, 256, -256];
const ODD_DISPS: [i16; 5] = [1, -1, 3, 32767, -32767];
const SIGNED: [i16; 5] = [0, 1, -1, i16::MAX, i16::MIN];
const UNSIGNED: [u16; 4] = [0, 1, 0x8000, u16::MAX];
const SHIFTS: [u8; 7] = [0, 1, 31, 32, 33, 62, 63];
/// Pairs of registers in which each register is both first and second.
fn pairs() -> impl Iterator<Item = (Gpr, Gpr)> {
    (0..32).map(|n| (Gpr(n), Gpr((n * 7 + 3) % 32)))
}

/// Instructions as text and as they are encoded here.
#[derive(Default)]
struct Cases(BTreeMap<String, u32>);

impl Cases {
    fn add(&mut self, text: String, word: u32) {
        let before = self.0.insert(text, word);
        assert!(before.is_none_or(|before| before == word));
    }

    fn arithmetic(&mut self) {
        for (Gpr(a), Gpr(b)) in pairs() {
            let (ra, rb) = (Gpr(a), Gpr(b));
            let rc = Gpr((a + 13) % 32);
            let c = rc.0;
            for imm in SIGNED {
                self.add(format!("li {a}, {imm}"), insn::li(ra, imm));
                self.add(format!("lis {a}, {imm}"), insn::lis(ra, imm));
                self.add(format!("addi {a}, {b}, {imm}"), insn::addi(ra, rb, imm));
                self.add(format!("addis {a}, {b}, {imm}"), insn::addis(ra, rb, imm));
            }
            for imm in UNSIGNED {
                self.add(format!("ori {a}, {b}, {imm}"), insn::ori(ra, rb, imm));
                self.add(format!("oris {a}, {b}, {imm}"), insn::oris(ra, rb, imm));
                self.add(format!("xori {a}, {b}, {imm}"), insn::xori(ra, rb, imm));
                self.add(format!("xoris {a}, {b}, {imm}"), insn::xoris(ra, rb, imm));
            }
            for shift in SHIFTS {
                self.add(format!("sradi {a}, {b}, {shift}"), insn::sradi(ra, rb, shift));
                for mask in SHIFTS {
                    let text = format!("{a}, {b}, {shift}, {mask}");
                    self.add(format!("rldicl {text}"), insn::rldicl(ra, rb, shift, mask));
                    self.add(format!("rldicr {text}"), insn::rldicr(ra, rb, shift, mask));
                }
            }
            for bit in 0..32 {
                let shift = (bit + 1) % 32;
                self.add(
                    format!("rlwinm {a}, {b}, {shift}, 31, 31"),
                    insn::extract_bit(ra, rb, bit),
                );
            }
            self.add(format!("add {a}, {b}, {c}"), insn::add(ra, rb, rc));
            self.add(format!("and {a}, {b}, {c}"), insn::and(ra, rb, rc));
            self.add(format!("xor {a}, {b}, {c}"), insn::xor(ra, rb, rc));
            self.add(format!("mr {a}, {b}"), insn::mr(ra, rb));
            for (mnemonic, width) in [("extsb", Width::B1), ("extsh", Width::B2), ("extsw", Width::B4)] {
                self.add(
                    format!("{mnemonic} {a}, {b}"),
                    insn::extend(ra, rb, width, Extension::Sign),
                );
            }
            for (bits, width) in [(56, Width::B1), (48, Width::B2), (32, Width::B4)] {
                self.add(
                    format!("clrldi {a}, {b}, {bits}"),
                    insn::extend(ra, rb, width, Extension::Zero),
                );
            }
        }
    }

    fn memory(&mut self) {
        for (Gpr(a), Gpr(b)) in pairs() {
            let (ra, rb) = (Gpr(a), Gpr(b));
            for disp in DISPS.into_iter().chain(ODD_DISPS) {
                for (index, width) in WIDTHS.into_iter().enumerate() {
                    for (extension, loads) in [
                        (Extension::Zero, ["lbz", "lhz", "lwz", "ld"]),
                        (Extension::Sign, ["lbz", "lha", "lwa", "ld"]),
                    ] {
                        if disp % 4 == 0 || !insn::is_ds(width, extension) {
                            let text = format!("{} {a}, {disp}({b})", loads[index]);
                            self.add(text, insn::load(ra, rb, disp, width, extension));
                        }
                    }
                    if disp % 4 == 0 || !insn::is_ds(width, Extension::Zero) {
                        let text = format!("{} {a}, {disp}({b})", ["stb", "sth", "stw", "std"][index]);
                        self.add(text, insn::store(ra, rb, disp, width));
                    }
                }
                for (load, store, width) in [("lfs", "stfs", Width::B4), ("lfd", "stfd", Width::B8)] {
                    self.add(
                        format!("{load} {a}, {disp}({b})"),
                        insn::load_float(a, rb, disp, width),
                    );
                    self.add(
                        format!("{store} {a}, {disp}({b})"),
                        insn::store_float(a, rb, disp, width),
                    );
                }
            }
            for (index, width) in WIDTHS.into_iter().enumerate() {
                let (load, store) = [
                    ("lbarx", "stbcx."),
                    ("lharx", "sthcx."),
                    ("lwarx", "stwcx."),
                    ("ldarx", "stdcx."),
                ][index];
                self.add(format!("{load} {a}, 0, {b}"), insn::load_reserve(ra, rb, width));
                self.add(
                    format!("{store} {a}, 0, {b}"),
                    insn::store_conditional(ra, rb, width),
                );
            }
            self.add(format!("fmr {a}, {b}"), insn::fmr(a, b));
            for vs in [a, a + 32] {
                self.add(format!("mfvsrd {b}, {vs}"), insn::mfvsrd(rb, vs));
                self.add(format!("mtvsrd {vs}, {b}"), insn::mtvsrd(vs, rb));
            }
        }
    }

    fn conditions(&mut self) {
        for (Gpr(a), Gpr(b)) in pairs() {
            let (ra, rb, field) = (Gpr(a), Gpr(b), Field(a % 8));
            let (f, mask) = (field.0, 0x80 >> field.0);
            for (suffix, doubleword) in [("w", false), ("d", true)] {
                let (signed, logical) = (format!("cmp{suffix}"), format!("cmpl{suffix}"));
                self.add(
                    format!("{signed} {f}, {a}, {b}"),
                    insn::compare(field, ra, rb, doubleword, true),
                );
                self.add(
                    format!("{logical} {f}, {a}, {b}"),
                    insn::compare(field, ra, rb, doubleword, false),
                );
                for imm in SIGNED {
                    let word = insn::compare_signed(field, ra, imm, doubleword);
                    self.add(format!("{signed}i {f}, {a}, {imm}"), word);
                }
                for imm in UNSIGNED {
                    let word = insn::compare_unsigned(field, ra, imm, doubleword);
                    self.add(format!("{logical}i {f}, {a}, {imm}"), word);
                }
            }
            self.add(format!("mfocrf {a}, {mask}"), insn::mfocrf(ra, field));
            self.add(format!("mtocrf {mask}, {a}"), insn::mtocrf(field, ra));
            self.add(format!("mtlr {a}"), insn::mtlr(ra));
            self.add(format!("mflr {a}"), insn::mflr(ra));
            self.add(format!("mtctr {a}"), insn::mtctr(ra));
            self.add(format!("mfctr {a}"), insn::mfctr(ra));
        }
        for bi in 0..32 {
            for disp in DISPS {
                for bo in [4, 12, 16, 18] {
                    self.add(format!("bc {bo}, {bi}, {disp}"), insn::bc(bo, bi, disp));
                }
            }
        }
        for disp in [0, 4, -4, (1 << 25) - 4, -(1 << 25)] {
            // LLVM takes `b -` for a mnemonic.
            self.add(format!("b ({disp})"), insn::b(disp));
        }
        self.add("nop".to_string(), insn::NOP);
        for arch in [Arch::PowerPc64, Arch::PowerPc64ElfV2, Arch::PowerPc64Le] {
            let trap = exchange::trap(arch).try_into().unwrap();
            let word = match arch.is_big_endian() {
                true => u32::from_be_bytes(trap),
                false => u32::from_le_bytes(trap),
            };
            self.add("trap".to_string(), word);
        }
        self.add(".long 0".to_string(), insn::ILLEGAL);
        self.add("blr".to_string(), insn::BLR);
        self.add("bctr".to_string(), insn::BCTR);
        self.add("bctrl".to_string(), insn::BCTRL);
    }

    fn all() -> Self {
        let mut cases = Self::default();
        cases.arithmetic();
        cases.memory();
        cases.conditions();
        cases
    }
}

#[test]
fn every_instruction_is_what_llvm_assembles() {
    let expected: BTreeMap<&str, &str> = ENCODINGS.lines().filter_map(|l| l.split_once('\t')).collect();
    let cases = Cases::all();
    assert_eq!(
        expected.len(),
        cases.0.len(),
        "run write_encodings to bring encodings/powerpc64.txt up to date"
    );
    for (text, word) in &cases.0 {
        let expected = expected.get(text.as_str()).copied();
        assert_eq!(expected, Some(format!("{word:08x}").as_str()), "{text}");
    }
}

#[test]
#[ignore = "writes encodings/powerpc64.txt by means of llvm-mc-19"]
fn write_encodings() {
    let cases = Cases::all();
    let mut llvm = Command::new("llvm-mc-19")
        .args(["-triple=powerpc64-linux-gnu", "-mcpu=pwr10", "-show-encoding"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let texts: Vec<&String> = cases.0.keys().collect();
    let input: String = texts.iter().map(|text| format!("{text}\n")).collect();
    let mut stdin = llvm.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = llvm.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    let output = String::from_utf8(output.stdout).unwrap();
    let encodings: Vec<String> = output
        .lines()
        .filter_map(|line| match line.split_once("encoding: [") {
            Some((_, bytes)) => Some(bytes.trim_end_matches(']').replace("0x", "").replace(',', "")),
            None => line.contains(".long").then(|| "00000000".to_string()),
        })
        .collect();
    assert_eq!(encodings.len(), texts.len());
    let lines = texts
        .iter()
        .zip(&encodings)
        .map(|(text, word)| format!("{text}\t{word}\n"));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/encodings/powerpc64.txt");
    std::fs::write(path, lines.collect::<String>()).unwrap();
}
