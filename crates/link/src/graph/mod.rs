//! The link graph: sections are its nodes, relocations its edges, symbols name places. What
//! [`Object`](crate::Object) is for one file, the graph is for several; the graph of one file is
//! linked the same way.
//!
//! A section here is one block of bytes of one file, or one that a pass added: several have the
//! same name. Edges name symbols by index, so that nothing is looked up by name when they are
//! applied.
//!
//! Invariant: every edge lies in the bytes of its section, every index in its table.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use llvm_stackmaps::Endian;
use patchpoint_isa::Arch;

use crate::error::Error;
use crate::format::ObjectFormat;
use crate::graph::comdat::{Comdats, SectionGroup};
use crate::graph::descriptors::Descriptors;
use crate::graph::init::FunctionList;
use crate::graph::merge::Names;
use crate::graph::pairs::Pairs;
use crate::graph::tables::Tables;
use crate::relocation::Relocation;
use crate::{DEFAULT_LIMIT, MAX_SIZE};

pub(crate) mod bounds;
pub(crate) mod checks;
pub(crate) mod comdat;
mod common;
pub(crate) mod cut;
pub(crate) mod descriptors;
pub(crate) mod edit;
pub(crate) mod functions;
pub(crate) mod harness;
pub(crate) mod init;
mod merge;
pub(crate) mod pairs;
mod parts;
mod prune;
pub(crate) mod tables;
mod uses;

/// Relocatable objects that are linked together, without addresses.
///
/// It borrows the bytes that they were read from. [`Graph::layout`] is the next step.
#[derive(Clone)]
pub struct Graph<'data> {
    pub(crate) arch: Arch,
    pub(crate) format: ObjectFormat,
    /// By [`Section::file`].
    pub(crate) files: Vec<String>,
    pub(crate) sections: Vec<Section<'data>>,
    pub(crate) symbols: Vec<Symbol<'data>>,
    /// What several files may name; filled when there is a second one.
    pub(crate) names: Names<'data>,
    pub(crate) groups: Vec<SectionGroup<'data>>,
    /// Filled with the names.
    pub(crate) comdats: Comdats<'data>,
    /// Names, each with that of the symbol that it stands for if nobody defines it (COFF).
    pub(crate) alternates: Vec<(Cow<'data, str>, Cow<'data, str>)>,
    /// Symbols that have to be there, whether or not an edge refers to them (COFF).
    pub(crate) included: Vec<SymbolId>,
    /// How many bytes all segments together may have.
    pub(crate) size_limit: u64,
    /// Whether it was changed since it was read or checked.
    pub(crate) changed: bool,
    /// Found when everything is there, by [`Graph::layout`].
    pub(crate) descriptors: Descriptors,
    pub(crate) pairs: Pairs,
    pub(crate) tables: Tables,
}

/// An index into [`Graph::sections`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectionId(pub(crate) u32);

/// An index into [`Graph::symbols`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolId(pub(crate) u32);

impl SectionId {
    /// The index; in a graph of one file, that in the file.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl SymbolId {
    /// The index; in a graph of one file, that in the file.
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
    pub(crate) name: Cow<'data, str>,
    /// Which of the graph's files it is from.
    pub(crate) file: u32,
    pub(crate) role: SectionRole,
    /// A power of two, at most [`crate::MAX_ALIGN`].
    pub(crate) align: u32,
    /// At least the length of the bytes; what follows them is zero.
    pub(crate) size: u32,
    pub(crate) bytes: Cow<'data, [u8]>,
    pub(crate) edges: Vec<Edge>,
    /// Its entries are about code, and it is kept as a table (`SHF_LINK_ORDER`).
    pub(crate) about_code: bool,
    /// The section that it is about, without which nobody needs it.
    pub(crate) about: Option<SectionId>,
    /// It lists functions to be called before or after others.
    pub(crate) list: Option<FunctionList>,
    /// It is kept, whoever refers to it (`SHF_GNU_RETAIN`).
    pub(crate) retained: bool,
}

/// A relocation: the bytes at `offset` depend on the address of `target`. Offset and width have
/// been checked to lie in the section's bytes, the target in the symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    pub(crate) offset: u32,
    pub(crate) target: SymbolId,
    pub(crate) addend: i64,
    pub(crate) relocation: Relocation,
}

/// Where a symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// In a section of the graph. The offset may be the section's end but not behind it.
    Section(SectionId, u32),
    /// In a section that all common symbols of the graph get when it is laid out.
    Common {
        /// What its address is a multiple of: a power of two.
        align: u32,
    },
    /// At a fixed address.
    Absolute(u64),
    /// Outside of the graph: the linker's resolver is asked.
    Undefined {
        /// Where nobody defines it, its address is 0.
        weak: bool,
    },
    /// The global offset table of the image: the symbol `_GLOBAL_OFFSET_TABLE_`, on PowerPC
    /// `.TOC.`.
    GotBase,
    /// The lowest address of the image: the symbol `__ImageBase` of COFF.
    ImageBase,
    /// Nothing that could be linked to, for this reason: no edge may refer to it.
    Refused(&'static str),
}

/// Who may name a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Its own file.
    Local,
    /// The files that it is linked together with: hidden and internal visibility.
    Hidden,
    /// Everybody: default and protected visibility.
    Exported,
}

/// Which of two symbols of one name counts: the greater one (System V gABI, "Symbol Table", on
/// binding).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
    /// Undefined; its address may be 0.
    WeakReference,
    /// Undefined.
    Reference,
    /// A definition that gives way.
    Weak,
    /// Gives way to other definitions; of two the larger one counts.
    Common,
    /// There may be one of a name.
    Strong,
}

/// A symbol.
#[derive(Clone, Debug)]
pub struct Symbol<'data> {
    pub(crate) name: Cow<'data, str>,
    /// The file that the definition is from.
    pub(crate) file: u32,
    pub(crate) definition: Definition,
    pub(crate) size: u64,
    pub(crate) function: bool,
    pub(crate) scope: Scope,
    pub(crate) strength: Strength,
    /// `st_other`: what PowerPC's callers must know of a function.
    pub(crate) other: u8,
}

impl<'data> Graph<'data> {
    /// The graph of one file without a name, with nothing in it.
    pub(crate) fn of_file(format: ObjectFormat, arch: Arch) -> Self {
        Self {
            format,
            files: alloc::vec![String::new()],
            ..Self::empty(arch)
        }
    }

    /// The name of the file with that number, for errors; what passes have added is of none.
    pub(crate) fn file_name(&self, file: usize) -> &str {
        self.files.get(file).map_or("a pass", String::as_str)
    }

    /// A graph without files, to which symbols and sections are added. Its format is that of the
    /// first file.
    #[must_use]
    pub fn empty(arch: Arch) -> Self {
        Self {
            arch,
            format: ObjectFormat::Elf,
            files: Vec::new(),
            sections: Vec::new(),
            symbols: Vec::new(),
            names: Names::new(),
            groups: Vec::new(),
            comdats: Comdats::new(),
            alternates: Vec::new(),
            included: Vec::new(),
            size_limit: DEFAULT_LIMIT,
            changed: false,
            descriptors: Descriptors::default(),
            pairs: Pairs::default(),
            tables: Tables::default(),
        }
    }

    /// How many bytes the image may have, all segments together, with the zeros that are in no
    /// file.
    #[must_use]
    pub fn size_limit(&self) -> u64 {
        self.size_limit
    }

    /// Sets how many bytes the image may have, all segments together, where 256 MiB do not suit. At
    /// most 1 GiB: what is more counts as that. An engine that is told a limit
    /// (`EngineBuilder::image_limit` of `patchpoint`) uses its own.
    ///
    /// Zeros that are in no file, as those of `.bss`, count, though they take address space alone
    /// until they are written.
    pub fn set_size_limit(&mut self, bytes: u64) {
        self.size_limit = bytes.min(MAX_SIZE);
    }

    pub(crate) fn too_large(&self, size: u64) -> Error {
        Error::ImageTooLarge {
            size,
            limit: self.size_limit,
        }
    }

    /// The format of the files.
    #[must_use]
    pub fn format(&self) -> ObjectFormat {
        self.format
    }

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

    /// Whether functions are known by descriptors, as on PowerPC ELFv1: the address of a function's
    /// symbol is then that of three words, the code's address, a TOC pointer and an environment
    /// pointer.
    #[must_use]
    pub fn has_descriptors(&self) -> bool {
        self.arch.has_descriptors()
    }

    /// The names of the files, in the order in which they were added.
    #[must_use]
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// The sections, file by file, each under its index there; behind them what was added, and,
    /// once there is a [`Layout`](crate::Layout), one for the common symbols.
    #[must_use]
    pub fn sections(&self) -> &[Section<'data>] {
        &self.sections
    }

    /// The symbols, file by file. Of those of one name that files share, edges refer to the first;
    /// the others are [`Scope::Local`] and have no edges.
    #[must_use]
    pub fn symbols(&self) -> &[Symbol<'data>] {
        &self.symbols
    }

    /// The groups of sections that are in the graph. Of those of one name that files share, one is.
    #[must_use]
    pub fn groups(&self) -> &[SectionGroup<'data>] {
        &self.groups
    }

    pub(crate) fn section(&self, id: SectionId) -> Option<&Section<'data>> {
        self.sections.get(id.index())
    }

    /// The name of an edge's symbol, for an error.
    pub(crate) fn symbol_name(&self, id: SymbolId) -> String {
        let symbol = self.symbols.get(id.index());
        symbol.map_or_else(String::new, |symbol| symbol.name.clone().into_owned())
    }

    /// The name of a section, for an error: with its file, if there are several.
    pub(crate) fn section_name(&self, section: &Section<'_>) -> String {
        match self.files.get(section.file as usize) {
            Some(file) if self.files.len() > 1 => alloc::format!("{file}:{}", section.name),
            _ => section.name.clone().into_owned(),
        }
    }
}

impl fmt::Debug for Graph<'_> {
    /// Without what is in it, which may be much.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("arch", &self.arch)
            .field("files", &self.files)
            .field("sections", &self.sections.len())
            .field("symbols", &self.symbols.len())
            .finish_non_exhaustive()
    }
}

impl Section<'_> {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The index in [`Graph::files`] of the file that it is from; of what was added to the graph
    /// one that is not there.
    #[must_use]
    pub fn file(&self) -> usize {
        self.file as usize
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

    /// Whether it is a table about code of its file: what it says of a function it says of that of
    /// the file, whichever of the functions of that name counts.
    pub(crate) fn describes_code(&self) -> bool {
        matches!(self.role, SectionRole::EhFrame | SectionRole::StackMaps) || self.about_code
    }

    /// Leaves nothing of it in the graph but its name.
    pub(crate) fn take_out(&mut self) {
        self.role = SectionRole::Ignored;
        self.size = 0;
        self.bytes = Cow::Borrowed(&[]);
        self.edges = Vec::new();
        self.list = None;
    }

    /// Whether zeros that are in no file follow its bytes.
    pub(crate) fn is_zero_filled(&self) -> bool {
        self.bytes.len() < self.size as usize
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

    /// The symbol that it refers to.
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
    pub(crate) fn null() -> Self {
        Self {
            name: Cow::Borrowed(""),
            file: 0,
            definition: Definition::Absolute(0),
            size: 0,
            function: false,
            scope: Scope::Local,
            strength: Strength::Strong,
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

    /// Its size in bytes; 0 where that is not known.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Who may name it.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// What it gives way to.
    #[must_use]
    pub fn strength(&self) -> Strength {
        self.strength
    }

    /// The index in [`Graph::files`] of the file that defines it, or needs it.
    #[must_use]
    pub fn file(&self) -> usize {
        self.file as usize
    }
}
