//! A linker for JITs: relocatable objects, as compilers write them, to code at addresses of the
//! caller's choice.
//!
//! Problem: a runtime that compiles with LLVM gets an object file, which cannot run: its branches
//! have no targets, its sections have no addresses, and what it calls is somewhere in the process,
//! or in another one. The system's loader does not take such files. Approach: an object is read
//! into a graph of sections, symbols and edges ([`Object::parse`]), and several are joined to one
//! ([`Graph::add`]); everything in it gets a place in one of three segments ([`Graph::layout`]),
//! which are code, constants and data, so that no page need ever be writable and executable; when
//! the segments' addresses are known, all bytes are relocated for them ([`Layout::link`]). Nothing
//! here touches the memory that will execute the code: the result is bytes and addresses, a
//! [`LinkedImage`], with what else is known of the code: functions, stack maps, unwind information,
//! tables ([`Image`]).
//!
//! ELF for x86-64, AArch64, PowerPC64 (ELFv1 and ELFv2), s390x and RISC-V 64, Mach-O for x86-64 and
//! arm64, COFF for x86-64. Every architecture is linked on every host.
//!
//! # An example
//!
//! The object is in this repository with its IR. It is linked for an address at which nothing is:
//!
//! ```
//! use llvm_stackmaps::addr::{CodeAddr, Len};
//! use patchpoint_link::Object;
//!
//! let object = include_bytes!("../../../examples/objects/inline_cache.o");
//! let layout = Object::parse(object)?.layout()?;
//! let start = CodeAddr::new(0x7000_0000_0000);
//! let (addrs, size) = layout.contiguous(start, Len::new(4096)).expect("the address is the start of a page");
//! let linked = layout.link(&addrs, &|_symbol| None)?; // it needs no symbol from outside
//!
//! // What is to be copied to that address.
//! let mut memory = vec![0; size as usize];
//! for segment in &linked.segments {
//!     let at = (segment.addr.get() - start.get()) as usize;
//!     memory[at..at + segment.bytes.len()].copy_from_slice(&segment.bytes);
//! }
//! assert_eq!(linked.symbol("get"), Some(start));
//! assert_eq!(linked.image.functions[1].name, "sum_fields");
//! # Ok::<(), patchpoint_link::Error>(())
//! ```
//!
//! The architecture is in the file. This one is a handful of RISC-V instructions that load a
//! function's address from the global offset table:
//!
//! ```
//! use llvm_stackmaps::addr::{CodeAddr, Len};
//! use patchpoint_isa::Arch;
//! use patchpoint_link::Object;
//!
//! let layout = Object::parse(include_bytes!("../../../examples/objects/cross.riscv64.o"))?.layout()?;
//! assert_eq!(layout.graph().arch(), Arch::RiscV64);
//! let (addrs, _size) = layout.contiguous(CodeAddr::new(0x2000_0000), Len::new(4096)).expect("as above");
//! let linked = layout.link(&addrs, &|name| (name == "callee").then_some(CodeAddr::new(0x7777_0000_0000)))?;
//! let [code, table] = &linked.segments[..] else { unreachable!("it has no data") };
//! // auipc a0, 0x1; ld a0, 0(a0); ret
//! assert_eq!(code.bytes[..12], [0x17, 0x15, 0, 0, 0x03, 0x35, 0x05, 0, 0x67, 0x80, 0, 0]);
//! assert_eq!(table.bytes[..8], 0x7777_0000_0000_u64.to_le_bytes());
//! # Ok::<(), patchpoint_link::Error>(())
//! ```
//!
//! # Memory and symbols that have to be waited for
//!
//! [`link`] does all of it with memory that a [`MemoryManager`] has and symbols that a
//! [`SymbolLookup`] knows, both asked asynchronously; a runtime's [`Passes`] see and change the
//! graph between the steps. Where nothing has to be waited for, [`at_once`] polls it.
//!
//! # Invariants
//!
//! Reading checks every offset, index and size of the file, so later steps fail only on addresses
//! and names. No section is writable and executable. Sizes are bounded before anything is
//! allocated, by a limit that the caller may set ([`Graph::set_size_limit`]); zeros that are in no
//! file are left to the memory, which is new.
//!
//! # Cost
//!
//! Linear in the file's size. Each symbol is resolved once; an edge is a few additions, with no
//! lookup by name.
//!
//! # Structure
//!
//! From below: `relocation` (what a relocation computes, and into which bits), `stubs`, `graph` and
//! what is done to one, `read` (a format is a file or folder there), `layout`, `fixups`, `phases`,
//! and on these `relax`, `calls`, `passes` and `session`. An architecture is a file of its name in
//! `relocation` and `relax`, and a `match` in `machine` and `stubs`.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        reason = "a default in place of what cannot be missing hides a broken invariant"
    )
)]

extern crate alloc;

mod calls;
mod error;
mod fixups;
mod format;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod graph;
mod image;
mod layout;
mod machine;
mod passes;
mod phases;
mod read;
mod relax;
mod relocation;
mod session;
pub mod stubs;
#[cfg(test)]
mod tests;
mod unused;

pub use calls::{CalledByStub, RecordedCall};
pub use error::{Error, ErrorKind, Result};
pub use fixups::{LinkedImage, Segment};
pub use format::ObjectFormat;
pub use graph::comdat::{SectionGroup, Selection};
pub use graph::functions::FunctionPlace;
pub use graph::harness::{Interposed, Replaced};
pub use graph::{
    Definition, Edge, Graph, Scope, Section, SectionId, SectionRole, Strength, Symbol, SymbolId,
};
pub use image::{CodeTable, EhFrame, FunctionRange, Image, SegmentKind};
pub use layout::{ImageReach, Layout, SegmentAddrs, SegmentRequest};
pub use passes::Passes;
pub use phases::{Allocated, Fixed, FixedSection, Resolved};
pub use read::Object;
pub use relax::relax;
pub use relocation::Relocation;
pub use session::{Linked, MemoryManager, SymbolLookup, at_once, link};
pub use unused::UnusedTables;

/// The largest image that is linked, in bytes, whatever the limit: within it, everything reaches
/// everything.
pub(crate) const MAX_SIZE: u64 = 1 << 30;

/// The largest image, in bytes, where the caller sets no other limit: far above what compilers
/// make, and so little that a damaged object does not take much of a machine.
pub(crate) const DEFAULT_LIMIT: u64 = 256 << 20;

/// The largest alignment of a section, in bytes.
pub(crate) const MAX_ALIGN: u32 = 1 << 16;
