//! Values: words that are an integer of 63 bits, a pointer to an object, or nil.

use super::object::Object;

/// A value, as registers, fields and compiled code hold it: bit 0 set in integers, bits 0 and 1
/// clear in pointers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Word(pub(crate) u64);

/// The bits that tell pointers from the rest, which guards test.
pub(crate) const TAG_BITS: u64 = 3;

const MAX: i64 = (1 << 62) - 1;
const MIN: i64 = -(1 << 62);

impl Word {
    pub(crate) const NIL: Self = Self(2);
    pub(crate) const ZERO: Self = Self::integer(0);
    pub(crate) const ONE: Self = Self::integer(1);
    pub(crate) const LARGEST: Self = Self::integer(MAX);

    /// An integer. Arithmetic saturates: this is where compiled code leaves and the interpreter
    /// does not.
    pub(crate) const fn integer(value: i64) -> Self {
        let value = if value > MAX { MAX } else { value };
        let value = if value < MIN { MIN } else { value };
        Self((value << 1 | 1) as u64)
    }

    pub(crate) fn pointer(object: &Object) -> Self {
        Self(std::ptr::from_ref(object) as u64)
    }

    pub(crate) fn as_integer(self) -> Option<i64> {
        (self.0 & 1 == 1).then_some(self.0 as i64 >> 1)
    }

    /// The integer; everything else counts as 0.
    pub(crate) fn number(self) -> i64 {
        self.as_integer().unwrap_or(0)
    }

    /// The object. It must still exist: an isolate keeps its objects for as long as it runs a
    /// program.
    pub(crate) fn object(&self) -> Option<&Object> {
        let is_pointer = self.0 & TAG_BITS == 0;
        // SAFETY: words without tag bits are only made of references to objects, which outlive the program that runs.
        is_pointer.then(|| unsafe { &*(self.0 as *const Object) })
    }
}
