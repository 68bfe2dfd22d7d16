//! Every instruction, over registers and boundary values, against LLVM's assembler.

use alloc::format;
use alloc::vec::Vec;

use patchpoint_isa::{Arch, nops};

use super::branches;
use crate::encodings::{Cases, Corpus, tests_of};
use crate::op::{Extension, Width};
use crate::riscv64::insn::{self, Gpr, Imm12, Mem, Shift, Upper};

tests_of!(CORPUS);

const CORPUS: Corpus = Corpus {
    name: "riscv64",
    recorded: include_str!("../../../encodings/riscv64.txt"),
    options: &["-triple=riscv64-linux-gnu", "-mattr=+a,+d,+c"],
    // The assembler may choose a compressed instruction only where the text asks for one.
    directive: |text| match text.starts_with("c.") {
        true => ".option rvc",
        false => ".option norvc",
    },
    enumerate: |cases| {
        arithmetic(cases);
        moves(cases);
        memory(cases);
        floats(cases);
        branches::cases(cases);
    },
};

fn regs(cases: &Cases, plain: u8) -> Vec<u8> {
    cases.registers(plain, 31)
}

fn imms(cases: &Cases) -> Vec<(i64, Imm12)> {
    let values = cases.signed(12, 0x155).into_iter();
    values.map(|imm| (imm, Imm12::new(imm).unwrap())).collect()
}

fn arithmetic(cases: &mut Cases) {
    let pairs = cases.vary(&regs(cases, 9), &regs(cases, 21));
    for ((d, s), (value, imm)) in cases.vary(&pairs, &imms(cases)) {
        let (dst, src, operands) = (Gpr(d), Gpr(s), format!("x{d}, x{s}, {value}"));
        cases.add(format!("addi {operands}"), |out| {
            insn::add_imm(dst, src, imm, out)
        });
        cases.add(format!("addiw {operands}"), |out| {
            insn::add_imm_word(dst, src, imm, out)
        });
        cases.add(format!("andi {operands}"), |out| {
            insn::and_imm(dst, src, imm, out)
        });
    }
    for ((d, s), by) in cases.vary(&pairs, &cases.values(&[5, 0, 1, 31, 32, 63], 0..64)) {
        let (dst, src, operands) = (Gpr(d), Gpr(s), format!("x{d}, x{s}, {by}"));
        let shift = Shift::new(by).unwrap();
        cases.add(format!("slli {operands}"), |out| {
            insn::shift_left(dst, src, shift, out)
        });
        cases.add(format!("srli {operands}"), |out| {
            insn::shift_right(dst, src, shift, out)
        });
        cases.add(format!("srai {operands}"), |out| {
            insn::shift_right_signed(dst, src, shift, out)
        });
    }
    for ((d, s), t) in cases.vary(&pairs, &regs(cases, 6)) {
        let (dst, lhs, rhs) = (Gpr(d), Gpr(s), Gpr(t));
        let operands = format!("x{d}, x{s}, x{t}");
        cases.add(format!("add {operands}"), |out| insn::add(dst, lhs, rhs, out));
        cases.add(format!("and {operands}"), |out| insn::and(dst, lhs, rhs, out));
    }
    for (d, field) in cases.vary(&regs(cases, 9), &cases.unsigned(20, 0x1_2345)) {
        let value = i64::from((field as i32) << 12);
        cases.add(format!("lui x{d}, {field}"), |out| {
            insn::lui(Gpr(d), Upper::of(value), out)
        });
    }
    for (d, s) in pairs {
        cases.add(format!("jalr x{d}, 0(x{s})"), |out| {
            insn::jump_register(Gpr(d), Gpr(s), out)
        });
    }
}

fn moves(cases: &mut Cases) {
    let (dst, src) = (Gpr(10), Gpr(28));
    for (width, extension, text) in [
        (Width::B8, Extension::Zero, "mv x10, x28"),
        (Width::B4, Extension::Sign, "sext.w x10, x28"),
        (Width::B4, Extension::Zero, "slli x10, x28, 32; srli x10, x10, 32"),
        (Width::B2, Extension::Sign, "slli x10, x28, 48; srai x10, x10, 48"),
        (Width::B2, Extension::Zero, "slli x10, x28, 48; srli x10, x10, 48"),
        (Width::B1, Extension::Sign, "slli x10, x28, 56; srai x10, x10, 56"),
        (Width::B1, Extension::Zero, "andi x10, x28, 255"),
    ] {
        cases.add(text, |out| insn::mov(dst, src, width, extension, out));
    }
    cases.add("nop", |out| nops::put(Arch::RiscV64, 4, out));
    cases.add("c.nop", |out| nops::put(Arch::RiscV64, 2, out));
    cases.add("ret", insn::ret);
    cases.add("unimp", insn::trap);
}

fn memory(cases: &mut Cases) {
    const LOADS: [(&str, Width, Extension); 7] = [
        ("ld", Width::B8, Extension::Zero),
        ("lwu", Width::B4, Extension::Zero),
        ("lw", Width::B4, Extension::Sign),
        ("lhu", Width::B2, Extension::Zero),
        ("lh", Width::B2, Extension::Sign),
        ("lbu", Width::B1, Extension::Zero),
        ("lb", Width::B1, Extension::Sign),
    ];
    const STORES: [(&str, Width); 4] = [
        ("sd", Width::B8),
        ("sw", Width::B4),
        ("sh", Width::B2),
        ("sb", Width::B1),
    ];
    const WORDS: [(char, Width); 2] = [('d', Width::B8), ('w', Width::B4)];
    let pairs = cases.vary(&regs(cases, 9), &regs(cases, 21));
    for ((r, b), (value, disp)) in cases.vary(&pairs, &imms(cases)) {
        let mem = Mem {
            base: Gpr(b),
            disp,
            number: None,
        };
        for (name, width, extension) in LOADS {
            cases.add(format!("{name} x{r}, {value}(x{b})"), |out| {
                insn::load(Gpr(r), mem, width, extension, out)
            });
        }
        for (name, width) in STORES {
            cases.add(format!("{name} x{r}, {value}(x{b})"), |out| {
                insn::store(mem, Gpr(r), width, out)
            });
        }
        for (letter, width) in WORDS {
            cases.add(format!("fl{letter} f{r}, {value}(x{b})"), |out| {
                insn::load_float(r, mem, width, out)
            });
            cases.add(format!("fs{letter} f{r}, {value}(x{b})"), |out| {
                insn::store_float(mem, r, width, out)
            });
        }
    }
    for (r, b) in pairs {
        for (letter, width) in WORDS {
            cases.add(format!("amoadd.{letter}.aqrl x0, x{r}, (x{b})"), |out| {
                insn::add_atomically(Gpr(b), Gpr(r), width, out)
            });
        }
    }
}

fn floats(cases: &mut Cases) {
    for (r, s) in cases.vary(&regs(cases, 9), &regs(cases, 21)) {
        cases.add(format!("fmv.d f{r}, f{s}"), |out| insn::mov_float(r, s, out));
        for (letter, width) in [('d', Width::B8), ('w', Width::B4)] {
            cases.add(format!("fmv.{letter}.x f{r}, x{s}"), |out| {
                insn::mov_to_float(r, Gpr(s), width, out)
            });
            cases.add(format!("fmv.x.{letter} x{r}, f{s}"), |out| {
                insn::mov_from_float(Gpr(r), s, width, out)
            });
        }
    }
}

#[test]
fn one_beyond_each_field_is_refused() {
    for value in [0x800, -0x801, i64::MAX, i64::MIN] {
        assert_eq!(Imm12::new(value), None, "{value:#x}");
    }
    assert_eq!(Shift::new(64), None);
}
