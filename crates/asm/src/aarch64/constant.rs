//! Constants in registers: at most four instructions.
//!
//! Three ways, of which the shortest is taken: a repeated pattern by one `orr`; zeros, then the
//! other parts (`movz`, `movk`); ones, then the other parts (`movn`, `movk`).

use alloc::vec::Vec;

use super::imm::{Halfword, Logical};
use super::insn::{self, Gpr};

/// How a constant is loaded.
enum ConstantForm {
    Logical(Logical),
    /// The part that all others start as: 0 or 0xffff.
    Parts {
        rest: u32,
    },
}

fn way(value: u64) -> ConstantForm {
    let parts = Halfword::all(value);
    let count = |like| parts.iter().filter(|part| part.value == like).count();
    let (zeros, ones) = (count(0), count(0xffff));
    match Logical::new(value) {
        Some(imm) if zeros < 3 && ones < 3 => ConstantForm::Logical(imm),
        _ if ones > zeros => ConstantForm::Parts { rest: 0xffff },
        _ => ConstantForm::Parts { rest: 0 },
    }
}

/// The parts to be written: at least one.
fn written(value: u64, rest: u32) -> impl Iterator<Item = Halfword> {
    let parts = Halfword::all(value);
    let only_rest = parts.iter().all(|part| part.value == rest);
    parts
        .into_iter()
        .filter(move |part| part.value != rest || (only_rest && part.shift == 0))
}

/// Sets all 64 bits to `value` and leaves the flags.
pub(super) fn put(dst: Gpr, value: u64, out: &mut Vec<u8>) {
    let rest = match way(value) {
        ConstantForm::Logical(imm) => return insn::mov_logical(dst, imm, out),
        ConstantForm::Parts { rest } => rest,
    };
    for (index, part) in written(value, rest).enumerate() {
        match (index, rest) {
            (0, 0) => insn::movz(dst, part, out),
            (0, _) => {
                let value = part.value ^ 0xffff;
                insn::movn(dst, Halfword { value, ..part }, out);
            }
            _ => insn::movk(dst, part, out),
        }
    }
}

/// The length of what [`put`] appends, in bytes.
pub(super) fn len(value: u64) -> u32 {
    match way(value) {
        ConstantForm::Logical(_) => insn::LEN,
        ConstantForm::Parts { rest } => written(value, rest).count() as u32 * insn::LEN,
    }
}
