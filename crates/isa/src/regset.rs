//! Sets of registers.

use core::fmt;

use llvm_stackmaps::addr::DwarfReg;

/// A set of registers by canonical DWARF number, 0 to 127.
///
/// Every register that LLVM allocates on a supported architecture has a canonical number in that
/// range (PowerPC's 32-bit views 1200 to 1231 are those of 0 to 31); inserting another one changes
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct RegSet(u128);

impl RegSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// The set of the given registers.
    #[must_use]
    #[inline]
    pub const fn of(regs: &[DwarfReg]) -> Self {
        let mut bits = 0;
        let mut rest = regs;
        while let [first, tail @ ..] = rest {
            bits |= Self::bit(*first);
            rest = tail;
        }
        Self(bits)
    }

    /// The registers of these numbers, the last one included.
    pub(crate) const fn numbered(first: u16, last: u16) -> Self {
        let mut set = Self::EMPTY;
        let mut number = first;
        while number <= last {
            set = set.with(DwarfReg::new(number));
            number += 1;
        }
        set
    }

    #[inline]
    const fn bit(reg: DwarfReg) -> u128 {
        // A half first, as in `contains`.
        let number = reg.get();
        let half = ((number < 128) as u64) << (number & 63);
        match number & 64 {
            0 => half as u128,
            _ => (half as u128) << 64,
        }
    }

    /// This set with `reg`.
    #[must_use]
    #[inline]
    pub const fn with(self, reg: DwarfReg) -> Self {
        Self(self.0 | Self::bit(reg))
    }

    /// This set without `reg`.
    #[must_use]
    #[inline]
    pub const fn without(self, reg: DwarfReg) -> Self {
        Self(self.0 & !Self::bit(reg))
    }

    /// Registers in either set.
    #[must_use]
    #[inline]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Registers in both sets.
    #[must_use]
    #[inline]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Registers of this set that are not in `other`.
    #[must_use]
    #[inline]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether `reg` is in the set.
    #[must_use]
    #[inline]
    pub const fn contains(self, reg: DwarfReg) -> bool {
        // A half first: shifting one of 64 bits is one instruction, and this is asked of every
        // register of every record.
        let number = reg.get();
        let half = match number & 64 {
            0 => self.0 as u64,
            _ => (self.0 >> 64) as u64,
        };
        number < 128 && half >> (number & 63) & 1 != 0
    }

    /// Whether no register is in the set.
    #[must_use]
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set as bits: bit 0 stands for the register with DWARF number 0, and so on.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// The register of the lowest DWARF number.
    #[must_use]
    #[inline]
    pub const fn first(self) -> Option<DwarfReg> {
        if self.is_empty() {
            return None;
        }
        Some(DwarfReg::new(self.0.trailing_zeros() as u16))
    }

    /// The registers of the set in ascending DWARF number.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = DwarfReg> {
        let mut rest = self;
        core::iter::from_fn(move || {
            let first = rest.first()?;
            rest = rest.without(first);
            Some(first)
        })
    }
}

impl FromIterator<DwarfReg> for RegSet {
    #[inline]
    fn from_iter<I: IntoIterator<Item = DwarfReg>>(regs: I) -> Self {
        regs.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for RegSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
