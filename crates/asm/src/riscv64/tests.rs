//! Every instruction, over registers and boundary values, against LLVM's assembler; the forms and
//! reaches of branches; constants, followed step by step.
//!
//! `encodings/riscv64.txt` holds what LLVM's assembler makes of each text. It is written by `cargo
//! test -p patchpoint-asm --lib riscv64::tests::write_encodings -- --ignored`, which takes all
//! bytes from `llvm-mc` and none from here.

mod branches;
mod constants;
mod operations;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use patchpoint_isa::{Arch, nops};

use super::insn::{self, Gpr, Imm12, Mem, Shift, Upper};
use crate::op::{Extension, Width};

const ENCODINGS: &str = include_str!("../../encodings/riscv64.txt");
const IMMEDIATES: [i64; 7] = [0, 1, -1, 5, 0x7ff, -0x800, 0x100];

fn imms() -> impl Iterator<Item = (i64, Imm12)> {
    IMMEDIATES
        .into_iter()
        .filter_map(|imm| Some((imm, Imm12::new(imm)?)))
}

/// Another register for each.
fn other(reg: u8, factor: u8) -> u8 {
    reg.wrapping_mul(factor).wrapping_add(3) % 32
}

/// Instructions by their text.
#[derive(Default)]
pub(super) struct Cases(BTreeMap<String, Vec<u8>>);

impl Cases {
    fn add(&mut self, text: String, emit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        emit(&mut bytes);
        let before = self.0.insert(text.clone(), bytes.clone());
        assert!(before.is_none_or(|before| before == bytes), "{text}");
    }

    fn arithmetic(&mut self) {
        for d in 0..32u8 {
            let (s, t) = (other(d, 7), other(d, 5));
            let (dst, src, right) = (Gpr(d), Gpr(s), Gpr(t));
            for (value, imm) in imms() {
                self.add(format!("addi x{d}, x{s}, {value}"), |out| {
                    insn::add_imm(dst, src, imm, out)
                });
                self.add(format!("addiw x{d}, x{s}, {value}"), |out| {
                    insn::add_imm_word(dst, src, imm, out)
                });
                self.add(format!("andi x{d}, x{s}, {value}"), |out| {
                    insn::and_imm(dst, src, imm, out)
                });
            }
            for (by, shift) in [0, 1, 31, 32, 63].map(|by| (by, Shift::new(by).unwrap())) {
                self.add(format!("slli x{d}, x{s}, {by}"), |out| {
                    insn::shift_left(dst, src, shift, out)
                });
                self.add(format!("srli x{d}, x{s}, {by}"), |out| {
                    insn::shift_right(dst, src, shift, out)
                });
                self.add(format!("srai x{d}, x{s}, {by}"), |out| {
                    insn::shift_right_signed(dst, src, shift, out)
                });
            }
            self.add(format!("add x{d}, x{s}, x{t}"), |out| {
                insn::add(dst, src, right, out)
            });
            self.add(format!("and x{d}, x{s}, x{t}"), |out| {
                insn::and(dst, src, right, out)
            });
            for upper in [0i64, 0x1000, 0x7fff_f000, -0x8000_0000, -0x1000] {
                let field = upper >> 12 & 0xf_ffff;
                self.add(format!("lui x{d}, {field}"), |out| {
                    insn::lui(dst, Upper::of(upper), out)
                });
            }
            self.add(format!("jalr x{d}, 0(x{s})"), |out| {
                insn::jump_register(dst, src, out)
            });
        }
    }

    fn moves(&mut self) {
        let (dst, src) = (Gpr(10), Gpr(28));
        for (width, extension, text) in [
            (Width::B8, Extension::Zero, "mv x10, x28"),
            (Width::B4, Extension::Sign, "sext.w x10, x28"),
            (Width::B1, Extension::Zero, "andi x10, x28, 255"),
        ] {
            self.add(text.to_string(), |out| insn::mov(dst, src, width, extension, out));
        }
        self.add("nop".to_string(), |out| nops::put(Arch::RiscV64, 4, out));
        self.add("c.nop".to_string(), |out| nops::put(Arch::RiscV64, 2, out));
        self.add("ret".to_string(), insn::ret);
        self.add("unimp".to_string(), insn::trap);
    }

    fn memory(&mut self) {
        const LOADS: [(&str, Width, Extension); 7] = [
            ("ld", Width::B8, Extension::Zero),
            ("lwu", Width::B4, Extension::Zero),
            ("lw", Width::B4, Extension::Sign),
            ("lhu", Width::B2, Extension::Zero),
            ("lh", Width::B2, Extension::Sign),
            ("lbu", Width::B1, Extension::Zero),
            ("lb", Width::B1, Extension::Sign),
        ];
        for r in 0..32u8 {
            let b = other(r, 11);
            for (value, disp) in imms() {
                let mem = Mem { base: Gpr(b), disp };
                for (name, width, extension) in LOADS {
                    self.add(format!("{name} x{r}, {value}(x{b})"), |out| {
                        insn::load(Gpr(r), mem, width, extension, out)
                    });
                }
                for (name, width) in [
                    ("sd", Width::B8),
                    ("sw", Width::B4),
                    ("sh", Width::B2),
                    ("sb", Width::B1),
                ] {
                    self.add(format!("{name} x{r}, {value}(x{b})"), |out| {
                        insn::store(mem, Gpr(r), width, out)
                    });
                }
                for (letter, width) in [('d', Width::B8), ('w', Width::B4)] {
                    self.add(format!("fl{letter} f{r}, {value}(x{b})"), |out| {
                        insn::load_float(r, mem, width, out)
                    });
                    self.add(format!("fs{letter} f{r}, {value}(x{b})"), |out| {
                        insn::store_float(mem, r, width, out)
                    });
                }
            }
            self.add(format!("amoadd.d.aqrl x0, x{r}, (x{b})"), |out| {
                insn::add_atomically(Gpr(b), Gpr(r), Width::B8, out)
            });
            self.add(format!("amoadd.w.aqrl x0, x{r}, (x{b})"), |out| {
                insn::add_atomically(Gpr(b), Gpr(r), Width::B4, out)
            });
        }
    }

    fn floats(&mut self) {
        for r in 0..32u8 {
            let s = other(r, 7);
            self.add(format!("fmv.d f{r}, f{s}"), |out| insn::mov_float(r, s, out));
            for (letter, width) in [('d', Width::B8), ('w', Width::B4)] {
                self.add(format!("fmv.{letter}.x f{r}, x{s}"), |out| {
                    insn::mov_to_float(r, Gpr(s), width, out)
                });
                self.add(format!("fmv.x.{letter} x{r}, f{s}"), |out| {
                    insn::mov_from_float(Gpr(r), s, width, out)
                });
            }
        }
    }
}

fn cases() -> BTreeMap<String, Vec<u8>> {
    let mut cases = Cases::default();
    cases.arithmetic();
    cases.moves();
    cases.memory();
    cases.floats();
    branches::cases(&mut cases);
    cases.0
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn encodings_are_those_of_llvm() {
    let recorded: BTreeMap<_, _> = ENCODINGS
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let cases = cases();
    assert!(cases.len() > 2000, "{}", cases.len());
    let different: Vec<_> = cases
        .iter()
        .filter(|(text, bytes)| recorded.get(text.as_str()) != Some(&hex(bytes).as_str()))
        .map(|(text, bytes)| {
            format!(
                "{text}: {} instead of {:?}",
                hex(bytes),
                recorded.get(text.as_str())
            )
        })
        .collect();
    assert!(different.is_empty(), "{} differ: {different:#?}", different.len());
    assert_eq!(recorded.len(), cases.len());
}

/// What `llvm-mc` makes of each line; `None` where it is not installed.
fn assemble_with_llvm(texts: &[&str]) -> Option<Vec<String>> {
    let start = |program: &str| {
        let mut command = Command::new(program);
        command.args([
            "-triple=riscv64",
            "-mattr=+a,+d,+c",
            "-show-encoding",
            "-riscv-no-aliases",
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()
    };
    let mut child = start("llvm-mc-19").or_else(|| start("llvm-mc"))?;
    let mut stdin = child.stdin.take().unwrap();
    // The assembler may choose a compressed instruction only where the text asks for one.
    let option = |text: &str| match text.starts_with("c.") {
        true => format!(".option rvc\n{text}\n"),
        false => format!(".option norvc\n{text}\n"),
    };
    let input: String = texts.iter().map(|text| option(text)).collect();
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
        String::from("# What llvm-mc -triple=riscv64 makes of each text; written by tests.rs beside it.\n");
    for (text, bytes) in texts.iter().zip(bytes) {
        file.push_str(&format!("{text}\t{bytes}\n"));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/encodings/riscv64.txt");
    std::fs::write(path, file).unwrap();
}
