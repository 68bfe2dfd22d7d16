//! The functions that LLVM's sanitizers list in `sanmd_covered2`.
//!
//! An entry is the distance to the function, and then numbers in LEB128: its size, its features,
//! and, where a feature says so, the bytes of its arguments on the stack. `sanmd_atomics2` holds
//! addresses alone: [`PcSectionShape::instructions`](super::PcSectionShape::instructions) reads it.
//! Source: LLVM's `SanitizerBinaryMetadata.cpp` and `SanitizerBinaryMetadata.h` in
//! `Transforms/Instrumentation`.

use super::cursor::Cursor;
use crate::Endian;
use crate::addr::{ByteOffset, CodeAddr};
use crate::error::Result;

/// What was done to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Features(u64);

impl Features {
    /// All bits.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// Its atomic instructions are listed in `sanmd_atomics2`.
    #[must_use]
    pub fn has_atomics(self) -> bool {
        self.0 & 1 != 0
    }

    /// Uses of its frame after it has returned are looked for.
    #[must_use]
    pub fn has_use_after_return(self) -> bool {
        self.0 & 2 != 0
    }

    fn has_stack_arguments(self) -> bool {
        self.0 & 4 != 0
    }
}

/// A function of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoveredFunction {
    /// Where its entry starts in the section.
    pub byte_offset: ByteOffset,
    /// Its first instruction.
    pub entry: CodeAddr,
    /// Its size in bytes.
    pub size: u64,
    /// Its features.
    pub features: Features,
    /// The bytes of its arguments on the stack, where they are told.
    pub stack_arguments: Option<u64>,
}

/// The section `sanmd_covered2`.
#[derive(Clone, Copy)]
pub struct Covered<'a> {
    cursor: Cursor<'a>,
    base: CodeAddr,
    wide: bool,
}

impl<'a> Covered<'a> {
    /// Reads a section, whose distances have been resolved, and whose first byte is at `base`.
    /// `wide`: addresses have pointer size (the medium and large code models, and 64-bit PowerPC).
    ///
    /// # Errors
    /// [`Error::TableTruncated`](crate::Error::TableTruncated), [`Error::TableNumber`](crate::Error::TableNumber) and
    /// [`Error::TableAddress`](crate::Error::TableAddress), with the offset in the section.
    pub fn parse(section: &'a [u8], base: CodeAddr, endian: Endian, wide: bool) -> Result<Self> {
        let covered = Self {
            cursor: Cursor::new("table of covered functions", section, endian),
            base,
            wide,
        };
        let mut cursor = covered.cursor;
        while !cursor.is_at_end() {
            read(&mut cursor, base, wide)?;
        }
        Ok(covered)
    }

    /// The functions, in order.
    #[must_use]
    pub fn functions(&self) -> CoveredFunctions<'a> {
        CoveredFunctions(*self)
    }
}

/// Iterates over the functions of the table.
#[derive(Clone)]
pub struct CoveredFunctions<'a>(Covered<'a>);

impl Iterator for CoveredFunctions<'_> {
    type Item = CoveredFunction;

    fn next(&mut self) -> Option<CoveredFunction> {
        let Self(table) = self;
        if table.cursor.is_at_end() {
            return None;
        }
        read(&mut table.cursor, table.base, table.wide).ok()
    }
}

fn read(cursor: &mut Cursor<'_>, base: CodeAddr, wide: bool) -> Result<CoveredFunction> {
    let byte_offset = cursor.offset();
    let entry = cursor.relative_pc(base, wide)?;
    let size = cursor.leb128("the size of a function")?;
    let features = Features(cursor.leb128("the features of a function")?);
    let told = features.has_stack_arguments();
    let stack_arguments = told
        .then(|| cursor.leb128("the size of stack arguments"))
        .transpose()?;
    Ok(CoveredFunction {
        byte_offset,
        entry,
        size,
        features,
        stack_arguments,
    })
}
