//! Where the code of a sequence has the values of the sequence in it.
//!
//! Problem: a runtime patches one inline cache again and again, each time with another class and
//! another field, and to assemble it anew each time is most of what that takes. Approach: the
//! encoder knows which bits are a value of the sequence's, a displacement, an immediate or the
//! distance to a target, and says so: each is a [`Hole`]. Code with other values in its holes is that
//! of the sequence with these values, as long as they are [`Alike`].
//!
//! A hole is some bits of an instruction, which hold some bits of a number. A value has several of
//! them where several instructions make it: `movz` and `movk`, `lui` and `addi`, `lis` and `ori`,
//! `llilf` and `iihf`.
//!
//! # Which values are alike
//!
//! Sequences with the same words have values of the same [class](crate::sequence::class) in the
//! same places. That suffices on x86-64, for whose immediates the classes are made. On the others the
//! encoder says at each use of a value by what it has chosen the instructions: a function of the
//! number (whether a displacement fits 12 bits, which halves of a constant are 0), whose result has
//! to be the same. By that function it decides itself, or the two are beside each other in the encoder.
//!
//! The number that is encoded is not always the value: a byte of -1 is compared as 255. But within a
//! class, all numbers of the same width are as far from their values: so the difference is noted
//! once.

use alloc::vec::Vec;

use crate::op::ValueNumber;

/// The order of the bytes of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The lowest first.
    Little,
    /// The highest first.
    Big,
}

/// A run of bits of a number, and where it is in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The lowest of the bits in the number.
    pub from: u32,
    /// How many there are.
    pub count: u32,
    /// Where the lowest is in the word.
    pub to: u32,
}

impl Run {
    /// So many bits of a number, from one of its bits on, at that bit of the word.
    #[must_use]
    pub const fn new(from: u32, count: u32, to: u32) -> Self {
        Self { from, count, to }
    }
}

/// Some bits of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitField {
    /// How many bytes the word has: 1, 2, 4 or 8.
    pub len: u32,
    /// In which order they are.
    pub order: ByteOrder,
    /// Which bits of the number are where; all of the word if there are none.
    pub runs: &'static [Run],
}

impl BitField {
    /// A whole little-endian word of so many bytes.
    #[must_use]
    pub const fn whole(len: u32) -> Self {
        Self {
            len,
            order: ByteOrder::Little,
            runs: &[],
        }
    }

    /// Runs of a little-endian instruction of 4 bytes.
    pub(crate) const fn little(runs: &'static [Run]) -> Self {
        Self {
            len: 4,
            order: ByteOrder::Little,
            runs,
        }
    }

    /// The bits of the word that belong to it.
    #[must_use]
    pub fn mask(self) -> u64 {
        match self.runs {
            [] => u64::MAX >> (64 - 8 * self.len.clamp(1, 8)),
            runs => runs.iter().fold(0, |mask, run| mask | low(run.count) << run.to),
        }
    }

    /// Puts a number into a [whole](Self::whole) word. `None` if that is not in the code.
    #[inline]
    #[must_use]
    pub fn put_whole(self, number: u64, at: usize, code: &mut [u8]) -> Option<()> {
        let code = code.get_mut(at..)?;
        // Each of a length that is known, where a copy is one store.
        match self.len {
            1 => *code.first_chunk_mut()? = [number as u8],
            2 => *code.first_chunk_mut()? = (number as u16).to_le_bytes(),
            4 => *code.first_chunk_mut()? = (number as u32).to_le_bytes(),
            _ => *code.first_chunk_mut()? = number.to_le_bytes(),
        }
        Some(())
    }

    /// Puts a number into the bits, which are 0. `None` if the word is not in the code.
    #[must_use]
    pub fn put(self, number: u64, at: usize, code: &mut [u8]) -> Option<()> {
        if self.runs.is_empty() {
            return self.put_whole(number, at, code);
        }
        let code = code.get_mut(at..)?;
        let bits = self.runs.iter().fold(0, |bits, run| {
            bits | (number >> run.from & low(run.count)) << run.to
        });
        let or = |bytes: &mut [u8], bits: &[u8]| {
            for (byte, bits) in bytes.iter_mut().zip(bits) {
                *byte |= bits;
            }
        };
        let len = self.len as usize;
        let word = code.get_mut(..len)?;
        match self.order {
            ByteOrder::Little => or(word, bits.to_le_bytes().get(..len)?),
            ByteOrder::Big => or(word, bits.to_be_bytes().get(8 - len..)?),
        }
        Some(())
    }
}

/// So many ones.
const fn low(count: u32) -> u64 {
    u64::MAX >> (64 - count)
}

/// What of a value is in a hole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// What the encoder adds to the value first.
    pub base: u64,
    /// Whether it takes the opposite of the sum.
    pub negated: bool,
    /// What it adds then: what rounds up where a later instruction subtracts.
    pub add: u64,
    /// By how many bits it shifts to the right then.
    pub shift: u32,
}

impl Part {
    /// The value itself.
    pub const WHOLE: Self = Self {
        base: 0,
        negated: false,
        add: 0,
        shift: 0,
    };

    /// The opposite of the value.
    pub const OPPOSITE: Self = Self {
        negated: true,
        ..Self::WHOLE
    };

    /// The value from some bit on.
    #[must_use]
    pub const fn from_bit(shift: u32) -> Self {
        Self { shift, ..Self::WHOLE }
    }

    /// Of a value, the number whose bits a field has.
    #[inline]
    #[must_use]
    pub fn number(self, value: u64) -> u64 {
        let sum = value.wrapping_add(self.base);
        let signed = if self.negated { sum.wrapping_neg() } else { sum };
        (signed.wrapping_add(self.add) as i64 >> self.shift) as u64
    }
}

/// Bits of code that hold a value or a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The offset of the first byte of their word.
    pub at: u32,
    /// Which bits of the word they are.
    pub field: BitField,
    /// What they hold.
    pub holds: Holds,
    /// What of that.
    pub part: Part,
    /// Whether it holds more of what the hole before it holds.
    pub goes_on: bool,
    /// Of a distance: where it counts from, and how far it may go.
    pub reach: DistanceReach,
}

impl Hole {
    /// Which bit of the value, or the distance, the lowest bit holds.
    #[must_use]
    pub fn lowest(&self) -> u32 {
        let lowest = self.field.runs.iter().map(|run| run.from).min();
        self.part.shift + lowest.unwrap_or(0)
    }

    /// Whether all of it is a whole word that holds all that it can of a number, as on x86-64.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.field.runs.is_empty() && self.field.order == ByteOrder::Little && self.part == Part::WHOLE
    }

    /// Puts its part of a value, or a distance, into code.
    #[must_use]
    pub fn put(&self, value: u64, code: &mut [u8]) -> Option<()> {
        let number = self.part.number(value);
        self.field.put(number, self.at as usize, code)
    }

    /// The same of a hole that is [whole](Self::is_whole).
    #[inline]
    #[must_use]
    pub fn put_whole(&self, value: u64, code: &mut [u8]) -> Option<()> {
        self.field.put_whole(value, self.at as usize, code)
    }

    /// The bytes before `end` that are the value of that number.
    #[inline]
    pub(crate) fn of_value(end: usize, len: u32, number: ValueNumber) -> Self {
        let at = (end as u32).saturating_sub(len);
        Self::whole(at, len, Holds::Value(number.get()))
    }

    /// So many bytes, little-endian.
    #[inline]
    #[must_use]
    pub const fn whole(at: u32, len: u32, holds: Holds) -> Self {
        Self {
            at,
            field: BitField::whole(len),
            holds,
            part: Part::WHOLE,
            goes_on: false,
            reach: DistanceReach::NONE,
        }
    }
}

/// What a hole holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// The sequence's value of that number, see
    /// [`Outline::values`](crate::sequence::Outline::values).
    Value(u32),
    /// The distance to the target of that number, see
    /// [`Outline::targets`](crate::sequence::Outline::targets).
    Target(u32),
    /// The distance from the code, which is a stub, to the end of the site.
    End,
}

/// Where a distance counts from, and which distances its instruction is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistanceReach {
    /// The offset in the code from which it counts.
    pub from: u32,
    /// The least and the greatest.
    pub within: (i64, i64),
    /// From these to those, a shorter instruction is taken. None if the first is greater.
    pub shorter: (i64, i64),
    /// A multiple of this.
    pub unit: u32,
}

impl DistanceReach {
    /// Of what is no distance.
    pub const NONE: Self = Self {
        from: 0,
        within: (0, 0),
        shorter: Self::NO_SHORTER,
        unit: 1,
    };

    /// No shorter instruction is taken.
    pub(crate) const NO_SHORTER: (i64, i64) = (0, -1);

    /// Whether the instruction is taken for that distance.
    #[inline]
    #[must_use]
    pub fn contains(&self, distance: i64) -> bool {
        let is_in = |(least, greatest): (i64, i64)| least <= distance && distance <= greatest;
        is_in(self.within) && !is_in(self.shorter) && distance & (i64::from(self.unit) - 1) == 0
    }
}

/// Numbers of a class are encoded by the same instructions, which differ in the holes only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// This number is alone.
    Only(u64),
    /// The class of that number.
    Of(u64),
}

/// How the numbers of a use are told apart: a function of a number, and of a parameter that the use
/// has, such as the size of an access.
#[derive(Clone, Copy, Debug)]
pub struct Classes {
    /// The function.
    pub of: fn(u64, u8) -> Class,
    /// The parameter.
    pub with: u8,
}

impl Classes {
    /// Each number alone: where no field holds it.
    pub(crate) const ALONE: Self = Self::new(|number, _| Class::Only(number));

    /// All numbers alike.
    pub(crate) const ALL: Self = Self::new(|_, _| Class::Of(0));

    /// A function without a parameter.
    pub(crate) const fn new(of: fn(u64, u8) -> Class) -> Self {
        Self { of, with: 0 }
    }
}

/// What has to be the same of a value, so that the instructions are the same.
#[derive(Clone, Copy, Debug)]
pub struct Alike {
    /// The value's number.
    pub number: u32,
    /// What the encoder adds to the value first.
    pub base: u64,
    /// The classes of the sum.
    pub classes: Classes,
}

impl Alike {
    /// The class of a value.
    #[inline]
    #[must_use]
    pub fn class(&self, value: u64) -> Class {
        (self.classes.of)(value.wrapping_add(self.base), self.classes.with)
    }
}

/// The holes of code.
#[derive(Clone, Debug)]
pub struct Holes {
    /// All of them.
    pub holes: Vec<Hole>,
    /// What has to be the same of values, so that they are there.
    pub alike: Vec<Alike>,
}

/// The use of a value that is being encoded.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// The value's number.
    pub number: ValueNumber,
    /// The number that is encoded.
    pub shown: u64,
    /// Whether a hole has been named.
    pub has_hole: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_put_into_the_code_or_not_at_all() {
        let mut code = [0; 6];
        for beside in [3, 6, 7] {
            assert_eq!(BitField::whole(4).put(u64::MAX, beside, &mut code), None);
        }
        assert_eq!(code, [0; 6]);
        assert_eq!(BitField::whole(4).put(7, 2, &mut code), Some(()));
        assert_eq!(code, [0, 0, 7, 0, 0, 0]);
    }

    #[test]
    fn runs_are_put_in_the_order_of_the_word() {
        const RUNS: &[Run] = &[Run::new(0, 4, 8), Run::new(4, 8, 24)];
        let field = |order| BitField {
            len: 4,
            order,
            runs: RUNS,
        };
        let put = |order| {
            let mut code = [0, 0x80, 0x40, 0x20, 0];
            field(order).put(0xabc, 1, &mut code).unwrap();
            code
        };
        assert_eq!(put(ByteOrder::Little), [0, 0x80, 0x4c, 0x20, 0xab]);
        assert_eq!(put(ByteOrder::Big), [0, 0xab, 0x40, 0x2c, 0]);
        assert_eq!(field(ByteOrder::Big).mask(), 0xff00_0f00);
        assert_eq!(BitField::whole(8).mask(), u64::MAX);
    }

    #[test]
    fn a_part_is_moved_turned_rounded_and_shifted() {
        let part = Part {
            base: 1,
            negated: true,
            add: 0x800,
            shift: 12,
        };
        assert_eq!(part.number(0x1fff), -2_i64 as u64);
        assert_eq!(Part::from_bit(16).number(u64::MAX << 40), (-1_i64 << 24) as u64);
    }

    #[test]
    fn a_reach_ends_where_a_shorter_instruction_does() {
        let reach = DistanceReach {
            from: 0,
            within: (-100, 96),
            shorter: (-8, 4),
            unit: 4,
        };
        let all: alloc::vec::Vec<i64> = (-110..110).filter(|by| reach.contains(*by)).collect();
        let expected = (-25..=-3).chain(2..=24).map(|words| words * 4);
        assert_eq!(all, expected.collect::<alloc::vec::Vec<_>>());
    }
}
