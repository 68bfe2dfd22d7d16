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
            pub const fn new(raw: $int) -> Self {
                Self(raw)
            }

            /// The raw number.
            #[must_use]
            pub const fn get(self) -> $int {
                self.0
            }
        }

        impl From<$int> for $name {
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
    pub fn plus(self, by: Len) -> Option<Self> {
        self.0.checked_add(u64::from(by.get())).map(Self)
    }

    /// The address of the instruction at `offset` in the function that starts here.
    #[must_use]
    pub fn at(self, offset: FnOffset) -> Option<Self> {
        self.0.checked_add(u64::from(offset.get())).map(Self)
    }

    /// The signed distance in bytes from `origin` to this address, modulo 2^64.
    #[must_use]
    pub const fn distance_from(self, origin: Self) -> i64 {
        self.0.wrapping_sub(origin.0) as i64
    }

    /// Whether this address lies in the `len` bytes that start at `start`.
    #[must_use]
    pub fn is_within(self, start: Self, len: Len) -> bool {
        self.0
            .checked_sub(start.0)
            .is_some_and(|d| d < u64::from(len.get()))
    }
}

impl Len {
    /// The length of a slice, or `None` above 4 GiB.
    #[must_use]
    pub fn of<T>(slice: &[T]) -> Option<Self> {
        u32::try_from(slice.len()).ok().map(Self)
    }

    /// The length as an index.
    #[must_use]
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}
