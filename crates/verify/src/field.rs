//! Bits of an instruction that may hold another value.

use llvm_stackmaps::addr::CodeAddr;

/// Neighbouring bits of a word, and which bits of a number they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The lowest in the word.
    pub word: u32,
    /// How many.
    pub count: u32,
    /// What the lowest is worth in the number: that power of 2.
    pub worth: u32,
}

impl Slice {
    pub(super) const fn new(word: u32, count: u32, worth: u32) -> Self {
        Self { word, count, worth }
    }

    const fn ones(self) -> u64 {
        u64::MAX >> (64 - self.count)
    }
}

/// Bits that may vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenField {
    /// The offset of the first byte of their word.
    pub at: usize,
    /// How many bytes the word has: 1, 2, 4 or 8.
    pub len: usize,
    /// Whether its highest byte comes first.
    pub big_endian: bool,
    /// The bits; all of the word if there are none.
    pub slices: &'static [Slice],
    /// Whether the highest bit is a sign.
    pub signed: bool,
    /// By how many bits the instruction, and those behind it, shift the number to the left.
    pub left: u32,
    /// Whether the instruction subtracts it.
    pub negated: bool,
    /// Of a branch that leaves: the offset from which its distance counts.
    pub counts_from: Option<usize>,
}

impl OpenField {
    /// A whole little-endian word, with a sign.
    #[must_use]
    pub const fn whole(at: usize, len: usize) -> Self {
        Self {
            at,
            len,
            big_endian: false,
            slices: &[],
            signed: true,
            left: 0,
            negated: false,
            counts_from: None,
        }
    }

    /// Some bits of a word of 4 bytes, without a sign.
    pub(super) const fn bits(slices: &'static [Slice]) -> Self {
        Self {
            slices,
            signed: false,
            ..Self::whole(0, 4)
        }
    }

    /// The same as a signed number.
    pub(super) const fn with_sign(self) -> Self {
        Self { signed: true, ..self }
    }

    /// The number, shifted to the left by so many bits.
    pub(super) const fn shifted(self, left: u32) -> Self {
        Self { left, ..self }
    }

    /// The number, subtracted if that is so.
    pub(super) const fn negated_if(self, negated: bool) -> Self {
        Self { negated, ..self }
    }

    /// A distance from there in the instruction.
    pub(super) const fn counting(self, from: usize) -> Self {
        Self {
            counts_from: Some(from),
            ..self
        }
    }

    /// The word of so many bytes at an offset in the instruction.
    pub(super) const fn in_word(self, at: usize, len: usize) -> Self {
        Self { at, len, ..self }
    }

    /// The same in an instruction of big-endian code.
    pub(super) const fn big_endian(self) -> Self {
        Self {
            big_endian: true,
            ..self
        }
    }

    /// The bits of the word that are open.
    #[must_use]
    pub fn mask(&self) -> u64 {
        match self.slices {
            [] => u64::MAX >> (64 - 8 * self.len.clamp(1, 8)),
            slices => slices
                .iter()
                .fold(0, |mask, slice| mask | slice.ones() << slice.word),
        }
    }

    /// What its lowest bit is worth: that power of 2.
    #[must_use]
    pub fn lowest(&self) -> u32 {
        let worths = self.slices.iter().map(|slice| slice.worth);
        self.left + worths.min().unwrap_or(0)
    }

    /// The bits of its bytes, in their order.
    pub(super) fn bytes(&self) -> [u8; 8] {
        match self.big_endian {
            true => (self.mask() << (64 - 8 * self.len.clamp(1, 8))).to_be_bytes(),
            false => self.mask().to_le_bytes(),
        }
    }

    /// The word.
    #[inline]
    fn raw(&self, code: &[u8]) -> Option<u64> {
        let bytes = code.get(self.at..)?;
        // Each of a length that is known, where a copy is one load.
        Some(match (self.len, self.big_endian) {
            (1, _) => u64::from(*bytes.first()?),
            (2, false) => u16::from_le_bytes(*bytes.first_chunk()?).into(),
            (4, false) => u32::from_le_bytes(*bytes.first_chunk()?).into(),
            (_, false) => u64::from_le_bytes(*bytes.first_chunk()?),
            (2, true) => u16::from_be_bytes(*bytes.first_chunk()?).into(),
            (4, true) => u32::from_be_bytes(*bytes.first_chunk()?).into(),
            (_, true) => u64::from_be_bytes(*bytes.first_chunk()?),
        })
    }

    /// What the bits add to the number that the code makes. A value that several instructions make
    /// is the sum of their fields, but for what is the same in all.
    #[must_use]
    pub fn read(&self, code: &[u8]) -> Option<u64> {
        let word = self.raw(code)?;
        let (mut number, mut bits) = (word, 8 * self.len as u32);
        if let [_, ..] = self.slices {
            (number, bits) = (0, 0);
            for slice in self.slices {
                number |= (word >> slice.word & slice.ones()) << slice.worth;
                bits = bits.max(slice.worth + slice.count);
            }
        }
        if self.signed {
            let unused = 64 - bits;
            number = ((number << unused) as i64 >> unused) as u64;
        }
        let shifted = number << self.left;
        // Bits that the shift loses would be whatever they are.
        let back = match self.signed {
            true => (shifted as i64 >> self.left) as u64,
            false => shifted >> self.left,
        };
        // protection: no-open-bit-is-lost
        if back != number {
            return None;
        }
        Some(if self.negated {
            shifted.wrapping_neg()
        } else {
            shifted
        })
    }

    /// Whether it is a [whole](Self::whole) word, as all are on x86-64.
    pub(super) const fn is_whole(&self) -> bool {
        self.slices.is_empty() && self.signed && self.left == 0 && !self.negated && !self.big_endian
    }

    /// The same of a [whole](Self::whole) word.
    #[inline]
    pub(super) fn read_whole(&self, code: &[u8]) -> Option<u64> {
        let bytes = code.get(self.at..)?;
        // Each of a length that is known, where a copy is one load.
        Some(match self.len {
            1 => *bytes.first()? as i8 as u64,
            2 => i16::from_le_bytes(*bytes.first_chunk()?) as u64,
            4 => read_four(self.at, code)?,
            _ => u64::from_le_bytes(*bytes.first_chunk()?),
        })
    }

    /// The branch's target in code at an address.
    #[must_use]
    pub fn target(&self, code: &[u8], at: CodeAddr) -> Option<u64> {
        let from = at.get().wrapping_add(self.counts_from? as u64);
        Some(from.wrapping_add(self.read(code)?))
    }
}

/// The number in four bytes, with a sign.
#[inline]
pub(super) fn read_four(at: usize, code: &[u8]) -> Option<u64> {
    let bytes = code.get(at..)?;
    Some(i32::from_le_bytes(*bytes.first_chunk()?) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = fn(&OpenField, &[u8]) -> Option<u64>;
    const READING: [Read; 2] = [OpenField::read, OpenField::read_whole];

    #[test]
    fn what_is_beside_the_code_is_not_read() {
        let code = [1, 2, 3, 4, 5, 6];
        for read in READING {
            assert_eq!(read(&OpenField::whole(2, 4), &code), Some(0x0605_0403));
            for beside in [3, 6, 7] {
                assert_eq!(read(&OpenField::whole(beside, 4), &code), None);
            }
        }
    }

    #[test]
    fn whole_words_are_signed() {
        let code = [0x55, 0xfe, 0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0xf8, 0xf7];
        for read in READING {
            let read = |len| read(&OpenField::whole(1, len), &code).unwrap() as i64;
            assert_eq!([1, 2].map(read), [-2, -0x202]);
            assert_eq!([4, 8].map(read), [-0x0403_0202, -0x0807_0605_0403_0202]);
        }
        assert!(OpenField::whole(1, 4).is_whole());
        const WORD: &[Slice] = &[Slice::new(0, 32, 0)];
        let others = [
            OpenField::bits(WORD).with_sign(),
            OpenField::bits(&[]).in_word(1, 4),
            OpenField::whole(1, 4).shifted(1),
            OpenField::whole(1, 4).negated_if(true),
            OpenField::whole(1, 4).big_endian(),
        ];
        for other in others {
            assert!(!other.is_whole(), "{other:?}");
        }
    }

    #[test]
    fn slices_are_put_together_extended_shifted_and_subtracted() {
        const SLICES: &[Slice] = &[Slice::new(8, 4, 0), Slice::new(24, 4, 4)];
        let field = OpenField::bits(SLICES);
        let code = [0x11, 0x2c, 0x33, 0xfb];
        assert_eq!(field.mask(), 0x0f00_0f00);
        assert_eq!(field.bytes(), [0, 0x0f, 0, 0x0f, 0, 0, 0, 0]);
        assert_eq!(field.big_endian().bytes(), [0x0f, 0, 0x0f, 0, 0, 0, 0, 0]);
        assert_eq!(field.read(&code), Some(0xbc));
        assert_eq!(field.big_endian().read(&code), Some(0x13));
        assert_eq!(field.with_sign().read(&code), Some(-0x44_i64 as u64));
        assert_eq!(field.shifted(8).read(&code), Some(0xbc00));
        assert_eq!(field.shifted(8).lowest(), 8);
        assert_eq!(field.negated_if(true).read(&code), Some(-0xbc_i64 as u64));
        assert_eq!(field.shifted(56).read(&code), Some(0xbc << 56));
        assert_eq!(field.shifted(57).read(&code), None);
        let signed = field.with_sign();
        assert_eq!(signed.shifted(56).read(&code), Some(0xbc << 56));
        assert_eq!(signed.shifted(57).read(&code), None);
        let counting = OpenField {
            counts_from: Some(2),
            ..field.with_sign()
        };
        assert_eq!(counting.target(&code, CodeAddr::new(0x1000)), Some(0x1002 - 0x44));
    }
}
