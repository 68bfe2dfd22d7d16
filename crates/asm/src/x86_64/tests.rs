//! Every instruction, over registers, addressing modes and boundary values, against LLVM's
//! assembler.
//!
//! `encodings/x86_64.txt` holds what LLVM's assembler makes of each text. It is written by `cargo
//! test -p patchpoint-asm --lib x86_64::tests::write_encodings -- --ignored`, which takes all bytes
//! from `llvm-mc` and none from here.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use llvm_stackmaps::addr::CodeAddr;
use patchpoint_isa::{Arch, nops};

use super::encode::{Gpr, Mem, Rm};
use super::insn::{self, Imm};
use crate::backend::{EncodedCode, Origin};
use crate::op::{Extension, Width};

const ENCODINGS: &str = include_str!("../../encodings/x86_64.txt");

const NAMES: [[&str; 16]; 4] = [
    [
        "al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil", "r8b", "r9b", "r10b", "r11b", "r12b", "r13b",
        "r14b", "r15b",
    ],
    [
        "ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8w", "r9w", "r10w", "r11w", "r12w", "r13w", "r14w",
        "r15w",
    ],
    [
        "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d", "r12d", "r13d",
        "r14d", "r15d",
    ],
    [
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
        "r14", "r15",
    ],
];

const WIDTHS: [Width; 4] = [Width::B1, Width::B2, Width::B4, Width::B8];
const DISPS: [i32; 9] = [0, 1, -1, 127, 128, -128, -129, i32::MAX, i32::MIN];

fn name(reg: Gpr, width: Width) -> &'static str {
    NAMES[width as usize][usize::from(reg.0)]
}

fn pointer(width: Width) -> &'static str {
    ["byte ptr ", "word ptr ", "dword ptr ", "qword ptr "][width as usize]
}

fn address(mem: Mem) -> String {
    match mem {
        Mem::Base { base, disp, .. } => format!("[{} + {disp}]", name(base, Width::B8)),
        Mem::Low(disp) => format!("[{disp}]"),
        Mem::Pc(_) => "[rip]".to_string(),
    }
}

fn gprs() -> impl Iterator<Item = Gpr> {
    (0..16).map(Gpr)
}

/// Each base register with each displacement, the absolute forms, and the one relative to rip.
fn all_mems() -> Vec<Mem> {
    let bases = gprs().flat_map(|base| {
        DISPS.map(|disp| Mem::Base {
            base,
            disp,
            number: None,
        })
    });
    let low = [0, 0x1000, i32::MAX, -1, i32::MIN].map(Mem::Low);
    bases.chain(low).chain([Mem::Pc(0)]).collect()
}

/// Every base register, every displacement and every other form, not in every combination.
fn some_mems() -> Vec<Mem> {
    let base = |n: u8| Mem::Base {
        base: Gpr(n),
        disp: DISPS[usize::from(n) % DISPS.len()],
        number: None,
    };
    (0..16)
        .map(base)
        .chain([
            Mem::Low(0x1000),
            Mem::Pc(0),
            Mem::Base {
                base: Gpr(12),
                disp: 0,
                number: None,
            },
        ])
        .collect()
}

/// Two of them.
fn mems_for(reg: u8) -> [Mem; 2] {
    let mems = some_mems();
    [mems[usize::from(reg)], mems[16 + usize::from(reg) % 3]]
}

/// Boundary immediates that an arithmetic instruction of that width can have.
fn immediates(width: Width) -> Vec<i64> {
    let all = [
        0,
        1,
        -1,
        127,
        128,
        -128,
        -129,
        255,
        256,
        i64::from(i16::MAX),
        i64::from(i16::MIN),
        0x1_0000,
        i64::from(i32::MAX),
        i64::from(i32::MIN),
    ];
    all.into_iter()
        .filter(|value| Imm::full(*value, width).is_some())
        .collect()
}

/// Instructions as text and as they are encoded here.
#[derive(Default)]
struct Cases(BTreeMap<String, Vec<u8>>);

impl Cases {
    fn add(&mut self, text: String, emit: impl FnOnce(&mut EncodedCode)) {
        let mut code = EncodedCode::new(Origin::At(CodeAddr::new(0)));
        emit(&mut code);
        for fixup in &code.pc_relative {
            let (at, end) = (fixup.at as usize, (fixup.at + fixup.to_end) as usize);
            assert_eq!(code.bytes[at..at + 4], [0; 4], "{text}");
            assert_eq!(end, code.bytes.len(), "{text}");
        }
        self.0.insert(text, code.bytes);
    }

    fn moves(&mut self) {
        for (width, extension) in WIDTHS
            .into_iter()
            .flat_map(|w| [(w, Extension::Zero), (w, Extension::Sign)])
        {
            let whole = match (width, extension) {
                (Width::B8, _) | (_, Extension::Sign) => Width::B8,
                _ => Width::B4,
            };
            let mnemonic = match (width, extension) {
                (Width::B8, _) | (Width::B4, Extension::Zero) => "mov",
                (Width::B4, Extension::Sign) => "movsxd",
                (_, Extension::Sign) => "movsx",
                (_, Extension::Zero) => "movzx",
            };
            for dst in gprs() {
                for src in [Gpr(dst.0 ^ 5), Gpr(dst.0 ^ 8), dst, Gpr(4)] {
                    let text = format!("{mnemonic} {}, {}", name(dst, whole), name(src, width));
                    self.add(text, |code| {
                        insn::mov(dst, src, width, extension, &mut code.bytes)
                    });
                }
                for mem in some_mems() {
                    let text = format!(
                        "{mnemonic} {}, {}{}",
                        name(dst, whole),
                        pointer(width),
                        address(mem)
                    );
                    self.add(text, |code| insn::load(dst, mem, width, extension, code));
                }
            }
        }
        for mem in all_mems() {
            let text = format!("mov r9, qword ptr {}", address(mem));
            self.add(text, |code| {
                insn::load(Gpr(9), mem, Width::B8, Extension::Zero, code)
            });
        }
        for (dst, mem) in gprs().zip(some_mems()) {
            let text = format!("lea {}, {}", name(dst, Width::B8), address(mem));
            self.add(text, |code| insn::lea(dst, mem, code));
        }
    }

    fn stores(&mut self) {
        for width in WIDTHS {
            for src in gprs() {
                for mem in mems_for(src.0) {
                    let text = format!("mov {}{}, {}", pointer(width), address(mem), name(src, width));
                    self.add(text, |code| insn::store(mem, src, width, code));
                }
            }
            for mem in [4, 5, 6].into_iter().flat_map(mems_for) {
                for value in immediates(width) {
                    let text = format!("mov {}{}, {value}", pointer(width), address(mem));
                    let imm = Imm::full(value, width).unwrap();
                    self.add(text, |code| insn::store_imm(mem, imm, width, code));
                }
            }
        }
    }

    fn constants(&mut self) {
        for reg in gprs() {
            for value in [0, 1, 0x7fff_ffff, 0x8000_0000, u64::from(u32::MAX)] {
                let text = format!("mov {}, {value}", name(reg, Width::B4));
                self.add(text, |code| reg.put_constant(value, &mut code.bytes));
            }
            for value in [-1, i64::from(i32::MIN)] {
                let text = format!("mov {}, {value}", name(reg, Width::B8));
                self.add(text, |code| reg.put_constant(value as u64, &mut code.bytes));
            }
            for value in [1 << 32, i64::from(i32::MIN) - 1, i64::MAX, i64::MIN] {
                let text = format!("movabs {}, {value}", name(reg, Width::B8));
                self.add(text, |code| reg.put_constant(value as u64, &mut code.bytes));
            }
        }
    }

    fn arithmetic(&mut self) {
        for width in WIDTHS {
            for reg in gprs() {
                for (text, rm) in rms(width, reg) {
                    let source = name(reg, width);
                    let add =
                        |lock| move |code: &mut EncodedCode| insn::add::rm_reg(rm, reg, width, lock, code);
                    self.add(format!("add {text}, {source}"), add(false));
                    let cmp = move |code: &mut EncodedCode| insn::cmp::rm_reg(rm, reg, width, false, code);
                    match rm {
                        Rm::Mem(_) => self.add(format!("cmp {text}, {source}"), cmp),
                        // dynasm takes the opcode with exchanged operands, which LLVM's text cannot
                        // name.
                        Rm::Reg(_) => self.add(format!("cmp {source}, {text}"), |code| {
                            cmp(code);
                            let opcode = code.bytes.len() - 2;
                            assert_eq!(code.bytes[opcode] & 0xfe, 0x3a);
                            code.bytes[opcode] -= 2;
                        }),
                    }
                    let Rm::Mem(mem) = rm else { continue };
                    self.add(format!("lock add {text}, {source}"), add(true));
                    self.add(format!("add {source}, {text}"), |c| {
                        insn::add::reg_mem(reg, mem, width, c)
                    });
                    self.add(format!("cmp {source}, {text}"), |c| {
                        insn::cmp::reg_mem(reg, mem, width, c)
                    });
                }
            }
            let operands = [0, 4, 5, 6, 12]
                .map(Gpr)
                .into_iter()
                .flat_map(|reg| rms(width, reg));
            for (text, rm) in operands.collect::<BTreeMap<_, _>>() {
                self.with_immediates(&text, rm, width);
            }
        }
        for mem in all_mems() {
            let text = format!("cmp dword ptr {}, 5", address(mem));
            self.add(text, |c| {
                insn::cmp::rm_imm(Rm::Mem(mem), Imm::I8(5), Width::B4, false, c)
            });
            let text = format!("cmp qword ptr {}, 65536", address(mem));
            self.add(text, |c| {
                insn::cmp::rm_imm(Rm::Mem(mem), Imm::I32(65536), Width::B8, false, c)
            });
        }
    }

    fn with_immediates(&mut self, text: &str, rm: Rm, width: Width) {
        for value in immediates(width) {
            let imm = Imm::shortest(value, width).unwrap();
            let add = |lock| move |code: &mut EncodedCode| insn::add::rm_imm(rm, imm, width, lock, code);
            self.add(format!("add {text}, {value}"), add(false));
            let cmp = move |code: &mut EncodedCode| insn::cmp::rm_imm(rm, imm, width, false, code);
            self.add(format!("cmp {text}, {value}"), cmp);
            if matches!(rm, Rm::Mem(_)) {
                self.add(format!("lock add {text}, {value}"), add(true));
            }
        }
        self.add(format!("inc {text}"), |code| insn::inc(rm, width, false, code));
        match rm {
            Rm::Mem(_) => self.add(format!("lock inc {text}"), |code| {
                insn::inc(rm, width, true, code)
            }),
            Rm::Reg(reg) => {
                self.add(format!("test {text}, {text}"), |code| {
                    insn::test(reg, width, &mut code.bytes)
                });
            }
        }
    }

    fn bits(&mut self) {
        for reg in gprs() {
            let text = name(reg, Width::B8);
            let other = Gpr(reg.0 ^ 9);
            self.add(format!("and {text}, {}", name(other, Width::B8)), |code| {
                insn::and::rm_reg(Rm::Reg(reg), other, Width::B8, false, code)
            });
            for width in [Width::B4, Width::B8] {
                for value in immediates(width) {
                    let imm = Imm::shortest(value, width).unwrap();
                    self.add(format!("and {}, {value}", name(reg, width)), |code| {
                        insn::and::rm_imm(Rm::Reg(reg), imm, width, false, code)
                    });
                }
            }
            // LLVM has a form of its own for shifts by 1, which dynasm has not.
            for by in [2, 31, 32, 63] {
                self.add(format!("shl {text}, {by}"), |code| {
                    insn::shift::left(reg, by, &mut code.bytes)
                });
                self.add(format!("shr {text}, {by}"), |code| {
                    insn::shift::right(reg, by, &mut code.bytes)
                });
                self.add(format!("sar {text}, {by}"), |code| {
                    insn::shift::right_signed(reg, by, &mut code.bytes)
                });
            }
        }
    }

    fn vectors(&mut self) {
        for n in 0..16u8 {
            for m in [n, n ^ 8, n ^ 3] {
                let text = format!("movaps xmm{n}, xmm{m}");
                self.add(text, |code| insn::mov_vector(n, m, &mut code.bytes));
                for (width, mnemonic) in [(Width::B4, "movd"), (Width::B8, "movq")] {
                    let gpr = name(Gpr(m), width);
                    let text = format!("{mnemonic} xmm{n}, {gpr}");
                    self.add(text, |code| {
                        insn::mov_to_vector(n, Gpr(m), width, &mut code.bytes)
                    });
                    let text = format!("{mnemonic} {gpr}, xmm{n}");
                    self.add(text, |code| {
                        insn::mov_from_vector(Gpr(m), n, width, &mut code.bytes)
                    });
                }
            }
            self.add(format!("xorps xmm{n}, xmm{n}"), |code| {
                insn::clear_vector(n, &mut code.bytes)
            });
            for mem in mems_for(n) {
                for (width, mnemonic) in [(Width::B4, "movss dword"), (Width::B8, "movsd qword")] {
                    let (mnemonic, size) = mnemonic.split_once(' ').unwrap();
                    let address = address(mem);
                    let text = format!("{mnemonic} xmm{n}, {size} ptr {address}");
                    self.add(text, |code| insn::load_vector(n, mem, width, code));
                    let text = format!("{mnemonic} {size} ptr {address}, xmm{n}");
                    self.add(text, |code| insn::store_vector(mem, n, width, code));
                }
            }
        }
    }

    fn control(&mut self) {
        for reg in gprs() {
            let text = name(reg, Width::B8);
            self.add(format!("jmp {text}"), |code| insn::jump_to(reg, &mut code.bytes));
            self.add(format!("call {text}"), |code| insn::call_to(reg, &mut code.bytes));
        }
        self.add("ret".to_string(), |code| insn::ret(&mut code.bytes));
        self.add("ud2".to_string(), |code| insn::trap(&mut code.bytes));
    }
}

/// A register and some memory, with their texts.
fn rms(width: Width, reg: Gpr) -> Vec<(String, Rm)> {
    let [mem, more] = mems_for(reg.0);
    let other = Gpr(reg.0 ^ 5);
    let text = |mem| format!("{}{}", pointer(width), address(mem));
    vec![
        (name(other, width).to_string(), Rm::Reg(other)),
        (text(mem), Rm::Mem(mem)),
        (text(more), Rm::Mem(more)),
    ]
}

fn cases() -> BTreeMap<String, Vec<u8>> {
    let mut cases = Cases::default();
    cases.moves();
    cases.stores();
    cases.constants();
    cases.arithmetic();
    cases.bits();
    cases.vectors();
    cases.control();
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
            .unwrap_or("not in encodings/x86_64.txt");
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
    assert!(ours.len() > 2000);
}

/// What llvm-mc makes of the texts; `None` where it is not installed.
fn assemble_with_llvm(texts: &[&str]) -> Option<Vec<String>> {
    let start = |program: &str| {
        let mut command = Command::new(program);
        command.args(["-triple=x86_64", "-x86-asm-syntax=intel", "-show-encoding"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()
    };
    let mut child = start("llvm-mc-19").or_else(|| start("llvm-mc"))?;
    let mut stdin = child.stdin.take().unwrap();
    let input: String = texts
        .iter()
        .map(|text| format!("{}\n", text.trim_start_matches("lock ")))
        .collect();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let encodings = output
        .lines()
        .filter_map(|line| line.split_once("encoding: [")?.1.split_once(']'));
    let bytes = encodings.map(|(bytes, _)| bytes.replace("0x", "").replace(',', ""));
    // The prefix is an instruction of its own for LLVM (Intel SDM volume 2, LOCK: 0xf0).
    let lock = |text: &str| if text.starts_with("lock ") { "f0" } else { "" };
    let with_lock: Vec<_> = texts
        .iter()
        .zip(bytes)
        .map(|(text, bytes)| format!("{}{bytes}", lock(text)))
        .collect();
    assert_eq!(with_lock.len(), texts.len());
    Some(with_lock)
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
        "# What llvm-mc -triple=x86_64 -x86-asm-syntax=intel makes of each text; written by tests.rs beside it.\n",
    );
    for (text, bytes) in texts.iter().zip(bytes) {
        file.push_str(&format!("{text}\t{bytes}\n"));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/encodings/x86_64.txt");
    std::fs::write(path, file).unwrap();
}

#[test]
fn nops_are_single_instructions_up_to_nine_bytes() {
    for len in 1..=64u32 {
        let mut bytes = Vec::new();
        nops::put(Arch::X86_64, len, &mut bytes);
        assert_eq!(bytes.len(), len as usize);
        let decoder = iced_x86::Decoder::new(64, &bytes, iced_x86::DecoderOptions::NONE);
        let nops: Vec<_> = decoder.into_iter().collect();
        assert!(nops.iter().all(|nop| nop.mnemonic() == iced_x86::Mnemonic::Nop));
        assert_eq!(nops.len(), len.div_ceil(9) as usize);
    }
}

#[test]
fn lengths_of_constants_are_told_right() {
    let values = [
        0,
        1,
        u64::from(u32::MAX),
        1 << 32,
        u64::MAX,
        i64::MIN as u64,
        0xffff_ffff_8000_0000,
        0xffff_ffff_7fff_ffff,
    ];
    for reg in gprs() {
        for value in values {
            let mut bytes = Vec::new();
            reg.put_constant(value, &mut bytes);
            assert_eq!(bytes.len(), reg.constant_len(value) as usize, "{value:#x}");
        }
    }
}
