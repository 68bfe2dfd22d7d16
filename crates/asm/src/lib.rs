//! Assembles what a runtime wants at a site in compiled code (inline caches, calls, jumps) for five
//! architectures, on any host.
//!
//! Problem: a runtime wants to say "compare the shape of the first argument, load its third field
//! into the result" once, and each site has those values in other places, as its stack map tells.
//! What is put there may use only the registers that the compiler left free, has to fill the
//! reserved bytes exactly, and differs on every architecture. Approach: a
//! [`Sequence`](sequence::Sequence) names operands in terms of the record;
//! [`assemble`](sequence::assemble) resolves them at one
//! [`SiteContext`](patchpoint_isa::SiteContext) to registers, memory and constants, has the
//! architecture encode the resolved operations, chooses the shortest form of each branch, and pads
//! with nops.
//!
//! Nothing here reads or writes code that is executed: what comes out is bytes, and what they are
//! allowed to do ([`Declared`](patchpoint_isa::Declared)), for a checker such as
//! `patchpoint-verify`, of which nothing is used here.
//!
//! # What is promised
//!
//! Assembling is safe, but whoever writes a sequence into code relies on what cannot be checked:
//! that there is code at an address to which it jumps or which it calls, that bytes which nobody
//! decodes do what is said of them. Such sequences are built by `unsafe` functions, each of which
//! names its promise: [`Target::addr`](sequence::Target::addr),
//! [`Sequence::call`](sequence::Sequence::call), [`Sequence::vouched`](sequence::Sequence::vouched)
//! and [`Sequence::from_text`](sequence::Sequence::from_text). There is no other `unsafe` code.
//!
//! # An example
//!
//! ```
//! use llvm_stackmaps::Constants;
//! use llvm_stackmaps::addr::{CodeAddr, FnOffset, RecordId};
//! use patchpoint_asm::sequence::{Environment, Field, Fit, Sequence, Target, arg, assemble, result};
//! use patchpoint_isa::{Arch, CallShape, SiteContext};
//!
//! // 32 bytes at the entry of a function for AArch64, which takes a pointer and returns a number.
//! let site = SiteContext {
//!     arch: Arch::AArch64,
//!     id: RecordId::new(1),
//!     function: Some("get"),
//!     offset: FnOffset::new(0),
//!     addr: CodeAddr::new(0x1_0000),
//!     shape: CallShape::entry(32).args(1).result(),
//!     record: None,
//!     constants: Constants::NONE,
//!     return_offsets: &[],
//!     trust_live_outs: false,
//! };
//! // If the word at offset 8 is 0x17, the function returns the word at offset 24, else it goes on as it was compiled.
//! let hit = Sequence::new()
//!     .guard_eq(u32::at(arg(0), 8), 0x17, Target::End)
//!     .load(result(), u64::at(arg(0), 24))
//!     .ret();
//! let Fit::InPlace(assembled) = assemble(&hit, &site, &Environment::default())? else {
//!     panic!("32 bytes suffice");
//! };
//! for word in assembled.code.chunks(4) {
//!     println!("{word:02x?}");
//! }
//! assert_eq!(assembled.code[..4], [0x10, 0x08, 0x40, 0xb9]); // ldr w16, [x0, #8]
//! assert_eq!(assembled.code[12..16], [0x00, 0x0c, 0x40, 0xf9]); // ldr x0, [x0, #24]
//! assert_eq!(assembled.slack().get(), 12); // three nops
//! # Ok::<(), patchpoint_asm::Error>(())
//! ```
//!
//! # Structure
//!
//! [`sequence`] knows no architecture. It makes the resolved operations of [`op`], which a
//! [`Backend`](backend::Backend) encodes. An architecture is the folder of its name, chosen in one
//! `match`, [`backend_of`]; the rest asks that. What the encoders do alike is written once, in
//! `lower`: an architecture says one instruction at a time. Whoever assembles code other than
//! sequences uses the same: [`op`], [`backend`] and [`finish`](sequence::finish). [`live`] is about
//! the one instruction of a live site that is exchanged while threads execute it.

#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        reason = "a default in place of what cannot be missing hides a broken invariant"
    )
)]

extern crate alloc;

pub mod aarch64;
pub mod backend;
mod dispatch;
#[cfg(test)]
mod encodings;
mod error;
pub mod hole;
pub mod live;
mod lower;
pub mod op;
pub mod powerpc64;
mod relocated;
pub mod riscv64;
pub mod sequence;
mod sink;
pub mod systemz;
pub mod x86_64;

pub use dispatch::backend_of;
pub use error::{Error, ErrorKind, Result};
pub use op::{Cond, Extension, Label, Width};
