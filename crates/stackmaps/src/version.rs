//! Which layouts there are, and what all of them say of a function.

/// The version of a stack map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// LLVM 3.5. Records cannot be attributed to functions.
    V1,
    /// LLVM 4.
    V2,
    /// LLVM 5 and later.
    V3,
    /// The flat layout that was proposed as version 2.
    Flat(Dialect),
}

impl Version {
    /// The version byte.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 | Self::Flat(_) => 2,
            Self::V3 => 3,
        }
    }
}

/// The stack size of a function in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StackSize {
    /// Fixed. On x86-64 it counts pushed registers but not the return address.
    Known(u64),
    /// The function has dynamic allocas or realigns its stack.
    Unknown,
}

/// Whose flat layout it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// That of the proposal's text.
    Proposal,
    /// That of the fork: without frame registers, and an index before its number.
    Fork,
}

/// What a version byte of 2 means: LLVM 4 wrote it, and the flat layouts have it, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VersionTwo {
    /// What the bytes are: a map is checked as each, whole, and is the one of which all of it is
    /// right. Where it is right as more than one, that is an error, never a guess. LLVM 4's numbers
    /// of functions, constants and records would have to be ascending offsets of arrays that fit
    /// each other, and a flat map's offsets numbers that add up: no map of more than a few bytes is
    /// both unless it was made to be.
    #[default]
    Detected,
    /// LLVM 4's.
    Llvm,
    /// The flat one.
    Flat(Dialect),
}
