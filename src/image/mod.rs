//! Loading relocatable objects, and adopting code that others have loaded.
//!
//! Problem: a patch needs to know where each function of a stack map is in memory. Approach: an object is
//! read into a graph of sections, symbols and edges ([`Object::parse`]), and several are joined to one
//! ([`Graph::add`]); everything in it gets a place in one of three segments ([`Graph::layout`]); when the segments'
//! addresses are known, all bytes are relocated for them ([`Layout::link`]). Nothing here touches the memory that will execute the code: the result is
//! bytes and addresses. Who has code in memory already describes it by an [`Adoption`]. Both ways end in an
//! [`Image`].
//!
//! Invariants: parsing checks every offset, index and size of the file, so later steps fail only on addresses
//! and names. No section is writable and executable. Sizes are bounded before anything is allocated, by a limit that the caller
//! may set ([`Graph::set_size_limit`]); zeros that are in no file are left to the memory, which is new.
//!
//! Cost: linear in the file's size. Each symbol is resolved once; an edge is a few additions, with no lookup
//! by name.
//!
//! ```
//! # fn main() -> patchpoint::Result<()> {
//! # let bytes: &[u8] = include_bytes!("../../examples/objects/inline_cache.o");
//! use patchpoint::addr::{CodeAddr, Len};
//! use patchpoint::image::Object;
//!
//! let layout = Object::parse(bytes)?.layout()?;
//! // Reserve memory for it; here we just pretend.
//! let (addrs, _size) = layout.contiguous(CodeAddr::new(0x7000_0000_0000), Len::new(4096)).unwrap();
//! let linked = layout.link(&addrs, &|_symbol| None)?;
//! assert_eq!(linked.symbol("get"), Some(CodeAddr::new(0x7000_0000_0000)));
//! assert_eq!(linked.image.functions[1].name, "sum_fields");
//! # Ok(())
//! # }
//! ```
//!
//! Objects of every [`Arch`] are linked on every host, to be written elsewhere or only looked at: the architecture is in the
//! file. This one is a handful of RISC-V instructions that load a function's address from the global offset table:
//!
//! ```
//! # fn main() -> patchpoint::Result<()> {
//! # let bytes: &[u8] = include_bytes!("../../examples/objects/cross.riscv64.o");
//! use patchpoint::addr::{CodeAddr, Len};
//! use patchpoint::arch::Arch;
//! use patchpoint::image::Object;
//!
//! let layout = Object::parse(bytes)?.layout()?;
//! assert_eq!(layout.graph().arch(), Arch::RiscV64);
//! let (addrs, _size) = layout.contiguous(CodeAddr::new(0x2000_0000), Len::new(4096)).unwrap();
//! let linked = layout.link(&addrs, &|name| (name == "callee").then_some(CodeAddr::new(0x7777_0000_0000)))?;
//! let [code, table] = &linked.segments[..] else { unreachable!("it has no data") };
//! // auipc a0, 0x1; ld a0, 0(a0); ret
//! assert_eq!(code.bytes[..12], [0x17, 0x15, 0, 0, 0x03, 0x35, 0x05, 0, 0x67, 0x80, 0, 0]);
//! assert_eq!(table.bytes[..8], 0x7777_0000_0000_u64.to_le_bytes());
//! # Ok(())
//! # }
//! ```

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::Arch;
use crate::stackmap::Endian;

mod adopt;
mod align;
mod apply;
mod bounds;
mod bypass;
mod calls;
mod checks;
mod coff;
mod comdat;
mod common;
mod cut;
mod descriptors;
mod edit;
mod elf;
mod file;
mod format;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzz;
mod graph;
mod harness;
mod init;
mod layout;
mod link;
mod machine;
mod macho;
mod merge;
mod pairs;
mod parts;
mod passes;
mod phases;
mod place;
mod prune;
mod relax;
mod relocation;
mod session;
pub(crate) mod stubs;
mod tables;
#[cfg(test)]
mod tests;
mod tls;
mod unused;
mod uses;

pub use adopt::{AdoptedCode, Adoption};
pub use bypass::Bypass;
pub use calls::RecordedCall;
pub use comdat::{Group, Selection};
pub use file::Object;
pub use format::ObjectFormat;
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzz::fuzz_body;
pub use graph::{
    Definition, Edge, Graph, Scope, Section, SectionId, SectionRole, Strength, Symbol, SymbolId,
};
pub use harness::{Interposed, Replaced};
pub use layout::{Layout, Reach, SegmentAddrs, SegmentKind, SegmentRequest};
pub use link::{LinkedImage, Segment};
pub use passes::Passes;
pub use phases::{Allocated, Fixed, FixedSection, Resolved};
pub use relax::relax;
pub use relocation::Relocation;
pub use session::{Linked, Lookup, MemoryManager, at_once, link};
pub use tls::emulated_tls;
pub use unused::UnusedTables;

/// The largest image that is loaded, in bytes, whatever the limit: within it, everything reaches everything.
pub(crate) use crate::error::MAX_IMAGE_SIZE as MAX_SIZE;

/// The largest image, in bytes, where the caller sets no other limit: far above what compilers make, and so little that a damaged
/// object does not take much of a machine.
pub(crate) const DEFAULT_LIMIT: u64 = 256 << 20;

/// The largest alignment of a section, in bytes.
pub(crate) const MAX_ALIGN: u32 = 1 << 16;

/// Code with its stack maps: what is registered.
#[derive(Clone)]
pub struct Image {
    /// The architecture of the code.
    pub arch: Arch,
    /// Whether the code has the C convention of Windows, as that of COFF objects has. Patchpoints of that convention and entry
    /// sites are not registered then, as their registers are others than those of the engine's sequences.
    pub windows: bool,
    /// The byte order of the stack maps.
    pub endian: Endian,
    /// The stack map section, with the functions' addresses as they are in memory: those of code, never of descriptors.
    pub stack_maps: Vec<u8>,
    /// The functions, ascending by address.
    pub functions: Vec<FunctionRange>,
    /// Unwind information, at the addresses that it was relocated for.
    pub eh_frames: Vec<EhFrame>,
    /// Tables about the code that came with it, such as PC sections.
    pub code_tables: Vec<CodeTable>,
    /// The ranges that code is in, ascending.
    pub code: Vec<CodeRange>,
}

/// A function in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionRange {
    /// The symbol.
    pub name: String,
    /// The address of its first byte.
    pub addr: CodeAddr,
    /// Its length in bytes.
    pub len: Len,
    /// What a pointer to it holds: the address of its first byte, but on PowerPC ELFv1 that of its descriptor.
    pub pointer: CodeAddr,
}

/// An `.eh_frame` section.
#[derive(Clone, PartialEq, Eq)]
pub struct EhFrame {
    /// Its address: its pointers are relative to it.
    pub addr: CodeAddr,
    /// Its bytes. In the segment, a terminator of four zero bytes follows them.
    pub bytes: Vec<u8>,
}

/// A section about code: those that LLVM makes of `!pcsections`, and others that linkers keep together with the code they
/// are about (`SHF_LINK_ORDER` in the ELF specification).
#[derive(Clone, PartialEq, Eq)]
pub struct CodeTable {
    /// Its name. Several sections may have it.
    pub name: String,
    /// Its address: the distances in a PC section count from their own places.
    pub addr: CodeAddr,
    /// Its bytes, relocated for that address.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for CodeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CodeTable({} at {}, {} bytes)",
            self.name,
            self.addr,
            self.bytes.len()
        )
    }
}

impl fmt::Debug for EhFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EhFrame(at {}, {} bytes)", self.addr, self.bytes.len())
    }
}

impl fmt::Debug for Image {
    /// Without the bytes, which may be many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("arch", &self.arch)
            .field("stack_maps", &format_args!("{} bytes", self.stack_maps.len()))
            .field("functions", &self.functions)
            .field("eh_frames", &self.eh_frames)
            .field("code_tables", &self.code_tables)
            .field("code", &self.code)
            .finish_non_exhaustive()
    }
}

impl Image {
    /// The function that an address lies in.
    #[must_use]
    pub fn function_at(&self, addr: CodeAddr) -> Option<&FunctionRange> {
        let after = self.functions.partition_point(|function| function.addr <= addr);
        let candidates = self.functions.get(..after)?;
        // A handful of aliases may share a start.
        candidates
            .iter()
            .rev()
            .take(8)
            .find(|function| addr.is_within(function.addr, function.len))
    }
}
