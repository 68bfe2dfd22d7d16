//! Sequences as text: what `Display` writes is read back as the same sequence, by `FromStr` unless
//! it promises something of an address or of bytes, and by the unsafe [`Sequence::from_text`] in
//! any case.
//!
//! Problem: a sequence in a log, a test or on a command line should be read by people and typed by
//! them. Approach: one statement per operation, in the words of the builder, with no precedence and
//! no nesting beyond an operand in a field. Statements are separated by `;` or are on lines of
//! their own.
//!
//! | statement | operation |
//! |---|---|
//! | `guard A == B else miss` | [`guard`](Sequence::guard) |
//! | `if A <u B goto end` | [`jump_if`](Sequence::jump_if) |
//! | `goto deopt` | [`jump`](Sequence::jump) |
//! | `result = A` | [`mov`](Sequence::mov), [`load`](Sequence::load) |
//! | `u64[arg(0)+24] = A` | [`store`](Sequence::store) |
//! | `result += A` | [`add`](Sequence::add) |
//! | `u64[0x1000] += 1`, `atomic u64[0x1000] += 1` | [`add_to_memory`](Sequence::add_to_memory), [`atomic_add`](Sequence::atomic_add) |
//! | `temp &= 0xff`, `<<= 3`, `>>u= 3`, `>>s= 3` | [`and`](Sequence::and) and the shifts |
//! | `call 0x1234 follows_c` (or `preserves_all`, `never`) | [`call`](Sequence::call) |
//! | `return`, `trap` | [`ret`](Sequence::ret), [`trap`](Sequence::trap) |
//! | `raw 0f 1f 00`, `vouched 0f 05 writes reg(0) reg(2)` | [`raw`](Sequence::raw), [`vouched`](Sequence::vouched) |
//! | `label(1):` | [`bind`](Sequence::bind) |
//! | `in_place_only` | [`in_place_only`](Sequence::in_place_only) |
//!
//! An operand is `arg(0)`, `float_arg(0)`, `live(0)`, `location(0)`, `result`, `float_result`,
//! `temp`, `reg(5)` by its DWARF number, or a number. A value is an operand, its low bytes
//! `u32(arg(0))`, or memory `u32[arg(0)+8]`; the types are `u8` to `u64` and `i8` to `i64`. A
//! comparison is `==`, `!=`, unsigned `<u <=u >u >=u` or signed `<s <=s >s >=s`. A target is
//! `miss`, `deopt`, `end`, `label(1)` or an address. A branch to `miss` or `deopt` is written as a
//! guard, any other as an `if`; either is read for every target.
//!
//! ```
//! use patchpoint_asm::sequence::{Field, Sequence, Target, arg, result};
//!
//! let hit = Sequence::new()
//!     .guard_eq(u32::at(arg(0), 8), 0x17, Target::Miss)
//!     .load(result(), u64::at(arg(0), 24));
//! let text = "guard u32[arg(0)+8] == 0x17 else miss; result = u64[arg(0)+24]";
//! assert_eq!(hit.to_string(), text);
//! assert_eq!(text.parse(), Ok(hit));
//! ```

mod read;
#[cfg(test)]
mod tests;
mod write;

use super::builder::{Operation, Sequence};
use super::operand;
use crate::op::Cond;

/// The comparisons.
const CONDITIONS: [(&str, Cond); 10] = [
    ("==", Cond::Eq),
    ("!=", Cond::Ne),
    ("<=u", Cond::BelowOrEqual),
    ("<u", Cond::Below),
    (">=u", Cond::AboveOrEqual),
    (">u", Cond::Above),
    ("<=s", Cond::LessOrEqual),
    ("<s", Cond::Less),
    (">=s", Cond::GreaterOrEqual),
    (">s", Cond::Greater),
];
