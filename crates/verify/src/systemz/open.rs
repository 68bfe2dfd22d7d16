//! Which bits of an instruction are open in a template.

use smallvec::smallvec;

use super::STACK_POINTER;
use super::fields::Fields;
use super::table::{Does, Imm, KnownInstruction, Layout};
use crate::facts::{Facts, Flow};
use crate::field::{OpenField, Slice};
use crate::open::Opened;

/// Immediates of 8, 16 and 32 bits, displacements of 12 and 20, and distances (Principles of
/// Operation, chapter 5, "Instruction Formats").
const I_8: OpenField = OpenField::bits(&[Slice::new(0, 8, 0)]).big_endian();
const I_16: OpenField = OpenField::bits(&[Slice::new(0, 16, 0)]).big_endian();
const I_32: OpenField = OpenField::bits(&[Slice::new(0, 32, 0)]).big_endian();
const D: OpenField = OpenField::bits(&[Slice::new(0, 12, 0)])
    .big_endian()
    .in_word(2, 2);
const DL_DH: OpenField = OpenField::bits(&[Slice::new(16, 12, 0), Slice::new(8, 8, 12)])
    .big_endian()
    .with_sign()
    .in_word(2, 4);
const RI_16: OpenField = OpenField::bits(&[Slice::new(0, 16, 1)])
    .big_endian()
    .with_sign()
    .in_word(2, 2)
    .counting(0);
const RI_32: OpenField = OpenField::bits(&[Slice::new(0, 32, 1)])
    .big_endian()
    .with_sign()
    .in_word(2, 4)
    .counting(0);

/// See [`Open`](crate::open::Open). Of what names the stack pointer nothing is open; amounts of
/// shifts and selections of bits are no immediates here.
pub(super) fn open(facts: &Facts, bytes: &[u8]) -> Option<Opened> {
    let fields = Fields::of(facts.addr, bytes);
    let Some(known) = fields.known else {
        return Some(Opened::new());
    };
    let stack = STACK_POINTER as u8;
    let address = |field: OpenField| match fields.base == stack || fields.index == stack {
        true => Opened::new(),
        false => smallvec![field],
    };
    let immediate = |imm: Imm, at: usize, field: OpenField| -> Opened {
        let field = field.shifted(left(known)).negated_if(known.name == "slgfi");
        let len = field.mask().trailing_ones() as usize / 8;
        let field = field.in_word(at, len);
        match imm {
            Imm::Signed => smallvec![field.with_sign()],
            Imm::Unsigned => smallvec![field],
            Imm::Distance => Opened::new(),
        }
    };
    let both = |mut one: Opened, other: Opened| {
        one.extend(other);
        one
    };
    let is_branch = facts.flow != Flow::Next;
    Some(match known.layout {
        // Counts a register down, which nothing here does.
        _ if known.does == Does::Counts => Opened::new(),
        Layout::Ri(_, Imm::Distance) if is_branch => smallvec![RI_16],
        Layout::Ril(_, Imm::Distance) if is_branch => smallvec![RI_32],
        Layout::Ri(_, Imm::Distance) | Layout::Ril(_, Imm::Distance) if !facts.nop => return None,
        Layout::Ri(_, imm) if fields.r1 != stack => immediate(imm, 2, I_16),
        Layout::Ril(_, imm) if fields.r1 != stack => immediate(imm, 2, I_32),
        Layout::Rx(_) => address(D),
        Layout::Rxy(_) => address(DL_DH),
        Layout::Rs => address(D),
        Layout::Rsy => address(DL_DH),
        Layout::Si(imm) => both(address(D), immediate(imm, 1, I_8)),
        Layout::Siy(imm) => both(address(DL_DH), immediate(imm, 1, I_8)),
        Layout::Sil(imm) => both(address(D), immediate(imm, 4, I_16)),
        _ => Opened::new(),
    })
}

/// Which bit of the register the lowest of the immediate is.
fn left(known: &KnownInstruction) -> u32 {
    match (known.does, known.name) {
        (Does::Constant(left), _) => left.into(),
        (_, "iihf" | "nihf") => 32,
        (_, "nilh") => 16,
        (_, "nihl") => 32,
        (_, "nihh") => 48,
        _ => 0,
    }
}
