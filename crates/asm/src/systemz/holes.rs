//! Where immediates and displacements are in instructions, and by what they are told apart.

use super::emit::Emitter;
use super::insn::{Form, Mem, Rs, Rx, Si, Sil};
use super::memory::LONG;
use super::regs::Gpr;
use crate::hole::{BitField, ByteOrder, Class, Classes, Part, Run};
use crate::op::ValueNumber;

const BYTE: &[Run] = &[Run::new(0, 8, 0)];
const HALFWORD: &[Run] = &[Run::new(0, 16, 0)];
const WORD: &[Run] = &[Run::new(0, 32, 0)];

/// Whole bytes.
const fn whole(len: u32) -> BitField {
    BitField {
        len,
        order: ByteOrder::Big,
        runs: match len {
            1 => BYTE,
            2 => HALFWORD,
            _ => WORD,
        },
    }
}

/// B and D of 12 bits.
const SHORT: BitField = BitField {
    len: 2,
    order: ByteOrder::Big,
    runs: &[Run::new(0, 12, 0)],
};
/// B, DL, DH, and what follows.
const DISPLACEMENT: BitField = BitField {
    len: 4,
    order: ByteOrder::Big,
    runs: &[Run::new(0, 12, 16), Run::new(12, 8, 8)],
};

/// Of a displacement, whether instructions have it, and in 12 bits if they have such a form.
fn displacements(has_short: bool) -> Classes {
    Classes {
        of: |value, has_short| {
            let disp = value as i32;
            match LONG.contains(&disp) {
                true => Class::Of((has_short != 0 && (0..4096).contains(&disp)).into()),
                false => Class::Only(value),
            }
        },
        with: has_short.into(),
    }
}

/// Whether a displacement has at most 12 bits.
pub(super) const SHORT_OR_NOT: Classes =
    Classes::new(|value, _| Class::Of((0..4096).contains(&(value as i64)).into()));

/// Whether a displacement is none of instructions.
pub(super) const BEYOND: Classes = Classes::new(|value, _| match LONG.contains(&(value as i32)) {
    true => Class::Only(value),
    false => Class::Of(0),
});

/// By whether a number has 8, 16 or 32 bits, with a sign.
pub(super) const SIGNED: Classes = Classes::new(|value, _| {
    let signed = value as i64;
    Class::Of(
        match (i8::try_from(signed), i16::try_from(signed), i32::try_from(signed)) {
            (Ok(_), _, _) => 0,
            (_, Ok(_), _) => 1,
            (_, _, Ok(_)) => 2,
            _ => 3,
        },
    )
});

/// By whether it has 16 bits with a sign.
pub(super) const SIGNED_16: Classes =
    Classes::new(|value, _| Class::Of(i16::try_from(value as i64).is_ok().into()));

/// By whether a number has 16 or 32 bits with a sign, or it or its opposite 32 without one.
pub(super) const ADDED: Classes = Classes::new(|value, _| {
    let signed = value as i64;
    Class::Of(match (i16::try_from(signed), i32::try_from(signed)) {
        (Ok(_), _) => 0,
        (_, Ok(_)) => 1,
        _ if u32::try_from(value).is_ok() => 2,
        _ if u32::try_from(value.wrapping_neg()).is_ok() => 3,
        _ => 4,
    })
});

impl Emitter<'_> {
    /// Makes a register hold a constant, which is the value of that number.
    pub(super) fn put_value(&mut self, reg: Gpr, value: u64, number: Option<ValueNumber>) {
        const FORMS: Classes = Classes::new(|value, _| Class::Of(Form::of(value) as u64));
        self.code.uses(number, value, FORMS);
        reg.put_constant(value, &mut self.code.bytes);
        let at = |before, len, shift| (before, whole(len), Part::from_bit(shift));
        let (first, second) = match Form::of(value) {
            Form::Signed16 | Form::Quarter0 => (at(2, 2, 0), None),
            Form::Quarter1 => (at(2, 2, 16), None),
            Form::Quarter2 => (at(2, 2, 32), None),
            Form::Quarter3 => (at(2, 2, 48), None),
            Form::Signed32 | Form::Low => (at(4, 4, 0), None),
            Form::High => (at(4, 4, 32), None),
            Form::Both => (at(10, 4, 0), Some(at(4, 4, 32))),
        };
        for (before, field, part) in [Some(first), second].into_iter().flatten() {
            self.code.holds(before, field, part);
        }
    }

    /// An instruction that ends by so many bytes of the number that is being encoded.
    pub(super) fn put_immediate<const N: usize>(&mut self, insn: [u8; N], len: u32, part: Part) {
        self.put(insn);
        self.code.holds(len, whole(len), part);
    }

    /// A load, store or arithmetic with memory.
    pub(super) fn access(&mut self, rx: Rx, r1: u8, mem: Mem) {
        let start = self.code.at();
        rx.put(r1, mem, &mut self.code.bytes);
        self.displaced(mem, rx.0.is_some(), start);
    }

    /// The same with two registers.
    pub(super) fn access_by_two(&mut self, rs: Rs, r1: u8, r3: u8, mem: Mem) {
        let start = self.code.at();
        rs.put(r1, r3, mem, &mut self.code.bytes);
        self.displaced(mem, rs.0.is_some(), start);
    }

    /// The same with a byte, which is the number that is being encoded.
    pub(super) fn access_by_byte(&mut self, si: Si, mem: Mem, imm: u8) {
        let start = self.code.at();
        si.put(mem, imm, &mut self.code.bytes);
        let len = self.code.at() - start;
        self.code.holds(len - 1, whole(1), Part::WHOLE);
        self.displaced(mem, si.0.is_some(), start);
    }

    /// The same with 16 bits.
    pub(super) fn access_by_halfword(&mut self, sil: Sil, mem: Mem, imm: u16) {
        self.put_immediate(sil.of(mem, imm), 2, Part::WHOLE);
        self.code
            .uses(mem.number, i64::from(mem.disp) as u64, SHORT_OR_NOT);
        self.code.holds(4, SHORT, Part::WHOLE);
    }

    /// Says that the instruction from `start` on has the displacement of `mem`, in 12 bits where it
    /// has such a form and they suffice.
    fn displaced(&mut self, mem: Mem, has_short: bool, start: u32) {
        if mem.number.is_some() {
            let short = has_short && mem.is_short();
            let before = self.code.at() - start - 2;
            self.code
                .uses(mem.number, i64::from(mem.disp) as u64, displacements(has_short));
            self.code
                .holds(before, if short { SHORT } else { DISPLACEMENT }, Part::WHOLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_is_of_the_form_in_which_it_is_made() {
        for (value, form) in [
            (0x7fff, Form::Signed16),
            (-0x8000_i64 as u64, Form::Signed16),
            (0x8000, Form::Quarter0),
            (0x7fff_0000, Form::Quarter1),
            (0xffff << 32, Form::Quarter2),
            (1 << 63, Form::Quarter3),
            (0x1_0001, Form::Signed32),
            (0x8000_0001, Form::Low),
            (0x1_0001 << 32, Form::High),
            (0x1_0000_0001, Form::Both),
        ] {
            assert_eq!(Form::of(value), form, "{value:#x}");
        }
    }
}
