//! Stack maps, statepoints among them, as the crate `llvm-stackmaps` reads them; the front page of
//! that crate says how.
//!
//! ```
//! use patchpoint::stackmap::{Endian, StackMaps};
//!
//! let nothing = StackMaps::parse(&[], Endian::Little)?;
//! assert_eq!(nothing.maps().len(), 0);
//! # Ok::<(), patchpoint::stackmap::Error>(())
//! ```

pub use llvm_stackmaps::flat;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use llvm_stackmaps::testing;
pub use llvm_stackmaps::{
    Constants, Endian, Error, ErrorKind, FunctionHeader, FunctionRecord, Functions, LiveOut, LiveOuts,
    Location, LocationKind, Locations, OwnedMaps, Record, RecordRef, Records, Reference, StackMap, StackMaps,
    StackSize, Statepoint, Version, VersionTwo,
};
