//! Instructions as text, in the assembler's notation without pseudo-instructions, but for the nop.

use alloc::string::String;
use core::fmt::Write;

use super::NAMES;
use super::decode::{self, Instruction, Word};

/// Writes the first instruction; its length, or `None` if there is none.
pub(super) fn first(addr: u64, bytes: &[u8], out: &mut String) -> Option<usize> {
    let (len, written) = match decode::first(bytes).ok()? {
        Instruction::Short(half) => (2, short(half, out)),
        Instruction::Long(word) => (4, long(addr, word, out)),
    };
    // Writing to a string does not fail.
    let _ = written;
    Some(len)
}

fn x(reg: u16) -> &'static str {
    NAMES.get(usize::from(reg)).copied().unwrap_or("?")
}

fn f(reg: u16) -> &'static str {
    x(32 + reg)
}

fn short(half: u16, out: &mut String) -> core::fmt::Result {
    match half {
        0x0001 => write!(out, "c.nop"),
        0x9002 => write!(out, "c.ebreak"),
        _ => write!(out, ".insn {half:#06x}"),
    }
}

const LOADS: [&str; 7] = ["lb", "lh", "lw", "ld", "lbu", "lhu", "lwu"];
const STORES: [&str; 4] = ["sb", "sh", "sw", "sd"];
const BRANCHES: [&str; 8] = ["beq", "bne", "", "", "blt", "bge", "bltu", "bgeu"];
const IMMEDIATE: [&str; 8] = ["addi", "", "slti", "sltiu", "xori", "", "ori", "andi"];
const REGISTER: [&str; 8] = ["add", "sll", "slt", "sltu", "xor", "srl", "or", "and"];

fn name(names: &[&'static str], index: u32) -> Option<&'static str> {
    names.get(index as usize).copied().filter(|name| !name.is_empty())
}

fn long(addr: u64, word: Word, out: &mut String) -> core::fmt::Result {
    match try_long(addr, word, out) {
        Some(written) => written,
        None => write!(out, ".insn {:#010x}", word.0),
    }
}

fn try_long(addr: u64, word: Word, out: &mut String) -> Option<core::fmt::Result> {
    let (rd, rs1, rs2, funct3) = (word.rd(), word.rs1(), word.rs2(), word.funct3());
    let wide = if funct3 == 3 { "d" } else { "w" };
    Some(match word.opcode() {
        0x13 if word.0 == 0x13 => write!(out, "nop"),
        0x13 if matches!(funct3, 1 | 5) => return shift(word, out),
        0x13 => write!(
            out,
            "{} {}, {}, {}",
            name(&IMMEDIATE, funct3)?,
            x(rd),
            x(rs1),
            word.imm_i()
        ),
        0x1b if funct3 == 0 => write!(out, "addiw {}, {}, {}", x(rd), x(rs1), word.imm_i()),
        0x33 if word.funct7() == 0 => {
            write!(
                out,
                "{} {}, {}, {}",
                name(&REGISTER, funct3)?,
                x(rd),
                x(rs1),
                x(rs2)
            )
        }
        0x37 => write!(out, "lui {}, {:#x}", x(rd), word.0 >> 12),
        0x17 => write!(out, "auipc {}, {:#x}", x(rd), word.0 >> 12),
        0x03 => write!(
            out,
            "{} {}, {}({})",
            name(&LOADS, funct3)?,
            x(rd),
            word.imm_i(),
            x(rs1)
        ),
        0x23 => write!(
            out,
            "{} {}, {}({})",
            name(&STORES, funct3)?,
            x(rs2),
            word.imm_s(),
            x(rs1)
        ),
        0x07 if matches!(funct3, 2 | 3) => {
            write!(out, "fl{wide} {}, {}({})", f(rd), word.imm_i(), x(rs1))
        }
        0x27 if matches!(funct3, 2 | 3) => {
            write!(out, "fs{wide} {}, {}({})", f(rs2), word.imm_s(), x(rs1))
        }
        0x2f if word.funct7() == 0b11 && matches!(funct3, 2 | 3) => {
            write!(out, "amoadd.{wide}.aqrl {}, {}, ({})", x(rd), x(rs2), x(rs1))
        }
        0x53 => return float(word, out),
        0x63 => {
            let to = addr.wrapping_add_signed(word.imm_b());
            write!(
                out,
                "{} {}, {}, {to:#x}",
                name(&BRANCHES, funct3)?,
                x(rs1),
                x(rs2)
            )
        }
        0x6f => write!(
            out,
            "jal {}, {:#x}",
            x(rd),
            addr.wrapping_add_signed(word.imm_j())
        ),
        0x67 if funct3 == 0 => write!(out, "jalr {}, {}({})", x(rd), word.imm_i(), x(rs1)),
        0x73 if word.0 == 0x0010_0073 => write!(out, "ebreak"),
        0x73 if word.0 == 0xc000_1073 => write!(out, "unimp"),
        _ => return None,
    })
}

fn shift(word: Word, out: &mut String) -> Option<core::fmt::Result> {
    let name = match (word.funct3(), word.0 >> 26) {
        (1, 0) => "slli",
        (5, 0) => "srli",
        (5, 0x10) => "srai",
        _ => return None,
    };
    Some(write!(
        out,
        "{name} {}, {}, {}",
        x(word.rd()),
        x(word.rs1()),
        word.shift()
    ))
}

fn float(word: Word, out: &mut String) -> Option<core::fmt::Result> {
    let (rd, rs1, rs2) = (word.rd(), word.rs1(), word.rs2());
    Some(match (word.funct7(), word.funct3()) {
        (0x11, 0) => write!(out, "fsgnj.d {}, {}, {}", f(rd), f(rs1), f(rs2)),
        (0x71, 0) => write!(out, "fmv.x.d {}, {}", x(rd), f(rs1)),
        (0x70, 0) => write!(out, "fmv.x.w {}, {}", x(rd), f(rs1)),
        (0x79, 0) => write!(out, "fmv.d.x {}, {}", f(rd), x(rs1)),
        (0x78, 0) => write!(out, "fmv.w.x {}, {}", f(rd), x(rs1)),
        _ => return None,
    })
}
