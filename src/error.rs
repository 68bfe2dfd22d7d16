//! The one error type. Each variant is one sentence with the place, what was needed, what was there, and
//! how to mend it.

use crate::addr::ByteOffset;

/// The result of everything here that can fail.
pub type Result<T> = core::result::Result<T, Error>;

/// Why something was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // ---- stackmap ----
    /// The bytes of a stack map end too early.
    #[error("stack map truncated: {what} needs {needed} bytes at {at}, {have} are left")]
    StackMapTruncated {
        /// What was being read.
        what: &'static str,
        /// Where it starts in the section.
        at: ByteOffset,
        /// The bytes it needs.
        needed: u64,
        /// The bytes that are left.
        have: u64,
    },
    /// The version byte is none of those that LLVM emits.
    #[error("no stack map at {at}: expected version 1, 2 or 3, found {found}")]
    StackMapVersion {
        /// Where the map starts in the section.
        at: ByteOffset,
        /// The version byte.
        found: u8,
    },
    /// The functions' record counts do not add up to the header's.
    #[error("the functions of the stack map have {counted} records, but the count at {at} is {header}")]
    StackMapRecordCount {
        /// Where the header's count is.
        at: ByteOffset,
        /// The sum of the functions' counts; `u64::MAX` when that overflows.
        counted: u64,
        /// The header's count.
        header: u32,
    },
    /// A location has a kind that LLVM does not emit.
    #[error("location at {at}: expected a kind from 1 to 5, found {kind}")]
    StackMapLocationKind {
        /// Where the location starts in the section.
        at: ByteOffset,
        /// The kind byte.
        kind: u8,
    },
    /// A location refers to a constant that is not there.
    #[error("location refers at {at} to constant {index}, but the map has {constants}")]
    StackMapConstantIndex {
        /// Where the index is.
        at: ByteOffset,
        /// The index.
        index: u32,
        /// How many constants the map has.
        constants: u32,
    },
    // ---- arch, sequence ----
    // ---- verify ----
    // ---- image ----
    // ---- memory, publish ----
    // ---- site ----
    // ---- engine, deopt ----
}
