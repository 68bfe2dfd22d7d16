//! Every instruction, over registers, addressing modes and boundary values, against LLVM's
//! assembler.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use llvm_stackmaps::addr::CodeAddr;

use crate::backend::{EncodedCode, Origin};
use crate::encodings::{Cases, Corpus, tests_of};
use crate::op::{Extension, Width};
use crate::x86_64::encode::{Gpr, Mem, Rm};
use crate::x86_64::insn::{self, Imm};

tests_of!(CORPUS);

const CORPUS: Corpus = Corpus {
    name: "x86_64",
    recorded: include_str!("../../../encodings/x86_64.txt"),
    options: &["-triple=x86_64-linux-gnu", "-x86-asm-syntax=intel"],
    directive: |_| "",
    enumerate: |cases| {
        moves(cases);
        stores(cases);
        addresses(cases);
        constants(cases);
        arithmetic(cases);
        with_immediates(cases);
        bits(cases);
        vectors(cases);
        control(cases);
    },
};

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
const KINDS: [(Width, Extension); 8] = [
    (Width::B1, Extension::Zero),
    (Width::B1, Extension::Sign),
    (Width::B2, Extension::Zero),
    (Width::B2, Extension::Sign),
    (Width::B4, Extension::Zero),
    (Width::B4, Extension::Sign),
    (Width::B8, Extension::Zero),
    (Width::B8, Extension::Sign),
];
/// One byte, four bytes and none, and both ends of each.
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

fn based(base: u8, disp: i32) -> Mem {
    let base = Gpr(base);
    Mem::Base {
        base,
        disp,
        number: None,
    }
}

/// Both ends of the registers without and with a bit in the REX prefix, and those whose low bytes
/// need a prefix. The accumulator, which has forms of its own, is the first of all.
fn gprs(cases: &Cases) -> Vec<Gpr> {
    let numbers = cases.values(&[3, 0, 4, 7, 8, 15], 0..16);
    numbers.into_iter().map(Gpr).collect()
}

/// Memory of each form: without a displacement, with one of each length, with a SIB byte for rsp
/// and r12, with a displacement of 0 for rbp and r13, absolute, relative to rip.
fn mems(cases: &Cases) -> Vec<Mem> {
    let boundaries = [
        based(3, 0),
        based(3, 128),
        based(4, -1),
        based(4, 128),
        based(5, 0),
        based(5, -129),
        based(8, 127),
        based(12, 0),
        based(12, 127),
        based(13, 0),
        based(13, 128),
        based(15, i32::MIN),
        Mem::Low(0x1000),
        Mem::Pc(0),
    ];
    let all = (0..16).flat_map(|base| [0, -1, i32::MAX].map(|disp| based(base, disp)));
    cases.values(&boundaries, all)
}

/// Pairs of registers, and both with a bit in the REX prefix.
fn pairs(cases: &Cases) -> Vec<(Gpr, Gpr)> {
    let pairs = cases.vary(&gprs(cases), &gprs(cases));
    pairs.into_iter().chain([(Gpr(8), Gpr(15))]).collect()
}

/// A register and memory, and either form of an address with a register that has a bit in the REX
/// prefix.
fn with_mem(cases: &Cases) -> Vec<(Gpr, Mem)> {
    let pairs = cases.vary(&gprs(cases), &mems(cases));
    let both = [based(15, 0), Mem::Low(0x1000), Mem::Pc(0)].map(|mem| (Gpr(8), mem));
    pairs.into_iter().chain(both).collect()
}

/// Boundaries of the immediates that an instruction of that width can have.
fn immediates(cases: &Cases, width: Width) -> Vec<i64> {
    let bits = 8 * u32::from(width.bytes().min(4));
    let mut values = cases.signed(bits, 0x12);
    if width != Width::B1 {
        values.extend([127, 128, -128, -129]);
    }
    values
}

/// The greatest of them.
fn greatest(width: Width) -> i64 {
    i64::MAX >> (64 - 8 * u32::from(width.bytes().min(4)))
}

/// Adds what `emit` appends, whose distance is the last but the immediate.
fn add(cases: &mut Cases, text: String, emit: impl FnOnce(&mut EncodedCode)) {
    let mut code = EncodedCode::new(Origin::At(CodeAddr::new(0)));
    emit(&mut code);
    for fixup in &code.pc_relative {
        let (at, end) = (fixup.at as usize, (fixup.at + fixup.to_end) as usize);
        assert_eq!(code.bytes[at..at + 4], [0; 4], "{text}");
        assert_eq!(end, code.bytes.len(), "{text}");
    }
    cases.add(text, |out| out.extend(code.bytes));
}

fn moves(cases: &mut Cases) {
    for (width, extension) in KINDS {
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
        for (dst, src) in pairs(cases) {
            let text = format!("{mnemonic} {}, {}", name(dst, whole), name(src, width));
            add(cases, text, |code| {
                insn::mov(dst, src, width, extension, &mut code.bytes)
            });
        }
        for (dst, mem) in with_mem(cases) {
            let (to, from) = (name(dst, whole), address(mem));
            let text = format!("{mnemonic} {to}, {}{from}", pointer(width));
            add(cases, text, |code| insn::load(dst, mem, width, extension, code));
        }
    }
    for (dst, mem) in with_mem(cases) {
        let text = format!("lea {}, {}", name(dst, Width::B8), address(mem));
        add(cases, text, |code| insn::lea(dst, mem, code));
    }
}

fn stores(cases: &mut Cases) {
    for width in WIDTHS {
        for (src, mem) in with_mem(cases) {
            let text = format!("mov {}{}, {}", pointer(width), address(mem), name(src, width));
            add(cases, text, |code| insn::store(mem, src, width, code));
        }
        let values = immediates(cases, width);
        let mems = mems(cases);
        let full = mems.iter().map(|mem| (greatest(width), *mem));
        for (value, mem) in cases.vary(&values, &mems).into_iter().chain(full) {
            let text = format!("mov {}{}, {value}", pointer(width), address(mem));
            let imm = Imm::full(value, width).unwrap();
            add(cases, text, |code| insn::store_imm(mem, imm, width, code));
        }
    }
}

/// The bases whose encodings are their own with every displacement, behind which comes no
/// immediate, a short one or a long one.
fn addresses(cases: &mut Cases) {
    let bases = cases.values(&[3, 4, 5, 12, 13], 0..16);
    let based = bases
        .into_iter()
        .flat_map(|base| DISPS.map(|disp| based(base, disp)));
    let low = [0, 0x1000, i32::MAX, -1, i32::MIN].map(Mem::Low);
    for mem in based.chain(low).chain([Mem::Pc(0)]) {
        let text = address(mem);
        add(cases, format!("mov r9, qword ptr {text}"), |code| {
            insn::load(Gpr(9), mem, Width::B8, Extension::Zero, code)
        });
        add(cases, format!("cmp dword ptr {text}, 5"), |code| {
            insn::cmp::rm_imm(Rm::Mem(mem), Imm::I8(5), Width::B4, false, code)
        });
        add(cases, format!("cmp qword ptr {text}, 65536"), |code| {
            insn::cmp::rm_imm(Rm::Mem(mem), Imm::I32(65536), Width::B8, false, code)
        });
    }
}

fn constants(cases: &mut Cases) {
    let gprs = gprs(cases);
    for (reg, value) in cases.vary(&gprs, &[0x1234_5678, 0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff]) {
        let text = format!("mov {}, {value}", name(reg, Width::B4));
        add(cases, text, |code| reg.put_constant(value, &mut code.bytes));
    }
    for (reg, value) in cases.vary(&gprs, &[-1, i64::from(i32::MIN)]) {
        let text = format!("mov {}, {value}", name(reg, Width::B8));
        add(cases, text, |code| {
            reg.put_constant(value as u64, &mut code.bytes)
        });
    }
    for (reg, value) in cases.vary(&gprs, &[1 << 32, i64::from(i32::MIN) - 1, i64::MAX, i64::MIN]) {
        let text = format!("movabs {}, {value}", name(reg, Width::B8));
        add(cases, text, |code| {
            reg.put_constant(value as u64, &mut code.bytes)
        });
    }
}

fn arithmetic(cases: &mut Cases) {
    for width in WIDTHS {
        for (reg, other) in pairs(cases) {
            let (rm, source, text) = (Rm::Reg(other), name(reg, width), name(other, width));
            add(cases, format!("add {text}, {source}"), |code| {
                insn::add::rm_reg(rm, reg, width, false, code)
            });
            // dynasm takes the opcode with exchanged operands, which LLVM's text cannot name.
            add(cases, format!("cmp {source}, {text}"), |code| {
                insn::cmp::rm_reg(rm, reg, width, false, code);
                let opcode = code.bytes.len() - 2;
                assert_eq!(code.bytes[opcode] & 0xfe, 0x3a);
                code.bytes[opcode] -= 2;
            });
        }
        for (reg, mem) in with_mem(cases) {
            let (rm, source) = (Rm::Mem(mem), name(reg, width));
            let text = format!("{}{}", pointer(width), address(mem));
            for (prefix, lock) in [("", false), ("lock; ", true)] {
                add(cases, format!("{prefix}add {text}, {source}"), |code| {
                    insn::add::rm_reg(rm, reg, width, lock, code)
                });
            }
            add(cases, format!("cmp {text}, {source}"), |code| {
                insn::cmp::rm_reg(rm, reg, width, false, code)
            });
            add(cases, format!("add {source}, {text}"), |code| {
                insn::add::reg_mem(reg, mem, width, code)
            });
            add(cases, format!("cmp {source}, {text}"), |code| {
                insn::cmp::reg_mem(reg, mem, width, code)
            });
        }
    }
}

fn with_immediates(cases: &mut Cases) {
    for width in WIDTHS {
        let mems: Vec<_> = mems(cases).into_iter().map(Rm::Mem).collect();
        let gprs: Vec<_> = gprs(cases).into_iter().map(Rm::Reg).collect();
        let all = [&gprs[..], &mems].concat();
        let values = immediates(cases, width);
        // Which form an immediate takes depends on the accumulator, and what comes before it on the
        // address.
        let accumulator = values.iter().map(|value| (Rm::Reg(Gpr(0)), *value));
        let full = all.iter().map(|rm| (*rm, greatest(width)));
        let pairs = cases.vary(&all, &values).into_iter();
        for (rm, value) in pairs.chain(accumulator).chain(full) {
            let (text, imm) = (rm_text(rm, width), Imm::shortest(value, width).unwrap());
            add(cases, format!("add {text}, {value}"), |code| {
                insn::add::rm_imm(rm, imm, width, false, code)
            });
            add(cases, format!("cmp {text}, {value}"), |code| {
                insn::cmp::rm_imm(rm, imm, width, false, code)
            });
            if matches!(rm, Rm::Mem(_)) {
                add(cases, format!("lock; add {text}, {value}"), |code| {
                    insn::add::rm_imm(rm, imm, width, true, code)
                });
            }
        }
        for rm in all {
            let text = rm_text(rm, width);
            add(cases, format!("inc {text}"), |code| {
                insn::inc(rm, width, false, code)
            });
            match rm {
                Rm::Mem(_) => add(cases, format!("lock; inc {text}"), |code| {
                    insn::inc(rm, width, true, code)
                }),
                Rm::Reg(reg) => add(cases, format!("test {text}, {text}"), |code| {
                    insn::test(reg, width, &mut code.bytes)
                }),
            }
        }
    }
}

fn rm_text(rm: Rm, width: Width) -> String {
    match rm {
        Rm::Reg(reg) => name(reg, width).to_string(),
        Rm::Mem(mem) => format!("{}{}", pointer(width), address(mem)),
    }
}

fn bits(cases: &mut Cases) {
    let gprs = gprs(cases);
    for (reg, other) in pairs(cases) {
        let text = format!("and {}, {}", name(reg, Width::B8), name(other, Width::B8));
        add(cases, text, |code| {
            insn::and::rm_reg(Rm::Reg(reg), other, Width::B8, false, code)
        });
    }
    for width in [Width::B4, Width::B8] {
        let values = immediates(cases, width);
        // The accumulator has a form of its own.
        let accumulator = cases.vary(&[Gpr(0)], &values);
        for (reg, value) in cases.vary(&gprs, &values).into_iter().chain(accumulator) {
            let imm = Imm::shortest(value, width).unwrap();
            add(cases, format!("and {}, {value}", name(reg, width)), |code| {
                insn::and::rm_imm(Rm::Reg(reg), imm, width, false, code)
            });
        }
    }
    // LLVM has a form of its own for shifts by 1, which dynasm has not.
    for (reg, by) in cases.vary(&gprs, &cases.values(&[5, 2, 31, 32, 63], 2..64)) {
        let text = name(reg, Width::B8);
        add(cases, format!("shl {text}, {by}"), |code| {
            insn::shift::left(reg, by, &mut code.bytes)
        });
        add(cases, format!("shr {text}, {by}"), |code| {
            insn::shift::right(reg, by, &mut code.bytes)
        });
        add(cases, format!("sar {text}, {by}"), |code| {
            insn::shift::right_signed(reg, by, &mut code.bytes)
        });
    }
}

fn vectors(cases: &mut Cases) {
    let vectors = cases.values(&[3, 0, 7, 8, 15], 0..16);
    let pairs = cases.vary(&vectors, &vectors);
    for (dst, src) in pairs.into_iter().chain([(8, 15)]) {
        add(cases, format!("movaps xmm{dst}, xmm{src}"), |code| {
            insn::mov_vector(dst, src, &mut code.bytes)
        });
    }
    for n in vectors.clone() {
        add(cases, format!("xorps xmm{n}, xmm{n}"), |code| {
            insn::clear_vector(n, &mut code.bytes)
        });
    }
    for (width, mnemonic) in [(Width::B4, "movd"), (Width::B8, "movq")] {
        let pairs = cases.vary(&vectors, &gprs(cases));
        for (n, reg) in pairs.into_iter().chain([(8, Gpr(15))]) {
            let gpr = name(reg, width);
            add(cases, format!("{mnemonic} xmm{n}, {gpr}"), |code| {
                insn::mov_to_vector(n, reg, width, &mut code.bytes)
            });
            add(cases, format!("{mnemonic} {gpr}, xmm{n}"), |code| {
                insn::mov_from_vector(reg, n, width, &mut code.bytes)
            });
        }
    }
    for (width, mnemonic) in [(Width::B4, "movss"), (Width::B8, "movsd")] {
        let pairs = cases.vary(&vectors, &mems(cases));
        for (n, mem) in pairs.into_iter().chain([(8, based(15, 0))]) {
            let address = format!("{}{}", pointer(width), address(mem));
            add(cases, format!("{mnemonic} xmm{n}, {address}"), |code| {
                insn::load_vector(n, mem, width, code)
            });
            add(cases, format!("{mnemonic} {address}, xmm{n}"), |code| {
                insn::store_vector(mem, n, width, code)
            });
        }
    }
}

fn control(cases: &mut Cases) {
    for reg in gprs(cases) {
        let text = name(reg, Width::B8);
        add(cases, format!("jmp {text}"), |code| {
            insn::jump_to(reg, &mut code.bytes)
        });
        add(cases, format!("call {text}"), |code| {
            insn::call_to(reg, &mut code.bytes)
        });
    }
    add(cases, "ret".to_string(), |code| insn::ret(&mut code.bytes));
    add(cases, "ud2".to_string(), |code| insn::trap(&mut code.bytes));
}

#[test]
fn one_beyond_each_immediate_is_refused() {
    for (width, bits) in [(Width::B1, 8), (Width::B2, 16), (Width::B4, 32), (Width::B8, 32)] {
        let (least, greatest) = (-1i64 << (bits - 1), (1i64 << (bits - 1)) - 1);
        for value in [least, greatest] {
            let len = Imm::full(value, width).unwrap().len();
            assert_eq!(len * 8, bits, "{value}");
        }
        for value in [least - 1, greatest + 1, i64::MIN, i64::MAX] {
            assert_eq!(Imm::full(value, width), None, "{value}");
            assert_eq!(Imm::shortest(value, width), None, "{value}");
        }
    }
}
