//! Reading `.llvm_stackmaps`: versions 1, 2 and 3 and the flat layout in either byte order, one map or several concatenated.
//!
//! Problem: a stack map is a chain of variable-length records that comes from a file. Approach:
//! [`StackMaps::parse`] walks all of it once and checks every length, kind and index; what it returns are
//! views into the bytes that were given, whose iterators therefore need not fail. Invariant: a view's
//! offsets have been checked against the bytes it holds; should one be wrong all the same, the iterator
//! ends early, it does not panic.
//!
//! The layouts are those of LLVM's `llvm/lib/CodeGen/StackMaps.cpp` (version 3: LLVM 5 and later; 2: LLVM
//! 4; 1: LLVM 3.5) and of the `StackMaps` page of its documentation. [`flat`] is one that was proposed and never released.
//!
//! Cost: one pass over the bytes, one allocation of 64 bytes per concatenated map. Reading all of a map, that pass
//! included, takes no longer than LLVM's own reader takes, which checks nothing: what says where the parts of a record
//! are is read and checked once, and the parts are then read in pieces of constant size.

pub(crate) mod bytes;
mod fault;
pub mod flat;
mod map;
mod owned;
mod record;
mod statepoint;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use bytes::Endian;
pub use flat::VersionTwo;
pub use map::{Constants, Function, FunctionHeader, Functions, StackMap, StackMaps, StackSize, Version};
pub use owned::{OwnedMaps, RecordRef};
pub use record::{LiveOut, LiveOuts, Location, Locations, Place, Record, Records};
pub use statepoint::{Reference, Statepoint};
