//! Newtypes for addresses, offsets, lengths and register numbers.
//!
//! No bare integer crosses a module boundary. All arithmetic is checked: an address computed
//! from untrusted input either exists or is `None`.

use core::fmt;

macro_rules! newtype {
    ($(#[$doc:meta])* $name:ident($int:ty), $fmt:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name($int);

        impl $name {
            /// Wraps the raw number.
            #[must_use]
            #[inline]
            pub const fn new(raw: $int) -> Self {
                Self(raw)
            }

            /// The raw number.
            #[must_use]
            #[inline]
            pub const fn get(self) -> $int {
                self.0
            }
        }

        impl From<$int> for $name {
            #[inline]
            fn from(raw: $int) -> Self {
                Self(raw)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $fmt, self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

newtype! {
    /// An address of the target's code or data, in the process that executes it.
    CodeAddr(u64), "{:#x}"
}
newtype! {
    /// A byte offset from the first byte of a function.
    FnOffset(u32), "+{:#x}"
}
newtype! {
    /// A length in bytes.
    Len(u32), "{}"
}
newtype! {
    /// A register in the target's DWARF numbering.
    DwarfReg(u16), "dwarf:{}"
}
newtype! {
    /// The ID of a stack map record: what the IR passed as first argument. IDs need not be unique.
    RecordId(u64), "{}"
}
newtype! {
    /// A byte offset within the section, object or other input that is being read.
    ByteOffset(u64), "{:#x}"
}

impl CodeAddr {
    /// The address `by` bytes further, or `None` past the end of the address space.
    #[must_use]
    #[inline]
    pub fn plus(self, by: Len) -> Option<Self> {
        self.0.checked_add(u64::from(by.get())).map(Self)
    }

    /// The address of the instruction at `offset` in the function that starts here.
    #[must_use]
    #[inline]
    pub fn at(self, offset: FnOffset) -> Option<Self> {
        self.0.checked_add(u64::from(offset.get())).map(Self)
    }

    /// The signed distance in bytes from `origin` to this address, modulo 2^64.
    #[must_use]
    #[inline]
    pub const fn distance_from(self, origin: Self) -> i64 {
        self.0.wrapping_sub(origin.0) as i64
    }

    /// Whether this address lies in the `len` bytes that start at `start`.
    #[must_use]
    #[inline]
    pub fn is_within(self, start: Self, len: Len) -> bool {
        self.0
            .checked_sub(start.0)
            .is_some_and(|d| d < u64::from(len.get()))
    }
}

/// A range of addresses: the bytes from `start` up to, but not including, [`end`](Self::end).
///
/// Construction checks that the range does not wrap around the address space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CodeRange {
    start: CodeAddr,
    len: u64,
}

impl CodeRange {
    /// The `len` bytes from `start`, or `None` past the end of the address space.
    #[must_use]
    #[inline]
    pub const fn new(start: CodeAddr, len: u64) -> Option<Self> {
        match start.0.checked_add(len) {
            Some(_) => Some(Self { start, len }),
            None => None,
        }
    }

    /// The first address.
    #[must_use]
    #[inline]
    pub const fn start(self) -> CodeAddr {
        self.start
    }

    /// The address after the last byte.
    #[must_use]
    #[inline]
    pub const fn end(self) -> CodeAddr {
        CodeAddr(self.start.0 + self.len)
    }

    /// The length in bytes.
    #[must_use]
    #[inline]
    pub const fn len(self) -> u64 {
        self.len
    }

    /// Whether the range has no bytes.
    #[must_use]
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Whether `at` lies in the range.
    #[must_use]
    #[inline]
    pub const fn contains(self, at: CodeAddr) -> bool {
        // Of what is below the start, more than any length is left.
        at.0.wrapping_sub(self.start.0) < self.len
    }

    /// Whether the `len` bytes from `at` all lie in the range.
    #[must_use]
    #[inline]
    pub const fn contains_bytes(self, at: CodeAddr, len: u64) -> bool {
        // As in `contains`.
        let before = at.0.wrapping_sub(self.start.0);
        before <= self.len && len <= self.len - before
    }

    /// Whether the ranges have a byte in common.
    #[must_use]
    #[inline]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start.0 < other.start.0 + other.len && other.start.0 < self.start.0 + self.len
    }
}

impl fmt::Display for CodeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end())
    }
}

impl fmt::Debug for CodeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Len {
    /// The length of a slice, or `None` above 4 GiB.
    #[must_use]
    #[inline]
    pub fn of<T>(slice: &[T]) -> Option<Self> {
        u32::try_from(slice.len()).ok().map(Self)
    }

    /// The length as an index.
    #[must_use]
    #[inline]
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}
