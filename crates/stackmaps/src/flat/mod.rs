//! The flat layout that was proposed for version 2: arrays of entries of fixed size, and indices
//! between them.
//!
//! Problem: versions 1 to 3 do not say how long a function is, how many bytes a record reserves,
//! where a function keeps its caller's registers, nor whether live-outs were looked for at all. The
//! flat layout does, and was never part of a released LLVM. Approach: it is checked once, whole, as
//! the others are, and read through the same [`StackMap`](super::StackMap) and
//! [`Record`](super::Record); what it says more is in [`FlatFrame`],
//! [`Record::reserved`](super::Record::reserved) and
//! [`Record::has_live_out_info`](super::Record::has_live_out_info). [`FlatWriter`] makes a flat map
//! of one of any version. Invariants: the arrays are in order and adjacent; every location was
//! checked, also those that no record has; the functions own the records in order, all of them.
//!
//! The layout is that of "New StackMap format proposal (StackMap v2)" on the list of LLVM's
//! developers, July 2015, and of the writer in a fork of LLVM that implemented most of it. All
//! offsets count from the map's version byte.
//!
//! | | [proposal](Dialect::Proposal) | [fork](Dialect::Fork) |
//! |---|---|---|
//! | header | u8 2, u8\[3\]; u32 offsets of constants, frames, frame registers, records, locations, live-outs | u8 2, u8\[3\]; u32 number of frames; the same offsets without that of frame registers |
//! | constant | u64 | the same |
//! | frame | u64 address; u32 function size; u32 stack size; u16 flags, base register, frame registers (number, index), records (number, index); 4 bytes | without frame registers; records (index, number); nothing behind them |
//! | frame register | u16 register; i16 offset; u8 size; u8 flags; 2 bytes | none |
//! | record | u64 ID; u32 offset; u8 call size; u8 flags; u16 locations (number, index), live-outs (number, index); 2 bytes | each (index, number) |
//! | location | u8 kind, u8 size, u16 register, i32 offset | the same |
//! | live-out | u16 register, u8, u8 size | the same |
//!
//! What the proposal leaves open, and how it is taken here:
//!
//! - Entries end padded to the alignment of their array (8 bytes for constants, frames and records, 4 for frame registers
//!   and locations, 2 for live-outs), as the fork writes them. Flags are counted from the least significant bit.
//! - There are no numbers of constants, frames, registers and records in the header: an array ends where the next one
//!   begins. The last one, of live-outs, ends with the last that a record has, so that maps can follow one another.
//! - The second byte of a location is reserved in the proposal's text; the fork writes the size there, as version 1 does,
//!   and so does [`FlatWriter`]. Where a producer leaves it 0 the size reads as 0: not told.
//! - The call size is the record's reserved length. 0, which the fork writes for all but statepoints, means that it is not
//!   told. Of a statepoint it is the length of the call that ends at the offset.
//! - A stack size of `u32::MAX` is unknown (the fork cuts `u64::MAX` down to it), and so is that of a frame of variable size
//!   or one that realigns its stack, whatever the field says.
//! - A spilled frame register is in memory at its offset from the base register, as it is in the function's body; one
//!   that is not spilled still has its caller's value.
//!
//! Which layout a version byte of 2 means is said by [`VersionTwo`].

#[cfg(test)]
mod tests;

pub use crate::arrays::{FlatFrame, FrameRegister, FrameRegisters};
pub use crate::flat_writer::{FlatFunction, FlatRecord, FlatWriter};
pub use crate::map::FlatFrames;
pub use crate::version::{Dialect, VersionTwo};
