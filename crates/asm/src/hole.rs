//! Where the code of a sequence has the values of the sequence in it.
//!
//! Problem: a runtime patches one inline cache again and again, each time with another class and
//! another field, and to assemble it anew each time is most of what that takes. Approach: the
//! encoder knows which bytes are a value of the sequence's, a displacement, an immediate or the
//! distance to a target, and says so: each is a [`Hole`]. Code with the holes filled anew is that
//! of the sequence with these values, as long as they are of the same
//! [class](crate::sequence::class).
//!
//! Only the encoder of x86-64 names holes; code of the other architectures has none.

use crate::op::ValueNumber;

/// Bytes of code that hold a value or a distance, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The offset of the first.
    pub at: u32,
    /// How many there are: 1, 2, 4 or 8.
    pub len: u32,
    /// What they hold.
    pub holds: Holds,
}

/// What a hole holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// The low bytes of the sequence's value of that number, see
    /// [`Outline::values`](crate::sequence::Outline::values).
    Value(u32),
    /// The distance from the end of the instruction to the target of that number, see
    /// [`Outline::targets`](crate::sequence::Outline::targets).
    Target(u32),
    /// The distance from the end of the instruction, which is in a stub, to the end of the site.
    End,
}

impl Hole {
    /// The bytes before `end` that are the value of that number.
    #[inline]
    pub(crate) fn of_value(end: usize, len: u32, number: ValueNumber) -> Self {
        Self {
            at: (end as u32).saturating_sub(len),
            len,
            holds: Holds::Value(number.get()),
        }
    }
}
