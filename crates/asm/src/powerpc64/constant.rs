//! Constants in registers: at most five instructions.

use alloc::vec::Vec;

use super::Flavor;
use super::insn::{self, Gpr};
use crate::backend::EncodedCode;
use crate::hole::{Class, Classes, Part};

/// The instructions that make a constant.
pub(super) struct Words {
    words: [u32; 5],
    len: usize,
}

impl Words {
    fn push(&mut self, word: u32) {
        let slot = self.words.get_mut(self.len);
        *slot.expect("five instructions make any constant") = word;
        self.len += 1;
    }

    pub(super) fn put(&self, flavor: Flavor, out: &mut Vec<u8>) {
        for word in self.words.iter().take(self.len) {
            flavor.put(*word, out);
        }
    }

    /// Their length in bytes.
    pub(super) fn len(&self) -> u32 {
        // At most 20.
        self.len as u32 * 4
    }
}

/// The halfwords of a value, lowest first.
const fn halves(value: u64) -> [u16; 4] {
    [
        value as u16,
        (value >> 16) as u16,
        (value >> 32) as u16,
        (value >> 48) as u16,
    ]
}

/// Makes `reg` hold `value`.
pub(super) fn load(reg: Gpr, value: u64) -> Words {
    let mut words = Words {
        words: [0; 5],
        len: 0,
    };
    let signed = value as i64;
    if let Ok(word) = i32::try_from(signed) {
        load_word(reg, word, &mut words);
        return words;
    }
    let [low, high, ..] = halves(value);
    let upper = (signed >> 32) as i32;
    let upper_set = upper != 0;
    load_word(reg, upper, &mut words);
    if upper_set {
        words.push(insn::rldicr(reg, reg, 32, 31));
    }
    if high != 0 {
        words.push(insn::oris(reg, reg, high));
    }
    if low != 0 {
        words.push(insn::ori(reg, reg, low));
    }
    words
}

/// The bits from which on the halfwords are that the instructions of [`load`] hold, `None` for one
/// without.
fn parts(value: u64) -> impl Iterator<Item = Option<u32>> {
    let signed = value as i64;
    let of_word = |value: i32, from: u32| match i16::try_from(value) {
        Ok(_) => [Some(from), None],
        Err(_) => [Some(from + 16), (value as u16 != 0).then_some(from)],
    };
    let [low, high, ..] = halves(value);
    let all = match i32::try_from(signed) {
        Ok(word) => {
            let [one, other] = of_word(word, 0);
            [one.map(Some), other.map(Some), None, None, None]
        }
        Err(_) => {
            let upper = (signed >> 32) as i32;
            let [one, other] = of_word(upper, 32);
            let shift = (upper != 0).then_some(None);
            let rest = [(high != 0).then_some(Some(16)), (low != 0).then_some(Some(0))];
            [one.map(Some), other.map(Some), shift, rest[0], rest[1]]
        }
    };
    all.into_iter().flatten()
}

/// Which constants are made by the same instructions: with the same halfwords.
pub(super) const CLASSES: Classes = Classes::new(|value, _| {
    let kinds = parts(value).map(|from| from.map_or(1, |from| 2 + u64::from(from / 16)));
    Class::Of(kinds.fold(0, |all, kind| all << 3 | kind))
});

/// Names the holes of the constant at the end of the code.
pub(super) fn name(flavor: Flavor, value: u64, code: &mut EncodedCode) {
    let mut before = parts(value).count() as u32 * 4;
    for from in parts(value) {
        if let Some(from) = from {
            code.holds(before, flavor.field(insn::RUN_16), Part::from_bit(from));
        }
        before -= 4;
    }
}

/// Of a number that is added to a register, by which of `addis` and `addi`; see [`split`].
pub(super) const SUMS: Classes = Classes::new(|value, _| match split(value as i64) {
    Some((high, low)) => Class::Of(u64::from(high != 0) << 1 | u64::from(low != 0)),
    None => Class::Only(value),
});

/// Whether a number is none that they add.
pub(super) const BEYOND: Classes = Classes::new(|value, _| match split(value as i64) {
    Some(_) => Class::Only(value),
    None => Class::Of(0),
});

/// The part of a number that `addis` adds: rounded, as `addi` may subtract.
pub(super) const ROUNDED: Part = Part {
    add: 0x8000,
    shift: 16,
    ..Part::WHOLE
};

/// Makes `reg` hold `value`, extended with its sign.
fn load_word(reg: Gpr, value: i32, words: &mut Words) {
    if let Ok(value) = i16::try_from(value) {
        words.push(insn::li(reg, value));
        return;
    }
    let (high, low) = ((value >> 16) as i16, value as u16);
    words.push(insn::lis(reg, high));
    if low != 0 {
        words.push(insn::ori(reg, reg, low));
    }
}

/// A value as the sum of a multiple of 64 Ki, that many, and a signed halfword, if the first fits
/// `addis`.
pub(super) fn split(value: i64) -> Option<(i16, i16)> {
    let low = value as i16;
    let high = value.checked_sub(i64::from(low))? >> 16;
    Some((i16::try_from(high).ok()?, low))
}
