//! Reading what compilers write about the code that they made: LLVM's stack maps, and other tables
//! keyed by code addresses.
//!
//! # Stack maps
//!
//! `.llvm_stackmaps`: versions 1, 2 and 3 and the flat layout in either byte order, one map or
//! several concatenated.
//!
//! Problem: a stack map is a chain of variable-length records that comes from a file. Approach:
//! [`StackMaps::parse`] walks all of it once and checks every length, kind and index; what it
//! returns are views into the bytes that were given, whose iterators therefore need not fail.
//! Invariant: a view's offsets have been checked against the bytes that it holds. Should a view find
//! one outside of them all the same, it panics, and says which of its parts should be there.
//!
//! The layouts are those of LLVM's `llvm/lib/CodeGen/StackMaps.cpp` (version 3: LLVM 5 and later;
//! 2: LLVM 4; 1: LLVM 3.5) and of the `StackMaps` page of its documentation. [`flat`] is one that
//! was proposed and never released.
//!
//! Cost: one pass over the bytes, one allocation of 64 bytes per concatenated map. Reading all of a
//! map, that pass included, takes no longer than LLVM's own reader takes, which checks nothing:
//! what says where the parts of a record are is read and checked once, and the parts are then read
//! in pieces of constant size.
//!
//! # Other tables
//!
//! Statepoints are records of stack maps: [`Statepoint`]. PC sections, the tables of LLVM's
//! sanitizers, and plimmix's maps for collectors are in [`metadata`].
//!
//! # An example
//!
//! ```
//! use llvm_stackmaps::{Endian, LocationKind, StackMaps};
//!
//! // Version 3, with one function at 0x1000 that has one record: ID 7, at offset 8, of a value in DWARF register 5.
//! let mut section = vec![3, 0, 0, 0];
//! for count in [1_u32, 0, 1] {
//!     section.extend(count.to_le_bytes());
//! }
//! for field in [0x1000_u64, 24, 1, 7] {
//!     section.extend(field.to_le_bytes());
//! }
//! section.extend([8, 0, 0, 0, 0, 0, 1, 0]);
//! section.extend([1, 0, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
//! section.extend([0; 4]); // padding
//! section.extend([0; 8]); // no live-outs, padding
//!
//! let maps = StackMaps::parse(&section, Endian::Little)?;
//! for map in maps.maps() {
//!     for record in map.records() {
//!         assert_eq!((record.id().get(), record.offset().get()), (7, 8));
//!         let value = record.locations().next().expect("it has one");
//!         assert!(matches!(value.kind, LocationKind::Register { reg, .. } if reg.get() == 5));
//!     }
//! }
//! # Ok::<(), llvm_stackmaps::Error>(())
//! ```
#![no_std]
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        reason = "a default in place of what cannot be missing hides a broken invariant"
    )
)]

extern crate alloc;
#[cfg(any(test, feature = "fuzzing"))]
extern crate std;

pub mod addr;
mod arrays;
mod bytes;
mod error;
pub mod flat;
mod flat_writer;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod location;
mod map;
pub mod metadata;
mod owned;
mod record;
mod records;
mod statepoint;
#[cfg(any(test, feature = "fuzzing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod version;

pub use bytes::Endian;
pub use error::{Error, ErrorKind, Result};
pub use location::{LiveOut, Location, LocationKind};
pub use map::{Constants, FunctionHeader, FunctionRecord, Functions, StackMap, StackMaps};
pub use owned::{OwnedMaps, RecordRef};
pub use record::{LiveOuts, Locations, Record};
pub use records::Records;
pub use statepoint::{Reference, Statepoint};
pub use version::{StackSize, Version, VersionTwo};
