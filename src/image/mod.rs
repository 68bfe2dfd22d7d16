//! Code that is registered: linked from objects, as the crate `patchpoint-link` does it, whose
//! front page says how, or placed by others and adopted.
//!
//! An object becomes a [`Graph`], that a [`Layout`], and that a [`LinkedImage`];
//! [`Engine::load`](crate::Engine::load) does all of it. Who has code in memory already describes
//! it by an [`Adoption`]. Both ways end in an [`Image`].
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

mod adopt;
mod bypass;
mod error;
#[cfg(test)]
mod tests;
mod tls;

pub use adopt::{AdoptedCode, Adoption};
pub use bypass::{Bypass, bypasses};
pub use error::AdoptionError;
pub use patchpoint_link::{
    Allocated, CalledByStub, CodeTable, Definition, Edge, EhFrame, Error, ErrorKind, Fixed, FixedSection,
    FunctionPlace, FunctionRange, Graph, Image, ImageReach, Interposed, Layout, Linked, LinkedImage,
    MemoryManager, Object, ObjectFormat, Passes, RecordedCall, Relocation, Replaced, Resolved, Result, Scope,
    Section, SectionGroup, SectionId, SectionRole, Segment, SegmentAddrs, SegmentKind, SegmentRequest,
    Selection, Strength, Symbol, SymbolId, SymbolLookup, UnusedTables, at_once, link, relax,
};
pub use tls::emulated_tls;
