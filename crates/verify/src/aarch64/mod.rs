//! AArch64, decoded from the manual's tables.
//!
//! Every word is an instruction of four bytes, so original code always decodes. What is not one of
//! the instructions below changes nothing that is known of it, and so no sequence may execute it:
//! what the assembler here emits is decoded, what LLVM emits at patchpoints, all branches, and
//! loads, stores and arithmetic that hand-written sequences are likely to use. Source: Arm
//! Architecture Reference Manual for A-profile (DDI 0487), C4.1 (index by encoding) and C6.2.

mod branches;
mod decode;
mod facts;
mod open;
mod scalable;
mod text;

#[cfg(test)]
mod tests;

use alloc::string::String;

pub(crate) use branches::branches;
use decode::{Insn, insn};
use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::RegSet;

use super::facts::{Abi, DecodedCode, Exchange, ExchangePlace, Isa, Undecodable};

/// The length of every instruction.
const LEN: usize = 4;

pub(crate) static ISA: Isa = Isa {
    decode,
    text,
    patchpoint_call: |_, bytes| patchpoint_call(bytes),
    // brk #0
    trap: &[0x00, 0x00, 0x20, 0xd4],
    trap_replaces,
    return_offsets_restore: false,
    exchange,
    exchange_place: ExchangePlace::multiples_of(4),
    register,
    distance: |len| match len {
        4 => Some(&[255, 255, 255, 0x03]),
        _ => None,
    },
    pair: |_, _, _| None,
    leaving: |_, _| None,
    scalable: scalable::first_scalable,
    fields: |code, is_target| crate::open::fields(code, is_target, decode, open::open),
    abi: Abi {
        known: GENERAL.union(VECTORS),
        parts: 0..0,
        scratch: IP,
        // LLVM's own call at a patchpoint loses the link register.
        scratch_at_any_reg: IP.with(LINK),
        scratch_at_entry: IP,
        lost_in_any_call: IP.with(LINK),
        // x19 to x28, and the low halves of v8 to v15 (AAPCS64, 6.1).
        callee_saved: range(19, 28).union(range(72, 79)),
        frame: RegSet::of(&[DwarfReg::new(29), STACK]),
        result: RegSet::of(&[DwarfReg::new(0), DwarfReg::new(64)]),
        // x0 to x7 and v0 to v7.
        returned: range(0, 7).union(range(64, 71)),
        // Linux has none; on Darwin it is 128.
        red_zone: 0,
        // It is in x30.
        return_address: 0,
        stack_align: 16,
        unnumbered_live_outs: false,
    },
};

const STACK: DwarfReg = DwarfReg::new(31);
const LINK: DwarfReg = DwarfReg::new(30);
/// x16 and x17.
const IP: RegSet = range(16, 17);
const GENERAL: RegSet = range(0, 31);
const VECTORS: RegSet = range(64, 95);

/// The registers of these DWARF numbers.
const fn range(first: u16, last: u16) -> RegSet {
    let mut set = RegSet::EMPTY;
    let mut number = first;
    while number <= last {
        set = set.with(DwarfReg::new(number));
        number += 1;
    }
    set
}

macro_rules! names {
    ($($name:literal)*) => { &[$($name),*] };
}

/// By DWARF number.
const NAMES: &[&str] = names! {
    "x0" "x1" "x2" "x3" "x4" "x5" "x6" "x7" "x8" "x9" "x10" "x11" "x12" "x13" "x14" "x15"
    "x16" "x17" "x18" "x19" "x20" "x21" "x22" "x23" "x24" "x25" "x26" "x27" "x28" "x29" "x30" "sp"
};

/// By DWARF number, from 64 on.
const VECTOR_NAMES: &[&str] = names! {
    "v0" "v1" "v2" "v3" "v4" "v5" "v6" "v7" "v8" "v9" "v10" "v11" "v12" "v13" "v14" "v15"
    "v16" "v17" "v18" "v19" "v20" "v21" "v22" "v23" "v24" "v25" "v26" "v27" "v28" "v29" "v30" "v31"
};

fn register(reg: DwarfReg) -> Option<&'static str> {
    let number = usize::from(reg.get());
    let vector = || VECTOR_NAMES.get(number.checked_sub(64)?);
    NAMES.get(number).or_else(vector).copied()
}

/// The first instruction's word, if there are four bytes.
fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn decode(addr: u64, bytes: &[u8], code: &mut DecodedCode) -> Result<(), Undecodable> {
    if addr % LEN as u64 != 0 {
        return Err(Undecodable { addr, cut_off: false });
    }
    let mut at = addr;
    for chunk in bytes.chunks(LEN) {
        let word = word(chunk).ok_or(Undecodable {
            addr: at,
            cut_off: true,
        })?;
        code.push(facts::facts(at, insn(at, word)));
        at = at.wrapping_add(LEN as u64);
    }
    Ok(())
}

fn text(addr: u64, bytes: &[u8], out: &mut String) -> Option<usize> {
    let word = word(bytes)?;
    text::write(insn(addr, word), word, out);
    Some(LEN)
}

/// `movz`, `movk`, `movk` of x16 and `blr x16`, as LLVM's AArch64AsmPrinter lowers PATCHPOINT: the
/// highest of three parts first, always all three. A target of 0 has no call.
fn patchpoint_call(bytes: &[u8]) -> Option<(u64, u32)> {
    let mut target = 0;
    for (index, shift) in [32, 16, 0].into_iter().enumerate() {
        let keep = index != 0;
        match insn(0, word(bytes.get(index * LEN..)?)?) {
            Insn::MoveWide {
                how,
                wide: true,
                rd: 16,
                imm,
                shift: by,
            } if by == shift && (how == decode::Wide::Keep) == keep && how != decode::Wide::Not => {
                target |= u64::from(imm) << shift;
            }
            _ => return None,
        }
    }
    let call = insn(0, word(bytes.get(3 * LEN..)?)?);
    matches!(call, Insn::Blr { rn: 16, plain: true }).then_some((target, 16))
}

/// The instructions that may replace each other while they are executed (DDI 0487, B2.2.5): B, BL,
/// BRK, HVC, ISB, NOP, SMC, SVC. Of these the engine uses B, BL, BRK and NOP.
fn exchange(exchange: &Exchange<'_>) -> Result<(), &'static str> {
    if exchange.before.addr % LEN as u64 != 0 {
        return Err("the changed instruction is not at a multiple of 4");
    }
    match is_exchangeable(exchange.old) && is_exchangeable(exchange.new) {
        true => Ok(()),
        false => Err("an instruction changes that is none of b, bl, brk and nop"),
    }
}

fn is_exchangeable(bytes: &[u8]) -> bool {
    let insn = word(bytes).map(|word| insn(0, word));
    matches!(
        insn,
        Some(Insn::B { .. } | Insn::Bl { .. } | Insn::Brk { .. } | Insn::Hint { number: 0 })
    )
}

/// A trap, too, may only replace what the manual lists.
fn trap_replaces(old: &[u8]) -> Result<(), &'static str> {
    match is_exchangeable(old) {
        true => Ok(()),
        false => Err(
            "the shadow starts by an instruction that may not become a trap while threads execute it, as only b, bl, \
             brk and nop may: begin it with a nop, or stop the threads",
        ),
    }
}
