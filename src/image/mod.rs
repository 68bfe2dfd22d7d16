//! Code that is registered: linked from objects, as the crate `patchpoint-link` does it, whose
//! front page says how, or placed by others and adopted.
//!
//! An object becomes a [`Graph`], that a [`Layout`], and that a [`LinkedImage`];
//! [`Engine::load`](crate::Engine::load) does all of it. Who has code in memory already describes
//! it by an [`Adoption`]. Both ways end in an [`Image`].
//!
//! # An example
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
//! # Code of other producers
//!
//! Whoever can hand over an object before it is placed has [`Engine::load`](crate::Engine::load) place it. Else:
//!
//! | producer | how its code is described |
//! |---|---|
//! | LLVM's ORC | the object, from an object transform layer or a listener, and where its sections are: [`Adoption::from_object`] finds functions, stack maps and unwind information. One function's address tells where its section is |
//! | LLVM's MCJIT | the same. It keeps its objects, but registers them with debuggers: those of `__jit_debug_descriptor` have the addresses in their section headers |
//! | Cranelift | each function's address and length: [`Adoption::without_stack_maps`] and [`function`](Adoption::function). The calls of `patchable_call_sites()` are [told](crate::site::SiteSpec::call); by `preserve_all` nothing is free at them but the flags |
//! | this program | the addresses of its functions by their names, the lengths by its `.eh_frame`: [`Adoption::functions_from_eh_frame`], of whose functions those are given that are to be patched. Entries that were left by `-fpatchable-function-entry` are [`EntrySpec`](crate::site::EntrySpec)s |
//! | an emitter of one's own | its memory can be an [`Arena`](crate::memory::Arena), which needs no [`Remap`](crate::memory::Remap): the example is there. A JIT that writes code where it is executed, as MCJIT and `cranelift-jit` do, cannot have it there |
//!
//! [`Engine::adopt`](crate::Engine::adopt) takes it over. What nobody has executed yet is said to be
//! [`not_yet_run`](Adoption::not_yet_run): it is [armed](crate::engine::Registration::live) in a form that is patched by one store.
//! The folder `producers` of the repository has each of them as a test, in which another thread executes what is patched.

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
