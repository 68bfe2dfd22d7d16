//! Every instruction, over registers, addressing modes and boundary values, against LLVM's
//! assembler; the forms and reaches of branches; the ways of constants.
//!
//! `encodings/aarch64.txt` holds what LLVM's assembler makes of each text. It is written by `cargo
//! test -p patchpoint-asm --lib aarch64::tests::write_encodings -- --ignored`, which takes all
//! bytes from `llvm-mc` and none from here.

mod branches;
mod constants;
mod operations;
mod relocate;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use patchpoint_isa::{Arch, nops};

use super::imm::{Disp, Halfword, Imm12, Logical, Shift};
use super::insn::{self, Base, Gpr, Mem, Source};
use crate::op::{Extension, Width};

const ENCODINGS: &str = include_str!("../../encodings/aarch64.txt");
const WIDTHS: [Width; 4] = [Width::B1, Width::B2, Width::B4, Width::B8];
const EXTENSIONS: [Extension; 2] = [Extension::Zero, Extension::Sign];

fn x(reg: u8) -> String {
    format!("x{reg}")
}

fn w(reg: u8) -> String {
    format!("w{reg}")
}

/// A register that is compared or stored.
fn sized(reg: u8, width: Width) -> String {
    match (reg, width) {
        (31, Width::B8) => "xzr".into(),
        (31, _) => "wzr".into(),
        (_, Width::B8) => x(reg),
        _ => w(reg),
    }
}

fn based(base: Base) -> String {
    match base {
        Base::SP => "sp".into(),
        Base(n) => x(n),
    }
}

fn address(mem: Mem) -> String {
    match mem {
        Mem::Disp(base, Disp::Scaled(disp)) => format!("[{}, #{disp}]", based(base)),
        Mem::Disp(base, Disp::Unscaled(disp)) => format!("[{}, #{disp}]", based(base)),
        Mem::Index(base, index) => format!("[{}, {}]", based(base), x(index.0)),
    }
}

/// The boundaries of both forms of a displacement, and one beyond each.
fn displacements(width: Width) -> Vec<i32> {
    let size = i32::from(width.bytes());
    let largest = 0xfff * size;
    let all = [
        0,
        size,
        largest,
        1,
        -1,
        255,
        256,
        -256,
        -257,
        largest + 1,
        largest + size,
        i32::MAX,
        i32::MIN,
    ];
    all.into()
}

/// Memory operands for a register: one of each form, in other combinations for each.
fn mems(reg: u8, width: Width) -> Vec<Mem> {
    let bases = [Base((reg + 7) % 31), Base::SP, Base(reg % 31)];
    let index = Gpr((reg * 3 + 1) % 31);
    let disps: Vec<_> = displacements(width)
        .into_iter()
        .filter_map(|disp| Disp::new(disp, width))
        .collect();
    let mut mems: Vec<_> = bases
        .iter()
        .enumerate()
        .map(|(n, base)| Mem::Disp(*base, disps[(usize::from(reg) + n) % disps.len()]))
        .collect();
    mems.extend([Mem::Index(bases[0], index), Mem::Index(Base::SP, index)]);
    if reg == 9 {
        mems.extend(disps.iter().map(|disp| Mem::Disp(Base(16), *disp)));
    }
    mems
}

const IMMEDIATES: [u64; 6] = [0, 1, 0xfff, 0x1000, 0x5000, 0xff_f000];

fn logicals() -> Vec<u64> {
    let element = [
        0x5555_5555_5555_5555,
        0x00ff_00ff_00ff_00ff,
        0x8000_0001_8000_0001,
    ];
    let runs = [1, 63].map(|n| (1u64 << n) - 1).into_iter();
    runs.chain(element)
        .chain([
            0xffff_ffff,
            !1,
            1 << 63,
            0x0fff_ffff_ffff_fff0,
            0xf000_0000_0000_000f,
        ])
        .collect()
}

/// Instructions as text and as they are encoded here.
#[derive(Default)]
struct Cases(BTreeMap<String, Vec<u8>>);

impl Cases {
    fn add(&mut self, text: String, emit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        emit(&mut bytes);
        assert_eq!(bytes.len(), 4, "{text}");
        self.0.insert(text, bytes);
    }

    fn moves(&mut self) {
        for dst in 0..31 {
            for src in [dst, dst ^ 5, (dst + 9) % 31].map(|n| n % 31) {
                for (width, extension) in WIDTHS.into_iter().flat_map(|w| EXTENSIONS.map(|e| (w, e))) {
                    let text = match (width, extension) {
                        (Width::B8, _) => format!("mov {}, {}", x(dst), x(src)),
                        (Width::B4, Extension::Zero) => format!("mov {}, {}", w(dst), w(src)),
                        (Width::B4, Extension::Sign) => format!("sxtw {}, {}", x(dst), w(src)),
                        (Width::B2, Extension::Zero) => format!("uxth {}, {}", w(dst), w(src)),
                        (Width::B2, Extension::Sign) => format!("sxth {}, {}", x(dst), w(src)),
                        (Width::B1, Extension::Zero) => format!("uxtb {}, {}", w(dst), w(src)),
                        (Width::B1, Extension::Sign) => format!("sxtb {}, {}", x(dst), w(src)),
                    };
                    self.add(text, |out| insn::mov(Gpr(dst), Gpr(src), width, extension, out));
                }
            }
            for shift in [0, 16, 32, 48] {
                for value in [0, 1, 0xfffe, 0xffff] {
                    let part = Halfword { value, shift };
                    let operands = format!("{}, #{value}, lsl #{shift}", x(dst));
                    self.add(format!("movz {operands}"), |out| insn::movz(Gpr(dst), part, out));
                    self.add(format!("movn {operands}"), |out| insn::movn(Gpr(dst), part, out));
                    self.add(format!("movk {operands}"), |out| insn::movk(Gpr(dst), part, out));
                }
            }
            for value in logicals() {
                let imm = Logical::new(value).unwrap();
                self.add(format!("orr {}, xzr, #{value:#x}", x(dst)), |out| {
                    insn::mov_logical(Gpr(dst), imm, out);
                });
            }
        }
    }

    fn memory(&mut self) {
        for (reg, width) in (0..31).flat_map(|reg| WIDTHS.map(|width| (reg, width))) {
            for mem in mems(reg, width) {
                let (unscaled, address) = match mem {
                    Mem::Disp(_, Disp::Unscaled(_)) => ("u", address(mem)),
                    _ => ("", address(mem)),
                };
                let suffix = ["b", "h", "", ""][width as usize];
                let stored = sized(reg, width);
                let text = format!("st{unscaled}r{suffix} {stored}, {address}");
                self.add(text, |out| insn::store(mem, Source(reg), width, out));
                let text = format!("st{unscaled}r{suffix} {}, {address}", sized(31, width));
                self.add(text, |out| insn::store(mem, Source::ZERO, width, out));
                let text = format!("ld{unscaled}r{suffix} {stored}, {address}");
                self.add(text, |out| insn::load(Gpr(reg), mem, width, Extension::Zero, out));
                if width != Width::B8 {
                    let suffix = ["sb", "sh", "sw"][width as usize];
                    let text = format!("ld{unscaled}r{suffix} {}, {address}", x(reg));
                    self.add(text, |out| insn::load(Gpr(reg), mem, width, Extension::Sign, out));
                }
                if let Some(name) = ["", "", "s", "d"].get(width as usize).filter(|n| !n.is_empty()) {
                    let text = format!("ld{unscaled}r {name}{reg}, {address}");
                    self.add(text, |out| insn::load_vector(reg, mem, width, out));
                    let text = format!("st{unscaled}r {name}{reg}, {address}");
                    self.add(text, |out| insn::store_vector(mem, reg, width, out));
                }
            }
            for from in [Base((reg + 11) % 31), Base::SP] {
                let suffix = ["b", "h", "", ""][width as usize];
                let text = format!("ldaxr{suffix} {}, [{}]", sized(reg, width), based(from));
                self.add(text, |out| insn::load_exclusive(Gpr(reg), from, width, out));
                let failed = (reg + 5) % 31;
                let text = format!(
                    "stlxr{suffix} {}, {}, [{}]",
                    w(failed),
                    sized(reg, width),
                    based(from)
                );
                self.add(text, |out| {
                    insn::store_exclusive(Gpr(failed), Gpr(reg), from, width, out)
                });
            }
        }
    }

    fn arithmetic(&mut self) {
        for reg in 0..31 {
            let (other, third) = ((reg + 3) % 31, (reg * 5 + 2) % 31);
            for value in IMMEDIATES {
                let imm = Imm12::new(value).unwrap();
                for (dst, base) in [
                    (Base(reg), Base(other)),
                    (Base::SP, Base(reg)),
                    (Base(reg), Base::SP),
                ] {
                    let operands = format!("{}, {}, #{value:#x}", based(dst), based(base));
                    self.add(format!("add {operands}"), |out| {
                        insn::add_imm(dst, base, imm, out)
                    });
                    self.add(format!("sub {operands}"), |out| {
                        insn::sub_imm(dst, base, imm, out)
                    });
                }
                for width in [Width::B4, Width::B8] {
                    let operands = format!("{}, #{value:#x}", sized(reg, width));
                    self.add(format!("cmp {operands}"), |out| {
                        insn::cmp_imm(Gpr(reg), imm, width, out)
                    });
                    self.add(format!("cmn {operands}"), |out| {
                        insn::cmn_imm(Gpr(reg), imm, width, out)
                    });
                }
            }
            for (width, extension) in WIDTHS.into_iter().flat_map(|w| EXTENSIONS.map(|e| (w, e))) {
                let extend = match extension {
                    Extension::Zero => ["uxtb", "uxth", "uxtw"],
                    Extension::Sign => ["sxtb", "sxth", "sxtw"],
                };
                for base in [Base(other), Base::SP] {
                    let text = match extend.get(width as usize) {
                        Some(extend) => {
                            format!("add {}, {}, {}, {extend}", x(reg), based(base), w(third))
                        }
                        None => format!("add {}, {}, {}", x(reg), based(base), x(third)),
                    };
                    self.add(text, |out| {
                        insn::add(Gpr(reg), base, Gpr(third), width, extension, out)
                    });
                }
                let text = match width {
                    Width::B8 | Width::B4 => format!("cmp {}, {}", sized(reg, width), sized(third, width)),
                    _ => format!("cmp {}, {}, {}", w(reg), w(third), extend[width as usize]),
                };
                self.add(text, |out| insn::cmp(Gpr(reg), Gpr(third), width, extension, out));
            }
        }
    }

    fn bits(&mut self) {
        for reg in 0..31 {
            let other = (reg + 13) % 31;
            let text = format!("and {}, {}, {}", x(reg), x(other), x(reg));
            self.add(text, |out| insn::and(Gpr(reg), Gpr(other), Gpr(reg), out));
            for value in logicals() {
                let imm = Logical::new(value).unwrap();
                let text = format!("and {}, {}, #{value:#x}", x(reg), x(other));
                self.add(text, |out| insn::and_imm(Gpr(reg), Gpr(other), imm, out));
            }
            for by in [0, 1, 31, 32, 63] {
                let shift = Shift::new(by).unwrap();
                let operands = format!("{}, {}, #{by}", x(reg), x(other));
                self.add(format!("lsl {operands}"), |out| {
                    insn::lsl(Gpr(reg), Gpr(other), shift, out)
                });
                self.add(format!("lsr {operands}"), |out| {
                    insn::lsr(Gpr(reg), Gpr(other), shift, out)
                });
                self.add(format!("asr {operands}"), |out| {
                    insn::asr(Gpr(reg), Gpr(other), shift, out)
                });
            }
        }
    }

    fn vectors(&mut self) {
        for n in 0..32 {
            let m = (n * 7 + 3) % 32;
            self.add(format!("mov v{n}.16b, v{m}.16b"), |out| {
                insn::mov_vector(n, m, out)
            });
            for (width, name) in [(Width::B4, "s"), (Width::B8, "d")] {
                let source = sized(m, width);
                self.add(format!("fmov {name}{n}, {source}"), |out| {
                    insn::mov_to_vector(n, Source(m), width, out);
                });
                if m < 31 {
                    self.add(format!("fmov {source}, {name}{n}"), |out| {
                        insn::mov_from_vector(Gpr(m), n, width, out)
                    });
                }
            }
        }
    }

    fn control(&mut self) {
        for reg in 0..31 {
            self.add(format!("br {}", x(reg)), |out| insn::br(Gpr(reg), out));
            self.add(format!("blr {}", x(reg)), |out| insn::blr(Gpr(reg), out));
        }
        self.add("ret".to_string(), insn::ret);
        self.add("udf #0".to_string(), insn::trap);
        self.add("nop".to_string(), |out| nops::put(Arch::AArch64, 4, out));
    }
}

fn cases() -> BTreeMap<String, Vec<u8>> {
    let mut cases = Cases::default();
    cases.moves();
    cases.memory();
    cases.arithmetic();
    cases.bits();
    cases.vectors();
    cases.control();
    branches::cases(&mut cases);
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
        .filter(|l| !l.starts_with("# "))
        .filter_map(|l| l.split_once('\t'))
        .collect();
    let mut wrong = Vec::new();
    for (text, bytes) in &ours {
        let expected = theirs
            .get(text.as_str())
            .copied()
            .unwrap_or("not in encodings/aarch64.txt");
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
    assert!(ours.len() > 4000);
}

/// What llvm-mc makes of the texts; `None` where it is not installed.
fn assemble_with_llvm(texts: &[&str]) -> Option<Vec<String>> {
    let start = |program: &str| {
        let mut command = Command::new(program);
        command.args(["-triple=aarch64", "-show-encoding"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()
    };
    let mut child = start("llvm-mc-19").or_else(|| start("llvm-mc"))?;
    let mut stdin = child.stdin.take().unwrap();
    let input: String = texts.iter().map(|text| format!("{text}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let encodings = output
        .lines()
        .filter_map(|line| line.split_once("encoding: [")?.1.split_once(']'));
    let bytes: Vec<_> = encodings
        .map(|(bytes, _)| bytes.replace("0x", "").replace(',', ""))
        .collect();
    assert_eq!(bytes.len(), texts.len());
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
    let mut file =
        String::from("# What llvm-mc -triple=aarch64 makes of each text; written by tests.rs beside it.\n");
    for (text, bytes) in texts.iter().zip(bytes) {
        file.push_str(&format!("{text}\t{bytes}\n"));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/encodings/aarch64.txt");
    std::fs::write(path, file).unwrap();
}
