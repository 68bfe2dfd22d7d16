//! RISC-V, 64 bits: a decoder of the instructions that sequences are made of, turned into
//! [`Facts`].
//!
//! The lowest bits of an instruction tell its length, so code that is there already decodes
//! whatever it holds; an instruction that is not known is refused where a sequence has it. What is
//! known changes general and floating-point registers and memory only: no floating-point
//! arithmetic, which raises exceptions, no control registers, no calls of the environment. Of
//! compressed instructions sequences may have the nop only.
//!
//! Sources: The RISC-V Instruction Set Manual, volume I, 1.5 (lengths), 2, 5, 14, 20, 21, 27 and 34
//! (encodings); RISC-V ELF psABI, 1.1 and 1.2 (registers), 4 (DWARF numbers).

mod branches;
mod decode;
mod open;
mod scalable;
mod text;

#[cfg(test)]
mod tests;

pub(crate) use branches::branches;
use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::RegSet;

use super::facts::{Abi, Constant, Dest, Exchange, ExchangePlace, Facts, Flow, Isa, Sort, any_instruction};

pub(crate) static ISA: Isa = Isa {
    decode: decode::all,
    text: text::first,
    patchpoint_call: |_, bytes| decode::patchpoint_call(bytes),
    // c.ebreak.
    trap: &[0x02, 0x90],
    trap_replaces: any_instruction,
    return_offsets_restore: false,
    exchange,
    exchange_place: ExchangePlace::multiples_of(4),
    register: |reg| NAMES.get(usize::from(reg.get())).copied(),
    distance: |len| match len {
        4 => Some(&[0, 0xf0, 255, 255]),
        8 => Some(&[0, 0xf0, 255, 255, 0, 0, 0xf0, 255]),
        _ => None,
    },
    pair,
    leaving: |_, _| None,
    scalable: scalable::first_scalable,
    fields: |code, is_target| crate::open::fields(code, is_target, decode::all, open::open),
    abi: Abi {
        // A value that is known to be 0 may be in zero.
        known: numbers(0, 63),
        parts: 0..0,
        scratch: RegSet::EMPTY,
        scratch_at_any_reg: TEMPORARY,
        // t2 may hold the static chain.
        scratch_at_entry: numbers(5, 6).union(numbers(28, 31)),
        lost_in_any_call: RegSet::of(&[reg(RA)]),
        // LLVM's call at a patchpoint loses ra, which the function need not have saved.
        callee_saved: numbers(8, 9)
            .union(numbers(18, 27))
            .union(numbers(40, 41))
            .union(numbers(50, 59))
            .with(reg(RA)),
        // gp and tp belong to the platform; zero is nobody's.
        frame: RegSet::of(&[reg(0), reg(SP), reg(3), reg(4), reg(8)]),
        result: RegSet::of(&[reg(10), reg(42)]),
        returned: RegSet::of(&[reg(10), reg(11), reg(42), reg(43)]),
        red_zone: 0,
        return_address: 0,
        stack_align: 16,
        unnumbered_live_outs: false,
    },
};

/// The link register.
const RA: u16 = 1;
/// The stack pointer.
const SP: u16 = 2;

/// What a C call may change; at a RISC-V patchpoint `anyregcc` keeps no more.
const TEMPORARY: RegSet = numbers(5, 7).union(numbers(10, 17)).union(numbers(28, 31));

const fn reg(number: u16) -> DwarfReg {
    DwarfReg::new(number)
}

/// The registers of these numbers.
const fn numbers(first: u16, last: u16) -> RegSet {
    let mut set = RegSet::EMPTY;
    let mut number = first;
    while number <= last {
        set = set.with(reg(number));
        number += 1;
    }
    set
}

/// By DWARF number: x0 to x31, f0 to f31.
const NAMES: [&str; 64] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6",
    "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6", "ft0", "ft1",
    "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6",
    "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11", "ft8", "ft9", "ft10",
    "ft11",
];

/// Two nops or direct jumps, or two calls, of 4 bytes, at a multiple of 4: fetched and stored whole
/// (volume I, 1.5 and "Zifencei").
fn exchange(of: &Exchange<'_>) -> Result<(), &'static str> {
    let may = |facts: &Facts| facts.nop || matches!(facts.flow, Flow::Jump(Dest::Address(_)));
    let before = of.before;
    let calls = |facts: &Facts| matches!(facts.flow, Flow::Call(Dest::Address(_)));
    // A call stays one, with the same link.
    let both_call = calls(before) && calls(of.after) && before.writes == of.after.writes;
    if before.len != 4 || !(both_call || may(before) && may(of.after)) {
        return Err("an instruction changes that is no 4-byte nop or jump");
    }
    match before.addr % 4 {
        0 => Ok(()),
        _ => Err("the instruction that changes is not at a multiple of 4"),
    }
}

/// `auipc` and `jalr` by the same register (RISC-V psABI, R_RISCV_CALL).
fn pair(first: &Facts, second: &Facts, bytes: &[u8]) -> Option<(Sort, u64)> {
    let Some(Constant::Is(register, upper)) = first.constant else {
        return None;
    };
    let word = u32::from_le_bytes(*bytes.last_chunk()?);
    let sort = match second.flow {
        Flow::Call(_) => Sort::Call,
        Flow::Jump(_) => Sort::Jump,
        _ => return None,
    };
    let same = word & 0x7f == 0x67 && word >> 15 & 31 == u32::from(register.get());
    let lower = i64::from(word as i32 >> 20);
    same.then_some((sort, upper.wrapping_add_signed(lower)))
}
