//! The graph of a relocatable object: sections are its nodes, relocations its edges, symbols name places.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::descriptors::Descriptors;
use super::pairs::Pairs;
use super::relocation::Relocation;
use crate::arch::Arch;
use crate::stackmap::Endian;

/// A relocatable object, read and checked but without addresses.
///
/// It borrows the bytes that it was read from. [`Object::layout`](super::Object::layout) is the next step.
#[derive(Clone, Debug)]
pub struct Object<'data> {
    pub(super) arch: Arch,
    pub(super) sections: Vec<Section<'data>>,
    pub(super) symbols: Vec<Symbol<'data>>,
    pub(super) descriptors: Descriptors,
    pub(super) pairs: Pairs,
}

/// An index into [`Object::sections`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectionId(pub(super) u32);

/// An index into [`Object::symbols`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolId(pub(super) u32);

impl SectionId {
    /// The index in the file.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl SymbolId {
    /// The index in the file.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What becomes of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SectionRole {
    /// Placed in the code segment.
    Code,
    /// Placed in the read-only segment: constants, and data that only relocation writes.
    ReadOnly,
    /// Placed in the read-only segment, and kept as unwind information.
    EhFrame,
    /// Placed in the data segment.
    Data,
    /// Relocated and kept, but not placed.
    StackMaps,
    /// Neither placed nor kept: debug information, notes, tables of the object file itself.
    Ignored,
}

/// A section: a block of bytes with the edges that leave it.
#[derive(Clone, Debug)]
pub struct Section<'data> {
    pub(super) name: Cow<'data, str>,
    pub(super) role: SectionRole,
    /// A power of two, at most [`super::MAX_ALIGN`].
    pub(super) align: u32,
    /// At least the length of the bytes; what follows them is zero.
    pub(super) size: u32,
    pub(super) bytes: Cow<'data, [u8]>,
    pub(super) edges: Vec<Edge>,
    /// Its entries are about code, and it is kept as a table (`SHF_LINK_ORDER`).
    pub(super) about_code: bool,
}

/// A relocation: the bytes at `offset` depend on the address of `target`. Offset and width have been checked
/// to lie in the section's bytes, the target in the symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    pub(super) offset: u32,
    pub(super) target: SymbolId,
    pub(super) addend: i64,
    pub(super) relocation: Relocation,
}

/// Where a symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// In a section of the object. The offset may be the section's end but not behind it.
    Section(SectionId, u32),
    /// At a fixed address.
    Absolute(u64),
    /// Elsewhere: the linker's resolver is asked.
    Undefined {
        /// Where it is nowhere, its address is 0.
        weak: bool,
    },
    /// The global offset table of the image: the symbol `_GLOBAL_OFFSET_TABLE_`, on PowerPC `.TOC.`.
    GotBase,
    /// Nowhere that could be linked to, for this reason: no edge may lead there.
    Refused(&'static str),
}

/// A symbol.
#[derive(Clone, Debug)]
pub struct Symbol<'data> {
    pub(super) name: Cow<'data, str>,
    pub(super) definition: Definition,
    pub(super) size: u64,
    pub(super) function: bool,
    pub(super) global: bool,
    /// `st_other`: what PowerPC's callers must know of a function.
    pub(super) other: u8,
}

impl<'data> Object<'data> {
    /// The architecture.
    #[must_use]
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The byte order of data, and of instructions.
    #[must_use]
    pub fn endian(&self) -> Endian {
        self.arch.endian()
    }

    /// Whether functions are known by descriptors, as on PowerPC ELFv1: the address of a function's symbol is then that
    /// of three words, the code's address, a TOC pointer and an environment pointer.
    #[must_use]
    pub fn has_descriptors(&self) -> bool {
        self.arch.has_descriptors()
    }

    /// The sections under their indices in the file, and behind them one for common symbols.
    #[must_use]
    pub fn sections(&self) -> &[Section<'data>] {
        &self.sections
    }

    /// The symbols under their indices in the file.
    #[must_use]
    pub fn symbols(&self) -> &[Symbol<'data>] {
        &self.symbols
    }

    pub(super) fn section(&self, id: SectionId) -> Option<&Section<'data>> {
        self.sections.get(id.index())
    }

    /// The name of an edge's symbol, for an error.
    pub(super) fn symbol_name(&self, id: SymbolId) -> String {
        let symbol = self.symbols.get(id.index());
        symbol.map_or_else(String::new, |symbol| symbol.name.clone().into_owned())
    }
}

impl Section<'_> {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What becomes of it.
    #[must_use]
    pub fn role(&self) -> SectionRole {
        self.role
    }

    /// The relocations of its bytes.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The size in bytes, zero fill included.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The bytes before relocation; they may be fewer than the size, zeros follow.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Edge {
    /// The offset in bytes in the section.
    #[must_use]
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// The symbol that it leads to.
    #[must_use]
    pub fn target(&self) -> SymbolId {
        self.target
    }

    /// The number added to it.
    #[must_use]
    pub fn addend(&self) -> i64 {
        self.addend
    }

    /// How the value is computed and written.
    #[must_use]
    pub fn relocation(&self) -> Relocation {
        self.relocation
    }
}

impl Symbol<'_> {
    /// What a file without symbols has all the same, under index 0.
    pub(super) fn null() -> Self {
        Self {
            name: Cow::Borrowed(""),
            definition: Definition::Absolute(0),
            size: 0,
            function: false,
            global: false,
            other: 0,
        }
    }

    /// The name; of a section's symbol the section's.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    #[must_use]
    pub fn definition(&self) -> Definition {
        self.definition
    }
}
