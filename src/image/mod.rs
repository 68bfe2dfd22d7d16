//! Loading relocatable objects, and adopting code that others have loaded.
//!
//! Problem: a patch needs to know where each function of a stack map is in memory. Approach: an object is
//! read into a graph of sections, symbols and edges ([`Object::parse`]); everything in it gets a place in one
//! of three segments ([`Object::layout`]); when the segments' addresses are known, all bytes are relocated
//! for them ([`Layout::link`]). Nothing here touches the memory that will execute the code: the result is
//! bytes and addresses. Who has code in memory already describes it by an [`Adoption`]. Both ways end in an
//! [`Image`].
//!
//! Invariants: parsing checks every offset, index and size of the file, so later steps fail only on addresses
//! and names. No section is writable and executable. Sizes are bounded before anything is allocated.
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

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::Arch;
use crate::stackmap::Endian;

mod adopt;
mod align;
mod apply;
mod descriptors;
mod elf;
mod graph;
mod layout;
mod link;
mod machine;
mod pairs;
mod relocation;
mod stubs;
#[cfg(test)]
mod tests;

pub use adopt::{AdoptedCode, Adoption};
pub use graph::{Definition, Edge, Object, Section, SectionId, SectionRole, Symbol, SymbolId};
pub use layout::{Layout, Reach, SegmentAddrs, SegmentKind, SegmentRequest};
pub use link::{LinkedImage, Segment};
pub use relocation::Relocation;

/// The largest image that is loaded, in bytes: within it, everything reaches everything.
pub(crate) const MAX_SIZE: u64 = 1 << 30;

/// The largest alignment of a section, in bytes.
pub(crate) const MAX_ALIGN: u32 = 1 << 16;

/// Code with its stack maps: what is registered.
#[derive(Clone)]
pub struct Image {
    /// The architecture of the code.
    pub arch: Arch,
    /// The byte order of the stack maps.
    pub endian: Endian,
    /// The stack map section, with the functions' addresses as they are in memory: those of code, never of descriptors.
    pub stack_maps: Vec<u8>,
    /// The functions, ascending by address.
    pub functions: Vec<FunctionRange>,
    /// Unwind information, at the addresses that it was relocated for.
    pub eh_frames: Vec<EhFrame>,
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

/// The body of the fuzz target: any bytes, laid out and linked if they are an object.
///
/// # Panics
///
/// If the linked bytes disagree with the layout, which is a defect.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_body(data: &[u8]) {
    /// What one execution may allocate for zero fill.
    const LIMIT: u32 = 1 << 22;
    let Ok(layout) = Object::parse(data).and_then(Object::layout) else {
        return;
    };
    if layout.segments().iter().any(|segment| segment.size.get() > LIMIT) {
        return;
    }
    for base in [0x10000, 0x7f00_0000_0000] {
        let Some((addrs, _)) = layout.contiguous(CodeAddr::new(base), Len::new(4096)) else {
            continue;
        };
        let resolve = |name: &str| Some(CodeAddr::new(0x1234_5678_0000 + name.len() as u64));
        if let Ok(linked) = layout.link(&addrs, &resolve) {
            for segment in &linked.segments {
                let request = layout
                    .segments()
                    .iter()
                    .find(|request| request.kind == segment.kind);
                assert_eq!(
                    request.map(|request| request.size.as_usize()),
                    Some(segment.bytes.len())
                );
            }
        }
    }
}
