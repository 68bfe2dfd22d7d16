//! Why something that was read is refused. Each variant is one sentence with the place, what was
//! expected, what was found, and how to mend it; its fields are what the sentence names.

use core::fmt;

use crate::addr::{ByteOffset, CodeAddr, FnOffset, RecordId};
use crate::location::Location;

/// The result of everything here that can fail.
pub type Result<T> = core::result::Result<T, Error>;

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "each variant's sentence names its fields, with their units"
)]
pub enum Error {
    /// The bytes of a stack map end too early.
    StackMapTruncated { what: &'static str, at: ByteOffset, needed: u64, have: u64 },
    /// The version byte is none of those that LLVM emits.
    StackMapVersion { at: ByteOffset, found: u8 },
    /// The functions' record counts do not add up to the header's.
    StackMapRecordCount { at: ByteOffset, counted: u64, header: u32 },
    /// A location has a kind that LLVM does not emit.
    StackMapLocationKind { at: ByteOffset, kind: u8 },
    /// A location refers to a constant that is not there.
    StackMapConstantIndex { at: ByteOffset, index: u32, constants: u32 },
    /// A map of version 2 can be read in more than one way.
    StackMapAmbiguous { at: ByteOffset },
    /// An array of a flat map begins where none can.
    FlatMapArray { what: &'static str, map: ByteOffset, start: ByteOffset, before: ByteOffset, unit: u64 },
    /// The header of a flat map counts other frames than there are.
    FlatMapFrames { at: ByteOffset, header: u32, have: u64 },
    /// Something refers to more than an array of a flat map has.
    FlatMapRange { what: &'static str, at: ByteOffset, index: u64, count: u64, have: u64 },
    /// A function of a flat map does not have the records that follow those of the one before.
    FlatMapOwner { at: ByteOffset, index: u64, expected: u64 },
    /// Records of a flat map belong to no function.
    FlatMapUnowned { at: ByteOffset, owned: u64, records: u64 },
    /// What is known of a function does not fit into a flat map.
    FlatMapFunctionFits { what: &'static str, function: u64, value: u64, limit: u64 },
    /// A record does not fit into a flat map.
    FlatMapRecordFits { what: &'static str, id: RecordId, offset: FnOffset, value: u64, limit: u64 },
    /// The section is too long to be kept.
    StackMapTooLong { len: u64 },
    /// The bytes of a table end too early.
    TableTruncated { table: &'static str, what: &'static str, at: ByteOffset, needed: u64, have: u64 },
    /// A number of variable length is too long.
    TableNumber { table: &'static str, what: &'static str, at: ByteOffset },
    /// A number of things is negative.
    TableCount { table: &'static str, what: &'static str, at: ByteOffset, count: i32 },
    /// A relative address is outside of the address space.
    TableAddress { table: &'static str, at: ByteOffset, base: CodeAddr, distance: i64 },
    /// The version of a GC map is unknown.
    GcMapVersion { at: ByteOffset, found: u32 },
    /// A root has a kind that plimmix does not write.
    GcMapRootKind { at: ByteOffset, kind: u32 },
    /// Two safepoints have one address.
    SafepointTwice { pc: CodeAddr },
    /// A safepoint lies out of the address space.
    SafepointAddress { function: CodeAddr, offset: FnOffset },
    /// A reference is not in a word of the frame.
    SafepointRoot { id: RecordId, offset: FnOffset, location: Location },
    /// A word of the stack cannot be read or written.
    SafepointStack { pc: CodeAddr, addr: u64 },
    /// The size of a frame is not fixed.
    SafepointFrame { pc: CodeAddr },
    /// The records of a version 1 map cannot be attributed to its functions.
    RecordsWithoutFunction { functions: u64 },
}

/// What to do about an [`Error`], roughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are not what they were said to be: damaged, cut short, of another format or byte
    /// order.
    Malformed,
    /// The bytes are right, and say what is not supported here.
    Unsupported,
    /// What was asked for cannot be done with what was read.
    Refused,
}

impl Error {
    /// Which of the few kinds of errors this is.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::StackMapTruncated { .. }
            | Self::StackMapRecordCount { .. }
            | Self::StackMapLocationKind { .. }
            | Self::StackMapConstantIndex { .. }
            | Self::FlatMapArray { .. }
            | Self::FlatMapFrames { .. }
            | Self::FlatMapRange { .. }
            | Self::FlatMapOwner { .. }
            | Self::FlatMapUnowned { .. }
            | Self::TableTruncated { .. }
            | Self::TableNumber { .. }
            | Self::TableCount { .. }
            | Self::TableAddress { .. }
            | Self::GcMapRootKind { .. }
            | Self::SafepointAddress { .. } => ErrorKind::Malformed,
            Self::StackMapVersion { .. }
            | Self::GcMapVersion { .. }
            | Self::StackMapTooLong { .. }
            | Self::RecordsWithoutFunction { .. }
            | Self::SafepointRoot { .. }
            | Self::SafepointFrame { .. } => ErrorKind::Unsupported,
            Self::StackMapAmbiguous { .. }
            | Self::FlatMapFunctionFits { .. }
            | Self::FlatMapRecordFits { .. }
            | Self::SafepointTwice { .. }
            | Self::SafepointStack { .. } => ErrorKind::Refused,
        }
    }
}

impl core::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StackMapTruncated {
                what,
                at,
                needed,
                have,
            } => write!(
                f,
                "stack map truncated: {what} needs {needed} bytes at {at}, {have} are left: \
                 give the whole section, and the byte order of its target"
            ),
            Self::StackMapVersion { at, found } => write!(
                f,
                "no stack map at {at}: expected version 1, 2 or 3, found {found}: give the \
                 section from its start"
            ),
            Self::StackMapRecordCount { at, counted, header } => write!(
                f,
                "the functions of the stack map have {counted} records, but the header's \
                 count at {at} is {header}"
            ),
            Self::StackMapLocationKind { at, kind } => write!(
                f,
                "stack map location at {at}: expected a kind from 1 to 5, found {kind}"
            ),
            Self::StackMapConstantIndex { at, index, constants } => write!(
                f,
                "stack map location refers at {at} to constant {index}, but the map has \
                 {constants}"
            ),
            Self::StackMapAmbiguous { at } => write!(
                f,
                "the stack map at {at} has version 2 and is right as LLVM 4's and as a flat \
                 one: say which it is, with StackMaps::parse_with"
            ),
            Self::FlatMapArray {
                what,
                map,
                start,
                before,
                unit,
            } => write!(
                f,
                "flat stack map at {map}: {what} begin at {start}, expected some multiple of \
                 {unit} bytes behind {before}: is it of the other dialect, or no flat map?"
            ),
            Self::FlatMapFrames { at, header, have } => write!(
                f,
                "flat stack map: the header says at {at} that there are {header} frames, \
                 there is room for {have}"
            ),
            Self::FlatMapRange {
                what,
                at,
                index,
                count,
                have,
            } => write!(
                f,
                "flat stack map: expected {count} {what} from number {index} on by {at}, \
                 there are {have}"
            ),
            Self::FlatMapOwner { at, index, expected } => write!(
                f,
                "flat stack map: a function's records begin by {at} with number {index}, \
                 expected {expected}"
            ),
            Self::FlatMapUnowned { at, owned, records } => write!(
                f,
                "flat stack map: the functions have {owned} of the {records} records at {at}, \
                 expected all"
            ),
            Self::FlatMapFunctionFits {
                what,
                function,
                value,
                limit,
            } => write!(
                f,
                "the function at {function:#x} has {what} of {value}, a flat stack map has \
                 room for {limit}: write tables of fewer functions, or keep its version"
            ),
            Self::FlatMapRecordFits {
                what,
                id,
                offset,
                value,
                limit,
            } => write!(
                f,
                "record {id} at {offset} has {what} of {value}, a flat stack map has room for \
                 {limit}: write tables of fewer functions, or keep its version"
            ),
            Self::StackMapTooLong { len } => write!(
                f,
                "a stack map section of {len} bytes is too long: register modules of less \
                 than 4 GiB"
            ),
            Self::TableTruncated {
                table,
                what,
                at,
                needed,
                have,
            } => write!(
                f,
                "{table} truncated: {what} needs {needed} bytes at {at}, {have} are left: \
                 give all of it, in its target's byte order, and the shape with which it was \
                 made"
            ),
            Self::TableNumber { table, what, at } => write!(
                f,
                "{table}: {what} at {at} does not fit into 64 bits: give the shape with which \
                 it was made"
            ),
            Self::TableCount {
                table,
                what,
                at,
                count,
            } => write!(
                f,
                "{table}: the number of {what} at {at} is {count}: give it in its target's \
                 byte order"
            ),
            Self::TableAddress {
                table,
                at,
                base,
                distance,
            } => write!(
                f,
                "{table}: the entry at {at} is {distance} bytes from its code, out of the \
                 address space from {base}: give the address where it was loaded"
            ),
            Self::GcMapVersion { at, found } => write!(
                f,
                "no GC map at {at}: expected version 1, found {found}: give the bytes from \
                 its symbol on"
            ),
            Self::GcMapRootKind { at, kind } => write!(
                f,
                "GC map: expected at {at} a kind of root from 0 to 4, found {kind}"
            ),
            Self::SafepointTwice { pc } => write!(
                f,
                "there are two safepoints at {pc}: keep the map of the code that was kept"
            ),
            Self::SafepointAddress { function, offset } => write!(
                f,
                "a safepoint {offset} bytes from the function at {function} is out of the \
                 address space"
            ),
            Self::SafepointRoot { id, offset, location } => write!(
                f,
                "record {id} at {offset} has a reference in {location}, which the stack \
                 pointer alone does not find: walk the stack by its unwind information, or \
                 compile without references in registers"
            ),
            Self::SafepointStack { pc, addr } => write!(
                f,
                "the frame at the safepoint {pc} has a word at {addr:#x}, where there is no \
                 stack: begin with the stack pointer at the safepoint"
            ),
            Self::SafepointFrame { pc } => write!(
                f,
                "the frame at the safepoint {pc} has no fixed size: walk the stack by its \
                 unwind information"
            ),
            Self::RecordsWithoutFunction { functions } => write!(
                f,
                "a version 1 stack map with {functions} functions does not say whose its \
                 records are: compile one function a map, or with LLVM 4 or later"
            ),
        }
    }
}
