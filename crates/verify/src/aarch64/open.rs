//! Which bits of an instruction are open in a template.

use smallvec::smallvec;

use super::decode::{AddSub, Address, Insn, Operand, Wide, insn};
use crate::facts::Facts;
use crate::field::{OpenField, Slice};
use crate::open::Opened;

/// `imm12`, `imm9`, `imm16`, `imm26`, `imm19` (DDI 0487, C6.2).
const IMM_12: OpenField = OpenField::bits(&[Slice::new(10, 12, 0)]);
const IMM_9: OpenField = OpenField::bits(&[Slice::new(12, 9, 0)]).with_sign();
const IMM_16: OpenField = OpenField::bits(&[Slice::new(5, 16, 0)]);
const IMM_26: OpenField = OpenField::bits(&[Slice::new(0, 26, 2)]).with_sign().counting(0);
const IMM_19: OpenField = OpenField::bits(&[Slice::new(5, 19, 2)]).with_sign().counting(0);

/// The stack pointer, or zero.
const R31: u8 = 31;

/// See [`Open`](crate::open::Open). Of instructions that name the stack pointer nothing is open;
/// shifts, masks and the kinds of moves are no immediates here.
pub(super) fn open(facts: &Facts, bytes: &[u8]) -> Option<Opened> {
    let word = u32::from_le_bytes(*bytes.first_chunk()?);
    let field = match insn(facts.addr, word) {
        Insn::B { .. } | Insn::Bl { .. } => IMM_26,
        Insn::BCond { .. } => IMM_19,
        Insn::AddSub(op, Operand::Imm(_)) if op.rn != R31 && (op.rd != R31 || op.flags) => {
            let AddSub { sub, flags, .. } = op;
            // Of a comparison the immediate is what is compared with: subtracted.
            IMM_12.shifted(12 * (word >> 22 & 1)).negated_if(sub != flags)
        }
        Insn::MoveWide {
            how,
            wide: true,
            rd,
            shift,
            ..
        } if rd != R31 => IMM_16.shifted(shift.into()).negated_if(how == Wide::Not),
        Insn::Memory(access, Address::Offset { rn, unscaled, .. }) if rn != R31 => match unscaled {
            true => IMM_9,
            false => IMM_12.shifted(access.size.trailing_zeros()),
        },
        Insn::Adr { .. } | Insn::Literal { .. } => return None,
        _ => return Some(Opened::new()),
    };
    Some(smallvec![field])
}
