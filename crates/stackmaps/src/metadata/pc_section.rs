//! The sections that LLVM makes of `!pcsections` metadata (LLVM 16 and later, ELF).
//!
//! An entry holds the distance from itself to each instruction that shares one metadata node, or to
//! a function and the function's size, and then the node's constants, everything unaligned. How
//! wide, how many and which: only the one who wrote the metadata knows, so it is told as a
//! [`PcSectionShape`]. Two instructions of one function that share a node make one entry with two
//! addresses; a front end that gives each instruction a node of its own (`distinct !{..}`) has one
//! address an entry. Source: LLVM's `docs/PCSectionsMetadata.rst` and `AsmPrinter::emitPCSections`
//! in `lib/CodeGen/AsmPrinter/AsmPrinter.cpp`.

use alloc::vec::Vec;

use super::cursor::Cursor;
use crate::Endian;
use crate::addr::{ByteOffset, CodeAddr};
use crate::error::Result;

/// The size of an integer in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntegerSize {
    /// One byte.
    One,
    /// Two bytes.
    Two,
    /// Four bytes.
    Four,
    /// Eight bytes.
    Eight,
}

impl IntegerSize {
    fn bytes(self) -> u8 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

/// What an entry of a section consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcSectionShape {
    pcs: u16,
    function: bool,
    wide: bool,
    compressed: bool,
    constants: Vec<IntegerSize>,
}

impl PcSectionShape {
    /// Entries of one instruction each, whose address takes 32 bits, without constants.
    #[must_use]
    pub fn instructions() -> Self {
        Self {
            pcs: 1,
            function: false,
            wide: false,
            compressed: false,
            constants: Vec::new(),
        }
    }

    /// Entries of one function each, with its size, whose address takes 32 bits, without constants.
    #[must_use]
    pub fn functions() -> Self {
        Self {
            function: true,
            ..Self::instructions()
        }
    }

    /// Addresses of pointer size: code of the medium and large models, and all of 64-bit PowerPC's.
    #[must_use]
    pub fn wide(mut self) -> Self {
        self.wide = true;
        self
    }

    /// The section's name in the metadata carries the option `C`: sizes, and constants of more than
    /// one byte, are unsigned LEB128 numbers.
    #[must_use]
    pub fn compressed(mut self) -> Self {
        self.compressed = true;
        self
    }

    /// Each entry is of `count` instructions, which share a metadata node. Zero is taken as one.
    /// Without effect on functions.
    #[must_use]
    pub fn sharing(mut self, count: u16) -> Self {
        self.pcs = count.max(1);
        self
    }

    /// One more constant, of `width` in the IR.
    #[must_use]
    pub fn constant(mut self, width: IntegerSize) -> Self {
        self.constants.push(width);
        self
    }

    fn addresses(&self) -> u16 {
        if self.function { 1 } else { self.pcs }
    }
}

/// The entries of one section.
#[derive(Clone, Copy)]
pub struct PcSection<'a> {
    cursor: Cursor<'a>,
    base: CodeAddr,
    shape: &'a PcSectionShape,
    entries: usize,
}

impl<'a> PcSection<'a> {
    /// Reads a section, whose distances have been resolved, and whose first byte is at `base`.
    ///
    /// # Errors
    /// [`crate::Error::TableTruncated`], [`crate::Error::TableNumber`] and [`crate::Error::TableAddress`], with the offset in the section. A
    /// wrong shape usually ends in the first: give the one with which the metadata was made.
    pub fn parse(
        section: &'a [u8],
        base: CodeAddr,
        endian: Endian,
        shape: &'a PcSectionShape,
    ) -> Result<Self> {
        let start = Cursor::new("PC section", section, endian);
        let (mut cursor, mut entries) = (start, 0);
        while !cursor.is_at_end() {
            PcSectionEntry::read(&mut cursor, base, shape)?;
            entries += 1;
        }
        Ok(Self {
            cursor: start,
            base,
            shape,
            entries,
        })
    }

    /// The entries, in order.
    #[must_use]
    pub fn entries(&self) -> Entries<'a> {
        Entries {
            cursor: self.cursor,
            base: self.base,
            shape: self.shape,
            left: self.entries,
        }
    }
}

/// Iterates over the entries of a section.
#[derive(Clone)]
pub struct Entries<'a> {
    cursor: Cursor<'a>,
    base: CodeAddr,
    shape: &'a PcSectionShape,
    left: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = PcSectionEntry<'a>;

    fn next(&mut self) -> Option<PcSectionEntry<'a>> {
        self.left = self.left.checked_sub(1)?;
        PcSectionEntry::read(&mut self.cursor, self.base, self.shape).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Entries<'_> {}

/// One entry: instructions or a function, and constants.
#[derive(Clone, Copy)]
pub struct PcSectionEntry<'a> {
    pcs: Cursor<'a>,
    constants: Cursor<'a>,
    size: Option<u64>,
    base: CodeAddr,
    shape: &'a PcSectionShape,
}

impl<'a> PcSectionEntry<'a> {
    fn read(cursor: &mut Cursor<'a>, base: CodeAddr, shape: &'a PcSectionShape) -> Result<Self> {
        let pcs = *cursor;
        for _ in 0..shape.addresses() {
            cursor.relative_pc(base, shape.wide)?;
        }
        let size = match (shape.function, shape.compressed) {
            (false, _) => None,
            (true, true) => Some(cursor.leb128("the size of a function")?),
            (true, false) => Some(cursor.uint("the size of a function", 4)?),
        };
        let constants = *cursor;
        for width in &shape.constants {
            constant(cursor, *width, shape.compressed)?;
        }
        Ok(Self {
            pcs,
            constants,
            size,
            base,
            shape,
        })
    }

    /// Where the entry starts in its section.
    #[must_use]
    pub fn byte_offset(&self) -> ByteOffset {
        self.pcs.offset()
    }

    /// The address of the first, and usually the only, instruction, or of the function.
    #[must_use]
    pub fn pc(&self) -> Option<CodeAddr> {
        self.pcs().next()
    }

    /// The addresses of all instructions of the entry.
    #[must_use]
    pub fn pcs(&self) -> Pcs<'a> {
        Pcs {
            cursor: self.pcs,
            base: self.base,
            wide: self.shape.wide,
            left: self.shape.addresses(),
        }
    }

    /// The size of the function in bytes; `None` if the entry is of instructions.
    #[must_use]
    pub fn function_size(&self) -> Option<u64> {
        self.size
    }

    /// The constants, in the order of the metadata, extended with zeros.
    #[must_use]
    pub fn constants(&self) -> PcSectionConstants<'a> {
        PcSectionConstants {
            cursor: self.constants,
            widths: self.shape.constants.iter(),
            compressed: self.shape.compressed,
        }
    }
}

fn constant(cursor: &mut Cursor<'_>, width: IntegerSize, compressed: bool) -> Result<u64> {
    if compressed && width != IntegerSize::One {
        cursor.leb128("a constant")
    } else {
        cursor.uint("a constant", width.bytes())
    }
}

/// Iterates over the addresses of an entry.
#[derive(Clone)]
pub struct Pcs<'a> {
    cursor: Cursor<'a>,
    base: CodeAddr,
    wide: bool,
    left: u16,
}

impl Iterator for Pcs<'_> {
    type Item = CodeAddr;

    fn next(&mut self) -> Option<CodeAddr> {
        self.left = self.left.checked_sub(1)?;
        self.cursor.relative_pc(self.base, self.wide).ok()
    }
}

/// Iterates over the constants of an entry.
#[derive(Clone)]
pub struct PcSectionConstants<'a> {
    cursor: Cursor<'a>,
    widths: core::slice::Iter<'a, IntegerSize>,
    compressed: bool,
}

impl Iterator for PcSectionConstants<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let width = self.widths.next()?;
        constant(&mut self.cursor, *width, self.compressed).ok()
    }
}
