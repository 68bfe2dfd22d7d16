//! Constants in registers: at most five instructions.

use alloc::vec::Vec;

use super::Flavor;
use super::insn::{self, Gpr};

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
