//! Operands in LLVM's order: of branches, addresses, wide moves, additions of a number, and loads and stores with an offset.

use alloc::vec::Vec;

use super::decode::{Address, Insn, Operand as Last, Wide, insn};
use crate::operand::Operand::{self, Immediate, Register};

/// Distances are from the instruction.
const HERE: u64 = 0;

/// The operands of the word that the bytes start with; `None` for other instructions.
pub(crate) fn operands(bytes: &[u8]) -> Option<Vec<Operand>> {
    let word = u32::from_le_bytes(*bytes.first_chunk()?);
    let words = |to: u64| Immediate(to.wrapping_sub(HERE) as i64 >> 2);
    let number = |value: u8| Immediate(value.into());
    Some(match insn(HERE, word) {
        Insn::Hint { number: hint } => alloc::vec![number(hint)],
        Insn::Brk { imm } => alloc::vec![Immediate(imm.into())],
        Insn::B { to } | Insn::Bl { to } => alloc::vec![words(to)],
        Insn::BCond {
            cond,
            hinted: false,
            to,
        } => alloc::vec![number(cond), words(to)],
        Insn::Cb { to, .. } | Insn::Literal { to, .. } => alloc::vec![Register, words(to)],
        Insn::Tb { bit, to, .. } => alloc::vec![Register, number(bit), words(to)],
        Insn::Br { plain: true, .. } | Insn::Blr { plain: true, .. } | Insn::Ret { plain: true, .. } => {
            alloc::vec![Register]
        }
        Insn::Adr { to, page, .. } => {
            let unit = if page { 12 } else { 0 };
            alloc::vec![Register, Immediate(to as i64 >> unit)]
        }
        Insn::MoveWide { how, imm, shift, .. } => {
            let mut all = alloc::vec![Register];
            if how == Wide::Keep {
                // The rest of the destination is a source.
                all.push(Register);
            }
            all.extend([Immediate(imm.into()), number(shift)]);
            all
        }
        Insn::AddSub(_, Last::Imm(_)) => add_immediate(word),
        Insn::Memory(access, Address::Offset { by, unscaled, .. }) => {
            let unit = if unscaled { 1 } else { i64::from(access.size) };
            alloc::vec![Register, Register, Immediate(by.checked_div(unit)?)]
        }
        Insn::Pair {
            access,
            address: Address::Offset { by, .. },
            ..
        } => {
            let by = by.checked_div(i64::from(access.size))?;
            alloc::vec![Register, Register, Register, Immediate(by)]
        }
        _ => return None,
    })
}

/// The number, and by how many bits it is shifted: of 0 only the encoding tells.
fn add_immediate(word: u32) -> Vec<Operand> {
    let (imm, shifted) = (word >> 10 & 0xfff, word >> 22 & 1);
    alloc::vec![
        Register,
        Register,
        Immediate(imm.into()),
        Immediate((12 * shifted).into())
    ]
}
